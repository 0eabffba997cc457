//! A deleted Source: its open Topics say so, and nothing is offered that would fail.

use serde_json::{Value, json};

use super::ready;
use crate::pages::Browser;
use crate::support::{Bench, Topic, until};

/// Returns what a reader is told about the place of a Topic.
fn topic(bench: &Bench, id: &str) -> Value {
    bench.get(&format!("/api/topics/{id}")).ok()["topic"].clone()
}

/// Opens a Topic on words of the guide, and one on all of it.
fn topics(bench: &Bench) -> (Topic, String) {
    let words = bench.topic("guide.md", "The second line.", "Which line?");
    let body = json!({"source_path": "guide.md", "global": true, "body": "all of it"});
    let whole = bench.post("/api/topics", body).ok()["id"].as_str().unwrap().to_owned();
    (words, whole)
}

#[test]
fn topics_of_a_deleted_source_are_orphaned_and_name_the_commit() {
    let bench = Bench::new();
    let server = bench.serve();
    ready(&bench);
    let (words, whole) = topics(&bench);
    bench.git(&["rm", "-q", "guide.md"]);
    bench.git(&["commit", "-q", "-m", "no guide"]);
    let commit = bench.git(&["rev-parse", "HEAD"]).trim().to_owned();
    // A later commit is not the one.
    bench.write("docs/rest.md", "# Rest\n\nThe second line.\n");
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-q", "-m", "the rest"]);
    let deletion = json!({"is_committed": true, "commit": commit});
    for id in [&words.id, &whole] {
        assert_eq!(topic(&bench, id)["source_deleted"], deletion);
    }
    let placement = topic(&bench, &words.id)["placement"].clone();
    assert_eq!(placement["state"], "orphaned");
    assert_eq!((&placement["start"], &placement["end"]), (&Value::Null, &Value::Null));
    assert_eq!(placement["method"], "source_deleted");
    assert_eq!(topic(&bench, &whole)["placement"], Value::Null);
    for target in ["/api/topics?status=open", "/api/topics?source_path=guide.md"] {
        let listed = bench.get(target).ok();
        let items = listed["items"].as_array().unwrap();
        assert_eq!(items.len(), 2);
        for it in items {
            assert_eq!(it["source_deleted"], deletion, "{it}");
            assert!(it["is_global"] == true || it["placement"]["state"] == "orphaned", "{it}");
        }
    }
    let (code, listed, _) = bench.cli(&["topic", "list"]);
    assert_eq!((code, listed.matches("orphaned").count()), (0, 2), "{listed}");
    let (code, shown, _) = bench.cli(&["topic", "show", &words.id]);
    assert!(code == 0 && shown.contains(&format!("deleted in commit {commit}")), "{shown}");
    // It comes back with its words.
    bench.git(&["revert", "--no-edit", "HEAD~1"]);
    until("it is there again", || topic(&bench, &words.id)["placement"]["state"] == "exact");
    assert_eq!(topic(&bench, &words.id)["source_deleted"], Value::Null);
    server.stop();
}

#[test]
fn a_deletion_that_is_not_committed_names_no_commit() {
    let bench = Bench::new();
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    ready(&bench);
    let (words, _) = topics(&bench);
    assert!(browser.page("/").contains("href=\"/d/guide.md\""), "Home lists it");
    let uncommitted = json!({"is_committed": false, "commit": null});
    std::fs::remove_file(bench.top.join("guide.md")).unwrap();
    assert_eq!(topic(&bench, &words.id)["source_deleted"], uncommitted, "git tracks it");
    bench.git(&["add", "-A"]);
    assert_eq!(topic(&bench, &words.id)["source_deleted"], uncommitted, "HEAD has it");
    let listed = bench.get("/api/topics?status=open").ok();
    assert_eq!(listed["items"][1]["source_deleted"], uncommitted, "{listed}");
    let page = browser.page(&format!("/topics/{}", words.id));
    assert!(page.contains("is deleted, but the deletion isn’t committed."), "{page}");
    assert!(!browser.page("/").contains("href=\"/d/guide.md\""), "Home does not list it");
    bench.git(&["reset", "-q"]);
    assert!(!browser.page("/").contains("href=\"/d/guide.md\""), "nor while git tracks it");
    bench.git(&["checkout", "-q", "guide.md"]);
    assert_eq!(topic(&bench, &words.id)["source_deleted"], Value::Null);
    assert_eq!(topic(&bench, &words.id)["placement"]["state"], "exact");
    server.stop();
}

#[test]
fn the_page_of_a_topic_on_a_deleted_source_offers_what_can_be_done() {
    let bench = Bench::new();
    bench.topic_kind("rewrite", "produces = \"proposal\", timeout = \"20s\"", "exit 1");
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    ready(&bench);
    let (words, whole) = topics(&bench);
    let failed = bench.job_on("rewrite", &words);
    bench.ended(&failed);
    let address = format!("/topics/{}", words.id);
    let before = browser.page(&address);
    assert!(before.contains("id=\"start-rewrite\"") && before.contains("Try again"), "{before}");
    bench.write("docs/rest.md", "# Rest\n\nThe second line.\n");
    bench.git(&["rm", "-q", "guide.md"]);
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-q", "-m", "a section goes elsewhere"]);
    let commit = bench.git(&["rev-parse", "HEAD"]);
    let sentence = format!("The document was deleted in commit {}.", &commit[..10]);
    for id in [&words.id, &whole] {
        let page = browser.page(&format!("/topics/{id}"));
        assert!(page.contains(&sentence), "{page}");
        for offer in ["start-rewrite", "Try again", "href=\"/d/guide.md"] {
            assert!(!page.contains(offer), "{offer} must fail: {page}");
        }
    }
    let page = browser.page(&address);
    assert!(page.contains("<mark>The second line.</mark>"), "the last known passage: {page}");
    assert!(!page.contains("About the whole document."), "{page}");
    assert!(browser.page(&format!("{address}?beside=1")).contains("Close"));
    assert!(!browser.page("/").contains("href=\"/d/guide.md\""), "Home does not list it");
    // The form that is offered moves it to another document, where jobs can start again.
    let fields = [("quote", "The second line."), ("source_path", "docs/rest.md")];
    assert_eq!(browser.submit(&format!("{address}/anchor"), &fields).status, 303);
    let page = browser.page(&address);
    assert!(!page.contains("was deleted") && page.contains("id=\"start-rewrite\""), "{page}");
    server.stop();
}
