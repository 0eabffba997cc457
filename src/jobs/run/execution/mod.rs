//! One job from its claim to its settled row: its phases one after the other, each with a guard of
//! its own.
//!
//! **Invariant:** the row is settled only after the last guard has ended and nothing that any of
//! them started is left.

pub(super) mod around;
mod follow;
mod give_back;
mod kept;
mod phase;
mod session;
mod task;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::base::{Error, ErrorKind, JobId, Result, fault};
use crate::jobs::fence::JOB_ENDED;
use crate::jobs::queue::parking::{self, Session};
use crate::jobs::run::dispatch::{Inner, Running};
use crate::jobs::run::engine::{KIND_CHANGED, PROMPT_FAILED};
use crate::jobs::run::instance_reply;
use crate::jobs::run::lost::Repeat;
use crate::jobs::run::outcome::{self, outcome_of};
use crate::jobs::run::settle::{self, Ended, Outcome};
use crate::jobs::run::task::RunTask;
use crate::jobs::run::watch::{Beginning, Watched};
use crate::jobs::run::workspace::{self, BAD_HOOK, Plan, WorkspaceNeed};
use crate::jobs::run::{launch, recovery, unkept_files};
use crate::jobs::speak::Noted;
use crate::jobs::telemetry::Telemetry;
use crate::jobs::{Alone, Generation, Job, Phase, Pool, Reason, ResolvedEngine, Status};
use crate::process::{Adopted, ExitCause, GuardEnd, GuardSpec};
use crate::script::{Kind, PromptBy, Reads, SCRIPT_STUCK, SECRET_MISSING, Speaks, Typed};
use crate::store::Tx;

use around::SetUp;
pub(super) use follow::{fence, note_rest, pump};
pub(in crate::jobs) use give_back::Unread;
use give_back::Unready;
use phase::Ran;
pub(super) use phase::{folders, put_left_away};

/// How long to wait before a settlement that failed (a full disk) is tried again.
const SETTLE_RETRY: Duration = Duration::from_secs(2);
/// How long the last look at the repository may take once the server stops.
const LAST_LOOK: Duration = Duration::from_millis(500);

