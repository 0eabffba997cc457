//! The queue's running executions: what each does, whatever happens to it.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use tokio::task::{self, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::error;

use crate::base::JobId;
use crate::jobs::run::dispatch::{Inner, Queue, Running};
use crate::jobs::run::silent_guard::{self, Waited};
use crate::jobs::run::task::RunTask;
use crate::jobs::run::{execution, recovery};
use crate::jobs::{Generation, Job, Pool};
use crate::process::Adopted;

/// Running executions, with their pools and jobs.
#[derive(Default)]
pub(super) struct Tasks {
    all: JoinSet<JobId>,
    about: HashMap<task::Id, (Pool, JobId)>,
}

impl Tasks {
    /// Starts one.
    pub(super) fn spawn(
        &mut self,
        about: (Pool, JobId),
        run: impl Future<Output = JobId> + Send + 'static,
    ) {
        let handle = self.all.spawn(run);
        self.about.insert(handle.id(), about);
    }

    /// Returns whether a job has an execution: one that was given back may have the next one before
    /// the last one has ended.
    pub(super) fn has(&self, job: &JobId) -> bool {
        self.about.values().any(|it| it.1 == *job)
    }

    /// Returns how many run in a pool.
    pub(super) fn of(&self, pool: Pool) -> u32 {
        let count = self.about.values().filter(|it| it.0 == pool).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Waits for the next execution to end; `None` if there are none.
    pub(super) async fn join_next(&mut self) -> Option<std::result::Result<JobId, JoinError>> {
        let ended = self.all.join_next_with_id().await?;
        let task = ended.as_ref().map_or_else(JoinError::id, |(task, _)| *task);
        self.about.remove(&task);
        Some(ended.map(|(_, job)| job))
    }
}

/// Runs a job. If this fails because of a bug, the guard loses its lifeline and ends the agent, and
/// the job is settled like one of an earlier server.
pub(super) async fn run_to_end(
    inner: Arc<Inner>,
    generation: Arc<Generation>,
    (job, token): (Job, String),
    with: (Running, RunTask, Option<u64>),
    stop: CancellationToken,
) -> JobId {
    let (again, id, kill) = (job.clone(), job.id.clone(), with.0.kill.clone());
    let run = execution::execute(Arc::clone(&inner), generation, (job, token), with, stop.clone());
    if AssertUnwindSafe(run).catch_unwind().await.is_err() {
        error!(job_id = %id, "the execution of job {id} ended in a fault of the program");
        return recovery::wait_and_settle(inner, again, kill, stop).await;
    }
    id
}

/// The same for a job that was taken over.
pub(super) async fn go_on_to_end(
    inner: Arc<Inner>,
    (job, adopted): (Job, Adopted),
    outside: Running,
    stop: CancellationToken,
) -> JobId {
    let (again, id, kill) = (job.clone(), job.id.clone(), outside.kill.clone());
    let run = execution::go_on(Arc::clone(&inner), (job, adopted), outside, stop.clone());
    if AssertUnwindSafe(run).catch_unwind().await.is_err() {
        error!(job_id = %id, "following job {id} ended in a fault of the program");
        return recovery::wait_and_settle(inner, again, kill, stop).await;
    }
    id
}

/// Waits for a guard that does not answer, and follows its job to the end.
pub(super) async fn wait_to_end(
    inner: Arc<Inner>,
    job: Job,
    outside: Running,
    stop: CancellationToken,
) -> JobId {
    match silent_guard::wait(&inner, &job, &outside, &stop).await {
        Waited::Answered(adopted) => {
            Queue { inner: Arc::clone(&inner) }.open_voice(&job, &adopted, &outside);
            go_on_to_end(inner, (job, *adopted), outside, stop).await
        }
        Waited::Gone => {
            execution::fence(&inner, &job).await;
            recovery::wait_and_settle(inner, job, outside.kill, stop).await
        }
        Waited::Left => job.id,
    }
}
