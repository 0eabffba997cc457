//! The assistant: questions, streams of answers, conversations and sign-in.

use std::time::Duration;

use hyper::StatusCode;
use serde_json::json;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::chat::{
    AskQuery, AskRequest, AttachmentQuery, ClearRequest, EventsQuery, ExecuteRequest, HistoryQuery,
    SessionRemoved, SessionRequest, SessionsQuery, StopRequest,
};
use crate::api::chat_settings::{
    ClaudeLogin, ConfigRequest, GatewayAnswer, LinkedinAnswer, ScratchQuery, SignedOut,
    TextRequest, VaultFileQuery,
};
use crate::base::{CallId, ChatId, Error, JobId, Result, fault};
use crate::flows::assistant::{gateway, linkedin};
use crate::flows::{self, Site};
use crate::http::resources::assistant_stream::{Form, answer};
use crate::http::server::streams::Streams;
use crate::http::{Call, Edge, any_of, delete, get, post, reply};
use crate::store::idempotency::Key;

/// Largest body with a message of 1 MiB, in which every character may be escaped.
pub(super) const ASK_BODY_BYTES_MAX: usize = 6 * 1024 * 1024 + 4 * 1024;
/// Largest body with a file of 1 MiB, in which every character may be escaped.
const EXECUTE_BODY_BYTES_MAX: usize = 6 * 1024 * 1024 + 16 * 1024;
/// Largest body with a text of 32,000 characters, each of which may be escaped.
const TEXT_BODY_BYTES_MAX: usize = 32_000 * 12 + 16 * 1024;
/// Largest upload, in bytes; the limits of each type are lower.
const ATTACHMENT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Longest body of the other routes, in bytes.
pub(super) const BODY_BYTES_MAX: usize = 16 * 1024;
/// Longest wait for an answer in one request.
const ANSWER_WAIT: Duration = Duration::from_secs(110);

pub(super) type State = ((Edge, Site), Streams);

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
        post("/api/agent/actions/{id}/run", &state, run_action),
        get("/api/agent/runs/{id}", site, async |site: Site, call| {
            let id: JobId = call.param("id")?;
            reply::ok(&flows::assistant::run(&site, &call.caller()?, &id).await?)
        }),
        get("/api/agent/runs/{id}/events", &state, async |((edge, site), streams): State, call| {
            let (id, query): (JobId, EventsQuery) = (call.param("id")?, call.query()?);
            let place = streams.admit(&call.caller()?, call.credential().as_ref())?;
            let has_html = query.html == Some(1);
            let after = query.after.unwrap_or(0);
            // Blocks are rendered from the whole text.
            let range = (if has_html { 0 } else { after }, query.follow.unwrap_or(true));
            let follower = flows::assistant::follow(&site, &call.caller()?, &id, range).await?;
            let form = if has_html { Form::blocks_after(after) } else { Form::Items };
            Ok(answer(edge, &call, place, (follower, form)))
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
        of_vault(site),
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

fn of_vault(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        get("/api/agent/vault/file", site, async |site: Site, call| {
            let query: VaultFileQuery = call.query()?;
            let file = flows::assistant::file(&site, &call.caller()?, &query.path).await?;
            let kind = match file.kind {
                // A page or a vector image is text here, and runs nothing.
                "text" => "text/plain; charset=utf-8",
                kind => kind,
            };
            Ok(reply::typed(StatusCode::OK, kind, file.bytes))
        }),
        get("/api/agent/vault/text", site, async |site: Site, call| {
            let query: VaultFileQuery = call.query()?;
            reply::ok(&flows::assistant::text(&site, &call.caller()?, &query.path).await?)
        }),
        post("/api/agent/vault/text", site, async |site: Site, mut call| {
            let request: TextRequest = call.json(TEXT_BODY_BYTES_MAX).await?;
            reply::ok(&flows::assistant::write_text(&site, &call.caller()?, request).await?)
        }),
        get("/api/agent/scratch", site, async |site: Site, call| {
            reply::ok(&flows::assistant::scratch(&site, &call.caller()?).await?)
        }),
        delete("/api/agent/scratch", site, async |site: Site, mut call| {
            call.nothing().await?;
            let query: ScratchQuery = call.query()?;
            let caller = call.caller()?;
            reply::ok(&flows::assistant::clear_scratch(&site, &caller, query.before).await?)
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
            let request: ConfigRequest = call.json(TEXT_BODY_BYTES_MAX).await?;
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
        of_linkedin(site),
    ])
}

fn of_linkedin(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        post("/api/linkedin/connect", site, async |site: Site, mut call| {
            call.nothing().await?;
            reply::ok(&linkedin::begin(&site, &call.caller()?).await?)
        }),
        post("/api/linkedin/finish", site, async |site: Site, mut call| {
            let given: LinkedinAnswer = call.json(BODY_BYTES_MAX).await?;
            reply::ok(&linkedin::finish(&site, &call.caller()?, given).await?)
        }),
        get("/api/linkedin/health", site, async |site: Site, call| {
            reply::ok(&linkedin::state(&site, &call.caller()?)?)
        }),
        delete("/api/linkedin", site, async |site: Site, mut call| {
            call.nothing().await?;
            let was_signed_in = linkedin::sign_out(&site, &call.caller()?).await?;
            reply::ok(&SignedOut { was_signed_in })
        }),
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

async fn ask(state: State, call: Call) -> Result<Response> {
    let query: AskQuery = call.query()?;
    let has_html = query.html == Some(1);
    ask_in(if has_html { Form::blocks_after(0) } else { Form::Items }, state, call).await
}

/// Runs an action, and streams the answer.
async fn run_action(state: State, mut call: Call) -> Result<Response> {
    let id = call.text_param("id")?.to_owned();
    let (mut request, key): (AskRequest, _) = call.json_with_key(ASK_BODY_BYTES_MAX).await?;
    if request.action_id.as_ref().is_some_and(|it| *it != id) {
        let message = "`action_id` names another action than the address";
        return Err(Error::invalid(message).code("bad_parameter").of_input("action_id"));
    }
    request.action_id = Some(id);
    stream(Form::Items, state, (call, request, key)).await
}

/// Asks, and streams the answer in a form.
pub(super) async fn ask_in(form: Form, state: State, mut call: Call) -> Result<Response> {
    let (request, key): (AskRequest, _) = call.json_with_key(ASK_BODY_BYTES_MAX).await?;
    stream(form, state, (call, request, key)).await
}

async fn stream(
    form: Form,
    ((edge, site), streams): State,
    (call, request, key): (Call, AskRequest, Option<Key>),
) -> Result<Response> {
    let caller = call.caller()?;
    // Admitted first, so that no question is asked whose stream would be refused.
    let place = streams.admit(&caller, call.credential().as_ref())?;
    let asked = flows::assistant::ask(&site, &caller, request, key).await?;
    fault::crash_point("before_answer");
    let follower = flows::assistant::follow(&site, &caller, &asked.run_id, (0, true)).await?;
    Ok(answer(edge, &call, place, (follower, form)))
}

pub(super) async fn wait((edge, site): (Edge, Site), mut call: Call) -> Result<Response> {
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
