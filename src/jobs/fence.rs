//! The fence: identifies the job of a token, and refuses a token whose job is ending, so that late
//! writes change nothing.

use rusqlite::{Connection, OptionalExtension as _, named_params};

use crate::base::{Error, ErrorKind, JobId, Result};
use crate::jobs::Job;
use crate::jobs::rows::table::slim;
use crate::store::Tx;

/// The code of a refusal because a job has ended, or is ending.
pub const JOB_ENDED: &str = "job_ended";

const OWNER: &str = "
    SELECT id, status, ending_ms, owner IS NOT NULL FROM agent_jobs WHERE token_hash = :hash";
const BY_TOKEN: &str = slim!("WHERE token_hash = :hash");

pub(super) const STATEMENTS: &[(&str, &str)] =
    &[("fence::owner", OWNER), ("fence::by_token", BY_TOKEN)];

/// Whether a token is still valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenState {
    /// Its job is running and not ending.
    Running,
    /// Its job is ending or has ended.
    Ended,
}

/// The job of a token.
#[derive(Clone, Debug)]
pub struct JobToken {
    /// The job.
    pub job: JobId,
    /// Whether the token is still valid.
    pub state: TokenState,
    /// Whether the job is private to its owner.
    pub is_private: bool,
}

/// Returns the job of a token's digest, even if it has ended.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn token_owner(connection: &Connection, hash: &str) -> Result<Option<JobToken>> {
    let found = connection
        .prepare_cached(OWNER)?
        .query_row(named_params! {":hash": hash}, |row| {
            let status: String = row.get(1)?;
            let is_ending = row.get::<_, Option<i64>>(2)?.is_some();
            let is_running =
                (status == "running" && !is_ending) || crate::base::fault::is_off("fence");
            let state = if is_running { TokenState::Running } else { TokenState::Ended };
            Ok(JobToken { job: row.get(0)?, state, is_private: row.get(3)? })
        })
        .optional()?;
    Ok(found)
}

/// Returns the running job of a token, in the writing transaction. Every route for jobs' tokens
/// calls this first: late writes of a job that has ended change nothing.
///
/// # Errors
/// `conflict` with code `job_ended`; `unauthenticated` for an unknown token.
pub fn fence(tx: &Tx<'_>, token_hash: &str) -> Result<Job> {
    let job = tx
        .prepare_cached(BY_TOKEN)?
        .query_row(named_params! {":hash": token_hash}, Job::from_row)
        .optional()?
        .ok_or_else(|| Error::new(ErrorKind::Unauthenticated, "unknown token"))?;
    let is_running = job.status == crate::jobs::Status::Running && job.ending_at.is_none();
    if is_running || crate::base::fault::is_off("fence") {
        return Ok(job);
    }
    Err(Error::conflict(JOB_ENDED, format!("job {} has ended; nothing was changed", job.id))
        .hint("stop: this job can no longer write"))
}
