//! Accepts jobs, and cancels queued ones.

use rusqlite::{Connection, named_params};
use serde_json::{Map, Value, json};

use crate::base::limit::{KIND_QUEUED_MAX, LANE_QUEUED_MAX, PERSON_QUEUED_MAX, QUEUED_MAX};
use crate::base::{
    Actor, Error, ErrorKind, Event, EventKind, Ids, JobId, MailId, Millis, PersonId, Result, Scope,
    SourcePath, TopicId, fault,
};
use crate::jobs::queue::lane::{self, Capacities};
use crate::jobs::rows::pool::Pool;
use crate::jobs::rows::{long_inputs, table};
use crate::jobs::{BELL, Grant, Reason, Viewer};
use crate::script::OnBusy;
use crate::store::Tx;

/// The code of a job for which the queue has no room.
pub const QUEUE_FULL: &str = "queue_full";
/// Code of refusals because another job has the lane, of a kind that does not wait.
pub const LANE_BUSY: &str = "lane_busy";

const INSERT: &str = "
    INSERT INTO agent_jobs (id, kind, lane_key, status, source_path, topic_id, persona_name,
        inputs_json, grants_json, requested_by, priority, not_before_ms, ready, created_ms,
        config_digest, retry_of, depth, message_id, owner, pool, agent, monitor_of, sources_json)
    VALUES (:id, :kind, :lane, 'queued', :source, :topic, :persona, :inputs, :grants, :by,
        :priority, :not_before, :ready, :now, :config, :retry_of, :depth, :message, :owner,
        :pool, :agent, :monitor_of, :sources)";
const QUEUED_IN_LANE: &str = "
    SELECT COUNT(*) FROM agent_jobs WHERE lane_key = :lane AND status = 'queued'";
const QUEUED: &str = "SELECT COUNT(*) FROM agent_jobs WHERE status = 'queued'";
const QUEUED_OF_KIND: &str = "
    SELECT COUNT(*) FROM agent_jobs INDEXED BY jobs_by_status
    WHERE status = 'queued' AND kind = :kind";
const QUEUED_OF_PERSON: &str = "
    SELECT COUNT(*) FROM agent_jobs WHERE status = 'queued' AND requested_by = :by";
const IDS_OF_PERSON: &str = "
    SELECT id FROM agent_jobs INDEXED BY jobs_by_status
    WHERE status IN ('queued', 'parked') AND requested_by = :by ORDER BY seq";
const ACTIVE_OF_OWNER: &str = "
    SELECT id FROM agent_jobs INDEXED BY jobs_by_status
    WHERE status IN ('queued', 'running', 'parked') AND owner = :owner ORDER BY seq";
const CANCEL_QUEUED: &str = "
    UPDATE agent_jobs SET status = 'cancelled', reason = :reason,
        completed_ms = MAX(:now, created_ms), cancelled_by = :by, ready = 0
    WHERE id = :id AND status IN ('queued', 'parked')";

pub(in crate::jobs) const STATEMENTS: &[(&str, &str)] = &[
    ("enqueue::insert", INSERT),
    ("enqueue::queued_in_lane", QUEUED_IN_LANE),
    ("enqueue::queued", QUEUED),
    ("enqueue::queued_of_kind", QUEUED_OF_KIND),
    ("enqueue::queued_of_person", QUEUED_OF_PERSON),
    ("enqueue::ids_of_person", IDS_OF_PERSON),
    ("enqueue::active_of_owner", ACTIVE_OF_OWNER),
    ("enqueue::cancel_queued", CANCEL_QUEUED),
];

/// A job to be accepted, with validated inputs.
#[derive(Clone, Debug)]
pub struct NewJob {
    /// The kind.
    pub kind: String,
    /// The lane, as `<input>=<value>`.
    pub lane: Option<String>,
    /// What to do if the lane is busy.
    pub on_busy: OnBusy,
    /// The Source it works on.
    pub source_path: Option<SourcePath>,
    /// The Topic it works on.
    pub topic_id: Option<TopicId>,
    /// The persona it speaks for.
    pub persona_name: Option<String>,
    /// Its inputs, except those computed at the start.
    pub inputs: Map<String, Value>,
    /// The names of the inputs that are Sources.
    pub sources: Vec<String>,
    /// The grants of its token.
    pub grants: Vec<Grant>,
    /// Who asked.
    pub requested_by: Actor,
    /// Higher goes first.
    pub priority: i64,
    /// The earliest start.
    pub not_before: Option<Millis>,
    /// The current script.
    pub config_digest: String,
    /// The job that it retries.
    pub retry_of: Option<JobId>,
    /// How many jobs of the script led to it.
    pub depth: u32,
    /// The message that starts it, if its kind is an inbox.
    pub message_id: Option<MailId>,
    /// The only person who sees it, and who requested it; `None` for a job of the site.
    pub owner: Option<PersonId>,
    /// The cap that it counts toward.
    pub pool: Pool,
    /// The agent that lives in it, in the pool of long-lived agents.
    pub agent: Option<String>,
    /// The job that it watches, in the pool of monitors.
    pub monitor_of: Option<JobId>,
}

