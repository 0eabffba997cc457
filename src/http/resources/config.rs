//! The script in force.

use serde_json::json;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::flows::{self, Site};
use crate::http::{Edge, any_of, get, reply};

pub(in crate::http) fn routes(edge: &Edge, site: &Site) -> BoxedFilter<(Response,)> {
    let state = (edge.clone(), site.clone());
    any_of([get("/api/config", &state, async |(edge, site): (Edge, Site), call| {
        call.caller()?.person()?;
        let mut shown = flows::site::config::show(&site);
        // `listen` is what the script says; a port of 0 there is another one here.
        shown["site"]["address"] = json!(edge.gate.login_base);
        reply::ok(&shown)
    })])
}
