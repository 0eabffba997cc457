//! Mistakes inside functions of a script: unknown names, comparisons with impossible values, and
//! requests that would be refused.
//!
//! **Invariant:** code that may never be reached gives only a warning, even if it would fail: a
//! script that works is not refused. An error is reported only if it makes the function useless.

use std::collections::BTreeMap;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Map, Value};

use crate::base::{Address, EventKind};
use crate::script::config::{Config, InputType, Kind, Lane, Prompt};
use crate::script::lint::arguments::{Given, Name, TOPIC_IDS};
use crate::script::lint::bytecode;
use crate::script::lint::walk::Walk;
use crate::script::load::node::Draft;
use crate::script::load::request;
use crate::script::load::schedule::Wanted;
use crate::script::schema::{DECLARATIONS, FUNCTIONS, MESSAGE_FIELDS, REQUEST_FIELDS};
use crate::script::source::diagnostic::{Diagnostic, Findings, Severity, suggestion};
use crate::script::source::field_span::Source;
use crate::script::source::location::Slot;
use crate::script::source::span::Spot;
use crate::script::vm::declare::global_note;
use crate::script::vm::sandbox::global_names;

/// A finding without its place.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    severity: Severity,
    code: &'static str,
    line: u32,
    /// The name or the text in that line.
    word: String,
    message: String,
    note: String,
}

/// A table that may be passed to `wb.enqueue`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    /// Each field with its value, if literal, and its line.
    pub(crate) fields: Vec<(String, Option<Value>, u32)>,
    /// The channel of an event that stands for an address, with its line.
    pub(crate) channel: Option<(u32, String, EventKind)>,
    is_open: bool,
}

impl Request {
    /// Returns it as a literal value, if it is one and has fields.
    pub(crate) fn object(&self) -> Option<Value> {
        let fields =
            self.fields.iter().map(|(name, value, _)| Some((name.clone(), value.clone()?)));
        let is_whole = !self.is_open && !self.fields.is_empty();
        is_whole
            .then(|| fields.collect::<Option<Map<String, Value>>>().map(Value::Object))
            .flatten()
    }

    /// Marks it as possibly having other fields, too.
    pub(crate) fn open(self) -> Request {
        Request { is_open: true, ..self }
    }

    fn kind(&self) -> Option<&(String, Option<Value>, u32)> {
        self.fields.iter().find(|it| it.0 == "kind")
    }
}

impl Found {
    fn error(code: &'static str, (line, word): (u32, &str), message: String, note: String) -> Self {
        let severity = Severity::Error;
        Found { severity, code, line, word: word.to_owned(), message, note }
    }

    /// Returns a warning at a word of a line.
    pub(crate) fn warning(
        code: &'static str,
        (line, word): (u32, &str),
        message: String,
        note: String,
    ) -> Self {
        Found { severity: Severity::Warning, ..Found::error(code, (line, word), message, note) }
    }

    /// Returns whether it is about the function's argument.
    pub(crate) fn is_of_given(&self) -> bool {
        matches!(self.code, "unknown-read" | "unknown-word")
    }

    /// Returns whether another one is about the same thing.
    pub(crate) fn is_like(&self, other: &Found) -> bool {
        (self.line, self.code, &self.word) == (other.line, other.code, &other.word)
    }
}

/// The context for judging the functions of one file.
pub(crate) struct Judge<'k> {
    kinds: &'k BTreeMap<String, Kind>,
    /// All declared names, also of invalid declarations.
    names: Vec<&'k str>,
    /// The same of inboxes.
    inboxes: Vec<&'k str>,
    globals: Vec<String>,
    /// Arguments of functions, by the line on which they begin.
    given: BTreeMap<u32, Vec<Given<'k>>>,
    /// Number of functions that begin on a line.
    starts: BTreeMap<u32, usize>,
}

/// Checks the functions of all files.
pub(crate) fn look(draft: &Draft, config: &Config, findings: &mut Findings) {
    let mut all: BTreeMap<&Utf8Path, BTreeMap<u32, Vec<Given<'_>>>> = BTreeMap::new();
    let slots = given(config);
    for (slot, given) in &slots {
        all.entry(&slot.at.file).or_default().entry(slot.at.line).or_default().push(*given);
    }
    let named = |word: &str| -> Vec<&str> {
        let declared = draft.declared.iter().filter(|it| it.word == word);
        declared.filter_map(|it| it.name.as_deref()).collect()
    };
    let (names, inboxes) = (named("kind"), named("inbox"));
    for (path, code) in &draft.code {
        let Some(whole) = bytecode::read(code) else { continue };
        let Some(text) = draft.text_of(path) else { continue };
        let mut starts = BTreeMap::new();
        count_starts(&whole, &mut starts);
        let judge = Judge {
            kinds: &config.kinds,
            names: names.clone(),
            inboxes: inboxes.clone(),
            globals: global_names(),
            given: all.remove(path.as_path()).unwrap_or_default(),
            starts,
        };
        let found = Walk::file(&judge, &whole);
        if found.is_empty() {
            continue;
        }
        let source = Arc::new(Source::new(Arc::from(path.clone()), Arc::clone(text)));
        for it in found {
            findings.add(placed(&source, it));
        }
    }
}

