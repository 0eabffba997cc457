//! Claims the next job, in order of acceptance within lane and priority.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, named_params};
use serde_json::json;

use crate::base::{Actor, Error, Event, EventKind, JobId, Millis, Result, fault};
use crate::jobs::fence::JOB_ENDED;
use crate::jobs::queue::lane::{self, Capacities};
use crate::jobs::queue::waiting::{Gate, Rules};
use crate::jobs::rows::pool::{Load, Pool, PoolCaps};
use crate::jobs::rows::table;
use crate::jobs::{Job, Status, Viewer};
use crate::script::Config;
use crate::store::Tx;

const RUNNING_OF_KIND: &str = "
    SELECT COUNT(*) FROM agent_jobs INDEXED BY jobs_running
    WHERE status = 'running'
      AND kind IN (SELECT :kind UNION ALL SELECT was FROM kind_names WHERE name = :kind)";
// A skip scan: one seek per kind with a ready job, however many jobs are ready.
const NEXT_KIND: &str = "
    SELECT MIN(kind) FROM agent_jobs INDEXED BY jobs_claim
    WHERE pool = :pool AND status = 'queued' AND ready = 1 AND kind > :kind";
const FIRST_OF_KIND: &str = "
    SELECT seq, priority, id, lane_key FROM agent_jobs INDEXED BY jobs_claim
    WHERE pool = :pool AND kind = :kind AND status = 'queued' AND ready = 1
    ORDER BY priority DESC, seq LIMIT 1";
// The same per person, when some people's jobs have to wait.
const NEXT_PERSON: &str = "
    SELECT MIN(requested_by) FROM agent_jobs INDEXED BY jobs_claim_person
    WHERE pool = :pool AND kind = :kind AND status = 'queued' AND ready = 1
      AND requested_by > :person";
const FIRST_OF_PERSON: &str = "
    SELECT seq, priority, id, lane_key FROM agent_jobs INDEXED BY jobs_claim_person
    WHERE pool = :pool AND kind = :kind AND requested_by = :person AND status = 'queued'
      AND ready = 1
    ORDER BY priority DESC, seq LIMIT 1";
const THIS_ONE: &str = "
    SELECT seq, priority, id, lane_key, kind, pool FROM agent_jobs
    WHERE id = :id AND status = 'queued' AND ready = 1";
const UNCLAIM: &str = "
    UPDATE agent_jobs SET status = 'queued', started_ms = NULL, lane_slot = NULL, token_hash = NULL,
        ready = :ready
    WHERE id = :id AND status = 'running' AND ending_ms IS NULL AND guard_pid IS NULL";
// Without a word of its guard, only a run that was not begun, or in this boot, is known to have
// started nothing.
const PUT_BACK: &str = "
    UPDATE agent_jobs SET status = 'queued', started_ms = NULL, lane_slot = NULL, token_hash = NULL,
        phase = NULL, run_ms = NULL, guard_pid = NULL, guard_start = NULL, boot_id = NULL,
        ready = :ready
    WHERE id = :id AND status = 'running' AND resumes IS NOT NULL AND ending_ms IS NULL
      AND cancelled_by IS NULL AND killed_ms IS NULL AND verdict IS NULL
      AND (:is_recorded OR (guard_pid IS NULL AND (run_ms IS NULL OR boot_id = :boot)))";
const CLAIM: &str = "
    UPDATE agent_jobs SET status = 'running', ready = 0, lane_slot = :slot,
        started_ms = MAX(:now, created_ms),
        token_hash = :token, config_digest = :config, engine = :engine, engine_mark = :mark
    WHERE seq = :seq AND status = 'queued'";

pub(in crate::jobs) const STATEMENTS: &[(&str, &str)] = &[
    ("claim::running_of_kind", RUNNING_OF_KIND),
    ("claim::next_kind", NEXT_KIND),
    ("claim::first_of_kind", FIRST_OF_KIND),
    ("claim::next_person", NEXT_PERSON),
    ("claim::first_of_person", FIRST_OF_PERSON),
    ("claim::this_one", THIS_ONE),
    ("claim::claim", CLAIM),
    ("claim::unclaim", UNCLAIM),
    ("claim::put_back", PUT_BACK),
];

