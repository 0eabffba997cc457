//! Usage statistics by day, kind, person and engine, updated as jobs are settled.
//!
//! **Invariant:** a sum only changes in the transaction that settles a job, or that ends a turn of
//! a long-lived agent. Turns are not counted again with their job. A job cancelled before it
//! started has used nothing and is not counted. What the sums of a replaced database contain is not
//! counted again by the start after the restore.

use rusqlite::{Connection, Row, named_params};

use crate::api::jobs::Usage;
use crate::base::{Actor, Error, Millis, Result};
use crate::jobs::speak::Tokens;
use crate::jobs::{Job, Pool, Reason, Status, Viewer};
use crate::store::Tx;

/// Milliseconds per day.
pub(in crate::jobs) const DAY_MS: i64 = 86_400_000;
/// Most tokens accepted for one job, so that sums stay exact.
const TOKENS_MAX: u64 = 1_000_000_000_000;
/// Highest cost accepted for one job, in US dollars.
const COST_USD_MAX: f64 = 1e6;
/// All that a job spent is counted, to its end.
pub(in crate::jobs) const ALL_COUNTED: i64 = i64::MAX;
/// Most rows per response.
const ROWS_MAX: u32 = 1_000;

const ADD: &str = "
    INSERT INTO usage_days (day, kind, person, engine, is_private, jobs, succeeded, failed,
        timed_out, cancelled, rate_limited, input_tokens, cached_tokens, output_tokens,
        cost_micros, agent_ms)
    VALUES (:day, :kind, :person, :engine, :private, 1, :succeeded, :failed, :timed_out, :cancelled,
        :rate_limited, :input, :cached, :output, :cost, :time)
    ON CONFLICT (day, kind, person, engine, is_private) DO UPDATE SET
        jobs = jobs + 1, succeeded = succeeded + :succeeded, failed = failed + :failed,
        timed_out = timed_out + :timed_out, cancelled = cancelled + :cancelled,
        rate_limited = rate_limited + :rate_limited, input_tokens = input_tokens + :input,
        cached_tokens = cached_tokens + :cached, output_tokens = output_tokens + :output,
        cost_micros = cost_micros + :cost, agent_ms = agent_ms + :time";
const ADD_TURN: &str = "
    INSERT INTO usage_days (day, kind, person, engine, is_private, jobs, succeeded, failed,
        timed_out, cancelled, rate_limited, input_tokens, cached_tokens, output_tokens,
        cost_micros, agent_ms)
    VALUES (:day, :kind, :person, :engine, :private, 0, 0, 0, 0, 0, 0, :input, :cached, :output,
        :cost, :time)
    ON CONFLICT (day, kind, person, engine, is_private) DO UPDATE SET
        input_tokens = input_tokens + :input, cached_tokens = cached_tokens + :cached,
        output_tokens = output_tokens + :output, cost_micros = cost_micros + :cost,
        agent_ms = agent_ms + :time";
// Usage of the turns so far; the end of the job may report it more exactly.
const NOTE_TURN: &str = "
    UPDATE agent_jobs SET
        cost_usd = IIF(:cost IS NULL, cost_usd, COALESCE(cost_usd, 0) + :cost),
        usage_json = json_object(
            'input_tokens', COALESCE(json_extract(usage_json, '$.input_tokens'), 0) + :input,
            'cache_read_input_tokens',
            COALESCE(json_extract(usage_json, '$.cache_read_input_tokens'), 0) + :cached,
            'cache_creation_input_tokens',
            COALESCE(json_extract(usage_json, '$.cache_creation_input_tokens'), 0) + :stored,
            'output_tokens', COALESCE(json_extract(usage_json, '$.output_tokens'), 0) + :output)
    WHERE id = :id AND status = 'running'";
const COUNTED_UNTIL: &str = "
    SELECT COALESCE(counted_until, 0), COALESCE(json_extract(counted_json, '$.heard'), 0)
    FROM agent_jobs WHERE id = :id";
