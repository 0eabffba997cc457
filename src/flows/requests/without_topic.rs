//! A job without a Topic proposes a text for a Source, which need not exist yet: a Topic on the
//! whole Source is opened with the proposal, and the job belongs to it from then on.

use rusqlite::Connection;
use serde::Deserialize;
use serde_json::json;

use crate::api::proposals::Inserted;
use crate::api::proposals::{Proposal, ProposalStatus};
use crate::api::topics::{Topic, TopicStatus};
use crate::base::limit::{SOURCE_BYTES_MAX, TITLE_BYTES_MAX};
use crate::base::{
    Actor, BlobId, Error, ErrorKind, Ids, JobId, ProposalId, Result, SourcePath, TopicId,
    truncate_chars,
};
use crate::documents::proposals::proposal::lineage;
use crate::documents::proposals::proposal::{self, NewProposal};
use crate::documents::topics::topic::{self, NewTopic};
use crate::flows::Site;
use crate::flows::proposals::fates;
use crate::flows::proposals::submit::{
    AgentAnchor, ProposalRequest, judge_others, refuse_text, require_own_base, reworked,
};
use crate::flows::repository::renames;
use crate::jobs::{self, Grant, Job, NewJob, Status, Verb};
use crate::people::Caller;
use crate::store::{Tx, idempotency};

/// The grants for the Topic that the job opens.
const TOPIC_VERBS: [Verb; 2] = [Verb::Read, Verb::Message];

/// The body of `POST /api/proposals`.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "FoundProposalRequest"))]
#[serde(deny_unknown_fields)]
pub struct FoundRequest {
    /// The Source that the job was started for.
    pub source_path: SourcePath,
    /// The version that was edited: the job's own base; all zeros for a new Source.
    pub base_source_sha: BlobId,
    /// The complete new text.
    pub text: String,
    /// The title of the Topic.
    #[serde(default)]
    pub title: Option<String>,
    /// One sentence about the change.
    #[serde(default)]
    pub summary: Option<String>,
    /// Where the agent put the Topics of the Source; each is verified.
    #[serde(default)]
    pub anchors: Vec<AgentAnchor>,
}

/// Stores a proposal of a running job without a Topic. A second one of the same job goes to the
/// same Topic.
///
/// # Errors
/// As `POST /api/topics/{id}/proposals`; `conflict` with code `too_many_topics`.
pub async fn propose(
    site: &Site,
    caller: &Caller,
    request: FoundRequest,
    key: Option<idempotency::Key>,
) -> Result<Inserted> {
    let (job_id, token) = caller.job()?;
    let asked = job_id.clone();
    let (job, rework) = site
        .store
        .read(move |c| {
            Ok((jobs::find(c, &jobs::Viewer::Program, &asked)?, lineage::rework_of_job(c, &asked)?))
        })
        .await?;
    let granted = request.source_path.clone();
    job.require_source(&granted, Verb::Propose)?;
    let (begun, asked) = (job.clone(), granted.clone());
    let path = site.store.read(move |c| renames::since_start(c, &begun, &asked)).await?;
    require_own_base(site, &job, &path, &request.base_source_sha).await?;
    refuse_text(&request.text)?;
    refuse_title(request.title.as_deref())?;
    let base = site.repo.read_blob(&request.base_source_sha, SOURCE_BYTES_MAX).await?;
    let base = String::from_utf8(base)
        .map_err(|_| Error::invalid("the base is not UTF-8").code("not_text"))?;
    let proposed = site.repo.hash_text(&request.text).await?;
    // The Topic is opened below; all Topics that are open now are others.
    let (opened, none) = (opening(site, &job, &request, &path), site.ids.mint::<TopicId>());
    let sent = ProposalRequest {
        base_source_sha: request.base_source_sha,
        text: request.text,
        summary: request.summary,
        anchors: request.anchors,
    };
    let settled = job.topic_id.as_ref().unwrap_or(&none);
    let of = (&path, std::slice::from_ref(settled));
    let judged = judge_others(site, caller, &sent, of, base, &proposed).await?;
    let (ids, token, placements) = (site.ids.clone(), token.to_owned(), judged.placements);
    let origin = rework.map(reworked);
    let made = site
        .store
        .write(move |tx| {
            let job = jobs::fence(tx, &token)?;
            job.require_source(&granted, Verb::Propose)?;
            if let Some(key) = &key
                && let Some(kept) = idempotency::find(tx.connection(), key)?
            {
                let id: ProposalId = kept["id"].as_str().unwrap_or_default().parse()?;
                return proposal::find(tx.connection(), &id);
            }
            let new = NewProposal {
                topic_id: open_topic(tx, &ids, &job, &opened)?,
                job_id: Some(job.id.clone()),
                proposed_by: None,
                source_path: path.clone(),
                base_source_sha: sent.base_source_sha.clone(),
                proposed_sha: proposed.clone(),
                text: sent.text.clone(),
                summary: sent.summary.clone(),
            };
            let made = proposal::insert_with(tx, &ids, new, &[], origin.as_ref())?;
            fates::keep(tx, &made.proposed_sha, &placements)?;
            if let Some(key) = &key {
                idempotency::remember(tx, key, &json!({"id": made.id}))?;
            }
            Ok(made)
        })
        .await?;
    Ok(Inserted::of(made, judged.fate))
}

