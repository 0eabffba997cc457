//! Following a guard: what its agent prints, who wants it to end, and the fence when it does.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{Fuse, FusedFuture as _};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use crate::base::{ApprovalId, Error, ErrorKind, Result, fault};
use crate::jobs::queue::parking;
use crate::jobs::rows::{table, usage};
use crate::jobs::run::dispatch::{Inner, Running};
use crate::jobs::run::instance_reply::given;
use crate::jobs::run::rest::Turned;
use crate::jobs::run::{settle, takeover};
use crate::jobs::speak::{Fact, Noted};
use crate::jobs::telemetry::remark::Remark;
use crate::jobs::telemetry::{Telemetry, Turn};
use crate::jobs::{Job, Phase, Pool, Viewer};
use crate::process::{ExitCause, Guard, GuardEnd, GuardEvent, GuardStopper, Stream};
use crate::store::Tx;

/// How long the process of a job stays that waits for an approval: it may still have a last word.
const LEAVE: Duration = Duration::from_secs(30);

/// Lines of an agent whose facts are written in one transaction.
const NOTED_AT_ONCE: usize = 64;

/// The pause after a fact that could not be written.
const NOTE_RETRY: Duration = Duration::from_secs(2);

/// How a guard ended, what its agent said, and when the end began.
pub(super) type Followed = (GuardEnd, Option<Telemetry>, Option<Instant>);

/// Follows a guard to its end, or until the server stops and the job goes on without it. One that
/// stands still is killed by `process` and comes back as lost. Only the phase `run` fences: the
/// token of a job whose `prepare` has ended must stay good.
pub(super) async fn follow(
    (inner, job, phase): (&Inner, &Job, Phase),
    mut guard: Guard,
    (mut telemetry, is_kept): (Option<Telemetry>, bool),
    outside: &Running,
    stop: &CancellationToken,
) -> Option<Followed> {
    let (stopper, mut asks) = (guard.stopper(), outside.asks.subscribe());
    let (mut ending, mut is_killed, is_run) = (None, false, phase == Phase::Run);
    let (mut is_told, mut is_fenced, mut hints) = (false, !is_run, Hints::of(telemetry.as_ref()));
    // Written while the guard brings the end about; the settlement comes after both.
    let mut fencing = std::pin::pin!(Fuse::terminated());
    let mut verdict = std::pin::pin!(given((inner, job, phase), &outside.verdict).fuse());
    let mut asked = std::pin::pin!(asked_to_end((inner, job, phase), outside).fuse());
    loop {
        let goes_on = is_kept && ending.is_none();
        let event = tokio::select! {
            event = guard.next() => Some(event),
            () = fencing.as_mut(), if !fencing.is_terminated() => continue,
            () = verdict.as_mut(), if !verdict.is_terminated() => {
                come_to_an_end(outside, &stopper);
                continue;
            }
            is_over = silent(outside, &mut asks), if !hints.is_closed => {
                hints.turned(is_over, telemetry.as_ref(), outside, &stopper);
                continue;
            }
            () = outside.kill.cancelled(), if !is_killed => {
                is_killed = true;
                guard.kill_all().await;
                None
            }
            () = asked.as_mut(), if !asked.is_terminated() && !is_told => None,
            () = outside.voice.until_cut() => {
                telemetry = cut((inner, job), telemetry, outside, stop).await;
                continue;
            }
            () = stop.cancelled(), if goes_on => return None,
            () = stop.cancelled(), if !goes_on && !is_told => None,
        };
        let Some(event) = event else {
            is_told = true;
            ending.get_or_insert_with(Instant::now);
            halt((inner, job), is_run && stop.is_cancelled(), &stopper).await;
            continue;
        };
        match event {
            None => break,
            Some(GuardEvent::Started { .. }) => started((inner, job), outside, stop).await,
            Some(GuardEvent::AgentExited { .. } | GuardEvent::Ending { .. }) => {
                ending.get_or_insert_with(Instant::now);
                if !fault::is_off("fence_first") && !std::mem::replace(&mut is_fenced, true) {
                    fencing.set(fence(inner, job).fuse());
                }
            }
            Some(GuardEvent::Output { stream: Stream::Stdout, bytes_total }) if is_run => {
                let news = (&stopper, bytes_total);
                telemetry = hear((inner, job), telemetry, outside, news, stop).await;
                hints.pause(telemetry.as_ref(), outside, &stopper);
            }
            Some(_) => {}
        }
    }
    let end = guard.wait().await;
    if !fencing.is_terminated() {
        fencing.await;
    }
    telemetry = last_words((inner, job, phase), telemetry, outside, stop).await;
    Some((end, telemetry, ending))
}

