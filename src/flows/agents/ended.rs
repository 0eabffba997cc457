//! The end of an agent's start: the turn that ran is lost, and the agent starts again or stays
//! where it is.

use crate::base::{Result, fault};
use crate::flows::Works;
use crate::flows::agents::heard::{End, ended};
use crate::flows::agents::restart::{RESTART, UNSEATED, next};
use crate::flows::agents::speech;
use crate::jobs::Job;
use crate::jobs::speak::{Tokens, knows_a_block_again};
use crate::mail::agent::{self, Agent, State, Wanted};
use crate::mail::{self, TurnEnd};
use crate::script::kind_of_agent;
use crate::store::Tx;

/// What follows from the end of an agent's start; nothing for any other job.
///
/// # Errors
/// As any write.
pub(in crate::flows) fn settle_job(tx: &Tx<'_>, works: &Works, job: &Job) -> Result<()> {
    let Some(name) = &name_of(job) else { return Ok(()) };
    let agent = agent::find(tx.connection(), name)?;
    let is_own = |it: &Agent| it.job_id.as_ref() == Some(&job.id) || is_by_name();
    let Some(agent) = agent.filter(is_own) else {
        return Ok(());
    };
    let config = &works.scripts.current().config;
    let kind = config.kinds.get(&kind_of_agent(&agent.declared));
    lose_turn(tx, works, (&agent, job))?;
    if let Some(open) = mail::open_block(tx.connection(), name)? {
        // Another program has read nothing of it.
        let is_same = kind.is_some_and(|it| job.engine.as_ref() == Some(&it.engine));
        let speech = speech(config, &agent.declared).filter(|_| is_same);
        if !speech.is_some_and(|it| knows_a_block_again(it.speaks)) {
            mail::end_block(tx, name, &open.id, "agent_ended")?;
        }
    }
    let next = next(&agent, job, kind.and_then(|it| it.agent.as_ref()), tx.now());
    agent::ended(tx, &agent, (next.state, next.reason.as_deref()), &next.ends, next.not_before)?;
    if next.reason.as_deref() == Some(UNSEATED) {
        agent::rest_as(tx, name, None)?;
    }
    if next.is_asked && agent.wanted == Wanted::Running && agent.reason.as_deref() != Some(RESTART)
    {
        // Whoever cancels the start does not want the next one either.
        agent::want(tx, &agent, Wanted::Stopped)?;
    }
    Ok(())
}

/// Returns the agent that a job is a start of: it says so itself. An instance is none of an agent
/// whose name its template has.
fn name_of(job: &Job) -> Option<String> {
    let template = || Some(job.kind.split_once('/')?.0.to_owned());
    job.agent.clone().or_else(|| if is_by_name() { template() } else { None })
}

fn is_by_name() -> bool {
    fault::is_off("pool_filter")
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
    if agent.reason.as_deref() == Some(UNSEATED) {
        agent::rest_as(tx, name, None)?;
        return agent::ended(tx, &agent, (State::Stopped, Some(UNSEATED)), &[], None);
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
    let end = End {
        text: "",
        how: TurnEnd::Lost,
        tokens: Tokens::default(),
        cost_usd: None,
        ms: None,
        is_mixed: false,
        before_typed: None,
    };
    ended(tx, works, (agent, job), begun.as_ref().map(|it| &it.id), end)
}
