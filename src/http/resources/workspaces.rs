//! Workspaces: the folders that agents work in.

use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::base::Result;
use crate::base::limit::DECISION_BODY_BYTES_MAX;
use crate::flows::{self, Site};
use crate::http::{Call, any_of, get, post, reply};

/// The body of `POST /api/workspaces/sweep`.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct SweepRequest {
    #[serde(default)]
    dry_run: bool,
}

pub(in crate::http) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        get("/api/workspaces", site, async |site: Site, call: Call| {
            call.caller()?.person()?;
            reply::ok(&flows::workspaces::list(&site).await?)
        }),
        post("/api/workspaces/sweep", site, sweep),
        post("/api/workspaces/{job}/keep", site, async |site: Site, call: Call| {
            let job = call.param("job")?;
            reply::ok(&flows::workspaces::keep(&site, &call.caller()?, &job).await?)
        }),
        post("/api/workspaces/{job}/remove", site, async |site: Site, call: Call| {
            let job = call.param("job")?;
            reply::ok(&flows::workspaces::discard(&site, &call.caller()?, &job).await?)
        }),
    ])
}

async fn sweep(site: Site, mut call: Call) -> Result<Response> {
    let request: SweepRequest = call.json(DECISION_BODY_BYTES_MAX).await?;
    call.caller()?.may_decide()?;
    let stop = CancellationToken::new();
    reply::ok(&flows::workspaces::sweep(&site, request.dry_run, &stop).await?)
}
