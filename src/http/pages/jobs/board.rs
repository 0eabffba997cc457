//! The board of jobs: waiting, running and ended jobs, engines, and today's usage.

use std::collections::BTreeMap;

use askama::Template;
use serde::Deserialize;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::base::Result;
use crate::flows::jobs::board::BoardQuery;
use crate::flows::jobs::usage::{EngineName, UsageQuery};
use crate::flows::{self, Site};
use crate::http::pages::Frame;
use crate::http::pages::parts::time::{At, span};
use crate::http::pages::parts::view::{Job, List, read};
use crate::http::pages::parts::visible::{Name, Plain, Visible};
use crate::http::pages::parts::{form, labels, time};
use crate::http::{Call, any_of, post, reply};
use crate::people::Caller;

/// Period of the usage table, in milliseconds.
const SPENT_MS: i64 = 7 * 24 * 3_600_000;

/// The board, as its flow returns it.
#[derive(Deserialize)]
struct Found {
    queued: Vec<Job>,
    running: Vec<Job>,
    ended: Vec<Job>,
    queued_count: i64,
    running_count: i64,
    slots: u32,
    kinds: Vec<(String, i64, u32)>,
}

/// A lane that is in use.
#[derive(Debug, Default)]
struct LaneRow {
    running: usize,
    waiting: usize,
    places: u32,
}

#[derive(Deserialize)]
struct Engine {
    name: String,
    hold: Option<Hold>,
}

#[derive(Deserialize)]
struct Hold {
    until: Option<At>,
    is_said: bool,
    job_id: Option<String>,
    message: String,
}

/// The usage of a day or a kind.
#[derive(Clone, Debug, Default, Deserialize)]
struct Spent {
    name: String,
    jobs: i64,
    succeeded: i64,
    input_tokens: i64,
    cached_tokens: i64,
    output_tokens: i64,
    cost_usd: f64,
    agent_ms: i64,
}

#[derive(Deserialize)]
struct Usage {
    items: Vec<Spent>,
    caps: Vec<Cap>,
}

/// One measure of a daily cap.
#[derive(Debug, Deserialize)]
struct Cap {
    cap: String,
    of: Option<String>,
    display_name: Option<String>,
    measure: String,
    used: f64,
    limit: f64,
    is_spent: bool,
    frees_at: At,
}

impl Spent {
    fn tokens(&self) -> String {
        labels::grouped(self.input_tokens + self.cached_tokens + self.output_tokens)
    }

    fn time(&self) -> String {
        span(self.agent_ms)
    }
}

impl Cap {
    /// Returns who the cap belongs to.
    fn whose(&self) -> String {
        match (self.cap.as_str(), self.display_name.as_ref().or(self.of.as_ref())) {
            ("limits.daily_person", Some(name)) => name.clone(),
            ("kind.daily", Some(kind)) => format!("Kind “{kind}”"),
            _ => "The site".to_owned(),
        }
    }

    fn amount(&self, number: f64) -> String {
        match self.measure.as_str() {
            "cost_usd" => format!("{number:.2} USD"),
            "tokens" => format!("{} tokens", labels::grouped(number as i64)),
            _ => span(number as i64),
        }
    }

    /// Returns the used share, in words.
    fn sentence(&self) -> String {
        format!("{} of {} today", self.amount(self.used), self.amount(self.limit))
    }
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
    held: Vec<Engine>,
    today: Spent,
    caps: Vec<Cap>,
    days: Vec<Spent>,
    by_kind: Vec<Spent>,
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
    let mut found: Found = read(flows::jobs::board::board(site, &caller, asked.clone()).await?)?;
    let all = || found.queued.iter().chain(&found.running).chain(&found.ended);
    let mut people: BTreeMap<String, String> = all()
        .filter(|it| it.requested_by.starts_with("person:"))
        .map(|it| (it.requested_by.clone(), it.requested_by_name.clone()))
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
    let engines: List<Engine> = read(flows::jobs::usage::engines(site, &caller).await?)?;
    let since: String = frame.now().plus(-SPENT_MS).rfc3339().chars().take(10).collect();
    let usage = async |by: &str| -> Result<Usage> {
        let (by, since) = (Some(by.to_owned()), Some(since.clone()));
        read(flows::jobs::usage::usage(site, &caller, UsageQuery { by, since }).await?)
    };
    let (days, by_kind) = (usage("day").await?, usage("kind").await?);
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
        today: days.items.iter().find(|it| it.name == today).cloned().unwrap_or_default(),
        caps: days.caps,
        days: days.items,
        by_kind: by_kind.items,
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
