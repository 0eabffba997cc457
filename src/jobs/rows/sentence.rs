//! Sentences for people about jobs that did not go well.

use std::time::Duration;

use crate::base::limit::format_duration;
use crate::base::{Actor, Millis};
use crate::jobs::{Job, Reason, Status};
use crate::script::Produces;

/// Prefix of messages about a worktree that could not be created, or is gone.
pub(in crate::jobs) const NO_WORKTREE: &str = "the worktree";
/// Prefix of messages about a working directory that is not there.
pub(in crate::jobs) const NO_FOLDER: &str = "the folder";
/// Prefixes of messages about a job folder that cannot be written.
const NOT_WRITTEN: [&str; 2] = ["cannot write the files in ", "cannot make the folder "];
/// Prefix of the message about a job whose agent was not started because of files that it would
/// obey.
pub(in crate::jobs) const REFUSED: &str = "its agent would obey ";

/// Returns a sentence for people; `None` while nothing is wrong.
///
/// `program` is the engine's program as the operator wrote it, `timeout` the kind's limit,
/// `produces` what the kind must produce, and `canceller` the name of the person who cancelled.
pub fn sentence(
    job: &Job,
    program: &str,
    (timeout, produces): (Option<Duration>, Option<Produces>),
    canceller: Option<&str>,
) -> Option<String> {
    let within = |limit: Option<Duration>| match limit {
        Some(limit) => format!(" after {}", format_duration(limit)),
        None => String::new(),
    };
    let text = match (job.status, job.reason?) {
        (Status::Cancelled, _)
            if job.monitor_of.is_some() && job.cancelled_by == Some(Actor::System) =>
        {
            "Ended with the run that it watched.".to_owned()
        }
        (Status::Cancelled, _) => format!("Cancelled by {}.", canceller.unwrap_or("somebody")),
        (_, Reason::SpawnFailed) => unreachable_agent(job, program),
        (_, Reason::WallTimeout) => format!("Agent timed out{}.", within(timeout)),
        (_, Reason::IdleTimeout) => "Agent timed out: no more output.".to_owned(),
        (_, Reason::StartTimeout) => "Agent timed out: no output.".to_owned(),
        (_, Reason::ServerRestarted) if job.resumes.is_some() => {
            "Agent failed: server restarted while it went on with a decision. The decision is used \
             up: see what the agent has done, then run it again from the start."
                .to_owned()
        }
        (_, Reason::ServerRestarted) => "Agent failed: server restarted.".to_owned(),
        (_, Reason::NoResult) if job.message_id.is_some() => {
            "Agent ended without a verdict (wb-agent complete or fail).".to_owned()
        }
        (_, Reason::NoResult) => {
            format!("Agent finished without {} — retry.", without(produces))
        }
        (_, Reason::PromptFailed) => "The prompt could not be rendered. See log.".to_owned(),
        (_, Reason::VerifyFailed) => {
            let why = job.error_tail.as_deref().unwrap_or("no reason given");
            format!("The script's check rejected the result: {why}")
        }
        (_, Reason::VerifyUnasked) => {
            let why = job.error_tail.as_deref().unwrap_or("the script did not answer");
            format!("The agent finished, but the script's check failed to run: {why}")
        }
        (_, Reason::KindChanged) => {
            format!("The kind \"{}\" has changed since the job was requested.", job.kind)
        }
        (_, Reason::InputsChanged) => {
            let why = job.error_tail.as_deref().unwrap_or("its inputs have changed");
            format!("The job could not start: {why}.")
        }
        (_, Reason::RateLimited) => limited(job.retry_at),
        (_, Reason::GuardLost) => {
            "Agent failed: its guard process was killed, perhaps by the agent.".to_owned()
        }
        (_, Reason::Signal) => ended_by(job.signal),
        (_, Reason::Internal) => {
            "The job failed because of an internal error. See the server's log.".to_owned()
        }
        (_, Reason::ExitStatus | Reason::Cancelled) => "Agent failed. See log.".to_owned(),
        (_, reason) => of_instance(job, reason),
    };
    Some(text)
}

/// Returns what a job without result failed to do. Its kind may no longer be in the script.
fn without(produces: Option<Produces>) -> &'static str {
    match produces {
        Some(Produces::Proposal) => "producing a proposal",
        Some(Produces::Perspective) => "producing a perspective",
        Some(Produces::Message) => "writing a message",
        Some(Produces::Result) => "submitting a result",
        Some(Produces::Topic) => "opening a topic",
        None => "producing its result",
    }
}

/// Sentences for reasons specific to instances and long-lived agents.
fn of_instance(job: &Job, reason: Reason) -> String {
    let tail = |otherwise: &'static str| job.error_tail.as_deref().unwrap_or(otherwise);
    match reason {
        Reason::Reported => format!("The agent gave up: {}", tail("no reason given")),
        Reason::BadReply => {
            format!("The agent's reply was refused: {}", tail("it does not match the schema"))
        }
        Reason::PrepareFailed
            if [NO_WORKTREE, NO_FOLDER].iter().any(|it| tail("").starts_with(it)) =>
        {
            format!("Agent was not started: {}.", tail(""))
        }
        Reason::PrepareFailed => "The hook that runs before the agent failed. See log.".to_owned(),
        Reason::TerminalLost => "The agent's terminal is gone.".to_owned(),
        Reason::SessionLost => {
            "The engine no longer knows the agent's session. Run it again.".to_owned()
        }
        Reason::Resumed => "The agent continued after a decision, as another job.".to_owned(),
        _ => "Agent failed. See log.".to_owned(),
    }
}

fn limited(retry_at: Option<Millis>) -> String {
    match retry_at {
        Some(at) => {
            let until = at.minute();
            format!("The provider's rate limit is reached until {until} UTC.")
        }
        None => "The provider's rate limit is reached. Try again later.".to_owned(),
    }
}

fn ended_by(signal: Option<i32>) -> String {
    match signal {
        Some(9) => {
            "Agent was killed (signal 9), possibly because memory ran out. See log.".to_owned()
        }
        // ILL, TRAP, ABRT, BUS, FPE, SEGV
        Some(signal @ (4..=8 | 11)) => format!("Agent crashed (signal {signal}). See log."),
        Some(signal) => format!("Agent was ended by signal {signal}. See log."),
        None => "Agent was stopped externally. See log.".to_owned(),
    }
}

/// Returns why an agent could not be started, from the system's error message.
fn unreachable_agent(job: &Job, program: &str) -> String {
    let tail = job.error_tail.as_deref().unwrap_or_default();
    if tail.starts_with("secret ") {
        let words = tail.lines().next().unwrap_or_default();
        return format!("Agent was not started: {words}. See `wiki-browser check`.");
    }
    if tail.starts_with(REFUSED) {
        return format!("Agent was not started: {tail}.");
    }
    // The failure came before starting the program.
    if NOT_WRITTEN.iter().any(|it| tail.starts_with(it)) {
        let why = tail.lines().next().unwrap_or_default();
        return format!("Agent was not started: {why}. See `wiki-browser doctor`.");
    }
    let says = |words: &str| tail.contains(words);
    let why = if says("Permission denied") {
        format!("{program} is not executable: check its permissions.")
    } else if says("interpreter") || says("Exec format error") {
        format!("{program} exists, but this machine cannot run it.")
    } else if says("too long") {
        "Its arguments and environment are too long for this machine.".to_owned()
    } else if says("is not a folder") {
        "Its working folder is gone.".to_owned()
    } else {
        format!("Check that {program} is installed.")
    };
    format!("Agent is unreachable. {why}")
}
