//! Functions of a script besides its declarations: effects, files, the environment, JSON.
//!
//! **Invariant:** nothing here acts. Files and variables are read only while the script loads,
//! below its folder and excluding secrets; effects are only recorded.

use std::rc::Rc;

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use mlua::{Function, Lua, MultiValue, Table, Value};
use serde_json::Value as Json;

use crate::base::limit::SCRIPT_ENQUEUES_MAX;
use crate::base::{ErrorKind, is_secret_name};
use crate::script::schema::MESSAGE_FIELDS;
use crate::script::source::diagnostic::{nearest, suggestion};
use crate::script::source::location::Location;
use crate::script::vm::effect::Effect;
use crate::script::vm::session::{Caller, Session};
use crate::script::vm::value::{Leaving, list, to_lua};

/// Longest JSON text that is parsed, in bytes.
const JSON_BYTES_MAX: usize = 256 * 1024;
/// Most names in a folder that are compared with the name of a missing file.
const NAMES_MAX: usize = 500;

/// `wb.enqueue { kind = "x", … }`.
pub(crate) fn enqueue(lua: &Lua, session: &Rc<Session>) -> mlua::Result<Function> {
    let session = Rc::clone(session);
    lua.create_function(move |lua, args: MultiValue| {
        let caller = Caller::of(lua);
        require_acting(&session, &caller, &ENQUEUE)?;
        let request = table_of(&caller, &args, &ENQUEUE)?;
        if !request.get("kind").is_some_and(Json::is_string) {
            let near = request.keys().find(|it| nearest(it, ["kind"]).is_some());
            let note = match near {
                Some(name) => format!("did you mean `kind` by `{name}`?"),
                None => ENQUEUE.how.to_owned(),
            };
            return Err(
                caller.error(format!("wb.enqueue needs `kind`, the name of a kind: {note}"))
            );
        }
        let at = place_of(&caller);
        want(&session, &caller, Effect::Enqueue { request, at })
    })
}

/// `wb.send { to = "person:ada", payload = … }`.
pub(crate) fn send(lua: &Lua, session: &Rc<Session>) -> mlua::Result<Function> {
    let session = Rc::clone(session);
    lua.create_function(move |lua, args: MultiValue| {
        let caller = Caller::of(lua);
        require_acting(&session, &caller, &SEND)?;
        let message = table_of(&caller, &args, &SEND)?;
        if let Some(name) = message.keys().find(|it| !MESSAGE_FIELDS.contains(&it.as_str())) {
            let note = suggestion(name, MESSAGE_FIELDS);
            let name = name.escape_debug();
            return Err(caller.error(format!("wb.send has no field `{name}`: {note}")));
        }
        let lacks = ["to", "payload"].into_iter().find(|it| !message.contains_key(*it));
        if let Some(lacks) = lacks {
            return Err(caller.error(format!("wb.send needs `{lacks}`: {}", SEND.how)));
        }
        let at = place_of(&caller);
        want(&session, &caller, Effect::Send { message, at })
    })
}

/// How a function that requests an effect is called.
struct Acting {
    name: &'static str,
    how: &'static str,
    /// What a test writes instead.
    in_test: &'static str,
}

const ENQUEUE: Acting = Acting {
    name: "wb.enqueue",
    how: "write wb.enqueue { kind = \"NAME\", input = value }",
    in_test: "a test cannot request a job with wb.enqueue: write t.run(\"KIND\", { … })",
};
const SEND: Acting = Acting {
    name: "wb.send",
    how: "write wb.send { to = \"person:NAME\", payload = \"…\" }",
    in_test: "a test cannot send a message with wb.send: fire the event whose handler does",
};

/// Refuses an effect where functions only answer.
fn require_acting(session: &Session, caller: &Caller, it: &Acting) -> mlua::Result<()> {
    let name = it.name;
    match session.rights() {
        Some(rights) if rights.acts => Ok(()),
        _ if session.lab().is_some() => Err(caller.error(it.in_test)),
        Some(_) => Err(caller.error(format!(
            "{name} can be called in handlers, schedules and webhooks only: this function \
             answers; ask in wb.on(\"job_finished\", …)"
        ))),
        None => Err(caller.error(format!(
            "{name} can be called inside of functions only: while the script loads there is \
             nothing that a job could be about"
        ))),
    }
}

/// Returns the one table that such a function takes.
fn table_of(
    caller: &Caller,
    args: &MultiValue,
    Acting { name, how, .. }: &Acting,
) -> mlua::Result<serde_json::Map<String, Json>> {
    let (1, Some(value @ Value::Table(_))) = (args.len(), args.front()) else {
        return Err(caller.error(format!("{name} takes exactly one table: {how}")));
    };
    let taken = Leaving::new().take(value, 0).map_err(|what| {
        caller.error(format!("{name} was given {what}: an input is a text, a number or a flag"))
    })?;
    match taken {
        Json::Object(fields) => Ok(fields),
        _ => Err(caller.error(format!("{name} takes names and values, not a list: {how}"))),
    }
}

fn place_of(caller: &Caller) -> Location {
    Location { file: std::sync::Arc::clone(&caller.file), line: caller.line, column: 1 }
}

fn want(session: &Session, caller: &Caller, effect: Effect) -> mlua::Result<()> {
    if session.want(effect) {
        return Ok(());
    }
    Err(caller.error(format!(
        "a call can request {SCRIPT_ENQUEUES_MAX} jobs and messages at most: request the rest in a \
         handler of job_finished"
    )))
}

