//! The page for a missing document.

use crate::pages::Browser;
use crate::support::{Bench, until};

#[test]
fn a_deleted_document_is_called_deleted_with_the_ways_to_what_is_kept_of_it() {
    let bench = Bench::new();
    bench.write("guides.md", "# Of the same name, nearly\n");
    bench.git(&["add", "."]);
    bench.git(&["commit", "-qm", "guides"]);
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    let topic = bench.topic("guide.md", "The first line", "Is it still needed?");
    bench.git(&["rm", "-q", "guide.md"]);
    let page = |words: &str| {
        let shown = browser.get("/d/guide.md");
        let found = shown.status == 404 && shown.html.contains(words);
        found.then(|| shown.html.clone())
    };
    until("it is gone", || page("it is deleted, and that is not committed").is_some());
    bench.git(&["commit", "-qm", "no more guide"]);
    until("the deletion is seen", || page("it was deleted in commit ").is_some());
    let html = page("it was deleted in commit ").unwrap();
    let head = bench.git(&["log", "-1", "--format=%h by %an", "--abbrev=10"]);
    let (commit, by) = head.split_once(" by ").unwrap();
    assert!(html.contains(&format!("in commit {commit}, by {by}")), "{html}");
    assert!(html.contains("href=\"/d/guide.md?history=1\">View its history"), "{html}");
    assert!(html.contains(&format!("href=\"/topics/{}\">View its open Topic", topic.id)), "{html}");
    assert!(!html.contains("did you mean") && !html.contains("guides.md"), "{html}");
    assert!(browser.page("/d/guide.md?history=1").contains("no more guide"));
    let error = bench.get("/api/source?path=guide.md");
    assert_eq!(error.refusal(), (404, "source_gone"));
    // What never was there is still helped with.
    let near = browser.get("/d/guidez.md").html;
    assert!(near.contains("did you mean"), "{near}");
}

#[test]
fn an_ordinary_link_of_a_handbook_leads_somewhere() {
    let bench = Bench::new();
    for folder in ["ops", "plain", "files"] {
        std::fs::create_dir_all(bench.top.join(folder)).unwrap();
    }
    bench.write("ops/README.md", "# Ops\n");
    bench.write("ops/daily.md", "# Daily\n");
    bench.write("plain/one.md", "# One\n");
    bench.write("files/manual.pdf", "%PDF-1.4");
    bench.git(&["add", "."]);
    bench.git(&["commit", "-qm", "a handbook"]);
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    for (at, to) in [
        ("/d/ops", "/d/ops/README.md"),
        ("/d/ops/daily", "/d/ops/daily.md"),
        ("/d/ops/", "/d/ops"),
        ("/d/plain", "/d?folder=plain"),
    ] {
        let answer = browser.get(at);
        assert_eq!((answer.status, answer.header("location")), (303, Some(to)), "{at}");
    }
    assert!(browser.page("/d?folder=plain").contains("/d/plain/one.md"));
    for (at, words) in [
        ("/d/files/manual.pdf", "files/manual.pdf is in the repository, but not a document"),
        ("/d/files/other.pdf", "no document files/other.pdf"),
        ("/d/data/operator.token", "no document data/operator.token"),
    ] {
        let answer = browser.get(at);
        assert_eq!(answer.status, 404, "{at}");
        let html = answer.html;
        assert!(html.contains(words) && !html.contains("glob"), "{at}: {html}");
    }
    assert_eq!(browser.get("/search?query=one&utm_source=x").status, 200);
}

#[test]
fn an_empty_page_says_how_to_fill_it_to_those_who_may() {
    let bench = Bench::new();
    let server = bench.serve();
    let ada = Browser::signed_in(&bench, &server);
    bench.json(&["person", "add", "vera", "--role", "viewer"]);
    let vera = Browser::of(&bench, &server, "vera");
    for (path, is_empty, block) in [
        ("/assistant", "This site has no assistant.", "wb.assistant {"),
        ("/agents", "The script declares no agents.", "{{session}}"),
        ("/inboxes", "The script declares no inboxes.", "wiki-browser new inbox"),
    ] {
        let html = ada.page(path);
        assert!(html.contains(is_empty) && html.contains(block), "{path}: {html}");
        let html = vera.page(path);
        assert!(html.contains(is_empty) && !html.contains("<pre"), "{path}: {html}");
    }
    assert!(vera.page("/jobs/new").contains("Only members and admins can start one"));
}
