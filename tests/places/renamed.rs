//! A renamed Source: its Topics and open proposals follow.

use serde_json::{Value, json};

use super::{events, kept, ready, shown, told, words};
use crate::support::{Bench, Topic, git, until};

/// A guide of some length, so that an edit leaves it what it is.
fn guide() -> String {
    let rules = (1..30).map(|it| format!("{it}. Rule number {it} of the house.\n"));
    format!("# Guide\n\nThe first line.\n\nThe second line.\n\n{}", rules.collect::<String>())
}

fn bench() -> Bench {
    let bench = Bench::new();
    bench.write("guide.md", guide());
    bench.git(&["commit", "-q", "-a", "-m", "a long guide"]);
    bench
}

fn renamed(bench: &Bench) -> Vec<Value> {
    events(bench, "source_renamed")
}

/// Waits until a Topic is one of another Source, and its words are placed there.
#[track_caller]
fn follows(bench: &Bench, topic: &Topic, path: &str) -> (Topic, Value) {
    let address = format!("/api/topics/{}", topic.id);
    until(&format!("the topic goes to {path}"), || {
        bench.get(&address).ok()["topic"]["source_path"] == path
    });
    let topic = Topic { id: topic.id.clone(), path: path.to_owned() };
    told(bench, path);
    until("it is a baseline", || kept(bench, &topic)["working"] == 0);
    let place = kept(bench, &topic);
    (topic, place)
}

/// Fails with `WB_WITHOUT=renamed_sources`.
#[test]
fn all_topics_of_a_renamed_source_go_with_it() {
    let bench = bench();
    let server = bench.serve();
    ready(&bench);
    bench.wait_indexed();
    let topic = bench.topic("guide.md", "The second line.", "Which aardvark?");
    let closed = bench.topic("guide.md", "The first line.", "An old one");
    bench.post(&format!("/api/topics/{}/discard", closed.id), json!({})).ok();
    let body = json!({"source_path": "guide.md", "global": true, "body": "all of it"});
    bench.post("/api/topics", body).ok();
    let message = json!({"body": "That aardvark. ".repeat(400)});
    bench.post(&format!("/api/topics/{}/messages", topic.id), message).ok();
    // Not before it is committed: it may be taken back.
    bench.git(&["mv", "guide.md", "docs/handbook.md"]);
    told(&bench, "docs/handbook.md");
    assert_eq!(shown_path(&bench, &topic), "guide.md");
    bench.git(&["commit", "-q", "-m", "a better name"]);
    let (topic, place) = follows(&bench, &topic, "docs/handbook.md");
    assert_eq!(place["state"], "exact");
    let tale = renamed(&bench);
    assert_eq!(tale.len(), 1, "{tale:?}");
    assert_eq!((&tale[0]["from"], &tale[0]["topics"]), (&json!("guide.md"), &json!(3)));
    assert_eq!(tale[0]["commit"], bench.git(&["rev-parse", "HEAD"]).as_str());
    assert_eq!(shown_path(&bench, &closed), "docs/handbook.md");
    let listed = |path: &str| {
        let found = bench.get(&format!("/api/topics?source_path={path}")).ok();
        found["items"].as_array().unwrap().len()
    };
    assert_eq!((listed("guide.md"), listed("docs/handbook.md")), (0, 3));
    let found = |path: &str| {
        let found = bench.get(&format!("/api/search?query=aardvark&path={path}")).ok();
        found["items"].as_array().unwrap().len()
    };
    assert_eq!((found("guide.md"), found("docs/")), (0, 2), "the search knows it, too");
    // And from there on it is placed as any other.
    bench.write("docs/handbook.md", guide().replace("second line", "second, better line"));
    bench.git(&["commit", "-q", "-a", "-m", "edit"]);
    told(&bench, "docs/handbook.md");
    until("it is a baseline", || kept(&bench, &topic)["working"] == 0);
    let place = shown(&bench, &topic);
    assert_eq!(words(&bench, &topic, &place), "The second, better line.");
    server.stop();
}

/// So many are gone and new that git does not compare all with all: it is looked for those on which
/// something hangs. One that is more like another one that is gone has not become of them.
#[test]
fn a_source_is_found_again_among_hundreds_that_are_renamed_and_changed() {
    let bench = bench();
    let page = |of: &str, from: usize| -> String {
        (from..from + 30).map(|it| format!("Line {it} of the page {of}, as it was.\n\n")).collect()
    };
    for at in 0..205 {
        bench.write(&format!("docs/old{at}.md"), page(&at.to_string(), 0));
    }
    // Of the first one two thirds of the second one are copied.
    bench.write("docs/copied.md", page("twin", 0));
    bench.write("docs/twin.md", page("twin", 10));
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-q", "-m", "many pages"]);
    let server = bench.serve();
    ready(&bench);
    let topic = bench.topic("docs/old7.md", "Line 5 of the page 7, as it was.", "x");
    let copied = bench.topic("docs/copied.md", "Line 3 of the page twin, as it was.", "x");
    std::fs::create_dir(bench.top.join("new")).unwrap();
    for at in 0..205 {
        let text = page(&at.to_string(), 0).replace("Line 9 ", "The line 9 ");
        bench.write(&format!("new/page{}.md", (at * 7) % 205), text);
    }
    bench.write("new/other.md", page("twin", 10).replace("Line 12 ", "The line 12 "));
    bench.git(&["rm", "-q", "-r", "docs"]);
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-q", "-m", "all of it elsewhere"]);
    until("its topic goes with it", || shown_path(&bench, &topic) == "new/page49.md");
    let topic = Topic { id: topic.id, path: "new/page49.md".to_owned() };
    until("it is placed there", || kept(&bench, &topic)["working"] == 0);
    let place = shown(&bench, &topic);
    assert_eq!(words(&bench, &topic, &place), "Line 5 of the page 7, as it was.");
    assert_eq!(shown_path(&bench, &copied), "docs/copied.md");
    assert_eq!(renamed(&bench).len(), 1);
    server.stop();
}

