//! A payload as a form: a field for each value, by its schema if there is one, and the payload from
//! a sent form.

use serde_json::{Map, Value};

use crate::base::{Error, Result, invisible_name};
use crate::http::pages::parts::fields::Field;
use crate::http::pages::parts::form;

/// The code of a value that its field or its schema does not accept.
pub(in crate::http::pages) const BAD_PAYLOAD: &str = "bad_payload";
/// The prefix of a value's name in the form.
const PREFIX: &str = "field.";
/// The name of the field that holds a whole payload.
const WHOLE: &str = "payload";
/// Payloads with more values are edited as JSON.
const FIELDS_MAX: usize = 40;
/// Longer texts get several lines.
const LINE_CHARS_MAX: usize = 80;
/// Most choices; with more of them, the value is typed.
const CHOICES_MAX: usize = 60;

/// Returns the fields of a payload.
pub(in crate::http::pages) fn fields(payload: &Value, schema: Option<&Value>) -> Vec<Field> {
    let Some(names) = names(payload, schema) else {
        return vec![blank(WHOLE.to_owned(), "Payload".to_owned(), "text", pretty(payload))];
    };
    let fields = names.into_iter().map(|name| {
        let field = field(&name, payload.get(&name), of(schema, &name));
        // A text that is empty as requested may stay so.
        let must = schema.is_some_and(|it| is_required(it, &name)) && !field.value.is_empty();
        Field { is_required: field.is_required || must, ..field }
    });
    fields.collect()
}

fn is_required(schema: &Value, name: &str) -> bool {
    let required = schema["required"].as_array();
    required.is_some_and(|names| names.iter().any(|it| it.as_str() == Some(name)))
}

/// Returns the names of the values with a field each: those of the payload, and those of the schema
/// that the payload lacks. `None` for a payload that is edited as a whole, as one in whose names a
/// browser would change a character: what is typed for them would be lost.
fn names(payload: &Value, schema: Option<&Value>) -> Option<Vec<String>> {
    let mut names: Vec<String> = payload.as_object()?.keys().cloned().collect();
    let further = schema.and_then(|it| it["properties"].as_object());
    for name in further.into_iter().flat_map(Map::keys) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    let is_kept = names.iter().all(|it| !it.contains(char::is_control));
    (is_kept && (1..=FIELDS_MAX).contains(&names.len())).then_some(names)
}

/// Returns the fields for a new payload: one for each property of the schema. `None` if it is
/// written as JSON.
pub(in crate::http::pages) fn new_fields(schema: &Value) -> Option<Vec<Field>> {
    let properties = properties(schema)?;
    let fields = properties.iter().map(|(name, of)| {
        let default = of.get("default");
        let field = field(name, None, Some(of));
        let is_json = matches!(sort(None, Some(of)), Sort::Json);
        let is_long = of["maxLength"].as_u64().is_some_and(|it| it > LINE_CHARS_MAX as u64);
        Field {
            value: default
                .map(|it| if is_json { pretty(it) } else { typed(it) })
                .unwrap_or_default(),
            about: field.about.or_else(|| is_json.then(|| "as JSON".to_owned())),
            sort: if is_long && field.sort == "line" { "text" } else { field.sort },
            is_required: is_required(schema, name),
            ..field
        }
    });
    Some(fields.collect())
}

/// Returns a new payload from a sent form: without the properties whose fields are empty.
///
/// # Errors
/// `invalid` with code `bad_payload` and the path of a value that its field does not accept, and
/// with code `bad_form` for a field that the schema does not have.
pub(in crate::http::pages) fn new_payload(
    schema: Option<&Value>,
    sent: &[(String, String)],
) -> Result<Value> {
    let properties = schema.and_then(properties);
    let mut payload = Map::new();
    for (field, text) in sent {
        let Some(name) = field.strip_prefix(PREFIX) else { continue };
        let Some(schema) = properties.and_then(|it| it.get(name)) else {
            let message = "the form of this inbox has changed: its schema has no such field";
            return Err(Error::invalid(message).code("bad_form").hint("reload the page"));
        };
        if let Some(value) = value(text, None, Some(schema), name)? {
            payload.insert(name.to_owned(), value);
        }
    }
    Ok(Value::Object(payload))
}

