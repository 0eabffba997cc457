//! Topics: open questions about documents, what is said in them, and where their words are.

use serde::{Deserialize, Serialize};

use crate::api::proposals::ProposalStatus;
use crate::api::sources::{BlockKind, Deletion};
use crate::base::{
    Actor, BlobId, JobId, MessageId, Millis, ProposalId, SourcePath, TopicId, word_enum,
};

word_enum! {
    /// Whether a Topic is still open, and if not, how it ended.
    TopicStatus {
        /// Under discussion.
        Open = "open",
        /// Settled by an approved proposal.
        Incorporated = "incorporated",
        /// Closed without a change.
        Discarded = "discarded",
    }
}

/// A Topic with its anchor, and where that is in the version that was asked for.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Topic {
    /// Its name.
    pub id: TopicId,
    /// The Source.
    pub source_path: SourcePath,
    /// Whether it is about the whole Source.
    pub is_global: bool,
    /// What it is called.
    pub title: String,
    /// Whether it is open.
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
    /// What it points at; none for a global one.
    pub anchor: Option<Anchor>,
    /// Where that is in the version that was asked for, if known.
    pub placement: Option<Placement>,
    /// How its Source was deleted, if it is open and that is not there; filled by a flow.
    pub source_deleted: Option<Deletion>,
}

word_enum! {
    /// How sure it is where the words of an anchor are in a version of the Source.
    PlacementState {
        /// Same text at the same offsets.
        Exact = "exact",
        /// Same text elsewhere.
        Shifted = "shifted",
        /// The words were edited where they stand.
        Edited = "edited",
        /// The words were moved, and perhaps edited.
        Moved = "moved",
        /// The words were replaced; a person has to look.
        Rewritten = "rewritten",
        /// There are two places of equal right.
        Ambiguous = "ambiguous",
        /// The words are gone.
        Orphaned = "orphaned",
    }
}

/// What a person pointed at; it never changes.
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
    /// The text between.
    pub quote: String,
}

/// The anchor of a Topic: its present words with their surroundings, and its origin.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Anchor {
    /// The words, as of the present baseline.
    pub quote: String,
    /// What stands before them.
    pub prefix: String,
    /// What stands after them.
    pub suffix: String,
    /// The headings above them, outermost first.
    pub heading_path: Vec<String>,
    /// The sort of block that they are in.
    pub block_kind: BlockKind,
    /// What the person pointed at.
    pub origin: Origin,
}

/// Where a Topic's words are in one version of the Source.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Placement {
    /// The version.
    pub blob: BlobId,
    /// How sure it is.
    pub state: PlacementState,
    /// First byte, if the words have a place.
    pub start: Option<usize>,
    /// Byte after the last.
    pub end: Option<usize>,
    /// 0.0 to 1.0.
    pub confidence: f64,
    /// Which step decided.
    pub method: String,
    /// Who decided.
    pub decided_by: Actor,
    /// Whether the version was in the working tree only when it was seen.
    #[serde(skip)]
    pub is_working: bool,
}

/// A message of a Topic.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Message {
    /// Its name.
    pub id: MessageId,
    /// The Topic.
    pub topic_id: TopicId,
    /// Its place in the Topic, from 1.
    pub sequence: i64,
    /// Who wrote it.
    pub author: Actor,
    /// Their name as it is shown; filled by a flow.
    pub author_name: Option<String>,
    /// The text.
    pub body: String,
    /// The proposal that it came with.
    pub proposal_id: Option<ProposalId>,
    /// When it was written.
    pub created_at: Millis,
}

/// A Topic that somebody opened.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OpenedTopic {
    /// The Topic.
    pub id: TopicId,
    /// The Source.
    pub source_path: SourcePath,
    /// What it is called.
    pub title: String,
    /// Whether it is open.
    pub status: TopicStatus,
}

/// What an agent is shown of its Topic.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AgentTopic {
    /// The Topic.
    pub topic: Topic,
    /// What it points at.
    pub anchor: Option<Anchor>,
    /// What was said in it.
    pub messages: Vec<Message>,
    /// The last proposals that are decided: why one was sent back.
    pub proposals: Vec<EarlierProposal>,
    /// What this job is to do again.
    pub rework: Option<ReworkAsked>,
}

/// A proposal that was decided, without its text.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EarlierProposal {
    /// Its name.
    pub id: ProposalId,
    /// Its number within the Topic.
    pub revision_number: i64,
    /// What became of it.
    pub status: ProposalStatus,
    /// What the proposer said about it.
    pub summary: Option<String>,
    /// Why it was decided so.
    pub reason: Option<String>,
    /// Who decided.
    pub decided_by_name: Option<String>,
    /// When.
    pub decided_at: Option<Millis>,
    /// The version that it was made from.
    pub base_source_sha: BlobId,
}

/// What a job is to do again.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ReworkAsked {
    /// The proposal.
    pub proposal_id: ProposalId,
    /// Its number within the Topic.
    pub revision_number: i64,
    /// What should be different.
    pub comment: String,
    /// Who asked.
    pub asked_by_name: String,
}

/// An open Topic as an agent is shown it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AgentOpenTopic {
    /// What it points at.
    pub anchor: Option<Anchor>,
    /// Where that is in the present text.
    pub placement: Option<Placement>,
    /// The Topic.
    pub topic: Topic,
}

/// A Topic that was closed without a change.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Discarded {
    /// The Topic.
    #[serde(flatten)]
    pub topic: Topic,
    /// The jobs that worked for it and were cancelled for that.
    pub cancelled_jobs: Vec<JobId>,
}