/// Notes that an agent that lives on runs, and gives an instance that is spoken to its first text.
async fn started((inner, job): (&Inner, &Job), outside: &Running, stop: &CancellationToken) {
    if is_ready_then(job, outside) {
        note(inner, job, vec![Noted::ready()], stop).await;
    }
    // One that is greeted says when it can be given something.
    if outside.voice.is_ready_at_once() {
        say_first(inner, outside);
    }
}

/// Gives an instance that is spoken to its first text, unless it has that; returns whether it did.
fn say_first(inner: &Inner, outside: &Running) -> bool {
    let block = inner.setup.ids.mint();
    let first = outside.rest.give_first(&block);
    first.is_some_and(|text| outside.voice.say(&block, &text))
}

/// Lets an agent end that has given its verdict: it may still say its last words and what it cost.
fn come_to_an_end(outside: &Running, stopper: &GuardStopper) {
    stopper.final_result();
    outside.rest.end();
}

/// Ends a phase; a server that stops refuses the job's token first.
async fn halt((inner, job): (&Inner, &Job), is_fenced_first: bool, stopper: &GuardStopper) {
    if is_fenced_first {
        fence(inner, job).await;
    }
    stopper.stop(ExitCause::Stopped);
}

/// Returns when the agent begins or ceases to wait for another text or for a person; `true` if it
/// gets no other text.
async fn silent(outside: &Running, asks: &mut watch::Receiver<usize>) -> bool {
    tokio::select! {
        is_over = outside.rest.turned() => is_over,
        // The sender is in `outside`.
        Ok(()) = asks.changed() => false,
    }
}

/// What a guard was told about the turns of its agent.
#[derive(Debug)]
struct Hints {
    /// Whether its idle clock stands still.
    is_paused: bool,
    /// Whether its input is over.
    is_closed: bool,
}

impl Hints {
    fn of(telemetry: Option<&Telemetry>) -> Hints {
        Hints { is_paused: telemetry.is_some_and(Telemetry::is_in_call), is_closed: false }
    }

    /// Tells the guard about a change between two turns: an agent that gets nothing more is to end.
    fn turned(
        &mut self,
        is_over: bool,
        telemetry: Option<&Telemetry>,
        outside: &Running,
        stopper: &GuardStopper,
    ) {
        if is_over {
            self.is_closed = true;
            stopper.close_input();
            stopper.final_result();
        }
        self.pause(telemetry, outside, stopper);
    }

    /// Stops the idle clock while the agent waits for a tool, a person, or another text.
    fn pause(&mut self, telemetry: Option<&Telemetry>, outside: &Running, stopper: &GuardStopper) {
        let is_paused = telemetry.is_some_and(Telemetry::is_in_call)
            || outside.rest.is_resting()
            || *outside.asks.borrow() > 0;
        if is_paused != self.is_paused {
            self.is_paused = is_paused;
            stopper.in_call(is_paused);
        }
    }
}

/// Returns whether an agent that lives on can be spoken to once it runs; one in a terminal says so
/// by itself.
fn is_ready_then(job: &Job, outside: &Running) -> bool {
    job.pool == Pool::Live && outside.voice.is_ready_at_once()
}

/// Writes down that a turn was ended of whose end no line tells.
async fn cut(
    at: (&Inner, &Job),
    mut telemetry: Option<Telemetry>,
    outside: &Running,
    stop: &CancellationToken,
) -> Option<Telemetry> {
    telemetry.iter_mut().for_each(Telemetry::cut);
    note_all(at, telemetry, outside, stop).await
}

/// Reads what is left of what an agent has printed.
async fn last_words(
    (inner, job, phase): (&Inner, &Job, Phase),
    telemetry: Option<Telemetry>,
    outside: &Running,
    stop: &CancellationToken,
) -> Option<Telemetry> {
    if phase != Phase::Run {
        return telemetry;
    }
    fault::crash_point("after_exit");
    // The fence stands: nothing more is refused to a running job.
    let (telemetry, _) = pump(telemetry, job, outside.remarks.take(), true).await;
    let mut telemetry = note_all((inner, job), telemetry, outside, stop).await;
    if let Some(telemetry) = &mut telemetry {
        note_rest(inner, job, telemetry, stop).await;
    }
    telemetry
}

