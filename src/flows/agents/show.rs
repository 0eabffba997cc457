//! Agents as responses show them.

use rusqlite::Connection;

use crate::api::agents::{AgentList, AgentSeat, AgentView, Problem};
use crate::api::handoffs::HandoverView;
use crate::approvals;
use crate::base::{Address, Error, JobId, Millis, Result};
use crate::channels::{self, Standing};
use crate::flows::agents::hold::{self, CAPPED, ENGINE_HELD};
use crate::flows::agents::{declaration, handoffs, identity, trouble};
use crate::flows::channels::Ground;
use crate::flows::{Site, Works};
use crate::jobs::{self, Job, Outlook, Queue, Status, Viewer};
use crate::mail::agent::{self, Agent, State, Wanted};
use crate::mail::{self};
use crate::people::Caller;
use crate::script::{Autostart, Config, kind_of_agent, nearest};
use crate::turns::handoff::{self, Handoff};

/// Returns all agents, by name.
///
/// # Errors
/// As any read.
pub async fn list(site: &Site, caller: &Caller) -> Result<AgentList> {
    caller.may_read()?;
    let works: Works = site.works.clone();
    let queue = site.queue.clone();
    let list = site.store.read(move |c| {
        let agents = agent::list(c)?;
        let items = agents.iter().map(|it| view(c, (&works, &queue), it)).collect::<Result<_>>()?;
        Ok(AgentList { items })
    });
    let items = list.await?.items.into_iter().map(|it| seen_by(caller, it)).collect();
    Ok(AgentList { items })
}

/// Omits what another agent's job doesn't need to write to an agent: its activity, and ids by which
/// it could be found elsewhere.
fn seen_by(caller: &Caller, view: AgentView) -> AgentView {
    match caller {
        Caller::Job { id, .. } if view.job_id.as_ref() != Some(id) => AgentView {
            fact: None,
            fact_at: None,
            waits: None,
            ended: None,
            problem: None,
            approval_id: None,
            job_id: None,
            session: None,
            attach: None,
            handover: None,
            seat: None,
            ..view
        },
        _ => view,
    }
}

/// Returns one agent.
///
/// # Errors
/// `not_found` with code `no_agent`, with a near name.
pub async fn show(site: &Site, caller: &Caller, name: &str) -> Result<AgentView> {
    caller.may_read()?;
    let (works, queue, name) = (site.works.clone(), site.queue.clone(), name.to_owned());
    let found = site.store.read(move |c| view(c, (&works, &queue), &find(c, &name)?)).await?;
    Ok(seen_by(caller, found))
}

/// Returns an agent that is there.
///
/// # Errors
/// `not_found` with code `no_agent`, with a near name.
pub(super) fn find(c: &Connection, name: &str) -> Result<Agent> {
    if let Some(found) = agent::find(c, name)? {
        return Ok(found);
    }
    let names: Vec<String> = agent::list(c)?.into_iter().map(|it| it.name).collect();
    let error = Error::not_found(format!("there is no agent {name}")).code("no_agent");
    Err(match nearest(name, names.iter().map(String::as_str)) {
        Some(near) => error.hint(format!("did you mean {near}?")),
        None => {
            error.hint("wb.agent of the script declares one; `wiki-browser agent list` names all")
        }
    })
}

