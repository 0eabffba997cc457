//! How many agents the agents of a channel may start until a person writes again.

use rusqlite::named_params;

use crate::base::{Error, ErrorKind, Result};
use crate::channels::channel::Channel;
use crate::store::Tx;

const COUNT: &str = "
    UPDATE channels SET agent_starts = agent_starts + 1
    WHERE number = :number AND agent_starts < :most";

pub(super) const STATEMENTS: &[(&str, &str)] = &[("channel_starts::count", COUNT)];

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
