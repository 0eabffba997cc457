//! Jobs that were claimed and do not start: they wait again.
//!
//! **Invariant:** a start at which something could not be read is tried again a few times, each
//! after a look that could read the repository: then the cause is the job's own.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::base::{JobId, Result};
use crate::jobs::fence::JOB_ENDED;
use crate::jobs::queue::claim;
use crate::jobs::run::dispatch::Inner;
use crate::jobs::run::execution::SETTLE_RETRY;
use crate::jobs::run::settle::Outcome;
use crate::jobs::{Job, Pool};
use crate::store::Tx;

/// How often the start of a job is tried again.
const AGAIN_MAX: u8 = 5;

/// Why a job cannot start.
pub(in crate::jobs::run) struct Unready {
    /// What that comes to.
    pub(in crate::jobs::run) outcome: Outcome,
    /// Whether something could not be read that may be readable later.
    pub(super) is_unread: bool,
}

impl From<Outcome> for Unready {
    fn from(outcome: Outcome) -> Unready {
        Unready { outcome, is_unread: false }
    }
}

/// The jobs whose start is tried again, with how often it was.
#[derive(Default)]
pub(in crate::jobs) struct Unread(Mutex<HashMap<JobId, u8>>);

impl Unread {
    /// Returns whether the start of a job is tried once more. Conversations wait for no look.
    pub(super) fn is_tried_again(&self, job: &Job) -> bool {
        job.pool != Pool::Chat && self.is_left(&job.id)
    }

    fn is_left(&self, job: &JobId) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let tried = all.entry(job.clone()).or_default();
        *tried += 1;
        let is_tried_again = *tried <= AGAIN_MAX;
        if !is_tried_again {
            all.remove(job);
        }
        is_tried_again
    }

    /// What a job needs could be read.
    pub(super) fn forget(&self, job: &JobId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(job);
    }
}

/// The agent of a private job works in a folder of its own.
pub(super) async fn is_steady(inner: &Inner, job: &Job) -> bool {
    job.owner.is_some() || (inner.setup.hooks.steady)(job.id.clone()).await
}

/// Lets a job wait for this reason, as soon as that can be written; returns what it comes to if
/// somebody cancelled it in this moment.
pub(super) async fn put_off(
    inner: &Inner,
    job: &Job,
    why: &str,
    stop: &CancellationToken,
) -> Option<Outcome> {
    loop {
        match give_back(inner, job).await {
            Ok(()) => {
                info!(job_id = %job.id, "job {} waits: {why}", job.id);
                return None;
            }
            Err(cause) if cause.code_str() == JOB_ENDED => return Some(Outcome::default()),
            Err(_) => tokio::select! {
                () = tokio::time::sleep(SETTLE_RETRY) => {}
                // The next server finds that nothing was started.
                () = stop.cancelled() => return None,
            },
        }
    }
}

/// Nothing was started: the job waits, and what was renamed since its claim is renamed for it.
///
/// # Errors
/// `conflict` with code `job_ended` if it is to end; if the database cannot be written.
pub(super) async fn give_back(inner: &Inner, job: &Job) -> Result<()> {
    let (again, hooks) = (job.clone(), inner.setup.hooks.clone());
    let lanes = inner.setup.generations.current().capacities().clone();
    let back = move |tx: &Tx<'_>| {
        claim::unclaim(tx, &again, &lanes)?;
        (hooks.given_back)(tx, &again)
    };
    let given = inner.setup.store.write(back).await;
    given.inspect_err(|cause| {
        warn!(job_id = %job.id, "job {} stays claimed: {}", job.id, cause.chain());
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Ids;

    #[test]
    fn a_start_is_tried_again_a_few_times() {
        let (unread, job) = (Unread::default(), Ids::numbered().mint::<JobId>());
        let tries = || (0..10).take_while(|_| unread.is_left(&job)).count();
        assert_eq!(tries(), usize::from(AGAIN_MAX));
        unread.is_left(&job);
        unread.forget(&job);
        assert_eq!(tries(), usize::from(AGAIN_MAX));
    }
}