/// Puts what was typed, and why it was refused, into the fields of a payload.
pub(in crate::http::pages) fn refill(
    fields: &mut [Field],
    sent: &[(String, String)],
    refusal: &Error,
) {
    for field in fields {
        let typed = sent.iter().find(|(name, _)| *name == field.name);
        field.value = typed.map(|(_, text)| form::text(text)).unwrap_or_default();
        let at = match field.name.strip_prefix(PREFIX) {
            Some(name) => format!("{WHOLE}.{name}"),
            None => WHOLE.to_owned(),
        };
        let is_of_field =
            |fault: &&str| fault.strip_prefix(&*at).is_some_and(|it| it.starts_with([':', '.']));
        let fault = refusal.message().split("; ").find(is_of_field);
        field.refusal = fault.map(|it| it.split_once(": ").map_or(it, |it| it.1).to_owned());
    }
}

/// Returns the properties of an object's schema, if a form can have a field for each.
fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    let is_object = schema.get("type").is_none_or(|it| it == "object");
    let properties = schema["properties"].as_object().filter(|_| is_object)?;
    (1..=FIELDS_MAX).contains(&properties.len()).then_some(properties)
}

fn of<'s>(schema: Option<&'s Value>, name: &str) -> Option<&'s Value> {
    schema?.get("properties")?.get(name)
}

fn field(name: &str, value: Option<&Value>, schema: Option<&Value>) -> Field {
    let label: String = name.chars().filter(|it| invisible_name(*it).is_none()).collect();
    let text = value.map(typed).unwrap_or_default();
    let (sort, choices) = match sort(value, schema) {
        Sort::Choice(choices) => ("choice", choices.iter().map(choice).collect()),
        Sort::Number => ("number", Vec::new()),
        Sort::Text if text.contains(['\n', '\r']) || text.chars().count() > LINE_CHARS_MAX => {
            ("text", Vec::new())
        }
        Sort::Text => ("line", Vec::new()),
        Sort::Json => ("text", Vec::new()),
    };
    let text = match (sort, value) {
        ("text", Some(value)) if !value.is_string() => pretty(value),
        _ => text,
    };
    let bound = |key: &str| schema.and_then(|it| it.get(key)).and_then(Value::as_f64);
    let about = schema.and_then(|it| it["description"].as_str());
    Field {
        about: about.map(str::to_owned),
        choices,
        min: bound("minimum"),
        max: bound("maximum"),
        is_required: matches!(sort, "choice" | "number") && value.is_some(),
        ..blank(format!("{PREFIX}{name}"), label, sort, text)
    }
}

fn blank(name: String, label: String, sort: &'static str, value: String) -> Field {
    Field {
        name,
        label,
        about: None,
        sort,
        choices: Vec::new(),
        value,
        is_required: true,
        min: None,
        max: None,
        refusal: None,
    }
}

/// How a value is edited.
enum Sort {
    Choice(Vec<Value>),
    Number,
    Text,
    Json,
}

/// Returns how a value is edited. Its current value must be possible.
fn sort(value: Option<&Value>, schema: Option<&Value>) -> Sort {
    let choices = schema.and_then(|it| it["enum"].as_array());
    if let Some(choices) = choices.filter(|it| it.len() <= CHOICES_MAX)
        && choices.iter().all(|it| !it.is_object() && !it.is_array())
        && value.is_none_or(|it| choices.contains(it))
    {
        return Sort::Choice(choices.clone());
    }
    let ty = schema.and_then(|it| it["type"].as_str());
    match (value, ty) {
        (Some(Value::Bool(_)), _) | (None, Some("boolean")) => {
            Sort::Choice(vec![Value::Bool(true), Value::Bool(false)])
        }
        (Some(Value::Number(_)), _) | (None, Some("number" | "integer")) => Sort::Number,
        (Some(Value::String(_)), _) | (None, Some("string")) => Sort::Text,
        _ => Sort::Json,
    }
}

fn choice(value: &Value) -> (String, String) {
    (typed(value), typed(value))
}

