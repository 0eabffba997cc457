//! Starting a job from a Topic: the form of each kind, made from its declared inputs.

use serde_json::{Map, Value, json};
use warp::reply::Response;

use crate::base::{Error, Result, TopicId};
use crate::flows::jobs::JobRequest;
use crate::flows::{self, Site};
use crate::http::pages::form;
use crate::http::pages::view::Topic;
use crate::http::{Call, reply};
use crate::script::{Input, InputType, Kind, Lane, Produces};

/// A form with the text of an input.
const BODY_BYTES_MAX: usize = crate::base::limit::MESSAGE_BODY_BYTES_MAX;
/// What stands before the name of an input in a form.
const PREFIX: &str = "input.";

/// A kind that a Topic can be given to.
pub(super) struct Start {
    pub(super) name: String,
    pub(super) about: String,
    /// Whether it can settle several Topics with one text.
    pub(super) is_several: bool,
    /// What a person gives it beside the Topic.
    pub(super) fields: Vec<Field>,
    /// Whether its jobs need the document for themselves.
    pub(super) takes_source: bool,
}

impl Start {
    /// Returns whether a person has to fill in something.
    pub(super) fn asks(&self) -> bool {
        self.fields.iter().any(|it| it.is_required)
    }
}

/// An input as a field of a form.
pub(super) struct Field {
    /// Its name in the form.
    pub(super) name: String,
    /// What it is called.
    pub(super) label: String,
    pub(super) about: Option<String>,
    /// `line`, `text`, `number`, `choice` or `flag`.
    pub(super) sort: &'static str,
    /// What can be chosen: the value and what it is called.
    pub(super) choices: Vec<(String, String)>,
    pub(super) default: String,
    pub(super) is_required: bool,
    pub(super) min: Option<f64>,
    pub(super) max: Option<f64>,
}

/// Returns the kinds that a Topic can be given to, each with its form.
pub(super) async fn starts(site: &Site, others: &[Topic]) -> Vec<Start> {
    // A folder that cannot be read leaves the name to be typed; the job's start says what is wrong.
    let personas = flows::personas::all(site).await.unwrap_or_default();
    let personas: Vec<String> =
        personas.into_iter().filter(|it| it.found.is_ok()).map(|it| it.name).collect();
    let taking = site.config.kinds.values().filter_map(|it| Some((it, topic_input(it)?)));
    let start = |(kind, own): (&Kind, &Input)| Start {
        name: kind.name.clone(),
        about: kind.about.clone(),
        is_several: takes_several(kind),
        fields: asked(kind, own).map(|it| field(it, others, &personas)).collect(),
        takes_source: takes_source(kind, own),
    };
    taking.map(start).collect()
}

fn takes_several(kind: &Kind) -> bool {
    kind.produces == Some(Produces::Proposal) && kind.input("topic_ids").is_none()
}

/// Returns the input of a kind that takes the Topic.
fn topic_input(kind: &Kind) -> Option<&Input> {
    kind.inputs.iter().find(|it| it.ty == InputType::Topic)
}

/// Returns the inputs that a person is asked for.
fn asked<'k>(kind: &'k Kind, own: &'k Input) -> impl Iterator<Item = &'k Input> {
    let is_given = |it: &&Input| it.name == own.name || it.ty.is_computed() || it.from.is_some();
    kind.inputs.iter().filter(move |it| !is_given(it))
}

/// Returns whether the lane of a kind is the document of the Topic.
fn takes_source(kind: &Kind, own: &Input) -> bool {
    let lane = kind.lane.as_ref().and_then(Lane::input).and_then(|it| kind.input(it));
    lane.is_some_and(|it| it.ty == InputType::Source && it.from.as_ref() == Some(&own.name))
}

