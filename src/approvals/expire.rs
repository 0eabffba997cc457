//! Finds pending approvals that have expired, and when the next one will.

use rusqlite::{Connection, OptionalExtension as _, named_params};

use crate::base::{ApprovalId, Millis, Result};

/// Most approvals that expire per transaction.
const DUE_MAX: u32 = 100;

const DUE: &str = "
    SELECT id FROM approvals
    WHERE state = 'pending' AND expires_ms IS NOT NULL AND expires_ms <= :now
    ORDER BY expires_ms LIMIT :limit";
const NEXT_DUE: &str = "
    SELECT expires_ms FROM approvals
    WHERE state = 'pending' AND expires_ms IS NOT NULL AND expires_ms > :never
    ORDER BY expires_ms LIMIT 1";

pub(super) const STATEMENTS: &[(&str, &str)] =
    &[("expire::due", DUE), ("expire::next_due", NEXT_DUE)];

/// Returns expired approvals that are still pending, earliest first.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn due(connection: &Connection, now: Millis) -> Result<Vec<ApprovalId>> {
    let mut statement = connection.prepare_cached(DUE)?;
    let params = named_params! {":now": now, ":limit": DUE_MAX};
    let ids = statement.query_map(params, |row| row.get(0))?;
    Ok(ids.collect::<rusqlite::Result<_>>()?)
}

/// Returns when the next pending approval expires; `None` if none does.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn next_due(connection: &Connection) -> Result<Option<Millis>> {
    let mut statement = connection.prepare_cached(NEXT_DUE)?;
    let params = named_params! {":never": i64::MIN};
    Ok(statement.query_row(params, |row| row.get(0)).optional()?)
}
