//! Bulk operations on jobs by kind, status or age, in bounded batches.

use rusqlite::{Connection, named_params};
use serde_json::{Map, Value};

use crate::base::{Error, JobId, Millis, Result};
use crate::jobs::Status;
use crate::jobs::rows::long_inputs;
use crate::jobs::rows::viewer::of_site;
use crate::store::Tx;

// Retried jobs are excluded on request. Private jobs are never part of bulk operations.
const OF_KIND: &str = concat!(
    "SELECT seq, id FROM agent_jobs INDEXED BY jobs_by_kind_status
    WHERE kind = :kind AND status = :status AND seq > :after
      AND (:before IS NULL OR created_ms < :before)
      AND (:all OR NOT EXISTS (SELECT 1 FROM agent_jobs AS other
                               WHERE other.retry_of = agent_jobs.id))
      AND ",
    of_site!(),
    " ORDER BY seq LIMIT :limit"
);
const OF_STATUS: &str = concat!(
    "SELECT seq, id FROM agent_jobs INDEXED BY jobs_by_status
    WHERE status = :status AND seq > :after AND (:before IS NULL OR created_ms < :before)
      AND (:all OR NOT EXISTS (SELECT 1 FROM agent_jobs AS other
                               WHERE other.retry_of = agent_jobs.id))
      AND ",
    of_site!(),
    " ORDER BY seq LIMIT :limit"
);
const COUNT_OF_KIND: &str = concat!(
    "SELECT COUNT(*) FROM agent_jobs INDEXED BY jobs_by_kind_status
    WHERE kind = :kind AND status = :status AND (:before IS NULL OR created_ms < :before)
      AND (:all OR NOT EXISTS (SELECT 1 FROM agent_jobs AS other
                               WHERE other.retry_of = agent_jobs.id))
      AND ",
    of_site!()
);
const COUNT_OF_STATUS: &str = concat!(
    "SELECT COUNT(*) FROM agent_jobs INDEXED BY jobs_by_status
    WHERE status = :status AND (:before IS NULL OR created_ms < :before)
      AND (:all OR NOT EXISTS (SELECT 1 FROM agent_jobs AS other
                               WHERE other.retry_of = agent_jobs.id))
      AND ",
    of_site!()
);
const INPUTS: &str = concat!(
    "SELECT id, inputs_json, sources_json FROM agent_jobs INDEXED BY jobs_by_kind_status
    WHERE kind = :kind AND status = 'queued' AND ",
    of_site!(),
    " ORDER BY seq"
);
const RENAME: &str = "
    UPDATE agent_jobs SET kind = :to WHERE kind = :from AND status IN ('queued', 'parked')";

pub(in crate::jobs) const STATEMENTS: &[(&str, &str)] = &[
    ("bulk::of_kind", OF_KIND),
    ("bulk::of_status", OF_STATUS),
    ("bulk::count_of_kind", COUNT_OF_KIND),
    ("bulk::count_of_status", COUNT_OF_STATUS),
    ("bulk::inputs", INPUTS),
    ("bulk::rename", RENAME),
];

/// A selection of jobs.
#[derive(Clone, Debug)]
pub struct Choice {
    /// With this status.
    pub status: Status,
    /// Only of this kind.
    pub kind: Option<String>,
    /// Only accepted before this time.
    pub before: Option<Millis>,
    /// Only those without a retry.
    pub is_unrepeated: bool,
}

/// Returns the next jobs of a selection after a number, earliest first, each with its number.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn chosen(
    c: &Connection,
    choice: &Choice,
    after: i64,
    limit: usize,
) -> Result<Vec<(i64, JobId)>> {
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let (status, limit) = (choice.status.as_str(), i64::try_from(limit).unwrap_or(i64::MAX));
    let (before, all) = (choice.before, !choice.is_unrepeated);
    let found = match &choice.kind {
        Some(kind) => {
            let params = named_params! {
                ":kind": kind, ":status": status, ":after": after, ":before": before, ":all": all,
                ":limit": limit,
            };
            c.prepare_cached(OF_KIND)?.query_map(params, row)?.collect::<rusqlite::Result<_>>()?
        }
        None => {
            let params = named_params! {
                ":status": status, ":after": after, ":before": before, ":all": all,
                ":limit": limit,
            };
            c.prepare_cached(OF_STATUS)?.query_map(params, row)?.collect::<rusqlite::Result<_>>()?
        }
    };
    Ok(found)
}

