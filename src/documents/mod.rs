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

pub use anchor::{NewAnchor, Placed, PlacementState, Selection, resolve};
pub use compare::diff::unified;
pub use git::{Repo, git_version, matches_any, work_tree};
pub use proposals::fate::Fate;
pub use proposals::proposal::{Proposal, ProposalStatus};
pub use sources::source::{Source, SourceState};
pub use topics::message::Message;
pub use topics::placement::Placement;
pub use topics::topic::{Topic, TopicStatus};

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
