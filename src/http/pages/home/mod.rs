//! The home page: what awaits a person, and the first steps on a new site.

use std::collections::{HashMap, HashSet};

use askama::Template;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::approvals::Approval;
use crate::api::jobs::Status;
use crate::api::topics::Topic;
use crate::base::{JobId, Millis, Result, SourcePath, TopicId};
use crate::flows::jobs::JobQuery;
use crate::flows::proposals::ProposalQuery;
use crate::flows::topics::TopicQuery;
use crate::flows::{self, Site};
use crate::http::pages::approvals::InChannel;
use crate::http::pages::channels::Row as ChannelRow;
use crate::http::pages::jobs::JobRow;
use crate::http::pages::mail::Row as MailRow;
use crate::http::pages::parts::job::Job;
use crate::http::pages::parts::visible::{Name, Plain, Visible};
use crate::http::pages::parts::{form, job, labels};
use crate::http::pages::proposals::list;
use crate::http::pages::proposals::list::ProposalRow;
use crate::http::pages::{Frame, approvals, channels, jobs, mail};
use crate::http::{Call, any_of, get, reply};
use crate::people::Caller;

/// Rows per list.
const ROWS: u32 = 8;
/// How many of the newest jobs are searched for failures.
const JOBS_LOOKED_AT: u32 = 50;
/// Older failures are not shown.
const FAILED_MS_MAX: i64 = 3 * 24 * 3_600_000;

#[derive(Template)]
#[template(path = "home.html")]
struct HomePage {
    frame: Frame,
    proposals: Vec<ProposalRow>,
    has_more_proposals: bool,
    /// Open requests of agents.
    approvals: Vec<Approval>,
    /// What waits for the reader in channels.
    in_channels: Vec<InChannel>,
    active: Vec<JobRow>,
    /// Whether there has ever been a job.
    has_worked: bool,
    failed: Vec<JobRow>,
    topics: Vec<Topic>,
    /// The reader's open channels.
    channels: Vec<ChannelRow>,
    /// Messages that the reader has not read.
    mail: Vec<MailRow>,
    /// Recently changed documents, by path.
    documents: Vec<String>,
    /// Whether the globs match files, none of which git tracks.
    has_untracked_only: bool,
    /// The `sources` of the script.
    sources: Vec<String>,
    warnings: Vec<String>,
}

impl HomePage {
    /// Returns how much awaits the reader.
    fn to_review(&self) -> usize {
        self.proposals.len() + self.approvals.len() + self.in_channels.len()
    }

    /// Whether nothing has happened here yet.
    fn is_new(&self) -> bool {
        !self.has_worked
            && self.approvals.is_empty()
            && self.proposals.is_empty()
            && self.topics.is_empty()
            && self.channels.is_empty()
            && self.mail.is_empty()
    }
}

pub(super) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([get("/", site, home)])
}

