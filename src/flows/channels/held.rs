//! Answers that are kept back: what an agent said in its terminal after somebody may have typed
//! there, too, is posted by a person who has read it, or stays out of the channel.

use rusqlite::Connection;

use crate::api::channels::{ChannelView, HeldAnswer, HeldDecision};
use crate::base::{Actor, Error, PersonId, Result};
use crate::channels::{self, Channel, NewPost, Sort};
use crate::flows::Site;
use crate::flows::channels::life::changing;
use crate::flows::channels::{Ground, answers, kind_of, who};
use crate::people::{self, Caller, Role};
use crate::store::Tx;
use crate::turns::{self, Held, Turn};

/// Keeps the answer of a turn back, and says so in the channel.
///
/// # Errors
/// As any write.
pub(super) fn hold(tx: &Tx<'_>, ground: &Ground, (channel, turn): (&Channel, &Turn)) -> Result<()> {
    let text = format!(
        "{}'s answer is held: somebody may have typed in its terminal meanwhile.",
        turn.agent
    );
    let line = NewPost { turn: Some(turn.id.clone()), ..NewPost::system(text) };
    let kind = kind_of(ground, &channel.kind);
    let line = channels::post(tx, &ground.ids, (channel.number, &kind), &line)?;
    turns::hold(tx, turn, line.sequence, Some(channel.id.as_str())).map(drop)
}

/// Returns an answer that is kept back, or was; `number` is the place of the line that tells of it.
///
/// # Errors
/// `not_found`: `no_message`, `not_held`; `forbidden`: `not_a_member`.
pub async fn held(site: &Site, caller: &Caller, slug: &str, number: &str) -> Result<HeldAnswer> {
    caller.may_read()?;
    caller.person()?;
    let sequence = sequence_of(number, slug)?;
    let (caller, text) = (caller.clone(), slug.to_owned());
    let read = move |c: &Connection| {
        let channel = who::channel(c, &caller, &text)?;
        who::require_part(c, &caller, &channel)?;
        let turn = told_of(c, &channel, sequence)?;
        let by = turn.held_by.clone().map(|it| people::display_name(c, &Actor::Person(it)));
        let cause = match &turn.cause_message {
            Some(id) => channels::find_message(c, id)?.map(|it| it.sequence),
            None => None,
        };
        Ok(HeldAnswer {
            sequence,
            text: turns::answer_of(c, &turn.id)?,
            state: turn.held.map(|it| it.as_str().to_owned()).unwrap_or_default(),
            decided_by: by.transpose()?,
            answers: cause,
            agent: turn.agent,
            turn_id: turn.id,
        })
    };
    site.store.read(read).await
}

/// Posts an answer that is kept back, or keeps it out of the channel for good.
///
/// # Errors
/// As [`held`]; `conflict`: `already_decided`, `channel_not_active`, and `not_seated` if its agent
/// is no member any more.
pub async fn decide(
    site: &Site,
    caller: &Caller,
    (slug, number): (&str, &str),
    decision: HeldDecision,
) -> Result<ChannelView> {
    let by = caller.person()?.id.clone();
    let sequence = sequence_of(number, slug)?;
    changing(site, caller, slug, move |tx, ground, caller, channel| {
        who::require_part(tx.connection(), caller, channel)?;
        let turn = told_of(tx.connection(), channel, sequence)?;
        settle(tx, ground, (channel, &turn), (decision, &by))
    })
    .await
}

/// Writes what a person decided of an answer that is kept back.
pub(super) fn settle(
    tx: &Tx<'_>,
    ground: &Ground,
    (channel, turn): (&Channel, &Turn),
    (decision, by): (HeldDecision, &PersonId),
) -> Result<()> {
    let (c, tag) = (tx.connection(), Some(channel.id.as_str()));
    if decision == HeldDecision::Private {
        return turns::decide(tx, (turn, tag), (Held::Private, by));
    }
    channel.require_open()?;
    turns::decide(tx, (turn, tag), (Held::Posted, by))?;
    if who::seated_or_followed(c, channel.number, &turn.agent)?.is_none() {
        let message = format!("{} is no member of {} any more", turn.agent, channel.slug);
        return Err(Error::conflict("not_seated", message).hint("it can be kept private"));
    }
    let text = turns::answer_of(c, &turn.id)?;
    answers::answer(tx, ground, (channel, &turn.agent), (turn, &text, false))
}

fn sequence_of(number: &str, slug: &str) -> Result<i64> {
    number.parse().map_err(|_| no_message(number, slug))
}

fn no_message(number: &str, slug: &str) -> Error {
    let number = number.escape_debug();
    Error::not_found(format!("there is no message {number} in {slug}")).code("no_message")
}

/// Returns the turn of whose answer a line tells that it is kept back.
fn told_of(c: &Connection, channel: &Channel, sequence: i64) -> Result<Turn> {
    let found = channels::after(c, channel.number, sequence.saturating_sub(1), 1)?.pop();
    let spoken = found
        .filter(|it| it.sequence == sequence)
        .ok_or_else(|| no_message(&sequence.to_string(), &channel.slug))?;
    let turn = match (&spoken.turn_id, spoken.sort) {
        (Some(id), Sort::System) => Some(turns::find(c, id)?).filter(|it| it.held.is_some()),
        _ => None,
    };
    turn.ok_or_else(|| {
        let message = format!("message {sequence} tells of no answer that is held");
        Error::not_found(message).code("not_held")
    })
}

/// Returns the answers that wait for a person, the oldest first, each with its channel.
///
/// # Errors
/// As any read.
pub(in crate::flows) fn waiting(
    c: &Connection,
    person: &PersonId,
    limit: u32,
) -> Result<Vec<(Turn, Channel)>> {
    let is_admin = people::find(c, person)?.is_some_and(|it| it.role == Role::Admin);
    let own = channels::channels_of(c, &Actor::Person(person.clone()))?;
    let mut found = Vec::new();
    for turn in turns::waiting(c, limit)? {
        let Some(number) = turn.channel else { continue };
        let channel = channels::find(c, number)?;
        if channel.status.is_open() && (is_admin || own.contains(&number)) {
            found.push((turn, channel));
        }
    }
    Ok(found)
}
