//! Jobs that an earlier server left running.
//!
//! **Invariant:** a job is settled only with the locks of all its phases in hand: they are the
//! proof that its guards have ended. The recorded pid is for signals only, and those need proof of
//! their own.

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
use crate::jobs::run::{execution, outcome, takeover};
use crate::jobs::telemetry::Telemetry;
use crate::jobs::{Generation, Job, Pool, Reason, Status, job_dir};
use crate::process::{
    self, Adopted, ExitCause, FileLock, GuardEnd, JobFolder, MARK, ProcessIdentity, Signal,
    carries_mark,
};

/// How often a lock that a dying guard still holds is tried. The guard ends within its grace.
const LOCK_RETRY: Duration = Duration::from_millis(50);
/// The same for a guard that should have ended long ago, and for a row that cannot be written.
const LOCK_RETRY_SLOW: Duration = Duration::from_secs(2);
/// How long a guard may take beyond its grace before its job is ended for it.
const GUARD_LATE: Duration = Duration::from_millis(200);
/// How long before it is killed.
const GUARD_SLACK: Duration = Duration::from_secs(2);

/// Guards that are spoken to at once.
const TAKEOVERS_MAX: usize = 10;

/// The jobs of an earlier server that are not settled yet.
#[derive(Debug, Default)]
pub struct Left {
    /// Their guards end, or what there is to settle cannot be written now.
    pub(in crate::jobs) dying: Vec<Job>,
    /// They go on under this server.
    pub(in crate::jobs) adopted: Vec<(Job, Adopted)>,
}

