//! Retries inbox jobs lost in a crash, as their inbox declares.
//!
//! **Invariant:** a retry is written in the transaction that settles the lost job, and therefore at
//! most once.
//! **Invariant:** a later leg is no sign that nothing was done: the first one has run.

use crate::base::{ErrorKind, Ids, Result};
use crate::jobs::queue::lane::Capacities;
use crate::jobs::rows::{retry, table};
use crate::jobs::{Job, NewJob, Reason, Status, Viewer, enqueue};
use crate::script::{OnBusy, OnLost};
use crate::store::Tx;

/// Attempts per message; after that a person decides.
const ATTEMPTS_MAX: u32 = 3;

/// What retrying a job requires.
#[derive(Clone, Debug)]
pub(in crate::jobs) struct Repeat {
    pub(in crate::jobs) on_lost: OnLost,
    pub(in crate::jobs) ids: Ids,
}

/// Retries a job that was just settled, if it was lost and its inbox wants that. The new job has
/// the same message, and is a separate instance.
pub(in crate::jobs) fn repeat(
    tx: &Tx<'_>,
    job: &Job,
    how: &Repeat,
    capacities: &Capacities,
) -> Result<()> {
    let is_lost = matches!(job.reason, Some(Reason::ServerRestarted | Reason::GuardLost));
    let is_wanted = match how.on_lost {
        OnLost::Fail => false,
        OnLost::Requeue => is_lost && job.run_at.is_none() && job.resumes.is_none(),
        OnLost::RequeueAlways => is_lost || job.status == Status::TimedOut,
    };
    if !is_wanted || retry::attempt_of(tx.connection(), &job.id, ATTEMPTS_MAX)? >= ATTEMPTS_MAX {
        return Ok(());
    }
    let job = table::find(tx.connection(), &Viewer::Program, &job.id)?;
    let new = NewJob {
        kind: job.kind,
        lane: job.lane,
        on_busy: OnBusy::Queue,
        source_path: job.source_path,
        topic_id: job.topic_id,
        persona_name: job.persona_name,
        inputs: job.inputs,
        sources: job.sources,
        grants: job.grants,
        requested_by: job.requested_by,
        priority: job.priority,
        not_before: None,
        config_digest: job.config_digest,
        retry_of: Some(job.id.clone()),
        depth: retry::depth_of(tx.connection(), &job.id)?,
        message_id: job.message_id,
        owner: job.owner,
        pool: job.pool,
        agent: job.agent,
        monitor_of: None,
    };
    match enqueue(tx, &how.ids, capacities, &new) {
        Ok(_) => Ok(()),
        // The settlement stands regardless.
        Err(cause) if cause.kind() == ErrorKind::Busy => {
            retry::warn(tx, &job.id, &format!("not_repeated: {}", cause.message()))
        }
        Err(cause) => Err(cause),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::JobId;
    use crate::jobs::run::settle::{self, Ended, Outcome};
    use crate::jobs::tests::model::Bench;
    use crate::jobs::{JobFilter, Phase};

    /// Claims the queued job and loses it; returns its id.
    fn lose(bench: &mut Bench, on_lost: OnLost, has_run: bool, ended: Ended) -> JobId {
        let token = bench.clock.now().0.to_string();
        let job = bench.take(&token).unwrap();
        let repeat = Some(Repeat { on_lost, ids: bench.ids.clone() });
        let outcome = Outcome { ended, repeat, ..Outcome::default() };
        bench.tx(|bench, tx| {
            if has_run {
                settle::begin_phase(tx, &job.id, Phase::Run).unwrap();
            }
            settle::settle(tx, &job.id, &outcome, None, &bench.hooks, &bench.caps.lanes).unwrap();
        });
        job.id
    }

    fn waiting(bench: &Bench) -> Vec<Job> {
        let filter = JobFilter { status: Some(Status::Queued), limit: 10, ..JobFilter::default() };
        table::list(&bench.connection, &Viewer::Program, &filter).unwrap()
    }

    #[test]
    fn a_lost_job_is_repeated_as_its_inbox_says_and_twice_at_most() {
        let lost = Ended::Not(Status::Failed, Reason::ServerRestarted);
        let late = Ended::Not(Status::TimedOut, Reason::WallTimeout);
        let own = Ended::Not(Status::Failed, Reason::ExitStatus);
        for (on_lost, has_run, ended, is_repeated) in [
            (OnLost::Fail, false, lost, false),
            (OnLost::Requeue, false, lost, true),
            (OnLost::Requeue, true, lost, false),
            (OnLost::Requeue, false, late, false),
            (OnLost::Requeue, false, own, false),
            (OnLost::RequeueAlways, true, lost, true),
            (OnLost::RequeueAlways, true, late, true),
            (OnLost::RequeueAlways, true, own, false),
        ] {
            let mut bench = Bench::new(4, 4, 4);
            let mut new = bench.request("a", None, 0, 0);
            new.message_id = Some(bench.ids.mint());
            bench.add(new.clone());
            for attempt in 1..=3 {
                let id = lose(&mut bench, on_lost, has_run, ended);
                let waiting = waiting(&bench);
                let is_next = is_repeated && attempt < 3;
                assert_eq!(waiting.len(), usize::from(is_next), "{on_lost:?} {ended:?} {attempt}");
                let Some(next) = waiting.first() else { break };
                assert_eq!(next.retry_of.as_ref(), Some(&id));
                assert_eq!(next.message_id, new.message_id);
                assert_eq!(next.root(), &next.id);
            }
        }
    }

    #[test]
    fn a_later_leg_is_not_begun_from_the_start_unless_its_inbox_always_repeats() {
        let lost = Ended::Not(Status::Failed, Reason::ServerRestarted);
        for (on_lost, is_repeated) in
            [(OnLost::Fail, false), (OnLost::Requeue, false), (OnLost::RequeueAlways, true)]
        {
            let mut bench = Bench::new(4, 4, 4);
            let (first, _) = bench.parked(None);
            let leg = bench.tx(|bench, tx| {
                let by = (&crate::base::Actor::System, &bench.caps.lanes);
                crate::jobs::resume(tx, &bench.ids, &first, by).unwrap()
            });
            assert_eq!(lose(&mut bench, on_lost, false, lost), leg);
            assert_eq!(waiting(&bench).len(), usize::from(is_repeated), "{on_lost:?}");
        }
    }

    #[test]
    fn what_somebody_cancelled_is_not_repeated() {
        let mut bench = Bench::new(4, 4, 4);
        let new = bench.request("a", None, 0, 0);
        let id = bench.add(new);
        let job = bench.take("token").unwrap();
        bench.tx(|_, tx| {
            settle::request_cancel(tx, &job.id, &crate::base::Actor::System).unwrap();
        });
        let ended = Ended::Not(Status::Failed, Reason::ServerRestarted);
        let repeat = Some(Repeat { on_lost: OnLost::RequeueAlways, ids: bench.ids.clone() });
        let outcome = Outcome { ended, repeat, ..Outcome::default() };
        bench.tx(|bench, tx| {
            settle::settle(tx, &id, &outcome, None, &bench.hooks, &bench.caps.lanes).unwrap();
        });
        assert!(waiting(&bench).is_empty());
    }
}
