//! Proposals: complete texts for a Source that wait for a decision.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::api::sources::SourceState;
use crate::api::topics::{Placement, Topic};
use crate::base::{
    Actor, BlobId, JobId, MessageId, Millis, PersonId, ProposalId, SourcePath, TopicId, word_enum,
};

word_enum! {
    /// Whether a proposal can still be decided, and if not, what became of it.
    ProposalStatus {
        /// Not decided.
        Open = "open",
        /// A later revision took its place.
        Superseded = "superseded",
        /// Committed.
        Approved = "approved",
        /// Refused by a person.
        Rejected = "rejected",
        /// The Source is no longer the one that it was made from.
        Stale = "stale",
        /// Its job did not succeed.
        Void = "void",
    }
}

/// A proposal without its text.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Proposal {
    /// Its name.
    pub id: ProposalId,
    /// The Topic that it settles.
    pub topic_id: TopicId,
    /// That Topic and the further ones that it settles.
    pub topic_ids: Vec<TopicId>,
    /// Its number within the Topic, from 1.
    pub revision_number: i64,
    /// The job whose agent made it.
    pub job_id: Option<JobId>,
    /// The person who made it, or edited what the agent of the job made; none means that agent.
    pub proposed_by: Option<PersonId>,
    /// The Source.
    pub source_path: SourcePath,
    /// The version that it was made from.
    pub base_source_sha: BlobId,
    /// The version that it would be.
    pub proposed_sha: BlobId,
    /// SHA-256 of the text: what an approval must name.
    pub text_digest: String,
    /// Length of the text.
    pub bytes: i64,
    /// What the proposer says about it.
    pub summary: Option<String>,
    /// Whether it can be decided.
    pub status: ProposalStatus,
    /// Who decided.
    pub decided_by: Option<Actor>,
    /// Their name as it is shown; filled by a flow.
    pub decided_by_name: Option<String>,
    /// When it was decided.
    pub decided_at: Option<Millis>,
    /// Why it was decided so.
    pub reason: Option<String>,
    /// The commit that it became.
    pub commit: Option<BlobId>,
    /// The earlier revision that it was made from.
    pub origin: Option<Origin>,
    /// The revision that was made from it.
    pub superseded_by: Option<ProposalId>,
    /// Whether it cannot be merged with what its Source has become.
    pub has_conflict: bool,
    /// When it was made.
    pub created_at: Millis,
}

word_enum! {
    /// How a revision was made from an earlier one.
    How {
        /// An agent did it again, with a person's comment.
        Reworked = "reworked",
        /// A person changed the text.
        Edited = "edited",
        /// It was merged with what its Source has become.
        Merged = "merged",
    }
}

/// The revision that a proposal was made from.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "ProposalOrigin"))]
pub struct Origin {
    /// How.
    pub how: How,
    /// The earlier proposal.
    pub from_id: ProposalId,
    /// Who edited it, or asked for the rework; the system for a merge.
    pub made_by: Actor,
    /// Their name as it is shown; filled by a flow.
    pub made_by_name: Option<String>,
}

/// Why a proposal cannot be brought onto a newer version of its Source.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "ConflictStanding"))]
pub struct Standing {
    /// That version.
    pub current_sha: BlobId,
    /// When that was found.
    pub found_at: Millis,
    /// The lines that both change.
    #[serde(flatten)]
    pub conflicts: Conflicts,
}

/// What cannot be merged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Conflicts {
    /// The first of them, in the order of the text.
    pub shown: Vec<Conflict>,
    /// How many there are in all.
    pub count: usize,
}

/// Lines that both texts change, each in its own way. A longer text is cut and ends in `…`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Conflict {
    /// The first of the lines in the present text, from 1.
    pub line: usize,
    /// What the base has there.
    pub base: String,
    /// What the present text has.
    pub current: String,
    /// What the proposed text has.
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
    /// The words that it is about; empty for a global one.
    pub quote: String,
    /// Where they are in the base; none for a global Topic.
    pub before: Option<Placement>,
    /// Where they would be; none for a global Topic.
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
    /// The proposal.
    pub proposal: Proposal,
    /// The Topic.
    pub topic: Topic,
    /// The further Topics that it settles.
    pub further_topics: Vec<Topic>,
    /// All revisions of the Topic.
    pub revisions: Vec<Revision>,
    /// The whole proposed text.
    pub text: String,
    /// The text that it was made from.
    pub base_text: String,
    /// The revision that the diff is against, if not the base.
    pub against: Option<Revision>,
    /// What it changes, as a unified diff.
    pub diff: String,
    /// What it does to the other open Topics.
    pub fate: Vec<Fate>,
    /// The version that it was made from.
    pub base: Base,
    /// What of the present Source stands against it.
    pub conflict: Option<Standing>,
    /// The job that does it again.
    pub rework_job_id: Option<JobId>,
    /// The subject of its commit, if the approver gives none.
    pub subject: String,
    /// Who has edited it, as trailers name them.
    pub editors: Vec<String>,
    /// What is to be known of the approval by which it was committed.
    pub note: Option<String>,
    /// Whether it could be approved now.
    pub approvable: Approvable,
}

/// A revision of the same Topic.
#[derive(Clone, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Revision {
    /// Its name.
    pub id: ProposalId,
    /// Its number within the Topic.
    pub revision_number: i64,
    /// Whether it can be decided.
    pub status: ProposalStatus,
}

/// The version that a proposal was made from.
#[derive(Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Base {
    /// Whether it is still that of the Source.
    pub is_current: bool,
    /// The version in HEAD.
    pub head_blob: Option<BlobId>,
    /// Whether the Source has changes that are not committed.
    pub state: Option<SourceState>,
}

/// Whether it could be approved now, and if not, what `POST …/approve` would say.
#[derive(Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Approvable {
    /// Whether it could.
    pub ok: bool,
    /// A stable word for why not.
    pub code: Option<String>,
    /// The same for a person.
    pub message: Option<String>,
    /// What to do about it.
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
    /// The commit.
    pub commit: BlobId,
    /// The branch that has it.
    pub branch: String,
    /// Whether it was there before this request.
    pub already_committed: bool,
    /// What else is to be known of it: a file that somebody wrote to late.
    pub note: Option<String>,
    /// The proposal.
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
    /// The proposal.
    pub proposal_id: ProposalId,
    /// The Topic that it settles.
    pub topic_id: TopicId,
    /// Its number within the Topic.
    pub revision_number: i64,
    /// The version that it would be.
    pub proposed_sha: BlobId,
    /// SHA-256 of the text: what an approval must name.
    pub text_digest: String,
    /// What it does to the other open Topics.
    pub fate: Vec<Fate>,
}
