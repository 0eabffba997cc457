//! Ends a job: first the fence, then its single outcome in one transaction.

use rusqlite::{Connection, named_params};
use serde_json::{Map, Value, json};

use crate::base::limit::{ERROR_TAIL_BYTES_MAX, SUMMARY_BYTES_MAX};
use crate::base::{
    Actor, Error, Event, EventKind, JobId, Millis, Result, TopicId, tail_of, truncate_chars,
};
use crate::jobs::fence::JOB_ENDED;
use crate::jobs::queue::lane::{self, Capacities};
use crate::jobs::queue::{engine_hold, parking};
use crate::jobs::rows::usage;
use crate::jobs::rows::{long_inputs, table};
use crate::jobs::run::decide::{decide, met, with_limit};
use crate::jobs::run::lost::{self, Repeat};
use crate::jobs::run::monitor;
use crate::jobs::telemetry::limit::Limit;
use crate::jobs::telemetry::remark::Refusal;
use crate::jobs::{BELL, Grant, Hooks, Job, Phase, Reason, Status, Verb, Viewer};
use crate::process::{self, ProcessIdentity};
use crate::script::Produces;
use crate::store::Tx;

/// The code of a job that already has its result.
pub const ALREADY_COMPLETED: &str = "already_completed";

// A job never ends before it started, whatever the clock does: durations are not negative. The
// turns of an instance were counted one by one, and its last line tells of the last one only.
const BEGIN_ENDING: &str = "
    UPDATE agent_jobs SET ending_ms = MAX(:now, started_ms)
    WHERE id = :id AND status = 'running' AND ending_ms IS NULL";
const REQUEST_CANCEL: &str = "
    UPDATE agent_jobs SET ending_ms = IIF(:fenced, MAX(:now, started_ms), NULL), cancelled_by = :by
    WHERE id = :id AND status = 'running' AND ending_ms IS NULL AND verdict IS NULL";
const SETTLE: &str = "
    UPDATE agent_jobs SET status = :status, reason = :reason,
        completed_ms = MAX(:now, started_ms, COALESCE(ending_ms, 0)),
        ending_ms = COALESCE(ending_ms, MAX(:now, started_ms)), exit_code = :code, signal = :signal,
        error_tail = :tail, summary = COALESCE(summary, :summary),
        usage_json = IIF(pool = 'work' AND counted_json IS NOT NULL, usage_json,
            COALESCE(:usage, usage_json)),
        cost_usd = IIF(pool = 'work' AND counted_json IS NOT NULL, cost_usd,
            COALESCE(:cost, cost_usd)),
        session_ref = COALESCE(:session, session_ref), warnings_json = :warnings,
        retry_at_ms = :retry_at
    WHERE id = :id AND status = 'running'";
const REQUEST_KILL: &str = "
    UPDATE agent_jobs SET killed_ms = COALESCE(killed_ms, :now)
    WHERE id = :id AND status = 'running'";
const CANCELLED: &str = "
    SELECT id, cancelled_by IS NOT NULL, killed_ms IS NOT NULL
    FROM agent_jobs INDEXED BY jobs_running
    WHERE status = 'running' AND (cancelled_by IS NOT NULL OR killed_ms IS NOT NULL)";
const KEEP_INPUTS: &str = "
    UPDATE agent_jobs SET inputs_json = :inputs, grants_json = :grants
    WHERE id = :id AND status = 'running'";
// A phase begins without a guard: the previous one's pid is meaningless. No agent is started for a
// job that is ending, and during a cleanup its token is refused. A run names its boot at once: of a
// later one, its files do not prove that nothing was started.
const BEGIN_PHASE: &str = "
    UPDATE agent_jobs SET phase = :phase, guard_pid = NULL, guard_start = NULL, boot_id = :boot,
        run_ms = IIF(:phase = 'run', MAX(:now, started_ms), run_ms),
        ending_ms = IIF(:phase = 'cleanup', COALESCE(ending_ms, MAX(:now, started_ms)), ending_ms)
    WHERE id = :id AND status = 'running' AND (:phase <> 'run' OR ending_ms IS NULL)";
const KEEP_GUARD: &str = "
    UPDATE agent_jobs SET guard_pid = :pid, guard_start = :start, boot_id = :boot
    WHERE id = :id AND status = 'running'";
const KEEP_RESULT: &str = "
    UPDATE agent_jobs SET result_json = :result, summary = COALESCE(:summary, summary)
    WHERE id = :id AND status = 'running' AND ending_ms IS NULL";

