//! Lanes: which jobs must not run at the same time, and which goes next.
//!
//! `ready = 1` marks the first queued jobs of a lane, as many as it has free slots. Every
//! transaction that enqueues, claims or settles maintains it, so that a claim only reads ready
//! rows.

use std::collections::BTreeMap;

use rusqlite::named_params;

use crate::base::{JobId, PersonId, Result, fault};
use crate::store::Tx;

const RUNNING_SLOTS: &str = "
    SELECT lane_slot FROM agent_jobs WHERE lane_key = :lane AND status = 'running'";
// The planner would use the index on (status, seq) and scan every queued row of every lane.
const UNREADY: &str = "
    UPDATE agent_jobs INDEXED BY jobs_ready SET ready = 0
    WHERE lane_key = :lane AND status = 'queued' AND ready = 1";
const READY: &str = "
    UPDATE agent_jobs SET ready = 1 WHERE seq IN (
        SELECT seq FROM agent_jobs INDEXED BY jobs_waiting
        WHERE lane_key = :lane AND status = 'queued' AND ready >= 0
        ORDER BY priority DESC, seq LIMIT :free)";
const DUE: &str = "
    SELECT seq, lane_key FROM agent_jobs INDEXED BY jobs_deferred
    WHERE status = 'queued' AND ready = -1 AND not_before_ms <= :now AND unfit IS NULL
    LIMIT 500";
const READY_ONE: &str = "UPDATE agent_jobs SET ready = :ready WHERE seq = :seq AND ready = -1";
const NEXT_DUE: &str = "
    SELECT MIN(not_before_ms) FROM agent_jobs INDEXED BY jobs_deferred
    WHERE status = 'queued' AND ready = -1 AND unfit IS NULL";
const NEXT_LANE: &str = "
    SELECT MIN(lane_key) FROM agent_jobs INDEXED BY jobs_waiting
    WHERE status = 'queued' AND ready >= 0 AND lane_key > :lane";
const BUSY: &str = "
    SELECT id, owner FROM agent_jobs INDEXED BY jobs_lane_slot
    WHERE lane_key = :lane AND status = 'running'
    UNION ALL
    SELECT id, owner FROM agent_jobs INDEXED BY jobs_queued_lane
    WHERE lane_key = :lane AND status = 'queued'
    LIMIT :capacity";

const ENTER: &str = "
    UPDATE agent_jobs SET lane_key = :lane, lane_slot = :slot
    WHERE id = :id AND lane_key IS NULL AND status = 'running'";

pub(in crate::jobs) const STATEMENTS: &[(&str, &str)] = &[
    ("lane::running_slots", RUNNING_SLOTS),
    ("lane::unready", UNREADY),
    ("lane::ready", READY),
    ("lane::due", DUE),
    ("lane::ready_one", READY_ONE),
    ("lane::next_due", NEXT_DUE),
    ("lane::next_lane", NEXT_LANE),
    ("lane::busy", BUSY),
    ("lane::enter", ENTER),
];

/// Concurrency per lane, by the name of the lane's input; 1 if absent.
#[derive(Clone, Debug, Default)]
pub struct Capacities(pub BTreeMap<String, u32>);

impl Capacities {
    /// Returns the capacity of a lane, at least 1.
    pub fn of(&self, lane: &str) -> u32 {
        let input = lane.split_once('=').map_or(lane, |(input, _)| input);
        if fault::is_off("lane_cap") {
            return u32::from(u16::MAX);
        }
        self.0.get(input).copied().unwrap_or(1).max(1)
    }
}

/// Updates which queued jobs of a lane may be claimed.
pub(in crate::jobs) fn refresh(tx: &Tx<'_>, lane: &str, capacities: &Capacities) -> Result<()> {
    tx.prepare_cached(UNREADY)?.execute(named_params! {":lane": lane})?;
    let running = u32::try_from(slots(tx, lane)?.len()).unwrap_or(u32::MAX);
    let free = capacities.of(lane).saturating_sub(running);
    if free > 0 {
        tx.prepare_cached(READY)?.execute(named_params! {":lane": lane, ":free": free})?;
    }
    Ok(())
}

/// Returns the lowest free slot of a lane, if any.
pub(in crate::jobs) fn free_slot(
    tx: &Tx<'_>,
    lane: &str,
    capacities: &Capacities,
) -> Result<Option<u32>> {
    let taken = slots(tx, lane)?;
    Ok((0..capacities.of(lane)).find(|slot| !taken.contains(slot)))
}

/// Queues jobs that have come due in their lanes.
pub(in crate::jobs) fn promote_due(tx: &Tx<'_>, capacities: &Capacities) -> Result<()> {
    let due: Vec<(i64, Option<String>)> = tx
        .prepare_cached(DUE)?
        .query_map(named_params! {":now": tx.now()}, |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (seq, lane) in due {
        let ready = i32::from(lane.is_none());
        tx.prepare_cached(READY_ONE)?.execute(named_params! {":seq": seq, ":ready": ready})?;
        if let Some(lane) = lane {
            refresh(tx, &lane, capacities)?;
        }
    }
    Ok(())
}

/// Updates all lanes, since a new script may have changed their capacities.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn refresh_all(tx: &Tx<'_>, capacities: &Capacities) -> Result<()> {
    let mut lane = String::new();
    loop {
        let next: Option<String> = tx
            .prepare_cached(NEXT_LANE)?
            .query_row(named_params! {":lane": lane}, |row| row.get(0))?;
        let Some(next) = next else { return Ok(()) };
        refresh(tx, &next, capacities)?;
        lane = next;
    }
}

/// Gives running jobs that have no lane one, beyond its capacity if need be: the next job of the
/// lane waits for all of them.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn enter<'l>(
    tx: &Tx<'_>,
    lanes: impl IntoIterator<Item = (&'l JobId, &'l str)>,
    capacities: &Capacities,
) -> Result<()> {
    for (id, lane) in lanes {
        let taken = slots(tx, lane)?;
        let slot = (0..).find(|it| !taken.contains(it));
        let params = named_params! {":id": id, ":lane": lane, ":slot": slot};
        if tx.prepare_cached(ENTER)?.execute(params)? == 1 {
            refresh(tx, lane, capacities)?;
        }
    }
    Ok(())
}

/// Returns when the next job comes due.
pub(in crate::jobs) fn next_due(connection: &rusqlite::Connection) -> Result<Option<i64>> {
    Ok(connection.prepare_cached(NEXT_DUE)?.query_row([], |row| row.get(0))?)
}

/// Returns the blocking job and its owner, if as many jobs are queued and running in the lane as it
/// can run.
pub(in crate::jobs) fn busy(
    tx: &Tx<'_>,
    lane: &str,
    capacities: &Capacities,
) -> Result<Option<(JobId, Option<PersonId>)>> {
    let capacity = capacities.of(lane);
    let held: Vec<(JobId, Option<PersonId>)> = tx
        .prepare_cached(BUSY)?
        .query_map(named_params! {":lane": lane, ":capacity": capacity}, |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?
        .collect::<rusqlite::Result<_>>()?;
    let is_full = u32::try_from(held.len()).unwrap_or(u32::MAX) >= capacity;
    Ok(if is_full { held.into_iter().next() } else { None })
}

fn slots(tx: &Tx<'_>, lane: &str) -> Result<Vec<u32>> {
    let slots = tx
        .prepare_cached(RUNNING_SLOTS)?
        .query_map(named_params! {":lane": lane}, |row| row.get::<_, Option<u32>>(0))?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(slots.into_iter().flatten().collect())
}
