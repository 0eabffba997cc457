//! Converts the table of a declaration to plain values.

use std::sync::Arc;

use mlua::{Function, Table, UserData, Value};

use crate::base::number;
use crate::script::config::InputType;
use crate::script::config::secret::Opaque;
use crate::script::load::node::Plain;
use crate::script::load::raw::{Bare, BareTable};
use crate::script::source::diagnostic::Diagnostic;
use crate::script::source::location::{Location, Slot};
use crate::script::vm::session::{Caller, Session};

/// Most values of one declaration.
const NODES_MAX: usize = 2_000;
/// Deepest table.
const DEPTH_MAX: usize = 8;
/// Longest text, in bytes.
const TEXT_BYTES_MAX: usize = 1024 * 1024;

/// The value that a declaration returns; usable in place of its name.
pub(crate) struct Handle {
    /// `engine` or `kind`.
    pub(crate) word: &'static str,
    /// Its name.
    pub(crate) name: String,
}

impl UserData for Handle {
    fn add_methods<M: mlua::UserDataMethods<Self>>(methods: &mut M) {
        methods
            .add_meta_method(mlua::MetaMethod::ToString, |_, handle, ()| Ok(handle.name.clone()));
    }
}

/// The value that `wb.input.x` returns.
pub(crate) struct InputCall {
    /// The type.
    pub(crate) ty: InputType,
    /// Its fields.
    pub(crate) fields: Option<Table>,
    /// Where it was called.
    pub(crate) caller: Caller,
}

impl UserData for InputCall {}

/// Returns a string of the script, which may be invalid UTF-8.
fn owned(text: &mlua::LuaString) -> String {
    let bytes = text.as_bytes();
    std::str::from_utf8(&bytes).map_or_else(|_| text.to_string_lossy(), str::to_owned)
}

/// One conversion.
pub(crate) struct Converter<'a> {
    session: &'a Session,
    caller: &'a Caller,
    word: &'static str,
    name: Option<&'a str>,
    nodes: usize,
    /// Functions in the order in which Lua iterates them.
    functions: Vec<Function>,
}

impl<'a> Converter<'a> {
    /// Returns a conversion for a declaration.
    pub(crate) fn new(
        session: &'a Session,
        caller: &'a Caller,
        (word, name): (&'static str, Option<&'a str>),
    ) -> Converter<'a> {
        Converter { session, caller, word, name, nodes: 0, functions: Vec::new() }
    }

    /// Converts the table of the declaration.
    pub(crate) fn declaration(mut self, table: &Table) -> mlua::Result<BareTable> {
        let mut bare = self.table(table, 0)?;
        if !self.functions.is_empty() {
            self.number(&mut bare);
        }
        Ok(bare)
    }

    /// Converts a table; `depth` is the number of enclosing tables. Its list and its fields are
    /// sorted, since the order in which Lua iterates keys differs from VM to VM.
    fn table(&mut self, table: &Table, depth: usize) -> mlua::Result<BareTable> {
        let mut bare = BareTable::default();
        let mut is_full = false;
        table
            .for_each(|key: Value, value: Value| {
                self.nodes += 1;
                if self.nodes > NODES_MAX {
                    is_full = true;
                    return Err(mlua::Error::runtime("full"));
                }
                let value = self.value(value, depth + 1)?;
                match key {
                    Value::Integer(number) if number >= 1 => bare.items.push((number, value)),
                    Value::String(name) => bare.fields.push((owned(&name), value)),
                    Value::Integer(number) => bare.fields.push((format!("[{number}]"), value)),
                    other => bare.fields.push((format!("[{}]", other.type_name()), value)),
                }
                Ok(())
            })
            .or_else(|cause| if is_full { Ok(()) } else { Err(cause) })?;
        if is_full {
            let message = format!("a declaration has at most {NODES_MAX} values");
            let call = self.session.sources().call_spot(self.caller, self.word, self.name);
            self.session.report(Diagnostic::error("too-many", message).at(&call));
        }
        bare.items.sort_by_key(|it| it.0);
        // Keys with the same text are the same field: the last one wins.
        bare.fields.sort_by(|a, b| a.0.cmp(&b.0));
        bare.fields.dedup_by(|next, last| {
            let is_same = next.0 == last.0;
            if is_same {
                std::mem::swap(next, last);
            }
            is_same
        });
        Ok(bare)
    }

    fn value(&mut self, value: Value, depth: usize) -> mlua::Result<Bare> {
        Ok(Bare::Leaf(match value {
            Value::Boolean(flag) => Plain::Flag(flag),
            Value::Integer(number) => Plain::Integer(number),
            Value::Number(number) => {
                number::whole_of(number).map_or(Plain::Number(number), Plain::Integer)
            }
            Value::String(text) => {
                let bytes = text.as_bytes();
                match std::str::from_utf8(&bytes) {
                    _ if bytes.len() > TEXT_BYTES_MAX => Plain::Other("a text of more than 1 MiB"),
                    _ if !self.session.has_room(bytes.len()) => {
                        Plain::Other("a text beyond the 16 MiB that a script may declare")
                    }
                    Ok(text) => Plain::Text(text.to_owned()),
                    Err(_) => Plain::Other("a text that is not UTF-8"),
                }
            }
            Value::Table(table) if self.session.is_reported(&table) => Plain::Reported,
            Value::Table(_) if depth >= DEPTH_MAX => {
                Plain::Other("a table that is nested too deeply")
            }
            Value::Table(table) => return Ok(Bare::Table(self.table(&table, depth)?)),
            Value::Function(function) => {
                // Its index in this list, until all functions have their numbers.
                let number = u32::try_from(self.functions.len()).unwrap_or(u32::MAX);
                self.functions.push(function);
                let (file, line) = (Arc::clone(&self.caller.file), self.caller.line);
                Plain::Function(Slot { number, at: Location { file, line, column: 1 } })
            }
            Value::UserData(data) => {
                if let Ok(call) = data.borrow::<InputCall>() {
                    let fields = call.fields.as_ref().filter(|_| depth < DEPTH_MAX);
                    let fields = fields.map(|it| self.table(it, depth)).transpose()?;
                    return Ok(Bare::Input(call.ty, fields, call.caller.clone()));
                } else if let Ok(handle) = data.borrow::<Handle>() {
                    Plain::Handle(handle.word, handle.name.clone())
                } else if let Ok(opaque) = data.borrow::<Opaque>() {
                    Plain::Secret(opaque.0.clone())
                } else {
                    Plain::Other("something that is not a value")
                }
            }
            _ => Plain::Other("something that is not a value"),
        }))
    }

    /// Numbers the functions; the numbers must be the same in every VM.
    fn number(&self, table: &mut BareTable) {
        let items = table.items.iter_mut().map(|it| &mut it.1);
        for value in items.chain(table.fields.iter_mut().map(|it| &mut it.1)) {
            match value {
                Bare::Leaf(Plain::Function(slot)) => {
                    let function = self.functions[slot.number as usize].clone();
                    *slot = self.session.add_function(function, self.caller);
                }
                Bare::Table(inner) | Bare::Input(_, Some(inner), _) => self.number(inner),
                Bare::Leaf(_) | Bare::Input(_, None, _) => {}
            }
        }
    }
}
