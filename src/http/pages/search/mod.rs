//! The search page: results with highlighted matches.

use std::collections::{BTreeMap, BTreeSet};

use askama::Template;
use serde::Deserialize;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::topics::TopicStatus;
use crate::base::{Actor, ErrorKind, Result, SourcePath};
use crate::flows::search::{Hit, Hits, SearchQuery};
use crate::flows::{self, Site};
use crate::http::pages::Frame;
use crate::http::pages::documents::passages;
use crate::http::pages::parts::visible::{Name, Plain, Visible, invisible_name};
use crate::http::pages::parts::{form, labels};
use crate::http::{Call, get, reply};
use crate::people::{self, Caller};

/// Most folders in the filter.
const FOLDERS_MAX: usize = 200;

#[derive(Template)]
#[template(path = "search.html")]
struct SearchPage {
    frame: Frame,
    query: String,
    kind: Option<String>,
    path: Option<String>,
    status: Option<String>,
    author: Option<String>,
    /// The authors in the filter: actors (or names, as requested) and their labels.
    authors: BTreeMap<String, String>,
    /// Folders of documents.
    folders: BTreeSet<String>,
    found: Option<Hits>,
    refusal: Option<String>,
    is_first: bool,
    next: Option<String>,
}

/// An active filter.
struct Chip {
    what: &'static str,
    name: String,
    /// The address of the search without it.
    without: String,
}

impl SearchPage {
    /// Returns the address of the same search for another type of result.
    fn of_kind(&self, kind: &str) -> String {
        let kind = Some(kind).filter(|it| !it.is_empty());
        self.address(kind, None)
    }

    /// Returns the active filters.
    fn chips(&self) -> Vec<Chip> {
        let without = |name: &str| {
            let query = [
                ("query", Some(self.query.as_str())),
                ("kind", self.kind.as_deref()),
                ("path", self.path.as_deref()),
                ("status", self.status.as_deref()),
                ("author", self.author.as_deref()),
            ];
            let kept: Vec<_> = query.into_iter().filter(|it| it.0 != name).collect();
            form::address("/search", &kept)
        };
        let mut chips = Vec::new();
        if let Some(path) = &self.path {
            let (what, without) = ("Path starts with", without("path"));
            chips.push(Chip { what, name: path.clone(), without });
        }
        if let Some(status) = self.status.as_ref().and_then(|it| it.parse().ok()) {
            let name = labels::topic_state(&status).1.to_lowercase();
            chips.push(Chip { what: "Topics:", name, without: without("status") });
        }
        if let Some(author) = &self.author {
            let name = self.authors.get(author).unwrap_or(author).clone();
            chips.push(Chip { what: "Written by", name, without: without("author") });
        }
        chips
    }

    /// Returns the address of the same search without filters.
    fn everywhere(&self) -> String {
        form::address("/search", &[("query", Some(self.query.as_str()))])
    }

    /// Returns whether the filters exclude everything, because documents have neither a state nor
    /// an author.
    fn is_contrary(&self) -> bool {
        self.kind.as_deref() == Some("source") && (self.status.is_some() || self.author.is_some())
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

/// Returns the page of a hit.
fn address_of(hit: &Hit) -> String {
    match (&*hit.kind, &hit.topic_id, hit.sequence) {
        ("message", Some(topic), Some(sequence)) => format!("/topics/{topic}#message-{sequence}"),
        ("topic", Some(topic), _) => format!("/topics/{topic}"),
        _ => words_address(hit),
    }
}

/// Returns the page of a document, at the first match.
fn words_address(hit: &Hit) -> String {
    let document = form::document_at(hit.source_path.as_str());
    match hit.snippet.iter().find(|it| it.hit) {
        // A text fragment (<https://wicg.github.io/scroll-to-text-fragment/>): the browser
        // finds the text; a browser without them shows the top.
        Some(piece) => format!("{document}#:~:text={}", form::fragment(&piece.text)),
        None => document,
    }
}

/// Returns the page of a document, at the line of the first match.
fn line_address(hit: &Hit) -> String {
    let document = form::document_at(hit.source_path.as_str());
    let Some(line) = hit.line else { return document };
    passages::line_at(&document, line.max(1))
}

fn kind_name(hit: &Hit) -> &'static str {
    match &*hit.kind {
        "source" => "Document",
        "topic" => "Topic",
        _ => "Message",
    }
}

/// The query of the page: the form also sends empty fields.
#[derive(Debug, Default, Deserialize)]
struct Asked {
    /// Also as `q`, by which other sites link.
    #[serde(default, alias = "q")]
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
        authors: BTreeMap::new(),
        folders: folders(&site, &caller).await,
        found: None,
        refusal: None,
        is_first: asked.after.is_none(),
        next: None,
    };
    if page.query.trim().is_empty() {
        page.authors = authors(&site, &caller, &page)?;
        if !page.chips().is_empty() {
            page.refusal = Some("enter at least one word".to_owned());
        }
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
            page.next =
                found.next.as_deref().map(|it| page.address(page.kind.as_deref(), Some(it)));
            let paths = found.items.iter().map(|it| it.source_path.as_str());
            page.frame.name_documents(&site, paths).await;
            page.found = Some(found);
        }
        // The typed text stays, with the error next to it.
        Err(cause) if matches!(cause.kind(), ErrorKind::Invalid | ErrorKind::TooLarge) => {
            let hint = cause.hint_str().map(|it| format!(": {it}")).unwrap_or_default();
            page.refusal = Some(format!("{}{hint}", cause.message()));
        }
        Err(cause) => return Err(cause),
    }
    page.authors = authors(&site, &caller, &page)?;
    reply::page(&page)
}

/// Returns the folders with documents, as prefixes; too many are not offered.
async fn folders(site: &Site, caller: &Caller) -> BTreeSet<String> {
    // If git fails, no folders are offered, but typed ones work.
    let Ok(paths) = flows::sources::paths(site, caller).await else { return BTreeSet::new() };
    let folder = |it: &SourcePath| Some(format!("{}/", it.as_str().rsplit_once('/')?.0));
    let mut folders = BTreeSet::new();
    // Invisible names cannot be chosen, but they can be typed.
    let is_plain = |it: &String| !it.chars().any(|it| invisible_name(it).is_some());
    for (path, _) in paths.iter() {
        folders.extend(folder(path).filter(is_plain));
        if folders.len() > FOLDERS_MAX {
            break;
        }
    }
    folders
}

/// Returns the authors for the filter: the reader, the authors of the results, the requested one.
fn authors(site: &Site, caller: &Caller, page: &SearchPage) -> Result<BTreeMap<String, String>> {
    let found = page.found.iter().flat_map(|it| &it.items);
    let mut authors: BTreeMap<String, String> = found
        .filter_map(|it| Some((it.author.as_ref()?.to_string(), it.author_name.clone()?)))
        .collect();
    authors.insert(caller.actor().to_string(), caller.person()?.display_name.clone());
    if let Some(asked) = page.author.as_ref().filter(|it| !authors.contains_key(*it)) {
        let name = match asked.parse::<Actor>() {
            // An unknown actor has no name; the search has reported it.
            Ok(actor) => site.store.look(|c| people::display_name(c, &actor)).ok(),
            // The name of a person stands for itself.
            Err(_) => None,
        };
        authors.insert(asked.clone(), name.unwrap_or_else(|| asked.clone()));
    }
    Ok(authors)
}
