//! Asking again: what an agent was asked in a turn that came to nothing waits for it once more.

use rusqlite::Connection;

use crate::api::channels::ChannelView;
use crate::base::{Error, Result};
use crate::channels::{self, Channel, Sort, Spoken};
use crate::flows::Site;
use crate::flows::channels::life::changing;
use crate::flows::channels::{say, who};
use crate::mail;
use crate::people::{self, Caller};
use crate::turns::{self, Turn};

/// Has an agent hear once more what it was asked in a turn that came to nothing; `number` is the
/// place of the line that tells of it.
///
/// # Errors
/// `not_found`: `no_message`; `forbidden`: `not_a_member`; `conflict`: `channel_not_active`,
/// `turn_answered`, `already_asked`, and `not_seated` if the agent is no member any more.
pub async fn again(site: &Site, caller: &Caller, slug: &str, number: &str) -> Result<ChannelView> {
    caller.person()?;
    let sequence = self::number(number, slug)?;
    changing(site, caller, slug, move |tx, ground, caller, channel| {
        let c = tx.connection();
        who::require_part(c, caller, channel)?;
        channel.require_open()?;
        let turn = told_of(c, channel, sequence)?;
        if !who::seated(c, channel.number, &turn.agent)?.is_some_and(|it| it.is_active()) {
            return Err(not_seated(&turn.agent, channel));
        }
        let repeated = match &turn.block_id {
            Some(block) => mail::repeat_block(tx, block)?,
            None => 0,
        };
        if repeated == 0 {
            let message = format!("{} was asked again already", turn.agent);
            return Err(Error::conflict("already_asked", message));
        }
        let name = people::display_name(c, &caller.actor())?;
        say(tx, ground, channel, format!("{name} asked {} again.", turn.agent))
    })
    .await
}

/// Returns the number of a message.
///
/// # Errors
/// `not_found` with code `no_message` for what is no number.
pub(super) fn number(text: &str, slug: &str) -> Result<i64> {
    text.parse().map_err(|_| no_message(text, slug))
}

/// Returns the refusal of a number that no message has.
pub(super) fn no_message(number: &str, slug: &str) -> Error {
    let number = number.escape_debug();
    Error::not_found(format!("there is no message {number} in {slug}")).code("no_message")
}

/// Returns the refusal to send something to an agent that does not listen in a channel.
pub(super) fn not_seated(agent: &str, channel: &Channel) -> Error {
    let message = format!("{} does not listen in {}", agent.escape_debug(), channel.slug);
    Error::conflict("not_seated", message).hint("add or unmute it, then say it again")
}

/// Returns a message of a channel.
///
/// # Errors
/// `not_found` with code `no_message`.
pub(super) fn find(c: &Connection, channel: &Channel, sequence: i64) -> Result<Spoken> {
    let found = channels::after(c, channel.number, sequence.saturating_sub(1), 1)?.pop();
    found
        .filter(|it| it.sequence == sequence)
        .ok_or_else(|| no_message(&sequence.to_string(), &channel.slug))
}

/// Returns the turn that came to nothing of which a line tells.
fn told_of(c: &Connection, channel: &Channel, sequence: i64) -> Result<Turn> {
    let spoken = find(c, channel, sequence)?;
    match turn_of(c, &spoken)? {
        Some(turn) => Ok(turn),
        None => {
            let message = format!("message {sequence} tells of no turn that came to nothing");
            Err(Error::conflict("turn_answered", message)
                .hint("say it again: `wiki-browser msg send`"))
        }
    }
}

fn turn_of(c: &Connection, spoken: &Spoken) -> Result<Option<Turn>> {
    match (&spoken.turn_id, spoken.sort) {
        (Some(id), Sort::System) => Ok(Some(turns::find(c, id)?).filter(Turn::came_to_nothing)),
        _ => Ok(None),
    }
}

/// Returns whether a line tells of a turn whose question can be asked again.
///
/// # Errors
/// As any read.
pub(super) fn is_open(c: &Connection, spoken: &Spoken) -> Result<bool> {
    match turn_of(c, spoken)?.and_then(|it| it.block_id) {
        Some(block) => Ok(!mail::is_repeated(c, &block)?),
        None => Ok(false),
    }
}
