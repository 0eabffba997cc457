//! Follows the argument of a function through its compiled code: which names it reads, which values
//! it compares, and which jobs it requests.
//!
//! **Invariant:** a heuristic, not a proof: an uncertain value is unknown and gives no findings. A
//! local that is assigned twice is unknown, and so are temporaries at a jump target.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use crate::script::lint::answers;
use crate::script::lint::arguments::{Given, Name, words};
use crate::script::lint::bytecode::{Instruction, Proto};
use crate::script::lint::judge::{Found, Judge, Request};
use crate::script::lint::library;
use crate::script::lint::op::{self, REGISTERS, targets, written};

/// Most functions walked per file; one with several possible arguments is walked once for each.
const WALKS_MAX: u32 = 10_000;

/// What is known about a value.
#[derive(Clone)]
enum Value<'k> {
    /// Nothing.
    Unknown,
    /// The argument of the function, or a table in it.
    Record { given: Given<'k>, shown: String, is_root: bool, names: Vec<Name<'k>> },
    /// A plain value in it.
    Leaf { given: Given<'k>, shown: String, is_root: bool, name: Name<'k> },
    /// `wb`, or a member of it.
    Wb(String),
    /// The function `require`.
    Require,
    /// A library of Lua.
    Library(&'static str),
    /// A text.
    Text(String),
    /// A number or a flag.
    Plain(Json),
    /// A table constructed by the function.
    Made(Request),
}

impl<'k> Value<'k> {
    fn of(literal: Option<&Json>) -> Value<'k> {
        match literal {
            Some(Json::String(text)) => Value::Text(text.clone()),
            Some(other) => Value::Plain(other.clone()),
            None => Value::Unknown,
        }
    }

    fn literal(self) -> Option<Json> {
        match self {
            Value::Text(text) => Some(Json::String(text)),
            Value::Plain(plain) => Some(plain),
            _ => None,
        }
    }
}

/// Walks the functions of one file.
pub(crate) struct Walk<'w, 'k> {
    judge: &'w Judge<'k>,
    /// Names of captured variables that some function assigns.
    reset: BTreeSet<String>,
    walks: u32,
}

/// One function.
struct Frame<'p, 'k> {
    proto: &'p Proto,
    captured: Vec<Value<'k>>,
    registers: Vec<Value<'k>>,
    /// Its locals by register, ordered by the start of their scope.
    locals: Vec<Vec<Span>>,
    given: Option<Given<'k>>,
    /// Number of enclosing functions.
    depth: u32,
    found: Vec<Found>,
}

/// Where a local is there.
struct Span {
    from: usize,
    to: usize,
    /// Whether it is assigned again.
    is_reset: bool,
}

impl<'w, 'k> Walk<'w, 'k> {
    /// Returns the findings in a file.
    pub(crate) fn file(judge: &'w Judge<'k>, proto: &Proto) -> Vec<Found> {
        let mut reset = BTreeSet::new();
        collect_reset(proto, &mut reset);
        let mut walk = Walk { judge, reset, walks: 0 };
        walk.function(proto, vec![Value::Unknown; proto.captures.len()], None, 0)
    }

    fn function(
        &mut self,
        proto: &Proto,
        captured: Vec<Value<'k>>,
        given: Option<Given<'k>>,
        depth: u32,
    ) -> Vec<Found> {
        self.walks += 1;
        if self.walks > WALKS_MAX {
            return Vec::new();
        }
        let registers = vec![Value::Unknown; REGISTERS];
        let (locals, found) = (self.spans(proto), Vec::new());
        let mut frame = Frame { proto, captured, registers, locals, given, depth, found };
        if let (Some(given), true) = (given, proto.params > 0) {
            let shown = proto.locals.first().map_or("it", |it| &it.name).to_owned();
            let names = given.names();
            frame.set(0, Value::Record { given, shown, is_root: true, names });
        }
        match given {
            Some(Given::Prompt(kind)) if !returns(proto) => {
                frame.found.push(self.judge.no_return(proto.line, kind));
            }
            // A function that raises an error refuses as well.
            Some(Given::Produced(kind)) if !returns(proto) && !raises(proto) => {
                frame.found.push(answers::no_answer(proto.line, kind));
            }
            Some(Given::Lane(kind)) if !returns(proto) && !raises(proto) => {
                frame.found.push(answers::no_lane(proto.line, kind));
            }
            _ => {}
        }
        let targets = targets(proto);
        for at in 0..proto.code.len() {
            if targets.contains(&at) {
                frame.forget_temporaries(at);
            }
            self.step(&mut frame, at);
        }
        frame.found
    }

