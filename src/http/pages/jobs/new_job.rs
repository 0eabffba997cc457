//! Jobs without a Topic: the list of their kinds, and the form of each.

use std::time::Duration;

use askama::Template;
use serde::Deserialize;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::jobs::Holder;
use crate::api::sources::SourceRow;
use crate::api::topics::Topic;
use crate::base::{Result, SourcePath};
use crate::flows::jobs::JobRequest;
use crate::flows::sources::SourceQuery;
use crate::flows::topics::TopicQuery;
use crate::flows::{self, Site};
use crate::http::pages::Frame;
use crate::http::pages::parts::fields::{self, Field, Offer, PREFIX, Refused};
use crate::http::pages::parts::schedule_fields::{self, Turn};
use crate::http::pages::parts::time::span;
use crate::http::pages::parts::visible::{Name, Plain, Visible, invisible_name};
use crate::http::pages::parts::{form, holder, labels};
use crate::http::pages::topics::start_job::topic_input;
use crate::http::{Call, any_of, get, post, reply};
use crate::people::Caller;
use crate::script::{Input, Kind, Lane, OnBusy, Produces};

/// Largest form, with the text of an input.
const BODY_BYTES_MAX: usize = crate::base::limit::MESSAGE_BODY_BYTES_MAX;
/// Documents and Topics offered by a form.
const OFFERED_MAX: u32 = 200;

#[derive(Template)]
#[template(path = "new-job.html")]
struct NewJobPage {
    frame: Frame,
    /// The document that the reader comes from.
    source_path: Option<String>,
    chosen: Option<Chosen>,
    /// Kinds without a Topic.
    kinds: Vec<KindRow>,
    /// Kinds that are started on a Topic's page.
    on_topics: Vec<KindRow>,
}

impl NewJobPage {
    fn at(&self, kind: Option<&str>) -> String {
        form::address("/jobs/new", &[("kind", kind), ("source_path", self.source_path.as_deref())])
    }

    /// Returns where the Topics to start a job from are listed.
    fn topics_at(&self) -> String {
        let path = self.source_path.as_deref();
        form::address("/topics", &[("status", Some("open")), ("source_path", path)])
    }
}

/// A kind in the list.
struct KindRow {
    name: String,
    about: String,
    /// What a job of it produces.
    makes: Option<&'static str>,
    engine: String,
    timeout: Duration,
}

impl KindRow {
    fn of(kind: &Kind) -> KindRow {
        KindRow {
            name: kind.name.clone(),
            about: kind.about.clone(),
            makes: kind.produces.map(makes),
            engine: kind.engine.clone(),
            timeout: kind.timeout,
        }
    }

    fn limit(&self) -> String {
        span(i64::try_from(self.timeout.as_millis()).unwrap_or(i64::MAX))
    }
}

fn makes(produces: Produces) -> &'static str {
    match produces {
        Produces::Proposal => "Proposes a change for review",
        Produces::Perspective => "Generates a view of a document",
        Produces::Message => "Replies in a Topic",
        Produces::Result => "Returns a result",
        Produces::Topic => "Opens Topics on documents",
    }
}

/// The kind of the form.
struct Chosen {
    row: KindRow,
    /// Whether it is started from a Topic, and so not here.
    needs_topic: bool,
    fields: Vec<Field>,
    /// Paths that its form offers for a document.
    sources: Vec<String>,
    turn: Turn,
    /// The job that must end before another one on the document starts.
    holder: Option<Holder>,
    /// Why the form was refused, if no field shows it.
    refusal: Option<String>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    kind: Option<String>,
    source_path: Option<String>,
}

pub(in crate::http::pages) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([get("/jobs/new", site, show), post("/jobs", site, start)])
}

async fn show(site: Site, call: Call) -> Result<Response> {
    let (frame, caller) = Frame::of(&site, &call, "/jobs")?;
    let given = |it: Option<String>| it.filter(|it| !it.trim().is_empty());
    let asked: Asked = call.query()?;
    let asked = Asked { kind: given(asked.kind), source_path: given(asked.source_path) };
    reply::page(&page(&site, (frame, caller), asked, None).await?)
}

/// Returns whether a job of a kind can be started without a Topic.
fn is_free(kind: &Kind) -> bool {
    topic_input(kind).is_none_or(|it| !it.required)
}

/// Returns the input of a kind that takes the document.
fn source_input(kind: &Kind) -> Option<&Input> {
    kind.source_input(|it| it.from.is_none())
}

