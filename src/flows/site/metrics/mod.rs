//! What the program measures of itself, for `/metrics`.
//!
//! **Invariant:** a look is cheap: what has no end is counted as it happens, from the log of
//! events; what is asked of the database is the queue, which has a limit.
//! **Invariant:** labels are names of the script and words of the program, never a text, a path or
//! an id: who fills the site cannot fill the memory of whoever measures it.

mod text;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::base::histogram::{Histogram, LONG_US};
use crate::base::{EventKind, JobId, Millis, Result};
use crate::flows::Works;
use crate::flows::site::backup;
use crate::jobs::{self, Spent, Viewer};
use crate::process;
use crate::store::{StoredEvent, events};

pub use text::{Exposition, Kind};

/// The label of kinds that the script no longer declares.
const OTHER: &str = "other";
/// Most jobs whose times are remembered until they end: more than can wait and run.
const TIMES_MAX: usize = 16_384;
/// Ended jobs whose cost has not been read.
const ENDED_MAX: usize = 1_024;
/// Events read at once after live ones were missed.
const PAGE: u32 = 500;

/// A handle to the metrics of a site; clones share it.
#[derive(Clone)]
pub struct Meter {
    works: Works,
    started: Millis,
    counts: Arc<Mutex<Counts>>,
    waits: Arc<Histogram>,
    lagged: Arc<AtomicU64>,
}

#[derive(Default)]
struct Counts {
    accepted: BTreeMap<String, u64>,
    started: BTreeMap<String, u64>,
    finished: BTreeMap<(String, String, String), u64>,
    durations: BTreeMap<String, Histogram>,
    spent: BTreeMap<String, Spent>,
    /// When waiting and running jobs were accepted and started.
    times: BTreeMap<String, (Option<Millis>, Option<Millis>)>,
    ended: VecDeque<(JobId, String)>,
    /// The last counted event.
    position: i64,
}

impl Meter {
    /// Returns a meter at zero.
    pub fn new(works: &Works) -> Meter {
        Meter {
            works: works.clone(),
            started: works.store.clock().now(),
            counts: Arc::default(),
            waits: Arc::new(Histogram::new(LONG_US)),
            lagged: Arc::default(),
        }
    }

    /// Counts events until `stop`.
    pub async fn serve(self, mut told: Receiver<Arc<StoredEvent>>, stop: CancellationToken) {
        loop {
            let event = tokio::select! {
                event = told.recv() => event,
                () = stop.cancelled() => return,
            };
            match event {
                Ok(event) => self.count(&event),
                Err(RecvError::Lagged(_)) => {
                    self.lagged.fetch_add(1, Ordering::Relaxed);
                    if let Err(cause) = self.catch_up().await {
                        warn!("events are not counted: {}", cause.chain());
                    }
                }
                Err(RecvError::Closed) => return,
            }
        }
    }

