//! What an agent is told of its channel: when it takes a seat, and when it has lost what it knew.
//!
//! **Invariant:** a briefing leaves room in its block for the message that wakes its agent.

use crate::base::{Millis, Result, fault};
use crate::channels::{self, BLOCK_BYTES_MAX, Channel, ChannelType, Member, Spoken};
use crate::flows::channels::hear::{self, TYPED_BYTES_MAX};
use crate::flows::channels::{Ground, kind_of, who};
use crate::mail;
use crate::mail::agent;
use crate::store::Tx;

/// Most messages that were missed that a member is told when it hears again.
const MISSED_MAX: u32 = 50;
/// Most messages that a successor is told.
const SINCE_MAX: u32 = 100;

/// Writes the briefing of a new member's agent; none for a person.
///
/// # Errors
/// As any write.
pub(super) fn of_member(
    tx: &Tx<'_>,
    ground: &Ground,
    room: (&Channel, &ChannelType),
    member: &Member,
) -> Result<()> {
    // The switch's: it is left for later.
    if fault::is_off("briefing_tx") {
        return Ok(());
    }
    with_last(tx, ground, room, (member, ground.catch_up))
}

/// Writes the briefing with this many of the last messages.
///
/// # Errors
/// As any write.
pub(super) fn with_last(
    tx: &Tx<'_>,
    ground: &Ground,
    room: (&Channel, &ChannelType),
    (member, count): (&Member, u32),
) -> Result<()> {
    let last = channels::before(tx.connection(), room.0.number, None, count)?;
    write(tx, ground, room, (member, last))
}

/// Writes the briefing of an agent that goes on for another one: all that was said since the other
/// began to write down what it knew, and at least the last messages.
///
/// # Errors
/// As any write.
pub(super) fn of_successor(
    tx: &Tx<'_>,
    ground: &Ground,
    room: (&Channel, &ChannelType),
    (member, since): (&Member, Option<Millis>),
) -> Result<()> {
    let mut last = channels::before(tx.connection(), room.0.number, None, SINCE_MAX)?;
    let at_least = last.len().saturating_sub(ground.catch_up as usize);
    let is_since = |it: &Spoken| since.is_some_and(|since| it.created_at >= since);
    let first = last.iter().position(is_since).unwrap_or(at_least).min(at_least);
    write(tx, ground, room, (member, last.split_off(first)))
}

/// Sends an unmuted member what it missed.
///
/// # Errors
/// As any write.
pub(super) fn of_missed(
    tx: &Tx<'_>,
    ground: &Ground,
    channel: &Channel,
    member: &Member,
) -> Result<()> {
    let (c, Some(agent)) = (tx.connection(), &member.agent) else { return Ok(()) };
    let mut missed = channels::before(c, channel.number, None, MISSED_MAX)?;
    // Its first briefing was dropped when it was muted, if it had not heard it yet.
    let is_new = !mail::is_briefed(c, agent, channel.number)?;
    let known = match is_new {
        true => member.joined_seq - i64::from(ground.catch_up),
        false => member.seen_seq,
    };
    missed.retain(|it| it.sequence > known);
    if missed.is_empty() && !is_new {
        return Ok(());
    }
    write(tx, ground, (channel, &kind_of(ground, &channel.kind)), (member, missed))
}

/// Briefs an agent again that has lost what it was told: it goes on without its session, or its
/// engine has made room. Nothing for one without a seat, or that is still to be briefed.
///
/// # Errors
/// As any write.
pub(in crate::flows) fn again(
    tx: &Tx<'_>,
    ground: &Ground,
    agent: &str,
    knows_messages: bool,
) -> Result<()> {
    let c = tx.connection();
    let Some(room) = channels::seat_of(c, agent)? else { return Ok(()) };
    let is_briefed = mail::waiting_in_room(c, agent, room)?.iter().any(|it| it.is_briefing);
    let channel = channels::find(c, room)?;
    let Some(member) = who::seated(c, room, agent)? else { return Ok(()) };
    if is_briefed || !channel.status.is_open() {
        return Ok(());
    }
    let count = if knows_messages { 0 } else { ground.catch_up };
    let last = channels::before(c, room, Some(member.seen_seq + 1), count)?;
    write(tx, ground, (&channel, &kind_of(ground, &channel.kind)), (&member, last))
}

fn write(
    tx: &Tx<'_>,
    ground: &Ground,
    (channel, kind): (&Channel, &ChannelType),
    (member, mut last): (&Member, Vec<Spoken>),
) -> Result<()> {
    let Some(agent) = &member.agent else { return Ok(()) };
    let c = tx.connection();
    let members = channels::members(c, channel.number)?;
    let words = channels::primer_words(channel, kind, &members, &member.handle);
    let primer = ground.primer(&words)?;
    // Waiting messages arrive by themselves.
    let waiting = mail::waiting_in_room(c, agent, channel.number)?;
    last.retain(|it| waiting.iter().all(|row| row.message_id != it.id));
    let last = hear::envelopes(c, channel, &last)?;
    let declared = agent::find(c, agent)?.map(|it| it.declared);
    let block = match declared.is_some_and(|it| ground.in_terminals.contains(&it)) {
        true => TYPED_BYTES_MAX,
        false => BLOCK_BYTES_MAX,
    };
    let text = channels::briefing(&primer, &last, channels::briefing_max(block));
    channels::brief(tx, &ground.ids, channel, agent, text).map(drop)
}
