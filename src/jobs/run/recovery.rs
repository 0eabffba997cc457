//! Recovers jobs that an earlier server left running.
//!
//! **Invariant:** a job is settled only while holding the locks of all its phases, which prove that
//! its guards have ended. The recorded pid is only used for signals, which require their own proof.

use std::sync::Arc;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use futures_util::stream::{self, StreamExt as _};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use crate::base::{Clock, Context, Error, ErrorKind, JobId, Millis, Result, fault};
use crate::jobs::fence::JOB_ENDED;
use crate::jobs::queue::lane;
use crate::jobs::rows::{retention, table};
use crate::jobs::run::dispatch::Inner;
use crate::jobs::run::execution::around::{self, Cleaned};
use crate::jobs::run::instance_reply;
use crate::jobs::run::settle::{Ended, Outcome};
use crate::jobs::run::{execution, outcome, silent_guard, speech, takeover};
use crate::jobs::telemetry::Telemetry;
use crate::jobs::{Generation, Job, Pool, Reason, Status, job_dir};
use crate::process::{
    self, Adopted, ExitCause, FileLock, GUARD_SILENT, GUARD_SOCKET, GuardEnd, JobFolder, MARK,
    ProcessIdentity, Signal, carries_mark,
};

/// Retry interval for a lock held by a dying guard, which ends within its grace period.
const LOCK_RETRY: Duration = Duration::from_millis(50);
/// The same for a guard that is overdue, and for a row that cannot be written.
const LOCK_RETRY_SLOW: Duration = Duration::from_secs(2);
/// How late a guard may be before its job is ended for it.
const GUARD_LATE: Duration = Duration::from_millis(200);
/// How late it may be before it is killed.
const GUARD_SLACK: Duration = Duration::from_secs(2);

/// Time for a guard to answer a server that starts.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Time to end guards that no job knows.
const UNKNOWN_MAX: Duration = Duration::from_secs(5);
/// Most guards contacted concurrently.
const TAKEOVERS_MAX: usize = 10;

/// Jobs of an earlier server that are not settled yet.
#[derive(Debug, Default)]
pub struct Left {
    /// Their guards are ending, or they cannot be settled now.
    pub(in crate::jobs) dying: Vec<Job>,
    /// They continue under this server.
    pub(in crate::jobs) adopted: Vec<(Job, Adopted)>,
    /// Their guards do not answer.
    pub(in crate::jobs) silent: Vec<Job>,
}

/// What became of the guard of an agent that goes on without a server.
pub(super) enum Taken {
    /// This server has it.
    Over(Box<Adopted>),
    /// It does not answer.
    Silent,
    /// It is gone, or cannot be taken over.
    Gone,
}

/// Settles every running job whose lock is free; returns the others, including those that cannot be
/// settled now (full disk): a start never waits for them.
pub(in crate::jobs) async fn recover(inner: &Arc<Inner>) -> Result<Left> {
    let lanes = inner.setup.generations.current().capacities().clone();
    inner
        .setup
        .store
        .write(move |tx| {
            // Their agents may live on for a grace period; their tokens do not.
            if !fault::is_off("recovery_fence") {
                retention::fence_dying(tx)?;
            }
            lane::refresh_all(tx, &lanes)
        })
        .await?;
    let mut left = Left::default();
    if fault::is_off("job_recovery") {
        return Ok(left);
    }
    let running = inner.setup.store.read(table::running).await?;
    let is_running = |name: &str| running.iter().any(|it| it.id.as_str() == name);
    match inner.ground.cgroups.end_leftovers(is_running).await {
        Ok(0) => {}
        Ok(count) => warn!("{count} cgroups of jobs that are over were left, and are removed"),
        // The start does not depend on it.
        Err(cause) => error!("cgroups of jobs that are over: {}", cause.chain()),
    }
    end_unknown(inner, &running).await;
    let kept = inner.setup.store.read(retention::kept).await?;
    let is_kept = |job: &Job| job.pool == Pool::Live || kept.contains(&job.id);
    let is_taken = |job: &Job| is_kept(job) && job.ending_at.is_none();
    let (live, mut rest): (Vec<Job>, Vec<Job>) = running.into_iter().partition(is_taken);
    // An unresponsive guard does not delay the others.
    let taking = live.into_iter().map(async |job| (take_over(inner, &job, ANSWER_MAX).await, job));
    let taken: Vec<_> = stream::iter(taking).buffered(TAKEOVERS_MAX).collect().await;
    for (adopted, job) in taken {
        match adopted {
            Taken::Over(adopted) => {
                if job.unanswered_at.is_some() {
                    silent_guard::note(inner, &job, false).await;
                }
                left.adopted.push((job, *adopted));
            }
            Taken::Silent => {
                warn!(job_id = %job.id, "the guard of job {} does not answer", job.id);
                silent_guard::note(inner, &job, true).await;
                left.silent.push(job);
            }
            Taken::Gone => {
                execution::fence(inner, &job).await;
                rest.push(job);
            }
        }
    }
    for job in rest {
        // Cleaning up a job with hooks may take long: the start does not wait for it.
        let stop = CancellationToken::new();
        if job.phase.is_some() || !try_to_settle(inner, &job, &stop).await {
            left.dying.push(job);
        }
    }
    Ok(left)
}

