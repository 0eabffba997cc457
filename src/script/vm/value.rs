//! Values that enter and leave a VM: plain data with bounds, and errors as text.

use mlua::{Lua, Table, Value};
use serde_json::{Map, Number, Value as Json};

use crate::base::limit::TEXT_INPUT_BYTES_MAX;
use crate::script::vm::convert::Handle;

/// Deepest table that crosses.
const DEPTH_MAX: usize = 32;
/// Most values that are converted at once.
const NODES_MAX: usize = 100_000;
/// Most bytes of text that are converted at once.
pub(crate) const BYTES_MAX: usize = TEXT_INPUT_BYTES_MAX + 1024 * 1024;
/// Longest rendering of a value, in bytes.
const RENDER_BYTES_MAX: usize = 4_000;
/// The name of the metatable of lists, for the program.
const LIST: &str = "list";

/// Converts JSON to a value of the VM.
///
/// # Errors
/// If it is nested too deeply, or does not fit into the VM's memory.
pub(crate) fn to_lua(lua: &Lua, json: &Json, depth: usize) -> mlua::Result<Value> {
    if depth > DEPTH_MAX {
        return Err(mlua::Error::RuntimeError("the argument is nested too deeply".to_owned()));
    }
    Ok(match json {
        Json::Null => Value::Nil,
        Json::Bool(flag) => Value::Boolean(*flag),
        Json::Number(number) => match number.as_i64() {
            Some(number) => Value::Integer(number),
            None => Value::Number(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::String(lua.create_string(text)?),
        Json::Array(items) => {
            let table = list(lua)?;
            for item in items {
                // A nil would shift those that follow.
                let item = if item.is_null() { Value::NULL } else { to_lua(lua, item, depth + 1)? };
                table.raw_push(item)?;
            }
            Value::Table(table)
        }
        Json::Object(fields) => {
            let table = lua.create_table()?;
            for (name, value) in fields {
                table.raw_set(name.as_str(), to_lua(lua, value, depth + 1)?)?;
            }
            Value::Table(table)
        }
    })
}

/// Returns an empty list, which leaves the VM as one: another empty table leaves it as an object.
///
/// The mark is a metatable without any function, which a script can neither read nor give away.
///
/// # Errors
/// If it does not fit into the VM's memory.
pub(crate) fn list(lua: &Lua) -> mlua::Result<Table> {
    let mark = match lua.named_registry_value::<Option<Table>>(LIST)? {
        Some(mark) => mark,
        None => {
            let mark = lua.create_table()?;
            mark.raw_set(LIST, true)?;
            mark.raw_set("__metatable", false)?;
            lua.set_named_registry_value(LIST, &mark)?;
            mark
        }
    };
    let table = lua.create_table()?;
    table.set_metatable(Some(mark))?;
    Ok(table)
}

fn is_list(table: &Table) -> bool {
    table.metatable().is_some_and(|it| it.raw_get(LIST).unwrap_or(false))
}

/// The remaining bounds while a value is converted to plain data.
pub(crate) struct Leaving {
    nodes: usize,
    bytes: usize,
}

impl Leaving {
    /// Returns the full bounds.
    pub(crate) fn new() -> Leaving {
        Leaving { nodes: NODES_MAX, bytes: BYTES_MAX }
    }

    /// Converts a value of the VM to plain data, without running any function of the script.
    ///
    /// # Errors
    /// Describes the value that cannot be converted.
    pub(crate) fn take(&mut self, value: &Value, depth: usize) -> Result<Json, String> {
        if depth > DEPTH_MAX {
            return Err(format!("a table that is nested deeper than {DEPTH_MAX} levels"));
        }
        self.nodes = self.nodes.checked_sub(1).ok_or("too many values")?;
        Ok(match value {
            Value::Nil => Json::Null,
            null if null.is_null() => Json::Null,
            Value::Boolean(flag) => Json::Bool(*flag),
            Value::Integer(number) => Json::Number((*number).into()),
            Value::Number(number) => {
                Json::Number(Number::from_f64(*number).ok_or("a number that is not finite")?)
            }
            Value::String(text) => Json::String(self.text(text)?),
            Value::Table(table) => {
                let len = table.raw_len();
                let mut count = 0;
                let mut fields = Map::new();
                for pair in table.pairs::<Value, Value>() {
                    let (key, value) = pair.map_err(|cause| cause_text(&cause))?;
                    match key {
                        Value::String(name) => {
                            let name = self.text(&name)?;
                            fields.insert(name, self.take(&value, depth + 1)?);
                        }
                        // Lists are read in their order below, each value once; a hole makes the
                        // count differ.
                        Value::Integer(_) => count += 1,
                        _ => return Err("a table whose keys are no names".to_owned()),
                    }
                }
                match (count, fields.len()) {
                    (0, 0) if is_list(table) => Json::Array(Vec::new()),
                    (0, _) => Json::Object(fields),
                    (count, 0) if count == len => self.list(table, len, depth)?,
                    _ => return Err("a table that is both a list and fields".to_owned()),
                }
            }
            other => match handle(other) {
                Some(name) => Json::String(name),
                None => return Err(format!("a {}", other.type_name())),
            },
        })
    }

    fn list(&mut self, table: &Table, len: usize, depth: usize) -> Result<Json, String> {
        let mut items = Vec::new();
        for index in 1..=len {
            let item: Value = table.raw_get(index).map_err(|cause| cause_text(&cause))?;
            items.push(self.take(&item, depth + 1)?);
        }
        Ok(Json::Array(items))
    }

    fn text(&mut self, text: &mlua::LuaString) -> Result<String, String> {
        self.bytes = self.bytes.checked_sub(text.as_bytes().len()).ok_or("too much text")?;
        text.to_str().map(|it| it.to_owned()).map_err(|_| "a text that is not UTF-8".to_owned())
    }
}

/// Returns the name of a declaration's handle.
fn handle(value: &Value) -> Option<String> {
    value.as_userdata()?.borrow::<Handle>().ok().map(|it| it.name.clone())
}

/// Prints a value as a person would write it, bounded, without running code of the script.
pub(crate) fn render(value: &Value) -> String {
    let mut text = String::new();
    render_into(value, 0, &mut text);
    if text.len() > RENDER_BYTES_MAX {
        let cut = (0..=RENDER_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(cut.unwrap_or(0));
        text.push('…');
    }
    text
}

fn render_into(value: &Value, depth: usize, text: &mut String) {
    if text.len() > RENDER_BYTES_MAX {
        return;
    }
    match value {
        Value::Nil => text.push_str("nil"),
        null if null.is_null() => text.push_str("null"),
        Value::Boolean(flag) => text.push_str(if *flag { "true" } else { "false" }),
        Value::Integer(number) => text.push_str(&number.to_string()),
        Value::Number(number) => text.push_str(&number.to_string()),
        Value::String(it) => {
            let bytes = it.as_bytes();
            let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(RENDER_BYTES_MAX)]);
            match depth {
                0 => text.push_str(&shown),
                _ => text.push_str(&format!("{shown:?}")),
            }
        }
        Value::Table(_) if depth >= 3 => text.push_str("{…}"),
        Value::Table(table) => {
            let pairs = table.pairs::<Value, Value>().take(20).filter_map(Result::ok);
            let mut parts: Vec<(String, String)> = Vec::new();
            for (key, value) in pairs {
                let mut part = String::new();
                render_into(&value, depth + 1, &mut part);
                let key = match key {
                    Value::Integer(_) => String::new(),
                    other => format!("{} = ", render_key(&other)),
                };
                parts.push((key, part));
            }
            parts.sort_by(|(a, _), (b, _)| a.cmp(b));
            let parts: Vec<String> = parts.into_iter().map(|(key, it)| key + &it).collect();
            text.push_str(&format!("{{{}}}", parts.join(", ")));
        }
        Value::Error(cause) => text.push_str(&cause_text(cause)),
        other => text.push_str(&format!("a {}", other.type_name())),
    }
}

fn render_key(key: &Value) -> String {
    match key {
        Value::String(name) => name.to_string_lossy().chars().take(100).collect(),
        other => other.type_name().to_owned(),
    }
}

/// Returns the innermost message of an error, without the stack trace.
pub(crate) fn cause_text(error: &mlua::Error) -> String {
    let text = match error {
        mlua::Error::CallbackError { cause, .. } => return cause_text(cause),
        mlua::Error::WithContext { cause, .. } => return cause_text(cause),
        mlua::Error::SyntaxError { message, .. } => message.clone(),
        mlua::Error::RuntimeError(message) => message.clone(),
        mlua::Error::MemoryError(_) => "not enough memory".to_owned(),
        other => other.to_string(),
    };
    match text.find("\nstack traceback:") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

/// Returns the same, beginning with the innermost line of the script in the stack trace.
pub(crate) fn placed_text(error: &mlua::Error) -> String {
    let text = cause_text(error);
    match innermost(&error.to_string()) {
        Some(place) if !text.starts_with(place) => format!("{place}: {text}"),
        _ => text,
    }
}

/// Returns the first `FILE:LINE` of a stack trace that is one of the script.
fn innermost(trace: &str) -> Option<&str> {
    let (_, frames) = trace.split_once("stack traceback:")?;
    let place = |line: &'_ str| -> Option<usize> {
        let end = line.find(": in ")?;
        let (file, number) = line[..end].rsplit_once(':')?;
        let is_script = file.ends_with(".lua") && number.bytes().all(|it| it.is_ascii_digit());
        is_script.then_some(end)
    };
    frames.lines().map(str::trim).find_map(|line| Some(&line[..place(line)?]))
}
