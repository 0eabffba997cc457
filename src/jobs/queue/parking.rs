//! Parking and legs: a job that asks a person may end, wait as a row, and continue as another job
//! (its next leg) of the same session once it is answered.
//!
//! **Invariant:** a parked job has no process, no place in its lane and no valid token. It leads to
//! at most one further leg, in the transaction that ends its wait.

use rusqlite::{Connection, OptionalExtension as _, named_params};
use serde_json::json;

use crate::base::limit::PRIORITY_MAX;
use crate::base::{Actor, ApprovalId, Error, Event, EventKind, Ids, JobId, Result};
use crate::jobs::fence::JOB_ENDED;
use crate::jobs::queue::enqueue;
use crate::jobs::queue::lane::{self, Capacities};
use crate::jobs::rows::{long_inputs, table};
use crate::jobs::{BELL, Job, Reason, Status, Viewer};
use crate::script::{SESSION, Sessions};
use crate::store::Tx;

/// A leg goes before all queued jobs: its root was accepted before them.
const LEG_PRIORITY: i64 = PRIORITY_MAX + 1;

const WAIT_FOR: &str = "
    UPDATE agent_jobs SET waits_for = :approval
    WHERE id = :id AND status = 'running' AND ending_ms IS NULL AND waits_for IS NULL";
const STOP_WAITING: &str = "
    UPDATE agent_jobs SET waits_for = NULL
    WHERE id = :id AND status = 'running' AND waits_for = :approval";
const PARKED: &str = "SELECT id FROM agent_jobs WHERE waits_for = :approval AND status = 'parked'";
const LEAVING: &str = "
    SELECT id FROM agent_jobs INDEXED BY jobs_running
    WHERE status = 'running' AND waits_for IS NOT NULL";
const LEGS_WAITING: &str = "
    SELECT id, resumes FROM agent_jobs INDEXED BY jobs_by_status
    WHERE status = 'queued' AND resumes IS NOT NULL ORDER BY seq";
const KEEP_SESSION: &str = "
    UPDATE agent_jobs SET session_ref = :session WHERE id = :id AND status = 'running'";
const RESUMED: &str = "
    UPDATE agent_jobs SET status = 'succeeded', reason = :reason, error_tail = NULL
    WHERE id = :id AND status = 'parked'";
// With values instead of a SELECT, which would look for children of the new row in every table.
const INSERT: &str = "
    INSERT INTO agent_jobs (id, kind, lane_key, status, source_path, topic_id, persona_name,
        inputs_json, grants_json, requested_by, priority, ready, created_ms, config_digest,
        message_id, root_id, resumes, session_ref, depth, owner, pool, agent,
        on_server_loss, sources_json, unfit)
    VALUES (:id, :kind, :lane, 'queued', :source, :topic, :persona, :inputs, :grants, :by,
        :priority,
        IIF((SELECT unfit FROM agent_jobs WHERE id = :old) IS NULL, :ready, -1),
        :now, :config, :message, :root, :old, :session,
        (SELECT depth FROM agent_jobs WHERE id = :old),
        :owner, :pool, :agent,
        (SELECT on_server_loss FROM agent_jobs WHERE id = :old), :sources,
        (SELECT unfit FROM agent_jobs WHERE id = :old))";

pub(in crate::jobs) const STATEMENTS: &[(&str, &str)] = &[
    ("parking::wait_for", WAIT_FOR),
    ("parking::stop_waiting", STOP_WAITING),
    ("parking::parked", PARKED),
    ("parking::leaving", LEAVING),
    ("parking::legs_waiting", LEGS_WAITING),
    ("parking::keep_session", KEEP_SESSION),
    ("parking::resumed", RESUMED),
    ("parking::insert", INSERT),
];

/// Records that a running job waits for an approval: it is parked once its process has ended.
///
/// # Errors
/// `conflict` with code `waits_already`, or `job_ended`.
pub fn wait_for(tx: &Tx<'_>, job: &Job, approval: &ApprovalId) -> Result<()> {
    if let Some(other) = &job.waits_for {
        let message = format!("job {} waits for approval {other} already", job.id);
        return Err(Error::conflict("waits_already", message).hint("end your turn now"));
    }
    let params = named_params! {":id": job.id, ":approval": approval};
    match tx.prepare_cached(WAIT_FOR)?.execute(params)? {
        1 => {
            // The queue ends a process that does not exit.
            tx.ring(BELL);
            Ok(())
        }
        _ => Err(Error::conflict(JOB_ENDED, format!("job {} is ending", job.id))),
    }
}

