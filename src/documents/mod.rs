//! Documents: what git holds, and what people and agents say and propose about it.
//!
//! **Invariant:** every call of git goes through `git::call`, and only `commit` and
//! `changes::restore` write to the user's index, working tree and branch.

pub mod anchor;
pub mod annotation;
pub mod attempt;
pub mod changes;
pub mod commit;
mod compare;
mod creation;
pub mod diff;
pub mod fate;
#[cfg(test)]
mod fixture;
pub mod git;
pub mod headings;
pub mod html;
pub mod merge;
pub mod message;
pub mod opened;
pub mod order;
pub mod pending;
pub mod perspective;
pub mod placement;
pub mod plain;
pub mod proposal;
pub mod redline;
pub mod rename;
pub mod search;
pub mod seen;
pub mod snapshot;
pub mod source;
pub mod suggestion;
pub mod text;
pub mod title;
pub mod topic;
mod word;
pub mod workspace;

pub use anchor::{NewAnchor, Placed, PlacementState, Selection, resolve};
pub use diff::unified;
pub use fate::Fate;
pub use git::{Repo, git_version, matches_any, work_tree};
pub use message::Message;
pub use placement::Placement;
pub use proposal::{Proposal, ProposalStatus};
pub use source::{Source, SourceState};
pub use topic::{Topic, TopicStatus};

/// The statements of this module, for the schema test.
pub fn statements() -> Vec<(&'static str, &'static str)> {
    let mut all = [
        anchor::row::STATEMENTS,
        attempt::STATEMENTS,
        changes::row::STATEMENTS,
        message::STATEMENTS,
        opened::STATEMENTS,
        pending::STATEMENTS,
        perspective::STATEMENTS,
        placement::STATEMENTS,
        proposal::STATEMENTS,
        proposal::lineage::STATEMENTS,
        rename::STATEMENTS,
        seen::STATEMENTS,
        text::STATEMENTS,
        topic::STATEMENTS,
        workspace::row::STATEMENTS,
    ]
    .concat();
    all.extend(search::statements());
    all
}