const HAS_TURNS: &str = "SELECT counted_json IS NOT NULL FROM agent_jobs WHERE id = :id";
const OF_DAY: &str = "
    SELECT COALESCE(kind_names.name, kind), person, SUM(cost_micros),
        SUM(input_tokens) + SUM(cached_tokens) + SUM(output_tokens), SUM(agent_ms), is_private
    FROM usage_days LEFT JOIN kind_names ON kind_names.was = kind
    WHERE day = :day GROUP BY 1, person, is_private";

macro_rules! sums {
    ($name:literal, $rest:literal) => {
        concat!(
            "SELECT ",
            $name,
            " AS name, SUM(jobs), SUM(succeeded), SUM(failed), SUM(timed_out), SUM(cancelled),
                SUM(rate_limited), SUM(input_tokens), SUM(cached_tokens), SUM(output_tokens),
                SUM(cost_micros), SUM(agent_ms)
             FROM usage_days WHERE day >= :since
                AND (:all OR is_private = 0 OR person = :viewer) ",
            $rest
        )
    };
}
const BY_DAY: &str = sums!("CAST(day AS TEXT)", "GROUP BY day ORDER BY day DESC LIMIT :limit");
const BY_KIND: &str =
    sums!("kind", "GROUP BY kind ORDER BY SUM(cost_micros) DESC, kind LIMIT :limit");
const BY_PERSON: &str =
    sums!("person", "GROUP BY person ORDER BY SUM(cost_micros) DESC, person LIMIT :limit");
const BY_ENGINE: &str =
    sums!("engine", "GROUP BY engine ORDER BY SUM(cost_micros) DESC, engine LIMIT :limit");
const TOTAL: &str = sums!("''", "LIMIT :limit");

pub(in crate::jobs) const STATEMENTS: &[(&str, &str)] = &[
    ("usage::add", ADD),
    ("usage::add_turn", ADD_TURN),
    ("usage::note_turn", NOTE_TURN),
    ("usage::counted_until", COUNTED_UNTIL),
    ("usage::has_turns", HAS_TURNS),
    ("usage::of_day", OF_DAY),
    ("usage::by_day", BY_DAY),
    ("usage::by_kind", BY_KIND),
    ("usage::by_person", BY_PERSON),
    ("usage::by_engine", BY_ENGINE),
    ("usage::total", TOTAL),
];

/// How to group usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageBy {
    /// Each day (UTC), newest first.
    Day,
    /// Each kind, most expensive first.
    Kind,
    /// Each requester, most expensive first.
    Person,
    /// Each engine, most expensive first.
    Engine,
}

impl UsageBy {
    /// All, in the order of the documentation.
    pub const ALL: [UsageBy; 4] = [UsageBy::Day, UsageBy::Kind, UsageBy::Person, UsageBy::Engine];

    /// Returns its word.
    pub fn as_str(self) -> &'static str {
        match self {
            UsageBy::Day => "day",
            UsageBy::Kind => "kind",
            UsageBy::Person => "person",
            UsageBy::Engine => "engine",
        }
    }

    /// Returns the one with this word.
    ///
    /// # Errors
    /// `invalid` with the list of words.
    pub fn parse(word: &str) -> Result<UsageBy> {
        Self::ALL.into_iter().find(|it| it.as_str() == word).ok_or_else(|| {
            let words: Vec<&str> = Self::ALL.iter().map(|it| it.as_str()).collect();
            Error::invalid(format!("usage cannot be grouped by `{word}`"))
                .hint(format!("one of {}", words.join(", ")))
        })
    }
}

/// A day's usage of the jobs of one kind, also under its earlier names, and person.
#[derive(Clone, Debug)]
pub(in crate::jobs) struct SpentOfDay {
    pub(in crate::jobs) kind: String,
    pub(in crate::jobs) person: String,
    pub(in crate::jobs) cost_micros: i64,
    pub(in crate::jobs) tokens: i64,
    pub(in crate::jobs) agent_ms: i64,
    pub(in crate::jobs) is_private: bool,
}

