//! Owns the table `dismissals`: failed jobs that a person has dismissed.

use std::collections::HashSet;

use rusqlite::{Connection, named_params};
use serde_json::json;

use crate::base::{Actor, Event, EventKind, JobId, PersonId, Result, Scope};
use crate::store::Tx;

/// How long a dismissal is kept: longer than failed jobs are shown.
const KEPT_MS: i64 = 30 * 24 * 3_600_000;

const PUT: &str = "
    INSERT INTO dismissals (person_id, job_id, dismissed_ms) VALUES (:person, :job, :now)
    ON CONFLICT (person_id, job_id) DO NOTHING";
const PRUNE: &str = "DELETE FROM dismissals WHERE person_id = :person AND dismissed_ms < :before";
const LIST: &str = "SELECT job_id FROM dismissals WHERE person_id = :person";

pub(in crate::jobs) const STATEMENTS: &[(&str, &str)] =
    &[("dismissal::put", PUT), ("dismissal::prune", PRUNE), ("dismissal::list", LIST)];

/// Removes a job from a person's first page, and tells their other pages.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn dismiss(tx: &Tx<'_>, person: &PersonId, job: &JobId) -> Result<()> {
    let now = tx.now();
    let before = now.plus(-KEPT_MS);
    tx.prepare_cached(PRUNE)?.execute(named_params! {":person": person, ":before": before})?;
    let params = named_params! {":person": person, ":job": job, ":now": now};
    if tx.prepare_cached(PUT)?.execute(params)? == 0 {
        return Ok(());
    }
    let (by, data) = (Actor::Person(person.clone()), json!({"id": person, "change": "dismissed"}));
    let event = Event::new(EventKind::PersonChanged, format!("person:{person}"), by, data);
    tx.emit(event.scoped(Scope::Person(person.clone())))
}

/// Returns the jobs that a person has dismissed.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn dismissed(connection: &Connection, person: &PersonId) -> Result<HashSet<JobId>> {
    let mut statement = connection.prepare_cached(LIST)?;
    let rows = statement.query_map(named_params! {":person": person}, |row| row.get(0))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
