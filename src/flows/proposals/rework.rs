//! Rework: a person requests changes, and a job of the same kind revises the proposal.

use serde::Deserialize;

use crate::api::proposals::{AgentProposal, FailedRework, ReworkAccepted};
use crate::api::proposals::{Proposal, ProposalStatus};
use crate::api::topics::ReworkAsked;
use crate::base::limit::SOURCE_BYTES_MAX;
use crate::base::{Actor, Error, ErrorKind, JobId, ProposalId, Result};
use crate::documents::proposals::proposal;
use crate::documents::proposals::proposal::lineage::{self, Rework};
use crate::documents::topics::message;
use crate::documents::unified;
use crate::flows::people::refuse_disabled;
use crate::flows::people::shown_names;
use crate::flows::proposals::{revised, suggestions};
use crate::flows::requests::options;
use crate::flows::{Site, as_answer, as_kept, kept_answer};
use crate::jobs::{self, Verb};
use crate::people::Caller;
use crate::store::{Tx, idempotency};

/// The body of `POST /api/proposals/{id}/rework`.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReworkRequest {
    /// The requested changes; becomes a message of the Topic.
    pub reason: String,
}

/// Requests changes of a proposal: a message, and a new job of the same kind with the same inputs
/// on the current Source. The proposal stays open until the new one arrives.
///
/// # Errors
/// `conflict` with codes `rework_running`, `job_running`, `branch_busy`, `same_text`, what
/// [`proposal::refusal`] says, and what stands against a new job; `forbidden` for viewers and jobs.
pub async fn ask(
    site: &Site,
    caller: &Caller,
    id: &ProposalId,
    request: ReworkRequest,
    key: Option<idempotency::Key>,
) -> Result<ReworkAccepted> {
    let person = caller.may_decide()?;
    if let Some(kept) = kept_answer(site, key.as_ref()).await? {
        return as_answer(kept);
    }
    let asked = id.clone();
    let (found, old) = site
        .store
        .read(move |c| {
            let found = proposal::find(c, &asked)?;
            let old = found
                .job_id
                .as_ref()
                .map(|job| jobs::find(c, &jobs::Viewer::Program, job))
                .transpose()?;
            Ok((found, old))
        })
        .await?;
    refuse_decided(&found)?;
    let Some(old) = old else {
        let message = format!("no job has made proposal {id}");
        return Err(Error::conflict("no_job", message).hint("edit it, or start a job"));
    };
    if !old.status.is_final() {
        return Err(Error::conflict("job_running", format!("job {} has not ended yet", old.id))
            .hint("wait until it ends"));
    }
    let (kind, new) = options::repeated(site, &old, person).await?;
    let reason = message::plain_lines(&request.reason);
    let asked = (Some(reason.as_str()), Some(&found.id));
    suggestions::refuse_same(site, kind, &found.topic_id, asked).await?;
    let (ids, queue, id) = (site.ids.clone(), site.queue.clone(), id.clone());
    let by = Actor::Person(person.id.clone());
    site.store
        .write(move |tx| {
            if let Some(key) = &key
                && let Some(kept) = idempotency::find(tx.connection(), key)?
            {
                return as_answer(kept);
            }
            refuse_disabled(tx.connection(), &by)?;
            let proposal = require_reworkable(tx, &id)?;
            let topic = &proposal.topic_id;
            let said = message::post(tx, &ids, topic, &by, &reason, Some(&id))?;
            queue.admit(tx, &new)?;
            let job = jobs::enqueue(tx, &ids, &queue.capacities(), &new)?;
            lineage::ask_rework(tx, &job, &id, &said.id, &by)?;
            let answer = ReworkAccepted {
                job_id: job,
                proposal_id: id.clone(),
                topic_id: topic.clone(),
                message_id: said.id,
                sequence: said.sequence,
            };
            if let Some(key) = &key {
                idempotency::remember(tx, key, &as_kept(&answer)?)?;
            }
            Ok(answer)
        })
        .await
}

/// Stale and conflicting proposals can be revised, decided ones cannot.
fn refuse_decided(proposal: &Proposal) -> Result<()> {
    match proposal.status {
        ProposalStatus::Open | ProposalStatus::Stale => Ok(()),
        _ => Err(proposal::refusal(proposal)),
    }
}

fn require_reworkable(tx: &Tx<'_>, id: &ProposalId) -> Result<Proposal> {
    let proposal = proposal::find(tx.connection(), id)?;
    if proposal.status == ProposalStatus::Open {
        proposal::require_open(tx, id)?;
    }
    refuse_decided(&proposal)?;
    refuse_running(tx.connection(), id)?;
    Ok(proposal)
}

/// Refuses to decide a proposal that a job is revising, because a reviewer has requested changes.
///
/// # Errors
/// `conflict` with code `rework_running`, naming the job.
pub(in crate::flows) fn refuse_running(c: &rusqlite::Connection, id: &ProposalId) -> Result<()> {
    match running(c, id)? {
        None => Ok(()),
        Some(job) => Err(refusal(id, &job)),
    }
}

