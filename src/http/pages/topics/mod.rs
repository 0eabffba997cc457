//! The list of Topics, and the form that opens one.

mod pending;
pub(in crate::http::pages) mod start_job;
pub(in crate::http::pages) mod suggested_passage;
pub(in crate::http::pages) mod suggestion;
pub(in crate::http::pages) mod thread;

use askama::Template;
use serde::Deserialize;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::topics::Topic;
use crate::base::{BlobId, Error, Result, SourcePath};
use crate::documents::Selection;
use crate::documents::anchor::QUOTE_NOT_FOUND;
use crate::flows::repository::read_version::require_same;
use crate::flows::topics::{TopicQuery, TopicRequest};
use crate::flows::{self, Site};
use crate::http::pages::Frame;
use crate::http::pages::parts::visible::{Name, Plain, Visible};
use crate::http::pages::parts::{form, labels};
use crate::http::pages::topics::thread::at;
use crate::http::{Call, any_of, get, post, reply};
use crate::people::Caller;
use crate::store::idempotency::Key;

/// Largest form of a message, a quote and its context: every byte may be percent-encoded.
const TOPIC_BODY_BYTES_MAX: usize = crate::base::limit::MESSAGE_BODY_BYTES_MAX;

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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewTopic {
    key: String,
    source_path: SourcePath,
    blob: BlobId,
    about: String,
    /// What its document was when it was read: see `ReadVersion`.
    #[serde(default)]
    seen: Option<String>,
    #[serde(default)]
    quote: String,
    #[serde(default)]
    prefix: String,
    #[serde(default)]
    suffix: String,
    body: String,
}

pub(super) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([get("/topics", site, list), post("/topics", site, open)])
}

async fn list(site: Site, call: Call) -> Result<Response> {
    let (mut frame, caller) = Frame::of(&site, &call, "/topics")?;
    let asked: TopicQuery = call.query()?;
    let (status, is_first) = (asked.status.clone(), asked.after.is_none());
    let source_path = asked.source_path.as_ref().map(ToString::to_string);
    let limit = asked.limit.map(|it| it.to_string());
    let found = flows::topics::list(&site, &caller, asked).await?;
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
    let paths = topics.iter().map(|it| it.source_path.as_str());
    frame.name_documents(&site, paths.chain(source_path.as_deref())).await;
    reply::page(&TopicsPage { frame, status, source_path, topics, is_first, next })
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

/// A passage of several lines comes with line feeds; in a document with `\r
/// `, it has those.
async fn open_as_sent(
    site: &Site,
    caller: &Caller,
    sent: &NewTopic,
    body: String,
    key: Key,
) -> Result<Topic> {
    if let Some(read) = &sent.seen {
        require_same(site, &sent.source_path, &read.parse()?).await?;
    }
    let quote = form::text(&sent.quote).trim_matches('\n').to_owned();
    let request = |quote: String| TopicRequest {
        source_path: sent.source_path.clone(),
        body: body.clone(),
        suggestion: None,
        propose: false,
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
        return Err(Error::invalid("the passage is missing")
            .code("no_selection")
            .hint("copy it from the text, or choose the whole document"));
    }
    let made = flows::topics::create(site, caller, request(quote.clone()), Some(key.clone())).await;
    match made {
        Err(cause) if cause.code_str() == QUOTE_NOT_FOUND && quote.contains('\n') => {
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
