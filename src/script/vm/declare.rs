//! The table `wb`: the functions available to a script.

use std::rc::Rc;

use mlua::{Function, Lua, MultiValue, Table, Value};

use crate::base::{EventKind, fault};
use crate::script::config::InputType;
use crate::script::config::secret;
use crate::script::load::node::title;
use crate::script::load::raw::BareDeclared;
use crate::script::schema::{self, API_VERSION};
use crate::script::source::diagnostic::{Diagnostic, nearest, suggestion};
use crate::script::vm::builtins;
use crate::script::vm::convert::{Converter, Handle, InputCall};
use crate::script::vm::dates;
use crate::script::vm::session::{Caller, Session};
use crate::script::vm::value::{cause_text, render};

/// Words of later releases, and the messages about them.
const LATER: [(&str, &str); 2] = [
    ("auth", "no authenticating mode exists: this release listens on loopback only"),
    ("send", "functions of the script cannot send messages yet: have an agent do it"),
];

/// Returns the table `wb`.
pub(crate) fn wb_table(lua: &Lua, session: &Rc<Session>) -> mlua::Result<Table> {
    let wb = lua.create_table()?;
    wb.raw_set("api", api(lua, session)?)?;
    for declaration in &schema::DECLARATIONS {
        let function = match declaration.is_named {
            true => named(lua, session, declaration.word)?,
            false => single(lua, session, declaration.word)?,
        };
        wb.raw_set(declaration.word, function)?;
    }
    wb.raw_set("input", input_table(lua, session)?)?;
    wb.raw_set("on", on(lua, session)?)?;
    wb.raw_set("log", log_table(lua, session)?)?;
    wb.raw_set("enqueue", builtins::enqueue(lua, session)?)?;
    wb.raw_set("send", builtins::send(lua, session)?)?;
    wb.raw_set("file", builtins::file(lua, session)?)?;
    wb.raw_set("env", builtins::env(lua, session)?)?;
    wb.raw_set("json", seal(lua, session, "wb.json", builtins::json(lua)?)?)?;
    wb.raw_set("date", seal(lua, session, "wb.date", dates::table(lua, session)?)?)?;
    wb.raw_set("secret", seal(lua, session, "wb.secret", secret::table(lua)?)?)?;
    seal(lua, session, "wb", wb)
}

/// Seals a table: unknown names are findings while loading and errors later; nothing can be set.
pub(crate) fn seal(
    lua: &Lua,
    session: &Rc<Session>,
    title: &'static str,
    inner: Table,
) -> mlua::Result<Table> {
    let mut names = Vec::new();
    for pair in inner.pairs::<String, Value>() {
        names.push(pair?.0);
    }
    names.sort_unstable();
    let known = Rc::clone(session);
    let missing = lua.create_function(move |lua, (_, key): (Value, Value)| {
        let caller = Caller::of(lua);
        let key = key_text(&key);
        if title == "wb" && key == "test" {
            let finding = Diagnostic::error("unknown-function", "wb has no function `test`")
                .note("in a file of tests write local t = require \"wb.test\"");
            return refuse(&known, &caller, finding.at(&known.name_spot(&caller, &key)));
        }
        let later = LATER.iter().find(|(word, _)| title == "wb" && *word == key);
        let finding = match later {
            Some((_, note)) => {
                Diagnostic::error("not-built-yet", format!("{title}.{key} is not built yet"))
                    .note(*note)
            }
            None => {
                Diagnostic::error("unknown-function", format!("{title} has no function `{key}`"))
                    .note(suggestion(&key, names.iter().map(String::as_str)))
            }
        };
        refuse(&known, &caller, finding.at(&known.name_spot(&caller, &key)))
    })?;
    let assign = unset(lua, session, title)?;
    sealed(lua, inner, missing, assign)
}

/// Closes a library of Lua: its fields can be read as usual but not set, since all later calls
/// would see the change.
pub(crate) fn closed(
    lua: &Lua,
    session: &Rc<Session>,
    title: &'static str,
    inner: Table,
) -> mlua::Result<Table> {
    if fault::is_off("closed_libraries") {
        return Ok(inner);
    }
    let assign = unset(lua, session, title)?;
    outer(lua, inner, assign)
}

