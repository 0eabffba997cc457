//! Proposals: their revisions, what they do to other Topics, and the journal of approvals.

pub mod attempt;
pub mod fate;
pub mod proposal;
pub mod revise;
