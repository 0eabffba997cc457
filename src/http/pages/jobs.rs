//! Jobs: their list, one job with what it printed, its prompt, and the forms to cancel and retry.

use askama::Template;
use serde::Deserialize;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::base::{ErrorKind, JobId, Millis, Result};
use crate::flows::changes::RestoreRequest;
use crate::flows::jobs::{JobQuery, LogQuery, RetryRequest};
use crate::flows::{self, Site};
use crate::http::pages::view::{Job, List, Log, read};
use crate::http::pages::visible::Visible;
use crate::http::pages::{Frame, form, time, words};
use crate::http::{Call, any_of, get, post, reply};
use crate::people::Caller;

/// Bytes of an agent's output on the page of its job.
const LOG_BYTES: u64 = 16 * 1024;
/// Bodies of these forms hold a key at most.
const SMALL_BODY_BYTES_MAX: usize = crate::base::limit::LOGIN_BODY_BYTES_MAX;

/// A job in a list.
pub(super) struct JobRow {
    pub(super) job: Job,
    /// Its state in a sentence.
    pub(super) sentence: String,
}

#[derive(Template)]
#[template(path = "jobs.html")]
struct JobsPage {
    frame: Frame,
    status: Option<String>,
    jobs: Vec<JobRow>,
    is_first: bool,
    next: Option<String>,
}

#[derive(Template)]
#[template(path = "job.html")]
struct JobPage {
    frame: Frame,
    job: Job,
    sentence: String,
    in_the_way: Option<Job>,
    elapsed_ms: Option<i64>,
    inputs: Vec<(String, String)>,
    logs: Vec<Shown>,
}

/// The end of what an agent printed.
struct Shown {
    stream: &'static str,
    text: String,
    has_more: bool,
}

#[derive(Template)]
#[template(path = "prompt.html")]
struct PromptPage {
    frame: Frame,
    id: JobId,
    prompt: String,
}

#[derive(Deserialize)]
struct Prompt {
    prompt: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Again {
    key: String,
}

pub(super) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        get("/jobs", site, list),
        get("/jobs/{id}", site, show),
        get("/jobs/{id}/prompt", site, prompt),
        post("/jobs/{id}/cancel", site, cancel),
        post("/jobs/{id}/retry", site, retry),
        post("/jobs/{id}/restore", site, restore),
        post("/jobs/{id}/keep", site, keep),
    ])
}

/// Returns jobs as a list shows them.
pub(super) fn rows(jobs: Vec<Job>, now: Millis) -> Vec<JobRow> {
    let row = |job: Job| JobRow { sentence: words::job_sentence(&job, now), job };
    jobs.into_iter().map(row).collect()
}

async fn list(site: Site, call: Call) -> Result<Response> {
    let (frame, caller) = Frame::of(&site, &call, "/jobs")?;
    let asked: JobQuery = call.query()?;
    let (status, is_first) = (asked.status.clone(), asked.after.is_none());
    let source_path = asked.source_path.as_ref().map(ToString::to_string);
    let topic_id = asked.topic_id.as_ref().map(ToString::to_string);
    let (kind, limit) = (asked.kind.clone(), asked.limit.map(|it| it.to_string()));
    let found: List<Job> = read(flows::jobs::list(&site, &caller, asked).await?)?;
    let next = found.next.map(|next| {
        let query = [
            ("status", status.as_deref()),
            ("source_path", source_path.as_deref()),
            ("topic_id", topic_id.as_deref()),
            ("kind", kind.as_deref()),
            ("after", Some(next.as_str())),
            ("limit", limit.as_deref()),
        ];
        form::address("/jobs", &query)
    });
    let jobs = rows(found.items, frame.now());
    reply::page(&JobsPage { frame, status, jobs, is_first, next })
}