/// Returns the function that refuses to set a field of a table.
fn unset(lua: &Lua, session: &Rc<Session>, title: &'static str) -> mlua::Result<Function> {
    let known = Rc::clone(session);
    lua.create_function(move |lua, (_, key, _): (Value, Value, Value)| {
        let caller = Caller::of(lua);
        let key = key_text(&key);
        let finding = Diagnostic::error("assignment", format!("{title}.{key} cannot be set"));
        let note = match (title, schema::declaration(&key)) {
            ("wb", Some(it)) if it.is_named => format!("write wb.{key} \"name\" {{ … }}"),
            ("wb", Some(_)) => format!("write wb.{key} {{ … }}"),
            _ => format!("write local {key} = …"),
        };
        let finding = finding.at(&known.name_spot(&caller, &key)).note(note);
        refuse(&known, &caller, finding).map(drop)
    })
}

/// Hides a table behind an empty one, to detect writes and reads of unknown names.
pub(crate) fn sealed(
    lua: &Lua,
    inner: Table,
    missing: Function,
    assign: Function,
) -> mlua::Result<Table> {
    let below = lua.create_table()?;
    below.raw_set("__index", missing)?;
    inner.set_metatable(Some(below))?;
    outer(lua, inner, assign)
}

/// Returns an empty table that delegates reads to another one.
fn outer(lua: &Lua, inner: Table, assign: Function) -> mlua::Result<Table> {
    let above = lua.create_table()?;
    above.raw_set("__index", inner)?;
    above.raw_set("__newindex", assign)?;
    above.raw_set("__metatable", false)?;
    let outer = lua.create_table()?;
    outer.set_metatable(Some(above))?;
    Ok(outer)
}

/// Reports a finding while the script loads, so that the rest is checked too; later it is an error
/// of the call.
pub(crate) fn refuse(
    session: &Session,
    caller: &Caller,
    finding: Diagnostic,
) -> mlua::Result<Value> {
    if session.is_loading() {
        session.report(finding);
        return Ok(session.reported());
    }
    let note = finding.note.map(|note| format!(", {note}")).unwrap_or_default();
    Err(caller.error(format!("{}{note}", finding.message)))
}

/// Returns a key for display.
pub(crate) fn key_text(key: &Value) -> String {
    match key {
        Value::String(text) => text.to_string_lossy().chars().take(100).collect(),
        Value::Integer(number) => number.to_string(),
        other => other.type_name().to_owned(),
    }
}

fn api(lua: &Lua, session: &Rc<Session>) -> mlua::Result<Function> {
    let session = Rc::clone(session);
    lua.create_function(move |lua, version: Value| {
        let caller = Caller::of(lua);
        let is_this = match &version {
            Value::Integer(number) => *number == API_VERSION,
            _ => false,
        };
        session.set_api();
        if is_this && session.is_loading() {
            return Ok(());
        }
        let asked = match &version {
            Value::Integer(number) => number.to_string(),
            Value::Number(number) => number.to_string(),
            other => other.type_name().to_owned(),
        };
        let message = format!(
            "the script is written for api {asked}, and this program has api {API_VERSION}"
        );
        let finding = Diagnostic::error("api-version", message).at(&session.line(&caller));
        refuse(&session, &caller, finding.note(format!("write wb.api({API_VERSION})"))).map(drop)
    })
}

/// Checks whether a declaration is allowed now.
fn check_time(session: &Session, caller: &Caller, word: &str) -> mlua::Result<()> {
    if session.lab().is_some() {
        let message = format!("wb.{word} belongs in the script: a file of tests declares nothing");
        return Err(caller.error(message));
    }
    if !session.is_loading() {
        let message = format!(
            "wb.{word} can only be called while the script loads: write it outside of the function"
        );
        return Err(caller.error(message));
    }
    if !session.has_api() {
        // Once is enough.
        session.set_api();
        let message = format!("wb.api({API_VERSION}) must come before wb.{word}");
        let finding = Diagnostic::error("api-first", message).at(&session.line(caller));
        session.report(finding.note(format!("write wb.api({API_VERSION}) above")));
    }
    Ok(())
}

