//! Jobs for the board: queued and running ones in order, and recently finished ones.

use rusqlite::{Connection, named_params};

use crate::base::{Actor, JobId, Result, SourcePath};
use crate::jobs::rows::table::slim;
use crate::jobs::rows::viewer::seen;
use crate::jobs::{Job, Status, Viewer};

/// How many of the newest jobs are searched for finished ones.
const ENDED_SEEN: u32 = 2_000;

// Sorted by number first, because rows may be large.
const ACTIVE: &str = slim!(
    "WHERE seq IN (SELECT seq FROM agent_jobs INDEXED BY jobs_by_status
        WHERE status = :status AND (:kind IS NULL OR kind = :kind)
          AND (:source IS NULL OR source_path = :source) AND (:by IS NULL OR requested_by = :by)
          AND ",
    seen!(),
    " ORDER BY priority DESC, seq LIMIT :limit)
    ORDER BY priority DESC, seq"
);
const ENDED: &str = slim!(
    "WHERE seq IN (SELECT seq FROM agent_jobs
        WHERE seq > (SELECT MAX(seq) FROM agent_jobs) - :seen AND completed_ms IS NOT NULL
          AND status <> 'parked'
          AND (:kind IS NULL OR kind = :kind)
          AND (:source IS NULL OR source_path = :source) AND (:by IS NULL OR requested_by = :by)
          AND ",
    seen!(),
    " ORDER BY completed_ms DESC LIMIT :limit)
    ORDER BY completed_ms DESC"
);
const RETRIES: &str = concat!(
    "SELECT id FROM agent_jobs WHERE retry_of = :id AND ",
    seen!(),
    " ORDER BY seq LIMIT 20"
);

pub(in crate::jobs) const STATEMENTS: &[(&str, &str)] =
    &[("board::active", ACTIVE), ("board::ended", ENDED), ("board::retries", RETRIES)];

/// Which jobs to show.
#[derive(Clone, Debug, Default)]
pub struct BoardFilter {
    /// Only of this kind.
    pub kind: Option<String>,
    /// Only of this Source.
    pub source_path: Option<SourcePath>,
    /// Only those requested by this actor.
    pub requested_by: Option<Actor>,
    /// At most this many per status.
    pub limit: u32,
}

/// Returns queued jobs (the next one first) or running ones (the longest first), without long
/// values.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn active(
    connection: &Connection,
    viewer: &Viewer,
    status: Status,
    filter: &BoardFilter,
) -> Result<Vec<Job>> {
    let mut statement = connection.prepare_cached(ACTIVE)?;
    let params = named_params! {
        ":status": status.as_str(), ":kind": filter.kind, ":source": filter.source_path,
        ":by": filter.requested_by, ":limit": filter.limit, ":all": viewer.all(),
        ":viewer": viewer.person(),
    };
    Ok(statement.query_map(params, Job::from_row)?.collect::<rusqlite::Result<_>>()?)
}

/// Returns recently finished jobs, latest first.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn ended(connection: &Connection, viewer: &Viewer, filter: &BoardFilter) -> Result<Vec<Job>> {
    let mut statement = connection.prepare_cached(ENDED)?;
    let params = named_params! {
        ":seen": ENDED_SEEN, ":kind": filter.kind, ":source": filter.source_path,
        ":by": filter.requested_by, ":limit": filter.limit, ":all": viewer.all(),
        ":viewer": viewer.person(),
    };
    Ok(statement.query_map(params, Job::from_row)?.collect::<rusqlite::Result<_>>()?)
}

/// Returns the retries of a job, in order of acceptance.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn retries(connection: &Connection, viewer: &Viewer, id: &JobId) -> Result<Vec<JobId>> {
    let mut statement = connection.prepare_cached(RETRIES)?;
    let rows = statement.query_map(
        named_params! {":id": id, ":all": viewer.all(), ":viewer": viewer.person()},
        |row| row.get(0),
    )?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
