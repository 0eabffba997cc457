//! The sandbox of a script: a trimmed Lua without files, processes, loading of code, or globals.
//!
//! **Invariant:** no code of the script runs where the hook that limits a call is not checked.
//! Hence no coroutines, no `xpcall`, and no metatables: a finalizer runs without hooks, and a
//! `__close` runs inside the hook itself while the engine makes room for the hook's error.

use std::borrow::Cow;
use std::rc::Rc;

use camino::{Utf8Path, Utf8PathBuf};
use mlua::chunk::ChunkMode;
use mlua::{Function, Lua, LuaOptions, StdLib, Table, Value};

use crate::base::fault;
use crate::script::source::diagnostic::{Diagnostic, nearest};
use crate::script::vm::budget::MEMORY_BYTES_MAX;
use crate::script::vm::declare::{closed, global_note, key_text, print, refuse, sealed, wb_table};
use crate::script::vm::require::module_path;
use crate::script::vm::session::{Caller, Module, Session};
use crate::script::vm::strings;
use crate::script::vm::value::{cause_text, placed_text};

/// The functions of Lua that are kept.
const BASE: [&str; 17] = [
    "_VERSION", "assert", "error", "ipairs", "math", "next", "pairs", "pcall", "rawequal",
    "rawget", "rawlen", "select", "string", "table", "tonumber", "tostring", "type",
];
const UTF8: &str = "utf8";
/// Those of them that are tables.
const LIBRARIES: [&str; 4] = ["math", "string", "table", UTF8];
/// Two functions of Lua loop over any range without checking the hook: here they refuse unbounded
/// ranges. A third compares for as long as a list is: a long list is compared in Lua, where the
/// hook is checked. They are written in Lua, so that an error has the line of the caller; `ipairs`
/// refuses nil itself, since the engine would name no line. `pcall` gives a text for an error of
/// this program.
const COUNTED: &str = r#"
local rep, move, tonumber, error = string.rep, table.move, tonumber, error
local sort, type, pcall, find, sub = table.sort, type, pcall, string.find, string.sub
local ipairs, tostring, as_text = ipairs, tostring, ...
local open = { table = true, userdata = true, string = true }
local function told(is_fine, ...)
  if is_fine then return true, ... end
  return false, as_text((...))
end
local function wrong(nth, name, wanted, value)
  error("bad argument #" .. nth .. " to '" .. name .. "' (" .. wanted .. " expected, got "
    .. type(value) .. ")", 3)
end
local function less(a, b) return a < b end
function table.sort(list, by)
  if by == nil and type(list) == "table" and #list > 1000 then by = less end
  local is_fine, why = pcall(sort, list, by)
  if is_fine then return end
  if type(why) ~= "string" then error(why, 0) end
  local _, own = find(why, "^string:%d+: ")
  if own then why = sub(why, own + 1) elseif find(why, "^[^\n:]+:%d+: ") then error(why, 0) end
  error(why, 2)
