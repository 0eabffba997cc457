//! A Topic that a person moves to a passage of another Source, to which a section was moved.

use serde_json::{Value, json};

use super::{events, kept, ready, shown, told, words};
use crate::pages::Browser;
use crate::support::{Answer, Bench, Topic, until};

fn put(bench: &Bench, topic: &Topic, path: &str, quote: &str) -> Answer {
    let body = json!({"source_path": path, "selection": {"quote": quote}});
    bench.post(&format!("/api/topics/{}/anchor", topic.id), body)
}

/// Moves the second line of the guide to another document.
fn move_section(bench: &Bench) {
    bench.write("guide.md", "# Guide\n\nThe first line.\n");
    bench.write("docs/rest.md", "# Rest\n\nBefore it.\n\nThe second line.\n\nAfter it.\n");
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-q", "-m", "a section goes elsewhere"]);
    told(bench, "guide.md");
}

fn path_of(bench: &Bench, topic: &Topic) -> Value {
    bench.get(&format!("/api/topics/{}", topic.id)).ok()["topic"]["source_path"].clone()
}

#[test]
fn a_topic_follows_its_section_to_another_source() {
    let bench = Bench::new();
    let server = bench.serve();
    ready(&bench);
    bench.wait_indexed();
    let topic = bench.topic("guide.md", "The second line.", "Which aardvark?");
    let other = bench.topic("guide.md", "second", "by the form");
    move_section(&bench);
    assert_eq!(kept(&bench, &topic)["state"], "orphaned");
    let args = ["topic", "reattach", &topic.id, "--source", "docs/rest.md"];
    let said = bench.json(&[&args[..], &["--quote", "The second line."]].concat());
    assert_eq!(said["source_path"], "docs/rest.md");
    assert_eq!(said["anchor"]["origin"]["quote"], "The second line.");
    let audit = events(&bench, "topic_reattached").pop().unwrap();
    let paths = (&audit["from_path"], &audit["source_path"]);
    assert_eq!(paths, (&json!("guide.md"), &json!("docs/rest.md")));
    assert_eq!(audit["from"]["state"], "orphaned");
    let audited = "SELECT json_object('audit', audit) FROM events WHERE kind = 'topic_reattached'";
    assert_eq!(super::rows(&bench, audited), [json!({"audit": 1})]);
    let fields = [("quote", "second line"), ("source_path", "docs/rest.md"), ("prefix", "")];
    let form = format!("/topics/{}/anchor", other.id);
    let browser = Browser::signed_in(&bench, &server);
    assert_eq!(browser.submit(&form, &fields).status, 303);
    assert_eq!(path_of(&bench, &other), "docs/rest.md");
    let listed = |path: &str| {
        let found = bench.get(&format!("/api/topics?source_path={path}")).ok();
        found["items"].as_array().unwrap().len()
    };
    assert_eq!((listed("guide.md"), listed("docs/rest.md")), (0, 2));
    let found = bench.get("/api/search?query=aardvark&path=docs/").ok();
    assert_eq!(found["items"].as_array().unwrap().len(), 1, "{found:#}");
    // From there on it is placed as any other of that Source, also back in an earlier text of it.
    let topic = Topic { id: topic.id, path: "docs/rest.md".to_owned() };
    bench.write("docs/rest.md", "# Rest\n\nNew.\n\nThe second, better line.\n\nAfter it.\n");
    bench.git(&["commit", "-q", "-a", "-m", "edit"]);
    told(&bench, "docs/rest.md");
    until("it is a baseline", || kept(&bench, &topic)["working"] == 0);
    assert_eq!(words(&bench, &topic, &shown(&bench, &topic)), "The second, better line.");
    bench.git(&["revert", "--no-edit", "HEAD"]);
    told(&bench, "docs/rest.md");
    until("it is back", || shown(&bench, &topic)["state"] == "exact");
    server.stop();
}

/// Also onto text that is not committed, of which git has no copy.
#[test]
fn the_words_of_the_other_source_need_not_be_committed() {
    let bench = Bench::new();
    let server = bench.serve();
    ready(&bench);
    let topic = bench.topic("guide.md", "The second line.", "x");
    bench.write("docs/rest.md", "# Rest\n\nThe second line.\n");
    bench.git(&["add", "-A"]);
    put(&bench, &topic, "docs/rest.md", "The second line.").ok();
    let topic = Topic { id: topic.id, path: "docs/rest.md".to_owned() };
    bench.write("docs/rest.md", "# Rest\n\nTop.\n\nThe second line.\n");
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-q", "-m", "rest"]);
    told(&bench, "docs/rest.md");
    until("it is a baseline", || kept(&bench, &topic)["working"] == 0);
    assert_eq!(words(&bench, &topic, &kept(&bench, &topic)), "The second line.");
    server.stop();
}

#[test]
fn what_hangs_on_the_first_source_keeps_a_topic_there() {
    let bench = Bench::new();
    let fields = "produces = \"proposal\", timeout = \"20s\", lane = \"source_path\"";
    bench.topic_kind("better", fields, "sed 's/first/best/' \"$root/$path\" | propose");
    let wait = "until [ -e \"$OUT/go\" ]; do sleep 0.05; done";
    bench.topic_kind("waits", &fields.replace("proposal", "message"), wait);
    let server = bench.serve();
    ready(&bench);
    let topic = bench.topic("guide.md", "The second line.", "x");
    let further = bench.topic("guide.md", "The first line.", "x");
    move_section(&bench);
    let quote = "The second line.";
    let refused = |topic: &Topic, path: &str, quote: &str| {
        let answer = put(&bench, topic, path, quote);
        let refusal = answer.refusal();
        (refusal.0, refusal.1.to_owned())
    };
    let is = |status: u16, code: &str| (status, code.to_owned());
    assert_eq!(refused(&topic, "docs/none.md", quote), is(404, "source_gone"));
    assert_eq!(refused(&topic, "../etc/passwd", quote), is(400, "bad_json"));
    assert_eq!(refused(&topic, "wiki-browser.lua", quote), is(404, "not_a_source"));
    assert_eq!(refused(&topic, "docs/rest.md", "not there"), is(400, "quote_not_found"));
    let blob = bench.get("/api/source?path=docs/rest.md").ok()["blob"].clone();
    let range = json!({"blob": blob, "start": 10, "end": 9_999});
    let body = json!({"source_path": "docs/rest.md", "selection": range});
    let answer = bench.post(&format!("/api/topics/{}/anchor", topic.id), body);
    assert_eq!(answer.refusal(), (400, "bad_selection"));
    let waits = bench.job_on("waits", &topic);
    assert_eq!(refused(&topic, "docs/rest.md", quote), is(409, "topic_in_job"));
    let cancel = format!("/api/agent/jobs/{waits}/cancel");
    bench.post(&cancel, json!({})).ok();
    bench.ended(&waits);
    let body = json!({"topic_id": further.id, "topic_ids": [topic.id]});
    let job = bench.ended(&bench.job("better", body));
    assert_eq!(job["status"], "succeeded", "{job:#}");
    for it in [&topic, &further] {
        assert_eq!(refused(it, "docs/rest.md", quote), is(409, "topic_in_proposal"));
        assert_eq!(path_of(&bench, it), "guide.md");
    }
    assert!(events(&bench, "topic_reattached").is_empty());
    let reject = format!("/api/proposals/{}/reject", job["proposal_id"].as_str().unwrap());
    bench.post(&reject, json!({"reason": "no"})).ok();
    put(&bench, &topic, "docs/rest.md", quote).ok();
    assert_eq!(path_of(&bench, &topic), "docs/rest.md");
    server.stop();
}
