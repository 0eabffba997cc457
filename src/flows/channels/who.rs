//! Who asks, as a member of a channel.

use rusqlite::Connection;

use crate::base::{Actor, Error, ErrorKind, JobId, Result};
use crate::channels::{self, Channel, Member};
use crate::jobs;
use crate::mail::agent::{self, Agent};
use crate::people::{Caller, Role};
use crate::script::{Config, LiveAgent, kind_of_agent};

/// Most agents that hand on a seat, one to the other.
const HEIRS_MAX: usize = 100;

/// Returns the agent that lives in a job.
///
/// # Errors
/// As any read.
pub(super) fn agent_of(c: &Connection, job: &JobId) -> Result<Option<Agent>> {
    match jobs::find_brief(c, &jobs::Viewer::Program, job)?.agent {
        Some(name) => agent::find(c, &name),
        None => Ok(None),
    }
}

/// Returns the member that an agent speaks for.
///
/// # Errors
/// As any read.
pub(super) fn seated(c: &Connection, channel: i64, agent: &str) -> Result<Option<Member>> {
    let members = channels::members(c, channel)?;
    Ok(members.into_iter().find(|it| it.agent.as_deref() == Some(agent) && !it.has_left()))
}

/// Returns the member that an agent speaks for, or spoke for when it was given what it answers: one
/// of its heirs has the seat then.
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

/// Returns the agent that lives in the job that asks; nothing for a person who may write.
///
/// # Errors
/// `forbidden` for viewers, and with code `not_an_agent` for jobs in which no agent lives.
pub(super) fn agent_or_writer(c: &Connection, caller: &Caller) -> Result<Option<Agent>> {
    let Caller::Job { id, .. } = caller else { return caller.may_speak().map(|_| None) };
    match agent_of(c, id)? {
        Some(agent) => Ok(Some(agent)),
        None => {
            let message = "only an agent that lives on takes part in channels";
            Err(Error::new(ErrorKind::Forbidden, message).code("not_an_agent"))
        }
    }
}

/// Returns what the script in force says of an agent.
pub(super) fn declared<'c>(config: &'c Config, agent: &Agent) -> Option<&'c LiveAgent> {
    config.kinds.get(&kind_of_agent(&agent.declared))?.agent.as_ref()
}

/// Refuses an agent where people alone decide.
///
/// # Errors
/// `forbidden` with code `agent_forbidden`.
pub(super) fn require_person(caller: &Caller) -> Result<()> {
    match caller {
        Caller::Person { .. } => caller.may_write().map(|_| ()),
        Caller::Job { .. } => {
            let message = "an agent does not do this: a person does";
            Err(Error::new(ErrorKind::Forbidden, message).code("agent_forbidden"))
        }
    }
}

/// Returns the channel that a caller means. `own` is that of the agent who asks.
///
/// # Errors
/// `not_found` with code `no_channel`; `forbidden` with code `not_a_member` for an agent that asks
/// for another than its own.
pub(super) fn channel(c: &Connection, caller: &Caller, text: &str) -> Result<Channel> {
    if caller.is_outside() {
        // Another one is not there for them, whatever it is called.
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
        return Err(Error::new(ErrorKind::Forbidden, "you are in no channel").code("not_a_member"));
    };
    let own = channels::find(c, seat)?;
    if text == "own" || channels::resolve(c, text).is_ok_and(|it| it.number == seat) {
        return Ok(own);
    }
    let message = format!("an agent reads its own channel, {}, only", own.slug);
    Err(Error::new(ErrorKind::Forbidden, message).code("not_a_member"))
}

/// Returns the channel in which an agent without a seat is muted, the newest if there are several:
/// it may hear again.
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

/// Returns whoever asks as a member who has not left.
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

/// Returns whoever asks as a member.
///
/// # Errors
/// `forbidden` with code `not_a_member`.
pub(super) fn require_member(c: &Connection, caller: &Caller, channel: &Channel) -> Result<Member> {
    member(c, caller, channel)?.ok_or_else(|| {
        let message = format!("you are not a member of {}", channel.slug);
        Error::new(ErrorKind::Forbidden, message)
            .code("not_a_member")
            .hint(format!("wiki-browser channel join {}", channel.slug))
    })
}

/// Refuses who neither is the chair nor administers the site.
///
/// # Errors
/// `forbidden` with code `not_chair`.
pub(super) fn require_chair(c: &Connection, caller: &Caller, channel: &Channel) -> Result<()> {
    if is_admin(caller) || member(c, caller, channel)?.is_some_and(|it| it.is_chair) {
        return Ok(());
    }
    let message = format!("only the chair of {} or an admin does this", channel.slug);
    Err(Error::new(ErrorKind::Forbidden, message).code("not_chair"))
}

/// Refuses who neither takes part nor administers the site.
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