/// Returns the day of a time, as days since 1970-01-01 in UTC.
pub(in crate::jobs) fn day_of(at: Millis) -> i64 {
    at.0.div_euclid(DAY_MS)
}

/// Returns the beginning of the next day.
pub(in crate::jobs) fn next_day(at: Millis) -> Millis {
    Millis(day_of(at).saturating_add(1).saturating_mul(DAY_MS))
}

/// Adds a job that was just settled. Its time is that of its processes, or else from its start to
/// its end.
pub(in crate::jobs) fn add(tx: &Tx<'_>, job: &Job, ran_ms: Option<i64>) -> Result<()> {
    let Some(started) = job.started_at else { return Ok(()) };
    if counted(tx, job)?.0 == ALL_COUNTED {
        return Ok(());
    }
    let ended = job.completed_at.unwrap_or(tx.now());
    let count = |name: &str| {
        let told = job.usage.as_ref().and_then(|it| it[name].as_u64()).unwrap_or(0);
        i64::try_from(told.min(TOKENS_MAX)).unwrap_or(0)
    };
    let is = |status: Status| i64::from(job.status == status);
    // What an agent took that is spoken to was counted turn by turn. A long-lived one uses nothing
    // between its turns.
    let by_turns = job.pool == Pool::Live || has_turns(tx, job)?;
    let is_counted = i64::from(!by_turns);
    let is_timed = i64::from(job.pool != Pool::Live);
    let count = |name: &str| count(name) * is_counted;
    let ms = ran_ms.unwrap_or(ended.0 - started.0).max(0);
    let cost = cost_micros(job.cost_usd);
    tx.prepare_cached(ADD)?.execute(named_params! {
        ":day": day_of(ended), ":kind": job.kind, ":person": job.requested_by,
        ":engine": job.engine.as_deref().unwrap_or_default(), ":private": job.owner.is_some(),
        ":succeeded": is(Status::Succeeded), ":failed": is(Status::Failed),
        ":timed_out": is(Status::TimedOut), ":cancelled": is(Status::Cancelled),
        ":rate_limited": i64::from(job.reason == Some(Reason::RateLimited)),
        ":input": count("input_tokens") + count("cache_creation_input_tokens"),
        ":cached": count("cache_read_input_tokens"), ":output": count("output_tokens"),
        ":cost": cost * is_counted, ":time": ms * is_timed,
    })?;
    Ok(())
}

/// Returns up to which byte of a job's output the sums contain what it spent since a restore, and
/// which byte has been heard.
fn counted(tx: &Tx<'_>, job: &Job) -> Result<(i64, i64)> {
    let mut statement = tx.prepare_cached(COUNTED_UNTIL)?;
    let found =
        statement.query_row(named_params! {":id": job.id}, |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(found)
}

/// Returns whether facts about turns of a job were recorded.
fn has_turns(tx: &Tx<'_>, job: &Job) -> Result<bool> {
    let mut statement = tx.prepare_cached(HAS_TURNS)?;
    Ok(statement.query_row(named_params! {":id": job.id}, |row| row.get(0))?)
}

/// Returns a plausible cost in millionths of a US dollar.
fn cost_micros(cost_usd: Option<f64>) -> i64 {
    let cost = cost_usd.filter(|it| it.is_finite()).unwrap_or(0.0).clamp(0.0, COST_USD_MAX);
    (cost * 1e6).round() as i64
}

/// The usage of a turn of a long-lived agent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TurnSpent {
    /// Tokens, as reported by the engine.
    pub tokens: Tokens,
    /// US dollars, as reported by the engine.
    pub cost_usd: Option<f64>,
    /// Milliseconds from beginning to end.
    pub ms: i64,
}

