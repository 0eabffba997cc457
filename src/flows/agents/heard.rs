//! What follows from the facts about an agent: it is ready, a turn began, a turn ended.

use crate::approvals;
use crate::base::{Actor, BlockId, Result};
use crate::flows::Works;
use crate::flows::agents::restart::{RESTART, UNSEATED};
use crate::flows::agents::{direct, hold, rooms, speech_of};
use crate::flows::channels::{Ground, brief_again};
use crate::jobs::speak::{Ending, Fact, Tokens};
use crate::jobs::{self, Job, TurnSpent};
use crate::mail::agent::{self, Agent, State};
use crate::mail::{self, Turn, TurnEnd};
use crate::store::Tx;

/// Writes what follows from a fact about the agent that lives in a job.
///
/// # Errors
/// As any write.
pub(in crate::flows) fn heard(tx: &Tx<'_>, works: &Works, job: &Job, fact: &Fact) -> Result<()> {
    let Some(name) = &job.agent else { return Ok(()) };
    let agent = agent::find(tx.connection(), name)?;
    let Some(agent) = agent.filter(|it| it.job_id.as_ref() == Some(&job.id)) else {
        return Ok(());
    };
    let see = |state, fact| match agent.reason.as_deref() {
        // Its end was asked for already: what it still does is not its state.
        Some(RESTART | UNSEATED) => Ok(()),
        _ => agent::show(tx, &agent, state, (fact, None), &Actor::System),
    };
    match fact {
        Fact::Ready if is_beginning(&agent) => see(State::Idle, "started"),
        Fact::Ready => Ok(()),
        Fact::Waits { why } => waits(tx, &agent, why),
        Fact::GoesOn if agent.state == State::Blocked => see(State::Busy, "went_on"),
        Fact::GoesOn => Ok(()),
        Fact::Still { is_still } => seem(tx, &agent, *is_still),
        Fact::NotInterrupted => resists(tx, &agent),
        Fact::Refused { block, why } => refused(tx, &agent, block, why),
        Fact::Free if is_held(&agent) => see(agent.state, "free"),
        Fact::Free => Ok(()),
        Fact::Works => see(State::Busy, "works"),
        Fact::SessionLost | Fact::Cleared => {
            agent::forget_session(tx, name)?;
            brief_again(tx, &Ground::of(works), name, false)
        }
        Fact::Compacted => brief_again(tx, &Ground::of(works), name, true),
        // It is the agent's from its first turn on.
        Fact::Session { .. } => Ok(()),
        Fact::Taken { block, answer } => {
            taken(tx, works, (&agent, job), (block.as_ref(), answer.as_deref()))
        }
        Fact::Began { block } => {
            let own = own_block(tx, &agent, block.as_ref())?;
            let proof = if is_by_screen(works, job) { "screen" } else { "turn" };
            began(tx, works, (&agent, job), (own.as_ref(), proof))?;
            let speech = speech_of(&works.scripts, job);
            let is_typed = block.is_none() && speech.is_some_and(|it| it.typed.is_some());
            // A question over HTTP can overtake the line that begins its turn.
            if approvals::is_awaited(tx.connection(), job.root())? {
                return see(State::Blocked, "asks_permission");
            }
            see(State::Busy, if is_typed { TYPED } else { "turn_began" })
        }
        // After a takeover nobody knows whether there was a turn whose end is seen.
        Fact::Ended { .. } if agent.state == State::Idle && is_by_screen(works, job) => Ok(()),
        Fact::Ended { block, text, how, tokens, cost_usd, ms, is_mixed, before_typed } => {
            let how = match how {
                Ending::Answered => TurnEnd::Answered,
                Ending::Interrupted => TurnEnd::Interrupted,
                Ending::Failed(why) => TurnEnd::Failed(why.clone()),
            };
            let (tokens, cost_usd, ms, is_mixed) = (*tokens, *cost_usd, *ms, *is_mixed);
            let before_typed = before_typed.as_deref();
            let end = End { text, how, tokens, cost_usd, ms, is_mixed, before_typed };
            ended(tx, works, (&agent, job), block.as_ref(), end)?;
            see(State::Idle, "turn_ended")
        }
    }
}

/// What an agent was seen doing to which a person has written in its terminal.
const TYPED: &str = "person_typed";

fn is_by_screen(works: &Works, job: &Job) -> bool {
    speech_of(&works.scripts, job).is_some_and(|it| it.is_by_screen())
}

/// Prefix of the reason why an agent gets no messages now.
pub(super) const HELD: &str = "held_";
/// Prefix of the reason of an agent that asks something in its terminal.
pub(super) const ASKS: &str = "asks_";
/// The reason of an agent that asks something before it has reported that it runs.
pub(super) const ASKS_AT_START: &str = "asks_start";

