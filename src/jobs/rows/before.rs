//! The digest of what a job is compared with at its end: the file itself lies where its agent can
//! reach it.

use rusqlite::{Connection, OptionalExtension as _, named_params};

use crate::base::{JobId, Result};
use crate::store::Tx;

const KEEP: &str = "UPDATE agent_jobs SET before_digest = :digest WHERE id = :id";
const OF: &str = "SELECT before_digest FROM agent_jobs WHERE id = :id";

pub(in crate::jobs) const STATEMENTS: &[(&str, &str)] =
    &[("before::keep", KEEP), ("before::of", OF)];

/// Records the digest of the state before a job's agent begins; `None` once nobody needs it.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn keep_before(tx: &Tx<'_>, id: &JobId, digest: Option<&str>) -> Result<()> {
    tx.prepare_cached(KEEP)?.execute(named_params! {":id": id, ":digest": digest})?;
    Ok(())
}

/// Returns the digest of the state before a job's agent began, if the job is watched.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn before_of(connection: &Connection, id: &JobId) -> Result<Option<String>> {
    let mut statement = connection.prepare_cached(OF)?;
    let digest = statement.query_row(named_params! {":id": id}, |row| row.get(0)).optional()?;
    Ok(digest.flatten())
}