/// Runs a job that was claimed while this was checked out; returns when its row is settled, or when
/// the server stops and cannot.
pub(super) async fn execute(
    inner: Arc<Inner>,
    generation: Arc<Generation>,
    (job, token): (Job, String),
    (outside, tasks, tip): (Running, RunTask, Option<u64>),
    stop: CancellationToken,
) {
    let generation = inner.setup.generations.pin(&job.id, generation);
    fault::crash_point("after_claim");
    while fault::holds("after_claim") {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let source = job.source_path.as_ref().map(|it| it.as_str().to_owned()).unwrap_or_default();
    info!(job_id = %job.id, kind = job.kind, source_path = source, "job {} started", job.id);
    if task::is_task(&generation, &job) {
        let outcome =
            task::run((&inner, &generation), &job, (token, &tasks), &outside, &stop).await;
        return settle_until_done((&inner, &generation), &job, outcome, &stop).await;
    }
    let prepared = prepare(&inner, &generation, (&job, token), &stop).await;
    let outcome = match prepared {
        // What it was given may be of another document that has the name by now.
        _ if job.pool != Pool::Chat && (inner.setup.hooks.tip)() != tip => {
            // What was renamed is on record then.
            (inner.setup.hooks.look)().await;
            match give_back::put_off(&inner, &job, "something else is checked out", &stop).await {
                Some(outcome) => outcome,
                None => return,
            }
        }
        Err(it) if it.is_unread && inner.unread.is_tried_again(&job) => {
            (inner.setup.hooks.unread)();
            match give_back::put_off(&inner, &job, &it.outcome.error_tail, &stop).await {
                Some(outcome) => outcome,
                None => return,
            }
        }
        // The legs before it have left their workspace.
        Err(it) if job.resumes.is_some() => {
            match around::end(&inner, &job, it.outcome, &stop).await {
                Some(outcome) => outcome,
                None => return,
            }
        }
        Err(it) => it.outcome,
        Ok(ready) if outside.cancel.is_cancelled() => {
            drop(ready);
            Outcome::default()
        }
        Ok(_) if stop.is_cancelled() => {
            if give_back::give_back(&inner, &job).await.is_ok() {
                info!(job_id = %job.id, "job {} waits for the next start", job.id);
            }
            return;
        }
        Ok(_) if !give_back::is_steady(&inner, &job).await => {
            match give_back::put_off(&inner, &job, "files that agents obey changed", &stop).await {
                Some(outcome) => outcome,
                None => return,
            }
        }
        Ok(ready) => match run_all((&inner, &generation), &job, ready, outside, &stop).await {
            Some(outcome) => outcome,
            None => return,
        },
    };
    settle_until_done((&inner, &generation), &job, outcome, &stop).await;
}

pub(super) struct Ready {
    pub(super) spec: GuardSpec,
    pub(super) reads: Option<Reads>,
    /// How its agent is spoken to, if it lives on.
    speaks: Option<Speaks>,
    /// How to type to it, if it runs in a terminal.
    typed: Option<Typed>,
    /// The session that its agent goes on with.
    going_on: Option<String>,
    /// How long its engine rests after a turn, if it is an instance that is spoken to, and what its
    /// first turn is about.
    turns: Option<(Duration, String)>,
    /// What runs around the agent.
    plan: Option<Plan>,
    /// Whether it counts if the agent was started: what was lost before may be done again.
    is_marked: bool,
}

pub(super) fn failed(reason: Reason, tail: String) -> Outcome {
    let ended = Ended::Not(Status::Failed, reason);
    Outcome { ended, error_tail: tail, ..Outcome::default() }
}

/// Computes the inputs that are not given, makes the prompt, and resolves the engine.
pub(super) async fn prepare(
    inner: &Inner,
    generation: &Arc<Generation>,
    (job, token): (&Job, String),
    stop: &CancellationToken,
) -> std::result::Result<Ready, Unready> {
    let Some(kind) = generation.config.kind_of_job(&job.kind) else {
        let tail = format!("kind \"{}\" no longer exists", job.kind);
        return Err(failed(Reason::KindChanged, tail).into());
    };
    let prepared = (inner.setup.hooks.prepare)(Arc::clone(generation), job.clone());
    let prepared = prepared.await.map_err(|cause| {
        let reason = match cause.code_str() {
            KIND_CHANGED => Reason::KindChanged,
            PROMPT_FAILED | SCRIPT_STUCK => Reason::PromptFailed,
            _ => Reason::InputsChanged,
        };
        let outcome = failed(reason, cause.message().to_owned());
        Unready { outcome, is_unread: cause.kind() == ErrorKind::Unavailable }
    })?;
    inner.unread.forget(&job.id);
    // A job that computes nothing at its start has it all on record already.
    if prepared.inputs != job.inputs || prepared.grants != job.grants {
        let (inputs, grants) = (prepared.inputs, prepared.grants);
        let id = job.id.clone();
        let keep = move |tx: &Tx<'_>| settle::keep_start(tx, &id, &inputs, &grants);
        let kept = inner.setup.store.write(keep).await;
        kept.map_err(|cause| failed(Reason::Internal, cause.chain()))?;
    }
    fault::crash_point("after_prepare");
    if let Some(files) = &prepared.files {
        let laid_out = around::lay_out(inner, job, files, stop).await;
        laid_out.map_err(|cause| failed(Reason::SpawnFailed, cause.chain()))?;
    }
    let session = match &prepared.alone {
        Some(_) => None,
        None => session::of((inner, generation), job, kind, prepared.session).await?,
    };
    let made = (prepared.prompt, token, prepared.env, session);
    let how = (kind, prepared.alone.as_ref(), prepared.workspace);
    let ready =
        ready((inner, generation), job, how, made).map_err(|cause| match cause.code_str() {
            KIND_CHANGED => failed(Reason::KindChanged, cause.message().to_owned()),
            SECRET_MISSING => failed(Reason::SpawnFailed, cause.chain()),
            BAD_HOOK => failed(Reason::PrepareFailed, cause.chain()),
            _ => failed(Reason::PromptFailed, cause.message().to_owned()),
        })?;
    Ok(ready)
}

fn ready(
    (inner, generation): (&Inner, &Generation),
    job: &Job,
    (kind, alone, left): (&Kind, Option<&Alone>, Option<WorkspaceNeed>),
    (prompt, token, env, session): (String, String, Vec<(String, String)>, Option<Session>),
) -> Result<Ready> {
    let mut engine = generation.engines.find(&kind.engine)?.clone();
    launch::fill_own_path(&inner.ground, &mut engine.argv);
    match alone {
        Some(alone) => engine.argv.extend(alone.arguments.iter().cloned()),
        None => {
            engine.argv.extend(parking::arguments(&engine.sessions, session.as_ref()));
            engine.argv.extend(launch::asking_arguments(&inner.ground, kind, &engine.asks));
        }
    }
    let turns = match &kind.inbox {
        Some(inbox) if engine.speech.is_some() => {
            launch::check_first(&prompt)?;
            Some((inbox.after_turn, prompt.clone()))
        }
        _ => None,
    };
    if let Some(speech) = engine.speech.as_ref().filter(|_| turns.is_none()) {
        engine.argv.extend(launch::system_arguments(&inner.ground, &job.id, speech));
    }
    let going_on = session.filter(|it| it.is_resumed).map(|it| it.name);
    let plan = Plan::of(&inner.ground, job, (kind, left), &env)?;
    let started = match &kind.hooks.start {
        Some(start) => {
            let argv = workspace::resolved(&inner.ground, start)?;
            Some(ResolvedEngine { argv, prompt: Some(PromptBy::Stdin), ..engine.clone() })
        }
        None => None,
    };
    let started = started.as_ref().unwrap_or(&engine);
    let made = (prompt, token);
    let mut spec = launch::guard_spec(&inner.ground, &job.id, (kind, alone), started, made, &env)?;
    if let Some(plan) = &plan {
        let is_ours = |name: &str| plan.env.iter().any(|it| it.0 == name);
        spec.launch.env.retain(|it| !is_ours(&it.0));
        spec.secrets.retain(|it| !is_ours(&it.0));
        spec.launch.env.extend(plan.env.iter().cloned());
    }
    let speaks = engine.speech.as_ref().map(|it| it.speaks);
    let typed = engine.speech.as_ref().and_then(|it| it.typed.clone());
    let is_marked = kind.inbox.is_some() || job.resumes.is_some();
    Ok(Ready { spec, reads: engine.reads, speaks, typed, going_on, turns, plan, is_marked })
}

/// Runs the agent, and the hooks around it; nothing if the server stops before all is over.
async fn run_all(
    (inner, generation): (&Inner, &Arc<Generation>),
    job: &Job,
    mut ready: Ready,
    outside: Running,
    stop: &CancellationToken,
) -> Option<Outcome> {
    let Some(plan) = ready.plan.take() else {
        return run_agent((inner, generation), job, ready, outside, stop).await;
    };
    ready.is_marked = true;
    let outcome = match around::set_up(inner, job, &plan, &outside, stop).await {
        SetUp::Left => return None,
        SetUp::Failed(outcome) => *outcome,
        SetUp::Ready(folder) => {
            ready.spec.launch.cwd = folder;
            run_agent((inner, generation), job, ready, outside, stop).await?
        }
    };
    if fault::is_off("settle_last") {
        settle_until_done((inner, generation), job, outcome.clone(), stop).await;
    }
    around::end(inner, job, outcome, stop).await
}

async fn run_agent(
    (inner, generation): (&Inner, &Arc<Generation>),
    job: &Job,
    ready: Ready,
    outside: Running,
    stop: &CancellationToken,
) -> Option<Outcome> {
    let is_kept = kept::is_kept(&ready.spec);
    let begun = match ready.is_marked {
        true => around::begin_run((inner, generation), (job, is_kept), stop).await,
        false if is_kept && job.pool != Pool::Live => kept::keep(inner, job).await,
        false => Ok(()),
    };
    match begun {
        Ok(()) => {}
        // Somebody cancelled it in this moment.
        Err(cause) if cause.code_str() == JOB_ENDED => return Some(Outcome::default()),
        Err(_) if stop.is_cancelled() => return None,
        Err(cause) => return Some(failed(Reason::Internal, cause.chain())),
    }
    let cwd = &ready.spec.launch.cwd;
    let unkept = unkept_files::refusal(generation, job, &ready.spec.launch);
    if let Some((reason, why)) = around::placeless(cwd).or(unkept) {
        return Some(failed(reason, why));
    }
    supervise((inner, generation), job, ready, outside, stop).await
}

/// Runs the agent and says what it came to; nothing if the server stops while processes are left
/// that cannot be ended: the row then stays for the next start.
async fn supervise(
    (inner, generation): (&Inner, &Arc<Generation>),
    job: &Job,
    ready: Ready,
    outside: Running,
    stop: &CancellationToken,
) -> Option<Outcome> {
    // The agent of a private job works for one person, and not in the repository.
    let watched = match job.owner {
        None => Some((inner.setup.hooks.watch)(job.id.clone(), Beginning::Now).await),
        Some(_) => None,
    };
    let Ready { spec, reads, speaks, typed, going_on: session, turns, .. } = ready;
    let is_kept = kept::is_kept(&spec);
    let listener = match (inner.setup.hooks.listen)(generation, job) {
        Ok(listener) => listener,
        Err(cause) => return Some(failed(Reason::Internal, cause.chain())),
    };
    if let Some((after_turn, first)) = turns {
        outside.rest.begin(after_turn, first);
    }
    let ears = phase::Ears { reads, speaks, typed, session, is_kept };
    let run = phase::run(inner, job, (Phase::Run, spec, ears), listener, &outside, stop);
    let (end, telemetry) = match run.await {
        Ran::Ended(end, telemetry) => (end, telemetry.map(|it| *it)),
        Ran::NotStarted(cause) => {
            let tail = format!("agent unreachable: {}", cause.chain());
            return Some(failed(Reason::SpawnFailed, tail));
        }
        Ran::Left => return None,
    };
    let mut outcome = ended((inner, generation), job, end, telemetry, stop.is_cancelled()).await;
    if outside.rest.is_session_lost() || session::is_lost(job, &outcome) {
        outcome.ended = Ended::Not(Status::Failed, Reason::SessionLost);
        outcome.error_tail = "the engine no longer knows the session of the agent".to_owned();
    }
    if let Some(watched) = watched.filter(|_| !fault::is_off("watch")) {
        outcome.warnings.extend(look_again(watched, stop).await);
    }
    Some(outcome)
}

/// Goes on with a job whose guard has outlived an earlier server; returns when its row is settled,
/// or when this server stops, too.
pub(super) async fn go_on(
    inner: Arc<Inner>,
    (job, adopted): (Job, Adopted),
    outside: Running,
    stop: CancellationToken,
) -> JobId {
    let began = inner.setup.generations.of_left(&job.id);
    let generation = inner.setup.generations.pin(&job.id, began);
    info!(job_id = %job.id, "job {} is taken over", job.id);
    let id = job.id.clone();
    let telemetry = match recovery::telemetry_again(&inner, &generation, &job, None).await {
        Ok(telemetry) => telemetry,
        Err(cause) => {
            // Without its guard it ends, and is settled like one of an earlier server.
            error!(job_id = %job.id, "its output cannot be read: {}", cause.chain());
            adopted.guard.stopper().stop(ExitCause::Stopped);
            drop(adopted);
            return recovery::wait_and_settle(inner, job, outside.kill, stop).await;
        }
    };
    let engine = inner.setup.generations.engine_of(&job);
    let typed = engine.and_then(|it| it.speech).and_then(|it| it.typed);
    if typed.is_none() && outside.voice.is_ready_at_once() {
        // One whose process had begun when its server ended, and nobody had noted it.
        follow::note(&inner, &job, vec![Noted::ready()], &stop).await;
    }
    let watched = match job.owner {
        None => Some((inner.setup.hooks.watch)(job.id.clone(), Beginning::Earlier).await),
        Some(_) => None,
    };
    let heard = (adopted.guard, telemetry, typed);
    let ran = phase::go_on(&inner, &job, heard, &outside, &stop).await;
    let Ran::Ended(end, telemetry) = ran else { return id };
    let is_stopping = stop.is_cancelled();
    let telemetry = telemetry.map(|it| *it);
    let mut outcome = ended((&inner, &generation), &job, end, telemetry, is_stopping).await;
    if let Some(watched) = watched.filter(|_| !fault::is_off("watch")) {
        outcome.warnings.extend(look_again(watched, &stop).await);
    }
    if job.phase.is_some() {
        let Some(cleaned) = around::end(&inner, &job, outcome, &stop).await else { return id };
        outcome = cleaned;
    }
    settle_until_done((&inner, &generation), &job, outcome, &stop).await;
    id
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
    instance_reply::look_at_end((inner, generation), job, &mut outcome).await;
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

/// Settles the row; a disk that is full is waited for, with the lane held.
pub(super) async fn settle_until_done(
    (inner, generation): (&Inner, &Generation),
    job: &Job,
    outcome: Outcome,
    stop: &CancellationToken,
) {
    (inner.setup.hooks.quiet)(job.id.clone()).await;
    fault::crash_point("before_settle");
    while fault::holds("before_settle") {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    loop {
        match settle_once(inner, generation, job, &outcome).await {
            Ok(settled) => {
                log_end(&settled);
                fault::crash_point("after_settle");
                return;
            }
            Err(cause) => {
                error!(job_id = %job.id, "job {} could not be settled: {}", job.id, cause.chain());
                if cause.code_str() == JOB_ENDED || stop.is_cancelled() {
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
    let (id, mut outcome) = (job.id.clone(), outcome.clone());
    let kind = generation.config.kind_of_job(&job.kind);
    let produces = kind.and_then(|kind| kind.produces);
    let inbox = kind.and_then(|kind| kind.inbox.as_ref());
    outcome.repeat = inbox.map(|it| Repeat { on_lost: it.on_lost, ids: inner.setup.ids.clone() });
    let hooks = inner.setup.hooks.clone();
    let lanes = inner.setup.generations.current().capacities().clone();
    let settle = move |tx: &Tx<'_>| settle::settle(tx, &id, &outcome, produces, &hooks, &lanes);
    inner.setup.store.write(settle).await.inspect(|it| inner.setup.generations.release(&it.id))
}

pub(super) fn log_end(job: &Job) {
    let duration_ms = match (job.started_at, job.completed_at) {
        (Some(start), Some(end)) => end.0 - start.0,
        _ => 0,
    };
    let source = job.source_path.as_ref().map(|it| it.as_str()).unwrap_or_default();
    // All six fields stand in every line, also where there is no exit code.
    let code = job.exit_code.map_or_else(|| "none".to_owned(), |it| it.to_string());
    let status = job.status.as_str();
    // A monitor is cancelled when its instance ends, which is its normal end.
    let is_over = job.monitor_of.is_some() && job.status == Status::Cancelled;
    let is_good = matches!(job.status, Status::Succeeded | Status::Parked);
    if is_good || is_over {
        info!(job_id = %job.id, kind = job.kind, source_path = source, duration_ms,
            exit_code = %code, status, "job {} ended {status}", job.id);
    } else {
        let reason = job.reason.map_or("", Reason::as_str);
        warn!(job_id = %job.id, kind = job.kind, source_path = source, duration_ms,
            exit_code = %code, status, reason, "job {} ended {status}: {reason}", job.id);
    }
}
