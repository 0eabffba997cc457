//! The assistant: questions, streams of answers, conversations and sign-in.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue};
use serde_json::{Value, json};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tracing::warn;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::chat::{
    AskRequest, AttachmentQuery, ClearRequest, EventsQuery, ExecuteRequest, HistoryQuery,
    SessionRemoved, SessionRequest, SessionsQuery, StopRequest,
};
use crate::api::chat_settings::{ClaudeLogin, ConfigRequest, GatewayAnswer, SignedOut};
use crate::base::limit::STREAM_CHECK_MS_MAX;
use crate::base::{CallId, ChatId, JobId, Result, fault};
use crate::flows::assistant::{Follower, gateway};
use crate::flows::{self, Site};
use crate::http::access::who::{Credential, identify};
use crate::http::markdown::Growing;
use crate::http::server::listen::Peer;
use crate::http::server::streams::{Exclusive, Place, Streams};
use crate::http::{Call, Edge, any_of, delete, get, post, reply};

/// A message of 1 MiB as JSON, every character of it escaped.
const ASK_BODY_BYTES_MAX: usize = 6 * 1024 * 1024 + 4 * 1024;
/// A file of 1 MiB as JSON, every character of it escaped.
const EXECUTE_BODY_BYTES_MAX: usize = 6 * 1024 * 1024 + 16 * 1024;
/// Largest file that goes with a question, in bytes: more than any that is kept.
const ATTACHMENT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Longest body of the other routes, in bytes.
const BODY_BYTES_MAX: usize = 16 * 1024;
/// How often a line shows both sides that the stream is alive, and whether it may go on is asked.
const BEAT: Duration = Duration::from_millis(STREAM_CHECK_MS_MAX);
/// How long an answer is waited for at once.
const ANSWER_WAIT: Duration = Duration::from_secs(110);

type State = ((Edge, Site), Streams);

pub(in crate::http) fn routes(
    edge: &Edge,
    site: &Site,
    streams: &Streams,
) -> BoxedFilter<(Response,)> {
    let state: State = ((edge.clone(), site.clone()), streams.clone());
    let waits = (edge.clone(), site.clone());
    any_of([
        post("/api/agent/chat-stream", &state, ask),
        post("/api/agent/chat", &waits, wait),
        get("/api/agent/runs/{id}", site, async |site: Site, call| {
            let id: JobId = call.param("id")?;
            reply::ok(&flows::assistant::run(&site, &call.caller()?, &id).await?)
        }),
        get("/api/agent/runs/{id}/events", &state, async |((edge, site), streams): State, call| {
            let (id, query): (JobId, EventsQuery) = (call.param("id")?, call.query()?);
            let place = streams.admit(&call.caller()?, call.credential().as_ref())?;
            let has_html = query.html == Some(1);
            let after = query.after.unwrap_or(0);
            // Blocks are made of all that was said.
            let range = (if has_html { 0 } else { after }, query.follow.unwrap_or(true));
            let follower = flows::assistant::follow(&site, &call.caller()?, &id, range).await?;
            let page = has_html.then(|| Blocks::after(after));
            Ok(answer(edge, &call, place, (follower, page)))
        }),
        post("/api/agent/stop", site, async |site: Site, mut call| {
            let request: StopRequest = call.json(BODY_BYTES_MAX).await?;
            reply::ok(&flows::assistant::stop(&site, &call.caller()?, &request.run_id).await?)
        }),
        post("/api/agent/session/clear", site, async |site: Site, mut call| {
            let request: ClearRequest = call.json(BODY_BYTES_MAX).await?;
            flows::assistant::clear(&site, &call.caller()?, &request.session_id).await?;
            reply::ok(&json!({}))
        }),
        get("/api/agent/session/history", site, async |site: Site, call| {
            let query: HistoryQuery = call.query()?;
            reply::ok(&flows::assistant::history(&site, &call.caller()?, query).await?)
        }),
        get("/api/agent/actions", site, async |site: Site, call| {
            reply::ok(&flows::assistant::actions(&site, &call.caller()?).await?)
        }),
        get("/api/agent/sessions", site, async |site: Site, call| {
            let query: SessionsQuery = call.query()?;
            reply::ok(&flows::assistant::sessions(&site, &call.caller()?, query).await?)
        }),
        post("/api/agent/attachments", site, async |site: Site, mut call| {
            let query: AttachmentQuery = call.query()?;
            let bytes = call.file(ATTACHMENT_BYTES_MAX).await?;
            let caller = call.caller()?;
            let kept = flows::assistant::attach(&site, &caller, query.name, bytes).await?;
            reply::json(StatusCode::CREATED, &kept)
        }),
        of_sessions(site),
        of_settings(site),
        of_tools(&waits, site),
    ])
}

