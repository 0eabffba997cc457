//! Topics: their list, a thread with its proposals and jobs, and the forms that go with them.

use askama::Template;
use serde::Deserialize;
use serde_json::{Map, json};
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::base::{BlobId, Error, Result, SourcePath, TopicId};
use crate::documents::{Selection, Topic as OpenedTopic, TopicStatus};
use crate::flows::jobs::JobRequest;
use crate::flows::reattach::ReattachRequest;
use crate::flows::topics::{MessageRequest, ReasonRequest, TopicQuery, TopicRequest};
use crate::flows::{self, Site};
use crate::http::pages::jobs::{self, JobRow};
use crate::http::pages::view::{List, Topic, TopicView, read};
use crate::http::pages::visible::Visible;
use crate::http::pages::{Frame, form, words};
use crate::http::{Call, any_of, get, post, reply};
use crate::people::Caller;
use crate::script::{InputType, Kind, Produces};
use crate::store::idempotency::Key;

/// A message, a quote and its surroundings as a form: every byte may be escaped by three.
const TOPIC_BODY_BYTES_MAX: usize = crate::base::limit::MESSAGE_BODY_BYTES_MAX;
/// Most other Topics of a document that are offered beside one.
const OTHERS_SHOWN: u32 = 50;
const SMALL_BODY_BYTES_MAX: usize = 64 * 1024;

#[derive(Template)]
#[template(path = "topics.html")]
struct TopicsPage {
    frame: Frame,
    status: Option<String>,
    source_path: Option<String>,
    topics: Vec<Topic>,
    is_first: bool,
    next: Option<String>,
}

#[derive(Template)]
#[template(path = "topic.html")]
struct TopicPage {
    frame: Frame,
    view: TopicView,
    jobs: Vec<JobRow>,
    kinds: Vec<Start>,
    /// The other open Topics of its document.
    others: Vec<Topic>,
}

