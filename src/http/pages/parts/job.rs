//! A job as pages show it.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::api::changes::ChangesView;
use crate::api::instances::MonitorView;
use crate::api::jobs::{Status, Waiting};
use crate::api::topics::OpenedTopic;
use crate::api::workspaces::Workspace;
use crate::base::{Actor, ApprovalId, JobId, MailId, Millis, Page, ProposalId, TopicId};
use crate::flows::jobs::JobView;
use crate::flows::jobs::legs::Leg;
use crate::jobs::Reason;
use crate::script::{Config, Produces, Reads};

/// A job with what its flow adds, in one piece.
#[derive(Debug)]
pub(in crate::http::pages) struct Job {
    pub(in crate::http::pages) id: JobId,
    pub(in crate::http::pages) kind: String,
    pub(in crate::http::pages) source_path: Option<String>,
    pub(in crate::http::pages) topic_id: Option<TopicId>,
    pub(in crate::http::pages) status: Status,
    pub(in crate::http::pages) reason: Option<Reason>,
    pub(in crate::http::pages) message: Option<String>,
    pub(in crate::http::pages) message_id: Option<MailId>,
    pub(in crate::http::pages) created_at: Millis,
    pub(in crate::http::pages) started_at: Option<Millis>,
    pub(in crate::http::pages) ending_at: Option<Millis>,
    pub(in crate::http::pages) completed_at: Option<Millis>,
    pub(in crate::http::pages) waiting: Option<Waiting>,
    pub(in crate::http::pages) retry_at: Option<Millis>,
    pub(in crate::http::pages) timeout_ms: Option<i64>,
    pub(in crate::http::pages) exit_code: Option<i32>,
    pub(in crate::http::pages) signal: Option<i32>,
    pub(in crate::http::pages) error_tail: Option<String>,
    pub(in crate::http::pages) lane: Option<String>,
    pub(in crate::http::pages) retry_of: Option<JobId>,
    pub(in crate::http::pages) waits_for: Option<ApprovalId>,
    pub(in crate::http::pages) unanswered_at: Option<Millis>,
    pub(in crate::http::pages) environment: Vec<String>,
    pub(in crate::http::pages) requested_by: Actor,
    pub(in crate::http::pages) requested_by_name: String,
    pub(in crate::http::pages) cancelled_by_name: Option<String>,
    pub(in crate::http::pages) persona_name: Option<String>,
    pub(in crate::http::pages) start_ms: Option<i64>,
    pub(in crate::http::pages) idle_ms: Option<i64>,
    pub(in crate::http::pages) produces: Option<Cow<'static, str>>,
    pub(in crate::http::pages) reads: Option<Reads>,
    pub(in crate::http::pages) printed_at: Option<Millis>,
    pub(in crate::http::pages) retried_as: Vec<JobId>,
    pub(in crate::http::pages) legs: Vec<Leg>,
    pub(in crate::http::pages) usage: Option<Value>,
    pub(in crate::http::pages) inputs: Map<String, Value>,
    pub(in crate::http::pages) summary: Option<String>,
    result: Option<Value>,
    pub(in crate::http::pages) warnings: Vec<String>,
    pub(in crate::http::pages) proposal_id: Option<ProposalId>,
    pub(in crate::http::pages) opened_topics: Vec<OpenedTopic>,
    pub(in crate::http::pages) engine: Option<String>,
    pub(in crate::http::pages) cost_usd: Option<f64>,
    pub(in crate::http::pages) changes: Option<ChangesView>,
    pub(in crate::http::pages) workspace: Option<Workspace>,
    pub(in crate::http::pages) monitor_of: Option<JobId>,
    pub(in crate::http::pages) monitor: Option<MonitorView>,
    /// What the job that it waits for does.
    pub(in crate::http::pages) other_does: &'static str,
}

impl From<JobView> for Job {
    fn from(view: JobView) -> Job {
        let job = view.job;
        let ms = |it: Option<u64>| it.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX));
        Job {
            id: job.id,
            kind: job.kind,
            source_path: job.source_path.map(|it| it.to_string()),
            topic_id: job.topic_id,
            status: job.status,
            reason: job.reason,
            message: view.message,
            message_id: job.message_id,
            created_at: job.created_at,
            started_at: job.started_at,
            ending_at: job.ending_at,
            completed_at: job.completed_at,
            waiting: view.waiting,
            retry_at: job.retry_at,
            timeout_ms: ms(view.timeout_ms),
            exit_code: job.exit_code,
            signal: job.signal,
            error_tail: job.error_tail,
            lane: job.lane,
            retry_of: job.retry_of,
            waits_for: job.waits_for,
            unanswered_at: job.unanswered_at,
            environment: view.environment,
            requested_by: job.requested_by,
            requested_by_name: view.requested_by_name,
            cancelled_by_name: view.cancelled_by_name,
            persona_name: job.persona_name,
            start_ms: ms(view.start_ms),
            idle_ms: ms(view.idle_ms),
            produces: view.produces,
            reads: view.reads,
            printed_at: view.printed_at,
            retried_as: view.retried_as,
            legs: view.legs,
            usage: job.usage,
            inputs: job.inputs,
            summary: job.summary,
            result: job.result,
            warnings: job.warnings,
            proposal_id: view.proposal_id,
            opened_topics: view.opened_topics,
            engine: view.engine,
            cost_usd: job.cost_usd,
            changes: view.changes,
            workspace: view.workspace,
            monitor_of: job.monitor_of,
            monitor: view.monitor,
            other_does: "",
        }
    }
}

/// Returns the jobs of a page of a list.
pub(in crate::http::pages) fn jobs(page: Page<JobView>) -> Page<Job> {
    Page { items: page.items.into_iter().map(Job::from).collect(), next: page.next }
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
        match self.result.as_ref()? {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(format!("{other:#}")),
        }
    }

    /// Adds what the blocking job does, as described in the script.
    pub(in crate::http::pages) fn look_at_other(&mut self, config: &Config) {
        let Some(waiting) = &self.waiting else { return };
        let kind = waiting.job_kind.as_ref().and_then(|it| config.kinds.get(it));
        self.other_does = match kind.and_then(|it| it.produces) {
            Some(Produces::Proposal) => "is rewriting it",
            Some(Produces::Perspective) => "is generating a view of it",
            Some(Produces::Message) => "is writing a reply",
            _ => "is working on it",
        };
    }

    /// Returns whether it failed by itself.
    pub(in crate::http::pages) fn has_failed(&self) -> bool {
        matches!(self.status, Status::Failed | Status::TimedOut)
    }

    /// Returns whether it is parked.
    pub(in crate::http::pages) fn is_parked(&self) -> bool {
        self.status == Status::Parked
    }

    /// Returns whether it has not ended.
    pub(in crate::http::pages) fn is_active(&self) -> bool {
        matches!(self.status, Status::Queued | Status::Running)
    }
}
