//! Waiting jobs that their kind no longer accepts: they keep waiting until it does again, or until
//! somebody cancels them.
//!
//! **Invariant:** a marked job is never ready, so no claim finds it and no other job of its lane
//! waits for it.

use rusqlite::{Connection, OptionalExtension as _, named_params};

use crate::base::{JobId, Result, SourcePath};
use crate::jobs::queue::lane::{self, Capacities};
use crate::jobs::{BELL, Job};
use crate::store::Tx;

const ALL: &str = "
    SELECT id, kind, unfit FROM agent_jobs INDEXED BY jobs_unfit
    WHERE status = 'queued' AND unfit IS NOT NULL ORDER BY seq";
const OF: &str = "SELECT unfit FROM agent_jobs WHERE id = :id AND status = 'queued'";
const LAST: &str = "SELECT unfit FROM agent_jobs WHERE id = :id";
const LANE: &str = "SELECT lane_key FROM agent_jobs WHERE id = :id";
const MARK: &str = "
    UPDATE agent_jobs SET unfit = :why, ready = IIF(status = 'queued', -1, ready)
    WHERE id = :id AND status IN ('queued', 'parked')";
const UNMARK: &str = "
    UPDATE agent_jobs SET unfit = NULL,
        ready = CASE WHEN not_before_ms > :now THEN -1 ELSE lane_key IS NULL END
    WHERE id = :id AND status = 'queued' AND unfit IS NOT NULL";

pub(in crate::jobs) const STATEMENTS: &[(&str, &str)] = &[
    ("unfit::all", ALL),
    ("unfit::of", OF),
    ("unfit::last", LAST),
    ("unfit::lane", LANE),
    ("unfit::mark", MARK),
    ("unfit::unmark", UNMARK),
];

/// The end of a reason that no reload takes away.
pub const RESTART_ONLY: &str = "changes with a restart only";
/// The end of a reason about a document that is not there.
pub const NO_NEW: &str = "takes no new document";
/// The end of a reason about a document whose name another one has: no script takes that away.
const TAKEN: &str = "has taken the name of its document";

/// A waiting job that its kind does not accept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// The job.
    pub id: JobId,
    /// Its kind.
    pub kind: String,
    /// The reason.
    pub why: String,
}

impl Unfit {
    /// Returns whether another document has taken the name of its own: no script changes that.
    pub fn is_displaced(&self) -> bool {
        self.why.ends_with(TAKEN)
    }
}

/// Returns the reason of a job on a document that is gone, whose name `to` the former `from` has.
pub fn displaced_by(from: &SourcePath, to: &SourcePath) -> String {
    format!("{to} was {from}, and {TAKEN}")
}

/// Returns the marked jobs, in order of acceptance.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn unfit(c: &Connection) -> Result<Vec<Unfit>> {
    let mut statement = c.prepare_cached(ALL)?;
    let rows = statement
        .query_map([], |row| Ok(Unfit { id: row.get(0)?, kind: row.get(1)?, why: row.get(2)? }))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Keeps a queued job from starting, for a reason; of a parked one, its next leg.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn mark_unfit(tx: &Tx<'_>, id: &JobId, why: &str, lanes: &Capacities) -> Result<()> {
    tx.prepare_cached(MARK)?.execute(named_params! {":id": id, ":why": why})?;
    refresh_lane(tx, id, lanes)
}

/// Lets a marked job start in its turn again.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn unmark_unfit(tx: &Tx<'_>, id: &JobId, lanes: &Capacities) -> Result<()> {
    tx.prepare_cached(UNMARK)?.execute(named_params! {":id": id, ":now": tx.now()})?;
    refresh_lane(tx, id, lanes)
}

/// Returns why a job, also one that was cancelled, was not to run on the document that has the name
/// of its own; `None` if there is no such reason.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn displaced(c: &Connection, id: &JobId) -> Result<Option<String>> {
    let mut statement = c.prepare_cached(LAST)?;
    let why = statement.query_row(named_params! {":id": id}, |row| row.get(0)).optional()?;
    Ok(why.flatten().filter(|it: &String| it.ends_with(TAKEN)))
}

/// Returns why a queued job is marked; `None` if it is not.
pub(in crate::jobs) fn of(c: &Connection, id: &JobId) -> Result<Option<String>> {
    let found = c.prepare_cached(OF)?.query_row(named_params! {":id": id}, |row| row.get(0));
    Ok(found.optional()?.flatten())
}

