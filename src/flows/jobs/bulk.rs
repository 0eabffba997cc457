//! Cancels or retries many jobs by kind, state and age, a part per request.
//!
//! **Invariant:** asking again does nothing twice: what was cancelled is not in its state any more,
//! and what was repeated is left out.

use serde::{Deserialize, Serialize};

use crate::base::limit::parse_duration;
use crate::base::{Actor, Error, ErrorKind, JobId, Millis, Result};
use crate::flows::Site;
use crate::flows::automation::effects;
use crate::flows::jobs::{cancel, refuse_unrepeatable};
use crate::flows::people::refuse_disabled;
use crate::flows::requests::{inputs, options};
use crate::jobs::{self, Choice, NewJob, Status};
use crate::people::{Caller, Person};

/// Jobs cancelled per request.
const CANCELLED_AT_ONCE: usize = 200;
/// Jobs retried per request: their documents are checked.
const REPEATED_AT_ONCE: usize = 25;

/// The body of `POST /api/jobs/cancel` and `POST /api/jobs/retry`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BulkRequest {
    /// Only of this kind.
    #[serde(default)]
    pub kind: Option<String>,
    /// Only in this state: `queued`, `running` or `parked` to cancel, an end other than `succeeded`
    /// to retry.
    #[serde(default)]
    pub status: Option<String>,
    /// Only those accepted longer ago than this: `2h`.
    #[serde(default)]
    pub older_than: Option<String>,
    /// The `next` of the previous response.
    #[serde(default)]
    pub after: i64,
    /// Only count them.
    #[serde(default)]
    pub dry_run: bool,
    /// To cancel: kill their processes immediately, without the grace period.
    #[serde(default)]
    pub force: bool,
    /// To retry: RFC 3339; the new jobs do not start earlier.
    #[serde(default)]
    pub not_before: Option<String>,
    /// To retry: not before the rate limit of a job's provider resets.
    #[serde(default)]
    pub when_allowed: bool,
}

/// The result of a request.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Bulk {
    /// Number of jobs cancelled or retried, or, with `dry_run`, that would be.
    pub jobs: i64,
    /// Jobs for which it was refused.
    pub refused: Vec<Refused>,
    /// Where the next request continues; `None` at the end.
    pub next: Option<i64>,
}

/// One refusal.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "RefusedJob"))]
pub struct Refused {
    /// The job.
    pub job_id: JobId,
    /// The error code.
    pub code: String,
    /// The reason.
    pub message: String,
}

/// Cancels waiting, running or parked jobs.
///
/// # Errors
/// `forbidden` for all but admins; `invalid` for a state in which nothing can be cancelled, and
/// with code `unknown_kind`.
pub async fn cancel(site: &Site, caller: &Caller, request: BulkRequest) -> Result<Bulk> {
    let by = Actor::Person(caller.may_administer()?.id.clone());
    refuse_of_other("not_before", request.not_before.is_some())?;
    refuse_of_other("when_allowed", request.when_allowed)?;
    let states = [Status::Queued, Status::Running, Status::Parked];
    let choice = choice(site, &request, &states, false)?;
    refuse_unknown(site, &request, &choice).await?;
    if request.dry_run {
        return counted(site, choice).await;
    }
    let (after, lanes, source) = (request.after, site.queue.capacities(), site.ids.clone());
    let is_killed = request.force;
    let cancel = move |tx: &crate::store::Tx<'_>| {
        let found = jobs::chosen(tx.connection(), &choice, after, CANCELLED_AT_ONCE)?;
        let mut done = Bulk { next: next(&found, CANCELLED_AT_ONCE), ..Bulk::default() };
        for (_, id) in found {
            let cancelled = cancel::end_in(tx, (&id, &by), (&source, &lanes), is_killed);
            note(&mut done, id, cancelled)?;
        }
        Ok(done)
    };
    site.store.write(cancel).await
}