const CHANGE_ENGINE: &str = "
    UPDATE agent_jobs SET engine = :engine
    WHERE id = :id AND status = 'running' AND ending_ms IS NULL";
const KEEP_TOPIC: &str = "
    UPDATE agent_jobs SET topic_id = :topic, grants_json = :grants
    WHERE id = :id AND status = 'running'";

pub(in crate::jobs) const STATEMENTS: &[(&str, &str)] = &[
    ("settle::begin_ending", BEGIN_ENDING),
    ("settle::request_cancel", REQUEST_CANCEL),
    ("settle::request_kill", REQUEST_KILL),
    ("settle::cancelled", CANCELLED),
    ("settle::settle", SETTLE),
    ("settle::keep_inputs", KEEP_INPUTS),
    ("settle::begin_phase", BEGIN_PHASE),
    ("settle::keep_guard", KEEP_GUARD),
    ("settle::keep_result", KEEP_RESULT),
    ("settle::change_engine", CHANGE_ENGINE),
    ("settle::keep_topic", KEEP_TOPIC),
];

/// How an execution ended, according to its processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::jobs) enum Ended {
    /// Normally: what the kind promises decides.
    #[default]
    Well,
    /// Otherwise.
    Not(Status, Reason),
}

/// The result of an execution, before checking whether it produced what was promised.
#[derive(Clone, Debug, Default)]
pub(in crate::jobs) struct Outcome {
    /// How it ended.
    pub(in crate::jobs) ended: Ended,
    /// Running time of its processes in milliseconds, by a monotonic clock; `None` without
    /// processes.
    pub(in crate::jobs) ran_ms: Option<i64>,
    /// The agent's exit status.
    pub(in crate::jobs) exit_code: Option<i32>,
    /// The signal that killed it.
    pub(in crate::jobs) signal: Option<i32>,
    /// The tail of stderr, or the fixed sentence for the failure.
    pub(in crate::jobs) error_tail: String,
    /// The last refused request of the agent.
    pub(in crate::jobs) refusal: Option<Refusal>,
    /// The agent's last words.
    pub(in crate::jobs) summary: Option<String>,
    /// Tokens and turns.
    pub(in crate::jobs) usage: Option<Value>,
    /// Its cost.
    pub(in crate::jobs) cost_usd: Option<f64>,
    /// The engine's session id.
    pub(in crate::jobs) session_ref: Option<String>,
    /// Warnings about a result that counts anyway.
    pub(in crate::jobs) warnings: Vec<String>,
    /// The provider's rate limit that the agent hit.
    pub(in crate::jobs) limit: Option<Limit>,
    /// Whether the engine's other jobs wait until it is over.
    pub(in crate::jobs) holds_engine: bool,
    /// Whether it is the site's limit, even if the job is private.
    pub(in crate::jobs) is_of_site: bool,
    /// What retrying an inbox job requires.
    pub(in crate::jobs) repeat: Option<Repeat>,
}

/// Fences a running job: after this commit its token is refused. Returns `false` if it already was.
pub(in crate::jobs) fn begin_ending(tx: &Tx<'_>, id: &JobId) -> Result<bool> {
    if crate::base::fault::is_off("fence") {
        return Ok(true);
    }
    let params = named_params! {":id": id, ":now": tx.now()};
    Ok(tx.prepare_cached(BEGIN_ENDING)?.execute(params)? == 1)
}

/// Fences a running job because a person cancels it; its execution is then signalled.
///
/// # Errors
/// `conflict` with code `job_ended` if it has ended or is ending.
pub fn request_cancel(tx: &Tx<'_>, id: &JobId, by: &Actor) -> Result<()> {
    let is_fenced = !crate::base::fault::is_off("fence_first");
    let params = named_params! {":id": id, ":now": tx.now(), ":by": by, ":fenced": is_fenced};
    match tx.prepare_cached(REQUEST_CANCEL)?.execute(params)? {
        1 => {
            // The queue finds it: even if the caller leaves now, the job is cancelled.
            tx.ring(BELL);
            Ok(())
        }
        _ => {
            let job = table::find_slim(tx.connection(), &Viewer::Program, id)?;
            if let (Some(verdict), false) = (job.verdict, job.status.is_final()) {
                let message = format!("job {id} has said `{}` already", verdict.as_str());
                return Err(Error::conflict(ALREADY_COMPLETED, message)
                    .hint("its agent is being stopped; its result is final"));
            }
            let state = if job.status.is_final() { "has already ended" } else { "is ending" };
            Err(Error::conflict(JOB_ENDED, format!("job {id} {state}"))
                .hint(format!("see the outcome: wiki-browser job show {id}")))
        }
    }
}

