//! Validates the arguments of functions of `wb.test` against the schema.

use mlua::{Table, Value};

use crate::script::schema::{
    ANSWERS, ASKS, DOES, Function, Member, PROPOSES, Record, TEST_RECORDS, TOPIC,
};
use crate::script::source::diagnostic::suggestion;
use crate::script::vm::declare::key_text;

/// An invalid argument, and a hint.
#[derive(Debug)]
pub(super) struct Wrong {
    /// The message.
    pub(super) message: String,
    /// The hint.
    pub(super) note: String,
}

impl Wrong {
    fn new(message: impl Into<String>, note: impl Into<String>) -> Wrong {
        Wrong { message: message.into(), note: note.into() }
    }
}

/// Returns whether a value has a type of the schema.
fn fits(ty: &str, value: &Value) -> bool {
    let (ty, is_optional) = match ty.strip_suffix('?') {
        Some(ty) => (ty, true),
        None => (ty, false),
    };
    let one = |ty: &str| match (ty, value) {
        ("any", _) | ("nil", Value::Nil) | ("boolean", Value::Boolean(_)) => true,
        ("false", Value::Boolean(flag)) => !flag,
        ("integer", Value::Integer(_)) | ("number", Value::Integer(_) | Value::Number(_)) => true,
        ("string" | "wb.Duration" | "wb.EventName", Value::String(_)) => true,
        (ty, Value::Function(_)) => ty.starts_with("fun("),
        (ty, Value::String(text)) => {
            ty.strip_prefix('"').and_then(|it| it.strip_suffix('"'))
                == Some(&*text.to_string_lossy())
        }
        (ty, Value::Table(_)) => {
            let is_record = ty.starts_with("wb.") && ty != "wb.Duration" && ty != "wb.EventName";
            is_record || ty.starts_with("table") || ty.ends_with("[]")
        }
        _ => false,
    };
    (is_optional && value.is_nil()) || ty.split('|').any(one)
}

/// Returns the words for a type.
fn words(ty: &str) -> String {
    let ty = ty.strip_suffix('?').unwrap_or(ty);
    let one = |ty: &str| match ty {
        "string" => "a text".to_owned(),
        "integer" => "a whole number".to_owned(),
        "number" => "a number".to_owned(),
        "boolean" => "true or false".to_owned(),
        "wb.Duration" => "a duration like \"10m\"".to_owned(),
        "wb.EventName" => "the name of an event".to_owned(),
        ty if ty.starts_with("fun(") => "a function".to_owned(),
        ty if ty.starts_with('"') || ty == "false" => ty.to_owned(),
        _ => "a table".to_owned(),
    };
    let mut all: Vec<String> = Vec::new();
    for word in ty.split('|').filter(|it| *it != "nil").map(one) {
        if !all.contains(&word) {
            all.push(word);
        }
    }
    all.join(" or ")
}

fn what(value: &Value) -> String {
    match value {
        Value::Nil => "nil".to_owned(),
        Value::String(_) => "a text".to_owned(),
        Value::Integer(_) | Value::Number(_) => "a number".to_owned(),
        other => format!("a {}", other.type_name()),
    }
}

/// Validates the arguments of a call.
pub(super) fn arguments(of: &Function, given: &[Value], lab: &Table) -> Result<(), Wrong> {
    let name = of.name;
    let usage = || format!("for example:\n{}", of.example);
    if given.first().and_then(Value::as_table).is_some_and(|it| it == lab) {
        return Err(Wrong::new(
            format!("t.{name} was called with a colon"),
            format!("write t.{name}( with a dot"),
        ));
    }
    for (place, param) in of.params.iter().enumerate() {
        let value = given.get(place).unwrap_or(&Value::Nil);
        if fits(param.ty, value) {
            continue;
        }
        let half = name == "test" && place == 1 && value.is_nil();
        if half {
            return Err(Wrong::new(
                "this test has no function",
                "write t.test(\"…\", function() … end)",
            ));
        }
        let message =
            format!("t.{name} takes as `{}` {}, not {}", param.name, words(param.ty), what(value));
        return Err(Wrong::new(message, usage()));
    }
    match given.len() > of.params.len() {
        true => {
            Err(Wrong::new(format!("t.{name} takes {} values at most", of.params.len()), usage()))
        }
        false => records(of, given),
    }
}

