//! Approvals for people and agents.

use std::slice;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::approvals::{self, Approval, Filter, Past, State, Texts, Viewer};
use crate::base::{ApprovalId, JobId, Page, Result};
use crate::flows::approvals::{daily_cap, named, viewer};
use crate::flows::{Site, page_limit};
use crate::jobs::Waiting;
use crate::people::{self, Caller};

/// The query of `GET /api/approvals`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ApprovalQuery {
    /// `pending`, `approved`, `amended`, `rejected`, `withdrawn` or `expired`.
    pub state: Option<String>,
    /// Only this channel.
    pub channel: Option<String>,
    /// The `next` of the previous page.
    pub after: Option<ApprovalId>,
    /// Rows per page.
    pub limit: Option<u32>,
}

/// Returns approvals without their payloads, newest first. A job sees those of its own root job.
///
/// # Errors
/// `invalid` for a state that is none.
pub async fn list(site: &Site, caller: &Caller, query: ApprovalQuery) -> Result<Page<Approval>> {
    caller.may_read()?;
    let filter = Filter {
        state: query.state.as_deref().map(str::parse::<State>).transpose()?,
        channel: query.channel,
        after: query.after,
        limit: page_limit(query.limit)?,
    };
    let (caller, works) = (caller.clone(), site.works.clone());
    site.store
        .read(move |c| {
            let page = approvals::list(c, &viewer(c, &caller)?, &filter)?;
            let items = page.items.into_iter().map(|it| named(c, it));
            let mut items: Vec<Approval> = items.collect::<Result<_>>()?;
            daily_cap::fill(c, &works, &mut items)?;
            Ok(Page { items, next: page.next })
        })
        .await
}

/// An approval with everything needed to decide.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "ApprovalPage"))]
pub struct Shown {
    /// The approval.
    #[serde(flatten)]
    pub approval: Approval,
    /// The payload.
    #[serde(flatten)]
    pub texts: Texts,
    /// Its events, oldest first.
    pub events: Vec<Past>,
}

/// Returns an approval.
///
/// # Errors
/// `not_found`, also for one that the caller may not see.
pub async fn show(site: &Site, caller: &Caller, id: &ApprovalId) -> Result<Shown> {
    caller.may_read()?;
    let (caller, id, works) = (caller.clone(), id.clone(), site.works.clone());
    site.store
        .read(move |c| {
            let mut approval = named(c, approvals::find(c, &id, &viewer(c, &caller)?)?)?;
            daily_cap::fill(c, &works, slice::from_mut(&mut approval))?;
            let mut events = approvals::history(c, &id)?;
            for event in &mut events {
                event.actor_name = Some(people::display_name(c, &event.actor)?);
            }
            Ok(Shown { texts: approvals::texts(c, &id)?, approval, events })
        })
        .await
}

/// Returns what the jobs of a root wait for a person to decide, and how: for whoever waits for
/// them. Nothing for what is private.
///
/// # Errors
/// As any read.
pub(in crate::flows) fn asks(c: &Connection, root: &JobId) -> Result<Option<Waiting>> {
    let Some(id) = approvals::pending_of_root(c, root)?.into_iter().next() else {
        return Ok(None);
    };
    let it = approvals::find(c, &id, &Viewer::Program)?;
    let decide = format!("decide with `wiki-browser approval approve {id}`, or `reject`");
    Ok(it.private_to.is_none().then(|| Waiting {
        code: "decision".into(),
        message: format!("asks a person: {}; {decide}", it.title),
        until: it.expires_at,
        job_id: None,
        job_kind: None,
        job_started_at: None,
    }))
}
