//! Cancelling a job, and telling whoever waits for its reply.

use rusqlite::Connection;

use crate::base::{Actor, ErrorKind, Ids, JobId, Result};
use crate::documents::workspace::row;
use crate::flows::jobs::{JobView, show, view};
use crate::flows::{Site, agents, approvals, assistant, mail, viewer};
use crate::jobs::{self, Capacities, Status, Viewer};
use crate::people::Caller;
use crate::store::Tx;

/// Cancels a job: at once if it waits, otherwise its agent gets the grace period. An admin may
/// cancel other people's private jobs, and learns nothing else about them.
///
/// # Errors
/// `conflict` with code `job_ended`.
pub async fn cancel(site: &Site, caller: &Caller, id: &JobId) -> Result<JobView> {
    end(site, caller, id, false).await
}

/// Cancels a job like [`cancel`], and kills its processes at once. One that is ending, or has its
/// result, loses only the rest of its grace period.
///
/// # Errors
/// `conflict` with code `job_ended`.
pub async fn kill(site: &Site, caller: &Caller, id: &JobId) -> Result<JobView> {
    end(site, caller, id, true).await
}

async fn end(site: &Site, caller: &Caller, id: &JobId, is_killed: bool) -> Result<JobView> {
    let by = Actor::Person(caller.may_write()?.id.clone());
    let (asked, lanes, ids) = (id.clone(), site.queue.capacities(), site.ids.clone());
    let is_admin = caller.may_administer().is_ok();
    let viewer = if is_admin { Viewer::Program } else { viewer(caller) };
    site.store
        .write(move |tx| {
            jobs::find_brief(tx.connection(), &viewer, &asked)?;
            end_in(tx, (&asked, &by), (&ids, &lanes), is_killed)
        })
        .await?;
    match show(site, caller, id).await {
        Err(cause) if is_admin && cause.kind() == ErrorKind::NotFound => {
            let find = |c: &Connection| jobs::find_brief(c, &Viewer::Program, id);
            let job = site.store.look(find)?.without_words();
            site.store.look(|c| view(&site.works, c, job.clone()))
        }
        shown => shown,
    }
}

/// Cancels a job: at once if it waits; a running one is asked to end, or killed.
///
/// # Errors
/// As [`request`]; one that is killed may be ending already.
pub(in crate::flows) fn end_in(
    tx: &Tx<'_>,
    (id, by): (&JobId, &Actor),
    (ids, lanes): (&Ids, &Capacities),
    is_killed: bool,
) -> Result<()> {
    let job = jobs::find_brief(tx.connection(), &Viewer::Program, id)?;
    if cancel_waiting(tx, ids, id, by, lanes)? {
        return Ok(());
    }
    match request(tx, id, by) {
        Err(cause) if !is_killed || job.status != Status::Running => return Err(cause),
        // It is ending, or its verdict is its result.
        Ok(()) | Err(_) => {}
    }
    if is_killed { jobs::request_kill(tx, id) } else { Ok(()) }
}

/// Asks a running job to end, and withdraws what it asked people for.
///
/// # Errors
/// `conflict` with codes `job_ended` and `already_completed`.
pub(in crate::flows) fn request(tx: &Tx<'_>, id: &JobId, by: &Actor) -> Result<()> {
    jobs::request_cancel(tx, id, by)?;
    let job = jobs::find_brief(tx.connection(), &Viewer::Program, id)?;
    approvals::withdraw::settle_cancelled(tx, &job)
}

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
