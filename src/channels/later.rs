//! What was taken from the members of channels according to a later database of the same site.

use rusqlite::Connection;

use crate::base::{Actor, Result};
use crate::channels::channel::{self, Channel, Status};
use crate::channels::leave::leave;
use crate::channels::member::{Standing, mute_again, of_channel};
use crate::store::Tx;

/// Returns all channels.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn all(connection: &Connection) -> Result<Vec<Channel>> {
    let mut all = Vec::new();
    for status in Status::ALL {
        all.extend(channel::list(connection, status, None, u32::MAX)?);
    }
    Ok(all)
}

/// What was taken over of channels.
#[derive(Clone, Copy, Debug, Default)]
pub struct Taken {
    /// How many members were removed.
    pub removed: usize,
    /// How many members were muted.
    pub muted: usize,
    /// In how many channels nobody from outside wakes agents any longer.
    pub calmed: usize,
    /// How many channels were paused.
    pub paused: usize,
}

/// Removes the members who were removed since, mutes those who were muted, pauses what was
/// paused, counts what was spent, and no longer lets people from outside wake agents where that was
/// taken back; nothing is granted.
///
/// # Errors
/// As any read or write.
pub fn take_later(tx: &Tx<'_>, later: &Connection, taken: &mut Taken) -> Result<()> {
    let known = all(later)?;
    for then in all(tx.connection())? {
        let Some(newer) = known.iter().find(|it| it.id == then.id) else { continue };
        channel::spent_later(tx, newer)?;
        if then.outside_wakes && !newer.outside_wakes && then.status.is_open() {
            let calm = Channel { outside_wakes: false, ..then.clone() };
            channel::change(tx, &calm, &Actor::System)?;
            taken.calmed += 1;
        }
        if let (None, Some((why, _))) = (then.paused, newer.paused)
            && then.status == Status::Active
        {
            channel::pause(tx, &then, why, &Actor::System)?;
            taken.paused += 1;
        }
        let theirs = of_channel(later, newer.number)?;
        for member in of_channel(tx.connection(), then.number)?.iter().filter(|it| !it.has_left()) {
            let Some(now) = theirs.iter().find(|it| it.member == member.member) else { continue };
            // Whoever was of it until its end was not removed: it goes on.
            if now.has_left() && (now.is_outside || newer.status.is_open()) {
                leave(tx, &then, member, &now.by)?;
                taken.removed += 1;
            } else if member.is_active() && now.standing == Standing::Muted {
                mute_again(tx, &then, member)?;
                taken.muted += 1;
            }
        }
    }
    Ok(())
}
