//! The hooks of the script around an agent: its workspace is made, `prepare` runs in it, then the
//! agent, then `cleanup`.
//!
//! **Invariant:** the row says which phase is next before anything of that phase is started.
//! **Invariant:** a cleanup runs whatever went before, once there is a row of the workspace.
//! **Invariant:** hooks and agent run in their folder or not at all. Where the server makes a
//! worktree, that is the worktree itself, and no link in its place.

use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use rusqlite::Connection;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::base::limit::{ERROR_TAIL_BYTES_MAX, format_duration};
use crate::base::{DISK_FULL, Error, Result, fault, tail_of};
use crate::jobs::rows::sentence::{NO_FOLDER, NO_WORKTREE};
use crate::jobs::rows::{retention, table};
use crate::jobs::run::decide;
use crate::jobs::run::dispatch::{Inner, Running};
use crate::jobs::run::execution::follow::is_final;
use crate::jobs::run::execution::phase::{self, Ran};
use crate::jobs::run::execution::{SETTLE_RETRY, failed};
use crate::jobs::run::instance_reply::{self, InstanceFiles};
use crate::jobs::run::launch;
use crate::jobs::run::monitor;
use crate::jobs::run::settle::{self, Outcome};
use crate::jobs::run::workspace::{HookRun, Plan, is_folder};
use crate::jobs::{Generation, Job, Phase, Reason, Status, Viewer, job_dir};
use crate::process::{self, ExitCause, ExitRecord, GuardEnd, Stream};
use crate::store::Tx;

/// The result of the steps before the agent.
pub(super) enum SetUp {
    /// The agent starts in this folder.
    Ready(Utf8PathBuf),
    /// It does not start.
    Failed(Box<Outcome>),
    /// The server is stopping; the next one continues.
    Left,
}

/// How a cleanup ended.
pub(in crate::jobs) enum Cleaned {
    /// It is done, with a note for people.
    Done(Option<String>),
    /// The server is stopping; the next one continues.
    Left,
}

/// Writes the files of an instance. On a full disk it waits for room; what was written by halves
/// is written again.
pub(super) async fn lay_out(
    inner: &Inner,
    job: &Job,
    files: &InstanceFiles,
    stop: &CancellationToken,
) -> Result<()> {
    while fault::holds("before_files") {
        tokio::time::sleep(SETTLE_RETRY).await;
    }
    while let Err(cause) = instance_reply::lay_out(inner, job, files) {
        if cause.code_str() != DISK_FULL {
            return Err(cause);
        }
        if wait_for_room(job, cause, stop).await.is_err() {
            // The server stops: the job is given back.
            return Ok(());
        }
    }
    Ok(())
}

/// Makes the workspace and runs `prepare`.
pub(super) async fn set_up(
    inner: &Inner,
    job: &Job,
    plan: &Plan,
    outside: &Running,
    stop: &CancellationToken,
) -> SetUp {
    if fault::is_off("phase_order") {
        return SetUp::Ready(plan.base.clone());
    }
    while let Err(cause) = begin(inner, job, Phase::Prepare).await {
        match wait_for_room(job, cause, stop).await {
            Ok(()) => {}
            Err(_) if stop.is_cancelled() => return SetUp::Left,
            Err(cause) => return SetUp::Failed(Box::new(failed(Reason::Internal, cause.chain()))),
        }
    }
    fault::crash_point("before_workspace");
    let made = (inner.setup.hooks.workspace.make)(plan.need.clone()).await;
    fault::crash_point("after_workspace");
    let folder = match made {
        Ok(folder) => folder,
        Err(cause) => {
            return not_prepared(format!("{NO_WORKTREE} cannot be made: {}", cause.chain()));
        }
    };
    if outside.cancel.is_cancelled() {
        return SetUp::Failed(Box::default());
    }
    if stop.is_cancelled() {
        return SetUp::Left;
    }
    // A later leg goes on where the one before it was.
    if let Some(hook) = plan.prepare.as_ref().filter(|_| job.resumes.is_none())
        && let Some(halt) = prepare(inner, job, hook, outside, stop).await
    {
        return halt;
    }
    match plan.need.repo.is_some() {
        true if is_folder(&folder) => SetUp::Ready(folder),
        true => not_prepared(format!("{NO_WORKTREE} {folder} is not there any more")),
        false if folder.is_dir() => SetUp::Ready(folder),
        // `run_agent` refuses one that is not there.
        false => SetUp::Ready(plan.base.clone()),
    }
}

