//! Jobs of a database that was replaced by a backup, which does not know them, and what was spent.

use rusqlite::types::Value;
use rusqlite::{Connection, named_params, params_from_iter};
use serde_json::Value as Json;

use crate::base::{JobId, Result};
use crate::jobs::rows::table;
use crate::jobs::rows::usage::ALL_COUNTED;
use crate::jobs::{Reason, Status};
use crate::store::other_rows::Row;
use crate::store::{Tx, other_rows};

const JOBS: &str = "agent_jobs";
/// Why a job ended of which nobody knows more.
const WHY: &str = "it had not ended when a backup was restored";

const SPENT: &str = "
    SELECT day, kind, person, engine, is_private, jobs, succeeded, failed, timed_out, cancelled,
        rate_limited, input_tokens, cached_tokens, output_tokens, cost_micros, agent_ms
    FROM usage_days";
// Sums only grow, and what was spent before the backup is in both of them.
const SPEND: &str = "
    INSERT INTO usage_days (day, kind, person, engine, is_private, jobs, succeeded, failed,
        timed_out, cancelled, rate_limited, input_tokens, cached_tokens, output_tokens,
        cost_micros, agent_ms)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
    ON CONFLICT (day, kind, person, engine, is_private) DO UPDATE SET
        jobs = MAX(jobs, ?6), succeeded = MAX(succeeded, ?7), failed = MAX(failed, ?8),
        timed_out = MAX(timed_out, ?9), cancelled = MAX(cancelled, ?10),
        rate_limited = MAX(rate_limited, ?11), input_tokens = MAX(input_tokens, ?12),
        cached_tokens = MAX(cached_tokens, ?13), output_tokens = MAX(output_tokens, ?14),
        cost_micros = MAX(cost_micros, ?15), agent_ms = MAX(agent_ms, ?16)";
const NAMES: &str = "SELECT was, name FROM kind_names";
const NAME: &str = "
    INSERT INTO kind_names (was, name) VALUES (?1, ?2) ON CONFLICT (was) DO UPDATE SET name = ?2";
const NOTE_COUNTED: &str = "
    UPDATE agent_jobs SET counted_until = MAX(COALESCE(counted_until, 0), :until)
    WHERE id = :id AND status = 'running'";

pub(in crate::jobs) const STATEMENTS: &[(&str, &str)] = &[
    ("carry::spent", SPENT),
    ("carry::spend", SPEND),
    ("carry::names", NAMES),
    ("carry::name", NAME),
    ("carry::note_counted", NOTE_COUNTED),
];

/// Returns the jobs that are running here and have ended in a later database of the same site.
///
/// # Errors
/// Fails if a database cannot be read.
pub fn ended_since(c: &Connection, later: &Connection) -> Result<Vec<JobId>> {
    let mut ended = Vec::new();
    for job in table::running(c)? {
        let then = other_rows::row(later, JOBS, ("id", &job.id))?;
        let is_final = match then.as_ref().map(|it| it.get("status")) {
            Some(Value::Text(word)) => Status::parse(word)?.is_final(),
            _ => false,
        };
        if is_final {
            ended.push(job.id);
        }
    }
    Ok(ended)
}

/// Takes over what was spent according to a later database of the same site: no daily cap forgets
/// it, and none counts it again when a job is settled that is running here.
///
/// # Errors
/// As any read or write.
pub fn carry_usage(tx: &Tx<'_>, later: &Connection) -> Result<()> {
    // It counts toward the caps of the names that its kinds had then.
    let mut names = later.prepare_cached(NAMES)?;
    let mut names = names.query([])?;
    while let Some(row) = names.next()? {
        let name: (String, String) = (row.get(0)?, row.get(1)?);
        tx.prepare_cached(NAME)?.execute(name)?;
    }
    let mut statement = later.prepare_cached(SPENT)?;
    let width = statement.column_count();
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let values = (0..width).map(|at| row.get(at));
        let values = values.collect::<rusqlite::Result<Vec<Value>>>()?;
        tx.prepare_cached(SPEND)?.execute(params_from_iter(values))?;
    }
    for job in table::running(tx.connection())? {
        if let Some(then) = other_rows::row(later, JOBS, ("id", &job.id))? {
            let until = counted_until(&then)?;
            tx.prepare_cached(NOTE_COUNTED)?
                .execute(named_params! {":id": job.id, ":until": until})?;
        }
    }
    Ok(())
}

/// Returns up to which byte of a running job's output the sums of another database contain what it
/// spent, or [`ALL_COUNTED`].
fn counted_until(then: &Row) -> Result<i64> {
    if let Value::Text(word) = then.get("status")
        && !matches!(Status::parse(word)?, Status::Queued | Status::Running)
    {
        return Ok(ALL_COUNTED);
    }
    let heard = match then.get("counted_json") {
        Value::Text(text) => serde_json::from_str(text).unwrap_or(Json::Null)["heard"].as_i64(),
        _ => None,
    };
    let before = match then.get("counted_until") {
        Value::Integer(until) => Some(*until),
        _ => None,
    };
    Ok(heard.max(before).unwrap_or(0))
}

/// Returns whether a database has a job.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn is_known(c: &Connection, id: &JobId) -> Result<bool> {
    Ok(other_rows::row(c, JOBS, ("id", id))?.is_some())
}

/// Inserts a job of another database, unless it is private: that is of no use without its
/// conversation. If it had not ended, it has now: the next start ends what is left of it.
///
/// # Errors
/// As any read or write.
pub fn carry(tx: &Tx<'_>, old: &Connection, id: &JobId) -> Result<()> {
    let found = other_rows::row(old, JOBS, ("id", id))?;
    let Some(job) = found.filter(|it| *it.get("owner") == Value::Null) else { return Ok(()) };
    let is_final = match job.get("status") {
        Value::Text(word) => Status::parse(word)?.is_final(),
        _ => false,
    };
    let mut job = job.without(&["seq", "token_hash", "lane_slot", "resumes", "waits_for"]);
    if !is_final {
        job = job
            .with("status", Status::Failed.as_str().to_owned())
            .with("reason", Reason::ServerRestarted.as_str().to_owned())
            .with("error_tail", WHY.to_owned())
            .with("completed_ms", tx.now().0);
    }
    other_rows::put(tx, JOBS, job)?;
    match other_rows::row(old, "agent_job_inputs", ("job_id", id))? {
        Some(inputs) => other_rows::put(tx, "agent_job_inputs", inputs),
        None => Ok(()),
    }
}