/// `wb.engine "name" { … }`.
fn named(lua: &Lua, session: &Rc<Session>, word: &'static str) -> mlua::Result<Function> {
    let session = Rc::clone(session);
    lua.create_function(move |lua, args: MultiValue| {
        let caller = Caller::among(lua, &session);
        check_time(&session, &caller, word)?;
        let name = match (args.len(), args.front()) {
            (1, Some(Value::String(name))) => name.to_string_lossy(),
            _ => {
                let finding =
                    Diagnostic::error("no-name", format!("wb.{word} takes one name, then a table"));
                let name = match args.front() {
                    Some(Value::String(name)) => name.to_string_lossy(),
                    _ => "name".to_owned(),
                };
                // `wb:kind "x"` is `wb.kind(wb, "x")`.
                let with_colon = match (args.front(), args.get(1)) {
                    (Some(Value::Table(_)), Some(Value::String(name))) => {
                        Some(format!("write a dot: wb.{word} \"{}\"", name.to_string_lossy()))
                    }
                    _ => None,
                };
                let note = with_colon.unwrap_or_else(|| format!("write wb.{word} \"{name}\""));
                let finding = finding.note(format!("{note} {{ … }}"));
                return refuse(&session, &caller, finding.at(&session.line(&caller)));
            }
        };
        if !schema::is_name_of(word, &name) {
            let spot = session.sources().call_spot(&caller, word, Some(&name));
            let article = if word.starts_with(['a', 'e', 'i']) { "an" } else { "a" };
            let message = format!("`{}` is not a name for {article} {word}", name.escape_debug());
            let note = schema::name_note(word);
            session.report(Diagnostic::error("bad-name", message).at(&spot).note(note));
        }
        let pending = session.begin(word, name.clone(), caller);
        let session = Rc::clone(&session);
        let finish = lua.create_function(move |lua, body: Value| {
            let caller = Caller::among(lua, &session);
            check_time(&session, &caller, word)?;
            session.complete(&pending);
            declare(&session, caller, word, Some(name.clone()), &body)?;
            lua.create_userdata(Handle { word, name: name.clone() }).map(Value::UserData)
        })?;
        Ok(Value::Function(finish))
    })
}

/// `wb.site { … }`.
fn single(lua: &Lua, session: &Rc<Session>, word: &'static str) -> mlua::Result<Function> {
    let session = Rc::clone(session);
    lua.create_function(move |lua, args: MultiValue| {
        let caller = Caller::among(lua, &session);
        check_time(&session, &caller, word)?;
        if args.len() != 1 {
            return wrong_count(&session, &caller, word, &format!("wb.{word} {{ … }}"));
        }
        declare(&session, caller, word, None, args.front().unwrap_or(&Value::Nil))
    })
}

/// `wb:site { … }` passes two values, and the first would be taken for the table.
fn wrong_count(session: &Session, caller: &Caller, word: &str, how: &str) -> mlua::Result<()> {
    let finding = Diagnostic::error("wrong-call", format!("wb.{word} takes exactly one table"));
    let finding = finding.at(&session.line(caller)).note(format!("write {how}"));
    refuse(session, caller, finding).map(drop)
}

fn declare(
    session: &Session,
    caller: Caller,
    word: &'static str,
    name: Option<String>,
    body: &Value,
) -> mlua::Result<()> {
    let table = match body {
        Value::Table(table) if session.is_reported(table) => return Ok(()),
        Value::Table(table) => table,
        other => {
            let title = title(word, name.as_deref());
            let message = format!("{title} takes a table, not a {}", other.type_name());
            let call = session.sources().call_spot(&caller, word, name.as_deref());
            session.report(Diagnostic::error("wrong-type", message).at(&call));
            return Ok(());
        }
    };
    let body = Converter::new(session, &caller, (word, name.as_deref())).declaration(table)?;
    session.declare(BareDeclared { word, name, caller, body });
    Ok(())
}

fn input_table(lua: &Lua, session: &Rc<Session>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for ty in InputType::ALL {
        let session = Rc::clone(session);
        let function = lua.create_function(move |lua, mut args: MultiValue| {
            let caller = Caller::among(lua, &session);
            check_time(&session, &caller, "input")?;
            if args.len() > 1 {
                let word = format!("input.{}", ty.as_str());
                wrong_count(&session, &caller, &word, &format!("wb.{word} {{ … }}"))?;
                return Ok(session.reported());
            }
            let fields = match args.pop_front().unwrap_or(Value::Nil) {
                Value::Nil => None,
                Value::Table(table) => Some(table),
                other => {
                    let word = ty.as_str();
                    let message =
                        format!("wb.input.{word} takes a table, not a {}", other.type_name());
                    let finding = Diagnostic::error("wrong-type", message);
                    return refuse(
                        &session,
                        &caller,
                        finding.at(&session.name_spot(&caller, word)),
                    );
                }
            };
            lua.create_userdata(InputCall { ty, fields, caller }).map(Value::UserData)
        })?;
        table.raw_set(ty.as_str(), function)?;
    }
    seal(lua, session, "wb.input", table)
}

