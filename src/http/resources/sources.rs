//! Sources.

use serde::Deserialize;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::base::SourcePath;
use crate::flows::{self, Site};
use crate::http::resources::topics;
use crate::http::{any_of, get, reply};

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct ByPath {
    path: SourcePath,
}

pub(in crate::http) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        get("/api/sources", site, async |site: Site, call| {
            reply::ok(&flows::sources::list(&site, &call.caller()?, call.query()?).await?)
        }),
        get("/api/source", site, async |site: Site, call| {
            let query: ByPath = call.query()?;
            reply::ok(&flows::sources::show(&site, &call.caller()?, &query.path).await?)
        }),
        get("/api/source/annotations", site, async |site: Site, call| {
            let query: ByPath = call.query()?;
            topics::annotations(
                &flows::topics::export::all(&site, &call.caller()?, &query.path).await?,
            )
        }),
        get("/api/source/history", site, async |site: Site, call| {
            let query = call.query()?;
            reply::ok(&flows::sources::history(&site, &call.caller()?, query).await?)
        }),
    ])
}
