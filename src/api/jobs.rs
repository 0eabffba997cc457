//! Jobs: their state, why they wait, and their usage.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::{JobId, Millis, ProposalId, TopicId};

/// The status of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Accepted; nothing was started.
    Queued,
    /// Claimed; it holds its lane until it is settled.
    Running,
    /// Waiting for a person's decision, without a process or a place in its lane.
    Parked,
    /// Ended and produced what it promised.
    Succeeded,
    /// Ended without it.
    Failed,
    /// Ended by a timeout.
    TimedOut,
    /// Cancelled by a person.
    Cancelled,
}

/// Why a job waits.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Waiting {
    /// A stable word: `kind_gone`, `inbox_gone`, `kind_changed`, `not_before`, `lane_busy`,
    /// `lane_order`, `engine_held`, `daily_cap`, `kind_cap`, `jobs_cap`, `agents_cap`, `chat_cap`,
    /// `chat_asks`, `unseen`, `turn`, `look` or `decision`.
    pub code: Cow<'static, str>,
    /// The same for a person, without a full stop.
    pub message: String,
    /// Until when, if known.
    pub until: Option<Millis>,
    /// The blocking job, if any.
    pub job_id: Option<JobId>,
    /// The kind of the job that holds the lane, or precedes it there.
    pub job_kind: Option<String>,
    /// When that job was started, if it is running.
    pub job_started_at: Option<Millis>,
}

/// Sums over settled jobs.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Usage {
    /// The group: a day like `2026-01-02`, a kind, an actor, an engine; empty for the total.
    pub name: String,
    /// Jobs that were started.
    pub jobs: i64,
    /// Those that succeeded.
    pub succeeded: i64,
    /// Those that failed.
    pub failed: i64,
    /// Those that timed out.
    pub timed_out: i64,
    /// Those that were cancelled.
    pub cancelled: i64,
    /// Those failed because of a rate limit.
    pub rate_limited: i64,
    /// Input tokens, without cached ones.
    pub input_tokens: i64,
    /// Cached input tokens.
    pub cached_tokens: i64,
    /// Output tokens.
    pub output_tokens: i64,
    /// US dollars, as reported by the agents.
    pub cost_usd: f64,
    /// Milliseconds from start to end; for long-lived agents, of their turns.
    pub agent_ms: i64,
}

/// Deleted bytes of an output.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cut {
    /// The first of them.
    pub from: u64,
    /// One past the last.
    pub to: u64,
}

/// A part of an agent's output.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LogText {
    /// `stdout` or `stderr`.
    pub stream: String,
    /// The offset of the text.
    pub offset: u64,
    /// The offset of the next part.
    pub next_offset: u64,
    /// The size of the output so far.
    pub total: u64,
    /// The text.
    pub text: String,
    /// The deleted bytes.
    pub cut: Option<Cut>,
    /// Whether more may follow.
    pub running: bool,
}

/// An agent's transcript.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Transcript {
    /// Its telemetry; docs/http.md describes the entries.
    pub items: Vec<Value>,
    /// The number of the last entry, if there is one.
    pub next: Option<u64>,
}

/// The prompt of a job.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Prompt {
    /// The text.
    pub prompt: String,
}

/// The response to a request for a job.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "JobAccepted"))]
pub struct Accepted {
    /// The job.
    pub id: JobId,
    /// The same.
    pub job_id: JobId,
    /// Other open work on its Source.
    pub also_open: Option<AlsoOpen>,
}

/// The response to a retry.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "JobRepeated"))]
pub struct Repeated {
    /// The new job.
    pub id: JobId,
    /// The same.
    pub job_id: JobId,
}

/// Other open work on a job's Source; only the newest of each are named.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AlsoOpen {
    /// Other Topics.
    pub topics: Vec<OpenTopic>,
    /// Number of Topics.
    pub topic_count: i64,
    /// Proposals awaiting a decision.
    pub proposals: Vec<OpenProposal>,
    /// Number of proposals.
    pub proposal_count: usize,
}

/// An open Topic.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OpenTopic {
    /// Its id.
    pub id: TopicId,
    /// Its title.
    pub title: String,
}

/// A proposal awaiting a decision.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OpenProposal {
    /// Its id.
    pub id: ProposalId,
    /// The Topic that it resolves.
    pub topic_id: TopicId,
    /// The Topic's title.
    pub topic_title: String,
}

/// The job that holds a Source.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Holder {
    /// Its id.
    pub job_id: JobId,
    /// Its kind.
    pub kind: String,
    /// `running`, or `queued` if none runs.
    pub status: Status,
    /// When it was started, or requested if it waits.
    pub since: Millis,
    /// The requester.
    pub requested_by_name: String,
    /// Why it waits, if it does.
    pub waiting: Option<Waiting>,
    /// Number of jobs behind it.
    pub others: i64,
}

impl Holder {
    /// Returns whether it is running.
    pub fn is_running(&self) -> bool {
        self.status == Status::Running
    }
}
