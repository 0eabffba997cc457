//! The handoffs of a persona: a list, the text of each, and a form that has an agent read some.

use askama::Template;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::handoffs::{HandoffQuery, HandoffView, RehydrateRequest};
use crate::base::{Millis, Result};
use crate::flows::{self, Site};
use crate::http::markdown::Html;
use crate::http::pages::Frame;
use crate::http::pages::agents::at;
use crate::http::pages::channels::Sent;
use crate::http::pages::parts::form;
use crate::http::pages::parts::labels::{self, State, Tone};
use crate::http::pages::parts::visible::{Name, Plain, Visible};
use crate::http::pages::topics::suggestion;
use crate::http::{Call, any_of, get, post, reply};
use crate::people::Caller;

/// Handoffs of a page unless the address says otherwise.
const LISTED: u32 = 20;
/// Most handoffs of a page.
const LISTED_MAX: u32 = 200;
/// Handoffs on the page of an agent.
const RECENT: usize = 3;
/// The form: names of files, and a note.
const FORM_BYTES_MAX: usize = 64 * 1024;

#[derive(Template)]
#[template(path = "handoffs.html")]
struct HandoffsPage {
    frame: Frame,
    persona: String,
    handoffs: Vec<Shown>,
    is_detailed: bool,
    limit: u32,
    has_more: bool,
}

impl HandoffsPage {
    /// Returns the address of the same list with or without sections.
    fn other(&self) -> String {
        self.list(self.limit, !self.is_detailed)
    }

    /// Returns the address of a longer list, if there is more.
    fn more(&self) -> Option<String> {
        let has_more = self.has_more && self.limit < LISTED_MAX;
        has_more.then(|| self.list(LISTED_MAX, self.is_detailed))
    }

    fn list(&self, limit: u32, is_detailed: bool) -> String {
        let limit = (limit != LISTED).then(|| limit.to_string());
        let detail = is_detailed.then_some("true");
        let query = [("limit", limit.as_deref()), ("detail", detail)];
        form::address(&format!("/handoffs/{}", self.persona), &query)
    }
}

#[derive(Template)]
#[template(path = "handoff.html")]
struct HandoffPage {
    frame: Frame,
    persona: String,
    shown: Shown,
    html: Html,
}

/// A handoff as a page shows it.
pub(super) struct Shown {
    pub(super) handoff: HandoffView,
    pub(super) at: Option<Millis>,
}

impl Shown {
    fn of(mut handoff: HandoffView) -> Shown {
        // Headings alone tell nothing.
        handoff.sections.retain(|section| !section.line.is_empty());
        Shown { at: handoff.at, handoff }
    }

    /// Returns the summary in words; of a file without one, its name.
    pub(super) fn title(&self) -> String {
        match &self.handoff.summary {
            Some(summary) => summary.replace('-', " "),
            None => self.handoff.file.clone(),
        }
    }

    pub(super) fn state(&self) -> Option<State> {
        Some(match self.handoff.state.as_deref()? {
            "seated" => State(Tone::Good, "Handed over"),
            "failed" => State(Tone::Bad, "Handover failed"),
            _ => State(Tone::Running, "Being read"),
        })
    }

    pub(super) fn readers(&self) -> Option<String> {
        let readers = &self.handoff.read_by;
        (!readers.is_empty()).then(|| readers.join(", "))
    }
}

pub(super) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        get("/handoffs/{persona}", site, list),
        get("/handoffs/{persona}/{file}", site, show),
        post("/agents/{name}/rehydrate", site, rehydrate),
    ])
}

async fn list(site: Site, call: Call) -> Result<Response> {
    let asked: HandoffQuery = call.query()?;
    let (frame, caller) = Frame::of(&site, &call, "/agents")?;
    let persona = call.text_param("persona")?.to_owned();
    let limit = asked.limit.unwrap_or(LISTED).clamp(1, LISTED_MAX);
    let query = HandoffQuery { limit: Some(limit + 1), detail: asked.detail };
    let mut found = flows::agents::list_handoffs(&site, &caller, &persona, query).await?.items;
    let has_more = found.len() > limit as usize;
    found.truncate(limit as usize);
    let handoffs = found.into_iter().map(Shown::of).collect();
    let is_detailed = asked.detail == Some(true);
    reply::page(&HandoffsPage { frame, persona, handoffs, is_detailed, limit, has_more })
}

async fn show(site: Site, call: Call) -> Result<Response> {
    let (frame, caller) = Frame::of(&site, &call, "/agents")?;
    let (persona, file) = (call.text_param("persona")?.to_owned(), call.text_param("file")?);
    let (handoff, text) = flows::agents::find_handoff(&site, &caller, &persona, file).await?;
    let html = suggestion::written("handoff", &text, "");
    reply::page(&HandoffPage { frame, persona, shown: Shown::of(handoff), html })
}

/// Returns the newest handoffs of a persona that can be read.
pub(super) async fn newest(site: &Site, caller: &Caller, persona: &str) -> Result<Vec<Shown>> {
    let query = HandoffQuery { limit: Some(LISTED), detail: None };
    let found = flows::agents::list_handoffs(site, caller, persona, query).await?.items;
    let there = found.into_iter().filter(|it| !it.is_gone);
    Ok(there.take(RECENT).map(Shown::of).collect())
}

async fn rehydrate(site: Site, mut call: Call) -> Result<Response> {
    let sent = Sent(call.form(FORM_BYTES_MAX).await?);
    let files = sent.0.iter().filter(|it| it.0 == "file").map(|it| it.1.clone()).collect();
    let note = form::optional(&form::text(sent.field("note")));
    let (caller, name) = (call.caller()?, call.text_param("name")?);
    let request = RehydrateRequest { files, note: note.clone() };
    let told = flows::agents::rehydrate(&site, &caller, name, request).await;
    let page = at(name);
    form::answer(told, |_| format!("{page}#messages"), page.clone(), note)
}
