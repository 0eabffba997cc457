//! Derives a value that fits a schema, for people who send their first message.

use std::cell::Cell;

use serde_json::{Map, Number, Value};

use crate::script::config::json_schema::JsonSchema;

/// How deep values are derived; deeper ones are null.
const DEPTH_MAX: u32 = 8;
/// Most items of a list, and most characters of a text, that a schema can demand.
const LENGTH_MAX: u64 = 100;

/// Most values that are derived for one schema: one that nests itself would ask for billions.
const VALUES_MAX: u32 = 1_000;

/// A schema, and how many more values may be derived for it.
struct Root<'s> {
    schema: &'s Value,
    left: Cell<u32>,
}

impl JsonSchema {
    /// Returns a value that fits, preferably one of the schema's own; `None` if none was found.
    pub fn example(&self) -> Option<Value> {
        let schema = self.as_json();
        let root = Root { schema, left: Cell::new(VALUES_MAX) };
        let value = example(&root, schema, DEPTH_MAX);
        self.is_valid(&value).then_some(value)
    }
}

fn example(root: &Root<'_>, schema: &Value, depth: u32) -> Value {
    if let Some(value) = given(schema) {
        return value.clone();
    }
    let Some(left) = root.left.get().checked_sub(1) else { return Value::Null };
    root.left.set(left);
    let Some(depth) = depth.checked_sub(1) else { return Value::Null };
    if let Some(place) = schema["$ref"].as_str().and_then(|it| it.strip_prefix('#')) {
        return root.schema.pointer(place).map_or(Value::Null, |it| example(root, it, depth));
    }
    for choices in ["anyOf", "oneOf"] {
        if let Some(first) = schema[choices].as_array().and_then(|it| it.first()) {
            return joined(own(root, schema, depth), example(root, first, depth));
        }
    }
    let all = schema["allOf"].as_array().into_iter().flatten();
    all.fold(own(root, schema, depth), |value, it| joined(value, example(root, it, depth)))
}

/// Returns a value that the schema itself names.
fn given(schema: &Value) -> Option<&Value> {
    let first = |key: &str| schema[key].as_array().and_then(|it| it.first());
    let named = schema.get("const").or_else(|| schema.get("default"));
    named.or_else(|| first("examples")).or_else(|| first("enum"))
}

/// Returns a value of the type that a schema names.
fn own(root: &Root<'_>, schema: &Value, depth: u32) -> Value {
    let ty = &schema["type"];
    let ty = ty.as_str().or_else(|| ty.as_array()?.first()?.as_str());
    let is_record = schema.get("required").is_some() || schema.get("properties").is_some();
    match ty.or_else(|| is_record.then_some("object")) {
        Some("object") => record(root, schema, depth),
        Some("array") => list(root, schema, depth),
        Some("string") => Value::String(text(schema)),
        Some(ty @ ("integer" | "number")) => number(schema, ty == "integer"),
        Some("boolean") => Value::Bool(true),
        Some(_) => Value::Null,
        None => Value::Object(Map::new()),
    }
}

/// Returns a record with the properties that are required.
fn record(root: &Root<'_>, schema: &Value, depth: u32) -> Value {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let any = Value::Bool(true);
    let value = |name: &str| match schema["properties"].get(name) {
        Some(of) => example(root, of, depth),
        None if schema["additionalProperties"].is_object() => {
            example(root, &schema["additionalProperties"], depth)
        }
        None => Value::String(text(&any)),
    };
    Value::Object(required.map(|name| (name.to_owned(), value(name))).collect())
}

fn list(root: &Root<'_>, schema: &Value, depth: u32) -> Value {
    let first = schema["prefixItems"].as_array().map_or(&[][..], Vec::as_slice);
    let least = schema["minItems"].as_u64().unwrap_or(first.len() as u64).min(LENGTH_MAX);
    let of = |at: u64| {
        let own = usize::try_from(at).ok().and_then(|at| first.get(at));
        example(root, own.unwrap_or(&schema["items"]), depth)
    };
    Value::Array((0..least).map(of).collect())
}

