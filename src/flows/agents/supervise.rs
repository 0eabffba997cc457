//! The one loop of agents: it starts those that should run, and gives each what waits for it.

use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use rusqlite::Connection;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::base::{Actor, BlockId, ErrorKind, JobId, Millis, Result, fault};
use crate::channels;
use crate::flows::agents::heard::is_held;
use crate::flows::agents::restart::{RESTART, UNDECLARED, UNSEATED, pending};
use crate::flows::agents::{
    control, declaration, direct, handover, hold, rooms, silent_agent, speech,
};
use crate::flows::channels::{Ground, brief_again};
use crate::flows::requests::inputs;
use crate::flows::{Site, Works};
use crate::jobs::speak::knows_a_block_again;
use crate::jobs::{self, NewJob, Pool, Queue, Status};
use crate::mail::agent::{self, Agent, State, Wanted};
use crate::mail::{self, BELL, OpenBlock};
use crate::script::{Autostart, Config, Kind, Speaks, Speech, kind_of_agent};
use crate::store::Tx;
use crate::turns::handoff;

/// Longest sleep while something comes due by itself: the clock of the machine may be set, and a
/// machine may have slept.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// The same while nothing does, and nothing rings.
const FALLBACK: Duration = Duration::from_secs(600);
/// The pause after a read or a write that failed.
const AGAIN: Duration = Duration::from_secs(2);
/// The pause before a start that the queue refused is tried again, in milliseconds.
const REFUSED_MS: i64 = 60_000;

/// How long the proof of a text may take if the engine is no longer declared.
const PROOF_WAIT: Duration = Duration::from_secs(60);

/// Agents that are looked after at the same time.
const AT_ONCE: usize = 16;

