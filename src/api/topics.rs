//! Topics: threads about documents, their messages, and the places of their passages.

use serde::{Deserialize, Serialize};

use crate::api::proposals::ProposalStatus;
use crate::api::sources::{BlockKind, Deletion};
use crate::base::{
    Actor, BlobId, JobId, MessageId, Millis, ProposalId, SourcePath, TopicId, word_enum,
};

word_enum! {
    /// The status of a Topic.
    TopicStatus {
        /// Under discussion.
        Open = "open",
        /// Resolved by an approved proposal.
        Incorporated = "incorporated",
        /// Closed without a change.
        Discarded = "discarded",
    }
}

/// A Topic with its anchor and its placement in the requested version.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Topic {
    /// Its id.
    pub id: TopicId,
    /// The Source.
    pub source_path: SourcePath,
    /// Whether it is about the whole Source.
    pub is_global: bool,
    /// Its title.
    pub title: String,
    /// Its status.
    pub status: TopicStatus,
    /// Who opened it.
    pub created_by: Actor,
    /// Their name as it is shown; filled by a flow.
    pub created_by_name: Option<String>,
    /// When it was opened.
    pub created_at: Millis,
    /// When it was closed.
    pub closed_at: Option<Millis>,
    /// How many messages it has.
    pub message_count: i64,
    /// Its anchor; `None` for a global Topic.
    pub anchor: Option<Anchor>,
    /// Its placement in the requested version, if known.
    pub placement: Option<Placement>,
    /// How its Source was deleted, if it is open and the Source is gone; filled by a flow.
    pub source_deleted: Option<Deletion>,
}

impl Topic {
    /// Returns whether it is under discussion.
    pub fn is_open(&self) -> bool {
        self.status == TopicStatus::Open
    }
}

word_enum! {
    /// How certain the place of a passage in a version of the Source is.
    PlacementState {
        /// Same text at the same offsets.
        Exact = "exact",
        /// Same text elsewhere.
        Shifted = "shifted",
        /// The words were edited in place.
        Edited = "edited",
        /// The words were moved, and possibly edited.
        Moved = "moved",
        /// The words were replaced; a person must check.
        Rewritten = "rewritten",
        /// There are two equally good places.
        Ambiguous = "ambiguous",
        /// The words are gone.
        Orphaned = "orphaned",
    }
}

/// What a person originally selected; it never changes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "AnchorOrigin"))]
pub struct Origin {
    /// The version of the Source.
    pub blob: BlobId,
    /// First byte.
    pub start: usize,
    /// Byte after the last.
    pub end: usize,
    /// The selected text.
    pub quote: String,
}

/// The anchor of a Topic: its current words with context, and its origin.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Anchor {
    /// The words in the current baseline.
    pub quote: String,
    /// The text before them.
    pub prefix: String,
    /// The text after them.
    pub suffix: String,
    /// The headings above them, outermost first.
    pub heading_path: Vec<String>,
    /// The kind of block that contains them.
    pub block_kind: BlockKind,
    /// What the person originally selected.
    pub origin: Origin,
}

/// The place of a Topic's passage in one version of the Source.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Placement {
    /// The version.
    pub blob: BlobId,
    /// How certain it is.
    pub state: PlacementState,
    /// First byte, if the passage has a place.
    pub start: Option<usize>,
    /// Byte after the last.
    pub end: Option<usize>,
    /// Confidence, 0.0 to 1.0.
    pub confidence: f64,
    /// The step that decided.
    pub method: String,
    /// Who decided.
    pub decided_by: Actor,
    /// Whether the version was only in the working tree when it was scanned.
    #[serde(skip)]
    pub is_working: bool,
}

/// A message in a Topic.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Message {
    /// Its id.
    pub id: MessageId,
    /// The Topic.
    pub topic_id: TopicId,
    /// Its position in the Topic, from 1.
    pub sequence: i64,
    /// Who wrote it.
    pub author: Actor,
    /// Their name as it is shown; filled by a flow.
    pub author_name: Option<String>,
    /// The text.
    pub body: String,
    /// The proposal with which it was submitted.
    pub proposal_id: Option<ProposalId>,
    /// When it was written.
    pub created_at: Millis,
}

/// A Topic opened by an actor.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OpenedTopic {
    /// The Topic.
    pub id: TopicId,
    /// The Source.
    pub source_path: SourcePath,
    /// Its title.
    pub title: String,
    /// Its status.
    pub status: TopicStatus,
}

/// A job's Topic, as its agent sees it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AgentTopic {
    /// The Topic.
    pub topic: Topic,
    /// Its anchor and placement.
    pub anchor: Option<Anchor>,
    /// Its messages.
    pub messages: Vec<Message>,
    /// The last decided proposals, with the reasons.
    pub proposals: Vec<EarlierProposal>,
    /// What this job has to revise.
    pub rework: Option<ReworkAsked>,
}

/// A decided proposal, without its text.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EarlierProposal {
    /// Its id.
    pub id: ProposalId,
    /// Its number within the Topic.
    pub revision_number: i64,
    /// Its status.
    pub status: ProposalStatus,
    /// The proposer's summary.
    pub summary: Option<String>,
    /// The reason for the decision.
    pub reason: Option<String>,
    /// Who decided.
    pub decided_by_name: Option<String>,
    /// When.
    pub decided_at: Option<Millis>,
    /// The version that it is based on.
    pub base_source_sha: BlobId,
}

/// What a job has to revise.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ReworkAsked {
    /// The proposal.
    pub proposal_id: ProposalId,
    /// Its number within the Topic.
    pub revision_number: i64,
    /// The requested changes.
    pub comment: String,
    /// The requester.
    pub asked_by_name: String,
    /// The text to propose, for the engine that applies suggestions: if the proposal was edited.
    #[serde(default)]
    pub revised: Option<RevisedText>,
}

/// The edits of a proposal, with a suggestion in the place of its passage.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RevisedText {
    /// The version of the Source that it is for.
    pub source_sha: BlobId,
    /// The complete text.
    pub text: String,
    /// Whether edits are missing in it, because their lines have changed otherwise.
    pub is_partial: bool,
}

/// An open Topic as an agent sees it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AgentOpenTopic {
    /// Its anchor.
    pub anchor: Option<Anchor>,
    /// Its placement in the current text.
    pub placement: Option<Placement>,
    /// The Topic.
    pub topic: Topic,
}

/// The response to closing a Topic without a change.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Discarded {
    /// The Topic.
    #[serde(flatten)]
    pub topic: Topic,
    /// The jobs for it, which were cancelled.
    pub cancelled_jobs: Vec<JobId>,
}
