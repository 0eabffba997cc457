//! What a person is told about a job that did not go well (the sentences of document A).

use std::time::Duration;

use crate::base::limit::format_duration;
use crate::jobs::{Job, Reason, Status};

/// Returns a sentence for a person, or nothing while nothing is wrong.
///
/// `program` is the engine's program as the operator wrote it, `timeout` the kind's own limit, and
/// `canceller` the name of who cancelled.
pub fn sentence(
    job: &Job,
    program: &str,
    timeout: Option<Duration>,
    canceller: Option<&str>,
) -> Option<String> {
    let within = |limit: Option<Duration>| match limit {
        Some(limit) => format!(" after {}", format_duration(limit)),
        None => String::new(),
    };
    let text = match (job.status, job.reason?) {
        (Status::Cancelled, _) => format!("Cancelled by {}.", canceller.unwrap_or("somebody")),
        (_, Reason::SpawnFailed) => {
            format!("Agent is unreachable. Check that {program} is installed.")
        }
        (_, Reason::WallTimeout) => format!("Agent timed out{}.", within(timeout)),
        (_, Reason::IdleTimeout) => "Agent timed out: it printed nothing more.".to_owned(),
        (_, Reason::StartTimeout) => "Agent timed out: it printed nothing at all.".to_owned(),
        (_, Reason::ServerRestarted) => "Agent failed: server restarted.".to_owned(),
        (_, Reason::NoResult) => match job.error_tail.as_deref() {
            Some(tail) if tail.ends_with("perspective") => {
                "Agent finished without producing a perspective — retry.".to_owned()
            }
            Some(tail) if tail.ends_with("message") => {
                "Agent finished without writing a message — retry.".to_owned()
            }
            Some(tail) if tail.ends_with("result") => {
                "Agent finished without handing in a result — retry.".to_owned()
            }
            _ => "Agent finished without producing a proposal — retry.".to_owned(),
        },
        (_, Reason::PromptFailed) => "The prompt could not be made. See log.".to_owned(),
        (_, Reason::KindChanged) => {
            format!("The kind \"{}\" has changed since the job was asked for.", job.kind)
        }
        (_, Reason::InputsChanged) => {
            let why = job.error_tail.as_deref().unwrap_or("what it works on has changed");
            format!("The job could not start: {why}.")
        }
        (_, Reason::RateLimited) => match job.retry_at {
            Some(at) => {
                let until = at.rfc3339().get(..16).unwrap_or_default().replace('T', " ");
                format!("The agent's provider takes no more until {until} UTC.")
            }
            None => "The agent's provider takes no more at present. Try again later.".to_owned(),
        },
        (_, Reason::GuardLost) => "Agent failed: its guard was killed.".to_owned(),
        (_, Reason::ExitStatus | Reason::Signal | Reason::Internal | Reason::Cancelled) => {
            "Agent failed. See log.".to_owned()
        }
    };
    Some(text)
}
