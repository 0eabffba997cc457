//! Jobs whose result is no longer needed are cancelled together with the decision.

use serde_json::json;

use super::{BEGIN, BETTER, bench, decide, declare, id_of, propose};
use crate::support::Bench;

/// An agent that says that it has begun, and waits to be told to go on.
const WAITS: &str =
    "echo began > \"$OUT/began.$topic\"; while [ ! -e \"$OUT/go\" ]; do sleep 0.02; done";

fn lives(bench: &Bench, job: &str) -> String {
    bench.show(job)["status"].as_str().unwrap().to_owned()
}

/// Fails with `WB_WITHOUT=called_off`.
#[test]
fn a_rework_of_a_rejected_proposal_is_cancelled() {
    let bench = bench();
    let server = bench.serve();
    let (_, shown) = propose(&bench);
    let agent = bench.base.join("agents/better.sh");
    std::fs::write(&agent, format!("{BEGIN}{WAITS}\n")).unwrap();
    let asked = decide(&bench, id_of(&shown), "rework", json!({"reason": "Finer."})).ok();
    let job = asked["job_id"].as_str().unwrap();
    let topic = shown["topic"]["id"].as_str().unwrap();
    bench.wait_left(&format!("began.{topic}"));
    let no = decide(&bench, id_of(&shown), "reject", json!({"reason": "Not at all."})).ok();
    assert_eq!((&no["status"], &no["cancelled_job_id"]), (&json!("rejected"), &json!(job)));
    let ended = bench.ended(job);
    assert_eq!(
        (&ended["status"], &ended["message"]),
        (&json!("cancelled"), &json!("Cancelled by ada."))
    );
    // What is rejected without a rework cancels nothing.
    std::fs::write(&agent, format!("{BEGIN}{BETTER}\n")).unwrap();
    let (_, shown) = propose(&bench);
    let no = decide(&bench, id_of(&shown), "reject", json!({"reason": "No."})).ok();
    assert_eq!(no["cancelled_job_id"], json!(null));
    server.stop();
}

#[test]
fn what_would_answer_a_discarded_topic_is_cancelled_and_what_reads_it_goes_on() {
    let bench = bench();
    declare(&bench, "waits", WAITS);
    bench.topic_kind("reads", "timeout = \"20s\", produces = \"result\"", "");
    let reads = "echo '{}' | \"$wb_agent\" finish --result -";
    std::fs::write(bench.base.join("agents/reads.sh"), format!("{BEGIN}{WAITS}\n{reads}\n"))
        .unwrap();
    let server = bench.serve();
    let one = bench.topic("guide.md", "The first line.", "Say it better.");
    let two = bench.topic("guide.md", "The second line.", "And this.");
    let three = bench.topic("guide.md", "# Guide", "Another title?");
    let reading = bench.job("reads", json!({"topic_id": one.id}));
    let both = bench.job("waits", json!({"topic_ids": [two.id, one.id]}));
    bench.wait_left(&format!("began.{}", two.id));
    bench.wait_left(&format!("began.{}", one.id));
    // They wait for the lane of their Source.
    let own = bench.job("waits", json!({"topic_id": one.id}));
    let other = bench.job("waits", json!({"topic_id": three.id}));
    let gone = bench.post(&format!("/api/topics/{}/discard", one.id), json!({})).ok();
    assert_eq!((&gone["id"], &gone["status"]), (&json!(one.id), &json!("discarded")));
    assert_eq!(gone["cancelled_jobs"], json!([own, both]));
    assert_eq!(lives(&bench, &own), "cancelled");
    assert_eq!(bench.ended(&both)["status"], "cancelled");
    std::fs::write(bench.out.join("go"), "").unwrap();
    assert_eq!(bench.ended(&reading)["status"], "succeeded");
    // It was not for that Topic: it came to its own end.
    assert_eq!(bench.ended(&other)["reason"], "no_result");
    server.stop();
}

#[test]
fn whoever_asks_for_a_job_is_told_what_else_is_open() {
    let bench = bench();
    let server = bench.serve();
    let (one, shown) = propose(&bench);
    let two = bench.topic("guide.md", "The second line.", "And this.");
    bench.topic("notes.md", "Keep this.", "Why?");
    let ask = |topic: &str| {
        let body = json!({"kind": "better", "topic_id": topic});
        bench.post("/api/agent/jobs", body).ok()["also_open"].clone()
    };
    let open = ask(&two.id);
    let title = json!("Say it better.");
    assert_eq!(open["topics"], json!([{"id": one.id, "title": title}]));
    assert_eq!(
        open["proposals"],
        json!([{"id": id_of(&shown), "topic_id": one.id, "topic_title": title}])
    );
    assert_eq!((&open["topic_count"], &open["proposal_count"]), (&json!(1), &json!(1)));
    let args = ["job", "create", "better", &format!("topic_id={}", two.id)];
    let (code, _, err) = bench.cli(&args);
    assert_eq!(code, 0);
    assert!(err.contains("open on this source: 1 other topic, 1 other proposal"), "{err}");
    server.stop();
}

#[test]
fn what_works_for_a_settled_topic_is_cancelled() {
    let bench = bench();
    declare(&bench, "waits", WAITS);
    let server = bench.serve();
    let (topic, shown) = propose(&bench);
    let running = bench.job("waits", json!({"topic_id": topic.id}));
    bench.wait_left(&format!("began.{}", topic.id));
    let queued = bench.job("waits", json!({"topic_id": topic.id}));
    let done = bench.send(&bench.approval(&shown)).ok();
    assert_eq!(done["cancelled_jobs"], json!([queued, running]));
    assert_eq!(bench.ended(&running)["status"], "cancelled");
    assert_eq!(lives(&bench, &queued), "cancelled");
    server.stop();
}