fn on(lua: &Lua, session: &Rc<Session>) -> mlua::Result<Function> {
    let session = Rc::clone(session);
    lua.create_function(move |lua, args: MultiValue| {
        let caller = Caller::of(lua);
        check_time(&session, &caller, "on")?;
        let spot = session.name_spot(&caller, "on");
        let args = args.into_iter().collect::<Vec<_>>();
        let [Value::String(event), Value::Function(handler)] = args.as_slice() else {
            let finding = Diagnostic::error("wrong-type", "wb.on takes an event and a function");
            let note = "write wb.on(\"job_finished\", function(event) … end)";
            session.report(finding.at(&spot).note(note));
            return Ok(());
        };
        let event = event.to_string_lossy();
        match EventKind::parse(&event) {
            Some(event) => {
                let slot = session.add_function(handler.clone(), &caller);
                session.handle(event, slot, &caller);
            }
            None => {
                let message = format!("unknown event `{}`", event.escape_debug());
                let words = EventKind::ALL.map(EventKind::as_str);
                let spot = session.text_spot(&caller, &event);
                let finding = Diagnostic::error("unknown-event", message).at(&spot);
                session.report(finding.note(suggestion(&event, words)));
            }
        }
        Ok(())
    })
}

fn log_table(lua: &Lua, session: &Rc<Session>) -> mlua::Result<Table> {
    use tracing::Level;
    let format: Function = lua.globals().get::<Table>("string")?.get("format")?;
    let table = lua.create_table()?;
    let levels = [
        ("debug", Level::DEBUG),
        ("info", Level::INFO),
        ("warn", Level::WARN),
        ("error", Level::ERROR),
    ];
    for (word, level) in levels {
        let (session, format) = (Rc::clone(session), format.clone());
        let function = lua.create_function(move |lua, args: MultiValue| {
            let caller = Caller::of(lua);
            let text = match args.len() {
                0 | 1 => args.front().map_or_else(String::new, render),
                _ => format
                    .call::<mlua::LuaString>(args)
                    .map_err(|cause| caller.error(cause_text(&cause)))?
                    .to_string_lossy(),
            };
            session.log(level, &caller, &text);
            Ok(())
        })?;
        table.raw_set(word, function)?;
    }
    seal(lua, session, "wb.log", table)
}

/// `print`, which writes a line to the log.
pub(crate) fn print(lua: &Lua, session: &Rc<Session>) -> mlua::Result<Function> {
    let session = Rc::clone(session);
    lua.create_function(move |lua, args: MultiValue| {
        let caller = Caller::of(lua);
        let parts: Vec<String> = args.iter().take(50).map(render).collect();
        session.log(tracing::Level::INFO, &caller, &parts.join("\t"));
        Ok(())
    })
}

/// Functions of Lua that a script lacks and constructs of other languages, with replacements.
const ELSEWHERE: [(&str, &str); 16] = [
    ("os", "a script cannot ask the system; what an engine runs can"),
    ("io", "a script opens no files; what an engine runs can"),
    ("debug", "a script has no debug library"),
    ("package", "require \"name\" reads name.lua next to the script"),
    ("dofile", "require \"name\" reads name.lua next to the script"),
    ("loadfile", "require \"name\" reads name.lua next to the script"),
    ("load", "a script loads no code"),
    ("loadstring", "a script loads no code"),
    ("setmetatable", "a script has no metatables: use plain tables and functions"),
    ("getmetatable", "a script has no metatables: use plain tables and functions"),
    ("coroutine", "a script has no coroutines: use plain functions"),
    ("xpcall", "use pcall"),
    ("unpack", "use table.unpack"),
    ("null", "write nil"),
    ("None", "write nil"),
    ("undefined", "write nil"),
];

/// Returns the hint for an unknown global.
pub(crate) fn global_note(name: &str, names: &[String]) -> String {
    if name == "wb" {
        return "begin with local wb = require \"wb\"".to_owned();
    }
    if let Some((_, note)) = ELSEWHERE.iter().find(|(word, _)| *word == name) {
        return (*note).to_owned();
    }
    if let Some(near) = nearest(name, names.iter().map(String::as_str).chain(["wb"])) {
        return format!("did you mean `{near}`?");
    }
    let lower = name.to_ascii_lowercase();
    if lower == "true" || lower == "false" {
        return format!("write {lower}");
    }
    let is_field = schema::DECLARATIONS.iter().any(|it| it.fields.iter().any(|it| it.name == name));
    match is_field {
        true => format!("write {name} = … for a field, and \"{name}\" for a text"),
        false => format!("write \"{name}\" for a text, or local {name} = … above"),
    }
}
