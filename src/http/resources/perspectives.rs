//! Personas, and Sources as they see them.

use hyper::StatusCode;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::base::Result;
use crate::base::limit::{LOGIN_BODY_BYTES_MAX, PROPOSAL_BODY_BYTES_MAX};
use crate::flows::perspectives::{ListQuery, PutRequest};
use crate::flows::{self, Site};
use crate::http::{Call, any_of, get, post, reply};

pub(in crate::http) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        get("/api/personas", site, async |site: Site, call| {
            reply::ok(
                &flows::perspectives::personas::show(&site, &call.caller()?, call.query()?).await?,
            )
        }),
        get("/api/perspectives", site, async |site: Site, call| {
            let query: ListQuery = call.query()?;
            let caller = call.caller()?;
            reply::ok(&flows::perspectives::list(&site, &caller, &query.source_path).await?)
        }),
        get("/api/perspective", site, async |site: Site, call| {
            reply::ok(&flows::perspectives::show(&site, &call.caller()?, &call.query()?).await?)
        }),
        post("/api/perspectives", site, put),
        post("/api/perspectives/request", site, request),
    ])
}

async fn put(site: Site, mut call: Call) -> Result<Response> {
    // A view can be as long as a proposed text.
    let sent: PutRequest = call.json(PROPOSAL_BODY_BYTES_MAX).await?;
    let kept = flows::perspectives::put(&site, &call.caller()?, sent).await?;
    reply::json(StatusCode::CREATED, &kept)
}

async fn request(site: Site, mut call: Call) -> Result<Response> {
    let (sent, key) = call.json_with_key(LOGIN_BODY_BYTES_MAX).await?;
    let made = flows::perspectives::request(&site, &call.caller()?, sent, key).await?;
    let status = if made.job_id.is_some() { StatusCode::ACCEPTED } else { StatusCode::OK };
    reply::json(status, &made)
}
