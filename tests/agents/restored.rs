//! What an agent hears after a restore.

use serde_json::json;

use super::{ECHO, ask, control, declare, delivery, send, wait_state};
use crate::support::{Bench, until};

#[test]
fn what_an_agent_was_given_since_the_backup_is_not_given_again() {
    let bench = Bench::new();
    declare(&bench, "robbo", "autostart = \"never\"", ECHO);
    declare(&bench, "tina", "autostart = \"always\"", ECHO);
    let server = bench.serve();
    until("the agent is known", || bench.get("/api/agents/robbo").status == 200);
    let message = send(&bench, "robbo", json!("invoice"));
    wait_state(&bench, "tina", "idle");
    let backup = bench.json(&["backup"])["path"].as_str().unwrap().to_owned();
    assert_eq!(delivery(&bench, &message).0, "queued");
    control(&bench, "robbo", "start").ok();
    until("it is confirmed", || delivery(&bench, &message).0 == "confirmed");
    control(&bench, "robbo", "stop").ok();
    control(&bench, "tina", "stop").ok();
    wait_state(&bench, "robbo", "stopped");
    wait_state(&bench, "tina", "stopped");
    server.stop();
    let report = bench.json(&["restore", &backup]);
    assert_eq!(report["deliveries_taken"], 1, "{report:#}");
    assert_eq!(report["agents_stopped"], 1, "{report:#}");
    let server = bench.serve();
    assert_eq!(delivery(&bench, &message), (json!("confirmed"), json!("turn")));
    control(&bench, "robbo", "start").ok();
    ask(&bench, "robbo", json!("another"));
    assert_eq!(bench.left("heard"), "invoice\nanother");
    wait_state(&bench, "tina", "stopped");
    server.stop();
}
