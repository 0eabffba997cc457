//! Deliveries to agents without proof of arrival, about which a person decides.
//!
//! **Invariant:** a repeated delivery has its own row, which names the original.

use rusqlite::{Connection, OptionalExtension as _, named_params};
use serde_json::json;

use crate::base::{Actor, BlockId, EventKind, MailId, Result, Scope};
use crate::mail::message;
use crate::store::Tx;

const OPEN: &str = "
    SELECT seq, to_name, wakes FROM deliveries
    WHERE message_id = :message AND to_class = 'agent' AND room IS NULL AND state = 'unconfirmed'";
const AGAIN: &str = "
    INSERT INTO deliveries (message_id, to_class, to_name, state, wakes, repeats)
    VALUES (:message, 'agent', :agent, 'queued', :wakes, :repeats)";
const GIVE_UP: &str = "
    UPDATE deliveries SET state = 'dropped', reason = 'resent'
    WHERE message_id = :message AND to_class = 'agent' AND room IS NULL AND state = 'unconfirmed'";
const SETTLE: &str = "
    UPDATE deliveries SET state = 'confirmed', proof = 'person', reason = NULL
    WHERE message_id = :message AND to_class = 'agent' AND room IS NULL AND state = 'unconfirmed'";
const BLOCK_OF: &str = "
    SELECT block_id FROM deliveries
    WHERE message_id = :message AND to_class = 'agent' AND to_name = :agent AND room = :room
        AND state = 'unconfirmed' AND block_id IS NOT NULL
    ORDER BY seq DESC LIMIT 1";
const OF_BLOCK: &str = "
    SELECT seq, message_id, to_name, wakes, room FROM deliveries
    WHERE block_id = :block AND state = 'unconfirmed' ORDER BY seq";
const AGAIN_IN_ROOM: &str = "
    INSERT INTO deliveries (message_id, to_class, to_name, state, wakes, room, repeats)
    VALUES (:message, 'agent', :agent, 'queued', :wakes, :room, :repeats)";
const GIVE_UP_BLOCK: &str = "
    UPDATE deliveries SET state = 'dropped', reason = 'resent'
    WHERE block_id = :block AND state = 'unconfirmed'";
const SETTLE_BLOCK: &str = "
    UPDATE deliveries SET state = 'confirmed', proof = 'person', reason = NULL
    WHERE block_id = :block AND state = 'unconfirmed'";
/// What became unconfirmed since something was last known to have arrived. Introductions are left
/// out: an agent is introduced by its own rules.
const IN_ROOM: &str = "
    SELECT message_id FROM deliveries INDEXED BY deliveries_of_room
    WHERE room = :room AND to_name = :agent AND state = 'unconfirmed'
        AND seq > COALESCE((SELECT given.seq FROM deliveries AS given INDEXED BY deliveries_of_room
            WHERE given.room = :room AND given.to_name = :agent
                AND given.state IN ('claimed', 'sent', 'confirmed')
            ORDER BY given.seq DESC LIMIT 1), 0)
        AND EXISTS (SELECT 1 FROM messages WHERE id = message_id AND category IS NOT 'briefing')
    ORDER BY seq DESC LIMIT :limit";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("unconfirmed::open", OPEN),
    ("unconfirmed::again", AGAIN),
    ("unconfirmed::give_up", GIVE_UP),
    ("unconfirmed::settle", SETTLE),
    ("unconfirmed::block_of", BLOCK_OF),
    ("unconfirmed::of_block", OF_BLOCK),
    ("unconfirmed::again_in_room", AGAIN_IN_ROOM),
    ("unconfirmed::give_up_block", GIVE_UP_BLOCK),
    ("unconfirmed::settle_block", SETTLE_BLOCK),
    ("unconfirmed::in_room", IN_ROOM),
];

