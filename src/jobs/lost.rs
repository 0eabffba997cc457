//! Jobs of an inbox that a crash ended: whether they are repeated, as the inbox says.
//!
//! **Invariant:** a repeat is written in the transaction that settles the lost job, and so never
//! twice.

use crate::base::{ErrorKind, Ids, Result};
use crate::jobs::lane::Capacities;
use crate::jobs::{Job, NewJob, Reason, Status, again, enqueue, table};
use crate::script::{OnBusy, OnLost};
use crate::store::Tx;

/// How often a message is tried in all; later a person decides.
const ATTEMPTS_MAX: u32 = 3;

/// What is needed to repeat a job.
#[derive(Clone, Debug)]
pub(super) struct Repeat {
    pub(super) on_lost: OnLost,
    pub(super) ids: Ids,
}

/// Repeats a job that was just settled, if it was lost and its inbox wants that. The new one has
/// the same message, and is an instance of its own.
pub(super) fn repeat(tx: &Tx<'_>, job: &Job, how: &Repeat, capacities: &Capacities) -> Result<()> {
    let is_lost = matches!(job.reason, Some(Reason::ServerRestarted | Reason::GuardLost));
    let is_wanted = match how.on_lost {
        OnLost::Fail => false,
        OnLost::Requeue => is_lost && job.run_at.is_none(),
        OnLost::RequeueAlways => is_lost || job.status == Status::TimedOut,
    };
    if !is_wanted || again::attempt_of(tx.connection(), &job.id, ATTEMPTS_MAX)? >= ATTEMPTS_MAX {
        return Ok(());
    }
    let job = table::find(tx.connection(), &job.id)?;
    let new = NewJob {
        kind: job.kind,
        lane: job.lane,
        on_busy: OnBusy::Queue,
        source_path: job.source_path,
        topic_id: job.topic_id,
        persona_name: job.persona_name,
        inputs: job.inputs,
        grants: job.grants,
        requested_by: job.requested_by,
        priority: job.priority,
        not_before: None,
        config_digest: job.config_digest,
        retry_of: Some(job.id.clone()),
        depth: again::depth_of(tx.connection(), &job.id)?,
        message_id: job.message_id,
    };
    match enqueue(tx, &how.ids, capacities, &new) {
        Ok(_) => Ok(()),
        // The settlement stands all the same.
        Err(cause) if cause.kind() == ErrorKind::Busy => {
            again::warn(tx, &job.id, &format!("not_repeated: {}", cause.message()))
        }
        Err(cause) => Err(cause),
    }
}
