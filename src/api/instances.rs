//! Instances: the agents that messages to inboxes start.

use serde::{Deserialize, Serialize};

use crate::api::jobs::Status;
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