/// Settles every running job whose lock is free; returns the others. What cannot be settled now (a
/// full disk) is among them: a start never waits for it.
pub(in crate::jobs) async fn recover(inner: &Arc<Inner>) -> Result<Left> {
    let lanes = inner.setup.generations.current().capacities().clone();
    inner
        .setup
        .store
        .write(move |tx| {
            // Their agents may live on for a grace; their tokens do not.
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
        // A start waits for nothing that it does not need.
        Err(cause) => error!("cgroups of jobs that are over: {}", cause.chain()),
    }
    end_unknown(inner, &running).await;
    let is_taken = |job: &Job| job.pool == Pool::Live && job.ending_at.is_none();
    let (live, mut rest): (Vec<Job>, Vec<Job>) = running.into_iter().partition(is_taken);
    // A guard that does not answer holds up none of the others.
    let taking = live.into_iter().map(async |job| (take_over(inner, &job).await, job));
    let taken: Vec<_> = stream::iter(taking).buffered(TAKEOVERS_MAX).collect().await;
    for (adopted, job) in taken {
        match adopted {
            Some(adopted) => left.adopted.push((job, adopted)),
            None => {
                execution::fence(inner, &job).await;
                rest.push(job);
            }
        }
    }
    for job in rest {
        // What has hooks may take long to clean up: a start does not wait for that.
        let stop = CancellationToken::new();
        if job.phase.is_some() || !try_to_settle(inner, &job, &stop).await {
            left.dying.push(job);
        }
    }
    Ok(left)
}

/// Ends guards that wait for a server although the database knows no such job that runs: it was
/// restored, or is another one. Nobody would ever speak to them.
async fn end_unknown(inner: &Inner, running: &[Job]) {
    let waiting = match takeover::doors(&inner.ground.data) {
        Ok(waiting) => waiting,
        Err(cause) => return error!("guards of jobs that are over: {}", cause.chain()),
    };
    let unknown = waiting.into_iter().filter(|id| running.iter().all(|job| job.id != *id));
    let ending = unknown.map(async |id| match end_one_unknown(inner, &id).await {
        Ok(true) => warn!(job_id = %id, "job {id} goes on and no row says that it runs: ended"),
        Ok(false) => {}
        Err(cause) => error!(job_id = %id, "job {id} goes on: {}", cause.chain()),
    });
    stream::iter(ending).buffered(TAKEOVERS_MAX).collect::<Vec<()>>().await;
}

/// Tells the guard behind a door to end its job, which it does within its grace; whether there is
/// one.
async fn end_one_unknown(inner: &Inner, id: &JobId) -> Result<bool> {
    let dir = job_dir(&inner.ground.data, id);
    let Some(guard) = process::at_door(&dir, id.as_str())? else { return Ok(false) };
    let key = takeover::key(&inner.ground.data, id)?;
    let adopted = process::adopt(&inner.setup.children, (&dir, id.as_str()), &guard, &key).await?;
    if let Some(adopted) = &adopted {
        adopted.guard.stopper().stop(ExitCause::Stopped);
    }
    Ok(adopted.is_some())
}

/// Takes over the guard of an agent that lives on, if there is one that waits.
async fn take_over(inner: &Inner, job: &Job) -> Option<Adopted> {
    let guard = job.guard.as_ref()?;
    let current = inner.setup.generations.current();
    let kind = current.config.kinds.get(&job.kind);
    let engine = kind.and_then(|it| current.engines.find(&it.engine).ok());
    // One that is not declared any more could not be heard.
    engine.and_then(|it| it.speech.as_ref())?;
    // Somebody may have stopped it.
    tell_guard(job, Signal::Cont);
    let dir = job_dir(&inner.ground.data, &job.id);
    let taken = async {
        let key = takeover::key(&inner.ground.data, &job.id)?;
        process::adopt(&inner.setup.children, (&dir, job.id.as_str()), guard, &key).await
    };
    taken.await.unwrap_or_else(|cause| {
        warn!(job_id = %job.id, "job {} is ended: {}", job.id, cause.chain());
        None
    })
}

/// Waits for the guard of one job to end, and settles it; its lane is held until then.
pub(in crate::jobs) async fn wait_and_settle(
    inner: Arc<Inner>,
    job: Job,
    stop: CancellationToken,
) -> JobId {
    if job.pool == Pool::Live {
        // Its guard does not end with its server: it is told to.
        tell_guard(&job, Signal::Term);
    }
    let late_at = Instant::now() + inner.ground.grace + GUARD_LATE;
    let kill_at = Instant::now() + inner.ground.grace + GUARD_SLACK;
    let mut pause = LOCK_RETRY;
    while !stop.is_cancelled() && !try_to_settle(&inner, &job, &stop).await {
        if Instant::now() > kill_at {
            kill_guard(&job);
            // Its time is over: nothing of the job may hold a lock of its any more.
            if let Err(cause) = end_left_behind(&inner, &job).await {
                error!(job_id = %job.id, "what the guard left: {}", cause.chain());
            }
            pause = LOCK_RETRY_SLOW;
        } else if Instant::now() > late_at {
            end_below_guard(&job).await;
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => {}
        }
    }
    job.id
}

/// A guard that its agent keeps stopped cannot end its job: it is ended for it.
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

/// A guard whose lifeline is closed ends within its grace, unless its agent stopped it.
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

/// Settles a job if its locks are free and nothing of it is left; whether it did.
async fn try_to_settle(inner: &Arc<Inner>, job: &Job, stop: &CancellationToken) -> bool {
    match try_locks(inner, job) {
        Ok(Some(locks)) => match settle_with_locks(inner, job, locks, stop).await {
            Ok(settled) => {
                execution::log_end(&settled);
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

/// Takes the lock of the job and those of its other phases; nothing if a guard holds one.
fn try_locks(inner: &Inner, job: &Job) -> Result<Option<Vec<FileLock>>> {
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
    // A server that died between the claim and the start had not made the folder yet; and an agent
    // may have put something else in its place.
    let is_folder = std::fs::symlink_metadata(&dir).map(|it| it.is_dir());
    if is_folder.is_ok_and(|it| !it) && job.guard.as_ref().is_some_and(|it| !it.is_alive()) {
        put_aside(&dir)?;
    }
    let folder = JobFolder::make(&dir)?;
    if fault::is_off("recovery_lock") || fault::is_off("end_first") {
        return folder.lock("lock.ignored");
    }
    // An agent of our own uid can remove the file of the lock; the guard's identity it cannot fake.
    // A process that took over its pid has not its mark.
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
        // A guard that is proven dead holds nothing: what stands there was put there by its agent.
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
    // A guard that was killed together with its server cannot have swept. What cannot be ended is
    // an error, and the lane stays held. (Waiting for what is marked, the guard among it, is as
    // good a proof of absence as the lock: the switch leaves out both.)
    if !fault::is_off("recovery_lock") && !fault::is_off("end_first") {
        end_left_behind(inner, job).await?;
    }
    let generation = inner.setup.generations.current();
    let mut outcome = outcome_left(inner, &generation, job).await;
    instance_reply::look_at_end((inner, &generation), job, &mut outcome).await;
    if job.owner.is_none() && !fault::is_off("watch") {
        outcome.warnings.extend((inner.setup.hooks.recall)(job.id.clone()).await);
    }
    outcome::verify(inner, &generation, job, &mut outcome).await;
    if job.phase.is_some() {
        match around::clean_up(inner, job, stop).await? {
            Cleaned::Done(warning) => outcome.warnings.extend(warning),
            Cleaned::Left => return Err(around::left(job)),
        }
    }
    fault::crash_point("before_settle");
    let settled = execution::settle_once(inner, &generation, job, &outcome).await;
    drop(locks);
    settled
}

/// Says what a job came to whose server is gone: by the record of its guard, if it left one.
async fn outcome_left(inner: &Arc<Inner>, generation: &Arc<Generation>, job: &Job) -> Outcome {
    let dir = job_dir(&inner.ground.data, &job.id);
    // The agent of a job with phases was started, or what stands there is nobody's record.
    let has_run = job.phase.is_none() || job.run_at.is_some();
    if !has_run && let Some(why) = around::prepare_failure(&inner.ground.data, job) {
        return execution::failed(Reason::PrepareFailed, why);
    }
    let record = process::read_exit_record(&dir).unwrap_or_else(|cause| {
        warn!(job_id = %job.id, "{}", cause.chain());
        None
    });
    let record = record.filter(|_| has_run);
    // Also of an agent that ended because its server did: what it cost was spent.
    let ended = record.as_ref().map(|it| Millis(it.ended_ms));
    let report = read_again(inner, generation, job, ended).await;
    match record {
        Some(record) if !fault::is_off("exit_record") => {
            // Told to stop by a server that did not live to write it down.
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
            usage: report.usage,
            cost_usd: report.cost_usd,
            session_ref: report.session_ref,
            ..Outcome::default()
        },
    }
}

/// Ends what carries the mark, after its grace, and what is in the job's cgroup, if it had one.
async fn end_left_behind(inner: &Inner, job: &Job) -> Result<()> {
    let (id, ground) = (job.id.as_str(), &inner.ground);
    let by_mark = process::end_marked(MARK, id, ground.grace).await;
    // Whatever the mark has come to: a cgroup ends at once what forks faster than one can look.
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

/// Reads the agent's whole output again: the server that followed it is gone.
/// What it said of times counts from its end, if that is known.
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
    // What its last turns came to: nobody had heard it. A disk that is full is not waited for: a
    // start must not, and the next attempt to settle hears it again.
    let stop = CancellationToken::new();
    stop.cancel();
    execution::note(inner, job, telemetry.take_facts(), &stop).await;
    telemetry.report().clone()
}

/// Returns what reads an agent's whole output again, and hears what no server has heard.
pub(in crate::jobs) async fn telemetry_again(
    inner: &Inner,
    generation: &Generation,
    job: &Job,
    ended: Option<Millis>,
) -> Result<Telemetry> {
    let dir = job_dir(&inner.ground.data, &job.id);
    let kind = generation.config.kind_of_job(&job.kind);
    let engine = kind.and_then(|it| generation.engines.find(&it.engine).ok());
    let reads = engine.and_then(|it| it.reads);
    let clock = ended.map_or_else(|| inner.setup.store.clock().clone(), Clock::fixed);
    let speaks = engine.and_then(|it| it.speech.as_ref()).map(|it| it.speaks);
    let id = job.id.clone();
    let heard = inner.setup.store.read(move |c| takeover::heard(c, &id)).await?;
    let listener = (inner.setup.hooks.listen)(generation, job)?;
    let read = tokio::task::spawn_blocking(move || {
        let telemetry = Telemetry::afresh(&dir, reads, clock)?.heard_by(listener);
        Ok::<_, Error>(telemetry.hearing(speaks).heard_until(heard))
    });
    read.await.context(ErrorKind::Internal, || "reading failed".to_owned())?
}
