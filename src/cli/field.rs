//! `--field PATH`: one value of an answer, for scripts without a JSON reader.

use serde_json::Value;

use crate::base::{Error, Result};

/// Returns the value at `a.b.0.c` as a script wants it: text bare, everything else as JSON.
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
            let place =
                if walked.is_empty() { "the answer".to_owned() } else { format!("`{walked}`") };
            let error = Error::invalid(format!("{place} has no field `{part}`")).code("no_field");
            return Err(error.hint(names(here)));
        };
        if !walked.is_empty() {
            walked.push('.');
        }
        walked.push_str(part);
        here = next;
    }
    Ok(match here {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    })
}

fn names(value: &Value) -> String {
    match value {
        Value::Object(map) if !map.is_empty() => {
            let names: Vec<&str> = map.keys().map(String::as_str).collect();
            format!("it has: {}", names.join(", "))
        }
        Value::Array(items) if items.is_empty() => "it is an empty list".to_owned(),
        Value::Array(items) => format!("it is a list: use 0 to {}", items.len() - 1),
        _ => "it is a single value".to_owned(),
    }
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
}
