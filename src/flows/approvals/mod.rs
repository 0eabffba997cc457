//! Approvals: a request to a person, its decision, and the effects.
//!
//! **Invariant:** a job asks and reads what its root asked; it never decides.

pub mod ask;
pub mod decide;
pub mod expire;
mod notice;
pub mod outcome;
pub mod permission;
mod question;
pub(in crate::flows) mod resume;
mod schema;
pub mod show;
pub mod withdraw;

use rusqlite::Connection;

use crate::approvals::{Approval, Viewer};
use crate::base::Result;
use crate::jobs;
use crate::people::{self, Caller};

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