/// Records that a running job no longer waits for an approval, which was withdrawn.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn stop_waiting(tx: &Tx<'_>, id: &JobId, approval: &ApprovalId) -> Result<()> {
    let params = named_params! {":id": id, ":approval": approval};
    tx.prepare_cached(STOP_WAITING)?.execute(params)?;
    Ok(())
}

/// Returns the parked job that waits for an approval.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn parked_for(connection: &Connection, approval: &ApprovalId) -> Result<Option<JobId>> {
    let params = named_params! {":approval": approval};
    Ok(connection.prepare_cached(PARKED)?.query_row(params, |row| row.get(0)).optional()?)
}

/// Returns the running jobs whose processes must end because they wait for an approval.
pub(in crate::jobs) fn leaving(connection: &Connection) -> Result<Vec<JobId>> {
    let mut statement = connection.prepare_cached(LEAVING)?;
    Ok(statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?)
}

/// Returns the waiting jobs that go on with a decision, each with the leg before it.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn legs_waiting(connection: &Connection) -> Result<Vec<(JobId, JobId)>> {
    let mut statement = connection.prepare_cached(LEGS_WAITING)?;
    let found = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

/// Stores the session id of a running job.
pub(in crate::jobs) fn keep_session(tx: &Tx<'_>, id: &JobId, session: &str) -> Result<()> {
    let params = named_params! {":id": id, ":session": session};
    match tx.prepare_cached(KEEP_SESSION)?.execute(params)? {
        1 => Ok(()),
        _ => Err(Error::conflict(JOB_ENDED, format!("job {id} is not running"))),
    }
}

/// The session of a job.
#[derive(Clone, Debug)]
pub(in crate::jobs) struct Session {
    /// The engine's session id.
    pub(in crate::jobs) name: String,
    /// Whether it continues an earlier session.
    pub(in crate::jobs) is_resumed: bool,
}

/// Returns the session arguments of a job's command.
pub(in crate::jobs) fn arguments(sessions: &Sessions, session: Option<&Session>) -> Vec<String> {
    let Some(Session { name, is_resumed }) = session else { return Vec::new() };
    let words = if *is_resumed { &sessions.resume } else { &sessions.session };
    words.iter().map(|word| word.replace(SESSION, name)).collect()
}

/// Queues the next leg of a parked job, bypassing all limits; returns it.
///
/// # Errors
/// `conflict` with code `not_parked`.
pub fn resume(
    tx: &Tx<'_>,
    ids: &Ids,
    old: &JobId,
    (by, capacities): (&Actor, &Capacities),
) -> Result<JobId> {
    let params = named_params! {":id": old, ":reason": Reason::Resumed.as_str()};
    if tx.prepare_cached(RESUMED)?.execute(params)? != 1 {
        return Err(Error::conflict("not_parked", format!("job {old} is not parked")));
    }
    let job = table::find(tx.connection(), &Viewer::Program, old)?;
    let id: JobId = ids.mint();
    let inputs = long_inputs::Text::of(&job.inputs)?;
    tx.prepare_cached(INSERT)?.execute(named_params! {
        ":id": id, ":kind": job.kind, ":lane": job.lane, ":source": job.source_path,
        ":topic": job.topic_id, ":persona": job.persona_name, ":inputs": inputs.in_row(),
        ":grants": json!(job.grants).to_string(), ":by": job.requested_by,
        ":priority": LEG_PRIORITY, ":ready": i64::from(job.lane.is_none()), ":now": tx.now(),
        ":config": job.config_digest, ":message": job.message_id, ":root": job.root(), ":old": old,
        ":session": job.session_ref, ":owner": job.owner, ":pool": job.pool.as_str(),
        ":agent": job.agent, ":sources": enqueue::sources_json(&job.sources),
    })?;
    inputs.keep(tx, &id)?;
    if let Some(lane) = &job.lane {
        lane::refresh(tx, lane, capacities)?;
    }
    tx.emit(
        Event::new(
            EventKind::JobFinished,
            format!("job:{old}"),
            by.clone(),
            json!({
                "id": old, "kind": job.kind, "status": Status::Succeeded, "reason": Reason::Resumed,
                "source_path": job.source_path, "topic_id": job.topic_id, "retry_at": null,
            }),
        )
        .scoped(job.scope()),
    )?;
    tx.emit(Event::new(
        EventKind::JobQueued,
        format!("job:{id}"),
        by.clone(),
        json!({
            "id": id, "kind": job.kind, "status": Status::Queued, "source_path": job.source_path,
            "topic_id": job.topic_id,
        }),
    ).scoped(job.scope()))?;
    tx.ring(BELL);
    Ok(id)
}

