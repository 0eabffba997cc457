//! The form of a kind: a field for each input, its value, and its error.

use serde_json::{Map, Value};

use crate::api::topics::Topic;
use crate::base::{Error, Result};
use crate::flows;
use crate::flows::Site;
use crate::flows::requests::inputs::{BAD_INPUT, MISSING_INPUT};
use crate::http::pages::parts::form;
use crate::script::{Input, InputType, Kind};

/// The prefix of an input's name in a form.
pub(in crate::http::pages) const PREFIX: &str = "input.";

/// An input as a field of a form: `fields.html` shows it.
pub(in crate::http::pages) struct Field {
    /// Its name in the form.
    pub(in crate::http::pages) name: String,
    /// Its label.
    pub(in crate::http::pages) label: String,
    pub(in crate::http::pages) about: Option<String>,
    /// `line`, `source`, `text`, `number`, `choice` or `flag`.
    pub(in crate::http::pages) sort: &'static str,
    /// The choices: value and label.
    pub(in crate::http::pages) choices: Vec<(String, String)>,
    /// Its value: the default, or what was typed before the refusal.
    pub(in crate::http::pages) value: String,
    pub(in crate::http::pages) is_required: bool,
    pub(in crate::http::pages) min: Option<f64>,
    pub(in crate::http::pages) max: Option<f64>,
    /// The error of the typed value.
    pub(in crate::http::pages) refusal: Option<String>,
}

/// A form that was sent and refused.
pub(in crate::http::pages) struct Refused {
    /// The requested kind.
    pub(in crate::http::pages) kind: String,
    pub(in crate::http::pages) cause: Error,
    /// The fields as sent.
    pub(in crate::http::pages) sent: Vec<(String, String)>,
}

impl Refused {
    /// Returns the error for the head of the form: message and hint.
    pub(in crate::http::pages) fn sentence(&self) -> String {
        let hint = self.cause.hint_str().map(|it| format!(": {it}")).unwrap_or_default();
        format!("{}{hint}", self.cause.message())
    }

    /// Returns whether a field shows the error.
    pub(in crate::http::pages) fn is_of_field(&self, kind: &Kind, own: Option<&Input>) -> bool {
        let name = self.cause.input_str();
        kind.name == self.kind && asked(kind, own).any(|it| Some(it.name.as_str()) == name)
    }
}

/// The choices for fields.
pub(in crate::http::pages) struct Offer<'o> {
    /// Open Topics.
    pub(in crate::http::pages) topics: &'o [Topic],
    /// Names of personas; empty if their folder cannot be read, and then names are typed and
    /// checked when the job starts.
    pub(in crate::http::pages) personas: &'o [String],
}

/// Returns the names of the site's personas.
pub(in crate::http::pages) async fn personas(site: &Site) -> Vec<String> {
    let all = flows::perspectives::personas::all(site).await.unwrap_or_default();
    all.into_iter().filter(|it| it.found.is_ok()).map(|it| it.name).collect()
}

/// Returns the inputs that a person fills in: without the one given by the page (`own`) and the
/// computed ones.
fn asked<'k>(kind: &'k Kind, own: Option<&'k Input>) -> impl Iterator<Item = &'k Input> {
    let is_own = move |it: &Input| own.is_some_and(|own| own.name == it.name);
    kind.inputs.iter().filter(move |it| !is_own(it) && !it.ty.is_computed() && it.from.is_none())
}

/// Returns the fields of a kind's form; after a refusal with the typed values.
pub(in crate::http::pages) fn of(
    kind: &Kind,
    own: Option<&Input>,
    offer: &Offer<'_>,
    refused: Option<&Refused>,
) -> Vec<Field> {
    let refused = refused.filter(|it| it.kind == kind.name);
    let fields = asked(kind, own).map(|input| {
        let field = blank(input, offer);
        match refused {
            Some(refused) => filled(field, input, refused),
            None => field,
        }
    });
    fields.collect()
}

