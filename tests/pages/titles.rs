//! Titles of documents, their order, and the first document to read.

use crate::pages::{Browser, PROPOSES, REWRITE};
use crate::support::{Bench, until};

/// Returns where some words stand in a page, in their order there.
fn in_order(html: &str, words: &[&str]) -> bool {
    let places: Vec<Option<usize>> = words.iter().map(|it| html.find(it)).collect();
    places.iter().all(Option::is_some) && places.is_sorted()
}

#[test]
fn a_document_is_called_by_its_title_everywhere() {
    let bench = Bench::new();
    bench.write("notes.md", "---\ntitle: \"Notes & <more>\"\n---\n\n# Another\n\nKeep this.\n");
    bench.git(&["commit", "-q", "-a", "-m", "front"]);
    bench.topic_kind("rewrite", PROPOSES, REWRITE);
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    let topic = bench.topic("guide.md", "The first line", "Say it better");
    let proposal = bench.proposal("rewrite", &topic);
    bench.wait_indexed();
    let id = proposal["proposal"]["id"].as_str().unwrap();
    let called = "<bdi>Guide</bdi>";
    for path in [
        "/".to_owned(),
        "/d".to_owned(),
        "/d/notes.md".to_owned(),
        "/topics?status=open".to_owned(),
        "/decisions".to_owned(),
        "/search?query=better&kind=topic".to_owned(),
        "/jobs?status=succeeded".to_owned(),
        format!("/topics/{}", topic.id),
        format!("/proposals/{id}"),
        "/d/guide.md?history=1".to_owned(),
        "/d/guide.md?text=1".to_owned(),
    ] {
        let html = browser.page(&path);
        assert!(html.contains(called), "{path}: {html}");
    }
    let html = browser.page("/d/notes.md");
    assert!(html.contains("<title>Notes &#38; &#60;more&#62; · "), "{html}");
    assert!(html.contains("<a href=\"/d/notes.md\" title=\"notes.md\" aria-current=\"page\">"));
    // What is edited is called so at once, also where it is not read.
    bench.write("guide.md", "# Handbook\n\nThe first line.\n\nThe second line.\n");
    until("the new title", || browser.page("/d/notes.md").contains("<bdi>Handbook</bdi>"));
    server.stop();
}

#[test]
fn documents_stand_as_their_author_has_put_them() {
    let bench = Bench::new();
    bench.write("SUMMARY.md", "# Summary\n\n- [Deep](docs/deep.md)\n- [Notes](notes.md)\n");
    bench.write("docs/index.md", "# Begin here\n");
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-q", "-m", "order"]);
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    bench.topic("docs/deep.md", "Far below", "How far?");
    let html = browser.page("/d");
    let list = html.split("class=\"outline\"").nth(1).unwrap();
    let order = ["docs/", "/d/docs/deep.md", "/d/docs/index.md", "/d/notes.md", "/d/guide.md"];
    assert!(in_order(list, &order), "{list}");
    assert!(list.contains("1 Topic") && list.contains("<time"), "{list}");
    assert!(in_order(&browser.page("/d/notes.md"), &["/d/docs/deep.md", "/d/guide.md"]));
    // The README or index nearest to the top is where one begins.
    let seen = browser.get("/start");
    assert_eq!((seen.status, seen.header("location")), (303, Some("/d/docs/index.md")));
    bench.write("README.md", "# Read me\n");
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-q", "-m", "readme"]);
    until("the readme", || browser.get("/start").header("location") == Some("/d/README.md"));
    assert!(browser.page("/").contains("<a class=\"bar-name\" href=\"/start\">"));
    server.stop();
}

#[test]
fn a_book_without_a_readme_begins_with_its_first_chapter() {
    let bench = Bench::new();
    bench.write("docs/SUMMARY.md", "# Summary\n\n- [Two](two.md)\n- [One](one.md)\n");
    bench.write("docs/one.md", "# One\n");
    bench.write("docs/two.md", "# Two\n");
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-q", "-m", "book"]);
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    let seen = browser.get("/start");
    assert_eq!((seen.status, seen.header("location")), (303, Some("/d/docs/two.md")));
    server.stop();
}

