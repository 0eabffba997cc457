//! Jobs.

use hyper::StatusCode;
use serde::Deserialize;
use serde_json::json;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::base::{Result, fault};
use crate::flows::{self, Site};
use crate::http::{Call, any_of, get, post, reply};

/// A request with a `text` input of the largest size, some of it escaped.
const JOB_BODY_BYTES_MAX: usize = crate::base::limit::JOB_BODY_BYTES_MAX;
/// A result as JSON in JSON.
const RESULT_BODY_BYTES_MAX: usize = crate::base::limit::RESULT_BODY_BYTES_MAX;
/// What is said of a repetition.
const SMALL_BODY_BYTES_MAX: usize = crate::base::limit::LOGIN_BODY_BYTES_MAX;
/// A thousand names of the longest sort.
const RESTORE_BODY_BYTES_MAX: usize = crate::base::limit::RESTORE_BODY_BYTES_MAX;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct After {
    #[serde(default)]
    after: u64,
}

pub(super) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        get("/api/agent/jobs", site, async |site: Site, call| {
            reply::ok(&flows::jobs::list(&site, &call.caller()?, call.query()?).await?)
        }),
        post("/api/agent/jobs", site, create),
        get("/api/agent/jobs/{id}", site, async |site: Site, call| {
            let id = call.param("id")?;
            reply::ok(&flows::jobs::show(&site, &call.caller()?, &id).await?)
        }),
        get("/api/agent/jobs/{id}/log", site, async |site: Site, call| {
            let id = call.param("id")?;
            reply::ok(&flows::jobs::log(&site, &call.caller()?, &id, call.query()?).await?)
        }),
        get("/api/agent/jobs/{id}/stream", site, async |site: Site, call| {
            let (id, after): (_, After) = (call.param("id")?, call.query()?);
            reply::ok(&flows::jobs::stream(&site, &call.caller()?, &id, after.after).await?)
        }),
        get("/api/agent/jobs/{id}/prompt", site, async |site: Site, call| {
            let id = call.param("id")?;
            reply::ok(&flows::jobs::prompt(&site, &call.caller()?, &id).await?)
        }),
        post("/api/agent/jobs/{id}/cancel", site, async |site: Site, mut call| {
            call.nothing().await?;
            let id = call.param("id")?;
            reply::ok(&flows::jobs::cancel(&site, &call.caller()?, &id).await?)
        }),
        post("/api/agent/jobs/{id}/retry", site, retry),
        post("/api/agent/jobs/{id}/restore", site, async |site: Site, mut call| {
            let request = call.json(RESTORE_BODY_BYTES_MAX).await?;
            let id = call.param("id")?;
            reply::ok(&flows::changes::restore(&site, &call.caller()?, &id, request).await?)
        }),
        post("/api/agent/jobs/{id}/keep", site, async |site: Site, mut call| {
            call.nothing().await?;
            let id = call.param("id")?;
            reply::ok(&flows::changes::keep(&site, &call.caller()?, &id).await?)
        }),
        post("/api/agent/jobs/{id}/result", site, finish),
    ])
}

async fn create(site: Site, mut call: Call) -> Result<Response> {
    let (request, key) = call.json_with_key(JOB_BODY_BYTES_MAX).await?;
    let id = flows::jobs::create(&site, &call.caller()?, request, key).await?;
    fault::crash_point("before_answer");
    let also_open = flows::also_open::beside(&site, &id).await?;
    reply::json(StatusCode::ACCEPTED, &json!({"job_id": id, "also_open": also_open}))
}

async fn retry(site: Site, mut call: Call) -> Result<Response> {
    let (request, key) = call.json_or_nothing_with_key(SMALL_BODY_BYTES_MAX).await?;
    let id = call.param("id")?;
    let id = flows::jobs::retry(&site, &call.caller()?, &id, request, key).await?;
    reply::json(StatusCode::ACCEPTED, &json!({"job_id": id}))
}

async fn finish(site: Site, mut call: Call) -> Result<Response> {
    let request = call.json(RESULT_BODY_BYTES_MAX).await?;
    let id = call.param("id")?;
    reply::ok(&flows::jobs::finish(&site, &call.caller()?, &id, request).await?)
}
