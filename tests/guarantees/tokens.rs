//! G4: a write of a job that has ended is refused and changes nothing.

use serde_json::{Value, json};
use wiki_browser::http::{ROUTES, Verb, Who};

use crate::support::{Bench, Call, Topic};

const FIELDS: &str = "timeout = \"20s\", lane = \"source_path\"";

/// Returns a well-formed body for each route on which a job may write.
fn body(path: &str, base: &str) -> Value {
    match path {
        "/api/topics/{id}/messages" => json!({"body": "late"}),
        "/api/topics/{id}/proposals" => json!({"base_source_sha": base, "text": "late\n"}),
        "/api/agent/jobs/{id}/result" => json!({"result": {"late": true}}),
        "/api/perspectives" => json!({}),
        other => panic!("{other} takes the token of a job and is not tested"),
    }
}

/// Sends every write that a job can make with its token; returns what was answered.
fn write_all(bench: &Bench, topic: &Topic, job: &str, token: &str) -> Vec<(String, u16, String)> {
    let base = bench.git(&["rev-parse", &format!("HEAD:{}", topic.path)]);
    let writes = ROUTES
        .iter()
        .filter(|it| it.verb == Verb::Post && matches!(it.who, Who::Job | Who::WriteOrJob));
    let sent = writes.map(|route| {
        let id = if route.path.contains("/agent/jobs/") { job } else { &topic.id };
        let target = route.path.replace("{id}", id);
        let answer = bench.send(&Call::post(&target, body(route.path, &base)).token(token));
        (route.path.to_owned(), answer.status, answer.code().to_owned())
    });
    sent.collect()
}

/// Returns what a late write could change.
fn state(bench: &Bench, topic: &Topic) -> Value {
    bench.get(&format!("/api/topics/{}", topic.id)).ok()
}

/// The edge refuses the token by the row; `WB_WITHOUT=fence` leaves that, see the test below.
#[test]
fn g04_every_write_with_a_stale_token_is_refused_and_changes_nothing() {
    let bench = Bench::new();
    let leak = "echo \"$WB_TOKEN\" > \"$OUT/token.$job\"; exit ";
    for (name, code) in [("well", "0"), ("badly", "3")] {
        let fields = format!("{FIELDS}, produces = \"proposal\"");
        bench.topic_kind(name, &fields, &format!("{leak}{code}"));
    }
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "Say it better.");
    for kind in ["well", "badly"] {
        let job = bench.job_on(kind, &topic);
        bench.ended(&job);
        let token = bench.left(&format!("token.{job}"));
        let before = state(&bench, &topic);
        let sent = write_all(&bench, &topic, &job, &token);
        assert_eq!(sent.len(), 4, "{sent:?}");
        for (path, status, code) in sent {
            assert_eq!((status, code.as_str()), (409, "job_ended"), "{path}");
        }
        for target in ["/api/me", "/api/agent/topic?id=x", "/api/sources"] {
            let answer = bench.send(&Call::get(target).token(&token));
            assert_eq!(answer.refusal(), (409, "job_ended"), "{target}");
        }
        assert_eq!(before, state(&bench, &topic));
    }
    server.stop();
}

/// From the decision to cancel on, the agent still lives and its token does not count any more.
#[test]
fn g04_a_job_that_is_being_cancelled_writes_nothing_more() {
    let bench = Bench::new();
    bench.limits("jobs = 1, grace = \"3s\"");
    let agent = "trap '' INT TERM; echo \"$WB_TOKEN\" > \"$OUT/token\"\n\
        while :; do sleep 0.1; done";
    bench.topic_kind("deaf", &format!("{FIELDS}, produces = \"proposal\""), agent);
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "Say it better.");
    let job = bench.job_on("deaf", &topic);
    let token = bench.wait_left("token");
    bench.post(&format!("/api/agent/jobs/{job}/cancel"), json!({})).ok();
    let before = state(&bench, &topic);
    for (path, status, code) in write_all(&bench, &topic, &job, &token) {
        assert_eq!((status, code.as_str()), (409, "job_ended"), "{path}");
    }
    let after = state(&bench, &topic);
    assert_eq!(after["jobs"][0]["status"], "running", "the agent was to live through this");
    assert_eq!(
        (&before["messages"], &before["proposals"]),
        (&after["messages"], &after["proposals"])
    );
    assert_eq!(bench.ended(&job)["status"], "cancelled");
    server.stop();
}