/// Returns every function with its argument.
fn given(config: &Config) -> Vec<(&Slot, Given<'_>)> {
    let mut all: Vec<(&Slot, Given<'_>)> = Vec::new();
    all.extend(config.handlers.iter().map(|it| (&it.slot, Given::Event(it.event))));
    for kind in config.kinds.values() {
        all.extend(kind.verify.iter().map(|it| (it, Given::Produced(kind))));
        all.extend(kind.retry.iter().map(|it| (it, Given::Failed(kind))));
        if let Prompt::Function(slot) = &kind.prompt {
            all.push((slot, Given::Prompt(kind)));
        }
        if let Some(Lane::Function(slot)) = &kind.lane {
            all.push((slot, Given::Lane(kind)));
        }
    }
    for schedule in config.schedules.values() {
        if let Wanted::Function(slot) = &schedule.enqueue {
            all.push((slot, Given::Due));
        }
    }
    all.extend(config.webhooks.values().map(|it| (&it.enqueue, Given::Call)));
    all
}

fn count_starts(proto: &bytecode::Proto, starts: &mut BTreeMap<u32, usize>) {
    for inner in &proto.inner {
        *starts.entry(inner.line).or_default() += 1;
        count_starts(inner, starts);
    }
}

fn placed(source: &Arc<Source>, found: Found) -> Diagnostic {
    let Found { severity, code, line, word, message, note } = found;
    let spot = source.name_in_line(&word, line).or_else(|| source.text_in_line(&word, line));
    let spot: Spot = spot.unwrap_or_else(|| source.whole_line(line));
    let finding = match severity {
        Severity::Error => Diagnostic::error(code, message),
        Severity::Warning => Diagnostic::warning(code, message),
    };
    finding.at(&spot).note(note)
}

impl<'k> Judge<'k> {
    /// Returns the arguments of the function that begins on a line and is the value of a field. If
    /// several begin there, only those that are certain.
    pub(crate) fn given(&self, line: u32, field: Option<&str>) -> Vec<Given<'k>> {
        let all = self.given.get(&line).cloned().unwrap_or_default();
        match self.starts.get(&line) {
            Some(1) => all,
            _ => all.into_iter().filter(|it| field == Some(it.field())).collect(),
        }
    }

    /// A global that is not there.
    pub(crate) fn global(&self, line: u32, name: &str) -> Option<Found> {
        if self.globals.iter().any(|it| it == name) {
            return None;
        }
        let (message, note) =
            (format!("undefined global `{name}`"), global_note(name, &self.globals));
        Some(Found::warning("undefined-global", (line, name), message, note))
    }

    /// A global that is set.
    pub(crate) fn assignment(&self, line: u32, name: &str) -> Found {
        let message = format!("assignment to global `{name}`");
        Found::warning("global-assignment", (line, name), message, format!("write local {name}"))
    }

    /// A function that does not exist in `wb` or a table in it.
    pub(crate) fn unknown_function(&self, line: u32, path: &str, key: &str) -> Option<Found> {
        let full = format!("{path}.{key}");
        let here = full.strip_prefix("wb.").unwrap_or(&full);
        let before = path.strip_prefix("wb").unwrap_or(path).trim_start_matches('.');
        let known = DECLARATIONS.iter().map(|it| it.word).chain(FUNCTIONS.iter().map(|it| it.name));
        let below = known.chain(["input"]).filter_map(|it| match before {
            "" => it.split('.').next(),
            _ => it.strip_prefix(before)?.strip_prefix('.'),
        });
        let names: Vec<&str> = below.collect();
        if names.contains(&key) || path == "wb.input" || here.split('.').count() > 2 {
            return None;
        }
        let message = format!("{path} has no function `{key}`");
        Some(Found::warning("unknown-function", (line, key), message, suggestion(key, names)))
    }

    /// A name that the argument of a function does not have.
    pub(crate) fn read(
        &self,
        (line, given): (u32, Given<'k>),
        (shown, key, is_root): (&str, &str, bool),
        names: &[Name<'k>],
    ) -> Found {
        let what = match is_root {
            true => given.what(),
            false => format!("`{shown}` of {}", given.what()),
        };
        let note = given.elsewhere(key, is_root, shown);
        let note = note.unwrap_or_else(|| match (key, names) {
            ("text", [only]) | ("value", [only]) => format!("write {shown}.{}", only.name),
            _ => suggestion(key, names.iter().map(|it| it.name).collect::<Vec<_>>()),
        });
        let message = format!("{what} has no `{key}`");
        Found::warning("unknown-read", (line, key), message, note)
    }

    /// The kind of an event is its name, never the kind of a job.
    pub(crate) fn kind_of_event(
        &self,
        line: u32,
        given: Given<'k>,
        (shown, said): (&str, &str),
    ) -> Found {
        let Given::Event(kind) = given else { return self.word(line, (shown, said), &[]) };
        let message = format!("`kind` of an event is its name, {}", kind.as_str());
        let note = given.elsewhere("kind", true, shown);
        let note = note.unwrap_or_else(|| format!("this is never \"{}\"", said.escape_debug()));
        Found::warning("unknown-read", (line, "kind"), message, note)
    }

    /// A word that a value never has.
    pub(crate) fn word(&self, line: u32, (shown, said): (&str, &str), words: &[&str]) -> Found {
        let message = format!("`{shown}` is never \"{}\"", said.escape_debug());
        Found::warning(
            "unknown-word",
            (line, said),
            message,
            suggestion(said, words.iter().copied()),
        )
    }

    /// A prompt that no job could have.
    pub(crate) fn no_return(&self, line: u32, kind: &Kind) -> Found {
        let message = format!("the function of the prompt of {} returns nothing", kind.title());
        let note = "write return ([[…]]):format(…), or return \"…\" .. job.NAME".to_owned();
        Found::error("no-return", (line, "function"), message, note)
    }

    /// A request that is returned, and therefore ignored.
    pub(crate) fn returned(&self, line: u32, request: &Request) -> Option<Found> {
        let (_, kind, _) = request.kind()?;
        let kind =
            kind.as_ref().and_then(Value::as_str).unwrap_or("NAME").escape_debug().to_string();
        let message = "a request that is returned makes no job".to_owned();
        let note = format!("write wb.enqueue {{ kind = \"{kind}\", … }}, without return");
        Some(Found::error("returned-request", (line, "return"), message, note))
    }

    /// `wb.enqueue("kind", { … })`.
    pub(crate) fn two_values(&self, line: u32, kind: &str) -> Found {
        let message = "wb.enqueue takes exactly one table".to_owned();
        let note = format!("write wb.enqueue {{ kind = \"{}\", … }}", kind.escape_debug());
        Found::warning("wrong-call", (line, "enqueue"), message, note)
    }

    /// A job that would be refused.
    pub(crate) fn request(&self, line: u32, request: &Request) -> Vec<Found> {
        let Some((_, name, at)) = request.kind() else {
            let message = "wb.enqueue has no `kind`".to_owned();
            let note = "write kind = \"NAME\"".to_owned();
            let found = Found::warning("missing-field", (line, "enqueue"), message, note);
            return Some(found).filter(|_| !request.is_open).into_iter().collect();
        };
        let Some(name) = name.as_ref().and_then(Value::as_str) else { return Vec::new() };
        let renamed = || self.kinds.values().find(|it| it.was.as_deref() == Some(name));
        let Some(kind) = self.kinds.get(name).or_else(renamed) else {
            if self.names.contains(&name) {
                return Vec::new();
            }
            let message = format!("wb.enqueue names no kind: `{}`", name.escape_debug());
            let note = suggestion(name, self.names.clone());
            return vec![Found::warning("unknown-kind", (*at, name), message, note)];
        };
        if kind.takes_messages() {
            let message = format!("{} can't be started as a job; send it a message", kind.title());
            let note = format!("write {}", request::send_to(kind));
            return vec![Found::warning("takes-messages", (*at, name), message, note)];
        }
        self.inputs(line, request, kind)
    }

    fn inputs(&self, line: u32, request: &Request, kind: &Kind) -> Vec<Found> {
        let inputs = || kind.inputs.iter().filter(|it| !it.ty.is_computed());
        let mut found = Vec::new();
        for (name, literal, at) in &request.fields {
            let refused = literal.as_ref().and_then(|it| request::refusal(kind, name, it));
            if let Some(expected) = refused {
                let message = format!("`{name}` of kind \"{}\" must be {expected}", kind.name);
                let note = "as it is, the job would be refused".to_owned();
                found.push(Found::warning("bad-value", (*at, name), message, note));
            }
            let is_known = inputs().any(|it| it.name == *name) || name == TOPIC_IDS;
            if !is_known && !REQUEST_FIELDS.contains(&name.as_str()) {
                let message = format!("kind \"{}\" has no input `{name}`", kind.name);
                let known = inputs().map(|it| it.name.as_str()).chain(REQUEST_FIELDS);
                let note = suggestion(name, known.collect::<Vec<_>>());
                found.push(Found::warning("unknown-input", (*at, name), message, note));
            }
        }
        let has = |name: &str| request.fields.iter().any(|it| it.0 == name);
        let needed = inputs().filter(|it| {
            let is_several = it.ty == InputType::Topic && has(TOPIC_IDS);
            it.required && it.default.is_none() && it.from.is_none() && !is_several
        });
        for input in needed.filter(|it| !request.is_open && !has(&it.name)) {
            let message = format!("kind \"{}\" needs `{}`", kind.name, input.name);
            let note = format!("write {} = …", input.name);
            found.push(Found::warning("missing-input", (line, "enqueue"), message, note));
        }
        found
    }

    /// A message that would be refused.
    pub(crate) fn message(&self, line: u32, message: &Request) -> Vec<Found> {
        let mut found = Vec::new();
        for (name, _, at) in message.fields.iter().filter(|it| !MESSAGE_FIELDS.contains(&&*it.0)) {
            let says = format!("wb.send has no field `{}`", name.escape_debug());
            let note = suggestion(name, MESSAGE_FIELDS);
            found.push(Found::warning("wrong-call", (*at, name), says, note));
        }
        let field = |name: &str| message.fields.iter().find(|it| it.0 == name);
        let missing = ["to", "payload"].into_iter().filter(|it| field(it).is_none());
        for name in missing.filter(|_| !message.is_open) {
            let says = format!("wb.send needs `{name}`");
            let note = "write wb.send { to = \"person:NAME\", payload = … }".to_owned();
            found.push(Found::warning("missing-field", (line, "send"), says, note));
        }
        found.extend(message.channel.as_ref().map(no_address));
        let Some((_, Some(Value::String(to)), at)) = field("to") else { return found };
        match self.recipient(to) {
            Err((says, note)) => {
                found.push(Found::warning("unknown-name", (*at, to), says, note));
            }
            Ok(()) => found.extend(self.payload(to, message)),
        }
        found
    }

    /// Returns what is wrong with an address, and what to write.
    fn recipient(&self, to: &str) -> Result<(), (String, String)> {
        let address: Address = to.parse().map_err(|cause: crate::base::Error| {
            let hint = cause.hint_str().unwrap_or_default().to_owned();
            (format!("wb.send: {}", cause.message()), hint)
        })?;
        match address {
            Address::Inbox { template, inbox } => {
                let name = format!("{template}/{inbox}");
                if self.inboxes.contains(&&*name) {
                    return Ok(());
                }
                let note = suggestion(&name, self.inboxes.iter().copied());
                Err((format!("wb.send names no inbox: `{name}`"), note))
            }
            // A successor of a declared agent has another name.
            Address::Agent(name) if to == name && !self.kinds.contains_key(&format!("@{to}")) => {
                let note = format!("write \"person:{name}\" for a person");
                Err((format!("wb.send names no agent: `{name}`"), note))
            }
            _ => Ok(()),
        }
    }

    /// A literal payload that its inbox refuses.
    fn payload(&self, to: &str, message: &Request) -> Option<Found> {
        let (_, payload, at) = message.fields.iter().find(|it| it.0 == "payload")?;
        let kind = self.kinds.get(to.strip_prefix("topic:")?)?;
        let schema = kind.inbox.as_ref()?.schema.as_ref()?;
        let refused = schema.require(payload.as_ref()?, "payload", "bad_payload").err()?;
        let says = format!("{} would refuse it: {}", kind.title(), refused.message());
        let note = "as it is, the message would be refused".to_owned();
        Some(Found::warning("bad-value", (*at, "payload"), says, note))
    }
}

/// Says that the channel of an event is no address: a bare word is an agent, which may have the
/// same name.
fn no_address((line, shown, kind): &(u32, String, EventKind)) -> Found {
    let (what, note) = match kind {
        EventKind::ApprovalCreated | EventKind::ApprovalDecided => (
            "the label of an approval, which takes no messages",
            "write an address, such as \"person:NAME\" or \"channel:NAME\"".to_owned(),
        ),
        EventKind::ChannelChanged | EventKind::MemberChanged | EventKind::ChannelMessage => {
            let number = shown.strip_suffix("channel").map(|it| format!("{it}number"));
            let number = number.as_deref().unwrap_or("its number");
            ("the id of a channel", format!("write to = \"channel:\" .. {number}"))
        }
        _ => ("the id of a channel", "write to = \"channel:NAME\"".to_owned()),
    };
    let message = format!("wb.send: `{shown}` is no address, but {what}");
    Found::warning("bad-value", (*line, "channel"), message, note)
}

/// The path and the compiled code of a file.
pub(crate) type Code = (Utf8PathBuf, Vec<u8>);
