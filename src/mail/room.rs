//! Deliveries in rooms: one row per agent in a room. What a room is, is not known here.

use rusqlite::{Connection, OptionalExtension as _, Row, named_params};

use crate::base::{BlockId, MailId, Result};
use crate::store::Tx;

const INSERT: &str = "
    INSERT INTO deliveries (message_id, to_class, to_name, state, wakes, room)
    VALUES (:message, 'agent', :agent, 'queued', :wakes, :room)";
const WAITING: &str = "
    SELECT seq, message_id, wakes,
        (SELECT category IS 'briefing' FROM messages WHERE id = message_id) AS is_briefing
    FROM deliveries INDEXED BY deliveries_queued
    WHERE to_class = 'agent' AND to_name = :agent AND state = 'queued' AND room = :room
    ORDER BY seq";
const COUNT: &str = "
    SELECT COUNT(*) FROM deliveries INDEXED BY deliveries_queued
    WHERE to_class = 'agent' AND to_name = :agent AND state = 'queued' AND room = :room";
const CALM: &str = "UPDATE deliveries SET wakes = 0 WHERE seq = :seq AND state = 'queued'";
/// Counts what was dropped since the last delivery that was given.
const LEFT_OUT: &str = "
    SELECT COUNT(*) FROM deliveries INDEXED BY deliveries_of_room
    WHERE room = :room AND to_name = :agent AND state = 'dropped' AND reason = 'too_many'
        AND seq > COALESCE((SELECT given.seq FROM deliveries AS given INDEXED BY deliveries_of_room
            WHERE given.room = :room AND given.to_name = :agent
                AND given.state IN ('claimed', 'sent', 'confirmed', 'unconfirmed')
            ORDER BY given.seq DESC LIMIT 1), 0)";
const DROP: &str = "
    UPDATE deliveries SET state = 'dropped', reason = :reason, ended_ms = :now
    WHERE seq = :seq AND state = 'queued'";
const DROP_OF_AGENT: &str = "
    UPDATE deliveries INDEXED BY deliveries_queued
    SET state = 'dropped', reason = :reason, ended_ms = :now
    WHERE to_class = 'agent' AND to_name = :agent AND state = 'queued' AND room = :room";
/// Takes what is queued, and what was sent to a process that died before beginning with it.
const TAKE: &str = "
    UPDATE OR IGNORE deliveries SET to_name = :to, state = 'queued', block_id = NULL,
        job_id = NULL, is_head = 1, claimed_ms = NULL, sent_ms = NULL
    WHERE to_class = 'agent' AND to_name = :from AND room = :room
        AND (state = 'queued' OR (:is_gone AND state IN ('claimed', 'sent')
            AND EXISTS (SELECT 1 FROM blocks
                WHERE agent = :from AND id = block_id AND begun_ms IS NULL)))
        AND EXISTS (SELECT 1 FROM messages
            WHERE id = message_id AND category IS NOT 'briefing'
                AND NOT (from_class IS 'agent' AND from_name IS :to))";
const LEFT_BEHIND: &str = "
    UPDATE deliveries SET state = 'dropped', reason = 'reseated', ended_ms = :now
    WHERE to_class = 'agent' AND to_name = :from AND room = :room
        AND (state = 'queued' OR (:is_gone AND state IN ('claimed', 'sent')))";
const IS_BRIEFED: &str = "
    SELECT EXISTS (SELECT 1 FROM deliveries INDEXED BY deliveries_of_room
        JOIN messages ON messages.id = deliveries.message_id
        WHERE room = :room AND deliveries.to_name = :agent AND category = 'briefing'
            AND state IN ('claimed', 'sent', 'confirmed', 'unconfirmed'))";
const WAKING_OF_BLOCK: &str = "
    SELECT message_id FROM deliveries WHERE block_id = :block AND wakes = 1
    ORDER BY seq DESC LIMIT 1";
/// A delivery that was given again has a row that repeats it.
const GIVEN: &str = "
    SELECT seq, message_id, to_name, room FROM deliveries AS given
    WHERE block_id = :block AND wakes = 1 AND room IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM deliveries AS again
        WHERE again.message_id = given.message_id AND again.repeats = given.seq)";
