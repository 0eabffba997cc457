//! One job from its claim to its settled row.
//!
//! **Invariant:** the row is settled only after the guard has ended and nothing it started is left.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{Fuse, FusedFuture as _};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::base::{Error, Result, fault};
use crate::jobs::outcome::{self, outcome_of};
use crate::jobs::queue::{Inner, Running, Watched};
use crate::jobs::refusal::Refusal;
use crate::jobs::settle::{self, Outcome};
use crate::jobs::telemetry::Telemetry;
use crate::jobs::{Generation, Job, Reason, Status, claim, job_dir, launch};
use crate::process::{
    self, ExitCause, Guard, GuardEnd, GuardEvent, GuardSpec, MARK, ProcessIdentity, Stream,
};
use crate::script::{Kind, Reads};
use crate::store::Tx;

/// How long to wait before a settlement that failed (a full disk) is tried again.
const SETTLE_RETRY: Duration = Duration::from_secs(2);
/// How long the last look at the repository may take once the server stops.
const LAST_LOOK: Duration = Duration::from_millis(500);

/// Runs a claimed job; returns when its row is settled, or when the server stops and cannot.
pub(super) async fn execute(
    inner: Arc<Inner>,
    generation: Arc<Generation>,
    (job, token): (Job, String),
    outside: Running,
    stop: CancellationToken,
) {
    let generation = inner.setup.generations.pin(&job.id, generation);
    fault::crash_point("after_claim");
    let source = job.source_path.as_ref().map(|it| it.as_str().to_owned()).unwrap_or_default();
    info!(job_id = %job.id, kind = job.kind, source_path = source, "job {} started", job.id);
    let outcome = match prepare(&inner, &generation, &job, token).await {
        Err(outcome) => outcome,
        Ok(ready) if outside.cancel.is_cancelled() => {
            drop(ready);
            Outcome::default()
        }
        Ok(_) if stop.is_cancelled() => return give_back(&inner, &job).await,
        Ok(ready) => match supervise((&inner, &generation), &job, ready, outside, &stop).await {
            Some(outcome) => outcome,
            None => return,
        },
    };
    settle_until_done((&inner, &generation), &job, outcome, &stop).await;
}

/// The server stops before anything was started: the job waits for the next one.
async fn give_back(inner: &Inner, job: &Job) {
    let again = job.clone();
    let lanes = inner.setup.generations.current().capacities().clone();
    let given = inner.setup.store.write(move |tx| claim::unclaim(tx, &again, &lanes)).await;
    match given {
        Ok(()) => info!(job_id = %job.id, "job {} waits for the next start", job.id),
        Err(cause) => warn!(job_id = %job.id, "job {} stays claimed: {}", job.id, cause.chain()),
    }
}

pub(super) struct Ready {
    pub(super) spec: GuardSpec,
    pub(super) reads: Option<Reads>,
}

fn failed(reason: Reason, tail: String) -> Outcome {
    let failure = Some((Status::Failed, reason));
    Outcome { failure, error_tail: tail, ..Outcome::default() }
}

/// Computes the inputs that are not given, makes the prompt, and resolves the engine.
pub(super) async fn prepare(
    inner: &Inner,
    generation: &Arc<Generation>,
    job: &Job,
    token: String,
) -> std::result::Result<Ready, Outcome> {
    let Some(kind) = generation.config.kinds.get(&job.kind) else {
        let tail = format!("there is no kind \"{}\" any more", job.kind);
        return Err(failed(Reason::KindChanged, tail));
    };
    let prepared = (inner.setup.hooks.prepare)(Arc::clone(generation), job.clone());
    let prepared = prepared.await.map_err(|cause| {
        let reason = match cause.code_str() {
            "kind_changed" => Reason::KindChanged,
            "prompt_failed" | "script_stuck" => Reason::PromptFailed,
            _ => Reason::InputsChanged,
        };
        failed(reason, cause.message().to_owned())
    })?;
    // A job that computes nothing at its start has it all on record already.
    if prepared.inputs != job.inputs || prepared.grants != job.grants {
        let (inputs, grants) = (prepared.inputs, prepared.grants);
        let id = job.id.clone();
        let keep = move |tx: &Tx<'_>| settle::keep_start(tx, &id, &inputs, &grants);
        let kept = inner.setup.store.write(keep).await;
        kept.map_err(|cause| failed(Reason::Internal, cause.chain()))?;
    }
    fault::crash_point("after_prepare");
    let made = (prepared.prompt, token);
    ready((inner, generation), job, kind, made).map_err(|cause| match cause.code_str() {
        "kind_changed" => failed(Reason::KindChanged, cause.message().to_owned()),
        "secret_missing" => failed(Reason::SpawnFailed, cause.chain()),
        _ => failed(Reason::PromptFailed, cause.message().to_owned()),
    })
}

