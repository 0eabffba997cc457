//! What people ask of an agent: that it runs, that it does not, that it leaves off.

use rusqlite::Connection;

use crate::api::agents::{AgentView, StartRequest};
use crate::base::{Actor, Error, JobId, Result};
use crate::flows::agents::restart::{RESTART, UNSEATED};
use crate::flows::agents::show;
use crate::flows::jobs::cancel::{self, cancel_waiting};
use crate::flows::{Site, agents};
use crate::jobs;
use crate::mail::agent::{self, Agent, State, Wanted};
use crate::people::Caller;
use crate::script::{Config, kind_of_agent};
use crate::store::Tx;

/// The code of an action that the state of an agent does not allow.
pub const AGENT_STATE: &str = "agent_state";

/// Has an agent run from now on; one that has handed over only if its heir is cleared. Started
/// fresh, it begins a new session.
///
/// # Errors
/// `not_found` with code `no_agent`; `conflict` with code `handed_over`, and `agent_state` if it
/// runs already or is not declared any more.
pub async fn start(
    site: &Site,
    caller: &Caller,
    name: &str,
    request: StartRequest,
) -> Result<AgentView> {
    let config = site.works.now().config;
    change(site, caller, name, move |tx, _, agent, by| {
        let has_heir = agent.heir.is_some();
        match has_heir {
            true if request.clear_heir => agent::set_heir(tx, &agent.name, None)?,
            true => return Err(handed_over(agent)),
            false => {}
        }
        if agent.state.is_live() && agent.wanted == Wanted::Running {
            // One that has kept itself running is only given its place again.
            return if has_heir { Ok(()) } else { Err(state(agent, "runs already")) };
        }
        require_declared(&config, agent)?;
        if request.fresh {
            agent::forget_session(tx, &agent.name)?;
        }
        agent::want(tx, agent, Wanted::Running)?;
        agent::rest_as(tx, &agent.name, None)?;
        // The start before may still be ending: then the next one follows from that.
        let is_ending = match &agent.job_id {
            Some(job) => {
                !jobs::find_brief(tx.connection(), &jobs::Viewer::Program, job)?.status.is_final()
            }
            None => false,
        };
        let reason = is_ending.then_some(RESTART);
        agent::show(tx, agent, State::Starting, ("asked", reason), by)
    })
    .await
}

/// Ends an agent, and keeps it from starting until a person says so.
///
/// # Errors
/// `not_found` with code `no_agent`; `conflict` with code `agent_state` if it does not run and
/// nothing would start it.
pub async fn stop(site: &Site, caller: &Caller, name: &str) -> Result<AgentView> {
    change(site, caller, name, |tx, site, agent, by| {
        if !agent.state.is_live() && agent.wanted == Wanted::Stopped {
            return Err(state(agent, "does not run"));
        }
        end(tx, site, agent, by)
    })
    .await
}

/// Ends an agent and starts it again, with its session.
///
/// # Errors
/// As [`start`]; one that does not run is just started.
pub async fn restart(site: &Site, caller: &Caller, name: &str) -> Result<AgentView> {
    let config = site.works.now().config;
    change(site, caller, name, move |tx, site, agent, by| {
        if agent.heir.is_some() {
            return Err(handed_over(agent));
        }
        // It could not start again.
        require_declared(&config, agent)?;
        agent::want(tx, agent, Wanted::Running)?;
        agent::rest_as(tx, &agent.name, None)?;
        agent::show(tx, agent, State::Starting, ("asked", Some(RESTART)), by)?;
        if !end_start(tx, site, agent, by)? {
            agent::show(tx, agent, State::Starting, ("asked", None), by)?;
        }
        Ok(())
    })
    .await
}

fn require_declared(config: &Config, agent: &Agent) -> Result<()> {
    match config.kinds.contains_key(&kind_of_agent(&agent.declared)) {
        true => Ok(()),
        false => Err(state(agent, "is no longer declared")),
    }
}

/// Starts an agent that takes a seat, unless it runs: until it has no seat any more.
///
/// # Errors
/// As any write.
pub(in crate::flows) fn start_for_seat(tx: &Tx<'_>, agent: &Agent) -> Result<()> {
    let is_ending = match &agent.job_id {
        Some(job) => {
            let job = jobs::find_brief(tx.connection(), &jobs::Viewer::Program, job)?;
            !job.status.is_final() && (job.ending_at.is_some() || job.cancelled_by.is_some())
        }
        None => false,
    };
    if agent.state.is_live() && !is_ending {
        return match agent.wanted {
            Wanted::Running => Ok(()),
            Wanted::Stopped => agent::want(tx, agent, Wanted::Running),
        };
    }
    let rests = match agent.reason.as_deref() {
        Some(UNSEATED) => agent.rests.unwrap_or(agent.wanted),
        _ => agent.wanted,
    };
    agent::rest_as(tx, &agent.name, Some(rests))?;
    agent::want(tx, agent, Wanted::Running)?;
    let reason = is_ending.then_some(RESTART);
    agent::show(tx, agent, State::Starting, ("asked", reason), &Actor::System)
}

