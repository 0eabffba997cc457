//! Schemas of requests. They are hostile, so the cost of checking is limited first.

use serde_json::Value;

use crate::base::limit::APPROVAL_SCHEMA_BYTES_MAX;
use crate::base::{Error, ErrorKind, Result};
use crate::script::JsonSchema;

/// Largest product of the sizes of schema and payload: each pair may be compared once.
const COMPARISONS_MAX: usize = 5_000_000;
/// Keywords by which a schema refers to itself: a few of them can cause exponentially many
/// comparisons.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// Refuses a payload that does not match its schema, and an invalid schema.
///
/// It takes time; call it where that may pass.
///
/// # Errors
/// `invalid` with codes `bad_schema` and `bad_payload` (with the path); `too_large`.
pub(super) fn require(schema: Option<&Value>, payload: &Value) -> Result<()> {
    let Some(schema) = schema else { return Ok(()) };
    if has_reference(schema) {
        let message = "the schema of an approval refers to other parts";
        return Err(bad_schema(message).hint("write the parts out where they are used"));
    }
    if schema.to_string().len() > APPROVAL_SCHEMA_BYTES_MAX {
        let message = format!("the schema has more than {APPROVAL_SCHEMA_BYTES_MAX} bytes");
        return Err(Error::new(ErrorKind::TooLarge, message).hint("describe fewer fields"));
    }
    if count(schema).saturating_mul(count(payload)) > COMPARISONS_MAX {
        let message = "the payload is too large for a schema of this size";
        return Err(Error::new(ErrorKind::TooLarge, message).hint("shorten one of them"));
    }
    let compiled = JsonSchema::compile(schema.clone())
        .map_err(|cause| bad_schema(cause.message()).hint("give a JSON schema"))?;
    compiled.require(payload, "payload", "bad_payload")
}

fn bad_schema(message: &str) -> Error {
    Error::invalid(message).code("bad_schema")
}

fn has_reference(value: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            fields.iter().any(|(name, it)| REFERENCES.contains(&name.as_str()) || has_reference(it))
        }
        Value::Array(items) => items.iter().any(has_reference),
        _ => false,
    }
}

fn count(value: &Value) -> usize {
    match value {
        Value::Object(fields) => 1 + fields.values().map(count).sum::<usize>(),
        Value::Array(items) => 1 + items.iter().map(count).sum::<usize>(),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_payload_is_refused_with_its_path() {
        let schema = json!({"properties": {"budget": {"type": "integer", "maximum": 500}}});
        assert!(require(Some(&schema), &json!({"budget": 300})).is_ok());
        let refused = require(Some(&schema), &json!({"budget": 700})).unwrap_err();
        assert_eq!(refused.code_str(), "bad_payload");
        assert!(refused.message().contains("payload.budget: "), "{refused}");
        assert!(require(None, &json!([1, 2])).is_ok());
    }

    #[test]
    fn a_schema_that_would_never_end_is_refused() {
        let mut bomb = json!({"a0": {"type": "integer"}});
        for number in 1..40 {
            let before = format!("#/$defs/a{}", number - 1);
            bomb[format!("a{number}")] = json!({"allOf": [{"$ref": before}, {"$ref": before}]});
        }
        let bomb = json!({"$defs": bomb, "$ref": "#/$defs/a39"});
        assert_eq!(require(Some(&bomb), &json!(1)).unwrap_err().code_str(), "bad_schema");
        let wide = json!({"items": {"allOf": vec![json!({"type": "integer"}); 800]}});
        let long = json!(vec![1; 50_000]);
        let refused = require(Some(&wide), &long).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TooLarge);
        let none = require(Some(&json!({"type": "nothing"})), &json!(1)).unwrap_err();
        assert_eq!(none.code_str(), "bad_schema");
    }
}