fn ready(
    (inner, generation): (&Inner, &Generation),
    job: &Job,
    kind: &Kind,
    (prompt, token): (String, String),
) -> Result<Ready> {
    let engine = generation.engines.find(&kind.engine)?;
    let spec = launch::guard_spec(&inner.ground, &job.id, kind, engine, prompt, token)?;
    Ok(Ready { spec, reads: engine.reads })
}

/// Starts the guard and follows it to its end; nothing if the server stops while processes are left
/// that cannot be ended: the row then stays for the next start.
async fn supervise(
    (inner, generation): (&Inner, &Arc<Generation>),
    job: &Job,
    ready: Ready,
    outside: Running,
    stop: &CancellationToken,
) -> Option<Outcome> {
    let dir = ready.spec.job_dir.clone();
    let watched = (inner.setup.hooks.watch)(job.id.clone()).await;
    let guard = match process::spawn_guard(&inner.setup.children, ready.spec).await {
        Ok(guard) => guard,
        Err(cause) => {
            let tail = format!("agent unreachable: {}", cause.chain());
            return Some(failed(Reason::SpawnFailed, tail));
        }
    };
    fault::crash_point("after_spawn");
    let identity = guard.identity().clone();
    let clock = inner.setup.store.clock().clone();
    let telemetry = Telemetry::new(&dir, ready.reads, clock);
    // What the guard says is heard while its pid is written down.
    let ((), (end, telemetry, ending)) = tokio::join!(
        keep_guard(inner, job, identity),
        follow(inner, job, guard, telemetry, &outside, stop)
    );
    let has_survivors = match &end {
        GuardEnd::Lost => true,
        GuardEnd::Recorded(record) => !record.survivors.is_empty(),
    };
    if has_survivors {
        fence(inner, job).await;
    }
    // What the agent's tree had of its grace already, what it leaves has not again.
    let kill_at = ending.unwrap_or_else(Instant::now) + inner.ground.grace;
    if !end_all_strays(inner, job, has_survivors.then_some(kill_at), stop).await {
        return None;
    }
    let mut outcome = ended((inner, generation), job, end, telemetry, stop.is_cancelled()).await;
    if !fault::is_off("watch") {
        outcome.warnings.extend(look_again(watched, stop).await);
    }
    Some(outcome)
}

/// Says what the end of a guard came to, with the script's own check of the result.
pub(super) async fn ended(
    (inner, generation): (&Inner, &Arc<Generation>),
    job: &Job,
    end: GuardEnd,
    telemetry: Option<Telemetry>,
    is_stopping: bool,
) -> Outcome {
    let report = telemetry.map(|it| it.report().clone()).unwrap_or_default();
    let mut outcome = outcome_of((inner, generation), job, end, &report, is_stopping);
    outcome::verify(inner, generation, job, &mut outcome).await;
    outcome
}

/// Names what is different now. A server that stops has little time: what it cannot look at any
/// more is said to be unseen.
async fn look_again(watched: Watched, stop: &CancellationToken) -> Vec<String> {
    let look = watched();
    tokio::pin!(look);
    let told = tokio::select! {
        told = &mut look => return told,
        () = stop.cancelled() => tokio::time::timeout(LAST_LOOK, look).await,
    };
    told.unwrap_or_else(|_| vec!["unwatched: the server stopped before it could look".to_owned()])
}

