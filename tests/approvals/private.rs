//! A person's private approvals are hidden from everybody else: in lists, counts, decisions and
//! events.

use serde_json::json;

use super::{ask, show};
use crate::support::{Bench, Call};

#[test]
fn a_private_approval_is_found_by_its_person_only() {
    let bench = Bench::new();
    let server = bench.serve();
    let (hidden, open) = (
        ask(&bench, json!({"channel": "aws", "title": "For one?"})),
        ask(&bench, json!({"channel": "aws", "title": "For all?"})),
    );
    bench.post("/api/persons", json!({"name": "bo", "role": "admin"})).ok();
    let token = bench.json(&[
        "token", "create", "all", "--person", "bo", "--scope", "read", "--scope", "write",
        "--scope", "decide",
    ]);
    let token = token["token"].as_str().unwrap().to_owned();
    server.stop();
    bench.sql(&format!(
        "UPDATE approvals SET private_to = substr(requester, 8) WHERE id = '{hidden}'"
    ));
    let server = bench.serve();
    let as_other = |call: Call| call.token(&token).tcp(server.address());
    for target in ["", "/await?timeout=0"] {
        let answer = as_other(Call::get(&format!("/api/approvals/{hidden}{target}")));
        assert_eq!(answer.status, 404, "{answer:?}");
    }
    for verb in ["approve", "reject", "withdraw"] {
        let target = format!("/api/approvals/{hidden}/{verb}");
        let answer = as_other(Call::post(&target, json!({"version": 1})));
        assert_eq!(answer.status, 404, "{verb} {answer:?}");
    }
    for target in ["/api/approvals", "/api/approvals?state=pending", "/api/decisions"] {
        let listed = as_other(Call::get(target)).ok();
        let items = listed["items"].as_array().unwrap();
        assert_eq!(items.len(), 1, "{target} {listed:#}");
        assert_eq!(items[0]["id"], open);
    }
    assert_eq!(show(&bench, &hidden)["title"], "For one?");
    assert_eq!(bench.get("/api/decisions").ok()["items"].as_array().unwrap().len(), 2);
    bench.post(&format!("/api/approvals/{hidden}/approve"), json!({"version": 1})).ok();
    let database = rusqlite::Connection::open(bench.data.join("wiki.db")).unwrap();
    let scope: String = database
        .query_row("SELECT scope FROM events WHERE kind = 'approval_decided'", [], |row| row.get(0))
        .unwrap();
    assert!(scope.starts_with("person:"), "{scope}");
}

#[test]
fn a_decided_approval_is_changed_and_removed_by_nobody() {
    let bench = Bench::new();
    let server = bench.serve();
    let id = ask(&bench, json!({"channel": "aws", "title": "Once?"}));
    bench.post(&format!("/api/approvals/{id}/approve"), json!({"version": 1})).ok();
    server.stop();
    let database = rusqlite::Connection::open(bench.data.join("wiki.db")).unwrap();
    for statement in [
        "UPDATE approvals SET state = 'rejected'",
        "UPDATE approvals SET note = 'x'",
        "DELETE FROM approvals",
        "UPDATE approval_events SET actor = 'system'",
        "DELETE FROM approval_events",
    ] {
        assert!(database.execute(statement, []).is_err(), "{statement}");
    }
    assert_eq!(database.execute("UPDATE approvals SET used_ms = 1", []).unwrap(), 1);
}
