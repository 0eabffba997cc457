//! The caller as a member of a channel.

use rusqlite::Connection;

use crate::base::{Actor, Error, ErrorKind, JobId, Result};
use crate::channels::{self, Channel, Member};
use crate::jobs;
use crate::mail::agent::{self, Agent};
use crate::people::{Caller, Role};
use crate::script::{Config, LiveAgent, kind_of_agent};

/// Maximum number of successors to follow.
const HEIRS_MAX: usize = 100;

/// Returns the agent that runs in a job.
///
/// # Errors
/// As any read.
pub(super) fn agent_of(c: &Connection, job: &JobId) -> Result<Option<Agent>> {
    match jobs::find_brief(c, &jobs::Viewer::Program, job)?.agent {
        Some(name) => agent::find(c, &name),
        None => Ok(None),
    }
}

/// Returns the member whose seat an agent has.
///
/// # Errors
/// As any read.
pub(super) fn seated(c: &Connection, channel: i64, agent: &str) -> Result<Option<Member>> {
    let members = channels::members(c, channel)?;
    Ok(members.into_iter().find(|it| it.agent.as_deref() == Some(agent) && !it.has_left()))
}

/// Returns the member whose seat an agent has, or had when it received the block: then one
/// of its successors has the seat.
///
/// # Errors
/// As any read.
pub(super) fn seated_or_followed(
    c: &Connection,
    channel: i64,
    agent: &str,
) -> Result<Option<Member>> {
    if let Some(member) = seated(c, channel, agent)? {
        return Ok(Some(member));
    }
    let mut next = agent::find(c, agent)?.and_then(|it| it.heir);
    for _ in 0..HEIRS_MAX {
        let Some(heir) = next else { return Ok(None) };
        if let Some(member) = seated(c, channel, &heir)? {
            return Ok(Some(Member { agent: Some(agent.to_owned()), ..member }));
        }
        next = agent::find(c, &heir)?.and_then(|it| it.heir);
    }
    Ok(None)
}

/// Returns the calling agent; none for a person who may write.
///
/// # Errors
/// `forbidden` for viewers, and with code `not_an_agent` for jobs in which no agent lives.
pub(super) fn agent_or_writer(c: &Connection, caller: &Caller) -> Result<Option<Agent>> {
    let Caller::Job { id, .. } = caller else { return caller.may_speak().map(|_| None) };
    match agent_of(c, id)? {
        Some(agent) => Ok(Some(agent)),
        None => {
            let message = "only long-running agents take part in channels";
            Err(Error::new(ErrorKind::Forbidden, message).code("not_an_agent"))
        }
    }
}

/// Returns the active declaration of an agent.
pub(super) fn declared<'c>(config: &'c Config, agent: &Agent) -> Option<&'c LiveAgent> {
    config.kinds.get(&kind_of_agent(&agent.declared))?.agent.as_ref()
}

/// Refuses agents, because only people may do this.
///
/// # Errors
/// `forbidden` with code `agent_forbidden`.
pub(super) fn require_person(caller: &Caller) -> Result<()> {
    match caller {
        Caller::Person { .. } => caller.may_write().map(|_| ()),
        Caller::Job { .. } => {
            let message = "only people can do this";
            Err(Error::new(ErrorKind::Forbidden, message).code("agent_forbidden"))
        }
    }
}

/// Resolves a channel for a caller. `own` is the calling agent's.
///
/// # Errors
/// `not_found` with code `no_channel`; `forbidden` with code `not_a_member` for an agent that asks
/// for another than its own.
pub(super) fn channel(c: &Connection, caller: &Caller, text: &str) -> Result<Channel> {
    if caller.is_outside() {
        // To them, other channels do not exist, whatever they are called.
        let found = channels::resolve(c, text).map_err(|_| channels::no_channel(text))?;
        let own = member(c, caller, &found)?;
        return own.map(|_| found).ok_or_else(|| channels::no_channel(text));
    }
    let Caller::Job { id, .. } = caller else { return channels::resolve(c, text) };
    let agent = agent_of(c, id)?;
    let seat = match &agent {
        Some(agent) => match channels::seat_of(c, &agent.name)? {
            None => muted_in(c, agent)?,
            seat => seat,
        },
        None => None,
    };
    let Some(seat) = seat else {
        return Err(
            Error::new(ErrorKind::Forbidden, "you have no seat in a channel").code("not_a_member")
        );
    };
    let own = channels::find(c, seat)?;
    if text == "own" || channels::resolve(c, text).is_ok_and(|it| it.number == seat) {
        return Ok(own);
    }
    let message = format!("agents can read only their own channel, {}", own.slug);
    Err(Error::new(ErrorKind::Forbidden, message).code("not_a_member"))
}

/// Returns the newest channel in which an agent is muted:
/// it may unmute itself.
fn muted_in(c: &Connection, agent: &Agent) -> Result<Option<i64>> {
    let persona = agent.persona.clone().unwrap_or_else(|| agent.declared.clone());
    let mut numbers = channels::channels_of(c, &Actor::Persona(persona))?;
    numbers.sort_unstable();
    for number in numbers.into_iter().rev() {
        if seated(c, number, &agent.name)?.is_some() {
            return Ok(Some(number));
        }
    }
    Ok(None)
}

/// Returns the caller as a member who has not left.
///
/// # Errors
/// As any read.
pub(super) fn member(c: &Connection, caller: &Caller, channel: &Channel) -> Result<Option<Member>> {
    match caller {
        Caller::Person { person, .. } => {
            let actor = Actor::Person(person.id.clone());
            let found = channels::find_member(c, channel.number, &actor)?;
            Ok(found.filter(|it| !it.has_left()))
        }
        Caller::Job { id, .. } => match agent_of(c, id)? {
            Some(agent) => seated(c, channel.number, &agent.name),
            None => Ok(None),
        },
    }
}

/// Returns the caller as a member.
///
/// # Errors
/// `forbidden` with code `not_a_member`.
pub(super) fn require_member(c: &Connection, caller: &Caller, channel: &Channel) -> Result<Member> {
    member(c, caller, channel)?.ok_or_else(|| {
        let message = format!("you are not a member of {}", channel.slug);
        let error = Error::new(ErrorKind::Forbidden, message).code("not_a_member");
        match channel.status.is_open() {
            true => error.hint(format!("wiki-browser channel join {}", channel.slug)),
            false => error.hint(format!("{} has ended: it can only be read", channel.slug)),
        }
    })
}

/// Refuses everyone except the chair and admins.
///
/// # Errors
/// `forbidden` with code `not_chair`.
pub(super) fn require_chair(c: &Connection, caller: &Caller, channel: &Channel) -> Result<()> {
    if is_admin(caller) || member(c, caller, channel)?.is_some_and(|it| it.is_chair) {
        return Ok(());
    }
    let message = format!("only the chair of {} or an admin can do this", channel.slug);
    Err(Error::new(ErrorKind::Forbidden, message).code("not_chair"))
}

/// Refuses everyone except members and admins.
///
/// # Errors
/// `forbidden` with code `not_a_member`.
pub(super) fn require_part(c: &Connection, caller: &Caller, channel: &Channel) -> Result<()> {
    match is_admin(caller) {
        true => Ok(()),
        false => require_member(c, caller, channel).map(drop),
    }
}

pub(super) fn is_admin(caller: &Caller) -> bool {
    matches!(caller, Caller::Person { person, .. } if person.role == Role::Admin)
}