fn blank(input: &Input, offer: &Offer<'_>) -> Field {
    let same = |all: &[String]| all.iter().map(|it| (it.clone(), it.clone())).collect();
    let (sort, choices) = match input.ty {
        InputType::Text => ("text", Vec::new()),
        InputType::Number => ("number", Vec::new()),
        InputType::Flag => ("flag", Vec::new()),
        InputType::Choice => ("choice", same(&input.choices)),
        InputType::Persona if !offer.personas.is_empty() => ("choice", same(offer.personas)),
        InputType::Topic => {
            let title = |it: &Topic| (it.id.to_string(), it.title.clone());
            ("choice", offer.topics.iter().map(title).collect())
        }
        InputType::Source => ("source", Vec::new()),
        _ => ("line", Vec::new()),
    };
    Field {
        name: format!("{PREFIX}{}", input.name),
        label: titled(&input.name),
        about: input.about.clone(),
        sort,
        choices,
        value: input.default.clone().unwrap_or_default(),
        is_required: input.required,
        min: input.min,
        max: input.max,
        refusal: None,
    }
}

/// Returns the label of an input: `source_path` becomes *Source path*.
fn titled(name: &str) -> String {
    let mut words = name.replace('_', " ");
    if let Some(first) = words.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    words
}

fn filled(field: Field, input: &Input, refused: &Refused) -> Field {
    let typed = refused.sent.iter().find(|(name, _)| *name == field.name);
    let value = match (typed, input.ty) {
        (Some((_, typed)), _) => form::text(typed),
        (None, InputType::Flag) => "false".to_owned(),
        (None, _) => String::new(),
    };
    let is_meant = refused.cause.input_str() == Some(input.name.as_str());
    let refusal = is_meant.then(|| said(input, &refused.cause));
    Field { value, refusal, ..field }
}

/// Returns the error of a field without the field's name, which is next to it.
fn said(input: &Input, cause: &Error) -> String {
    if cause.code_str() == MISSING_INPUT {
        return "this field is required".to_owned();
    }
    let message = cause.message();
    let named = format!("input `{}` ", input.name);
    let message = message.strip_prefix(&named).unwrap_or(message);
    match cause.hint_str() {
        // The hint of an invalid value repeats the field's description, which is shown as well.
        Some(hint) if cause.code_str() != BAD_INPUT => format!("{message}: {hint}"),
        _ => message.to_owned(),
    }
}

/// Returns the inputs from the fields of a kind's form. Fields without [`PREFIX`] are left to the
/// caller.
///
/// # Errors
/// `invalid` with code `bad_form` for a field that the form of the kind has not.
pub(in crate::http::pages) fn values(
    kind: &Kind,
    own: Option<&Input>,
    sent: &[(String, String)],
) -> Result<Map<String, Value>> {
    let mut inputs = Map::new();
    for flag in asked(kind, own).filter(|it| it.ty == InputType::Flag) {
        inputs.insert(flag.name.clone(), Value::Bool(false));
    }
    for (field, value) in sent {
        let Some(name) = field.strip_prefix(PREFIX) else { continue };
        let Some(input) = asked(kind, own).find(|it| it.name == name) else {
            return Err(no_field(kind));
        };
        if let Some(value) = given(input, value) {
            inputs.insert(input.name.clone(), value);
        }
    }
    Ok(inputs)
}

/// Returns the error for a field that the kind does not have.
pub(in crate::http::pages) fn no_field(kind: &Kind) -> Error {
    let message = format!("the form of kind \"{}\" has an unknown field", kind.name);
    Error::invalid(message).code("bad_form")
}

/// Returns the value of a field; `None` if it is empty.
fn given(input: &Input, value: &str) -> Option<Value> {
    let text = form::text(value);
    match input.ty {
        InputType::Flag => Some(Value::Bool(true)),
        InputType::Text if !text.trim().is_empty() => Some(Value::String(text)),
        InputType::Number if !text.trim().is_empty() => {
            // Text that is not a number is refused with the field's name, not treated as empty.
            let number = flows::requests::inputs::value_of_text(input, &text);
            Some(if number.is_null() { Value::String(text) } else { number })
        }
        _ if text.trim().is_empty() => None,
        _ => Some(flows::requests::inputs::value_of_text(input, text.trim())),
    }
}

/// Returns the typed text of a form, for an error page without the form.
pub(in crate::http::pages) fn typed(sent: &[(String, String)]) -> Option<String> {
    let inputs = sent.iter().filter(|it| it.0.starts_with(PREFIX) && !it.1.trim().is_empty());
    let typed: Vec<String> = inputs.map(|(_, value)| form::text(value)).collect();
    (!typed.is_empty()).then(|| typed.join("\n\n"))
}
