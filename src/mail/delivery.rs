//! Deliveries: the state of each message for each recipient.
//!
//! **Invariant:** a delivery that was handed out is never handed out again automatically:
//! unconfirmed ones are shown, and a person decides.

use rusqlite::{Connection, OptionalExtension as _, Row, named_params};
use serde_json::json;

use crate::base::{
    Actor, Address, BlockId, Error, EventKind, JobId, MailId, Millis, PersonId, Result, Scope,
};
use crate::mail::message::{self, Message};
use crate::store::Tx;

const INSERT: &str = "
    INSERT INTO deliveries (message_id, to_class, to_name, state, job_id, proof, reason, ended_ms)
    VALUES (:message, :class, :name, :state, :job, :proof, :reason, :ended)";
const OF_MESSAGE: &str = "
    SELECT * FROM deliveries WHERE message_id = :message ORDER BY seq";
// What waits is found by its own index or by its state: SQLite would otherwise prefer the one with
// everything that the recipient ever received.
const OPEN_OF: &str = "
    SELECT * FROM deliveries INDEXED BY deliveries_queued
    WHERE to_class = :class AND to_name = :name AND state = 'queued'
    ORDER BY seq LIMIT :limit";
const MARK_SENT: &str = "
    UPDATE deliveries SET state = 'sent', sent_ms = :now, is_head = 0, job_id = :job
    WHERE seq = :seq AND state = 'queued'";
const CONFIRM_PULLED: &str = "
    UPDATE deliveries INDEXED BY deliveries_by_state
    SET state = 'confirmed', proof = 'pulled', ended_ms = :now
    WHERE to_class = :class AND to_name = :name AND state = 'sent' AND seq <= :until
        AND block_id IS NULL";
const GIVE: &str = "
    UPDATE deliveries SET state = 'sent', sent_ms = :now, is_head = 1, job_id = :job,
        block_id = :block
    WHERE seq = :seq AND state = 'queued'";
const CONFIRM_READ: &str = "
    UPDATE deliveries INDEXED BY deliveries_of_message
    SET state = 'confirmed', proof = 'read', ended_ms = :now
    WHERE message_id = :message AND to_class = 'person' AND to_name = :name AND state = 'queued'";
const DROP_OPEN: &str = "
    UPDATE deliveries INDEXED BY deliveries_queued
    SET state = 'dropped', reason = :reason, ended_ms = :now
    WHERE to_class = :class AND to_name = :name AND state = 'queued'";
const GIVE_UP_SENT: &str = "
    UPDATE deliveries INDEXED BY deliveries_by_state
    SET state = 'unconfirmed', reason = :reason, ended_ms = :now
    WHERE to_class = :class AND to_name = :name AND state IN ('claimed', 'sent')";

const ROOMS_AWAITING: &str = "
    SELECT room, MIN(seq) AS oldest FROM deliveries INDEXED BY deliveries_queued
    WHERE to_class = 'agent' AND to_name = :name AND state = 'queued' AND wakes = 1
    GROUP BY room ORDER BY oldest LIMIT :limit";
const OUTCOME: &str = "
    SELECT state NOT IN ('queued', 'claimed', 'sent') AND NOT EXISTS (
        SELECT 1 FROM blocks WHERE id = deliveries.block_id), ended_ms
    FROM deliveries WHERE message_id = :message ORDER BY seq DESC LIMIT 1";
const GIVEN_TO: &str = "
    SELECT job_id FROM deliveries WHERE message_id = :message ORDER BY seq DESC LIMIT 1";
const TAKE_DIRECT: &str = "
    UPDATE OR IGNORE deliveries INDEXED BY deliveries_queued SET to_name = :to
    WHERE to_class = 'agent' AND to_name = :from AND room IS NULL AND state = 'queued'";
const OLDEST_DIRECT: &str = "
    SELECT seq, message_id FROM deliveries INDEXED BY deliveries_queued
    WHERE to_class = 'agent' AND to_name = :name AND state = 'queued' AND room IS NULL
    ORDER BY seq LIMIT 1";
const COUNT_FOR_AGENT: &str = "
    SELECT
        (SELECT COUNT(*) FROM deliveries INDEXED BY deliveries_queued
            WHERE to_class = 'agent' AND to_name = :name AND state = 'queued' AND wakes = 1),
        (SELECT COUNT(*) FROM deliveries INDEXED BY deliveries_by_state
            WHERE state = 'unconfirmed' AND to_class = 'agent' AND to_name = :name)";

/// Most rooms considered per agent at a time.
const ROOMS_MAX: u32 = 50;

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("delivery::insert", INSERT),
    ("delivery::of_message", OF_MESSAGE),
    ("delivery::open_of", OPEN_OF),
    ("delivery::mark_sent", MARK_SENT),
    ("delivery::confirm_pulled", CONFIRM_PULLED),
    ("delivery::give", GIVE),
    ("delivery::confirm_read", CONFIRM_READ),
    ("delivery::drop_open", DROP_OPEN),
    ("delivery::give_up_sent", GIVE_UP_SENT),
    ("delivery::rooms_awaiting", ROOMS_AWAITING),
    ("delivery::oldest_direct", OLDEST_DIRECT),
    ("delivery::outcome", OUTCOME),
    ("delivery::given_to", GIVEN_TO),
    ("delivery::take_direct", TAKE_DIRECT),
    ("delivery::count_for_agent", COUNT_FOR_AGENT),
];

