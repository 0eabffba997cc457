//! Reads the table of jobs.

use rusqlite::{Connection, OptionalExtension as _, named_params};

use crate::base::{Error, JobId, Result, SourcePath, TopicId};
use crate::jobs::rows::long_inputs;
use crate::jobs::rows::viewer::seen;
use crate::jobs::{Job, JobFilter, Viewer};

/// All columns except long results, which lists must not carry. Long inputs are stored elsewhere
/// (`long_inputs`). Unlike `length`, `octet_length` does not read the text.
macro_rules! slim {
    ($($rest:tt)*) => {
        concat!(
            "SELECT seq, id, kind, lane_key, status, reason, source_path, topic_id, persona_name,
                inputs_json, grants_json, requested_by, priority, not_before_ms, created_ms,
                started_ms, ending_ms, completed_ms, exit_code, signal, error_tail, summary,
                CASE WHEN octet_length(result_json) <= 65536 THEN result_json
                     WHEN result_json IS NOT NULL THEN '\"(longer than 64 KiB)\"' END
                    AS result_json,
                warnings_json, cancelled_by, session_ref, usage_json, cost_usd, config_digest,
                retry_of, guard_pid, guard_start, boot_id, engine, retry_at_ms, root_id, resumes,
                owner, pool, phase, message_id, agent, monitor_of, waits_for, verdict, run_ms,
                unanswered_ms, killed_ms, engine_mark, sources_json
             FROM agent_jobs ",
            $($rest)*
        )
    };
}
pub(in crate::jobs) use slim;

const FIND: &str = "SELECT * FROM agent_jobs WHERE id = :id";
const FIND_SLIM: &str = slim!("WHERE id = :id");
const RUNNING: &str = "SELECT * FROM agent_jobs WHERE status = 'running' ORDER BY seq";
const GUARDS: &str = "
    SELECT guard_pid FROM agent_jobs WHERE status = 'running' AND guard_pid IS NOT NULL";
// One statement per filter, so that each uses its index: with `:x IS NULL OR …` a single one would
// scan the table. A Topic has few jobs, so the rest is checked row by row.
const LIST_ALL: &str =
    slim!("WHERE seq < :before AND ", seen!(), " ORDER BY seq DESC LIMIT :limit");
const LIST_BY_SOURCE: &str = slim!(
    "WHERE source_path = :source AND seq < :before AND ",
    seen!(),
    " ORDER BY seq DESC LIMIT :limit"
);
const LIST_BY_SOURCE_STATUS: &str = slim!(
    "WHERE source_path = :source AND status = :status AND seq < :before AND ",
    seen!(),
    " ORDER BY seq DESC LIMIT :limit"
);
const LIST_BY_SOURCE_KIND_STATUS: &str = slim!(
    "WHERE source_path = :source AND kind = :kind AND status = :status AND seq < :before AND ",
    seen!(),
    " ORDER BY seq DESC LIMIT :limit"
);
/// The newest of one status, of a Source and a kind.
macro_rules! of_status {
    ($status:literal) => {
        concat!(
            "SELECT seq FROM (SELECT seq FROM agent_jobs WHERE source_path = :source
                AND kind = :kind AND status = '",
            $status,
            "' AND seq < :before AND ",
            seen!(),
            " ORDER BY seq DESC LIMIT :limit)"
        )
    };
}
// The same index as with a status: the newest of each of the seven, merged.
const LIST_BY_SOURCE_KIND: &str = concat!(
    slim!("WHERE seq IN ("),
    of_status!("queued"),
    " UNION ALL ",
    of_status!("running"),
    " UNION ALL ",
    of_status!("parked"),
    " UNION ALL ",
    of_status!("succeeded"),
    " UNION ALL ",
    of_status!("failed"),
    " UNION ALL ",
    of_status!("timed_out"),
    " UNION ALL ",
    of_status!("cancelled"),
    ") ORDER BY seq DESC LIMIT :limit"
);
const LIST_BY_TOPIC: &str = slim!(
    "WHERE topic_id = :topic AND seq < :before
      AND (:source IS NULL OR source_path = :source)
      AND (:kind IS NULL OR kind = :kind) AND (:status IS NULL OR status = :status) AND ",
    seen!(),
    " ORDER BY seq DESC LIMIT :limit"
);
const LIST_BY_STATUS: &str = slim!(
    "WHERE status = :status AND seq < :before AND ",
    seen!(),
    " ORDER BY seq DESC LIMIT :limit"
);
const LIST_BY_KIND_STATUS: &str = slim!(
    "WHERE kind = :kind AND status = :status AND seq < :before AND ",
    seen!(),
    " ORDER BY seq DESC LIMIT :limit"
);
const LIST_SCHEDULED: &str = slim!(
    "WHERE status = 'queued' AND not_before_ms > :now AND seq < :before
      AND (:kind IS NULL OR kind = :kind)
      AND (:source IS NULL OR source_path = :source)
      AND (:topic IS NULL OR topic_id = :topic) AND ",
    seen!(),
    " ORDER BY seq DESC LIMIT :limit"
);
const LIST_WAITING: &str = slim!(
    "WHERE status = 'queued' AND (not_before_ms IS NULL OR not_before_ms <= :now)
      AND seq < :before
      AND (:kind IS NULL OR kind = :kind)
      AND (:source IS NULL OR source_path = :source)
      AND (:topic IS NULL OR topic_id = :topic) AND ",
    seen!(),
    " ORDER BY seq DESC LIMIT :limit"
);
const ACTIVE_OF_PERSONA: &str = slim!(
    "WHERE source_path = :source AND status = :status AND persona_name = :persona AND ",
    seen!(),
    " ORDER BY seq DESC LIMIT :limit"
);
const HOLDER: &str = slim!(
    "WHERE source_path = :source AND status = :status AND lane_key IS NOT NULL AND ",
    seen!(),
    " ORDER BY priority DESC, seq LIMIT 1"
);
const HOLDING: &str = concat!(
    "SELECT COUNT(*) FROM agent_jobs INDEXED BY jobs_by_source_status
    WHERE source_path = :source AND status IN ('queued', 'running') AND lane_key IS NOT NULL AND ",
    seen!()
);
const IS_NAMED: &str = "
    SELECT EXISTS (SELECT 1 FROM agent_jobs INDEXED BY jobs_by_source_status
                   WHERE source_path = :source)";
