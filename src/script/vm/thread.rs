//! A VM on its thread: evaluates the script, then answers calls one at a time.
//!
//! **Invariant:** values of the VM never leave this thread; a function and its VM end together.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use camino::Utf8PathBuf;
use mlua::{Function, HookTriggers, Lua, MultiValue, Table, Value, VmState};
use serde_json::Value as Json;

use crate::base::{Error, Result, truncate_chars};
use crate::script::load::node::Draft;
use crate::script::load::raw::News;
use crate::script::source::diagnostic::Diagnostic;
use crate::script::source::location::Slot;
use crate::script::vm::SCRIPT_FAILED;
use crate::script::vm::advice::advice;
use crate::script::vm::budget::{Budget, MEMORY_BYTES_MAX, Meter};
use crate::script::vm::calls::Turn;
use crate::script::vm::effect::{Answer, Rights};
use crate::script::vm::outside::Outside;
use crate::script::vm::require::{NOT_UTF8, Origin, first_bad_byte};
use crate::script::vm::sandbox::{compile, environment, new_lua};
use crate::script::vm::session::{Module, Session};
use crate::script::vm::value::{Leaving, cause_text, render, to_lua};

/// Hint for a function that fails; the message has the place and the reason.
pub const MEND: &str = "fix the function in the script, then reload";
/// How long a call may take before its thread is abandoned.
pub(crate) const CALL_PATIENCE: Duration = Budget::CALL.wall.saturating_add(Budget::PATIENCE);
/// Longest message of a failed call, in characters.
const MESSAGE_CHARS_MAX: usize = 2_000;

/// What a VM is built from.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Canonical folder of the script.
    pub(crate) folder: Utf8PathBuf,
    /// The script's file name.
    pub(crate) script: Utf8PathBuf,
    /// The origin of the texts.
    pub(crate) origin: Origin,
    /// Its environment.
    pub(crate) outside: Outside,
}

/// Runs a VM until its last handle is gone or it was abandoned. `told` receives the declarations of
/// the script; `loaded` receives the rest of the result, and returns whether to continue.
pub(crate) fn run(
    plan: &Plan,
    turn: &Turn,
    told: Option<Sender<News>>,
    loaded: impl FnOnce(Draft) -> bool,
) {
    let (machine, draft) = match Machine::load(plan, told, &turn.is_abandoned) {
        Ok(pair) => pair,
        Err(cause) => {
            let message = format!("the script engine cannot start: {}", cause_text(&cause));
            let findings = vec![Diagnostic::error("engine", message)];
            (None, Draft { findings, ..Draft::default() })
        }
    };
    let (true, Some(machine)) = (loaded(draft), machine) else { return };
    while let Some((slot, arg, rights)) = turn.next(CALL_PATIENCE) {
        turn.answer(machine.call(&slot, &arg, rights));
    }
}

struct Machine {
    lua: Lua,
    session: Rc<Session>,
    pcall: Function,
    is_abandoned: Arc<AtomicBool>,
}

impl Machine {
    /// Evaluates the script under its limits. Its declarations are kept even if it fails.
    fn load(
        plan: &Plan,
        told: Option<Sender<News>>,
        is_abandoned: &Arc<AtomicBool>,
    ) -> mlua::Result<(Option<Machine>, Draft)> {
        let lua = new_lua()?;
        let session = Rc::new(Session::new(plan));
        if let Some(told) = told {
            session.set_told(told);
        }
        let env = environment(&lua, &session)?;
        let pcall: Function = lua.globals().get("pcall")?;
        let is_abandoned = Arc::clone(is_abandoned);
        let machine = Machine { lua, session, pcall, is_abandoned };
        // Little that a script allocates while it loads is garbage. At the memory limit, the engine
        // collects anyway.
        machine.lua.gc_stop();
        let evaluated = machine.evaluate(plan, env);
        machine.lua.gc_restart();
        let is_whole = evaluated?;
        let draft = machine.session.finish(is_whole);
        Ok((Some(machine), draft))
    }

    fn evaluate(&self, plan: &Plan, env: Table) -> mlua::Result<bool> {
        let text = match self.session.read(&plan.script) {
            Ok(text) => text,
            Err(cause) => {
                self.session.report(unreadable(plan, &cause));
                return Ok(false);
            }
        };
        if let Some(name) = plan.script.file_stem() {
            self.session.set_module(name, Module::Running);
        }
        let main = match compile(&self.lua, &plan.script, &text, env) {
            Ok(main) => main,
            Err(cause) => {
                self.session.report(self.session.sources().syntax(&cause_text(&cause)));
                return Ok(false);
            }
        };
        self.session.compiled(&plan.script, &main);
        let meter = Meter::start(&self.lua, Budget::LOAD, &self.is_abandoned)?;
        let outcome = self.protected(&main, Value::Nil);
        let over = meter.stop();
        match (over, outcome) {
            (Some(message), _) => {
                self.report("limit", &message, "look for a loop that does not end")
            }
            (None, Err(message)) => {
                let message = match self.session.sources().split_message(&message).0 {
                    None if message == out_of_memory() => last_place(plan) + &message,
                    _ => message,
                };
                self.report("runtime", &message, &advice(&message).unwrap_or_default());
            }
            (None, Ok(_)) => return Ok(true),
        }
        Ok(false)
    }

    fn report(&self, code: &'static str, text: &str, note: &str) {
        let (spot, message) = self.session.sources().split_message(text);
        let finding = Diagnostic::error(code, message).note(note);
        self.session.report(match spot {
            Some(spot) => finding.at(&spot),
            None => finding,
        });
    }

    fn protected(&self, function: &Function, arg: Value) -> std::result::Result<Value, String> {
        protected(&self.pcall, function, arg)
    }

