//! JSON schemas of payloads and replies: compiled when the script is loaded, never asked for
//! anything outside of their own text.

use std::fmt;
use std::sync::Arc;

use jsonschema::{PatternOptions, Retrieve, Uri, Validator};
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::base::{Error, Result, truncate_chars};

/// Most faults that a refusal names.
const FAULTS_MAX: usize = 5;

/// A schema of draft 2020-12, or of the draft that its `$schema` names.
#[derive(Clone)]
pub struct JsonSchema {
    text: Arc<Value>,
    validator: Arc<Validator>,
}

impl JsonSchema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// `invalid` if it is none, or refers to a file or to the network.
    pub fn compile(text: Value) -> Result<JsonSchema> {
        let validator = jsonschema::options()
            .with_retriever(Nowhere)
            // Its patterns take linear time: the texts that they look at come from agents.
            .with_pattern_options(PatternOptions::regex())
            .build(&text)
            .map_err(|cause| Error::invalid(format!("no JSON schema: {cause}")))?;
        Ok(JsonSchema { text: Arc::new(text), validator: Arc::new(validator) })
    }

    /// Returns the schema as it was written.
    pub fn as_json(&self) -> &Value {
        &self.text
    }

    /// Refuses what does not fit; names the first places that do not, `payload.team: …`.
    ///
    /// # Errors
    /// `invalid` with the given code.
    pub fn require(&self, value: &Value, root: &str, code: &'static str) -> Result<()> {
        let mut faults = Vec::new();
        for fault in self.validator.iter_errors(value).take(FAULTS_MAX) {
            let path = fault.instance_path().to_string().replace('/', ".");
            faults.push(format!("{root}{path}: {}", truncate_chars(&fault.to_string(), 300)));
        }
        if faults.is_empty() {
            return Ok(());
        }
        Err(Error::invalid(faults.join("; ")).code(code))
    }
}

impl Serialize for JsonSchema {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        self.text.serialize(serializer)
    }
}

impl fmt::Debug for JsonSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("JsonSchema").field(&self.text).finish()
    }
}

/// A schema that refers to anything outside of itself is refused.
struct Nowhere;

impl Retrieve for Nowhere {
    fn retrieve(
        &self,
        uri: &Uri<String>,
    ) -> std::result::Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err(format!("{uri} is outside of the schema; write it into $defs").into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_wrong_payload_is_refused_with_its_place() {
        let schema = JsonSchema::compile(json!({
            "type": "object",
            "required": ["team"],
            "properties": {"team": {"enum": ["billing", "search"]}, "seats": {"type": "integer"}},
        }))
        .unwrap();
        schema.require(&json!({"team": "billing"}), "payload", "bad_payload").unwrap();
        let wrong = json!({"team": "sales", "seats": "many"});
        let refused = schema.require(&wrong, "payload", "bad_payload").unwrap_err();
        assert_eq!(refused.code_str(), "bad_payload");
        assert!(refused.message().contains("payload.team: "), "{refused}");
        assert!(refused.message().contains("payload.seats: "), "{refused}");
    }

    #[test]
    fn a_schema_refers_to_nothing_outside() {
        for wrong in [
            json!({"$ref": "file:///etc/passwd"}),
            json!({"$ref": "https://example.org/schema.json"}),
            json!({"type": "no such type"}),
        ] {
            assert!(JsonSchema::compile(wrong.clone()).is_err(), "{wrong}");
        }
        let own = json!({"$ref": "#/$defs/name", "$defs": {"name": {"type": "string"}}});
        JsonSchema::compile(own).unwrap().require(&json!("x"), "payload", "bad_payload").unwrap();
    }
}