/// Returns why an agent is not started whose folder is not there.
pub(super) fn placeless(cwd: &Utf8Path) -> Option<(Reason, String)> {
    (!cwd.is_dir()).then(|| (Reason::PrepareFailed, lacks(cwd)))
}

fn lacks(folder: &Utf8Path) -> String {
    format!("{NO_FOLDER} {folder} is not there")
}

/// Runs the hook `prepare`; returns why the agent does not start, if it does not.
async fn prepare(
    inner: &Inner,
    job: &Job,
    hook: &HookRun,
    outside: &Running,
    stop: &CancellationToken,
) -> Option<SetUp> {
    let dir = job_dir(&inner.ground.data, &job.id).join("prepare");
    let ran = run(inner, job, (Phase::Prepare, hook, &dir), outside, stop).await;
    fault::crash_point("after_prepare_hook");
    let why = match ran {
        Err(cause) => cause.chain(),
        Ok(None) => return Some(SetUp::Left),
        Ok(Some(ended)) => failure((hook, "prepare"), &dir, &ended)?,
    };
    // It may have been stopped because of one of these.
    if outside.cancel.is_cancelled() {
        return Some(SetUp::Failed(Box::default()));
    }
    if stop.is_cancelled() {
        return Some(SetUp::Left);
    }
    Some(not_prepared(why))
}

fn not_prepared(why: String) -> SetUp {
    SetUp::Failed(Box::new(failed(Reason::PrepareFailed, why)))
}

/// Cleans up after an agent; nothing if the server stops before that is over.
pub(super) async fn end(
    inner: &Inner,
    job: &Job,
    mut outcome: Outcome,
    stop: &CancellationToken,
) -> Option<Outcome> {
    loop {
        match end_workspace(inner, job, &outcome, stop).await {
            Ok(Cleaned::Left) => return None,
            Ok(Cleaned::Done(warning)) => {
                outcome.warnings.extend(warning);
                return Some(outcome);
            }
            Err(cause) => error!(job_id = %job.id, "no cleanup yet: {}", cause.chain()),
        }
        tokio::select! {
            () = tokio::time::sleep(SETTLE_RETRY) => {}
            () = stop.cancelled() => return None,
        }
    }
}

/// Cleans up after a job's run, unless the job is parked.
pub(in crate::jobs) async fn end_workspace(
    inner: &Inner,
    job: &Job,
    outcome: &Outcome,
    stop: &CancellationToken,
) -> Result<Cleaned> {
    let is_begun = job.phase == Some(Phase::Cleanup);
    match !is_begun && is_parked(inner, job, outcome).await? {
        true => Ok(Cleaned::Done(None)),
        false => clean_up(inner, job, stop).await,
    }
}

/// Returns whether a job is parked by the end of its run: then its workspace stays for its next
/// leg. One whose request is withdrawn in this moment leaves it to the next sweep.
async fn is_parked(inner: &Inner, job: &Job, outcome: &Outcome) -> Result<bool> {
    let id = job.id.clone();
    let find = move |c: &Connection| table::find_slim(c, &Viewer::Program, &id);
    let now = inner.setup.store.read(find).await?;
    Ok(decide::is_parked(&now, outcome))
}

