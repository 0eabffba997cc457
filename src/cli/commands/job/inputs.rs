//! The inputs of a new job on the command line: `NAME=VALUE`, `NAME=@FILE` or `NAME:=JSON`.

use camino::Utf8Path;
use serde_json::{Value, json};

use crate::api::config::{ConfigView, KindView};
use crate::base::limit::TEXT_INPUT_BYTES_MAX;
use crate::base::{Context, Error, ErrorKind, Result};
use crate::cli::commands::Desk;
use crate::cli::terminal::input;
use crate::cli::terminal::screen::typed;
use crate::cli::terminal::short_id::Noun;
use crate::client::Client;

/// The form of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli::commands) enum Given<'a> {
    /// `NAME=VALUE`.
    Text(&'a str),
    /// `NAME=@FILE`.
    File(&'a str),
    /// `NAME:=JSON`.
    Json(&'a str),
}

/// Returns name and value of an input.
///
/// # Errors
/// `invalid` if it is not written like one.
pub(in crate::cli::commands) fn split_input(pair: &str) -> Result<(&str, Given<'_>)> {
    let wrong = || {
        let shown = crate::base::truncate_chars(pair, 60);
        Error::invalid(format!("`{shown}` is not NAME=VALUE"))
            .hint("for example: topic_id=7f3a, notes=@FILE or count:=3")
    };
    let (name, value) = pair.split_once('=').ok_or_else(wrong)?;
    let (name, value) = match (name.strip_suffix(':'), value.strip_prefix('@')) {
        (Some(name), _) => (name, Given::Json(value)),
        (None, Some(file)) => (name, Given::File(file)),
        (None, None) => (name, Given::Text(value)),
    };
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let reserved = matches!(name, "kind" | "priority" | "not_before");
    if name.is_empty() || !plain || reserved {
        return Err(wrong());
    }
    Ok((name, value))
}

/// Returns an input's value as text.
///
/// # Errors
/// `invalid` if its file cannot be read or its JSON is not a single value.
pub(in crate::cli::commands) fn input_text(name: &str, given: Given<'_>) -> Result<String> {
    match given {
        Given::Text(text) => Ok(text.to_owned()),
        Given::File(path) => {
            input::file(Utf8Path::new(path), &format!("the input {name}"), TEXT_INPUT_BYTES_MAX)
        }
        Given::Json(json) => match serde_json::from_str(json) {
            Ok(Value::String(text)) => Ok(text),
            Ok(value @ (Value::Number(_) | Value::Bool(_))) => Ok(value.to_string()),
            _ => Err(Error::invalid(format!("`{name}` is not a single JSON value"))),
        },
    }
}

pub(super) fn kind_of(client: &Client, name: &str) -> Result<KindView> {
    let kinds = typed::<ConfigView>(&client.get("/api/config")?)?.kinds;
    kinds.iter().find(|kind| kind.name == name).cloned().ok_or_else(|| {
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name.as_str()).collect();
        let shown = crate::base::truncate_chars(name, 60);
        let meant = crate::script::nearest(name, names.iter().copied());
        let meant = meant.map(|it| format!("did you mean `{it}`? ")).unwrap_or_default();
        Error::invalid(format!("the script declares no kind `{shown}`"))
            .code("unknown_kind")
            .hint(format!("{meant}one of: {}", names.join(", ")))
    })
}

/// Returns an input's value with the type that the kind declares; undeclared ones are sent as text,
/// and the server reports them.
pub(super) fn value_of(
    desk: &Desk,
    client: &Client,
    kind: &KindView,
    name: &str,
    given: Given<'_>,
) -> Result<Value> {
    let declared = kind.inputs.iter().find(|input| input.name == name);
    let sort = declared.map_or("", |input| input.kind.as_str());
    if let Given::Json(json) = given {
        return serde_json::from_str(json)
            .context(ErrorKind::Invalid, || format!("`{name}` is not JSON"))
            .map_err(|cause| cause.hint("with `=` it is taken as text"));
    }
    let value = input_text(name, given)?;
    match sort {
        "" if name == "topic_ids" => {
            value.split(',').map(|it| Ok(json!(desk.id(client, Noun::Topic, it.trim())?))).collect()
        }
        "topic" => Ok(json!(desk.id(client, Noun::Topic, &value)?)),
        "number" | "flag" => match serde_json::from_str::<Value>(value.trim()) {
            Ok(number @ Value::Number(_)) if sort == "number" => Ok(number),
            Ok(flag @ Value::Bool(_)) if sort == "flag" => Ok(flag),
            _ => {
                let shown = crate::base::truncate_chars(&value, 60);
                let wanted = if sort == "number" { "a number" } else { "true or false" };
                Err(Error::invalid(format!("`{name}` is {wanted}, not `{shown}`"))
                    .hint("wiki-browser check --print shows what the kind takes"))
            }
        },
        _ => Ok(json!(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_text_a_file_or_json() {
        assert_eq!(split_input("a=b=c").unwrap(), ("a", Given::Text("b=c")));
        assert_eq!(split_input("a=").unwrap(), ("a", Given::Text("")));
        assert_eq!(split_input("a=@-").unwrap(), ("a", Given::File("-")));
        assert_eq!(split_input("a:=[1]").unwrap(), ("a", Given::Json("[1]")));
        for bad in ["", "a", "=b", "a b=c", "kind=x", "not_before=x", ":=1"] {
            assert_eq!(split_input(bad).unwrap_err().kind(), ErrorKind::Invalid, "{bad}");
        }
    }
}