const REPEAT: &str = "
    INSERT INTO deliveries (message_id, to_class, to_name, state, wakes, room, repeats)
    VALUES (:message, 'agent', :agent, 'queued', 1, :room, :repeats)";
const IS_REPEATED: &str = "
    SELECT EXISTS (SELECT 1 FROM deliveries AS given
        JOIN deliveries AS again
            ON again.message_id = given.message_id AND again.repeats = given.seq
        WHERE given.block_id = :block)";
const HEARD: &str = "
    SELECT to_name, state, wakes, reason FROM deliveries
    WHERE message_id = :message AND room IS NOT NULL
    ORDER BY seq";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("room::insert", INSERT),
    ("room::waiting", WAITING),
    ("room::count", COUNT),
    ("room::calm", CALM),
    ("room::left_out", LEFT_OUT),
    ("room::drop", DROP),
    ("room::drop_of_agent", DROP_OF_AGENT),
    ("room::take", TAKE),
    ("room::left_behind", LEFT_BEHIND),
    ("room::is_briefed", IS_BRIEFED),
    ("room::waking_of_block", WAKING_OF_BLOCK),
    ("room::given", GIVEN),
    ("room::repeat", REPEAT),
    ("room::is_repeated", IS_REPEATED),
    ("room::heard", HEARD),
];

/// A delivery in a room, queued for its agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Its sequence number, in order of acceptance.
    pub seq: i64,
    /// The message.
    pub message_id: MailId,
    /// Whether it starts a turn; otherwise it is included in the next turn.
    pub wakes: bool,
    /// Whether it introduces its agent to the room.
    pub is_briefing: bool,
}

/// The delivery of a message in a room to one agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// The agent.
    pub agent: String,
    /// `queued claimed sent confirmed unconfirmed expired dropped`.
    pub state: String,
    /// Whether it was to start a turn.
    pub wakes: bool,
    /// Why it did not arrive.
    pub reason: Option<String>,
}

/// Queues a message in a room for an agent.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn deliver_in_room(
    tx: &Tx<'_>,
    message: &MailId,
    agent: &str,
    room: i64,
    wakes: bool,
) -> Result<()> {
    let params = named_params! {
        ":message": message, ":agent": agent, ":room": room, ":wakes": wakes,
    };
    tx.prepare_cached(INSERT)?.execute(params)?;
    tx.ring(super::BELL);
    Ok(())
}

/// Returns what is queued for an agent in a room, oldest first.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn waiting_in_room(connection: &Connection, agent: &str, room: i64) -> Result<Vec<Waiting>> {
    let mut statement = connection.prepare_cached(WAITING)?;
    let params = named_params! {":agent": agent, ":room": room};
    let found = statement.query_map(params, |row: &Row<'_>| {
        Ok(Waiting {
            seq: row.get("seq")?,
            message_id: row.get("message_id")?,
            wakes: row.get("wakes")?,
            is_briefing: row.get("is_briefing")?,
        })
    })?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

/// Returns how many messages are queued for an agent in a room.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn count_in_room(connection: &Connection, agent: &str, room: i64) -> Result<usize> {
    let mut statement = connection.prepare_cached(COUNT)?;
    let params = named_params! {":agent": agent, ":room": room};
    let count: u32 = statement.query_row(params, |row| row.get(0))?;
    Ok(count as usize)
}

/// Makes a queued delivery one that waits for the next turn and starts none.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn calm_waiting(tx: &Tx<'_>, seq: i64) -> Result<()> {
    tx.prepare_cached(CALM)?.execute(named_params! {":seq": seq})?;
    Ok(())
}

/// Returns how many messages were dropped because too many waited for an agent in a room, since it
/// was last given something there.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn left_out_in_room(c: &Connection, agent: &str, room: i64) -> Result<usize> {
    let params = named_params! {":agent": agent, ":room": room};
    let count: u32 = c.prepare_cached(LEFT_OUT)?.query_row(params, |row| row.get(0))?;
    Ok(count as usize)
}