fn of_tools(waits: &(Edge, Site), site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        get("/api/agent/tools", site, async |site: Site, call| {
            reply::ok(&flows::assistant::list_tools(&site, &call.caller()?).await?)
        }),
        post("/api/agent/tools/execute", waits, async |(edge, site): (Edge, Site), mut call| {
            let request: ExecuteRequest = call.json(EXECUTE_BODY_BYTES_MAX).await?;
            let caller = call.caller()?;
            reply::ok(&flows::assistant::execute(&site, &caller, request, &edge.stop).await?)
        }),
        get("/api/agent/calls/{id}", site, async |site: Site, call| {
            let id: CallId = call.param("id")?;
            reply::ok(&flows::assistant::show_call(&site, &call.caller()?, &id).await?)
        }),
        post("/api/agent/calls/{id}/undo", site, async |site: Site, mut call| {
            call.nothing().await?;
            let id: CallId = call.param("id")?;
            reply::ok(&flows::assistant::undo(&site, &call.caller()?, &id).await?)
        }),
        post("/api/agent/calls/{id}/do", site, async |site: Site, mut call| {
            call.nothing().await?;
            let id: CallId = call.param("id")?;
            reply::ok(&flows::assistant::do_now(&site, &call.caller()?, &id).await?)
        }),
    ])
}

fn of_sessions(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        get("/api/agent/sessions/{id}", site, async |site: Site, call| {
            let id: ChatId = call.param("id")?;
            reply::ok(&flows::assistant::session(&site, &call.caller()?, &id).await?)
        }),
        post("/api/agent/sessions/{id}", site, async |site: Site, mut call| {
            let request: SessionRequest = call.json(BODY_BYTES_MAX).await?;
            let id: ChatId = call.param("id")?;
            reply::ok(&flows::assistant::set(&site, &call.caller()?, &id, request).await?)
        }),
        delete("/api/agent/sessions/{id}", site, async |site: Site, mut call| {
            call.nothing().await?;
            let id: ChatId = call.param("id")?;
            flows::assistant::remove(&site, &call.caller()?, &id).await?;
            reply::ok(&SessionRemoved { session_id: id })
        }),
    ])
}

fn of_settings(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        get("/api/agent/config", site, async |site: Site, call| {
            reply::ok(&flows::assistant::config(&site, &call.caller()?).await?)
        }),
        post("/api/agent/config", site, async |site: Site, mut call| {
            let request: ConfigRequest = call.json(BODY_BYTES_MAX).await?;
            reply::ok(&flows::assistant::set_config(&site, &call.caller()?, request).await?)
        }),
        get("/api/agent/health", site, async |site: Site, call| {
            reply::ok(&flows::assistant::health(&site, &call.caller()?).await?)
        }),
        post("/api/agent/claude/login", site, async |site: Site, mut call| {
            let login: ClaudeLogin = call.json(BODY_BYTES_MAX).await?;
            flows::assistant::sign_in(&site, &call.caller()?, login.token).await?;
            reply::ok(&json!({}))
        }),
        delete("/api/agent/claude/login", site, async |site: Site, mut call| {
            call.nothing().await?;
            let was_signed_in = flows::assistant::sign_out(&site, &call.caller()?).await?;
            reply::ok(&SignedOut { was_signed_in })
        }),
        of_gateway(site),
    ])
}

fn of_gateway(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        post("/api/agent/gateway/login", site, async |site: Site, mut call| {
            call.nothing().await?;
            reply::ok(&gateway::begin(&site, &call.caller()?).await?)
        }),
        get("/api/agent/gateway/login/{id}", site, async |site: Site, call| {
            let (caller, id) = (call.caller()?, call.text_param("id")?.to_owned());
            reply::ok(&gateway::look(&site, &caller, &id).await?)
        }),
        post("/api/agent/gateway/login/{id}", site, async |site: Site, mut call| {
            let given: GatewayAnswer = call.json(BODY_BYTES_MAX).await?;
            let (caller, id) = (call.caller()?, call.text_param("id")?.to_owned());
            reply::ok(&gateway::answer(&site, &caller, (&id, given)).await?)
        }),
        delete("/api/agent/gateway/login", site, async |site: Site, mut call| {
            call.nothing().await?;
            let was_signed_in = gateway::sign_out(&site, &call.caller()?).await?;
            reply::ok(&SignedOut { was_signed_in })
        }),
    ])
}

async fn ask(((edge, site), streams): State, mut call: Call) -> Result<Response> {
    let (request, key): (AskRequest, _) = call.json_with_key(ASK_BODY_BYTES_MAX).await?;
    let caller = call.caller()?;
    // A question that nobody could follow is not asked.
    let place = streams.admit(&caller, call.credential().as_ref())?;
    let asked = flows::assistant::ask(&site, &caller, request, key).await?;
    fault::crash_point("before_answer");
    let follower = flows::assistant::follow(&site, &caller, &asked.run_id, (0, true)).await?;
    Ok(answer(edge, &call, place, (follower, None)))
}

