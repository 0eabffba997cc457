//! A document as a persona sees it, and the form that requests such a view.

use std::borrow::Cow;

use askama::Template;
use serde::Deserialize;
use tracing::warn;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::jobs::Holder;
use crate::api::perspectives::{Requested, View};
use crate::base::limit::RENDERED_TEXT_BYTES_MAX;
use crate::base::{JobId, Millis, Result, SourcePath};
use crate::flows::perspectives::{ViewQuery, ViewRequest};
use crate::flows::{self, Site};
use crate::http::markdown::{Html, Renderer};
use crate::http::pages::Frame;
use crate::http::pages::documents::passages::{self, LINES_MAX, Line};
use crate::http::pages::documents::tree::{self, Tree};
use crate::http::pages::parts::labels::State;
use crate::http::pages::parts::visible::{Name, Plain, Visible};
use crate::http::pages::parts::{form, holder, image_sizes, labels};
use crate::http::{Call, any_of, post, reply};
use crate::people::Caller;
use crate::script::Produces;

const FORM_BODY_BYTES_MAX: usize = 64 * 1024;

/// The state of one persona's view of a document.
#[derive(Clone, Debug)]
pub(in crate::http::pages) struct Tab {
    pub(in crate::http::pages) persona: String,
    pub(in crate::http::pages) about: Option<String>,
    state: Cow<'static, str>,
    changed: Vec<Cow<'static, str>>,
    pub(in crate::http::pages) created_at: Option<Millis>,
    pub(in crate::http::pages) making: Option<JobId>,
}

impl From<View> for Tab {
    fn from(view: View) -> Tab {
        Tab {
            persona: view.persona,
            about: view.about,
            state: view.state,
            changed: view.changed,
            created_at: view.created_at,
            making: view.making,
        }
    }
}

impl Tab {
    /// Returns the address of the view's page.
    pub(in crate::http::pages) fn address(&self, document: &str) -> String {
        form::address(document, &[("view", Some(self.persona.as_str()))])
    }

    /// Returns the note next to the persona's name, if the view is not fresh.
    pub(in crate::http::pages) fn mark(&self) -> Option<State> {
        match (&*self.state, &self.making) {
            ("fresh", _) => None,
            (_, Some(_)) => Some(State(labels::Tone::Running, "Generating")),
            ("stale", None) => Some(State(labels::Tone::Waiting, "Stale")),
            _ => Some(State(labels::Tone::Quiet, "Not generated")),
        }
    }

    /// Returns why the view is not that of the current text.
    fn why(&self) -> &'static str {
        let has = |word: &str| self.changed.iter().any(|it| it == word);
        match (has("source"), has("persona"), has("persona_gone")) {
            (_, _, true) => "The persona no longer exists or no longer covers this document.",
            (true, true, _) => {
                "The document and the persona have changed since this was generated."
            }
            (true, false, _) => "The document has changed since this was generated.",
            (false, true, _) => "The persona has changed since this was generated.",
            _ => "",
        }
    }

    fn may_be_asked_for(&self) -> bool {
        self.state != "fresh"
            && self.making.is_none()
            && !self.changed.iter().any(|it| it == "persona_gone")
    }
}

#[derive(Template)]
#[template(path = "perspective.html")]
struct PerspectivePage {
    frame: Frame,
    path: String,
    address: String,
    tabs: Vec<Tab>,
    tree: Tree,
    tab: Tab,
    /// A view; one that is too large to render is shown as lines.
    html: Option<Html>,
    holder: Option<Holder>,
    lines: Vec<Line>,
    lines_total: usize,
    earlier: Option<usize>,
    later: Option<usize>,
}

impl PerspectivePage {
    /// Returns the address of another page of the view.
    fn piece(&self, from: &usize) -> String {
        let from = from.to_string();
        form::address(
            &self.address,
            &[("view", Some(self.tab.persona.as_str())), ("from", Some(from.as_str()))],
        )
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    key: String,
    source_path: SourcePath,
    persona: String,
}

pub(in crate::http::pages) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([post("/perspectives", site, ask)])
}

