//! Topics, their messages, and questions of agents about them.

use hyper::StatusCode;
use serde::Deserialize;
use serde_json::Value;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::base::{Result, SourcePath, TopicId};
use crate::flows::repository::read_version::require_same;
use crate::flows::topics::{MessageRequest, TopicRequest};
use crate::flows::{self, Site};
use crate::http::{Call, any_of, get, post, reply};

/// Largest message in JSON: every character may be escaped with six bytes.
const MESSAGE_BODY_BYTES_MAX: usize = crate::base::limit::MESSAGE_BODY_BYTES_MAX;
/// Largest passage, context and reason in JSON.
const ANCHOR_BODY_BYTES_MAX: usize = 2 * MESSAGE_BODY_BYTES_MAX;
/// Largest proposed text in JSON with its anchors. Text of documents is rarely escaped.
const PROPOSAL_BODY_BYTES_MAX: usize = crate::base::limit::PROPOSAL_BODY_BYTES_MAX;

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct ById {
    id: TopicId,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct BySource {
    source_path: SourcePath,
}

pub(in crate::http) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        get("/api/topics", site, async |site: Site, call| {
            reply::ok(&flows::topics::list(&site, &call.caller()?, call.query()?).await?)
        }),
        post("/api/topics", site, create),
        get("/api/topics/{id}", site, async |site: Site, call| {
            let id = call.param("id")?;
            reply::ok(&flows::topics::show(&site, &call.caller()?, &id).await?)
        }),
        post("/api/topics/{id}/messages", site, message),
        get("/api/topics/{id}/annotation", site, async |site: Site, call| {
            let id = call.param("id")?;
            annotations(&flows::topics::export::one(&site, &call.caller()?, &id).await?)
        }),
        post("/api/topics/{id}/anchor", site, async |site: Site, mut call| {
            let request = call.json(ANCHOR_BODY_BYTES_MAX).await?;
            let id = call.param("id")?;
            reply::ok(
                &flows::topics::reattach::reattach(&site, &call.caller()?, &id, request).await?,
            )
        }),
        post("/api/topics/{id}/discard", site, async |site: Site, mut call| {
            let request = call.json(MESSAGE_BODY_BYTES_MAX).await?;
            let id = call.param("id")?;
            reply::ok(&flows::topics::discard(&site, &call.caller()?, &id, request).await?)
        }),
        post("/api/topics/{id}/reopen", site, async |site: Site, mut call| {
            let request = call.json(MESSAGE_BODY_BYTES_MAX).await?;
            let id = call.param("id")?;
            reply::ok(&flows::topics::reopen(&site, &call.caller()?, &id, request).await?)
        }),
        post("/api/topics/{id}/proposals", site, propose),
        get("/api/agent/topic", site, async |site: Site, call| {
            let query: ById = call.query()?;
            reply::ok(&flows::topics::for_agent(&site, &call.caller()?, &query.id).await?)
        }),
        get("/api/agent/open-topics", site, async |site: Site, call| {
            let query: BySource = call.query()?;
            let caller = call.caller()?;
            reply::ok(&flows::topics::open_for_agent(&site, &caller, &query.source_path).await?)
        }),
    ])
}

/// Responds in the standard's format.
pub(in crate::http) fn annotations(found: &Value) -> Result<Response> {
    let kind = "application/ld+json; profile=\"http://www.w3.org/ns/anno.jsonld\"";
    Ok(reply::typed(StatusCode::OK, kind, found.to_string().into_bytes()))
}

async fn create(site: Site, mut call: Call) -> Result<Response> {
    let (request, key): (TopicRequest, _) = call.json_with_key(MESSAGE_BODY_BYTES_MAX).await?;
    let (caller, starts) = (call.caller()?, request.propose);
    if let Some(read) = call.read_version()? {
        require_same(&site, &request.source_path, &read).await?;
    }
    let made = flows::topics::create(&site, &caller, request, key.clone()).await?;
    if !starts {
        return reply::json(StatusCode::CREATED, &made);
    }
    let id = made.id.clone();
    let started = flows::proposals::apply::apply(&site, &caller, &id, made, key.as_ref()).await;
    reply::json(StatusCode::CREATED, &started)
}

async fn message(site: Site, mut call: Call) -> Result<Response> {
    let (request, key): (MessageRequest, _) = call.json_with_key(MESSAGE_BODY_BYTES_MAX).await?;
    let (id, caller, starts) = (call.param("id")?, call.caller()?, request.propose);
    let made = flows::topics::post_message(&site, &caller, &id, request, key.clone()).await?;
    if !starts {
        return reply::json(StatusCode::CREATED, &made);
    }
    let started = flows::proposals::apply::apply(&site, &caller, &id, made, key.as_ref()).await;
    reply::json(StatusCode::CREATED, &started)
}

async fn propose(site: Site, mut call: Call) -> Result<Response> {
    let (request, key) = call.json_with_key(PROPOSAL_BODY_BYTES_MAX).await?;
    let id = call.param("id")?;
    let made = flows::proposals::submit::propose(&site, &call.caller()?, &id, request, key).await?;
    reply::json(StatusCode::CREATED, &made)
}