/// Starts agents and speaks to them, until `stop`.
pub async fn serve(site: Site, stop: CancellationToken) {
    let bell = site.store.bell(BELL);
    loop {
        let pause = match round(&site).await {
            Ok(pause) => pause,
            Err(cause) => {
                warn!("agents are looked at later: {}", cause.chain());
                AGAIN
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = bell.notified() => {}
            () = stop.cancelled() => return,
        }
    }
}

/// What is due for an agent now.
enum Due {
    /// Start it.
    Start,
    /// Give it something that waits.
    Give,
    /// Show why what waits for it waits on (a daily cap is used up, or its engine is held), or that
    /// this is over.
    Hold(Option<&'static str>),
    /// Give again what an earlier start had not begun.
    Again(OpenBlock),
    /// Write what was recorded but never written, because the server ended in between.
    Say(OpenBlock),
    /// End it: it was started to take a seat, and has none any more.
    Rest(Wanted),
    /// Stop waiting for a start that no declaration is left for.
    Leave,
    /// Give up on a block that has not arrived, as far as the agent shows.
    GiveUp(OpenBlock),
}

/// What is written to an agent once it is recorded.
struct Words {
    job: JobId,
    id: BlockId,
    text: String,
}

/// Does what is due for all agents; returns how long nothing is.
async fn round(site: &Site) -> Result<Duration> {
    let works = site.works.now();
    let (about, queue) = (works.clone(), site.queue.clone());
    // One read for all: whatever one agent says brings the loop here, so a read for each would
    // make the work of twenty that answer grow with the square of their number.
    let read = move |c: &Connection| {
        let now = about.store.clock().now();
        let look = |agent: Agent| {
            let glance = glance(c, (&queue, &about.config), &agent, now);
            let quiet = glance.and_then(|it| {
                let is_quiet = !it.is_news && !it.is_due && !handover::is_due(c, &agent, now)?;
                Ok(is_quiet.then_some(it.wake))
            });
            (agent.name, quiet)
        };
        Ok(agent::list(c)?.into_iter().map(look).collect::<Vec<_>>())
    };
    let agents = works.store.read(read).await?;
    // Several at once: their writes share one flush, and what is wrong with one agent keeps no
    // other waiting.
    let about = &works;
    let look = |(name, quiet): (String, Result<Option<Wake>>)| async move {
        let looked = match quiet {
            Ok(Some(wake)) => Ok(wake),
            Ok(None) => look_after(site, about, &name).await,
            Err(cause) => Err(cause),
        };
        looked.unwrap_or_else(|cause| {
            warn!("agent:{name} is looked at later: {}", cause.chain());
            let at = about.store.clock().now().plus(duration_ms(AGAIN));
            Wake { due: Some(at), probe: None }
        })
    };
    let looks = stream::iter(agents).map(look).buffer_unordered(AT_ONCE);
    let wakes: Vec<Wake> = looks.collect().await;
    let now = works.store.clock().now();
    let until = |at: Option<Millis>, longest: Duration| match at {
        Some(at) => {
            let left = at.0.saturating_sub(now.0).max(1);
            Duration::from_millis(left.unsigned_abs()).min(longest)
        }
        None => FALLBACK,
    };
    let due = until(wakes.iter().filter_map(|it| it.due).min(), LOOK_AGAIN);
    let probe = until(wakes.iter().filter_map(|it| it.probe).min(), FALLBACK);
    Ok(due.min(probe))
}

/// When to look at an agent again at the latest.
#[derive(Default)]
struct Wake {
    /// Something is due then.
    due: Option<Millis>,
    /// Nothing was heard from it until then.
    probe: Option<Millis>,
}

/// What one look at an agent shows.
struct Glance {
    /// Whether its processes show something else than what is known.
    is_news: bool,
    /// Whether something is due now.
    is_due: bool,
    /// When to look again if nothing is.
    wake: Wake,
}

fn glance(c: &Connection, by: (&Queue, &Config), agent: &Agent, now: Millis) -> Result<Glance> {
    let probe = silent_agent::look(c, by.1, agent, now)?;
    let is_news = probe.is_some_and(|it| it.doubt != agent.doubt());
    let (due, at) = due(c, by, agent, now)?;
    let wake = Wake { due: at, probe: probe.map(|it| it.again) };
    Ok(Glance { is_news, is_due: due.is_some(), wake })
}

/// Does what is due for one agent; returns when to look again at the latest.
async fn look_after(site: &Site, works: &Works, name: &str) -> Result<Wake> {
    while handover::step(site, works, name).await? {}
    loop {
        let (about, asked, queue) = (works.clone(), name.to_owned(), site.queue.clone());
        let look = works.store.read(move |c| {
            let Some(agent) = agent::find(c, &asked)? else { return Ok(None) };
            let now = about.store.clock().now();
            glance(c, (&queue, &about.config), &agent, now).map(Some)
        });
        let Some(found) = look.await? else { return Ok(Wake::default()) };
        if found.is_news {
            silent_agent::note(works, name).await?;
        } else if !found.is_due || !act(site, works, name).await? {
            return Ok(found.wake);
        }
    }
}

/// Creates the missing rows of agents that a script declares.
///
/// # Errors
/// As any write.
pub(in crate::flows) fn keep(tx: &Tx<'_>, config: &Config) -> Result<()> {
    for declared in config.kinds.values().filter_map(|it| it.agent.as_ref()) {
        let wanted = match declared.autostart {
            Autostart::Never => Wanted::Stopped,
            _ => Wanted::Running,
        };
        agent::make(tx, (&declared.name, &declared.name), None, wanted, &config.digest)?;
    }
    Ok(())
}

/// Says what is due for an agent, and when to look again at the latest.
fn due(
    c: &Connection,
    (queue, config): (&Queue, &Config),
    agent: &Agent,
    now: Millis,
) -> Result<(Option<Due>, Option<Millis>)> {
    let kind = config.kinds.get(&kind_of_agent(&agent.declared));
    let Some(kind) = kind else { return undeclared(c, (queue, config), agent, now) };
    let autostart = kind.agent.as_ref().map_or(Autostart::Never, |it| it.autostart);
    if let Some(wanted) = unseated(c, agent, autostart)? {
        return Ok((Some(Due::Rest(wanted)), None));
    }
    match agent.state {
        // Whatever is sent to it goes to its heir.
        State::Stopped if agent.heir.is_some() => Ok((None, None)),
        State::Stopped if agent.wanted == Wanted::Running => {
            let is_due = match autostart {
                Autostart::Always => true,
                Autostart::OnMessage => is_awaited(c, agent)?,
                // Somebody started it, and only the script took it away.
                Autostart::Never => agent.reason.as_deref() == Some(UNDECLARED),
            };
            Ok((is_due.then_some(Due::Start), None))
        }
        State::Starting if !has_start(c, agent)? => match pending(agent.not_before, now) {
            Some(at) => Ok((None, Some(at))),
            None => Ok((Some(Due::Start), None)),
        },
        // What waits for it waits until it is known what it does.
        _ if agent.doubt().is_some() => Ok((None, None)),
        state if may_be_given(state) && agent.wanted == Wanted::Running => {
            match is_listening(c, agent)? {
                true => idle(c, (queue, config), agent, now),
                false => Ok((None, None)),
            }
        }
        _ => Ok((None, None)),
    }
}

/// The same for an agent that the script no longer declares. While it runs, it gets nothing new.
fn undeclared(
    c: &Connection,
    by: (&Queue, &Config),
    agent: &Agent,
    now: Millis,
) -> Result<(Option<Due>, Option<Millis>)> {
    match agent.state {
        State::Starting if !has_start(c, agent)? => Ok((Some(Due::Leave), None)),
        // What it was given before may still be proven, or given up.
        State::Idle if is_listening(c, agent)? && mail::open_block(c, &agent.name)?.is_some() => {
            idle(c, by, agent, now)
        }
        _ => Ok((None, None)),
    }
}

/// Returns whether an agent in this state is given what waits for it: while it works, its answer
/// would have two causes.
fn may_be_given(state: State) -> bool {
    state == State::Idle || (state == State::Busy && fault::is_off("one_block"))
}

/// Returns what an agent returns to that was started to take a seat, has none any more, and has
/// nothing to do.
fn unseated(c: &Connection, agent: &Agent, autostart: Autostart) -> Result<Option<Wanted>> {
    let Some(rests) = agent.rests else { return Ok(None) };
    let is_quiet = matches!(agent.state, State::Idle | State::Starting)
        && !matches!(agent.reason.as_deref(), Some(UNSEATED | RESTART))
        && agent.doubt().is_none()
        && !is_held(agent);
    // One that is declared to run all the time runs.
    let is_kept =
        rests == Wanted::Running && autostart == Autostart::Always && agent.name == agent.declared;
    if !is_quiet || is_kept || agent.wanted == Wanted::Stopped {
        return Ok(None);
    }
    let is_needed = !channels::seats_of(c, &agent.name)?.is_empty()
        || is_awaited(c, agent)?
        || handoff::open(c, &agent.name)?.is_some();
    Ok((!is_needed).then_some(match autostart {
        Autostart::OnMessage => rests,
        Autostart::Always | Autostart::Never => Wanted::Stopped,
    }))
}

/// Returns what is due for an agent that is ready for messages.
fn idle(
    c: &Connection,
    (queue, config): (&Queue, &Config),
    agent: &Agent,
    now: Millis,
) -> Result<(Option<Due>, Option<Millis>)> {
    let open = mail::open_block(c, &agent.name)?;
    let is_in_the_way = |it: &OpenBlock| it.begun_at.is_none() || !fault::is_off("one_block");
    let Some(block) = open.filter(is_in_the_way) else {
        if is_held(agent) {
            // Whoever types for it says when that is over.
            return Ok((None, None));
        }
        if mail::rooms_awaiting(c, &agent.name)?.is_empty() {
            return Ok((None, None));
        }
        let kind = kind_of_agent(&agent.declared);
        return Ok(match hold::hold(c, config, &kind, now)? {
            // What waits in a paused channel is not given, and the agent is held no more.
            None if matches!(agent.reason.as_deref(), Some(hold::CAPPED | hold::ENGINE_HELD)) => {
                (Some(Due::Hold(None)), None)
            }
            None => (Some(Due::Give), None),
            Some((why, until)) if agent.reason.as_deref() == Some(why) => (None, Some(until)),
            Some((why, until)) => (Some(Due::Hold(Some(why))), Some(until)),
        });
    };
    if block.begun_at.is_some() {
        return Ok((None, None));
    }
    if agent.job_id.as_ref() != Some(&block.job_id) {
        return Ok((Some(Due::Again(block)), None));
    }
    match queue.has_said(&block.job_id, &block.id) {
        Some(false) => return Ok((Some(Due::Say(block)), None)),
        Some(true) => {}
        // Its process is being taken over, or has just ended.
        None => return Ok((None, Some(now.plus(duration_ms(AGAIN))))),
    }
    let wait = speech(config, &agent.declared).map_or(PROOF_WAIT, |it| it.proof_wait);
    let until = block.made_at.plus(duration_ms(wait));
    match until > now {
        true => Ok((None, Some(until))),
        false => Ok((Some(Due::GiveUp(block)), None)),
    }
}

fn is_awaited(c: &Connection, agent: &Agent) -> Result<bool> {
    let has_block = mail::open_block(c, &agent.name)?.is_some();
    Ok(has_block || !mail::rooms_awaiting(c, &agent.name)?.is_empty())
}

/// Returns whether the agent's process runs, and nobody has asked for its end.
fn is_listening(c: &Connection, agent: &Agent) -> Result<bool> {
    let Some(job) = &agent.job_id else { return Ok(false) };
    let job = jobs::find_brief(c, &jobs::Viewer::Program, job)?;
    Ok(job.status == Status::Running && job.ending_at.is_none() && job.cancelled_by.is_none())
}

/// Returns whether the agent's last start waits or runs.
fn has_start(c: &Connection, agent: &Agent) -> Result<bool> {
    match &agent.job_id {
        Some(job) => Ok(!jobs::find_brief(c, &jobs::Viewer::Program, job)?.status.is_final()),
        None => Ok(false),
    }
}

/// Does what is due for an agent, if it still is; returns whether it did something, so that another
/// look is worthwhile.
///
/// # Errors
/// As any write.
pub(in crate::flows) async fn act(site: &Site, works: &Works, name: &str) -> Result<bool> {
    let (about, again, name) = (works.clone(), site.clone(), name.to_owned());
    let done = works
        .store
        .write(move |tx| {
            let Some(agent) = agent::find(tx.connection(), &name)? else { return Ok(None) };
            let by = (&again.queue, &*about.config);
            let (due, _) = due(tx.connection(), by, &agent, tx.now())?;
            let Some(due) = due else { return Ok(None) };
            carry_out(tx, (&again, &about), &agent, due)
        })
        .await?;
    let Some(words) = done else { return Ok(false) };
    if let Some(Words { job, id, text }) = words {
        fault::crash_point("block_claimed");
        // A process that is gone by now ends its start, and that decides what becomes of the block.
        match site.queue.say(&job, &id, &text) {
            true => info!(job_id = %job, "block {id} is given"),
            false => info!(job_id = %job, "block {id} waits for a start"),
        }
        fault::crash_point("block_said");
    }
    Ok(true)
}

/// Does one thing; returns whether it was done, with what is to be said.
fn carry_out(
    tx: &Tx<'_>,
    (site, works): (&Site, &Works),
    agent: &Agent,
    due: Due,
) -> Result<Option<Option<Words>>> {
    let name = agent.name.as_str();
    match (due, &agent.job_id) {
        (Due::Start, _) => start(tx, site, works, agent).map(|()| Some(None)),
        (Due::Rest(wanted), _) => control::rest(tx, site, agent, wanted).map(|()| Some(None)),
        (Due::Leave, _) => {
            let why = (State::Stopped, Some(UNDECLARED));
            agent::ended(tx, agent, why, &agent.ends, None).map(|()| Some(None))
        }
        (Due::Hold(None), _) => agent::explain(tx, agent, None).map(|()| Some(None)),
        (Due::Hold(Some(why)), _) => {
            let why = (why, Some(why));
            agent::show(tx, agent, agent.state, why, &Actor::System).map(|()| Some(None))
        }
        (Due::GiveUp(block), _) => {
            mail::end_block(tx, name, &block.id, "no_proof").map(|()| Some(None))
        }
        (Due::Say(block), Some(job)) => {
            Ok(Some(Some(Words { job: job.clone(), id: block.id, text: block.text })))
        }
        (Due::Again(block), Some(job)) => {
            let knows = speech(&works.config, &agent.declared)
                .is_some_and(|it| knows_a_block_again(it.speaks));
            if !knows || fault::is_off("same_block") {
                return mail::end_block(tx, name, &block.id, "agent_ended").map(|()| Some(None));
            }
            mail::give_back_block(tx, name, job)?;
            Ok(Some(Some(Words { job: job.clone(), id: block.id, text: block.text })))
        }
        (Due::Give, Some(job)) => {
            for room in mail::rooms_awaiting(tx.connection(), name)? {
                let block = match room {
                    None => direct::compose(tx, works, name)?,
                    Some(room) => (rooms::rooms(works).compose)(tx, name, room)?,
                };
                if let Some(block) = block {
                    mail::claim_block(tx, (name, job), room, &block)?;
                    if fault::is_off("proof") {
                        mail::begin_block(tx, name, &block.id, "write")?;
                    }
                    let words = Words { job: job.clone(), id: block.id, text: block.text };
                    if fault::is_off("sent_first") {
                        site.queue.say(&words.job, &words.id, &words.text);
                        fault::crash_point("block_said");
                        return Ok(Some(None));
                    }
                    return Ok(Some(Some(words)));
                }
            }
            Ok(None)
        }
        (_, None) => Ok(None),
    }
}

/// Queues the start of an agent.
fn start(tx: &Tx<'_>, site: &Site, works: &Works, agent: &Agent) -> Result<()> {
    let Some(kind) = works.config.kinds.get(&kind_of_agent(&agent.declared)) else {
        return Ok(());
    };
    let new = new_job(works, kind, agent);
    if let Err(cause) = site.queue.admit(tx, &new) {
        let (state, reason) = (State::Starting, Some(cause.code_str()));
        let not_before = Some(tx.now().plus(REFUSED_MS));
        return agent::ended(tx, agent, (state, reason), &agent.ends, not_before);
    }
    let job = match jobs::enqueue(tx, &works.ids, &site.queue.capacities(), &new) {
        Ok(job) => job,
        // The queue is full, which it says before it writes anything.
        Err(cause) if cause.kind() == ErrorKind::Busy => {
            let not_before = Some(tx.now().plus(REFUSED_MS));
            let why = (State::Starting, Some(cause.code_str()));
            return agent::ended(tx, agent, why, &agent.ends, not_before);
        }
        Err(cause) => return Err(cause),
    };
    agent::start(tx, agent, &job, &declaration::digest(&works.config, &agent.declared))?;
    match resumes(&works.config, kind, agent) {
        true => Ok(()),
        // It knows nothing of its channel any more.
        false => brief_again(tx, &Ground::of(works), &agent.name, false),
    }
}

/// Returns whether the next start of an agent goes on with the session of the last one.
fn resumes(config: &Config, kind: &Kind, agent: &Agent) -> bool {
    let Some(engine) = config.engines.get(&kind.engine) else { return false };
    if agent.session_in((&engine.name, &engine.mark(&config.folder))).is_none() {
        return false;
    }
    let is_told = |it: &Speech| it.speaks == Speaks::CodexAppServer;
    !engine.sessions.resume.is_empty() || engine.speech.as_ref().is_some_and(is_told)
}

fn new_job(works: &Works, kind: &Kind, agent: &Agent) -> NewJob {
    NewJob {
        grants: inputs::grants(kind, &Default::default()),
        pool: Pool::Live,
        agent: Some(agent.name.clone()),
        priority: kind.priority,
        ..NewJob::plain(&kind.name, &works.config.digest, Actor::System)
    }
}

fn duration_ms(it: Duration) -> i64 {
    i64::try_from(it.as_millis()).unwrap_or(i64::MAX)
}
