//! Starting a job from a Topic: the possible kinds, each with its form.

use serde_json::json;
use warp::reply::Response;

use crate::api::topics::Topic;
use crate::base::{Error, Result, TopicId};
use crate::flows::jobs::JobRequest;
use crate::flows::{self, Site};
use crate::http::pages::Frame;
use crate::http::pages::parts::fields::{self, Field, Offer, PREFIX, Refused};
use crate::http::pages::parts::form;
use crate::http::pages::parts::schedule_fields::{self, Turn};
use crate::http::pages::topics::thread;
use crate::http::{Call, reply};
use crate::people::Person;
use crate::script::{Input, InputType, Kind, Lane, Produces};

/// Largest form, with the text of an input.
const BODY_BYTES_MAX: usize = crate::base::limit::MESSAGE_BODY_BYTES_MAX;

/// A kind that accepts a Topic.
pub(in crate::http::pages) struct Start {
    pub(in crate::http::pages) name: String,
    pub(in crate::http::pages) about: String,
    /// Whether it can settle several Topics with one text.
    pub(in crate::http::pages) is_several: bool,
    /// Its inputs besides the Topic.
    pub(in crate::http::pages) fields: Vec<Field>,
    pub(in crate::http::pages) turn: Turn,
    /// Whether its jobs need the document exclusively.
    pub(in crate::http::pages) takes_source: bool,
    /// Whether it applies suggestions without a model.
    pub(in crate::http::pages) applies: bool,
}

impl Start {
    /// Returns whether a person must fill in or correct something.
    pub(in crate::http::pages) fn asks(&self) -> bool {
        self.fields.iter().any(|it| it.is_required || it.refusal.is_some())
    }
}

/// Returns the kinds that accept a Topic, each with its form.
pub(in crate::http::pages) async fn starts(
    site: &Site,
    person: &Person,
    others: &[Topic],
    refused: Option<&Refused>,
) -> Vec<Start> {
    let personas = fields::personas(site).await;
    let offer = Offer { topics: others, personas: &personas };
    let taking = site.config.kinds.values().filter_map(|it| Some((it, topic_input(it)?)));
    let start = |(kind, own): (&Kind, &Input)| Start {
        name: kind.name.clone(),
        about: kind.about.clone(),
        is_several: takes_several(kind),
        fields: fields::of(kind, Some(own), &offer, refused),
        turn: Turn::of(kind, person, refused),
        takes_source: takes_source(kind, own),
        applies: flows::proposals::suggestions::applies(&site.config, kind),
    };
    taking.map(start).collect()
}

fn takes_several(kind: &Kind) -> bool {
    kind.produces == Some(Produces::Proposal) && kind.input("topic_ids").is_none()
}

/// Returns the input of a kind that takes the Topic.
pub(in crate::http::pages) fn topic_input(kind: &Kind) -> Option<&Input> {
    kind.inputs.iter().find(|it| it.ty == InputType::Topic)
}

/// Returns whether the lane of a kind is the Topic's document.
fn takes_source(kind: &Kind, own: &Input) -> bool {
    let lane = kind.lane.as_ref().and_then(Lane::input).and_then(|it| kind.input(it));
    lane.is_some_and(|it| it.ty == InputType::Source && it.from.as_ref() == Some(&own.name))
}

/// Starts a job on a Topic from the form of its kind.
pub(in crate::http::pages) async fn start(site: Site, mut call: Call) -> Result<Response> {
    let (sent, digest): (Vec<(String, String)>, _) = call.form_with_digest(BODY_BYTES_MAX).await?;
    let word = sent.iter().find(|it| it.0 == "key").map(|it| it.1.clone());
    let key = call.key_of_form(word.unwrap_or_default(), digest)?;
    let id: TopicId = call.param("id")?;
    let (frame, caller) = Frame::of(&site, &call, "/topics")?;
    let (kind, request) = request(&site, &id, &sent)?;
    let at = thread::at(&id);
    let made = match schedule_fields::in_turn(request, &sent) {
        Ok(request) => flows::jobs::create(&site, &caller, request, Some(key)).await,
        Err(cause) => Err(cause),
    };
    let cause = match made {
        Ok(job) => return reply::see_other(&format!("{at}#job-{job}")),
        Err(cause) => cause,
    };
    let refused = Refused { kind: kind.name.clone(), cause, sent };
    if refused.is_of_field(kind, topic_input(kind)) || schedule_fields::is_meant(&refused) {
        return thread::refused(&site, (frame, caller), &id, refused).await;
    }
    let back = thread::back(&site, &id);
    form::answer(Err(refused.cause), |()| at, back, fields::typed(&refused.sent))
}

/// Turns the fields of a form into a request for a job.
fn request<'s>(
    site: &'s Site,
    id: &TopicId,
    sent: &[(String, String)],
) -> Result<(&'s Kind, JobRequest)> {
    let name = sent.iter().find(|it| it.0 == "kind").map_or("", |it| it.1.as_str());
    let kind = flows::requests::inputs::kind(site, name)?;
    let Some(own) = topic_input(kind) else {
        let message = format!("kind \"{}\" does not work on a Topic", kind.name);
        return Err(Error::invalid(message).code("bad_form"));
    };
    let mut inputs = fields::values(kind, Some(own), sent)?;
    inputs.insert(own.name.clone(), json!(id));
    let (mut further, mut replace_proposals) = (Vec::new(), false);
    for (field, value) in sent {
        match field.as_str() {
            "key" | "kind" => {}
            "topic_ids" => further.extend(value.split_whitespace().map(str::to_owned)),
            "replace_proposals" => replace_proposals = true,
            other if other.starts_with(PREFIX) || schedule_fields::NAMES.contains(&other) => {}
            _ => return Err(fields::no_field(kind)),
        }
    }
    if !further.is_empty() {
        inputs.insert("topic_ids".to_owned(), json!(further));
    }
    let request = JobRequest {
        kind: kind.name.clone(),
        priority: None,
        not_before: None,
        replace_proposals,
        inputs,
    };
    Ok((kind, request))
}