/// Returns whether an agent gets none of its waiting messages now, because a person is at its
/// terminal.
pub(super) fn is_held(agent: &Agent) -> bool {
    agent.reason.as_deref().is_some_and(|it| it.starts_with(HELD))
}

/// The reason of an agent whose turn has not ended, while its screen shows that it waits.
pub(super) const SEEMS_IDLE: &str = "seems_idle";

/// The reason of an agent whose turn went on after it was interrupted.
pub(super) const NOT_INTERRUPTED: &str = "not_interrupted";

/// Writes whether an agent seems to wait in the middle of a turn; the fact behind its state stays.
fn seem(tx: &Tx<'_>, agent: &Agent, is_idle: bool) -> Result<()> {
    let (before, now) = match is_idle {
        true => (None, Some(SEEMS_IDLE)),
        false => (Some(SEEMS_IDLE), None),
    };
    match agent.state == State::Busy && agent.reason.as_deref() == before {
        true => agent::explain(tx, agent, now),
        false => Ok(()),
    }
}

/// Writes that an agent goes on with its turn after it was interrupted.
fn resists(tx: &Tx<'_>, agent: &Agent) -> Result<()> {
    let is_ending = matches!(agent.reason.as_deref(), Some(RESTART | UNSEATED));
    match agent.state == State::Busy && !is_ending {
        true => agent::explain(tx, agent, Some(NOT_INTERRUPTED)),
        false => Ok(()),
    }
}

/// Returns whether an agent has not reported before that it runs.
fn is_beginning(agent: &Agent) -> bool {
    let asks = agent.reason.as_deref() == Some(ASKS_AT_START);
    agent.state == State::Starting || (agent.state == State::Blocked && asks)
}

/// Writes that an agent asks something in its terminal.
fn waits(tx: &Tx<'_>, agent: &Agent, why: &str) -> Result<()> {
    let is_its_time = match why {
        "start" => agent.state == State::Starting,
        _ => matches!(agent.state, State::Busy | State::Idle),
    };
    if !is_its_time || matches!(agent.reason.as_deref(), Some(RESTART | UNSEATED)) {
        return Ok(());
    }
    let reason = format!("{ASKS}{why}");
    agent::show(tx, agent, State::Blocked, ("asks", Some(&reason)), &Actor::System)
}

/// Writes that nothing of a block has reached its agent: it waits again.
fn refused(tx: &Tx<'_>, agent: &Agent, block: &BlockId, why: &str) -> Result<()> {
    mail::take_back_block(tx, &agent.name, block)?;
    if matches!(agent.reason.as_deref(), Some(RESTART | UNSEATED)) {
        return Ok(());
    }
    let reason = format!("{HELD}{why}");
    agent::show(tx, agent, agent.state, ("refused", Some(&reason)), &Actor::System)
}

/// Writes that an agent waits for a person, or works again; nothing for any other job.
///
/// # Errors
/// As any write.
pub(in crate::flows) fn block(tx: &Tx<'_>, job: &Job, waits: bool) -> Result<()> {
    let Some(name) = &job.agent else { return Ok(()) };
    let agent = agent::find(tx.connection(), name)?;
    let agent = agent.filter(|it| it.job_id.as_ref() == Some(&job.id));
    match agent {
        Some(agent) if waits && agent.state == State::Busy => {
            let fact = ("asks_permission", agent.reason.as_deref());
            agent::show(tx, &agent, State::Blocked, fact, &Actor::System)
        }
        Some(agent) if !waits && agent.state == State::Blocked => {
            let fact = ("permission_answered", agent.reason.as_deref());
            agent::show(tx, &agent, State::Busy, fact, &Actor::System)
        }
        _ => Ok(()),
    }
}

/// Returns the block that an agent names, if that is what it was given.
fn own_block(tx: &Tx<'_>, agent: &Agent, named: Option<&BlockId>) -> Result<Option<BlockId>> {
    let open = mail::open_block(tx.connection(), &agent.name)?;
    Ok(open.map(|it| it.id).filter(|it| Some(it) == named))
}

