//! Several Topics of one Source settled by one text, closed, reopened.

use serde_json::{Value, json};

use super::{commit, decide, declare, hint, id_of, look, reworked};
use crate::support::{Bench, Topic};

/// An agent that changes both lines.
const BOTH: &str = "sed 's/The first line/The best line/; s/The second line/The last line/' \
    \"$root/$path\" | propose";
/// An agent that changes the first line only.
const FIRST: &str = "sed 's/The first line/The best line/' \"$root/$path\" | propose";

fn site() -> Bench {
    let bench = Bench::new();
    declare(&bench, "both", BOTH);
    declare(&bench, "first", FIRST);
    bench
}

fn topics(bench: &Bench) -> (Topic, Topic) {
    let one = bench.topic("guide.md", "The first line.", "Say it better.");
    (one, bench.topic("guide.md", "The second line.", "And this."))
}

#[track_caller]
fn propose(bench: &Bench, inputs: Value) -> Value {
    let job = bench.ended(&bench.job("both", inputs));
    assert_eq!(job["status"], "succeeded", "{job:#}");
    look(bench, job["proposal_id"].as_str().unwrap())
}

fn status(bench: &Bench, topic: &Topic) -> String {
    let shown = bench.get(&format!("/api/topics/{}", topic.id)).ok();
    shown["topic"]["status"].as_str().unwrap().to_owned()
}

#[test]
fn one_approval_settles_them_all() {
    let bench = site();
    let server = bench.serve();
    let (one, two) = topics(&bench);
    let aside = bench.topic("guide.md", "# Guide", "Another title?");
    let shown = propose(&bench, json!({"topic_ids": [one.id, two.id]}));
    assert_eq!(shown["proposal"]["topic_ids"], json!([one.id, two.id]));
    assert_eq!(shown["further_topics"][0]["id"], two.id);
    let prompt = bench.left("prompt");
    assert!(prompt.contains(&format!("topic={}\n", one.id)), "{prompt}");
    assert!(prompt.contains(&format!("\nFurther topic:   {}", two.id)), "{prompt}");
    // What is open beside them is shown, and stays.
    assert_eq!(shown["fate"].as_array().unwrap().len(), 1);
    assert_eq!(shown["fate"][0]["topic_id"], aside.id);
    let done = bench.send(&bench.approval(&shown)).ok();
    let open: Vec<_> = done["still_open"].as_array().unwrap().iter().map(|it| &it["id"]).collect();
    assert_eq!(open, [&json!(aside.id)]);
    let said = bench.git(&["log", "-1", "--format=%B"]);
    assert!(said.contains(&format!("\nTopic: {}\nTopic: {}", two.id, one.id)), "{said}");
    assert_eq!(
        (status(&bench, &one), status(&bench, &two)),
        ("incorporated".to_owned(), "incorporated".to_owned())
    );
    let history = bench.get("/api/source/history?path=guide.md").ok();
    assert_eq!(history["items"][0]["topic_id"], one.id);
    let cause = &history["items"][0]["causes"][0];
    assert_eq!(cause["topic_id"], one.id);
    assert_eq!(
        cause["further_topics"],
        json!([{"topic_id": two.id, "topic_title": "And this.", "topic_status": "incorporated"}])
    );
    server.stop();
}

#[test]
fn what_cannot_be_settled_together_is_refused() {
    let bench = site();
    bench.word_kind("plain", "timeout = \"20s\"", "true");
    let server = bench.serve();
    let (one, two) = topics(&bench);
    let notes = bench.topic("notes.md", "Keep this.", "Why?");
    let closed = bench.topic("guide.md", "# Guide", "Never mind.");
    bench.post(&format!("/api/topics/{}/discard", closed.id), json!({})).ok();
    let nobody = "018bcfe5-6800-7000-8000-000000000000";
    let many: Vec<&str> = vec![nobody; 21];
    let ask = |kind: &str, inputs: Value| {
        let mut body = inputs;
        body["kind"] = json!(kind);
        bench.post("/api/agent/jobs", body)
    };
    for (ids, want) in [
        (json!([one.id, notes.id]), (409, "other_source")),
        (json!([one.id, closed.id]), (409, "topic_closed")),
        (json!([one.id, nobody]), (404, "not_found")),
        (json!([]), (400, "bad_input")),
        (json!("x"), (400, "bad_input")),
        (json!([1]), (400, "bad_input")),
        (json!(many), (404, "not_found")),
    ] {
        let answer = ask("both", json!({"topic_ids": ids}));
        assert_eq!(answer.refusal(), want, "{ids}");
    }
    let more: Vec<String> =
        (0..21).map(|n| format!("018bcfe5-6800-7000-8000-0000000000{n:02}")).collect();
    assert_eq!(ask("both", json!({"topic_ids": more})).refusal(), (400, "bad_input"));
    assert_eq!(ask("plain", json!({"topic_ids": [one.id]})).refusal(), (400, "unknown_input"));
    // One that is proposed for already is not taken without being told.
    let alone = bench.proposal("first", &one);
    let refused = ask("both", json!({"topic_ids": [two.id, one.id]}));
    assert_eq!(refused.refusal(), (409, "already_proposed"));
    assert!(refused.body["error"]["message"].as_str().unwrap().contains(id_of(&alone)));
    assert!(hint(&refused).contains("replace_proposals"), "{refused:?}");
    let told = json!({"topic_ids": [two.id, one.id], "replace_proposals": true});
    let both = propose(&bench, told);
    assert_eq!(look(&bench, id_of(&alone))["proposal"]["status"], "superseded");
    // Nor is the other way round: a text for one of them would take the place of that for both.
    assert_eq!(ask("first", json!({"topic_id": one.id})).refusal(), (409, "already_proposed"));
    bench.send(&bench.approval(&both)).ok();
    server.stop();
}

