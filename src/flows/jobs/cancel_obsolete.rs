//! Cancels jobs whose result would be refused, in the transaction that makes it so, to save the
//! agent's time.

use crate::base::limit::PAGE_ROWS_MAX;
use crate::base::{Actor, JobId, ProposalId, Result, TopicId, fault};
use crate::documents::topics::topic;
use crate::flows::Site;
use crate::flows::jobs::cancel::{self, cancel_waiting};
use crate::flows::proposals::rework;
use crate::jobs::{self, Job, JobFilter, Status, Verb};
use crate::script::Produces;
use crate::store::Tx;

/// Cancels the jobs for a Topic that was closed: those that propose a text that settles it, or
/// write in it. Jobs that only read it continue. Returns the cancelled ones.
///
/// # Errors
/// As any write.
pub(in crate::flows) fn of_topic(
    tx: &Tx<'_>,
    site: &Site,
    id: &TopicId,
    by: &Actor,
) -> Result<Vec<JobId>> {
    let source = topic::find(tx.connection(), id, None)?.source_path;
    let mut cancelled = Vec::new();
    for status in [Status::Queued, Status::Running] {
        let filter =
            JobFilter { status: Some(status), limit: PAGE_ROWS_MAX, ..JobFilter::default() };
        let own = JobFilter { topic_id: Some(id.clone()), ..filter.clone() };
        // It may be one of several Topics of a job: such a job has their Source.
        let further = JobFilter { source_path: Some(source.clone()), ..filter };
        let mut found = jobs::list(tx.connection(), &jobs::Viewer::Program, &own)?;
        found.extend(jobs::list(tx.connection(), &jobs::Viewer::Program, &further)?);
        for job in found.iter().filter(|it| answers(site, it, id)) {
            if !cancelled.contains(&job.id) && cancel(tx, site, job, by)? {
                cancelled.push(job.id.clone());
            }
        }
    }
    Ok(cancelled)
}

fn answers(site: &Site, job: &Job, topic: &TopicId) -> bool {
    let config = site.config_of(&job.id);
    let kind = config.kinds.get(&job.kind);
    let produces = kind.and_then(|it| it.produces);
    matches!(produces, Some(Produces::Proposal | Produces::Message))
        && job.require_topic(topic, Verb::Message).is_ok()
}

/// Cancels the rework of a rejected proposal. Returns the job.
///
/// # Errors
/// As any write.
pub(in crate::flows) fn of_proposal(
    tx: &Tx<'_>,
    site: &Site,
    id: &ProposalId,
    by: &Actor,
) -> Result<Option<JobId>> {
    let Some(running) = rework::running(tx.connection(), id)? else { return Ok(None) };
    let job = jobs::find_brief(tx.connection(), &jobs::Viewer::Program, &running)?;
    Ok(cancel(tx, site, &job, by)?.then_some(running))
}

/// Cancels a job, at once if it waits. Returns whether it did; a job that is already ending is left
/// alone.
fn cancel(tx: &Tx<'_>, site: &Site, job: &Job, by: &Actor) -> Result<bool> {
    if fault::is_off("called_off") || job.ending_at.is_some() {
        return Ok(false);
    }
    if cancel_waiting(tx, &site.ids, &job.id, by, &site.queue.capacities())? {
        return Ok(true);
    }
    cancel::request(tx, &job.id, by).map(|()| true)
}
