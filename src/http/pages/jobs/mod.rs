//! Jobs: their list, one job with what it printed, its prompt, and the forms to cancel and retry.

pub(in crate::http::pages) mod board;
mod messages;
pub(in crate::http::pages) mod new_job;
pub(in crate::http::pages) mod transcript;

use askama::Template;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream;
use hyper::StatusCode;
use hyper::header::{CONTENT_DISPOSITION, HeaderValue};
use serde::Deserialize;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::changes::ChangesState;
use crate::api::jobs::{Prompt, Status};
use crate::base::{Error, ErrorKind, JobId, Millis, Result};
use crate::flows::jobs::board::BoardQuery;
use crate::flows::jobs::changes::RestoreRequest;
use crate::flows::jobs::output::{LinesQuery, LogQuery};
use crate::flows::jobs::{JobQuery, RetryRequest};
use crate::flows::{self, Site};
use crate::http::markdown::Html;
use crate::http::pages::Frame;
use crate::http::pages::jobs::messages::Messages;
use crate::http::pages::jobs::transcript::Said;
use crate::http::pages::parts::ansi::{self, Row, Style};
use crate::http::pages::parts::job::Job;
use crate::http::pages::parts::visible::{Name, Plain, Visible};
use crate::http::pages::parts::{form, job, labels, time};
use crate::http::pages::topics::suggestion;
use crate::http::server::streams::Exclusive;
use crate::http::{Call, any_of, get, post, reply};
use crate::jobs::StepKind;
use crate::people::Caller;

/// Bytes of output on a job's page.
const LOG_BYTES: u64 = 16 * 1024;
/// Largest body of these forms: a key and an address.
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
    /// The other values of the filter.
    kind: Option<String>,
    source_path: Option<String>,
    jobs: Vec<JobRow>,
    is_first: bool,
    next: Option<String>,
}

impl JobsPage {
    /// Returns the address of the same list for another state.
    fn with_status(&self, status: &str) -> String {
        let query = [
            ("status", Some(status)),
            ("kind", self.kind.as_deref()),
            ("source_path", self.source_path.as_deref()),
        ];
        form::address("/jobs", &query)
    }
}

#[derive(Template)]
#[template(path = "job.html")]
struct JobPage {
    frame: Frame,
    job: Job,
    sentence: String,
    elapsed_ms: Option<i64>,
    silent_ms: Option<i64>,
    inputs: Vec<(String, String)>,
    /// The summary by its agent.
    last_words: Option<Html>,
    /// The end of its standard error, or the reason of its failure; `None` if `log` ends with it.
    why: Vec<Row>,
    log: Shown,
    said: Option<Said>,
    /// Whether a stream of its output was requested.
    is_log_asked: bool,
    /// What was said to and by its instance; `None` for any other job.
    messages: Option<Messages>,
}

/// The end of an agent's output.
struct Shown {
    stream: &'static str,
    rows: Vec<Row>,
    open: Vec<Row>,
    offset: u64,
    next_offset: u64,
    total: u64,
    style: String,
    /// Whether it has been deleted.
    is_gone: bool,
    /// Whether it may hold what an agent told somebody else in private.
    is_private: bool,
}

impl Shown {
    /// Returns whether it shows these last rows of standard error itself. The first of them may be
    /// cut.
    fn has_end(&self, rows: &[Row]) -> bool {
        let shown: Vec<&Row> = self.rows.iter().chain(&self.open).collect();
        let whole: Vec<&Row> = rows.iter().skip(usize::from(rows.len() > 1)).collect();
        self.stream == "stderr" && shown.len() >= rows.len() && shown.ends_with(&whole)
    }

    fn size(&self) -> String {
        format!("{} bytes", labels::grouped(i64::try_from(self.total).unwrap_or(i64::MAX)))
    }
}