end
function string.rep(text, count, sep)
  if text == "" and (sep == nil or sep == "") then return "" end
  local times = tonumber(count)
  if type(text) ~= "string" and type(text) ~= "number" then wrong(1, "rep", "string", text) end
  if not times then wrong(2, "rep", "number", count) end
  if sep ~= nil and type(sep) ~= "string" and type(sep) ~= "number" then
    wrong(3, "rep", "string", sep)
  end
  if times % 1 ~= 0 then
    error("bad argument #2 to 'rep' (number has no integer representation)", 2)
  end
  if (#tostring(text) + #tostring(sep or "")) * (times + 0.0) > 0x7fffffff then
    error("resulting string too large", 2)
  end
  return rep(text, count, sep)
end
function table.move(from, first, last, ...)
  local a, b = tonumber(first), tonumber(last)
  if a and b and b - a >= 1e6 then error("table.move moves 1000000 values at most", 2) end
  return move(from, first, last, ...)
end
return function(list, ...)
  if not open[type(list)] then wrong(1, "ipairs", "table", list) end
  return ipairs(list, ...)
end, function(...) return told(pcall(...)) end
"#;

/// Returns a VM with its memory limits.
pub(crate) fn new_lua() -> mlua::Result<Lua> {
    let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::UTF8;
    let lua = Lua::new_with(libraries, LuaOptions::default())?;
    if !fault::is_off("script_memory") {
        lua.set_memory_limit(MEMORY_BYTES_MAX)?;
    }
    Ok(lua)
}

/// Returns the names of all globals of a script.
pub(crate) fn global_names() -> Vec<String> {
    let names = BASE.into_iter().chain([UTF8, "print", "require"]);
    names.map(str::to_owned).collect()
}

/// Returns the environment in which all files of the script run.
pub(crate) fn environment(lua: &Lua, session: &Rc<Session>) -> mlua::Result<Table> {
    let globals = lua.globals();
    let base = lua.create_table()?;
    for name in BASE.into_iter().chain([UTF8]) {
        base.raw_set(name, globals.get::<Value>(name)?)?;
    }
    let string: Table = globals.get("string")?;
    string.raw_set("dump", Value::Nil)?;
    strings::install(lua)?;
    let as_text = lua.create_function(|lua, value: Value| match value {
        Value::Error(cause) => lua.create_string(placed_text(&cause)).map(Value::String),
        value => Ok(value),
    })?;
    let (ipairs, pcall): (Function, Function) =
        lua.load(COUNTED).set_name("=string").call(as_text)?;
    base.raw_set("ipairs", ipairs)?;
    base.raw_set("pcall", pcall)?;
    for name in LIBRARIES {
        // Methods of strings (`text:rep(2)`) and this program keep using the open tables.
        base.raw_set(name, closed(lua, session, name, globals.get(name)?)?)?;
    }
    session.set_reported(reported(lua)?);
    base.raw_set("print", print(lua, session)?)?;
    let mut names: Vec<String> = Vec::new();
    for pair in base.pairs::<String, Value>() {
        names.push(pair?.0);
    }
    names.push("require".to_owned());
    let shadow = lua.create_table()?;
    let missing = missing(lua, session, &shadow, names)?;
    let assign = assign(lua, session, shadow)?;
    let wb = wb_table(lua, session)?;
    let outer = sealed(lua, base.clone(), missing, assign)?;
    base.raw_set("require", require(lua, session, wb, &outer)?)?;
    Ok(outer)
}

/// Compiles a text to a function; bytecode is refused.
pub(crate) fn compile(
    lua: &Lua,
    path: &Utf8Path,
    text: &str,
    env: Table,
) -> mlua::Result<Function> {
    // Lua allows a first line `#!…` only in the main file; here every file may have it.
    let text = match text.starts_with('#') {
        true => Cow::Owned(format!("--{text}")),
        false => Cow::Borrowed(text),
    };
    lua.load(&*text)
        .set_name(format!("@{path}"))
        .set_mode(ChunkMode::Text)
        .set_environment(env)
        .into_function()
}

/// Stands for a value that was reported as an error: it can be called, indexed and concatenated, so
/// that the evaluation continues. It ends at once when it is walked: it has nothing at a number,
/// and as an iterator, which a loop calls with two values, it has no first one.
fn reported(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let itself = table.clone();
    let at = lua.create_function(move |_, (_, key): (Value, Value)| {
        let is_number = matches!(key, Value::Integer(_) | Value::Number(_));
        Ok((!is_number).then(|| itself.clone()))
    })?;
    let itself = table.clone();
    let called = lua.create_function(move |_, given: mlua::MultiValue| {
        let is_walked = given.len() == 3 && given.iter().skip(1).all(Value::is_nil);
        Ok((!is_walked).then(|| itself.clone()))
    })?;
    let text = lua.create_function(|_, _: mlua::MultiValue| Ok("?"))?;
    let nothing = lua.create_function(|_, _: mlua::MultiValue| Ok(()))?;
    let meta = lua.create_table()?;
    for (name, function) in [
        ("__index", &at),
        ("__call", &called),
        ("__newindex", &nothing),
        ("__concat", &text),
        ("__tostring", &text),
    ] {
        meta.raw_set(name, function)?;
    }
    meta.raw_set("__metatable", false)?;
    table.set_metatable(Some(meta))?;
    Ok(table)
}

fn missing(
    lua: &Lua,
    session: &Rc<Session>,
    shadow: &Table,
    names: Vec<String>,
) -> mlua::Result<Function> {
    let (session, shadow) = (Rc::clone(session), shadow.clone());
    lua.create_function(move |lua, (_, key): (Value, Value)| {
        // The assignment was already reported; once is enough.
        let assigned: Value = shadow.raw_get(&key)?;
        if !assigned.is_nil() {
            return Ok(assigned);
        }
        let caller = Caller::of(lua);
        let name = key_text(&key);
        let finding = Diagnostic::error("undefined-global", format!("undefined global `{name}`"));
        let finding = finding.at(&session.name_spot(&caller, &name));
        refuse(&session, &caller, finding.note(global_note(&name, &names)))
    })
}

fn assign(lua: &Lua, session: &Rc<Session>, shadow: Table) -> mlua::Result<Function> {
    let session = Rc::clone(session);
    lua.create_function(move |lua, (_, key, value): (Value, Value, Value)| {
        let caller = Caller::of(lua);
        let name = key_text(&key);
        let message = format!("assignment to global `{name}`");
        let finding = Diagnostic::error("global-assignment", message);
        let finding = finding.at(&session.name_spot(&caller, &name));
        refuse(&session, &caller, finding.note(format!("write local {name}")))?;
        shadow.raw_set(key, value)
    })
}

/// `require`, which loads each file below the script's folder once.
fn require(lua: &Lua, session: &Rc<Session>, wb: Table, env: &Table) -> mlua::Result<Function> {
    let (session, env) = (Rc::clone(session), env.clone());
    lua.create_function(move |lua, name: Value| {
        let caller = Caller::of(lua);
        let Value::String(name) = name else {
            return Err(caller.error("require takes the name of a module"));
        };
        let name = name.to_string_lossy();
        let lab = session.lab().filter(|_| name == "wb.test");
        if let Some(own) = lab.or_else(|| (name == "wb").then(|| wb.clone())) {
            return Ok(Value::Table(own));
        }
        let wrong = |code, message: String, note: String| {
            let finding = Diagnostic::error(code, message).at(&session.text_spot(&caller, &name));
            refuse(&session, &caller, finding.note(note))
        };
        if name == "wb.test" {
            let message = "wb.test is for files of tests, which wiki-browser test runs";
            let note = "move what needs it into tests/NAME.lua";
            return wrong("wrong-module", message.to_owned(), note.to_owned());
        }
        match session.module(&name) {
            Some(Module::Done(value)) => return Ok(value),
            Some(Module::Running) => {
                let message = format!("module \"{name}\" requires itself");
                let note = match name.as_str() {
                    "wiki-browser" => "write require \"wb\" for the functions of this program",
                    _ => "files are read once, one after the other: leave this require out",
                };
                return wrong("require-cycle", message, note.to_owned());
            }
            None if !session.is_loading() => {
                return Err(caller.error("require takes new modules only while the script loads"));
            }
            None => {}
        }
        let path: Utf8PathBuf = match module_path(&name) {
            Ok(path) => path,
            Err(cause) => return wrong("bad-module", cause.message().to_owned(), String::new()),
        };
        let text = match session.read(&path) {
            Ok(text) => text,
            Err(cause) => {
                let message = format!("cannot require \"{name}\": {}", cause.message());
                let names = session.modules();
                let near = nearest(&name, names.iter().map(String::as_str));
                let note = near.map(|it| format!("did you mean \"{it}\"?"));
                let write = || format!("write {path}, or take this line out");
                return wrong("missing-module", message, note.unwrap_or_else(write));
            }
        };
        session.set_module(&name, Module::Running);
        let function = match compile(lua, &path, &text, env.clone()) {
            Ok(function) => function,
            Err(cause) => {
                // Continue, so that all errors are reported at once.
                session.report(session.sources().syntax(&cause_text(&cause)));
                session.set_module(&name, Module::Done(session.reported()));
                return Ok(session.reported());
            }
        };
        session.compiled(&path, &function);
        let value = match function.call::<Value>(name.as_str())? {
            Value::Nil => Value::Boolean(true),
            value => value,
        };
        session.set_module(&name, Module::Done(value.clone()));
        Ok(value)
    })
}
