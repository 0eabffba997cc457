//! Values of JSON as types.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Returns a value as a type.
///
/// # Errors
/// If it has not the shape of the type.
pub fn from_json<T: DeserializeOwned>(value: &Value) -> serde_json::Result<T> {
    // As text, like whatever comes from outside: otherwise a second deserializer, that of values,
    // would be compiled for each type.
    serde_json::from_slice(&serde_json::to_vec(value)?)
}

/// Returns whether a value has a zero byte in a text, which no prompt and no variable takes.
pub fn has_zero(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(has_zero),
        Value::Object(all) => all.iter().any(|(name, it)| name.contains('\0') || has_zero(it)),
        _ => false,
    }
}