/// Returns why a marked job waits and what ends that, as a clause without a full stop.
pub(in crate::jobs) fn sentence(job: &Job, why: &str) -> String {
    // Names of kinds contain no slash.
    let what = match (&job.resumes, job.kind.contains('/')) {
        (Some(_), _) => "it could not go on with its decision".to_owned(),
        (None, true) => format!("inbox \"{}\" no longer accepts its message", job.kind),
        (None, false) => format!("kind \"{}\" no longer accepts its inputs", job.kind),
    };
    format!("{what} ({why}): {}, or wiki-browser job cancel {}", way_back(why), job.id)
}

/// Says what lets a job start again that is marked for a reason.
pub fn way_back(why: &str) -> &'static str {
    match why {
        it if it.ends_with(RESTART_ONLY) => "change that back and restart the server",
        it if it.ends_with(TAKEN) => "ask again for the document that is meant",
        it if it.ends_with(NO_NEW) => "add it, or declare `new = true`, and reload",
        _ => "change that back and reload",
    }
}

fn refresh_lane(tx: &Tx<'_>, id: &JobId, lanes: &Capacities) -> Result<()> {
    let lane = tx.prepare_cached(LANE)?.query_row(named_params! {":id": id}, |row| row.get(0));
    if let Some(lane) = lane.optional()?.flatten() {
        let lane: String = lane;
        lane::refresh(tx, &lane, lanes)?;
    }
    tx.ring(BELL);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Millis;
    use crate::jobs::tests::model::Bench;
    use crate::jobs::{NewJob, Viewer, find};

    fn claimed(bench: &mut Bench) -> Option<JobId> {
        let token = bench.clock.now().0.to_string();
        let job = bench.tx(|bench, tx| crate::jobs::claim(tx, &bench.caps, &token, "c").unwrap());
        job.map(|it| it.id)
    }

    #[test]
    fn a_marked_job_is_passed_over_until_it_is_unmarked() {
        let mut bench = Bench::new(4, 4, 1);
        let first = bench.add(bench.request("a", Some("x=1"), 0, 0));
        let second = bench.add(bench.request("a", Some("x=1"), 0, 0));
        let free = bench.add(bench.request("a", None, 0, 0));
        for id in [&first, &free] {
            bench.tx(|bench, tx| mark_unfit(tx, id, "why", &bench.caps.lanes).unwrap());
        }
        let marked = unfit(&bench.connection).unwrap();
        assert_eq!(marked.iter().map(|it| &it.id).collect::<Vec<_>>(), [&first, &free]);
        assert_eq!(of(&bench.connection, &first).unwrap().as_deref(), Some("why"));
        assert_eq!(claimed(&mut bench).as_ref(), Some(&second), "its lane does not wait for it");
        assert_eq!(claimed(&mut bench), None);
        bench.tx(|bench, tx| unmark_unfit(tx, &free, &bench.caps.lanes).unwrap());
        assert_eq!(claimed(&mut bench), Some(free));
        bench.tx(|bench, tx| unmark_unfit(tx, &first, &bench.caps.lanes).unwrap());
        assert_eq!(claimed(&mut bench), None, "its lane is held");
        assert!(unfit(&bench.connection).unwrap().is_empty());
    }

    #[test]
    fn a_marked_job_that_comes_due_keeps_waiting_and_its_time_stays() {
        let mut bench = Bench::new(4, 4, 1);
        let at = Millis(bench.clock.now().0 + 1_000);
        let new = NewJob { not_before: Some(at), ..bench.request("a", None, 0, 0) };
        let id = bench.add(new);
        bench.tx(|bench, tx| mark_unfit(tx, &id, "why", &bench.caps.lanes).unwrap());
        bench.tx(|bench, tx| unmark_unfit(tx, &id, &bench.caps.lanes).unwrap());
        assert_eq!(claimed(&mut bench), None, "it is not due yet");
        bench.tx(|bench, tx| mark_unfit(tx, &id, "why", &bench.caps.lanes).unwrap());
        bench.clock.advance(2_000);
        assert_eq!(claimed(&mut bench), None);
        assert_eq!(lane::next_due(&bench.connection).unwrap(), None, "nothing comes due");
        bench.tx(|bench, tx| unmark_unfit(tx, &id, &bench.caps.lanes).unwrap());
        let job = find(&bench.connection, &Viewer::Program, &id).unwrap();
        assert_eq!(job.not_before, Some(at));
        assert_eq!(claimed(&mut bench), Some(id));
    }
}