async fn page(
    site: &Site,
    (mut frame, caller): (Frame, Caller),
    asked: Asked,
    refused: Option<&Refused>,
) -> Result<NewJobPage> {
    frame.name_documents(site, asked.source_path.as_deref()).await;
    let is_of_document = |it: &Kind| asked.source_path.is_none() || source_input(it).is_some();
    let (free, on_topics): (Vec<&Kind>, Vec<&Kind>) =
        site.config.kinds.values().filter(|it| !it.takes_messages()).partition(|it| is_free(it));
    let free: Vec<&Kind> = free.into_iter().filter(|it| is_of_document(it)).collect();
    let chosen = match &asked.kind {
        None => None,
        Some(name) => {
            let kind = flows::requests::inputs::asked_kind(site, name)?;
            Some(chosen(site, &caller, kind, asked.source_path.as_deref(), refused).await?)
        }
    };
    Ok(NewJobPage {
        frame,
        chosen,
        source_path: asked.source_path,
        kinds: free.into_iter().map(KindRow::of).collect(),
        on_topics: on_topics.into_iter().map(KindRow::of).collect(),
    })
}

async fn chosen(
    site: &Site,
    caller: &Caller,
    kind: &Kind,
    source_path: Option<&str>,
    refused: Option<&Refused>,
) -> Result<Chosen> {
    let topics: Vec<Topic> = match topic_input(kind) {
        Some(_) if is_free(kind) => {
            let status = Some("open".to_owned());
            let query = TopicQuery { status, limit: Some(OFFERED_MAX), ..TopicQuery::default() };
            flows::topics::list(site, caller, query).await?.items
        }
        _ => Vec::new(),
    };
    let personas = fields::personas(site).await;
    let offer = Offer { topics: &topics, personas: &personas };
    let mut fields = fields::of(kind, None, &offer, refused);
    let source = source_input(kind);
    if let (Some(source), Some(path), None) = (source, source_path, refused) {
        let name = format!("{PREFIX}{}", source.name);
        if let Some(field) = fields.iter_mut().find(|it| it.name == name) {
            path.clone_into(&mut field.value);
        }
    }
    let sources = match source {
        None => Vec::new(),
        Some(_) => {
            let query = SourceQuery { limit: Some(OFFERED_MAX), ..SourceQuery::default() };
            let found = flows::sources::list(site, caller, query).await?;
            // Invisible names cannot be chosen, but they can be typed.
            let is_plain =
                |it: &SourceRow| !it.path.as_str().chars().any(|it| invisible_name(it).is_some());
            let tracked = found.items.into_iter().filter(|it| it.tracked && is_plain(it));
            tracked.map(|it| it.path.to_string()).collect()
        }
    };
    let is_said = |it: &Refused| it.is_of_field(kind, None) || schedule_fields::is_meant(it);
    let refusal = refused.filter(|it| !is_said(it)).map(Refused::sentence);
    Ok(Chosen {
        row: KindRow::of(kind),
        needs_topic: !is_free(kind),
        fields,
        sources,
        turn: Turn::of(kind, caller.person()?, refused),
        holder: holder_of(site, caller, kind, source_path).await?,
        refusal,
    })
}

/// Returns the job that holds the form's document, if it would be in the way. A kind that queues
/// waits for it, and its page says so.
async fn holder_of(
    site: &Site,
    caller: &Caller,
    kind: &Kind,
    source_path: Option<&str>,
) -> Result<Option<Holder>> {
    let lane = kind.lane.as_ref().and_then(Lane::input);
    let takes = source_input(kind).is_some_and(|it| lane == Some(it.name.as_str()));
    let path = source_path.and_then(|it| it.parse::<SourcePath>().ok());
    match path {
        Some(path) if takes && kind.on_busy == OnBusy::Reject => {
            holder::of(site, caller, &path).await
        }
        _ => Ok(None),
    }
}

/// Starts a job from the form of its kind.
async fn start(site: Site, mut call: Call) -> Result<Response> {
    let (sent, digest): (Vec<(String, String)>, _) = call.form_with_digest(BODY_BYTES_MAX).await?;
    let field = |name: &str| sent.iter().find(|it| it.0 == name).map(|it| it.1.clone());
    let key = call.key_of_form(field("key").unwrap_or_default(), digest)?;
    let kind = flows::requests::inputs::asked_kind(&site, &field("kind").unwrap_or_default())?;
    let is_known = |it: &str| it == "key" || it == "kind" || schedule_fields::NAMES.contains(&it);
    if sent.iter().any(|(it, _)| !is_known(it) && !it.starts_with(PREFIX)) {
        return Err(fields::no_field(kind));
    }
    let inputs = fields::values(kind, None, &sent)?;
    let (frame, caller) = Frame::of(&site, &call, "/jobs")?;
    let request = JobRequest {
        kind: kind.name.clone(),
        priority: None,
        not_before: None,
        replace_proposals: false,
        inputs,
    };
    let made = match schedule_fields::in_turn(request, &sent) {
        Ok(request) => flows::jobs::create(&site, &caller, request, Some(key)).await,
        Err(cause) => Err(cause),
    };
    match made {
        Ok(job) => reply::see_other(&format!("/jobs/{job}")),
        Err(cause) => {
            let asked = Asked { kind: Some(kind.name.clone()), source_path: None };
            let refused = Refused { kind: kind.name.clone(), cause, sent };
            let page = page(&site, (frame, caller), asked, Some(&refused)).await?;
            reply::refused(&page, &refused.cause)
        }
    }
}
