//! The table `wb.test`: declares tests, compares values, and sends requests to the test's site.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use mlua::{Function, Lua, MultiValue, Table, Value};
use serde_json::{Value as Json, json};

use crate::base::Error;
use crate::script::lab::check::{self, Wrong};
use crate::script::lab::compare::{has, same, written, written_like};
use crate::script::lab::fixture::rights;
use crate::script::lab::thread::Watched;
use crate::script::lab::{Difference, Failure, Make, Named, Stage, Step, Verb};
use crate::script::schema::{Function as Described, TEST_FUNCTIONS};
use crate::script::source::diagnostic::{Diagnostic, Report};
use crate::script::source::location::ScriptFile;
use crate::script::vm::advice::advice;
use crate::script::vm::declare::seal;
use crate::script::vm::outside::Said;
use crate::script::vm::session::{Caller, Session};
use crate::script::vm::value::{Leaving, cause_text, to_lua};

/// Most tests in one file.
const TESTS_MAX: usize = 1_000;
/// Longest name of a test, in bytes.
const NAME_BYTES_MAX: usize = 200;

/// The state behind the functions of `wb.test`.
pub(super) struct Lab {
    pub(super) session: Rc<Session>,
    pub(super) watched: Rc<Watched>,
    said: Said,
    tests: RefCell<Vec<(Named, Function)>>,
    is_testing: Cell<bool>,
    make: RefCell<Option<Make>>,
    stage: RefCell<Option<Box<dyn Stage>>>,
    /// The last failure raised, with the message that identifies it.
    raised: RefCell<Option<(String, Failure)>>,
    files: RefCell<Vec<ScriptFile>>,
    table: RefCell<Option<Table>>,
}

/// Makes `require "wb.test"` return the table.
pub(super) fn install(
    lua: &Lua,
    session: &Rc<Session>,
    watched: Rc<Watched>,
    said: Said,
) -> mlua::Result<Rc<Lab>> {
    let lab = Rc::new(Lab {
        session: Rc::clone(session),
        watched,
        said,
        tests: RefCell::default(),
        is_testing: Cell::new(false),
        make: RefCell::default(),
        stage: RefCell::default(),
        raised: RefCell::default(),
        files: RefCell::default(),
        table: RefCell::default(),
    });
    let inner = lua.create_table()?;
    for described in &TEST_FUNCTIONS {
        let lab = Rc::clone(&lab);
        let function = lua.create_function(move |lua, args: MultiValue| {
            let args: Vec<Value> = args.into_iter().collect();
            lab.called(lua, described, &args)
        })?;
        inner.raw_set(described.name, function)?;
    }
    let table = seal(lua, session, "wb.test", inner)?;
    *lab.table.borrow_mut() = Some(table.clone());
    session.set_lab(table);
    Ok(lab)
}

impl Lab {
    /// Drops all values of the VM.
    pub(super) fn clear(&self) {
        self.tests.borrow_mut().clear();
        *self.table.borrow_mut() = None;
        *self.stage.borrow_mut() = None;
    }

    /// Begins a test.
    pub(super) fn begin(&self, make: Make) {
        self.is_testing.set(true);
        *self.make.borrow_mut() = Some(make);
    }

    /// Returns how many tests there are.
    pub(super) fn count(&self) -> usize {
        self.tests.borrow().len()
    }

    /// Returns the tests in their order.
    pub(super) fn named(&self) -> Vec<Named> {
        self.tests.borrow().iter().map(|(named, _)| named.clone()).collect()
    }

    /// Returns the function of a test.
    pub(super) fn body(&self, place: usize) -> Option<Function> {
        self.tests.borrow().get(place).map(|(_, body)| body.clone())
    }

    /// Keeps the texts that were read: the session drops them when it ends loading.
    pub(super) fn keep_files(&self) {
        let files = self.session.files();
        if !files.is_empty() {
            *self.files.borrow_mut() = files;
        }
    }

    /// Returns the texts that were read.
    pub(super) fn files(&self) -> Vec<ScriptFile> {
        self.files.borrow().clone()
    }

    /// Returns the failure of a test that ended with a message.
    pub(super) fn failure(&self, message: &str) -> Failure {
        if let Some((text, failure)) = &*self.raised.borrow()
            && text == message
        {
            return failure.clone();
        }
        let finding = self.finding("runtime", message);
        // Messages of the script's own `error` calls are left as they are.
        let note = advice(&finding.message).unwrap_or_default();
        self.whole(finding.note(note))
    }

