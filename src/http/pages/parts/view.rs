//! Responses of flows as pages read them: the shapes of docs/http.md.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::api::instances::MonitorView;
use crate::base::{Error, JobId, Result};
use crate::flows::jobs::legs::Leg;
use crate::http::pages::parts::labels;
use crate::http::pages::parts::time::At;
use crate::script::{Config, Produces};

/// Converts a flow's response to the type that a page shows.
///
/// # Errors
/// `internal` if the answer has not the shape that docs/http.md gives it.
pub(in crate::http::pages) fn read<T: DeserializeOwned>(answer: impl Serialize) -> Result<T> {
    // As text, like the API's clients: a second serializer for each type would double their code.
    serde_json::to_vec(&answer)
        .and_then(|text| serde_json::from_slice(&text))
        .map_err(|cause| Error::internal("a response does not match its type").source(cause))
}

/// One page of a list.
#[derive(Debug, Deserialize)]
pub(in crate::http::pages) struct List<T> {
    pub(in crate::http::pages) items: Vec<T>,
    pub(in crate::http::pages) next: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(in crate::http::pages) struct SourceRow {
    pub(in crate::http::pages) path: String,
    pub(in crate::http::pages) title: String,
    pub(in crate::http::pages) state: String,
    pub(in crate::http::pages) tracked: bool,
    pub(in crate::http::pages) open_topics: i64,
}

#[derive(Debug, Deserialize)]
pub(in crate::http::pages) struct SourceView {
    pub(in crate::http::pages) path: String,
    pub(in crate::http::pages) blob: String,
    pub(in crate::http::pages) state: String,
    pub(in crate::http::pages) text: String,
    pub(in crate::http::pages) topics: Vec<Topic>,
}

#[derive(Debug, Deserialize)]
pub(in crate::http::pages) struct CommitRow {
    pub(in crate::http::pages) commit: String,
    pub(in crate::http::pages) at: At,
    pub(in crate::http::pages) author: String,
    pub(in crate::http::pages) subject: String,
    pub(in crate::http::pages) approved_by: Option<String>,
    pub(in crate::http::pages) renamed_from: Option<String>,
    pub(in crate::http::pages) causes: Vec<Cause>,
}

impl CommitRow {
    /// Returns a commit's claim of an approval, if this site has no record of it.
    pub(in crate::http::pages) fn claim(&self) -> Option<String> {
        self.approved_by.clone().filter(|_| self.causes.is_empty())
    }
}

/// A further Topic that a commit settled.
#[derive(Debug, Deserialize)]
pub(in crate::http::pages) struct CauseTopic {
    pub(in crate::http::pages) topic_id: String,
    pub(in crate::http::pages) topic_title: String,
}

/// The recorded cause of a commit.
#[derive(Debug, Deserialize)]
pub(in crate::http::pages) struct Cause {
    pub(in crate::http::pages) proposal_id: String,
    pub(in crate::http::pages) revision_number: i64,
    pub(in crate::http::pages) topic_id: String,
    pub(in crate::http::pages) topic_title: String,
    pub(in crate::http::pages) further_topics: Vec<CauseTopic>,
    pub(in crate::http::pages) job_id: Option<String>,
    pub(in crate::http::pages) approver_name: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(in crate::http::pages) struct History {
    pub(in crate::http::pages) items: Vec<CommitRow>,
    pub(in crate::http::pages) next: Option<String>,
    pub(in crate::http::pages) is_shallow: bool,
}

#[derive(Debug, Deserialize)]
pub(in crate::http::pages) struct Topic {
    pub(in crate::http::pages) id: String,
    pub(in crate::http::pages) source_path: String,
    pub(in crate::http::pages) title: String,
    pub(in crate::http::pages) status: String,
    pub(in crate::http::pages) created_by_name: Option<String>,
    pub(in crate::http::pages) created_at: At,
    pub(in crate::http::pages) closed_at: Option<At>,
    pub(in crate::http::pages) message_count: i64,
    pub(in crate::http::pages) anchor: Option<Anchor>,
    pub(in crate::http::pages) placement: Option<Placement>,
    #[serde(default)]
    pub(in crate::http::pages) source_deleted: Option<Deletion>,
}

/// How the document of a Topic was deleted.
#[derive(Debug, Deserialize)]
pub(in crate::http::pages) struct Deletion {
    is_committed: bool,
    commit: Option<String>,
}

impl Deletion {
    /// Returns it as a sentence.
    pub(in crate::http::pages) fn sentence(&self) -> String {
        match &self.commit {
            Some(commit) => {
                format!("The document was deleted in commit {}.", labels::short(commit))
            }
            None if self.is_committed => "The document was deleted.".to_owned(),
            None => "The document is deleted, but the deletion isn’t committed.".to_owned(),
        }
    }
}

#[derive(Debug, Deserialize)]
pub(in crate::http::pages) struct Anchor {
    pub(in crate::http::pages) quote: String,
    pub(in crate::http::pages) heading_path: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(in crate::http::pages) struct Placement {
    pub(in crate::http::pages) state: String,
    pub(in crate::http::pages) blob: Option<String>,
    pub(in crate::http::pages) start: Option<usize>,
    pub(in crate::http::pages) end: Option<usize>,
}

#[derive(Debug, Deserialize)]
pub(in crate::http::pages) struct TopicView {
    pub(in crate::http::pages) topic: Topic,
    pub(in crate::http::pages) messages: Vec<Message>,
    pub(in crate::http::pages) proposals: Vec<Proposal>,
    pub(in crate::http::pages) jobs: Vec<Job>,
}

#[derive(Debug, Deserialize)]
pub(in crate::http::pages) struct Message {
    pub(in crate::http::pages) sequence: i64,
    pub(in crate::http::pages) author: String,
    pub(in crate::http::pages) author_name: Option<String>,
    pub(in crate::http::pages) body: String,
    pub(in crate::http::pages) proposal_id: Option<String>,
    pub(in crate::http::pages) created_at: At,
}

#[derive(Debug, Deserialize)]
pub(in crate::http::pages) struct Proposal {
    pub(in crate::http::pages) id: String,
    pub(in crate::http::pages) topic_id: String,
    pub(in crate::http::pages) revision_number: i64,
    pub(in crate::http::pages) job_id: Option<String>,
    pub(in crate::http::pages) source_path: String,
    pub(in crate::http::pages) base_source_sha: String,
    pub(in crate::http::pages) proposed_sha: String,
    pub(in crate::http::pages) text_digest: String,
    pub(in crate::http::pages) summary: Option<String>,
    pub(in crate::http::pages) status: String,
    pub(in crate::http::pages) decided_by_name: Option<String>,
    pub(in crate::http::pages) decided_at: Option<At>,
    pub(in crate::http::pages) reason: Option<String>,
    pub(in crate::http::pages) commit: Option<String>,
    pub(in crate::http::pages) created_at: At,
    pub(in crate::http::pages) origin: Option<Origin>,
    pub(in crate::http::pages) superseded_by: Option<String>,
    pub(in crate::http::pages) has_conflict: bool,
}

/// The earlier revision that a proposal is based on.
#[derive(Debug, Deserialize)]
pub(in crate::http::pages) struct Origin {
    pub(in crate::http::pages) how: String,
    pub(in crate::http::pages) from_id: String,
    pub(in crate::http::pages) made_by_name: Option<String>,
}

impl Proposal {
    /// Returns whether approving it creates the document.
    pub(in crate::http::pages) fn makes_source(&self) -> bool {
        self.base_source_sha.bytes().all(|it| it == b'0')
    }
}

#[derive(Debug, Deserialize)]
pub(in crate::http::pages) struct ProposalView {
    pub(in crate::http::pages) proposal: Proposal,
    pub(in crate::http::pages) topic: Topic,
    pub(in crate::http::pages) further_topics: Vec<Topic>,
    pub(in crate::http::pages) revisions: Vec<Revision>,
    pub(in crate::http::pages) against: Option<Revision>,
    pub(in crate::http::pages) text: String,
    pub(in crate::http::pages) base_text: String,
    pub(in crate::http::pages) fate: Vec<Fate>,
    pub(in crate::http::pages) base: Base,
    pub(in crate::http::pages) conflict: Option<Conflict>,
    pub(in crate::http::pages) rework_job_id: Option<String>,
    pub(in crate::http::pages) failed_rework: Option<FailedRework>,
    pub(in crate::http::pages) subject: String,
    pub(in crate::http::pages) title: String,
    pub(in crate::http::pages) editors: Vec<String>,
    pub(in crate::http::pages) suggesters: Vec<String>,
    pub(in crate::http::pages) note: Option<String>,
    pub(in crate::http::pages) approvable: Approvable,
}

impl ProposalView {
    /// Returns name and address of each co-author of the commit.
    pub(in crate::http::pages) fn co_authors(&self) -> Vec<(&str, &str)> {
        self.editors.iter().map(|editor| name_and_address(editor)).collect()
    }

