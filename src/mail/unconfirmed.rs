//! Deliveries to agents without proof of arrival, about which a person decides.
//!
//! **Invariant:** a repeated delivery has its own row, which names the original.

use rusqlite::named_params;
use serde_json::json;

use crate::base::{Actor, EventKind, MailId, Result, Scope};
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

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("unconfirmed::open", OPEN),
    ("unconfirmed::again", AGAIN),
    ("unconfirmed::give_up", GIVE_UP),
    ("unconfirmed::settle", SETTLE),
];

/// Queues unconfirmed deliveries of a message once more; returns whether there were any.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn resend(tx: &Tx<'_>, message: &MailId, by: &Actor) -> Result<bool> {
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
            ":message": message, ":agent": agent, ":wakes": wakes, ":repeats": seq,
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

fn tell(tx: &Tx<'_>, id: &MailId, by: &Actor, state: &str) -> Result<()> {
    message::tell(tx, EventKind::DeliveryChanged, id, by, Scope::Site, json!({"state": state}))
}
