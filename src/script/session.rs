//! What one VM remembers while its script runs: files, declarations, functions, findings.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use mlua::{Function, Lua, Table, Value};

use crate::base::limit::{SCRIPT_ENQUEUES_MAX, SCRIPT_TEXT_BYTES_MAX};
use crate::base::{EventKind, truncate_chars};
use crate::script::config::ScriptFile;
use crate::script::diagnostic::{Diagnostic, Findings, Spot};
use crate::script::effect::{Effect, Rights};
use crate::script::machine::Plan;
use crate::script::node::{Declared, Draft};
use crate::script::outside::Outside;
use crate::script::place::{Location, Slot};
use crate::script::position::{Places, Source};
use crate::script::require::{FILES_MAX, Origin, modules};
use crate::script::syntax;

/// Most declarations of one script.
const DECLARED_MAX: usize = crate::base::limit::SCRIPT_DECLARED_MAX;
/// Most functions of one script.
const SLOTS_MAX: usize = 1_000;
/// Most log lines of one call.
const LOG_LINES_MAX: u32 = crate::base::limit::SCRIPT_LOG_LINES_MAX;
/// Longest log line, in characters.
const LOG_CHARS_MAX: usize = crate::base::limit::SCRIPT_LOG_CHARS_MAX;
/// Most frames that are searched for the caller's place.
const FRAMES_MAX: usize = 16;

/// A declaration that waits for its table.
pub(crate) struct Pending {
    word: &'static str,
    name: String,
    spot: Spot,
    is_done: Cell<bool>,
}

/// A required file.
#[derive(Clone)]
pub(crate) enum Module {
    /// It is being evaluated.
    Running,
    /// It was evaluated.
    Done(Value),
}

/// The state behind the functions that a script can call.
pub(crate) struct Session {
    folder: Utf8PathBuf,
    origin: Origin,
    outside: Outside,
    /// What `require "wb.test"` returns; in a file of tests only.
    lab: RefCell<Option<Table>>,
    draft: RefCell<Draft>,
    findings: RefCell<Findings>,
    /// The files of the script with their words, in the order of their paths.
    sources: RefCell<BTreeMap<String, Rc<Source>>>,
    pending: RefCell<Vec<Rc<Pending>>>,
    functions: RefCell<Vec<Function>>,
    modules: RefCell<BTreeMap<String, Module>>,
    is_loading: Cell<bool>,
    has_api: Cell<bool>,
    log_lines: Cell<u32>,
    /// What the call under way may do; nothing between calls.
    rights: Cell<Option<Rights>>,
    effects: RefCell<Vec<Effect>>,
    /// What stands for a thing that an error was reported about.
    reported: RefCell<Option<Table>>,
}

impl Session {
    /// Returns a session in which nothing was loaded.
    pub(crate) fn new(plan: &Plan) -> Session {
        Session {
            folder: plan.folder.clone(),
            origin: plan.origin.clone(),
            outside: plan.outside.clone(),
            lab: RefCell::default(),
            draft: RefCell::default(),
            findings: RefCell::default(),
            sources: RefCell::default(),
            pending: RefCell::default(),
            functions: RefCell::default(),
            modules: RefCell::default(),
            is_loading: Cell::new(true),
            has_api: Cell::new(false),
            log_lines: Cell::new(0),
            rights: Cell::new(None),
            effects: RefCell::default(),
            reported: RefCell::default(),
        }
    }

    /// Reads a text beside the script, once, and remembers it as a part of the generation.
    pub(crate) fn read_text(&self, path: &Utf8Path) -> crate::base::Result<String> {
        let mut draft = self.draft.borrow_mut();
        if let Some(text) = draft.text_of(path) {
            return Ok(text.to_owned());
        }
        if draft.files.len() >= FILES_MAX {
            return Err(too_many_files());
        }
        let text = self.origin.read_at_most(&self.folder, path, SCRIPT_TEXT_BYTES_MAX)?;
        draft.files.push(ScriptFile { path: path.to_owned(), text: text.clone() });
        Ok(text)
    }

    /// Reads a file of the script and remembers it.
    pub(crate) fn read(&self, path: &Utf8Path) -> crate::base::Result<String> {
        let mut draft = self.draft.borrow_mut();
        if draft.files.len() >= FILES_MAX {
            return Err(too_many_files());
        }
        let mut text = self.origin.read(&self.folder, path)?;
        if text.starts_with('\u{feff}') {
            // Some editors write a mark of the byte order; Lua would call it a symbol.
            text.drain(..'\u{feff}'.len_utf8());
        }
        draft.files.push(ScriptFile { path: path.to_owned(), text: text.clone() });
        let source = Rc::new(Source::new(Arc::from(path), &text));
        self.sources.borrow_mut().insert(path.as_str().to_owned(), source);
        Ok(text)
    }

