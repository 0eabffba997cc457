//! Joining and leaving: seats of agents, and what a newcomer is told.

use crate::api::channels::{ChannelView, MemberRequest};
use crate::base::{Actor, Address, Error, ErrorKind, Result};
use crate::channels::{self, Channel, ChannelType, Joining, Member};
use crate::flows::Site;
use crate::flows::channels::{Ground, fresh, hear, kind_of, say, show, who};
use crate::flows::people::named;
use crate::jobs;
use crate::mail;
use crate::mail::agent::{self, Agent, State, Wanted};
use crate::people::Caller;
use crate::store::Tx;

/// Most messages that were missed that a member is told when it hears again.
const MISSED_MAX: u32 = 50;

/// What is done with a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It receives nothing until it is unmuted.
    Mute,
    /// It receives messages again, and what it missed.
    Unmute,
    /// It is removed.
    Remove,
}

/// Adds a member.
///
/// # Errors
/// `forbidden`: `not_a_member`, `not_an_agent`, `no_add_capability`; `invalid`: `bad_member`;
/// `not_found`: `no_agent`, `no_person`; `conflict`: `already_a_member`,
/// `agent_already_in_channel`, `channel_not_active`; `busy`: `too_many_starts`.
pub async fn add(
    site: &Site,
    caller: &Caller,
    slug: &str,
    request: MemberRequest,
) -> Result<ChannelView> {
    let by = caller.actor();
    let (ground, asking, text) = (Ground::of(site), caller.clone(), slug.to_owned());
    let config = site.config.clone();
    let write = site.store.write(move |tx| {
        if let Caller::Job { token_hash, .. } = &asking {
            jobs::fence(tx, token_hash)?;
        }
        if let Some(agent) = who::agent_or_writer(tx.connection(), &asking)?
            && !who::declared(&config, &agent).is_some_and(|it| it.can_add_members)
        {
            let message = format!("{} cannot add members", agent.name);
            return Err(Error::new(ErrorKind::Forbidden, message)
                .code("no_add_capability")
                .hint("set `can_add_members = true` in its wb.agent"));
        }
        let channel = who::channel(tx.connection(), &asking, &text)?;
        who::require_part(tx.connection(), &asking, &channel)?;
        let joining = joining(tx, &ground, &request, &by)?;
        require_inside(&joining, &by)?;
        let kind = kind_of(&ground, &channel.kind);
        if let (Caller::Job { .. }, Some(agent)) = (&asking, &joining.agent)
            && is_starting(tx, agent)?
        {
            channels::count_start(tx, &channel, kind.limits.starts)?;
        }
        let member = channels::join(tx, (&channel, &kind), &joining, &by)?;
        arrived(tx, &ground, &channel, &member)?;
        Ok(channel.slug)
    });
    let slug = write.await?;
    show::changed(site, caller, slug).await
}

/// Returns whether an agent was made to start.
fn is_starting(tx: &Tx<'_>, agent: &str) -> Result<bool> {
    let found = agent::find(tx.connection(), agent)?;
    Ok(found.is_some_and(|agent| agent.state == State::Starting))
}

/// Adds the caller as a member.
///
/// # Errors
/// As [`add`].
pub(super) async fn join(site: &Site, caller: &Caller, slug: &str) -> Result<ChannelView> {
    let person = caller.may_speak()?.clone();
    let (ground, asking, text) = (Ground::of(site), caller.clone(), slug.to_owned());
    let write = site.store.write(move |tx| {
        let by = Actor::Person(person.id.clone());
        let is_outside = asking.is_outside();
        let channel = match is_outside {
            true => left_by_itself(tx, &by, &text)?,
            false => who::channel(tx.connection(), &asking, &text)?,
        };
        let name = person.name.clone();
        let joining = Joining { member: by.clone(), name, agent: None, is_outside };
        let kind = kind_of(&ground, &channel.kind);
        let member = channels::join(tx, (&channel, &kind), &joining, &by)?;
        arrived(tx, &ground, &channel, &member)?;
        Ok(channel.slug)
    });
    let slug = write.await?;
    show::changed(site, caller, slug).await
}

