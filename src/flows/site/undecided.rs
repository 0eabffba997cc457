//! Carries over to a restored database what jobs changed since the backup, and what was decided.
//!
//! **Invariant:** changes that nobody has decided about in the replaced database hold afterwards,
//! too, and can be decided about: also those of a job that the backup does not know.

use std::collections::BTreeSet;

use rusqlite::Connection;

use crate::base::{JobId, Result, fault};
use crate::documents::changes::row;
use crate::jobs::{self, UNSEEN};
use crate::store::{Tx, other_rows};

/// Returns the jobs whose changes are undecided or not known yet.
///
/// # Errors
/// Fails if the database cannot be read.
pub(super) fn undecided(c: &Connection) -> Result<BTreeSet<JobId>> {
    let mut found: BTreeSet<JobId> = jobs::holding(c)?.into_iter().collect();
    found.extend(row::open(c, u32::MAX)?.into_iter().map(|it| it.job));
    for job in jobs::running(c)? {
        if jobs::before_of(c, &job.id)?.is_some() {
            found.insert(job.id);
        }
    }
    Ok(found)
}

/// Takes over what the replaced database knows of the changes of jobs, and the jobs themselves if
/// they are newer than the backup. Returns those whose changes nobody has decided about.
///
/// # Errors
/// As any read or write.
pub(super) fn take_over(tx: &Tx<'_>, old: &Connection) -> Result<Vec<JobId>> {
    if fault::is_off("restored_holds") {
        return Ok(Vec::new());
    }
    let open = undecided(old)?;
    for id in &open {
        if !jobs::is_known(tx.connection(), id)? {
            jobs::carry(tx, old, id)?;
        }
    }
    let mut all = undecided(tx.connection())?;
    all.extend(jobs::running(tx.connection())?.into_iter().map(|it| it.id));
    all.extend(open.iter().cloned());
    for id in &all {
        if jobs::is_known(old, id)? && jobs::is_known(tx.connection(), id)? {
            take_over_one(tx, old, id)?;
        }
    }
    let mut left = undecided(tx.connection())?;
    left.retain(|it| open.contains(it));
    Ok(left.into_iter().collect())
}

/// Replaces what is known of a job's changes by what the replaced database knows.
fn take_over_one(tx: &Tx<'_>, old: &Connection, id: &JobId) -> Result<()> {
    let before = jobs::before_of(old, id)?;
    jobs::keep_before(tx, id, before.as_deref())?;
    for table in ["job_changes", "steering_holds"] {
        other_rows::remove(tx, table, ("job_id", id))?;
        if let Some(found) = other_rows::row(old, table, ("job_id", id))? {
            other_rows::put(tx, table, found)?;
        }
    }
    // No server will end it, so that nobody would look.
    let is_watched = before.is_some() && jobs::running(old)?.iter().any(|it| it.id == *id);
    let is_running = jobs::running(tx.connection())?.iter().any(|it| it.id == *id);
    if is_watched && !is_running && !jobs::holding(tx.connection())?.contains(id) {
        jobs::hold_steering(tx, id, &[UNSEEN.to_owned()])?;
    }
    Ok(())
}

/// Holds all agents again for what a job changed and nobody has decided about: the rows of holds
/// may be among those that could not be read. Returns the jobs whose changes are undecided.
///
/// # Errors
/// As any read or write.
pub(super) fn hold_again(tx: &Tx<'_>) -> Result<Vec<JobId>> {
    let held = jobs::holding(tx.connection())?;
    for open in row::open(tx.connection(), u32::MAX)? {
        if !open.changes.agent_files.is_empty() && !held.contains(&open.job) {
            jobs::hold_steering(tx, &open.job, &open.changes.agent_files)?;
        }
    }
    Ok(undecided(tx.connection())?.into_iter().collect())
}
