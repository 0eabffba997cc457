//! Expiry on time, also for times while no server was running.

use serde_json::json;

use super::{ask, show, told};
use crate::support::{Bench, until};

#[test]
fn an_approval_expires_by_the_clock_and_then_nobody_decides_it() {
    let bench = Bench::new();
    let _server = bench.serve();
    let kept = ask(&bench, json!({"channel": "aws", "title": "Later?", "expires": "7d"}));
    let body = json!({"channel": "aws", "title": "Now?", "expires": "300ms"});
    let id = ask(&bench, body);
    let waited = bench.get(&format!("/api/approvals/{id}/await?timeout=20")).ok();
    assert_eq!(waited["state"], "expired");
    let shown = show(&bench, &id);
    assert_eq!((&shown["decided_by"], &shown["version"]), (&json!("system"), &json!(2)));
    let late = bench.post(&format!("/api/approvals/{id}/approve"), json!({"version": 1}));
    assert_eq!(late.refusal(), (409, "approval_decided"));
    assert_eq!(show(&bench, &kept)["state"], "pending");
    assert_eq!(
        told(&bench),
        [json!({
            "id": id, "channel": "aws", "sort": "request", "job_id": null, "state": "expired",
        })]
    );
}

#[test]
fn what_ran_out_while_no_server_ran_has_expired_at_the_next_start() {
    let bench = Bench::new();
    let server = bench.serve();
    let id = ask(&bench, json!({"channel": "aws", "title": "Soon?", "expires": "1h"}));
    server.stop();
    bench.sql("UPDATE approvals SET expires_ms = created_ms + 1");
    let _server = bench.serve();
    until("it has expired", || show(&bench, &id)["state"] == "expired");
}
