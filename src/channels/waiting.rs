//! What waits for an agent in a channel: its briefing, and a bounded number of messages.
//!
//! **Invariant:** no message displaces a briefing, and at most one of them waits.

use serde_json::Value;

use crate::api::mail::Sort as MailSort;
use crate::base::{Actor, Address, Ids, MailId, Result};
use crate::channels::channel::Channel;
use crate::mail::{self, NewMessage, Waiting};
use crate::store::Tx;

/// Maximum number of waking messages that wait for one agent in one channel, and of others.
const WAITING_MAX: usize = 50;

/// Makes room for one more waiting message. The oldest waking one becomes context; the oldest
/// context is dropped, and the next block tells how much that was.
pub(super) fn make_room(tx: &Tx<'_>, agent: &str, channel: i64, wakes: bool) -> Result<()> {
    // Each answer comes here for each other agent, so what waits is read only when it is too much.
    if mail::count_in_room(tx.connection(), agent, channel)? < WAITING_MAX {
        return Ok(());
    }
    let waiting = mail::waiting_in_room(tx.connection(), agent, channel)?;
    let messages = waiting.iter().filter(|it| !it.is_briefing);
    let (waking, mut context): (Vec<&Waiting>, Vec<&Waiting>) = messages.partition(|it| it.wakes);
    if wakes
        && waking.len() >= WAITING_MAX
        && let Some(oldest) = waking.first()
    {
        mail::calm_waiting(tx, oldest.seq)?;
        context.push(oldest);
        context.sort_by_key(|it| it.seq);
    }
    let most = WAITING_MAX - usize::from(!wakes);
    if context.len() <= most {
        return Ok(());
    }
    match context.first() {
        Some(oldest) => mail::drop_waiting(tx, oldest.seq, "too_many"),
        None => Ok(()),
    }
}

/// Writes an agent's briefing, which precedes its first message. It is not a message of
/// the channel.
///
/// # Errors
/// As any write.
pub fn brief(
    tx: &Tx<'_>,
    ids: &Ids,
    channel: &Channel,
    agent: &str,
    text: String,
) -> Result<MailId> {
    let briefing = NewMessage {
        sort: MailSort::Message,
        sender: Actor::System,
        from: None,
        to: Address::Channel(channel.slug.clone()),
        payload: Value::String(text),
        category: Some("briefing".to_owned()),
        in_reply_to: None,
        reply_to: None,
        depth: 0,
        job_id: None,
        approval_id: None,
    };
    let id = mail::send(tx, ids, &briefing)?;
    // It says all that an older one would have.
    for older in mail::waiting_in_room(tx.connection(), agent, channel.number)? {
        if older.is_briefing {
            mail::drop_waiting(tx, older.seq, "replaced")?;
        }
    }
    mail::deliver_in_room(tx, &id, agent, channel.number, false)?;
    Ok(id)
}
