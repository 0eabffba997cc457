//! Leaving a channel: at once, at the end of a turn, and all together at its end.

use rusqlite::named_params;

use crate::base::{Actor, Error, Result};
use crate::channels::channel::Channel;
use crate::channels::member::{Member, changed, of_channel, set_chair};
use crate::store::Tx;

const LEAVE: &str = "
    UPDATE channel_members SET status = 'left', agent = NULL, is_chair = 0, left_ms = :now,
        is_leaving = 0, changed_ms = :now, by = :by
    WHERE channel = :channel AND member = :member AND status <> 'left'";
const RELEASE: &str = "
    UPDATE channel_members SET status = 'left', agent = NULL, is_chair = 0, left_ms = :now,
        is_leaving = 0, changed_ms = :now
    WHERE channel = :channel AND status <> 'left'
        AND persona_type IN ('agent_internal', 'person_internal')";
const SET_LEAVING: &str = "
    UPDATE channel_members SET is_leaving = 1
    WHERE channel = :channel AND member = :member AND status <> 'left'";

pub(super) const STATEMENTS: &[(&str, &str)] =
    &[("leave::leave", LEAVE), ("leave::release", RELEASE), ("leave::set_leaving", SET_LEAVING)];

/// Removes a member. If it was the chair, the member who has been here longest follows: people
/// before agents, muted ones last, nobody from outside. Returns whether anybody of this site is
/// left.
///
/// # Errors
/// `conflict` with code `not_changed` for one who has left.
pub fn leave(tx: &Tx<'_>, channel: &Channel, member: &Member, by: &Actor) -> Result<bool> {
    let left = tx.prepare_cached(LEAVE)?.execute(named_params! {
        ":channel": channel.number, ":member": member.member, ":now": tx.now(), ":by": by,
    })?;
    if left == 0 {
        return Err(Error::conflict("not_changed", format!("{} has left", member.handle)));
    }
    tx.ring(crate::mail::BELL);
    changed(tx, channel, member, by, "left")?;
    let mut rest = of_channel(tx.connection(), channel.number)?;
    rest.retain(|it| !it.has_left() && !it.is_outside);
    if member.is_chair {
        rest.sort_by_key(|it| (!it.is_active(), !it.is_person()));
        if let Some(heir) = rest.first() {
            set_chair(tx, channel, heir, by)?;
        }
    }
    Ok(!rest.is_empty())
}

/// Releases the members of a channel that has ended, so that their agents are free. Members from
/// outside keep their rows, because only members from outside need one to read.
///
/// # Errors
/// As any write.
pub fn release_all(tx: &Tx<'_>, channel: i64) -> Result<()> {
    let params = named_params! {":channel": channel, ":now": tx.now()};
    tx.prepare_cached(RELEASE)?.execute(params)?;
    tx.ring(crate::mail::BELL);
    Ok(())
}

/// Has a member leave when the turn of its agent has ended, so that its last words are posted.
///
/// # Errors
/// As any write.
pub fn leave_after_turn(tx: &Tx<'_>, channel: i64, member: &Actor) -> Result<()> {
    let params = named_params! {":channel": channel, ":member": member};
    tx.prepare_cached(SET_LEAVING)?.execute(params)?;
    Ok(())
}