/// Returns a channel that somebody from outside left by themselves, so that they may rejoin.
/// Any other one is not there for them.
fn left_by_itself(tx: &Tx<'_>, member: &Actor, text: &str) -> Result<Channel> {
    let c = tx.connection();
    let none = || channels::no_channel(text);
    let channel = channels::resolve(c, text).map_err(|_| none())?;
    let row = channels::find_member(c, channel.number, member)?.ok_or_else(none)?;
    match row.has_left() && row.by != *member {
        true => Err(none()),
        false => Ok(channel),
    }
}

/// Refuses agents that add somebody from outside.
///
/// # Errors
/// `forbidden` with code `agent_forbidden`.
pub(super) fn require_inside(joining: &Joining, by: &Actor) -> Result<()> {
    if !joining.is_outside || by.person().is_some() {
        return Ok(());
    }
    let message = format!("{} is from outside: a person adds them", joining.name);
    Err(Error::new(ErrorKind::Forbidden, message).code("agent_forbidden"))
}

/// Takes whoever asks out of a channel.
///
/// # Errors
/// `forbidden`: `not_a_member`; `conflict`: `channel_not_active`.
pub(super) async fn leave(site: &Site, caller: &Caller, slug: &str) -> Result<ChannelView> {
    let (ground, asking, text) = (Ground::of(site), caller.clone(), slug.to_owned());
    let write = site.store.write(move |tx| {
        if let Caller::Job { token_hash, .. } = &asking {
            jobs::fence(tx, token_hash)?;
        }
        who::agent_or_writer(tx.connection(), &asking)?;
        let channel = who::channel(tx.connection(), &asking, &text)?;
        channel.require_open()?;
        let member = who::require_member(tx.connection(), &asking, &channel)?;
        take_out(tx, &ground, (&channel, &member), &asking.actor())?;
        Ok(channel.slug)
    });
    let slug = write.await?;
    show::changed(site, caller, slug).await
}

/// Mutes, unmutes or removes a member: the chair and admins anybody, others themselves.
///
/// # Errors
/// `forbidden`: `not_chair`; `not_found`: `no_member`; `conflict`: `not_changed`,
/// `agent_already_in_channel`.
pub async fn set_member(
    site: &Site,
    caller: &Caller,
    (slug, handle): (&str, &str),
    change: Change,
) -> Result<ChannelView> {
    let (ground, asking) = (Ground::of(site), caller.clone());
    let (text, handle) = (slug.to_owned(), handle.to_owned());
    let write = site.store.write(move |tx| {
        if let Caller::Job { token_hash, .. } = &asking {
            jobs::fence(tx, token_hash)?;
        }
        who::agent_or_writer(tx.connection(), &asking)?;
        let channel = who::channel(tx.connection(), &asking, &text)?;
        channel.require_open()?;
        let member = of_handle(tx, &channel, &handle)?;
        let is_own = who::member(tx.connection(), &asking, &channel)?
            .is_some_and(|own| own.member == member.member);
        if !is_own {
            who::require_chair(tx.connection(), &asking, &channel)?;
        }
        let by = asking.actor();
        match change {
            Change::Remove => take_out(tx, &ground, (&channel, &member), &by)?,
            Change::Mute => {
                channels::set_muted(tx, &channel, &member, true, &by)?;
                if let Some(agent) = &member.agent {
                    mail::drop_in_room(tx, agent, channel.number, "muted")?;
                }
            }
            Change::Unmute => {
                channels::set_muted(tx, &channel, &member, false, &by)?;
                catch_up(tx, &ground, &channel, &member)?;
            }
        }
        Ok(channel.slug)
    });
    let slug = write.await?;
    show::changed(site, caller, slug).await
}

