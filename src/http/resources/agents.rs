//! Agents that live on.

use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::flows::{self, Site};
use crate::http::{Call, any_of, get, post, reply};

pub(in crate::http) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        get("/api/agents", site, async |site: Site, call: Call| {
            reply::ok(&flows::agents::list(&site, &call.caller()?).await?)
        }),
        get("/api/agents/{name}", site, async |site: Site, call: Call| {
            let name = call.text_param("name")?;
            reply::ok(&flows::agents::show(&site, &call.caller()?, name).await?)
        }),
        post("/api/agents/{name}/start", site, async |site: Site, mut call: Call| {
            call.nothing().await?;
            let name = call.text_param("name")?;
            reply::ok(&flows::agents::start(&site, &call.caller()?, name).await?)
        }),
        post("/api/agents/{name}/stop", site, async |site: Site, mut call: Call| {
            call.nothing().await?;
            let name = call.text_param("name")?;
            reply::ok(&flows::agents::stop(&site, &call.caller()?, name).await?)
        }),
        post("/api/agents/{name}/restart", site, async |site: Site, mut call: Call| {
            call.nothing().await?;
            let name = call.text_param("name")?;
            reply::ok(&flows::agents::restart(&site, &call.caller()?, name).await?)
        }),
        post("/api/agents/{name}/interrupt", site, async |site: Site, mut call: Call| {
            call.nothing().await?;
            let name = call.text_param("name")?;
            reply::ok(&flows::agents::interrupt(&site, &call.caller()?, name).await?)
        }),
    ])
}
