//! Jobs: where they are, why they wait, and what they spend.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::{JobId, Millis, ProposalId, TopicId};

/// Where a job is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Accepted; nothing was started.
    Queued,
    /// Claimed; its lane is held until it is settled.
    Running,
    /// Waits for a person's decision, without a process and without a place in its lane.
    Parked,
    /// Ended with what it promised.
    Succeeded,
    /// Ended without.
    Failed,
    /// Ended by one of its clocks.
    TimedOut,
    /// Ended by a person.
    Cancelled,
}

/// Why a job waits.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Waiting {
    /// A stable word: `kind_gone`, `inbox_gone`, `not_before`, `lane_busy`, `lane_order`,
    /// `engine_held`, `daily_cap`, `kind_cap`, `jobs_cap`, `agents_cap`, `chat_cap` or `turn`.
    pub code: Cow<'static, str>,
    /// The same for a person, without a full stop.
    pub message: String,
    /// Until when, if that is known.
    pub until: Option<Millis>,
    /// The job that is in the way, if it is one.
    pub job_id: Option<JobId>,
    /// The kind of the job that holds the lane, or is before it there.
    pub job_kind: Option<String>,
    /// When that job was started, if it runs.
    pub job_started_at: Option<Millis>,
}

/// Sums of settled jobs.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Usage {
    /// What they are for: a day like `2026-01-02`, a kind, an actor, an engine; empty for all.
    pub name: String,
    /// Jobs that had been started.
    pub jobs: i64,
    /// Those that succeeded.
    pub succeeded: i64,
    /// Those that failed.
    pub failed: i64,
    /// Those that one of their clocks ended.
    pub timed_out: i64,
    /// Those that a person ended.
    pub cancelled: i64,
    /// Those among the failed whose provider took no more.
    pub rate_limited: i64,
    /// Tokens read, without those from a cache.
    pub input_tokens: i64,
    /// Tokens read from a cache.
    pub cached_tokens: i64,
    /// Tokens written.
    pub output_tokens: i64,
    /// US dollars, as the agents tell them.
    pub cost_usd: f64,
    /// Milliseconds from the starts to the ends; of agents that live on, those of their turns.
    pub agent_ms: i64,
}

/// Bytes of an output that are not kept.
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
    /// The byte where it begins.
    pub offset: u64,
    /// Where to go on.
    pub next_offset: u64,
    /// How much was printed until now.
    pub total: u64,
    /// What was printed.
    pub text: String,
    /// Which bytes are not kept.
    pub cut: Option<Cut>,
    /// Whether more may come.
    pub running: bool,
}

/// What an agent said and did.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Transcript {
    /// Its telemetry, as docs/http.md tells of each entry.
    pub items: Vec<Value>,
    /// The number of the last one, if there is one.
    pub next: Option<u64>,
}

/// The prompt of a job.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Prompt {
    /// What its agent was told.
    pub prompt: String,
}

/// The answer to a request for a job.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "JobAccepted"))]
pub struct Accepted {
    /// The job.
    pub id: JobId,
    /// The same.
    pub job_id: JobId,
    /// What else is open on its Source.
    pub also_open: Option<AlsoOpen>,
}

/// The answer to a request for a job again.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "JobRepeated"))]
pub struct Repeated {
    /// The new job.
    pub id: JobId,
    /// The same.
    pub job_id: JobId,
}

/// What else is open on the Source of a job; the newest few of each are named.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AlsoOpen {
    /// Other Topics.
    pub topics: Vec<OpenTopic>,
    /// How many there are.
    pub topic_count: i64,
    /// Proposals that wait for a decision.
    pub proposals: Vec<OpenProposal>,
    /// How many there are.
    pub proposal_count: usize,
}

/// A Topic that is open.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OpenTopic {
    /// Its name.
    pub id: TopicId,
    /// What it is called.
    pub title: String,
}

/// A proposal that waits for a decision.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OpenProposal {
    /// Its name.
    pub id: ProposalId,
    /// The Topic that it settles.
    pub topic_id: TopicId,
    /// What that is called.
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
    /// When it was started, or asked for if it waits.
    pub since: Millis,
    /// Who asked for it.
    pub requested_by_name: String,
    /// Why it waits, if it does.
    pub waiting: Option<Waiting>,
    /// How many more wait or run behind it.
    pub others: i64,
}
