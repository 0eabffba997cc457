//! A person says where the words of a Topic are; an agent may say it too, and is not simply believed.

use serde_json::{Value, json};

use super::{events, kept, shown, told, words};
use crate::support::{Bench, Topic};

fn reattach(bench: &Bench, topic: &Topic, selection: Value) -> crate::support::Answer {
    bench.post(&format!("/api/topics/{}/anchor", topic.id), json!({"selection": selection}))
}

#[test]
fn an_orphan_is_put_on_other_words_and_follows_them() {
    let bench = Bench::new();
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The second line.", "x");
    bench.write("guide.md", "# Guide\n\nThe first line.\n\nAnother thought entirely, and long.\n");
    bench.git(&["commit", "-q", "-a", "-m", "rewritten"]);
    told(&bench, "guide.md");
    let quote = "Another thought entirely";
    let reason = "the rewrite";
    let said = bench.json(&["topic", "reattach", &topic.id, "--quote", quote, "--reason", reason]);
    assert_eq!(said["anchor"]["quote"], quote);
    assert_eq!(said["anchor"]["origin"]["quote"], "The second line.", "the origin stays");
    let place = shown(&bench, &topic);
    assert_eq!((&place["state"], &place["method"]), (&json!("exact"), &json!("reattached")));
    assert!(place["decided_by"].as_str().unwrap().starts_with("person:"));
    let audit = events(&bench, "topic_reattached").pop().unwrap();
    assert_eq!(audit["topic_id"], topic.id.as_str());
    assert_eq!(audit["from"]["decided_by"], "system");
    assert_eq!(audit["to"]["start"], place["start"]);
    let kept_for_ever = "SELECT json_object('actor', actor, 'audit', audit) FROM events
                         WHERE kind = 'topic_reattached'";
    let row = super::rows(&bench, kept_for_ever).pop().unwrap();
    assert_eq!((&row["audit"], &row["actor"]), (&json!(1), &place["decided_by"]));
    let page = bench.get(&format!("/api/topics/{}", topic.id)).ok();
    assert_eq!(page["messages"][1]["body"], reason);

    bench.write("guide.md", "# Guide\n\nA word before.\n\nAnother thought entirely, and long.\n");
    bench.git(&["commit", "-q", "-a", "-m", "moved on"]);
    told(&bench, "guide.md");
    let later = kept(&bench, &topic);
    assert_eq!((&later["state"], words(&bench, &topic, &later)), (&json!("shifted"), quote.into()));
    // Back to the version in which it was put there: what the person said is what is shown.
    bench.git(&["revert", "--no-edit", "-n", "HEAD"]);
    assert_eq!(shown(&bench, &topic)["method"], "reattached");
    server.stop();
}

/// What was computed before a person spoke does not count in other versions either.
#[test]
fn a_person_outweighs_what_was_placed_before() {
    let bench = Bench::new();
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The second line.", "x");
    let first = bench.read("guide.md");
    bench.write("guide.md", format!("{first}\nThe second line, and more of it here.\n"));
    told(&bench, "guide.md");
    assert_eq!(kept(&bench, &topic)["state"], "exact");
    let selection = json!({"quote": "The second line, and more of it"});
    assert_eq!(reattach(&bench, &topic, selection).status, 200);
    bench.write("guide.md", format!("Top.\n\n{first}\nThe second line, and more of it here.\n"));
    told(&bench, "guide.md");
    let later = kept(&bench, &topic);
    assert_eq!(words(&bench, &topic, &later), "The second line, and more of it");
    // Thrown away: the words that the person chose are not in the committed text.
    bench.git(&["checkout", "-q", "--", "guide.md"]);
    assert_ne!(shown(&bench, &topic)["state"], "shifted");
    bench.write("guide.md", format!("{first}\nThe second line, and more of it, is back.\n"));
    told(&bench, "guide.md");
    assert_eq!(words(&bench, &topic, &shown(&bench, &topic)), "The second line, and more of it");
    server.stop();
}

#[test]
fn what_cannot_be_verified_changes_nothing() {
    let bench = Bench::new();
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "x");
    let blob = bench.get("/api/source?path=guide.md").ok()["blob"].clone();
    let old = "0".repeat(40);
    let before = shown(&bench, &topic);
    for (selection, refusal) in [
        (json!({"quote": "never there"}), (400, "quote_not_found")),
        (json!({"quote": "line."}), (400, "ambiguous_quote")),
        (json!({"quote": " "}), (400, "bad_selection")),
        (json!({"blob": old, "quote": "The second"}), (409, "source_changed")),
        (json!({"blob": old, "start": 9, "end": 12}), (409, "source_changed")),
        (json!({"blob": blob, "start": 9, "end": 9_999}), (400, "bad_selection")),
        (json!({"blob": blob, "start": 12, "end": 9}), (400, "bad_selection")),
    ] {
        let answer = reattach(&bench, &topic, selection.clone());
        assert_eq!(answer.refusal(), refusal, "{selection}");
    }
    assert_eq!(shown(&bench, &topic), before);
    assert!(events(&bench, "topic_reattached").is_empty());
    let bytes = json!({"blob": blob, "start": 26, "end": 42});
    assert_eq!(reattach(&bench, &topic, bytes).ok()["anchor"]["quote"], "The second line.");
    let whole = json!({"source_path": "guide.md", "global": true, "body": "All"});
    let whole = bench.post("/api/topics", whole).ok()["id"].as_str().unwrap().to_owned();
    let whole = Topic { id: whole, path: "guide.md".to_owned() };
    let quote = json!({"quote": "The first"});
    assert_eq!(reattach(&bench, &whole, quote.clone()).refusal(), (409, "topic_is_global"));
    bench.post(&format!("/api/topics/{}/discard", topic.id), json!({})).ok();
    assert_eq!(reattach(&bench, &topic, quote).refusal(), (409, "topic_closed"));
    for args in [
        &["topic", "reattach", &topic.id][..],
        &["topic", "reattach", &topic.id, "--bytes", "1..2"],
        &["topic", "reattach", &topic.id, "--blob", &old, "--bytes", "1-2"],
    ] {
        assert_eq!(bench.cli(args).0, 2, "{args:?}");
    }
    server.stop();
}
