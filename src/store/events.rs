//! The event log: committed events in order, for clients that reconnect.

use camino::Utf8Path;
use rusqlite::{Connection, OptionalExtension as _, Row, named_params};
use serde_json::Value;

use crate::base::{EventKind, Millis, Result};
use crate::store::migrate::refuse_newer;
use crate::store::{MIGRATIONS, Tx, read};

/// An event as stored in the table.
#[derive(Clone, Debug)]
pub struct StoredEvent {
    /// Its position in commit order.
    pub id: i64,
    /// When the change was committed.
    pub at: Millis,
    /// What happened.
    pub kind: EventKind,
    /// What it happened to.
    pub subject: String,
    /// Who did it.
    pub actor: String,
    /// Who may see it: `site` or `person:ID`.
    pub scope: String,
    /// Ids and states.
    pub data: Value,
}

const AFTER: &str = "
    SELECT id, at_ms, kind, subject, actor, scope, data_json FROM events
    WHERE id > :after ORDER BY id LIMIT :limit";
const EDGES: &str = "
    SELECT (SELECT MIN(id) FROM events),
           (SELECT seq FROM sqlite_sequence WHERE name = 'events')";
const NEWEST: &str = "SELECT at_ms FROM events WHERE id = (SELECT MAX(id) FROM events)";
const PRUNABLE: &str = "SELECT COUNT(*) FROM events WHERE audit = 0 AND at_ms < :before";
const PRUNE: &str = "DELETE FROM events WHERE audit = 0 AND at_ms < :before";

/// The statements of this file, for the schema test.
pub const STATEMENTS: &[(&str, &str)] = &[
    ("events::after", AFTER),
    ("events::edges", EDGES),
    ("events::newest", NEWEST),
    ("events::prunable", PRUNABLE),
    ("events::prune", PRUNE),
    ("events::insert", crate::store::tx::INSERT_EVENT),
];

/// Returns up to `limit` events with ids above `after`, oldest first.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn after(connection: &Connection, after: i64, limit: u32) -> Result<Vec<StoredEvent>> {
    let mut statement = connection.prepare_cached(AFTER)?;
    let rows = statement.query_map(named_params! {":after": after, ":limit": limit}, from_row)?;
    let rows: Vec<Option<StoredEvent>> = rows.collect::<rusqlite::Result<_>>()?;
    // Skip kinds written by a newer program: clients of this one do not know them.
    Ok(rows.into_iter().flatten().collect())
}

/// Returns the smallest id still stored and the largest ever assigned; 0 and 0 for an empty log.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn edges(connection: &Connection) -> Result<(i64, i64)> {
    let edges = connection.prepare_cached(EDGES)?.query_row([], |row| {
        Ok((row.get::<_, Option<i64>>(0)?.unwrap_or(0), row.get::<_, Option<i64>>(1)?.unwrap_or(0)))
    })?;
    Ok(edges)
}

/// Returns when the newest event was committed, without a server and without changing anything;
/// `None` if there are no events.
///
/// # Errors
/// `unavailable` if the file cannot be opened or is not a database of this program; `conflict` with
/// code `database_newer` if a newer program wrote it.
pub fn newest(path: &Utf8Path) -> Result<Option<Millis>> {
    refuse_newer(path, MIGRATIONS)?;
    let connection = read::open(path)?;
    let newest = connection.prepare(NEWEST)?.query_row([], |row| row.get(0)).optional()?;
    Ok(newest)
}

/// Returns how many events [`prune`] would delete.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn prunable(connection: &Connection, before: Millis) -> Result<u64> {
    let params = named_params! {":before": before};
    let count: i64 = connection.prepare_cached(PRUNABLE)?.query_row(params, |row| row.get(0))?;
    Ok(count.unsigned_abs())
}

/// Deletes events before a time, except those kept for audit.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn prune(tx: &Tx<'_>, before: Millis) -> Result<()> {
    tx.prepare_cached(PRUNE)?.execute(named_params! {":before": before})?;
    Ok(())
}

fn from_row(row: &Row<'_>) -> rusqlite::Result<Option<StoredEvent>> {
    let word: String = row.get("kind")?;
    let Some(kind) = EventKind::parse(&word) else { return Ok(None) };
    let data: String = row.get("data_json")?;
    Ok(Some(StoredEvent {
        id: row.get("id")?,
        at: row.get("at_ms")?,
        kind,
        subject: row.get("subject")?,
        actor: row.get("actor")?,
        scope: row.get("scope")?,
        data: serde_json::from_str(&data).unwrap_or(Value::Null),
    }))
}
