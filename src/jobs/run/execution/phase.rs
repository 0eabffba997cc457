//! One phase of a job: a guard is started and followed, and what it leaves is ended.
//!
//! **Invariant:** the phases of a job never overlap: [`run`] returns only when nothing that it
//! started is left.

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::base::{DISK_FULL, Error, Result, fault};
use crate::jobs::run::dispatch::{Inner, Running};
use crate::jobs::run::execution::follow::{Followed, fence, follow, note, read_on};
use crate::jobs::run::launch::HOOKS_FILE_NAME;
use crate::jobs::run::settle;
use crate::jobs::run::speech::{folder_of, greeting_of, secrets_of};
use crate::jobs::speak::Noted;
use crate::jobs::speak::last_screen::put_away;
use crate::jobs::speak::typist::{self, Place, session_of};
use crate::jobs::speak::veil::Veil;
use crate::jobs::telemetry::Telemetry;
use crate::jobs::{Job, Listener, Phase, Status, job_dir};
use crate::process::{self, Guard, GuardEnd, GuardSpec, MARK, ProcessIdentity};
use crate::script::{Reads, Speaks, Typed};

/// How long to wait before what cannot be ended is tried again.
const STRAYS_RETRY: Duration = Duration::from_secs(2);

/// How long to wait before a guard that found no room is started again.
const ROOM_RETRY: Duration = Duration::from_secs(2);

/// What is seen of a terminal and not written down yet.
const SEEN_MAX: usize = 16;

/// What is read of a phase.
#[derive(Clone, Debug, Default)]
pub(in crate::jobs) struct Ears {
    /// Form of its output.
    pub(in crate::jobs) reads: Option<Reads>,
    /// How its agent is spoken to, if it lives on.
    pub(in crate::jobs) speaks: Option<Speaks>,
    /// How to type to it, if it runs in a terminal.
    pub(in crate::jobs) typed: Option<Typed>,
    /// The session that its agent goes on with.
    pub(in crate::jobs) session: Option<String>,
    /// Whether it goes on when the server ends.
    pub(in crate::jobs) is_kept: bool,
}

/// How a phase ended.
pub(super) enum Ran {
    /// Its guard could not be started.
    NotStarted(Error),
    /// Its guard has ended, and nothing that it started is left; with what the agent said.
    Ended(GuardEnd, Option<Box<Telemetry>>),
    /// The server stops while processes are left that cannot be ended.
    Left,
}

/// Starts the guard of a phase and follows it to its end.
pub(super) async fn run(
    inner: &Inner,
    job: &Job,
    (phase, mut spec, ears): (Phase, GuardSpec, Ears),
    listener: Option<Box<dyn Listener>>,
    outside: &Running,
    stop: &CancellationToken,
) -> Ran {
    let dir = spec.job_dir.clone();
    let secrets = secrets_of(inner, &job.id);
    let veil = Veil::new(&secrets);
    if !fault::is_off("named_masked") {
        // What the script names is a secret to every agent and hook, whoever it was named for.
        spec.mask(secrets);
    }
    let guard = match start((inner, job), spec, outside, stop).await {
        Ok(Some(guard)) => guard,
        Ok(None) => return Ran::Left,
        Err(cause) => return Ran::NotStarted(cause),
    };
    match phase {
        Phase::Prepare => fault::crash_point("prepare_spawned"),
        Phase::Run => fault::crash_point("after_spawn"),
        Phase::Cleanup => fault::crash_point("cleanup_spawned"),
    }
    let identity = guard.identity().clone();
    let clock = inner.setup.store.clock().clone();
    let telemetry = (phase == Phase::Run).then(|| {
        let telemetry = Telemetry::new(&dir, ears.reads, clock).hearing(ears.speaks);
        telemetry.heard_by(listener).veiled(veil)
    });
    if let Some(speaks) = ears.speaks {
        let greeting = greeting_of(inner, job, ears.session);
        let about = (speaks, greeting, folder_of(inner, job));
        outside.voice.open(guard.stopper(), about, None);
    }
    // What the guard says is heard while its pid is written down.
    let pid = identity.pid;
    let heard = async {
        let ((), followed) = tokio::join!(
            keep_guard(inner, (job, phase), identity),
            follow((inner, job, phase), guard, (telemetry, ears.is_kept), outside, stop)
        );
        followed
    };
    let is_typed = ears.typed.is_some();
    let followed = typing((inner, job), (pid, ears.typed), heard, outside, stop).await;
    if is_typed && followed.is_some() {
        put_session_away(inner, job, pid).await;
    }
    finish(inner, (job, phase, &dir), followed, stop).await
}