/// The states of a delivery.
pub const STATES: [&str; 7] =
    ["queued", "claimed", "sent", "confirmed", "unconfirmed", "expired", "dropped"];

/// The state of a message for one recipient.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Its sequence number, in order of acceptance.
    pub seq: i64,
    /// The message.
    pub message_id: MailId,
    /// The recipient.
    pub to: Address,
    /// `queued claimed sent confirmed unconfirmed expired dropped`.
    pub state: String,
    /// The proof of its arrival.
    pub proof: Option<String>,
    /// Why it did not arrive.
    pub reason: Option<String>,
    /// The job that received it, or was started by it.
    pub job_id: Option<JobId>,
}

impl Delivery {
    pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<Delivery> {
        let to: (String, String) = (row.get("to_class")?, row.get("to_name")?);
        Ok(Delivery {
            seq: row.get("seq")?,
            message_id: row.get("message_id")?,
            to: Address::from_row(&to.0, &to.1).map_err(|cause| {
                let text = rusqlite::types::Type::Text;
                rusqlite::Error::FromSqlConversionFailure(0, text, Box::new(cause))
            })?,
            state: row.get("state")?,
            proof: row.get("proof")?,
            reason: row.get("reason")?,
            job_id: row.get("job_id")?,
        })
    }
}

/// Returns who may see events about the mail of an address.
fn scope(person: Option<&PersonId>) -> Scope {
    person.map_or(Scope::Site, |id| Scope::Person(id.clone()))
}

/// Records that a message is queued for its recipient, or can never reach them. `person` is the
/// recipient, if it is a person: events about their mail are private to them.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn deliver(
    tx: &Tx<'_>,
    (message, by): (&MailId, &Actor),
    to: &Address,
    dropped: Option<&str>,
    person: Option<&PersonId>,
) -> Result<()> {
    let state = if dropped.is_some() { "dropped" } else { "queued" };
    insert(tx, message, to, (state, None, dropped), None)?;
    if dropped.is_none() && matches!(to, Address::Instance { .. }) {
        tx.ring(super::BELL_OF_INSTANCES);
    }
    let data = json!({"to_class": to.class(), "job_id": null, "state": state});
    message::tell(tx, EventKind::MessageSent, message, by, scope(person), data)
}

/// Records that a message was delivered by starting a job; `proof` is `job` or `leg`.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn deliver_to_job(
    tx: &Tx<'_>,
    (message, by): (&MailId, &Actor),
    to: &Address,
    (job, proof): (&JobId, &str),
) -> Result<()> {
    insert(tx, message, to, ("confirmed", Some(proof), None), Some(job))?;
    let data = json!({"to_class": to.class(), "job_id": job, "state": "confirmed"});
    message::tell(tx, EventKind::MessageSent, message, by, Scope::Site, data)
}

fn insert(
    tx: &Tx<'_>,
    message: &MailId,
    to: &Address,
    (state, proof, reason): (&str, Option<&str>, Option<&str>),
    job: Option<&JobId>,
) -> Result<()> {
    let ended = (state != "queued").then(|| tx.now());
    let class = to.class().ok_or_else(|| Error::internal("a delivery to a label was written"))?;
    tx.prepare_cached(INSERT)?.execute(named_params! {
        ":message": message, ":class": class, ":name": to.name(), ":state": state, ":job": job,
        ":proof": proof, ":reason": reason, ":ended": ended,
    })?;
    Ok(())
}

/// Returns the deliveries of a message, in order.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn of_message(connection: &Connection, message: &MailId) -> Result<Vec<Delivery>> {
    let mut statement = connection.prepare_cached(OF_MESSAGE)?;
    let found = statement.query_map(named_params! {":message": message}, Delivery::from_row)?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

/// Returns what is queued for an address, oldest first.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn open_of(connection: &Connection, to: &Address, limit: u32) -> Result<Vec<Delivery>> {
    let mut statement = connection.prepare_cached(OPEN_OF)?;
    let params = named_params! {":class": to.class(), ":name": to.name(), ":limit": limit};
    Ok(statement.query_map(params, Delivery::from_row)?.collect::<rusqlite::Result<_>>()?)
}

/// Returns the rooms with queued deliveries that wake an agent, longest waiting first; `None`
/// stands for direct messages.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn rooms_awaiting(connection: &Connection, agent: &str) -> Result<Vec<Option<i64>>> {
    let mut statement = connection.prepare_cached(ROOMS_AWAITING)?;
    let params = named_params! {":name": agent, ":limit": ROOMS_MAX};
    Ok(statement.query_map(params, |row| row.get(0))?.collect::<rusqlite::Result<_>>()?)
}

