//! Approvals, their decisions, and the list of all decisions.

use hyper::StatusCode;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::base::Result;
use crate::base::limit::{APPROVAL_BODY_BYTES_MAX, DECISION_BODY_BYTES_MAX};
use crate::flows::approvals::decide::Answer;
use crate::flows::{self, Site};
use crate::http::{Call, Edge, any_of, get, post, reply};

pub(in crate::http) fn routes(edge: &Edge, site: &Site) -> BoxedFilter<(Response,)> {
    let waits = (edge.clone(), site.clone());
    any_of([
        get("/api/decisions", site, async |site: Site, call| {
            reply::ok(&flows::decisions::list(&site, &call.caller()?).await?)
        }),
        get("/api/approvals", site, async |site: Site, call| {
            reply::ok(&flows::approvals::show::list(&site, &call.caller()?, call.query()?).await?)
        }),
        post("/api/approvals", site, ask),
        get("/api/approvals/{id}", site, async |site: Site, call| {
            let id = call.param("id")?;
            reply::ok(&flows::approvals::show::show(&site, &call.caller()?, &id).await?)
        }),
        get("/api/approvals/{id}/await", &waits, outcome),
        post("/api/approvals/{id}/approve", site, async |site, call| {
            decide(site, call, Answer::Approve).await
        }),
        post("/api/approvals/{id}/reject", site, async |site, call| {
            decide(site, call, Answer::Reject).await
        }),
        post("/api/approvals/{id}/withdraw", site, withdraw),
        post("/api/agent/permissions", site, request),
        post("/api/agent/permissions/{id}/answer", site, answer),
    ])
}

async fn ask(site: Site, mut call: Call) -> Result<Response> {
    let (request, key) = call.json_with_key(APPROVAL_BODY_BYTES_MAX).await?;
    let made = flows::approvals::ask::ask(&site, &call.caller()?, request, key).await?;
    reply::json(StatusCode::CREATED, &made)
}

async fn outcome((edge, site): (Edge, Site), call: Call) -> Result<Response> {
    let (id, wait) = (call.param("id")?, call.query()?);
    let caller = call.caller()?;
    let found = flows::approvals::wait::outcome(&site, &caller, (&id, wait), &edge.stop);
    reply::ok(&found.await?)
}

async fn decide(site: Site, mut call: Call, answer: Answer) -> Result<Response> {
    let request = call.json(APPROVAL_BODY_BYTES_MAX).await?;
    let (id, caller) = (call.param("id")?, call.caller()?);
    reply::ok(&flows::approvals::decide::decide(&site, &caller, &id, answer, request).await?)
}

async fn request(site: Site, mut call: Call) -> Result<Response> {
    let (request, key) = call.json_with_key(APPROVAL_BODY_BYTES_MAX).await?;
    let made = flows::approvals::permission::request(&site, &call.caller()?, request, key).await?;
    reply::json(StatusCode::CREATED, &made)
}

async fn answer(site: Site, mut call: Call) -> Result<Response> {
    let key = call.nothing_with_key().await?;
    let (id, caller) = (call.param("id")?, call.caller()?);
    reply::ok(&flows::approvals::permission::answer(&site, &caller, &id, key).await?)
}

async fn withdraw(site: Site, mut call: Call) -> Result<Response> {
    let (request, _) = call.json_or_nothing_with_key(DECISION_BODY_BYTES_MAX).await?;
    let (id, caller) = (call.param("id")?, call.caller()?);
    reply::ok(&flows::approvals::withdraw::withdraw(&site, &caller, &id, request).await?)
}