/// Writes down what was heard since.
async fn note_all(
    (inner, job): (&Inner, &Job),
    mut telemetry: Option<Telemetry>,
    outside: &Running,
    stop: &CancellationToken,
) -> Option<Telemetry> {
    let facts = telemetry.as_mut().map(Telemetry::take_facts).unwrap_or_default();
    outside.voice.hear(&facts, telemetry.as_mut().and_then(Telemetry::told));
    let turned = Turned::by(&facts).filter(|_| outside.rest.is_on());
    outside.rest.hear(&facts);
    note(inner, job, facts, stop).await;
    if let Some(turned) = turned {
        turn((inner, job), turned, outside);
    }
    telemetry
}

/// Does what follows from the turns of an instance that is spoken to.
fn turn((inner, job): (&Inner, &Job), turned: Turned, outside: &Running) {
    match turned {
        Turned::Began => {
            outside.rest.work();
        }
        Turned::Free if outside.rest.has_turn() => {}
        // One that waits for a person goes on in another process.
        Turned::Answered | Turned::Free if waits_for(inner, job).is_none() => {
            if !say_first(inner, outside) {
                outside.rest.rest();
                inner.rested.notify_one();
            }
        }
        Turned::Answered | Turned::Free | Turned::Failed => outside.rest.end(),
        Turned::SessionLost => outside.rest.lose_session(),
    }
}

/// Writes down what was heard of an agent that lives on, in its order. A disk that is full is
/// waited for: a turn that is forgotten would be an answer that is lost.
pub(in crate::jobs) async fn note(
    inner: &Inner,
    job: &Job,
    lines: Vec<Noted>,
    stop: &CancellationToken,
) {
    for batch in lines.chunks(NOTED_AT_ONCE) {
        match note_batch(inner, job, batch, stop).await {
            Ok(()) => {}
            // What is refused once is refused always; the agent must not hang on it.
            Err(cause) if batch.len() == 1 => left_out(job, &cause),
            // One of them is wrong: each for itself then.
            Err(_) => {
                for line in batch.chunks(1) {
                    if let Err(cause) = note_batch(inner, job, line, stop).await {
                        left_out(job, &cause);
                    }
                }
            }
        }
    }
}

fn left_out(job: &Job, cause: &Error) {
    error!(job_id = %job.id, "skipping the activity of its agent: {}", cause.chain());
}

/// Writes down what some lines say, all of it or nothing.
async fn note_batch(
    inner: &Inner,
    job: &Job,
    batch: &[Noted],
    stop: &CancellationToken,
) -> Result<()> {
    let (heard, about) = (Arc::clone(&inner.setup.hooks.heard), job.clone());
    let told = batch.to_vec();
    let write = move |tx: &Tx<'_>| {
        for line in &told {
            // First, so that what it spent is counted once.
            if line.at > 0 && !fault::is_off("heard_once") {
                takeover::note_heard(tx, &about.id, line.at)?;
            }
            for fact in &line.facts {
                if let Fact::Session { name } = fact {
                    parking::keep_session(tx, &about.id, name)?;
                }
                heard(tx, &about, fact)?;
            }
        }
        Ok(())
    };
    write_down((inner, job), write, stop).await
}

/// Writes down what is left when an agent's process has ended: what was heard, and what was spent
/// in the turn that ran.
pub(in crate::jobs) async fn note_rest(
    inner: &Inner,
    job: &Job,
    telemetry: &mut Telemetry,
    stop: &CancellationToken,
) {
    note(inner, job, telemetry.take_facts(), stop).await;
    let Some(unended) = telemetry.take_unended() else { return };
    let about = job.clone();
    let write = move |tx: &Tx<'_>| {
        takeover::note_heard(tx, &about.id, unended.at)?;
        usage::add_turn(tx, &about, unended.spent)
    };
    if let Err(cause) = write_down((inner, job), write, stop).await {
        left_out(job, &cause);
    }
}

