//! `job cancel` and `job retry`: one job, or all of a kind and a status.

use clap::Args;
use serde_json::{Value, json};

use crate::base::{Error, Result};
use crate::cli::commands::job::follow::Show;
use crate::cli::commands::{Desk, job};
use crate::cli::terminal::escape;
use crate::cli::terminal::question;
use crate::cli::terminal::screen::typed;
use crate::cli::terminal::short_id::Noun;
use crate::flows::jobs::JobView;
use crate::flows::jobs::bulk::Bulk;
use crate::jobs::Status;

/// Which jobs, if not a single one.
#[derive(Args, Debug)]
pub(in crate::cli) struct Many {
    /// All jobs of this kind
    #[arg(long, value_name = "KIND", conflicts_with = "id")]
    kind: Option<String>,
    /// All jobs with this status
    #[arg(long, value_name = "STATUS", conflicts_with = "id",
          value_parser = ["queued", "running", "parked", "failed", "timed_out", "cancelled"])]
    status: Option<String>,
    /// Only jobs created longer ago than this (30m, 2h, 7d)
    #[arg(long, value_name = "AGE", conflicts_with = "id")]
    older_than: Option<String>,
    /// Only count the jobs
    #[arg(long, conflicts_with = "id")]
    dry_run: bool,
    /// Skip the confirmation
    #[arg(long, conflicts_with = "id")]
    yes: bool,
}

/// The operation.
#[derive(Clone, Copy)]
pub(in crate::cli::commands) struct Deed {
    /// The last segment of the route.
    pub(in crate::cli::commands) word: &'static str,
    /// The past participle.
    pub(in crate::cli::commands) done: &'static str,
    /// The default status.
    pub(in crate::cli::commands) status: &'static str,
}

/// Cancelling.
pub(in crate::cli::commands) const CANCEL: Deed =
    Deed { word: "cancel", done: "cancelled", status: "queued" };
/// Repeating.
pub(in crate::cli::commands) const RETRY: Deed =
    Deed { word: "retry", done: "retried", status: "failed" };

/// Cancels a job, or kills its processes at once.
pub(in crate::cli::commands) fn cancel(desk: &Desk, given: &str, force: bool) -> Result<()> {
    let client = desk.client()?;
    let id = desk.id(&client, Noun::Job, given)?;
    let verb = if force { "kill" } else { "cancel" };
    let job = client.post(&format!("/api/agent/jobs/{id}/{verb}"), &json!({}))?;
    desk.screen.tell(&job, |screen, JobView { job, .. }: JobView| match job.status {
        Status::Running => screen.put(&format!("job {id} is stopping")),
        status => screen.put(&format!("job {id} is {}", screen.state(status.as_str()))),
    })
}

/// Retries a job, and follows the new one on request.
pub(in crate::cli::commands) fn retry(
    desk: &Desk,
    given: &str,
    when: &Value,
    show: Option<Show>,
) -> Result<u8> {
    let client = desk.client()?;
    let id = desk.id(&client, Noun::Job, given)?;
    let answer = client.create(&format!("/api/agent/jobs/{id}/retry"), when)?;
    job::accepted(desk, &client, &answer, show)
}

/// Counts the matching jobs, asks for confirmation, and goes through them as `how` says; returns 1
/// if some were refused.
pub(in crate::cli::commands) fn run(
    desk: &Desk,
    many: &Many,
    deed: Deed,
    mut how: Value,
) -> Result<u8> {
    let route = format!("/api/jobs/{}", deed.word);
    let client = desk.client()?;
    let mut body = json!({
        "kind": many.kind, "status": many.status, "older_than": many.older_than, "dry_run": true,
    });
    if let (Some(body), Some(how)) = (body.as_object_mut(), how.as_object_mut()) {
        body.append(how);
    }
    let counted = client.post(&route, &body)?;
    let jobs = typed::<Bulk>(&counted)?.jobs;
    let what = title(many, deed.status, jobs);
    if many.dry_run || jobs == 0 {
        desk.screen.answer(&counted, |screen, _| screen.put(&what))?;
        return Ok(0);
    }
    if !many.yes {
        let ask = format!("{what}: {} them?", deed.word);
        let hint = "preview with --dry-run, then run again with --yes";
        question::confirm(&desk.screen, &what, &ask, hint)?;
    }
    body["dry_run"] = json!(false);
    let mut all = Bulk::default();
    loop {
        let answer: Bulk = typed(&client.post(&route, &body)?)?;
        all.jobs += answer.jobs;
        all.refused.extend(answer.refused);
        match answer.next {
            Some(next) => body["after"] = json!(next),
            None => break,
        }
    }
    let done = all.jobs;
    desk.screen.answer(&json!(all), |screen, _| {
        for one in &all.refused {
            screen.note(&escape::line(&format!("job {}: {}", one.job_id, one.message)));
        }
        screen.put(&format!("{done} {} {}", if done == 1 { "job" } else { "jobs" }, deed.done))
    })?;
    Ok(u8::from(!all.refused.is_empty()))
}

/// Returns `37 failed jobs of kind "review"`.
fn title(many: &Many, status: &str, jobs: i64) -> String {
    let status = many.status.as_deref().unwrap_or(status).replace('_', " ");
    let mut said = format!("{jobs} {status} {}", if jobs == 1 { "job" } else { "jobs" });
    if let Some(kind) = &many.kind {
        said += &format!(" of kind \"{}\"", escape::line(kind));
    }
    if let Some(age) = &many.older_than {
        said += &format!(" older than {}", escape::line(age));
    }
    said
}

/// Returns whether the options select several jobs.
///
/// # Errors
/// `invalid` if neither a job nor any option is given.
pub(in crate::cli::commands) fn is_meant(id: Option<&str>, many: &Many) -> Result<bool> {
    let is_chosen = many.kind.is_some() || many.status.is_some() || many.older_than.is_some();
    match (id, is_chosen) {
        (Some(_), _) => Ok(false),
        (None, true) => Ok(true),
        (None, false) => Err(Error::invalid("no job given")
            .hint("give an id, or --kind KIND and --status STATUS for several")),
    }
}
