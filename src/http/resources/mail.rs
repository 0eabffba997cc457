//! Messages between addresses, inboxes, and what an instance says it came to.

use hyper::StatusCode;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::mail::{AwaitQuery, MessageQuery, MessageRead, SendRequest};
use crate::base::{JobId, MailId, Result, fault};
use crate::flows::{self, Site};
use crate::http::{Call, Edge, any_of, get, post, reply};

/// A payload of 256 KiB as JSON in JSON, every character of it escaped.
const SEND_BODY_BYTES_MAX: usize = 6 * flows::mail::PAYLOAD_BYTES_MAX + 4 * 1024;

pub(in crate::http) fn routes(edge: &Edge, site: &Site) -> BoxedFilter<(Response,)> {
    let waits = (edge.clone(), site.clone());
    any_of([
        post("/api/messages", site, send),
        get("/api/messages", site, async |site: Site, call| {
            let query: MessageQuery = call.query()?;
            reply::ok(&flows::mail::list(&site, &call.caller()?, query).await?)
        }),
        get("/api/messages/{id}", site, async |site: Site, call| {
            let id: MailId = call.param("id")?;
            reply::ok(&flows::mail::show(&site, &call.caller()?, &id).await?)
        }),
        get("/api/messages/{id}/await", &waits, async |(edge, site): (Edge, Site), call| {
            let (id, query): (MailId, AwaitQuery) = (call.param("id")?, call.query()?);
            let caller = call.caller()?;
            reply::ok(&flows::mail::wait(&site, &caller, (&id, &query), &edge.stop).await?)
        }),
        post("/api/messages/{id}/read", site, async |site: Site, mut call| {
            call.nothing().await?;
            let id: MailId = call.param("id")?;
            let was_unread = flows::mail::read(&site, &call.caller()?, &id).await?;
            reply::ok(&MessageRead { was_unread })
        }),
        post("/api/messages/{id}/resend", site, async |site: Site, mut call| {
            call.nothing().await?;
            let id: MailId = call.param("id")?;
            reply::ok(&flows::mail::resend(&site, &call.caller()?, &id).await?)
        }),
        post("/api/messages/{id}/settle", site, async |site: Site, mut call| {
            call.nothing().await?;
            let id: MailId = call.param("id")?;
            reply::ok(&flows::mail::settle(&site, &call.caller()?, &id).await?)
        }),
        get("/api/inboxes", site, async |site: Site, call| {
            reply::ok(&flows::mail::inboxes(&site, &call.caller()?).await?)
        }),
        get("/api/inboxes/{template}/{name}", site, async |site: Site, call| {
            let name = format!("{}/{}", call.text_param("template")?, call.text_param("name")?);
            reply::ok(&flows::mail::inbox(&site, &call.caller()?, &name).await?)
        }),
        post("/api/agent/inbox", &waits, async |(edge, site): (Edge, Site), mut call| {
            let query = call.json(4 * 1024).await?;
            let caller = call.caller()?;
            reply::ok(&flows::mail::pull(&site, &caller, &query, &edge.stop).await?)
        }),
        post("/api/agent/jobs/{id}/verdict", site, verdict),
    ])
}

async fn send(site: Site, mut call: Call) -> Result<Response> {
    let (request, key): (SendRequest, _) = call.json_with_key(SEND_BODY_BYTES_MAX).await?;
    let sent = flows::mail::send(&site, &call.caller()?, request, key).await?;
    fault::crash_point("before_answer");
    reply::json(StatusCode::ACCEPTED, &sent)
}

async fn verdict(site: Site, mut call: Call) -> Result<Response> {
    let request = call.json(SEND_BODY_BYTES_MAX).await?;
    let id: JobId = call.param("id")?;
    let taken = flows::instances::give(&site, &call.caller()?, &id, request).await?;
    reply::json(StatusCode::ACCEPTED, &taken)
}
