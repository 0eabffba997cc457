//! Which job folders may be deleted, and what a restored database must still give up.

use rusqlite::{Connection, OptionalExtension as _, named_params};

use crate::base::{JobId, Millis, Result};
use crate::store::Tx;

/// What a row says about the job's folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Files {
    /// When the job ended; `None` while it is queued, running or not settled.
    pub ended: Option<Millis>,
    /// When the folder was given up.
    pub removed: Option<Millis>,
}

/// Whether an instance still has unfinished legs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    /// Whether a leg is queued, running or parked.
    pub is_active: bool,
    /// When the last one ended.
    pub ended: Option<Millis>,
    /// Whether the last one was cancelled.
    pub is_cancelled: bool,
}

const REST: &str = "
    SELECT COUNT(*) FILTER (WHERE status IN ('queued', 'running', 'parked')), MAX(completed_ms),
        COALESCE(MAX(completed_ms) FILTER (WHERE status = 'cancelled') = MAX(completed_ms), FALSE)
    FROM agent_jobs WHERE id = :root OR root_id = :root";
const FILES: &str = "
    SELECT CASE WHEN status = 'parked' OR EXISTS (
               SELECT 1 FROM agent_jobs AS leg WHERE leg.root_id = job.id
                   AND leg.status IN ('queued', 'running', 'parked'))
           THEN NULL ELSE completed_ms END, files_removed_ms
    FROM agent_jobs AS job WHERE id = :id";
const GIVE_UP: &str = "
    UPDATE agent_jobs SET files_removed_ms = :now
    WHERE id = :id AND completed_ms IS NOT NULL AND files_removed_ms IS NULL";
const FORGET_WORDS: &str = "
    UPDATE agent_jobs SET files_removed_ms = COALESCE(files_removed_ms, :now), summary = NULL,
        error_tail = NULL, result_json = NULL, session_ref = NULL
    WHERE id = :id AND completed_ms IS NOT NULL";
const FENCE_ALL: &str = "
    UPDATE agent_jobs INDEXED BY jobs_running SET ending_ms = :now
    WHERE status = 'running' AND ending_ms IS NULL";
const FENCE_DYING: &str = "
    UPDATE agent_jobs INDEXED BY jobs_running SET ending_ms = :now
    WHERE status = 'running' AND ending_ms IS NULL AND pool <> 'live'
      AND NOT (on_server_loss = 'keep' AND COALESCE(phase, 'run') = 'run')";
const KEPT: &str = "
    SELECT id FROM agent_jobs INDEXED BY jobs_running
    WHERE status = 'running' AND ending_ms IS NULL
      AND on_server_loss = 'keep' AND COALESCE(phase, 'run') = 'run'";
const KEEP: &str = "
    UPDATE agent_jobs SET on_server_loss = 'keep'
    WHERE id = :id AND status = 'running' AND ending_ms IS NULL";
const QUEUED: &str = "SELECT id, status = 'parked' FROM agent_jobs INDEXED BY jobs_by_status
    WHERE status IN ('queued', 'parked') ORDER BY seq";

pub(in crate::jobs) const STATEMENTS: &[(&str, &str)] = &[
    ("retained::rest", REST),
    ("retained::files", FILES),
    ("retained::give_up", GIVE_UP),
    ("retained::forget_words", FORGET_WORDS),
    ("retained::fence_all", FENCE_ALL),
    ("retained::fence_dying", FENCE_DYING),
    ("retained::kept", KEPT),
    ("retained::keep", KEEP),
    ("retained::queued", QUEUED),
];

/// Returns the state of an instance, by its root job.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn rest_of(connection: &Connection, root: &JobId) -> Result<Rest> {
    let mut statement = connection.prepare_cached(REST)?;
    let rest = statement.query_row(named_params! {":root": root}, |row| {
        Ok(Rest {
            is_active: row.get::<_, i64>(0)? > 0,
            ended: row.get(1)?,
            is_cancelled: row.get(2)?,
        })
    });
    Ok(rest?)
}

/// Returns what a job's row says about its folder; `None` without a row.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn files(connection: &Connection, id: &JobId) -> Result<Option<Files>> {
    let mut statement = connection.prepare_cached(FILES)?;
    let found = statement.query_row(named_params! {":id": id}, |row| {
        Ok(Files { ended: row.get(0)?, removed: row.get(1)? })
    });
    Ok(found.optional()?)
}

/// Records that the folder of a finished job is given up. Returns `false` if it already was.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn give_up_files(tx: &Tx<'_>, id: &JobId) -> Result<bool> {
    let params = named_params! {":id": id, ":now": tx.now()};
    Ok(tx.prepare_cached(GIVE_UP)?.execute(params)? == 1)
}

/// Records that the agent of a running job goes on when its server ends. Returns whether the job
/// still runs.
///
/// # Errors
/// Fails if the database cannot be written.
pub(in crate::jobs) fn keep(tx: &Tx<'_>, id: &JobId) -> Result<bool> {
    Ok(tx.prepare_cached(KEEP)?.execute(named_params! {":id": id})? == 1)
}

/// Returns the running jobs whose agents go on without a server.
///
/// # Errors
/// Fails if the database cannot be read.
pub(in crate::jobs) fn kept(connection: &Connection) -> Result<Vec<JobId>> {
    let mut statement = connection.prepare_cached(KEPT)?;
    let ids = statement.query_map([], |row| row.get(0))?;
    Ok(ids.collect::<rusqlite::Result<_>>()?)
}

/// Deletes everything that a finished job said: its files are given up, and its row keeps no text.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn forget_words(tx: &Tx<'_>, id: &JobId) -> Result<()> {
    tx.prepare_cached(FORGET_WORDS)?.execute(named_params! {":id": id, ":now": tx.now()})?;
    Ok(())
}

/// Fences every running job of a restored database, invalidating its token. The next start settles
/// them. Returns how many there are.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn fence_all(tx: &Tx<'_>) -> Result<usize> {
    Ok(tx.prepare_cached(FENCE_ALL)?.execute(named_params! {":now": tx.now()})?)
}

/// The same at a server start, except for long-lived agents, which may be taken over.
///
/// # Errors
/// Fails if the database cannot be written.
pub(in crate::jobs) fn fence_dying(tx: &Tx<'_>) -> Result<usize> {
    Ok(tx.prepare_cached(FENCE_DYING)?.execute(named_params! {":now": tx.now()})?)
}

/// Returns the queued and parked jobs, in order of acceptance, and whether each is parked.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn queued(connection: &Connection) -> Result<Vec<(JobId, bool)>> {
    let mut statement = connection.prepare_cached(QUEUED)?;
    let jobs = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(jobs.collect::<rusqlite::Result<_>>()?)
}