/// Returns a value as shown in a field.
fn typed(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns a value as JSON for people.
pub(in crate::http::pages) fn pretty(value: &Value) -> String {
    // Anything read as JSON can be written as JSON.
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// Returns the payload from a sent form; `None` for a form without its fields.
///
/// # Errors
/// `invalid` with code `bad_payload` and the path of a value that is not what its field takes.
pub(in crate::http::pages) fn changed(
    payload: &Value,
    schema: Option<&Value>,
    sent: &[(String, String)],
) -> Result<Option<Value>> {
    let given = |name: &str| sent.iter().find(|(it, _)| it == name).map(|(_, text)| text);
    if let Some(text) = given(WHOLE) {
        return json(text, "payload").map(Some);
    }
    let Some(names) = names(payload, schema) else { return Ok(None) };
    if !sent.iter().any(|(name, _)| name.starts_with(PREFIX)) {
        return Ok(None);
    }
    let mut changed = payload.as_object().cloned().unwrap_or_default();
    for name in names {
        let Some(text) = given(&format!("{PREFIX}{name}")) else { continue };
        let before = payload.get(&name);
        match value(text, before, of(schema, &name), &name)? {
            Some(value) => {
                changed.insert(name, value);
            }
            None => {
                changed.shift_remove(&name);
            }
        }
    }
    Ok(Some(Value::Object(changed)))
}

/// Returns the value of a field; `None` if it is empty and optional.
fn value(
    text: &str,
    before: Option<&Value>,
    schema: Option<&Value>,
    name: &str,
) -> Result<Option<Value>> {
    let text = form::text(text);
    match sort(before, schema) {
        Sort::Text if text.is_empty() && before.is_none() => Ok(None),
        // A browser ends every line with CR LF: a text that differs in nothing else was not edited.
        Sort::Text => match before.and_then(Value::as_str) {
            Some(before) if form::text(before) == text => Ok(Some(Value::from(before))),
            _ => Ok(Some(Value::String(text))),
        },
        _ if text.trim().is_empty() => Ok(None),
        Sort::Choice(choices) => {
            let chosen = choices.into_iter().find(|it| typed(it) == text);
            let wrong = || bad(&format!("payload.{name}"), "is not one of its choices");
            chosen.map(Some).ok_or_else(wrong)
        }
        Sort::Number | Sort::Json => json(&text, &format!("payload.{name}")).map(Some),
    }
}

fn json(text: &str, path: &str) -> Result<Value> {
    serde_json::from_str(text.trim()).map_err(|cause| bad(path, &format!("is not JSON: {cause}")))
}

fn bad(path: &str, what: &str) -> Error {
    Error::invalid(format!("{path}: {what}")).code(BAD_PAYLOAD).hint("correct and resend it")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The form as a browser sends it: without carriage returns of its own, in `line` without line
    /// ends, in `text` with CR LF.
    fn sent(fields: &[Field]) -> Vec<(String, String)> {
        let value = |it: &Field| match it.sort {
            "text" => form::text(&it.value).replace('\n', "\r\n"),
            _ => it.value.replace(['\r', '\n'], ""),
        };
        fields.iter().map(|it| (it.name.clone(), value(it))).collect()
    }

    #[test]
    fn a_form_that_nobody_touched_is_the_payload() {
        let schema = json!({"properties": {
            "team": {"enum": ["billing", "search"]}, "budget": {"type": "integer", "maximum": 500},
            "note": {"type": "string"}, "more": {"type": "object"},
        }});
        for payload in [
            json!({"team": "billing", "budget": 300, "dry": true, "zones": ["a", "b"], "x": null}),
            json!({"text": "two\r\nlines\n", "mac": "a\rb", "end": "\r"}),
            json!({"text": "two\nlines", "ratio": 1.5, "empty": "", "deep": {"a": {"b": 1}}}),
            json!({"amount\r\n": 1_000_000, "b\ra": 1}),
            json!({}),
            json!([1, 2]),
            json!("a text"),
        ] {
            for schema in [None, Some(&schema)] {
                let fields = fields(&payload, schema);
                let again = changed(&payload, schema, &sent(&fields)).unwrap();
                assert_eq!(again.as_ref(), Some(&payload), "{schema:?}");
            }
        }
    }

    #[test]
    fn what_the_schema_requires_is_required_in_the_form_of_a_change() {
        let schema = json!({"required": ["team", "why", "zones"], "properties": {
            "team": {"type": "string"}, "why": {"type": "string"}, "note": {"type": "string"},
            "zones": {"type": "array"}, "dry": {"type": "boolean"},
        }});
        let payload = json!({"team": "billing", "why": "", "note": "n", "zones": []});
        let told: Vec<_> = fields(&payload, Some(&schema))
            .into_iter()
            .map(|it| (it.label, it.is_required))
            .collect();
        let expected =
            [("team", true), ("why", false), ("note", false), ("zones", true), ("dry", false)];
        assert_eq!(told, expected.map(|(name, is)| (name.to_owned(), is)));
    }

    #[test]
    fn a_schema_makes_the_form_of_a_new_payload() {
        let schema = json!({"type": "object", "required": ["team", "budget"], "properties": {
            "team": {"enum": ["billing", "search"]}, "budget": {"type": "integer", "default": 300},
            "dry": {"type": "boolean"}, "note": {"type": "string", "maxLength": 400},
            "zones": {"type": "array"},
        }});
        let fields = new_fields(&schema).unwrap();
        let told: Vec<_> =
            fields.iter().map(|it| (it.label.as_str(), it.sort, it.is_required)).collect();
        let expected = [
            ("team", "choice", true),
            ("budget", "number", true),
            ("dry", "choice", false),
            ("note", "text", false),
            ("zones", "text", false),
        ];
        assert_eq!(told, expected);
        assert_eq!(fields[1].value, "300");
        let with = |pairs: &[(&str, &str)]| {
            let mut sent = sent(&fields);
            for (name, text) in pairs {
                sent.iter_mut().find(|it| it.0 == format!("field.{name}")).unwrap().1 =
                    (*text).to_owned();
            }
            new_payload(Some(&schema), &sent)
        };
        let typed = [("team", "search"), ("dry", "false"), ("zones", "[\"a\"]")];
        let payload = with(&typed).unwrap();
        let expected = json!({"team": "search", "budget": 300, "dry": false, "zones": ["a"]});
        assert_eq!(payload, expected);
        let refused = with(&[("zones", "[a")]).unwrap_err();
        let mut again = new_fields(&schema).unwrap();
        refill(&mut again, &[("field.zones".to_owned(), "[a".to_owned())], &refused);
        assert_eq!(again[4].value, "[a");
        assert!(again[4].refusal.as_ref().unwrap().starts_with("is not JSON"));
        assert!(again[0].refusal.is_none() && again[0].value.is_empty());
        let unknown = [("field.other".to_owned(), "1".to_owned())];
        assert_eq!(new_payload(Some(&schema), &unknown).unwrap_err().code_str(), "bad_form");
        for whole in [json!({}), json!({"type": "array"}), json!({"properties": {}}), json!(true)] {
            assert!(new_fields(&whole).is_none(), "{whole}");
        }
    }

    #[test]
    fn what_is_typed_has_the_type_of_its_field() {
        let payload = json!({"team": "billing", "budget": 300, "dry": true, "zones": ["a"]});
        let schema = json!({"properties": {"team": {"enum": ["billing", "search"]}}});
        let with = |name: &str, text: &str| {
            let mut sent = sent(&fields(&payload, Some(&schema)));
            let field = sent.iter_mut().find(|it| it.0 == format!("field.{name}")).unwrap();
            field.1 = text.to_owned();
            changed(&payload, Some(&schema), &sent)
        };
        assert_eq!(with("budget", "100").unwrap().unwrap()["budget"], 100);
        assert_eq!(with("team", "search").unwrap().unwrap()["team"], "search");
        assert_eq!(with("dry", "false").unwrap().unwrap()["dry"], false);
        assert_eq!(with("zones", "[\"b\"]").unwrap().unwrap()["zones"], json!(["b"]));
        for (name, text) in [("team", "sales"), ("zones", "[b"), ("budget", "many")] {
            let refused = with(name, text).unwrap_err();
            assert_eq!(refused.code_str(), "bad_payload");
            assert!(refused.message().starts_with(&format!("payload.{name}: ")), "{refused}");
        }
        assert_eq!(changed(&payload, None, &[("note".to_owned(), String::new())]).unwrap(), None);
    }
}
