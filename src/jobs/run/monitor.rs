//! Monitors: jobs that watch the run of an instance.
//!
//! **Invariant:** a monitor is accepted in the transaction in which its worker's run begins, and
//! cancelled in the one in which that run is over; the schema allows one at a time.

use rusqlite::{Connection, OptionalExtension as _, named_params};

use crate::base::{Actor, JobId, Result};
use crate::jobs::Job;
use crate::jobs::queue::enqueue::cancel_queued;
use crate::jobs::queue::lane::Capacities;
use crate::jobs::rows::table::slim;
use crate::jobs::run::settle::request_cancel;
use crate::store::Tx;

const ACTIVE: &str = slim!("WHERE monitor_of = :worker AND status IN ('queued', 'running')");
const LAST: &str = slim!("WHERE monitor_of = :worker ORDER BY seq DESC LIMIT 1");

pub(in crate::jobs) const STATEMENTS: &[(&str, &str)] =
    &[("monitor::active", ACTIVE), ("monitor::last", LAST)];

/// Returns the monitor of a job, also one that has ended.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn monitor_of(connection: &Connection, worker: &JobId) -> Result<Option<Job>> {
    let mut statement = connection.prepare_cached(LAST)?;
    Ok(statement.query_row(named_params! {":worker": worker}, Job::from_row).optional()?)
}

/// Cancels the monitor of a job whose run is over.
pub(in crate::jobs) fn end(tx: &Tx<'_>, worker: &JobId, capacities: &Capacities) -> Result<()> {
    if crate::base::fault::is_off("monitor_end") {
        return Ok(());
    }
    let params = named_params! {":worker": worker};
    let found = tx.prepare_cached(ACTIVE)?.query_row(params, Job::from_row).optional()?;
    let Some(monitor) = found else { return Ok(()) };
    let is_ending = monitor.ending_at.is_some() || monitor.cancelled_by.is_some();
    if is_ending || cancel_queued(tx, &monitor.id, &Actor::System, capacities)? {
        return Ok(());
    }
    request_cancel(tx, &monitor.id, &Actor::System)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::tests::model::{Bench, Sort};
    use crate::jobs::{NewJob, Status, Viewer, find};

    fn worker(bench: &mut Bench) -> JobId {
        let new = bench.request_in(Sort::Work("a", None), 0);
        bench.add(new);
        bench.take("worker").unwrap().id
    }

    fn monitor(bench: &Bench, worker: &JobId) -> NewJob {
        NewJob { monitor_of: Some(worker.clone()), ..bench.request_in(Sort::Monitor, 0) }
    }

    /// Fails with `WB_WITHOUT=monitor_end`.
    #[test]
    fn a_monitor_ends_with_its_worker_whether_it_waits_or_runs() {
        for is_running in [false, true] {
            let mut bench = Bench::new(4, 4, 1);
            let id = worker(&mut bench);
            let new = monitor(&bench, &id);
            let watching = bench.add(new);
            if is_running {
                assert_eq!(bench.take("monitor").unwrap().id, watching);
            }
            bench.end(&id);
            let found = find(&bench.connection, &Viewer::Program, &watching).unwrap();
            assert_eq!(found.cancelled_by, Some(Actor::System), "{is_running}");
            let expected = if is_running { Status::Running } else { Status::Cancelled };
            assert_eq!((found.status, found.ending_at.is_some()), (expected, is_running));
        }
    }

    #[test]
    fn a_worker_has_one_monitor_at_a_time() {
        let mut bench = Bench::new(4, 4, 1);
        let id = worker(&mut bench);
        let new = monitor(&bench, &id);
        let first = bench.add(new.clone());
        assert!(bench.try_add(&new).is_err());
        bench.take("monitor").unwrap();
        bench.end(&first);
        let second = bench.add(new);
        let last = monitor_of(&bench.connection, &id).unwrap().unwrap();
        assert_eq!(last.id, second);
    }
}
