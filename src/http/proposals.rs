//! Proposals and the decisions on them.

use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::base::{Error, ProposalId, Result};
use crate::flows::approve::{ApproveRequest, Approved};
use crate::flows::{self, Site};
use crate::http::{Call, Edge, any_of, get, post, reply};
use crate::people::Caller;

/// A decision with a reason or a commit's message.
const DECISION_BODY_BYTES_MAX: usize = 512 * 1024;

pub(super) fn routes(site: &Site, edge: &Edge) -> BoxedFilter<(Response,)> {
    let both = (site.clone(), edge.clone());
    any_of([
        get("/api/proposals", site, async |site: Site, call| {
            reply::ok(&flows::proposals::list(&site, &call.caller()?, call.query()?).await?)
        }),
        get("/api/proposals/{id}", site, async |site: Site, call| {
            let id = call.param("id")?;
            reply::ok(&flows::proposals::show(&site, &call.caller()?, &id).await?)
        }),
        post("/api/proposals/{id}/approve", &both, async |(site, edge), call| {
            approve(site, edge, call).await
        }),
        post("/api/proposals/{id}/reject", site, reject),
    ])
}

async fn approve(site: Site, edge: Edge, mut call: Call) -> Result<Response> {
    let request: ApproveRequest = call.json(DECISION_BODY_BYTES_MAX).await?;
    let (id, caller) = (call.param("id")?, call.caller()?);
    reply::ok(&approve_to_its_end(site, &edge, caller, id, request).await?)
}

/// The commit runs in a task of its own: a client that leaves must not stop git half-way.
pub(super) async fn approve_to_its_end(
    site: Site,
    edge: &Edge,
    caller: Caller,
    id: ProposalId,
    request: ApproveRequest,
) -> Result<Approved> {
    let work = async move { flows::approve::approve(&site, &caller, &id, request).await };
    let done = edge.tasks.spawn(work).await;
    done.map_err(|cause| Error::internal("an approval panicked").source(cause))?
}

async fn reject(site: Site, mut call: Call) -> Result<Response> {
    let request = call.json(DECISION_BODY_BYTES_MAX).await?;
    let id = call.param("id")?;
    reply::ok(&flows::proposals::reject(&site, &call.caller()?, &id, request).await?)
}
