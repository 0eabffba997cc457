//! Whether the process serves, and whether the site is ready.

use serde::Serialize;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::base::Result;
use crate::http::{Edge, any_of, get, reply};

#[derive(Serialize)]
struct Health {
    status: &'static str,
}

pub(super) fn routes(edge: &Edge) -> BoxedFilter<(Response,)> {
    any_of([
        get("/healthz", &(), async |(), _| reply::ok(&Health { status: "ok" })),
        get("/readyz", edge, async |edge, _| reply::ok(&ready(edge).await?)),
    ])
}

async fn ready(edge: Edge) -> Result<Health> {
    (edge.is_ready)().await?;
    edge.store.read(|c| Ok(c.query_row("SELECT one FROM site", [], |_| Ok(()))?)).await?;
    Ok(Health { status: "ready" })
}
