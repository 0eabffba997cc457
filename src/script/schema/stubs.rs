//! Editor stubs for the script's functions and fields: annotations for the Lua language server and
//! EmmyLua, generated from the schema.
//!
//! An editor does not flag unknown fields in a table; `check` does. It does flag missing fields,
//! wrong types, misspelt functions and events, and unknown members of events.

use std::fmt::Write;

use crate::base::EventKind;
use crate::script::config::InputType;
use crate::script::schema::{
    ALIASES, DECLARATIONS, FUNCTIONS, Field, Function, Member, PROMPT, RECORDS, Record, Shape,
    TEST_FUNCTIONS, TEST_RECORDS, event_data, input_fields,
};

/// Settings that make an editor read the annotations: a `.luarc.json` next to the script.
pub const EDITOR_SETTINGS: &str = r#"{
  "runtime.version": "Lua 5.4",
  "runtime.builtin": {
    "coroutine": "disable",
    "debug": "disable",
    "ffi": "disable",
    "io": "disable",
    "jit": "disable",
    "os": "disable",
    "package": "disable"
  },
  "workspace.library": [".wiki-browser/types"],
  "workspace.ignoreDir": ["data"],
  "workspace.checkThirdParty": false
}
"#;

/// Returns the annotations: `.wiki-browser/types/wb.lua` next to the script.
pub fn stubs() -> String {
    let mut text = String::from(
        "---@meta wb\n\
         -- Written by `wiki-browser types`: what `require \"wb\"` has, for editors. The server \
         does \
         not read it.\n\n\
         ---A number with ms, s, m, h or d: \"90s\".\n---@alias wb.Duration string\n\n\
         ---What `wb.input.TYPE` returns.\n---@class wb.Input\n---@field package is_input true\n\n\
         ---The name of a secret, for `env` of an engine.\n---@class wb.Secret\n\
         ---@field package is_secret true\n",
    );
    let words: Vec<String> =
        EventKind::ALL.iter().map(|it| format!("\"{}\"", it.as_str())).collect();
    push(&mut text, format_args!("\n---@alias wb.EventName {}\n", words.join("|")));
    for (name, words) in ALIASES {
        let words: Vec<String> = words.iter().map(|it| format!("\"{it}\"")).collect();
        push(&mut text, format_args!("---@alias {name} {}\n", words.join("|")));
    }
    for it in DECLARATIONS.iter().filter(|it| it.is_named) {
        let class = class(it.word);
        push(
            &mut text,
            format_args!(
                "\n---What `wb.{}` returns; usable in place of the name.\n---@class wb.{class}\n\
                 ---@field package is_{} true\n",
                it.word, it.word
            ),
        );
    }
    for record in RECORDS {
        text += &self::record(&record);
    }
    for kind in EventKind::ALL {
        text += &event(kind);
    }
    for it in &DECLARATIONS {
        text += &fields(&format!("wb.{}Fields", class(it.word)), it.doc, it.fields);
    }
    for ty in InputType::ALL {
        let name = format!("wb.{}Input", class(ty.as_str()));
        text += &fields(&name, "The fields of such an input.", input_fields(ty));
    }
    // Each table needs its own class: an editor accepts any name in a plain one.
    text += "\n---@class wb\nlocal wb = {}\n\n---@class wb.InputFunctions\nwb.input = {}\n";
    let mut tables: Vec<&str> =
        FUNCTIONS.iter().filter_map(|it| Some(it.name.rsplit_once('.')?.0)).collect();
    tables.dedup();
    for table in tables {
        let class = class(table);
        push(&mut text, format_args!("\n---@class wb.{class}Functions\nwb.{table} = {{}}\n"));
    }
    text += &declarations();
    for function in &FUNCTIONS {
        text += &self::function(function);
    }
    text += "\nreturn wb\n";
    text
}

/// Returns the annotations for files of tests: `.wiki-browser/types/wb/test.lua`.
pub fn test_stubs() -> String {
    let mut text = String::from(
        "---@meta wb.test\n\
         -- Written by `wiki-browser types`: what `require \"wb.test\"` has, for editors. Files of \
         tests are run by\n-- `wiki-browser test`; the server does not read them.\n",
    );
    for record in TEST_RECORDS {
        text += &self::record(&record);
    }
    text += "\n---@class wb.Test\nlocal t = {}\n";
    for function in &TEST_FUNCTIONS {
        let described = self::described("t", function, |_| String::new());
        // A job may lack the value: allow nil, since the assertion then fails as it should.
        text += &match function.name {
            "contains" => described.replace("whole string|table", "whole string|table|nil"),
            "matches" => described.replacen("text string", "text string|nil", 1),
            _ => described,
        };
    }
    text += "\nreturn t\n";
    text
}

/// Writing into a text cannot fail.
fn push(text: &mut String, what: std::fmt::Arguments<'_>) {
    text.write_fmt(what).unwrap_or_default();
}

/// Converts a word to part of a class name: `on_busy` becomes `OnBusy`.
fn class(word: &str) -> String {
    let mut name = String::new();
    for part in word.split('_') {
        let mut letters = part.chars();
        name.extend(letters.next().map(|it| it.to_ascii_uppercase()));
        name.extend(letters);
    }
    name
}

