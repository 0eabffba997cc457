//! The turns of an instance whose engine goes on after one: whether it may be given another text,
//! and how long one is waited for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::base::BlockId;
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
    /// What its first turn is about, until the engine has taken it.
    first: Option<String>,
    /// The name under which that was given to the engine.
    given: Option<BlockId>,
    /// Whether a turn runs.
    has_turn: bool,
    /// Whether the engine does not know the session that it was to go on with.
    is_session_lost: bool,
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
    /// None did, but the engine can be given a text now.
    Free,
    /// The engine does not know the session that it was to go on with.
    SessionLost,
}

impl Turned {
    /// Returns what the last fact about a turn says.
    pub(in crate::jobs) fn by(lines: &[Noted]) -> Option<Turned> {
        let facts = || lines.iter().flat_map(|it| &it.facts);
        if facts().any(|fact| *fact == Fact::SessionLost) {
            return Some(Turned::SessionLost);
        }
        let turned = facts().rev().find_map(|fact| match fact {
            Fact::Began { .. } | Fact::Works => Some(Turned::Began),
            Fact::Ended { how: Ending::Answered, .. } => Some(Turned::Answered),
            Fact::Ended { .. } => Some(Turned::Failed),
            _ => None,
        });
        // Beside the end of a turn, it adds nothing.
        let is_free = || facts().any(|fact| matches!(fact, Fact::Ready | Fact::Free));
        turned.or_else(|| is_free().then_some(Turned::Free))
    }
}

impl Rest {
    /// Begins the turns of an engine with this text.
    pub(in crate::jobs) fn begin(&self, after_turn: Duration, first: String) {
        *self.turns() = Some(Turns {
            after_turn,
            first: Some(first),
            given: None,
            has_turn: false,
            is_session_lost: false,
            state: State::Working,
        });
    }

    /// Returns whether this is a job with turns.
    pub(in crate::jobs) fn is_on(&self) -> bool {
        self.turns().is_some()
    }

    /// Returns what the first turn is about, to be given under this name; once, unless the engine
    /// refuses it.
    pub(in crate::jobs) fn give_first(&self, id: &BlockId) -> Option<String> {
        let mut turns = self.turns();
        let turns = turns.as_mut().filter(|it| it.given.is_none())?;
        turns.given = Some(id.clone());
        turns.first.clone()
    }

    /// Hears what lines of output say: whether a turn runs, and what became of the first text.
    pub(in crate::jobs) fn hear(&self, lines: &[Noted]) {
        let mut turns = self.turns();
        let Some(turns) = turns.as_mut() else { return };
        for fact in lines.iter().flat_map(|it| &it.facts) {
            match fact {
                Fact::Began { .. } | Fact::Works => turns.has_turn = true,
                Fact::Ended { .. } => turns.has_turn = false,
                Fact::Refused { block, .. } if turns.given.as_ref() == Some(block) => {
                    turns.given = None;
                }
                _ => {}
            }
        }
    }

    /// Returns whether a turn runs.
    pub(in crate::jobs) fn has_turn(&self) -> bool {
        self.turns().as_ref().is_some_and(|it| it.has_turn)
    }

    /// Notes that the session is gone that it was to go on with: it gets nothing more.
    pub(in crate::jobs) fn lose_session(&self) {
        if let Some(turns) = self.turns().as_mut() {
            turns.is_session_lost = true;
        }
        self.end();
    }

    /// Returns whether the session is gone that it was to go on with.
    pub(in crate::jobs) fn is_session_lost(&self) -> bool {
        self.turns().as_ref().is_some_and(|it| it.is_session_lost)
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

    fn block(number: u32) -> BlockId {
        format!("01998d4e-6c1a-7f00-8000-00000000000{number}").parse().unwrap()
    }

    fn heard(facts: &[Fact]) -> Vec<Noted> {
        vec![Noted { at: 1, facts: facts.to_vec() }]
    }

    #[test]
    fn a_first_text_that_is_refused_is_given_again() {
        let rest = Rest::default();
        assert_eq!(rest.give_first(&block(1)), None, "a job without turns");
        rest.begin(Duration::from_secs(300), "first".to_owned());
        assert_eq!(rest.give_first(&block(1)).as_deref(), Some("first"));
        assert_eq!(rest.give_first(&block(2)), None, "once");
        let refused = |number| Fact::Refused { block: block(number), why: "busy".to_owned() };
        rest.hear(&heard(&[refused(3)]));
        assert_eq!(rest.give_first(&block(2)), None, "another text was refused");
        let began = Fact::Began { block: None };
        rest.hear(&heard(&[Fact::Works, began.clone(), refused(1)]));
        assert!(rest.has_turn());
        assert_eq!(rest.give_first(&block(2)).as_deref(), Some("first"));
        assert_eq!(Turned::by(&heard(&[began, Fact::Free])), Some(Turned::Began));
        assert_eq!(Turned::by(&heard(&[refused(1), Fact::Free])), Some(Turned::Free));
        assert_eq!(Turned::by(&heard(&[refused(1)])), None);
        let lost = heard(&[Fact::SessionLost, Fact::Ready]);
        assert_eq!(Turned::by(&lost), Some(Turned::SessionLost));
    }

    #[tokio::test(start_paused = true)]
    async fn a_rest_ends_with_a_text_or_with_its_time() {
        let rest = Rest::default();
        assert!(!rest.is_on() && !rest.work());
        rest.begin(Duration::from_secs(300), "first".to_owned());
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
