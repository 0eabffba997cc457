//! Whether the process serves, whether the site is ready, and what is wrong with its database.

use serde::Serialize;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::base::{Millis, Result};
use crate::http::{Edge, any_of, get, reply};
use crate::store::{CORRUPT, Trouble};

#[derive(Serialize)]
struct Health {
    status: &'static str,
}

pub(super) fn routes(edge: &Edge) -> BoxedFilter<(Response,)> {
    any_of([
        get("/healthz", &(), async |(), _| reply::ok(&Health { status: "ok" })),
        get("/readyz", edge, async |edge, _| reply::ok(&ready(edge).await?)),
        get("/api/health", edge, async |edge, _| reply::ok(&report(edge.store.trouble()))),
    ])
}

async fn ready(edge: Edge) -> Result<Health> {
    (edge.is_ready)().await?;
    edge.store.read(|c| Ok(c.query_row("SELECT one FROM site", [], |_| Ok(()))?)).await?;
    Ok(Health { status: "ready" })
}

/// What a person is told.
#[derive(Serialize)]
struct Report {
    status: &'static str,
    database: Option<Database>,
}

/// What stands in the way of writing.
#[derive(Serialize)]
struct Database {
    code: String,
    message: String,
    hint: Option<String>,
    since: Millis,
}

fn report(trouble: Option<Trouble>) -> Report {
    let status = match &trouble {
        None => "ok",
        Some(it) if it.code == CORRUPT => "corrupt",
        Some(_) => "degraded",
    };
    let database = trouble.map(|it| Database {
        code: it.code,
        message: it.message,
        hint: it.hint,
        since: it.since,
    });
    Report { status, database }
}