/// Validates the tables among the arguments.
fn records(of: &Function, given: &[Value]) -> Result<(), Wrong> {
    let title = format!("t.{}", of.name);
    for (param, value) in of.params.iter().zip(given) {
        let ty = param.ty.strip_suffix('?').unwrap_or(param.ty);
        let record = TEST_RECORDS.iter().find(|it| it.name == ty);
        match (record, value) {
            (Some(record), Value::Table(table)) => fields(record, table, &title)?,
            _ => wrong_type(param, value, &title)?,
        }
    }
    Ok(())
}

/// Validates the table of an agent's turn in a channel.
pub(super) fn answer(table: &Table) -> Result<(), Wrong> {
    fields(&ANSWERS, table, "the answer")
}

/// Validates the table of a fake agent.
pub(super) fn agent(table: &Table) -> Result<(), Wrong> {
    fields(&DOES, table, "the fake agent")?;
    if let Ok(Value::Table(proposal)) = table.raw_get::<Value>("proposal") {
        fields(&PROPOSES, &proposal, "`proposal`")?;
    }
    if let Ok(Value::Table(asks)) = table.raw_get::<Value>("ask") {
        fields(&ASKS, &asks, "`ask`")?;
    }
    let Ok(Value::Table(topics)) = table.raw_get::<Value>("topics") else { return Ok(()) };
    for topic in topics.sequence_values::<Value>().filter_map(Result::ok) {
        match topic {
            Value::Table(topic) => fields(&TOPIC, &topic, "one of `topics`")?,
            other => {
                let message = format!("one of `topics` is {}", what(&other));
                return Err(Wrong::new(message, "write topics = { { source_path = \"…\" } }"));
            }
        }
    }
    Ok(())
}

/// Validates the fields of a table against its record.
fn fields(record: &Record, table: &Table, title: &str) -> Result<(), Wrong> {
    for (key, value) in table.pairs::<Value, Value>().filter_map(Result::ok) {
        let name = key_text(&key);
        let Some(member) = record.members.iter().find(|it| it.name == name) else {
            let names = record.members.iter().map(|it| it.name);
            return Err(Wrong::new(
                format!("{title} has no field `{}`", name.escape_debug()),
                suggestion(&name, names),
            ));
        };
        wrong_type(member, &value, title)?;
    }
    let is_there = |it: &Member| table.raw_get::<Value>(it.name).is_ok_and(|it| !it.is_nil());
    let needed = |it: &&Member| !fits(it.ty, &Value::Nil) && !is_there(it);
    match record.members.iter().find(needed) {
        Some(it) => Err(Wrong::new(
            format!("{title} needs `{}`", it.name),
            format!("write {} = …: {}", it.name, it.doc),
        )),
        None => Ok(()),
    }
}

fn wrong_type(member: &Member, value: &Value, title: &str) -> Result<(), Wrong> {
    let is_texts = member.ty.starts_with("table<string, string");
    let inner = match (is_texts, value) {
        (true, Value::Table(table)) => {
            table.pairs::<Value, Value>().filter_map(Result::ok).find(|(key, value)| {
                let is_text = value.is_string()
                    || (member.ty.contains("false") && *value == Value::Boolean(false));
                !key.is_string() || !is_text
            })
        }
        _ => None,
    };
    if let Some((key, value)) = inner {
        let message = format!(
            "`{}` of {title} holds texts by name, and {} is {}",
            member.name,
            key_text(&key).escape_debug(),
            what(&value)
        );
        return Err(Wrong::new(message, format!("write {} = {{ NAME = \"…\" }}", member.name)));
    }
    match fits(member.ty, value) {
        true => Ok(()),
        false => Err(Wrong::new(
            format!("`{}` of {title} is {}", member.name, what(value)),
            format!("it must be {}: {}", words(member.ty), member.doc),
        )),
    }
}