/// Writes something down as soon as that is possible, or the server stops.
async fn write_down(
    (inner, job): (&Inner, &Job),
    write: impl Fn(&Tx<'_>) -> Result<()> + Clone + Send + 'static,
    stop: &CancellationToken,
) -> Result<()> {
    loop {
        match inner.setup.store.write(write.clone()).await {
            Err(cause) if !is_final(&cause) => {
                error!(job_id = %job.id, "what its agent did is not noted: {}", cause.chain());
            }
            done => return done,
        }
        tokio::select! {
            () = tokio::time::sleep(NOTE_RETRY) => {}
            () = stop.cancelled() => return Ok(()),
        }
    }
}

/// Whether a write that was refused would be refused again: the disk has nothing to do with it.
pub(super) fn is_final(cause: &Error) -> bool {
    !matches!(cause.kind(), ErrorKind::Unavailable | ErrorKind::Busy)
}

/// Returns when a phase is to end although its process goes on: somebody cancels the job, or its
/// agent waits for an approval and has had the time for its last words.
async fn asked_to_end((inner, job, phase): (&Inner, &Job, Phase), outside: &Running) {
    let left = async {
        if phase != Phase::Run {
            return std::future::pending().await;
        }
        outside.leaves.cancelled().await;
        loop {
            let before = waits_for(inner, job);
            tokio::time::sleep(LEAVE).await;
            // One that was withdrawn meanwhile keeps nobody from going on.
            if before.is_some() && waits_for(inner, job) == before {
                return;
            }
        }
    };
    tokio::select! {
        () = outside.cancel.cancelled() => {}
        () = left => {}
    }
}

fn waits_for(inner: &Inner, job: &Job) -> Option<ApprovalId> {
    match inner.setup.store.look(|c| table::find_slim(c, &Viewer::Program, &job.id)) {
        Ok(row) => row.waits_for,
        Err(cause) => {
            warn!(job_id = %job.id, "the job cannot be read: {}", cause.chain());
            None
        }
    }
}

/// Reads what the agent printed, writes it down, and tells the guard what follows from it.
async fn hear(
    (inner, job): (&Inner, &Job),
    mut telemetry: Option<Telemetry>,
    outside: &Running,
    (stopper, bytes_total): (&GuardStopper, u64),
    stop: &CancellationToken,
) -> Option<Telemetry> {
    telemetry.iter_mut().for_each(|it| it.announce(bytes_total));
    let (telemetry, turn) = pump(telemetry, job, outside.remarks.take(), false).await;
    if telemetry.as_ref().is_some_and(Telemetry::is_enough) {
        stopper.stop(ExitCause::Stopped);
    } else if telemetry.as_ref().is_some_and(Telemetry::is_deaf) {
        error!(job_id = %job.id, "what its agent prints is gone: it is ended");
        stopper.stop(ExitCause::Stopped);
    } else if ends_with_result(job, outside) {
        match turn {
            Some(Turn::Ended) => stopper.final_result(),
            Some(Turn::Working) => stopper.goes_on(),
            None => {}
        }
    }
    note_all((inner, job), telemetry, outside, stop).await
}

/// Returns whether an agent's result is its end: it is none for one that lives on, that may get
/// another text, or that owes a verdict, which may wait for a command of its own.
fn ends_with_result(job: &Job, outside: &Running) -> bool {
    job.pool != Pool::Live && !outside.rest.is_on() && job.message_id.is_none()
}

/// Reads what an agent has printed until now, and writes it down.
pub(super) async fn read_on(
    at: (&Inner, &Job),
    telemetry: Option<Telemetry>,
    outside: &Running,
    stop: &CancellationToken,
) -> Option<Telemetry> {
    let (telemetry, _) = pump(telemetry, at.1, Vec::new(), false).await;
    note_all(at, telemetry, outside, stop).await
}

/// Reads what the agent has printed since; returns what that tells of its turn.
pub(in crate::jobs) async fn pump(
    telemetry: Option<Telemetry>,
    job: &Job,
    remarks: Vec<Remark>,
    is_last: bool,
) -> (Option<Telemetry>, Option<Turn>) {
    let Some(mut telemetry) = telemetry else { return (None, None) };
    let pumped = tokio::task::spawn_blocking(move || {
        // An agent is refused before it prints so.
        let found = telemetry.remark(remarks).and_then(|()| match is_last {
            true => telemetry.finish().map(|()| None),
            false => telemetry.pump(),
        });
        (telemetry, found)
    });
    match pumped.await {
        Ok((telemetry, Ok(turn))) => (Some(telemetry), turn),
        Ok((telemetry, Err(cause))) => {
            // Telemetry never decides; a job is not failed for the want of it.
            warn!(job_id = %job.id, "telemetry: {}", cause.chain());
            (Some(telemetry), None)
        }
        Err(cause) => {
            error!(job_id = %job.id, "telemetry: {cause}");
            (None, None)
        }
    }
}

/// Fences a job whose agent ends: its token is refused from then on.
pub(in crate::jobs) async fn fence(inner: &Inner, job: &Job) {
    let id = job.id.clone();
    if let Err(cause) =
        inner.setup.store.write(move |tx| settle::begin_ending(tx, &id).map(|_| ())).await
    {
        // The settlement sets the same column, so a token outlives this failure by moments only.
        error!(job_id = %job.id, "the job could not be fenced: {}", cause.chain());
    }
    fault::crash_point("after_fence");
}
