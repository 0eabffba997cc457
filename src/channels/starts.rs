//! How many agents the agents of a channel may start until a person writes again.

use rusqlite::named_params;

use crate::base::{Error, ErrorKind, Result};
use crate::channels::channel::Channel;
use crate::store::Tx;

const COUNT: &str = "
    UPDATE channels SET agent_starts = agent_starts + 1
    WHERE number = :number AND agent_starts < :most";

const INHERIT: &str = "
    UPDATE channels SET agent_starts = MAX(:count,
        COALESCE((SELECT agent_starts FROM channels WHERE number = :from), 0))
    WHERE number = :number";

pub(super) const STATEMENTS: &[(&str, &str)] =
    &[("channel_starts::count", COUNT), ("channel_starts::inherit", INHERIT)];

/// Has a channel that an agent makes continue the count of the channel in which that agent has its
/// seat, or of the agents that it has started without one.
///
/// # Errors
/// As any write.
pub fn inherit_starts(tx: &Tx<'_>, number: i64, from: Option<i64>, count: u32) -> Result<()> {
    let params = named_params! {":number": number, ":from": from, ":count": count};
    tx.prepare_cached(INHERIT)?.execute(params)?;
    Ok(())
}

/// Counts an agent that an agent of the channel starts; a person's message sets the count to 0.
///
/// # Errors
/// `busy` with code `too_many_starts`.
pub fn count_start(tx: &Tx<'_>, channel: &Channel, most: u32) -> Result<()> {
    let params = named_params! {":number": channel.number, ":most": most};
    if tx.prepare_cached(COUNT)?.execute(params)? == 1 {
        return Ok(());
    }
    let message = format!("agents of {} have started {most} agents", channel.slug);
    Err(Error::new(ErrorKind::Busy, message)
        .code("too_many_starts")
        .hint("ask a person to write in the channel, or to add the agent"))
}
