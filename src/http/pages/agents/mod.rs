//! Agents that live on: what each does, what was said, and a form that writes to it.

mod handoffs;
mod promote;

use askama::Template;
use serde::Deserialize;
use serde_json::Value;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::agents::{AgentView, Peek, PeekQuery, StartRequest, TurnView, TurnsQuery};
use crate::api::handoffs::{HandoverRequest, HandoverView};
use crate::api::mail::{MessageQuery, SendRequest};
use crate::base::{Error, ErrorKind, Millis, Result, is_segment};
use crate::flows::jobs::PRIVATE_OUTPUT;
use crate::flows::{self, Site};
use crate::http::pages::Frame;
use crate::http::pages::mail::{Row, conversation};
use crate::http::pages::parts::labels::{State, Tone};
use crate::http::pages::parts::visible::{Name, Plain, Visible};
use crate::http::pages::parts::{form, labels, time};
use crate::http::{Call, any_of, get, post, reply};
use crate::people::Caller;

/// A text as a form: every byte may be escaped by three.
const FORM_BYTES_MAX: usize = 3 * flows::mail::PAYLOAD_BYTES_MAX + 4 * 1024;
/// Messages in each direction that the page of an agent shows.
const RECENT: u32 = 20;
/// Lines of its screen that the page of an agent shows.
const SCREEN_LINES: u32 = 40;
/// Turns that the page of an agent shows.
const TURNS: u32 = 10;

#[derive(Template)]
#[template(path = "agents.html")]
struct AgentsPage {
    frame: Frame,
    agents: Vec<Shown>,
}

#[derive(Template)]
#[template(path = "agent.html")]
struct AgentPage {
    frame: Frame,
    shown: Shown,
    /// What its terminal shows, or what it printed last; `None` if that is private.
    peek: Option<Peek>,
    messages: Vec<Row>,
    /// Messages to it of which nothing shows that they arrived.
    unconfirmed: Vec<Row>,
    turns: Vec<TurnRow>,
    /// The newest handoffs of its persona.
    handoffs: Vec<handoffs::Shown>,
    /// Whether the reader's conversation with it can become a channel.
    can_promote: bool,
    /// What was typed, and why it was refused.
    refused: Option<(String, String)>,
}

/// A turn as the agent's page shows it.
struct TurnRow {
    turn: TurnView,
    at: Millis,
}

impl TurnRow {
    fn state(&self) -> State {
        match self.turn.state.as_str() {
            "running" => State(Tone::Running, "Working"),
            "answered" => State(Tone::Good, "Answered"),
            "silent" => State(Tone::Quiet, "No reply"),
            "interrupted" => State(Tone::Waiting, "Interrupted"),
            "failed" => State(Tone::Bad, "Failed"),
            _ => State(Tone::Bad, "Lost"),
        }
    }

    fn tokens(&self) -> Option<String> {
        self.turn.tokens.filter(|tokens| *tokens > 0).map(labels::grouped)
    }

    fn cost(&self) -> Option<String> {
        self.turn.cost_usd.filter(|cost| *cost > 0.0).map(|cost| format!("${cost:.2}"))
    }

    fn took(&self) -> Option<String> {
        self.turn.ended_at.map(|end| time::span(end.0 - self.turn.started_at.0))
    }
}

/// An agent as a page shows it.
struct Shown {
    agent: AgentView,
    since: Option<Millis>,
}

impl Shown {
    fn of(agent: AgentView) -> Shown {
        Shown { since: agent.fact_at, agent }
    }

    /// What it does, as a person says it.
    fn state(&self) -> String {
        let state = match self.agent.state.as_str() {
            "starting" => "starting",
            "idle" => "idle",
            "busy" => "working",
            "blocked" => "waiting for a person",
            "unknown" => "unknown",
            "failed" => "failed",
            _ => "stopped",
        };
        // Its problem says why it is unknown.
        let reason = self.agent.reason.as_deref().filter(|_| state != "unknown");
        match reason.filter(|it| !["asked", "ended"].contains(it)) {
            Some(reason) => format!("{state} ({})", reason.replace('_', " ")),
            None => state.to_owned(),
        }
    }

