//! The clocks of a job: start, idle, wall, and linger after the final result. The idle clock pauses
//! while a tool of the agent runs; the wall clock never does.

use std::time::{Duration, Instant};

use crate::base::fault;
use crate::process::launch::{Clocks, ExitCause};

/// Longer than any job; an instant further away could overflow.
const FAR: Duration = Duration::from_secs(400 * 86_400);

/// Decides when a running agent must be ended. Monotonic: setting the system time has no effect.
pub(in crate::process::guard) struct ClockState {
    clocks: Clocks,
    started: Instant,
    last_output: Option<Instant>,
    is_in_call: bool,
    final_result: Option<Instant>,
}

impl ClockState {
    pub(in crate::process::guard) fn new(clocks: Clocks, started: Instant) -> ClockState {
        ClockState { clocks, started, last_output: None, is_in_call: false, final_result: None }
    }

    pub(in crate::process::guard) fn note_output(&mut self, now: Instant) {
        self.last_output = Some(now);
    }

    /// Records whether a tool is running; when it stops, the idle clock restarts.
    pub(in crate::process::guard) fn note_call(&mut self, is_open: bool, now: Instant) {
        self.is_in_call = is_open && !fault::is_off("call_clock");
        self.last_output = self.last_output.max(Some(now));
    }

    pub(in crate::process::guard) fn note_final_result(&mut self, now: Instant) {
        self.final_result.get_or_insert(now);
    }

    /// Records that the agent works on: its last result was not its final one.
    pub(in crate::process::guard) fn note_work(&mut self) {
        self.final_result = None;
    }

    /// Returns the clock that has run out, if any.
    pub(in crate::process::guard) fn due(&self, now: Instant) -> Option<ExitCause> {
        self.deadline().filter(|(at, _)| *at <= now).map(|(_, cause)| cause)
    }

    /// Returns which clock runs out next, and when.
    pub(in crate::process::guard) fn deadline(&self) -> Option<(Instant, ExitCause)> {
        let Clocks { start_ms, idle_ms, wall_ms, linger_ms } = self.clocks;
        let wall = wall_ms.map(|ms| (after(self.started, ms), ExitCause::WallTimeout));
        let linger = self.final_result.map(|it| (after(it, linger_ms), ExitCause::Linger));
        // Until the first output the start clock applies, if set; after it, the idle clock.
        let silence = match (self.last_output, start_ms) {
            (None, Some(ms)) => Some((after(self.started, ms), ExitCause::StartTimeout)),
            (None, None) => idle_ms.map(|ms| (after(self.started, ms), ExitCause::IdleTimeout)),
            (Some(it), _) => idle_ms.map(|ms| (after(it, ms), ExitCause::IdleTimeout)),
        };
        // Silence is expected after the final result, and while a tool runs.
        let silence = silence.filter(|_| linger.is_none() && !self.is_in_call);
        [wall, linger, silence].into_iter().flatten().min_by_key(|(at, _)| *at)
    }
}

fn after(start: Instant, ms: u64) -> Instant {
    start + Duration::from_millis(ms).min(FAR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_clock_has_its_time() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let clocks =
            Clocks { start_ms: Some(50), idle_ms: Some(20), wall_ms: Some(1_000), linger_ms: 100 };
        let mut state = ClockState::new(clocks, begin);
        assert_eq!(state.due(at(30)), None, "the start clock, not the idle clock");
        assert_eq!(state.due(at(50)), Some(ExitCause::StartTimeout));
        state.note_output(at(40));
        assert_eq!(state.due(at(59)), None);
        assert_eq!(state.due(at(60)), Some(ExitCause::IdleTimeout));
        state.note_final_result(at(50));
        state.note_final_result(at(90));
        assert_eq!(state.due(at(149)), None);
        assert_eq!(state.due(at(150)), Some(ExitCause::Linger));
        state.note_output(at(140));
        state.note_work();
        assert_eq!(state.due(at(159)), None, "it was not its last result");
        assert_eq!(state.due(at(160)), Some(ExitCause::IdleTimeout));
        state.note_final_result(at(155));
        assert_eq!(state.due(at(254)), None);
        assert_eq!(state.due(at(255)), Some(ExitCause::Linger));
        state.note_work();
        state.note_output(at(990));
        assert_eq!(state.due(at(1_000)), Some(ExitCause::WallTimeout), "in total as before");
        let mut state = ClockState::new(Clocks { wall_ms: Some(500), ..clocks }, begin);
        state.note_output(at(40));
        state.note_call(true, at(45));
        assert_eq!(state.due(at(499)), None, "a tool works");
        assert_eq!(state.due(at(500)), Some(ExitCause::WallTimeout));
        state.note_call(false, at(100));
        assert_eq!(state.due(at(119)), None);
        assert_eq!(state.due(at(120)), Some(ExitCause::IdleTimeout));
        let none = Clocks { start_ms: None, idle_ms: None, wall_ms: Some(u64::MAX), linger_ms: 1 };
        assert_eq!(ClockState::new(none, begin).due(at(1_000_000)), None);
        let never = Clocks { wall_ms: None, ..none };
        assert_eq!(ClockState::new(never, begin).deadline(), None);
        let idle = Clocks { idle_ms: Some(20), ..none };
        assert_eq!(ClockState::new(idle, begin).due(at(20)), Some(ExitCause::IdleTimeout));
        let wall = Clocks { wall_ms: Some(10), ..none };
        assert_eq!(ClockState::new(wall, begin).due(at(10)), Some(ExitCause::WallTimeout));
    }
}
