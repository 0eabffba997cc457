//! Uncommitted texts: Topics on them and what becomes of these, and untracked files.

use serde_json::json;

use super::{kept, shown, told, words};
use crate::support::{Bench, until};

const DRAFT: &str = "# Guide\n\nThe first line.\n\nA draft of a thought.\n\nThe second line.\n";

#[test]
fn a_topic_on_a_text_that_is_not_committed_survives_its_commit() {
    let bench = Bench::new();
    let server = bench.serve();
    super::ready(&bench);
    bench.write("guide.md", DRAFT);
    let topic = bench.topic("guide.md", "A draft of a thought.", "x");
    assert_eq!(shown(&bench, &topic)["state"], "exact");
    bench.write("guide.md", format!("Before all.\n\n{DRAFT}"));
    told(&bench, "guide.md");
    assert_eq!(kept(&bench, &topic)["state"], "shifted");
    bench.git(&["commit", "-q", "-a", "-m", "the draft"]);
    until("it is a baseline", || kept(&bench, &topic)["working"] == 0);
    let place = shown(&bench, &topic);
    assert_eq!(words(&bench, &topic, &place), "A draft of a thought.");
    server.stop();
}

/// Fails with `WB_WITHOUT=working_baseline`.
#[test]
fn a_text_that_is_thrown_away_takes_no_topic_with_it() {
    let bench = Bench::new();
    let server = bench.serve();
    super::ready(&bench);
    let old = bench.topic("guide.md", "The second line.", "old");
    bench.write("guide.md", DRAFT);
    let new = bench.topic("guide.md", "A draft of a thought.", "new");
    // Both are placed in a text that nobody keeps, and in which one of them is gone.
    bench.write("guide.md", "# Guide\n\nThe first line.\n");
    told(&bench, "guide.md");
    assert_eq!(kept(&bench, &old)["state"], "orphaned");
    bench.write("guide.md", DRAFT.replace("The second line", "The very second line of it"));
    told(&bench, "guide.md");
    assert_eq!(kept(&bench, &old)["state"], "edited");
    bench.git(&["checkout", "-q", "--", "guide.md"]);
    bench.git(&["gc", "-q", "--prune=now"]);
    told(&bench, "guide.md");
    assert_eq!(shown(&bench, &old)["state"], "exact");
    let lost = shown(&bench, &new);
    assert_eq!(lost["state"], "orphaned");
    let list = bench.get("/api/topics?source_path=guide.md&status=open").ok();
    assert_eq!(list["items"].as_array().unwrap().len(), 2, "what is lost stays visible");

    // The words come back, edited, among others: they are found from the text that was kept, though
    // git has it no more. Of the throw-away text nothing is left that they could be placed from.
    bench.write("guide.md", "# Guide\n\nOther.\n\nA draft of one thought.\n\nThe second line.\n");
    told(&bench, "guide.md");
    let back = kept(&bench, &new);
    assert_eq!(back["state"], "edited", "{back}");
    assert_eq!(words(&bench, &new, &back), "A draft of one thought.");
    assert_eq!(kept(&bench, &old)["state"], "shifted");
    server.stop();
}

#[test]
fn what_git_does_not_track_is_listed_as_such() {
    let bench = Bench::new();
    bench.write(".gitignore", "data/\nwiki-browser.lua\nignored.md\n");
    let server = bench.serve();
    super::ready(&bench);
    bench.write("loose.md", "# Loose\n\nWords.\n");
    bench.write("ignored.md", "x");
    let list = |query: &str| bench.get(&format!("/api/sources{query}")).ok();
    let all = list("");
    let shown: Vec<_> = all["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["path"].clone(), it["tracked"].clone(), it["state"].clone()))
        .collect();
    let row = |path: &str, tracked: bool, state: &str| (json!(path), json!(tracked), json!(state));
    assert_eq!(
        shown,
        [
            row("docs/deep.md", true, "clean"),
            row("guide.md", true, "clean"),
            row("loose.md", false, "untracked"),
            row("notes.md", true, "clean"),
        ]
    );
    let page = list("?limit=3");
    assert_eq!(page["next"], "loose.md");
    assert_eq!(list("?after=loose.md")["items"][0]["path"], "notes.md");
    let selection = json!({"quote": "Words."});
    let body = json!({"source_path": "loose.md", "selection": selection, "body": "x"});
    let refused = bench.post("/api/topics", body);
    assert_eq!(refused.refusal(), (404, "not_a_source"));
    assert!(refused.body["error"]["hint"].as_str().unwrap().contains("git add"));
    // Once it is staged a Topic can be opened on it, before there is any commit of it.
    bench.git(&["add", "loose.md"]);
    let topic = bench.topic("loose.md", "Words.", "x");
    assert_eq!(super::shown(&bench, &topic)["state"], "exact");
    bench.git(&["commit", "-q", "-m", "loose"]);
    told(&bench, "loose.md");
    assert_eq!(super::shown(&bench, &topic)["state"], "exact");
    let (code, out, _) = bench.cli(&["source", "list"]);
    assert_eq!(code, 0);
    assert!(out.contains("loose.md"), "{out}");
    server.stop();
}
