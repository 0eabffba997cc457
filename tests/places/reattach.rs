//! A person moves a Topic to another passage; an agent may suggest one, which is verified.

use serde_json::{Value, json};

use super::{events, kept, shown, told, words};
use crate::support::{Bench, Topic, until};

fn reattach(bench: &Bench, topic: &Topic, selection: Value) -> crate::support::Answer {
    bench.post(&format!("/api/topics/{}/anchor", topic.id), json!({"selection": selection}))
}

#[test]
fn an_orphan_is_put_on_other_words_and_follows_them() {
    let bench = Bench::new();
    let server = bench.serve();
    super::ready(&bench);
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
    super::ready(&bench);
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
    bench.write("guide.md", format!("{first}\nThe second line, and more of it, is back.\n"));
    told(&bench, "guide.md");
    assert_eq!(words(&bench, &topic, &shown(&bench, &topic)), "The second line, and more of it");
    // Thrown away: the words that the person chose are not in the committed text.
    bench.git(&["checkout", "-q", "--", "guide.md"]);
    assert_ne!(shown(&bench, &topic)["state"], "shifted");
    server.stop();
}

#[test]
fn what_cannot_be_verified_changes_nothing() {
    let bench = Bench::new();
    let server = bench.serve();
    super::ready(&bench);
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

/// An agent says where Topics went. What stands unchanged is not moved by it, and what was there
/// before, or is not the same, has to be looked at.
#[test]
fn an_agent_is_believed_only_as_far_as_the_texts_agree() {
    let bench = Bench::new();
    let base = "# Teams\n\nTeam Alpha meets on Monday.\n\nTeam Beta meets on Monday.\n\n\
        A dull sentence stands here.\n\nThe end is near.\n";
    bench.write("guide.md", base);
    bench.git(&["commit", "-q", "-a", "-m", "teams"]);
    let fields = "produces = \"proposal\", timeout = \"20s\", lane = \"source_path\"";
    let script = "propose --anchors \"$OUT/anchors.json\" < \"$OUT/new.md\"";
    bench.topic_kind("rewrite", fields, script);
    let server = bench.serve();
    super::ready(&bench);
    let settled = bench.topic("guide.md", "# Teams", "settle");
    let topic = |quote: &str| bench.topic("guide.md", quote, "x");
    let (alpha, dull) =
        (topic("Team Alpha meets on Monday."), topic("A dull sentence stands here."));
    let end = topic("The end is near.");
    let new = "# The teams\n\nTeam Beta meets on Monday.\n\nWhat shines is gold, so they say.\n\n\
        The end is near.\n";
    let anchor = |topic: &Topic, quote: &str| {
        let start = new.find(quote).unwrap();
        json!({"topic_id": topic.id, "start": start, "end": start + quote.len(), "quote": quote})
    };
    let anchors = json!([
        anchor(&alpha, "Team Beta meets on Monday."),
        anchor(&dull, "What shines is gold, so they say."),
        anchor(&end, "What shines"),
    ]);
    std::fs::write(bench.out.join("new.md"), new).unwrap();
    std::fs::write(bench.out.join("anchors.json"), anchors.to_string()).unwrap();
    let proposal = bench.proposal("rewrite", &settled);
    let fate = |topic: &Topic| {
        let all = proposal["fate"].as_array().unwrap().clone();
        all.into_iter().find(|it| it["topic_id"] == topic.id.as_str()).unwrap()["after"].clone()
    };
    let by_agent = |it: &Value| it["decided_by"].as_str().unwrap().starts_with("job:");
    for (topic, quote) in [(&alpha, "Team Beta"), (&dull, "What shines is gold, so they say.")] {
        let after = fate(topic);
        assert_eq!(after["state"], "rewritten", "a person has to look: {after}");
        assert!(by_agent(&after), "{after}");
        assert_eq!(after["start"], new.find(quote).unwrap());
    }
    let unchanged = fate(&end);
    assert_eq!((&unchanged["state"], by_agent(&unchanged)), (&json!("shifted"), false));
    assert_eq!(unchanged["start"], new.find("The end").unwrap());
    bench.send(&bench.approval(&proposal)).ok();
    assert!(by_agent(&shown(&bench, &dull)));
    server.stop();
}

/// A person speaks while the text changes and is placed: what was computed from before they spoke
/// does not undo it.
#[test]
fn what_a_person_says_survives_what_is_computed_meanwhile() {
    let bench = Bench::new();
    let server = bench.serve();
    super::ready(&bench);
    let topic = bench.topic("guide.md", "The first line.", "x");
    let text = bench.read("guide.md");
    for turn in 0..12 {
        bench.write("guide.md", format!("Turn {turn}.\n\n{text}"));
        bench.git(&["commit", "-q", "-a", "-m", "turn"]);
        let quote = ["The second line.", "The first line."][turn % 2];
        assert_eq!(reattach(&bench, &topic, json!({"quote": quote})).status, 200);
    }
    bench.write("guide.md", format!("The end.\n\n{text}"));
    bench.git(&["commit", "-q", "-a", "-m", "end"]);
    told(&bench, "guide.md");
    until("it is a baseline", || kept(&bench, &topic)["working"] == 0);
    assert_eq!(words(&bench, &topic, &kept(&bench, &topic)), "The first line.");
    server.stop();
}