fn field(input: &Input, others: &[Topic], personas: &[String]) -> Field {
    let same = |all: &[String]| all.iter().map(|it| (it.clone(), it.clone())).collect();
    let (sort, choices) = match input.ty {
        InputType::Text => ("text", Vec::new()),
        InputType::Number => ("number", Vec::new()),
        InputType::Flag => ("flag", Vec::new()),
        InputType::Choice => ("choice", same(&input.choices)),
        InputType::Persona if !personas.is_empty() => ("choice", same(personas)),
        InputType::Topic => {
            ("choice", others.iter().map(|it| (it.id.clone(), it.title.clone())).collect())
        }
        _ => ("line", Vec::new()),
    };
    Field {
        name: format!("{PREFIX}{}", input.name),
        label: input.name.replace('_', " "),
        about: input.about.clone(),
        sort,
        choices,
        default: input.default.clone().unwrap_or_default(),
        is_required: input.required,
        min: input.min,
        max: input.max,
    }
}

/// Starts a job on a Topic as its form says.
pub(super) async fn start(site: Site, mut call: Call) -> Result<Response> {
    let (fields, digest): (Vec<(String, String)>, _) =
        call.form_with_digest(BODY_BYTES_MAX).await?;
    let word = fields.iter().find(|it| it.0 == "key").map(|it| it.1.clone());
    let key = call.key_of_form(word.unwrap_or_default(), digest)?;
    let (id, caller): (TopicId, _) = (call.param("id")?, call.caller()?);
    let request = request(&site, &id, &fields)?;
    let typed = fields.iter().filter(|it| it.0.starts_with(PREFIX) && !it.1.trim().is_empty());
    let typed: Vec<String> = typed.map(|(_, value)| form::text(value)).collect();
    let typed = (!typed.is_empty()).then(|| typed.join("\n\n"));
    let at = format!("/topics/{id}");
    match flows::jobs::create(&site, &caller, request, Some(key)).await {
        Ok(job) => reply::see_other(&format!("{at}#job-{job}")),
        Err(cause) => form::answer(Err(cause), |()| at.clone(), at.clone(), typed),
    }
}

/// Turns the fields of a form into what a job is asked with.
fn request(site: &Site, id: &TopicId, fields: &[(String, String)]) -> Result<JobRequest> {
    let name = fields.iter().find(|it| it.0 == "kind").map_or("", |it| it.1.as_str());
    let kind = flows::inputs::kind(site, name)?;
    let Some(own) = topic_input(kind) else {
        let message = format!("kind \"{}\" takes no topic", kind.name);
        return Err(Error::invalid(message).code("bad_form"));
    };
    let mut inputs = Map::from_iter([(own.name.clone(), json!(id))]);
    let (mut further, mut replace_proposals) = (Vec::new(), false);
    for flag in asked(kind, own).filter(|it| it.ty == InputType::Flag) {
        inputs.insert(flag.name.clone(), Value::Bool(false));
    }
    for (field, value) in fields {
        match field.as_str() {
            "key" | "kind" => {}
            "topic_ids" => further.extend(value.split_whitespace().map(str::to_owned)),
            "replace_proposals" => replace_proposals = true,
            other => {
                let input = other.strip_prefix(PREFIX);
                let input = input.and_then(|name| asked(kind, own).find(|it| it.name == name));
                let Some(input) = input else {
                    let message = format!("the form of kind \"{}\" has no such field", kind.name);
                    return Err(Error::invalid(message).code("bad_form"));
                };
                if let Some(value) = given(input, value) {
                    inputs.insert(input.name.clone(), value);
                }
            }
        }
    }
    if !further.is_empty() {
        inputs.insert("topic_ids".to_owned(), json!(further));
    }
    Ok(JobRequest {
        kind: kind.name.clone(),
        priority: None,
        not_before: None,
        replace_proposals,
        inputs,
    })
}

/// Returns the value of a field; nothing for one that was left empty.
fn given(input: &Input, value: &str) -> Option<Value> {
    let text = form::text(value);
    match input.ty {
        InputType::Flag => Some(Value::Bool(true)),
        InputType::Text if !text.trim().is_empty() => Some(Value::String(text)),
        InputType::Number if !text.trim().is_empty() => {
            // What is no number is refused by name, and not taken as if nothing had been typed.
            let number = flows::inputs::value_of_text(input, &text);
            Some(if number.is_null() { Value::String(text) } else { number })
        }
        _ if text.trim().is_empty() => None,
        _ => Some(flows::inputs::value_of_text(input, text.trim())),
    }
}
