//! Taking the next job, in the order of acceptance within a lane and a priority.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension as _, named_params};
use serde_json::json;

use crate::base::{Actor, Error, Event, EventKind, JobId, Result, fault};
use crate::jobs::lane::{self, Capacities};
use crate::jobs::waiting::{Gate, Rules};
use crate::jobs::{Job, Status, table};
use crate::script::Config;
use crate::store::Tx;

const RUNNING: &str = "SELECT COUNT(*) FROM agent_jobs WHERE status = 'running'";
const RUNNING_OF_KIND: &str = "
    SELECT COUNT(*) FROM agent_jobs WHERE status = 'running' AND kind = :kind";
// A skip scan: one seek for each kind that has a ready job, however many jobs are ready.
const NEXT_KIND: &str = "
    SELECT MIN(kind) FROM agent_jobs INDEXED BY jobs_claim
    WHERE status = 'queued' AND ready = 1 AND kind > :kind";
const FIRST_OF_KIND: &str = "
    SELECT seq, priority, id, lane_key FROM agent_jobs INDEXED BY jobs_claim
    WHERE kind = :kind AND status = 'queued' AND ready = 1
    ORDER BY priority DESC, seq LIMIT 1";
// The same for each person, when the jobs of some have to wait.
const NEXT_PERSON: &str = "
    SELECT MIN(requested_by) FROM agent_jobs INDEXED BY jobs_claim_person
    WHERE kind = :kind AND status = 'queued' AND ready = 1 AND requested_by > :person";
const FIRST_OF_PERSON: &str = "
    SELECT seq, priority, id, lane_key FROM agent_jobs INDEXED BY jobs_claim_person
    WHERE kind = :kind AND requested_by = :person AND status = 'queued' AND ready = 1
    ORDER BY priority DESC, seq LIMIT 1";
const THIS_ONE: &str = "
    SELECT seq, priority, id, lane_key, kind FROM agent_jobs
    WHERE id = :id AND status = 'queued' AND ready = 1";
const UNCLAIM: &str = "
    UPDATE agent_jobs SET status = 'queued', started_ms = NULL, lane_slot = NULL, token_hash = NULL,
        ready = :ready
    WHERE id = :id AND status = 'running' AND ending_ms IS NULL AND guard_pid IS NULL";
const CLAIM: &str = "
    UPDATE agent_jobs SET status = 'running', ready = 0, lane_slot = :slot,
        started_ms = MAX(:now, created_ms),
        token_hash = :token, config_digest = :config, engine = :engine
    WHERE seq = :seq AND status = 'queued'";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("claim::running", RUNNING),
    ("claim::running_of_kind", RUNNING_OF_KIND),
    ("claim::next_kind", NEXT_KIND),
    ("claim::first_of_kind", FIRST_OF_KIND),
    ("claim::next_person", NEXT_PERSON),
    ("claim::first_of_person", FIRST_OF_PERSON),
    ("claim::this_one", THIS_ONE),
    ("claim::claim", CLAIM),
    ("claim::unclaim", UNCLAIM),
];

/// How much may run at once.
#[derive(Clone, Debug)]
pub struct Caps {
    /// All jobs together.
    pub jobs: u32,
    /// Jobs of one kind; none means no limit of its own.
    pub kinds: BTreeMap<String, u32>,
    /// Jobs of one lane.
    pub lanes: Capacities,
    /// Daily caps and engines.
    pub(super) rules: Rules,
}

impl Caps {
    /// Returns caps without a daily one, and without engines that could be held.
    pub fn new(jobs: u32, kinds: BTreeMap<String, u32>, lanes: Capacities) -> Caps {
        Caps { jobs, kinds, lanes, rules: Rules::default() }
    }

    /// Returns the caps of a script.
    pub(super) fn of(config: &Config) -> Caps {
        let kinds = config.kinds.values();
        Caps {
            jobs: config.limits.jobs,
            kinds: kinds.filter_map(|it| Some((it.name.clone(), it.max_running?))).collect(),
            lanes: Capacities(config.limits.lanes.clone()),
            rules: Rules::of(config),
        }
    }
}

struct Candidate {
    kind: String,
    seq: i64,
    priority: i64,
    id: crate::base::JobId,
    lane: Option<String>,
}

/// Marks the next job as running under a new token, if one may run.
///
/// # Errors
/// As any write.
pub fn claim(
    tx: &Tx<'_>,
    caps: &Caps,
    token_hash: &str,
    config_digest: &str,
) -> Result<Option<Job>> {
    // Before the cap is looked at: a job that came due must not be found overdue again and again.
    lane::promote_due(tx, &caps.lanes)?;
    let running: u32 = tx.prepare_cached(RUNNING)?.query_row([], |row| row.get(0))?;
    if running >= caps.jobs && !fault::is_off("job_cap") {
        return Ok(None);
    }
    let gate = caps.rules.gate(tx.connection(), tx.now())?;
    if gate.spent.is_all() {
        return Ok(None);
    }
    match next_with_slot(tx, caps, &gate)? {
        Some(next) => take(tx, caps, next, (token_hash, config_digest)).map(Some),
        None => Ok(None),
    }
}

