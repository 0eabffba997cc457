//! What a running agent was started with: its declaration and that of its engine.

use serde_json::{Value, json};

use crate::base::digest_hex;
use crate::script::{Config, kind_of_agent};

/// Returns the digest of an agent's declaration and its engine's, wherever they are in the script:
/// nobody has to restart it for a change elsewhere. What a function does has no digest of its own,
/// so with one, it is the digest of the whole script.
pub(super) fn digest(config: &Config, name: &str) -> String {
    let kind = config.kinds.get(&kind_of_agent(name));
    let engine = kind.and_then(|it| config.engines.get(&it.engine));
    let mut told = json!({"kind": kind, "engine": engine});
    match kind.is_none() || has_function(&told) {
        true => config.digest.clone(),
        false => {
            forget_places(&mut told);
            digest_hex(told.to_string().as_bytes())
        }
    }
}

fn is_place(value: &Value) -> bool {
    ["file", "line", "column"].iter().all(|it| value.get(it).is_some())
}

fn has_function(value: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            let is_one = fields.contains_key("number") && fields.get("at").is_some_and(is_place);
            is_one || fields.values().any(has_function)
        }
        Value::Array(items) => items.iter().any(has_function),
        _ => false,
    }
}

fn forget_places(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !is_place(value));
            fields.values_mut().for_each(forget_places);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_places),
        _ => {}
    }
}
