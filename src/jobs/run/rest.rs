//! The turns of an instance whose engine goes on after one: whether it may be given another text,
//! and how long one is waited for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::jobs::speak::{Ending, Fact, Noted};

/// The turns of one instance; clones share them. Off for every other job.
#[derive(Clone, Debug, Default)]
pub(in crate::jobs) struct Rest(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    turns: Mutex<Option<Turns>>,
    changed: Notify,
}

#[derive(Debug)]
struct Turns {
    /// How long it rests after a turn.
    after_turn: Duration,
    /// What its first turn is about, until it is given.
    first: Option<String>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A turn runs, or a text for one is on its way.
    Working,
    /// It may be given another text, until then.
    Resting(Instant),
    /// It gets nothing more.
    Over,
}

/// What lines of output say about the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::jobs) enum Turned {
    /// One began.
    Began,
    /// The last one was answered.
    Answered,
    /// The last one failed, or somebody interrupted it.
    Failed,
}

impl Turned {
    /// Returns what the last fact about a turn says.
    pub(in crate::jobs) fn by(lines: &[Noted]) -> Option<Turned> {
        lines.iter().flat_map(|it| &it.facts).rev().find_map(|fact| match fact {
            Fact::Began { .. } | Fact::Works => Some(Turned::Began),
            Fact::Ended { how: Ending::Answered, .. } => Some(Turned::Answered),
            Fact::Ended { .. } => Some(Turned::Failed),
            _ => None,
        })
    }
}

impl Rest {
    /// Begins the turns of an engine with this text.
    pub(in crate::jobs) fn begin(&self, after_turn: Duration, first: String) {
        *self.turns() = Some(Turns { after_turn, first: Some(first), state: State::Working });
    }

    /// Returns whether this is a job with turns.
    pub(in crate::jobs) fn is_on(&self) -> bool {
        self.turns().is_some()
    }

    /// Returns what the first turn is about, once.
    pub(in crate::jobs) fn take_first(&self) -> Option<String> {
        self.turns().as_mut()?.first.take()
    }

    /// Returns whether it may be given another text.
    pub(in crate::jobs) fn is_resting(&self) -> bool {
        self.turns().as_ref().is_some_and(|it| matches!(it.state, State::Resting(_)))
    }

    /// Notes that a turn has ended: for a while another one may follow.
    pub(in crate::jobs) fn rest(&self) {
        self.turn(|it| State::Resting(Instant::now() + it.after_turn));
    }

    /// Notes that a turn runs. Returns whether it rested until now: then nobody else gives it
    /// something.
    pub(in crate::jobs) fn work(&self) -> bool {
        let before = self.turn(|_| State::Working);
        matches!(before, Some(State::Resting(_)))
    }

    /// Notes that it gets nothing more.
    pub(in crate::jobs) fn end(&self) {
        self.turn(|_| State::Over);
    }

    /// Waits for a change; returns whether it gets nothing more.
    pub(in crate::jobs) async fn turned(&self) -> bool {
        let state = self.turns().as_ref().map(|it| it.state);
        match state {
            Some(State::Over) => return true,
            Some(State::Resting(until)) => {
                tokio::select! {
                    () = self.0.changed.notified() => {}
                    () = sleep_until(until) => {
                        // Nobody gave it anything in this moment.
                        if self.turns().as_ref().is_some_and(|it| it.state == State::Resting(until))
                        {
                            self.end();
                        }
                    }
                }
            }
            Some(State::Working) | None => self.0.changed.notified().await,
        }
        self.turns().as_ref().is_some_and(|it| it.state == State::Over)
    }

    /// Sets the state, unless it is the last one; returns the state before.
    fn turn(&self, next: impl FnOnce(&Turns) -> State) -> Option<State> {
        let mut turns = self.turns();
        let turns = turns.as_mut()?;
        let before = turns.state;
        if before != State::Over {
            turns.state = next(turns);
            self.0.changed.notify_one();
        }
        Some(before)
    }

    fn turns(&self) -> MutexGuard<'_, Option<Turns>> {
        self.0.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_rest_ends_with_a_text_or_with_its_time() {
        let rest = Rest::default();
        assert!(!rest.is_on() && !rest.work());
        rest.begin(Duration::from_secs(300), "first".to_owned());
        assert_eq!((rest.take_first().as_deref(), rest.take_first()), (Some("first"), None));
        assert!(!rest.work(), "its first turn runs");
        rest.rest();
        assert!(rest.work() && !rest.work(), "one text for one rest");
        rest.rest();
        let began = Instant::now();
        while !rest.turned().await {}
        assert_eq!(began.elapsed().as_secs(), 300);
        rest.rest();
        assert!(!rest.is_resting() && !rest.work(), "it gets nothing more");
    }
}