/// Ends the processes of a running job at once, whatever it is doing; its result, if it has one,
/// stays.
///
/// # Errors
/// `conflict` with code `job_ended` if it is not running.
pub fn request_kill(tx: &Tx<'_>, id: &JobId) -> Result<()> {
    let params = named_params! {":id": id, ":now": tx.now()};
    one(tx.prepare_cached(REQUEST_KILL)?.execute(params)?, id)?;
    tx.ring(BELL);
    Ok(())
}

/// A running job that is to end.
pub(in crate::jobs) struct Condemned {
    pub(in crate::jobs) id: JobId,
    pub(in crate::jobs) is_cancelled: bool,
    pub(in crate::jobs) is_killed: bool,
}

/// Returns the running jobs that were cancelled or whose processes are to be killed.
pub(in crate::jobs) fn cancelled(connection: &Connection) -> Result<Vec<Condemned>> {
    let mut statement = connection.prepare_cached(CANCELLED)?;
    let read = |row: &rusqlite::Row<'_>| {
        Ok(Condemned { id: row.get(0)?, is_cancelled: row.get(1)?, is_killed: row.get(2)? })
    };
    let found = statement.query_map([], read)?.collect::<rusqlite::Result<_>>()?;
    Ok(found)
}

/// Stores what was computed at the start: all inputs, and the grants of the current kind.
pub(in crate::jobs) fn keep_start(
    tx: &Tx<'_>,
    id: &JobId,
    inputs: &Map<String, Value>,
    grants: &[Grant],
) -> Result<()> {
    let (inputs, grants) = (long_inputs::Text::of(inputs)?, json!(grants).to_string());
    inputs.replace(tx, id)?;
    let params = named_params! {":id": id, ":inputs": inputs.in_row(), ":grants": grants};
    one(tx.prepare_cached(KEEP_INPUTS)?.execute(params)?, id)
}

/// Records the next phase of a running job; nothing of it may be started before this commit.
///
/// # Errors
/// `conflict` with code `job_ended` if the job is not running, or should run but is ending.
pub(in crate::jobs) fn begin_phase(tx: &Tx<'_>, id: &JobId, phase: Phase) -> Result<()> {
    let boot = (phase == Phase::Run).then(process::boot_id).transpose()?;
    let params =
        named_params! {":id": id, ":now": tx.now(), ":phase": phase.as_str(), ":boot": boot};
    one(tx.prepare_cached(BEGIN_PHASE)?.execute(params)?, id)
}

pub(in crate::jobs) fn keep_guard(tx: &Tx<'_>, id: &JobId, guard: &ProcessIdentity) -> Result<()> {
    let start = i64::try_from(guard.start).unwrap_or(i64::MAX);
    let params = named_params! {
        ":id": id, ":pid": guard.pid, ":start": start, ":boot": guard.boot_id,
    };
    one(tx.prepare_cached(KEEP_GUARD)?.execute(params)?, id)
}

/// Stores the result that an agent submits with `finish`. A second one replaces the first.
///
/// # Errors
/// `conflict` with code `job_ended`.
pub fn keep_result(tx: &Tx<'_>, id: &JobId, result: &Value, summary: Option<&str>) -> Result<()> {
    let summary = summary.map(|it| truncate_chars(it, SUMMARY_BYTES_MAX / 4));
    let params = named_params! {":id": id, ":result": result.to_string(), ":summary": summary};
    one(tx.prepare_cached(KEEP_RESULT)?.execute(params)?, id)
}

/// Records that a running private job continues with another engine. If it leaves the first one
/// because of a rate limit (`limit`, with its end if known), that engine is held for the owner.
///
/// # Errors
/// `conflict` with code `job_ended`.
pub fn change_engine(
    tx: &Tx<'_>,
    job: &Job,
    engine: &str,
    limit: Option<Option<Millis>>,
) -> Result<()> {
    if let (Some(retry_at), Some(left)) = (limit, &job.engine) {
        engine_hold::hold(tx, left, (job, false), Limit { retry_at, is_prose: false })?;
    }
    let params = named_params! {":id": job.id, ":engine": engine};
    one(tx.prepare_cached(CHANGE_ENGINE)?.execute(params)?, &job.id)
}