/// Starts a guard. If there is no room for its files, which is no fault of the job, it waits for
/// room; nothing if the server stops meanwhile.
async fn start(
    (inner, job): (&Inner, &Job),
    spec: GuardSpec,
    outside: &Running,
    stop: &CancellationToken,
) -> Result<Option<Guard>> {
    while fault::holds("before_launch") {
        tokio::time::sleep(ROOM_RETRY).await;
    }
    loop {
        let cause = match process::spawn_guard(&inner.setup.children, spec.clone()).await {
            Ok(guard) => return Ok(Some(guard)),
            Err(cause) => cause,
        };
        if cause.code_str() != DISK_FULL || outside.cancel.is_cancelled() {
            return Err(cause);
        }
        warn!(job_id = %job.id, "its guard waits: {}", cause.chain());
        tokio::select! {
            () = tokio::time::sleep(ROOM_RETRY) => {}
            () = outside.cancel.cancelled() => {}
            () = stop.cancelled() => return Ok(None),
        }
    }
}

/// Follows an agent, and types to it as long as it is followed.
async fn typing(
    (inner, job): (&Inner, &Job),
    (guard, typed): (i32, Option<Typed>),
    heard: impl Future<Output = Option<Followed>>,
    outside: &Running,
    stop: &CancellationToken,
) -> Option<Followed> {
    let (Some(typed), Some(desk)) = (typed, outside.voice.desk()) else { return heard.await };
    let place = Place {
        terminals: inner.ground.terminals.clone(),
        session: session_of(job.id.as_str()),
        guard,
        dir: job_dir(&inner.ground.data, &job.id),
        folder: folder_of(inner, job),
        typed,
        clock: inner.setup.store.clock().clone(),
    };
    let (tell, mut seen) = mpsc::channel(SEEN_MAX);
    let noting = async {
        while let Some(fact) = seen.recv().await {
            note(inner, job, vec![Noted { at: 0, facts: vec![fact] }], stop).await;
        }
    };
    tokio::select! {
        followed = heard => followed,
        ((), ()) = async { tokio::join!(typist::serve(desk, place, &outside.voice, &tell), noting) }
            => None,
    }
}

/// Follows a guard that an earlier server started.
pub(super) async fn go_on(
    inner: &Inner,
    job: &Job,
    (guard, telemetry, typed): (Guard, Telemetry, Option<Typed>),
    outside: &Running,
    stop: &CancellationToken,
) -> Ran {
    let dir = job_dir(&inner.ground.data, &job.id);
    let (pid, is_typed) = (guard.identity().pid, typed.is_some());
    // The guard knows of a pause that has ended without a server.
    guard.stopper().in_call(telemetry.is_in_call());
    // What it was given may have arrived: nothing is typed before that is known.
    let telemetry = match is_typed {
        true => read_on((inner, job), Some(telemetry), outside, stop).await,
        false => Some(telemetry),
    };
    let heard = follow((inner, job, Phase::Run), guard, (telemetry, true), outside, stop);
    let followed = typing((inner, job), (pid, typed), heard, outside, stop).await;
    if is_typed && followed.is_some() {
        put_session_away(inner, job, pid).await;
    }
    finish(inner, (job, Phase::Run, &dir), followed, stop).await
}

/// Ends the terminal of an agent whose guard has ended, and keeps its last screen.
async fn put_session_away(inner: &Inner, job: &Job, guard: i32) {
    let (dir, session) = (job_dir(&inner.ground.data, &job.id), session_of(job.id.as_str()));
    let secrets = secrets_of(inner, &job.id);
    put_away(&inner.ground.terminals, (&session, guard), (&dir, &secrets)).await;
}