/// Concurrency limits.
#[derive(Clone, Debug)]
pub struct Caps {
    /// Per pool.
    pub pools: PoolCaps,
    /// Per kind; a kind without an entry has no limit.
    pub kinds: BTreeMap<String, u32>,
    /// Per lane.
    pub lanes: Capacities,
    /// Daily caps and engine holds.
    pub(in crate::jobs) rules: Rules,
}

impl Caps {
    /// Returns limits without daily caps and engine holds, with this many jobs per pool.
    pub fn new(jobs: u32, kinds: BTreeMap<String, u32>, lanes: Capacities) -> Caps {
        let pools = PoolCaps { work: jobs, live: jobs, chat: jobs, chat_person: jobs };
        Caps { pools, kinds, lanes, rules: Rules::default() }
    }

    /// Returns the limits of a script.
    pub(in crate::jobs) fn of(config: &Config) -> Caps {
        let kinds = config.kinds.values();
        Caps {
            pools: PoolCaps::of(config),
            kinds: kinds.filter_map(|it| Some((it.name.clone(), it.max_running?))).collect(),
            lanes: Capacities(config.limits.lanes.clone()),
            rules: Rules::of(config),
        }
    }
}

struct Candidate {
    pool: Pool,
    kind: String,
    seq: i64,
    priority: i64,
    id: crate::base::JobId,
    lane: Option<String>,
}

/// What a claim may choose from.
struct Room {
    gate: Gate,
    load: Load,
    /// The pools with room.
    open: Vec<Pool>,
}