#[test]
fn the_site_is_called_by_its_folder_or_by_its_name() {
    let bench = Bench::new();
    let folder = bench.top.file_name().unwrap().to_owned();
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    assert!(browser.page("/d").contains(&format!("<title>Documents · {folder}</title>")));
    assert!(browser.get("/site.webmanifest").html.contains(&format!("\"name\":\"{folder}\"")));
    server.stop();
}

#[test]
fn what_is_settled_or_dismissed_is_no_failure_that_waits() {
    let bench = Bench::new();
    bench.topic_kind("fail", "timeout = \"20s\"", "echo 'no way' >&2; exit 3");
    bench.topic_kind("work", "timeout = \"20s\"", "true");
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    let first = bench.topic("guide.md", "The first line", "One");
    let second = bench.topic("guide.md", "The second line", "Two");
    let third = bench.topic("notes.md", "Keep", "Three");
    let failed: Vec<String> =
        [&first, &second, &third].map(|it| bench.job_on("fail", it)).into_iter().collect();
    failed.iter().for_each(|it| drop(bench.ended(it)));
    let waits = |at: usize| browser.page("/").contains(&format!("/jobs/{}/dismiss", failed[at]));
    assert!(waits(0) && waits(1) && waits(2));
    bench.ended(&bench.job_on("work", &first));
    assert!(!waits(0) && waits(1), "the next job on its Topic has succeeded");
    bench.post(&format!("/api/topics/{}/discard", second.id), serde_json::json!({})).ok();
    assert!(!waits(1) && waits(2), "its Topic is closed");
    let seen = browser.submit(&format!("/jobs/{}/dismiss", failed[2]), &[]);
    assert_eq!((seen.status, seen.header("location")), (303, Some("/")));
    assert!(!waits(2), "somebody has dismissed it");
    // It is theirs alone, and another person still sees it.
    bench.json(&["person", "add", "vera", "--role", "member"]);
    let vera = Browser::of(&bench, &server, "vera");
    assert!(vera.page("/").contains(&format!("/jobs/{}/dismiss", failed[2])));
    server.stop();
}

#[test]
fn a_viewer_is_asked_for_nothing_that_only_others_may_do() {
    let bench = Bench::new();
    let server = bench.serve();
    bench.json(&["person", "add", "vera", "--role", "viewer"]);
    let (own, vera) = (Browser::signed_in(&bench, &server), Browser::of(&bench, &server, "vera"));
    let (home, settings) = (vera.page("/"), vera.page("/settings"));
    assert!(home.contains("<h2>Awaiting review") && !home.contains("To review"), "{home}");
    assert!(own.page("/").contains("<h2>To review"));
    let right = "<option value=\"decide\">";
    assert!(!settings.contains(right) && own.page("/settings").contains(right));
    assert!(!settings.contains(bench.top.as_str()), "where the server keeps its files");
    assert!(own.page("/settings").contains(bench.top.as_str()));
    server.stop();
}

#[test]
fn an_unknown_parameter_is_named_on_a_page_of_the_site() {
    let bench = Bench::new();
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    for path in ["/d?z=x", "/decisions?z=x"] {
        let seen = browser.get(path);
        assert_eq!(seen.status, 400, "{path}");
        assert!(seen.html.contains("nknown parameter `z`"), "{path}: {}", seen.html);
        assert!(seen.html.contains("aria-label=\"Site\"") && !seen.html.contains("docs/http.md"));
    }
    // What a mail program adds to the link of a document or a thread is not for this site.
    let topic = bench.topic("guide.md", "The first line.", "x");
    for path in ["/d/guide.md", &format!("/topics/{}", topic.id)] {
        let seen = browser.get(&format!("{path}?utm_source=mail&x=1"));
        assert_eq!(seen.status, 200, "{path}: {}", seen.html);
    }
    server.stop();
}