async fn keep_guard(inner: &Inner, job: &Job, identity: ProcessIdentity) {
    let id = job.id.clone();
    let kept = inner.setup.store.write(move |tx| settle::keep_guard(tx, &id, &identity)).await;
    if let Err(cause) = kept {
        // The guard is ours all the same, and its lock proves it: only the pid is not on record.
        warn!(job_id = %job.id, "the guard's pid was not recorded: {}", cause.chain());
    }
    fault::crash_point("after_guard");
}

async fn follow(
    inner: &Inner,
    job: &Job,
    mut guard: Guard,
    telemetry: Telemetry,
    outside: &Running,
    stop: &CancellationToken,
) -> (GuardEnd, Option<Telemetry>, Option<Instant>) {
    let mut ending = None;
    let stopper = guard.stopper();
    let mut telemetry = Some(telemetry);
    let (mut is_told, mut is_fenced, mut is_in_call) = (false, false, false);
    // The fence is written while the guard brings the end about: neither waits for the other, and
    // the settlement comes after both.
    let mut fencing = std::pin::pin!(Fuse::terminated());
    // A guard that stands still is killed by `process` and comes back as lost.
    loop {
        let event = tokio::select! {
            event = guard.next() => event,
            () = fencing.as_mut(), if !fencing.is_terminated() => continue,
            () = outside.cancel.cancelled(), if !is_told => {
                is_told = true;
                ending.get_or_insert_with(Instant::now);
                stopper.stop(ExitCause::Stopped);
                continue;
            }
            () = stop.cancelled(), if !is_told => {
                is_told = true;
                ending.get_or_insert_with(Instant::now);
                fence(inner, job).await;
                stopper.stop(ExitCause::Stopped);
                continue;
            }
        };
        match event {
            None => break,
            Some(GuardEvent::AgentExited { .. } | GuardEvent::Ending { .. }) => {
                ending.get_or_insert_with(Instant::now);
                if !is_fenced {
                    is_fenced = true;
                    fencing.set(fence(inner, job).fuse());
                }
            }
            Some(GuardEvent::Output { stream: Stream::Stdout, .. }) => {
                let refused = outside.refusals.take();
                let (again, is_final) = pump(telemetry.take(), job, refused, false).await;
                telemetry = again;
                if is_final {
                    stopper.final_result();
                }
                let now_in_call = telemetry.as_ref().is_some_and(Telemetry::is_in_call);
                if now_in_call != is_in_call {
                    is_in_call = now_in_call;
                    stopper.in_call(is_in_call);
                }
            }
            Some(_) => {}
        }
    }
    let end = guard.wait().await;
    if !fencing.is_terminated() {
        fencing.await;
    }
    fault::crash_point("after_exit");
    // The fence stands: nothing more is refused to a running job.
    let refused = outside.refusals.take();
    let (telemetry, _) = pump(telemetry.take(), job, refused, true).await;
    (end, telemetry, ending)
}

pub(super) async fn pump(
    telemetry: Option<Telemetry>,
    job: &Job,
    refused: Vec<Refusal>,
    is_last: bool,
) -> (Option<Telemetry>, bool) {
    let Some(mut telemetry) = telemetry else { return (None, false) };
    let pumped = tokio::task::spawn_blocking(move || {
        // An agent is refused before it prints so.
        let found = telemetry.refused(refused).and_then(|()| match is_last {
            true => telemetry.finish().map(|()| false),
            false => telemetry.pump(),
        });
        (telemetry, found)
    });
    match pumped.await {
        Ok((telemetry, Ok(is_final))) => (Some(telemetry), is_final),
        Ok((telemetry, Err(cause))) => {
            // Telemetry never decides; a job is not failed for the want of it.
            warn!(job_id = %job.id, "telemetry: {}", cause.chain());
            (Some(telemetry), false)
        }
        Err(cause) => {
            error!(job_id = %job.id, "telemetry: {cause}");
            (None, false)
        }
    }
}

pub(super) async fn fence(inner: &Inner, job: &Job) {
    let id = job.id.clone();
    if let Err(cause) =
        inner.setup.store.write(move |tx| settle::begin_ending(tx, &id).map(|_| ())).await
    {
        // The settlement sets the same column, so a token outlives this failure by moments only.
        error!(job_id = %job.id, "the job could not be fenced: {}", cause.chain());
    }
    fault::crash_point("after_fence");
}