/// Emits that a job is parked.
pub(in crate::jobs) fn tell_parked(tx: &Tx<'_>, job: &Job) -> Result<()> {
    let data = json!({"id": job.id, "kind": job.kind, "approval_id": job.waits_for});
    let event = Event::new(EventKind::JobParked, format!("job:{}", job.id), Actor::System, data);
    tx.emit(event.scoped(job.scope()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::Phase;
    use crate::jobs::queue::claim;
    use crate::jobs::run::settle::{begin_phase, keep_guard, request_cancel};
    use crate::jobs::tests::model::Bench;

    fn words(all: &[&str]) -> Vec<String> {
        all.iter().map(|it| (*it).to_owned()).collect()
    }

    #[test]
    fn the_leg_of_a_job_that_was_marked_while_it_was_parked_does_not_start() {
        let mut bench = Bench::new(4, 4, 1);
        let (id, _) = bench.parked(Some("x=1"));
        let leg = bench.tx(|bench, tx| {
            let lanes = &bench.caps.lanes;
            crate::jobs::mark_unfit(tx, &id, "why", lanes).unwrap();
            resume(tx, &bench.ids, &id, (&Actor::System, lanes)).unwrap()
        });
        bench.tx(|bench, tx| {
            assert!(crate::jobs::claim(tx, &bench.caps, "t", "c").unwrap().is_none());
            let marked = crate::jobs::unfit(tx.connection()).unwrap();
            assert_eq!(marked.iter().map(|it| &it.id).collect::<Vec<_>>(), [&leg]);
        });
    }

    #[test]
    fn a_parked_job_leads_to_one_leg_which_goes_first() {
        let mut bench = Bench::new(4, 4, 1);
        let (id, approval) = bench.parked(Some("x=1"));
        let other = bench.request("a", Some("x=1"), 100, 0);
        let other = bench.tx(|bench, tx| {
            let lanes = &bench.caps.lanes;
            crate::jobs::enqueue(tx, &bench.ids, lanes, &other).unwrap()
        });
        bench.tx(|_, tx| {
            let job = table::find(tx.connection(), &Viewer::Program, &id).unwrap();
            assert_eq!((job.status, job.waits_for.as_ref()), (Status::Parked, Some(&approval)));
            assert_eq!(parked_for(tx.connection(), &approval).unwrap().as_ref(), Some(&id));
        });
        let leg = bench.tx(|bench, tx| {
            let by = (&Actor::System, &bench.caps.lanes);
            resume(tx, &bench.ids, &id, by).unwrap()
        });
        bench.tx(|bench, tx| {
            let by = (&Actor::System, &bench.caps.lanes);
            assert_eq!(resume(tx, &bench.ids, &id, by).unwrap_err().code_str(), "not_parked");
            let old = table::find(tx.connection(), &Viewer::Program, &id).unwrap();
            assert_eq!((old.status, old.reason), (Status::Succeeded, Some(Reason::Resumed)));
            let next = crate::jobs::claim(tx, &bench.caps, "t", "c").unwrap().unwrap();
            assert_eq!((&next.id, next.root(), next.resumes.as_ref()), (&leg, &id, Some(&id)));
            assert_eq!(next.session_ref.as_deref(), Some("s1"));
            assert_ne!(next.id, other);
        });
    }

    #[test]
    fn a_leg_that_was_not_started_is_queued_again_as_that_leg() {
        let boot = crate::process::boot_id().unwrap();
        for (phase, is_recorded, boot, is_back) in [
            (None, false, "another", true),
            (Some(Phase::Prepare), false, "another", true),
            (Some(Phase::Run), false, boot.as_str(), true),
            (Some(Phase::Run), false, "another", false),
            (Some(Phase::Run), true, "another", true),
            (Some(Phase::Cleanup), true, boot.as_str(), false),
        ] {
            let mut bench = Bench::new(4, 4, 1);
            let (id, _) = bench.parked(Some("x=1"));
            let put_back = |bench: &mut Bench, job: &Job| {
                bench.tx(|bench, tx| {
                    claim::put_back(tx, job, (is_recorded, boot), &bench.caps.lanes).unwrap()
                })
            };
            let first = table::find(&bench.connection, &Viewer::Program, &id).unwrap();
            assert!(!put_back(&mut bench, &first));
            let leg = bench.tx(|bench, tx| {
                resume(tx, &bench.ids, &id, (&Actor::System, &bench.caps.lanes)).unwrap()
            });
            let job = bench.take("t").unwrap();
            if let Some(phase) = phase {
                bench.tx(|_, tx| begin_phase(tx, &leg, phase).unwrap());
            }
            assert_eq!(put_back(&mut bench, &job), is_back, "{phase:?} {is_recorded} {boot}");
            assert!(!put_back(&mut bench, &job));
            let again = bench.take("t2");
            assert_eq!(again.as_ref().map(|it| &it.id), is_back.then_some(&leg));
            let Some(again) = again else { continue };
            assert_eq!((again.root(), again.resumes.as_ref()), (&id, Some(&id)));
            assert_eq!((&again.session_ref, &again.lane), (&job.session_ref, &job.lane));
            assert_eq!((again.phase, again.run_at), (None, None));
            bench.tx(|_, tx| request_cancel(tx, &leg, &Actor::System).unwrap());
            assert!(!put_back(&mut bench, &again));
        }
    }

    #[test]
    fn a_leg_whose_guard_is_on_record_is_queued_again_by_its_word_only() {
        let mut bench = Bench::new(4, 4, 1);
        let (id, _) = bench.parked(None);
        bench.tx(|bench, tx| {
            resume(tx, &bench.ids, &id, (&Actor::System, &bench.caps.lanes)).unwrap()
        });
        let job = bench.take("t").unwrap();
        let guard = crate::process::ProcessIdentity::of(1).unwrap().unwrap();
        bench.tx(|_, tx| keep_guard(tx, &job.id, &guard).unwrap());
        for is_recorded in [false, true] {
            let is_back = bench.tx(|bench, tx| {
                let boot = guard.boot_id.as_str();
                claim::put_back(tx, &job, (is_recorded, boot), &bench.caps.lanes).unwrap()
            });
            assert_eq!(is_back, is_recorded);
        }
    }

    #[test]
    fn a_job_waits_for_one_approval_and_goes_on_when_that_is_withdrawn() {
        let mut bench = Bench::new(4, 4, 1);
        let new = bench.request("a", None, 0, 0);
        bench.tx(|bench, tx| {
            crate::jobs::enqueue(tx, &bench.ids, &bench.caps.lanes, &new).unwrap();
            let job = crate::jobs::claim(tx, &bench.caps, "t", "c").unwrap().unwrap();
            let (first, second): (ApprovalId, ApprovalId) = (bench.ids.mint(), bench.ids.mint());
            wait_for(tx, &job, &first).unwrap();
            let job = table::find(tx.connection(), &Viewer::Program, &job.id).unwrap();
            let refused = wait_for(tx, &job, &second).unwrap_err();
            assert_eq!(refused.code_str(), "waits_already");
            assert_eq!(leaving(tx.connection()).unwrap(), std::slice::from_ref(&job.id));
            stop_waiting(tx, &job.id, &second).unwrap();
            assert_eq!(leaving(tx.connection()).unwrap().len(), 1);
            stop_waiting(tx, &job.id, &first).unwrap();
            assert!(leaving(tx.connection()).unwrap().is_empty());
        });
    }

    #[test]
    fn arguments_name_the_session() {
        let sessions = Sessions {
            session: words(&["--session-id", SESSION]),
            resume: words(&["--resume", SESSION]),
        };
        let of = |is_resumed| Session { name: "s".to_owned(), is_resumed };
        assert_eq!(arguments(&sessions, Some(&of(false))), words(&["--session-id", "s"]));
        assert!(arguments(&sessions, None).is_empty());
        assert_eq!(arguments(&sessions, Some(&of(true))), words(&["--resume", "s"]));
    }
}
