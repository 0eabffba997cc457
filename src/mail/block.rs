//! The input that an agent was given and has not finished: at most one block per agent, recorded
//! before its first byte is sent to the agent.
//!
//! **Invariant:** a block and the claims of its deliveries are written in one transaction, and so
//! are their ends.

use rusqlite::{Connection, OptionalExtension as _, Row, named_params};
use serde_json::json;

use crate::base::{
    Actor, Address, BlockId, EventKind, JobId, MailId, Millis, Result, Scope, fault,
};
use crate::mail::message;
use crate::mail::rooms::Block;
use crate::store::Tx;

const INSERT: &str = "
    INSERT INTO blocks (agent, id, room, text, job_id, made_ms)
    VALUES (:agent, :id, :room, :text, :job, :now)";
const OPEN: &str = "SELECT * FROM blocks WHERE agent = :agent";
const MOVE: &str = "
    UPDATE blocks SET job_id = :job, made_ms = :now
    WHERE agent = :agent AND begun_ms IS NULL";
const BEGIN: &str = "
    UPDATE blocks SET begun_ms = :now WHERE agent = :agent AND id = :id AND begun_ms IS NULL";
const REMOVE: &str = "DELETE FROM blocks WHERE agent = :agent AND id = :id";
const FORGET: &str = "
    DELETE FROM blocks WHERE agent = :agent AND room = :room AND begun_ms IS NULL";
const CLAIM: &str = "
    UPDATE deliveries SET state = 'sent', block_id = :block, job_id = :job, attempt = attempt + 1,
        is_head = :is_head, claimed_ms = :now, sent_ms = :now
    WHERE seq = :seq AND state = 'queued' AND to_class = 'agent' AND to_name = :agent";
const CONFIRM: &str = "
    UPDATE deliveries SET state = 'confirmed', proof = :proof, ended_ms = :now
    WHERE block_id = :block AND state = 'sent'";
const TAKE_BACK: &str = "
    UPDATE deliveries SET state = 'queued', block_id = NULL, job_id = NULL, is_head = 1,
        claimed_ms = NULL, sent_ms = NULL
    WHERE block_id = :block AND state = 'sent'";
const GIVE_UP: &str = "
    UPDATE deliveries SET state = 'unconfirmed', reason = :reason, ended_ms = :now
    WHERE block_id = :block AND state = 'sent'";
/// Also one that was given up: its turn begins late.
const CONFIRM_GIVEN: &str = "
    UPDATE deliveries SET state = 'confirmed', proof = 'turn', reason = NULL, ended_ms = :now
    WHERE block_id = :block AND state IN ('sent', 'unconfirmed')";
const GIVEN: &str = "
    SELECT block_id FROM deliveries INDEXED BY deliveries_by_state
    WHERE to_class = :class AND to_name = :name AND state = 'sent' AND block_id IS NOT NULL";
const CONFIRM_LATE: &str = "
    UPDATE deliveries SET state = 'confirmed', proof = 'turn', reason = NULL, ended_ms = :now
    WHERE block_id = :block AND to_class = 'agent' AND to_name = :agent AND room IS NULL
        AND state = 'unconfirmed'";
const MESSAGES: &str = "
    SELECT message_id FROM deliveries WHERE block_id = :block ORDER BY seq";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("block::insert", INSERT),
    ("block::open", OPEN),
    ("block::move", MOVE),
    ("block::begin", BEGIN),
    ("block::remove", REMOVE),
    ("block::forget", FORGET),
    ("block::claim", CLAIM),
    ("block::confirm", CONFIRM),
    ("block::take_back", TAKE_BACK),
    ("block::give_up", GIVE_UP),
    ("block::confirm_given", CONFIRM_GIVEN),
    ("block::given", GIVEN),
    ("block::confirm_late", CONFIRM_LATE),
    ("block::messages", MESSAGES),
];