/// Marks one job as running before those that come earlier, if it may run at all.
///
/// # Errors
/// As [`claim`].
pub(super) fn claim_this(
    tx: &Tx<'_>,
    caps: &Caps,
    id: &JobId,
    marks: (&str, &str),
) -> Result<Option<Job>> {
    lane::promote_due(tx, &caps.lanes)?;
    let gate = caps.rules.gate(tx.connection(), tx.now())?;
    let found = tx
        .prepare_cached(THIS_ONE)?
        .query_row(named_params! {":id": id}, |row| candidate(row, &row.get::<_, String>(4)?))
        .optional()?;
    let is_open = |it: &Candidate| !gate.spent.is_all() && !caps.rules.is_closed(&gate, &it.kind);
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
    })?;
    if changed == 0 {
        return Err(Error::internal(format!("job {} was claimed twice", next.id)));
    }
    if let Some(lane) = &next.lane {
        lane::refresh(tx, lane, &caps.lanes)?;
    }
    let job = table::find(tx.connection(), &next.id)?;
    tx.emit(told(EventKind::JobStarted, &job, Status::Running))?;
    Ok(job)
}

/// Takes a claim back: the server stops before anything was started. The job waits as before.
pub(super) fn unclaim(tx: &Tx<'_>, job: &Job, lanes: &Capacities) -> Result<()> {
    let ready = i32::from(job.lane.is_none());
    let changed =
        tx.prepare_cached(UNCLAIM)?.execute(named_params! {":id": job.id, ":ready": ready})?;
    if changed == 0 {
        return Err(Error::conflict("job_ended", format!("job {} is ending already", job.id)));
    }
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
    Event::new(kind, format!("job:{}", job.id), Actor::System, about)
}

fn next_with_slot(
    tx: &Tx<'_>,
    caps: &Caps,
    gate: &Gate,
) -> Result<Option<(Candidate, Option<u32>)>> {
    while let Some(next) = best_candidate(tx, caps, gate)? {
        let Some(lane) = &next.lane else { return Ok(Some((next, None))) };
        if let Some(slot) = lane::free_slot(tx, lane, &caps.lanes)? {
            return Ok(Some((next, Some(slot))));
        }
        // Its mark is older than the lane's present capacity; it waits like the others.
        lane::refresh(tx, lane, &caps.lanes)?;
    }
    Ok(None)
}

fn best_candidate(tx: &Tx<'_>, caps: &Caps, gate: &Gate) -> Result<Option<Candidate>> {
    let mut best: Option<Candidate> = None;
    let mut kind = String::new();
    loop {
        let next: Option<String> = tx
            .prepare_cached(NEXT_KIND)?
            .query_row(named_params! {":kind": kind}, |row| row.get(0))?;
        let Some(next) = next else { return Ok(best) };
        kind = next;
        if caps.rules.is_closed(gate, &kind) {
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
        let persons = gate.spent.persons();
        if persons.is_empty() {
            let first = tx
                .prepare_cached(FIRST_OF_KIND)?
                .query_row(named_params! {":kind": kind}, |row| candidate(row, &kind))
                .optional()?;
            keep_better(&mut best, first);
        } else {
            first_of_others(tx, &kind, &persons, &mut best)?;
        }
    }
}

/// Looks at the first job of everybody whose jobs may start: one seek for each person.
fn first_of_others(
    tx: &Tx<'_>,
    kind: &str,
    waiting: &[&str],
    best: &mut Option<Candidate>,
) -> Result<()> {
    let mut person = String::new();
    loop {
        let next: Option<String> = tx
            .prepare_cached(NEXT_PERSON)?
            .query_row(named_params! {":kind": kind, ":person": person}, |row| row.get(0))?;
        let Some(next) = next else { return Ok(()) };
        person = next;
        if waiting.contains(&person.as_str()) {
            continue;
        }
        let params = named_params! {":kind": kind, ":person": person};
        let first = tx
            .prepare_cached(FIRST_OF_PERSON)?
            .query_row(params, |row| candidate(row, kind))
            .optional()?;
        keep_better(best, first);
    }
}

fn candidate(row: &rusqlite::Row<'_>, kind: &str) -> rusqlite::Result<Candidate> {
    Ok(Candidate {
        kind: kind.to_owned(),
        seq: row.get(0)?,
        priority: row.get(1)?,
        id: row.get(2)?,
        lane: row.get(3)?,
    })
}

/// The higher priority goes first, and then what was accepted earlier.
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
