//! Jobs that an earlier server left running.
//!
//! **Invariant:** a job is settled only with its lock in hand: the lock is the proof that its guard
//! has ended. The recorded pid is for signals only, and those need proof of their own.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use crate::base::{Context, Error, ErrorKind, JobId, Result, fault};
use crate::jobs::queue::Inner;
use crate::jobs::settle::Outcome;
use crate::jobs::telemetry::Telemetry;
use crate::jobs::{Job, Reason, Status, execution, job_dir, table};
use crate::process::{self, ExitCause, FileLock, GuardEnd, ProcessIdentity};

/// How often a lock that a dying guard still holds is tried. The guard ends within its grace.
const LOCK_RETRY: Duration = Duration::from_millis(50);

/// Settles every running job whose lock is free; returns the others.
pub(super) async fn recover(inner: &Arc<Inner>) -> Result<Vec<Job>> {
    let running = inner.setup.store.read(table::running).await?;
    let mut left = Vec::new();
    for job in running {
        match try_lock(inner, &job) {
            Ok(Some(lock)) => {
                settle_with_lock(inner, &job, lock, &CancellationToken::new()).await;
            }
            Ok(None) => left.push(job),
            Err(cause) => {
                error!(job_id = %job.id, "cannot look after it: {}", cause.chain());
                left.push(job);
            }
        }
    }
    Ok(left)
}

/// Waits for the guard of one job to end, and settles it; its lane is held until then.
pub(super) async fn wait_and_settle(inner: Arc<Inner>, job: Job, stop: CancellationToken) -> JobId {
    while !stop.is_cancelled() {
        match try_lock(&inner, &job) {
            Ok(Some(lock)) => {
                settle_with_lock(&inner, &job, lock, &stop).await;
                break;
            }
            Ok(None) => {}
            Err(cause) => {
                error!(job_id = %job.id, "cannot look after it: {}", cause.chain());
                break;
            }
        }
        tokio::select! {
            () = tokio::time::sleep(LOCK_RETRY) => {}
            () = stop.cancelled() => {}
        }
    }
    job.id
}

fn try_lock(inner: &Inner, job: &Job) -> Result<Option<FileLock>> {
    use std::os::unix::fs::DirBuilderExt as _;
    let dir = job_dir(&inner.ground.data, &job.id);
    // A server that died between the claim and the start had not made the folder yet.
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&dir)
        .context(ErrorKind::Unavailable, || format!("cannot create {dir}"))?;
    if fault::is_off("recovery_lock") {
        return FileLock::try_take(&dir.join("lock.ignored"));
    }
    // An agent of our own uid can remove the file of the lock; the guard's identity it cannot fake.
    if job.guard.as_ref().is_some_and(ProcessIdentity::is_alive) {
        return Ok(None);
    }
    FileLock::try_take(&dir.join("lock"))
}

async fn settle_with_lock(inner: &Arc<Inner>, job: &Job, lock: FileLock, stop: &CancellationToken) {
    let dir = job_dir(&inner.ground.data, &job.id);
    // A guard that was killed together with its server cannot have swept.
    let ended = process::end_marked(process::MARK, job.id.as_str(), inner.ground.grace).await;
    match ended {
        Ok(0) => {}
        Ok(count) => {
            warn!(job_id = %job.id, "ended {count} processes of a job whose guard is gone")
        }
        Err(cause) => error!(job_id = %job.id, "strays: {}", cause.chain()),
    }
    let record = process::read_exit_record(&dir).unwrap_or_else(|cause| {
        warn!(job_id = %job.id, "{}", cause.chain());
        None
    });
    // Also of an agent that ended because its server did: what it cost was spent.
    let report = read_again(inner, job).await;
    let outcome = match record {
        Some(record) => {
            // Told to stop by a server that did not live to write it down.
            let is_stopping = record.cause == ExitCause::Stopped;
            execution::outcome_of(inner, job, GuardEnd::Recorded(record), &report, is_stopping)
        }
        None => Outcome {
            failure: Some((Status::Failed, Reason::ServerRestarted)),
            error_tail: "server restarted while job in flight".to_owned(),
            summary: report.summary,
            usage: report.usage,
            cost_usd: report.cost_usd,
            session_ref: report.session_ref,
            ..Outcome::default()
        },
    };
    execution::settle_until_done(inner, job, outcome, stop).await;
    drop(lock);
}

/// Reads the agent's whole output again: the server that followed it is gone.
async fn read_again(inner: &Inner, job: &Job) -> crate::jobs::telemetry::Report {
    let dir = job_dir(&inner.ground.data, &job.id);
    let config = &inner.setup.config;
    let kind = config.kinds.get(&job.kind);
    let engine = kind.and_then(|it| inner.setup.engines.find(&it.engine).ok());
    let reads = engine.and_then(|it| it.reads);
    let clock = inner.setup.store.clock().clone();
    let read = tokio::task::spawn_blocking(move || {
        let mut telemetry = Telemetry::afresh(&dir, reads, clock)?;
        telemetry.finish()?;
        Ok::<_, Error>(telemetry.report().clone())
    });
    match read.await {
        Ok(Ok(report)) => report,
        Ok(Err(cause)) => {
            warn!(job_id = %job.id, "telemetry: {}", cause.chain());
            Default::default()
        }
        Err(cause) => {
            error!(job_id = %job.id, "telemetry: {cause}");
            Default::default()
        }
    }
}
