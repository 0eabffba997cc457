//! Owns the table `job_changes`: what became different while a job ran, and what a person decided.

use rusqlite::{Connection, OptionalExtension as _, Row, named_params};
use serde_json::json;

use crate::api::changes::ChangesState;
use crate::base::{Actor, Error, Event, EventKind, JobId, Millis, Result};
use crate::documents::changes::Changes;
use crate::store::Tx;

/// The changes of one job.
#[derive(Clone, Debug)]
pub struct ChangesRow {
    /// The job.
    pub job: JobId,
    /// Whether somebody decided.
    pub state: ChangesState,
    /// What became different.
    pub changes: Changes,
    /// Who decided.
    pub decided_by: Option<Actor>,
    /// When.
    pub decided_at: Option<Millis>,
}

const INSERT: &str = "
    INSERT INTO job_changes (job_id, state, changes_json, created_ms)
    VALUES (:job, 'open', :changes, :now) ON CONFLICT (job_id) DO NOTHING";
const FIND: &str = "
    SELECT job_id, state, changes_json, decided_by, decided_ms FROM job_changes
    WHERE job_id = :job";
// `created_ms > 0` is always true: it lets the partial index be searched.
const OPEN: &str = "
    SELECT job_id, state, changes_json, decided_by, decided_ms FROM job_changes
    WHERE state = 'open' AND created_ms > 0 ORDER BY created_ms DESC, job_id DESC LIMIT :limit";
// What steers agents never expires: it would be in force without anybody's decision.
const OLD: &str = "
    SELECT job_id FROM job_changes WHERE state = 'open' AND created_ms < :before
        AND json_extract(changes_json, '$.agent_files') IS NULL
    ORDER BY created_ms LIMIT 100";
const DECIDE: &str = "
    UPDATE job_changes SET state = :state, decided_by = :by, decided_ms = :now
    WHERE job_id = :job AND state = 'open'";

/// The statements of this file, for the schema test.
pub const STATEMENTS: &[(&str, &str)] = &[
    ("changes::insert", INSERT),
    ("changes::find", FIND),
    ("changes::open", OPEN),
    ("changes::old", OLD),
    ("changes::decide", DECIDE),
];

/// Writes down what became different while a job ran.
///
/// # Errors
/// As any write.
pub fn insert(tx: &Tx<'_>, job: &JobId, changes: &Changes) -> Result<()> {
    let text = json!(changes).to_string();
    let params = named_params! {":job": job, ":changes": text, ":now": tx.now()};
    tx.prepare_cached(INSERT)?.execute(params)?;
    Ok(())
}

/// Returns the changes of a job, if there are any.
///
/// # Errors
/// As any read.
pub fn find(connection: &Connection, job: &JobId) -> Result<Option<ChangesRow>> {
    let mut statement = connection.prepare_cached(FIND)?;
    Ok(statement.query_row(named_params! {":job": job}, from_row).optional()?)
}

/// Returns the newest changes that nobody decided about.
///
/// # Errors
/// As any read.
pub fn open(connection: &Connection, limit: u32) -> Result<Vec<ChangesRow>> {
    let mut statement = connection.prepare_cached(OPEN)?;
    let rows = statement.query_map(named_params! {":limit": limit}, from_row)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns jobs of which nobody decided about the changes since a time.
///
/// # Errors
/// As any read.
pub fn old(connection: &Connection, before: Millis) -> Result<Vec<JobId>> {
    let mut statement = connection.prepare_cached(OLD)?;
    let rows = statement.query_map(named_params! {":before": before}, |row| row.get(0))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Settles the changes of a job.
///
/// # Errors
/// `conflict` with code `already_decided`.
pub fn decide(tx: &Tx<'_>, job: &JobId, state: ChangesState, by: &Actor) -> Result<()> {
    let params = named_params! {":job": job, ":state": state, ":by": by, ":now": tx.now()};
    if tx.prepare_cached(DECIDE)?.execute(params)? == 0 {
        let message = format!("the changes of job {job} are decided about already");
        let hint = "wiki-browser job show says what became of them";
        return Err(Error::conflict("already_decided", message).hint(hint));
    }
    let data = json!({"id": job, "changes": state});
    let event = Event::new(EventKind::ChangesDecided, format!("job:{job}"), by.clone(), data);
    tx.emit(event.audited())
}

fn from_row(row: &Row<'_>) -> rusqlite::Result<ChangesRow> {
    let text: String = row.get("changes_json")?;
    let changes = serde_json::from_str(&text).map_err(|cause| {
        let sort = rusqlite::types::Type::Text;
        rusqlite::Error::FromSqlConversionFailure(2, sort, Box::new(cause))
    })?;
    Ok(ChangesRow {
        job: row.get("job_id")?,
        state: row.get("state")?,
        changes,
        decided_by: row.get("decided_by")?,
        decided_at: row.get("decided_ms")?,
    })
}
