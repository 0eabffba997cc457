//! A job that is done inside of the server, from its claim to what it came to.
//!
//! **Invariant:** once it is to end its token is refused before it is told; what does not end
//! within the grace is dropped, and with it what it waits for.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;
use tracing::error;

use crate::base::{digest_hex, fault};
use crate::jobs::run::dispatch::{Inner, Running};
use crate::jobs::run::execution::failed;
use crate::jobs::run::execution::follow::fence;
use crate::jobs::run::settle::{Ended, Outcome};
use crate::jobs::run::task::{RunTask, Task, TaskClock, TaskEnd};
use crate::jobs::telemetry::limit::Limit;
use crate::jobs::{Generation, Job, Reason, Status};

/// Why a task is told to end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Cancelled,
    Late,
    Stopping,
}

/// Returns whether a job is done inside of the server.
pub(super) fn is_task(generation: &Generation, job: &Job) -> bool {
    let config = &generation.config;
    let engine = config.kind_of_job(&job.kind).and_then(|it| config.engines.get(&it.engine));
    engine.is_some_and(|it| it.is_model())
}

/// Does the work of a job; returns what it came to.
pub(super) async fn run(
    (inner, generation): (&Inner, &Generation),
    job: &Job,
    (token, run): (String, &RunTask),
    outside: &Running,
    stop: &CancellationToken,
) -> Outcome {
    let Some(kind) = generation.config.kind_of_job(&job.kind) else {
        let tail = format!("kind \"{}\" no longer exists", job.kind);
        return failed(Reason::KindChanged, tail);
    };
    let (own, clock) = (CancellationToken::new(), TaskClock::new());
    let task = Task {
        job: job.clone(),
        token_hash: digest_hex(&token),
        stop: own.clone(),
        clock: clock.clone(),
    };
    let mut work = Box::pin(AssertUnwindSafe(async { run(task).await }).catch_unwind());
    let told = tokio::select! {
        done = &mut work => {
            fence(inner, job).await;
            return outcome(generation, job, (done.ok(), None));
        }
        () = outside.cancel.cancelled() => Told::Cancelled,
        () = clock.run_out(kind.timeout) => Told::Late,
        () = stop.cancelled() => Told::Stopping,
    };
    if !fault::is_off("fence_first") {
        fence(inner, job).await;
    }
    own.cancel();
    let done = match tokio::time::timeout(inner.ground.grace, &mut work).await {
        Ok(done) => done.ok(),
        // What it came to is in what it wrote down.
        Err(_) => Some(TaskEnd::default()),
    };
    drop(work);
    outcome(generation, job, (done, Some(told)))
}

fn outcome(
    generation: &Generation,
    job: &Job,
    (done, told): (Option<TaskEnd>, Option<Told>),
) -> Outcome {
    let Some(end) = done else {
        error!(job_id = %job.id, "the task of job {} ended in a fault of the program", job.id);
        return failed(Reason::Internal, "a fault of this program".to_owned());
    };
    let config = &generation.config;
    let of_kind = config.kind_of_job(&job.kind).map(|kind| kind.engine.as_str());
    let engine = end.engine.as_deref().or(of_kind).and_then(|name| config.engines.get(name));
    let mut outcome = Outcome {
        summary: end.summary,
        usage: end.usage,
        cost_usd: end.cost_usd,
        holds_engine: engine.is_some_and(|it| it.is_held_by_limits),
        // A key is that of the site, a subscription that of the person.
        is_of_site: engine.is_none_or(|it| it.subscribed().is_none()),
        ..Outcome::default()
    };
    outcome.ended = match told {
        Some(Told::Late) => Ended::Not(Status::TimedOut, Reason::WallTimeout),
        Some(Told::Stopping) => {
            outcome.error_tail = "server restarted while job in flight".to_owned();
            Ended::Not(Status::Failed, Reason::ServerRestarted)
        }
        // The row says who cancelled it.
        Some(Told::Cancelled) => Ended::Well,
        None => match end.failure {
            None => Ended::Well,
            Some(failure) => {
                outcome.error_tail = failure.text;
                outcome.limit = failure.limit.map(|retry_at| Limit { retry_at, is_prose: false });
                Ended::Not(failure.status, failure.reason)
            }
        },
    };
    outcome
}
