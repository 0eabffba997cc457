//! `--field PATH`: one value of a response, for scripts without a JSON parser.

use serde_json::Value;

use crate::base::{Error, Result, truncate_chars};
use crate::script::nearest;

/// The value at the last existing position of a path.
pub(super) enum There<'a> {
    /// These fields.
    Fields(Vec<&'a str>),
    /// A list, with its length if known.
    List(Option<usize>),
    /// A single value.
    Value,
}

/// Returns the value at `a.b.0.c`: bare text, or JSON.
///
/// # Errors
/// `invalid` with the names that are there.
pub(super) fn pick(value: &Value, path: &str) -> Result<String> {
    let mut here = value;
    let mut walked = String::new();
    for part in path.split('.') {
        let next = match here {
            Value::Object(map) => map.get(part),
            Value::Array(items) => part.parse::<usize>().ok().and_then(|at| items.get(at)),
            _ => None,
        };
        let Some(next) = next else {
            return Err(unknown(
                &walked,
                part,
                &match here {
                    Value::Object(map) => There::Fields(map.keys().map(String::as_str).collect()),
                    Value::Array(items) => There::List(Some(items.len())),
                    _ => There::Value,
                },
            ));
        };
        walk(&mut walked, part);
        here = next;
    }
    Ok(match here {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    })
}

/// Appends a name to the path so far.
pub(super) fn walk(walked: &mut String, part: &str) {
    if !walked.is_empty() {
        walked.push('.');
    }
    walked.push_str(part);
}

/// Returns the error for a missing name, with the existing ones.
pub(super) fn unknown(walked: &str, part: &str, there: &There<'_>) -> Error {
    let place = if walked.is_empty() { "the answer".to_owned() } else { format!("`{walked}`") };
    let part = truncate_chars(part, 60);
    let hint = match there {
        There::Fields(names) if names.is_empty() => "it is empty".to_owned(),
        There::Fields(names) => match meant(&part, names) {
            Some(name) => format!("did you mean `{name}`? it has: {}", names.join(", ")),
            None => format!("it has: {}", names.join(", ")),
        },
        There::List(Some(0)) => "it is an empty list".to_owned(),
        There::List(Some(1)) => "it is a list with one item: use 0".to_owned(),
        There::List(Some(count)) => format!("it is a list: use 0 to {}", count - 1),
        There::List(None) => "it is a list: use a number, from 0".to_owned(),
        There::Value => "it is a single value".to_owned(),
    };
    let message = format!("{place} has no field `{}`", part.escape_debug());
    Error::invalid(message).code("no_field").hint(hint)
}

/// Returns the name that was probably meant: a similar one, or `job_id` for `id`.
fn meant<'a>(part: &str, names: &[&'a str]) -> Option<&'a str> {
    let is_end = |whole: &str, end: &str| {
        whole.strip_suffix(end).is_some_and(|it| it.len() > 1 && it.ends_with('_'))
    };
    let related = names.iter().find(|it| is_end(it, part) || is_end(part, it)).copied();
    nearest(part, names.iter().copied()).or(related.filter(|_| !part.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_path_leads_to_one_value() {
        let value = json!({"proposal": {"id": "p1", "n": 3, "none": null}, "fate": [{"a": true}]});
        assert_eq!(pick(&value, "proposal.id").unwrap(), "p1");
        assert_eq!(pick(&value, "proposal.n").unwrap(), "3");
        assert_eq!(pick(&value, "proposal.none").unwrap(), "null");
        assert_eq!(pick(&value, "fate.0.a").unwrap(), "true");
        assert_eq!(pick(&value, "fate").unwrap(), "[{\"a\":true}]");
        let error = pick(&value, "proposal.x").unwrap_err();
        assert_eq!(error.message(), "`proposal` has no field `x`");
        assert_eq!(error.hint_str(), Some("it has: id, n, none"));
        assert!(pick(&value, "fate.1").is_err() && pick(&value, "").is_err());
    }

    #[test]
    fn a_name_that_is_not_there_is_answered_with_the_one_that_was_meant() {
        for (given, names, name) in [
            ("id", &["job_id", "also_open"][..], Some("job_id")),
            ("job_id", &["id", "kind"], Some("id")),
            ("stauts", &["id", "status"], Some("status")),
            ("x", &["id", "status"], None),
            ("", &["job_id"], None),
        ] {
            assert_eq!(meant(given, names), name, "{given}");
        }
    }
}
