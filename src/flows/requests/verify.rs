//! `verify` of a kind: the script's own check of a job's result, before the job is settled.
//!
//! **Invariant:** it can only refuse. Whether there is what the kind promises is asked afterwards,
//! in the settling transaction, whatever the script said; and a check that fails refuses.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::base::{Actor, Error, ErrorKind, Result, truncate_chars};
use crate::documents;
use crate::flows::Works;
use crate::flows::topics::of_job;
use crate::jobs::{self, Generation, Job, Reason};
use crate::script::{Produces, Slot};

/// Longest text passed to the check, in bytes, because the script's memory is limited; a job with a
/// longer one is refused.
const TEXT_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Longest refusal, in characters.
const REFUSAL_CHARS_MAX: usize = 1_000;

type Verify =
    dyn Fn(Arc<Generation>, Job) -> BoxFuture<'static, Option<(Reason, String)>> + Send + Sync;

/// Returns the hook that calls the kind's `verify` for a job whose agent has succeeded.
pub(in crate::flows) fn verify(works: &Works) -> Arc<Verify> {
    let works = works.clone();
    Arc::new(move |generation, job| {
        let works = works.at(generation);
        Box::pin(async move {
            let kind = works.config.kind(&job.kind)?;
            let slot = kind.verify.clone()?;
            let name = format!("kind.{}.verify", kind.name);
            match refusal(&works, &job, kind.produces, (&slot, &name)).await {
                Ok(refusal) => refusal.map(|why| (Reason::VerifyFailed, why)),
                // The script's functions are off, or too many calls wait: no answer.
                Err(cause) if cause.kind() != ErrorKind::Invalid => {
                    Some((Reason::VerifyUnasked, cause.chain()))
                }
                Err(cause) => {
                    let message = cause.message();
                    let is_placed = message.starts_with(slot.at.file.as_str());
                    let place = if is_placed { String::new() } else { format!("{}: ", slot.at) };
                    Some((Reason::VerifyFailed, format!("{place}{message}")))
                }
            }
        })
    })
}

async fn refusal(
    works: &Works,
    job: &Job,
    produces: Option<Produces>,
    (slot, name): (&Slot, &str),
) -> Result<Option<String>> {
    let id = job.id.clone();
    let found = works
        .store
        .read(move |c| found(c, &jobs::find(c, &jobs::Viewer::Program, &id)?, produces))
        .await?;
    let Some(shown) = found else {
        // Without the required result, the job fails when it is settled.
        return Ok(None);
    };
    let answer = works.vm().ask(name, slot, shown).await?;
    let refusal =
        |why: &str| Some(truncate_chars(&format!("{}: {why}", slot.at), REFUSAL_CHARS_MAX));
    Ok(match answer {
        Value::Null | Value::Bool(true) => None,
        Value::String(why) if !why.trim().is_empty() => refusal(&why),
        Value::Bool(false) | Value::String(_) => {
            refusal("the check of the script refused the result")
        }
        _ => refusal(
            "`verify` returned neither a reason nor true or false: return true, or a text that \
             says what is wrong",
        ),
    })
}

/// Returns the job of an inbox with its reply, as JSON and as text.
fn with_reply(job: &Job) -> Value {
    let reply = job.result.clone().unwrap_or_default();
    let text = match &reply {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut shown = json!(job);
    shown["produced"] = json!({"text": text, "value": reply});
    shown
}

/// Returns the job with its result as the check sees it: `produced` has `text`, or for a result
/// `value`. `None` if there is no result.
fn found(c: &Connection, job: &Job, produces: Option<Produces>) -> Result<Option<Value>> {
    let text = match produces {
        None if job.message_id.is_some() => return Ok(Some(with_reply(job))),
        None => return Ok(Some(json!(job))),
        Some(Produces::Result) => {
            return Ok(job.result.as_ref().map(|value| {
                let mut shown = json!(job);
                shown["produced"] = json!({"value": value});
                shown
            }));
        }
        Some(Produces::Topic) => {
            let topics = of_job::of_job(c, job)?;
            if topics.is_empty() && job.result.is_none() {
                return Ok(None);
            }
            let mut shown = json!(job);
            shown["produced"] = json!({"topics": topics, "value": job.result});
            return Ok(Some(shown));
        }
        Some(Produces::Proposal) => match documents::proposals::proposal::by_job(c, &job.id)? {
            Some(proposal) => Some(documents::proposals::proposal::text(c, &proposal.id)?),
            None => None,
        },
        Some(Produces::Message) => match &job.topic_id {
            Some(topic) => {
                documents::topics::message::last_body(c, topic, &Actor::Job(job.id.clone()))?
            }
            None => None,
        },
        Some(Produces::Perspective) => match documents::perspectives::has_job(c, &job.id)? {
            true => Some(documents::perspectives::body(c, &job.id)?),
            false => None,
        },
    };
    let Some(text) = text else { return Ok(None) };
    if text.len() > TEXT_BYTES_MAX {
        return Err(Error::invalid("the result is too large for the check of the script"));
    }
    let mut shown = json!(job);
    shown["produced"] = json!({"text": text});
    Ok(Some(shown))
}