/// Returns a member by handle.
pub(super) fn of_handle(tx: &Tx<'_>, channel: &Channel, handle: &str) -> Result<Member> {
    let bare = handle.trim_start_matches('@');
    let members = channels::members(tx.connection(), channel.number)?;
    let found = members.iter().find(|it| it.handle.eq_ignore_ascii_case(bare) && !it.has_left());
    found.cloned().ok_or_else(|| {
        let here: Vec<&str> =
            members.iter().filter(|it| !it.has_left()).map(|it| it.handle.as_str()).collect();
        Error::not_found(format!("nobody in {} is called {}", channel.slug, bare.escape_debug()))
            .code("no_member")
            .hint(format!("members: {}", here.join(", ")))
    })
}

pub(super) fn take_out(
    tx: &Tx<'_>,
    ground: &Ground,
    (channel, member): (&Channel, &Member),
    by: &Actor,
) -> Result<()> {
    if let Some(agent) = &member.agent {
        mail::drop_in_room(tx, agent, channel.number, "left")?;
    }
    match channels::leave(tx, channel, member, by)? {
        true => say(tx, ground, channel, format!("{} left the channel.", member.handle)),
        false => {
            channels::complete(tx, channel, &Actor::System)?;
            channels::release_all(tx, channel.number)
        }
    }
}

/// Resolves the member that a request names, with the agent for its seat.
pub(super) fn joining(
    tx: &Tx<'_>,
    ground: &Ground,
    request: &MemberRequest,
    by: &Actor,
) -> Result<Joining> {
    match (&request.persona, &request.agent, &request.person) {
        (None, None, Some(name)) => {
            let person = named(tx.connection(), name)?;
            if person.disabled_at.is_some() {
                let message = format!("{} is disabled", person.name);
                return Err(Error::conflict("recipient_ended", message));
            }
            Ok(Joining {
                member: Actor::Person(person.id),
                name: person.name,
                agent: None,
                is_outside: person.is_external,
            })
        }
        (None, Some(name), None) => {
            let found = agent::find(tx.connection(), name)?;
            seat(tx, ground, &found.ok_or_else(|| no_agent(name))?)
        }
        (Some(persona), None, None) => {
            let agents = agent::list(tx.connection())?;
            let is_meant = |it: &&Agent| {
                it.heir.is_none()
                    && (it.persona.as_deref() == Some(persona)
                        || it.declared == *persona
                        || it.name == *persona)
            };
            let mut meant: Vec<&Agent> = agents.iter().filter(is_meant).collect();
            meant.sort_by_key(|it| it.name != *persona);
            let c = tx.connection();
            let mut is_any_free = false;
            for it in &meant {
                if channels::seat_of(c, &it.name)?.is_some() {
                    continue;
                }
                if mail::other_person(c, &it.name, by)?.is_none() {
                    return seat(tx, ground, it);
                }
                is_any_free = true;
            }
            let first = meant.first().ok_or_else(|| no_agent(persona))?;
            if is_any_free {
                // What others told these agents stays private.
                return seat(tx, ground, &fresh(tx, first, &ground.digest)?);
            }
            // The error names the channel in which it has a seat.
            channels::require_free(c, &first.name)?;
            seat(tx, ground, first)
        }
        _ => Err(Error::invalid("name exactly one of `persona`, `agent` and `person`")
            .code("bad_member")
            .of_input("members")),
    }
}

/// Seats an agent; starts it if it is not running.
pub(super) fn seat(tx: &Tx<'_>, ground: &Ground, agent: &Agent) -> Result<Joining> {
    refuse_unheard(ground, agent)?;
    wake_up(tx, agent)?;
    let persona = agent.persona.clone().unwrap_or_else(|| agent.declared.clone());
    Ok(Joining {
        member: Actor::Persona(persona.clone()),
        name: persona,
        agent: Some(agent.name.clone()),
        is_outside: false,
    })
}

