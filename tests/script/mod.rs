//! The script of a running server: its functions, its schedules, and its replacement.

mod callbacks;
mod checks;
mod crash;
mod documents;
mod inboxes;
mod lanes;
mod living;
mod names;
mod reload;
mod returned;
mod schedules;
mod sources;
mod stuck;

use serde_json::Value;

use crate::support::{Bench, wait_for};

/// Returns the jobs of a kind, newest first.
#[track_caller]
pub(crate) fn jobs(bench: &Bench, kind: &str) -> Vec<Value> {
    let page = bench.get(&format!("/api/agent/jobs?kind={kind}&limit=100")).ok();
    page["items"].as_array().unwrap().clone()
}

/// Waits until there are so many jobs of a kind, and all have ended.
#[track_caller]
pub(crate) fn all_ended(bench: &Bench, kind: &str, count: usize) -> Vec<Value> {
    wait_for(&format!("{count} jobs of kind {kind} have ended"), || {
        let jobs = jobs(bench, kind);
        let is_over = |it: &Value| !["queued", "running"].contains(&it["status"].as_str().unwrap());
        (jobs.len() == count && jobs.iter().all(is_over)).then_some(jobs)
    })
}

/// Returns kind and data of all events in the database of a server that has stopped.
pub(crate) fn events(bench: &Bench, kind: &str) -> Vec<Value> {
    let connection = rusqlite::Connection::open(bench.data.join("wiki.db")).unwrap();
    let mut statement =
        connection.prepare("SELECT data_json FROM events WHERE kind = ?1 ORDER BY id").unwrap();
    let rows = statement.query_map([kind], |row| row.get::<_, String>(0)).unwrap();
    rows.map(|it| serde_json::from_str(&it.unwrap()).unwrap()).collect()
}