/// Returns why an agent's messages wait, if they wait for a person, or for long. `is_direct`: they
/// are sent to it, and not in a channel.
///
/// # Errors
/// As any read.
pub(in crate::flows) fn why_waiting(
    c: &Connection,
    (config, now): (&Config, Millis),
    (name, is_direct): (&str, bool),
) -> Result<Option<String>> {
    let Some(agent) = identity::heir(c, name)? else { return Ok(None) };
    let name = &agent.name;
    let last = last_start(c, &agent)?;
    let Some(kind) = config.kinds.get(&kind_of_agent(&agent.declared)) else {
        let what = match is_direct {
            true => "is dropped at the next start or within an hour, unless it is declared before",
            false => "waits until it is declared again",
        };
        return Ok(Some(format!("agent:{name} is no longer declared; the message {what}")));
    };
    let start = format!("to start it: `wiki-browser agent start {name}`");
    let capped = || format!("agent:{name} is given nothing more today: a daily cap is used up");
    Ok(match (agent.state, agent.wanted, agent.reason.as_deref()) {
        (State::Idle | State::Starting, _, Some(CAPPED)) => Some(capped()),
        (State::Idle, _, Some(ENGINE_HELD)) => {
            let engine = &kind.engine;
            hold::held_until(c, kind, now)?.map(|until| {
                format!(
                    "agent:{name} is given nothing until {} UTC: its provider's rate limit is \
                     reached; to lift that: `wiki-browser engine release {engine}`",
                    until.minute()
                )
            })
        }
        (State::Stopped, Wanted::Stopped, _) => {
            Some(format!("agent:{name} is stopped, and the message waits; {start}"))
        }
        (State::Failed, ..) => match trouble::of(&agent, last.as_ref(), config)? {
            Some(Problem { what, fix }) => {
                Some(format!("agent:{name} has failed: {what}. To fix it: {fix}"))
            }
            None => Some(format!("agent:{name} has failed, and the message waits; {start}")),
        },
        (state, ..) => match (trouble::of(&agent, last.as_ref(), config)?, last) {
            (Some(Problem { what, fix }), _) => {
                Some(format!("agent:{name}: {what}. To fix it: {fix}"))
            }
            (None, Some(job)) if state == State::Starting => {
                let waits = start_waits(c, (config, now), &job)?;
                waits.map(|why| format!("agent:{name} is starting: {why}"))
            }
            _ => None,
        },
    })
}

/// Returns what keeps an agent from receiving messages, and what to do about it.
///
/// # Errors
/// As any read.
pub(in crate::flows) fn problem(
    c: &Connection,
    config: &Config,
    agent: &Agent,
) -> Result<Option<Problem>> {
    let name = &agent.name;
    let problem = |what: &str, fix: String| Ok(Some(Problem { what: what.to_owned(), fix }));
    let Some(kind) = config.kinds.get(&kind_of_agent(&agent.declared)) else {
        return problem(
            "it is no longer declared",
            "declare it again in the script, or remove the member".to_owned(),
        );
    };
    // Lists of channels ask this for each seat: a start is read only where it tells something.
    let start = match (agent.state, agent.doubt()) {
        (State::Failed | State::Starting, _) | (_, Some(_)) => last_start(c, agent)?,
        _ => None,
    };
    if let Some(found) = trouble::of(agent, start.as_ref(), config)? {
        return Ok(Some(found));
    }
    let start = format!("start it: `wiki-browser agent start {name}`");
    let autostart = kind.agent.as_ref().map_or(Autostart::Never, |it| it.autostart);
    match (agent.state, agent.wanted, agent.reason.as_deref()) {
        (State::Stopped, Wanted::Stopped, _) => problem("it is stopped", start),
        (State::Stopped, ..) if autostart == Autostart::Never => problem("it has ended", start),
        (State::Failed, ..) => problem("it has failed", start),
        (State::Idle | State::Starting, _, Some(CAPPED)) => problem(
            "it has used up a daily cap",
            "wait until tomorrow, or raise the cap in the script".to_owned(),
        ),
        (State::Idle, _, Some(ENGINE_HELD)) => problem(
            "its provider's rate limit is reached, and its engine is on hold",
            format!("wait, or lift that: `wiki-browser engine release {}`", kind.engine),
        ),
        _ => Ok(None),
    }
}

/// Returns the root of the last start of an agent, or of the one that has taken its place.
///
/// # Errors
/// As any read.
pub(in crate::flows) fn last_start_of(c: &Connection, name: &str) -> Result<Option<JobId>> {
    let Some(agent) = identity::heir(c, name)? else { return Ok(None) };
    Ok(last_start(c, &agent)?.map(|it| it.root().clone()))
}

fn last_start(c: &Connection, agent: &Agent) -> Result<Option<Job>> {
    let id = agent.job_id.as_ref();
    id.map(|id| jobs::find_brief(c, &Viewer::Program, id)).transpose()
}

