//! Instances: the job started by a message, and its legs.

use rusqlite::{Connection, OptionalExtension as _, named_params};

use crate::base::{JobId, MailId, Result};
use crate::jobs::rows::table::{self, slim};
use crate::jobs::{Job, Status, Viewer};

const LAST_LEG: &str = slim!("WHERE root_id = :root ORDER BY seq DESC LIMIT 1");
const LEGS: &str = slim!("WHERE root_id = :root ORDER BY seq LIMIT 200");
const ROOTS: &str = slim!(
    "INDEXED BY jobs_instances
     WHERE message_id IS NOT NULL AND root_id IS NULL AND owner IS NULL AND seq < :before
     ORDER BY seq DESC LIMIT :limit"
);
const ROOTS_OF_KIND: &str = slim!(
    "INDEXED BY jobs_by_kind
     WHERE kind = :kind AND message_id IS NOT NULL AND root_id IS NULL AND owner IS NULL
       AND seq < :before
     ORDER BY seq DESC LIMIT :limit"
);
const ROOTS_OF_MESSAGE: &str = "
    SELECT id FROM agent_jobs WHERE message_id = :message AND root_id IS NULL
    ORDER BY seq DESC LIMIT 50";
const LAST_OF_MESSAGE: &str = "
    SELECT id FROM agent_jobs WHERE message_id = :message ORDER BY seq DESC LIMIT 1";

const OPEN_OF_KIND: &str = slim!(
    "INDEXED BY jobs_by_kind_status
     WHERE kind = :kind AND status = :status AND owner IS NULL
     ORDER BY priority DESC, seq LIMIT :limit"
);
const OPEN_KINDS: &str = "
    SELECT DISTINCT kind FROM agent_jobs INDEXED BY jobs_by_status
    WHERE status IN ('queued', 'running', 'parked') AND message_id IS NOT NULL AND agent IS NULL
        AND owner IS NULL
    ORDER BY kind";

pub(in crate::jobs) const STATEMENTS: &[(&str, &str)] = &[
    ("instance::last_leg", LAST_LEG),
    ("instance::legs", LEGS),
    ("instance::last_of_message", LAST_OF_MESSAGE),
    ("instance::roots", ROOTS),
    ("instance::roots_of_message", ROOTS_OF_MESSAGE),
    ("instance::roots_of_kind", ROOTS_OF_KIND),
    ("instance::open_of_kind", OPEN_OF_KIND),
    ("instance::open_kinds", OPEN_KINDS),
];

/// Returns the last leg of an instance, which has its current state.
///
/// # Errors
/// `not_found` if there is no such job.
pub fn last_leg(connection: &Connection, root: &JobId) -> Result<Job> {
    let mut statement = connection.prepare_cached(LAST_LEG)?;
    match statement.query_row(named_params! {":root": root}, Job::from_row).optional()? {
        Some(leg) => Ok(leg),
        None => table::find_slim(connection, &Viewer::Program, root),
    }
}

/// Returns all legs of an instance, first one first.
///
/// # Errors
/// `not_found` if there is no such job.
pub fn legs(connection: &Connection, root: &JobId) -> Result<Vec<Job>> {
    let mut all = vec![table::find_slim(connection, &Viewer::Program, root)?];
    let mut statement = connection.prepare_cached(LEGS)?;
    let later = statement.query_map(named_params! {":root": root}, Job::from_row)?;
    for leg in later {
        all.push(leg?);
    }
    Ok(all)
}

/// Returns the jobs of an inbox that have not ended, up to a limit for each status: those that run,
/// then parked ones, then those that wait, in their order.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn open_of_inbox(connection: &Connection, kind: &str, limit: u32) -> Result<Vec<Job>> {
    let mut open = Vec::new();
    for status in [Status::Running, Status::Parked, Status::Queued] {
        let mut statement = connection.prepare_cached(OPEN_OF_KIND)?;
        let params = named_params! {":kind": kind, ":status": status.as_str(), ":limit": limit};
        for job in statement.query_map(params, Job::from_row)? {
            open.push(job?);
        }
    }
    Ok(open)
}

/// Returns the inboxes that have jobs which have not ended, by name.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn open_inboxes(connection: &Connection) -> Result<Vec<String>> {
    let mut statement = connection.prepare_cached(OPEN_KINDS)?;
    let kinds = statement.query_map([], |row| row.get(0))?;
    Ok(kinds.collect::<rusqlite::Result<_>>()?)
}

/// Returns the job started by a message; its last retry or leg if there are several.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn last_of_message(connection: &Connection, message: &MailId) -> Result<Option<JobId>> {
    let mut statement = connection.prepare_cached(LAST_OF_MESSAGE)?;
    Ok(statement.query_row(named_params! {":message": message}, |row| row.get(0)).optional()?)
}

/// Returns the first legs of the instances of a message: it has several if it was repeated.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn roots_of_message(connection: &Connection, message: &MailId) -> Result<Vec<JobId>> {
    let mut statement = connection.prepare_cached(ROOTS_OF_MESSAGE)?;
    let roots = statement.query_map(named_params! {":message": message}, |row| row.get(0))?;
    Ok(roots.collect::<rusqlite::Result<_>>()?)
}

/// Returns the first legs of instances, newest first: of one inbox, or of all.
///
/// # Errors
/// `not_found` if there is no job `before`.
pub fn instances(
    connection: &Connection,
    kind: Option<&str>,
    (before, limit): (Option<&JobId>, u32),
) -> Result<Vec<Job>> {
    let before = match before {
        Some(id) => table::find_slim(connection, &Viewer::Site, id)?.seq,
        None => i64::MAX,
    };
    let sql = if kind.is_some() { ROOTS_OF_KIND } else { ROOTS };
    let mut statement = connection.prepare_cached(sql)?;
    let rows = match kind {
        Some(kind) => statement.query_map(
            named_params! {":kind": kind, ":before": before, ":limit": limit},
            Job::from_row,
        )?,
        None => statement
            .query_map(named_params! {":before": before, ":limit": limit}, Job::from_row)?,
    };
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
