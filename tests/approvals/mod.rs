//! Approvals: requesting, deciding once, waiting, expiring, and permissions.

mod agents;
mod deciding;
mod edits;
mod expiry;
#[cfg(feature = "faults")]
mod lost_legs;
pub(crate) mod parking;
mod permissions;
mod private;

use serde_json::{Value, json};

use crate::support::Bench;

/// The payload of most questions, with its schema.
fn question() -> Value {
    json!({
        "channel": "aws", "title": "Create billing-prod?",
        "payload": {"team": "billing", "budget": 300},
        "schema": {
            "type": "object", "required": ["team"],
            "properties": {
                "team": {"enum": ["billing", "search"]},
                "budget": {"type": "integer", "maximum": 500},
            },
        },
    })
}

/// Asks as the operator; returns the id.
#[track_caller]
fn ask(bench: &Bench, body: Value) -> String {
    let made = bench.post("/api/approvals", body).ok();
    assert_eq!(made["state"], "pending");
    made["id"].as_str().unwrap().to_owned()
}

#[track_caller]
fn show(bench: &Bench, id: &str) -> Value {
    bench.get(&format!("/api/approvals/{id}")).ok()
}

/// Returns the decisions that the log of events tells of.
fn told(bench: &Bench) -> Vec<Value> {
    let database = rusqlite::Connection::open(bench.data.join("wiki.db")).unwrap();
    let mut statement = database
        .prepare("SELECT data_json FROM events WHERE kind = 'approval_decided' ORDER BY id")
        .unwrap();
    let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    rows.map(|it| serde_json::from_str(&it.unwrap()).unwrap()).collect()
}