impl NewJob {
    /// Returns a job of a kind, in the pool for work, without inputs, lane, grants or priority.
    pub fn plain(kind: &str, config_digest: &str, requested_by: Actor) -> NewJob {
        NewJob {
            kind: kind.to_owned(),
            lane: None,
            on_busy: OnBusy::Queue,
            source_path: None,
            topic_id: None,
            persona_name: None,
            inputs: Map::new(),
            sources: Vec::new(),
            grants: Vec::new(),
            requested_by,
            priority: 0,
            not_before: None,
            config_digest: config_digest.to_owned(),
            retry_of: None,
            depth: 0,
            message_id: None,
            owner: None,
            pool: Pool::Work,
            agent: None,
            monitor_of: None,
        }
    }
}

/// Returns the names of the inputs that are Sources, as stored; `None` if there are none.
pub(in crate::jobs) fn sources_json(names: &[String]) -> Option<String> {
    (!names.is_empty()).then(|| json!(names).to_string())
}

/// Accepts a job.
///
/// # Errors
/// `conflict` with code `lane_busy`, naming the blocking job; `busy` with code `queue_full`.
pub fn enqueue(tx: &Tx<'_>, ids: &Ids, capacities: &Capacities, new: &NewJob) -> Result<JobId> {
    refuse_mixed(new)?;
    if let Some(lane) = &new.lane {
        refuse_busy(tx, lane, capacities, new)?;
    }
    require_room(tx, new)?;
    let id: JobId = ids.mint();
    let is_later = new.not_before.is_some_and(|at| at > tx.now());
    let ready = match (&new.lane, is_later) {
        (_, true) => -1,
        (Some(_), false) => 0,
        (None, false) => 1,
    };
    let grants = serde_json::to_string(&new.grants)
        .map_err(|cause| Error::internal("grants are not JSON").source(cause))?;
    let inputs = long_inputs::Text::of(&new.inputs)?;
    tx.prepare_cached(INSERT)?.execute(named_params! {
        ":id": id, ":kind": new.kind, ":lane": new.lane, ":source": new.source_path,
        ":topic": new.topic_id, ":persona": new.persona_name,
        ":inputs": inputs.in_row(), ":grants": grants,
        ":by": new.requested_by, ":priority": new.priority, ":not_before": new.not_before,
        ":ready": ready, ":now": tx.now(), ":config": new.config_digest, ":retry_of": new.retry_of,
        ":depth": new.depth, ":message": new.message_id, ":owner": new.owner,
        ":pool": new.pool.as_str(), ":agent": new.agent, ":monitor_of": new.monitor_of,
        ":sources": sources_json(&new.sources),
    })?;
    inputs.keep(tx, &id)?;
    if let (Some(lane), false) = (&new.lane, is_later) {
        lane::refresh(tx, lane, capacities)?;
    }
    tx.emit(
        Event::new(
            EventKind::JobQueued,
            format!("job:{id}"),
            new.requested_by.clone(),
            json!({
                "id": id, "kind": new.kind, "status": "queued", "source_path": new.source_path,
                "topic_id": new.topic_id,
            }),
        )
        .scoped(new.owner.clone().map_or(Scope::Site, Scope::Person)),
    )?;
    tx.ring(BELL);
    Ok(id)
}

/// Refuses a job for which the queue has no room, before anything of it is written.
///
/// # Errors
/// `busy` with code `queue_full`.
pub fn require_room(tx: &Tx<'_>, new: &NewJob) -> Result<()> {
    let queued: i64 = tx.prepare_cached(QUEUED)?.query_row([], |row| row.get(0))?;
    if queued >= QUEUED_MAX {
        return Err(full(format!("{queued} jobs are waiting already, the limit is {QUEUED_MAX}")));
    }
    refuse_unfair(tx, new, queued)
}

/// Refuses a private job that was not requested by its owner, by whom claims count it; the schema
/// enforces the other rules.
fn refuse_mixed(new: &NewJob) -> Result<()> {
    let is_own = match &new.owner {
        None => new.pool != Pool::Chat,
        Some(owner) => new.requested_by == Actor::Person(owner.clone()),
    };
    if is_own {
        return Ok(());
    }
    Err(Error::internal(format!("a job of kind {} is not asked for by its owner", new.kind)))
}