#[derive(Template)]
#[template(path = "prompt.html")]
struct PromptPage {
    frame: Frame,
    id: JobId,
    prompt: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Again {
    key: String,
    back: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Back {
    back: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Restore {
    commits: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WhichLog {
    stream: Option<String>,
}

/// The filter of the list or the board; empty fields of a form count as absent.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    source_path: Option<String>,
    status: Option<String>,
    kind: Option<String>,
    topic_id: Option<String>,
    requested_by: Option<String>,
    after: Option<String>,
    limit: Option<u32>,
}

pub(super) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        get("/jobs", site, list),
        get("/jobs/{id}", site, async |site: Site, call: Call| {
            let (asked, framed): (WhichLog, _) = (call.query()?, Frame::of(&site, &call, "/jobs")?);
            show(&site, framed, &call.param("id")?, (asked.stream.as_deref(), None)).await
        }),
        get("/jobs/{id}/prompt", site, prompt),
        get("/jobs/{id}/log", site, log),
        post("/jobs/{id}/cancel", site, async |site, call| end(site, call, false).await),
        post("/jobs/{id}/kill", site, async |site, call| end(site, call, true).await),
        post("/jobs/{id}/retry", site, retry),
        post("/jobs/{id}/dismiss", site, dismiss),
        post("/jobs/{id}/restore", site, restore),
        post("/jobs/{id}/keep", site, keep),
        messages::routes(site),
    ])
}

/// Returns jobs as a list shows them.
pub(super) fn rows(jobs: Vec<Job>, now: Millis) -> Vec<JobRow> {
    let row = |job: Job| JobRow { sentence: labels::job_sentence(&job, now), job };
    jobs.into_iter().map(row).collect()
}

async fn list(site: Site, call: Call) -> Result<Response> {
    let (mut frame, caller) = Frame::of(&site, &call, "/jobs")?;
    let asked: Asked = call.query()?;
    let given = |it: &Option<String>| it.clone().filter(|it| !it.trim().is_empty());
    let (kind, status, topic_id) =
        (given(&asked.kind), given(&asked.status), given(&asked.topic_id));
    let source_path = given(&asked.source_path);
    let path = source_path.as_ref().map(|it| it.trim().parse()).transpose()?;
    let is_board = status.is_none() && topic_id.is_none() && asked.after.is_none();
    if is_board && asked.limit.is_none() {
        let requested_by = given(&asked.requested_by);
        let asked = BoardQuery { kind, source_path: path, requested_by };
        return board::show(&site, (frame, caller), asked).await;
    }
    let limit = asked.limit.map(|it| it.to_string());
    let is_first = asked.after.is_none();
    let query = JobQuery {
        source_path: path,
        status: status.clone(),
        kind: kind.clone(),
        topic_id: topic_id.as_ref().map(|it| it.parse()).transpose()?,
        after: asked.after.as_ref().map(|it| it.parse()).transpose()?,
        limit: asked.limit,
    };
    let found = job::jobs(flows::jobs::list(&site, &caller, query).await?);
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
    let paths = found.items.iter().filter_map(|it| it.source_path.as_deref());
    frame.name_documents(&site, paths).await;
    let jobs = rows(found.items, frame.now());
    reply::page(&JobsPage { frame, status, kind, source_path, jobs, is_first, next })
}

