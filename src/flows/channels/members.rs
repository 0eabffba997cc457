//! Joining and leaving, muting and removing.

use crate::api::channels::{ChannelView, MemberRequest};
use crate::base::{Actor, Address, Error, ErrorKind, Result};
use crate::channels::{self, Channel, Joining, Member};
use crate::flows::Site;
use crate::flows::channels::{Ground, briefing, joining, kind_of, say, show, start_count, who};
use crate::jobs;
use crate::mail;
use crate::people::Caller;
use crate::store::Tx;
use crate::turns;

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
        let starter = start_count::of(tx.connection(), &asking)?;
        let channel = who::channel(tx.connection(), &asking, &text)?;
        who::require_part(tx.connection(), &asking, &channel)?;
        let joining = joining::joining(tx, &ground, &request, &by)?;
        require_inside(&joining, &by)?;
        let kind = kind_of(&ground, &channel.kind);
        if let (Some(starter), Some(agent)) = (&starter, &joining.agent) {
            start_count::count(tx, &ground, starter, agent)?;
        }
        let member = channels::join(tx, (&channel, &kind), &joining, &by)?;
        arrived(tx, &ground, &channel, &member)?;
        Ok(channel.slug)
    });
    let slug = write.await?;
    show::changed(site, caller, slug).await
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
        go(tx, &ground, (&channel, &member), &asking)?;
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
        let own = who::member(tx.connection(), &asking, &channel)?;
        let is_own = own.as_ref().is_some_and(|own| own.member == member.member);
        if !is_own {
            who::require_chair(tx.connection(), &asking, &channel)?;
        }
        let by = asking.actor();
        match change {
            Change::Remove if is_own => go(tx, &ground, (&channel, &member), &asking)?,
            Change::Remove => {
                // An admin may have no seat here.
                let name = asking.person().map(|it| it.display_name.clone()).ok();
                let name =
                    own.map(|it| it.handle).or(name).unwrap_or_else(|| "the chair".to_owned());
                take_out(tx, &ground, (&channel, &member), (&by, Some(&name)))?;
            }
            Change::Mute => {
                channels::set_muted(tx, &channel, &member, true, &by)?;
                if let Some(agent) = &member.agent {
                    mail::drop_in_room(tx, agent, channel.number, "muted")?;
                }
            }
            Change::Unmute => {
                channels::set_muted(tx, &channel, &member, false, &by)?;
                briefing::of_missed(tx, &ground, &channel, &member)?;
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

/// Takes out who asks for it; an agent when its turn has ended, so that its last words are posted.
fn go(
    tx: &Tx<'_>,
    ground: &Ground,
    (channel, member): (&Channel, &Member),
    caller: &Caller,
) -> Result<()> {
    let running = match (caller.is_job(), &member.agent) {
        (true, Some(agent)) => turns::running_of(tx.connection(), agent)?,
        _ => None,
    };
    match running.is_some_and(|it| it.channel == Some(channel.number)) {
        true => channels::leave_after_turn(tx, channel.number, &member.member),
        false => take_out(tx, ground, (channel, member), (&caller.actor(), None)),
    }
}

/// Takes a member out, and says in the channel who has done it; without a name, it left by itself.
pub(super) fn take_out(
    tx: &Tx<'_>,
    ground: &Ground,
    (channel, member): (&Channel, &Member),
    (by, name): (&Actor, Option<&str>),
) -> Result<()> {
    if let Some(agent) = &member.agent {
        mail::drop_in_room(tx, agent, channel.number, "left")?;
    }
    match channels::leave(tx, channel, member, by)? {
        true => {
            let members = channels::members(tx.connection(), channel.number)?;
            let heir = members.iter().find(|it| member.is_chair && it.is_chair);
            let chair = heir.map(|it| format!(" {} is the chair now.", it.handle));
            let went = match name {
                Some(name) => format!("{name} removed {} from the channel.", member.handle),
                None => format!("{} left the channel.", member.handle),
            };
            say(tx, ground, channel, went + &chair.unwrap_or_default())
        }
        false => {
            channels::complete(tx, channel, &Actor::System)?;
            channels::release_all(tx, channel.number)
        }
    }
}

/// Announces a new member, and briefs its agent.
fn arrived(tx: &Tx<'_>, ground: &Ground, channel: &Channel, member: &Member) -> Result<()> {
    let kind = kind_of(ground, &channel.kind);
    briefing::of_member(tx, ground, (channel, &kind), member)?;
    let now = channels::find(tx.connection(), channel.number)?;
    let line = match &member.agent {
        Some(agent) if *agent != member.handle => {
            format!("{} joined the channel, with {agent} in its seat.", member.handle)
        }
        _ => format!("{} joined the channel.", member.handle),
    };
    say(tx, ground, &now, line)
}

/// Returns the address of a person; none if the name cannot be part of one.
pub(super) fn address_of_person(name: &str) -> Option<Address> {
    crate::base::is_person_name(name).then(|| Address::Person(name.to_owned()))
}
