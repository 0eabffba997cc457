//! Queued deliveries to agents that nobody takes any more.
//!
//! **Invariant:** what is to a person waits for as long as the person wants, and what belongs to a
//! room follows the rules of its channel.

use rusqlite::{Connection, named_params};

use crate::base::{Actor, Millis, Result};
use crate::mail::Delivery;
use crate::mail::delivery::changed;
use crate::store::Tx;

// A person who resent a message did so lately.
const OVERDUE: &str = "
    SELECT deliveries.* FROM deliveries INDEXED BY deliveries_queued
    JOIN messages ON messages.id = deliveries.message_id
    WHERE deliveries.to_class IN ('agent', 'instance') AND deliveries.state = 'queued'
        AND deliveries.room IS NULL AND deliveries.repeats IS NULL
        AND messages.created_ms < :before
    LIMIT :limit";
const WAITING_FOR_AGENT: &str = "
    SELECT * FROM deliveries INDEXED BY deliveries_queued
    WHERE to_class = 'agent' AND to_name = :name AND state = 'queued' AND room IS NULL
    ORDER BY seq LIMIT :limit";
const END: &str = "
    UPDATE deliveries SET state = :state, reason = :reason, ended_ms = :now
    WHERE seq = :seq AND state = 'queued'";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("overdue::overdue", OVERDUE),
    ("overdue::waiting_for_agent", WAITING_FOR_AGENT),
    ("overdue::end", END),
];

/// Returns queued deliveries to agents of messages that were accepted before a time.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn overdue(connection: &Connection, before: Millis, limit: u32) -> Result<Vec<Delivery>> {
    let mut statement = connection.prepare_cached(OVERDUE)?;
    let params = named_params! {":before": before, ":limit": limit};
    let found = statement.query_map(params, Delivery::from_row)?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

/// Returns what was sent to a long-running agent and is queued, oldest first.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn waiting_for_agent(
    connection: &Connection,
    agent: &str,
    limit: u32,
) -> Result<Vec<Delivery>> {
    let mut statement = connection.prepare_cached(WAITING_FOR_AGENT)?;
    let params = named_params! {":name": agent, ":limit": limit};
    let found = statement.query_map(params, Delivery::from_row)?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

/// Ends a queued delivery as `expired` or `dropped`.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn end_waiting(tx: &Tx<'_>, delivery: &Delivery, state: &str, reason: &str) -> Result<()> {
    let params = named_params! {
        ":seq": delivery.seq, ":state": state, ":reason": reason, ":now": tx.now(),
    };
    if tx.prepare_cached(END)?.execute(params)? == 1 {
        changed(tx, &delivery.message_id, &Actor::System, state)?;
    }
    Ok(())
}
