//! Owns the table `job_changes`: what changed while a job ran, and what a person decided.

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
    /// The decision.
    pub state: ChangesState,
    /// The changes.
    pub changes: Changes,
    /// Who decided it.
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
// `created_ms > 0` is always true: it makes SQLite use the partial index.
const OPEN: &str = "
    SELECT job_id, state, changes_json, decided_by, decided_ms FROM job_changes
    WHERE state = 'open' AND created_ms > 0 ORDER BY created_ms DESC, job_id DESC LIMIT :limit";
// Changes to steering files never expire: they would take effect without a decision.
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

/// Inserts the changes of a job.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn insert(tx: &Tx<'_>, job: &JobId, changes: &Changes) -> Result<()> {
    let text = json!(changes).to_string();
    let params = named_params! {":job": job, ":changes": text, ":now": tx.now()};
    tx.prepare_cached(INSERT)?.execute(params)?;
    Ok(())
}

/// Returns the changes of a job, if any.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn find(connection: &Connection, job: &JobId) -> Result<Option<ChangesRow>> {
    let mut statement = connection.prepare_cached(FIND)?;
    Ok(statement.query_row(named_params! {":job": job}, from_row).optional()?)
}

/// Returns the newest undecided changes.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn open(connection: &Connection, limit: u32) -> Result<Vec<ChangesRow>> {
    let mut statement = connection.prepare_cached(OPEN)?;
    let rows = statement.query_map(named_params! {":limit": limit}, from_row)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns jobs whose changes have been undecided since before a time.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn old(connection: &Connection, before: Millis) -> Result<Vec<JobId>> {
    let mut statement = connection.prepare_cached(OLD)?;
    let rows = statement.query_map(named_params! {":before": before}, |row| row.get(0))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Records the decision about a job's changes.
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
