//! Idempotency: stored answers by actor and key, so that a repeated request runs once.

use rusqlite::{Connection, OptionalExtension as _, named_params};
use serde_json::Value;

use crate::base::limit::KEYS_KEPT_MAX;
use crate::base::{Actor, Error, Millis, Result, fault};
use crate::store::Tx;

/// Longest key, in bytes.
pub const KEY_BYTES_MAX: usize = crate::base::limit::KEY_BYTES_MAX;

/// Error code: the key was used for another request.
pub const IDEMPOTENCY_CONFLICT: &str = "idempotency_conflict";

const FIND: &str = "
    SELECT route, body_digest, result_json FROM idempotency WHERE actor = :actor AND key = :key";
const INSERT: &str = "
    INSERT INTO idempotency (actor, key, route, body_digest, result_json, created_ms)
    VALUES (:actor, :key, :route, :digest, :result, :now)";
const PRUNABLE: &str = "SELECT COUNT(*) FROM idempotency WHERE created_ms < :before";
const PRUNE: &str = "DELETE FROM idempotency WHERE created_ms < :before";
const PRUNE_BEYOND: &str = "
    DELETE FROM idempotency WHERE created_ms < (
        SELECT created_ms FROM idempotency ORDER BY created_ms DESC LIMIT 1 OFFSET :kept)";

/// The statements of this file, for the schema test.
pub const STATEMENTS: &[(&str, &str)] = &[
    ("idempotency::find", FIND),
    ("idempotency::insert", INSERT),
    ("idempotency::prunable", PRUNABLE),
    ("idempotency::prune", PRUNE),
    ("idempotency::prune_beyond", PRUNE_BEYOND),
];

/// An idempotency key sent with a request.
#[derive(Clone, Debug)]
pub struct Key {
    /// Who sent it; keys are scoped to the actor.
    pub actor: Actor,
    /// The key chosen by the client.
    pub key: String,
    /// Method and path.
    pub route: String,
    /// SHA-256 of the body.
    pub body_digest: String,
}

/// Returns the stored answer of this key, if the request is the same.
///
/// # Errors
/// `conflict` with code `idempotency_conflict` if the key was used for another request.
pub fn find(connection: &Connection, key: &Key) -> Result<Option<Value>> {
    if fault::is_off("idempotency") {
        return Ok(None);
    }
    let found = connection
        .prepare_cached(FIND)?
        .query_row(named_params! {":actor": key.actor, ":key": key.key}, |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?))
        })
        .optional()?;
    let Some((route, digest, result)) = found else { return Ok(None) };
    if route != key.route || digest != key.body_digest {
        return Err(Error::conflict(
            IDEMPOTENCY_CONFLICT,
            format!("the key `{}` was used for another request", key.key),
        )
        .hint("use a new Idempotency-Key for a new request"));
    }
    let value = serde_json::from_str(&result);
    value.map(Some).map_err(|cause| Error::internal("a kept answer is not JSON").source(cause))
}

/// Stores an answer in the transaction of its change.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn remember(tx: &Tx<'_>, key: &Key, result: &Value) -> Result<()> {
    if fault::is_off("idempotency") {
        return Ok(());
    }
    tx.prepare_cached(INSERT)?.execute(named_params! {
        ":actor": key.actor, ":key": key.key, ":route": key.route, ":digest": key.body_digest,
        ":result": result.to_string(), ":now": tx.now(),
    })?;
    Ok(())
}

/// Returns how many answers [`prune`] would delete.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn prunable(connection: &Connection, before: Millis) -> Result<u64> {
    let params = named_params! {":before": before};
    let count: i64 = connection.prepare_cached(PRUNABLE)?.query_row(params, |row| row.get(0))?;
    Ok(count.unsigned_abs())
}

/// Deletes answers before a time, and the oldest beyond the maximum.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn prune(tx: &Tx<'_>, before: Millis) -> Result<()> {
    tx.prepare_cached(PRUNE)?.execute(named_params! {":before": before})?;
    tx.prepare_cached(PRUNE_BEYOND)?.execute(named_params! {":kept": KEYS_KEPT_MAX - 1})?;
    Ok(())
}
