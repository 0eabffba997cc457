//! A person's settings, and the runtimes' sessions by message.

use rusqlite::{Connection, OptionalExtension as _, named_params};

use crate::base::{ChatId, ChatMessageId, PersonId, Result};
use crate::store::Tx;

const SETTING: &str = "SELECT mode FROM chat_settings WHERE person_id = :person";
const KEEP_SETTING: &str = "
    INSERT INTO chat_settings (person_id, mode, changed_ms) VALUES (:person, :mode, :now)
    ON CONFLICT (person_id) DO UPDATE SET mode = excluded.mode, changed_ms = excluded.changed_ms";
const REF: &str = "
    SELECT runtime_ref FROM chat_refs
    WHERE session_id = :session AND mode = :mode AND at_message = :at";
const KEEP_REF: &str = "
    INSERT INTO chat_refs (session_id, mode, runtime_ref, at_message)
    VALUES (:session, :mode, :ref, :at)
    ON CONFLICT (session_id, mode) DO UPDATE
    SET runtime_ref = excluded.runtime_ref, at_message = excluded.at_message";
const FORGET_REF: &str = "DELETE FROM chat_refs WHERE session_id = :session AND mode = :mode";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("chat::setting", SETTING),
    ("chat::keep_setting", KEEP_SETTING),
    ("chat::ref", REF),
    ("chat::keep_ref", KEEP_REF),
    ("chat::forget_ref", FORGET_REF),
];

/// A person's settings.
#[derive(Clone, Debug, Default)]
pub struct Setting {
    /// The mode of their runs; `None` for the script's default.
    pub mode: Option<String>,
}

/// Returns a person's settings.
///
/// # Errors
/// As any read.
pub fn setting_of(connection: &Connection, person: &PersonId) -> Result<Setting> {
    let params = named_params! {":person": person};
    let mode =
        connection.prepare_cached(SETTING)?.query_row(params, |row| row.get(0)).optional()?;
    Ok(Setting { mode: mode.flatten() })
}

/// Stores a person's settings.
///
/// # Errors
/// As any write.
pub fn keep_setting(tx: &Tx<'_>, person: &PersonId, setting: &Setting) -> Result<()> {
    tx.prepare_cached(KEEP_SETTING)?.execute(named_params! {
        ":person": person, ":mode": setting.mode, ":now": tx.now(),
    })?;
    Ok(())
}

/// Returns the runtime's session that ends exactly at a message.
///
/// # Errors
/// As any read.
pub fn ref_of(
    connection: &Connection,
    (session, mode): (&ChatId, &str),
    at: &ChatMessageId,
) -> Result<Option<String>> {
    let params = named_params! {":session": session, ":mode": mode, ":at": at};
    Ok(connection.prepare_cached(REF)?.query_row(params, |row| row.get(0)).optional()?)
}

/// Stores the runtime's session that ends at a message.
///
/// # Errors
/// As any write.
pub fn keep_ref(
    tx: &Tx<'_>,
    (session, mode): (&ChatId, &str),
    reference: &str,
    at: &ChatMessageId,
) -> Result<()> {
    tx.prepare_cached(KEEP_REF)?.execute(named_params! {
        ":session": session, ":mode": mode, ":ref": reference, ":at": at,
    })?;
    Ok(())
}

/// Deletes the stored session of a runtime, whose end is unknown from now on.
///
/// # Errors
/// As any write.
pub fn forget_ref(tx: &Tx<'_>, session: &ChatId, mode: &str) -> Result<()> {
    let params = named_params! {":session": session, ":mode": mode};
    tx.prepare_cached(FORGET_REF)?.execute(params)?;
    Ok(())
}
