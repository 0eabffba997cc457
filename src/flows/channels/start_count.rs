//! How many agents an agent may have started.
//!
//! **Invariant:** a channel that an agent makes continues the count of the one it comes from.

use rusqlite::Connection;

use crate::base::{Error, ErrorKind, Millis, Result};
use crate::channels::{self, Channel};
use crate::flows::channels::{Ground, kind_of, who};
use crate::mail::agent::{self, State};
use crate::people::Caller;
use crate::store::Tx;

/// How long starts of an agent without a seat count, in milliseconds.
const WINDOW_MS: i64 = 60 * 60_000;

/// The agent that has others started.
pub(super) struct Starter {
    name: String,
    /// The first of the agents on whose account it was started, or itself.
    account: String,
    /// The channel in which it had its seat when it asked.
    seat: Option<i64>,
}

/// Returns the calling agent as one that may have others started; none for a person.
///
/// # Errors
/// As any read.
pub(super) fn of(c: &Connection, caller: &Caller) -> Result<Option<Starter>> {
    let Caller::Job { id, .. } = caller else { return Ok(None) };
    let Some(agent) = who::agent_of(c, id)? else { return Ok(None) };
    let seat = channels::seat_of(c, &agent.name)?;
    let account = agent.started_by.unwrap_or_else(|| agent.name.clone());
    Ok(Some(Starter { name: agent.name, account, seat }))
}

/// Counts an agent if it has to be started: for the channel of the one that asks, until a person
/// writes there, or, if that has no seat, for an hour.
///
/// # Errors
/// `busy` with code `too_many_starts`.
pub(super) fn count(tx: &Tx<'_>, ground: &Ground, starter: &Starter, started: &str) -> Result<()> {
    let c = tx.connection();
    if agent::find(c, started)?.is_none_or(|agent| agent.state != State::Starting) {
        return Ok(());
    }
    match starter.seat {
        Some(room) => {
            let channel = channels::find(c, room)?;
            let most = kind_of(ground, &channel.kind).limits.starts;
            channels::count_start(tx, &channel, most)?;
        }
        None if within_an_hour(c, starter, tx.now())? >= ground.starts => {
            let message = format!(
                "{} has started {} agents within an hour, and has no seat in a channel",
                starter.name, ground.starts
            );
            return Err(Error::new(ErrorKind::Busy, message)
                .code("too_many_starts")
                .hint("ask a person to create the channel, or to add the agent"));
        }
        None => {}
    }
    agent::started(tx, started, &starter.account)
}

/// Has a new channel continue the count of whoever made it.
///
/// # Errors
/// As any write.
pub(super) fn inherit(tx: &Tx<'_>, starter: &Starter, made: &Channel) -> Result<()> {
    let count = match starter.seat {
        Some(_) => 0,
        None => within_an_hour(tx.connection(), starter, tx.now())?,
    };
    channels::inherit_starts(tx, made.number, starter.seat, count)
}

fn within_an_hour(c: &Connection, starter: &Starter, now: Millis) -> Result<u32> {
    agent::count_started(c, &starter.account, (now.plus(-WINDOW_MS), now))
}
