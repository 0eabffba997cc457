//! Rejected or sent back: the reviewer's comment reaches the next agent.

use serde_json::{Value, json};

use super::{bench, decide, declare, id_of, look, propose, reworked};
use crate::support::Call;

#[test]
fn a_rework_gets_the_earlier_text_and_the_comment_and_takes_its_place() {
    let bench = bench();
    let server = bench.serve();
    let (topic, shown) = propose(&bench);
    let first = id_of(&shown);
    let comment = "Finer, please.\n$(touch \"$OUT/ran\")\nKeep the rest.";
    let next = reworked(&bench, first, comment);
    let proposal = &next["proposal"];
    assert_eq!((&proposal["revision_number"], &proposal["status"]), (&json!(2), &json!("open")));
    assert_eq!(proposal["origin"]["how"], "reworked");
    assert_eq!(proposal["origin"]["from_id"], first);
    assert_eq!(proposal["origin"]["made_by_name"], "ada");
    assert!(next["text"].as_str().unwrap().contains("The finest line."));
    // The comment stands in the thread, beside the proposal that it is about.
    let thread = bench.get(&format!("/api/topics/{}", topic.id)).ok();
    let said = &thread["messages"][1];
    assert_eq!((&said["body"], &said["proposal_id"]), (&json!(comment), &json!(first)));
    // In the prompt, quoted, and by the verbs.
    let prompt = bench.left("prompt");
    assert!(prompt.contains("> Finer, please.\n> $(touch \"$OUT/ran\")\n> Keep"), "{prompt}");
    assert!(prompt.contains(&format!("Earlier proposal: {first}\n")), "{prompt}");
    let told: Value = serde_json::from_str(&bench.left("topic.json")).unwrap();
    assert_eq!(told["rework"]["proposal_id"], first);
    assert_eq!(told["rework"]["comment"], comment);
    let earlier: Value = serde_json::from_str(&bench.left("earlier.json")).unwrap();
    assert_eq!((&earlier["text"], &earlier["comment"]), (&shown["text"], &json!(comment)));
    assert_eq!(earlier["diff"], shown["diff"]);
    let alone = std::fs::read_to_string(bench.out.join("earlier.md")).unwrap();
    assert_eq!(json!(alone), shown["text"]);
    // The first one is superseded, and says by which.
    let now = look(&bench, first);
    assert_eq!(now["proposal"]["status"], "superseded");
    assert_eq!(now["proposal"]["superseded_by"], proposal["id"]);
    let refused = bench.send(&bench.approval(&shown));
    assert_eq!(refused.refusal(), (409, "superseded"));
    assert!(super::hint(&refused).contains(id_of(&next)), "{refused:?}");
    for (verb, body) in [
        ("reject", json!({"reason": "no"})),
        ("rework", json!({"reason": "no"})),
        ("edit", json!({"text": "x\n", "text_digest": shown["proposal"]["text_digest"]})),
    ] {
        assert_eq!(decide(&bench, first, verb, body).refusal(), (409, "superseded"), "{verb}");
    }
    bench.send(&bench.approval(&next)).ok();
    assert!(bench.read("guide.md").contains("The finest line."));
    server.stop();
}

#[test]
fn revisions_are_compared_with_each_other() {
    let bench = bench();
    let server = bench.serve();
    let (_, shown) = propose(&bench);
    let next = reworked(&bench, id_of(&shown), "Finer.");
    let id = id_of(&next);
    let want = "-The best line.\n+The finest line.\n";
    for against in ["1", id_of(&shown)] {
        let seen = bench.get(&format!("/api/proposals/{id}?against={against}")).ok();
        assert!(seen["diff"].as_str().unwrap().contains(want), "{seen:#}");
        assert_eq!(seen["against"]["revision_number"], 1);
        let (code, out, err) = bench.cli(&["proposal", "diff", id, "--against", against]);
        assert_eq!((code, json!(out)), (0, seen["diff"].clone()), "{err}");
    }
    assert!(next["diff"].as_str().unwrap().contains("-The first line.\n+The finest line.\n"));
    let revisions: Vec<_> = next["revisions"].as_array().unwrap().iter().collect();
    assert_eq!(revisions.len(), 2);
    let get = |against: &str| bench.get(&format!("/api/proposals/{id}?against={against}"));
    assert_eq!(get("7").refusal(), (404, "not_found"));
    assert_eq!(get("x").status, 400);
    let notes = bench.topic("notes.md", "Keep this.", "More.");
    bench.write("notes.md", "# Notes\n\nThe first line\nKeep this.\n");
    bench.git(&["commit", "-qam", "a line to change"]);
    let other = bench.proposal("better", &notes);
    assert_eq!(get(id_of(&other)).refusal(), (400, "bad_parameter"));
    server.stop();
}

