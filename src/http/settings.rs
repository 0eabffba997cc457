//! The script in force, and the verbs that are not in this release.

use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::base::{Error, Result};
use crate::flows::{self, Site};
use crate::http::{any_of, get, post, reply};

pub(super) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        get("/api/config", site, async |site: Site, call| {
            call.caller()?.person()?;
            reply::ok(&flows::config::show(&site))
        }),
        get("/api/personas", site, async |_, _| not_built()),
        post("/api/perspectives", site, async |_, _| not_built()),
    ])
}

fn not_built() -> Result<Response> {
    Err(Error::unavailable("perspectives are not in this release").code("not_built"))
}