/// Returns the views of a document for the tabs above it: those that exist, and those that a kind
/// can create. If the folder of personas cannot be read, there are none.
pub(in crate::http::pages) async fn tabs(
    site: &Site,
    caller: &Caller,
    path: &SourcePath,
) -> Vec<Tab> {
    let found = flows::perspectives::list(site, caller, path).await;
    let can_make = site.config.kinds.values().any(|it| it.produces == Some(Produces::Perspective));
    let is_shown = |it: &Tab| can_make || it.created_at.is_some() || it.making.is_some();
    found.map(|it| it.items.into_iter().map(Tab::from).filter(is_shown).collect()).unwrap_or_else(
        |cause| {
            warn!("no views of {path} are shown: {}", cause.chain());
            Vec::new()
        },
    )
}

/// The requested view, and its first line if not 1.
pub(in crate::http::pages) struct Asked {
    pub(in crate::http::pages) path: SourcePath,
    pub(in crate::http::pages) persona: String,
    pub(in crate::http::pages) from: Option<usize>,
}

/// Returns the page of a view, even if the view does not exist yet.
pub(in crate::http::pages) async fn show(
    site: &Site,
    renderer: &Renderer,
    (mut frame, caller): (Frame, Caller),
    asked: Asked,
) -> Result<Response> {
    let Asked { path, persona, from } = asked;
    frame.name_documents(site, [path.as_str()]).await;
    let tabs = tabs(site, &caller, &path).await;
    let query = ViewQuery { source_path: path.clone(), persona: persona.clone() };
    let shown = flows::perspectives::show(site, &caller, &query).await;
    let place = tabs.iter().position(|it| it.persona == persona);
    let (tab, body) = match (shown, place) {
        (Ok(shown), _) => (Tab::from(shown.view), shown.body),
        (Err(cause), Some(place)) if cause.code_str() == flows::perspectives::NO_PERSPECTIVE => {
            (tabs[place].clone(), String::new())
        }
        (Err(cause), _) => return Err(cause),
    };
    let from = from.unwrap_or(1).max(1);
    let to = from.saturating_add(LINES_MAX);
    let (lines, lines_total) = passages::lines(&body, &[], from..to);
    let folder = path.as_str().rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut html =
        (body.len() <= RENDERED_TEXT_BYTES_MAX).then(|| renderer.message(&body, folder, "md-"));
    if let Some(plain) = &mut html
        && let Some(sized) = image_sizes::sized(site, &caller, plain).await
    {
        *plain = sized;
    }
    reply::page(&PerspectivePage {
        holder: holder::of(site, &caller, &path).await?,
        tree: tree::beside(site, &caller, &frame, &path).await,
        frame,
        address: form::document_at(path.as_str()),
        path: path.to_string(),
        earlier: (from > 1).then(|| from.saturating_sub(LINES_MAX).max(1)),
        later: (to <= lines_total).then_some(to),
        tabs,
        tab,
        html,
        lines,
        lines_total,
    })
}

async fn ask(site: Site, mut call: Call) -> Result<Response> {
    let (sent, digest): (Wanted, _) = call.form_with_digest(FORM_BODY_BYTES_MAX).await?;
    let key = call.key_of_form(sent.key, digest)?;
    let caller = call.caller()?;
    let document = form::document_at(sent.source_path.as_str());
    let view = form::address(&document, &[("view", Some(sent.persona.as_str()))]);
    let request = ViewRequest { source_path: sent.source_path, persona: sent.persona, kind: None };
    let asked = flows::perspectives::request(&site, &caller, request, Some(key)).await;
    let to = |it: Requested| match it.job_id {
        Some(job) => format!("/jobs/{job}"),
        None => view,
    };
    form::answer(asked, to, document, None)
}
