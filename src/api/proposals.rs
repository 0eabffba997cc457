//! Proposals: complete texts for a Source that wait for a decision.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::api::sources::SourceState;
use crate::api::topics::{Placement, Topic};
use crate::base::{
    Actor, BlobId, JobId, MessageId, Millis, PersonId, ProposalId, SourcePath, TopicId, word_enum,
};

word_enum! {
    /// The status of a proposal.
    ProposalStatus {
        /// Undecided.
        Open = "open",
        /// Replaced by a later revision.
        Superseded = "superseded",
        /// Committed.
        Approved = "approved",
        /// Rejected by a person.
        Rejected = "rejected",
        /// The Source no longer is the version that it is based on.
        Stale = "stale",
        /// Its job did not succeed.
        Void = "void",
    }
}

/// A proposal without its text.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Proposal {
    /// Its id.
    pub id: ProposalId,
    /// The Topic that it resolves.
    pub topic_id: TopicId,
    /// That Topic and the additional ones that it resolves.
    pub topic_ids: Vec<TopicId>,
    /// Its number within the Topic, from 1.
    pub revision_number: i64,
    /// The job whose agent made it.
    pub job_id: Option<JobId>,
    /// The person who made it, or edited the agent's text; `None` for the agent itself.
    pub proposed_by: Option<PersonId>,
    /// The Source.
    pub source_path: SourcePath,
    /// The version that it is based on.
    pub base_source_sha: BlobId,
    /// The proposed version.
    pub proposed_sha: BlobId,
    /// SHA-256 of the text, which an approval must state.
    pub text_digest: String,
    /// Length of the text, in bytes.
    pub bytes: i64,
    /// The proposer's summary.
    pub summary: Option<String>,
    /// Its status.
    pub status: ProposalStatus,
    /// Who decided it.
    pub decided_by: Option<Actor>,
    /// Their name as it is shown; filled by a flow.
    pub decided_by_name: Option<String>,
    /// When it was decided.
    pub decided_at: Option<Millis>,
    /// The reason for the decision.
    pub reason: Option<String>,
    /// The commit that contains it.
    pub commit: Option<BlobId>,
    /// The earlier revision that it is based on.
    pub origin: Option<Origin>,
    /// The revision based on it.
    pub superseded_by: Option<ProposalId>,
    /// Whether it conflicts with the current version of its Source.
    pub has_conflict: bool,
    /// When it was made.
    pub created_at: Millis,
}

word_enum! {
    /// How a revision was made from an earlier one.
    How {
        /// An agent revised it according to a person's comment.
        Reworked = "reworked",
        /// A person edited the text.
        Edited = "edited",
        /// It was merged with a newer version of its Source.
        Merged = "merged",
    }
}

/// The revision that a proposal is based on.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "ProposalOrigin"))]
pub struct Origin {
    /// How it was made.
    pub how: How,
    /// The earlier proposal.
    pub from_id: ProposalId,
    /// Who edited it or requested the revision; the system for a merge.
    pub made_by: Actor,
    /// Their name as it is shown; filled by a flow.
    pub made_by_name: Option<String>,
}

/// Why a proposal cannot be rebased onto a newer version of its Source.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "ConflictStanding"))]
pub struct Standing {
    /// The newer version.
    pub current_sha: BlobId,
    /// When the conflict was found.
    pub found_at: Millis,
    /// The lines that both change.
    #[serde(flatten)]
    pub conflicts: Conflicts,
}

/// The conflicts of a merge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Conflicts {
    /// The first of them, in the order of the text.
    pub shown: Vec<Conflict>,
    /// How many there are in total.
    pub count: usize,
}

/// Lines that both sides changed differently. Long texts are cut and end in `…`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Conflict {
    /// The first of the lines in the current text, from 1.
    pub line: usize,
    /// The lines in the base.
    pub base: String,
    /// The lines in the current text.
    pub current: String,
    /// The lines in the proposed text.
    pub proposed: String,
}