async fn show(site: Site, call: Call) -> Result<Response> {
    let (mut frame, caller) = Frame::of(&site, &call, "/jobs")?;
    let id: JobId = call.param("id")?;
    let job: Job = read(flows::jobs::show(&site, &caller, &id).await?)?;
    if job.is_active() {
        frame.refresh();
    }
    let mut logs = Vec::new();
    for stream in ["stderr", "stdout"] {
        logs.extend(tail(&site, &caller, &id, stream).await?);
    }
    let now = frame.now();
    let inputs = job.inputs.iter().map(|(name, value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        (name.clone(), text)
    });
    reply::page(&JobPage {
        in_the_way: in_the_way(&site, &caller, &job).await?,
        sentence: words::job_sentence(&job, now),
        elapsed_ms: words::elapsed_ms(&job, now),
        inputs: inputs.collect(),
        logs,
        job,
        frame,
    })
}

/// Returns the running job that holds the lane of a waiting one.
async fn in_the_way(site: &Site, caller: &Caller, job: &Job) -> Result<Option<Job>> {
    let Some(waiting) = job.waiting.as_ref().filter(|it| it.code == "lane_busy") else {
        return Ok(None);
    };
    let Some(id) = &waiting.job_id else { return Ok(None) };
    Ok(Some(read(flows::jobs::show(site, caller, id).await?)?))
}

/// Returns the end of one stream of an agent's output, or nothing if there is none.
async fn tail(
    site: &Site,
    caller: &Caller,
    id: &JobId,
    stream: &'static str,
) -> Result<Option<Shown>> {
    let part = async |offset| {
        let query = LogQuery { stream: Some(stream.to_owned()), offset: Some(offset) };
        read::<Log>(flows::jobs::log(site, caller, id, query).await?)
    };
    let end = match part(u64::MAX).await {
        Ok(end) => end,
        // The folder of an old job may have been removed; the job itself is still worth a page.
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(cause),
    };
    let found = part(end.total.saturating_sub(LOG_BYTES)).await?;
    let has_more = found.offset > 0;
    // The cut may be within a character.
    let text = if has_more { found.text.trim_start_matches('\u{fffd}') } else { &found.text };
    let shown = Shown { stream, text: text.to_owned(), has_more };
    Ok((!shown.text.is_empty()).then_some(shown))
}

async fn prompt(site: Site, call: Call) -> Result<Response> {
    let (frame, caller) = Frame::of(&site, &call, "/jobs")?;
    let id: JobId = call.param("id")?;
    let Prompt { prompt } = read(flows::jobs::prompt(&site, &caller, &id).await?)?;
    reply::page(&PromptPage { frame, id, prompt })
}

async fn cancel(site: Site, mut call: Call) -> Result<Response> {
    call.nothing().await?;
    let (id, caller): (JobId, _) = (call.param("id")?, call.caller()?);
    let done = flows::jobs::cancel(&site, &caller, &id).await;
    let at = format!("/jobs/{id}");
    form::answer(done, |_| at.clone(), at.clone(), None)
}

async fn retry(site: Site, mut call: Call) -> Result<Response> {
    let (sent, digest): (Again, _) = call.form_with_digest(SMALL_BODY_BYTES_MAX).await?;
    let key = call.key_of_form(sent.key, digest)?;
    let (id, caller): (JobId, _) = (call.param("id")?, call.caller()?);
    let made = flows::jobs::retry(&site, &caller, &id, RetryRequest::default(), Some(key)).await;
    form::answer(made, |it| format!("/jobs/{it}"), format!("/jobs/{id}"), None)
}

async fn restore(site: Site, mut call: Call) -> Result<Response> {
    call.nothing().await?;
    let (id, caller): (JobId, _) = (call.param("id")?, call.caller()?);
    let done = flows::changes::restore(&site, &caller, &id, RestoreRequest::default()).await;
    let at = format!("/jobs/{id}");
    form::answer(done, |_| at.clone(), at.clone(), None)
}

async fn keep(site: Site, mut call: Call) -> Result<Response> {
    call.nothing().await?;
    let (id, caller): (JobId, _) = (call.param("id")?, call.caller()?);
    let done = flows::changes::keep(&site, &caller, &id).await;
    let at = format!("/jobs/{id}");
    form::answer(done, |_| at.clone(), at.clone(), None)
}