/// Ends guards that wait for a server although the database has no such running job, because it was
/// restored or replaced. Nobody would ever contact them.
async fn end_unknown(inner: &Inner, running: &[Job]) {
    let waiting = match takeover::doors(&inner.ground.data) {
        Ok(waiting) => waiting,
        Err(cause) => return error!("guards of jobs that are over: {}", cause.chain()),
    };
    let unknown = waiting.into_iter().filter(|id| running.iter().all(|job| job.id != *id));
    let ending = unknown.map(async |id| match end_one_unknown(inner, &id).await {
        Ok(true) => warn!(job_id = %id, "job {id} is running but has no running row; ending it"),
        Ok(false) => {}
        Err(cause) => error!(job_id = %id, "job {id} continues: {}", cause.chain()),
    });
    let ending = stream::iter(ending).buffered(TAKEOVERS_MAX).collect::<Vec<()>>();
    // Sockets may be planted: nothing is served before this is over.
    if tokio::time::timeout(UNKNOWN_MAX, ending).await.is_err() {
        error!("guards of jobs that are over did not all answer; they end after a day");
    }
}

/// Tells the guard at a socket to end its job, which it does within its grace period; returns
/// whether there is one.
async fn end_one_unknown(inner: &Inner, id: &JobId) -> Result<bool> {
    let dir = job_dir(&inner.ground.data, id);
    let Some(guard) = process::at_door(&dir, id.as_str())? else { return Ok(false) };
    let key = takeover::key(&inner.ground.data, id)?;
    let (children, by) = (&inner.setup.children, (&guard, key.as_str()));
    let adopted = process::adopt(children, (&dir, id.as_str()), by, ANSWER_MAX).await?;
    if let Some(adopted) = &adopted {
        adopted.guard.stopper().stop(ExitCause::Stopped);
    }
    Ok(adopted.is_some())
}

/// Takes over the guard of an agent that goes on without a server, which has this long to answer.
pub(super) async fn take_over(inner: &Inner, job: &Job, wait: Duration) -> Taken {
    let Some(guard) = job.guard.as_ref() else { return Taken::Gone };
    let generations = &inner.setup.generations;
    let is_declared = generations.of_left(&job.id).config.kind(&job.kind).is_some();
    let engine = generations.engine_of(job).filter(|_| is_declared);
    // What an agent that lives on says could not be interpreted.
    if job.pool == Pool::Live && engine.and_then(|it| it.speech).is_none() {
        return Taken::Gone;
    }
    // Somebody may have stopped it.
    if !fault::is_off("guard_resumed") {
        tell_guard(job, Signal::Cont);
    }
    let dir = job_dir(&inner.ground.data, &job.id);
    let taken = async {
        let key = takeover::key(&inner.ground.data, &job.id)?;
        let by = (guard, key.as_str());
        process::adopt(&inner.setup.children, (&dir, job.id.as_str()), by, wait).await
    };
    match taken.await {
        Ok(Some(adopted)) => Taken::Over(Box::new(adopted)),
        Ok(None) => Taken::Gone,
        Err(cause) if cause.code_str() == GUARD_SILENT => Taken::Silent,
        Err(cause) => {
            warn!(job_id = %job.id, "job {} is ended: {}", job.id, cause.chain());
            Taken::Gone
        }
    }
}

