//! The handle to the VM of one generation.
//!
//! A Lua C function cannot be interrupted. So a call that does not answer costs its thread: the
//! thread is abandoned, and a fresh VM of the same text takes the next call. The callers waiting
//! for answers monitor the running call themselves: a separate watchdog thread would cost each call
//! two more context switches.
//!
//! **Invariant:** callers queued behind a stuck call are answered by the next VM.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::oneshot;

use crate::base::{Clock, Context, Error, ErrorKind, EventKind, Result, fault};
use crate::script::config::Handler;
use crate::script::load::node::Draft;
use crate::script::load::raw::News;
use crate::script::load::resolve::Placing;
use crate::script::source::location::{Location, Slot};
use crate::script::vm::budget::Budget;
use crate::script::vm::calls::{Call, Line, Look, Refused, Turn};
use crate::script::vm::effect::{Answer, Effect, Rights, Told};
use crate::script::vm::require::Origin;
use crate::script::vm::thread::{CALL_PATIENCE, Plan, run};
use crate::script::vm::wear::{ABANDONED_MAX, Wear};

/// The code of a script that does not return.
pub const SCRIPT_STUCK: &str = "script_stuck";

/// How long loading may take before its thread is abandoned.
const LOAD_PATIENCE: Duration = Budget::LOAD.wall.saturating_add(Budget::PATIENCE);
/// How long an event waits if the queue is full.
const BUSY_PAUSE: Duration = Duration::from_millis(50);

/// A handle to the VM of one generation, which ends when the last handle is dropped.
#[derive(Clone, Debug)]
pub struct Vm {
    line: Arc<Line>,
    owner: Arc<Owner>,
    wear: Wear,
    handlers: Arc<Vec<Handler>>,
    clock: Clock,
}

impl Vm {
    /// Returns the same functions with another clock, for running a script without a server.
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Vm {
        self.clock = clock;
        self
    }

    /// Calls a function that returns a plain value. `name` is its name in the statistics.
    ///
    /// # Errors
    /// `script_failed` with file and line, `script_stuck` once the functions are disabled, `busy`
    /// if too many calls wait.
    pub async fn ask(&self, name: &str, slot: &Slot, arg: Value) -> Result<Value> {
        self.call(name, slot, arg, Rights::answers(self.clock.now())).await.map(|it| it.value)
    }

    /// Calls a function that requests effects; nothing has been done about them yet.
    ///
    /// # Errors
    /// Same as [`Vm::ask`]; a failed call has no effects.
    pub async fn tell(&self, name: &str, slot: &Slot, arg: Value) -> Result<Vec<Effect>> {
        self.call(name, slot, arg, Rights::acts(self.clock.now())).await.map(|it| it.effects)
    }

    /// The same for what can wait until there is room for it: prompts take precedence.
    ///
    /// # Errors
    /// As [`Vm::tell`], without `busy`.
    pub async fn tell_in_turn(&self, name: &str, slot: &Slot, arg: Value) -> Result<Vec<Effect>> {
        loop {
            match self.tell(name, slot, arg.clone()).await {
                Err(cause) if cause.kind() == ErrorKind::Busy => {
                    tokio::time::sleep(BUSY_PAUSE).await;
                }
                told => return told,
            }
        }
    }

    async fn call(&self, name: &str, slot: &Slot, arg: Value, rights: Rights) -> Result<Answer> {
        if self.stuck() {
            return Err(stuck());
        }
        let start = Instant::now();
        let (reply, mut answer) = oneshot::channel();
        let call = Call { slot: slot.clone(), arg, rights, reply };
        self.line.push(call).map_err(|cause| match cause {
            Refused::Full => Error::new(ErrorKind::Busy, "too many calls wait for the script"),
            Refused::Closed => stuck(),
        })?;
        let mut pause = CALL_PATIENCE;
        let answer = loop {
            match tokio::time::timeout(pause, &mut answer).await {
                Ok(answer) => break answer.unwrap_or_else(|_| Err(stuck())),
                Err(_) if fault::is_off("script_watchdog") => {}
                Err(_) => match self.line.look(LOAD_PATIENCE) {
                    Look::Fine(rest) => pause = rest,
                    Look::GivenUp(slot, turn) => self.owner.replace(slot, turn),
                },
            }
        };
        self.wear.note(name, start.elapsed(), answer.is_err());
        answer
    }

    /// Returns the statistics of the functions, over all generations.
    pub fn wear(&self) -> &Wear {
        &self.wear
    }

    /// Calls all handlers of an event in order, and returns the effects that each requests. A
    /// failing handler is logged and does not stop the others.
    pub async fn fire(&self, event: EventKind, payload: Value) -> Vec<Told> {
        let name = format!("on.{}", event.as_str());
        let mut all = Vec::new();
        for handler in self.handlers.iter().filter(|handler| handler.event == event) {
            let told = self.tell_in_turn(&name, &handler.slot, payload.clone()).await;
            if let Err(cause) = &told {
                let (word, at) = (event.as_str(), &handler.slot.at);
                tracing::warn!(
                    file = at.file.as_str(),
                    line = at.line,
                    "a handler of {word} at {at} failed: {}",
                    cause.message()
                );
            }
            let (name, at) = (name.clone(), handler.slot.at.clone());
            all.push(Told { name, at, place: Arc::clone(&handler.place), outcome: told });
        }
        all
    }

    /// Returns whether the functions of the script are disabled.
    pub fn stuck(&self) -> bool {
        self.wear.is_out()
    }
}

fn stuck() -> Error {
    Error::unavailable("the functions of the script are switched off, since they do not end")
        .code(SCRIPT_STUCK)
        .hint("fix the script, then restart the server")
}