    fn step(&mut self, frame: &mut Frame<'_, 'k>, at: usize) {
        let it = frame.proto.code[at];
        let value = match it.op() {
            op::MOVE => match self.get(frame, it.b(), at) {
                // Other owners of the table may add fields.
                Value::Made(request) => Value::Made(request.open()),
                other => other,
            },
            op::LOADK => Value::of(frame.literal(it.bx())),
            op::LOADI => Value::Plain(it.number().into()),
            op::LOADFALSE | op::LOADTRUE => Value::Plain((it.op() == op::LOADTRUE).into()),
            op::GETUPVAL => self.captured(frame, it.b()),
            op::GETTABUP => self.of_captured(frame, it, at),
            op::GETFIELD => {
                let base = self.get(frame, it.b(), at);
                self.field(frame, &base, it.c(), at)
            }
            op::SELF => {
                let base = self.get(frame, it.b(), at);
                let value = match (&base, it.k()) {
                    (_, false) => Value::Unknown,
                    (Value::Text(_), true) => {
                        self.field(frame, &Value::Library("string"), it.c(), at)
                    }
                    (Value::Leaf { name, .. }, true) if name.ty == "string" => {
                        self.field(frame, &Value::Library("string"), it.c(), at)
                    }
                    _ => self.field(frame, &base, it.c(), at),
                };
                frame.set(it.a() + 1, base);
                value
            }
            op::NEWTABLE => Value::Made(Request::default()),
            op::CALL | op::TAILCALL => self.call(frame, it, at),
            op::CLOSURE => self.closure(frame, it, at),
            op::SETTABUP => return self.set_captured(frame, it, at),
            op::SETFIELD => return self.set_field(frame, it, at),
            op::SETTABLE | op::SETI | op::SETLIST => {
                if let Some(Value::Made(request)) = frame.registers.get_mut(it.a()) {
                    *request = std::mem::take(request).open();
                }
                return;
            }
            op::EQK => return self.compare(frame, it, at),
            op::RETURN | op::RETURN1 => return self.end(frame, it, at),
            _ => {
                for register in written(it) {
                    frame.set(register, Value::Unknown);
                }
                return;
            }
        };
        frame.set(it.a(), value);
    }

    /// Returns the locals of a function by their registers.
    fn spans(&self, proto: &Proto) -> Vec<Vec<Span>> {
        let mut set: Vec<Vec<usize>> = vec![Vec::new(); REGISTERS];
        for (at, it) in proto.code.iter().enumerate() {
            // A call also overwrites the registers above it that hold no local.
            for register in written(*it).take(8).filter(|it| *it < REGISTERS) {
                set[register].push(at);
            }
        }
        let mut spans: Vec<Vec<Span>> = Vec::new();
        spans.resize_with(REGISTERS, Vec::new);
        for local in proto.locals.iter().filter(|it| it.register < REGISTERS) {
            let set = &set[local.register];
            let next = set.get(set.partition_point(|at| *at < local.from));
            let is_reset =
                next.is_some_and(|at| *at < local.to) || self.reset.contains(&local.name);
            spans[local.register].push(Span { from: local.from, to: local.to, is_reset });
        }
        spans
    }