    fn source(&self, file: &Utf8Path) -> Option<Rc<Source>> {
        self.sources.borrow().get(file.as_str()).cloned()
    }

    /// Returns the canonical folder of the script.
    pub(crate) fn folder(&self) -> &Utf8Path {
        &self.folder
    }

    /// Returns what stands around the script.
    pub(crate) fn outside(&self) -> &Outside {
        &self.outside
    }

    /// Makes this the session of a file of tests, by what `require "wb.test"` returns there.
    pub(crate) fn set_lab(&self, table: Table) {
        *self.lab.borrow_mut() = Some(table);
    }

    /// Returns what `require "wb.test"` returns; nothing in a script.
    pub(crate) fn lab(&self) -> Option<Table> {
        self.lab.borrow().clone()
    }

    /// Returns the files that were read, with their texts.
    pub(crate) fn files(&self) -> Vec<ScriptFile> {
        self.draft.borrow().files.clone()
    }

    /// Returns whether declarations are still taken.
    pub(crate) fn is_loading(&self) -> bool {
        self.is_loading.get()
    }

    /// Notes `wb.api(1)`.
    pub(crate) fn set_api(&self) {
        self.has_api.set(true);
    }

    /// Returns whether `wb.api(1)` was called.
    pub(crate) fn has_api(&self) -> bool {
        self.has_api.get()
    }

    /// Adds a finding.
    pub(crate) fn report(&self, finding: Diagnostic) {
        self.findings.borrow_mut().add(finding);
    }

    /// Sets the value that stands for what was reported.
    pub(crate) fn set_reported(&self, table: Table) {
        *self.reported.borrow_mut() = Some(table);
    }

    /// Returns the value that stands for what was reported.
    pub(crate) fn reported(&self) -> Value {
        self.reported.borrow().clone().map_or(Value::Nil, Value::Table)
    }

    /// Returns whether a table is that value.
    pub(crate) fn is_reported(&self, table: &Table) -> bool {
        let reported = self.reported.borrow();
        reported.as_ref().is_some_and(|it| it.to_pointer() == table.to_pointer())
    }

    /// Returns the place of a declaration, with its fields.
    pub(crate) fn places(&self, caller: &Caller, word: &str, name: Option<&str>) -> Places {
        let source = self.source(&caller.file);
        let found = source.and_then(|source| source.declaration(word, name, caller.line));
        found.unwrap_or_else(|| Places::at(self.line(caller)))
    }

    /// Returns the place of the call of a declaration.
    pub(crate) fn call_spot(&self, caller: &Caller, word: &str, name: &str) -> Spot {
        let source = self.source(&caller.file);
        let found = source.and_then(|source| source.call(word, Some(name), caller.line));
        found.unwrap_or_else(|| self.line(caller))
    }

    /// Returns the place of a name in the caller's line, if it is there.
    pub(crate) fn named_spot(&self, caller: &Caller, name: &str) -> Option<Spot> {
        let source = self.source(&caller.file);
        source.and_then(|source| source.name_in_line(name, caller.line))
    }

    /// Returns the place of a name in the caller's line, or that of the line.
    pub(crate) fn name_spot(&self, caller: &Caller, name: &str) -> Spot {
        self.named_spot(caller, name).unwrap_or_else(|| self.line(caller))
    }

    /// Returns the place of a literal text in the caller's line.
    pub(crate) fn text_spot(&self, caller: &Caller, text: &str) -> Spot {
        let source = self.source(&caller.file);
        let spot = source.and_then(|source| source.text_in_line(text, caller.line));
        spot.unwrap_or_else(|| self.line(caller))
    }

    /// Returns the finding about a text that the engine could not read, by the engine's message.
    pub(crate) fn syntax(&self, text: &str) -> Diagnostic {
        let (spot, message) = self.split_message(text);
        let at = spot.as_ref().map(|spot| &spot.at);
        let source = at.and_then(|at| Some((at.line, self.source(&at.file)?)));
        match source {
            Some((line, source)) => syntax::explain(&source, line, &message),
            None => Diagnostic::error("syntax", message),
        }
    }

    /// Returns the names of the files that can be required.
    pub(crate) fn modules(&self) -> Vec<String> {
        modules(&self.folder)
    }

    /// Returns the place of the caller's line.
    pub(crate) fn line(&self, caller: &Caller) -> Spot {
        match self.source(&caller.file) {
            Some(source) => source.whole_line(caller.line),
            None => Spot::line(&caller.file, caller.line),
        }
    }

