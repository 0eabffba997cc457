//! The page of the search: what was found, with the words in it that were looked for.

use askama::Template;
use serde::Deserialize;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::base::{ErrorKind, Result};
use crate::flows::search::SearchQuery;
use crate::flows::{self, Site};
use crate::http::pages::time::At;
use crate::http::pages::view::read;
use crate::http::pages::visible::{Name, Plain, Visible};
use crate::http::pages::{Frame, form, passages, words};
use crate::http::{Call, get, reply};

#[derive(Template)]
#[template(path = "search.html")]
struct SearchPage {
    frame: Frame,
    query: String,
    kind: Option<String>,
    path: Option<String>,
    status: Option<String>,
    author: Option<String>,
    found: Option<Found>,
    refusal: Option<String>,
    is_first: bool,
    next: Option<String>,
}

impl SearchPage {
    /// Returns the address of the same search for another sort of things.
    fn of_kind(&self, kind: &str) -> String {
        let kind = Some(kind).filter(|it| !it.is_empty());
        self.address(kind, None)
    }

    fn address(&self, kind: Option<&str>, after: Option<&str>) -> String {
        let query = [
            ("query", Some(self.query.as_str())),
            ("kind", kind),
            ("path", self.path.as_deref()),
            ("status", self.status.as_deref()),
            ("author", self.author.as_deref()),
            ("after", after),
        ];
        form::address("/search", &query)
    }
}

#[derive(Debug, Deserialize)]
struct Found {
    items: Vec<Hit>,
    next: Option<String>,
    is_cut: bool,
    index: Progress,
}

#[derive(Debug, Deserialize)]
struct Progress {
    state: String,
}

#[derive(Debug, Deserialize)]
struct Hit {
    kind: String,
    source_path: String,
    topic_id: Option<String>,
    sequence: Option<i64>,
    title_pieces: Vec<Piece>,
    status: Option<String>,
    author_name: Option<String>,
    at: Option<At>,
    line: Option<usize>,
    snippet: Vec<Piece>,
}

#[derive(Debug, Deserialize)]
struct Piece {
    text: String,
    hit: bool,
}

impl Hit {
    fn address(&self) -> String {
        match (self.kind.as_str(), &self.topic_id, self.sequence) {
            ("message", Some(topic), Some(sequence)) => {
                format!("/topics/{topic}#message-{sequence}")
            }
            ("topic", Some(topic), _) => format!("/topics/{topic}"),
            _ => self.line_address(),
        }
    }

    fn line_address(&self) -> String {
        let document = form::document_at(&self.source_path);
        let Some(line) = self.line else { return document };
        passages::line_at(&document, line.max(1))
    }

    fn kind_name(&self) -> &'static str {
        match self.kind.as_str() {
            "source" => "Document",
            "topic" => "Topic",
            _ => "Message",
        }
    }
}

/// The query of the page: the form sends fields that are empty.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    #[serde(default)]
    query: String,
    kind: Option<String>,
    path: Option<String>,
    status: Option<String>,
    author: Option<String>,
    after: Option<String>,
    limit: Option<u32>,
}

pub(super) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    get("/search", site, show)
}

async fn show(site: Site, call: Call) -> Result<Response> {
    let (frame, caller) = Frame::of(&site, &call, "/search")?;
    let asked: Asked = call.query()?;
    let given = |it: Option<String>| it.filter(|it| !it.trim().is_empty());
    let mut page = SearchPage {
        frame,
        query: asked.query,
        kind: given(asked.kind),
        path: given(asked.path),
        status: given(asked.status),
        author: given(asked.author),
        found: None,
        refusal: None,
        is_first: asked.after.is_none(),
        next: None,
    };
    if page.query.trim().is_empty() {
        return reply::page(&page);
    }
    let query = SearchQuery {
        query: page.query.clone(),
        kind: page.kind.clone(),
        path: page.path.clone(),
        status: page.status.clone(),
        author: page.author.clone(),
        after: asked.after,
        limit: asked.limit,
    };
    match flows::search::find(&site, &caller, query).await {
        Ok(found) => {
            let found: Found = read(found)?;
            page.next =
                found.next.as_deref().map(|it| page.address(page.kind.as_deref(), Some(it)));
            page.found = Some(found);
        }
        // What was typed stays, with the reason beside it.
        Err(cause) if matches!(cause.kind(), ErrorKind::Invalid | ErrorKind::TooLarge) => {
            let hint = cause.hint_str().map(|it| format!(": {it}")).unwrap_or_default();
            page.refusal = Some(format!("{}{hint}", cause.message()));
        }
        Err(cause) => return Err(cause),
    }
    reply::page(&page)
}
