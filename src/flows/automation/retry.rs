//! `retry` of a kind: whether a job that failed is repeated, and when.
//!
//! It is asked like a handler of `job_finished`, after the job's end was committed: the new job is
//! accepted in the transaction that writes down how far the handlers were told, so a crash repeats
//! the question and never the job. It is a function of the script in force, under which the new job
//! will run.
//!
//! **Invariant:** only a job that failed by itself is repeated: not one that a person cancelled,
//! and not one that ended with its server, whose agent may have done what must not be done twice.

use serde_json::Value;

use crate::base::limit::SCRIPT_RETRIES_MAX;
use crate::base::{Actor, Error, EventKind, JobId, Result};
use crate::flows::Site;
use crate::flows::automation::effects::{Failure, Origin, Wish, time};
use crate::flows::requests::options;
use crate::jobs::{self, Job, NewJob, Reason, Status};
use crate::script::{Kind, SCRIPT_FAILED, Slot};
use crate::store::StoredEvent;

/// Asks the kind of a failed job whether to retry it.
pub(in crate::flows) async fn after(
    site: &Site,
    event: &StoredEvent,
    payload: &Value,
) -> Option<Wish> {
    if event.kind != EventKind::JobFinished {
        return None;
    }
    let kind = site.config.kind(event.data["kind"].as_str()?)?;
    let slot = kind.retry.as_ref()?;
    let id: JobId = event.data["id"].as_str()?.parse().ok()?;
    let origin = Origin { function: format!("kind.{}.retry", kind.name), at: slot.at.clone() };
    match repeated(site, kind, (slot, &origin.function), &id, payload).await {
        Ok(None) => None,
        Ok(Some(new)) => Some(Wish::Job { new: Box::new(new), by: origin, handler: None }),
        Err(error) => Some(Wish::Failed(Failure::new(&origin, &format!("job {id}"), &error))),
    }
}

async fn repeated(
    site: &Site,
    kind: &Kind,
    (slot, name): (&Slot, &str),
    id: &JobId,
    payload: &Value,
) -> Result<Option<NewJob>> {
    let asked = id.clone();
    let (old, attempt, is_repeated) = site
        .store
        .read(move |c| {
            let attempt = jobs::attempt_of(c, &asked, SCRIPT_RETRIES_MAX + 1)?;
            Ok((
                jobs::find(c, &jobs::Viewer::Site, &asked)?,
                attempt,
                jobs::is_repeated(c, &asked)?,
            ))
        })
        .await?;
    // A monitor belongs to one run of its worker.
    let is_monitor = old.monitor_of.is_some();
    if is_monitor || !may_repeat(&old) || is_repeated || attempt > SCRIPT_RETRIES_MAX {
        return Ok(None);
    }
    let mut shown = payload["job"].clone();
    shown["attempt"] = attempt.into();
    // What a handler gets leaves long ones out.
    shown["inputs"] = Value::Object(old.inputs.clone());
    let not_before = match site.vm().ask(name, slot, shown).await? {
        Value::Null | Value::Bool(false) => return Ok(None),
        Value::Bool(true) => None,
        when @ Value::String(_) => Some(time(site, &when)?),
        _ => {
            let message = format!("{}: `retry` returned neither a time nor true or false", slot.at);
            return Err(Error::invalid(message)
                .code(SCRIPT_FAILED)
                .hint("return \"5m\", a time like job.retry_at, true or nil"));
        }
    };
    let mut new = options::like(site, kind, &old, Actor::Script).await?;
    new.priority = old.priority;
    new.not_before = not_before;
    new.retry_of = Some(old.id.clone());
    new.depth = site.store.read(move |c| jobs::depth_of(c, &old.id)).await?;
    Ok(Some(new))
}

fn may_repeat(job: &Job) -> bool {
    matches!(job.status, Status::Failed | Status::TimedOut)
        && !matches!(job.reason, Some(Reason::ServerRestarted | Reason::Cancelled))
}