const LIST_BY_KIND: &str =
    slim!("WHERE kind = :kind AND seq < :before AND ", seen!(), " ORDER BY seq DESC LIMIT :limit");

pub(in crate::jobs) const STATEMENTS: &[(&str, &str)] = &[
    ("jobs::find", FIND),
    ("jobs::find_slim", FIND_SLIM),
    ("jobs::running", RUNNING),
    ("jobs::guards", GUARDS),
    ("jobs::list_all", LIST_ALL),
    ("jobs::list_by_source", LIST_BY_SOURCE),
    ("jobs::list_by_source_status", LIST_BY_SOURCE_STATUS),
    ("jobs::list_by_source_kind", LIST_BY_SOURCE_KIND),
    ("jobs::list_by_source_kind_status", LIST_BY_SOURCE_KIND_STATUS),
    ("jobs::list_by_topic", LIST_BY_TOPIC),
    ("jobs::list_by_status", LIST_BY_STATUS),
    ("jobs::active_of_persona", ACTIVE_OF_PERSONA),
    ("jobs::holder", HOLDER),
    ("jobs::holding", HOLDING),
    ("jobs::is_named", IS_NAMED),
    ("jobs::list_by_kind", LIST_BY_KIND),
    ("jobs::list_by_kind_status", LIST_BY_KIND_STATUS),
    ("jobs::list_scheduled", LIST_SCHEDULED),
    ("jobs::list_waiting", LIST_WAITING),
];

/// Returns a job visible to a viewer.
///
/// # Errors
/// `not_found`, also if it is not visible.
pub fn find(connection: &Connection, viewer: &Viewer, id: &JobId) -> Result<Job> {
    let mut statement = connection.prepare_cached(FIND)?;
    let job = statement.query_row(named_params! {":id": id}, Job::from_row).optional()?;
    with_inputs(connection, seen_by(viewer, job, id)?)
}

fn with_inputs(connection: &Connection, mut job: Job) -> Result<Job> {
    if job.inputs.is_empty()
        && let Some(inputs) = long_inputs::find(connection, &job.id)?
    {
        job.inputs = inputs;
    }
    Ok(job)
}