fn refuse_busy(tx: &Tx<'_>, lane: &str, capacities: &Capacities, new: &NewJob) -> Result<()> {
    if new.on_busy == OnBusy::Reject
        && let Some((other, owner)) = lane::busy(tx, lane, capacities)?
    {
        let value = lane.split_once('=').map_or(lane, |(_, value)| value);
        let viewer = new.requested_by.person().cloned().map_or(Viewer::Site, Viewer::Person);
        if !viewer.sees(owner.as_ref()) {
            let message = format!("another job is working on {value} or waits to");
            return Err(Error::conflict(LANE_BUSY, message).hint("try again later"));
        }
        let message = format!("job {other} is working on {value} or waiting for it");
        return Err(Error::conflict(LANE_BUSY, message)
            .hint(format!("wait for it (wiki-browser job follow {other}), or cancel it")));
    }
    let waiting: i64 = tx
        .prepare_cached(QUEUED_IN_LANE)?
        .query_row(named_params! {":lane": lane}, |row| row.get(0))?;
    if waiting >= LANE_QUEUED_MAX {
        let most = format!("the limit is {LANE_QUEUED_MAX}");
        return Err(full(format!("{waiting} jobs are waiting for {lane} already, {most}")));
    }
    Ok(())
}

/// Refuses a job if its kind or person would take too many places in the queue. They are only
/// counted, which is work, when enough jobs are queued for that to be possible.
fn refuse_unfair(tx: &Tx<'_>, new: &NewJob, queued: i64) -> Result<()> {
    if fault::is_off("fair_queue") {
        return Ok(());
    }
    if queued >= KIND_QUEUED_MAX {
        let params = named_params! {":kind": new.kind};
        let kind: i64 = tx.prepare_cached(QUEUED_OF_KIND)?.query_row(params, |row| row.get(0))?;
        if kind >= KIND_QUEUED_MAX {
            let what = format!("{kind} jobs of kind {} are waiting already", new.kind);
            return Err(full(format!("{what}, the limit is {KIND_QUEUED_MAX}")));
        }
    }
    if queued >= PERSON_QUEUED_MAX {
        let params = named_params! {":by": new.requested_by};
        let own: i64 = tx.prepare_cached(QUEUED_OF_PERSON)?.query_row(params, |row| row.get(0))?;
        if own >= PERSON_QUEUED_MAX {
            let what = format!("{own} jobs of the same person are waiting already");
            return Err(full(format!("{what}, the limit is {PERSON_QUEUED_MAX}")));
        }
    }
    Ok(())
}

fn full(message: String) -> Error {
    Error::new(ErrorKind::Busy, message)
        .code(QUEUE_FULL)
        .hint("try again when some have ended, or cancel some")
}

/// Returns the queued and parked jobs requested by an actor, in order of acceptance.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn queued_of(connection: &Connection, by: &Actor) -> Result<Vec<JobId>> {
    let mut statement = connection.prepare_cached(IDS_OF_PERSON)?;
    let ids = statement.query_map(named_params! {":by": by}, |row| row.get(0))?;
    Ok(ids.collect::<rusqlite::Result<_>>()?)
}

/// Returns a person's unfinished private jobs, in order of acceptance.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn active_of_owner(connection: &Connection, owner: &PersonId) -> Result<Vec<JobId>> {
    let mut statement = connection.prepare_cached(ACTIVE_OF_OWNER)?;
    let ids = statement.query_map(named_params! {":owner": owner}, |row| row.get(0))?;
    Ok(ids.collect::<rusqlite::Result<_>>()?)
}

/// Cancels a queued or parked job; returns whether it did.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn cancel_queued(tx: &Tx<'_>, id: &JobId, by: &Actor, capacities: &Capacities) -> Result<bool> {
    let job = table::find_slim(tx.connection(), &Viewer::Program, id)?;
    let changed = tx.prepare_cached(CANCEL_QUEUED)?.execute(named_params! {
        ":id": id, ":now": tx.now(), ":by": by, ":reason": Reason::Cancelled.as_str(),
    })?;
    if changed == 0 {
        return Ok(false);
    }
    if let Some(lane) = &job.lane {
        lane::refresh(tx, lane, capacities)?;
    }
    let event = Event::new(
        EventKind::JobFinished,
        format!("job:{id}"),
        by.clone(),
        json!({
            "id": id, "kind": job.kind, "status": "cancelled", "reason": "cancelled",
            "source_path": job.source_path, "topic_id": job.topic_id, "retry_at": null,
        }),
    );
    tx.emit(event.scoped(job.scope()))?;
    tx.ring(BELL);
    Ok(true)
}
