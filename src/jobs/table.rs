//! Reading the table of jobs.

use rusqlite::{Connection, OptionalExtension as _, named_params};

use crate::base::{Error, JobId, Result, TopicId};
use crate::jobs::{Job, JobFilter};

/// All columns, but long values of inputs and results left out: a list of jobs must not carry what
/// a single one may.
macro_rules! slim {
    ($rest:literal) => {
        concat!(
            "SELECT seq, id, kind, lane_key, status, reason, source_path, topic_id, persona_name,
                CASE WHEN length(inputs_json) <= 65536 THEN inputs_json ELSE '{}' END
                    AS inputs_json,
                grants_json, requested_by, priority, not_before_ms, created_ms, started_ms,
                ending_ms, completed_ms, exit_code, signal, error_tail, summary,
                CASE WHEN length(result_json) <= 65536 THEN result_json
                     WHEN result_json IS NOT NULL THEN '\"(longer than 64 KiB)\"' END
                    AS result_json,
                warnings_json, cancelled_by, session_ref, usage_json, cost_usd, config_digest,
                retry_of, engine, retry_at_ms, guard_pid, guard_start, boot_id
             FROM agent_jobs ",
            $rest
        )
    };
}
pub(super) use slim;

const FIND: &str = "SELECT * FROM agent_jobs WHERE id = :id";
const FIND_SLIM: &str = slim!("WHERE id = :id");
const RUNNING: &str = "SELECT * FROM agent_jobs WHERE status = 'running' ORDER BY seq";
const GUARDS: &str = "
    SELECT guard_pid FROM agent_jobs WHERE status = 'running' AND guard_pid IS NOT NULL";
// One statement a filter, so that each has its index; the rest of the filter is checked per row of
// that index. A `:x IS NULL OR …` for all of them in one statement would scan the whole table.
const LIST_ALL: &str = slim!(
    "WHERE seq < :before
      AND (:kind IS NULL OR kind = :kind) AND (:status IS NULL OR status = :status)
    ORDER BY seq DESC LIMIT :limit"
);
const LIST_BY_SOURCE: &str = slim!(
    "WHERE source_path = :source AND seq < :before
      AND (:kind IS NULL OR kind = :kind) AND (:status IS NULL OR status = :status)
    ORDER BY seq DESC LIMIT :limit"
);
const LIST_BY_TOPIC: &str = slim!(
    "WHERE topic_id = :topic AND seq < :before
      AND (:source IS NULL OR source_path = :source)
      AND (:kind IS NULL OR kind = :kind) AND (:status IS NULL OR status = :status)
    ORDER BY seq DESC LIMIT :limit"
);
const LIST_BY_STATUS: &str = slim!(
    "WHERE status = :status AND seq < :before
      AND (:kind IS NULL OR kind = :kind)
    ORDER BY seq DESC LIMIT :limit"
);
const LIST_SCHEDULED: &str = slim!(
    "WHERE status = 'queued' AND not_before_ms > :now AND seq < :before
      AND (:kind IS NULL OR kind = :kind)
      AND (:source IS NULL OR source_path = :source)
      AND (:topic IS NULL OR topic_id = :topic)
    ORDER BY seq DESC LIMIT :limit"
);
const LIST_WAITING: &str = slim!(
    "WHERE status = 'queued' AND (not_before_ms IS NULL OR not_before_ms <= :now)
      AND seq < :before
      AND (:kind IS NULL OR kind = :kind)
      AND (:source IS NULL OR source_path = :source)
      AND (:topic IS NULL OR topic_id = :topic)
    ORDER BY seq DESC LIMIT :limit"
);
const LIST_BY_KIND: &str = slim!(
    "WHERE kind = :kind AND seq < :before
    ORDER BY seq DESC LIMIT :limit"
);

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("jobs::find", FIND),
    ("jobs::find_slim", FIND_SLIM),
    ("jobs::running", RUNNING),
    ("jobs::guards", GUARDS),
    ("jobs::list_all", LIST_ALL),
    ("jobs::list_by_source", LIST_BY_SOURCE),
    ("jobs::list_by_topic", LIST_BY_TOPIC),
    ("jobs::list_by_status", LIST_BY_STATUS),
    ("jobs::list_by_kind", LIST_BY_KIND),
    ("jobs::list_scheduled", LIST_SCHEDULED),
    ("jobs::list_waiting", LIST_WAITING),
];