/// Shows a job; `stream` is the requested one of its output, `refused` a message that was typed
/// here and why it was not sent.
async fn show(
    site: &Site,
    (mut frame, caller): (Frame, Caller),
    id: &JobId,
    (stream, refused): (Option<&str>, Option<(String, Error)>),
) -> Result<Response> {
    let mut job = Job::from(flows::jobs::show(site, &caller, id).await?);
    job.look_at_other(&site.config);
    let opened = job.opened_topics.iter().map(|it| it.source_path.as_str());
    frame.name_documents(site, opened.chain(job.source_path.as_deref())).await;
    if job.is_active() {
        frame.refresh();
    }
    let now = frame.now();
    let inputs = job.inputs.iter().map(|(name, value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        (name.clone(), text)
    });
    let spoke = job.printed_at.or(job.started_at).filter(|_| job.status == Status::Running);
    let log = tail(site, &caller, id, stream).await?;
    let why = ansi::rows(job.error_tail.as_deref().unwrap_or_default(), Style::default(), false).0;
    let messages = messages::of(site, &caller, id, refused.as_ref()).await?;
    let page = JobPage {
        sentence: labels::job_sentence(&job, now),
        elapsed_ms: labels::elapsed_ms(&job, now),
        silent_ms: spoke.map(|it| now.0.saturating_sub(it.0).max(0)),
        inputs: inputs.collect(),
        last_words: job.summary.as_deref().map(|it| {
            suggestion::written("last", it, job.source_path.as_deref().unwrap_or_default())
        }),
        why: if log.has_end(&why) { Vec::new() } else { why },
        log,
        is_log_asked: stream.is_some(),
        messages,
        said: transcript::of(site, &caller, id, &job).await?,
        job,
        frame,
    };
    match refused {
        None => reply::page(&page),
        Some((_, cause)) => reply::refused(&page, &cause),
    }
}

/// Returns the end of one stream of an agent's output: the requested one, otherwise standard error,
/// or standard output if only that is not empty.
async fn tail(site: &Site, caller: &Caller, id: &JobId, asked: Option<&str>) -> Result<Shown> {
    let part = async |stream: &str, offset, is_aligned| {
        let stream = Some(stream.to_owned());
        let query = LinesQuery { stream, offset, is_aligned, until: None };
        flows::jobs::output::lines(site, caller, id, query).await
    };
    let mut shown = Shown {
        stream: "stderr",
        rows: Vec::new(),
        open: Vec::new(),
        offset: 0,
        next_offset: 0,
        total: 0,
        style: String::new(),
        is_gone: false,
        is_private: false,
    };
    let mut end = match part(asked.unwrap_or("stderr"), u64::MAX, false).await {
        Ok(end) => end,
        // The folder of an old job may have been removed; the job still has a page.
        Err(cause) if cause.kind() == ErrorKind::NotFound => {
            shown.is_private = cause.code_str() == flows::jobs::PRIVATE_OUTPUT;
            shown.is_gone = !shown.is_private;
            return Ok(shown);
        }
        Err(cause) => return Err(cause),
    };
    if asked.is_none() && end.total == 0 {
        end = part("stdout", u64::MAX, false).await?;
        if end.total == 0 {
            return Ok(shown);
        }
    }
    let stream = end.stream;
    let found = part(stream, end.total.saturating_sub(LOG_BYTES), true).await?;
    let (rows, style) = ansi::rows(&found.text, Style::default(), found.goes_on);
    Ok(Shown {
        stream,
        rows,
        open: ansi::rows(&found.open, style.clone(), false).0,
        offset: found.offset,
        next_offset: found.next_offset,
        total: found.total,
        style: style.parameters(),
        is_gone: false,
        is_private: false,
    })
}

/// Sends an agent's current output as a file.
async fn log(site: Site, call: Call) -> Result<Response> {
    let (caller, asked): (_, WhichLog) = (call.caller()?, call.query()?);
    let id: JobId = call.param("id")?;
    let name = asked.stream.clone().unwrap_or_else(|| "stderr".to_owned());
    let part = async move |site: Site, caller: Caller, id: JobId, offset, stream| {
        let query = LogQuery { stream, offset: Some(offset) };
        flows::jobs::output::bytes(&site, &caller, &id, query).await
    };
    // Before the first byte is sent, so that an invalid request gets an error response.
    let (_, _, _, end) =
        part(site.clone(), caller.clone(), id.clone(), u64::MAX, asked.stream.clone()).await?;
    let file = format!("attachment; filename=\"job-{id}-{name}.log\"");
    let parts = stream::unfold(0, move |offset| {
        let (site, caller, id) = (site.clone(), caller.clone(), id.clone());
        let stream = asked.stream.clone();
        async move {
            if offset >= end {
                return None;
            }
            let found = part(site, caller, id, offset, stream).await;
            Some(match found {
                Ok((bytes, from, next, _)) if next > offset => {
                    let mut text = Vec::new();
                    if from > offset {
                        let gap = format!("\n[bytes {offset} to {from} omitted]\n");
                        text.extend_from_slice(gap.as_bytes());
                    }
                    text.extend(bytes);
                    (Ok(Bytes::from(text)), next)
                }
                Ok(_) => (Ok(Bytes::new()), end),
                Err(cause) => (Err(cause), end),
            })
        }
    });
    let mut response = reply::stream("text/plain; charset=utf-8", Exclusive::new(parts.boxed()));
    *response.status_mut() = StatusCode::OK;
    let value = HeaderValue::from_str(&file)
        .map_err(|cause| Error::internal("a file's name is no header").source(cause))?;
    response.headers_mut().insert(CONTENT_DISPOSITION, value);
    Ok(response)
}

