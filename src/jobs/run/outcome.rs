//! Determines the outcome of an execution: the end of its guard, and the script's check of its
//! result.

use std::sync::Arc;

use crate::base::fault;
use crate::base::limit::ERROR_TAIL_BYTES_MAX;
use crate::jobs::run::dispatch::Inner;
use crate::jobs::run::settle::{Ended, Outcome};
use crate::jobs::telemetry::Report;
use crate::jobs::telemetry::limit::{self, Limit};
use crate::jobs::{Generation, Job, Pool, Reason, Status, job_dir};
use crate::process::{self, ExitCause, ExitRecord, GuardEnd, Stream};
use crate::script::{Engine, Reads};

/// Last lines of standard error that are searched for a rate limit.
const STDERR_LINES: usize = 5;

/// Lets the script check the result of an agent that ended normally, or exited with an error after
/// it had produced what its kind promises. The check may reject it; what the kind promises is
/// required regardless. A job whose kind is unknown is not taken for one that kept its promise.
pub(in crate::jobs) async fn verify(
    inner: &Inner,
    generation: &Arc<Generation>,
    job: &Job,
    outcome: &mut Outcome,
) {
    let kind = generation.config.kind_of_job(&job.kind);
    if kind.is_none() && outcome.ended == Ended::Well && job.pool == Pool::Work {
        // Of a job of an earlier server whose script cannot be loaded any more.
        outcome.ended = Ended::Not(Status::Failed, Reason::VerifyUnasked);
        outcome.error_tail = format!(
            "\"{}\" is not in the script any more, so nothing says what its jobs must produce",
            job.kind
        );
        return;
    }
    let has_check = kind.is_some_and(|it| it.verify.is_some());
    let is_asked = match outcome.ended {
        Ended::Well => true,
        // Not called if nothing was produced.
        Ended::Not(_, Reason::ExitStatus) => job.message_id.is_none(),
        Ended::Not(..) => false,
    };
    if !is_asked || !has_check || fault::is_off("verify") {
        return;
    }
    let generation = match fault::is_off("generation_pin") {
        true => inner.setup.generations.current(),
        false => Arc::clone(generation),
    };
    let looked = (inner.setup.hooks.verify)(generation, job.clone());
    if let Some((reason, refusal)) = looked.await {
        outcome.ended = Ended::Not(Status::Failed, reason);
        outcome.error_tail = refusal;
    }
}

/// Converts the end of a guard into an outcome.
pub(in crate::jobs) fn outcome_of(
    (inner, generation): (&Inner, &Generation),
    job: &Job,
    end: GuardEnd,
    report: &Report,
    is_stopping: bool,
) -> Outcome {
    let dir = job_dir(&inner.ground.data, &job.id);
    let stderr = process::output_tail(&dir, Stream::Stderr, ERROR_TAIL_BYTES_MAX);
    let stderr = match stderr {
        Ok(bytes) => crate::base::tail_of(&bytes, ERROR_TAIL_BYTES_MAX),
        Err(cause) => format!("stderr cannot be read: {}", cause.chain()),
    };
    // What an agent that lives on said last is its answer to somebody, who alone may see it.
    let is_answer = job.pool == Pool::Live && !report.is_error;
    let last_words = report.summary.clone().filter(|_| !is_answer);
    let mut outcome = Outcome {
        refusal: report.refusal.clone(),
        summary: last_words.clone(),
        usage: report.usage.clone(),
        cost_usd: report.cost_usd,
        session_ref: report.session_ref.clone(),
        limit: report.limit.or_else(|| limit_in_stderr((inner, generation), job, &stderr)),
        holds_engine: engine_of(generation, job).is_some_and(|it| it.is_held_by_limits),
        error_tail: stderr,
        ..Outcome::default()
    };
    match end {
        GuardEnd::Lost => {
            outcome.ended = Ended::Not(Status::Failed, Reason::GuardLost);
            outcome.error_tail = "the guard ended without a record: was it killed?".to_owned();
        }
        GuardEnd::Recorded(record) => {
            outcome.ran_ms = Some(record.ended_ms.saturating_sub(record.started_ms).max(0));
            judge(&mut outcome, record, is_stopping);
        }
    }
    let is_by_itself = matches!(
        outcome.ended,
        Ended::Well | Ended::Not(Status::Failed, Reason::ExitStatus | Reason::Signal)
    );
    if let Some(why) = report.unheard.as_ref().filter(|_| is_by_itself) {
        // Whatever it says of itself, part of what it said is lost.
        outcome.ended = Ended::Not(Status::Failed, Reason::Internal);
        outcome.error_tail.clone_from(why);
    }
    let denials = report.usage.as_ref().and_then(|it| it["permission_denials"].as_u64());
    let denials = denials.filter(|it| *it > 0).map(|it| format!("permission_denials: {it}"));
    outcome.warnings.extend(report.warnings.iter().cloned().chain(denials));
    let is_silent = outcome.error_tail.trim().is_empty();
    if is_silent && matches!(outcome.ended, Ended::Not(_, Reason::ExitStatus)) {
        // Claude Code reports on standard output why it could not work ("Not logged in").
        outcome.error_tail = last_words.or(report.stray.clone()).unwrap_or_default();
    }
    if matches!(outcome.ended, Ended::Not(_, Reason::ExitStatus)) && report.is_error {
        outcome.error_tail = with_complaint(report.summary.as_deref(), &outcome.error_tail);
    }
    if matches!(outcome.ended, Ended::Not(Status::TimedOut, _)) {
        outcome.error_tail = with_doing(report, &outcome.error_tail);
    }
    let is_own = matches!(outcome.ended, Ended::Not(_, Reason::ExitStatus | Reason::Signal));
    let untold = outcome.refusal.as_ref().filter(|it| !it.is_told_in(&outcome.error_tail));
    if let Some(refusal) = untold.filter(|_| is_own) {
        let before = outcome.error_tail.trim_end();
        let gap = if before.is_empty() { "" } else { "\n" };
        outcome.error_tail = format!("{before}{gap}{}", refusal.line());
    }
    outcome
}