/// Does the same for a job that no server has followed to its end, if it was in a terminal.
pub(in crate::jobs) async fn put_left_away(inner: &Inner, job: &Job) {
    let hooks = job_dir(&inner.ground.data, &job.id).join(HOOKS_FILE_NAME);
    if let Some(guard) = job.guard.as_ref().filter(|_| hooks.symlink_metadata().is_ok()) {
        put_session_away(inner, job, guard.pid).await;
    }
}

/// Ends what a phase has left.
async fn finish(
    inner: &Inner,
    (job, phase, dir): (&Job, Phase, &Utf8Path),
    followed: Option<Followed>,
    stop: &CancellationToken,
) -> Ran {
    let Some((end, telemetry, ending)) = followed else {
        info!(job_id = %job.id, "job {} keeps running without the server", job.id);
        return Ran::Left;
    };
    let has_survivors = match &end {
        GuardEnd::Lost => true,
        GuardEnd::Recorded(record) => !record.survivors.is_empty(),
    };
    if has_survivors && phase == Phase::Run {
        fence(inner, job).await;
    }
    // What the agent's tree had of its grace already, what it leaves has not again.
    let kill_at = ending.unwrap_or_else(Instant::now) + inner.ground.grace;
    if !end_all_strays(inner, (job, dir), has_survivors.then_some(kill_at), stop).await {
        return Ran::Left;
    }
    Ran::Ended(end, telemetry.map(Box::new))
}

/// Returns the folders in which guards of a job may have run: its own, that of `prepare`, and one
/// for each cleanup. What an agent put in the place of one is none.
pub(in crate::jobs) fn folders(data: &Utf8Path, job: &Job) -> Vec<Utf8PathBuf> {
    let own = job_dir(data, &job.id);
    let is_phase = |name: &str| {
        let number = name.strip_prefix("cleanup-").map(str::parse::<u32>);
        name == "prepare" || matches!(number, Some(Ok(_)))
    };
    let below = own.read_dir_utf8().into_iter().flatten().flatten();
    let below = below.filter(|it| it.file_type().is_ok_and(|it| it.is_dir()));
    let mut found: Vec<_> =
        below.filter(|it| is_phase(it.file_name())).map(|it| it.into_path()).collect();
    found.sort();
    found.insert(0, own);
    found
}

async fn keep_guard(inner: &Inner, (job, phase): (&Job, Phase), identity: ProcessIdentity) {
    if job.status != Status::Running {
        // A cleanup of a job that has ended: no row waits for this guard.
        return;
    }
    let id = job.id.clone();
    let kept = inner.setup.store.write(move |tx| settle::keep_guard(tx, &id, &identity)).await;
    if let Err(cause) = kept {
        // The guard is ours all the same, and its lock proves it: only the pid is not on record.
        warn!(job_id = %job.id, "the guard's pid was not recorded: {}", cause.chain());
    }
    if phase == Phase::Run {
        fault::crash_point("after_guard");
    }
}

/// Ends what a guard left behind, until nothing is left: the lane is held until then. With
/// `kill_at` the guard was killed, and what it started is looked for everywhere; otherwise in the
/// job's cgroup only. Whether nothing is; false only if the server stops meanwhile.
async fn end_all_strays(
    inner: &Inner,
    (job, dir): (&Job, &Utf8Path),
    kill_at: Option<Instant>,
    stop: &CancellationToken,
) -> bool {
    while !end_strays(inner, (job, dir), kill_at).await {
        tokio::select! {
            () = tokio::time::sleep(STRAYS_RETRY) => {}
            () = stop.cancelled() => return false,
        }
    }
    true
}

/// The second subreaper: what a killed guard left behind came to this process.
async fn end_strays(
    inner: &Inner,
    (job, dir): (&Job, &Utf8Path),
    kill_at: Option<Instant>,
) -> bool {
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
    match inner.ground.cgroups.end(job.id.as_str(), &inner.ground.data, dir).await {
        Ok(false) => {}
        Ok(true) => warn!(job_id = %job.id, "ended what was left in the job's cgroup"),
        Err(cause) => {
            error!(job_id = %job.id, "strays: {}", cause.chain());
            are_gone = false;
        }
    }
    are_gone
}
