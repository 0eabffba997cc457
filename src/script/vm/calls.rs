//! The queue of calls into the VM of one generation, and the running call.
//!
//! **Invariant:** calls run one at a time, in order, and the time of each counts from its own
//! start. An abandoned thread takes no further call, and its answer is dropped.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::oneshot;

use crate::base::{Error, Result};
use crate::script::source::location::Slot;
use crate::script::vm::SCRIPT_FAILED;
use crate::script::vm::effect::{Answer, Rights};

/// Most queued calls.
const WAITING_MAX: usize = 1_000;

/// One call into the VM.
#[derive(Debug)]
pub(crate) struct Call {
    /// The function.
    pub(crate) slot: Slot,
    /// Its argument.
    pub(crate) arg: Value,
    /// Its rights.
    pub(crate) rights: Rights,
    /// Receiver of the answer.
    pub(crate) reply: oneshot::Sender<Result<Answer>>,
}

/// Why a call was not taken.
pub(crate) enum Refused {
    /// The queue is full.
    Full,
    /// The queue is closed.
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
    /// The current thread; one with another number was abandoned.
    thread: u32,
    running: Option<Running>,
    /// Tells the thread that it was abandoned.
    is_abandoned: Arc<AtomicBool>,
    is_closed: bool,
}

/// What the thread is doing: a call, or loading.
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
    /// Whether it was abandoned; checked by the hook that limits the script.
    pub(crate) is_abandoned: Arc<AtomicBool>,
}

/// Result of a check of the running call.
pub(crate) enum Look {
    /// Nothing to do for this long.
    Fine(Duration),
    /// It did not end and was abandoned; another thread may take the next call.
    GivenUp(Option<Slot>, Turn),
}

impl Line {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that runs under the lock can panic half-way.
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

    /// Checks whether the running call takes too long. If so, its thread is abandoned: the caller
    /// gets an error, and the thread with the new turn has `patience` to load.
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
            // If the caller is gone, there is nobody else to notify.
            let _ =
                reply.send(Err(Error::invalid(format!("{}: the function does not end", slot.at))
                    .code(SCRIPT_FAILED)
                    .hint("look for a text pattern that takes very long")));
            slot
        });
        Look::GivenUp(slot, turn)
    }

    /// Closes the queue: waiting calls are dropped, and the thread ends after its current call.
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
    /// Waits for a call, which may take `patience`; `None` once the turn is over.
    pub(crate) fn next(&self, patience: Duration) -> Option<(Slot, Value, Rights)> {
        let mut state = self.line.state();
        loop {
            if state.is_closed || state.thread != self.thread {
                return None;
            }
            // Loading, if that was running, is over.
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

    /// Answers the running call, unless it was abandoned.
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

    /// Closes the queue.
    pub(crate) fn close(&self) {
        self.line.close();
    }
}
