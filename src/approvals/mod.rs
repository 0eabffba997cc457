//! Owns the tables `approvals` and `approval_events`: requests to people, and their decisions.
//!
//! **Invariant:** an approval is decided once, by one `UPDATE … WHERE state = 'pending'`; the
//! schema refuses any later change.
//! **Invariant:** an approval that is private to a person is only visible to that person and the
//! program.

mod approval;
mod decide;
mod expire;
mod insert;
mod permission;

pub use crate::api::approvals::{Approval, Past, Sort, State, Texts};
pub use approval::{
    Filter, Viewer, find, history, is_awaited, list, oldest_pending, pending_count,
    pending_of_person, pending_of_root, texts,
};
pub use decide::{APPROVAL_DECIDED, Decision, decide, remove_call};
pub use expire::{due, next_due};
pub use insert::{NewApproval, insert};
pub use permission::{last_of_call, leave, use_once};

/// The bell rung when an approval with an expiry is created.
pub const BELL: &str = "approvals";

/// Returns the statements of this module, for the schema test.
pub fn statements() -> Vec<(&'static str, &'static str)> {
    [
        approval::STATEMENTS,
        insert::STATEMENTS,
        decide::STATEMENTS,
        expire::STATEMENTS,
        permission::STATEMENTS,
    ]
    .concat()
}