async fn prompt(site: Site, call: Call) -> Result<Response> {
    let (frame, caller) = Frame::of(&site, &call, "/jobs")?;
    let id: JobId = call.param("id")?;
    let Prompt { prompt, .. } = flows::jobs::output::prompt(&site, &caller, &id).await?;
    reply::page(&PromptPage { frame, id, prompt })
}

/// Cancels a job, with or without its grace period.
async fn end(site: Site, mut call: Call, is_killed: bool) -> Result<Response> {
    let sent: Back = match call.is_form() {
        true => call.form(SMALL_BODY_BYTES_MAX).await?,
        false => {
            call.nothing().await?;
            Back::default()
        }
    };
    let (id, caller): (JobId, _) = (call.param("id")?, call.caller()?);
    let at = form::back(sent.back, format!("/jobs/{id}"))?;
    let done = match is_killed {
        true => flows::jobs::cancel::kill(&site, &caller, &id).await,
        false => flows::jobs::cancel::cancel(&site, &caller, &id).await,
    };
    form::answer(done, |_| at.clone(), at.clone(), None)
}

async fn retry(site: Site, mut call: Call) -> Result<Response> {
    let (sent, digest): (Again, _) = call.form_with_digest(SMALL_BODY_BYTES_MAX).await?;
    let key = call.key_of_form(sent.key, digest)?;
    let (id, caller): (JobId, _) = (call.param("id")?, call.caller()?);
    let is_elsewhere = sent.back.is_some();
    let back = form::back(sent.back, format!("/jobs/{id}"))?;
    let made = flows::jobs::retry(&site, &caller, &id, RetryRequest::default(), Some(key)).await;
    let to = |new| if is_elsewhere { back.clone() } else { format!("/jobs/{new}") };
    form::answer(made, to, back.clone(), None)
}

async fn dismiss(site: Site, mut call: Call) -> Result<Response> {
    call.nothing().await?;
    let (id, caller): (JobId, _) = (call.param("id")?, call.caller()?);
    let done = flows::jobs::failure::dismiss(&site, &caller, &id).await;
    form::answer(done, |()| "/".to_owned(), "/".to_owned(), None)
}

async fn restore(site: Site, mut call: Call) -> Result<Response> {
    let sent: Restore = match call.is_form() {
        true => call.form(SMALL_BODY_BYTES_MAX).await?,
        false => {
            call.nothing().await?;
            Restore::default()
        }
    };
    let (id, caller): (JobId, _) = (call.param("id")?, call.caller()?);
    let wanted = RestoreRequest { commits: sent.commits.is_some(), ..RestoreRequest::default() };
    let done = flows::jobs::changes::restore(&site, &caller, &id, wanted).await;
    let at = format!("/jobs/{id}");
    form::answer(done, |_| at.clone(), at.clone(), None)
}

async fn keep(site: Site, mut call: Call) -> Result<Response> {
    call.nothing().await?;
    let (id, caller): (JobId, _) = (call.param("id")?, call.caller()?);
    let done = flows::jobs::changes::keep(&site, &caller, &id).await;
    let at = format!("/jobs/{id}");
    form::answer(done, |_| at.clone(), at.clone(), None)
}
