//! The list of documents, as a tree or row by row, and the way to each.

mod absent;
mod document;
pub(in crate::http::pages) mod history;
pub(in crate::http::pages) mod passages;
pub(in crate::http::pages) mod pending;
pub(in crate::http::pages) mod perspectives;
pub(in crate::http::pages) mod reader;
pub(in crate::http::pages) mod tree;

use askama::Template;
use serde::Deserialize;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::sources::SourceRow;
use crate::base::{Result, fault};
use crate::flows::sources::SourceQuery;
use crate::flows::{self, Site};
use crate::http::markdown::Renderer;
use crate::http::pages::Frame;
use crate::http::pages::documents::tree::Branch;
use crate::http::pages::parts::visible::{Name, Plain, Visible};
use crate::http::pages::parts::{form, labels};
use crate::http::{Call, any_of, get, reply};
use crate::people::Caller;

/// Most untracked files named on the page of all documents.
const UNTRACKED_MAX: usize = 20;

#[derive(Template)]
#[template(path = "documents.html")]
struct DocumentsPage {
    frame: Frame,
    query: String,
    listed: Listed,
}

/// The content of the page of all documents.
enum Listed {
    /// All documents, folder by folder, and the untracked files.
    Tree { branch: Branch, count: usize, untracked: Vec<String> },
    /// Those that match a search, or all of them row by row.
    Rows { documents: Vec<SourceRow>, is_first: bool, next: Option<String> },
}

/// The query of the page; rows are selected as by `GET /api/sources`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    query: Option<String>,
    after: Option<String>,
    limit: Option<u32>,
    /// The open folder of the tree.
    folder: Option<String>,
}

type Desk = (Site, Renderer);

pub(super) fn routes(site: &Site, renderer: &Renderer) -> BoxedFilter<(Response,)> {
    let desk: Desk = (site.clone(), renderer.clone());
    any_of([
        get("/d", site, list),
        get("/start", site, start),
        get("/d/{*path}", &desk, document::show),
    ])
}

async fn list(site: Site, call: Call) -> Result<Response> {
    assert!(!fault::fails("documents"), "a test wants a fault of the program");
    let (frame, caller) = Frame::of(&site, &call, "/d")?;
    let Asked { query, after, limit, folder } = call.query()?;
    let query = query.unwrap_or_default();
    let is_tree = query.is_empty() && after.is_none() && limit.is_none();
    let listed = match is_tree {
        true => tree_of(&site, &caller, &frame, &folder.unwrap_or_default()).await?,
        false => rows(&site, &caller, &query, after, limit).await?,
    };
    reply::page(&DocumentsPage { frame, query, listed })
}

async fn tree_of(site: &Site, caller: &Caller, frame: &Frame, folder: &str) -> Result<Listed> {
    let all = flows::sources::catalog::list(site, caller).await?;
    let untracked = flows::sources::untracked(site, caller, UNTRACKED_MAX).await?;
    Ok(Listed::Tree {
        branch: tree::page(&all, folder, frame.now()),
        count: all.len(),
        untracked: untracked.iter().map(ToString::to_string).collect(),
    })
}

async fn rows(
    site: &Site,
    caller: &Caller,
    query: &str,
    after: Option<String>,
    limit: Option<u32>,
) -> Result<Listed> {
    let is_first = after.is_none();
    let wanted = Some(query.to_owned()).filter(|it| !it.is_empty());
    let asked = SourceQuery { query: wanted.clone(), order: None, after, limit };
    let found = flows::sources::list(site, caller, asked).await?;
    let limit = limit.map(|it| it.to_string());
    let next = found.next.map(|next| {
        let query =
            [("query", wanted.as_deref()), ("after", Some(&next)), ("limit", limit.as_deref())];
        form::address("/d", &query)
    });
    Ok(Listed::Rows { documents: found.items, is_first, next })
}

/// Redirects to the first document, or to the list of all if there is none.
async fn start(site: Site, call: Call) -> Result<Response> {
    let start = flows::sources::catalog::start(&site, &call.caller()?).await?;
    reply::see_other(&start.map_or_else(|| "/d".to_owned(), |it| form::document_at(it.as_str())))
}