    /// Returns what was last heard of it, in words.
    fn fact(&self) -> Option<String> {
        let words = match self.agent.fact.as_deref()? {
            "works" => "worked",
            "asks_permission" => "asked for permission",
            "person_typed" => "a person typed",
            "daily_cap" => "reached a daily cap",
            "asks" | "asked" => "asked a person",
            other => return Some(other.replace('_', " ")),
        };
        Some(words.to_owned())
    }

    fn is_live(&self) -> bool {
        !["stopped", "failed"].contains(&self.agent.state.as_str())
    }

    /// Says where its handover is.
    fn handover(&self) -> Option<String> {
        let it: &HandoverView = self.agent.handover.as_ref()?;
        let successor = it.successor.as_deref().unwrap_or("its successor");
        Some(match (it.state.as_str(), it.reason.as_deref()) {
            ("asked", _) => "Writing notes for its successor".to_owned(),
            ("written", _) => format!("Notes written; {successor} is reading them"),
            ("seated", _) => format!("Handed over to {successor}"),
            (_, Some("not_written")) => "Handover failed: the agent wrote no notes".to_owned(),
            (_, Some("successor_failed")) => {
                format!("Handover failed: {successor} didn’t start")
            }
            (_, Some("successor_seated")) => {
                format!("Handover failed: {successor} was given another seat")
            }
            _ => "Handover failed: the agent stopped".to_owned(),
        })
    }

    /// Whether it can be asked to hand over now.
    fn can_hand_over(&self) -> bool {
        let is_open = |it: &HandoverView| ["asked", "written"].contains(&it.state.as_str());
        self.is_live()
            && self.agent.heir.is_none()
            && !self.agent.handover.as_ref().is_some_and(is_open)
    }

    /// Whether it can be asked to read handoffs.
    fn can_read(&self) -> bool {
        self.agent.heir.is_none() && self.agent.about.is_some()
    }

    fn is_busy(&self) -> bool {
        // One of whose turn nothing is heard any more has one, too.
        ["busy", "blocked"].contains(&self.agent.state.as_str())
            || self.agent.reason.as_deref() == Some("unknown_silent")
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SendForm {
    key: String,
    text: String,
}

pub(in crate::http::pages) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        get("/agents", site, async |site: Site, call: Call| {
            let (frame, caller) = Frame::of(&site, &call, "/agents")?;
            let agents = flows::agents::list(&site, &caller).await?.items;
            let agents = agents.into_iter().map(Shown::of).collect();
            reply::page(&AgentsPage { frame, agents })
        }),
        get("/agents/{name}", site, async |site: Site, call: Call| {
            let framed = Frame::of(&site, &call, "/agents")?;
            agent_page(&site, framed, call.text_param("name")?, None).await
        }),
        post("/agents/{name}", site, send),
        post("/agents/{name}/start", site, async |site: Site, call: Call| {
            control(&site, call, Verb::Start).await
        }),
        post("/agents/{name}/stop", site, async |site: Site, call: Call| {
            control(&site, call, Verb::Stop).await
        }),
        post("/agents/{name}/restart", site, async |site: Site, call: Call| {
            control(&site, call, Verb::Restart).await
        }),
        post("/agents/{name}/interrupt", site, async |site: Site, call: Call| {
            control(&site, call, Verb::Interrupt).await
        }),
        post("/agents/{name}/handover", site, async |site: Site, call: Call| {
            control(&site, call, Verb::HandOver).await
        }),
        promote::routes(site),
        handoffs::routes(site),
    ])
}

/// Returns the page of an agent; a name that is none leads to the list.
fn at(name: &str) -> String {
    match is_segment(name) {
        true => format!("/agents/{name}"),
        false => "/agents".to_owned(),
    }
}

enum Verb {
    Start,
    Stop,
    Restart,
    Interrupt,
    HandOver,
}