fn refuse_title(title: Option<&str>) -> Result<()> {
    match title {
        Some(title) if title.len() > TITLE_BYTES_MAX => {
            let message = format!("the title has more than {TITLE_BYTES_MAX} bytes");
            Err(Error::new(ErrorKind::TooLarge, message).hint("make it shorter"))
        }
        _ => Ok(()),
    }
}

/// Returns the Topic for the proposal; its first message is the agent's summary.
fn opening(site: &Site, job: &Job, request: &FoundRequest, path: &SourcePath) -> NewTopic {
    let config = site.config_of(&job.id);
    let kind = config.kinds.get(&job.kind);
    let about = kind.map_or(job.kind.as_str(), |it| it.about.as_str());
    let what = if request.base_source_sha.is_absent() { "A new document" } else { "A new text" };
    let said = request.summary.clone().filter(|it| !it.trim().is_empty());
    NewTopic {
        source_path: path.clone(),
        is_global: true,
        title: request.title.clone(),
        body: said.unwrap_or_else(|| truncate_chars(&format!("{what}: {about}"), 400)),
        author: Actor::Job(job.id.clone()),
        anchor: None,
    }
}

/// Returns the Topic that the job opened, or opens it.
fn open_topic(tx: &Tx<'_>, ids: &Ids, job: &Job, opened: &NewTopic) -> Result<TopicId> {
    if let Some(topic) = &job.topic_id {
        return Ok(topic.clone());
    }
    let topic = topic::create(tx, ids, opened.clone())?;
    jobs::keep_topic(tx, job, &topic.id, &TOPIC_VERBS)?;
    Ok(topic.id)
}

/// Gives a retried job the Topic of the earlier one, if the Topic is open or was closed because
/// that job failed.
///
/// # Errors
/// As any read.
pub(in crate::flows) fn inherit(c: &Connection, old: &Job, new: &mut NewJob) -> Result<()> {
    let Some(id) = old.topic_id.as_ref().filter(|_| new.topic_id.is_none()) else { return Ok(()) };
    let topic = topic::find(c, id, None)?;
    if topic.status == TopicStatus::Open || was_closed_with(&topic, old) {
        new.topic_id = Some(id.clone());
        new.grants.push(Grant::topic(id, &TOPIC_VERBS));
    }
    Ok(())
}

/// A Topic is closed in the transaction that settles the job that opened it.
fn was_closed_with(topic: &Topic, job: &Job) -> bool {
    topic.status == TopicStatus::Discarded
        && job.status != Status::Succeeded
        && topic.closed_at.is_some()
        && topic.closed_at == job.completed_at
}

/// Reopens the Topic that a retried job takes over.
///
/// # Errors
/// As any write.
pub(in crate::flows) fn reopen(tx: &Tx<'_>, old: &JobId, new: &NewJob) -> Result<()> {
    let Some(id) = &new.topic_id else { return Ok(()) };
    let topic = topic::find(tx.connection(), id, None)?;
    if was_closed_with(&topic, &jobs::find_brief(tx.connection(), &jobs::Viewer::Program, old)?) {
        let by = &new.requested_by;
        topic::set_status(tx, id, TopicStatus::Discarded, TopicStatus::Open, by)?;
    }
    Ok(())
}

/// Returns the grants of a job at its start, with one for the Topic that it takes over.
pub(in crate::flows) fn with_own_topic(job: &Job, mut grants: Vec<Grant>) -> Vec<Grant> {
    if let Some(id) = &job.topic_id {
        let own = Grant::topic(id, &TOPIC_VERBS);
        if !grants.iter().any(|it| it.subject() == own.subject()) {
            grants.push(own);
        }
    }
    grants
}

/// Closes the Topic of a job that failed, if nothing else is in it.
///
/// # Errors
/// As any write.
pub fn settle_job(tx: &Tx<'_>, job: &Job, succeeded: bool) -> Result<()> {
    let Some(id) = job.topic_id.as_ref().filter(|_| !succeeded) else { return Ok(()) };
    close_if_bare(tx, &topic::find(tx.connection(), id, None)?)
}

/// Closes a Topic that a job opened, if nothing else is in it.
///
/// # Errors
/// As any write.
pub(in crate::flows) fn close_if_bare(tx: &Tx<'_>, topic: &Topic) -> Result<()> {
    let id = &topic.id;
    // A retry takes over the Topic of the first job.
    let is_own = matches!(topic.created_by, Actor::Job(_)) && topic.message_count == 1;
    let is_void =
        |it: &Proposal| matches!(it.status, ProposalStatus::Void | ProposalStatus::Superseded);
    if is_own
        && topic.status == TopicStatus::Open
        && proposal::of_topic(tx.connection(), id)?.iter().all(is_void)
    {
        topic::set_status(tx, id, TopicStatus::Open, TopicStatus::Discarded, &Actor::System)?;
    }
    Ok(())
}
