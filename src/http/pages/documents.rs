//! The list of documents, and a document as text with its open Topics beside it.

use askama::Template;
use serde::Deserialize;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::base::{ErrorKind, Result, SourcePath};
use crate::flows::sources::SourceQuery;
use crate::flows::{self, Site};
use crate::http::pages::passages::{self, Line};
use crate::http::pages::perspectives::{self, Tab};
use crate::http::pages::view::{CommitRow, List, SourceRow, SourceView, Topic, read};
use crate::http::pages::visible::Visible;
use crate::http::pages::{Frame, form, words};
use crate::http::{Call, any_of, get, reply};

/// Lines of a document on one page.
const LINES_MAX: usize = 4_000;
/// Commits under a document.
const COMMITS: u32 = 5;
/// Characters of a quote beside the text.
const QUOTE_CHARS_MAX: usize = 240;

#[derive(Template)]
#[template(path = "documents.html")]
struct DocumentsPage {
    frame: Frame,
    query: String,
    documents: Vec<SourceRow>,
    is_first: bool,
    next: Option<String>,
}

#[derive(Template)]
#[template(path = "document.html")]
struct DocumentPage {
    frame: Frame,
    source: SourceView,
    address: String,
    lines: Vec<Line>,
    lines_total: usize,
    earlier: Option<usize>,
    later: Option<usize>,
    commits: Vec<CommitRow>,
    tabs: Vec<Tab>,
}

impl DocumentPage {
    /// Returns the line where the words of a Topic begin, and where that line is.
    fn line(&self, topic: &Topic) -> Option<(usize, String)> {
        let place = passages::place(topic)?;
        let line = passages::line_of(&self.source.text, place.start);
        let first = (line - 1) / LINES_MAX * LINES_MAX + 1;
        let page = if first > 1 { format!("?from={first}") } else { String::new() };
        Some((line, format!("{}{page}#L{line}", self.address)))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct From {
    from: Option<usize>,
    view: Option<String>,
}

pub(super) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([get("/d", site, list), get("/d/{*path}", site, show)])
}

async fn list(site: Site, call: Call) -> Result<Response> {
    let (frame, caller) = Frame::of(&site, &call, "/d")?;
    let asked: SourceQuery = call.query()?;
    let query = asked.query.clone().unwrap_or_default();
    let is_first = asked.after.is_none();
    let limit = asked.limit.map(|it| it.to_string());
    let found: List<SourceRow> = read(flows::sources::list(&site, &caller, asked).await?)?;
    let wanted = Some(query.as_str()).filter(|it| !it.is_empty());
    let next = found.next.map(|next| {
        let query = [("query", wanted), ("after", Some(&next)), ("limit", limit.as_deref())];
        form::address("/d", &query)
    });
    reply::page(&DocumentsPage { frame, query, documents: found.items, is_first, next })
}

async fn show(site: Site, call: Call) -> Result<Response> {
    let (frame, caller) = Frame::of(&site, &call, "/d")?;
    let path: SourcePath = call.param("path")?;
    let From { from, view } = call.query()?;
    if let Some(persona) = view {
        return perspectives::show(&site, (frame, caller), path, persona, from).await;
    }
    let mut source: SourceView = read(flows::sources::show(&site, &caller, &path).await?)?;
    passages::sort(&mut source.topics);
    let from = from.unwrap_or(1).max(1);
    let to = from.saturating_add(LINES_MAX);
    let (lines, lines_total) = passages::lines(&source.text, &source.topics, from..to);
    let history = flows::sources::history(&site, &caller, &path, Some(COMMITS)).await;
    let commits = match history {
        Ok(found) => read::<List<CommitRow>>(found)?.items,
        // A document that is in the index alone has no history; it can be read all the same.
        Err(cause) if matches!(cause.kind(), ErrorKind::NotFound | ErrorKind::Conflict) => {
            Vec::new()
        }
        Err(cause) => return Err(cause),
    };
    let tabs = perspectives::tabs(&site, &caller, &path).await;
    reply::page(&DocumentPage {
        frame,
        tabs,
        address: form::document_at(&source.path),
        earlier: (from > 1).then(|| from.saturating_sub(LINES_MAX).max(1)),
        later: (to <= lines_total).then_some(to),
        lines,
        lines_total,
        commits,
        source,
    })
}
