//! Permissions: approvals for one tool call, identified by the digest of that call.

use rusqlite::{Connection, OptionalExtension as _, named_params};

use crate::api::approvals::{Approval, PERMISSION_USED};
use crate::approvals::approval::facts;
use crate::base::{ApprovalId, Error, JobId, Result, fault};
use crate::store::Tx;

const LAST_OF_CALL: &str = facts!(
    "WHERE call_digest = :digest AND sort = 'permission'
        AND (root_id = :root OR (from_class = 'agent' AND from_name = :agent))
    ORDER BY id DESC LIMIT 1"
);
const USE: &str = "
    UPDATE approvals SET used_ms = :now
    WHERE id = :id AND used_ms IS NULL AND state IN ('approved', 'amended')";
const LEAVE: &str = "
    UPDATE approvals SET left_ms = :now
    WHERE id = :id AND state = 'pending' AND left_ms IS NULL";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("permission::last_of_call", LAST_OF_CALL),
    ("permission::use", USE),
    ("permission::leave", LEAVE),
];

/// Returns the last approval for a tool call requested by the jobs of a root, or by a long-lived
/// agent.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn last_of_call(
    connection: &Connection,
    digest: &str,
    (root, agent): (&JobId, Option<&str>),
) -> Result<Option<Approval>> {
    let params = named_params! {":digest": digest, ":root": root, ":agent": agent};
    let mut statement = connection.prepare_cached(LAST_OF_CALL)?;
    Ok(statement.query_row(params, Approval::from_row).optional()?)
}

/// Marks a permission as used: it is valid for one call.
///
/// # Errors
/// `conflict` with code `permission_used`.
pub fn use_once(tx: &Tx<'_>, id: &ApprovalId) -> Result<()> {
    let params = named_params! {":id": id, ":now": tx.now()};
    match tx.prepare_cached(USE)?.execute(params)? {
        1 => Ok(()),
        _ if fault::is_off("use_once") => Ok(()),
        _ => Err(Error::conflict(PERMISSION_USED, format!("permission {id} was used before"))
            .hint("ask again")),
    }
}

/// Records that the requester no longer waits for the decision.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn leave(tx: &Tx<'_>, id: &ApprovalId) -> Result<()> {
    let params = named_params! {":id": id, ":now": tx.now()};
    tx.prepare_cached(LEAVE)?.execute(params)?;
    Ok(())
}