/// Returns a job.
///
/// # Errors
/// `not_found`.
pub fn find(connection: &Connection, id: &JobId) -> Result<Job> {
    let mut statement = connection.prepare_cached(FIND)?;
    let job = statement.query_row(named_params! {":id": id}, Job::from_row).optional()?;
    job.ok_or_else(|| Error::not_found(format!("no job {id}")))
}

/// Returns a job without long values of its inputs and its result; that it has a result shows.
///
/// # Errors
/// `not_found`.
pub fn find_slim(connection: &Connection, id: &JobId) -> Result<Job> {
    let mut statement = connection.prepare_cached(FIND_SLIM)?;
    let job = statement.query_row(named_params! {":id": id}, Job::from_row).optional()?;
    job.ok_or_else(|| Error::not_found(format!("no job {id}")))
}

/// Returns jobs, newest first, without long values of their inputs and results.
///
/// # Errors
/// `not_found` if `before` names no job.
pub fn list(connection: &Connection, filter: &JobFilter) -> Result<Vec<Job>> {
    let before = match &filter.before {
        Some(id) => find(connection, id)?.seq,
        None => i64::MAX,
    };
    let status = filter.status.map(crate::jobs::Status::as_str);
    let (kind, limit) = (filter.kind.as_deref(), filter.limit);
    let rows = if let Some(turn) = filter.turn {
        let sql = match turn {
            crate::jobs::Turn::Time => LIST_SCHEDULED,
            crate::jobs::Turn::Turn => LIST_WAITING,
        };
        let params = named_params! {
            ":now": filter.now, ":before": before, ":kind": kind, ":source": filter.source_path,
            ":topic": filter.topic_id, ":limit": limit,
        };
        collect(connection, sql, params)?
    } else if let Some(topic) = &filter.topic_id {
        let params = named_params! {
            ":topic": topic, ":source": filter.source_path, ":before": before, ":kind": kind,
            ":status": status, ":limit": limit,
        };
        collect(connection, LIST_BY_TOPIC, params)?
    } else if let Some(source) = &filter.source_path {
        let params = named_params! {
            ":source": source, ":before": before, ":kind": kind, ":status": status, ":limit": limit,
        };
        collect(connection, LIST_BY_SOURCE, params)?
    } else if let Some(status) = status {
        let params = named_params! {
            ":status": status, ":before": before, ":kind": kind, ":limit": limit,
        };
        collect(connection, LIST_BY_STATUS, params)?
    } else if let Some(kind) = kind {
        let params = named_params! {":kind": kind, ":before": before, ":limit": limit};
        collect(connection, LIST_BY_KIND, params)?
    } else {
        let params = named_params! {
            ":before": before, ":kind": kind, ":status": status, ":limit": limit,
        };
        collect(connection, LIST_ALL, params)?
    };
    Ok(rows)
}

/// Returns the newest jobs of a Topic.
///
/// # Errors
/// As any read.
pub fn recent_of_topic(connection: &Connection, topic: &TopicId, limit: u32) -> Result<Vec<Job>> {
    let filter = JobFilter { topic_id: Some(topic.clone()), limit, ..JobFilter::default() };
    list(connection, &filter)
}

/// Returns the pids of the guards of running jobs, as recorded.
///
/// # Errors
/// As any read.
pub fn running_guards(connection: &Connection) -> Result<Vec<i32>> {
    let mut statement = connection.prepare_cached(GUARDS)?;
    let pids = statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    Ok(pids)
}

pub(super) fn running(connection: &Connection) -> Result<Vec<Job>> {
    collect(connection, RUNNING, &[])
}

fn collect(
    connection: &Connection,
    sql: &'static str,
    params: &[(&str, &dyn rusqlite::ToSql)],
) -> Result<Vec<Job>> {
    let mut statement = connection.prepare_cached(sql)?;
    let jobs = statement.query_map(params, Job::from_row)?.collect::<rusqlite::Result<_>>()?;
    Ok(jobs)
}
