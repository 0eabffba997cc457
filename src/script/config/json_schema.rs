//! JSON schemas of payloads and replies, compiled when the script is loaded. References to anything
//! outside the schema are refused.

use std::fmt;
use std::sync::Arc;

use jsonschema::{PatternOptions, Retrieve, Uri, Validator};
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::base::{Error, Result, truncate_chars};

/// Most errors named in one refusal.
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
    /// `invalid` if it is not a schema, or refers to a file or to the network.
    pub fn compile(text: Value) -> Result<JsonSchema> {
        let validator = jsonschema::options()
            .with_retriever(Nowhere)
            // Its patterns take linear time: the texts that they look at come from agents.
            .with_pattern_options(PatternOptions::regex())
            .build(&text)
            .map_err(|cause| not_a_schema(&cause))?;
        Ok(JsonSchema { text: Arc::new(text), validator: Arc::new(validator) })
    }

    /// Returns the schema as it was written.
    pub fn as_json(&self) -> &Value {
        &self.text
    }

    /// Returns the places of unknown keywords, each with what was probably meant. Validators ignore
    /// unknown keywords, so such a constraint would never be checked.
    pub fn unknown_words(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        collect_unknown(&self.text, "", &mut found);
        found.sort();
        found
    }

    /// Returns whether a value is valid.
    pub fn is_valid(&self, value: &Value) -> bool {
        self.validator.is_valid(value)
    }

    /// Fails unless the value is valid; names the first invalid places, as `payload.team: …`.
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

/// The keywords of draft 2020-12, and the older ones that are still accepted.
const WORDS: [&str; 62] = [
    "$anchor",
    "$comment",
    "$defs",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "$ref",
    "$schema",
    "$vocabulary",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "default",
    "definitions",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "deprecated",
    "description",
    "else",
    "enum",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "if",
    "items",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "readOnly",
    "required",
    "then",
    "title",
    "type",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
    "writeOnly",
    "$recursiveRef",
    "$recursiveAnchor",
];
/// Keywords whose value maps names to schemas.
const NAMES_SCHEMAS: [&str; 6] =
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"];
/// Keywords whose value is data.
const HOLDS_DATA: [&str; 6] =
    ["const", "default", "dependentRequired", "enum", "examples", "$vocabulary"];

/// Words of other schemas, with the keywords for what they mean.
const USUAL: [(&[&str], &str); 10] = [
    (&["max", "maxValue", "max_value"], "`maximum`, `maxLength` or `maxItems`"),
    (&["min", "minValue", "min_value"], "`minimum`, `minLength` or `minItems`"),
    (&["length", "len", "size"], "`minLength` and `maxLength`, or `minItems` and `maxItems`"),
    (&["range", "between"], "`minimum` and `maximum`"),
    (&["mandatory", "optional", "needed"], "`required`, a list of names beside `properties`"),
    (&["choices", "choice", "values", "options", "one_of"], "`enum`"),
    (&["nullable"], "`type`: [\"string\", \"null\"]"),
    (&["regex", "regexp", "match", "matches"], "`pattern`"),
    (&["fields", "props", "attributes"], "`properties`"),
    (&["about", "desc", "doc", "help"], "`description`"),
];

/// Searches a schema and its subschemas. The JSON parser bounds the depth.
fn collect_unknown(schema: &Value, at: &str, found: &mut Vec<(String, String)>) {
    let place = |word: &str| if at.is_empty() { word.to_owned() } else { format!("{at}.{word}") };
    match schema {
        Value::Array(list) => list.iter().for_each(|it| collect_unknown(it, at, found)),
        Value::Object(words) => {
            for (word, value) in words {
                if HOLDS_DATA.contains(&word.as_str()) {
                    continue;
                }
                match value {
                    Value::Object(named) if NAMES_SCHEMAS.contains(&word.as_str()) => {
                        for (name, inner) in named {
                            collect_unknown(inner, &format!("{}.{name}", place(word)), found);
                        }
                    }
                    _ if WORDS.contains(&word.as_str()) => {
                        collect_unknown(value, &place(word), found);
                    }
                    _ => found.extend(hint(word).map(|hint| (place(word), hint))),
                }
            }
        }
        _ => {}
    }
}

/// Returns what an unknown keyword was probably meant to be; `None` for one that is only a note.
fn hint(word: &str) -> Option<String> {
    let meant = USUAL.iter().find(|it| it.0.contains(&word)).map(|it| it.1.to_owned());
    let meant = meant.or_else(|| near(word).map(|it| format!("`{it}`")));
    match meant {
        Some(meant) => Some(format!("did you mean {meant}?")),
        None if word.starts_with(['$', '_']) || word.starts_with("x-") => None,
        None => Some(format!("it has no effect; \"x-{word}\" is for notes of your own")),
    }
}