/// What happens to one Topic.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Fate {
    /// The Topic.
    pub topic_id: TopicId,
    /// What it is called.
    pub title: String,
    /// The quoted passage; empty for a global Topic.
    pub quote: String,
    /// The placement in the base; `None` for a global Topic.
    pub before: Option<Placement>,
    /// The placement in the proposed text; `None` for a global Topic.
    pub after: Option<Placement>,
}

/// What an agent is shown of a proposal.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AgentProposal {
    /// The proposal.
    pub proposal: Proposal,
    /// Its whole text.
    pub text: String,
    /// What it changes in its base, as a unified diff.
    pub diff: String,
    /// What stands against merging it with its Source.
    pub conflict: Option<Standing>,
    /// What should be different, if it is to be done again.
    pub comment: Option<String>,
}

/// The answer of `POST /api/proposals/{id}/rework`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ReworkAccepted {
    /// The job that does it again.
    pub job_id: JobId,
    /// The proposal.
    pub proposal_id: ProposalId,
    /// Its Topic.
    pub topic_id: TopicId,
    /// What should be different, as a message of the Topic.
    pub message_id: MessageId,
    /// The place of that message.
    pub sequence: i64,
}

/// A proposal with all that a reviewer needs.
#[derive(Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProposalPage {
    pub proposal: Proposal,
    pub topic: Topic,
    pub further_topics: Vec<Topic>,
    pub revisions: Vec<Revision>,
    pub text: String,
    pub base_text: String,
    pub against: Option<Revision>,
    pub diff: String,
    pub fate: Vec<Fate>,
    pub base: Base,
    pub conflict: Option<Standing>,
    pub rework_job_id: Option<JobId>,
    pub subject: String,
    pub editors: Vec<String>,
    /// What is to be known of the approval by which it was committed.
    pub note: Option<String>,
    pub approvable: Approvable,
}

/// A revision of the same Topic.
#[derive(Clone, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Revision {
    pub id: ProposalId,
    pub revision_number: i64,
    pub status: ProposalStatus,
}

#[derive(Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Base {
    pub is_current: bool,
    pub head_blob: Option<BlobId>,
    pub state: Option<SourceState>,
}

/// Whether it could be approved now, and if not, what `POST …/approve` would say.
#[derive(Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Approvable {
    pub ok: bool,
    pub code: Option<String>,
    pub message: Option<String>,
    pub hint: Option<String>,
}

/// A proposal that was rejected.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Rejected {
    /// The proposal.
    #[serde(flatten)]
    pub proposal: Proposal,
    /// The job that was doing it again and was cancelled for that.
    pub cancelled_job_id: Option<JobId>,
}

/// What an approval came to.
#[derive(Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Approved {
    pub commit: BlobId,
    pub branch: String,
    pub already_committed: bool,
    /// What else is to be known of it: a file that somebody wrote to late.
    pub note: Option<String>,
    pub proposal: Proposal,
    /// What is open on the Source still, each with its place in the new text.
    pub still_open: Vec<Topic>,
    /// What became of the other open proposals for the Source.
    pub followed: Vec<Followed>,
    /// The jobs that worked for what is settled now, and were cancelled for that.
    pub cancelled_jobs: Vec<JobId>,
}

/// What became of an open proposal whose Source has changed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Followed {
    /// The proposal.
    pub proposal_id: ProposalId,
    /// `merged`, `conflict`, or `contained` if the Source has all of its change already.
    pub outcome: Cow<'static, str>,
    /// The revision that took its place, if it was merged.
    pub revision_id: Option<ProposalId>,
}

/// What `wb-agent insert-proposal` gets back.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Inserted {
    pub proposal_id: ProposalId,
    pub topic_id: TopicId,
    pub revision_number: i64,
    pub proposed_sha: BlobId,
    pub text_digest: String,
    pub fate: Vec<Fate>,
}