/// Runs the cleanup of a job's workspace, if it has one. It can be done again whenever the server
/// died in the middle: each has a number and a folder of its own.
pub(in crate::jobs) async fn clean_up(
    inner: &Inner,
    job: &Job,
    stop: &CancellationToken,
) -> Result<Cleaned> {
    if stop.is_cancelled() {
        return Ok(Cleaned::Left);
    }
    if job.status == Status::Running {
        begin(inner, job, Phase::Cleanup).await?;
    }
    fault::crash_point("before_cleanup");
    let hooks = &inner.setup.hooks.workspace;
    let Some(cleanup) = (hooks.begin_cleanup)(job.root().clone()).await? else {
        return Ok(Cleaned::Done(None));
    };
    let (mut why, mut missed) = (None, None);
    let folder =
        |number: u32| job_dir(&inner.ground.data, &job.id).join(format!("cleanup-{number}"));
    if let Some(hook) = cleanup.hook.as_ref().filter(|it| !it.has_place()) {
        // One that has done its work before a crash may have lost its worktree since.
        let earlier = cleanup.number.checked_sub(1).map(&folder);
        let is_done = earlier.is_some_and(|dir| has_ended_well(&dir));
        let says = format!("it was not run: {} is not there", hook.cwd);
        match hook.is_bound {
            _ if is_done => {}
            true => missed = Some(format!("cleanup_failed: {says}")),
            // A disk may be mounted again: the sweep tries it again.
            false => why = Some(says),
        }
    } else if let Some(hook) = &cleanup.hook {
        let dir = folder(cleanup.number);
        // Nobody cancels a cleanup, but its processes may be killed.
        let outside = Running { kill: inner.kill_of(&job.id), ..Running::default() };
        let ran = run(inner, job, (Phase::Cleanup, hook, &dir), &outside, stop).await;
        fault::crash_point("after_cleanup_hook");
        why = match ran {
            Err(cause) => Some(format!("cleanup cannot be started: {}", cause.chain())),
            Ok(None) => return Ok(Cleaned::Left),
            Ok(Some(ended)) => failure((hook, "cleanup"), &dir, &ended),
        };
        if why.is_some() && stop.is_cancelled() {
            return Ok(Cleaned::Left);
        }
    }
    let warning = (hooks.end_cleanup)(job.root().clone(), why).await?.or(missed);
    fault::crash_point("after_cleanup");
    match &warning {
        None => info!(job_id = %job.id, "the workspace of job {} is cleaned up", job.id),
        Some(warning) => warn!(job_id = %job.id, "{warning}"),
    }
    Ok(Cleaned::Done(warning))
}

fn has_ended_well(dir: &Utf8Path) -> bool {
    let record = process::read_exit_record(dir).ok().flatten();
    record.is_some_and(|it| it.cause == ExitCause::Exit && it.code == Some(0))
}

/// Commits which phase is next, before anything of it is started. A cleanup ends the monitor.
pub(super) async fn begin(inner: &Inner, job: &Job, phase: Phase) -> Result<()> {
    let (id, lanes) = (job.id.clone(), inner.setup.generations.current().capacities().clone());
    let begin = move |tx: &Tx<'_>| {
        settle::begin_phase(tx, &id, phase)?;
        if phase == Phase::Cleanup { monitor::end(tx, &id, &lanes) } else { Ok(()) }
    };
    inner.setup.store.write(begin).await
}

/// Waits a moment if a phase could not be written because the disk is full, which is no fault of
/// the job; returns any other error, and this one if the server stops.
async fn wait_for_room(job: &Job, cause: Error, stop: &CancellationToken) -> Result<()> {
    if is_final(&cause) || stop.is_cancelled() {
        return Err(cause);
    }
    warn!(job_id = %job.id, "its next phase waits: {}", cause.chain());
    tokio::select! {
        () = tokio::time::sleep(SETTLE_RETRY) => {}
        () = stop.cancelled() => {}
    }
    Ok(())
}