fn near(word: &str) -> Option<&'static str> {
    let far = |known: &&str| strsim::osa_distance(known, word);
    let nearest = WORDS.iter().copied().min_by_key(far)?;
    (far(&nearest) <= (word.len() / 3).min(2)).then_some(nearest)
}

/// The types that a value may have.
const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "object", "array", "null"];

/// Describes why a value is not a schema, and what is expected there.
fn not_a_schema(cause: &jsonschema::ValidationError<'_>) -> Error {
    let place = cause.instance_path().to_string().replace('/', ".");
    let place = place.trim_start_matches('.');
    let word = place.rsplit('.').next().unwrap_or_default();
    let given = truncate_chars(&cause.instance().to_string(), 100);
    let says = match word {
        "type" => format!("{given} is not a type; types are {}", TYPES.join(", ")),
        "required" => format!(
            "{given} is not a list of names: write \"required\": [\"name\"] beside \"properties\""
        ),
        _ => truncate_chars(&cause.to_string(), 300),
    };
    match place {
        "" => Error::invalid(format!("no JSON schema: {says}")),
        _ => Error::invalid(format!("no JSON schema: {place}: {says}")),
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

/// Refuses every reference to another schema.
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
    fn a_fault_of_a_schema_names_its_place() {
        let told = |schema| JsonSchema::compile(schema).unwrap_err().message().to_owned();
        let wrong = told(json!({"properties": {"team": {"type": "objekt"}}}));
        assert!(wrong.contains("properties.team.type: \"objekt\" is not a type; "), "{wrong}");
        let wrong = told(json!({"properties": {"team": {"type": "string", "required": true}}}));
        assert!(wrong.contains("properties.team.required: true is not a list of names"), "{wrong}");
        let wrong = told(json!({"properties": {"n": {"minimum": "1"}}}));
        assert!(wrong.contains("properties.n.minimum: "), "{wrong}");
        let wrong = told(json!({"$ref": "https://example.org/a.json"}));
        assert!(wrong.contains("is outside of the schema"), "{wrong}");
    }

    #[test]
    fn a_word_that_no_schema_has_is_named_with_its_neighbor() {
        let schema = JsonSchema::compile(json!({
            "require": ["team"],
            "propertys": {"team": {"type": "string"}},
            "properties": {"require": {"type": "string", "minLenght": 1}},
            "$defs": {"titel": {"type": "string"}},
            "dependencies": {"team": ["seats"], "seats": {"max": 3}},
            "x-ours": {"max": 1}, "$ours": 1, "default": {"max": 1}, "title": "max",
        }))
        .unwrap();
        let unknown = schema.unknown_words();
        let shown: Vec<String> = unknown.iter().map(|(at, hint)| format!("{at}: {hint}")).collect();
        assert_eq!(
            shown,
            [
                "dependencies.seats.max: did you mean `maximum`, `maxLength` or `maxItems`?",
                "properties.require.minLenght: did you mean `minLength`?",
                "propertys: did you mean `properties`?",
                "require: did you mean `required`?",
            ]
        );
    }

    #[test]
    fn a_word_of_another_schema_is_named_with_the_keyword_for_it() {
        let meant = |word: &str| {
            let schema = json!({"properties": {"n": {"type": "integer", word: 9}}});
            let unknown = JsonSchema::compile(schema).unwrap().unknown_words();
            unknown.first().map(|it| it.1.clone()).unwrap_or_default()
        };
        for (word, keyword) in [
            ("max", "`maximum`"),
            ("min", "`minLength`"),
            ("length", "`maxItems`"),
            ("mandatory", "`required`"),
            ("optional", "`required`"),
            ("choices", "`enum`"),
            ("values", "`enum`"),
            ("additional_properties", "`additionalProperties`"),
            ("unit", "\"x-unit\""),
        ] {
            assert!(meant(word).contains(keyword), "{word}: {}", meant(word));
        }
        for word in [&WORDS[..], &["x-unit", "$unit"]].concat() {
            let schema = JsonSchema { text: Arc::new(json!({ word: true })), ..any() };
            assert_eq!(schema.unknown_words(), [], "{word}");
        }
    }

    fn any() -> JsonSchema {
        JsonSchema::compile(json!(true)).unwrap()
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