/// Returns the oldest queued direct delivery to an agent, with its message.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn oldest_direct(connection: &Connection, agent: &str) -> Result<Option<(i64, MailId)>> {
    let mut statement = connection.prepare_cached(OLDEST_DIRECT)?;
    let row = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    Ok(statement.query_row(named_params! {":name": agent}, row).optional()?)
}

/// Returns whether an agent is done with a message (its turn is over, or will never come), and when
/// it arrived.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn outcome(connection: &Connection, message: &MailId) -> Result<(bool, Option<Millis>)> {
    let mut statement = connection.prepare_cached(OUTCOME)?;
    let row = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let found = statement.query_row(named_params! {":message": message}, row).optional()?;
    Ok(found.unwrap_or((true, None)))
}

/// Returns the start of the agent to which a message was given last.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn given_to(connection: &Connection, message: &MailId) -> Result<Option<JobId>> {
    let mut statement = connection.prepare_cached(GIVEN_TO)?;
    let found = statement.query_row(named_params! {":message": message}, |row| row.get(0));
    Ok(found.optional()?.flatten())
}

/// Moves queued direct deliveries to another agent.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn take_over_direct(tx: &Tx<'_>, from: &str, to: &str) -> Result<()> {
    let params = named_params! {":from": from, ":to": to};
    tx.prepare_cached(TAKE_DIRECT)?.execute(params)?;
    Ok(())
}

/// Returns how many deliveries are queued for an agent, and how many are unconfirmed.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn count_for_agent(connection: &Connection, agent: &str) -> Result<(u64, u64)> {
    let mut statement = connection.prepare_cached(COUNT_FOR_AGENT)?;
    let row = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
    let (waiting, unconfirmed) = statement.query_row(named_params! {":name": agent}, row)?;
    Ok((waiting.unsigned_abs(), unconfirmed.unsigned_abs()))
}

/// Hands queued deliveries to an instance, oldest first: `sent` until it confirms them.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn pull(tx: &Tx<'_>, to: &Address, job: &JobId, limit: u32) -> Result<Vec<(i64, Message)>> {
    let mut given = Vec::new();
    for delivery in open_of(tx.connection(), to, limit)? {
        let params = named_params! {":seq": delivery.seq, ":now": tx.now(), ":job": job};
        if tx.prepare_cached(MARK_SENT)?.execute(params)? == 1 {
            let message = message::find(tx.connection(), &delivery.message_id)?;
            changed(tx, &message.id, &Actor::Job(job.clone()), "sent")?;
            given.push((delivery.seq, message));
        }
    }
    Ok(given)
}

/// Hands a queued delivery to an instance as the block of its next turn: `sent` until that begins.
/// Returns `false` if it was handed out already.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn give(tx: &Tx<'_>, delivery: &Delivery, job: &JobId, block: &BlockId) -> Result<bool> {
    let params =
        named_params! {":seq": delivery.seq, ":now": tx.now(), ":job": job, ":block": block};
    let is_given = tx.prepare_cached(GIVE)?.execute(params)? == 1;
    if is_given {
        changed(tx, &delivery.message_id, &Actor::System, "sent")?;
    }
    Ok(is_given)
}

/// Confirms an instance's pulled deliveries, up to a sequence number.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn confirm_pulled(tx: &Tx<'_>, to: &Address, until: i64) -> Result<()> {
    let params = named_params! {
        ":class": to.class(), ":name": to.name(), ":now": tx.now(), ":until": until,
    };
    tx.prepare_cached(CONFIRM_PULLED)?.execute(params)?;
    Ok(())
}

/// Confirms that a person has read a message; returns whether it was unread.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn confirm_read(tx: &Tx<'_>, message: &MailId, name: &str, person: &PersonId) -> Result<bool> {
    let params = named_params! {":message": message, ":name": name, ":now": tx.now()};
    if tx.prepare_cached(CONFIRM_READ)?.execute(params)? == 0 {
        return Ok(false);
    }
    let (by, data) = (Actor::Person(person.clone()), json!({"state": "confirmed"}));
    let scope = Scope::Person(person.clone());
    message::tell(tx, EventKind::DeliveryChanged, message, &by, scope, data)?;
    Ok(true)
}

/// Drops what is queued for a recipient that is gone for good. Deliveries that it had pulled but
/// not confirmed become `unconfirmed`, or `confirmed` if it has read them.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn drop_open(tx: &Tx<'_>, to: &Address, reason: &str, has_read: bool) -> Result<()> {
    if has_read {
        confirm_pulled(tx, to, i64::MAX)?;
    }
    let params = named_params! {
        ":class": to.class(), ":name": to.name(), ":now": tx.now(), ":reason": reason,
    };
    for delivery in open_of(tx.connection(), to, u32::MAX)? {
        changed(tx, &delivery.message_id, &Actor::System, "dropped")?;
    }
    tx.prepare_cached(DROP_OPEN)?.execute(params)?;
    tx.prepare_cached(GIVE_UP_SENT)?.execute(params)?;
    Ok(())
}

pub(super) fn changed(tx: &Tx<'_>, message: &MailId, by: &Actor, state: &str) -> Result<()> {
    let data = json!({"state": state});
    message::tell(tx, EventKind::DeliveryChanged, message, by, Scope::Site, data)
}
