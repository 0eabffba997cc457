//! Writes the description as OpenAPI 3.1, one operation and one schema a line.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::http::access::table::{ROUTES, Route, Verb, Who};
use crate::http::description::operation::{Content, Make, Operation};

/// The path of the schemas.
const SCHEMAS: &str = "#/components/schemas/";

/// Returns the whole description.
pub(super) fn document(operations: &[Operation]) -> String {
    let mut schemas = Schemas::new();
    let mut paths: Map<String, Value> = Map::new();
    for it in operations {
        let route = ROUTES.iter().find(|route| route.verb == it.verb && route.path == it.path);
        let described = operation(it, route.expect("it is in the table"), &mut schemas);
        let verb = it.verb.as_str().to_ascii_lowercase();
        let path = paths.entry(it.path).or_insert_with(|| json!({}));
        path[verb] = described;
    }
    paths.sort_keys();
    let (schemas, own) = schemas.finish();
    let head = json!({
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": "wiki-browser", "version": env!("CARGO_PKG_VERSION"),
            "summary": "People and coding agents work on documents together.",
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "The address of the site, or its Unix socket."}],
        "security": [{"token": []}, {"cookie": []}],
    });
    let components = json!({
        "securitySchemes": {
            "token": {
                "type": "http", "scheme": "bearer",
                "description": "A person's; on the Unix socket also the operator's and a job's.",
            },
            "cookie": {
                "type": "apiKey", "in": "cookie", "name": "wb_SITE",
                "description": "The login cookie; its name has a site-specific suffix.",
            },
            "signature": {
                "type": "apiKey", "in": "header", "name": "X-Hub-Signature-256",
                "description": "The HMAC of the body; or use X-Gitlab-Token.",
            },
        },
        "parameters": {"key": {
            "name": "Idempotency-Key", "in": "header", "required": false,
            "description": "A key: repeating the request returns the same response.",
            "schema": {"type": "string", "minLength": 1, "maxLength": 200},
        }},
        "responses": {"refusal": {
            "description": "The error, and what to do about it.",
            "content": {"application/json": {"schema": {"$ref": format!("{SCHEMAS}Refusal")}}},
        }},
    });
    let mut text = lines(&head, &paths, &components, &schemas);
    for name in own {
        text = text.replace(&format!("{SCHEMAS}{}\"", asked(&name)), &format!("{SCHEMAS}{name}\""));
    }
    text
}

/// The schemas of requests and of responses differ: a field that is optional in a request is always
/// in a response.
struct Schemas {
    answers: SchemaGenerator,
    requests: SchemaGenerator,
}

impl Schemas {
    fn new() -> Schemas {
        let mut settings = SchemaSettings::draft2020_12();
        settings.definitions_path = "/components/schemas".into();
        let mut answers = settings.clone().for_serialize().into_generator();
        answers.subschema_for::<crate::api::Refusal>();
        Schemas { answers, requests: settings.for_deserialize().into_generator() }
    }

    fn answer(&mut self, make: Make) -> Value {
        make(&mut self.answers).to_value()
    }

    fn request(&mut self, make: Make) -> Value {
        let mut schema = make(&mut self.requests).to_value();
        rename(&mut schema);
        schema
    }

    /// Returns the fields of a query.
    fn fields(&mut self, make: Make) -> (Map<String, Value>, Vec<String>) {
        let schema = make(&mut self.requests).to_value();
        let name = schema["$ref"].as_str().and_then(|it| it.strip_prefix(SCHEMAS));
        let name = name.expect("a query is a named type").to_owned();
        // A query is described by its fields, so its type is not listed.
        let found = self.requests.definitions_mut().remove(&name).expect("it was made");
        let fields = found["properties"].as_object().cloned().unwrap_or_default();
        let required: Vec<String> =
            serde_json::from_value(found.get("required").cloned().unwrap_or(json!([])))
                .expect("they are names");
        (fields, required)
    }

    /// Returns all schemas, and the names of those used only in requests.
    fn finish(mut self) -> (Map<String, Value>, Vec<String>) {
        let mut all = self.answers.take_definitions(true);
        let mut own = Vec::new();
        for (name, mut schema) in self.requests.take_definitions(true) {
            let is_whole = !schema.to_string().contains("\"$ref\"");
            match all.get(&name) {
                Some(other) if is_whole && *other == schema => own.push(name),
                Some(_) => {
                    rename(&mut schema);
                    all.insert(asked(&name), schema);
                }
                None => {
                    rename(&mut schema);
                    own.push(name.clone());
                    all.insert(name, schema);
                }
            }
        }
        all.sort_keys();
        all.values_mut().for_each(tidy);
        let is_numbered = |it: &&String| it.trim_end_matches(".in").ends_with(char::is_numeric);
        let twice: Vec<&String> = all.keys().filter(is_numbered).collect();
        assert!(twice.is_empty(), "rename one of the types of the same name: {twice:?}");
        (all, own)
    }
}

/// The name of a request's type. It changes only if a response has the same type with another
/// schema.
fn asked(name: &str) -> String {
    format!("{name}.in")
}

fn rename(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if name == "$ref" => *text = asked(text),
                    other => rename(other),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(rename),
        _ => {}
    }
}