/// Ends what a guard left behind, until nothing is left: the lane is held until then. With
/// `kill_at` the guard was killed, and what it started is looked for everywhere; otherwise in the
/// job's cgroup only. Whether nothing is; false only if the server stops meanwhile.
async fn end_all_strays(
    inner: &Inner,
    job: &Job,
    kill_at: Option<Instant>,
    stop: &CancellationToken,
) -> bool {
    while !end_strays(inner, job, kill_at).await {
        tokio::select! {
            () = tokio::time::sleep(SETTLE_RETRY) => {}
            () = stop.cancelled() => return false,
        }
    }
    true
}

/// The second subreaper: what a killed guard left behind came to this process.
async fn end_strays(inner: &Inner, job: &Job, kill_at: Option<Instant>) -> bool {
    let mut are_gone = true;
    if let Some(kill_at) = kill_at {
        let left = || kill_at.saturating_duration_since(Instant::now());
        let by_parent = process::sweep_orphans(&inner.setup.children, left()).await;
        let by_mark = process::end_marked(MARK, job.id.as_str(), left()).await;
        for ended in [by_parent, by_mark] {
            match ended {
                Ok(0) => {}
                Ok(count) => warn!(job_id = %job.id, "ended {count} processes that a guard left"),
                Err(cause) => {
                    error!(job_id = %job.id, "strays: {}", cause.chain());
                    are_gone = false;
                }
            }
        }
    }
    let dir = job_dir(&inner.ground.data, &job.id);
    match inner.ground.cgroups.end(job.id.as_str(), &inner.ground.data, &dir).await {
        Ok(false) => {}
        Ok(true) => warn!(job_id = %job.id, "ended what was left in the job's cgroup"),
        Err(cause) => {
            error!(job_id = %job.id, "strays: {}", cause.chain());
            are_gone = false;
        }
    }
    are_gone
}

/// Settles the row; a disk that is full is waited for, with the lane held.
pub(super) async fn settle_until_done(
    (inner, generation): (&Inner, &Generation),
    job: &Job,
    outcome: Outcome,
    stop: &CancellationToken,
) {
    fault::crash_point("before_settle");
    loop {
        match settle_once(inner, generation, job, &outcome).await {
            Ok(settled) => {
                log_end(&settled);
                fault::crash_point("after_settle");
                return;
            }
            Err(cause) => {
                error!(job_id = %job.id, "job {} could not be settled: {}", job.id, cause.chain());
                if cause.code_str() == "job_ended" || stop.is_cancelled() {
                    return;
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(SETTLE_RETRY) => {}
            () = stop.cancelled() => {}
        }
    }
}

pub(super) async fn settle_once(
    inner: &Inner,
    generation: &Generation,
    job: &Job,
    outcome: &Outcome,
) -> Result<Job, Error> {
    let (id, outcome) = (job.id.clone(), outcome.clone());
    let produces = generation.config.kinds.get(&job.kind).and_then(|kind| kind.produces);
    let hooks = inner.setup.hooks.clone();
    let lanes = inner.setup.generations.current().capacities().clone();
    inner
        .setup
        .store
        .write(move |tx| settle::settle(tx, &id, &outcome, produces, &hooks, &lanes))
        .await
}

pub(super) fn log_end(job: &Job) {
    let duration_ms = match (job.started_at, job.completed_at) {
        (Some(start), Some(end)) => end.0 - start.0,
        _ => 0,
    };
    let source = job.source_path.as_ref().map(|it| it.as_str()).unwrap_or_default();
    // All six fields of document A stand in every line, also where there is no exit code.
    let code = job.exit_code.map_or_else(|| "none".to_owned(), |it| it.to_string());
    let status = job.status.as_str();
    if job.status == Status::Succeeded {
        info!(job_id = %job.id, kind = job.kind, source_path = source, duration_ms,
            exit_code = %code, status, "job {} ended {status}", job.id);
    } else {
        let reason = job.reason.map_or("", Reason::as_str);
        warn!(job_id = %job.id, kind = job.kind, source_path = source, duration_ms,
            exit_code = %code, status, reason, "job {} ended {status}: {reason}", job.id);
    }
}
