//! The list of proposals.

use std::collections::BTreeMap;

use askama::Template;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::proposals::Proposal;
use crate::base::{ProposalId, Result};
use crate::documents::proposals::proposal;
use crate::documents::topics::topic;
use crate::flows::proposals::ProposalQuery;
use crate::flows::{self, Site};
use crate::http::pages::Frame;
use crate::http::pages::parts::visible::{Name, Plain, Visible};
use crate::http::pages::parts::{form, labels};
use crate::http::{Call, any_of, get, reply};

/// A proposal in a list.
pub(in crate::http::pages) struct ProposalRow {
    pub(in crate::http::pages) proposal: Proposal,
    /// The title of its Topic.
    pub(in crate::http::pages) title: String,
}

#[derive(Template)]
#[template(path = "proposals.html")]
struct ProposalsPage {
    frame: Frame,
    status: Option<String>,
    source_path: Option<String>,
    proposals: Vec<ProposalRow>,
    is_first: bool,
    next: Option<String>,
}

pub(in crate::http::pages) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([get("/proposals", site, list)])
}

/// Returns proposals with the titles of their Topics.
pub(in crate::http::pages) async fn rows(
    site: &Site,
    proposals: Vec<Proposal>,
) -> Result<Vec<ProposalRow>> {
    let ids: Vec<ProposalId> = proposals.iter().map(|it| it.id.clone()).collect();
    let config = site.config.clone();
    let find = move |c: &rusqlite::Connection| {
        let mut titles = BTreeMap::new();
        for id in ids {
            let found = proposal::find(c, &id)?;
            let topic = topic::find(c, &found.topic_id, None)?.title;
            let title = flows::proposals::title(c, &config, &found, &topic)?;
            titles.insert(id, title);
        }
        Ok(titles)
    };
    let mut titles = site.store.read(find).await?;
    let row = |proposal: Proposal| ProposalRow {
        title: titles.remove(&proposal.id).unwrap_or_default(),
        proposal,
    };
    Ok(proposals.into_iter().map(row).collect())
}

/// Shows the proposals that match a query of `/decisions`; by default those awaiting review.
///
/// # Errors
/// As any read.
pub(in crate::http::pages) async fn of_query(
    site: Site,
    call: Call,
    mut asked: ProposalQuery,
) -> Result<Response> {
    asked.status.get_or_insert_with(|| "open".to_owned());
    show(site, call, asked).await
}

async fn list(site: Site, call: Call) -> Result<Response> {
    let asked = call.query()?;
    show(site, call, asked).await
}

async fn show(site: Site, call: Call, asked: ProposalQuery) -> Result<Response> {
    let (mut frame, caller) = Frame::of(&site, &call, "/decisions")?;
    let (status, is_first) = (asked.status.clone(), asked.after.is_none());
    let source_path = asked.source_path.as_ref().map(ToString::to_string);
    let topic_id = asked.topic_id.as_ref().map(ToString::to_string);
    let limit = asked.limit.map(|it| it.to_string());
    let found = flows::proposals::list(&site, &caller, asked).await?;
    let next = found.next.map(|next| {
        let query = [
            ("status", status.as_deref()),
            ("source_path", source_path.as_deref()),
            ("topic_id", topic_id.as_deref()),
            ("after", Some(next.as_str())),
            ("limit", limit.as_deref()),
        ];
        let at = if status.is_some() { "/decisions" } else { "/proposals" };
        form::address(at, &query)
    });
    let proposals = rows(&site, found.items).await?;
    let paths = proposals.iter().map(|it| it.proposal.source_path.as_str());
    frame.name_documents(&site, paths.chain(source_path.as_deref())).await;
    reply::page(&ProposalsPage { frame, status, source_path, proposals, is_first, next })
}