fn shown_path(bench: &Bench, topic: &Topic) -> String {
    let shown = bench.get(&format!("/api/topics/{}", topic.id)).ok();
    shown["topic"]["source_path"].as_str().unwrap().to_owned()
}

/// Each commit changes little, all of them together nearly everything; one is a merge.
#[test]
fn a_source_is_followed_through_many_commits_that_are_pulled() {
    let bench = bench();
    let server = bench.serve();
    ready(&bench);
    let topic = bench.topic("guide.md", "The second line.", "x");
    let aside = bench.base.join("aside");
    git(&bench.base, &["clone", "-q", bench.top.as_str(), aside.as_str()]);
    let commit = |text: &str, path: &str| {
        std::fs::write(aside.join(path), text).unwrap();
        git(&aside, &["commit", "-q", "-a", "-m", "step"]);
    };
    git(&aside, &["switch", "-q", "-c", "side"]);
    git(&aside, &["mv", "guide.md", "one.md"]);
    commit(&guide().replace("The first", "A first"), "one.md");
    git(&aside, &["switch", "-q", "main"]);
    std::fs::write(aside.join("notes.md"), "# Notes\n\nOther ones.\n").unwrap();
    git(&aside, &["commit", "-q", "-a", "-m", "beside"]);
    git(&aside, &["merge", "-q", "--no-edit", "side"]);
    let half = guide().replace("Rule number", "A law of");
    commit(&half, "one.md");
    git(&aside, &["mv", "one.md", "two.md"]);
    commit(&half.replace("1. A law", "1. This is a law"), "two.md");
    let rest = half.replace(" of the house", ", which nobody but a guest may ever break here");
    commit(&rest.replace(". A law", ". Mind law"), "two.md");
    bench.git(&["pull", "-q", aside.as_str(), "main"]);
    let (topic, place) = follows(&bench, &topic, "two.md");
    assert_eq!(words(&bench, &topic, &place), "The second line.");
    server.stop();
}

#[test]
fn a_branch_with_another_name_for_it_is_switched_to_and_back() {
    let bench = bench();
    bench.git(&["switch", "-q", "-c", "other"]);
    bench.git(&["mv", "guide.md", "other.md"]);
    bench.git(&["commit", "-q", "-m", "rename"]);
    bench.git(&["switch", "-q", "main"]);
    let server = bench.serve();
    ready(&bench);
    let topic = bench.topic("guide.md", "The second line.", "x");
    bench.git(&["switch", "-q", "other"]);
    follows(&bench, &topic, "other.md");
    server.stop();
    // What happens while no server runs is followed by the next one.
    bench.git(&["switch", "-q", "main"]);
    let server = bench.serve();
    let (topic, place) = follows(&bench, &topic, "guide.md");
    assert_eq!((place["state"].as_str(), renamed(&bench).len()), (Some("exact"), 2));
    // One that leaves the globs is gone, and its Topic stays where it can be found.
    bench.git(&["mv", "guide.md", "guide.txt"]);
    bench.git(&["commit", "-q", "-m", "no Markdown"]);
    let is_gone = |it: &Value| it["path"] == "guide.md" && it["blob"].is_null();
    until("it is gone", || events(&bench, "source_changed").iter().any(is_gone));
    assert_eq!(shown_path(&bench, &topic), "guide.md");
    bench.git(&["revert", "--no-edit", "HEAD"]);
    until("it is back", || shown(&bench, &topic)["state"] == "exact");
    assert_eq!(renamed(&bench).len(), 2);
    server.stop();
}

/// What is proposed is asked for again under the new name: nobody approves what they did not see.
#[test]
fn an_open_proposal_is_a_new_revision_for_the_new_name() {
    let bench = bench();
    let script = "sed 's/The first line/The best line/' \"$root/$path\" | propose";
    let fields = "produces = \"proposal\", timeout = \"20s\", lane = \"source_path\"";
    bench.topic_kind("better", fields, script);
    let server = bench.serve();
    ready(&bench);
    let topic = bench.topic("guide.md", "The first line.", "x");
    let before = bench.proposal("better", &topic);
    bench.git(&["mv", "guide.md", "handbook.md"]);
    bench.write("handbook.md", guide().replace("second", "last"));
    bench.git(&["commit", "-q", "-a", "-m", "a better name, and an edit"]);
    follows(&bench, &topic, "handbook.md");
    until("it is another revision", || bench.proposal_status(&before) == "superseded");
    assert_eq!(bench.send(&bench.approval(&before)).refusal(), (409, "superseded"));
    let id = before["proposal"]["id"].as_str().unwrap();
    let shown = bench.get(&format!("/api/proposals/{id}")).ok();
    let later = shown["proposal"]["superseded_by"].as_str().unwrap();
    let after = bench.get(&format!("/api/proposals/{later}")).ok();
    assert_eq!(after["proposal"]["source_path"], "handbook.md");
    assert_eq!(after["approvable"]["ok"], true, "{after:#}");
    bench.send(&bench.approval(&after)).ok();
    let text = bench.read("handbook.md");
    assert!(text.contains("The best line.") && text.contains("The last line."), "{text}");
    assert!(!bench.top.join("guide.md").exists());
    assert_eq!(bench.status(), "");
    server.stop();
}
