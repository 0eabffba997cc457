//! The outcome of a job for `job show`: Topics, warnings, and what to type next.

use crate::base::Result;
use crate::cli::commands::Desk;
use crate::cli::terminal::escape;
use crate::flows::jobs::JobView;
use crate::jobs::{Job, Reason, Status};

/// Prints the Topics that a job opened, its warnings, and what helps if it did not succeed.
pub(in crate::cli) fn describe(desk: &Desk, view: &JobView) -> Result<()> {
    let job = &view.job;
    for it in &view.opened_topics {
        desk.detail("opened", &escape::line(&format!("{} {}", it.id, it.title)))?;
    }
    for warning in &job.warnings {
        desk.detail("warning", &escape::line(warning))?;
    }
    // A monitor ends with the run that it watches, and is started with the next one only.
    if !is_in_vain(job) || job.monitor_of.is_some() {
        return Ok(());
    }
    if let Some(agent) = job.kind.strip_prefix('@') {
        // The state of the agent decides what follows, and `agent show` prints it.
        let start = format!("wiki-browser agent show {agent}, or agent start {agent}");
        return desk.detail("next", &escape::line(&start));
    }
    desk.detail("next", &escape::line(&first_step(job).unwrap_or_default()))?;
    let when = if job.reason == Some(Reason::RateLimited) { " --when-allowed" } else { "" };
    desk.detail("again", &format!("wiki-browser job retry {}{when}", job.id))
}

/// Whether a job has ended without success.
fn is_in_vain(job: &Job) -> bool {
    job.status.is_final() && job.status != Status::Succeeded
}

/// What to do before requesting the job again; `None` if the message says it.
fn first_step(job: &Job) -> Option<String> {
    let (id, kind) = (&job.id, &job.kind);
    // Only inboxes have a slash in their name; their `start` is a command.
    let is_inbox = kind.contains('/');
    let what = if is_inbox { "inbox" } else { "kind" };
    let raise = |field: &str| {
        format!("raise `{field}` of {what} \"{kind}\" in the script, then run: wiki-browser reload")
    };
    Some(match job.reason? {
        Reason::ExitStatus | Reason::Signal | Reason::NoResult => {
            format!("see its activity: wiki-browser job log {id}")
        }
        Reason::ServerRestarted => "nothing is wrong with the job itself, and nothing is repeated \
                                    by itself"
            .to_owned(),
        Reason::SpawnFailed => "find out what is missing: wiki-browser doctor".to_owned(),
        Reason::PromptFailed => {
            "fix the script, then run: wiki-browser check && wiki-browser reload".to_owned()
        }
        Reason::WallTimeout => raise("timeout"),
        Reason::IdleTimeout => raise("idle"),
        Reason::StartTimeout => raise(if is_inbox { "first_output" } else { "start" }),
        _ => return None,
    })
}