/// Returns whether a claim in these pools may find something: a ready job, or one that is due.
pub(in crate::jobs) fn is_awaited(
    connection: &Connection,
    pools: &[Pool],
    now: Millis,
) -> Result<bool> {
    if lane::next_due(connection)?.is_some_and(|at| at <= now.0) {
        return Ok(true);
    }
    let mut statement = connection.prepare_cached(NEXT_KIND)?;
    for pool in pools {
        let params = named_params! {":pool": pool.as_str(), ":kind": ""};
        if statement.query_row(params, |row| row.get::<_, Option<String>>(0))?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Marks the next startable job, if any, as running with a new token.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn claim(
    tx: &Tx<'_>,
    caps: &Caps,
    token_hash: &str,
    config_digest: &str,
) -> Result<Option<Job>> {
    claim_in(tx, caps, &Pool::ALL, (token_hash, config_digest))
}

/// Marks the next startable job of some pools as running.
pub(in crate::jobs) fn claim_in(
    tx: &Tx<'_>,
    caps: &Caps,
    pools: &[Pool],
    marks: (&str, &str),
) -> Result<Option<Job>> {
    // Before checking limits: otherwise a job that came due would be found overdue forever.
    lane::promote_due(tx, &caps.lanes)?;
    let load = Load::read(tx.connection())?;
    let has_room = |pool: &Pool| !caps.pools.is_full(*pool, load.of(*pool));
    let open: Vec<Pool> = pools.iter().copied().filter(has_room).collect();
    if open.is_empty() {
        return Ok(None);
    }
    let gate = caps.rules.gate(tx.connection(), tx.now())?;
    if gate.spent.is_all() {
        return Ok(None);
    }
    match next_with_slot(tx, caps, &Room { gate, load, open })? {
        Some(next) => take(tx, caps, next, marks).map(Some),
        None => Ok(None),
    }
}

/// Marks one job as running ahead of its turn, if it may run at all.
///
/// # Errors
/// Same as [`claim`].
pub(in crate::jobs) fn claim_this(
    tx: &Tx<'_>,
    caps: &Caps,
    id: &JobId,
    marks: (&str, &str),
) -> Result<Option<Job>> {
    lane::promote_due(tx, &caps.lanes)?;
    let gate = caps.rules.gate(tx.connection(), tx.now())?;
    let found = tx
        .prepare_cached(THIS_ONE)?
        .query_row(named_params! {":id": id}, |row| {
            let pool = Pool::parse(&row.get::<_, String>(5)?).unwrap_or_default();
            candidate(row, pool, &row.get::<_, String>(4)?)
        })
        .optional()?;
    let is_open =
        |it: &Candidate| !gate.spent.is_all() && !caps.rules.is_closed(&gate, (it.pool, &it.kind));
    let Some(next) = found.filter(is_open) else { return Ok(None) };
    let slot = match &next.lane {
        None => None,
        Some(lane) => match lane::free_slot(tx, lane, &caps.lanes)? {
            Some(slot) => Some(slot),
            None => return Ok(None),
        },
    };
    take(tx, caps, (next, slot), marks).map(Some)
}

fn take(
    tx: &Tx<'_>,
    caps: &Caps,
    (next, slot): (Candidate, Option<u32>),
    (token_hash, config_digest): (&str, &str),
) -> Result<Job> {
    let changed = tx.prepare_cached(CLAIM)?.execute(named_params! {
        ":seq": next.seq, ":now": tx.now(), ":slot": slot, ":token": token_hash,
        ":config": config_digest, ":engine": caps.rules.engine(&next.kind),
        ":mark": caps.rules.mark(&next.kind),
    })?;
    if changed == 0 {
        return Err(Error::internal(format!("job {} was claimed twice", next.id)));
    }
    if let Some(lane) = &next.lane {
        lane::refresh(tx, lane, &caps.lanes)?;
    }
    let job = table::find(tx.connection(), &Viewer::Program, &next.id)?;
    tx.emit(told(EventKind::JobStarted, &job, Status::Running))?;
    Ok(job)
}

/// Undoes a claim when the server stops before starting it. The job is queued as before.
pub(in crate::jobs) fn unclaim(tx: &Tx<'_>, job: &Job, lanes: &Capacities) -> Result<()> {
    let ready = i32::from(job.lane.is_none());
    let changed =
        tx.prepare_cached(UNCLAIM)?.execute(named_params! {":id": job.id, ":ready": ready})?;
    if changed == 0 {
        return Err(Error::conflict(JOB_ENDED, format!("job {} is already stopping", job.id)));
    }
    waits(tx, job, lanes)
}

/// Undoes the claim of a later leg whose agent was not started before its server died. The leg is
/// queued as before. `is_recorded` says that its guard has recorded that, `boot` is the current
/// one. Returns `false` if the row leaves it open, or the leg is to end.
pub(in crate::jobs) fn put_back(
    tx: &Tx<'_>,
    job: &Job,
    (is_recorded, boot): (bool, &str),
    lanes: &Capacities,
) -> Result<bool> {
    let changed = tx.prepare_cached(PUT_BACK)?.execute(named_params! {
        ":id": job.id, ":ready": i32::from(job.lane.is_none()), ":is_recorded": is_recorded,
        ":boot": boot,
    })?;
    if changed == 0 {
        return Ok(false);
    }
    waits(tx, job, lanes)?;
    Ok(true)
}

fn waits(tx: &Tx<'_>, job: &Job, lanes: &Capacities) -> Result<()> {
    if let Some(lane) = &job.lane {
        lane::refresh(tx, lane, lanes)?;
    }
    tx.emit(told(EventKind::JobQueued, job, Status::Queued))
}

fn told(kind: EventKind, job: &Job, status: Status) -> Event {
    let about = json!({
        "id": job.id, "kind": job.kind, "status": status.as_str(),
        "source_path": job.source_path, "topic_id": job.topic_id,
    });
    Event::new(kind, format!("job:{}", job.id), Actor::System, about).scoped(job.scope())
}

fn next_with_slot(
    tx: &Tx<'_>,
    caps: &Caps,
    room: &Room,
) -> Result<Option<(Candidate, Option<u32>)>> {
    while let Some(next) = best_candidate(tx, caps, room)? {
        let Some(lane) = &next.lane else { return Ok(Some((next, None))) };
        if let Some(slot) = lane::free_slot(tx, lane, &caps.lanes)? {
            return Ok(Some((next, Some(slot))));
        }
        // Its ready mark predates the lane's current capacity; it waits like the others.
        lane::refresh(tx, lane, &caps.lanes)?;
    }
    Ok(None)
}

fn best_candidate(tx: &Tx<'_>, caps: &Caps, room: &Room) -> Result<Option<Candidate>> {
    let mut best = None;
    for pool in &room.open {
        let mut persons: Vec<String> = room.load.full_persons(*pool, &caps.pools);
        persons.extend(room.gate.spent.persons().into_iter().map(str::to_owned));
        best_of_pool(tx, caps, room, (*pool, &persons), &mut best)?;
    }
    Ok(best)
}

/// Considers the first job of each kind in a pool, except those of the people in `waiting`.
fn best_of_pool(
    tx: &Tx<'_>,
    caps: &Caps,
    room: &Room,
    (pool, waiting): (Pool, &[String]),
    best: &mut Option<Candidate>,
) -> Result<()> {
    let mut kind = String::new();
    loop {
        let params = named_params! {":pool": pool.as_str(), ":kind": kind};
        let next: Option<String> =
            tx.prepare_cached(NEXT_KIND)?.query_row(params, |row| row.get(0))?;
        let Some(next) = next else { return Ok(()) };
        kind = next;
        if caps.rules.is_closed(&room.gate, (pool, &kind)) {
            continue;
        }
        if let Some(cap) = caps.kinds.get(&kind) {
            let running: u32 = tx
                .prepare_cached(RUNNING_OF_KIND)?
                .query_row(named_params! {":kind": kind}, |row| row.get(0))?;
            if running >= *cap && !fault::is_off("kind_cap") {
                continue;
            }
        }
        if waiting.is_empty() {
            let params = named_params! {":pool": pool.as_str(), ":kind": kind};
            let first = tx
                .prepare_cached(FIRST_OF_KIND)?
                .query_row(params, |row| candidate(row, pool, &kind))
                .optional()?;
            keep_better(best, first);
        } else {
            first_of_others(tx, (pool, &kind), waiting, best)?;
        }
    }
}

/// Considers the first job of each person whose jobs may start: one seek per person.
fn first_of_others(
    tx: &Tx<'_>,
    (pool, kind): (Pool, &str),
    waiting: &[String],
    best: &mut Option<Candidate>,
) -> Result<()> {
    let mut person = String::new();
    loop {
        let params = named_params! {":pool": pool.as_str(), ":kind": kind, ":person": person};
        let next: Option<String> =
            tx.prepare_cached(NEXT_PERSON)?.query_row(params, |row| row.get(0))?;
        let Some(next) = next else { return Ok(()) };
        person = next;
        if waiting.contains(&person) {
            continue;
        }
        let params = named_params! {":pool": pool.as_str(), ":kind": kind, ":person": person};
        let first = tx
            .prepare_cached(FIRST_OF_PERSON)?
            .query_row(params, |row| candidate(row, pool, kind))
            .optional()?;
        keep_better(best, first);
    }
}

fn candidate(row: &rusqlite::Row<'_>, pool: Pool, kind: &str) -> rusqlite::Result<Candidate> {
    Ok(Candidate {
        pool,
        kind: kind.to_owned(),
        seq: row.get(0)?,
        priority: row.get(1)?,
        id: row.get(2)?,
        lane: row.get(3)?,
    })
}

/// Keeps the job with the higher priority, or else the earlier one.
fn keep_better(best: &mut Option<Candidate>, other: Option<Candidate>) {
    let order = |it: &Candidate| match fault::is_off("claim_order") {
        false => (-it.priority, it.seq),
        true => (0, -it.seq),
    };
    if let Some(other) = other
        && best.as_ref().is_none_or(|best| order(&other) < order(best))
    {
        *best = Some(other);
    }
}