/// Refuses an agent without hooks: nobody can tell its final message.
pub(super) fn refuse_unheard(ground: &Ground, agent: &Agent) -> Result<()> {
    if !ground.unheard.contains(&agent.declared) {
        return Ok(());
    }
    let message =
        format!("agent:{} is in a terminal without hooks, so its answers are unknown", agent.name);
    Err(Error::new(ErrorKind::Forbidden, message)
        .code("not_an_agent")
        .hint("use an engine with `hooks`, or of type \"stream\""))
}

/// Starts an agent that is not running.
pub(super) fn wake_up(tx: &Tx<'_>, agent: &Agent) -> Result<()> {
    if agent.wanted == Wanted::Stopped {
        agent::want(tx, agent, Wanted::Running)?;
    }
    match agent.state.is_live() {
        true => Ok(()),
        false => agent::show(tx, agent, State::Starting, ("asked", None), &Actor::System),
    }
}

pub(super) fn no_agent(name: &str) -> Error {
    let shown = crate::base::truncate_chars(name, 80);
    Error::not_found(format!("no agent {}", shown.escape_debug()))
        .code("no_agent")
        .hint("`wb.agent` in the script declares one")
}

/// Announces a new member, and briefs its agent.
fn arrived(tx: &Tx<'_>, ground: &Ground, channel: &Channel, member: &Member) -> Result<()> {
    let kind = kind_of(ground, &channel.kind);
    brief(tx, ground, (channel, &kind), member)?;
    let now = channels::find(tx.connection(), channel.number)?;
    say(tx, ground, &now, format!("{} joined the channel.", member.handle))
}

/// Writes the briefing of a new member's agent; none for a person.
pub(super) fn brief(
    tx: &Tx<'_>,
    ground: &Ground,
    room: (&Channel, &ChannelType),
    member: &Member,
) -> Result<()> {
    brief_with(tx, ground, room, (member, ground.catch_up))
}

/// Writes the briefing with this many of the last messages.
pub(super) fn brief_with(
    tx: &Tx<'_>,
    ground: &Ground,
    (channel, kind): (&Channel, &ChannelType),
    (member, count): (&Member, u32),
) -> Result<()> {
    let Some(agent) = &member.agent else { return Ok(()) };
    let c = tx.connection();
    let members = channels::members(c, channel.number)?;
    let words = channels::primer_words(channel, kind, &members, &member.handle);
    let primer = ground.primer(&words)?;
    let mut last = channels::before(c, channel.number, None, count)?;
    // Waiting messages arrive by themselves.
    let waiting = mail::waiting_in_room(c, agent, channel.number)?;
    last.retain(|it| waiting.iter().all(|row| row.message_id != it.id));
    let last = hear::envelopes(c, channel, &last)?;
    let text = channels::briefing(&primer, &last);
    channels::brief(tx, &ground.ids, channel, agent, text).map(drop)
}

/// Sends an unmuted member what it missed.
fn catch_up(tx: &Tx<'_>, ground: &Ground, channel: &Channel, member: &Member) -> Result<()> {
    let Some(agent) = &member.agent else { return Ok(()) };
    let c = tx.connection();
    let missed = channels::before(c, channel.number, None, MISSED_MAX)?;
    let missed: Vec<_> = missed.into_iter().filter(|it| it.sequence > member.seen_seq).collect();
    if missed.is_empty() {
        return Ok(());
    }
    let text = channels::briefing("", &hear::envelopes(c, channel, &missed)?);
    channels::brief(tx, &ground.ids, channel, agent, text).map(drop)
}

/// Returns the address of a person; none if the name cannot be part of one.
pub(super) fn address_of_person(name: &str) -> Option<Address> {
    crate::base::is_person_name(name).then(|| Address::Person(name.to_owned()))
}