/// Retries ended jobs, each as a new waiting one. Jobs that were already retried are skipped.
///
/// # Errors
/// `forbidden` for all but admins; `invalid` for a state from which nothing is repeated, and with
/// code `unknown_kind`.
pub async fn retry(site: &Site, caller: &Caller, request: BulkRequest) -> Result<Bulk> {
    let person = caller.may_administer()?.clone();
    refuse_of_other("force", request.force)?;
    let not_before = request.not_before.as_deref().map(options::parse_time).transpose()?;
    let states = [Status::Failed, Status::TimedOut, Status::Cancelled];
    let choice = choice(site, &request, &states, true)?;
    refuse_unknown(site, &request, &choice).await?;
    if request.dry_run {
        return counted(site, choice).await;
    }
    let after = request.after;
    let find = move |c: &rusqlite::Connection| jobs::chosen(c, &choice, after, REPEATED_AT_ONCE);
    let found = site.store.read(find).await?;
    let mut done = Bulk { next: next(&found, REPEATED_AT_ONCE), ..Bulk::default() };
    for (_, id) in found {
        let repeated = repeat(site, &person, &id, (not_before, request.when_allowed)).await;
        note(&mut done, id, repeated)?;
    }
    Ok(done)
}

async fn repeat(
    site: &Site,
    person: &Person,
    id: &JobId,
    (not_before, when_allowed): (Option<Millis>, bool),
) -> Result<()> {
    let asked = id.clone();
    let old = site.store.read(move |c| jobs::find(c, &jobs::Viewer::Site, &asked)).await?;
    refuse_unrepeatable(site, &old).await?;
    let (kind, mut new): (_, NewJob) = options::repeated(site, &old, person).await?;
    new.not_before = options::earliest(site, &old, kind, (not_before, when_allowed)).await?;
    new.retry_of = Some(old.id);
    let at = site.clone();
    let accept = move |tx: &crate::store::Tx<'_>| {
        refuse_disabled(tx.connection(), &new.requested_by)?;
        effects::accept(tx, &at, &new).map(drop)
    };
    site.store.write(accept).await
}

/// Refuses an option of the other operation.
fn refuse_of_other(name: &str, is_given: bool) -> Result<()> {
    match is_given {
        true => Err(Error::invalid(format!("`{name}` is not an option here")).of_input(name)),
        false => Ok(()),
    }
}

/// Records the result for one job; an error that is not a refusal ends the request.
fn note(done: &mut Bulk, id: JobId, outcome: Result<()>) -> Result<()> {
    match outcome {
        Ok(()) => done.jobs += 1,
        Err(error) if effects::is_refusal(&error) || error.kind() == ErrorKind::NotFound => {
            let (code, message) = (error.code_str().to_owned(), error.message().to_owned());
            done.refused.push(Refused { job_id: id, code, message });
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

fn next(found: &[(i64, JobId)], most: usize) -> Option<i64> {
    found.last().filter(|_| found.len() == most).map(|it| it.0)
}

async fn counted(site: &Site, choice: Choice) -> Result<Bulk> {
    let jobs = site.store.read(move |c| jobs::count(c, &choice)).await?;
    Ok(Bulk { jobs, ..Bulk::default() })
}

/// Refuses a kind that the script does not have and of which no matching job is left.
async fn refuse_unknown(site: &Site, request: &BulkRequest, choice: &Choice) -> Result<()> {
    let Some(kind) = choice.kind.as_ref().filter(|_| request.after == 0) else { return Ok(()) };
    let known = inputs::kind(&site.works, kind);
    let (Err(unknown), choice) = (known, choice.clone()) else { return Ok(()) };
    match site.store.read(move |c| jobs::count(c, &choice)).await? {
        0 => Err(unknown.of_input("kind")),
        _ => Ok(()),
    }
}

/// Returns the matching jobs, in the first state if none is given.
fn choice(
    site: &Site,
    request: &BulkRequest,
    states: &[Status],
    is_unrepeated: bool,
) -> Result<Choice> {
    let status = match request.status.as_deref() {
        None => states[0],
        Some(word) => Status::parse(word)?,
    };
    if !states.contains(&status) {
        let words: Vec<&str> = states.iter().map(|it| it.as_str()).collect();
        let message = format!("nothing can be done to all jobs that are {status}");
        return Err(Error::invalid(message)
            .hint(format!("the status must be one of {}", words.join(", ")))
            .of_input("status"));
    }
    let before = match request.older_than.as_deref() {
        None => None,
        Some(text) => {
            let age = parse_duration(text).map_err(|it| it.of_input("older_than"))?;
            let ms = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
            Some(site.store.clock().now().plus(-ms))
        }
    };
    Ok(Choice { status, kind: request.kind.clone(), before, is_unrepeated })
}