/// Returns the error for a proposal that is being revised.
pub(in crate::flows) fn refusal(id: &ProposalId, job: &JobId) -> Error {
    let message = format!("changes to proposal {id} were already requested: job {job}");
    Error::conflict("rework_running", message)
        .hint(format!("wait for the next revision, or cancel job {job}"))
}

/// Returns the running job that revises a proposal.
///
/// # Errors
/// As any read.
pub(in crate::flows) fn running(
    c: &rusqlite::Connection,
    id: &ProposalId,
) -> Result<Option<JobId>> {
    let Some(rework) = lineage::last_rework(c, id)? else { return Ok(None) };
    let is_final = jobs::find_brief(c, &jobs::Viewer::Program, &rework.job_id)?.status.is_final();
    Ok((!is_final).then_some(rework.job_id))
}

/// Returns the failed job of the last request for changes, if nobody has decided since.
///
/// # Errors
/// If the database cannot be read.
pub(super) fn failed(c: &rusqlite::Connection, it: &Proposal) -> Result<Option<FailedRework>> {
    let is_decided = refuse_decided(it).is_err();
    let Some(rework) = lineage::last_rework(c, &it.id)?.filter(|_| !is_decided) else {
        return Ok(None);
    };
    let job = jobs::find(c, &jobs::Viewer::Program, &rework.job_id)?;
    let is_failed = job.status.is_final() && job.status != jobs::Status::Succeeded;
    Ok(is_failed.then_some(FailedRework {
        job_id: job.id,
        status: job.status,
        reason: job.reason.map(|it| it.as_str().to_owned()),
        error_tail: job.error_tail,
    }))
}

/// Returns what the caller's job has to revise, for `get-topic`.
///
/// # Errors
/// As any read.
pub(in crate::flows) async fn of_caller(
    site: &Site,
    caller: &Caller,
) -> Result<Option<ReworkAsked>> {
    let Caller::Job { id, .. } = caller else { return Ok(None) };
    let (asked, config) = (id.clone(), site.config.clone());
    let found = site
        .store
        .read(move |c| {
            let Some(rework) = lineage::rework_of_job(c, &asked)? else { return Ok(None) };
            let revision = proposal::find(c, &rework.proposal_id)?.revision_number;
            let name = crate::people::display_name(c, &rework.asked_by)?;
            let job = jobs::find_brief(c, &jobs::Viewer::Program, &asked)?;
            let kind = config.kinds.get(&job.kind);
            let is_applied = kind.is_some_and(|it| suggestions::applies(&config, it));
            let found = ReworkAsked {
                proposal_id: rework.proposal_id,
                revision_number: revision,
                comment: rework.comment,
                asked_by_name: name,
                revised: None,
            };
            Ok(Some((found, is_applied)))
        })
        .await?;
    let Some((mut found, is_applied)) = found else { return Ok(None) };
    if is_applied {
        found.revised = revised::revised(site, &found.proposal_id, None).await?;
    }
    Ok(Some(found))
}

/// Returns the output of `wb-agent get-proposal`. The comment is that of the request for changes
/// that this job works on, otherwise the last one.
///
/// # Errors
/// `not_found`; `forbidden` with code `not_granted` if the job was granted none of its Topics.
pub async fn for_agent(site: &Site, caller: &Caller, id: &ProposalId) -> Result<AgentProposal> {
    let (asked, job) = (id.clone(), caller.job().ok().map(|(id, _)| id.clone()));
    let (proposal, text, rework, conflict) = site
        .store
        .read(move |c| {
            let proposal = shown_names::fill_proposal(c, proposal::find(c, &asked)?)?;
            let mut rework = lineage::last_rework(c, &asked)?;
            if let Some(job) = &job {
                require_read(c, job, &proposal)?;
                let own = lineage::rework_of_job(c, job)?;
                rework = own.filter(|it: &Rework| it.proposal_id == asked).or(rework);
            }
            let conflict = lineage::conflict(c, &asked)?;
            Ok((proposal, proposal::text(c, &asked)?, rework, conflict))
        })
        .await?;
    let base = site.repo.read_blob(&proposal.base_source_sha, SOURCE_BYTES_MAX).await?;
    let base = String::from_utf8(base).map_err(|_| Error::internal("the base is not UTF-8"))?;
    let old = (!proposal.base_source_sha.is_absent()).then_some(base.as_str());
    let diff = unified(old, &text, proposal.source_path.as_str());
    let comment = rework.map(|it| it.comment);
    Ok(AgentProposal { proposal, text, diff, conflict, comment })
}

fn require_read(c: &rusqlite::Connection, job: &JobId, proposal: &Proposal) -> Result<()> {
    let job = jobs::find(c, &jobs::Viewer::Program, job)?;
    let mut outcome = Err(Error::new(ErrorKind::Forbidden, "the job was not granted a topic"));
    for topic in &proposal.topic_ids {
        outcome = job.require_topic(topic, Verb::Read);
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}
