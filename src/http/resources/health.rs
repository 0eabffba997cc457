//! Whether the process serves, whether the site is ready, and what is wrong with its database.

use serde::Serialize;
use serde_json::{Value, json};
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::base::{Millis, Result};
use crate::flows::automation::reload;
use crate::flows::{self, Site};
use crate::http::{Edge, any_of, get, reply};
use crate::jobs::QueueCounts;
use crate::store::{CORRUPT, Trouble};

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::http) struct Health {
    status: &'static str,
}

pub(in crate::http) fn routes(edge: &Edge) -> BoxedFilter<(Response,)> {
    any_of([
        get("/healthz", &(), async |(), _| reply::ok(&Health { status: "ok" })),
        get("/readyz", edge, async |edge, _| reply::ok(&ready(edge).await?)),
    ])
}

/// What is wrong with the site, for people.
pub(in crate::http) fn site_routes(site: &Site) -> BoxedFilter<(Response,)> {
    get("/api/health", site, async |site: Site, call| {
        let counts = flows::jobs::counts(&site, &call.caller()?).await?;
        reply::ok(&report(
            site.store.trouble().or_else(|| site.queue.no_room()),
            reload::facts(&site),
            &counts,
        ))
    })
}

async fn ready(edge: Edge) -> Result<Health> {
    (edge.is_ready)().await?;
    edge.store.read(|c| Ok(c.query_row("SELECT one FROM site", [], |_| Ok(()))?)).await?;
    Ok(Health { status: "ready" })
}

/// What a person is told.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "SiteHealth"))]
pub(in crate::http) struct Report {
    status: &'static str,
    database: Option<Database>,
    /// Of the script: its generation, why the last reload was refused, whether it is stuck.
    script: Value,
    /// How many jobs wait and run.
    jobs: Value,
}

/// What stands in the way of writing.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "DatabaseTrouble"))]
pub(in crate::http) struct Database {
    code: String,
    message: String,
    hint: Option<String>,
    since: Millis,
}

fn report(trouble: Option<Trouble>, script: Value, counts: &QueueCounts) -> Report {
    let status = match &trouble {
        None if script["stuck"] == true => "degraded",
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
    let sum = |kinds: &[(String, i64)]| kinds.iter().map(|it| it.1).sum::<i64>();
    let jobs = json!({"queued": sum(&counts.queued), "running": sum(&counts.running)});
    Report { status, database, script, jobs }
}
