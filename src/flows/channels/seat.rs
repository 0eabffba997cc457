//! Seats: giving a member's seat to another agent, or to a fresh one.

use crate::api::channels::{ChannelView, SeatRequest};
use crate::base::{Actor, Error, Millis, Result, fault};
use crate::channels::{self, Channel, Member};
use crate::flows::Site;
use crate::flows::agents::{AGENT_STATE, start_for_seat};
use crate::flows::channels::life::changing;
use crate::flows::channels::{Ground, briefing, fresh, joining, kind_of, members, say, who};
use crate::mail;
use crate::mail::agent::{self, Agent};
use crate::people::Caller;
use crate::store::Tx;
use crate::turns;

/// Gives the seat of a member to another agent of its persona, or to a fresh one, which is briefed
/// and gets the waiting messages.
///
/// # Errors
/// `forbidden`: `not_a_member`; `not_found`: `no_member`, `no_agent`; `invalid`: `bad_member`;
/// `conflict`: `agent_state` while the agent in the seat works on what was said here,
/// `agent_already_in_channel`, `not_changed`, `channel_not_active`.
pub async fn seat(
    site: &Site,
    caller: &Caller,
    (slug, handle): (&str, &str),
    request: SeatRequest,
) -> Result<ChannelView> {
    let (handle, digest) = (handle.to_owned(), site.config.digest.clone());
    changing(site, caller, slug, move |tx, ground, caller, channel| {
        who::require_part(tx.connection(), caller, channel)?;
        channel.require_open()?;
        let member = members::of_handle(tx, channel, &handle)?;
        let Some(old) = &member.agent else {
            let message = format!("{} is a person and has no seat", member.handle);
            return Err(Error::invalid(message).code("bad_member").of_input("handle"));
        };
        let old = find(tx, old)?;
        require_quiet(tx, channel, &old)?;
        let new = match &request.agent {
            Some(name) => {
                let other = other(tx, &old, name)?;
                joining::require_untold(tx.connection(), ground, &other, &caller.actor())?;
                other
            }
            None => fresh(tx, &old, &digest)?,
        };
        start_for_seat(tx, &new)?;
        take_over(tx, ground, (channel, &member), (&old, &new.name, &caller.actor()), None)?;
        let line = format!("{} has the seat of {} now.", new.name, member.handle);
        say(tx, ground, channel, line)
    })
    .await
}

fn find(tx: &Tx<'_>, name: &str) -> Result<Agent> {
    agent::find(tx.connection(), name)?.ok_or_else(|| joining::no_agent(name))
}

/// Returns another agent of the same declaration.
fn other(tx: &Tx<'_>, old: &Agent, name: &str) -> Result<Agent> {
    let found = find(tx, name)?;
    if found.name == old.name {
        return Err(Error::conflict("not_changed", format!("{name} already has this seat")));
    }
    if found.declared != old.declared || found.heir.is_some() {
        let message = format!("agent:{name} is not an agent of {}", old.declared);
        return Err(Error::invalid(message)
            .code("bad_member")
            .of_input("agent")
            .hint("omit `agent` to start a fresh one"));
    }
    Ok(found)
}

/// Refuses to move a seat while its agent works on messages of the channel.
fn require_quiet(tx: &Tx<'_>, channel: &Channel, old: &Agent) -> Result<()> {
    let c = tx.connection();
    let is_of_room = |room: Option<i64>| room == Some(channel.number);
    let works = turns::running_of(c, &old.name)?.is_some_and(|it| is_of_room(it.channel));
    let holds = mail::open_block(c, &old.name)?.is_some_and(|it| is_of_room(it.room));
    let holds = holds && old.state.is_live();
    if !works && !holds {
        return Ok(());
    }
    let message = format!("agent:{} is working on messages of {}", old.name, channel.slug);
    Err(Error::conflict(AGENT_STATE, message).hint(format!(
        "wait for its answer, or `wiki-browser agent interrupt {0}`, or `agent stop {0}`",
        old.name
    )))
}

/// Gives a seat and its waiting messages to another agent, and briefs it: also of what was said
/// since a moment, if the old one wrote down what it knew then.
///
/// # Errors
/// As any write; `conflict` with code `agent_already_in_channel`.
pub(in crate::flows) fn take_over(
    tx: &Tx<'_>,
    ground: &Ground,
    (channel, member): (&Channel, &Member),
    (old, new, by): (&Agent, &str, &Actor),
    since: Option<Millis>,
) -> Result<()> {
    channels::reseat(tx, channel, member, (new, by))?;
    if !fault::is_off("seat_tx") {
        // A running process answers what it has already received.
        let is_gone = !old.state.is_live();
        mail::take_over_room(tx, (&old.name, new), (channel.number, is_gone))?;
    }
    let kind = kind_of(ground, &channel.kind);
    let seated = Member { agent: Some(new.to_owned()), ..member.clone() };
    briefing::of_successor(tx, ground, (channel, &kind), (&seated, since))
}
