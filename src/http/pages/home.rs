//! The first page: what waits for a person, and on a site that is new, what to do first.

use std::collections::BTreeSet;

use askama::Template;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::base::{Millis, Result};
use crate::flows::jobs::JobQuery;
use crate::flows::proposals::ProposalQuery;
use crate::flows::sources::SourceQuery;
use crate::flows::topics::TopicQuery;
use crate::flows::{self, Site};
use crate::http::pages::jobs::JobRow;
use crate::http::pages::proposals::ProposalRow;
use crate::http::pages::view::{Job, List, SourceRow, Topic, read};
use crate::http::pages::visible::{Name, Plain, Visible};
use crate::http::pages::{Frame, form, jobs, proposals, words};
use crate::http::{Call, any_of, get, reply};
use crate::people::Caller;

/// Rows of each list.
const ROWS: u32 = 8;
/// How many of the newest jobs are looked through for failures.
const JOBS_LOOKED_AT: u32 = 50;
/// A failure older than this waits for nobody any more.
const FAILED_MS_MAX: i64 = 3 * 24 * 3_600_000;

#[derive(Template)]
#[template(path = "home.html")]
struct HomePage {
    frame: Frame,
    proposals: Vec<ProposalRow>,
    has_more_proposals: bool,
    active: Vec<JobRow>,
    /// Whether a job has ever been asked for.
    has_worked: bool,
    failed: Vec<JobRow>,
    topics: Vec<Topic>,
    documents: Documents,
    /// What the script says that documents are.
    sources: Vec<String>,
    has_kinds: bool,
    warnings: Vec<String>,
}

/// Where something has happened of late, and then others.
struct Documents {
    paths: Vec<String>,
    has_more: bool,
    /// Whether the globs name files, of which git tracks none.
    has_untracked_only: bool,
}

impl HomePage {
    /// Whether nothing has ever been asked for here.
    fn is_new(&self) -> bool {
        !self.has_worked && self.proposals.is_empty() && self.topics.is_empty()
    }
}

pub(super) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([get("/", site, home)])
}

async fn home(site: Site, call: Call) -> Result<Response> {
    let (frame, caller) = Frame::of(&site, &call, "/")?;
    let limit = Some(ROWS);
    let open = ProposalQuery { status: Some("open".to_owned()), limit, ..Default::default() };
    let open: List<_> = read(flows::proposals::list(&site, &caller, open).await?)?;
    let has_more_proposals = open.next.is_some();
    let topics = TopicQuery { status: Some("open".to_owned()), limit, ..Default::default() };
    let topics: List<Topic> = read(flows::topics::list(&site, &caller, topics).await?)?;
    let mut active = Vec::new();
    for status in ["running", "queued"] {
        let query = JobQuery { status: Some(status.to_owned()), limit, ..Default::default() };
        let found: List<Job> = read(flows::jobs::list(&site, &caller, query).await?)?;
        active.extend(found.items);
    }
    let query = JobQuery { limit: Some(JOBS_LOOKED_AT), ..Default::default() };
    let newest: List<Job> = read(flows::jobs::list(&site, &caller, query).await?)?;
    let now = frame.now();
    let of_jobs =
        newest.items.iter().filter_map(|it| Some((it.created_at.0, it.source_path.clone()?)));
    let of_topics = topics.items.iter().map(|it| (it.created_at.0, it.source_path.clone()));
    let documents = documents(&site, &caller, of_jobs.chain(of_topics).collect()).await?;
    reply::page(&HomePage {
        proposals: proposals::rows(&site, open.items).await?,
        has_more_proposals,
        active: jobs::rows(active, now),
        has_worked: !newest.items.is_empty(),
        failed: jobs::rows(failed(newest.items, now), now),
        topics: topics.items,
        documents,
        sources: site.config.site.sources.iter().map(ToString::to_string).collect(),
        has_kinds: !site.config.kinds.is_empty(),
        warnings: site.warnings.to_vec(),
        frame,
    })
}

/// Returns the documents that were worked on last, then others by name.
async fn documents(
    site: &Site,
    caller: &Caller,
    mut lately: Vec<(Millis, String)>,
) -> Result<Documents> {
    let query = SourceQuery { limit: Some(ROWS * 2), ..Default::default() };
    let all: List<SourceRow> = read(flows::sources::list(site, caller, query).await?)?;
    lately.sort_by_key(|(at, _)| std::cmp::Reverse(at.0));
    let tracked = all.items.iter().filter(|it| it.tracked).map(|it| it.path.clone());
    let mut seen = BTreeSet::new();
    let mut paths: Vec<String> = lately.into_iter().map(|(_, path)| path).chain(tracked).collect();
    paths.retain(|it| seen.insert(it.clone()));
    let has_more = all.next.is_some() || paths.len() > ROWS as usize;
    paths.truncate(ROWS as usize);
    let has_untracked_only = paths.is_empty() && !all.items.is_empty();
    Ok(Documents { paths, has_more, has_untracked_only })
}

/// Returns the failures of late that nobody has repeated yet.
fn failed(newest: Vec<Job>, now: Millis) -> Vec<Job> {
    let repeated: Vec<String> = newest.iter().filter_map(|it| it.retry_of.clone()).collect();
    let is_late = |it: &Job| it.completed_at.is_some_and(|at| now.0 - at.0.0 < FAILED_MS_MAX);
    let failed = newest.into_iter().filter(|it| {
        matches!(it.status.as_str(), "failed" | "timed_out")
            && is_late(it)
            && !repeated.contains(&it.id)
    });
    failed.take(ROWS as usize).collect()
}
