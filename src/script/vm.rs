//! The handle to the VM of one generation, and the thread that watches over it.
//!
//! A C function of Lua cannot be interrupted. So a call that does not answer costs its thread: it
//! is given up, and a fresh VM of the same text takes the next call.
//!
//! **Invariant:** calls run one at a time, and each one's time counts from its own start: whoever
//! waits behind a call that is stuck is answered by the next VM.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::oneshot;

use crate::base::{Clock, Context, Error, ErrorKind, EventKind, Result, fault};
use crate::script::budget::Budget;
use crate::script::config::{Handler, ScriptFile};
use crate::script::effect::{Answer, Effect, Rights, Told};
use crate::script::machine::{self, Plan, Task};
use crate::script::node::Draft;
use crate::script::place::{Location, Slot};
use crate::script::require::Origin;
use crate::script::wear::{ABANDONED_MAX, Wear};

/// Most calls that wait.
const WAITING_MAX: usize = 1_000;
/// How long an event waits if too many calls wait already.
const BUSY_PAUSE: Duration = Duration::from_millis(50);

/// A handle to the VM of one generation. It ends with its last handle.
#[derive(Clone, Debug)]
pub struct Vm {
    calls: SyncSender<Call>,
    wear: Wear,
    handlers: Arc<Vec<Handler>>,
    clock: Clock,
}

#[derive(Debug)]
struct Call {
    slot: Slot,
    arg: Value,
    rights: Rights,
    reply: oneshot::Sender<Result<Answer>>,
}

impl Vm {
    /// Returns the same functions with another clock, for whoever runs a script without a server.
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Vm {
        self.clock = clock;
        self
    }

    /// Calls a function that answers with a plain value. `name` is what it is counted under.
    ///
    /// # Errors
    /// `script_failed` with file and line, `script_stuck` once the functions are switched off,
    /// `busy` if too many calls wait.
    pub async fn ask(&self, name: &str, slot: &Slot, arg: Value) -> Result<Value> {
        self.call(name, slot, arg, Rights::answers(self.clock.now())).await.map(|it| it.value)
    }

    /// Calls a function that asks for effects. They are what it wants, and nothing was done yet.
    ///
    /// # Errors
    /// As [`Vm::ask`]; the effects of a call that failed are gone.
    pub async fn tell(&self, name: &str, slot: &Slot, arg: Value) -> Result<Vec<Effect>> {
        self.call(name, slot, arg, Rights::acts(self.clock.now())).await.map(|it| it.effects)
    }

    async fn call(&self, name: &str, slot: &Slot, arg: Value, rights: Rights) -> Result<Answer> {
        if self.stuck() {
            return Err(stuck());
        }
        let start = Instant::now();
        let (reply, answer) = oneshot::channel();
        let call = Call { slot: slot.clone(), arg, rights, reply };
        self.calls.try_send(call).map_err(|cause| match cause {
            TrySendError::Full(_) => {
                Error::new(ErrorKind::Busy, "too many calls wait for the script")
            }
            TrySendError::Disconnected(_) => stuck(),
        })?;
        let answer = answer.await.unwrap_or_else(|_| Err(stuck()));
        self.wear.note(name, start.elapsed(), answer.is_err());
        answer
    }

    /// Returns what the functions have cost so far, in all generations.
    pub fn wear(&self) -> &Wear {
        &self.wear
    }

    /// Tells all handlers of an event, in their order, and returns what each of them wants. One
    /// that fails is logged, and does not keep the others from being told.
    pub async fn fire(&self, event: EventKind, payload: Value) -> Vec<Told> {
        let name = format!("on.{}", event.as_str());
        let mut all = Vec::new();
        for handler in self.handlers.iter().filter(|handler| handler.event == event) {
            let mut told = self.tell(&name, &handler.slot, payload.clone()).await;
            while told.as_ref().is_err_and(|it| it.kind() == ErrorKind::Busy) {
                // Prompts go first; an event can wait.
                tokio::time::sleep(BUSY_PAUSE).await;
                told = self.tell(&name, &handler.slot, payload.clone()).await;
            }
            if let Err(cause) = &told {
                let (word, at) = (event.as_str(), &handler.slot.at);
                tracing::warn!(
                    file = at.file.as_str(),
                    line = at.line,
                    "a handler of {word} at {at} failed: {}",
                    cause.message()
                );
            }
            all.push(Told { name: name.clone(), at: handler.slot.at.clone(), outcome: told });
        }
        all
    }

    /// Returns whether the functions of the script are switched off.
    pub fn stuck(&self) -> bool {
        self.wear.is_out()
    }
}

fn stuck() -> Error {
    Error::unavailable("the functions of the script are switched off, since they do not end")
        .code("script_stuck")
        .hint("mend the script, then restart the server")
}

/// A VM thread.
struct Worker {
    tasks: mpsc::Sender<Task>,
    is_abandoned: Arc<AtomicBool>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Harmless for a thread that ends by itself; one that runs on is stopped by its next hook.
        self.is_abandoned.store(true, Ordering::Relaxed);
    }
}