/// Ends an agent that was started to take a seat and has none any more; it is again what it was.
///
/// # Errors
/// As any write.
pub(super) fn rest(tx: &Tx<'_>, site: &Site, agent: &Agent, wanted: Wanted) -> Result<()> {
    agent::want(tx, agent, wanted)?;
    agent::show(tx, agent, agent.state, ("unseated", Some(UNSEATED)), &Actor::System)?;
    match end_start(tx, site, agent, &Actor::System)? {
        true => Ok(()),
        false => {
            let why = ("unseated", Some(UNSEATED));
            agent::show(tx, agent, State::Stopped, why, &Actor::System)?;
            agent::rest_as(tx, &agent.name, None)
        }
    }
}

/// Asks an agent to leave off what it does.
///
/// # Errors
/// `not_found` with code `no_agent`; `conflict` with code `agent_state` if it does nothing.
pub async fn interrupt(site: &Site, caller: &Caller, name: &str) -> Result<AgentView> {
    caller.may_write()?;
    let asked = name.to_owned();
    let agent = site.store.read(move |c| show::find(c, &asked)).await?;
    let is_told = match &agent.job_id {
        Some(job) if matches!(agent.state, State::Busy | State::Blocked) => {
            site.queue.interrupt(job)
        }
        _ => false,
    };
    match is_told {
        true => agents::show(site, caller, name).await,
        false => Err(state(&agent, "does nothing that could be interrupted")),
    }
}

/// Returns the agent that lives in a job.
///
/// # Errors
/// As any read.
pub(super) fn agent_of_job(c: &Connection, job: &JobId) -> Result<Option<Agent>> {
    match jobs::find_brief(c, &jobs::Viewer::Program, job)?.agent {
        Some(name) => agent::find(c, &name),
        None => Ok(None),
    }
}

/// Refuses what is asked of an agent that has handed over.
pub(super) fn handed_over(agent: &Agent) -> Error {
    let heir = agent.heir.as_deref().unwrap_or_default();
    let message = format!("agent:{} has handed over to agent:{heir}", agent.name);
    Error::conflict("handed_over", message)
        .hint(format!("`wiki-browser agent start {} --clear-heir` takes that back", agent.name))
}

/// Ends an agent for good, as far as nobody starts it.
///
/// # Errors
/// As any write.
pub(super) fn end(tx: &Tx<'_>, site: &Site, agent: &Agent, by: &Actor) -> Result<()> {
    agent::want(tx, agent, Wanted::Stopped)?;
    // Whatever was asked before: this is what follows from the end of its start.
    agent::show(tx, agent, agent.state, ("asked", Some("asked")), by)?;
    match end_start(tx, site, agent, by)? {
        true => Ok(()),
        false => agent::show(tx, agent, State::Stopped, ("asked", Some("asked")), by),
    }
}

async fn change(
    site: &Site,
    caller: &Caller,
    name: &str,
    how: impl Fn(&Tx<'_>, &Site, &Agent, &Actor) -> Result<()> + Send + Sync + 'static,
) -> Result<AgentView> {
    let by = Actor::Person(caller.may_write()?.id.clone());
    let (about, asked) = (site.clone(), name.to_owned());
    site.store.write(move |tx| how(tx, &about, &show::find(tx.connection(), &asked)?, &by)).await?;
    agents::show(site, caller, name).await
}

/// Ends the start of an agent that waits or runs; whether there is one whose end is still to come.
fn end_start(tx: &Tx<'_>, site: &Site, agent: &Agent, by: &Actor) -> Result<bool> {
    let Some(id) = &agent.job_id else { return Ok(false) };
    let job = jobs::find_brief(tx.connection(), &jobs::Viewer::Program, id)?;
    if job.status.is_final() {
        return Ok(false);
    }
    if job.ending_at.is_some() || job.cancelled_by.is_some() {
        // Its end was asked for before, or has come.
        return Ok(true);
    }
    let job = id;
    if cancel_waiting(tx, &site.ids, job, by, &site.queue.capacities())? {
        return Ok(true);
    }
    cancel::request(tx, job, by).map(|()| true)
}

fn state(agent: &Agent, why: &str) -> Error {
    Error::conflict(AGENT_STATE, format!("agent:{} {why}", agent.name))
        .hint(format!("it is {}", agent.state_word()))
}
