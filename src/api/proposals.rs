//! Proposals: complete texts for a Source, awaiting a decision.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::api::jobs::Status;
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

impl Proposal {
    /// Returns whether nobody has decided it, and nothing has replaced it.
    pub fn is_open(&self) -> bool {
        self.status == ProposalStatus::Open
    }

    /// Returns whether approving it creates the Source.
    pub fn makes_source(&self) -> bool {
        self.base_source_sha.is_absent()
    }
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

/// The effect on one Topic.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Fate {
    /// The Topic.
    pub topic_id: TopicId,
    /// Its title.
    pub title: String,
    /// The quoted passage; empty for a global Topic.
    pub quote: String,
    /// The placement in the base; `None` for a global Topic.
    pub before: Option<Placement>,
    /// The placement in the proposed text; `None` for a global Topic.
    pub after: Option<Placement>,
}

/// A proposal as an agent sees it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AgentProposal {
    /// The proposal.
    pub proposal: Proposal,
    /// Its complete text.
    pub text: String,
    /// Its unified diff against the base.
    pub diff: String,
    /// What prevents a merge with its Source.
    pub conflict: Option<Standing>,
    /// The requested changes, if it is to be revised.
    pub comment: Option<String>,
}

/// The response of `POST /api/proposals/{id}/rework`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ReworkAccepted {
    /// The job that revises it.
    pub job_id: JobId,
    /// The proposal.
    pub proposal_id: ProposalId,
    /// Its Topic.
    pub topic_id: TopicId,
    /// The requested changes, as a message of the Topic.
    pub message_id: MessageId,
    /// The number of that message.
    pub sequence: i64,
}

/// A proposal with everything that a reviewer needs.
#[derive(Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProposalPage {
    /// The proposal.
    pub proposal: Proposal,
    /// Its Topic.
    pub topic: Topic,
    /// The other Topics that it resolves.
    pub further_topics: Vec<Topic>,
    /// All revisions of the Topic, oldest first.
    pub revisions: Vec<Revision>,
    /// The proposed text.
    pub text: String,
    /// The text that it is compared with.
    pub base_text: String,
    /// The revision that it is compared with; absent for the base.
    pub against: Option<Revision>,
    /// The unified diff between the two.
    pub diff: String,
    /// The effects on the other open Topics of the Source.
    pub fate: Vec<Fate>,
    /// The current state of the version that it is based on.
    pub base: Base,
    /// How it conflicts with the current version, if it does.
    pub conflict: Option<Standing>,
    /// The running job that revises it.
    pub rework_job_id: Option<JobId>,
    /// The failed job of the last request for changes, while nobody has decided.
    pub failed_rework: Option<FailedRework>,
    /// The default subject of its commit.
    pub subject: String,
    /// What it is called: as its Topic, or by what is proposed now if its job applies suggestions.
    pub title: String,
    /// The people who edited it, as `Name <address>`.
    pub editors: Vec<String>,
    /// The people whose own words applied suggestions are, as `Name <address>`, in order.
    pub suggesters: Vec<String>,
    /// A note about the approval by which it was committed.
    pub note: Option<String>,
    /// Whether it could be approved now.
    pub approvable: Approvable,
}

/// The job of a request for changes that failed.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FailedRework {
    /// The job.
    pub job_id: JobId,
    /// Its status.
    pub status: Status,
    /// The reason for that status.
    pub reason: Option<String>,
    /// The end of its standard error.
    pub error_tail: Option<String>,
}

/// A revision of the same Topic.
#[derive(Clone, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Revision {
    /// Its id.
    pub id: ProposalId,
    /// Its number within the Topic, from 1.
    pub revision_number: i64,
    /// Its status.
    pub status: ProposalStatus,
}

/// The version that a proposal was made from.
#[derive(Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Base {
    /// Whether it is the current version of the Source.
    pub is_current: bool,
    /// The version in the checked-out commit.
    pub head_blob: Option<BlobId>,
    /// The state of the Source in the working tree.
    pub state: Option<SourceState>,
}

/// Whether it could be approved now, and if not, the error of `POST …/approve`.
#[derive(Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Approvable {
    /// Whether it could.
    pub ok: bool,
    /// The code of the refusal.
    pub code: Option<String>,
    /// Its message.
    pub message: Option<String>,
    /// Its hint.
    pub hint: Option<String>,
}

/// A proposal that was rejected.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Rejected {
    /// The proposal.
    #[serde(flatten)]
    pub proposal: Proposal,
    /// The job that was revising it, which was cancelled.
    pub cancelled_job_id: Option<JobId>,
}

/// The result of an approval.
#[derive(Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Approved {
    /// The commit.
    pub commit: BlobId,
    /// The branch.
    pub branch: String,
    /// Whether the branch already had this text, so that no commit was made.
    pub already_committed: bool,
    /// A note, such as a late write to the replaced file.
    pub note: Option<String>,
    /// The proposal.
    pub proposal: Proposal,
    /// The open Topics of the Source, each with its place in the new text.
    pub still_open: Vec<Topic>,
    /// The effects on the other open proposals for the Source.
    pub followed: Vec<Followed>,
    /// The jobs that became unnecessary and were cancelled.
    pub cancelled_jobs: Vec<JobId>,
}

/// The result for an open proposal whose Source has changed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Followed {
    /// The proposal.
    pub proposal_id: ProposalId,
    /// `merged`, `conflict`, or `contained` if the Source already has its whole change.
    pub outcome: Cow<'static, str>,
    /// The revision that superseded it, if it was merged.
    pub revision_id: Option<ProposalId>,
}

/// The response to `wb-agent insert-proposal`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Inserted {
    /// The proposal.
    pub proposal_id: ProposalId,
    /// The Topic that it settles.
    pub topic_id: TopicId,
    /// Its number within the Topic.
    pub revision_number: i64,
    /// The version that it would become.
    pub proposed_sha: BlobId,
    /// SHA-256 of the text, which an approval must name.
    pub text_digest: String,
    /// Its effects on the other open Topics.
    pub fate: Vec<Fate>,
}
