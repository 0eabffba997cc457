//! Taking the next job, in the order of acceptance within a lane and a priority.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension as _, named_params};
use serde_json::json;

use crate::base::{Actor, Error, Event, EventKind, Result};
use crate::jobs::lane::{self, Capacities};
use crate::jobs::{Job, table};
use crate::store::Tx;

const RUNNING: &str = "SELECT COUNT(*) FROM agent_jobs WHERE status = 'running'";
const RUNNING_OF_KIND: &str = "
    SELECT COUNT(*) FROM agent_jobs WHERE status = 'running' AND kind = :kind";
// A skip scan: one seek for each kind that has a ready job, however many jobs are ready.
const NEXT_KIND: &str = "
    SELECT MIN(kind) FROM agent_jobs WHERE status = 'queued' AND ready = 1 AND kind > :kind";
const FIRST_OF_KIND: &str = "
    SELECT seq, priority, id, lane_key FROM agent_jobs
    WHERE kind = :kind AND status = 'queued' AND ready = 1
    ORDER BY priority DESC, seq LIMIT 1";
const CLAIM: &str = "
    UPDATE agent_jobs SET status = 'running', ready = 0, started_ms = :now, lane_slot = :slot,
        token_hash = :token, config_digest = :config
    WHERE seq = :seq AND status = 'queued'";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("claim::running", RUNNING),
    ("claim::running_of_kind", RUNNING_OF_KIND),
    ("claim::next_kind", NEXT_KIND),
    ("claim::first_of_kind", FIRST_OF_KIND),
    ("claim::claim", CLAIM),
];

/// How much may run at once.
#[derive(Clone, Debug)]
pub(super) struct Caps {
    /// All jobs together.
    pub(super) jobs: u32,
    /// Jobs of one kind; none means no limit of its own.
    pub(super) kinds: BTreeMap<String, u32>,
    /// Jobs of one lane.
    pub(super) lanes: Capacities,
}

struct Candidate {
    seq: i64,
    priority: i64,
    id: crate::base::JobId,
    lane: Option<String>,
}

/// Marks the next job as running under a new token, if one may run.
pub(super) fn claim(
    tx: &Tx<'_>,
    caps: &Caps,
    token_hash: &str,
    config_digest: &str,
) -> Result<Option<Job>> {
    let running: u32 = tx.prepare_cached(RUNNING)?.query_row([], |row| row.get(0))?;
    if running >= caps.jobs {
        return Ok(None);
    }
    lane::promote_due(tx, &caps.lanes)?;
    let Some(next) = best_candidate(tx, caps)? else { return Ok(None) };
    let slot = match &next.lane {
        Some(lane) => Some(lane::free_slot(tx, lane, &caps.lanes)?.ok_or_else(|| {
            Error::internal(format!("job {} is ready but lane {lane} has no slot", next.id))
        })?),
        None => None,
    };
    let changed = tx.prepare_cached(CLAIM)?.execute(named_params! {
        ":seq": next.seq, ":now": tx.now(), ":slot": slot, ":token": token_hash,
        ":config": config_digest,
    })?;
    if changed == 0 {
        return Err(Error::internal(format!("job {} was claimed twice", next.id)));
    }
    if let Some(lane) = &next.lane {
        lane::refresh(tx, lane, &caps.lanes)?;
    }
    let job = table::find(tx.connection(), &next.id)?;
    tx.emit(Event::new(
        EventKind::JobStarted,
        format!("job:{}", job.id),
        Actor::System,
        json!({
            "id": job.id, "kind": job.kind, "status": "running", "source_path": job.source_path,
            "topic_id": job.topic_id,
        }),
    ))?;
    Ok(Some(job))
}

fn best_candidate(tx: &Tx<'_>, caps: &Caps) -> Result<Option<Candidate>> {
    let mut best: Option<Candidate> = None;
    let mut kind = String::new();
    loop {
        let next: Option<String> = tx
            .prepare_cached(NEXT_KIND)?
            .query_row(named_params! {":kind": kind}, |row| row.get(0))?;
        let Some(next) = next else { return Ok(best) };
        kind = next;
        if let Some(cap) = caps.kinds.get(&kind) {
            let running: u32 = tx
                .prepare_cached(RUNNING_OF_KIND)?
                .query_row(named_params! {":kind": kind}, |row| row.get(0))?;
            if running >= *cap {
                continue;
            }
        }
        let first = tx
            .prepare_cached(FIRST_OF_KIND)?
            .query_row(named_params! {":kind": kind}, |row| {
                Ok(Candidate {
                    seq: row.get(0)?,
                    priority: row.get(1)?,
                    id: row.get(2)?,
                    lane: row.get(3)?,
                })
            })
            .optional()?;
        let Some(first) = first else { continue };
        let order = |it: &Candidate| (-it.priority, it.seq);
        if best.as_ref().is_none_or(|best| order(&first) < order(best)) {
            best = Some(first);
        }
    }
}