fn began(
    tx: &Tx<'_>,
    works: &Works,
    (agent, job): (&Agent, &Job),
    (block, proof): (Option<&BlockId>, &str),
) -> Result<()> {
    // From its first turn on, the engine knows the session again.
    let start = jobs::find_brief(tx.connection(), &jobs::Viewer::Program, &job.id)?;
    let known = (&agent.session_ref, &agent.session_engine, &agent.session_mark);
    if let Some(session) = &start.session_ref
        && (&start.session_ref, &start.engine, &start.engine_mark) != known
    {
        let engine = (start.engine.as_deref(), start.engine_mark.as_deref());
        agent::keep_session(tx, &agent.name, session, engine)?;
    }
    if let Some(block) = block {
        mail::begin_block(tx, &agent.name, block, proof)?;
    }
    let (agent, job, block) = (agent.name.clone(), job.id.clone(), block.cloned());
    (rooms::rooms(works).turn)(tx, &Turn::Began { agent, job, block })
}

/// Writes what became of a block that an earlier start was given and had not begun with, as far as
/// anybody knew: the engine remembers it.
fn taken(
    tx: &Tx<'_>,
    works: &Works,
    (agent, job): (&Agent, &Job),
    (block, answer): (Option<&BlockId>, Option<&str>),
) -> Result<()> {
    let open = mail::open_block(tx.connection(), &agent.name)?;
    let Some(open) = open.filter(|it| it.begun_at.is_none() && it.job_id != job.id) else {
        return Ok(());
    };
    let Some(block) = block else {
        // Neither given again nor said to have arrived: a person looks.
        return mail::end_block(tx, &agent.name, &open.id, "agent_ended");
    };
    if *block != open.id {
        return Ok(());
    }
    began(tx, works, (agent, job), (Some(block), "turn"))?;
    let end = End {
        text: answer.unwrap_or_default(),
        how: if answer.is_some() { TurnEnd::Answered } else { TurnEnd::Lost },
        tokens: Tokens::default(),
        cost_usd: None,
        // Nobody saw when it ended.
        ms: Some(0),
        is_mixed: false,
        before_typed: None,
    };
    ended(tx, works, (agent, job), Some(block), end)
}

/// How a turn ended.
pub(super) struct End<'a> {
    /// Its last words.
    pub(super) text: &'a str,
    /// How it ended.
    pub(super) how: TurnEnd,
    /// What it took.
    pub(super) tokens: Tokens,
    /// Its cost.
    pub(super) cost_usd: Option<f64>,
    /// Milliseconds, as the engine measured them.
    pub(super) ms: Option<u64>,
    /// Whether they may hold what somebody typed.
    pub(super) is_mixed: bool,
    /// What it had answered before a person typed into it; none if nobody is known to have.
    pub(super) before_typed: Option<&'a str>,
}

/// Writes what follows from the end of a turn: the answer, and that its block is over.
pub(super) fn ended(
    tx: &Tx<'_>,
    works: &Works,
    (agent, job): (&Agent, &Job),
    block: Option<&BlockId>,
    end: End<'_>,
) -> Result<()> {
    let open = mail::open_block(tx.connection(), &agent.name)?;
    // An end without a name, after a gap in the output, is that of the turn that began.
    let is_begun = |it: &mail::OpenBlock| block.is_none() && it.begun_at.is_some();
    let own = open.filter(|it| Some(&it.id) == block || (is_begun(it) && it.job_id == job.id));
    // What proves that a turn began can come late, so it counts from the block's first byte.
    let given_at = own.as_ref().map(|it| it.made_at);
    let busy_since = agent.fact_at.filter(|_| matches!(agent.state, State::Busy | State::Blocked));
    let since = given_at.or(busy_since).map(|it| tx.now().0 - it.0);
    let told = end.ms.and_then(|it| i64::try_from(it).ok());
    let ms = told.into_iter().chain(since).min().unwrap_or(0);
    jobs::add_turn(tx, job, TurnSpent { tokens: end.tokens, cost_usd: end.cost_usd, ms })?;
    let began = given_at.or(busy_since).unwrap_or(tx.now());
    hold::follow(tx, &works.scripts.current().config, (job, began), &end.how)?;
    if let Some(own) = own.as_ref().filter(|it| it.room.is_none()) {
        direct::answer(tx, works, (&agent.name, &job.id, &own.id), &end)?;
    }
    if let (None, Some(late)) = (&own, block)
        && mail::confirm_late(tx, &agent.name, late)?
    {
        direct::answer(tx, works, (&agent.name, &job.id, late), &end)?;
    }
    let turn = Turn::Ended {
        agent: agent.name.clone(),
        job: job.id.clone(),
        block: own.as_ref().map(|it| it.id.clone()),
        text: end.text.to_owned(),
        how: end.how,
        tokens: end.tokens.sum(),
        cost_usd: end.cost_usd,
        is_mixed: end.is_mixed,
    };
    (rooms::rooms(works).turn)(tx, &turn)?;
    match own {
        Some(own) => mail::end_block(tx, &agent.name, &own.id, "turn_ended"),
        None => Ok(()),
    }
}
