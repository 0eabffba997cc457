//! Jobs, their usage, workspaces and approvals.

use schemars::JsonSchema;
use serde::Serialize;

use crate::api::Done;
use crate::api::approvals::{ApprovalOutcome, Decision, PermissionAnswer, PermissionAsked};
use crate::api::changes::{Kept, Restored};
use crate::api::jobs::{Accepted, LogText, Prompt, Repeated, Transcript};
use crate::api::mail::VerdictRequest;
use crate::api::usage::{EngineReleased, EngineRow, ReleaseQuery, Spending};
use crate::api::workspaces::Workspace;
use crate::api::workspaces::WorkspaceList;
use crate::approvals::Approval;
use crate::base::Page;
use crate::flows::approvals::ask::AskRequest;
use crate::flows::approvals::decide::DecideRequest;
use crate::flows::approvals::permission::PermissionRequest;
use crate::flows::approvals::show::{ApprovalQuery, Shown};
use crate::flows::approvals::wait::Wait;
use crate::flows::approvals::withdraw::WithdrawRequest;
use crate::flows::jobs::bulk::{Bulk, BulkRequest};
use crate::flows::jobs::changes::RestoreRequest;
use crate::flows::jobs::usage::UsageQuery;
use crate::flows::jobs::{JobQuery, JobRequest, JobView, ResultRequest, RetryRequest};
use crate::flows::workspaces::Swept;
use crate::http::description::operation::{Operation, get, post};
use crate::http::resources::{jobs, workspaces};

/// A part of an output: its text, or, with `rows`, the rows shown on a page.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "JobLog")]
enum Log {
    #[expect(dead_code, reason = "only its schema is used")]
    Text(LogText),
    #[expect(dead_code, reason = "only its schema is used")]
    Rows(jobs::LogRows),
}

pub(super) fn all() -> Vec<Operation> {
    let mut all = of_jobs();
    all.extend(of_runs());
    all.extend(of_approvals());
    all
}

fn of_jobs() -> Vec<Operation> {
    vec![
        get("/api/agent/jobs", "Lists jobs, newest first")
            .asks::<JobQuery>()
            .answers::<Page<JobView>>(),
        post("/api/agent/jobs", "Creates a job")
            .takes::<JobRequest>()
            .once()
            .answers_with::<Accepted>(202),
        get("/api/agent/jobs/{id}", "Shows a job").answers::<JobView>(),
        get("/api/agent/jobs/{id}/log", "Shows the output of an agent")
            .asks::<jobs::LogPart>()
            .answers::<Log>(),
        get("/api/agent/jobs/{id}/stream", "Shows the activity of an agent")
            .asks::<jobs::After>()
            .answers::<Transcript>(),
        get("/api/agent/jobs/{id}/prompt", "Shows the exact prompt").answers::<Prompt>(),
        post("/api/agent/jobs/{id}/cancel", "Cancels a job").answers::<JobView>(),
        post("/api/agent/jobs/{id}/kill", "Cancels a job and kills its processes")
            .answers::<JobView>(),
        post("/api/agent/jobs/{id}/retry", "Retries a job")
            .may_take::<RetryRequest>()
            .once()
            .answers_with::<Repeated>(202),
        post("/api/agent/jobs/{id}/restore", "Restores changes made during a job")
            .takes::<RestoreRequest>()
            .answers::<Restored>(),
        post("/api/agent/jobs/{id}/keep", "Keeps changes made during a job").answers::<Kept>(),
        post("/api/agent/jobs/{id}/result", "Submits the result of a job")
            .takes::<ResultRequest>()
            .answers::<Done>(),
        post("/api/agent/jobs/{id}/verdict", "Submits the verdict of an instance")
            .takes::<VerdictRequest>()
            .answers_with::<Done>(202),
        post("/api/jobs/cancel", "Cancels many jobs").takes::<BulkRequest>().answers::<Bulk>(),
        post("/api/jobs/retry", "Retries many jobs").takes::<BulkRequest>().answers::<Bulk>(),
    ]
}

fn of_runs() -> Vec<Operation> {
    vec![
        get("/api/workspaces", "Lists the newest workspaces").answers::<WorkspaceList>(),
        post("/api/workspaces/sweep", "Cleans up leftover workspaces")
            .takes::<workspaces::SweepRequest>()
            .answers::<Swept>(),
        post("/api/workspaces/{job}/keep", "Keeps a workspace").answers::<Workspace>(),
        post("/api/workspaces/{job}/remove", "Removes a workspace").answers::<Workspace>(),
        get("/api/usage", "Returns usage totals").asks::<UsageQuery>().answers::<Spending>(),
        get("/api/engines", "Lists the engines").answers::<Page<EngineRow>>(),
        post("/api/engines/{name}/release", "Releases an engine")
            .asks::<ReleaseQuery>()
            .answers::<EngineReleased>(),
    ]
}

fn of_approvals() -> Vec<Operation> {
    vec![
        get("/api/decisions", "Lists what awaits review").answers::<Page<Decision>>(),
        get("/api/approvals", "Lists approvals, newest first")
            .asks::<ApprovalQuery>()
            .answers::<Page<Approval>>(),
        post("/api/approvals", "Requests an approval")
            .takes::<AskRequest>()
            .once()
            .answers_with::<Approval>(201),
        get("/api/approvals/{id}", "Shows an approval").answers::<Shown>(),
        get("/api/approvals/{id}/await", "Waits for a decision")
            .asks::<Wait>()
            .answers::<ApprovalOutcome>(),
        post("/api/approvals/{id}/approve", "Approves a request")
            .takes::<DecideRequest>()
            .answers::<Approval>(),
        post("/api/approvals/{id}/reject", "Rejects a request")
            .takes::<DecideRequest>()
            .answers::<Approval>(),
        post("/api/approvals/{id}/withdraw", "Withdraws an approval")
            .may_take::<WithdrawRequest>()
            .answers::<Approval>(),
        post("/api/agent/permissions", "Requests permission to use a tool")
            .takes::<PermissionRequest>()
            .once()
            .answers_with::<PermissionAsked>(201),
        post("/api/agent/permissions/{id}/answer", "Reports on a permission request")
            .once()
            .answers::<PermissionAnswer>(),
    ]
}
