//! A document: rendered, or as its lines, with its open Topics.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};
use warp::reply::Response;

use crate::api::sources::{HistoryRow, SourceView};
use crate::api::topics::Topic;
use crate::base::limit::RENDERED_TEXT_BYTES_MAX;
use crate::base::{ErrorKind, Millis, Result, SourcePath};
use crate::documents::sources::plain::is_markdown;
use crate::flows::repository::read_version::{ReadVersion, require_same};
use crate::flows::sources::HistoryQuery;
use crate::flows::{self, Site};
use crate::http::markdown::Renderer;
use crate::http::pages::Frame;
use crate::http::pages::documents::passages::{LINES_MAX, Line};
use crate::http::pages::documents::pending::Waiting;
use crate::http::pages::documents::perspectives::Tab;
use crate::http::pages::documents::reader::Reading;
use crate::http::pages::documents::tree::Tree;
use crate::http::pages::documents::{absent, history, passages, perspectives, reader, tree};
use crate::http::pages::parts::visible::{Name, Plain, Visible};
use crate::http::pages::parts::{form, image_sizes, labels};
use crate::http::{Call, reply};
use crate::people::Caller;

/// Commits shown below a document.
const COMMITS: u32 = 5;
/// Characters of a quote next to the text.
const QUOTE_CHARS_MAX: usize = 240;

#[derive(Template)]
#[template(path = "document-lines.html")]
struct DocumentPage {
    frame: Frame,
    source: SourceView,
    address: String,
    lines: Vec<Line>,
    lines_total: usize,
    earlier: Option<usize>,
    later: Option<usize>,
    commits: Vec<HistoryRow>,
    tabs: Vec<Tab>,
    tree: Tree,
    /// The `data-live` value of its parts.
    live: String,
    /// Whether it could also be rendered.
    is_markdown: bool,
    /// Whether it is too large to be rendered.
    is_large: bool,
    /// The proposals awaiting a decision on it.
    waiting: Waiting,
    names: Names,
}

impl DocumentPage {
    /// Sets the lines on the page; the first has this number.
    fn fill(&mut self, from: usize) {
        passages::sort(&mut self.source.topics);
        let to = from.saturating_add(LINES_MAX);
        let (lines, total) = passages::lines(&self.source.text, &self.source.topics, from..to);
        self.earlier = (from > 1).then(|| from.saturating_sub(LINES_MAX).max(1));
        self.later = (to <= total).then_some(to);
        (self.lines, self.lines_total) = (lines, total);
    }

    /// Returns the line where a Topic's passage begins, and the address of that line.
    fn line(&self, topic: &Topic) -> Option<(usize, String)> {
        let place = passages::place(topic)?;
        let line = passages::line_of(&self.source.text, place.start);
        Some((line, passages::line_at(&self.address, line)))
    }
}

/// The query of a document. Whatever else is in it was added to a link by another program.
#[derive(Deserialize)]
struct From {
    from: Option<usize>,
    view: Option<String>,
    /// Whether to show lines.
    text: Option<String>,
    /// Whether to show the history.
    history: Option<String>,
    after: Option<String>,
}

pub(super) async fn show((site, renderer): (Site, Renderer), call: Call) -> Result<Response> {
    let (mut frame, caller) = Frame::of(&site, &call, "/d")?;
    // As other sites write the address of a folder.
    if let Some(folder) = call.text_param("path")?.strip_suffix('/') {
        return reply::see_other(&form::document_at(folder));
    }
    let path: SourcePath = call.param("path")?;
    let From { from, view, text, history, after } = call.query()?;
    if let Some(persona) = view {
        let asked = perspectives::Asked { path, persona, from };
        return perspectives::show(&site, &renderer, (frame, caller), asked).await;
    }
    if history.is_some() {
        return history::show(&site, (frame, caller), path, after).await;
    }
    // Before it is read: what is renamed meanwhile counts.
    let read_at = site.store.clock().now();
    if let Some(read) = call.read_version()?
        && let Err(cause) = require_same(&site, &path, &read).await
    {
        return absent::another(&site, &path, &read, cause).await;
    }
    let source: SourceView = match flows::sources::show(&site, &caller, &path).await {
        Ok(shown) => shown,
        Err(cause) => return absent::answer(&site, &caller, &path, cause).await,
    };
    frame.name_documents(&site, [source.path.as_str()]).await;
    let commits = commits(&site, &caller, &path).await?;
    let tabs = perspectives::tabs(&site, &caller, &path).await;
    let tree = tree::beside(&site, &caller, &frame, &path).await;
    let waiting = Waiting::of(&site, &caller, &path).await?;
    let seen = ReadVersion::new(read_at, source.blob.clone()).to_string();
    let names = match frame.may_write {
        true => Names::of(&site, &path, seen).await?,
        false => Names { seen, ..Names::default() },
    };
    let is_markdown = is_markdown(source.path.as_str());
    let is_large = source.text.len() > RENDERED_TEXT_BYTES_MAX;
    if is_markdown && !is_large && text.is_none() && from.is_none() {
        let path = source.path.as_str();
        let rendered = renderer.source(path, &source.blob, &source.text).await?;
        let sized = image_sizes::sized(&site, &caller, &rendered.html).await;
        let reading =
            Reading { frame, source, rendered, sized, tabs, commits, tree, waiting, names };
        return reader::show(&call, reading);
    }
    let mut page = DocumentPage {
        frame,
        tabs,
        tree,
        live: form::source_subject(source.path.as_str()),
        address: form::document_at(source.path.as_str()),
        earlier: None,
        later: None,
        lines: Vec::new(),
        lines_total: 0,
        commits,
        is_markdown,
        is_large,
        source,
        waiting,
        names,
    };
    page.fill(from.unwrap_or(1).max(1));
    reply::page(&page)
}

/// What a page knows of the names of its document, for what is typed there.
#[derive(Clone, Debug, Default)]
pub(in crate::http::pages) struct Names {
    /// When the page was made, and of which version.
    pub(in crate::http::pages) seen: String,
    /// Its earlier names, as a list in JSON. One that another document has is a pair with the
    /// moment until which it was a name of this one.
    pub(in crate::http::pages) earlier: Option<String>,
    /// The moment until which another document had its name, and the name of that one, in JSON.
    pub(in crate::http::pages) left: Option<String>,
}

impl Names {
    async fn of(site: &Site, path: &SourcePath, seen: String) -> Result<Names> {
        let earlier = flows::repository::renames::earlier_names(site, path).await?;
        let pair = |(name, until): &(SourcePath, Option<Millis>)| match until {
            Some(at) => json!([name, at.0]),
            None => json!(name),
        };
        let all: Vec<Value> = earlier.iter().map(pair).collect();
        let left = flows::repository::read_version::before(site, path).await?;
        Ok(Names {
            seen,
            earlier: (!all.is_empty()).then(|| json!(all).to_string()),
            left: left.map(|(at, to)| json!({"at": at.0, "to": to}).to_string()),
        })
    }
}

async fn commits(site: &Site, caller: &Caller, path: &SourcePath) -> Result<Vec<HistoryRow>> {
    let query = HistoryQuery { path: path.clone(), after: None, limit: Some(COMMITS) };
    match flows::sources::history(site, caller, query).await {
        Ok(found) => Ok(found.items),
        // A document that is only in the index has no history, but can be read.
        Err(cause) if matches!(cause.kind(), ErrorKind::NotFound | ErrorKind::Conflict) => {
            Ok(Vec::new())
        }
        Err(cause) => Err(cause),
    }
}