    /// Returns a finding at the place named in a message.
    pub(super) fn finding(&self, code: &'static str, message: &str) -> Diagnostic {
        let (spot, message) = self.session.sources().split_message(message);
        let finding = Diagnostic::error(code, message);
        match spot {
            Some(spot) => finding.at(&spot),
            None => finding,
        }
    }

    /// Returns the failure for a finding, with its line.
    pub(super) fn whole(&self, finding: Diagnostic) -> Failure {
        let mut report = Report::new(vec![finding], &self.files());
        Failure::of(report.errors.remove(0))
    }

    /// Raises a failure of the test.
    fn raise(
        &self,
        caller: &Caller,
        (code, word): (&'static str, &str),
        message: &str,
        note: &str,
        difference: Option<Difference>,
    ) -> mlua::Error {
        let spot = self.session.name_spot(caller, word);
        let finding = Diagnostic::error(code, message).at(&spot).note(note);
        let failure = Failure { difference, ..self.whole(finding) };
        let text = format!("{}:{}: {message}", caller.file, caller.line);
        *self.raised.borrow_mut() = Some((text.clone(), failure));
        mlua::Error::RuntimeError(text)
    }

    fn called(&self, lua: &Lua, of: &Described, args: &[Value]) -> mlua::Result<Value> {
        let caller = Caller::of(lua);
        let name = of.name;
        let misused = |wrong: Wrong| {
            self.raise(&caller, ("wrong-call", name), &wrong.message, &wrong.note, None)
        };
        let table = self.table.borrow().clone();
        let Some(table) = table else { return Ok(Value::Nil) };
        check::arguments(of, args, &table).map_err(misused)?;
        let arg = |place: usize| args.get(place).cloned().unwrap_or(Value::Nil);
        if name == "test" {
            return self.declare(&caller, &arg(0), arg(1));
        }
        if !self.is_testing.get() {
            let message = format!("t.{name} is called outside of a test");
            let note = "write t.test(\"what holds\", function() … end) around it";
            return Err(self.raise(&caller, ("outside", name), &message, note, None));
        }
        let verb = match name {
            "eq" | "has" | "contains" | "matches" | "ok" => {
                return self.compare(lua, &caller, name, (&arg(0), &arg(1)));
            }
            "fails" => return self.fails(lua, &caller, &arg(0), &arg(1)),
            "now" => return Ok(Value::String(lua.create_string(self.now(&caller)?)?)),
            "site" => Verb::Site,
            "source" => Verb::Source,
            "persona" => Verb::Persona,
            "topic" => Verb::Topic,
            "message" => Verb::Message,
            "render" => Verb::Render,
            "run" => Verb::Run,
            "next" => Verb::Next,
            "jobs" => Verb::Jobs,
            "fire" => Verb::Fire,
            "webhook" => Verb::Webhook,
            "enqueue" => Verb::Enqueue,
            "proposals" => Verb::Proposals,
            "approve" => Verb::Approve,
            "reject" => Verb::Reject,
            "rework" => Verb::Rework,
            "commit" => Verb::Commit,
            "edit" => Verb::Edit,
            "reload" => Verb::Reload,
            "channel" => Verb::Channel,
            "say" => Verb::Say,
            "answer" => Verb::Answer,
            "said" => Verb::Said,
            _ => Verb::Advance,
        };
        self.ask(lua, &caller, (verb, name), args)
    }

    fn declare(&self, caller: &Caller, name: &Value, body: Value) -> mlua::Result<Value> {
        let wrong = |message: &str, note: &str| {
            Err(self.raise(caller, ("wrong-test", "test"), message, note, None))
        };
        if self.is_testing.get() || !self.session.is_loading() {
            return wrong("a test cannot hold another one", "end the first one before it");
        }
        let (Value::String(name), Value::Function(body)) = (name, body) else {
            return Ok(Value::Nil);
        };
        let name = name.to_string_lossy();
        if name.trim().is_empty() || name.len() > NAME_BYTES_MAX || name.contains('\n') {
            return wrong("the name of a test is one line of at most 200 bytes", "say what holds");
        }
        let mut tests = self.tests.borrow_mut();
        if let Some((other, _)) = tests.iter().find(|(it, _)| it.name == name) {
            let message = format!("there is another test \"{}\" at {}", name, other.at);
            return wrong(&message, "give one of them another name");
        }
        if tests.len() >= TESTS_MAX {
            return wrong("a file has at most 1000 tests", "make another file");
        }
        let spot = self.session.name_spot(caller, "test");
        let at = spot.at();
        tests.push((Named { name, at }, body));
        Ok(Value::Nil)
    }

    /// Defines a function that checks one value or compares two.
    fn compare(
        &self,
        lua: &Lua,
        caller: &Caller,
        name: &str,
        (got, want): (&Value, &Value),
    ) -> mlua::Result<Value> {
        let fail = |code, message: &str, note: &str, got: String, want: Option<String>| {
            let difference = Some(Difference { got, want });
            Err(self.raise(caller, (code, name), message, note, difference))
        };
        let are_texts = got.is_string() && want.is_string();
        match name {
            "eq" if !same(got, want) => {
                let (got, want) = (written(got, are_texts), written(want, are_texts));
                fail("not-equal", "the two values differ", "", got, Some(want))
            }
            "has" if !has(got, want) => {
                let (got, want) = (written_like(got, want), written(want, false));
                fail("not-there", "the value has not all of that", "", got, Some(want))
            }
            "contains" if !contains(got, want) => {
                let what = if got.is_string() { "the text" } else { "the list" };
                let message = format!("{what} does not contain {}", written(want, false));
                let note = match (got, want) {
                    (Value::String(_), Value::String(_)) | (Value::Table(_), _) => "",
                    _ => "a text contains texts only: t.contains(TEXT, \"part\")",
                };
                fail("not-there", &message, note, written(got, true), None)
            }
            "matches" => match matches(lua, got, want) {
                Ok(true) => Ok(Value::Nil),
                Ok(false) => {
                    let message = format!("the pattern {} is not found", written(want, false));
                    let note = "for a literal part write t.contains";
                    fail("not-there", &message, note, written(got, true), None)
                }
                Err(cause) => {
                    let note = "a pattern is as for string.find; for a part write t.contains";
                    let text = cause_text(&cause);
                    Err(self.raise(caller, ("wrong-call", name), &text, note, None))
                }
            },
            "ok" if matches!(got, Value::Nil | Value::Boolean(false)) => {
                let why = match want {
                    Value::String(why) => why.to_string_lossy(),
                    _ => format!("the value is {}", written(got, false)),
                };
                Err(self.raise(caller, ("not-ok", name), &why, "", None))
            }
            _ => Ok(Value::Nil),
        }
    }

    fn fails(&self, lua: &Lua, caller: &Caller, body: &Value, part: &Value) -> mlua::Result<Value> {
        let Value::Function(body) = body else { return Ok(Value::Nil) };
        let message = match body.call::<()>(()) {
            Ok(()) => {
                let note = "it must end in an error: error(\"…\"), or a call that is refused";
                let what = "the function did not fail";
                return Err(self.raise(caller, ("did-not-fail", "fails"), what, note, None));
            }
            Err(cause) => cause_text(&cause),
        };
        if let Value::String(part) = part
            && !message.contains(&*part.to_string_lossy())
        {
            let part = part.to_string_lossy();
            let text = format!("it failed, and its message does not contain \"{part}\"");
            let difference = Some(Difference { got: message, want: None });
            return Err(self.raise(caller, ("not-there", "fails"), &text, "", difference));
        }
        lua.create_string(message).map(Value::String)
    }

    fn now(&self, caller: &Caller) -> mlua::Result<String> {
        self.with_stage(caller, "now", |stage| Ok(stage.now().rfc3339()))
    }

    /// Does something with the site of this test, which is created on first use.
    fn with_stage<T>(
        &self,
        caller: &Caller,
        name: &str,
        act: impl FnOnce(&mut dyn Stage) -> crate::base::Result<T>,
    ) -> mlua::Result<T> {
        let mut stage = self.stage.borrow_mut();
        self.watched.enter();
        let acted = (|| {
            if stage.is_none() {
                let make = self.make.borrow_mut().take();
                let make = make.ok_or_else(|| Error::internal("a site is made once"))?;
                *stage = Some(make(self.said.clone())?);
            }
            match &mut *stage {
                Some(stage) => {
                    let acted = act(stage.as_mut())?;
                    self.session.set_rights(rights(stage.now()));
                    Ok(acted)
                }
                None => Err(Error::internal("there is no site")),
            }
        })();
        self.watched.leave();
        acted.map_err(|cause| self.refused(caller, name, &cause))
    }

    /// Turns an error of the site into a failure of the test.
    fn refused(&self, caller: &Caller, name: &str, cause: &Error) -> mlua::Error {
        let note = cause.hint_str().unwrap_or_default();
        self.raise(caller, ("refused", name), cause.message(), note, None)
    }

    /// Sends a request to the site of this test.
    fn ask(
        &self,
        lua: &Lua,
        caller: &Caller,
        (verb, name): (Verb, &str),
        args: &[Value],
    ) -> mlua::Result<Value> {
        let agent_at = match verb {
            Verb::Run | Verb::Rework | Verb::Answer => Some(2),
            Verb::Next => Some(0),
            _ => None,
        };
        let mut plain = Vec::new();
        for (place, value) in args.iter().enumerate() {
            if Some(place) == agent_at {
                plain.push(Json::Null);
                continue;
            }
            plain.push(Leaving::new().take(value, 0).map_err(|what| {
                let message = format!("t.{name} was given {what}");
                self.raise(caller, ("wrong-call", name), &message, "give plain data", None)
            })?);
        }
        let agent = agent_at.and_then(|it| args.get(it).cloned()).unwrap_or(Value::Nil);
        let mut step = self.with_stage(caller, name, |stage| stage.act(verb, &plain))?;
        loop {
            let (job, attempt) = match step {
                Step::Done(answer) => return to_lua(lua, &answer, 0),
                Step::Agent(job, attempt) => (job, attempt),
            };
            // The site is free meanwhile: calls of this function happen while its agent works.
            let does = self.play(lua, caller, (name, &agent), &job, attempt);
            step = match does {
                Ok(does) => self.with_stage(caller, name, |stage| stage.played(&does))?,
                Err(cause) => {
                    self.with_stage(caller, name, |stage| {
                        stage.forsake();
                        Ok(())
                    })?;
                    // Keep an error of the test's own function as it is.
                    return Err(mlua::Error::RuntimeError(cause_text(&cause)));
                }
            };
        }
    }

    /// Returns the actions of the fake agent in one attempt.
    fn play(
        &self,
        lua: &Lua,
        caller: &Caller,
        (name, agent): (&str, &Value),
        job: &Json,
        attempt: usize,
    ) -> mlua::Result<Json> {
        let chosen = match agent {
            Value::Function(function) => function.call::<Value>(to_lua(lua, job, 0)?)?,
            Value::Table(list) if list.raw_len() > 0 => {
                let one: Value = list.raw_get(attempt)?;
                if one.is_nil() {
                    let message = format!(
                        "the fake agent has {} attempts, and `retry` asked for attempt {attempt}",
                        list.raw_len()
                    );
                    let note = "add what it does then, or fix `retry`";
                    return Err(self.raise(caller, ("no-attempt", name), &message, note, None));
                }
                one
            }
            other => other.clone(),
        };
        let wrong = |wrong: Wrong| {
            self.raise(caller, ("wrong-agent", name), &wrong.message, &wrong.note, None)
        };
        match &chosen {
            Value::Nil => return Ok(json!({})),
            Value::String(text) if name == "answer" => {
                return Ok(json!({"text": text.to_string_lossy()}));
            }
            Value::Table(table) if name == "answer" => check::answer(table).map_err(wrong)?,
            Value::Table(table) => check::agent(table).map_err(wrong)?,
            other => {
                let message = format!("the fake agent is a {}, and not a table", other.type_name());
                let note = "write for example { result = { … } }, { exit = 1 } or \
                    { timeout = \"wall\" }";
                return Err(self.raise(caller, ("wrong-agent", name), &message, note, None));
            }
        }
        Leaving::new().take(&chosen, 0).map_err(|what| {
            let message = format!("the fake agent holds {what}");
            self.raise(caller, ("wrong-agent", name), &message, "give plain data", None)
        })
    }
}

/// Searches for a pattern with the engine's own function.
fn matches(lua: &Lua, text: &Value, pattern: &Value) -> mlua::Result<bool> {
    let find: Function = lua.globals().get::<Table>("string")?.get("find")?;
    find.call::<Value>((text, pattern)).map(|found| !found.is_nil())
}

fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::String(whole), Value::String(part)) => {
            whole.to_string_lossy().contains(&*part.to_string_lossy())
        }
        (Value::Table(list), part) => {
            list.sequence_values::<Value>().filter_map(Result::ok).any(|it| has(&it, part))
        }
        _ => false,
    }
}