/// Returns whether an agent was given an introduction to a room.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn is_briefed(c: &Connection, agent: &str, room: i64) -> Result<bool> {
    let params = named_params! {":agent": agent, ":room": room};
    Ok(c.prepare_cached(IS_BRIEFED)?.query_row(params, |row| row.get(0))?)
}

/// Drops one queued delivery.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn drop_waiting(tx: &Tx<'_>, seq: i64, reason: &str) -> Result<()> {
    let params = named_params! {":seq": seq, ":reason": reason, ":now": tx.now()};
    tx.prepare_cached(DROP)?.execute(params)?;
    Ok(())
}

/// Drops everything queued for an agent in a room; returns how many.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn drop_in_room(tx: &Tx<'_>, agent: &str, room: i64, reason: &str) -> Result<usize> {
    let params = named_params! {
        ":agent": agent, ":room": room, ":reason": reason, ":now": tx.now(),
    };
    Ok(tx.prepare_cached(DROP_OF_AGENT)?.execute(params)?)
}

/// Moves what is queued for an agent in a room to another agent, and drops notices about the room
/// itself. If the agent is gone, what was sent to it and not begun moves as well.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn take_over_room(
    tx: &Tx<'_>,
    (from, to): (&str, &str),
    (room, is_gone): (i64, bool),
) -> Result<()> {
    let params = named_params! {":from": from, ":to": to, ":room": room, ":is_gone": is_gone};
    tx.prepare_cached(TAKE)?.execute(params)?;
    let params =
        named_params! {":from": from, ":room": room, ":now": tx.now(), ":is_gone": is_gone};
    tx.prepare_cached(LEFT_BEHIND)?.execute(params)?;
    if is_gone {
        super::block::forget_unbegun(tx, from, room)?;
    }
    tx.ring(super::BELL);
    Ok(())
}

/// Returns the newest message of a block that started its turn.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn waking_of_block(connection: &Connection, block: &BlockId) -> Result<Option<MailId>> {
    let mut statement = connection.prepare_cached(WAKING_OF_BLOCK)?;
    let params = named_params! {":block": block};
    Ok(statement.query_row(params, |row| row.get(0)).optional()?)
}

/// Queues the messages that started a block's turn once more; returns how many, 0 if that was done
/// before.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn repeat_block(tx: &Tx<'_>, block: &BlockId) -> Result<usize> {
    let c = tx.connection();
    let mut given = c.prepare_cached(GIVEN)?;
    let rows = given.query_map(named_params! {":block": block}, |row| {
        Ok((row.get("seq")?, row.get("message_id")?, row.get("to_name")?, row.get("room")?))
    })?;
    let mut rows = rows.collect::<rusqlite::Result<Vec<(i64, MailId, String, i64)>>>()?;
    rows.sort_by_key(|it| it.0);
    for (seq, message, agent, room) in &rows {
        tx.prepare_cached(REPEAT)?.execute(named_params! {
            ":message": message, ":agent": agent, ":room": room, ":repeats": seq,
        })?;
    }
    tx.ring(super::BELL);
    Ok(rows.len())
}

/// Returns whether a block was repeated.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn is_repeated(connection: &Connection, block: &BlockId) -> Result<bool> {
    let mut statement = connection.prepare_cached(IS_REPEATED)?;
    Ok(statement.query_row(named_params! {":block": block}, |row| row.get(0))?)
}

/// Returns the deliveries of a message in a room, by agent; the last one, if repeated.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn heard_in_room(connection: &Connection, message: &MailId) -> Result<Vec<Heard>> {
    let mut statement = connection.prepare_cached(HEARD)?;
    let found = statement.query_map(named_params! {":message": message}, |row: &Row<'_>| {
        Ok(Heard {
            agent: row.get("to_name")?,
            state: row.get("state")?,
            wakes: row.get("wakes")?,
            reason: row.get("reason")?,
        })
    })?;
    let mut newest: Vec<Heard> = Vec::new();
    for it in found {
        let it = it?;
        match newest.iter_mut().find(|known| known.agent == it.agent) {
            Some(known) => *known = it,
            None => newest.push(it),
        }
    }
    Ok(newest)
}