/// Removes keywords without information.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.remove("$schema");
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = text.replace('\n', " ");
            }
            fields.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}

fn operation(it: &Operation, route: &Route, schemas: &mut Schemas) -> Value {
    let mut parameters = path_parameters(it.path);
    if let Some(query) = it.query {
        parameters.extend(query_parameters(query, schemas));
    }
    if it.has_key {
        parameters.push(json!({"$ref": "#/components/parameters/key"}));
    }
    let mut told = json!({
        "operationId": operation_id(it.verb, it.path), "summary": it.summary,
        "tags": [tag(it.path)],
    });
    told["x-who"] = json!(who(route.who));
    if route.is_socket_only {
        told["x-socket-only"] = json!(true);
    }
    match route.who {
        Who::All => told["security"] = json!([]),
        Who::Signed => told["security"] = json!([{"signature": []}]),
        _ => {}
    }
    if !parameters.is_empty() {
        told["parameters"] = Value::Array(parameters);
    }
    if let Some((body, is_required)) = it.body {
        let schema = schemas.request(body);
        told["requestBody"] =
            json!({"required": is_required, "content": {"application/json": {"schema": schema}}});
    }
    if it.is_of_file {
        let file = json!({"application/octet-stream": {"schema": {}}});
        told["requestBody"] = json!({"required": true, "content": file});
    }
    let mut responses = Map::new();
    for (status, content) in &it.answers {
        let (kind, schema) = match content {
            Content::Json(make) => ("application/json", schemas.answer(*make)),
            Content::Other("application/json") => ("application/json", json!({"type": "object"})),
            Content::Other(kind) => (*kind, json!({"type": "string"})),
        };
        let of_status = responses
            .entry(status.to_string())
            .or_insert_with(|| json!({"description": reason(*status), "content": {}}));
        of_status["content"][kind] = json!({"schema": schema});
    }
    responses.insert("default".to_owned(), json!({"$ref": "#/components/responses/refusal"}));
    told["responses"] = Value::Object(responses);
    told
}

fn path_parameters(path: &str) -> Vec<Value> {
    let names = path.split('/').filter_map(|it| it.strip_prefix('{')?.strip_suffix('}'));
    let told = names.map(
        |name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}),
    );
    told.collect()
}

fn query_parameters(query: Make, schemas: &mut Schemas) -> Vec<Value> {
    let (fields, required) = schemas.fields(query);
    let told = fields.into_iter().map(|(name, mut schema)| {
        rename(&mut schema);
        let mut told = json!({"name": name, "in": "query", "required": required.contains(&name)});
        if let Some(text) = schema.as_object_mut().and_then(|it| it.remove("description")) {
            told["description"] = text;
        }
        told["schema"] = without_null(schema);
        told
    });
    told.collect()
}

/// A parameter is present or absent, never null.
fn without_null(mut schema: Value) -> Value {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|it| it != "null");
        if let [one] = types.as_slice() {
            schema["type"] = one.clone();
        }
    }
    if let Some(Value::Array(any)) = schema.get("anyOf") {
        let mut any = any.iter().filter(|it| it["type"] != "null");
        if let (Some(one), None) = (any.next(), any.next()) {
            return one.clone();
        }
    }
    if let Some(fields) = schema.as_object_mut() {
        fields.remove("default");
    }
    schema
}

fn operation_id(verb: Verb, path: &str) -> String {
    let parts = path.split(['/', '.', '-']).filter(|it| !it.is_empty() && *it != "api");
    let parts = parts.map(|it| it.trim_matches(['{', '}']));
    let verb = verb.as_str().to_ascii_lowercase();
    std::iter::once(verb.as_str()).chain(parts).collect::<Vec<_>>().join("_")
}

fn tag(path: &str) -> &str {
    let path = path.strip_prefix("/api").unwrap_or(path);
    let path = path.strip_prefix("/agent/").unwrap_or(path.trim_start_matches('/'));
    path.split('/').next().unwrap_or_default()
}

fn who(who: Who) -> &'static str {
    match who {
        Who::All => "all",
        Who::Read => "read",
        Who::Signed => "signed",
        Who::Write => "write",
        Who::WriteOrJob => "write_or_job",
        Who::Decide => "decide",
        Who::Job => "job",
        Who::Session => "session",
        Who::Admin => "admin",
        Who::Metrics => "metrics",
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        201 => "Created.",
        202 => "Accepted; not finished yet.",
        _ => "The request succeeded.",
    }
}

/// One path and one schema per line, so that a change of one is one line of a diff.
fn lines(
    head: &Value,
    paths: &Map<String, Value>,
    components: &Value,
    schemas: &Map<String, Value>,
) -> String {
    let mut text = head.to_string();
    text.pop();
    let block = |of: &Map<String, Value>| {
        let lines = of.iter().map(|(name, it)| format!("{}:{it}", json!(name)));
        lines.collect::<Vec<_>>().join(",\n")
    };
    text.push_str(",\n\"paths\":{\n");
    text.push_str(&block(paths));
    text.push_str("\n},\n\"components\":");
    text.push_str(&components.to_string());
    text.pop();
    text.push_str(",\n\"schemas\":{\n");
    text.push_str(&block(schemas));
    text.push_str("\n}}}\n");
    text
}
