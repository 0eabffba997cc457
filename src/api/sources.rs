//! Sources, and the commits that changed them.

use serde::{Deserialize, Serialize};

use crate::api::jobs::Holder;
use crate::api::topics::{Topic, TopicStatus};
use crate::base::{Actor, BlobId, JobId, Millis, ProposalId, SourcePath, TopicId, word_enum};

/// Whether a Source has uncommitted changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SourceState {
    /// Working tree and index match HEAD.
    Clean,
    /// The working tree or the index differs from HEAD.
    Modified,
    /// The site's globs match it but git does not track it: it is only listed.
    Untracked,
}

word_enum! {
    /// The kind of block that contains a piece of text.
    BlockKind {
        /// A paragraph outside lists, quotes and footnotes.
        Paragraph = "paragraph",
        /// A heading.
        Heading = "heading",
        /// An item of a list.
        ListItem = "list_item",
        /// A block of code.
        Code = "code",
        /// A table.
        Table = "table",
        /// A quotation.
        Quote = "quote",
        /// A footnote.
        Footnote = "footnote",
        /// HTML as a block.
        Html = "html",
        /// The YAML block at the top.
        FrontMatter = "front_matter",
        /// Between blocks.
        Other = "other",
    }
}

/// A heading.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Heading {
    /// 1 to 6.
    pub level: u8,
    /// Its text without markup.
    pub text: String,
    /// Its first byte in the text.
    pub start: usize,
}

/// How a Source was deleted.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Deletion {
    /// Whether the checked-out commit lacks it; otherwise only the working tree does.
    pub is_committed: bool,
    /// The commit that deleted it, if known.
    pub commit: Option<BlobId>,
}

/// A commit that changed a Source. Its approval is what the message claims.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HistoryEntry {
    /// The commit.
    pub commit: BlobId,
    /// When it was committed.
    pub at: Millis,
    /// The author's name.
    pub author: String,
    /// The first line of the message.
    pub subject: String,
    /// The trailer `Approved-by`.
    pub approved_by: Option<String>,
    /// The trailer `Topic`.
    pub topic_id: Option<TopicId>,
    /// The Source's path in this commit; filled when a page of the history is read.
    pub path: Option<SourcePath>,
    /// The path before this commit, if it renamed the Source.
    pub renamed_from: Option<String>,
}

/// An additional Topic that a commit resolved.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CauseTopic {
    /// Its id.
    pub topic_id: TopicId,
    /// Its title.
    pub topic_title: String,
    /// Whether it is open, and if not, how it ended.
    pub topic_status: TopicStatus,
}

/// The cause of a commit: an approved proposal of a Topic.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cause {
    /// The proposal.
    pub proposal_id: ProposalId,
    /// Its revision number within the Topic.
    pub revision_number: i64,
    /// Its Topic.
    pub topic_id: TopicId,
    /// The Topic's title.
    pub topic_title: String,
    /// The additional Topics that it resolved.
    pub further_topics: Vec<CauseTopic>,
    /// Whether it is open, and if not, how it ended.
    pub topic_status: TopicStatus,
    /// The job that wrote it, if any.
    pub job_id: Option<JobId>,
    /// Who approved it.
    pub approver: Actor,
    /// Their name as it is shown; filled by a flow.
    pub approver_name: Option<String>,
}

/// A Source in a list.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SourceRow {
    /// Its path below the root.
    pub path: SourcePath,
    /// Its title.
    pub title: String,
    /// The version in the working tree.
    pub blob: BlobId,
    /// Its state.
    pub state: SourceState,
    /// Whether git tracks it.
    pub tracked: bool,
    /// Number of open Topics on it.
    pub open_topics: i64,
}

/// A Source with its text and its open Topics.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SourceView {
    /// The job that holds it; absent if a job asks.
    pub holder: Option<Holder>,
    /// Its path below the root.
    pub path: SourcePath,
    /// The version in the working tree.
    pub blob: BlobId,
    /// The version in HEAD, if it is committed.
    pub head_blob: Option<BlobId>,
    /// Its state.
    pub state: SourceState,
    /// Its length.
    pub bytes: u64,
    /// Its headings.
    pub headings: Vec<Heading>,
    /// Its open Topics.
    pub topics: Vec<Topic>,
    /// The text in the working tree.
    pub text: String,
}

/// A commit and its causes.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HistoryRow {
    /// The commit as git has it.
    #[serde(flatten)]
    pub entry: HistoryEntry,
    /// The causes recorded by this site.
    pub causes: Vec<Cause>,
}

impl HistoryRow {
    /// Returns who approved the commit according to its message, if this site has no record of it.
    pub fn claimed_approver(&self) -> Option<&str> {
        self.entry.approved_by.as_deref().filter(|_| self.causes.is_empty())
    }
}

/// The commits that changed a Source, newest first.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "SourceHistory"))]
pub struct History {
    /// The commits.
    pub items: Vec<HistoryRow>,
    /// The cursor of the next page, if there is one.
    pub next: Option<String>,
    /// Whether the repository is a shallow clone, so that older commits may be missing.
    pub is_shallow: bool,
}