/// Returns the type of a field; `owner` is the class that has it.
fn type_of(owner: &str, field: &Field) -> String {
    match field.shape {
        Shape::Line | Shape::Path => "string".to_owned(),
        Shape::Count => "integer".to_owned(),
        Shape::Number => "number".to_owned(),
        Shape::Flag => "boolean".to_owned(),
        Shape::Duration => "wb.Duration".to_owned(),
        Shape::Word(words) => {
            let words: Vec<String> = words.iter().map(|it| format!("\"{it}\"")).collect();
            words.join("|")
        }
        Shape::Lines => "string[]".to_owned(),
        Shape::Command => "string|string[]".to_owned(),
        Shape::Texts => "table<string, string|wb.Secret>".to_owned(),
        Shape::Counts => "table<string, integer>".to_owned(),
        Shape::Secret => "wb.Secret".to_owned(),
        Shape::Prompt => format!("string|{}", PROMPT.signature()),
        Shape::Function(callback) => callback.signature(),
        Shape::LineOr(callback) => format!("string|{}", callback.signature()),
        Shape::Request(callback) => format!("wb.Request|{}", callback.signature()),
        Shape::Reference(word) => format!("string|wb.{}", class(word)),
        Shape::Inputs => "table<string, wb.Input>".to_owned(),
        Shape::Scalar => "string|number|boolean".to_owned(),
        Shape::Fields(_) => format!("{owner}.{}", class(field.name)),
    }
}

/// Returns the class of a table with these fields, preceded by the classes of nested tables.
fn fields(name: &str, doc: &str, fields: &[Field]) -> String {
    let mut text = String::new();
    for field in fields {
        if let Shape::Fields(inner) = field.shape {
            text += &self::fields(&type_of(name, field), field.doc, inner);
        }
    }
    push(&mut text, format_args!("\n---{doc}\n---@class {name}\n"));
    for field in fields {
        let mark = if field.is_required { "" } else { "?" };
        let default = field.default.map(|it| format!(" Default: `{it}`.")).unwrap_or_default();
        push(
            &mut text,
            format_args!(
                "---@field {}{mark} {} {}{default}\n",
                field.name,
                type_of(name, field),
                field.doc
            ),
        );
    }
    text
}

/// Returns the class of a table passed to a function of the script.
fn members(name: &str, doc: &str, members: &[Member]) -> String {
    let mut text = format!("\n---{doc}\n---@class {name}\n");
    for it in members {
        let (ty, mark) = match it.ty.strip_suffix('?') {
            Some(ty) => (ty, "?"),
            None => (it.ty, ""),
        };
        push(&mut text, format_args!("---@field {}{mark} {ty} {}\n", it.name, it.doc));
    }
    text
}

fn record(it: &Record) -> String {
    let base = it.base.map(|base| format!(": {base}")).unwrap_or_default();
    let mut text = members(&format!("{}{base}", it.name), it.doc, it.members);
    if let Some(ty) = it.others {
        push(&mut text, format_args!("---@field [string] {ty}\n"));
    }
    text
}

/// Returns the classes of an event and of its data.
fn event(kind: EventKind) -> String {
    let name = format!("wb.{}", class(kind.as_str()));
    let word = kind.as_str();
    let mut text = members(&format!("{name}Data"), "Ids and states.", event_data(kind));
    push(
        &mut text,
        format_args!(
            "\n---The event given to handlers of `{word}`.\n---@class {name}Event: wb.Event\n\
             ---@field kind \"{word}\" Its name.\n---@field data {name}Data Ids and states.\n"
        ),
    );
    if word.starts_with("job_") {
        text += "---@field job wb.Job The job in its current state.\n";
    }
    text
}

fn declarations() -> String {
    let mut text = String::new();
    for it in &DECLARATIONS {
        let (word, doc, class) = (it.word, it.doc, class(it.word));
        match it.is_named {
            true => push(
                &mut text,
                format_args!(
                    "\n---{doc}\n---@param name string {}.\n\
                     ---@return fun(fields: wb.{class}Fields): wb.{class}\n\
                     function wb.{word}(name) end\n",
                    match word {
                        "inbox" => "TEMPLATE/NAME: letters, digits, `-` and `_`",
                        _ => "Small letters, digits, `-` and `_`",
                    }
                ),
            ),
            false => push(
                &mut text,
                format_args!(
                    "\n---{doc}\n---@param fields wb.{class}Fields\n\
                     function wb.{word}(fields) end\n"
                ),
            ),
        }
    }
    for ty in InputType::ALL {
        let mark = if input_fields(ty).iter().any(|it| it.is_required) { "" } else { "?" };
        let word = ty.as_str();
        push(
            &mut text,
            format_args!(
                "\n---@param fields{mark} wb.{}Input\n---@return wb.Input\n\
                 function wb.input.{word}(fields) end\n",
                class(word)
            ),
        );
    }
    text
}

fn function(it: &Function) -> String {
    described("wb", it, |it| {
        let overload = |kind: EventKind| {
            let (word, name) = (kind.as_str(), class(kind.as_str()));
            format!("---@overload fun(event: \"{word}\", handler: fun(event: wb.{name}Event))\n")
        };
        if it.name == "on" {
            EventKind::ALL.into_iter().map(overload).collect()
        } else {
            String::new()
        }
    })
}

/// Returns the stub of a function, with additional lines before it.
fn described(table: &str, it: &Function, more: impl Fn(&Function) -> String) -> String {
    let mut text = format!("\n---{}\n", it.doc);
    for param in it.params {
        push(&mut text, format_args!("---@param {} {} {}\n", param.name, param.ty, param.doc));
    }
    if let Some(returns) = it.returns {
        push(&mut text, format_args!("---@return {returns}\n"));
    }
    text += &more(it);
    let names: Vec<&str> = it.params.iter().map(|it| it.name).collect();
    push(&mut text, format_args!("function {table}.{}({}) end\n", it.name, names.join(", ")));
    text
}
