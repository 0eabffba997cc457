//! Approvals: a request to a person, its decision, and the effects.
//!
//! **Invariant:** a job asks and reads what its root asked; it never decides.

pub mod ask;
pub(in crate::flows) mod daily_cap;
pub mod decide;
pub mod expire;
mod notice;
pub mod permission;
mod question;
pub(in crate::flows) mod resume;
mod schema;
pub mod show;
pub mod wait;
pub mod withdraw;

use rusqlite::Connection;

use crate::approvals::{self, APPROVAL_DECIDED, Approval, Decision, Sort, State, Viewer};
use crate::base::{Actor, ApprovalId, Error, Result};
use crate::flows::assistant::RUN_ENDED;
use crate::jobs;
use crate::people::{self, Caller};
use crate::store::Tx;

/// Returns which approvals a caller may see.
///
/// # Errors
/// As reading the caller's job.
fn viewer(connection: &Connection, caller: &Caller) -> Result<Viewer> {
    match caller {
        Caller::Person { person, .. } => Ok(Viewer::Person(person.id.clone())),
        Caller::Job { id, .. } => Ok(Viewer::Root(
            jobs::find_brief(connection, &jobs::Viewer::Program, id)?.root().clone(),
        )),
    }
}

/// Settles an approval; a refusal names who decided before.
///
/// # Errors
/// As [`approvals::decide`].
fn settle(tx: &Tx<'_>, id: &ApprovalId, by: &Actor, decision: &Decision) -> Result<Approval> {
    approvals::decide(tx, id, by, decision).or_else(|cause| {
        let c = tx.connection();
        let found = approvals::find(c, id, &Viewer::Program)?;
        if found.sort == Sort::Call && found.state == State::Withdrawn {
            return Err(Error::conflict(RUN_ENDED, "the answer that asked for this has ended")
                .hint("ask the assistant again"));
        }
        match &found.decided_by {
            Some(first) if cause.code_str() == APPROVAL_DECIDED => {
                let name = people::display_name(c, first)?;
                let message = format!("approval {id} was {} by {name}", found.state);
                Err(Error::conflict(APPROVAL_DECIDED, message).hint("review it again"))
            }
            _ => Err(cause),
        }
    })
}

/// Fills in the names of requester and decider.
///
/// # Errors
/// As any read.
pub(in crate::flows) fn named(c: &Connection, mut approval: Approval) -> Result<Approval> {
    approval.requester_name = Some(people::display_name(c, &approval.requester)?);
    approval.decided_by_name = match &approval.decided_by {
        Some(actor) => Some(people::display_name(c, actor)?),
        None => None,
    };
    Ok(approval)
}
