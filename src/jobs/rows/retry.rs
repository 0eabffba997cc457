//! Chains of jobs: how often a job was retried, and what led to it.

use rusqlite::{Connection, OptionalExtension as _, named_params};

use crate::base::{Actor, JobId, Result};
use crate::store::Tx;

const DEPTH: &str = "SELECT depth FROM agent_jobs WHERE id = :id";
/// Of a later leg, what its first one repeats.
const BEFORE: &str = "
    SELECT COALESCE(leg.retry_of, (SELECT root.retry_of FROM agent_jobs AS root
                                   WHERE root.id = leg.root_id))
    FROM agent_jobs AS leg WHERE leg.id = :id";
const REPEATED: &str = "SELECT EXISTS (SELECT 1 FROM agent_jobs WHERE retry_of = :id)";
const WARN: &str = "
    UPDATE agent_jobs SET warnings_json = json_insert(warnings_json, '$[#]', :warning)
    WHERE id = :id AND json_array_length(warnings_json) < 50";
const UNENDED: &str = "
    SELECT id FROM agent_jobs INDEXED BY jobs_by_status
    WHERE status IN ('queued', 'running', 'parked') AND requested_by = :by
    ORDER BY seq LIMIT 1";

pub(in crate::jobs) const STATEMENTS: &[(&str, &str)] = &[
    ("again::depth", DEPTH),
    ("again::before", BEFORE),
    ("again::repeated", REPEATED),
    ("again::warn", WARN),
    ("again::unended", UNENDED),
];

/// Returns the first job of a requester that waits, runs or is parked.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn unended_of(connection: &Connection, by: &Actor) -> Result<Option<JobId>> {
    let mut statement = connection.prepare_cached(UNENDED)?;
    let found = statement.query_row(named_params! {":by": by}, |row| row.get(0));
    Ok(found.optional()?)
}

/// Returns how many jobs of the script led to a job; 0 for an unknown one.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn depth_of(connection: &Connection, id: &JobId) -> Result<u32> {
    let mut statement = connection.prepare_cached(DEPTH)?;
    let found = statement.query_row(named_params! {":id": id}, |row| row.get(0));
    Ok(found.optional()?.unwrap_or(0))
}

/// Returns the attempt number of a job, at most `most`; 1 for a job that is not a retry.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn attempt_of(connection: &Connection, id: &JobId, most: u32) -> Result<u32> {
    let mut statement = connection.prepare_cached(BEFORE)?;
    let (mut attempt, mut id) = (1, id.clone());
    while attempt < most {
        let params = named_params! {":id": id};
        let before: Option<Option<JobId>> =
            statement.query_row(params, |row| row.get(0)).optional()?;
        match before.flatten() {
            Some(before) => id = before,
            None => break,
        }
        attempt += 1;
    }
    Ok(attempt)
}

/// Returns whether a job was already retried.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn is_repeated(connection: &Connection, id: &JobId) -> Result<bool> {
    let mut statement = connection.prepare_cached(REPEATED)?;
    Ok(statement.query_row(named_params! {":id": id}, |row| row.get(0))?)
}

/// Adds a warning to a job, even a finished one; ignored if it has very many.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn warn(tx: &Tx<'_>, id: &JobId, warning: &str) -> Result<()> {
    tx.prepare_cached(WARN)?.execute(named_params! {":id": id, ":warning": warning})?;
    Ok(())
}
