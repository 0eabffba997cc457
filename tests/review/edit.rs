//! A person edits a proposal, then approves it.

use serde_json::{Value, json};

use super::{approval_by, bench, commit, decide, hint, id_of, look, person, propose};
use crate::support::{Bench, Call};

fn edit(bench: &Bench, shown: &Value, text: &str) -> Value {
    let digest = &shown["proposal"]["text_digest"];
    let made = decide(bench, id_of(shown), "edit", json!({"text": text, "text_digest": digest}));
    look(bench, made.ok()["id"].as_str().unwrap())
}

#[test]
fn the_agent_stays_the_author_and_the_person_becomes_the_co_author() {
    let bench = bench();
    let server = bench.serve();
    let bo = person(&bench, "bo", "member");
    let aside = bench.topic("guide.md", "The second line.", "And this?");
    let (topic, shown) = propose(&bench);
    let text = "# Guide\n\nThe very best line.\n\nA line before it.\n\nThe second line.\n";
    let body = json!({"text": text, "text_digest": shown["proposal"]["text_digest"]});
    let path = format!("/api/proposals/{}/edit", id_of(&shown));
    let call = Call::post(&path, body).token(&bo).header("Idempotency-Key", "e");
    let made = bench.send(&call).ok();
    assert_eq!(bench.send(&call).ok()["id"], made["id"]);
    assert_eq!((&made["revision_number"], &made["origin"]["how"]), (&json!(2), &json!("edited")));
    assert_eq!(made["origin"]["made_by_name"], "bo");
    assert_eq!(made["job_id"], shown["proposal"]["job_id"]);
    // What was edited meanwhile is not approved by who saw the earlier text.
    let refused = bench.send(&bench.approval(&shown));
    assert_eq!(refused.refusal(), (409, "superseded"));
    assert!(hint(&refused).contains(made["id"].as_str().unwrap()), "{refused:?}");
    let edited = look(&bench, made["id"].as_str().unwrap());
    // What the agent said of its own text is not said of this one.
    assert_eq!(edited["subject"], "Update Guide");
    assert_ne!(shown["subject"], "Update Guide");
    assert_eq!(edited["editors"], json!(["bo <bo@example.org>"]));
    assert_eq!(edited["fate"][0]["topic_id"], aside.id);
    assert_eq!(edited["fate"][0]["after"]["state"], "shifted");
    bench.send(&bench.approval(&edited)).ok();
    assert_eq!(bench.read("guide.md"), text);
    let said = bench.git(&["log", "-1", "--format=%an%n%B"]);
    let want = format!(
        "Co-authored-by: bo <bo@example.org>\nApproved-by: ada <ada@users.invalid>\nTopic: {}",
        topic.id
    );
    assert!(said.starts_with("Test Agent\n") && said.contains(&want), "{said}");
    let trailers = bench.git(&["log", "-1", "--format=%(trailers:only)"]);
    assert_eq!(trailers.lines().count(), 3, "{trailers}");
    server.stop();
}

#[test]
fn an_edit_that_is_merged_or_edited_again_keeps_who_made_it() {
    let bench = bench();
    let server = bench.serve();
    let bo = person(&bench, "bo", "member");
    let (_, shown) = propose(&bench);
    let once = edit(&bench, &shown, "# Guide\n\nThe nice line.\n\nThe second line.\n");
    commit(&bench, "guide.md", "# Guide\n\nThe first line.\n\nThe second line, by hand.\n");
    let seen = look(&bench, id_of(&once));
    let merged = look(&bench, seen["proposal"]["superseded_by"].as_str().unwrap());
    assert_eq!(merged["editors"], json!(["ada <ada@users.invalid>"]));
    let text = merged["text"].as_str().unwrap().replace("nice", "nicest");
    let body = json!({"text": text, "text_digest": merged["proposal"]["text_digest"]});
    let call = Call::post(&format!("/api/proposals/{}/edit", id_of(&merged)), body);
    let made = bench.send(&call.token(&bo)).ok();
    let twice = look(&bench, made["id"].as_str().unwrap());
    assert_eq!(twice["editors"], json!(["ada <ada@users.invalid>", "bo <bo@example.org>"]));
    bench.send(&approval_by(&twice, &bo)).ok();
    let said = bench.git(&["log", "-1", "--format=%B"]);
    let want = "Co-authored-by: ada <ada@users.invalid>\n\
                Co-authored-by: bo <bo@example.org>\nApproved-by: bo <bo@";
    assert!(said.contains(want), "{said}");
    server.stop();
}

#[test]
fn what_cannot_be_edited_is_refused() {
    let bench = bench();
    let server = bench.serve();
    let viewer = person(&bench, "vi", "viewer");
    let (_, shown) = propose(&bench);
    let (id, digest) = (id_of(&shown), &shown["proposal"]["text_digest"]);
    let base = "# Guide\n\nThe first line.\n\nThe second line.\n";
    for (text, digest, want) in [
        (json!("x\n"), &json!("0000"), (409, "text_changed")),
        (shown["text"].clone(), digest, (400, "nothing_changed")),
        (json!(base), digest, (400, "nothing_changed")),
        (json!(" \n"), digest, (400, "empty_text")),
        (json!("a\0b"), digest, (400, "not_text")),
        (json!("x".repeat(8 * 1024 * 1024 + 1)), digest, (413, "too_large")),
    ] {
        let body = json!({"text": text, "text_digest": digest});
        assert_eq!(decide(&bench, id, "edit", body).refusal(), want);
    }
    let body = json!({"text": "x\n", "text_digest": digest});
    for verb in ["edit", "rework", "approve"] {
        let call = Call::post(&format!("/api/proposals/{id}/{verb}"), body.clone());
        assert_eq!(bench.send(&call.token(&viewer)).status, 403);
    }
    let answer = bench.send(&approval_by(&shown, &viewer));
    assert_eq!(answer.status, 403);
    assert!(!hint(&answer).is_empty(), "{answer:?}");
    assert_eq!(look(&bench, id)["revisions"].as_array().unwrap().len(), 1);
    server.stop();
}
