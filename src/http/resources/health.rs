//! Liveness, readiness, and the health of the database.

use std::borrow::Cow;

use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::config::ScriptView;
use crate::api::health::{Database, Health, JobCounts, Report};
use crate::base::{DATABASE_CORRUPT, Result};
use crate::flows::automation::reload;
use crate::flows::{self, Site};
use crate::http::{Edge, any_of, get, reply};
use crate::jobs::QueueCounts;
use crate::store::Trouble;

pub(in crate::http) fn routes(edge: &Edge) -> BoxedFilter<(Response,)> {
    any_of([
        get("/healthz", &(), async |(), _| reply::ok(&Health { status: Cow::Borrowed("ok") })),
        get("/readyz", edge, async |edge, _| reply::ok(&ready(edge).await?)),
    ])
}

/// The problems of the site, for people.
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
    Ok(Health { status: Cow::Borrowed("ready") })
}

fn report(trouble: Option<Trouble>, script: ScriptView, counts: &QueueCounts) -> Report {
    let status = match &trouble {
        None if script.stuck => "degraded",
        None => "ok",
        Some(it) if it.code == DATABASE_CORRUPT => "corrupt",
        Some(_) => "degraded",
    };
    let database = trouble.map(|it| Database {
        code: it.code,
        message: it.message,
        hint: it.hint,
        since: it.since,
    });
    let sum = |kinds: &[(String, i64)]| kinds.iter().map(|it| it.1).sum::<i64>();
    let jobs = JobCounts { queued: sum(&counts.queued), running: sum(&counts.running) };
    Report { status: Cow::Borrowed(status), database, script, jobs }
}