/// A kind that a Topic can be given to.
struct Start {
    name: String,
    about: String,
    /// Whether it can settle several Topics with one text.
    is_several: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewTopic {
    key: String,
    source_path: SourcePath,
    blob: BlobId,
    about: String,
    #[serde(default)]
    quote: String,
    #[serde(default)]
    prefix: String,
    #[serde(default)]
    suffix: String,
    body: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewMessage {
    key: String,
    body: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewJob {
    key: String,
    kind: String,
    /// Further Topics, separated by spaces.
    #[serde(default)]
    topic_ids: String,
    #[serde(default)]
    replace_proposals: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewPlace {
    quote: String,
    #[serde(default)]
    prefix: String,
    #[serde(default)]
    suffix: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Why {
    #[serde(default)]
    reason: String,
}

pub(super) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        get("/topics", site, list),
        post("/topics", site, open),
        get("/topics/{id}", site, show),
        post("/topics/{id}/messages", site, message),
        post("/topics/{id}/jobs", site, start),
        post("/topics/{id}/anchor", site, reattach),
        post("/topics/{id}/discard", site, async |site, call| {
            set_status(site, call, TopicStatus::Discarded).await
        }),
        post("/topics/{id}/reopen", site, async |site, call| {
            set_status(site, call, TopicStatus::Open).await
        }),
    ])
}

fn at(id: &TopicId) -> String {
    format!("/topics/{id}")
}

async fn list(site: Site, call: Call) -> Result<Response> {
    let (frame, caller) = Frame::of(&site, &call, "/topics")?;
    let asked: TopicQuery = call.query()?;
    let (status, is_first) = (asked.status.clone(), asked.after.is_none());
    let source_path = asked.source_path.as_ref().map(ToString::to_string);
    let limit = asked.limit.map(|it| it.to_string());
    let found: List<Topic> = read(flows::topics::list(&site, &caller, asked).await?)?;
    let next = found.next.map(|next| {
        let query = [
            ("status", status.as_deref()),
            ("source_path", source_path.as_deref()),
            ("after", Some(next.as_str())),
            ("limit", limit.as_deref()),
        ];
        form::address("/topics", &query)
    });
    let topics = found.items;
    reply::page(&TopicsPage { frame, status, source_path, topics, is_first, next })
}

async fn show(site: Site, call: Call) -> Result<Response> {
    let (frame, caller) = Frame::of(&site, &call, "/topics")?;
    let id: TopicId = call.param("id")?;
    let mut view: TopicView = read(flows::topics::show(&site, &caller, &id).await?)?;
    let found = std::mem::take(&mut view.jobs);
    let jobs = jobs::rows(found, frame.now());
    let kinds = site.config.kinds.values().filter(|it| topic_input(it).is_some());
    let start = |it: &Kind| Start {
        name: it.name.clone(),
        about: it.about.clone(),
        is_several: it.produces == Some(Produces::Proposal),
    };
    let kinds = kinds.map(start).collect();
    let query = TopicQuery {
        source_path: Some(view.topic.source_path.parse()?),
        status: Some(TopicStatus::Open.to_string()),
        limit: Some(OTHERS_SHOWN),
        ..TopicQuery::default()
    };
    let others: List<Topic> = read(flows::topics::list(&site, &caller, query).await?)?;
    let others = others.items.into_iter().filter(|it| it.id != view.topic.id).collect();
    reply::page(&TopicPage { frame, view, jobs, kinds, others })
}

/// Returns the input of a kind that takes a Topic, if a job needs nothing else from a person.
fn topic_input(kind: &Kind) -> Option<&str> {
    let mut topics = kind.inputs.iter().filter(|it| it.ty == InputType::Topic);
    let topic = topics.next()?;
    let is_enough = kind.inputs.iter().all(|it| {
        it.name == topic.name || !it.required || it.ty.is_computed() || it.from.is_some()
    });
    is_enough.then_some(topic.name.as_str())
}

async fn open(site: Site, mut call: Call) -> Result<Response> {
    let (sent, digest): (NewTopic, _) = call.form_with_digest(TOPIC_BODY_BYTES_MAX).await?;
    let key = call.key_of_form(sent.key.clone(), digest)?;
    let (caller, back) = (call.caller()?, form::document_at(sent.source_path.as_str()));
    let body = form::text(&sent.body);
    let typed = typed_topic(&sent, &body);
    let made = open_as_sent(&site, &caller, &sent, body, key).await;
    form::answer(made, |it| at(&it.id), back, Some(typed))
}

/// A passage over several lines comes with line feeds; a document with `\r\n` has it with these.
async fn open_as_sent(
    site: &Site,
    caller: &Caller,
    sent: &NewTopic,
    body: String,
    key: Key,
) -> Result<OpenedTopic> {
    let quote = form::text(&sent.quote).trim_matches('\n').to_owned();
    let request = |quote: String| TopicRequest {
        source_path: sent.source_path.clone(),
        body: body.clone(),
        selection: (sent.about != "whole").then(|| Selection::Words {
            blob: Some(sent.blob.clone()),
            quote,
            prefix: form::text(&sent.prefix),
            suffix: form::text(&sent.suffix),
        }),
        global: sent.about == "whole",
        title: None,
    };
    if sent.about != "whole" && quote.trim().is_empty() {
        return Err(Error::invalid("the words that it is about are missing")
            .code("no_selection")
            .hint("copy them from the text, or choose the whole document"));
    }
    let made = flows::topics::create(site, caller, request(quote.clone()), Some(key.clone())).await;
    match made {
        Err(cause) if cause.code_str() == "quote_not_found" && quote.contains('\n') => {
            let quote = quote.replace('\n', "\r\n");
            flows::topics::create(site, caller, request(quote), Some(key)).await
        }
        made => made,
    }
}

fn typed_topic(sent: &NewTopic, body: &str) -> String {
    let quote = form::text(&sent.quote);
    let quoted: String = quote.lines().map(|it| format!("> {it}\n")).collect();
    if quoted.is_empty() { body.to_owned() } else { format!("{quoted}\n{body}") }
}

async fn message(site: Site, mut call: Call) -> Result<Response> {
    let (sent, digest): (NewMessage, _) = call.form_with_digest(TOPIC_BODY_BYTES_MAX).await?;
    let key = call.key_of_form(sent.key, digest)?;
    let (id, caller): (TopicId, _) = (call.param("id")?, call.caller()?);
    let body = form::text(&sent.body);
    let request = MessageRequest { body: body.clone() };
    let made = flows::topics::post_message(&site, &caller, &id, request, Some(key)).await;
    let to = |it: crate::documents::Message| format!("{}#message-{}", at(&id), it.sequence);
    form::answer(made, to, at(&id), Some(body))
}

async fn start(site: Site, mut call: Call) -> Result<Response> {
    let (sent, digest): (NewJob, _) = call.form_with_digest(SMALL_BODY_BYTES_MAX).await?;
    let key = call.key_of_form(sent.key, digest)?;
    let (id, caller): (TopicId, _) = (call.param("id")?, call.caller()?);
    let kind = flows::inputs::kind(&site, &sent.kind)?;
    let Some(input) = topic_input(kind) else {
        let message = format!("kind \"{}\" needs more than a topic", kind.name);
        return Err(Error::invalid(message).code("missing_input"));
    };
    let mut inputs = Map::from_iter([(input.to_owned(), json!(id))]);
    let further: Vec<&str> = sent.topic_ids.split_whitespace().collect();
    if !further.is_empty() {
        inputs.insert("topic_ids".to_owned(), json!(further));
    }
    let request = JobRequest {
        kind: sent.kind.clone(),
        priority: None,
        not_before: None,
        replace_proposals: sent.replace_proposals.is_some(),
        inputs,
    };
    let made = flows::jobs::create(&site, &caller, request, Some(key)).await;
    form::answer(made, |job| format!("/jobs/{job}"), at(&id), None)
}

async fn reattach(site: Site, mut call: Call) -> Result<Response> {
    let sent: NewPlace = call.form(2 * TOPIC_BODY_BYTES_MAX).await?;
    let (id, caller): (TopicId, _) = (call.param("id")?, call.caller()?);
    let quote = form::text(&sent.quote).trim_matches('\n').to_owned();
    let request = |quote: String| ReattachRequest {
        selection: Selection::Words {
            blob: None,
            quote,
            prefix: form::text(&sent.prefix),
            suffix: form::text(&sent.suffix),
        },
        reason: None,
    };
    let done = flows::reattach::reattach(&site, &caller, &id, request(quote.clone())).await;
    let done = match done {
        // As when a Topic is opened: a document with `\r\n` has it with these.
        Err(cause) if cause.code_str() == "quote_not_found" && quote.contains('\n') => {
            let again = request(quote.replace('\n', "\r\n"));
            flows::reattach::reattach(&site, &caller, &id, again).await
        }
        done => done,
    };
    form::answer(done, |_| at(&id), at(&id), Some(quote))
}

async fn set_status(site: Site, mut call: Call, to: TopicStatus) -> Result<Response> {
    let sent: Why = call.form(TOPIC_BODY_BYTES_MAX).await?;
    let (id, caller): (TopicId, _) = (call.param("id")?, call.caller()?);
    let reason = form::optional(&sent.reason);
    let request = ReasonRequest { reason: reason.clone() };
    let done = match to {
        TopicStatus::Open => flows::topics::reopen(&site, &caller, &id, request).await,
        _ => flows::topics::discard(&site, &caller, &id, request).await.map(|it| it.topic),
    };
    form::answer(done, |_| at(&id), at(&id), reason)
}