#[test]
fn a_reason_reaches_the_next_agent() {
    let bench = bench();
    let server = bench.serve();
    let (topic, shown) = propose(&bench);
    decide(&bench, id_of(&shown), "reject", json!({"reason": "Too proud."})).ok();
    let again = decide(&bench, id_of(&shown), "rework", json!({"reason": "x"}));
    assert_eq!(again.refusal(), (409, "already_decided"));
    let next = bench.proposal("better", &topic);
    let told: Value = serde_json::from_str(&bench.left("topic.json")).unwrap();
    assert_eq!(told["rework"], Value::Null);
    let earlier = &told["proposals"][0];
    assert_eq!(
        (&earlier["status"], &earlier["reason"]),
        (&json!("rejected"), &json!("Too proud."))
    );
    assert_eq!(
        (&earlier["id"], &earlier["decided_by_name"]),
        (&json!(id_of(&shown)), &json!("ada"))
    );
    assert_eq!(next["proposal"]["origin"], Value::Null);
    server.stop();
}

#[test]
fn while_a_rework_is_under_way_the_earlier_text_is_not_approved() {
    let bench = bench();
    let server = bench.serve();
    declare(&bench, "slow", "touch \"$OUT/began\"; while [ ! -e \"$OUT/go\" ]; do :; done; exit 3");
    server.stop();
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "Say it better.");
    // The kind changes after the proposal was made: the rework waits until it is told to go on.
    let shown = bench.proposal("better", &topic);
    let id = id_of(&shown);
    let slow = bench.base.join("agents/slow.sh");
    std::fs::rename(slow, bench.base.join("agents/better.sh")).unwrap();
    let key = |call: Call| call.header("Idempotency-Key", "once").token(&bench.operator());
    let ask = key(Call::post(&format!("/api/proposals/{id}/rework"), json!({"reason": "Finer."})));
    let asked = bench.send(&ask).ok();
    let job = asked["job_id"].as_str().unwrap();
    assert_eq!(bench.send(&ask).ok()["job_id"], job, "the same request again is the same rework");
    let refused = bench.send(&bench.approval(&shown));
    assert_eq!(refused.refusal(), (409, "rework_running"));
    assert!(super::hint(&refused).contains(job), "{refused:?}");
    let seen = look(&bench, id);
    assert_eq!(seen["approvable"]["code"], "rework_running");
    assert_eq!(seen["rework_job_id"], job);
    let edit = json!({"text": "x\n", "text_digest": shown["proposal"]["text_digest"]});
    for (verb, body) in [("rework", json!({"reason": "And so on."})), ("edit", edit)] {
        assert_eq!(decide(&bench, id, verb, body).refusal(), (409, "rework_running"), "{verb}");
    }
    std::fs::write(bench.out.join("go"), "").unwrap();
    assert_eq!(bench.ended(job)["status"], "failed");
    // It came to nothing: the earlier text stands, and a repetition is a rework again.
    let seen = look(&bench, id);
    assert_eq!((&seen["approvable"]["ok"], &seen["rework_job_id"]), (&json!(true), &Value::Null));
    assert_eq!(seen["failed_rework"]["job_id"], job);
    assert_eq!(seen["failed_rework"]["reason"], "exit_status");
    let page = bench.get(&format!("/proposals/{id}"));
    assert!(page.body.as_str().unwrap().contains("No revision came"), "{page:?}");
    std::fs::write(bench.base.join("agents/better.sh"), super::BEGIN.to_owned() + super::BETTER)
        .unwrap();
    let retried = bench.post(&format!("/api/agent/jobs/{job}/retry"), json!({})).ok();
    let ended = bench.ended(retried["job_id"].as_str().unwrap());
    let next = look(&bench, ended["proposal_id"].as_str().unwrap());
    assert_eq!(next["proposal"]["origin"]["from_id"], id);
    let seen = look(&bench, id);
    assert_eq!(seen["proposal"]["status"], "superseded");
    assert_eq!(seen["failed_rework"], Value::Null);
    server.stop();
}

#[test]
fn a_job_reads_only_proposals_of_its_own_topics() {
    let bench = bench();
    let agent = "\"$wb_agent\" get-proposal --id \"$(cat \"$OUT/other\")\" 2> \"$OUT/said\"
        echo $? > \"$OUT/code\"; exit 1";
    declare(&bench, "curious", agent);
    let server = bench.serve();
    let (_, shown) = propose(&bench);
    std::fs::write(bench.out.join("other"), id_of(&shown)).unwrap();
    let topic = bench.topic("notes.md", "Keep this.", "Look around.");
    bench.ended(&bench.job_on("curious", &topic));
    assert_eq!(bench.left("code"), "3", "{}", bench.left("said"));
    server.stop();
}