impl Worker {
    /// Starts a thread and waits until the script is evaluated.
    fn start(plan: &Plan, wear: &Wear) -> Result<(Worker, Draft)> {
        let (tasks, task_end) = mpsc::channel();
        let (loaded, draft) = mpsc::channel();
        let is_abandoned = Arc::new(AtomicBool::new(false));
        let worker = Worker { tasks, is_abandoned: Arc::clone(&is_abandoned) };
        let plan = plan.clone();
        thread::Builder::new()
            .name("wb-script-vm".to_owned())
            .spawn(move || machine::run(&plan, &is_abandoned, &loaded, &task_end))
            .context(ErrorKind::Unavailable, || "cannot start a thread".to_owned())?;
        match draft.recv_timeout(Budget::LOAD.wall + Budget::PATIENCE) {
            Ok(draft) => Ok((worker, draft)),
            Err(RecvTimeoutError::Timeout) => {
                wear.abandon();
                Err(Error::unavailable("the script does not end while it loads")
                    .code("script_stuck")
                    .hint("look for a text pattern that takes very long"))
            }
            Err(RecvTimeoutError::Disconnected) => {
                Err(Error::internal("the script engine has failed"))
            }
        }
    }

    /// Returns the answer of one call, or `None` if the thread has to be given up.
    fn call(
        &self,
        slot: Slot,
        arg: Value,
        rights: Rights,
        patience: Duration,
    ) -> Option<Result<Answer>> {
        let (reply, answer) = mpsc::channel();
        self.tasks.send(Task { slot, arg, rights, reply }).ok()?;
        if fault::is_off("script_watchdog") {
            return answer.recv().ok();
        }
        answer.recv_timeout(patience).ok()
    }
}

/// A script that was evaluated, before its declarations are judged.
pub(crate) struct Started {
    /// What it has left.
    pub(crate) draft: Draft,
    plan: Plan,
    worker: Worker,
    wear: Wear,
}

/// Evaluates a script on a thread of its own.
///
/// # Errors
/// If the thread cannot start, or the script does not end; `script_stuck` if too many threads were
/// given up already.
pub(crate) fn evaluate(plan: Plan, wear: Wear) -> Result<Started> {
    if wear.is_out() {
        return Err(stuck());
    }
    let (worker, draft) = Worker::start(&plan, &wear)?;
    Ok(Started { draft, plan, worker, wear })
}

impl Started {
    /// Makes the handle for the calls, and starts the thread that watches over them.
    ///
    /// # Errors
    /// If the thread cannot start.
    pub(crate) fn serve(self, handlers: Vec<Handler>) -> Result<Vm> {
        let (calls, call_end) = mpsc::sync_channel(WAITING_MAX);
        let stored = |files: &[ScriptFile]| {
            let pairs = files.iter().map(|file| (file.path.clone(), file.text.clone()));
            Origin::Stored(pairs.collect::<BTreeMap<_, _>>())
        };
        let plan = Plan { origin: stored(&self.draft.files), ..self.plan };
        let watch = Watch {
            plan,
            slots: self.draft.slots,
            patience: Budget::CALL.wall + Budget::PATIENCE,
            wear: self.wear.clone(),
        };
        let worker = self.worker;
        thread::Builder::new()
            .name("wb-script".to_owned())
            .spawn(move || watch.run(worker, &call_end))
            .context(ErrorKind::Unavailable, || "cannot start a thread".to_owned())?;
        let (handlers, clock) = (Arc::new(handlers), Clock::system());
        Ok(Vm { calls, wear: self.wear, handlers, clock })
    }
}

/// The thread that hands calls to the VM and gives it up when it does not answer.
struct Watch {
    plan: Plan,
    slots: Vec<Location>,
    patience: Duration,
    wear: Wear,
}

impl Watch {
    fn run(self, first: Worker, calls: &Receiver<Call>) {
        let mut worker = Some(first);
        while let Ok(call) = calls.recv() {
            let Call { slot, arg, rights, reply } = call;
            if reply.is_closed() {
                continue;
            }
            let Some(current) = &worker else {
                // Whoever asked may be gone; there is nobody else to tell.
                let _ = reply.send(Err(stuck()));
                continue;
            };
            let at = slot.at.clone();
            let answer = current.call(slot, arg, rights, self.patience);
            let answer = answer.unwrap_or_else(|| {
                worker = self.replace(&at);
                Err(Error::invalid(format!("{at}: the function does not end"))
                    .code("script_failed")
                    .hint("look for a text pattern that takes very long"))
            });
            // As above.
            let _ = reply.send(answer);
        }
    }

    /// Gives the thread up; returns a fresh one unless that has happened too often.
    fn replace(&self, at: &Location) -> Option<Worker> {
        let abandoned = self.wear.abandon();
        tracing::error!(
            file = at.file.as_str(),
            line = at.line,
            "the function at {at} does not end; its thread is given up \
             ({abandoned} of {ABANDONED_MAX})"
        );
        let fresh = if self.wear.is_out() { None } else { self.fresh() };
        if fresh.is_none() {
            self.wear.put_out();
            tracing::error!("the functions of the script are switched off until a restart");
        }
        fresh
    }

    fn fresh(&self) -> Option<Worker> {
        match Worker::start(&self.plan, &self.wear) {
            Ok((worker, draft)) if draft.is_whole && draft.slots == self.slots => Some(worker),
            Ok(_) => {
                tracing::error!("the same text of the script now has other functions");
                None
            }
            Err(cause) => {
                tracing::error!("the script cannot be loaded again: {}", cause.chain());
                None
            }
        }
    }
}