async fn control(site: &Site, mut call: Call, verb: Verb) -> Result<Response> {
    call.nothing().await?;
    let (name, caller) = (call.text_param("name")?, call.caller()?);
    let outcome = match verb {
        Verb::Start => flows::agents::start(site, &caller, name, StartRequest::default()).await,
        Verb::HandOver => {
            let request = HandoverRequest::default();
            let asked = flows::agents::handover(site, &caller, name, request).await;
            match asked {
                Ok(_) => flows::agents::show(site, &caller, name).await,
                Err(cause) => Err(cause),
            }
        }
        Verb::Stop => flows::agents::stop(site, &caller, name).await,
        Verb::Restart => flows::agents::restart(site, &caller, name).await,
        Verb::Interrupt => flows::agents::interrupt(site, &caller, name).await,
    };
    let page = at(name);
    form::answer(outcome, |_| page.clone(), page.clone(), None)
}

async fn agent_page(
    site: &Site,
    (frame, caller): (Frame, Caller),
    name: &str,
    refused: Option<(String, Error)>,
) -> Result<Response> {
    let agent = flows::agents::show(site, &caller, name).await?;
    let messages = conversation(site, &caller, &agent.address, RECENT).await?;
    let unconfirmed = match agent.unconfirmed {
        0 => Vec::new(),
        _ => unconfirmed(site, &caller, &agent).await?,
    };
    let shown = Shown::of(agent);
    let query = PeekQuery { lines: Some(SCREEN_LINES) };
    let peek = match flows::agents::peek(site, &caller, name, &query).await {
        Ok(peek) => Some(peek),
        Err(cause) if cause.code_str() == PRIVATE_OUTPUT => None,
        Err(cause) => return Err(cause),
    };
    let query = TurnsQuery { before: None, limit: Some(TURNS) };
    let turns = flows::agents::turns(site, &caller, name, query).await?.items;
    let turns = turns.into_iter().map(|turn| TurnRow { at: turn.started_at, turn }).collect();
    let can_promote = shown.can_read() && shown.agent.seat.is_none() && frame.may_write;
    let can_promote = can_promote && has_conversation(site, &caller, name).await?;
    let handoffs = handoffs::newest(site, &caller, &shown.agent.persona).await?;
    let (refused, cause) = match refused {
        None => (None, None),
        Some((typed, cause)) => (Some((typed, cause.message().to_owned())), Some(cause)),
    };
    let page = AgentPage {
        frame,
        shown,
        peek,
        messages,
        unconfirmed,
        turns,
        handoffs,
        can_promote,
        refused,
    };
    match cause {
        None => reply::page(&page),
        Some(cause) => reply::refused(&page, &cause),
    }
}

/// Returns whether whoever asks has a conversation with an agent that could become a channel.
async fn has_conversation(site: &Site, caller: &Caller, name: &str) -> Result<bool> {
    match flows::channels::promotion(site, caller, name).await {
        Ok(_) => Ok(true),
        Err(cause) if cause.kind() == ErrorKind::Conflict => Ok(false),
        Err(cause) => Err(cause),
    }
}

async fn unconfirmed(site: &Site, caller: &Caller, agent: &AgentView) -> Result<Vec<Row>> {
    let query = MessageQuery {
        to: Some(agent.address.to_string()),
        state: Some("unconfirmed".to_owned()),
        limit: Some(RECENT),
        ..MessageQuery::default()
    };
    let found = flows::mail::list(site, caller, query).await?.items;
    Ok(found.into_iter().map(Row::of).collect())
}

async fn send(site: Site, mut call: Call) -> Result<Response> {
    let (sent, digest): (SendForm, _) = call.form_with_digest(FORM_BYTES_MAX).await?;
    let name = call.text_param("name")?;
    let typed = form::text(&sent.text);
    let request = SendRequest {
        to: format!("agent:{name}"),
        payload: Value::String(typed.clone()),
        in_reply_to: None,
        reply_to: None,
        category: None,
    };
    let key = call.key_of_form(sent.key, digest)?;
    let framed = Frame::of(&site, &call, "/agents")?;
    match flows::mail::send(&site, &call.caller()?, request, Some(key)).await {
        Ok(_) => reply::see_other(&format!("{}#messages", at(name))),
        Err(cause) => agent_page(&site, framed, name, Some((typed, cause))).await,
    }
}
