//! Proposals and the decisions on them.

use hyper::StatusCode;
use serde::Deserialize;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::base::{ProposalId, Result};
use crate::flows::proposals::approve::ApproveRequest;
use crate::flows::{self, Site};
use crate::http::{Call, any_of, get, post, reply};

/// Largest decision, with a reason or a commit message.
const DECISION_BODY_BYTES_MAX: usize = crate::base::limit::DECISION_BODY_BYTES_MAX;
/// An edited text in JSON.
const PROPOSAL_BODY_BYTES_MAX: usize = crate::base::limit::PROPOSAL_BODY_BYTES_MAX;

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct ById {
    id: ProposalId,
}

pub(in crate::http) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        get("/api/proposals", site, async |site: Site, call| {
            reply::ok(&flows::proposals::list(&site, &call.caller()?, call.query()?).await?)
        }),
        post("/api/proposals", site, propose),
        get("/api/proposals/{id}", site, async |site: Site, call| {
            let id = call.param("id")?;
            let query = call.query()?;
            reply::ok(&flows::proposals::show(&site, &call.caller()?, &id, query).await?)
        }),
        get("/api/agent/proposal", site, async |site: Site, call| {
            let query: ById = call.query()?;
            reply::ok(
                &flows::proposals::rework::for_agent(&site, &call.caller()?, &query.id).await?,
            )
        }),
        post("/api/proposals/{id}/approve", site, approve),
        post("/api/proposals/{id}/reject", site, reject),
        post("/api/proposals/{id}/rework", site, rework),
        post("/api/proposals/{id}/edit", site, edit),
    ])
}

async fn propose(site: Site, mut call: Call) -> Result<Response> {
    let (request, key) = call.json_with_key(PROPOSAL_BODY_BYTES_MAX).await?;
    let made =
        flows::requests::without_topic::propose(&site, &call.caller()?, request, key).await?;
    reply::json(StatusCode::CREATED, &made)
}

async fn approve(site: Site, mut call: Call) -> Result<Response> {
    let (request, key): (ApproveRequest, _) = call.json_with_key(DECISION_BODY_BYTES_MAX).await?;
    let id = call.param("id")?;
    reply::ok(&flows::proposals::approve::approve(&site, &call.caller()?, &id, request, key).await?)
}

async fn reject(site: Site, mut call: Call) -> Result<Response> {
    let request = call.json(DECISION_BODY_BYTES_MAX).await?;
    let id = call.param("id")?;
    reply::ok(&flows::proposals::reject(&site, &call.caller()?, &id, request).await?)
}

async fn rework(site: Site, mut call: Call) -> Result<Response> {
    let (request, key) = call.json_with_key(DECISION_BODY_BYTES_MAX).await?;
    let id = call.param("id")?;
    let asked = flows::proposals::rework::ask(&site, &call.caller()?, &id, request, key).await?;
    reply::json(StatusCode::ACCEPTED, &asked)
}

async fn edit(site: Site, mut call: Call) -> Result<Response> {
    let (request, key) = call.json_with_key(PROPOSAL_BODY_BYTES_MAX).await?;
    let id = call.param("id")?;
    let made = flows::proposals::edit::edit(&site, &call.caller()?, &id, request, key).await?;
    reply::json(StatusCode::CREATED, &made)
}
