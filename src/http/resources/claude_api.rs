//! The assistant under the names of an older interface, for clients that know only that one. Exists
//! where the script switches it on (`claude_api`).

use serde_json::json;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::chat::{ClearRequest, HistoryQuery};
use crate::base::{Error, Result};
use crate::flows::{self, Site};
use crate::http::resources::assistant::{BODY_BYTES_MAX, State, ask_in, wait};
use crate::http::resources::assistant_stream::Form;
use crate::http::server::streams::Streams;
use crate::http::{Call, Edge, any_of, get, post, reply};

pub(in crate::http) fn routes(
    edge: &Edge,
    site: &Site,
    streams: &Streams,
) -> BoxedFilter<(Response,)> {
    let waits = (edge.clone(), site.clone());
    let state: State = (waits.clone(), streams.clone());
    any_of([
        post("/api/claude/chat-stream", &state, async |state: State, call: Call| {
            refuse_off(&state.0.1)?;
            ask_in(Form::Claude, state, call).await
        }),
        post("/api/claude/chat", &waits, async |state: (Edge, Site), call: Call| {
            refuse_off(&state.1)?;
            wait(state, call).await
        }),
        post("/api/claude/clear", site, async |site: Site, mut call: Call| {
            refuse_off(&site)?;
            let request: ClearRequest = call.json(BODY_BYTES_MAX).await?;
            flows::assistant::clear(&site, &call.caller()?, &request.session_id).await?;
            reply::ok(&json!({}))
        }),
        get("/api/claude/history", site, async |site: Site, call: Call| {
            refuse_off(&site)?;
            let query: HistoryQuery = call.query()?;
            reply::ok(&flows::assistant::history(&site, &call.caller()?, query).await?)
        }),
    ])
}

fn refuse_off(site: &Site) -> Result<()> {
    match &site.config.assistant {
        Some(assistant) if assistant.claude_api => Ok(()),
        _ => Err(Error::not_found("this site does not have /api/claude")
            .code("no_claude_api")
            .hint("use /api/agent, or an admin sets claude_api = true in wb.assistant")),
    }
}
