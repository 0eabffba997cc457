//! The end of an agent's start: the turn that ran is lost, and the agent starts again or stays
//! where it is.

use crate::base::{Millis, Result};
use crate::flows::Works;
use crate::flows::agents::heard::{End, ended};
use crate::flows::agents::speech;
use crate::jobs::speak::{Tokens, knows_a_block_again};
use crate::jobs::{Job, Reason, Status};
use crate::mail::agent::{self, Agent, State, Wanted};
use crate::mail::{self, TurnEnd};
use crate::script::{Autostart, LiveAgent, kind_of_agent};
use crate::store::Tx;

/// So many unasked ends within [`ENDS_WINDOW_MS`] are too many.
const ENDS_MAX: usize = 5;
/// How long ends are counted, in milliseconds.
const ENDS_WINDOW_MS: i64 = 10 * 60_000;
/// The first pause before an agent is started again, in milliseconds; each next one is twice as
/// long.
const PAUSE_MS: i64 = 1_000;
/// The longest pause, in milliseconds.
const PAUSE_MAX_MS: i64 = 5 * 60_000;
/// The reason of a start that a person ends for the next one.
pub(super) const RESTART: &str = "restart";

/// What follows from the end of an agent's start; nothing for any other job.
///
/// # Errors
/// As any write.
pub(in crate::flows) fn settle_job(tx: &Tx<'_>, works: &Works, job: &Job) -> Result<()> {
    let Some(name) = &job.agent else { return Ok(()) };
    let agent = agent::find(tx.connection(), name)?;
    let Some(agent) = agent.filter(|it| it.job_id.as_ref() == Some(&job.id)) else {
        return Ok(());
    };
    let config = &works.scripts.current().config;
    lose_turn(tx, works, (&agent, job))?;
    if let Some(open) = mail::open_block(tx.connection(), name)? {
        let knows =
            speech(config, &agent.declared).is_some_and(|it| knows_a_block_again(it.speaks));
        if !knows {
            mail::end_block(tx, name, &open.id, "agent_ended")?;
        }
    }
    let kind = config.kinds.get(&kind_of_agent(&agent.declared));
    let next = next(&agent, job, kind.and_then(|it| it.agent.as_ref()), tx.now());
    agent::ended(tx, &agent, (next.state, next.reason.as_deref()), &next.ends, next.not_before)?;
    if next.is_asked && agent.wanted == Wanted::Running && agent.reason.as_deref() != Some(RESTART)
    {
        // Whoever cancels the start does not want the next one either.
        agent::want(tx, &agent, Wanted::Stopped)?;
    }
    Ok(())
}

/// Writes that an agent's start was cancelled before it began.
///
/// # Errors
/// As any write.
pub(in crate::flows) fn cancelled(tx: &Tx<'_>, job: &Job) -> Result<()> {
    let Some(name) = &job.agent else { return Ok(()) };
    let agent = agent::find(tx.connection(), name)?;
    let Some(agent) = agent.filter(|it| it.job_id.as_ref() == Some(&job.id)) else {
        return Ok(());
    };
    if agent.reason.as_deref() == Some(RESTART) {
        return agent::ended(tx, &agent, (State::Starting, None), &agent.ends, None);
    }
    agent::want(tx, &agent, Wanted::Stopped)?;
    agent::ended(tx, &agent, (State::Stopped, Some("asked")), &[], None)
}

/// Tells the end of a turn that nobody saw end.
fn lose_turn(tx: &Tx<'_>, works: &Works, (agent, job): (&Agent, &Job)) -> Result<()> {
    let open = mail::open_block(tx.connection(), &agent.name)?;
    let begun = open.filter(|it| it.begun_at.is_some());
    if begun.is_none() && !matches!(agent.state, State::Busy | State::Blocked) {
        return Ok(());
    }
    let end = End { text: "", how: TurnEnd::Lost, tokens: Tokens::default(), cost_usd: None };
    ended(tx, works, (agent, job), begun.as_ref().map(|it| &it.id), end)
}

struct Next {
    state: State,
    reason: Option<String>,
    ends: Vec<Millis>,
    not_before: Option<Millis>,
    is_asked: bool,
}

/// Says what becomes of an agent whose start has ended.
fn next(agent: &Agent, job: &Job, declared: Option<&LiveAgent>, now: Millis) -> Next {
    let plain = |state, reason: Option<&str>| Next {
        state,
        reason: reason.map(str::to_owned),
        ends: agent.ends.clone(),
        not_before: None,
        is_asked: false,
    };
    if agent.reason.as_deref() == Some(RESTART) {
        return plain(State::Starting, None);
    }
    if agent.wanted == Wanted::Stopped || job.status == Status::Cancelled {
        return Next { is_asked: true, ends: Vec::new(), ..plain(State::Stopped, Some("asked")) };
    }
    let Some(declared) = declared else {
        return plain(State::Stopped, Some("not_declared"));
    };
    // The server's own end is none of the agent's.
    if matches!(job.reason, Some(Reason::ServerRestarted)) {
        return plain(State::Starting, None);
    }
    if job.status == Status::Succeeded && declared.autostart != Autostart::Always {
        return plain(State::Stopped, Some("ended"));
    }
    let reason = job.reason.map_or("ended", Reason::as_str);
    if !declared.restart {
        return plain(State::Failed, Some(reason));
    }
    let since = now.plus(-ENDS_WINDOW_MS);
    let mut ends: Vec<Millis> = agent.ends.iter().copied().filter(|it| *it > since).collect();
    ends.push(now);
    let doublings = u32::try_from(ends.len() - 1).unwrap_or(u32::MAX).min(16);
    let pause = (PAUSE_MS << doublings).min(PAUSE_MAX_MS);
    match ends.len() >= ENDS_MAX {
        true => Next { ends, ..plain(State::Failed, Some(reason)) },
        false => {
            Next { ends, not_before: Some(now.plus(pause)), ..plain(State::Starting, Some(reason)) }
        }
    }
}
