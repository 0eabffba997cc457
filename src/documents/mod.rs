//! Documents: what git contains, and what people and agents say and propose about it.
//!
//! **Invariant:** every call of git goes through `git::call`, and only `commit` and
//! `changes::restore` write to the user's index, working tree and branch.

pub mod anchor;
pub mod changes;
pub mod commit;
pub mod compare;
#[cfg(test)]
mod fixture;
pub mod git;
pub mod perspectives;
pub mod proposals;
pub mod search;
pub mod seen;
pub mod snapshot;
pub mod sources;
pub mod topics;
mod word;
pub mod workspace;

pub use crate::api::proposals::{Fate, Proposal, ProposalStatus};
pub use crate::api::sources::SourceState;
pub use crate::api::topics::{Message, Placement, PlacementState, Topic, TopicStatus};
pub use crate::process::{SOURCE_DIRTY, SOURCE_GONE};
pub use anchor::{NewAnchor, Placed, Selection, resolve};
pub use compare::diff::unified;
pub use git::{KnownSources, Repo, SourceGlobs, TipMarks, git_version, matches_any, work_tree};
pub use sources::creation::SOURCE_EXISTS;
pub use sources::source::{NOT_A_SOURCE, NOT_TEXT, Source};

/// The statements of this module, for the schema test.
pub fn statements() -> Vec<(&'static str, &'static str)> {
    let mut all = [
        anchor::row::STATEMENTS,
        proposals::attempt::STATEMENTS,
        changes::row::STATEMENTS,
        topics::message::STATEMENTS,
        topics::job_topics::STATEMENTS,
        sources::pending::STATEMENTS,
        perspectives::STATEMENTS,
        topics::placement::STATEMENTS,
        proposals::proposal::STATEMENTS,
        proposals::proposal::lineage::STATEMENTS,
        sources::rename::STATEMENTS,
        seen::STATEMENTS,
        sources::text::STATEMENTS,
        topics::topic::STATEMENTS,
        workspace::row::STATEMENTS,
    ]
    .concat();
    all.extend(search::statements());
    all
}