/// Returns a job without long values in inputs and result; the presence of a result shows.
///
/// # Errors
/// `not_found`, also if it is not visible.
pub fn find_slim(connection: &Connection, viewer: &Viewer, id: &JobId) -> Result<Job> {
    let mut statement = connection.prepare_cached(FIND_SLIM)?;
    let job = statement.query_row(named_params! {":id": id}, Job::from_row).optional()?;
    seen_by(viewer, job, id)
}

fn seen_by(viewer: &Viewer, job: Option<Job>, id: &JobId) -> Result<Job> {
    job.filter(|job| viewer.sees(job.owner.as_ref())).ok_or_else(|| no_job(id))
}

/// Returns jobs visible to a viewer, newest first, without long values in inputs and results.
///
/// # Errors
/// `not_found` if `before` does not exist.
pub fn list(connection: &Connection, viewer: &Viewer, filter: &JobFilter) -> Result<Vec<Job>> {
    let before = match &filter.before {
        Some(id) => find_slim(connection, viewer, id)?.seq,
        None => i64::MAX,
    };
    let (all, person) = (viewer.all(), viewer.person());
    let status = filter.status.map(crate::jobs::Status::as_str);
    let (kind, limit) = (filter.kind.as_deref(), filter.limit);
    let rows = if let Some(turn) = filter.turn {
        let sql = match turn {
            crate::jobs::Turn::Time => LIST_SCHEDULED,
            crate::jobs::Turn::Turn => LIST_WAITING,
        };
        let params = named_params! {
            ":now": filter.now, ":before": before, ":kind": kind, ":source": filter.source_path,
            ":topic": filter.topic_id, ":limit": limit, ":all": all, ":viewer": person,
        };
        collect(connection, sql, params)?
    } else if let Some(topic) = &filter.topic_id {
        let params = named_params! {
            ":topic": topic, ":source": filter.source_path, ":before": before, ":kind": kind,
            ":status": status, ":limit": limit, ":all": all, ":viewer": person,
        };
        collect(connection, LIST_BY_TOPIC, params)?
    } else if let Some(source) = &filter.source_path {
        list_of_source(connection, viewer, source, (kind, status), (before, limit))?
    } else {
        match (kind, status) {
            (Some(kind), Some(status)) => {
                let params = named_params! {
                    ":kind": kind, ":status": status, ":before": before, ":limit": limit,
                    ":all": all, ":viewer": person,
                };
                collect(connection, LIST_BY_KIND_STATUS, params)?
            }
            (None, Some(status)) => {
                let params = named_params! {
                    ":status": status, ":before": before, ":limit": limit, ":all": all,
                    ":viewer": person,
                };
                collect(connection, LIST_BY_STATUS, params)?
            }
            (Some(kind), None) => {
                let params = named_params! {
                    ":kind": kind, ":before": before, ":limit": limit, ":all": all,
                    ":viewer": person,
                };
                collect(connection, LIST_BY_KIND, params)?
            }
            (None, None) => {
                let params = named_params! {
                    ":before": before, ":limit": limit, ":all": all, ":viewer": person,
                };
                collect(connection, LIST_ALL, params)?
            }
        }
    };
    Ok(rows)
}

fn list_of_source(
    connection: &Connection,
    viewer: &Viewer,
    source: &SourcePath,
    (kind, status): (Option<&str>, Option<&str>),
    (before, limit): (i64, u32),
) -> Result<Vec<Job>> {
    let (all, person) = (viewer.all(), viewer.person());
    match (kind, status) {
        (Some(kind), Some(status)) => {
            let params = named_params! {
                ":source": source, ":kind": kind, ":status": status, ":before": before,
                ":limit": limit, ":all": all, ":viewer": person,
            };
            collect(connection, LIST_BY_SOURCE_KIND_STATUS, params)
        }
        (Some(kind), None) => {
            let params = named_params! {
                ":source": source, ":kind": kind, ":before": before, ":limit": limit,
                ":all": all, ":viewer": person,
            };
            collect(connection, LIST_BY_SOURCE_KIND, params)
        }
        (None, Some(status)) => {
            let params = named_params! {
                ":source": source, ":status": status, ":before": before, ":limit": limit,
                ":all": all, ":viewer": person,
            };
            collect(connection, LIST_BY_SOURCE_STATUS, params)
        }
        (None, None) => {
            let params = named_params! {
                ":source": source, ":before": before, ":limit": limit, ":all": all,
                ":viewer": person,
            };
            collect(connection, LIST_BY_SOURCE, params)
        }
    }
}

