//! Taking back a job that waits: whoever waits for its answer hears of it.

use crate::base::{Actor, Ids, JobId, Result};
use crate::flows::{agents, approvals, assistant, mail};
use crate::jobs::{self, Capacities, Viewer};
use crate::store::Tx;

/// Cancels a job that waits, also a parked one, and tells whoever waits for its answer; whether it
/// did.
///
/// # Errors
/// As any write.
pub(in crate::flows) fn cancel_waiting(
    tx: &Tx<'_>,
    ids: &Ids,
    id: &JobId,
    by: &Actor,
    lanes: &Capacities,
) -> Result<bool> {
    if !jobs::cancel_queued(tx, id, by, lanes)? {
        return Ok(false);
    }
    let job = jobs::find_brief(tx.connection(), &Viewer::Program, id)?;
    mail::fail(tx, ids, &job)?;
    agents::cancelled(tx, &job)?;
    approvals::withdraw::settle_job(tx, &job)?;
    assistant::cancelled(tx, &job)?;
    Ok(true)
}
