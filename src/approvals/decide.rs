//! Decides approvals: from pending to a final state.

use rusqlite::named_params;
use serde_json::{Value, json};

use crate::api::approvals::Approval;
use crate::api::approvals::State;
use crate::approvals::approval::{Viewer, find};
use crate::approvals::insert::bounded;
use crate::base::limit::{APPROVAL_PAYLOAD_BYTES_MAX, SUMMARY_BYTES_MAX};
use crate::base::{Actor, ApprovalId, Error, ErrorKind, Result, fault};
use crate::store::Tx;

/// The code of a second decision.
pub const APPROVAL_DECIDED: &str = "approval_decided";

const DECIDE: &str = "
    UPDATE approvals SET state = :state, version = version + 1, changed_json = :changes,
        note = :note, decided_by = :by, decided_ms = MAX(:now, created_ms)
    WHERE id = :id AND state = 'pending' AND version = COALESCE(:version, version)
        AND (expires_ms IS NULL OR expires_ms > :now OR :state IN ('withdrawn', 'expired'))";

const REMOVE_CALL: &str = "DELETE FROM approvals WHERE id = :id AND sort = 'call'";
pub(super) const STATEMENTS: &[(&str, &str)] =
    &[("decide::decide", DECIDE), ("decide::remove_call", REMOVE_CALL)];

/// A decision.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The final state.
    pub state: State,
    /// The edited payload, for [`State::Amended`].
    pub changes: Option<Value>,
    /// A note.
    pub note: Option<String>,
    /// The version that was seen; `None` to decide without looking.
    pub version: Option<i64>,
}

/// Decides a pending approval.
///
/// # Errors
/// `conflict` with code `approval_decided` (naming who decided) or `version_changed`; `too_large`;
/// `not_found`.
pub fn decide(tx: &Tx<'_>, id: &ApprovalId, by: &Actor, decision: &Decision) -> Result<Approval> {
    let changes = decision.changes.as_ref();
    let changes =
        changes.map(|it| bounded("payload", it, APPROVAL_PAYLOAD_BYTES_MAX)).transpose()?;
    let note = decision.note.as_deref().map(str::trim).filter(|it| !it.is_empty());
    if note.is_some_and(|it| it.len() > SUMMARY_BYTES_MAX) {
        let message = format!("the note has more than {SUMMARY_BYTES_MAX} bytes");
        return Err(Error::new(ErrorKind::TooLarge, message).hint("make it shorter"));
    }
    let changed = tx.prepare_cached(DECIDE)?.execute(named_params! {
        ":id": id, ":state": decision.state, ":changes": changes, ":note": note, ":by": by,
        ":now": tx.now(), ":version": decision.version,
    })?;
    let found = find(tx.connection(), id, &Viewer::Program)?;
    if changed == 0 && !fault::is_off("approval_once") {
        return Err(refusal(tx, &found));
    }
    found.record(tx, by, &note.map_or_else(|| json!({}), |note| json!({"note": note})))?;
    Ok(found)
}

/// Deletes the approval of an assistant's call when its person deletes the conversation.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn remove_call(tx: &Tx<'_>, id: &ApprovalId) -> Result<()> {
    tx.prepare_cached(REMOVE_CALL)?.execute(named_params! {":id": id})?;
    Ok(())
}

fn refusal(tx: &Tx<'_>, found: &Approval) -> Error {
    let id = &found.id;
    match (&found.decided_by, found.expires_at) {
        (Some(by), _) => {
            let message = format!("approval {id} was {} by {by}", found.state);
            Error::conflict(APPROVAL_DECIDED, message).hint(match found.state {
                State::Withdrawn => "whoever asked can ask again",
                _ => "review it again",
            })
        }
        (None, Some(at)) if at <= tx.now() => {
            Error::conflict(APPROVAL_DECIDED, format!("approval {id} has expired"))
                .hint("whoever asked can ask again")
        }
        _ => {
            let message = format!("approval {id} has version {} now", found.version);
            Error::conflict("version_changed", message).hint("look at it again, then decide")
        }
    }
}
