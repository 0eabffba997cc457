//! Checks every request and response of the tests against `docs/openapi.json`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use jsonschema::Validator;
use serde_json::{Map, Value, json};

use crate::support::wire::Answer;

/// Longer answers are looked at once for each route and status.
const BYTES_MAX: usize = 64 * 1024;

/// The description as this program carries it.
pub(crate) struct Described {
    document: Value,
    /// The schemas, each closed: a field that is not told of is a fault.
    schemas: Value,
    compiled: Mutex<HashMap<String, Arc<Validator>>>,
}

impl Described {
    /// Returns the description; it is read once.
    pub(crate) fn get() -> &'static Described {
        static READ: OnceLock<Described> = OnceLock::new();
        READ.get_or_init(|| {
            let text = include_str!("../../docs/openapi.json");
            let document: Value = serde_json::from_str(text).unwrap();
            let mut schemas = document["components"]["schemas"].clone();
            schemas.as_object_mut().unwrap().values_mut().for_each(|it| close(it, true));
            Described { document, schemas, compiled: Mutex::default() }
        })
    }

    /// Judges a request that was answered, and its answer.
    #[track_caller]
    pub(crate) fn judge(
        &self,
        (method, target, sent): (&str, &str, Option<&Value>),
        answer: &Answer,
    ) {
        let path = target.split('?').next().unwrap_or_default();
        let Some((pattern, operation)) = self.operation(method, path) else {
            let is_known = answer.status >= 400 || !path.starts_with("/api/") || method == "HEAD";
            assert!(is_known, "{method} {path} answers, and is not described");
            return;
        };
        let name = format!("{method} {pattern} {}", answer.status);
        let responses = &operation["responses"];
        let told = match (answer.status, responses.get(answer.status.to_string())) {
            (304, None) => return,
            (400.., None) => &json!({"content": self.document["components"]["responses"]
                ["refusal"]["content"]}),
            (_, Some(told)) => told,
            (_, None) => panic!("{name} is not described"),
        };
        if let Some(schema) = told["content"].get("application/json").map(|it| &it["schema"]) {
            self.require(&name, schema, &answer.body);
        }
        let takes = &operation["requestBody"]["content"]["application/json"]["schema"];
        if let (200..300, Some(sent)) = (answer.status, sent.filter(|_| !takes.is_null())) {
            self.require(&format!("{method} {pattern}"), takes, sent);
        }
    }

    fn operation(&self, method: &str, path: &str) -> Option<(&str, &Value)> {
        let method = method.to_ascii_lowercase();
        let paths = self.document["paths"].as_object().unwrap();
        let fits = |pattern: &str| {
            let is_part =
                |it: (&str, &str)| it.0 == it.1 || (it.0.starts_with('{') && !it.1.is_empty());
            pattern.split('/').count() == path.split('/').count()
                && pattern.split('/').zip(path.split('/')).all(is_part)
        };
        // A word comes before a part of any name.
        let own = paths.get_key_value(path).into_iter();
        let mut found = own.chain(paths.iter().filter(|it| fits(it.0)));
        found.find_map(|(pattern, it)| Some((pattern.as_str(), it.get(&method)?)))
    }

    #[track_caller]
    fn require(&self, name: &str, schema: &Value, value: &Value) {
        let known = self.compiled.lock().unwrap().get(name).cloned();
        if known.is_some() && value.to_string().len() > BYTES_MAX {
            return;
        }
        let validator = known.unwrap_or_else(|| {
            let made = Arc::new(self.compile(name, schema));
            self.compiled.lock().unwrap().insert(name.to_owned(), made.clone());
            made
        });
        let wrong: Vec<String> = validator
            .iter_errors(value)
            .map(|it| format!("{}: {it}", it.instance_path()))
            .collect();
        assert!(wrong.is_empty(), "{name} is not as described: {wrong:#?}\n{value:#}");
    }

    fn compile(&self, name: &str, schema: &Value) -> Validator {
        let mut schema = schema.clone();
        close(&mut schema, true);
        let whole = json!({"allOf": [schema], "components": {"schemas": self.schemas}});
        jsonschema::options().build(&whole).unwrap_or_else(|cause| panic!("{name}: {cause}"))
    }
}

/// Refuses fields that a schema does not tell of, also where it leaves that open.
fn close(schema: &mut Value, is_whole: bool) {
    let Value::Object(fields) = schema else { return };
    let parts = ["allOf", "anyOf", "oneOf"];
    let has_fields = fields.contains_key("properties");
    let is_open = fields.contains_key("additionalProperties");
    let has_parts = fields.contains_key("$ref") || parts.iter().any(|it| fields.contains_key(*it));
    for part in parts {
        if let Some(Value::Array(items)) = fields.get_mut(part) {
            items.iter_mut().for_each(|it| close(it, is_whole && !has_fields && part != "allOf"));
        }
    }
    if let Some(Value::Object(inner)) = fields.get_mut("properties") {
        close_all(inner);
    }
    for inner in ["items", "additionalProperties"] {
        if let Some(inner) = fields.get_mut(inner) {
            close(inner, true);
        }
    }
    if has_fields && is_whole && !is_open {
        let word = if has_parts { "unevaluatedProperties" } else { "additionalProperties" };
        fields.insert(word.to_owned(), json!(false));
    }
}

fn close_all(fields: &mut Map<String, Value>) {
    fields.values_mut().for_each(|it| close(it, true));
}