async fn home(site: Site, call: Call) -> Result<Response> {
    let (mut frame, caller) = Frame::of(&site, &call, "/")?;
    let limit = Some(ROWS);
    let open = ProposalQuery { status: Some("open".to_owned()), limit, ..Default::default() };
    let open = flows::proposals::list(&site, &caller, open).await?;
    let has_more_proposals = open.next.is_some();
    let mut waiting = approvals::list::waiting(&site, &caller).await?;
    waiting.truncate(ROWS as usize);
    let mut in_channels = approvals::list::in_channels(&site, &caller).await?;
    in_channels.truncate(ROWS as usize);
    let topics = TopicQuery { status: Some("open".to_owned()), limit, ..Default::default() };
    let topics = flows::topics::list(&site, &caller, topics).await?;
    let mut active = Vec::new();
    for status in ["running", "queued"] {
        let query = JobQuery { status: Some(status.to_owned()), limit, ..Default::default() };
        let found = job::jobs(flows::jobs::list(&site, &caller, query).await?);
        // A long-running agent always has a job; its own page shows what it does.
        active.extend(found.items.into_iter().filter(|it| !it.is_start_of_agent()));
    }
    let query = JobQuery { limit: Some(JOBS_LOOKED_AT), ..Default::default() };
    let newest = job::jobs(flows::jobs::list(&site, &caller, query).await?);
    // A job may have ended since it was read as running: it is listed once, by the latest look.
    let ended = |id: &JobId| newest.items.iter().any(|it| it.id == *id && !it.is_active());
    active.retain(|it| !ended(&it.id));
    let now = frame.now();
    let of_jobs = newest
        .items
        .iter()
        .filter_map(|it| Some((it.created_at, it.source_path.as_ref()?.parse().ok()?)));
    let of_topics = topics.items.iter().map(|it| (it.created_at, it.source_path.clone()));
    let documents = recent(&site, &caller, of_jobs.chain(of_topics).collect()).await?;
    let untracked = match documents.is_empty() {
        true => flows::sources::untracked(&site, &caller, 1).await?,
        false => Vec::new(),
    };
    let has_worked = !newest.items.is_empty();
    let failed = failed(&site, &caller, newest.items, now).await?;
    let jobs = active.iter().chain(&failed).filter_map(|it| it.source_path.as_deref());
    let proposed = open.items.iter().map(|it| it.source_path.as_str());
    let discussed = topics.items.iter().map(|it| it.source_path.as_str());
    let listed = documents.iter().map(String::as_str);
    frame.name_documents(&site, jobs.chain(proposed).chain(discussed).chain(listed)).await;
    // Notes for the operator name files of the server.
    let warnings =
        if caller.may_administer().is_ok() { site.warnings.to_vec() } else { Vec::new() };
    reply::page(&HomePage {
        proposals: list::rows(&site, open.items).await?,
        has_more_proposals,
        approvals: waiting,
        in_channels,
        active: jobs::rows(active, now),
        has_worked,
        failed: jobs::rows(failed, now),
        topics: topics.items,
        channels: channels::rows_of(&site, &caller, ROWS as usize).await?,
        mail: mail::unread(&site, &caller, ROWS).await?,
        documents,
        has_untracked_only: !untracked.is_empty(),
        sources: site.config.site.sources.iter().map(ToString::to_string).collect(),
        warnings,
        frame,
    })
}

/// Returns the recently changed documents.
async fn recent(
    site: &Site,
    caller: &Caller,
    lately: Vec<(Millis, SourcePath)>,
) -> Result<Vec<String>> {
    let mut touched: HashMap<SourcePath, Millis> = HashMap::new();
    for (at, path) in lately {
        let latest = touched.entry(path).or_insert(at);
        *latest = at.max(*latest);
    }
    let found = flows::sources::catalog::recent(site, caller, &touched, ROWS as usize).await?;
    Ok(found.iter().map(ToString::to_string).collect())
}

/// Returns recent failures that nobody has retried or dismissed and whose Topic no later job has
/// settled; of a long-running agent the newest one.
async fn failed(site: &Site, caller: &Caller, newest: Vec<Job>, now: Millis) -> Result<Vec<Job>> {
    let repeated: Vec<JobId> = newest.iter().filter_map(|it| it.retry_of.clone()).collect();
    let succeeded = newest.iter().filter(|it| it.status == Status::Succeeded);
    let succeeded: Vec<(TopicId, Millis)> =
        succeeded.filter_map(|it| Some((it.topic_id.clone()?, it.created_at))).collect();
    let is_late = |it: &Job| it.completed_at.is_some_and(|at| now.0 - at.0 < FAILED_MS_MAX);
    let is_overtaken = |it: &Job| {
        let topic = it.topic_id.as_ref();
        succeeded.iter().any(|(of, at)| Some(of) == topic && *at > it.created_at)
    };
    let failed = newest.into_iter().filter(|it| {
        it.has_failed() && is_late(it) && !repeated.contains(&it.id) && !is_overtaken(it)
    });
    let mut failed: Vec<Job> = failed.collect();
    // An agent that is started again and again fails once: its newest start tells how.
    let mut agents = HashSet::new();
    failed.retain(|it| !it.is_start_of_agent() || agents.insert(it.kind.clone()));
    let asked = failed.iter().map(|job| (job.id.clone(), job.topic_id.clone())).collect();
    let settled = flows::jobs::failure::settled(site, caller, asked).await?;
    failed.retain(|job| !settled.contains(&job.id));
    failed.truncate(ROWS as usize);
    Ok(failed)
}