    /// Reads missed events in the table.
    async fn catch_up(&self) -> Result<()> {
        loop {
            let position = self.lock().position;
            let page = self.works.store.read(move |c| events::after(c, position, PAGE)).await?;
            if page.is_empty() {
                return Ok(());
            }
            page.iter().for_each(|event| self.count(event));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the label of a kind: its name if the script declares it, otherwise a common word.
    fn label(&self, kind: &str) -> String {
        let is_known = self.works.scripts.current().config.kinds.contains_key(kind);
        if is_known { kind.to_owned() } else { OTHER.to_owned() }
    }

    fn count(&self, event: &StoredEvent) {
        let mut counts = self.lock();
        // An event read in the table may also arrive live.
        if event.id <= counts.position {
            return;
        }
        counts.position = event.id;
        // The number and cost of a person's chats are not exported.
        if event.scope != "site" {
            return;
        }
        let (Some(id), Some(kind)) = (event.data["id"].as_str(), event.data["kind"].as_str())
        else {
            return;
        };
        let label = self.label(kind);
        match event.kind {
            EventKind::JobQueued => {
                *counts.accepted.entry(label).or_default() += 1;
                if counts.times.len() < TIMES_MAX {
                    counts.times.insert(id.to_owned(), (Some(event.at), None));
                }
            }
            EventKind::JobStarted => {
                *counts.started.entry(label).or_default() += 1;
                let accepted = counts.times.remove(id).and_then(|it| it.0);
                if let Some(at) = accepted {
                    self.waits.note_time(between(at, event.at));
                }
                if counts.times.len() < TIMES_MAX {
                    counts.times.insert(id.to_owned(), (accepted, Some(event.at)));
                }
            }
            EventKind::JobFinished => {
                let word = |name: &str| event.data[name].as_str().unwrap_or("none").to_owned();
                let key = (label.clone(), word("status"), word("reason"));
                *counts.finished.entry(key).or_default() += 1;
                if let Some((_, Some(at))) = counts.times.remove(id) {
                    let durations = counts.durations.entry(label.clone());
                    let durations = durations.or_insert_with(|| Histogram::new(LONG_US));
                    durations.note_time(between(at, event.at));
                }
                if let (Ok(id), true) = (id.parse(), counts.ended.len() < ENDED_MAX) {
                    counts.ended.push_back((id, label));
                }
            }
            _ => {}
        }
    }

    /// Reads the cost of jobs that ended since the last look.
    async fn read_costs(&self) -> Result<()> {
        let ended: Vec<(JobId, String)> = self.lock().ended.drain(..).collect();
        let spent = self
            .works
            .store
            .read(move |c| {
                let read = |(id, label): (JobId, String)| Ok((label, jobs::spent(c, &id)?));
                ended.into_iter().map(read).collect::<Result<Vec<_>>>()
            })
            .await?;
        let mut counts = self.lock();
        for (label, spent) in spent {
            counts.spent.entry(label).or_default().add(spent);
        }
        Ok(())
    }

    /// Writes all metrics of the site.
    pub async fn write(&self, out: &mut Exposition) {
        let mut problems = 0;
        for read in [self.read_costs().await, self.write_queue(out).await] {
            if let Err(cause) = read {
                warn!("a measure cannot be read: {}", cause.chain());
                problems += 1;
            }
        }
        self.write_jobs(out);
        self.write_store(out);
        self.write_script(out);
        self.write_machine(out, &mut problems);
        out.gauge("wb_scrape_problems", "Measures that could not be read this time.");
        out.value(&[], f64::from(problems));
    }

    async fn write_queue(&self, out: &mut Exposition) -> Result<()> {
        let queue = self.works.store.read(|c| jobs::queue_counts(c, &Viewer::Site)).await?;
        let current = self.works.scripts.current();
        let by_kind = |counts: &[(String, i64)]| {
            let mut sums: BTreeMap<String, i64> =
                current.config.kinds.keys().map(|kind| (kind.clone(), 0)).collect();
            for (kind, count) in counts {
                *sums.entry(self.label(kind)).or_default() += count;
            }
            sums
        };
        out.gauge("wb_jobs_queued", "Jobs that wait.");
        for (kind, count) in by_kind(&queue.queued) {
            out.value(&[("kind", &kind)], count as f64);
        }
        out.gauge("wb_jobs_running", "Jobs that run.");
        for (kind, count) in by_kind(&queue.running) {
            out.value(&[("kind", &kind)], count as f64);
        }
        out.gauge(
            "wb_jobs_oldest_waiting_seconds",
            "Age of the job that waits longest; 0 for none.",
        );
        let now = self.works.store.clock().now();
        let age = queue.oldest.map_or(Duration::ZERO, |at| between(at, now));
        out.value(&[], age.as_secs_f64());
        Ok(())
    }

    fn write_jobs(&self, out: &mut Exposition) {
        let counts = self.lock();
        out.counter(
            "wb_jobs_accepted_total",
            "Jobs that were accepted, or put back, since the start.",
        );
        for (kind, count) in &counts.accepted {
            out.value(&[("kind", kind)], *count as f64);
        }
        out.counter("wb_jobs_started_total", "Jobs that were claimed since the start.");
        for (kind, count) in &counts.started {
            out.value(&[("kind", kind)], *count as f64);
        }
        out.counter("wb_jobs_finished_total", "Jobs that have ended since the start.");
        for ((kind, status, reason), count) in &counts.finished {
            let labels = [("kind", &**kind), ("status", status), ("reason", reason)];
            out.value(&labels, *count as f64);
        }
        out.histogram("wb_job_duration_seconds", "From the claim of a job to its end.");
        for (kind, durations) in &counts.durations {
            out.times(&[("kind", kind)], &durations.counted());
        }
        out.histogram("wb_job_wait_seconds", "From the acceptance of a job to its claim.");
        out.times(&[], &self.waits.counted());
        out.counter("wb_job_cost_usd_total", "What engines said that ended jobs cost.");
        for (kind, spent) in &counts.spent {
            out.value(&[("kind", kind)], spent.cost_usd);
        }
        out.counter("wb_job_tokens_total", "Tokens that engines said ended jobs used.");
        for (kind, spent) in &counts.spent {
            for (direction, tokens) in [("input", spent.input), ("output", spent.output)] {
                out.value(&[("kind", kind), ("direction", direction)], tokens as f64);
            }
        }
    }

    fn write_store(&self, out: &mut Exposition) {
        let (store, stats) = (&self.works.store, self.works.store.writer_stats());
        let size = |ending: &str| {
            let path = format!("{}{ending}", store.path());
            std::fs::metadata(path).map_or(0, |it| it.len()) as f64
        };
        out.gauge("wb_db_size_bytes", "Size of the database.");
        out.value(&[], size(""));
        out.gauge("wb_db_wal_bytes", "Size of the database's log.");
        out.value(&[], size("-wal"));
        out.histogram("wb_db_commit_duration_seconds", "From the begin of a batch to its commit.");
        out.times(&[], &stats.time.counted());
        out.histogram("wb_db_batch_writes", "Writes that were committed together.");
        out.counts(&[], &stats.batch.counted());
        out.counter("wb_events_lagged_total", "Times that the counting of events fell behind.");
        out.value(&[], self.lagged.load(Ordering::Relaxed) as f64);
    }

    fn write_script(&self, out: &mut Exposition) {
        let current = self.works.scripts.current();
        let functions = current.vm.wear().functions();
        out.histogram("wb_script_call_duration_seconds", "Calls of the script's functions.");
        for it in &functions {
            out.times(&[("function", &it.name)], &it.times);
        }
        out.counter("wb_script_errors_total", "Calls of the script's functions that failed.");
        for it in &functions {
            out.value(&[("function", &it.name)], it.errors as f64);
        }
        out.gauge("wb_script_stuck", "1 if the script's functions are switched off.");
        out.value(&[], f64::from(u8::from(current.vm.stuck())));
        out.gauge("wb_script_generation", "The generation of the active script, from 1.");
        out.value(&[], current.number as f64);
    }

    fn write_machine(&self, out: &mut Exposition, problems: &mut u32) {
        out.gauge("wb_build_info", "1; the version is a label.");
        out.value(&[("version", env!("CARGO_PKG_VERSION"))], 1.0);
        let now = self.works.store.clock().now();
        let data = &self.works.config.site.data;
        if let Some(newest) = backup::newest(data, now) {
            out.gauge("wb_backup_age_seconds", "Age of the newest backup in the data folder.");
            out.value(&[], between(newest.at, now).as_secs_f64());
            out.gauge("wb_backup_size_bytes", "Size of the newest backup in the data folder.");
            out.value(&[], newest.bytes as f64);
        }
        match process::room(data) {
            Ok(room) => {
                out.gauge("wb_disk_free_bytes", "Space that is left where the data folder is.");
                out.value(&[], room.bytes as f64);
            }
            Err(_) => *problems += 1,
        }
        out.gauge("process_start_time_seconds", "When the server started.");
        out.value(&[], self.started.0 as f64 / 1_000.0);
        let Ok(own) = process::own_usage() else {
            *problems += 1;
            return;
        };
        out.gauge("process_resident_memory_bytes", "Memory of the server.");
        out.value(&[], own.resident_bytes as f64);
        out.counter("process_cpu_seconds_total", "Processor time of the server.");
        out.value(&[], own.cpu_seconds);
        out.gauge("process_open_fds", "Open descriptors of the server.");
        out.value(&[], own.descriptors as f64);
        out.gauge("process_threads", "Threads of the server.");
        out.value(&[], own.threads as f64);
    }
}

/// The time between two points; `None` if the clock was set back.
fn between(from: Millis, to: Millis) -> Duration {
    Duration::from_millis(u64::try_from(to.0.saturating_sub(from.0)).unwrap_or(0))
}
