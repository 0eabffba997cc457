//! The state of one VM while its script runs: files, declarations, functions, findings.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use camino::{Utf8Path, Utf8PathBuf};
use mlua::debug::Debug;
use mlua::{Function, Lua, Table, Value};

use crate::base::limit::{SCRIPT_ENQUEUES_MAX, SCRIPT_TEXT_BYTES_MAX};
use crate::base::{EventKind, truncate_chars};
use crate::script::load::node::Draft;
use crate::script::load::raw::{BareDeclared, News};
use crate::script::source::diagnostic::{Diagnostic, Findings};
use crate::script::source::location::ScriptFile;
use crate::script::source::location::{Location, Slot};
use crate::script::source::source_map::Sources;
use crate::script::source::span::Spot;
use crate::script::vm::budget::MEMORY_BYTES_MAX;
use crate::script::vm::effect::{Effect, Rights};
use crate::script::vm::outside::Outside;
use crate::script::vm::require::{FILES_MAX, Origin, modules};
use crate::script::vm::thread::Plan;

/// Most declarations of one script.
const DECLARED_MAX: usize = crate::base::limit::SCRIPT_DECLARED_MAX;
/// Declarations sent at once: waking the receiver takes as long as processing one of them.
const TOLD_AT_ONCE: usize = 16;
/// Most functions of one script.
const SLOTS_MAX: usize = 1_000;
/// Most log lines of one call.
const LOG_LINES_MAX: u32 = crate::base::limit::SCRIPT_LOG_LINES_MAX;
/// Longest log line, in characters.
const LOG_CHARS_MAX: usize = crate::base::limit::SCRIPT_LOG_CHARS_MAX;
/// Most stack frames searched for the caller's place.
const FRAMES_MAX: usize = 16;

/// A declaration that waits for its table.
pub(crate) struct Pending {
    word: &'static str,
    name: String,
    caller: Caller,
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
    /// The value of `require "wb.test"`; only in a file of tests.
    lab: RefCell<Option<Table>>,
    draft: RefCell<Draft>,
    findings: RefCell<Findings>,
    sources: Sources,
    /// Receiver of declarations while the script loads; `None` for a script that is loaded again.
    told: RefCell<Option<Sender<News>>>,
    /// Declarations not sent yet.
    declared: RefCell<Vec<BareDeclared>>,
    declared_count: Cell<usize>,
    declared_bytes: Cell<usize>,
    pending: RefCell<Vec<Rc<Pending>>>,
    functions: RefCell<Vec<Function>>,
    modules: RefCell<BTreeMap<String, Module>>,
    is_loading: Cell<bool>,
    has_api: Cell<bool>,
    log_lines: Cell<u32>,
    /// The rights of the current call; `None` between calls.
    rights: Cell<Option<Rights>>,
    effects: RefCell<Vec<Effect>>,
    /// Stands for values that were reported as errors.
    reported: RefCell<Option<Table>>,
}

