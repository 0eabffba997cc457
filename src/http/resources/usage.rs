//! The usage of jobs, and engines on hold.

use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::usage::ReleaseQuery;
use crate::flows::{self, Site};
use crate::http::{any_of, get, post, reply};

pub(in crate::http) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        get("/api/usage", site, async |site: Site, call| {
            reply::ok(&flows::jobs::usage::usage(&site, &call.caller()?, call.query()?).await?)
        }),
        get("/api/engines", site, async |site: Site, call| {
            reply::ok(&flows::jobs::usage::engines(&site, &call.caller()?).await?)
        }),
        post("/api/engines/{name}/release", site, async |site: Site, mut call| {
            call.nothing().await?;
            let (name, query): (_, ReleaseQuery) = (call.param("name")?, call.query()?);
            let of = (&name, query.person.as_deref());
            reply::ok(&flows::jobs::usage::release(&site, &call.caller()?, of).await?)
        }),
    ])
}
