//! The history of a document: its commits, and the Topics and proposals behind them.

use askama::Template;
use warp::reply::Response;

use crate::api::sources::HistoryRow;
use crate::base::{Result, SourcePath};
use crate::flows::sources::HistoryQuery;
use crate::flows::{self, Site};
use crate::http::pages::Frame;
use crate::http::pages::parts::visible::{Name, Plain, Visible};
use crate::http::pages::parts::{form, labels};
use crate::http::reply;
use crate::people::Caller;

/// Commits per page.
const COMMITS: u32 = 50;

#[derive(Template)]
#[template(path = "history.html")]
struct HistoryPage {
    frame: Frame,
    path: String,
    address: String,
    commits: Vec<HistoryRow>,
    is_first: bool,
    next: Option<String>,
    is_shallow: bool,
}

/// Shows one page of a document's history, starting after `after`.
///
/// # Errors
/// As [`flows::sources::history`].
pub(in crate::http::pages) async fn show(
    site: &Site,
    (mut frame, caller): (Frame, Caller),
    path: SourcePath,
    after: Option<String>,
) -> Result<Response> {
    let is_first = after.is_none();
    let query = HistoryQuery { path: path.clone(), after, limit: Some(COMMITS) };
    let found = flows::sources::history(site, &caller, query).await?;
    let address = form::document_at(path.as_str());
    let next = found
        .next
        .map(|next| form::address(&address, &[("history", Some("all")), ("after", Some(&next))]));
    frame.name_documents(site, [path.as_str()]).await;
    reply::page(&HistoryPage {
        frame,
        path: path.to_string(),
        address,
        commits: found.items,
        is_first,
        is_shallow: found.is_shallow && next.is_none(),
        next,
    })
}
