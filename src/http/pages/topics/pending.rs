//! A suggestion that is not yet a proposal, and what blocked it.

use crate::api::jobs::Holder;
use crate::base::limit::PAGE_ROWS_MAX;
use crate::base::{JobId, Millis, Result};
use crate::flows::jobs::JobQuery;
use crate::flows::proposals::apply::unready;
use crate::flows::proposals::suggestions::applying;
use crate::flows::{self, Site};
use crate::http::pages::parts::job;
use crate::http::pages::parts::job::Job;
use crate::http::pages::topics::suggestion::Part;
use crate::http::pages::topics::thread::Said;
use crate::people::Caller;
use crate::script::OnBusy;

/// A job requested with a suggestion is requested within this time.
const ASKED_WITHIN_MS: i64 = 2_000;

/// A suggestion that is not yet a proposal.
pub(in crate::http::pages) struct Pending {
    /// The kind that turns it into one without a model.
    pub(in crate::http::pages) kind: Option<String>,
    /// Why it cannot become one now, as a sentence: the document has uncommitted changes, or the
    /// repository is in the middle of something.
    pub(in crate::http::pages) unready: Option<String>,
    /// The job that blocked it, or blocks it now.
    pub(in crate::http::pages) obstacle: Option<Obstacle>,
}

/// A job that blocks a suggestion.
pub(in crate::http::pages) struct Obstacle {
    pub(in crate::http::pages) job_id: JobId,
    pub(in crate::http::pages) kind: String,
    /// Whether it still does.
    pub(in crate::http::pages) is_there: bool,
}

/// Returns the last suggestion of an open Topic, if it has no proposal.
pub(in crate::http::pages) async fn pending(
    site: &Site,
    caller: &Caller,
    view: &flows::topics::TopicPage,
    said: &[Said],
    (is_busy, holder): (bool, Option<&Holder>),
) -> Result<Option<Pending>> {
    let suggests = |it: &&Said| it.parts.iter().any(|it| matches!(it, Part::Suggestion(_)));
    let Some(last) = said.iter().rfind(suggests) else { return Ok(None) };
    let last = last.message.created_at;
    let is_proposed = || view.proposals.iter().any(|it| it.created_at >= last);
    let is_settled = !view.topic.is_open() || view.topic.source_deleted.is_some();
    if is_settled || is_busy || is_proposed() {
        return Ok(None);
    }
    let Some((kind, _)) = applying(&site.config) else {
        return Ok(Some(Pending { kind: None, unready: None, obstacle: None }));
    };
    let name = Some(kind.name.clone());
    let path = view.topic.source_path.clone();
    if let Some(cause) = unready(site, &path).await {
        let hint = cause.hint_str().map(|it| format!("; {it}")).unwrap_or_default();
        let unready = Some(format!("{}{hint}", cause.message()));
        return Ok(Some(Pending { kind: name, unready, obstacle: None }));
    }
    let obstacle = match holder {
        _ if kind.on_busy == OnBusy::Queue => None,
        Some(it) => {
            Some(Obstacle { job_id: it.job_id.clone(), kind: it.kind.clone(), is_there: true })
        }
        None => then(site, caller, view, last).await?,
    };
    Ok(Some(Pending { kind: name, unready: None, obstacle }))
}

/// Returns another Topic's job that was working on the document when the suggestion was made.
async fn then(
    site: &Site,
    caller: &Caller,
    view: &flows::topics::TopicPage,
    at: Millis,
) -> Result<Option<Obstacle>> {
    let path = view.topic.source_path.clone();
    let query =
        JobQuery { source_path: Some(path), limit: Some(PAGE_ROWS_MAX), ..JobQuery::default() };
    let jobs = job::jobs(flows::jobs::list(site, caller, query).await?);
    let is_other = |it: &Job| it.topic_id.as_ref() != Some(&view.topic.id);
    let was_there = |it: &Job| {
        let ended = it.completed_at.as_ref().is_none_or(|ended| *ended >= at);
        it.created_at <= at.plus(ASKED_WITHIN_MS) && ended
    };
    let found = jobs.items.into_iter().find(|it| is_other(it) && was_there(it));
    Ok(found.map(|it| Obstacle { job_id: it.id, kind: it.kind, is_there: false }))
}