/// Adds a turn that has just ended to the sums and to its job's row.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn add_turn(tx: &Tx<'_>, job: &Job, turn: TurnSpent) -> Result<()> {
    let count = |told: u64| i64::try_from(told.min(TOKENS_MAX)).unwrap_or(0);
    let Tokens { read, cached, stored, written } = turn.tokens;
    let [read, cached, stored, written] = [read, cached, stored, written].map(count);
    let (until, heard) = counted(tx, job)?;
    if until == 0 || heard > until {
        tx.prepare_cached(ADD_TURN)?.execute(named_params! {
            ":day": day_of(tx.now()), ":kind": job.kind, ":person": job.requested_by,
            ":engine": job.engine.as_deref().unwrap_or_default(), ":private": job.owner.is_some(),
            ":input": read + stored, ":cached": cached, ":output": written,
            ":cost": cost_micros(turn.cost_usd), ":time": turn.ms.max(0),
        })?;
    }
    if turn.cost_usd.is_none() && turn.tokens.sum() == 0 {
        return Ok(());
    }
    let cost = turn.cost_usd.map(|it| cost_micros(Some(it)) as f64 / 1e6);
    tx.prepare_cached(NOTE_TURN)?.execute(named_params! {
        ":id": job.id, ":cost": cost, ":input": read, ":cached": cached, ":stored": stored,
        ":output": written,
    })?;
    Ok(())
}

/// Returns the usage on the day of `now`, by kind and person.
pub(in crate::jobs) fn of_day(connection: &Connection, now: Millis) -> Result<Vec<SpentOfDay>> {
    let mut statement = connection.prepare_cached(OF_DAY)?;
    let rows = statement.query_map(named_params! {":day": day_of(now)}, |row| {
        Ok(SpentOfDay {
            kind: row.get(0)?,
            person: row.get(1)?,
            cost_micros: row.get(2)?,
            tokens: row.get(3)?,
            agent_ms: row.get(4)?,
            is_private: row.get(5)?,
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns sums since the day of `since`, and their total, over the jobs visible to a viewer.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn usage(
    connection: &Connection,
    viewer: &Viewer,
    by: UsageBy,
    since: Millis,
) -> Result<(Vec<Usage>, Usage)> {
    let sql = match by {
        UsageBy::Day => BY_DAY,
        UsageBy::Kind => BY_KIND,
        UsageBy::Person => BY_PERSON,
        UsageBy::Engine => BY_ENGINE,
    };
    let mut items = rows(connection, viewer, sql, since)?;
    if by == UsageBy::Day {
        for item in &mut items {
            let day: i64 = item.name.parse().unwrap_or(0);
            item.name = Millis(day.saturating_mul(DAY_MS)).rfc3339().chars().take(10).collect();
        }
    }
    let total = rows(connection, viewer, TOTAL, since)?.pop().unwrap_or_default();
    Ok((items, total))
}

fn rows(
    connection: &Connection,
    viewer: &Viewer,
    sql: &'static str,
    since: Millis,
) -> Result<Vec<Usage>> {
    let mut statement = connection.prepare_cached(sql)?;
    let person = viewer.person().map(|person| Actor::Person(person.clone()));
    let params = named_params! {
        ":since": day_of(since), ":limit": ROWS_MAX, ":all": viewer.all(), ":viewer": person,
    };
    Ok(statement.query_map(params, from_row)?.collect::<rusqlite::Result<_>>()?)
}

fn from_row(row: &Row<'_>) -> rusqlite::Result<Usage> {
    let count = |place: usize| Ok(row.get::<_, Option<i64>>(place)?.unwrap_or(0));
    let micros: rusqlite::Result<i64> = count(10);
    Ok(Usage {
        name: row.get(0)?,
        jobs: count(1)?,
        succeeded: count(2)?,
        failed: count(3)?,
        timed_out: count(4)?,
        cancelled: count(5)?,
        rate_limited: count(6)?,
        input_tokens: count(7)?,
        cached_tokens: count(8)?,
        output_tokens: count(9)?,
        cost_usd: micros? as f64 / 1e6,
        agent_ms: count(11)?,
    })
}
