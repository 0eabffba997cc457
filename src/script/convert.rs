//! Turns a table of the script into a plain tree with places.

use mlua::{Table, UserData, Value};

use crate::script::config::InputType;
use crate::script::diagnostic::{Diagnostic, Spot};
use crate::script::node::{self, Node, Plain};
use crate::script::position::Places;
use crate::script::secret::Opaque;
use crate::script::session::{Caller, Session};
use crate::script::written::Written;

/// Most values of one declaration.
const NODES_MAX: usize = 2_000;
/// Deepest table.
const DEPTH_MAX: usize = 8;
/// Longest text, in bytes.
const TEXT_BYTES_MAX: usize = 1024 * 1024;

/// What a declaration returns; usable where its name is.
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

/// What `wb.input.x` returns.
pub(crate) struct InputCall {
    /// The type.
    pub(crate) ty: InputType,
    /// Its fields.
    pub(crate) fields: Option<Table>,
    /// Where it was called.
    pub(crate) caller: Caller,
}

impl UserData for InputCall {}

/// A table's list and its fields.
type Entries = (Vec<(i64, Value)>, Vec<(String, Value)>);

/// What a value of a table is known by.
#[derive(Clone, Copy)]
enum Key<'n> {
    /// Its number in the list.
    Item(i64),
    /// Its name.
    Name(&'n str),
}

/// Returns a text of the script, whatever its bytes are.
fn owned(text: &mlua::LuaString) -> String {
    let bytes = text.as_bytes();
    std::str::from_utf8(&bytes).map_or_else(|_| text.to_string_lossy(), str::to_owned)
}

/// What is known of the places around a value.
#[derive(Clone, Copy)]
struct Around<'p> {
    /// The call of the declaration.
    call: &'p Spot,
    /// The nearest thing around it that has a place.
    nearest: Option<&'p Spot>,
    /// What is written in the constructor of the value, if it has one there.
    written: Option<&'p Written>,
    /// How many tables it stands in.
    depth: usize,
}

/// One conversion.
pub(crate) struct Converter<'a> {
    session: &'a Session,
    caller: Caller,
    nodes: usize,
}

