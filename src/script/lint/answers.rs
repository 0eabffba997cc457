//! Finds functions that can never return a useful answer, and calls that can never succeed where
//! they are.
//!
//! **Invariant:** only literal values count; computed ones are not judged.

use serde_json::Value;

use crate::base::limit::parse_duration;
use crate::script::config::Kind;
use crate::script::lint::arguments::Given;
use crate::script::lint::judge::Found;
use crate::script::schema::{DECLARATIONS, FUNCTIONS, When};

/// A check that accepts everything.
pub(crate) fn no_answer(line: u32, kind: &Kind) -> Found {
    let message = format!("`verify` of {} returns nothing: every result passes", kind.title());
    let note = "write return TEST or \"what is wrong\"".to_owned();
    Found::warning("no-return", (line, "function"), message, note)
}

/// A function that a library of Lua does not have.
pub(crate) fn no_function(line: u32, (library, name): (&str, &str), note: String) -> Found {
    let message = format!("Lua has no {library}.{name}");
    Found::warning("unknown-function", (line, name), message, note)
}

/// A lane that separates nothing.
pub(crate) fn no_lane(line: u32, kind: &Kind) -> Found {
    let message = format!("`lane` of {} returns nothing: its jobs wait for no other", kind.title());
    let note = "write return \"NAME=\" .. inputs.NAME, or leave `lane` out".to_owned();
    Found::warning("no-return", (line, "function"), message, note)
}

/// A literal return value that the caller does not accept.
pub(crate) fn answer(line: u32, given: Given<'_>, returned: &[Option<Value>]) -> Option<Found> {
    let first = returned.first()?.as_ref()?;
    let field = given.field();
    let text = first.as_str();
    let note = match given {
        Given::Produced(_) => match (first, returned.get(1)) {
            (Value::Bool(false), Some(Some(Value::String(why)))) => {
                let message = "nobody reads the reason beside false".to_owned();
                let note = format!("write return \"{}\"", why.escape_debug());
                return Some(Found::warning("wrong-return", (line, "return"), message, note));
            }
            (Value::Number(_), _) => "write return true, or a text that says what is wrong",
            _ => return None,
        },
        Given::Failed(_) => match text {
            _ if first.is_number() => "write a duration like \"5m\"",
            Some(text) if parse_duration(text).is_ok() => return None,
            Some(text) if text.parse::<jiff::Timestamp>().is_ok() => return None,
            Some(_) => "write a duration like \"5m\", a time with its zone, true or nil",
            None => return None,
        },
        Given::Lane(_) => match text.and_then(|it| it.split_once('=')) {
            Some((name, value)) if !name.is_empty() && !value.is_empty() => return None,
            _ => "write return \"NAME=VALUE\", or nil for none",
        },
        _ => return None,
    };
    let message = format!("`{field}` returns {first}, which it cannot");
    Some(Found::warning("wrong-return", (line, "return"), message, note.to_owned()))
}

/// A function of `wb` that always raises an error in this kind of function.
pub(crate) fn phase(line: u32, given: Given<'_>, path: &str) -> Option<Found> {
    let name = path.strip_prefix("wb.")?;
    let is_declaration =
        name.starts_with("input.") || DECLARATIONS.iter().any(|it| it.word == name);
    let when = match is_declaration {
        true => When::Loading,
        false => FUNCTIONS.iter().find(|it| it.name == name)?.when,
    };
    let note = match when {
        When::Loading if is_declaration => "take it out of the function".to_owned(),
        When::Loading => format!("keep what it returns in a local above: local it = {path}(…)"),
        When::Acting if !given.acts() => {
            "request jobs in a handler: wb.on(\"job_finished\", function(event) … end)".to_owned()
        }
        _ => return None,
    };
    let message = format!("{path} works only {}", when.as_str());
    let word = name.rsplit('.').next().unwrap_or(name);
    Some(Found::warning("wrong-phase", (line, word), message, note))
}
