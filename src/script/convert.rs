//! Turns a table of the script into a plain tree with places.

use std::collections::BTreeMap;

use mlua::{Table, UserData, Value};

use crate::script::config::InputType;
use crate::script::diagnostic::Diagnostic;
use crate::script::node::{self, Node, Plain};
use crate::script::position::{FieldPath, Places};
use crate::script::secret::Opaque;
use crate::script::session::{Caller, Session};

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
    pub(crate) fn table(
        &mut self,
        table: &Table,
        path: &mut FieldPath,
        places: &Places,
    ) -> mlua::Result<node::Table> {
        // Sorted, since the order in which Lua gives the keys differs from VM to VM, and the
        // numbers of functions must not.
        let mut named = BTreeMap::new();
        let mut listed = BTreeMap::new();
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            self.nodes += 1;
            if self.nodes > NODES_MAX {
                let message = format!("a declaration has at most {NODES_MAX} values");
                self.session.report(Diagnostic::error("too-many", message).at(&places.call));
                break;
            }
            match key {
                Value::Integer(number) if number >= 1 => drop(listed.insert(number, value)),
                Value::String(name) => drop(named.insert(name.to_string_lossy(), value)),
                Value::Integer(number) => drop(named.insert(format!("[{number}]"), value)),
                other => drop(named.insert(format!("[{}]", other.type_name()), value)),
            }
        }
        let mut converted = node::Table::default();
        for (number, value) in listed {
            path.push(number.to_string());
            let node = self.node(&value, path, places)?;
            path.pop();
            let is_next = usize::try_from(number).is_ok_and(|it| it == converted.items.len() + 1);
            match is_next {
                true => converted.items.push(node),
                false => converted.fields.push((format!("[{number}]"), node)),
            }
        }
        for (name, value) in named {
            path.push(name.clone());
            let node = self.node(&value, path, places)?;
            path.pop();
            converted.fields.push((name, node));
        }
        converted.fields.sort_by(|(_, a), (_, b)| a.spot.at.cmp(&b.spot.at));
        converted.nils = places
            .below(path)
            .filter(|(name, _)| converted.fields.iter().all(|(it, _)| it != *name))
            .map(|(name, spot)| (name.clone(), spot.clone()))
            .collect();
        Ok(converted)
    }

    fn node(&mut self, value: &Value, path: &mut FieldPath, places: &Places) -> mlua::Result<Node> {
        let spot = places.of(path).unwrap_or_else(|| {
            let named = path.last().and_then(|it| self.session.named_spot(&self.caller, it));
            named.unwrap_or_else(|| places.call.clone().elsewhere())
        });
        let value = self.plain(value, path, places)?;
        Ok(Node { spot, value })
    }

    fn plain(
        &mut self,
        value: &Value,
        path: &mut FieldPath,
        places: &Places,
    ) -> mlua::Result<Plain> {
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
            Value::Table(_) if path.len() >= DEPTH_MAX => {
                Plain::Other("a table that is nested too deeply")
            }
            Value::Table(table) => Plain::Table(self.table(table, path, places)?),
            Value::Function(function) => {
                Plain::Function(self.session.add_function(function.clone(), &self.caller))
            }
            Value::UserData(data) => {
                if let Ok(handle) = data.borrow::<Handle>() {
                    Plain::Handle(handle.word, handle.name.clone())
                } else if let Ok(call) = data.borrow::<InputCall>() {
                    Plain::Input(call.ty, self.input(&call, path, places)?)
                } else if let Ok(opaque) = data.borrow::<Opaque>() {
                    Plain::Secret(opaque.0.clone())
                } else {
                    Plain::Other("something that is no value")
                }
            }
            _ => Plain::Other("something that is no value"),
        })
    }

    fn input(
        &mut self,
        call: &InputCall,
        path: &mut FieldPath,
        places: &Places,
    ) -> mlua::Result<node::Table> {
        let Some(fields) = &call.fields else { return Ok(node::Table::default()) };
        if path.len() >= DEPTH_MAX {
            return Ok(node::Table::default());
        }
        let is_literal =
            places.fields.keys().any(|it| it.len() > path.len() && it.starts_with(path));
        if is_literal {
            return self.table(fields, path, places);
        }
        // Made elsewhere: its own call knows better where its fields are.
        let places = self.session.places(&call.caller, call.ty.as_str(), None);
        self.table(fields, &mut Vec::new(), &places)
    }
}