fn text(schema: &Value) -> String {
    let mut text = match schema["format"].as_str() {
        Some("date") => "2030-01-31",
        Some("date-time") => "2030-01-31T12:00:00Z",
        Some("time") => "12:00:00Z",
        Some("email") => "ada@example.org",
        Some("uri") => "https://example.org/",
        Some("uuid") => "00000000-0000-0000-0000-000000000000",
        _ => "text",
    }
    .to_owned();
    let least = schema["minLength"].as_u64().unwrap_or(0).min(LENGTH_MAX);
    while (text.chars().count() as u64) < least {
        text.push('x');
    }
    let most = schema["maxLength"].as_u64().and_then(|it| usize::try_from(it).ok());
    text.chars().take(most.unwrap_or(usize::MAX)).collect()
}

fn number(schema: &Value, is_whole: bool) -> Value {
    let bound = |key: &str| schema[key].as_f64();
    let step = bound("multipleOf").unwrap_or(1.0);
    let least = bound("minimum").or_else(|| bound("exclusiveMinimum").map(|it| it + step));
    let most = bound("maximum").or_else(|| bound("exclusiveMaximum").map(|it| it - step));
    let value = match (least, most) {
        (Some(least), _) => (least / step).ceil() * step,
        (None, Some(most)) if most < step => (most / step).floor() * step,
        (None, _) => step,
    };
    match is_whole {
        #[allow(clippy::cast_possible_truncation, reason = "a number out of range does not fit")]
        true => Value::from(value as i64),
        false => Number::from_f64(value).map_or(Value::Null, Value::Number),
    }
}

/// Joins two records; of anything else the second one counts.
fn joined(one: Value, two: Value) -> Value {
    match (one, two) {
        (Value::Object(mut one), Value::Object(two)) => {
            one.extend(two);
            Value::Object(one)
        }
        (_, two) => two,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_example_fits_its_schema() {
        for (schema, expected) in [
            (json!({}), json!({})),
            (json!({"type": "object", "additionalProperties": false}), json!({})),
            (
                json!({"required": ["team", "seats", "note", "on"], "properties": {
                    "team": {"enum": ["billing", "search"]}, "other": {"type": "string"},
                    "seats": {"type": "integer", "minimum": 3}, "note": {"$ref": "#/$defs/note"},
                }, "$defs": {"note": {"type": "string", "minLength": 6}}}),
                json!({"team": "billing", "seats": 3, "note": "textxx", "on": "text"}),
            ),
            (
                json!({"type": "array", "minItems": 2, "items": {"type": "boolean"}}),
                json!([true, true]),
            ),
            (json!({"type": ["string", "null"], "maxLength": 2}), json!("te")),
            (json!({"type": "number", "exclusiveMaximum": 0}), json!(-1.0)),
            (json!({"type": "integer", "default": 7}), json!(7)),
            (
                json!({"allOf": [
                    {"required": ["a"], "properties": {"a": {"const": 1}}},
                    {"required": ["b"], "properties": {"b": {"format": "date", "type": "string"}}},
                ]}),
                json!({"a": 1, "b": "2030-01-31"}),
            ),
            (json!({"oneOf": [{"type": "string"}, {"type": "integer"}]}), json!("text")),
        ] {
            let found = JsonSchema::compile(schema.clone()).unwrap().example();
            assert_eq!(found, Some(expected), "{schema}");
        }
    }

    #[test]
    fn what_cannot_be_derived_has_no_example() {
        for schema in [
            json!(false),
            json!({"type": "string", "pattern": "^[0-9]{4}$"}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "required": ["a"],
                "properties": {"a": {"$ref": "#/$defs/a"}}}}}),
            json!({"type": "array", "minItems": 1_000_000}),
            json!({"type": "integer", "minimum": 1e300}),
        ] {
            let found = JsonSchema::compile(schema.clone()).unwrap().example();
            assert_eq!(found, None, "{schema}");
        }
    }

    #[test]
    fn a_schema_that_asks_for_billions_has_no_example() {
        let nested = (0..6).fold(
            json!({"type": "string"}),
            |it, _| json!({"type": "array", "minItems": 100, "items": it}),
        );
        assert_eq!(JsonSchema::compile(nested).unwrap().example(), None);
    }
}
