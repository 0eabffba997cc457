//! What waits for a person in channels: those that a limit paused, and what was escalated to their
//! chair.

use rusqlite::Connection;

use crate::base::{Actor, PersonId, Result};
use crate::channels::{self, Channel, Pause, Spoken, Status};
use crate::people::{self, Role};

/// Most open channels that are looked at for an admin.
const CHANNELS_MAX: u32 = 200;

/// Returns the channels that a limit paused, for a person who can let them go on: a member, or an
/// admin where no person is a member.
///
/// # Errors
/// As any read.
pub(in crate::flows) fn paused(c: &Connection, person: &PersonId) -> Result<Vec<Channel>> {
    let own = channels::channels_of(c, &Actor::Person(person.clone()))?;
    let mut found = Vec::new();
    for number in own {
        found.push(channels::find(c, number)?);
    }
    if people::find(c, person)?.is_some_and(|it| it.role == Role::Admin) {
        for channel in channels::list(c, Status::Active, None, CHANNELS_MAX)? {
            if is_waiting(&channel) && !has_person(c, &channel)? {
                found.push(channel);
            }
        }
    }
    found.retain(is_waiting);
    Ok(found)
}

/// Returns whether a channel waits for a person who did not pause it.
fn is_waiting(channel: &Channel) -> bool {
    channel.paused.is_some_and(|(why, _)| why != Pause::Person)
}

fn has_person(c: &Connection, channel: &Channel) -> Result<bool> {
    let members = channels::members(c, channel.number)?;
    Ok(members.iter().any(|it| it.is_person() && !it.is_outside && !it.has_left()))
}

/// Returns what was escalated to a person as the chair, until they have read it; the oldest of each
/// channel.
///
/// # Errors
/// As any read.
pub(in crate::flows) fn escalated(
    c: &Connection,
    person: &PersonId,
) -> Result<Vec<(Spoken, Channel)>> {
    let actor = Actor::Person(person.clone());
    let mut found = Vec::new();
    for number in channels::channels_of(c, &actor)? {
        let Some(own) = channels::find_member(c, number, &actor)?.filter(|it| it.is_chair) else {
            continue;
        };
        let first = channels::escalation_after(c, number, own.read_seq)?;
        if let Some(spoken) = first.filter(|it| it.author != actor) {
            found.push((spoken, channels::find(c, number)?));
        }
    }
    Ok(found)
}
