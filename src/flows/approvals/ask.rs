//! Requests for an approval.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::approvals::{self, Approval, NewApproval, Sort};
use crate::base::limit::parse_duration;
use crate::base::{Address, Error, Millis, Result, is_person_name};
use crate::flows::approvals::{named, resume, schema};
use crate::flows::{Site, as_answer, as_kept, kept_answer};
use crate::jobs::{self, Job};
use crate::people::{Caller, Person};
use crate::store::idempotency;

/// The body of `POST /api/approvals`.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "ApprovalRequest"))]
#[serde(deny_unknown_fields)]
pub struct AskRequest {
    /// The channel: one word.
    pub channel: String,
    /// The request, in one line.
    pub title: String,
    /// What to approve: any JSON.
    #[serde(default = "nothing")]
    pub payload: Value,
    /// A JSON schema for the payload, also if the approver changes it.
    #[serde(default)]
    pub schema: Option<Value>,
    /// Time until it expires, such as `7d`; without it, never.
    #[serde(default)]
    pub expires: Option<String>,
    /// Whether the requesting job ends now and is resumed after the decision.
    #[serde(default)]
    pub and_exit: bool,
}

fn nothing() -> Value {
    json!({})
}

/// Creates an approval and returns it.
///
/// # Errors
/// `invalid` (`bad_channel`, `bad_title`, `bad_schema`, `bad_payload`), `too_large`; `busy` with
/// code `too_many_approvals`; `forbidden` with code `not_granted` for a job whose kind may not ask;
/// `conflict` with codes `cannot_resume` and `waits_already` for a job that wants to end.
pub async fn ask(
    site: &Site,
    caller: &Caller,
    request: AskRequest,
    key: Option<idempotency::Key>,
) -> Result<Approval> {
    if !caller.is_job() {
        caller.may_write()?;
    }
    if let Some(kept) = kept_answer(site, key.as_ref()).await? {
        return as_answer(kept);
    }
    let lasts = request.expires.as_deref().map(parse_duration).transpose();
    let lasts = lasts.map_err(|cause| cause.code("bad_parameter"))?;
    let lasts = lasts.map(|it| i64::try_from(it.as_millis()).unwrap_or(i64::MAX));
    let request = checked(request).await?;
    if request.and_exit {
        // Only a job can wait.
        caller.job()?;
    }
    let (works, caller) = (site.works.clone(), caller.clone());
    let made = site.store.write(move |tx| {
        let job = match &caller {
            Caller::Job { token_hash, .. } => Some(jobs::fence(tx, token_hash)?),
            Caller::Person { .. } => None,
        };
        if let Some(key) = &key
            && let Some(kept) = idempotency::find(tx.connection(), key)?
        {
            return as_answer(kept);
        }
        let expires_at = lasts.map(|ms| tx.now().plus(ms));
        let new = asked((&caller, job.as_ref()), &request, expires_at)?;
        let made = approvals::insert(tx, &works.ids, &new)?;
        if let Some(job) = job.as_ref().filter(|_| request.and_exit) {
            resume::require_resumable(&works.config_of(&job.id), job)?;
            jobs::wait_for(tx, job, &made.id)?;
        }
        let answer = named(tx.connection(), made)?;
        if let Some(key) = &key {
            idempotency::remember(tx, key, &as_kept(&answer)?)?;
        }
        Ok(answer)
    });
    made.await
}

/// Checks the payload against its schema, on a blocking thread.
async fn checked(request: AskRequest) -> Result<AskRequest> {
    let checking = tokio::task::spawn_blocking(move || {
        schema::require(request.schema.as_ref(), &request.payload)?;
        Ok(request)
    });
    checking.await.map_err(|_| Error::internal("a check of a schema panicked").code("panic"))?
}

fn asked(
    (caller, job): (&Caller, Option<&Job>),
    request: &AskRequest,
    expires_at: Option<Millis>,
) -> Result<NewApproval> {
    let from = match (caller, job) {
        (_, Some(job)) => {
            job.require_asking()?;
            address(job)
        }
        (caller, None) => of_person(caller.person()?),
    };
    let (requester, job) = (caller.actor(), job.map(|it| (it.id.clone(), it.root().clone())));
    Ok(NewApproval {
        channel: request.channel.clone(),
        sort: Sort::Request,
        title: request.title.trim().to_owned(),
        payload: request.payload.clone(),
        schema: request.schema.clone(),
        requester,
        from,
        job,
        expires_at,
        private_to: None,
        call_digest: None,
    })
}

fn of_person(person: &Person) -> Option<Address> {
    is_person_name(&person.name).then(|| Address::Person(person.name.clone()))
}

/// Returns the address of a long-running agent or of an instance; `None` for any other job.
pub(super) fn address(job: &Job) -> Option<Address> {
    if let Some(name) = &job.agent {
        return Some(Address::Agent(name.clone()));
    }
    let (template, _) = job.kind.split_once('/')?;
    Some(Address::Instance { template: template.to_owned(), job: job.root().to_string() })
}