    /// Returns names and addresses of the people whose own words it is.
    pub(in crate::http::pages) fn suggested_by(&self) -> Vec<(&str, &str)> {
        self.suggesters.iter().map(|suggester| name_and_address(suggester)).collect()
    }
}

fn name_and_address(trailer: &str) -> (&str, &str) {
    trailer.split_at(trailer.rfind(" <").unwrap_or(trailer.len()))
}

/// The failed job of a request for changes.
#[derive(Debug, Deserialize)]
pub(in crate::http::pages) struct FailedRework {
    pub(in crate::http::pages) job_id: String,
    pub(in crate::http::pages) status: String,
    pub(in crate::http::pages) error_tail: Option<String>,
}

/// A revision of the same Topic.
#[derive(Debug, Deserialize)]
pub(in crate::http::pages) struct Revision {
    pub(in crate::http::pages) id: String,
    pub(in crate::http::pages) revision_number: i64,
    pub(in crate::http::pages) status: String,
}

/// How a proposal conflicts with the current document.
#[derive(Debug, Deserialize)]
pub(in crate::http::pages) struct Conflict {
    pub(in crate::http::pages) shown: Vec<ConflictLines>,
    pub(in crate::http::pages) count: i64,
}

/// Lines that both sides changed.
#[derive(Debug, Deserialize)]
pub(in crate::http::pages) struct ConflictLines {
    pub(in crate::http::pages) line: i64,
    pub(in crate::http::pages) current: String,
    pub(in crate::http::pages) proposed: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(in crate::http::pages) struct Fate {
    pub(in crate::http::pages) topic_id: String,
    pub(in crate::http::pages) title: String,
    pub(in crate::http::pages) quote: String,
    pub(in crate::http::pages) before: Option<Placement>,
    pub(in crate::http::pages) after: Option<Placement>,
}

#[derive(Debug, Deserialize)]
pub(in crate::http::pages) struct Base {
    pub(in crate::http::pages) is_current: bool,
    pub(in crate::http::pages) head_blob: Option<String>,
    pub(in crate::http::pages) state: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(in crate::http::pages) struct Approvable {
    pub(in crate::http::pages) ok: bool,
    pub(in crate::http::pages) message: Option<String>,
    pub(in crate::http::pages) hint: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(in crate::http::pages) struct Job {
    pub(in crate::http::pages) id: String,
    pub(in crate::http::pages) kind: String,
    pub(in crate::http::pages) source_path: Option<String>,
    pub(in crate::http::pages) topic_id: Option<String>,
    pub(in crate::http::pages) status: String,
    pub(in crate::http::pages) reason: Option<String>,
    pub(in crate::http::pages) message: Option<String>,
    /// The message that started it.
    #[serde(default)]
    pub(in crate::http::pages) message_id: Option<String>,
    pub(in crate::http::pages) created_at: At,
    pub(in crate::http::pages) started_at: Option<At>,
    pub(in crate::http::pages) ending_at: Option<At>,
    pub(in crate::http::pages) completed_at: Option<At>,
    pub(in crate::http::pages) waiting: Option<Waiting>,
    pub(in crate::http::pages) retry_at: Option<At>,
    pub(in crate::http::pages) timeout_ms: Option<i64>,
    pub(in crate::http::pages) exit_code: Option<i32>,
    pub(in crate::http::pages) signal: Option<i32>,
    pub(in crate::http::pages) error_tail: Option<String>,
    pub(in crate::http::pages) lane: Option<String>,
    pub(in crate::http::pages) retry_of: Option<String>,
    pub(in crate::http::pages) waits_for: Option<String>,
    pub(in crate::http::pages) unanswered_at: Option<At>,
    #[serde(default)]
    pub(in crate::http::pages) environment: Vec<String>,
    pub(in crate::http::pages) requested_by: String,
    pub(in crate::http::pages) requested_by_name: String,
    pub(in crate::http::pages) cancelled_by_name: Option<String>,
    pub(in crate::http::pages) persona_name: Option<String>,
    pub(in crate::http::pages) start_ms: Option<i64>,
    pub(in crate::http::pages) idle_ms: Option<i64>,
    pub(in crate::http::pages) produces: Option<String>,
    pub(in crate::http::pages) reads: Option<String>,
    pub(in crate::http::pages) printed_at: Option<At>,
    pub(in crate::http::pages) retried_as: Vec<String>,
    #[serde(default)]
    pub(in crate::http::pages) legs: Vec<Leg>,
    pub(in crate::http::pages) usage: Option<Value>,
    pub(in crate::http::pages) inputs: Map<String, Value>,
    pub(in crate::http::pages) summary: Option<String>,
    #[serde(default)]
    result: Value,
    pub(in crate::http::pages) warnings: Vec<String>,
    pub(in crate::http::pages) proposal_id: Option<String>,
    #[serde(default)]
    pub(in crate::http::pages) opened_topics: Vec<OpenedTopic>,
    pub(in crate::http::pages) engine: Option<String>,
    pub(in crate::http::pages) cost_usd: Option<f64>,
    #[serde(default)]
    pub(in crate::http::pages) changes: Option<Changes>,
    #[serde(default)]
    pub(in crate::http::pages) workspace: Option<Workspace>,
    #[serde(default)]
    pub(in crate::http::pages) monitor_of: Option<String>,
    #[serde(default)]
    pub(in crate::http::pages) monitor: Option<MonitorView>,
}

/// The workspace of a job's agent.
#[derive(Debug, Deserialize)]
pub(in crate::http::pages) struct Workspace {
    pub(in crate::http::pages) path: String,
    pub(in crate::http::pages) state: String,
    pub(in crate::http::pages) kept_ref: Option<String>,
    pub(in crate::http::pages) note: Option<String>,
}

/// A Topic that a job opened.
#[derive(Debug, Deserialize)]
pub(in crate::http::pages) struct OpenedTopic {
    pub(in crate::http::pages) id: String,
    pub(in crate::http::pages) source_path: String,
    pub(in crate::http::pages) title: String,
}

/// Changes of the repository while a job ran.
#[derive(Debug, Deserialize)]
pub(in crate::http::pages) struct Changes {
    pub(in crate::http::pages) state: String,
    pub(in crate::http::pages) items: Vec<ChangedItem>,
    pub(in crate::http::pages) more: i64,
    pub(in crate::http::pages) also_running: Vec<String>,
    pub(in crate::http::pages) decided_by_name: Option<String>,
    pub(in crate::http::pages) held_at: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(in crate::http::pages) struct ChangedItem {
    pub(in crate::http::pages) name: String,
    pub(in crate::http::pages) how: String,
    before: Value,
    after: Value,
}

impl ChangedItem {
    /// Returns the move of a branch or of `HEAD`: from and to.
    pub(in crate::http::pages) fn moved(&self) -> Option<String> {
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
pub(in crate::http::pages) struct Waiting {
    pub(in crate::http::pages) code: String,
    pub(in crate::http::pages) message: String,
    pub(in crate::http::pages) until: Option<At>,
    pub(in crate::http::pages) job_id: Option<JobId>,
    pub(in crate::http::pages) job_kind: Option<String>,
    pub(in crate::http::pages) job_started_at: Option<At>,
    /// What the blocking job does.
    #[serde(skip)]
    pub(in crate::http::pages) doing: &'static str,
}

impl Job {
    /// Returns whether the job is the start of a long-running agent, which nobody retries.
    pub(in crate::http::pages) fn is_start_of_agent(&self) -> bool {
        self.kind.starts_with('@')
    }

    /// Returns whether it can be run again: it is neither the start of a long-running agent nor a
    /// monitor, which starts with the run that it watches.
    pub(in crate::http::pages) fn can_run_again(&self) -> bool {
        !self.is_start_of_agent() && self.monitor_of.is_none()
    }

    /// Returns the result that its agent submitted, as text.
    pub(in crate::http::pages) fn result_text(&self) -> Option<String> {
        match &self.result {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(format!("{other:#}")),
        }
    }

    /// Adds what the blocking job does, as described in the script.
    pub(in crate::http::pages) fn look_at_other(&mut self, config: &Config) {
        let Some(waiting) = &mut self.waiting else { return };
        let kind = waiting.job_kind.as_ref().and_then(|it| config.kinds.get(it));
        waiting.doing = match kind.and_then(|it| it.produces) {
            Some(Produces::Proposal) => "is rewriting it",
            Some(Produces::Perspective) => "is generating a view of it",
            Some(Produces::Message) => "is writing a reply",
            _ => "is working on it",
        };
    }

    /// Returns whether it failed by itself.
    pub(in crate::http::pages) fn has_failed(&self) -> bool {
        matches!(self.status.as_str(), "failed" | "timed_out")
    }

    /// Returns whether it is parked.
    pub(in crate::http::pages) fn is_parked(&self) -> bool {
        self.status == "parked"
    }

    /// Returns whether it has not ended.
    pub(in crate::http::pages) fn is_active(&self) -> bool {
        matches!(self.status.as_str(), "queued" | "running")
    }
}