/// Waits for a job's guard to end, and settles the job; its lane is held until then. `kill` ends
/// the guard's processes without the grace period.
pub(in crate::jobs) async fn wait_and_settle(
    inner: Arc<Inner>,
    job: Job,
    kill: CancellationToken,
    stop: CancellationToken,
) -> JobId {
    if goes_on_alone(&inner, &job) {
        // Its guard does not end with its server, so it is told to.
        tell_guard(&job, Signal::Term);
    }
    let mut late_at = Instant::now() + inner.ground.grace + GUARD_LATE;
    let mut kill_at = Instant::now() + inner.ground.grace + GUARD_SLACK;
    let (mut pause, mut is_killed) = (LOCK_RETRY, false);
    while !stop.is_cancelled() && !try_to_settle(&inner, &job, &stop).await {
        if Instant::now() > kill_at {
            kill_guard(&job);
            // Overdue: nothing of the job may hold its locks any longer.
            if let Err(cause) = end_left_behind(&inner, &job).await {
                error!(job_id = %job.id, "what the guard left: {}", cause.chain());
            }
            pause = LOCK_RETRY_SLOW;
        } else if Instant::now() > late_at {
            end_below_guard(&job).await;
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = kill.cancelled(), if !is_killed => {
                is_killed = true;
                late_at = late_at.min(Instant::now());
                kill_at = kill_at.min(Instant::now() + GUARD_SLACK);
            }
            () = stop.cancelled() => {}
        }
    }
    job.id
}

/// Returns whether the guard of a job may wait for another server: then it has a socket.
fn goes_on_alone(inner: &Inner, job: &Job) -> bool {
    let door = job_dir(&inner.ground.data, &job.id).join(GUARD_SOCKET);
    job.pool == Pool::Live || door.symlink_metadata().is_ok()
}

/// Ends a job whose guard cannot, because its agent keeps it stopped.
async fn end_below_guard(job: &Job) {
    let (Some(guard), id) = (job.guard.clone(), job.id.clone()) else { return };
    let ended =
        tokio::task::spawn_blocking(move || process::end_below(&guard, (MARK, id.as_str())));
    match ended.await {
        Ok(Ok(())) => {}
        Ok(Err(cause)) => error!(job_id = %job.id, "below the guard: {}", cause.chain()),
        Err(cause) => error!(job_id = %job.id, "below the guard: {cause}"),
    }
}

fn tell_guard(job: &Job, signal: Signal) {
    let Some(guard) = &job.guard else { return };
    if let Err(cause) = guard.signal_if_same(Some((MARK, job.id.as_str())), signal) {
        error!(job_id = %job.id, "the guard: {}", cause.chain());
    }
}

/// Kills a guard that has not ended within its grace period, because its agent stopped it.
fn kill_guard(job: &Job) {
    let Some(guard) = &job.guard else { return };
    match guard.signal_if_same(Some((MARK, job.id.as_str())), Signal::Kill) {
        Ok(true) => {
            warn!(job_id = %job.id, "the guard of job {} stood still and is killed", job.id)
        }
        Ok(false) => {}
        Err(cause) => error!(job_id = %job.id, "the guard: {}", cause.chain()),
    }
}

/// Settles a job if its locks are free and nothing of it is left; returns whether it did.
async fn try_to_settle(inner: &Arc<Inner>, job: &Job, stop: &CancellationToken) -> bool {
    match try_locks(inner, job) {
        Ok(Some(locks)) => match settle_with_locks(inner, job, locks, stop).await {
            Ok(settled) => {
                execution::log_end(&settled);
                execution::put_left_away(inner, job).await;
                true
            }
            Err(cause) if cause.code_str() == JOB_ENDED => true,
            Err(cause) => {
                error!(job_id = %job.id, "job {} is not settled yet: {}", job.id, cause.chain());
                false
            }
        },
        Ok(None) => false,
        Err(cause) => {
            error!(job_id = %job.id, "cannot look after it: {}", cause.chain());
            false
        }
    }
}

/// Takes the locks of a job and its phases; `None` if a guard holds one.
pub(super) fn try_locks(inner: &Inner, job: &Job) -> Result<Option<Vec<FileLock>>> {
    let Some(own) = try_lock(inner, job)? else { return Ok(None) };
    if fault::is_off("end_first") {
        return Ok(Some(vec![own]));
    }
    let mut locks = vec![own];
    for dir in execution::folders(&inner.ground.data, job).iter().skip(1) {
        let Some(folder) = JobFolder::open(dir)? else { continue };
        match lock_of(&folder, job)? {
            Some(lock) => locks.push(lock),
            None => return Ok(None),
        }
    }
    Ok(Some(locks))
}