    /// Turns `file:line: message` into a place and the message.
    pub(crate) fn split_message(&self, text: &str) -> (Option<Spot>, String) {
        for (path, source) in self.sources.borrow().iter() {
            let Some(rest) = text.strip_prefix(path.as_str()).and_then(|it| it.strip_prefix(':'))
            else {
                continue;
            };
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            if let (Ok(line), Some(message)) =
                (rest[..digits].parse(), rest[digits..].strip_prefix(':'))
            {
                let message = message.trim_start();
                // The engine names what was nil: `(local 'x')`.
                let name = message.strip_suffix("')").and_then(|it| it.rsplit_once(" '"));
                // Or one of its functions says what it does not do: `wb.file: there is no …`.
                let name = name.map(|it| it.1).or_else(|| function_in(message));
                let spot = name.and_then(|name| source.name_in_line(name, line));
                let spot = spot.unwrap_or_else(|| source.whole_line(line));
                return (Some(spot), message.to_owned());
            }
        }
        (None, text.to_owned())
    }

    /// Notes the first half of a declaration.
    pub(crate) fn begin(&self, word: &'static str, name: String, spot: Spot) -> Rc<Pending> {
        let pending = Rc::new(Pending { word, name, spot, is_done: Cell::new(false) });
        self.pending.borrow_mut().push(Rc::clone(&pending));
        pending
    }

    /// Notes the second half.
    pub(crate) fn complete(&self, pending: &Pending) {
        pending.is_done.set(true);
    }

    /// Adds a declaration.
    pub(crate) fn declare(&self, declared: Declared) {
        let mut draft = self.draft.borrow_mut();
        if draft.declared.len() >= DECLARED_MAX {
            let message = format!("a script has at most {DECLARED_MAX} declarations");
            self.report(Diagnostic::error("too-many", message).at(&declared.spot));
            return;
        }
        draft.declared.push(declared);
    }

    /// Adds a handler of an event.
    pub(crate) fn handle(&self, event: EventKind, slot: Slot) {
        self.draft.borrow_mut().handlers.push((event, slot));
    }

    /// Gives a function its number.
    pub(crate) fn add_function(&self, function: Function, caller: &Caller) -> Slot {
        let info = function.info();
        let file = info.source.as_deref().and_then(|source| source.strip_prefix('@'));
        let line = info.line_defined.and_then(|line| u32::try_from(line).ok());
        let (file, line) = match (file, line) {
            (Some(file), Some(line)) => (Arc::from(Utf8Path::new(file)), line),
            _ => (Arc::clone(&caller.file), caller.line),
        };
        let at = Location { file, line, column: 1 };
        let mut draft = self.draft.borrow_mut();
        let number = u32::try_from(draft.slots.len()).unwrap_or(u32::MAX);
        if draft.slots.len() < SLOTS_MAX {
            draft.slots.push(at.clone());
            self.functions.borrow_mut().push(function);
        } else {
            let message = format!("a script has at most {SLOTS_MAX} functions");
            self.report(Diagnostic::error("too-many", message).at(&self.line(caller)));
        }
        Slot { number, at }
    }

    /// Returns the function with a number.
    pub(crate) fn function(&self, slot: &Slot) -> Option<Function> {
        self.functions.borrow().get(slot.number as usize).cloned()
    }

    /// Returns a required file.
    pub(crate) fn module(&self, name: &str) -> Option<Module> {
        self.modules.borrow().get(name).cloned()
    }

    /// Remembers a required file.
    pub(crate) fn set_module(&self, name: &str, module: Module) {
        self.modules.borrow_mut().insert(name.to_owned(), module);
    }

    /// Ends loading and returns all that was declared.
    pub(crate) fn finish(&self, is_whole: bool) -> Draft {
        self.is_loading.set(false);
        for pending in self.pending.borrow().iter().filter(|it| !it.is_done.get()) {
            // After an error that ended the evaluation the table may simply not have been reached.
            if is_whole {
                let title = format!("{} \"{}\"", pending.word, pending.name);
                let finding = Diagnostic::error("half-finished", format!("{title} has no table"));
                let note = format!("write wb.{} \"{}\" {{ … }}", pending.word, pending.name);
                self.report(finding.at(&pending.spot).note(note));
            }
        }
        let mut draft = std::mem::take(&mut *self.draft.borrow_mut());
        draft.findings = self.findings.borrow_mut().take();
        draft.is_whole = is_whole;
        draft
    }

    /// Lets go of all values of the VM; called before it ends.
    pub(crate) fn clear(&self) {
        self.functions.borrow_mut().clear();
        self.modules.borrow_mut().clear();
        *self.reported.borrow_mut() = None;
        *self.lab.borrow_mut() = None;
    }

