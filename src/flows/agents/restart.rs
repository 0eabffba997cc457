//! Whether an agent starts again when its start has ended, after what pause, and how often.

use crate::base::Millis;
use crate::jobs::{Job, Reason, Status};
use crate::mail::agent::{Agent, State, Wanted};
use crate::script::{Autostart, LiveAgent};

/// So many unasked ends within [`ENDS_WINDOW_MS`] are too many.
const ENDS_MAX: usize = 5;
/// How long ends are counted, in milliseconds.
const ENDS_WINDOW_MS: i64 = 10 * 60_000;
/// The first pause before an agent is started again, in milliseconds; each next one is twice as
/// long.
const PAUSE_MS: i64 = 1_000;
/// The longest pause, in milliseconds.
const PAUSE_MAX_MS: i64 = 5 * 60_000;
/// The reason of a start that a person ends for the next one.
pub(super) const RESTART: &str = "restart";
/// The reason of an end because the agent was started to take a seat, and has none any more.
pub(super) const UNSEATED: &str = "unseated";
/// The reason of an end after which the script had no declaration of the agent.
pub(super) const UNDECLARED: &str = "not_declared";

/// Returns when a start that was put off is due, if it is not yet. No pause is longer than the
/// longest: what lies further ahead was written while the clock was ahead, and is due.
pub(super) fn pending(not_before: Option<Millis>, now: Millis) -> Option<Millis> {
    not_before.filter(|at| *at > now && at.0.saturating_sub(now.0) <= PAUSE_MAX_MS)
}

/// What becomes of an agent whose start has ended.
pub(super) struct Next {
    pub(super) state: State,
    pub(super) reason: Option<String>,
    pub(super) ends: Vec<Millis>,
    pub(super) not_before: Option<Millis>,
    pub(super) is_asked: bool,
}

/// Says what becomes of an agent whose start has ended.
pub(super) fn next(agent: &Agent, job: &Job, declared: Option<&LiveAgent>, now: Millis) -> Next {
    let plain = |state, reason: Option<&str>| Next {
        state,
        reason: reason.map(str::to_owned),
        ends: agent.ends.clone(),
        not_before: None,
        is_asked: false,
    };
    if agent.reason.as_deref() == Some(RESTART) && declared.is_some() {
        return plain(State::Starting, None);
    }
    if agent.reason.as_deref() == Some(UNSEATED) {
        return Next { ends: Vec::new(), ..plain(State::Stopped, Some(UNSEATED)) };
    }
    if agent.wanted == Wanted::Stopped || job.status == Status::Cancelled {
        return Next { is_asked: true, ends: Vec::new(), ..plain(State::Stopped, Some("asked")) };
    }
    let Some(declared) = declared else {
        return plain(State::Stopped, Some(UNDECLARED));
    };
    // The server's own end is none of the agent's.
    if matches!(job.reason, Some(Reason::ServerRestarted)) {
        return plain(State::Starting, None);
    }
    if job.status == Status::Succeeded && declared.autostart != Autostart::Always {
        return plain(State::Stopped, Some("ended"));
    }
    let reason = job.reason.map_or("ended", Reason::as_str);
    if !declared.restart {
        return plain(State::Failed, Some(reason));
    }
    let since = now.plus(-ENDS_WINDOW_MS);
    let mut ends: Vec<Millis> =
        agent.ends.iter().copied().filter(|it| *it > since && *it <= now).collect();
    ends.push(now);
    let doublings = u32::try_from(ends.len() - 1).unwrap_or(u32::MAX).min(16);
    let pause = (PAUSE_MS << doublings).min(PAUSE_MAX_MS);
    match ends.len() >= ENDS_MAX {
        true => Next { ends, ..plain(State::Failed, Some(reason)) },
        false => {
            Next { ends, not_before: Some(now.plus(pause)), ..plain(State::Starting, Some(reason)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_of_a_clock_that_was_ahead_is_over() {
        let now = Millis(1_000_000_000);
        let longest = now.plus(PAUSE_MAX_MS);
        assert_eq!(pending(None, now), None);
        assert_eq!(pending(Some(now), now), None);
        assert_eq!(pending(Some(longest), now), Some(longest));
        assert_eq!(pending(Some(longest.plus(1)), now), None);
        assert_eq!(pending(Some(Millis(i64::MAX)), Millis(i64::MIN)), None);
    }
}