impl Session {
    /// Creates the session of a script that is not loaded yet.
    pub(crate) fn new(plan: &Plan) -> Session {
        Session {
            folder: plan.folder.clone(),
            origin: plan.origin.clone(),
            outside: plan.outside.clone(),
            lab: RefCell::default(),
            draft: RefCell::default(),
            findings: RefCell::default(),
            sources: Sources::default(),
            told: RefCell::default(),
            declared: RefCell::default(),
            declared_count: Cell::new(0),
            declared_bytes: Cell::new(0),
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

    /// Reads a text next to the script once, and records it as part of the generation.
    pub(crate) fn read_text(&self, path: &Utf8Path) -> crate::base::Result<Arc<str>> {
        let mut draft = self.draft.borrow_mut();
        if let Some(text) = draft.text_of(path) {
            return Ok(Arc::clone(text));
        }
        if draft.files.len() >= FILES_MAX {
            return Err(too_many_files());
        }
        let text = self.origin.read_at_most(&self.folder, path, SCRIPT_TEXT_BYTES_MAX)?;
        let text: Arc<str> = Arc::from(text);
        draft.files.push(ScriptFile { path: path.to_owned(), text: Arc::clone(&text) });
        Ok(text)
    }

    /// Reads a file of the script and records it.
    pub(crate) fn read(&self, path: &Utf8Path) -> crate::base::Result<Arc<str>> {
        let mut draft = self.draft.borrow_mut();
        if draft.files.len() >= FILES_MAX {
            return Err(too_many_files());
        }
        let mut text = self.origin.read(&self.folder, path)?;
        if text.starts_with('\u{feff}') {
            // Some editors write a byte order mark, which Lua would report as an unexpected symbol.
            text.drain(..'\u{feff}'.len_utf8());
        }
        let text: Arc<str> = Arc::from(text);
        draft.files.push(ScriptFile { path: path.to_owned(), text: Arc::clone(&text) });
        let source = self.sources.add(path, &text);
        self.tell(News::Read(source));
        Ok(text)
    }

    /// Keeps the compiled code of a file for the lints.
    pub(crate) fn compiled(&self, path: &Utf8Path, function: &Function) {
        if self.told.borrow().is_some() {
            self.draft.borrow_mut().code.push((path.to_owned(), function.dump(false)));
        }
    }

    /// Sets the receiver of declarations.
    pub(crate) fn set_told(&self, told: Sender<News>) {
        *self.told.borrow_mut() = Some(told);
    }

    fn tell(&self, news: News) {
        if let Some(told) = &*self.told.borrow() {
            // If nobody waits any more, this thread was abandoned: its next hook ends it.
            let _ = told.send(news);
        }
    }

    /// Returns the files with their tokens.
    pub(crate) fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Returns the canonical folder of the script.
    pub(crate) fn folder(&self) -> &Utf8Path {
        &self.folder
    }

    /// Returns the environment of the script.
    pub(crate) fn outside(&self) -> &Outside {
        &self.outside
    }

    /// Makes this the session of a file of tests, with the value of `require "wb.test"`.
    pub(crate) fn set_lab(&self, table: Table) {
        *self.lab.borrow_mut() = Some(table);
    }

    /// Returns the value of `require "wb.test"`; `None` in a script.
    pub(crate) fn lab(&self) -> Option<Table> {
        self.lab.borrow().clone()
    }

    /// Returns the files that were read, with their texts.
    pub(crate) fn files(&self) -> Vec<ScriptFile> {
        self.draft.borrow().files.clone()
    }

    /// Returns whether declarations are still accepted.
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

    /// Sets the value that stands for reported values.
    pub(crate) fn set_reported(&self, table: Table) {
        *self.reported.borrow_mut() = Some(table);
    }

    /// Returns the value that stands for reported values.
    pub(crate) fn reported(&self) -> Value {
        self.reported.borrow().clone().map_or(Value::Nil, Value::Table)
    }

    /// Returns whether a table is that value.
    pub(crate) fn is_reported(&self, table: &Table) -> bool {
        let reported = self.reported.borrow();
        reported.as_ref().is_some_and(|it| it.to_pointer() == table.to_pointer())
    }

    /// Returns the place of a name in the caller's line, or of the line.
    pub(crate) fn name_spot(&self, caller: &Caller, name: &str) -> Spot {
        self.sources.named_spot(caller, name).unwrap_or_else(|| self.line(caller))
    }

    /// Returns the place of a literal text in the caller's line.
    pub(crate) fn text_spot(&self, caller: &Caller, text: &str) -> Spot {
        self.sources.text_spot(caller, text)
    }

    /// Returns the names of the files that can be required.
    pub(crate) fn modules(&self) -> Vec<String> {
        modules(&self.folder)
    }

    /// Returns the place of the caller's line.
    pub(crate) fn line(&self, caller: &Caller) -> Spot {
        self.sources.line(caller)
    }

    /// Records the first half of a declaration.
    pub(crate) fn begin(&self, word: &'static str, name: String, caller: Caller) -> Rc<Pending> {
        let pending = Rc::new(Pending { word, name, caller, is_done: Cell::new(false) });
        self.pending.borrow_mut().push(Rc::clone(&pending));
        pending
    }

    /// Notes the second half.
    pub(crate) fn complete(&self, pending: &Pending) {
        pending.is_done.set(true);
    }

    /// Adds a declaration.
    pub(crate) fn declare(&self, declared: BareDeclared) {
        if self.declared_count.get() >= DECLARED_MAX {
            let BareDeclared { caller, word, name, .. } = &declared;
            let spot = self.sources.call_spot(caller, word, name.as_deref());
            let message = format!("a script has at most {DECLARED_MAX} declarations");
            self.report(Diagnostic::error("too-many", message).at(&spot));
            return;
        }
        self.declared_count.update(|it| it + 1);
        self.declared.borrow_mut().push(declared);
        if self.declared.borrow().len() >= TOLD_AT_ONCE {
            self.tell_declared();
        }
    }

    /// Reserves room for that many more bytes of text in the declarations; false if there is none.
    /// The engine stores a string once even if it is used in a thousand places.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let all = self.declared_bytes.get() + bytes;
        let has_room = all <= MEMORY_BYTES_MAX;
        if has_room {
            self.declared_bytes.set(all);
        }
        has_room
    }

    fn tell_declared(&self) {
        let declared = std::mem::take(&mut *self.declared.borrow_mut());
        self.tell(News::Declared(declared));
    }

    /// Adds a handler of an event.
    pub(crate) fn handle(&self, event: EventKind, slot: Slot, caller: &Caller) {
        let own = format!("{}:{}", caller.file, caller.line);
        self.draft.borrow_mut().handlers.push((event, slot, own));
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

    /// Ends loading and returns all declarations.
    pub(crate) fn finish(&self, is_whole: bool) -> Draft {
        self.is_loading.set(false);
        self.tell_declared();
        *self.told.borrow_mut() = None;
        for pending in self.pending.borrow().iter().filter(|it| !it.is_done.get()) {
            // If the evaluation ended with an error, the table may not have been reached.
            if is_whole {
                let title = format!("{} \"{}\"", pending.word, pending.name);
                let finding = Diagnostic::error("half-finished", format!("{title} has no table"));
                let note = format!("write wb.{} \"{}\" {{ … }}", pending.word, pending.name);
                let call =
                    self.sources.call_spot(&pending.caller, pending.word, Some(&pending.name));
                self.report(finding.at(&call).note(note));
            }
        }
        let mut draft = std::mem::take(&mut *self.draft.borrow_mut());
        draft.findings = self.findings.borrow_mut().take();
        draft.is_whole = is_whole;
        draft
    }

    /// Drops all values of the VM; called before it ends.
    pub(crate) fn clear(&self) {
        self.functions.borrow_mut().clear();
        self.modules.borrow_mut().clear();
        *self.reported.borrow_mut() = None;
        *self.lab.borrow_mut() = None;
    }

    /// Sets the rights of the current call, after the time of a test has moved.
    pub(crate) fn set_rights(&self, rights: Rights) {
        self.rights.set(Some(rights));
    }

    /// Starts a call, with its own log lines and effects.
    pub(crate) fn begin_call(&self, rights: Rights) {
        self.log_lines.set(0);
        self.rights.set(Some(rights));
        self.effects.borrow_mut().clear();
    }

    /// Ends a call and returns its requested effects.
    pub(crate) fn end_call(&self) -> Vec<Effect> {
        self.rights.set(None);
        std::mem::take(&mut *self.effects.borrow_mut())
    }

    /// Returns the rights of the current call; `None` while the script loads.
    pub(crate) fn rights(&self) -> Option<Rights> {
        self.rights.get()
    }

    /// Records an effect; returns false if the call has too many.
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

fn too_many_files() -> crate::base::Error {
    crate::base::Error::invalid(format!("a script has at most {FILES_MAX} files"))
}

/// Escapes control characters, so that a text cannot imitate another log line.
fn one_line(text: &str) -> String {
    let mut line = String::new();
    for c in text.chars().take(LOG_CHARS_MAX) {
        if c.is_control() && c != '\t' { line.extend(c.escape_default()) } else { line.push(c) }
    }
    truncate_chars(&line, LOG_CHARS_MAX)
}

/// The place in the script that called one of our functions.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// File relative to the script's folder.
    pub(crate) file: Arc<Utf8Path>,
    /// Line.
    pub(crate) line: u32,
}

impl Caller {
    /// Finds the nearest stack frame that has a line.
    pub(crate) fn of(lua: &Lua) -> Caller {
        Caller::in_file(lua, |path| Arc::from(Utf8Path::new(path)))
    }

    /// Finds the caller of a function that a script calls once per declaration. For a script with
    /// one file only the line is requested: the engine allocates the file name on each request.
    pub(crate) fn among(lua: &Lua, session: &Session) -> Caller {
        let Some(only) = session.sources.only() else {
            return Caller::in_file(lua, |path| session.sources.file(path));
        };
        Caller::nearest(lua, |debug| {
            let line = u32::try_from(debug.current_line()?).ok()?;
            Some(Caller { file: Arc::clone(&only), line })
        })
    }

    fn in_file(lua: &Lua, file: impl Fn(&str) -> Arc<Utf8Path>) -> Caller {
        Caller::nearest(lua, |debug| {
            let source = debug.source().source?;
            let path = source.strip_prefix('@')?;
            let line = u32::try_from(debug.current_line()?).ok()?;
            Some(Caller { file: file(path), line })
        })
    }

    fn nearest(lua: &Lua, caller: impl Fn(&Debug<'_>) -> Option<Caller>) -> Caller {
        let frame = |level| lua.inspect_stack(level, &caller);
        // The innermost frame is our function.
        let nearest = (1..FRAMES_MAX).map_while(frame).flatten().next();
        nearest.unwrap_or_else(|| Caller { file: Arc::from(Utf8Path::new("script")), line: 1 })
    }

    /// Returns an error that begins with this place.
    pub(crate) fn error(&self, message: impl std::fmt::Display) -> mlua::Error {
        mlua::Error::RuntimeError(format!("{}:{}: {message}", self.file, self.line))
    }
}