fn try_lock(inner: &Inner, job: &Job) -> Result<Option<FileLock>> {
    let dir = job_dir(&inner.ground.data, &job.id);
    // A server that died between claim and start had not created the folder yet; or an agent may
    // have replaced it by something else.
    let is_folder = std::fs::symlink_metadata(&dir).map(|it| it.is_dir());
    if is_folder.is_ok_and(|it| !it) && job.guard.as_ref().is_some_and(|it| !it.is_alive()) {
        put_aside(&dir)?;
    }
    let folder = JobFolder::make(&dir)?;
    if fault::is_off("recovery_lock") || fault::is_off("end_first") {
        return folder.lock("lock.ignored");
    }
    // An agent has our uid and can delete the lock file, but it cannot fake the guard's identity. A
    // process that reuses the guard's pid lacks the mark.
    let is_guard = |it: &ProcessIdentity| {
        it.is_alive() && carries_mark(it.pid, MARK).as_deref() == Some(job.id.as_str())
    };
    if job.guard.as_ref().is_some_and(is_guard) {
        return Ok(None);
    }
    lock_of(&folder, job)
}

fn lock_of(folder: &JobFolder, job: &Job) -> Result<Option<FileLock>> {
    match folder.lock("lock") {
        // A guard proven dead holds nothing: its agent put something here.
        Err(cause) if job.guard.is_some() => {
            warn!(job_id = %job.id, "the lock was tampered with: {}", cause.chain());
            folder.put_aside("lock")?;
            folder.lock("lock")
        }
        taken => taken,
    }
}

fn put_aside(path: &Utf8Path) -> Result<()> {
    let aside = Utf8PathBuf::from(format!("{path}.aside"));
    std::fs::rename(path, &aside)
        .context(ErrorKind::Unavailable, || format!("cannot put {path} aside"))
}

async fn settle_with_locks(
    inner: &Arc<Inner>,
    job: &Job,
    locks: Vec<FileLock>,
    stop: &CancellationToken,
) -> Result<Job> {
    // A guard killed together with its server cannot have swept. If something cannot be ended, that
    // is an error and the lane stays held. (Waiting for marked processes, the guard among them,
    // proves as much as the lock: the switch disables both.)
    if !fault::is_off("recovery_lock") && !fault::is_off("end_first") {
        end_left_behind(inner, job).await?;
    }
    let generation = inner.setup.generations.of_left(&job.id);
    let mut outcome = outcome_left(inner, &generation, job).await;
    instance_reply::look_at_end((inner, &generation), job, &mut outcome).await;
    if job.owner.is_none() && !fault::is_off("watch") {
        outcome.warnings.extend((inner.setup.hooks.recall)(job.id.clone()).await);
    }
    outcome::verify(inner, &generation, job, &mut outcome).await;
    if job.phase.is_some() {
        match around::end_workspace(inner, job, &outcome, stop).await? {
            Cleaned::Done(warning) => outcome.warnings.extend(warning),
            Cleaned::Left => return Err(around::left(job)),
        }
    }
    fault::crash_point("before_settle");
    let settled = execution::settle_once(inner, &generation, job, &outcome).await;
    drop(locks);
    settled
}

/// Determines the outcome of a job whose server is gone, from its guard's record, if any.
async fn outcome_left(inner: &Arc<Inner>, generation: &Arc<Generation>, job: &Job) -> Outcome {
    let dir = job_dir(&inner.ground.data, &job.id);
    // For a job with phases, the record counts only if its agent was started.
    let has_run = job.phase.is_none() || job.run_at.is_some();
    if !has_run && let Some(why) = around::prepare_failure(&inner.ground.data, job) {
        return execution::failed(Reason::PrepareFailed, why);
    }
    let record = process::read_exit_record(&dir).unwrap_or_else(|cause| {
        warn!(job_id = %job.id, "{}", cause.chain());
        None
    });
    let record = record.filter(|_| has_run);
    // Even if an agent ended with its server, its cost was incurred.
    let ended = record.as_ref().map(|it| Millis(it.ended_ms));
    let report = read_again(inner, generation, job, ended).await;
    let spent = (inner.setup.hooks.spent)(job);
    match record {
        Some(record) if !fault::is_off("exit_record") => {
            // It was stopped by a server that did not live to record why.
            let is_stopping = record.cause == ExitCause::Stopped;
            outcome::outcome_of(
                (inner, generation),
                job,
                GuardEnd::Recorded(record),
                &report,
                is_stopping,
            )
        }
        _ => Outcome {
            ended: Ended::Not(Status::Failed, Reason::ServerRestarted),
            error_tail: "server restarted while job in flight".to_owned(),
            summary: report.summary,
            usage: report.usage.or(spent.0),
            cost_usd: report.cost_usd.or(spent.1),
            session_ref: report.session_ref,
            ..Outcome::default()
        },
    }
}

