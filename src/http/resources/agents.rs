//! Agents that live on.

use hyper::StatusCode;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::agents::{PeekQuery, StartRequest, TurnsQuery};
use crate::api::handoffs::{HandoffQuery, HandoverRequest, RehydrateRequest, WriteHandoff};
use crate::api::promotion::PromoteRequest;
use crate::base::TurnId;
use crate::flows::{self, Site};
use crate::http::{Call, any_of, get, post, reply};

/// A body of some words.
const SMALL_BODY_BYTES_MAX: usize = 64 * 1024;
/// A handoff as JSON, every byte of it escaped.
const HANDOFF_BODY_BYTES_MAX: usize = 6 * 256 * 1024 + 4 * 1024;

pub(in crate::http) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        get("/api/agents", site, async |site: Site, call: Call| {
            reply::ok(&flows::agents::list(&site, &call.caller()?).await?)
        }),
        get("/api/agents/{name}", site, async |site: Site, call: Call| {
            let name = call.text_param("name")?;
            reply::ok(&flows::agents::show(&site, &call.caller()?, name).await?)
        }),
        get("/api/agents/{name}/peek", site, async |site: Site, call: Call| {
            let (name, query): (_, PeekQuery) = (call.text_param("name")?, call.query()?);
            reply::ok(&flows::agents::peek(&site, &call.caller()?, name, &query).await?)
        }),
        post("/api/agents/{name}/start", site, async |site: Site, mut call: Call| {
            let (request, _): (StartRequest, _) =
                call.json_or_nothing_with_key(SMALL_BODY_BYTES_MAX).await?;
            let (caller, name) = (call.caller()?, call.text_param("name")?);
            reply::ok(&flows::agents::start(&site, &caller, name, request).await?)
        }),
        post("/api/agents/{name}/stop", site, async |site: Site, mut call: Call| {
            call.nothing().await?;
            let name = call.text_param("name")?;
            reply::ok(&flows::agents::stop(&site, &call.caller()?, name).await?)
        }),
        post("/api/agents/{name}/restart", site, async |site: Site, mut call: Call| {
            call.nothing().await?;
            let name = call.text_param("name")?;
            reply::ok(&flows::agents::restart(&site, &call.caller()?, name).await?)
        }),
        post("/api/agents/{name}/interrupt", site, async |site: Site, mut call: Call| {
            call.nothing().await?;
            let name = call.text_param("name")?;
            reply::ok(&flows::agents::interrupt(&site, &call.caller()?, name).await?)
        }),
        get("/api/agents/{name}/promote", site, async |site: Site, call: Call| {
            let name = call.text_param("name")?;
            reply::ok(&flows::channels::promotion(&site, &call.caller()?, name).await?)
        }),
        post("/api/agents/{name}/promote", site, async |site: Site, mut call: Call| {
            let (request, key): (PromoteRequest, _) =
                call.json_or_nothing_with_key(SMALL_BODY_BYTES_MAX).await?;
            let (caller, name) = (call.caller()?, call.text_param("name")?);
            let made = flows::channels::promote(&site, &caller, name, request, key).await?;
            reply::json(StatusCode::CREATED, &made)
        }),
        get("/api/agents/{name}/turns", site, async |site: Site, call: Call| {
            let (name, query): (_, TurnsQuery) = (call.text_param("name")?, call.query()?);
            reply::ok(&flows::agents::turns(&site, &call.caller()?, name, query).await?)
        }),
        get("/api/turns/{id}", site, async |site: Site, call: Call| {
            let id: TurnId = call.param("id")?;
            reply::ok(&flows::agents::turn(&site, &call.caller()?, id).await?)
        }),
        handovers(site),
    ])
}

fn handovers(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        post("/api/agents/{name}/handover", site, async |site: Site, mut call: Call| {
            let (request, _): (HandoverRequest, _) =
                call.json_or_nothing_with_key(SMALL_BODY_BYTES_MAX).await?;
            let (caller, name) = (call.caller()?, call.text_param("name")?);
            let asked = flows::agents::handover(&site, &caller, name, request).await?;
            reply::json(StatusCode::ACCEPTED, &asked)
        }),
        post("/api/agents/{name}/rehydrate", site, async |site: Site, mut call: Call| {
            let (request, _): (RehydrateRequest, _) =
                call.json_or_nothing_with_key(SMALL_BODY_BYTES_MAX).await?;
            let (caller, name) = (call.caller()?, call.text_param("name")?);
            let told = flows::agents::rehydrate(&site, &caller, name, request).await?;
            reply::json(StatusCode::ACCEPTED, &told)
        }),
        post("/api/handoffs", site, async |site: Site, mut call: Call| {
            let request: WriteHandoff = call.json(HANDOFF_BODY_BYTES_MAX).await?;
            let written = flows::agents::write_handoff(&site, &call.caller()?, request).await?;
            reply::json(StatusCode::CREATED, &written)
        }),
        get("/api/handoffs/{file}", site, async |site: Site, call: Call| {
            let file = call.text_param("file")?;
            reply::ok(&flows::agents::read_handoff(&site, &call.caller()?, file).await?)
        }),
        get("/api/personas/{name}/handoffs", site, async |site: Site, call: Call| {
            let (name, query): (_, HandoffQuery) = (call.text_param("name")?, call.query()?);
            reply::ok(&flows::agents::list_handoffs(&site, &call.caller()?, name, query).await?)
        }),
    ])
}