/// Returns the size of a selection.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn count(c: &Connection, choice: &Choice) -> Result<i64> {
    let status = choice.status.as_str();
    let (before, all) = (choice.before, !choice.is_unrepeated);
    let count = match &choice.kind {
        Some(kind) => {
            let params =
                named_params! {":kind": kind, ":status": status, ":before": before, ":all": all};
            c.prepare_cached(COUNT_OF_KIND)?.query_row(params, |row| row.get(0))?
        }
        None => {
            let params = named_params! {":status": status, ":before": before, ":all": all};
            c.prepare_cached(COUNT_OF_STATUS)?.query_row(params, |row| row.get(0))?
        }
    };
    Ok(count)
}

/// Passes each queued job of a kind, except private ones, with its inputs to `see`, in order of
/// acceptance.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn each_waiting(
    c: &Connection,
    kind: &str,
    mut see: impl FnMut(JobId, Map<String, Value>),
) -> Result<()> {
    each_on_sources(c, kind, None, |id, inputs, _| see(id, inputs))
}

/// Does the same, with the names of those inputs that are Sources: the recorded ones and these; a
/// job without any is passed over.
///
/// # Errors
/// Fails if the database cannot be read.
pub(in crate::jobs) fn each_on_sources(
    c: &Connection,
    kind: &str,
    names: Option<&[String]>,
    mut see: impl FnMut(JobId, Map<String, Value>, Vec<String>),
) -> Result<()> {
    let mut statement = c.prepare_cached(INPUTS)?;
    let mut rows = statement.query(named_params! {":kind": kind})?;
    while let Some(row) = rows.next()? {
        let (id, inputs): (JobId, String) = (row.get(0)?, row.get(1)?);
        let broken = |cause: serde_json::Error| {
            Error::internal(format!("the inputs of job {id}")).source(cause)
        };
        let recorded: Option<String> = row.get(2)?;
        let recorded = recorded.map(|it| serde_json::from_str(&it)).transpose().map_err(broken)?;
        let sources = with_recorded(names.unwrap_or_default(), recorded.unwrap_or_default());
        if names.is_some() && sources.is_empty() {
            continue;
        }
        let inputs = match long_inputs::find(c, &id)? {
            Some(long) => long,
            None => serde_json::from_str(&inputs).map_err(broken)?,
        };
        see(id, inputs, sources);
    }
    Ok(())
}

/// Returns the names of a job's inputs that are Sources: those of its kind, and those that were
/// some when it was asked for.
pub(in crate::jobs) fn with_recorded(of_kind: &[String], mut recorded: Vec<String>) -> Vec<String> {
    let more: Vec<String> = of_kind.iter().filter(|it| !recorded.contains(it)).cloned().collect();
    recorded.extend(more);
    recorded
}

/// Renames the kind of queued and parked jobs; returns how many.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn rename_kind(tx: &Tx<'_>, from: &str, to: &str) -> Result<usize> {
    let renamed = tx.prepare_cached(RENAME)?.execute(named_params! {":from": from, ":to": to})?;
    if renamed > 0 {
        tx.ring(crate::jobs::BELL);
    }
    Ok(renamed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::NewJob;
    use crate::jobs::tests::model::Bench;

    #[test]
    fn a_waiting_job_is_shown_with_its_inputs_however_long_they_are() {
        let mut bench = Bench::new(1, 1, 1);
        let mut expected = Vec::new();
        for length in [1, 100_000] {
            let inputs = Map::from_iter([("word".to_owned(), Value::from("x".repeat(length)))]);
            let new = NewJob { inputs: inputs.clone(), ..bench.request("a", None, 0, 0) };
            expected.push((bench.add(new), inputs));
        }
        let mut seen = Vec::new();
        each_waiting(&bench.connection, "a", |id, inputs| seen.push((id, inputs))).unwrap();
        assert!(seen == expected, "{} jobs are shown otherwise than they were asked", seen.len());
    }
}