    fn call(&self, slot: &Slot, arg: &Json, rights: Rights) -> Result<Answer> {
        self.session.begin_call(rights);
        let called = self.bounded_call(slot, arg, rights.acts);
        let effects = self.session.end_call();
        let answer = called.map(|value| Answer { value, effects }).map_err(|message| {
            let message = match self.session.sources().split_message(&message).0 {
                Some(_) => message,
                None => format!("{}: {message}", slot.at),
            };
            let message = match advice(&message) {
                Some(advice) => format!("{message}: {advice}"),
                None => message,
            };
            Error::invalid(truncate_chars(&message, MESSAGE_CHARS_MAX))
                .code(SCRIPT_FAILED)
                .hint(MEND)
        });
        if answer.is_err() {
            // Memory of a failed call must not count against the next one. A script has no
            // finalizers, so this runs none of its code and cannot fail.
            if let Err(cause) = self.lua.gc_collect() {
                tracing::warn!("a collection after a failed call: {}", cause_text(&cause));
            }
        }
        answer
    }

    fn bounded_call(
        &self,
        slot: &Slot,
        arg: &Json,
        acts: bool,
    ) -> std::result::Result<Json, String> {
        let text = |cause: mlua::Error| explain(cause_text(&cause));
        let function = self.session.function(slot).ok_or("no such function")?;
        let arg = to_lua(&self.lua, arg, 0).map_err(text)?;
        let meter = Meter::start(&self.lua, Budget::CALL, &self.is_abandoned).map_err(text)?;
        let outcome = self.protected(&function, arg);
        if let Some(message) = meter.stop() {
            return Err(message);
        }
        let value = outcome?;
        if let (true, Value::Table(table)) = (acts, &value) {
            return Err(returned(table));
        }
        Leaving::new().take(&value, 0).map_err(|what| {
            format!("the function returned {what}: return texts, numbers, flags or tables of them")
        })
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Break the cycle: functions inside the VM hold the session, which holds functions itself.
        self.session.clear();
    }
}

/// Returns the warning about a value returned from a handler, a schedule or a webhook: it is
/// ignored, and a returned request would be lost silently.
fn returned(table: &Table) -> String {
    let kind = match table.raw_get("kind") {
        Ok(Value::String(kind)) => truncate_chars(&kind.to_string_lossy(), 64),
        _ => "NAME".to_owned(),
    };
    format!(
        "the function returned a table, which nobody reads: \
         write wb.enqueue {{ kind = \"{}\", … }}",
        kind.escape_debug()
    )
}

/// Calls a function through `pcall`, which alone preserves an error that is not a string.
pub(crate) fn protected(
    pcall: &Function,
    function: &Function,
    arg: Value,
) -> std::result::Result<Value, String> {
    let mut outcome: MultiValue =
        pcall.call((function, arg)).map_err(|cause| explain(cause_text(&cause)))?;
    let is_fine = matches!(outcome.pop_front(), Some(Value::Boolean(true)));
    let value = outcome.pop_front().unwrap_or(Value::Nil);
    match (is_fine, value) {
        (true, value) => Ok(value),
        (false, Value::String(text)) => Err(explain(text.to_string_lossy())),
        (false, Value::Error(cause)) => Err(explain(cause_text(&cause))),
        (false, Value::Nil) => Err("an error without a message".to_owned()),
        (false, value) => Err(format!("an error that is not text: {}", render(&value))),
    }
}

/// Returns the finding about an unreadable script, at the first byte that is not UTF-8.
pub(crate) fn unreadable(plan: &Plan, cause: &Error) -> Diagnostic {
    let finding = Diagnostic::error("missing-file", cause.message());
    match first_bad_byte(&plan.folder, &plan.script) {
        Some((line, column, text)) if cause.code_str() == NOT_UTF8 => {
            Diagnostic::error(NOT_UTF8, cause.message())
                .in_file(&plan.script, line, Some(&text))
                .at_column(column, 1)
                .note("save the file as UTF-8")
        }
        _ => finding,
    }
}

fn explain(message: String) -> String {
    match message.as_str() {
        "not enough memory" => out_of_memory(),
        _ => message,
    }
}

fn out_of_memory() -> String {
    format!("used more than {} MiB of memory", MEMORY_BYTES_MAX / (1024 * 1024))
}

/// Returns `FILE:LINE: ` of the last line that the script reached: the engine does not report it
/// when it runs out of memory. The script is evaluated again line by line, and its declarations are
/// dropped. Empty if that reaches no line.
fn last_place(plan: &Plan) -> String {
    let last = Rc::new(RefCell::new(String::new()));
    let seen = Rc::clone(&last);
    let again = || -> mlua::Result<()> {
        let lua = new_lua()?;
        let session = Rc::new(Session::new(plan));
        let env = environment(&lua, &session)?;
        let text = session.read(&plan.script).map_err(mlua::Error::external)?;
        let main = compile(&lua, &plan.script, &text, env)?;
        let until = Instant::now() + Budget::LOAD.wall;
        lua.set_global_hook(HookTriggers::EVERY_LINE, move |_, debug| {
            let source = debug.source().source.map(|it| it.into_owned()).unwrap_or_default();
            if let (Some(path), Some(line)) = (source.strip_prefix('@'), debug.current_line()) {
                *seen.borrow_mut() = format!("{path}:{line}: ");
            }
            match Instant::now() < until {
                true => Ok(VmState::Continue),
                false => Err(mlua::Error::runtime("it takes too long")),
            }
        })?;
        let evaluated = main.call::<()>(());
        session.clear();
        evaluated
    };
    // It is evaluated again precisely because it fails.
    let _ = again();
    last.take()
}