    /// Returns the value of a register; unknown for a local that is assigned twice.
    fn get(&self, frame: &Frame<'_, 'k>, register: usize, at: usize) -> Value<'k> {
        if frame.local(register, at).is_some_and(|it| it.is_reset) {
            return Value::Unknown;
        }
        frame.registers.get(register).cloned().unwrap_or(Value::Unknown)
    }

    fn captured(&self, frame: &Frame<'_, 'k>, index: usize) -> Value<'k> {
        let name = frame.proto.captures.get(index).map_or("", |it| it.name.as_str());
        match self.reset.contains(name) {
            true => Value::Unknown,
            false => frame.captured.get(index).cloned().unwrap_or(Value::Unknown),
        }
    }

    fn of_captured(&self, frame: &mut Frame<'_, 'k>, it: Instruction, at: usize) -> Value<'k> {
        let name = frame.proto.captures.get(it.b()).map_or("", |it| it.name.as_str());
        if name != "_ENV" {
            let base = self.captured(frame, it.b());
            return self.field(frame, &base, it.c(), at);
        }
        let Some(global) = frame.constant(it.c()) else { return Value::Unknown };
        if global == "require" {
            return Value::Require;
        }
        if let Some(library) = library::named(global) {
            return Value::Library(library);
        }
        // Globals that the file itself reads were reported by its evaluation.
        let found = self.judge.global(frame.line(at), global).filter(|_| frame.depth > 0);
        frame.found.extend(found);
        Value::Unknown
    }

    fn set_captured(&self, frame: &mut Frame<'_, 'k>, it: Instruction, at: usize) {
        let name = frame.proto.captures.get(it.a()).map_or("", |it| it.name.as_str());
        if let (true, "_ENV", Some(global)) = (frame.depth > 0, name, frame.constant(it.b())) {
            let found = self.judge.assignment(frame.line(at), global);
            frame.found.push(found);
        }
    }

    /// Reads a name of a value.
    fn field(
        &self,
        frame: &mut Frame<'_, 'k>,
        base: &Value<'k>,
        constant: usize,
        at: usize,
    ) -> Value<'k> {
        let Some(key) = frame.constant(constant).map(str::to_owned) else { return Value::Unknown };
        let line = frame.line(at);
        match base {
            Value::Wb(path) => match self.judge.unknown_function(line, path, &key) {
                None => Value::Wb(format!("{path}.{key}")),
                Some(found) => {
                    frame.found.extend(Some(found).filter(|_| frame.depth > 0));
                    Value::Unknown
                }
            },
            Value::Library(library) if frame.depth > 0 => {
                let note = library::missing(library, &key);
                frame
                    .found
                    .extend(note.map(|note| answers::no_function(line, (library, &key), note)));
                Value::Unknown
            }
            Value::Record { given, shown, is_root, names } => {
                let Some(name) = names.iter().find(|it| it.name == key).copied() else {
                    let found = self.judge.read((line, *given), (shown, &key, *is_root), names);
                    frame.found.push(found);
                    return Value::Unknown;
                };
                let (given, shown, is_root) = (*given, format!("{shown}.{key}"), *is_root);
                match given.within(name).filter(|_| is_root || name.ty.starts_with("wb.")) {
                    Some(names) => Value::Record { given, shown, is_root: false, names },
                    None => Value::Leaf { given, shown, is_root, name },
                }
            }
            _ => Value::Unknown,
        }
    }

    fn set_field(&self, frame: &mut Frame<'_, 'k>, it: Instruction, at: usize) {
        let Some(key) = frame.constant(it.b()).map(str::to_owned) else { return };
        let line = frame.line(at);
        let mut channel = None;
        let literal = match it.k() {
            true => frame.literal(it.c()).cloned(),
            false => match self.get(frame, it.c(), at) {
                // A local may still get other fields.
                Value::Made(table) if frame.local(it.c(), at).is_none() => table.object(),
                Value::Leaf { given: Given::Event(kind), shown, name, .. } => {
                    let is_address = key == "to" && name.name == "channel";
                    channel = is_address.then_some((line, shown, kind));
                    None
                }
                other => other.literal(),
            },
        };
        if let Some(Value::Made(request)) = frame.registers.get_mut(it.a()) {
            request.fields.push((key, literal, line));
            request.channel = request.channel.take().or(channel);
        }
    }

    fn compare(&self, frame: &mut Frame<'_, 'k>, it: Instruction, at: usize) {
        let Value::Leaf { given, shown, is_root, name } = self.get(frame, it.a(), at) else {
            return;
        };
        let Some(said) = frame.constant(it.b()) else { return };
        let line = frame.line(at);
        let found = match (given, name.name) {
            (Given::Event(kind), "kind") if is_root => {
                let is_wrong = said != kind.as_str();
                is_wrong.then(|| self.judge.kind_of_event(line, given, (&shown, said)))
            }
            _ => {
                let words = words(name.ty);
                let is_wrong = !words.is_empty() && !words.contains(&said);
                is_wrong.then(|| self.judge.word(line, (&shown, said), words))
            }
        };
        frame.found.extend(found);
    }

    fn call(&self, frame: &mut Frame<'_, 'k>, it: Instruction, at: usize) -> Value<'k> {
        let function = self.get(frame, it.a(), at);
        let first = self.get(frame, it.a() + 1, at);
        // The arguments of a call are above it and are overwritten.
        for register in it.a()..REGISTERS {
            frame.set(register, Value::Unknown);
        }
        if let (Value::Wb(path), Some(given)) = (&function, frame.given) {
            frame.found.extend(answers::phase(frame.line(at), given, path));
        }
        match (function, first) {
            (Value::Require, Value::Text(name)) if name == "wb" => Value::Wb("wb".to_owned()),
            (Value::Wb(path), first) if path == "wb.enqueue" && frame.depth > 0 => {
                let found = match first {
                    Value::Made(request) if it.b() == 2 => {
                        self.judge.request(frame.line(at), &request)
                    }
                    Value::Text(kind) => vec![self.judge.two_values(frame.line(at), &kind)],
                    _ => Vec::new(),
                };
                frame.found.extend(found);
                Value::Unknown
            }
            (Value::Wb(path), Value::Made(message)) if path == "wb.send" && frame.depth > 0 => {
                let found = self.judge.message(frame.line(at), &message);
                frame.found.extend(found.into_iter().filter(|_| it.b() == 2));
                Value::Unknown
            }
            _ => Value::Unknown,
        }
    }

    fn end(&self, frame: &mut Frame<'_, 'k>, it: Instruction, at: usize) {
        let is_one = it.op() == op::RETURN1 || it.b() == 2;
        let acts = frame.given.is_some_and(Given::acts);
        if let (true, true, Value::Made(request)) = (is_one, acts, self.get(frame, it.a(), at)) {
            let found = self.judge.returned(frame.line(at), &request);
            frame.found.extend(found);
        }
        let count = if it.op() == op::RETURN1 { 1 } else { it.b().saturating_sub(1) };
        let literal = |place| self.get(frame, it.a() + place, at).literal();
        let literals: Vec<Option<Json>> = (0..count.min(2)).map(literal).collect();
        let found = frame.given.and_then(|it| answers::answer(frame.line(at), it, &literals));
        frame.found.extend(found);
    }

    fn closure(&mut self, frame: &mut Frame<'_, 'k>, it: Instruction, at: usize) -> Value<'k> {
        let Some(inner) = frame.proto.inner.get(it.bx()) else { return Value::Unknown };
        let captured = |capture: &crate::script::lint::bytecode::Capture| match capture.is_register
        {
            true => self.get(frame, capture.index, at),
            false => self.captured(frame, capture.index),
        };
        let captured: Vec<Value<'k>> = inner.captures.iter().map(captured).collect();
        let next = frame.proto.code.get(at + 1);
        let is_field =
            |it: &&Instruction, register| it.op() == op::SETFIELD && !it.k() && it.c() == register;
        let next = next.filter(|next| is_field(next, it.a()));
        let before = it.a().checked_sub(2).map(|it| self.get(frame, it, at));
        let field = match (next, before) {
            (Some(next), _) => frame.constant(next.b()),
            (None, Some(Value::Wb(path))) if path == "wb.on" => Some("on"),
            _ => None,
        };
        let mut given = self.judge.given(inner.line, field);
        let depth = frame.depth + 1;
        let first = given.pop();
        let mut found = self.function(inner, captured.clone(), first, depth);
        for given in given {
            // With several possible arguments, report only what none of them has.
            let other = self.function(inner, captured.clone(), Some(given), depth);
            found.retain(|it| !it.is_of_given() || other.iter().any(|one| one.is_like(it)));
        }
        frame.found.append(&mut found);
        Value::Unknown
    }
}