/// Stores the Topic opened by a running job, which the job is about from then on.
///
/// # Errors
/// `conflict` with code `job_ended`.
pub fn keep_topic(tx: &Tx<'_>, job: &Job, topic: &TopicId, verbs: &[Verb]) -> Result<()> {
    let mut grants = job.grants.clone();
    grants.push(Grant::topic(topic, verbs));
    let params = named_params! {
        ":id": job.id, ":topic": topic, ":grants": json!(grants).to_string(),
    };
    one(tx.prepare_cached(KEEP_TOPIC)?.execute(params)?, &job.id)
}

fn one(changed: usize, id: &JobId) -> Result<()> {
    match changed {
        1 => Ok(()),
        _ => Err(Error::conflict(JOB_ENDED, format!("job {id} is not running"))),
    }
}

/// Settles a running job: what it promised, status, follow-ups for documents, event, lane.
pub(in crate::jobs) fn settle(
    tx: &Tx<'_>,
    id: &JobId,
    outcome: &Outcome,
    produces: Option<Produces>,
    hooks: &Hooks,
    capacities: &Capacities,
) -> Result<Job> {
    let job = table::find_slim(tx.connection(), &Viewer::Program, id)?;
    let (status, reason, tail) = decide(tx, &job, outcome, produces, hooks)?;
    let (reason, limit) = with_limit(reason, outcome.limit);
    let tail = tail.map(|it| tail_of(it.as_bytes(), ERROR_TAIL_BYTES_MAX));
    let met = met(status, outcome);
    // A rate limit counts even if the job had finished its work before hitting it.
    let limit = limit.or(outcome.limit.filter(|_| met.is_some()));
    // Handlers of earlier events may have added some.
    let warnings: Vec<&String> = job.warnings.iter().chain(&outcome.warnings).chain(&met).collect();
    let changed = tx.prepare_cached(SETTLE)?.execute(named_params! {
        ":id": id, ":status": status.as_str(), ":reason": reason.map(Reason::as_str),
        ":now": tx.now(), ":code": outcome.exit_code, ":signal": outcome.signal, ":tail": tail,
        ":summary": outcome.summary.as_deref().map(|it| truncate_chars(it, SUMMARY_BYTES_MAX / 4)),
        ":usage": outcome.usage.as_ref().map(Value::to_string), ":cost": outcome.cost_usd,
        ":session": outcome.session_ref, ":warnings": json!(warnings).to_string(),
        ":retry_at": limit.filter(|_| reason.is_some()).and_then(|it| it.retry_at),
    })?;
    one(changed, id)?;
    if let Some(lane) = &job.lane {
        lane::refresh(tx, lane, capacities)?;
    }
    let job = table::find_slim(tx.connection(), &Viewer::Program, id)?;
    monitor::end(tx, id, capacities)?;
    if status == Status::Parked {
        usage::add(tx, &job, outcome.ran_ms)?;
        parking::tell_parked(tx, &job)?;
        // It may have been decided meanwhile.
        (hooks.parked)(tx, &job)?;
        tx.ring(BELL);
        return table::find_slim(tx.connection(), &Viewer::Program, id);
    }
    if let Some(how) = &outcome.repeat {
        lost::repeat(tx, &job, how, capacities)?;
    }
    // Called first, because it decides whether the job is retried.
    (hooks.settled)(tx, &job)?;
    usage::add(tx, &job, outcome.ran_ms)?;
    match (limit, &job.engine) {
        (Some(limit), Some(engine)) if outcome.holds_engine => {
            engine_hold::hold(tx, engine, (&job, outcome.is_of_site), limit)?;
        }
        (None, Some(engine)) if status == Status::Succeeded => {
            engine_hold::well(tx, engine, (&job, outcome.is_of_site))?;
        }
        _ => {}
    }
    tx.emit(
        Event::new(
            EventKind::JobFinished,
            format!("job:{id}"),
            Actor::System,
            json!({
                "id": id, "kind": job.kind, "status": job.status, "reason": job.reason,
                "source_path": job.source_path, "topic_id": job.topic_id,
                "retry_at": job.retry_at,
            }),
        )
        .scoped(job.scope()),
    )?;
    tx.ring(BELL);
    Ok(job)
}
