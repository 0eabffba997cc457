//! Metrics of jobs: the current queue, and the cost of finished jobs.

use rusqlite::{Connection, OptionalExtension as _, named_params};
use serde_json::Value;

use crate::base::{JobId, Millis, Result};
use crate::jobs::Viewer;
use crate::jobs::rows::viewer::seen;

/// The current queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Queued jobs by kind.
    pub queued: Vec<(String, i64)>,
    /// Running jobs by kind.
    pub running: Vec<(String, i64)>,
    /// Running jobs that count toward `limits.jobs`.
    pub working: i64,
    /// When the oldest queued job was accepted.
    pub oldest: Option<Millis>,
}

/// The cost of a job as reported by its engine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    /// In US dollars.
    pub cost_usd: f64,
    /// Input tokens.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
}

impl Spent {
    /// Adds the cost of another job.
    pub fn add(&mut self, other: Spent) {
        // An engine may report anything; a sum must only grow.
        if other.cost_usd.is_finite() && other.cost_usd > 0.0 {
            self.cost_usd += other.cost_usd;
        }
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
    }
}

const QUEUED: &str = concat!(
    "SELECT kind, COUNT(*) FROM agent_jobs WHERE status = 'queued' AND ",
    seen!(),
    " GROUP BY kind"
);
const RUNNING: &str = concat!(
    "SELECT kind, COUNT(*) FROM agent_jobs INDEXED BY jobs_running WHERE status = 'running' AND ",
    seen!(),
    " GROUP BY kind"
);
const WORKING: &str = concat!(
    "SELECT COUNT(*) FROM agent_jobs INDEXED BY jobs_running_pool
    WHERE status = 'running' AND pool = 'work' AND ",
    seen!()
);
const OLDEST: &str = concat!(
    "SELECT created_ms FROM agent_jobs WHERE status = 'queued' AND ",
    seen!(),
    " ORDER BY seq LIMIT 1"
);
const SPENT: &str = "SELECT cost_usd, usage_json FROM agent_jobs WHERE id = :id";

pub(in crate::jobs) const STATEMENTS: &[(&str, &str)] = &[
    ("measured::queued", QUEUED),
    ("measured::running", RUNNING),
    ("measured::working", WORKING),
    ("measured::oldest", OLDEST),
    ("measured::spent", SPENT),
];

/// Counts the queued and running jobs visible to a viewer; bounded by the length of the queue.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn queue_counts(connection: &Connection, viewer: &Viewer) -> Result<QueueCounts> {
    let params = named_params! {":all": viewer.all(), ":viewer": viewer.person()};
    let by_kind = |sql: &'static str| -> Result<Vec<(String, i64)>> {
        let mut statement = connection.prepare_cached(sql)?;
        let rows = statement.query_map(params, |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    };
    let oldest = connection.prepare_cached(OLDEST)?.query_row(params, |row| row.get(0));
    Ok(QueueCounts {
        queued: by_kind(QUEUED)?,
        running: by_kind(RUNNING)?,
        working: connection.prepare_cached(WORKING)?.query_row(params, |row| row.get(0))?,
        oldest: oldest.optional()?,
    })
}

/// Returns the cost of a job; zero without a row.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn spent(connection: &Connection, id: &JobId) -> Result<Spent> {
    let mut statement = connection.prepare_cached(SPENT)?;
    let found = statement.query_row(named_params! {":id": id}, |row| {
        Ok((row.get::<_, Option<f64>>(0)?, row.get::<_, Option<String>>(1)?))
    });
    let Some((cost, usage)) = found.optional()? else { return Ok(Spent::default()) };
    let usage: Value = usage.and_then(|it| serde_json::from_str(&it).ok()).unwrap_or(Value::Null);
    let tokens = |name: &str| usage[name].as_u64().unwrap_or(0);
    Ok(Spent {
        cost_usd: cost.unwrap_or(0.0),
        input: tokens("input_tokens"),
        output: tokens("output_tokens"),
    })
}