/// `wb.file "prompts/review.md"`: the text of a file below the script's folder.
pub(crate) fn file(lua: &Lua, session: &Rc<Session>) -> mlua::Result<Function> {
    let session = Rc::clone(session);
    lua.create_function(move |lua, path: Value| {
        let caller = Caller::of(lua);
        if !session.is_loading() {
            let message = "wb.file reads only while the script loads: keep the text in a local";
            return Err(caller.error(message));
        }
        let Value::String(path) = path else {
            let message = "wb.file takes the path of a file below the script: write wb.file \
                \"prompts/rules.md\"";
            return Err(caller.error(message));
        };
        let path = path.to_string_lossy();
        let path = Utf8Path::new(&path);
        let is_below = !path.as_str().is_empty()
            && path.components().all(|part| matches!(part, Utf8Component::Normal(_)))
            && path.as_str() == path.components().collect::<camino::Utf8PathBuf>().as_str();
        // Hidden files are not for prompts: `.env`, `.git/config`, `.ssh`. Neither are tokens.
        let is_hidden = path.components().any(|part| part.as_str().starts_with('.'));
        if !is_below || is_hidden {
            let shown = path.as_str().escape_debug();
            let message = format!("`{shown}` is not a file below the script that is not hidden");
            return Err(caller.error(message));
        }
        if is_data(session.folder(), path) {
            let message = format!("`{path}` is in the data of a site, which no script reads");
            return Err(caller.error(message));
        }
        let read = session.read_text(path);
        let text = read.map_err(|cause| {
            let meant =
                beside(session.folder(), path).filter(|_| cause.kind() == ErrorKind::NotFound);
            let meant = meant.map_or_else(String::new, |it| format!(": did you mean \"{it}\"?"));
            caller.error(format!("wb.file: {}{meant}", cause.message()))
        })?;
        lua.create_string(&*text)
    })
}

/// Returns the file in the same folder whose name is most similar to that of a missing one.
pub(crate) fn beside(folder: &Utf8Path, path: &Utf8Path) -> Option<Utf8PathBuf> {
    let parent = path.parent()?;
    let entries = folder.join(parent).read_dir_utf8().ok()?.take(NAMES_MAX).flatten();
    let names: Vec<String> = entries.map(|it| it.file_name().to_owned()).collect();
    let near = nearest(path.file_name()?, names.iter().map(String::as_str))?;
    let meant = parent.join(near);
    let may_be_read = !near.starts_with('.') && !is_data(folder, &meant);
    may_be_read.then_some(meant)
}

/// Returns whether a path leads into a site's data folder, with its tokens, prompts and logs.
fn is_data(folder: &Utf8Path, path: &Utf8Path) -> bool {
    let marks = ["operator.token", "wiki.db"];
    let parents = path.ancestors().skip(1).filter(|it| !it.as_str().is_empty());
    let mut folders = parents.map(|it| folder.join(it));
    folders.any(|it| marks.iter().any(|mark| it.join(mark).exists()))
        || path.file_name().is_some_and(|name| marks.contains(&name))
}

/// `wb.env "NAME"` or `wb.env("NAME", default)`: a variable of the server that holds no secret.
pub(crate) fn env(lua: &Lua, session: &Rc<Session>) -> mlua::Result<Function> {
    let session = Rc::clone(session);
    lua.create_function(move |lua, (name, default): (Value, Value)| {
        let caller = Caller::of(lua);
        if !session.is_loading() {
            let message = "wb.env reads only while the script loads: keep the value in a local";
            return Err(caller.error(message));
        }
        let Value::String(name) = name else {
            let message = "wb.env takes the name of a variable: write wb.env(\"NAME\", default)";
            return Err(caller.error(message));
        };
        let name = name.to_string_lossy();
        if is_secret_name(&name) || name.starts_with("WB_") {
            let message = format!("wb.env does not show {name}, which may hold a secret");
            let note = format!(
                "hand it to an engine by env = {{ NAME = wb.secret.env \"{name}\" }}, or to a \
                 webhook by secret = wb.secret.env \"{name}\""
            );
            return Err(caller.error(format!("{message}: {note}")));
        }
        if session.lab().is_some() {
            let message = "a test sees no variables: write t.site { env = { … } }";
            return Err(caller.error(format!("{message}, and the script sees those")));
        }
        match session.outside().variable(&name) {
            Some(value) => lua.create_string(value).map(Value::String),
            None => Ok(default),
        }
    })
}

/// `wb.json.encode(value)`, `wb.json.decode(text)`, `wb.json.list()` and `wb.json.null()`.
pub(crate) fn json(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let encode = lua.create_function(|lua, value: Value| {
        let caller = Caller::of(lua);
        let json = Leaving::new().take(&value, 0);
        let json = json.map_err(|what| caller.error(format!("wb.json.encode: {what}")))?;
        lua.create_string(json.to_string())
    })?;
    let decode = lua.create_function(|lua, text: Value| {
        let caller = Caller::of(lua);
        let Value::String(text) = text else {
            let message = "wb.json.decode takes a text; wb.json.encode writes one";
            return Err(caller.error(message));
        };
        let bytes = text.as_bytes();
        if bytes.len() > JSON_BYTES_MAX {
            return Err(caller.error("wb.json.decode takes at most 256 KiB"));
        }
        let json: Json = serde_json::from_slice(&bytes)
            .map_err(|cause| caller.error(format!("wb.json.decode: {cause}")))?;
        to_lua(lua, &json, 0)
    })?;
    table.raw_set("encode", encode)?;
    table.raw_set("decode", decode)?;
    table.raw_set("list", lua.create_function(|lua, ()| list(lua))?)?;
    table.raw_set("null", lua.create_function(|_, ()| Ok(Value::NULL))?)?;
    Ok(table)
}