#[test]
fn a_topic_that_closes_meanwhile_is_not_settled_again() {
    let bench = site();
    let server = bench.serve();
    let (one, two) = topics(&bench);
    let shown = propose(&bench, json!({"topic_id": one.id, "topic_ids": [two.id]}));
    let discard = format!("/api/topics/{}/discard", two.id);
    bench.post(&discard, json!({"reason": "No."})).ok();
    assert_eq!(look(&bench, id_of(&shown))["approvable"]["code"], "topic_closed");
    let refused = bench.send(&bench.approval(&shown));
    assert_eq!(refused.refusal(), (409, "topic_closed"));
    assert!(refused.body["error"]["message"].as_str().unwrap().contains(&two.id));
    assert_eq!((bench.commits().len(), status(&bench, &one).as_str()), (1, "open"));
    bench.post(&format!("/api/topics/{}/reopen", two.id), json!({})).ok();
    // It is edited, merged and done again with all of its Topics.
    commit(&bench, "guide.md", "# The Guide\n\nThe first line.\n\nThe second line.\n");
    let seen = look(&bench, id_of(&shown));
    let merged = look(&bench, seen["proposal"]["superseded_by"].as_str().unwrap());
    let text = merged["text"].as_str().unwrap().replace("best", "nice");
    let body = json!({"text": text, "text_digest": merged["proposal"]["text_digest"]});
    let edited = decide(&bench, id_of(&merged), "edit", body).ok();
    assert_eq!(edited["topic_ids"], json!([one.id, two.id]));
    let again = reworked(&bench, edited["id"].as_str().unwrap(), "Once more.");
    assert_eq!(again["proposal"]["topic_ids"], json!([one.id, two.id]));
    bench.send(&bench.approval(&again)).ok();
    assert_eq!(
        (status(&bench, &one), status(&bench, &two)),
        ("incorporated".to_owned(), "incorporated".to_owned())
    );
    server.stop();
}

#[test]
fn what_was_incorporated_can_be_reopened_and_settled_again() {
    let bench = site();
    let server = bench.serve();
    let (one, _) = topics(&bench);
    let first = bench.proposal("first", &one);
    bench.send(&bench.approval(&first)).ok();
    let reopen = format!("/api/topics/{}/reopen", one.id);
    let opened = bench.post(&reopen, json!({"reason": "It is not."})).ok();
    assert_eq!((&opened["status"], &opened["closed_at"]), (&json!("open"), &Value::Null));
    assert_eq!(bench.post(&reopen, json!({})).refusal(), (409, "topic_not_closed"));
    assert_eq!(bench.send(&bench.approval(&first)).refusal(), (409, "already_decided"));
    let shown = bench.get(&format!("/api/topics/{}", one.id)).ok();
    assert_eq!(shown["messages"][1]["body"], "It is not.");
    let second = propose(&bench, json!({"topic_id": one.id}));
    assert_eq!(second["proposal"]["revision_number"], 2);
    bench.send(&bench.approval(&second)).ok();
    assert_eq!((status(&bench, &one), bench.commits().len()), ("incorporated".to_owned(), 3));
    server.stop();
    // Every change of the Topic is kept for ever, with who made it.
    let database = rusqlite::Connection::open(bench.data.join("wiki.db")).unwrap();
    let sql = "SELECT COUNT(*) FROM events WHERE kind = 'topic_changed' AND audit = 1
        AND actor LIKE 'person:%' AND subject = ?";
    let count: i64 =
        database.query_row(sql, [format!("topic:{}", one.id)], |row| row.get(0)).unwrap();
    assert_eq!(count, 3);
}

/// Fails with `WB_WITHOUT=approval_recovery`.
#[test]
fn g19_after_a_crash_all_of_them_are_settled_or_none() {
    for (point, is_committed) in [
        ("approve_built", false),
        ("approve_prepared", true),
        ("approve_ref", true),
        ("approve_committed", true),
    ] {
        let bench = site();
        let mut server = bench.serve_with(&[("WB_CRASH_AT", point)]);
        let (one, two) = topics(&bench);
        let shown = propose(&bench, json!({"topic_ids": [one.id, two.id]}));
        // Another text for one of them waits too: it is decided with the approval, or stays.
        let replaces = json!({"kind": "first", "topic_id": two.id, "replace_proposals": true});
        assert!(bench.approval(&shown).try_socket(&bench.socket()).is_none(), "{point}");
        assert!(!server.wait().0.success(), "{point}");
        drop(server);
        let server = bench.serve();
        let both = (status(&bench, &one), status(&bench, &two));
        let now = if is_committed { "incorporated" } else { "open" };
        assert_eq!(both, (now.to_owned(), now.to_owned()), "{point}");
        assert_eq!(bench.commits().len(), if is_committed { 2 } else { 1 }, "{point}");
        assert_eq!(bench.status(), "", "{point}");
        if is_committed {
            assert_eq!(bench.proposal_status(&shown), "approved", "{point}");
            let late = bench.post("/api/agent/jobs", replaces);
            assert_eq!(late.refusal(), (409, "topic_closed"), "{point}");
        } else {
            bench.send(&bench.approval(&shown)).ok();
            assert_eq!(status(&bench, &two), "incorporated", "{point}");
        }
        server.stop();
    }
}