    /// Sets what the call under way may do: the time of a test has moved.
    pub(crate) fn set_rights(&self, rights: Rights) {
        self.rights.set(Some(rights));
    }

    /// Begins a call: its log lines and its effects count from here.
    pub(crate) fn begin_call(&self, rights: Rights) {
        self.log_lines.set(0);
        self.rights.set(Some(rights));
        self.effects.borrow_mut().clear();
    }

    /// Ends a call and returns what it wants done.
    pub(crate) fn end_call(&self) -> Vec<Effect> {
        self.rights.set(None);
        std::mem::take(&mut *self.effects.borrow_mut())
    }

    /// Returns what the call under way may do; nothing while the script loads.
    pub(crate) fn rights(&self) -> Option<Rights> {
        self.rights.get()
    }

    /// Notes an effect; whether the call has room for it.
    pub(crate) fn want(&self, effect: Effect) -> bool {
        let mut effects = self.effects.borrow_mut();
        let has_room = effects.len() < SCRIPT_ENQUEUES_MAX;
        if has_room {
            effects.push(effect);
        }
        has_room
    }

    /// Writes a line of the script to the log.
    pub(crate) fn log(&self, level: tracing::Level, caller: &Caller, text: &str) {
        let count = self.log_lines.get() + 1;
        self.log_lines.set(count.min(LOG_LINES_MAX + 2));
        if count > LOG_LINES_MAX + 1 {
            return;
        }
        let text = match count > LOG_LINES_MAX {
            true => "further log lines of this call are left out".to_owned(),
            false => one_line(text),
        };
        if let Some(said) = self.outside.said() {
            let at = Location { file: Arc::clone(&caller.file), line: caller.line, column: 1 };
            return said.add(level, at, &text);
        }
        let (file, line) = (caller.file.as_str(), caller.line);
        match level {
            tracing::Level::ERROR => tracing::error!(file, line, "script: {text}"),
            tracing::Level::WARN => tracing::warn!(file, line, "script: {text}"),
            tracing::Level::DEBUG => tracing::debug!(file, line, "script: {text}"),
            _ => tracing::info!(file, line, "script: {text}"),
        }
    }
}

/// Returns the last name of the function of this program that a message begins with: `wb.file: …`.
fn function_in(message: &str) -> Option<&str> {
    let rest = message.strip_prefix("wb.")?;
    let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '.').unwrap_or(rest.len());
    rest[..end].rsplit('.').find(|it| !it.is_empty())
}

fn too_many_files() -> crate::base::Error {
    crate::base::Error::invalid(format!("a script has at most {FILES_MAX} files"))
}

/// Writes control characters as escapes, so that a text cannot pretend to be another log line.
fn one_line(text: &str) -> String {
    let mut line = String::new();
    for c in text.chars().take(LOG_CHARS_MAX) {
        if c.is_control() && c != '\t' { line.extend(c.escape_default()) } else { line.push(c) }
    }
    truncate_chars(&line, LOG_CHARS_MAX)
}

/// The place in the script from which a function of ours was called.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// File relative to the script's folder.
    pub(crate) file: Arc<Utf8Path>,
    /// Line.
    pub(crate) line: u32,
}

impl Caller {
    /// Finds the nearest frame that has a line.
    pub(crate) fn of(lua: &Lua) -> Caller {
        Caller::in_file(lua, |path| Arc::from(Utf8Path::new(path)))
    }

    /// Finds it for a function that a script calls once for each thing that it declares.
    pub(crate) fn among(lua: &Lua, session: &Session) -> Caller {
        let sources = session.sources.borrow();
        Caller::in_file(lua, |path| match sources.get(path) {
            Some(source) => source.file(),
            None => Arc::from(Utf8Path::new(path)),
        })
    }

    fn in_file(lua: &Lua, file: impl Fn(&str) -> Arc<Utf8Path>) -> Caller {
        let frame = |level| {
            lua.inspect_stack(level, |debug| {
                let source = debug.source().source?;
                let path = source.strip_prefix('@')?;
                let line = u32::try_from(debug.current_line()?).ok()?;
                Some(Caller { file: file(path), line })
            })
        };
        // The innermost frame is the function of ours.
        let nearest = (1..FRAMES_MAX).map_while(frame).flatten().next();
        nearest.unwrap_or_else(|| Caller { file: Arc::from(Utf8Path::new("script")), line: 1 })
    }

    /// Returns an error that begins with this place.
    pub(crate) fn error(&self, message: impl std::fmt::Display) -> mlua::Error {
        mlua::Error::RuntimeError(format!("{}:{}: {message}", self.file, self.line))
    }
}