/// Returns one sentence on how a start ended, with the command for the details.
pub(in crate::flows) fn how_it_ended(job: &Job) -> Option<String> {
    let sentence = jobs::sentence(job, "the agent", (None, None), None)?;
    Some(format!("{sentence} `wiki-browser job show {}` tells more", job.id))
}

fn start_waits(
    c: &Connection,
    (config, now): (&Config, Millis),
    job: &Job,
) -> Result<Option<String>> {
    if job.status != Status::Queued {
        return Ok(None);
    }
    let waits = Outlook::load(c, &Viewer::Site, config, now)?.why(c, job)?;
    // What comes by itself within moments is nothing to tell.
    Ok(waits.filter(|it| it.code != "turn").map(|it| it.message))
}

/// Returns a handover as it is told.
pub(super) fn handover(it: Handoff) -> HandoverView {
    HandoverView {
        handoff_id: it.id,
        agent: it.agent,
        state: it.state.as_str().to_owned(),
        reason: it.reason,
        file: it.file,
        successor: it.successor,
        asked_at: it.asked_at,
    }
}

fn view(c: &Connection, (works, queue): (&Works, &Queue), agent: &Agent) -> Result<AgentView> {
    let kind = works.config.kinds.get(&kind_of_agent(&agent.declared));
    let (waiting, unconfirmed) = mail::count_for_agent(c, &agent.name)?;
    let start = last_start(c, agent)?;
    let waits = match &start {
        Some(job) if agent.state == State::Starting => {
            start_waits(c, (&works.config, works.store.clock().now()), job)?
        }
        _ => None,
    };
    let is_ended = |it: &&Job| it.status.is_final() && agent.wanted == Wanted::Running;
    let ended = start.as_ref().filter(is_ended).and_then(how_it_ended);
    let problem = trouble::of(agent, start.as_ref(), &works.config)?;
    let approval_id = match &start {
        Some(job) if agent.state == State::Blocked => {
            approvals::pending_of_root(c, job.root())?.into_iter().next()
        }
        _ => None,
    };
    Ok(AgentView {
        name: agent.name.clone(),
        address: Address::Agent(agent.name.clone()),
        about: kind.map(|it| it.about.clone()),
        engine: kind.map(|it| it.engine.clone()),
        state: agent.state_word().to_owned(),
        wanted: agent.wanted.as_str().to_owned(),
        reason: agent.reason.clone(),
        fact: agent.fact.clone(),
        fact_at: agent.fact_at,
        waits,
        ended,
        problem,
        approval_id,
        not_before: agent.not_before,
        job_id: agent.job_id.clone(),
        session: agent.session_ref.clone(),
        waiting,
        unconfirmed,
        is_older: agent.state.is_live()
            && agent.config_digest != declaration::digest(&works.config, &agent.declared),
        heir: agent.heir.clone(),
        handover: handoff::last(c, &agent.name)?.map(self::handover),
        persona: handoffs::persona_of(agent),
        seat: seat(c, works, agent)?,
        attach: agent.job_id.as_ref().and_then(|it| queue.attach(it)),
    })
}

/// Returns the newest seat of an agent. A muted member keeps its agent, which may have another one.
fn seat(c: &Connection, works: &Works, agent: &Agent) -> Result<Option<AgentSeat>> {
    let seats = channels::seats_of(c, &agent.name)?;
    let own = channels::seat_of(c, &agent.name)?;
    let seat = seats.iter().find(|it| Some(it.0) == own).or(seats.last());
    let Some((number, member)) = seat else { return Ok(None) };
    let channel = channels::find(c, *number)?;
    let found = channels::find_member(c, *number, member)?;
    let kind = Ground::of(works).kind(&channel.kind);
    Ok(found.map(|member| AgentSeat {
        intent: channel.intent.clone().unwrap_or(kind.intent),
        channel: channel.slug,
        name: channel.name,
        is_chair: member.is_chair,
        is_muted: member.standing == Standing::Muted,
        handle: member.handle,
    }))
}
