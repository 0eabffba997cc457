//! What the flows answer, as the pages read it: the shapes of docs/http.md.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::base::{Error, JobId, Result};
use crate::http::pages::time::At;
use crate::http::pages::words;
use crate::script::{Config, Produces};

/// Returns a flow's answer in the shape that a page shows.
///
/// # Errors
/// `internal` if the answer has not the shape that docs/http.md gives it.
pub(super) fn read<T: DeserializeOwned>(answer: impl Serialize) -> Result<T> {
    serde_json::to_value(answer)
        .and_then(T::deserialize)
        .map_err(|cause| Error::internal("an answer has not its shape").source(cause))
}

/// One page of a list.
#[derive(Debug, Deserialize)]
pub(super) struct List<T> {
    pub(super) items: Vec<T>,
    pub(super) next: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct SourceRow {
    pub(super) path: String,
    pub(super) title: String,
    pub(super) state: String,
    pub(super) tracked: bool,
    pub(super) open_topics: i64,
}

#[derive(Debug, Deserialize)]
pub(super) struct SourceView {
    pub(super) path: String,
    pub(super) blob: String,
    pub(super) state: String,
    pub(super) text: String,
    pub(super) topics: Vec<Topic>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CommitRow {
    pub(super) commit: String,
    pub(super) at: At,
    pub(super) author: String,
    pub(super) subject: String,
    pub(super) approved_by: Option<String>,
    pub(super) renamed_from: Option<String>,
    pub(super) causes: Vec<Cause>,
}

impl CommitRow {
    /// Returns what a commit says of its approval if this site did not write it down.
    pub(super) fn claim(&self) -> Option<String> {
        self.approved_by.clone().filter(|_| self.causes.is_empty())
    }
}

/// A further Topic that a commit settled.
#[derive(Debug, Deserialize)]
pub(super) struct CauseTopic {
    pub(super) topic_id: String,
    pub(super) topic_title: String,
}

/// What caused a commit, as this site has it on record.
#[derive(Debug, Deserialize)]
pub(super) struct Cause {
    pub(super) proposal_id: String,
    pub(super) revision_number: i64,
    pub(super) topic_id: String,
    pub(super) topic_title: String,
    pub(super) further_topics: Vec<CauseTopic>,
    pub(super) job_id: Option<String>,
    pub(super) approver_name: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct History {
    pub(super) items: Vec<CommitRow>,
    pub(super) next: Option<String>,
    pub(super) is_shallow: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct Topic {
    pub(super) id: String,
    pub(super) source_path: String,
    pub(super) title: String,
    pub(super) status: String,
    pub(super) created_by_name: Option<String>,
    pub(super) created_at: At,
    pub(super) closed_at: Option<At>,
    pub(super) message_count: i64,
    pub(super) anchor: Option<Anchor>,
    pub(super) placement: Option<Placement>,
    #[serde(default)]
    pub(super) source_deleted: Option<Deletion>,
}

/// How the document of a Topic was deleted.
#[derive(Debug, Deserialize)]
pub(super) struct Deletion {
    is_committed: bool,
    commit: Option<String>,
}

impl Deletion {
    /// Returns it as a sentence.
    pub(super) fn sentence(&self) -> String {
        match &self.commit {
            Some(commit) => format!("The document was deleted in commit {}.", words::short(commit)),
            None if self.is_committed => "The document was deleted.".to_owned(),
            None => "The document is deleted, but the deletion is not committed.".to_owned(),
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Anchor {
    pub(super) quote: String,
    pub(super) heading_path: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Placement {
    pub(super) state: String,
    pub(super) blob: Option<String>,
    pub(super) start: Option<usize>,
    pub(super) end: Option<usize>,
}

#[derive(Debug, Deserialize)]
pub(super) struct TopicView {
    pub(super) topic: Topic,
    pub(super) messages: Vec<Message>,
    pub(super) proposals: Vec<Proposal>,
    pub(super) jobs: Vec<Job>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Message {
    pub(super) sequence: i64,
    pub(super) author: String,
    pub(super) author_name: Option<String>,
    pub(super) body: String,
    pub(super) proposal_id: Option<String>,
    pub(super) created_at: At,
}

#[derive(Debug, Deserialize)]
pub(super) struct Proposal {
    pub(super) id: String,
    pub(super) topic_id: String,
    pub(super) revision_number: i64,
    pub(super) job_id: Option<String>,
    pub(super) source_path: String,
    pub(super) base_source_sha: String,
    pub(super) proposed_sha: String,
    pub(super) text_digest: String,
    pub(super) summary: Option<String>,
    pub(super) status: String,
    pub(super) decided_by_name: Option<String>,
    pub(super) decided_at: Option<At>,
    pub(super) reason: Option<String>,
    pub(super) commit: Option<String>,
    pub(super) created_at: At,
    pub(super) origin: Option<Origin>,
    pub(super) superseded_by: Option<String>,
    pub(super) has_conflict: bool,
}

/// The earlier revision that a proposal was made from.
#[derive(Debug, Deserialize)]
pub(super) struct Origin {
    pub(super) how: String,
    pub(super) from_id: String,
    pub(super) made_by_name: Option<String>,
}

impl Proposal {
    /// Returns whether approving it makes the document.
    pub(super) fn makes_source(&self) -> bool {
        self.base_source_sha.bytes().all(|it| it == b'0')
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct ProposalView {
    pub(super) proposal: Proposal,
    pub(super) topic: Topic,
    pub(super) further_topics: Vec<Topic>,
    pub(super) revisions: Vec<Revision>,
    pub(super) against: Option<Revision>,
    pub(super) text: String,
    pub(super) base_text: String,
    pub(super) fate: Vec<Fate>,
    pub(super) base: Base,
    pub(super) conflict: Option<Conflict>,
    pub(super) rework_job_id: Option<String>,
    pub(super) subject: String,
    pub(super) editors: Vec<String>,
    pub(super) note: Option<String>,
    pub(super) approvable: Approvable,
}

impl ProposalView {
    /// Returns name and address of each co-author of the commit.
    pub(super) fn co_authors(&self) -> Vec<(&str, &str)> {
        let split = |editor: &'_ str| editor.rfind(" <").unwrap_or(editor.len());
        self.editors.iter().map(|editor| editor.split_at(split(editor))).collect()
    }
}

/// A revision of the same Topic.
#[derive(Debug, Deserialize)]
pub(super) struct Revision {
    pub(super) id: String,
    pub(super) revision_number: i64,
    pub(super) status: String,
}

/// What of the present document stands against a proposal.
#[derive(Debug, Deserialize)]
pub(super) struct Conflict {
    pub(super) shown: Vec<ConflictLines>,
    pub(super) count: i64,
}

/// Lines that both change.
#[derive(Debug, Deserialize)]
pub(super) struct ConflictLines {
    pub(super) line: i64,
    pub(super) current: String,
    pub(super) proposed: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Fate {
    pub(super) topic_id: String,
    pub(super) title: String,
    pub(super) quote: String,
    pub(super) before: Option<Placement>,
    pub(super) after: Option<Placement>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Base {
    pub(super) is_current: bool,
    pub(super) head_blob: Option<String>,
    pub(super) state: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Approvable {
    pub(super) ok: bool,
    pub(super) message: Option<String>,
    pub(super) hint: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Job {
    pub(super) id: String,
    pub(super) kind: String,
    pub(super) source_path: Option<String>,
    pub(super) topic_id: Option<String>,
    pub(super) status: String,
    pub(super) reason: Option<String>,
    pub(super) message: Option<String>,
    /// The message that started it.
    #[serde(default)]
    pub(super) message_id: Option<String>,
    pub(super) created_at: At,
    pub(super) started_at: Option<At>,
    pub(super) ending_at: Option<At>,
    pub(super) completed_at: Option<At>,
    pub(super) waiting: Option<Waiting>,
    pub(super) retry_at: Option<At>,
    pub(super) timeout_ms: Option<i64>,
    pub(super) exit_code: Option<i32>,
    pub(super) signal: Option<i32>,
    pub(super) error_tail: Option<String>,
    pub(super) lane: Option<String>,
    pub(super) retry_of: Option<String>,
    pub(super) waits_for: Option<String>,
    pub(super) requested_by: String,
    pub(super) requested_by_name: String,
    pub(super) cancelled_by_name: Option<String>,
    pub(super) persona_name: Option<String>,
    pub(super) start_ms: Option<i64>,
    pub(super) idle_ms: Option<i64>,
    pub(super) produces: Option<String>,
    pub(super) reads: Option<String>,
    pub(super) printed_at: Option<At>,
    pub(super) retried_as: Vec<String>,
    pub(super) usage: Option<Value>,
    pub(super) inputs: Map<String, Value>,
    pub(super) summary: Option<String>,
    #[serde(default)]
    result: Value,
    pub(super) warnings: Vec<String>,
    pub(super) proposal_id: Option<String>,
    #[serde(default)]
    pub(super) opened_topics: Vec<OpenedTopic>,
    pub(super) engine: Option<String>,
    pub(super) cost_usd: Option<f64>,
    #[serde(default)]
    pub(super) changes: Option<Changes>,
    #[serde(default)]
    pub(super) workspace: Option<Workspace>,
}

/// The folder of its own in which a job's agent works.
#[derive(Debug, Deserialize)]
pub(super) struct Workspace {
    pub(super) path: String,
    pub(super) state: String,
    pub(super) kept_ref: Option<String>,
    pub(super) note: Option<String>,
}

/// A Topic that a job opened.
#[derive(Debug, Deserialize)]
pub(super) struct OpenedTopic {
    pub(super) id: String,
    pub(super) source_path: String,
    pub(super) title: String,
}

/// What changed in the repository while a job ran.
#[derive(Debug, Deserialize)]
pub(super) struct Changes {
    pub(super) state: String,
    pub(super) items: Vec<ChangedItem>,
    pub(super) more: i64,
    pub(super) also_running: Vec<String>,
    pub(super) decided_by_name: Option<String>,
    pub(super) held_at: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ChangedItem {
    pub(super) name: String,
    pub(super) how: String,
    before: Value,
    after: Value,
}

impl ChangedItem {
    /// Returns from where to where it moved, of a branch or of what is checked out.
    pub(super) fn moved(&self) -> Option<String> {
        let word = |it: &Value| match it {
            Value::String(text) => Some(text.clone()),
            Value::Null => Some("nothing".to_owned()),
            _ => None,
        };
        Some(format!("{} → {}", word(&self.before)?, word(&self.after)?))
    }
}

/// Why a job waits.
#[derive(Debug, Deserialize)]
pub(super) struct Waiting {
    pub(super) code: String,
    pub(super) message: String,
    pub(super) until: Option<At>,
    pub(super) job_id: Option<JobId>,
    pub(super) job_kind: Option<String>,
    pub(super) job_started_at: Option<At>,
    /// What the job in the way does there.
    #[serde(skip)]
    pub(super) doing: &'static str,
}

impl Job {
    /// Returns what its agent handed in, as text.
    pub(super) fn result_text(&self) -> Option<String> {
        match &self.result {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(format!("{other:#}")),
        }
    }

    /// Notes what the job in its way does, as far as the script says.
    pub(super) fn look_at_other(&mut self, config: &Config) {
        let Some(waiting) = &mut self.waiting else { return };
        let kind = waiting.job_kind.as_ref().and_then(|it| config.kinds.get(it));
        waiting.doing = match kind.and_then(|it| it.produces) {
            Some(Produces::Proposal) => "is rewriting it",
            Some(Produces::Perspective) => "is making a view of it",
            Some(Produces::Message) => "is writing an answer",
            _ => "is at work on it",
        };
    }

    /// Returns whether it ended badly by itself.
    pub(super) fn has_failed(&self) -> bool {
        matches!(self.status.as_str(), "failed" | "timed_out")
    }

    /// Returns whether it waits for an approval, without a process.
    pub(super) fn is_parked(&self) -> bool {
        self.status == "parked"
    }

    /// Returns whether it has not ended.
    pub(super) fn is_active(&self) -> bool {
        matches!(self.status.as_str(), "queued" | "running")
    }
}