impl<'a> Converter<'a> {
    /// Returns a conversion for a declaration.
    pub(crate) fn new(session: &'a Session, caller: Caller) -> Converter<'a> {
        Converter { session, caller, nodes: 0 }
    }

    /// Converts the table of a declaration.
    pub(crate) fn declaration(
        &mut self,
        table: &Table,
        places: &Places,
    ) -> mlua::Result<node::Table> {
        let written = Some(&places.fields);
        self.table(table, &Around { call: &places.call, nearest: None, written, depth: 0 })
    }

    fn table(&mut self, table: &Table, around: &Around<'_>) -> mlua::Result<node::Table> {
        let (listed, named) = self.entries(table, around)?;
        let mut converted = node::Table::default();
        for (number, value) in listed {
            let node = self.node(&value, Key::Item(number), around)?;
            let is_next = usize::try_from(number).is_ok_and(|it| it == converted.items.len() + 1);
            match is_next {
                true => converted.items.push(node),
                false => converted.fields.push((format!("[{number}]"), node)),
            }
        }
        for (name, value) in named {
            let node = self.node(&value, Key::Name(&name), around)?;
            converted.fields.push((name, node));
        }
        converted.fields.sort_by(|(_, a), (_, b)| a.spot.at.order(&b.spot.at));
        if let Some(written) = around.written {
            let is_nil = |name: &str| converted.fields.iter().all(|(it, _)| it != name);
            let nils = written.names().filter(|(name, _)| is_nil(name));
            converted.nils = nils.map(|(name, spot)| (name.to_owned(), spot.clone())).collect();
        }
        Ok(converted)
    }

    /// Returns the list and the fields of a table, each sorted, since the order in which Lua gives
    /// the keys differs from VM to VM, and the numbers of functions must not.
    fn entries(&mut self, table: &Table, around: &Around<'_>) -> mlua::Result<Entries> {
        let (mut listed, mut named) = (Vec::new(), Vec::new());
        let mut is_full = false;
        table
            .for_each(|key: Value, value: Value| {
                self.nodes += 1;
                if self.nodes > NODES_MAX {
                    is_full = true;
                    return Err(mlua::Error::runtime("full"));
                }
                match key {
                    Value::Integer(number) if number >= 1 => listed.push((number, value)),
                    Value::String(name) => named.push((owned(&name), value)),
                    Value::Integer(number) => named.push((format!("[{number}]"), value)),
                    other => named.push((format!("[{}]", other.type_name()), value)),
                }
                Ok(())
            })
            .or_else(|cause| if is_full { Ok(()) } else { Err(cause) })?;
        if is_full {
            let message = format!("a declaration has at most {NODES_MAX} values");
            self.session.report(Diagnostic::error("too-many", message).at(around.call));
        }
        listed.sort_by_key(|it| it.0);
        // Names that cannot be told apart as texts are the same field: the last one stays.
        named.sort_by(|a, b| a.0.cmp(&b.0));
        named.dedup_by(|next, last| {
            let is_same = next.0 == last.0;
            if is_same {
                std::mem::swap(next, last);
            }
            is_same
        });
        Ok((listed, named))
    }

    fn node(&mut self, value: &Value, key: Key<'_>, around: &Around<'_>) -> mlua::Result<Node> {
        let entry = around.written.and_then(|it| match key {
            Key::Item(number) => it.item(number),
            Key::Name(name) => it.get(name),
        });
        let nearest = entry.map(|it| &it.spot).or(around.nearest);
        let spot = nearest.cloned().unwrap_or_else(|| {
            let named = match key {
                Key::Item(_) => None,
                Key::Name(name) => self.session.named_spot(&self.caller, name),
            };
            named.unwrap_or_else(|| around.call.clone().elsewhere())
        });
        let written = entry.map(|it| &it.inner);
        let value =
            self.plain(value, &Around { nearest, written, depth: around.depth + 1, ..*around })?;
        Ok(Node { spot, value })
    }

    fn plain(&mut self, value: &Value, around: &Around<'_>) -> mlua::Result<Plain> {
        Ok(match value {
            Value::Boolean(flag) => Plain::Flag(*flag),
            Value::Integer(number) => Plain::Integer(*number),
            Value::Number(number) => Plain::Number(*number),
            Value::String(text) if text.as_bytes().len() > TEXT_BYTES_MAX => {
                Plain::Other("a text of more than 1 MiB")
            }
            Value::String(text) => match text.to_str() {
                Ok(text) => Plain::Text(text.to_owned()),
                Err(_) => Plain::Other("a text that is not UTF-8"),
            },
            Value::Table(table) if self.session.is_reported(table) => Plain::Reported,
            Value::Table(_) if around.depth >= DEPTH_MAX => {
                Plain::Other("a table that is nested too deeply")
            }
            Value::Table(table) => Plain::Table(self.table(table, around)?),
            Value::Function(function) => {
                Plain::Function(self.session.add_function(function.clone(), &self.caller))
            }
            Value::UserData(data) => {
                if let Ok(handle) = data.borrow::<Handle>() {
                    Plain::Handle(handle.word, handle.name.clone())
                } else if let Ok(call) = data.borrow::<InputCall>() {
                    Plain::Input(call.ty, self.input(&call, around)?)
                } else if let Ok(opaque) = data.borrow::<Opaque>() {
                    Plain::Secret(opaque.0.clone())
                } else {
                    Plain::Other("something that is no value")
                }
            }
            _ => Plain::Other("something that is no value"),
        })
    }

    fn input(&mut self, call: &InputCall, around: &Around<'_>) -> mlua::Result<node::Table> {
        let Some(fields) = &call.fields else { return Ok(node::Table::default()) };
        if around.depth >= DEPTH_MAX {
            return Ok(node::Table::default());
        }
        let is_literal = around.written.is_some_and(|it| !it.is_empty());
        if is_literal {
            return self.table(fields, around);
        }
        // Made elsewhere: its own call knows better where its fields are.
        let places = self.session.places(&call.caller, call.ty.as_str(), None);
        self.declaration(fields, &places)
    }
}