/// An unfinished block.
#[derive(Clone, Debug)]
pub struct OpenBlock {
    /// Its id.
    pub id: BlockId,
    /// The agent.
    pub agent: String,
    /// The room of its deliveries; `None` for direct messages.
    pub room: Option<i64>,
    /// The text for the agent.
    pub text: String,
    /// The start to which it was last sent.
    pub job_id: JobId,
    /// When it was last sent.
    pub made_at: Millis,
    /// When its turn began.
    pub begun_at: Option<Millis>,
}

impl OpenBlock {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<OpenBlock> {
        Ok(OpenBlock {
            id: row.get("id")?,
            agent: row.get("agent")?,
            room: row.get("room")?,
            text: row.get("text")?,
            job_id: row.get("job_id")?,
            made_at: row.get("made_ms")?,
            begun_at: row.get("begun_ms")?,
        })
    }
}

/// Returns an agent's unfinished block.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn open_block(connection: &Connection, agent: &str) -> Result<Option<OpenBlock>> {
    let mut statement = connection.prepare_cached(OPEN)?;
    Ok(statement.query_row(named_params! {":agent": agent}, OpenBlock::from_row).optional()?)
}

/// Records a block that an agent is about to be given, before its first byte is sent.
///
/// # Errors
/// `conflict` if the agent has another block, or a delivery is no longer queued.
pub fn claim_block(
    tx: &Tx<'_>,
    (agent, job): (&str, &JobId),
    room: Option<i64>,
    block: &Block,
) -> Result<()> {
    if fault::is_off("one_block")
        && let Some(open) = open_block(tx.connection(), agent)?
    {
        tx.prepare_cached(REMOVE)?.execute(named_params! {":agent": agent, ":id": open.id})?;
    }
    tx.prepare_cached(INSERT)?.execute(named_params! {
        ":agent": agent, ":id": block.id, ":room": room, ":text": block.text, ":job": job,
        ":now": tx.now(),
    })?;
    for (at, seq) in block.rows.iter().enumerate() {
        let claimed = tx.prepare_cached(CLAIM)?.execute(named_params! {
            ":block": block.id, ":job": job, ":is_head": i64::from(at == 0), ":seq": seq,
            ":agent": agent, ":now": tx.now(),
        })?;
        if claimed == 0 {
            let message = format!("a delivery to {agent} does not wait any more");
            return Err(crate::base::Error::conflict("not_queued", message));
        }
    }
    tell(tx, &block.id, "sent")
}

/// Records that a block is given again, to a new start, under the same id.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn give_back_block(tx: &Tx<'_>, agent: &str, job: &JobId) -> Result<()> {
    let params = named_params! {":agent": agent, ":job": job, ":now": tx.now()};
    tx.prepare_cached(MOVE)?.execute(params)?;
    Ok(())
}

/// Records that the turn of a block began, which proves its delivery. Returns `false` if that was
/// recorded before.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn begin_block(tx: &Tx<'_>, agent: &str, id: &BlockId, proof: &str) -> Result<bool> {
    let params = named_params! {":agent": agent, ":id": id, ":now": tx.now()};
    if tx.prepare_cached(BEGIN)?.execute(params)? == 0 {
        return Ok(false);
    }
    let params = named_params! {":block": id, ":proof": proof, ":now": tx.now()};
    tx.prepare_cached(CONFIRM)?.execute(params)?;
    tell(tx, id, "confirmed").map(|()| true)
}

/// Records that the turn of a block began that an instance was given.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn confirm_given(tx: &Tx<'_>, id: &BlockId) -> Result<()> {
    let params = named_params! {":block": id, ":now": tx.now()};
    match tx.prepare_cached(CONFIRM_GIVEN)?.execute(params)? {
        0 => Ok(()),
        _ => tell(tx, id, "confirmed"),
    }
}

