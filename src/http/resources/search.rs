//! The search, and the state of its index.

use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::flows::{self, Site};
use crate::http::{any_of, get, reply};

pub(in crate::http) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        get("/api/search", site, async |site: Site, call| {
            reply::ok(&flows::search::find(&site, &call.caller()?, call.query()?).await?)
        }),
        get("/api/search/index", site, async |site: Site, call| {
            reply::ok(&flows::search::progress(&site, &call.caller()?)?)
        }),
    ])
}
