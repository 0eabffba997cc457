//! Cancelling a waiting job, and telling whoever waits for its reply.

use crate::base::{Actor, Ids, JobId, Result};
use crate::documents::workspace::row;
use crate::flows::{agents, approvals, assistant, mail};
use crate::jobs::{self, Capacities, Viewer};
use crate::store::Tx;

/// Cancels a waiting or parked job, and tells whoever waits for its reply. Returns whether it did.
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
    // What an earlier leg has left is cleaned up at once.
    tx.ring(row::BELL);
    Ok(true)
}
