//! Deletes the payloads of old messages; their rows stay, so that threads remain complete.
//!
//! **Invariant:** nothing is deleted that somebody may still have to read: nothing of inboxes and
//! channels, and of others only what has arrived or never will.

use rusqlite::{Connection, named_params};

use crate::base::{Millis, Result};
use crate::store::Tx;

/// Most payloads deleted per transaction.
const FORGOTTEN_AT_ONCE: u32 = 1_000;

const COUNT: &str = "
    SELECT COUNT(*) FROM messages INDEXED BY messages_old
    WHERE created_ms < :before AND forgotten_ms IS NULL AND to_class <> 'topic'
        AND to_class <> 'channel' AND NOT EXISTS (
            SELECT 1 FROM deliveries
            WHERE message_id = messages.id AND ended_ms IS NULL)";
const FORGET: &str = "
    UPDATE messages SET payload = 'null', forgotten_ms = :now WHERE seq IN (
        SELECT seq FROM messages AS old INDEXED BY messages_old
        WHERE created_ms < :before AND forgotten_ms IS NULL AND to_class <> 'topic'
            AND to_class <> 'channel' AND NOT EXISTS (
                SELECT 1 FROM deliveries
                WHERE message_id = old.id AND ended_ms IS NULL)
        LIMIT :limit)";

pub(super) const STATEMENTS: &[(&str, &str)] =
    &[("forget::count", COUNT), ("forget::forget", FORGET)];

/// Returns how many payloads of messages before a time can be deleted.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn forgettable(connection: &Connection, before: Millis) -> Result<u64> {
    let params = named_params! {":before": before};
    let count: i64 = connection.prepare_cached(COUNT)?.query_row(params, |row| row.get(0))?;
    Ok(count.unsigned_abs())
}

/// Deletes payloads of messages before a time, up to a limit; returns how many.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn forget(tx: &Tx<'_>, before: Millis) -> Result<u64> {
    let params = named_params! {":before": before, ":now": tx.now(), ":limit": FORGOTTEN_AT_ONCE};
    let count = tx.prepare_cached(FORGET)?.execute(params)?;
    Ok(u64::try_from(count).unwrap_or(u64::MAX))
}
