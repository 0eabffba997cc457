//! Instances: the agents that messages to inboxes start.

use serde::{Deserialize, Serialize};

use crate::api::jobs::{Status, Waiting};
use crate::api::mail::MessageView;
use crate::api::workspaces::Workspace;
use crate::base::{Address, ApprovalId, JobId, MailId, Millis};

/// An instance.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct InstanceView {
    /// Its id: that of its first job.
    pub id: JobId,
    /// Its address while it runs.
    pub address: Address,
    /// `TEMPLATE/NAME`.
    pub inbox: String,
    /// The message that started it.
    pub message_id: MailId,
    /// The message with its reply, or with the reason for its failure.
    pub answer_id: Option<MailId>,
    /// Its state.
    pub status: Status,
    /// The reason for its state, as for a job.
    pub reason: Option<String>,
    /// What runs: `prepare`, `run` or `cleanup`.
    pub phase: Option<String>,
    /// The job of its current or last leg.
    pub job_id: JobId,
    /// The jobs of its legs, first one first.
    pub legs: Vec<JobId>,
    /// The decision that it is parked for.
    pub approval_id: Option<ApprovalId>,
    /// Why it waits: for its turn, or for a person.
    pub waiting: Option<Waiting>,
    /// How long one run of it may take, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// What ran and what runs, in order.
    pub phases: Vec<PhaseView>,
    /// Its workspace.
    pub workspace: Option<Workspace>,
    /// The job that watches its current or last leg.
    pub monitor: Option<MonitorView>,
    /// When its message was accepted.
    pub created_at: Millis,
    /// When it started.
    pub started_at: Option<Millis>,
    /// When it ended.
    pub completed_at: Option<Millis>,
}

/// A phase of one leg of an instance.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PhaseView {
    /// The job of the leg.
    pub job_id: JobId,
    /// `prepare`, `run` or `cleanup`.
    pub phase: String,
    /// When it began.
    pub started_at: Millis,
    /// When it ended.
    pub ended_at: Option<Millis>,
}

/// An instance with its texts: the answer of `GET /api/instances/{id}`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct InstanceDetail {
    /// The instance.
    #[serde(flatten)]
    pub instance: InstanceView,
    /// The message that started it, if the caller may read it.
    pub message: Option<MessageView>,
    /// The message with its reply or the reason for its failure, if the caller may read it.
    pub answer: Option<MessageView>,
    /// The end of its status file, if it has written one.
    pub status_file: Option<String>,
    /// The command that follows what its agent does.
    pub attach: String,
}

/// The monitor of an instance.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MonitorView {
    /// Its job.
    pub job_id: JobId,
    /// Its kind.
    pub kind: String,
    /// Its status.
    pub status: Status,
}

/// The query of `GET /api/instances`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct InstanceQuery {
    /// Only of this inbox: `TEMPLATE/NAME`.
    #[serde(default)]
    pub inbox: Option<String>,
    /// The `next` of the page before.
    #[serde(default)]
    pub after: Option<JobId>,
    /// Rows of a page.
    #[serde(default)]
    pub limit: Option<u32>,
}
