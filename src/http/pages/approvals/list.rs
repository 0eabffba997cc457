//! The list of everything awaiting a decision: proposals and approvals, oldest first; and past
//! approvals.

use askama::Template;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::approvals::{Approval, Decision};
use crate::base::{Millis, Result};
use crate::flows::approvals::show::ApprovalQuery;
use crate::flows::proposals::ProposalQuery;
use crate::flows::{self, Site};
use crate::http::pages::Frame;
use crate::http::pages::approvals::InChannel;
use crate::http::pages::parts::visible::{Name, Plain, Visible};
use crate::http::pages::parts::{form, labels};
use crate::http::pages::proposals::list::{self, ProposalRow};
use crate::http::{Call, any_of, get, reply};
use crate::people::Caller;

/// Most proposals in the list, newest first.
const PROPOSALS_MAX: u32 = 200;

/// Something awaiting a decision.
enum Row {
    Proposal(Box<ProposalRow>),
    Approval(Box<Approval>),
    /// Something in a channel: a held answer, a pause or an escalation.
    InChannel(Box<InChannel>),
}

impl Row {
    fn since(&self) -> Millis {
        match self {
            Row::Proposal(row) => row.proposal.created_at,
            Row::Approval(row) => row.created_at,
            Row::InChannel(row) => row.since,
        }
    }
}

#[derive(Template)]
#[template(path = "decisions.html")]
struct DecisionsPage {
    frame: Frame,
    rows: Vec<Row>,
    has_more: bool,
}

#[derive(Template)]
#[template(path = "approvals.html")]
struct ApprovalsPage {
    frame: Frame,
    state: Option<String>,
    rows: Vec<Approval>,
    is_first: bool,
    next: Option<String>,
}

pub(in crate::http::pages) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([get("/decisions", site, decisions), get("/approvals", site, approvals)])
}

/// Returns the approvals awaiting the caller, oldest first.
pub(in crate::http::pages) async fn waiting(site: &Site, caller: &Caller) -> Result<Vec<Approval>> {
    flows::decisions::approvals(site, caller).await
}

/// Returns what waits for the caller in channels, oldest first.
pub(in crate::http::pages) async fn in_channels(
    site: &Site,
    caller: &Caller,
) -> Result<Vec<InChannel>> {
    let all = flows::decisions::waiting(site, caller).await?;
    let is_in_channel = |it: &Decision| ["held", "paused", "escalation"].contains(&&*it.what);
    let found = all.into_iter().filter(is_in_channel);
    Ok(found.map(|it| InChannel { since: it.since, waiting: it }).collect())
}

/// Shows everything awaiting a decision; with a query, the proposals that match it.
async fn decisions(site: Site, call: Call) -> Result<Response> {
    let asked: ProposalQuery = call.query()?;
    let is_plain = asked.status.is_none()
        && asked.source_path.is_none()
        && asked.topic_id.is_none()
        && asked.after.is_none()
        && asked.limit.is_none();
    if !is_plain {
        return list::of_query(site, call, asked).await;
    }
    let (mut frame, caller) = Frame::of(&site, &call, "/decisions")?;
    let open = ProposalQuery {
        status: Some("open".to_owned()),
        limit: Some(PROPOSALS_MAX),
        ..Default::default()
    };
    let open = flows::proposals::list(&site, &caller, open).await?;
    let has_more = open.next.is_some();
    let proposals = list::rows(&site, open.items).await?;
    let mut rows: Vec<Row> = proposals.into_iter().map(|it| Row::Proposal(Box::new(it))).collect();
    let waiting = waiting(&site, &caller).await?;
    rows.extend(waiting.into_iter().map(|it| Row::Approval(Box::new(it))));
    let found = in_channels(&site, &caller).await?;
    rows.extend(found.into_iter().map(|it| Row::InChannel(Box::new(it))));
    rows.sort_by_key(|row| row.since().0);
    let paths = rows.iter().filter_map(|row| match row {
        Row::Proposal(row) => Some(row.proposal.source_path.as_str()),
        Row::Approval(_) | Row::InChannel(_) => None,
    });
    frame.name_documents(&site, paths).await;
    reply::page(&DecisionsPage { frame, rows, has_more })
}

/// Shows approvals, newest first.
async fn approvals(site: Site, call: Call) -> Result<Response> {
    let (frame, caller) = Frame::of(&site, &call, "/decisions")?;
    let asked: ApprovalQuery = call.query()?;
    let (state, is_first) = (asked.state.clone(), asked.after.is_none());
    let channel = asked.channel.clone();
    let limit = asked.limit.map(|it| it.to_string());
    let found = flows::approvals::show::list(&site, &caller, asked).await?;
    let next = found.next.map(|next| {
        let query = [
            ("state", state.as_deref()),
            ("channel", channel.as_deref()),
            ("after", Some(next.as_str())),
            ("limit", limit.as_deref()),
        ];
        form::address("/approvals", &query)
    });
    reply::page(&ApprovalsPage { frame, state, rows: found.items, is_first, next })
}
