//! Jobs.

use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::jobs::{Accepted, Cut, Repeated};
use crate::base::{JobId, Result, fault};
use crate::flows::jobs::output::{LinesQuery, LogQuery};
use crate::flows::{self, Site};
use crate::http::pages::parts::ansi::{self, Row, Style};
use crate::http::{Call, any_of, get, post, reply};

/// Largest request, with a `text` input of the largest size, partly escaped.
const JOB_BODY_BYTES_MAX: usize = crate::base::limit::JOB_BODY_BYTES_MAX;
/// Largest result: JSON in JSON.
const RESULT_BODY_BYTES_MAX: usize = crate::base::limit::RESULT_BODY_BYTES_MAX;
/// Largest body of a retry.
const SMALL_BODY_BYTES_MAX: usize = crate::base::limit::LOGIN_BODY_BYTES_MAX;
/// Largest body with a thousand of the longest names.
const RESTORE_BODY_BYTES_MAX: usize = crate::base::limit::RESTORE_BODY_BYTES_MAX;

/// The part of a log, and whether as rows.
#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct LogPart {
    stream: Option<String>,
    offset: Option<u64>,
    #[serde(default)]
    rows: bool,
    #[serde(default)]
    align: bool,
    until: Option<u64>,
    style: Option<String>,
}

/// A part of an output as the page shows it: rows of pieces of text, each with its look.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::http) struct LogRows {
    stream: &'static str,
    offset: u64,
    next_offset: u64,
    total: u64,
    cut: Option<Cut>,
    running: bool,
    #[cfg_attr(test, schemars(with = "Vec<Vec<serde_json::Value>>"))]
    rows: Vec<Row>,
    /// The beginning of a line that is still being printed.
    #[cfg_attr(test, schemars(with = "Vec<Vec<serde_json::Value>>"))]
    open: Vec<Row>,
    /// The style at the end, to be sent with the next request.
    style: String,
}

#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct After {
    #[serde(default)]
    after: u64,
}

pub(in crate::http) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        get("/api/agent/jobs", site, async |site: Site, call| {
            reply::ok(&flows::jobs::list(&site, &call.caller()?, call.query()?).await?)
        }),
        post("/api/agent/jobs", site, create),
        get("/api/agent/jobs/{id}", site, async |site: Site, call| {
            let id = call.param("id")?;
            reply::ok(&flows::jobs::show(&site, &call.caller()?, &id).await?)
        }),
        get("/api/agent/jobs/{id}/log", site, log),
        get("/api/agent/jobs/{id}/stream", site, async |site: Site, call| {
            let (id, after): (_, After) = (call.param("id")?, call.query()?);
            reply::ok(&flows::jobs::output::stream(&site, &call.caller()?, &id, after.after).await?)
        }),
        get("/api/agent/jobs/{id}/prompt", site, async |site: Site, call| {
            let id = call.param("id")?;
            reply::ok(&flows::jobs::output::prompt(&site, &call.caller()?, &id).await?)
        }),
        post("/api/agent/jobs/{id}/cancel", site, async |site: Site, mut call| {
            call.nothing().await?;
            let id = call.param("id")?;
            reply::ok(&flows::jobs::cancel::cancel(&site, &call.caller()?, &id).await?)
        }),
        post("/api/agent/jobs/{id}/kill", site, async |site: Site, mut call| {
            call.nothing().await?;
            let id = call.param("id")?;
            reply::ok(&flows::jobs::cancel::kill(&site, &call.caller()?, &id).await?)
        }),
        post("/api/agent/jobs/{id}/retry", site, retry),
        post("/api/agent/jobs/{id}/restore", site, async |site: Site, mut call| {
            let request = call.json(RESTORE_BODY_BYTES_MAX).await?;
            let id = call.param("id")?;
            reply::ok(&flows::jobs::changes::restore(&site, &call.caller()?, &id, request).await?)
        }),
        post("/api/agent/jobs/{id}/keep", site, async |site: Site, mut call| {
            call.nothing().await?;
            let id = call.param("id")?;
            reply::ok(&flows::jobs::changes::keep(&site, &call.caller()?, &id).await?)
        }),
        post("/api/agent/jobs/{id}/result", site, finish),
        post("/api/jobs/cancel", site, async |site: Site, mut call| {
            let request = call.json(SMALL_BODY_BYTES_MAX).await?;
            reply::ok(&flows::jobs::bulk::cancel(&site, &call.caller()?, request).await?)
        }),
        post("/api/jobs/retry", site, async |site: Site, mut call| {
            let request = call.json(SMALL_BODY_BYTES_MAX).await?;
            reply::ok(&flows::jobs::bulk::retry(&site, &call.caller()?, request).await?)
        }),
    ])
}

async fn log(site: Site, call: Call) -> Result<Response> {
    let (id, caller): (JobId, _) = (call.param("id")?, call.caller()?);
    let asked: LogPart = call.query()?;
    let (stream, offset) = (asked.stream, asked.offset);
    if !asked.rows {
        let query = LogQuery { stream, offset };
        return reply::ok(&flows::jobs::output::log(&site, &caller, &id, query).await?);
    }
    let (is_aligned, until) = (asked.align, asked.until);
    let query = LinesQuery { stream, offset: offset.unwrap_or(0), is_aligned, until };
    let part = flows::jobs::output::lines(&site, &caller, &id, query).await?;
    let style = Style::parse(asked.style.as_deref().unwrap_or_default());
    let (rows, style) = ansi::rows(&part.text, style, part.goes_on);
    let goes_on = part.goes_on && part.text.is_empty();
    let (open, _) = ansi::rows(&part.open, style.clone(), goes_on);
    reply::ok(&LogRows {
        stream: part.stream,
        offset: part.offset,
        next_offset: part.next_offset,
        total: part.total,
        cut: part.cut.map(|(from, to)| Cut { from, to }),
        running: part.running,
        rows,
        open,
        style: style.parameters(),
    })
}

async fn create(site: Site, mut call: Call) -> Result<Response> {
    let (request, key) = call.json_with_key(JOB_BODY_BYTES_MAX).await?;
    let id = flows::jobs::create(&site, &call.caller()?, request, key).await?;
    fault::crash_point("before_answer");
    let also_open = flows::topics::related::beside(&site, &id).await?;
    reply::json(StatusCode::ACCEPTED, &Accepted { id: id.clone(), job_id: id, also_open })
}

async fn retry(site: Site, mut call: Call) -> Result<Response> {
    let (request, key) = call.json_or_nothing_with_key(SMALL_BODY_BYTES_MAX).await?;
    let id = call.param("id")?;
    let id = flows::jobs::retry(&site, &call.caller()?, &id, request, key).await?;
    reply::json(StatusCode::ACCEPTED, &Repeated { id: id.clone(), job_id: id })
}

async fn finish(site: Site, mut call: Call) -> Result<Response> {
    let request = call.json(RESULT_BODY_BYTES_MAX).await?;
    let id = call.param("id")?;
    reply::ok(&flows::jobs::finish(&site, &call.caller()?, &id, request).await?)
}