async fn wait((edge, site): (Edge, Site), mut call: Call) -> Result<Response> {
    let (request, key): (AskRequest, _) = call.json_with_key(ASK_BODY_BYTES_MAX).await?;
    let caller = call.caller()?;
    let asked = flows::assistant::ask(&site, &caller, request, key).await?;
    let until = (ANSWER_WAIT, &edge.stop);
    let answered = flows::assistant::answered(&site, &caller, &asked.run_id, until).await?;
    match answered.ended {
        Some(_) => reply::ok(&answered),
        None => reply::json(StatusCode::ACCEPTED, &answered),
    }
}

/// Returns the stream of a run as lines of JSON.
fn answer(
    edge: Edge,
    call: &Call,
    place: Place,
    (follower, page): (Follower, Option<Blocks>),
) -> Response {
    let mut beat = interval_at(Instant::now() + BEAT, BEAT);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (peer, credential) = (call.peer(), call.credential());
    let feed =
        Feed { edge, follower, page, peer, credential, beat, check_due: Instant::now() + BEAT };
    let parts = stream::unfold(Some((feed, place)), async |feed| {
        let (mut feed, place) = feed?;
        match feed.next().await {
            Ok(Some(lines)) => Some((Ok(lines), Some((feed, place)))),
            Ok(None) => None,
            Err(cause) => {
                warn!("the stream of an answer ended: {}", cause.chain());
                Some((Err(cause), None))
            }
        }
    });
    let mut response = reply::stream("application/x-ndjson", Exclusive::new(Box::pin(parts)));
    response
        .headers_mut()
        .insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

/// The text of an answer as blocks of HTML, which come after the items that they are made of.
struct Blocks {
    /// The last item that the page has.
    after: u64,
    steps: BTreeMap<u64, Growing>,
}

impl Blocks {
    fn after(after: u64) -> Blocks {
        Blocks { after, steps: BTreeMap::new() }
    }

    /// Returns the items that are new to the page, and the blocks that have changed.
    fn take(&mut self, lines: Vec<(u64, String)>) -> String {
        let (mut text, mut changed, mut last) = (String::new(), BTreeSet::new(), String::new());
        for (seq, line) in lines {
            let item: Value = serde_json::from_str(&line).unwrap_or_default();
            let step = item["step"].as_u64().unwrap_or(0);
            match item["type"].as_str().unwrap_or_default() {
                "text" => {
                    let growing = self.steps.entry(step).or_default();
                    growing.push(item["delta"].as_str().unwrap_or_default());
                    changed.insert(step);
                }
                "reset" => drop(self.steps.remove(&step)),
                "error" | "done" => {
                    if seq > self.after {
                        last.push_str(&line);
                    }
                    continue;
                }
                _ => {}
            }
            if seq > self.after {
                text.push_str(&line);
            }
        }
        for step in changed {
            let blocks = self.steps.get_mut(&step).map(Growing::changed).unwrap_or_default();
            for (index, html) in blocks {
                let block = json!({"type": "block", "step": step, "index": index, "html": html});
                text.push_str(&block.to_string());
                text.push('\n');
            }
        }
        text + &last
    }
}

/// One reader of the stream of a run.
struct Feed {
    edge: Edge,
    follower: Follower,
    /// Makes HTML of it, for a page.
    page: Option<Blocks>,
    peer: Peer,
    credential: Option<Credential>,
    beat: Interval,
    /// When it is asked again whether this reader may go on.
    check_due: Instant,
}

impl Feed {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        if Instant::now() >= self.check_due && !self.may_go_on().await {
            return Ok(None);
        }
        let stop = self.edge.stop.clone();
        tokio::select! {
            biased;
            lines = self.follower.next() => {
                let Some(lines) = lines? else { return Ok(None) };
                Ok(Some(Bytes::from(match &mut self.page {
                    Some(page) => page.take(lines),
                    None => lines.into_iter().map(|(_, line)| line).collect(),
                })))
            }
            () = stop.cancelled() => Ok(None),
            _ = self.beat.tick() => {
                let ping = Bytes::from_static(b"{\"type\":\"ping\"}\n");
                Ok(self.may_go_on().await.then_some(ping))
            }
        }
    }

    async fn may_go_on(&mut self) -> bool {
        self.check_due = Instant::now() + BEAT;
        match &self.credential {
            Some(credential) => identify(&self.edge, &self.peer, credential).await.is_ok(),
            None => true,
        }
    }
}
