//! The board of jobs: waiting, running and ended jobs, engines, and today's usage.

use std::collections::BTreeMap;

use askama::Template;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::jobs::Usage;
use crate::api::usage::{CapRow, EngineRow, UsageRow};
use crate::base::Result;
use crate::flows::jobs::JobView;
use crate::flows::jobs::board::{Board, BoardQuery};
use crate::flows::jobs::usage::{EngineName, UsageQuery};
use crate::flows::{self, Site};
use crate::http::pages::Frame;
use crate::http::pages::parts::job::Job;
use crate::http::pages::parts::time::span;
use crate::http::pages::parts::visible::{Name, Plain, Visible};
use crate::http::pages::parts::{form, labels, time};
use crate::http::{Call, any_of, post, reply};
use crate::people::Caller;

/// Period of the usage table, in milliseconds.
const SPENT_MS: i64 = 7 * 24 * 3_600_000;

/// The board, with its jobs as pages show them.
struct Found {
    queued: Vec<Job>,
    running: Vec<Job>,
    ended: Vec<Job>,
    queued_count: i64,
    running_count: i64,
    slots: u32,
    kinds: Vec<(String, i64, u32)>,
}

impl From<Board> for Found {
    fn from(board: Board) -> Found {
        let jobs = |it: Vec<JobView>| it.into_iter().map(Job::from).collect();
        Found {
            queued: jobs(board.queued),
            running: jobs(board.running),
            ended: jobs(board.ended),
            queued_count: board.queued_count,
            running_count: board.running_count,
            slots: board.slots,
            kinds: board.kinds,
        }
    }
}

/// A lane that is in use.
#[derive(Debug, Default)]
struct LaneRow {
    running: usize,
    waiting: usize,
    places: u32,
}

/// Returns the tokens of a day or a kind.
fn tokens(usage: &Usage) -> String {
    labels::grouped(usage.input_tokens + usage.cached_tokens + usage.output_tokens)
}

/// Returns who a cap belongs to.
fn whose(cap: &CapRow) -> String {
    match (cap.cap.as_str(), cap.display_name.as_ref().or(cap.of.as_ref())) {
        ("limits.daily_person", Some(name)) => name.clone(),
        ("kind.daily", Some(kind)) => format!("Kind “{kind}”"),
        _ => "The site".to_owned(),
    }
}

/// Returns the used share of a cap, in words.
fn used_share(cap: &CapRow) -> String {
    let amount = |number: f64| match cap.measure.as_str() {
        "cost_usd" => format!("{number:.2} USD"),
        "tokens" => format!("{} tokens", labels::grouped(number as i64)),
        _ => span(number as i64),
    };
    format!("{} of {} today", amount(cap.used), amount(cap.limit))
}

#[derive(Template)]
#[template(path = "board.html")]
struct BoardPage {
    frame: Frame,
    asked: BoardQuery,
    /// The address of the board, with its filter.
    address: String,
    found: Found,
    lanes: BTreeMap<String, LaneRow>,
    kinds: Vec<String>,
    /// The requesters of the jobs shown: actor and name.
    people: BTreeMap<String, String>,
    held: Vec<EngineRow>,
    today: Usage,
    caps: Vec<CapRow>,
    days: Vec<Usage>,
    by_kind: Vec<Usage>,
}

impl BoardPage {
    fn is_filtered(&self) -> bool {
        self.asked.kind.is_some()
            || self.asked.source_path.is_some()
            || self.asked.requested_by.is_some()
    }

    fn is_empty(&self) -> bool {
        self.found.queued.is_empty() && self.found.running.is_empty() && self.found.ended.is_empty()
    }
}

pub(in crate::http::pages) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([post("/engines/{name}/release", site, release)])
}

/// Shows the board.
pub(in crate::http::pages) async fn show(
    site: &Site,
    (mut frame, caller): (Frame, Caller),
    asked: BoardQuery,
) -> Result<Response> {
    let mut found = Found::from(flows::jobs::board::board(site, &caller, asked.clone()).await?);
    let all = || found.queued.iter().chain(&found.running).chain(&found.ended);
    let mut people: BTreeMap<String, String> = all()
        .filter(|it| it.requested_by.person().is_some())
        .map(|it| (it.requested_by.to_string(), it.requested_by_name.clone()))
        .collect();
    people.insert(caller.actor().to_string(), caller.person()?.display_name.clone());
    if let Some(by) = &asked.requested_by {
        people.entry(by.clone()).or_insert_with(|| "Someone else".to_owned());
    }
    let paths = all().filter_map(|it| it.source_path.as_deref());
    frame.name_documents(site, paths).await;
    let lanes = lanes(site, &found);
    for job in &mut found.queued {
        job.look_at_other(&site.config);
    }
    let engines = flows::jobs::usage::engines(site, &caller).await?;
    let since: String = frame.now().plus(-SPENT_MS).rfc3339().chars().take(10).collect();
    let usage = async |by: &str| {
        let (by, since) = (Some(by.to_owned()), Some(since.clone()));
        flows::jobs::usage::usage(site, &caller, UsageQuery { by, since }).await
    };
    let (days, by_kind) = (usage("day").await?, usage("kind").await?);
    let rows = |it: Vec<UsageRow>| it.into_iter().map(|it| it.usage).collect::<Vec<_>>();
    let (caps, days, by_kind) = (days.caps, rows(days.items), rows(by_kind.items));
    let today: String = frame.now().rfc3339().chars().take(10).collect();
    let query = [
        ("kind", asked.kind.as_deref()),
        ("source_path", asked.source_path.as_ref().map(|it| it.as_str())),
        ("requested_by", asked.requested_by.as_deref()),
    ];
    reply::page(&BoardPage {
        address: form::address("/jobs", &query),
        lanes,
        kinds: site.config.kinds.keys().cloned().collect(),
        people,
        held: engines.items.into_iter().filter(|it| it.hold.is_some()).collect(),
        today: days.iter().find(|it| it.name == today).cloned().unwrap_or_default(),
        caps,
        days,
        by_kind,
        found,
        asked,
        frame,
    })
}

/// Returns the lanes of waiting and running jobs, with their usage.
fn lanes(site: &Site, found: &Found) -> BTreeMap<String, LaneRow> {
    let mut lanes: BTreeMap<String, LaneRow> = BTreeMap::new();
    for (jobs, is_running) in [(&found.running, true), (&found.queued, false)] {
        for lane in jobs.iter().filter_map(|it| it.lane.as_ref()) {
            let row = lanes.entry(lane.clone()).or_default();
            row.places = site.queue.capacities().of(lane);
            match is_running {
                true => row.running += 1,
                false => row.waiting += 1,
            }
        }
    }
    lanes.retain(|_, row| row.running > 0);
    lanes
}

async fn release(site: Site, mut call: Call) -> Result<Response> {
    call.nothing().await?;
    let (name, caller): (EngineName, _) = (call.param("name")?, call.caller()?);
    let done = flows::jobs::usage::release(&site, &caller, (&name, None)).await;
    form::answer(done, |_| "/jobs".to_owned(), "/jobs".to_owned(), None)
}