/// Returns what an agent was doing when it timed out, followed by the tail of its standard error,
/// where some print warnings at every start.
fn with_doing(report: &Report, stderr: &str) -> String {
    let Some(doing) = &report.doing else { return stderr.to_owned() };
    let room = ERROR_TAIL_BYTES_MAX.saturating_sub(doing.len() + 1);
    match stderr.trim() {
        "" => doing.clone(),
        _ => format!("{doing}\n{}", crate::base::tail_of(stderr.as_bytes(), room)),
    }
}

/// Returns the end of what an agent printed on standard error, and below it why it failed, if it
/// says so elsewhere: Codex prints there what it reads and which tools it could not load.
fn with_complaint(said: Option<&str>, stderr: &str) -> String {
    let Some(said) = said.map(str::trim).filter(|it| !it.is_empty()) else {
        return stderr.to_owned();
    };
    let said = crate::base::tail_of(said.as_bytes(), ERROR_TAIL_BYTES_MAX / 2);
    let before = stderr.trim_end();
    if before.contains(&said) || before.is_empty() {
        return if before.is_empty() { said } else { stderr.to_owned() };
    }
    let room = ERROR_TAIL_BYTES_MAX.saturating_sub(said.len() + 1);
    format!("{}\n{said}", crate::base::tail_of(before.as_bytes(), room))
}

fn engine_of<'g>(generation: &'g Generation, job: &Job) -> Option<&'g Engine> {
    let config = &generation.config;
    config.kind_of_job(&job.kind).and_then(|kind| config.engines.get(&kind.engine))
}

/// Finds a rate limit in standard error, where an agent with plain text output reports errors.
fn limit_in_stderr(
    (inner, generation): (&Inner, &Generation),
    job: &Job,
    stderr: &str,
) -> Option<Limit> {
    let reads = engine_of(generation, job).and_then(Engine::reads);
    let now = inner.setup.store.clock().now();
    if reads != Some(Reads::Plain) {
        return None;
    }
    stderr.lines().rev().take(STDERR_LINES).find_map(|line| limit::in_prose(line, now))
}

fn judge(outcome: &mut Outcome, record: ExitRecord, is_stopping: bool) {
    outcome.exit_code = record.code;
    outcome.signal = record.signal;
    if record.stdout.cut || record.stderr.cut {
        outcome.warnings.push("output_cut".to_owned());
    }
    if !record.survivors.is_empty() {
        outcome.warnings.push(format!("survivors: {:?}", record.survivors));
    }
    let timed_out = |reason| Ended::Not(Status::TimedOut, reason);
    outcome.ended = match record.cause {
        ExitCause::Exit => match (record.code, record.signal) {
            (Some(0), _) => Ended::Well,
            (_, Some(_)) => Ended::Not(Status::Failed, Reason::Signal),
            _ => Ended::Not(Status::Failed, Reason::ExitStatus),
        },
        ExitCause::SpawnFailed => {
            let cause = record.error.unwrap_or_default();
            outcome.error_tail = format!("agent unreachable: {cause}");
            Ended::Not(Status::Failed, Reason::SpawnFailed)
        }
        ExitCause::StartTimeout => timed_out(Reason::StartTimeout),
        ExitCause::IdleTimeout => timed_out(Reason::IdleTimeout),
        ExitCause::WallTimeout => timed_out(Reason::WallTimeout),
        // It had finished and then hung: what it produced decides, as after exit 0.
        ExitCause::Linger => {
            outcome.warnings.push("lingered".to_owned());
            Ended::Well
        }
        ExitCause::TerminalLost => {
            outcome.error_tail = "the terminal that it lived in is gone".to_owned();
            Ended::Not(Status::Failed, Reason::TerminalLost)
        }
        ExitCause::Stopped if !is_stopping => Ended::Not(Status::Failed, Reason::Signal),
        ExitCause::Stopped | ExitCause::Lifeline => {
            outcome.error_tail = "server restarted while job in flight".to_owned();
            Ended::Not(Status::Failed, Reason::ServerRestarted)
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_an_agent_failed_stands_last() {
        let of = |said: &str, stderr: &str| with_complaint(Some(said), stderr);
        assert_eq!(
            of("no key", "Reading prompt from stdin...\n"),
            "Reading prompt from stdin...\nno key"
        );
        assert_eq!(of("no key", "error: no key\n"), "error: no key\n");
        assert_eq!((of("no key", " "), of("", "x\n")), ("no key".to_owned(), "x\n".to_owned()));
        let long = of(&"a".repeat(9_000), &"b".repeat(9_000));
        assert!(long.len() <= ERROR_TAIL_BYTES_MAX && long.ends_with('a'));
        let both = of("no key", &"b".repeat(9_000));
        assert!(both.len() <= ERROR_TAIL_BYTES_MAX && both.ends_with("b\nno key"));
    }
}
