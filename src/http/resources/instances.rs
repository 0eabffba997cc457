//! Instances of inboxes.

use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::agents::PeekQuery;
use crate::api::instances::InstanceQuery;
use crate::base::JobId;
use crate::flows::{self, Site};
use crate::http::{any_of, get, reply};

pub(in crate::http) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        get("/api/instances", site, async |site: Site, call| {
            let query: InstanceQuery = call.query()?;
            reply::ok(&flows::instances::list(&site, &call.caller()?, query).await?)
        }),
        get("/api/instances/{id}", site, async |site: Site, call| {
            let id: JobId = call.param("id")?;
            reply::ok(&flows::instances::show(&site, &call.caller()?, &id).await?)
        }),
        get("/api/instances/{id}/peek", site, async |site: Site, call| {
            let (id, query): (JobId, PeekQuery) = (call.param("id")?, call.query()?);
            reply::ok(&flows::instances::peek(&site, &call.caller()?, &id, &query).await?)
        }),
    ])
}