/// Records that a turn of an instance has ended: what it was given and has not begun is
/// `unconfirmed`, and the next message can be given.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn give_up_given(tx: &Tx<'_>, to: &Address, reason: &str) -> Result<()> {
    let mut statement = tx.prepare_cached(GIVEN)?;
    let params = named_params! {":class": to.class(), ":name": to.name()};
    let given = statement.query_map(params, |row| row.get(0))?;
    let given: Vec<BlockId> = given.collect::<rusqlite::Result<_>>()?;
    for id in given {
        let params = named_params! {":block": id, ":reason": reason, ":now": tx.now()};
        tx.prepare_cached(GIVE_UP)?.execute(params)?;
        tell(tx, &id, "unconfirmed")?;
    }
    Ok(())
}

/// Records that nothing of a block was sent to its agent: its deliveries are queued again.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn take_back_block(tx: &Tx<'_>, agent: &str, id: &BlockId) -> Result<()> {
    let open = open_block(tx.connection(), agent)?;
    if !open.is_some_and(|it| it.id == *id && it.begun_at.is_none()) {
        return Ok(());
    }
    tell(tx, id, "queued")?;
    tx.prepare_cached(TAKE_BACK)?.execute(named_params! {":block": id})?;
    tx.prepare_cached(REMOVE)?.execute(named_params! {":agent": agent, ":id": id})?;
    Ok(())
}

/// Records that nothing of a block was sent to its instance: its delivery is queued again.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn take_back_given(tx: &Tx<'_>, id: &BlockId) -> Result<()> {
    tell(tx, id, "queued")?;
    tx.prepare_cached(TAKE_BACK)?.execute(named_params! {":block": id})?;
    Ok(())
}

/// Records the end of a block; deliveries in it without proof of arrival become `unconfirmed`, with
/// this reason.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn end_block(tx: &Tx<'_>, agent: &str, id: &BlockId, reason: &str) -> Result<()> {
    let given_up = tx
        .prepare_cached(GIVE_UP)?
        .execute(named_params! {":block": id, ":reason": reason, ":now": tx.now()})?;
    if given_up > 0 {
        tell(tx, id, "unconfirmed")?;
    }
    tx.prepare_cached(REMOVE)?.execute(named_params! {":agent": agent, ":id": id})?;
    tx.ring(super::BELL);
    Ok(())
}

/// Deletes the block of a room that its agent has not begun: its deliveries now belong to another
/// agent.
///
/// # Errors
/// Fails if the database cannot be written.
pub(super) fn forget_unbegun(tx: &Tx<'_>, agent: &str, room: i64) -> Result<()> {
    let params = named_params! {":agent": agent, ":room": room};
    tx.prepare_cached(FORGET)?.execute(params)?;
    Ok(())
}

/// Records late proof of a direct delivery that was given up: the agent has just answered it.
/// Returns whether there was one.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn confirm_late(tx: &Tx<'_>, agent: &str, id: &BlockId) -> Result<bool> {
    let params = named_params! {":block": id, ":agent": agent, ":now": tx.now()};
    match tx.prepare_cached(CONFIRM_LATE)?.execute(params)? {
        0 => Ok(false),
        _ => tell(tx, id, "confirmed").map(|()| true),
    }
}

/// Returns the messages of a block, oldest first.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn messages_of(connection: &Connection, id: &BlockId) -> Result<Vec<MailId>> {
    let mut statement = connection.prepare_cached(MESSAGES)?;
    let found = statement.query_map(named_params! {":block": id}, |row| row.get(0))?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

/// Emits one event per block for what became of its deliveries, identified by its first message.
fn tell(tx: &Tx<'_>, id: &BlockId, state: &str) -> Result<()> {
    let Some(first) = messages_of(tx.connection(), id)?.into_iter().next() else { return Ok(()) };
    let data = json!({"state": state});
    message::tell(tx, EventKind::DeliveryChanged, &first, &Actor::System, Scope::Site, data)
}