/// Queues unconfirmed deliveries of a message once more, each for whoever gets now what is sent to
/// its agent; returns whether there were any.
///
/// # Errors
/// As `now`; fails if the database cannot be written.
pub fn resend(
    tx: &Tx<'_>,
    message: &MailId,
    by: &Actor,
    now: &dyn Fn(&str) -> Result<String>,
) -> Result<bool> {
    let params = named_params! {":message": message};
    let c = tx.connection();
    let mut open = c.prepare_cached(OPEN)?;
    let rows = open.query_map(params, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let rows = rows.collect::<rusqlite::Result<Vec<(i64, String, bool)>>>()?;
    if rows.is_empty() {
        return Ok(false);
    }
    for (seq, agent, wakes) in &rows {
        tx.prepare_cached(AGAIN)?.execute(named_params! {
            ":message": message, ":agent": now(agent)?, ":wakes": wakes, ":repeats": seq,
        })?;
    }
    tx.prepare_cached(GIVE_UP)?.execute(params)?;
    tx.ring(super::BELL);
    tell(tx, message, by, "queued").map(|()| true)
}

/// Confirms unconfirmed deliveries at a person's word; returns whether there were any.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn settle(tx: &Tx<'_>, message: &MailId, by: &Actor) -> Result<bool> {
    match tx.prepare_cached(SETTLE)?.execute(named_params! {":message": message})? {
        0 => Ok(false),
        _ => tell(tx, message, by, "confirmed").map(|()| true),
    }
}

/// Returns the block with which an agent was given a message of a room, if nobody knows whether it
/// arrived.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn unconfirmed_block(
    connection: &Connection,
    message: &MailId,
    (agent, room): (&str, i64),
) -> Result<Option<BlockId>> {
    let mut statement = connection.prepare_cached(BLOCK_OF)?;
    let params = named_params! {":message": message, ":agent": agent, ":room": room};
    Ok(statement.query_row(params, |row| row.get(0)).optional()?)
}

/// Queues the unconfirmed deliveries of a block once more.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn resend_block(tx: &Tx<'_>, block: &BlockId, by: &Actor) -> Result<()> {
    let messages = super::messages_of(tx.connection(), block)?;
    let params = named_params! {":block": block};
    let c = tx.connection();
    let mut open = c.prepare_cached(OF_BLOCK)?;
    let rows = open.query_map(params, |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
    })?;
    let rows = rows.collect::<rusqlite::Result<Vec<(i64, MailId, String, bool, i64)>>>()?;
    for (seq, message, agent, wakes, room) in &rows {
        tx.prepare_cached(AGAIN_IN_ROOM)?.execute(named_params! {
            ":message": message, ":agent": agent, ":wakes": wakes, ":room": room, ":repeats": seq,
        })?;
    }
    tx.prepare_cached(GIVE_UP_BLOCK)?.execute(params)?;
    tx.ring(super::BELL);
    messages.first().map_or(Ok(()), |it| tell(tx, it, by, "queued"))
}

/// Confirms the unconfirmed deliveries of a block at a person's word.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn settle_block(tx: &Tx<'_>, block: &BlockId, by: &Actor) -> Result<()> {
    let messages = super::messages_of(tx.connection(), block)?;
    tx.prepare_cached(SETTLE_BLOCK)?.execute(named_params! {":block": block})?;
    messages.first().map_or(Ok(()), |it| tell(tx, it, by, "confirmed"))
}

/// Returns the last messages of a room that an agent may not have received, in order; none once
/// something later has arrived.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn unconfirmed_in_room(
    connection: &Connection,
    (agent, room): (&str, i64),
    limit: u32,
) -> Result<Vec<MailId>> {
    let mut statement = connection.prepare_cached(IN_ROOM)?;
    let params = named_params! {":agent": agent, ":room": room, ":limit": limit};
    let mut found: Vec<MailId> =
        statement.query_map(params, |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    found.reverse();
    Ok(found)
}

fn tell(tx: &Tx<'_>, id: &MailId, by: &Actor, state: &str) -> Result<()> {
    message::tell(tx, EventKind::DeliveryChanged, id, by, Scope::Site, json!({"state": state}))
}