/// Commits that the agent starts next, together with what its script starts with it.
pub(super) async fn begin_run(
    (inner, generation): (&Inner, &Arc<Generation>),
    (job, is_kept): (&Job, bool),
    stop: &CancellationToken,
) -> Result<()> {
    loop {
        let (about, generation) = (job.clone(), Arc::clone(generation));
        let begun = Arc::clone(&inner.setup.hooks.begun);
        let begin = move |tx: &Tx<'_>| {
            settle::begin_phase(tx, &about.id, Phase::Run)?;
            if is_kept {
                retention::keep(tx, &about.id)?;
            }
            begun(tx, &generation, &about)
        };
        match inner.setup.store.write(begin).await {
            Ok(()) => break,
            Err(cause) => wait_for_room(job, cause, stop).await?,
        }
    }
    fault::crash_point("run_begun");
    Ok(())
}

/// Returns why `prepare` failed, for a job whose run never began.
pub(in crate::jobs) fn prepare_failure(data: &Utf8Path, job: &Job) -> Option<String> {
    let dir = job_dir(data, &job.id).join("prepare");
    let record = process::read_exit_record(&dir).ok().flatten()?;
    let is_own = !matches!(record.cause, ExitCause::Stopped | ExitCause::Lifeline);
    let limit = std::time::Duration::ZERO;
    is_own.then(|| told(("prepare", limit), &dir, &record)).flatten()
}

async fn run(
    inner: &Inner,
    job: &Job,
    (phase, hook, dir): (Phase, &HookRun, &Utf8Path),
    outside: &Running,
    stop: &CancellationToken,
) -> Result<Option<GuardEnd>> {
    if !hook.has_place() {
        return Err(Error::unavailable(lacks(&hook.cwd)));
    }
    let spec = launch::hook_spec(&inner.ground, &job.id, dir, hook);
    match phase::run(inner, job, (phase, spec, phase::Ears::default()), None, outside, stop).await {
        Ran::NotStarted(cause) => Err(cause),
        Ran::Left => Ok(None),
        Ran::Ended(end, _) => Ok(Some(end)),
    }
}

/// Returns why a hook failed, if it did.
fn failure((hook, name): (&HookRun, &str), dir: &Utf8Path, end: &GuardEnd) -> Option<String> {
    let limit = std::time::Duration::from_millis(hook.timeout_ms);
    match end {
        GuardEnd::Lost => Some(format!("the guard of {name} ended without a record")),
        GuardEnd::Recorded(record) => told((name, limit), dir, record),
    }
}

fn told(
    (name, limit): (&str, std::time::Duration),
    dir: &Utf8Path,
    record: &ExitRecord,
) -> Option<String> {
    let how = match (record.cause, record.code, record.signal) {
        (ExitCause::Exit, Some(0), _) => return None,
        (ExitCause::Exit, Some(code), _) => format!("{name} exited {code}"),
        (ExitCause::Exit, _, Some(signal)) => format!("{name} was ended by signal {signal}"),
        (ExitCause::WallTimeout, ..) if limit.is_zero() => format!("{name} took too long"),
        (ExitCause::WallTimeout, ..) => {
            format!("{name} did not end within {}", format_duration(limit))
        }
        (ExitCause::SpawnFailed, ..) => {
            format!("{name} cannot be started: {}", record.error.as_deref().unwrap_or_default())
        }
        _ => format!("{name} was stopped"),
    };
    let said = process::output_tail(dir, Stream::Stderr, ERROR_TAIL_BYTES_MAX / 2)
        .map(|it| tail_of(&it, ERROR_TAIL_BYTES_MAX / 2));
    match said {
        Ok(said) if said.trim().is_empty() => Some(how),
        Ok(said) => Some(format!("{how}\n{said}")),
        Err(cause) => Some(format!("{how}; its stderr cannot be read: {}", cause.message())),
    }
}

/// Returns the error of a job whose cleanup goes on at the next start.
pub(in crate::jobs) fn left(job: &Job) -> Error {
    Error::unavailable(format!("the server stopped during the cleanup of job {}", job.id))
}
