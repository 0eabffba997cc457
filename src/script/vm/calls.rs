//! The calls into the VM of one generation: those that wait, and the one that runs.
//!
//! **Invariant:** calls run one at a time, in their order, and each one's time counts from its own
//! start. A thread that was given up takes no further call, and its answer reaches nobody.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::oneshot;

use crate::base::{Error, Result};
use crate::script::source::location::Slot;
use crate::script::vm::effect::{Answer, Rights};

/// Most calls that wait.
const WAITING_MAX: usize = 1_000;

/// One call into the VM.
#[derive(Debug)]
pub(crate) struct Call {
    /// The function.
    pub(crate) slot: Slot,
    /// Its argument.
    pub(crate) arg: Value,
    /// What it may do.
    pub(crate) rights: Rights,
    /// Where the answer goes.
    pub(crate) reply: oneshot::Sender<Result<Answer>>,
}

/// Why a call was not taken.
pub(crate) enum Refused {
    /// Too many wait.
    Full,
    /// Nothing runs here any more.
    Closed,
}

/// The calls of one generation. The threads of its VMs take them, one thread at a time.
#[derive(Debug, Default)]
pub(crate) struct Line {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Call>,
    /// The thread whose turn it is; one with another number was given up.
    thread: u32,
    running: Option<Running>,
    /// Tells the thread that nobody waits for it.
    is_abandoned: Arc<AtomicBool>,
    is_closed: bool,
}

/// What the thread is at: a call, or loading.
#[derive(Debug)]
struct Running {
    since: Instant,
    patience: Duration,
    call: Option<(Slot, oneshot::Sender<Result<Answer>>)>,
}

/// A thread's turn.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    line: Arc<Line>,
    thread: u32,
    /// Whether nobody waits for it any more; the script's own limits look at it.
    pub(crate) is_abandoned: Arc<AtomicBool>,
}

/// What a look at the running call found.
pub(crate) enum Look {
    /// All is well; there is nothing to see for so long.
    Fine(Duration),
    /// It does not end and was given up, and another thread may take the next call.
    GivenUp(Option<Slot>, Turn),
}

impl Line {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that runs under the lock can fail half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the turn of the first thread.
    pub(crate) fn first(self: &Arc<Line>) -> Turn {
        let is_abandoned = Arc::clone(&self.state().is_abandoned);
        Turn { line: Arc::clone(self), thread: 0, is_abandoned }
    }

    /// Adds a call behind all others.
    pub(crate) fn push(&self, call: Call) -> std::result::Result<(), Refused> {
        let mut state = self.state();
        if state.is_closed {
            return Err(Refused::Closed);
        }
        if state.waiting.len() >= WAITING_MAX {
            return Err(Refused::Full);
        }
        state.waiting.push_back(call);
        drop(state);
        self.wake.notify_one();
        Ok(())
    }

    /// Looks whether what runs takes too long. If so its thread is given up: whoever asked has an
    /// error, and the thread with the new turn has `patience` to load.
    pub(crate) fn look(self: &Arc<Line>, patience: Duration) -> Look {
        let mut state = self.state();
        let rest = match &state.running {
            None => patience,
            Some(running) => running.patience.saturating_sub(running.since.elapsed()),
        };
        if !rest.is_zero() || state.is_closed {
            return Look::Fine(rest.max(Duration::from_millis(1)));
        }
        state.is_abandoned.store(true, Ordering::Relaxed);
        state.is_abandoned = Arc::default();
        state.thread += 1;
        let loading = Running { since: Instant::now(), patience, call: None };
        let stuck = state.running.replace(loading).and_then(|it| it.call);
        let turn = Turn {
            line: Arc::clone(self),
            thread: state.thread,
            is_abandoned: Arc::clone(&state.is_abandoned),
        };
        drop(state);
        let slot = stuck.map(|(slot, reply)| {
            // Whoever asked may be gone; there is nobody else to tell.
            let _ =
                reply.send(Err(Error::invalid(format!("{}: the function does not end", slot.at))
                    .code("script_failed")
                    .hint("look for a text pattern that takes very long")));
            slot
        });
        Look::GivenUp(slot, turn)
    }

    /// Ends it: what waits is dropped, and the thread ends with what it is at.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        state.is_abandoned.store(true, Ordering::Relaxed);
        let dropped = (std::mem::take(&mut state.waiting), state.running.take());
        drop(state);
        drop(dropped);
        self.wake.notify_all();
    }
}

impl Turn {
    /// Waits for a call, which may take `patience`; none comes any more once the turn is over.
    pub(crate) fn next(&self, patience: Duration) -> Option<(Slot, Value, Rights)> {
        let mut state = self.line.state();
        loop {
            if state.is_closed || state.thread != self.thread {
                return None;
            }
            // Loading, if that was it, is over.
            state.running = None;
            while let Some(call) = state.waiting.pop_front() {
                let Call { slot, arg, rights, reply } = call;
                if reply.is_closed() {
                    continue;
                }
                let since = Instant::now();
                let call = Some((slot.clone(), reply));
                state.running = Some(Running { since, patience, call });
                return Some((slot, arg, rights));
            }
            state = self.line.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Answers the call that runs, unless it was given up.
    pub(crate) fn answer(&self, answer: Result<Answer>) {
        let mut state = self.line.state();
        if state.thread != self.thread {
            return;
        }
        let running = state.running.take();
        drop(state);
        if let Some((_, reply)) = running.and_then(|it| it.call) {
            // As in `look`.
            let _ = reply.send(answer);
        }
    }

    /// Ends the whole line.
    pub(crate) fn close(&self) {
        self.line.close();
    }
}
