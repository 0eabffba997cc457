//! The active script.

use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::flows::{self, Site};
use crate::http::{Edge, any_of, get, reply};

pub(in crate::http) fn routes(edge: &Edge, site: &Site) -> BoxedFilter<(Response,)> {
    let state = (edge.clone(), site.clone());
    any_of([get("/api/config", &state, async |(edge, site): (Edge, Site), call| {
        call.caller()?.person()?;
        reply::ok(&flows::site::config::show(&site, edge.gate.login_base.clone()).await?)
    })])
}