/// Starts a thread that evaluates the script and then answers calls while it has the turn. `told`
/// receives its declarations; `loaded` receives the rest of the result, and returns whether the
/// thread continues.
fn start(
    plan: Plan,
    turn: Turn,
    told: Option<Sender<News>>,
    loaded: impl FnOnce(Draft) -> bool + Send + 'static,
) -> Result<()> {
    thread::Builder::new()
        .name("wb-script-vm".to_owned())
        .spawn(move || run(&plan, &turn, told, loaded))
        .map(drop)
        .context(ErrorKind::Unavailable, || "cannot start a thread".to_owned())
}

/// Closes the queue with its last handle.
#[derive(Debug)]
struct Owner {
    line: Arc<Line>,
    /// What the next VM is built from, and its requirements.
    plan: Plan,
    slots: Vec<Location>,
    wear: Wear,
}

impl Drop for Owner {
    fn drop(&mut self) {
        // No effect on a thread that ends by itself; one that is still running is stopped by its
        // next hook.
        self.line.close();
    }
}

/// An evaluated script whose declarations are not validated yet.
pub(crate) struct Started {
    /// The result of the evaluation.
    pub(crate) draft: Draft,
    owner: Owner,
}

/// Evaluates a script on its own thread. Meanwhile, this thread lexes the same text, assigns places
/// to the declarations, and validates them.
///
/// # Errors
/// If the thread cannot start, or the script does not end; `script_stuck` if too many threads were
/// abandoned already.
pub(crate) fn evaluate(plan: Plan, wear: Wear) -> Result<Started> {
    if wear.is_out() {
        return Err(stuck());
    }
    let line = Arc::new(Line::default());
    let owner = Owner { line: Arc::clone(&line), plan: plan.clone(), slots: Vec::new(), wear };
    let (told, news) = mpsc::channel();
    let last = told.clone();
    // If the receiver is gone, this thread was abandoned, and there is nothing to do.
    let loaded = move |draft| last.send(News::Loaded(draft)).is_ok();
    start(plan, line.first(), Some(told), loaded)?;
    match hear(&news) {
        Ok(draft) => Ok(Started { draft, owner }),
        Err(Unheard::Stuck) => {
            owner.wear.abandon();
            Err(Error::unavailable("the script does not end while it loads")
                .code(SCRIPT_STUCK)
                .hint("look for a text pattern that takes very long"))
        }
        Err(Unheard::Late) => {
            Err(Error::unavailable("what the script declares takes too long to find in its text")
                .hint("write each table where it is declared, in lines of usual length"))
        }
        Err(Unheard::Gone) => Err(Error::internal("the script engine has failed")),
    }
}

/// Why a loading script was abandoned.
enum Unheard {
    /// Its thread does not end.
    Stuck,
    /// Its thread has ended or will end, and there are too many places to assign.
    Late,
    /// Its thread is gone.
    Gone,
}

/// Receives the events of a script's thread until it has loaded.
fn hear(news: &Receiver<News>) -> std::result::Result<Draft, Unheard> {
    let until = Instant::now() + LOAD_PATIENCE;
    let (mut placing, mut declared) = (Placing::default(), Vec::new());
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let next = news.recv_timeout(left).map_err(|cause| match cause {
            RecvTimeoutError::Timeout => Unheard::Stuck,
            RecvTimeoutError::Disconnected => Unheard::Gone,
        });
        match next? {
            News::Read(source) => placing.read(source),
            News::Declared(bare) => {
                for bare in bare {
                    if Instant::now() > until {
                        return Err(Unheard::Late);
                    }
                    declared.push(placing.declared(bare));
                }
            }
            News::Loaded(mut draft) => {
                draft.declared = declared;
                draft.findings.extend(placing.findings);
                return Ok(draft);
            }
        }
    }
}

impl Started {
    /// Creates the handle for calls.
    pub(crate) fn serve(self, handlers: Vec<Handler>) -> Vm {
        let Started { draft, mut owner } = self;
        let files = draft.files.iter().map(|file| (file.path.clone(), Arc::clone(&file.text)));
        owner.plan.origin = Origin::Stored(files.collect::<BTreeMap<_, _>>());
        owner.slots = draft.slots;
        let (wear, line) = (owner.wear.clone(), Arc::clone(&owner.line));
        let (handlers, clock) = (Arc::new(handlers), Clock::system());
        Vm { line, owner: Arc::new(owner), wear, handlers, clock }
    }
}

impl Owner {
    /// Replaces an abandoned thread with a fresh one, unless that has happened too often.
    fn replace(&self, stuck: Option<Slot>, turn: Turn) {
        let abandoned = self.wear.abandon();
        match stuck.map(|it| it.at) {
            Some(at) => tracing::error!(
                file = at.file.as_str(),
                line = at.line,
                "the function at {at} does not end; its thread is given up \
                 ({abandoned} of {ABANDONED_MAX})"
            ),
            None => tracing::error!("the script does not end while it is loaded again"),
        }
        if self.wear.is_out() {
            return put_out(&self.wear, &turn);
        }
        let (own, wear, slots) = (turn.clone(), self.wear.clone(), self.slots.clone());
        let judge = move |draft: Draft| {
            let is_same = draft.is_whole && draft.slots == slots;
            if !is_same {
                tracing::error!("the same text of the script now has other functions");
                put_out(&wear, &own);
            }
            is_same
        };
        if let Err(cause) = start(self.plan.clone(), turn.clone(), None, judge) {
            tracing::error!("the script cannot be loaded again: {}", cause.chain());
            put_out(&self.wear, &turn);
        }
    }
}

fn put_out(wear: &Wear, turn: &Turn) {
    wear.put_out();
    turn.close();
    tracing::error!("the functions of the script are switched off until a restart");
}
