//! The script in force, and the verbs that are not in this release.

use serde_json::json;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::base::{Error, Result};
use crate::flows::{self, Site};
use crate::http::{Edge, any_of, get, post, reply};

pub(super) fn routes(edge: &Edge, site: &Site) -> BoxedFilter<(Response,)> {
    let state = (edge.clone(), site.clone());
    any_of([
        get("/api/config", &state, async |(edge, site): (Edge, Site), call| {
            call.caller()?.person()?;
            let mut shown = flows::config::show(&site);
            // `listen` is what the script says; a port of 0 there is another one here.
            shown["site"]["address"] = json!(edge.gate.login_base);
            reply::ok(&shown)
        }),
        get("/api/personas", site, async |_, _| not_built()),
        post("/api/perspectives", site, async |_, _| not_built()),
    ])
}

fn not_built() -> Result<Response> {
    Err(Error::unavailable("perspectives are not in this release").code("not_built"))
}