/// Returns the newest jobs of a Topic.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn recent_of_topic(
    connection: &Connection,
    viewer: &Viewer,
    topic: &TopicId,
    limit: u32,
) -> Result<Vec<Job>> {
    let filter = JobFilter { topic_id: Some(topic.clone()), limit, ..JobFilter::default() };
    list(connection, viewer, &filter)
}

/// Returns the newest queued or running jobs for a Source and a persona, without long values.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn active_of_persona(
    connection: &Connection,
    viewer: &Viewer,
    source: &SourcePath,
    persona: &str,
    limit: u32,
) -> Result<Vec<Job>> {
    let (all, person) = (viewer.all(), viewer.person());
    let mut found = Vec::new();
    for status in ["queued", "running"] {
        let params = named_params! {
            ":source": source, ":status": status, ":persona": persona, ":limit": limit,
            ":all": all, ":viewer": person,
        };
        found.extend(collect(connection, ACTIVE_OF_PERSONA, params)?);
    }
    Ok(found)
}

/// Returns the job that holds a Source, and how many do: the running one, else the first queued
/// one. Jobs without a lane do not count.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn holder(
    connection: &Connection,
    viewer: &Viewer,
    source: &SourcePath,
) -> Result<Option<(Job, i64)>> {
    let (all, person) = (viewer.all(), viewer.person());
    for status in ["running", "queued"] {
        let params = named_params! {
            ":source": source, ":status": status, ":all": all, ":viewer": person,
        };
        if let Some(job) = collect(connection, HOLDER, params)?.pop() {
            let mut statement = connection.prepare_cached(HOLDING)?;
            let count = statement.query_row(
                named_params! {":source": source, ":all": all, ":viewer": person},
                |row| row.get(0),
            )?;
            return Ok(Some((job, count)));
        }
    }
    Ok(None)
}

/// Returns whether a job works or worked on a Source: it may be repeated.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn is_named(connection: &Connection, source: &SourcePath) -> Result<bool> {
    let mut statement = connection.prepare_cached(IS_NAMED)?;
    Ok(statement.query_row(named_params! {":source": source}, |row| row.get(0))?)
}

/// Returns the pids of the guards of running jobs, as recorded.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn running_guards(connection: &Connection) -> Result<Vec<i32>> {
    let mut statement = connection.prepare_cached(GUARDS)?;
    let pids = statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    Ok(pids)
}

/// Returns the running jobs, in order of acceptance.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn running(connection: &Connection) -> Result<Vec<Job>> {
    let jobs = collect(connection, RUNNING, &[])?.into_iter();
    jobs.map(|job| with_inputs(connection, job)).collect()
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

fn no_job(id: &JobId) -> Error {
    Error::not_found(format!("no job {id}")).hint("list them: wiki-browser job list")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::in_memory;

    /// Returns the steps of a statement's query plan.
    fn plan(connection: &Connection, sql: &str) -> Vec<String> {
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        statement.raw_query().mapped(|row| row.get(3)).map(std::result::Result::unwrap).collect()
    }

    #[test]
    fn each_list_walks_one_index_from_its_newest_row() {
        let connection = in_memory();
        let lists = [
            (LIST_BY_SOURCE, "jobs_by_source (source_path=? AND "),
            (LIST_BY_SOURCE_STATUS, "jobs_by_source_status (source_path=? AND status=? AND "),
            (
                LIST_BY_SOURCE_KIND_STATUS,
                "jobs_by_source_kind (source_path=? AND kind=? AND status=? AND ",
            ),
            (LIST_BY_TOPIC, "jobs_by_topic (topic_id=? AND "),
            (LIST_BY_STATUS, "jobs_by_status (status=? AND "),
            (LIST_BY_KIND, "jobs_by_kind (kind=? AND "),
            (LIST_BY_KIND_STATUS, "jobs_by_kind_status (kind=? AND status=? AND "),
        ];
        for (sql, index) in lists {
            let steps = plan(&connection, sql);
            assert!(steps.len() == 1 && steps[0].contains(index), "{index}: {steps:?}");
        }
        let steps = plan(&connection, LIST_BY_SOURCE_KIND);
        let index = "INDEX jobs_by_source_kind (source_path=? AND kind=? AND status=? AND ";
        assert_eq!(steps.iter().filter(|it| it.contains(index)).count(), 7, "{steps:?}");
    }
}
