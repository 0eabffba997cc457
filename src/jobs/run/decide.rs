//! Decides the outcome of an execution: succeeded, failed and why, cancelled, or parked.

use serde_json::Value;

use crate::base::Result;
use crate::jobs::run::settle::{Ended, Outcome};
use crate::jobs::telemetry::limit::Limit;
use crate::jobs::{Hooks, Job, Reason, Status, Verdict};
use crate::script::Produces;
use crate::store::Tx;

/// Most characters of an agent's error quoted in a warning.
const MET_CHARS_MAX: usize = 300;

/// Gives a job that failed because of a rate limit its own reason. A job that produced what it
/// promised has succeeded, whatever its agent encountered.
pub(super) fn with_limit(
    reason: Option<Reason>,
    limit: Option<Limit>,
) -> (Option<Reason>, Option<Limit>) {
    match (reason, limit) {
        (Some(Reason::ExitStatus | Reason::NoResult), Some(limit)) => {
            (Some(Reason::RateLimited), Some(limit))
        }
        (reason, _) => (reason, None),
    }
}

/// Returns whether a job is parked by the end of its execution, and keeps its workspace: it waits
/// for a person, and its engine has a session to go on with.
pub(super) fn is_parked(job: &Job, outcome: &Outcome) -> bool {
    let has_session = job.session_ref.is_some() || outcome.session_ref.is_some();
    let waits = job.waits_for.is_some() && job.verdict.is_none() && job.cancelled_by.is_none();
    waits && can_wait(outcome.ended) && has_session
}

/// Returns whether a job that waits for a person may be parked: it ended by itself, or was ended
/// for that. A timeout, or an agent that never started, is a failure.
fn can_wait(ended: Ended) -> bool {
    match ended {
        Ended::Well => true,
        Ended::Not(_, reason) => matches!(
            reason,
            Reason::ExitStatus
                | Reason::Signal
                | Reason::ServerRestarted
                | Reason::VerifyFailed
                | Reason::VerifyUnasked
        ),
    }
}

/// Returns whether an agent that exited with an error had already produced what its kind promises:
/// it may have hit a rate limit at its last words.
pub(super) fn has_left(
    tx: &Tx<'_>,
    job: &Job,
    ended: Ended,
    produces: Option<Produces>,
    hooks: &Hooks,
) -> Result<bool> {
    let may_have =
        ended == Ended::Not(Status::Failed, Reason::ExitStatus) && job.message_id.is_none();
    match produces.filter(|_| may_have) {
        Some(produces) => (hooks.produced)(tx, job, produces),
        None => Ok(false),
    }
}

/// Returns the warning for a job that succeeded although its agent exited with an error.
pub(super) fn met(status: Status, outcome: &Outcome) -> Option<String> {
    let Ended::Not(_, Reason::ExitStatus) = outcome.ended else { return None };
    let is_word = |it: &&str| !it.is_empty() && !it.starts_with("hint: ");
    let last = outcome.error_tail.lines().rev().map(str::trim).find(is_word);
    let words = crate::base::truncate_chars(last.unwrap_or("no reason given"), MET_CHARS_MAX);
    let code = outcome.exit_code.unwrap_or_default();
    let name = match outcome.limit {
        Some(_) => Reason::RateLimited.as_str(),
        None => Reason::ExitStatus.as_str(),
    };
    (status == Status::Succeeded).then(|| {
        format!("{name}: after submitting its work, the agent exited with status {code}: {words}")
    })
}

/// A status, its reason, and the tail of the error.
pub(super) type Decision = (Status, Option<Reason>, Option<String>);

/// Decides the outcome of an execution: its status, the reason, and the error tail. A cancellation
/// takes precedence, then the agent's own verdict, then waiting for a person; only a normal end is
/// checked for what the kind promises.
pub(super) fn decide(
    tx: &Tx<'_>,
    job: &Job,
    outcome: &Outcome,
    produces: Option<Produces>,
    hooks: &Hooks,
) -> Result<Decision> {
    if job.cancelled_by.is_some() {
        let tail = Some(outcome.error_tail.clone()).filter(|it| !it.is_empty());
        return Ok((Status::Cancelled, Some(Reason::Cancelled), tail));
    }
    if job.verdict == Some(Verdict::Error) {
        let why = job.result.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
        return Ok((Status::Failed, Some(Reason::Reported), Some(why)));
    }
    if is_parked(job, outcome) {
        return Ok((Status::Parked, None, None));
    }
    if job.waits_for.is_some() && job.verdict.is_none() && can_wait(outcome.ended) {
        let tail = "its engine named no session to go on with".to_owned();
        return Ok((Status::Failed, Some(Reason::SessionLost), Some(tail)));
    }
    let is_own = |reason| !matches!(reason, Reason::VerifyFailed | Reason::VerifyUnasked);
    if let Ended::Not(_, reason) = outcome.ended
        && job.verdict == Some(Verdict::Ok)
        && is_own(reason)
    {
        return Ok((Status::Succeeded, None, None));
    }
    if let Ended::Not(status, reason) = outcome.ended {
        return Ok(match has_left(tx, job, outcome.ended, produces, hooks)? {
            true => (Status::Succeeded, None, None),
            false => (status, Some(reason), Some(outcome.error_tail.clone())),
        });
    }
    if job.verdict == Some(Verdict::Ok) {
        return Ok((Status::Succeeded, None, None));
    }
    if job.message_id.is_some() {
        let mut tail = "agent ended without a verdict".to_owned();
        if let Some(refusal) = &outcome.refusal {
            tail = format!("{tail}\n{}", refusal.line());
        }
        return Ok((Status::Failed, Some(Reason::NoResult), Some(tail)));
    }
    let Some(produces) = produces else { return Ok((Status::Succeeded, None, None)) };
    if (hooks.produced)(tx, job, produces)? || crate::base::fault::is_off("postcondition") {
        return Ok((Status::Succeeded, None, None));
    }
    let how = match outcome.exit_code {
        Some(0) => "exited 0",
        _ => "hung after its final result",
    };
    let mut tail = format!("agent {how} but produced no {}", produces.as_str());
    if let Some(refusal) = &outcome.refusal {
        tail = format!("{tail}\n{}", refusal.line());
    }
    Ok((Status::Failed, Some(Reason::NoResult), Some(tail)))
}