impl<'k> Frame<'_, 'k> {
    fn constant(&self, index: usize) -> Option<&str> {
        self.literal(index)?.as_str()
    }

    fn literal(&self, index: usize) -> Option<&Json> {
        self.proto.constants.get(index)?.as_ref()
    }

    fn line(&self, at: usize) -> u32 {
        self.proto.lines.get(at).copied().unwrap_or(self.proto.line)
    }

    fn set(&mut self, register: usize, value: Value<'k>) {
        if let Some(place) = self.registers.get_mut(register) {
            *place = value;
        }
    }

    /// Returns the local in a register.
    fn local(&self, register: usize, at: usize) -> Option<&Span> {
        let spans = self.locals.get(register)?;
        let before = spans.partition_point(|it| it.from <= at).checked_sub(1)?;
        spans.get(before).filter(|it| at < it.to)
    }

    /// Forgets all temporaries: control flow merges here.
    fn forget_temporaries(&mut self, at: usize) {
        for register in 0..REGISTERS {
            // A local that begins exactly here was set by one of the merging branches.
            if self.local(register, at).is_none_or(|it| it.from == at) {
                self.set(register, Value::Unknown);
            }
        }
    }
}

/// Collects the names of captured variables that are assigned.
fn collect_reset(proto: &Proto, names: &mut BTreeSet<String>) {
    let set = proto.code.iter().filter(|it| it.op() == op::SETUPVAL);
    names.extend(set.filter_map(|it| Some(proto.captures.get(it.b())?.name.clone())));
    proto.inner.iter().for_each(|it| collect_reset(it, names));
}

/// Returns whether a function ever returns a value.
fn returns(proto: &Proto) -> bool {
    proto.code.iter().any(|it| match it.op() {
        op::RETURN => it.b() != 1,
        op::RETURN1 | op::TAILCALL => true,
        _ => false,
    })
}

/// Returns whether a function may raise an error of its own.
fn raises(proto: &Proto) -> bool {
    let names = proto.constants.iter().flatten().filter_map(Json::as_str);
    names.into_iter().any(|it| it == "error" || it == "assert")
}