/// Ends everything with the mark, after its grace period, and everything in the job's cgroup.
pub(super) async fn end_left_behind(inner: &Inner, job: &Job) -> Result<()> {
    let (id, ground) = (job.id.as_str(), &inner.ground);
    let by_mark = process::end_marked(MARK, id, ground.grace).await;
    // Regardless of the mark: a cgroup ends processes that fork faster than they can be found.
    for dir in execution::folders(&ground.data, job) {
        if ground.cgroups.end(id, &ground.data, &dir).await? {
            warn!(job_id = %job.id, "ended what was left in the cgroup of a job");
        }
    }
    let ended = match by_mark {
        Err(_) => process::end_marked(MARK, id, Duration::ZERO).await?,
        ended => ended?,
    };
    if ended > 0 {
        warn!(job_id = %job.id, "ended {ended} processes of a job whose guard is gone");
    }
    Ok(())
}

/// Reads the agent's whole output again, since the server that followed it is gone. Relative times
/// in it count from its end, if known.
async fn read_again(
    inner: &Inner,
    generation: &Arc<Generation>,
    job: &Job,
    ended: Option<Millis>,
) -> crate::jobs::telemetry::Report {
    let telemetry = match telemetry_again(inner, generation, job, ended).await {
        Ok(telemetry) => telemetry,
        Err(cause) => {
            warn!(job_id = %job.id, "telemetry: {}", cause.chain());
            return Default::default();
        }
    };
    let (telemetry, _) = execution::pump(Some(telemetry), job, Vec::new(), true).await;
    let Some(mut telemetry) = telemetry else { return Default::default() };
    // Facts about its last turns that nobody has recorded. Does not wait for a full disk, since a
    // start must not; the next attempt to settle records them again.
    let stop = CancellationToken::new();
    stop.cancel();
    execution::note_rest(inner, job, &mut telemetry, &stop).await;
    telemetry.report().clone()
}

/// Returns how much of a job's output its guard has kept so far, in bytes.
fn printed(dir: &Utf8Path) -> u64 {
    std::fs::metadata(dir.join("stdout.log")).map_or(0, |it| it.len())
}

/// Returns a reader for an agent's whole output that reports what no server has recorded.
pub(in crate::jobs) async fn telemetry_again(
    inner: &Inner,
    generation: &Generation,
    job: &Job,
    ended: Option<Millis>,
) -> Result<Telemetry> {
    let (dir, veil) = (job_dir(&inner.ground.data, &job.id), speech::veil_of(inner, &job.id));
    let engine = inner.setup.generations.engine_of(job);
    let reads = engine.as_ref().and_then(|it| it.reads);
    let clock = ended.map_or_else(|| inner.setup.store.clock().clone(), Clock::fixed);
    let speaks = engine.and_then(|it| it.speech).map(|it| it.speaks);
    let id = job.id.clone();
    let heard = match fault::is_off("spool_first") {
        // Whatever came while no server was there is lost.
        true => printed(&dir),
        false => inner.setup.store.read(move |c| takeover::heard(c, &id)).await?,
    };
    let listener = (inner.setup.hooks.listen)(generation, job)?;
    let read = tokio::task::spawn_blocking(move || {
        let telemetry = Telemetry::afresh(&dir, reads, clock)?.heard_by(listener);
        Ok::<_, Error>(telemetry.hearing(speaks).heard_until(heard).veiled(veil))
    });
    read.await.context(ErrorKind::Internal, || "reading failed".to_owned())?
}
