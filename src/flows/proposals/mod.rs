//! Proposals for reviewers, and rejection.

pub mod apply;
pub mod approve;
pub mod edit;
pub(in crate::flows) mod fates;
pub mod rebase;
pub mod revised;
pub mod rework;
pub mod submit;
pub mod suggestions;
pub mod unfinished;

use rusqlite::Connection;
use serde::Deserialize;

use crate::api::proposals::{Approvable, Base, FailedRework, ProposalPage, Rejected, Revision};
use crate::api::proposals::{Fate, How, Proposal, ProposalStatus, Standing};
use crate::api::topics::{Topic, TopicStatus};
use crate::base::limit::SOURCE_BYTES_MAX;
use crate::base::{Actor, Error, JobId, Page, ProposalId, Result, SourcePath, TopicId};
use crate::documents;
use crate::documents::proposals::proposal::{self, ProposalFilter};
use crate::documents::proposals::proposal::{STALE_BASE, lineage};
use crate::documents::sources::headings::Outline;
use crate::documents::sources::plain::Plain;
use crate::documents::topics::placement;
use crate::documents::topics::{message, topic};
use crate::documents::{SOURCE_EXISTS, commit};
use crate::flows::jobs::{cancel_obsolete, changes};
use crate::flows::people::shown_names;
use crate::flows::proposals::fates::Judge;
use crate::flows::{Site, page_limit};
use crate::jobs::{self, Job, Status};
use crate::people::Caller;
use crate::script::Config;
use crate::store::Tx;

/// The query of `GET /api/proposals`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProposalQuery {
    /// `open`, `superseded`, `approved`, `rejected`, `stale` or `void`.
    pub status: Option<String>,
    /// Only for this Source.
    pub source_path: Option<SourcePath>,
    /// Only of this Topic.
    pub topic_id: Option<TopicId>,
    /// The `next` of the previous page.
    pub after: Option<ProposalId>,
    /// Rows per page.
    pub limit: Option<u32>,
}

/// Returns proposals without their texts, newest first.
///
/// # Errors
/// `invalid` for a status that is none.
pub async fn list(site: &Site, caller: &Caller, query: ProposalQuery) -> Result<Page<Proposal>> {
    caller.person()?;
    let filter = ProposalFilter {
        status: query.status.as_deref().map(str::parse).transpose()?,
        source_path: query.source_path,
        topic_id: query.topic_id,
        after: query.after,
        limit: page_limit(query.limit)?,
    };
    site.store
        .read(move |c| {
            let Page { items, next } = proposal::list(c, &filter)?;
            let items = items.into_iter().map(|it| shown_names::fill_proposal(c, it));
            Ok(Page { items: items.collect::<Result<_>>()?, next })
        })
        .await
}

/// The facts behind a decision, read at one moment.
pub(super) struct Dossier {
    pub(super) proposal: Proposal,
    pub(super) text: String,
    pub(super) topic: Topic,
    /// The further Topics that it settles.
    pub(super) further: Vec<Topic>,
    pub(super) job: Option<Job>,
    /// What it is called.
    pub(super) title: String,
    /// The default subject of its commit.
    pub(super) subject: String,
    /// Who edited it, for a trailer.
    pub(super) editors: Vec<String>,
    /// The people whose words the engine without a model has put into it, as trailers name them.
    pub(super) suggesters: Vec<String>,
    /// Whether its job applies suggestions, without a model.
    pub(super) is_applied: bool,
    pub(super) conflict: Option<Standing>,
    /// The job that revises it.
    pub(super) rework: Option<JobId>,
    pub(super) failed_rework: Option<FailedRework>,
}

pub(super) async fn dossier(site: &Site, id: &ProposalId) -> Result<Dossier> {
    let (id, config) = (id.clone(), site.config.clone());
    site.store.read(move |c| read_dossier(c, &config, &id)).await
}

fn read_dossier(c: &Connection, config: &Config, id: &ProposalId) -> Result<Dossier> {
    let proposal = shown_names::fill_proposal(c, proposal::find(c, id)?)?;
    let mut topics = Vec::with_capacity(proposal.topic_ids.len());
    for topic in &proposal.topic_ids {
        topics.push(shown_names::fill_topic(c, topic::find(c, topic, None)?)?);
    }
    let job = proposal
        .job_id
        .as_ref()
        .map(|job| jobs::find(c, &jobs::Viewer::Program, job))
        .transpose()?;
    let text = proposal::text(c, id)?;
    let kind = job.as_ref().and_then(|it| config.kinds.get(&it.kind));
    let is_applied = kind.is_some_and(|it| suggestions::applies(config, it));
    let editors = lineage::editors(c, id, is_applied)?;
    let suggesters = if is_applied { suggestions::suggesters(c, &proposal)? } else { Vec::new() };
    let topic = topics.remove(0);
    Ok(Dossier {
        title: title(c, config, &proposal, &topic.title)?,
        subject: subject(c, &proposal, &text)?,
        text,
        topic,
        further: topics,
        job,
        editors: editors.iter().map(|it| shown_names::trailer(c, it)).collect::<Result<_>>()?,
        suggesters: suggesters
            .iter()
            .map(|it| shown_names::trailer(c, it))
            .collect::<Result<_>>()?,
        is_applied,
        conflict: lineage::conflict(c, id)?.filter(|_| proposal.status == ProposalStatus::Open),
        rework: rework::running(c, id)?,
        failed_rework: rework::failed(c, &proposal)?,
        proposal,
    })
}

/// Returns the default subject of a proposal's commit: the first line of the agent's or editor's
/// summary, even after a rebase; otherwise that the document was updated. An agent's summary is not
/// used for a text that a person edited.
fn subject(c: &Connection, proposal: &Proposal, text: &str) -> Result<String> {
    Ok(said(c, proposal)?.unwrap_or_else(|| {
        let outline = Outline::of(text);
        let title = outline.headings().iter().find(|it| it.level == 1);
        let title = title.map_or(proposal.source_path.as_str(), |it| it.text.as_str());
        format!("Update {title}")
    }))
}

/// Returns what a proposal is called: as its Topic. That of a suggestion names the words that were
/// suggested first; its revisions name their own.
///
/// # Errors
/// As any read.
pub fn title(c: &Connection, config: &Config, it: &Proposal, topic: &str) -> Result<String> {
    let Some(job) = &it.job_id else { return Ok(topic.to_owned()) };
    let job = jobs::find_brief(c, &jobs::Viewer::Program, job)?;
    let is_applied =
        config.kinds.get(&job.kind).is_some_and(|kind| suggestions::applies(config, kind));
    let said = if is_applied { said(c, it)? } else { None };
    Ok(said.unwrap_or_else(|| topic.to_owned()))
}

/// Returns the first line of what was said of a proposal's change.
fn said(c: &Connection, proposal: &Proposal) -> Result<Option<String>> {
    let mut said = proposal.clone();
    while let Some(origin) = said.origin.as_ref().filter(|it| it.how == How::Merged) {
        said = proposal::find(c, &origin.from_id)?;
    }
    let is_edited = said.origin.as_ref().is_some_and(|it| it.how == How::Edited);
    let summary = said.summary.unwrap_or_default();
    let summary = if is_edited && edit::is_made(&summary) { "" } else { summary.as_str() };
    let line = summary.lines().map(str::trim).find(|it| !it.is_empty());
    Ok(line.map(|line| Plain::of(line).text.trim().to_owned()).filter(|it| !it.is_empty()))
}

/// The query of `GET /api/proposals/{id}`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProposalAgainst {
    /// The diff is against this revision: its number, or the id of a proposal for the same Source.
    pub against: Option<String>,
}

/// Returns a proposal: text, base, diff, the fate of every other open Topic, and what prevents
/// approval. A change of the Source that was not noticed before is noticed here.
///
/// # Errors
/// `not_found`; `forbidden` for jobs; `invalid` for a revision that is none.
pub async fn show(
    site: &Site,
    caller: &Caller,
    id: &ProposalId,
    query: ProposalAgainst,
) -> Result<ProposalPage> {
    caller.person()?;
    let mut dossier = dossier(site, id).await?;
    if dossier.proposal.status == ProposalStatus::Open {
        // The current path of the Topic's Source, which may have been renamed.
        rebase::look_after(site, &dossier.topic.source_path).await;
        dossier = self::dossier(site, id).await?;
    }
    let path = dossier.proposal.source_path.clone();
    let base_sha = &dossier.proposal.base_source_sha;
    let base = site.repo.read_blob(base_sha, SOURCE_BYTES_MAX).await?;
    let base = String::from_utf8(base).map_err(|_| Error::internal("the base is not UTF-8"))?;
    let source = site.repo.source(&path).await.ok();
    let obstacle = obstacle(site, &dossier).await.err();
    let fate = fates(site, &dossier, &base).await?;
    let head_blob = source.as_ref().and_then(|it| it.head_blob.clone());
    let (asked, against) = (dossier.proposal.clone(), query.against);
    let (revisions, note, earlier) = site
        .store
        .read(move |c| {
            let all = proposal::of_topic(c, &asked.topic_id)?.into_iter().map(revision).collect();
            let earlier = against.map(|it| find_earlier(c, &asked, &it)).transpose()?;
            Ok((all, documents::proposals::attempt::note(c, &asked.id)?, earlier))
        })
        .await?;
    let (against, before) = earlier.map_or((None, None), |(it, text)| (Some(it), Some(text)));
    Ok(ProposalPage {
        diff: {
            let is_new = before.is_none() && base_sha.is_absent();
            let old = before.as_ref().unwrap_or(&base);
            documents::unified((!is_new).then_some(old), &dossier.text, path.as_str())
        },
        fate,
        base: Base {
            is_current: match base_sha.is_absent() {
                true => source.is_none(),
                false => head_blob.as_ref() == Some(base_sha),
            },
            head_blob,
            state: source.map(|it| it.state),
        },
        approvable: Approvable {
            ok: obstacle.is_none(),
            code: obstacle.as_ref().map(|it| it.code_str().to_owned()),
            message: obstacle.as_ref().map(|it| it.message().to_owned()),
            hint: obstacle.as_ref().and_then(|it| it.hint_str().map(str::to_owned)),
        },
        base_text: base,
        against,
        revisions,
        text: dossier.text,
        topic: dossier.topic,
        further_topics: dossier.further,
        conflict: dossier.conflict,
        rework_job_id: dossier.rework,
        failed_rework: dossier.failed_rework,
        subject: commit::made_subject(&dossier.subject),
        editors: dossier.editors,
        suggesters: dossier.suggesters,
        title: dossier.title,
        note,
        proposal: dossier.proposal,
    })
}

fn revision(it: Proposal) -> Revision {
    Revision { id: it.id, revision_number: it.revision_number, status: it.status }
}

/// Finds the revision that a proposal is compared with, and its text.
fn find_earlier(c: &Connection, it: &Proposal, named: &str) -> Result<(Revision, String)> {
    let found = match named.parse::<i64>() {
        Ok(number) => {
            let mut all = proposal::of_topic(c, &it.topic_id)?.into_iter();
            all.find(|it| it.revision_number == number).ok_or_else(|| {
                Error::not_found(format!("topic {} has no revision {number}", it.topic_id))
            })?
        }
        Err(_) => proposal::find(c, &named.parse()?)?,
    };
    if found.source_path != it.source_path {
        let message = format!("proposal {} is for {}", found.id, found.source_path);
        return Err(Error::invalid(message)
            .code("bad_parameter")
            .hint("compare two proposals for one source"));
    }
    let text = proposal::text(c, &found.id)?;
    Ok((revision(found), text))
}

async fn fates(site: &Site, dossier: &Dossier, base: &str) -> Result<Vec<Fate>> {
    let proposal = &dossier.proposal;
    let path = &proposal.source_path;
    let old = (proposal.base_source_sha.clone(), base.to_owned());
    let new = (proposal.proposed_sha.clone(), dossier.text.clone());
    let mut judge = Judge::of(site, path, &proposal.topic_ids, old, new).await?;
    let (version, open) =
        (proposal.proposed_sha.clone(), judge.open.iter().map(|it| it.id.clone()));
    let open: Vec<TopicId> = open.collect();
    judge.by_agent = site
        .store
        .read(move |c| {
            let mut by_agent = std::collections::BTreeMap::new();
            for id in open {
                let found = placement::find(c, &id, &version)?;
                if let Some(found) = found.filter(|it| it.decided_by != Actor::System) {
                    by_agent.insert(id, found);
                }
            }
            Ok(by_agent)
        })
        .await?;
    Ok(judge.judge().await?.fate)
}

/// Refuses what cannot be approved now, with the reason that an approval would get.
pub(super) async fn obstacle(site: &Site, dossier: &Dossier) -> Result<()> {
    undecidable(dossier)?;
    let it = &dossier.proposal;
    let id = it.id.clone();
    let now = async {
        site.store.read(move |c| proposal::refuse_unfinished(c, &id)).await?;
        changes::refuse_switched(site).await?;
        commit::obstacle(&site.repo, &it.source_path, &it.base_source_sha, &it.proposed_sha).await
    };
    match now.await {
        Ok(()) => Ok(()),
        Err(refusal) => {
            let refusal = with_conflict(dossier, refusal);
            Err(changes::explain(site, Some(&it.source_path), refusal).await)
        }
    }
}

/// Explains why a stale proposal was not rebased, and what can be done.
pub(super) fn with_conflict(dossier: &Dossier, refusal: Error) -> Error {
    if refusal.code_str() == SOURCE_EXISTS {
        return refusal.hint(
            "if git tracks it, request changes; the agent will start from the current file; \
             otherwise move it away, or reject the proposal",
        );
    }
    let (Some(conflict), STALE_BASE) = (&dossier.conflict, refusal.code_str()) else {
        return refusal;
    };
    let count = conflict.conflicts.count;
    let conflicts = if count == 1 { "conflict" } else { "conflicts" };
    let message = format!("{}; {count} {conflicts}", refusal.message());
    Error::conflict(STALE_BASE, message).hint(match dossier.is_applied {
        true => "request changes with the text that the passage should have now",
        false => "request changes; the agent will merge both",
    })
}

/// Refuses what cannot be approved according to its rows, whatever the repository's state.
pub(super) fn undecidable(dossier: &Dossier) -> Result<()> {
    if dossier.proposal.status != ProposalStatus::Open {
        return Err(proposal::refusal(&dossier.proposal));
    }
    if let Some(job) = &dossier.job {
        match job.status {
            Status::Succeeded => {}
            Status::Queued | Status::Running | Status::Parked => {
                let message = format!("job {} has not ended yet", job.id);
                return Err(Error::conflict("job_running", message).hint("wait until it ends"));
            }
            status => {
                let message = format!("job {} ended {status}; its proposal does not count", job.id);
                return Err(Error::conflict("job_failed", message).hint("retry the job"));
            }
        }
    }
    let topics = std::iter::once(&dossier.topic).chain(&dossier.further);
    if let Some(closed) = topics.into_iter().find(|it| it.status != TopicStatus::Open) {
        let message = format!("topic {} is closed", closed.id);
        return Err(Error::conflict("topic_closed", message).hint("reopen it first"));
    }
    match &dossier.rework {
        None => Ok(()),
        Some(job) => Err(rework::refusal(&dossier.proposal.id, job)),
    }
}

pub(super) fn stale(proposal: &Proposal) -> Error {
    let message = format!("{} has changed since the proposal was made", proposal.source_path);
    Error::conflict(STALE_BASE, message)
        .hint("review it again: it may have a newer revision; otherwise request changes")
}

/// The body of `POST /api/proposals/{id}/reject`.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RejectRequest {
    /// The reason; becomes a message of its Topics.
    pub reason: String,
}

/// Adds the reason of a rejection to the threads that requested the change. Closed or full threads
/// get no message; the reason is stored with the proposal in any case.
fn tell(tx: &Tx<'_>, site: &Site, it: &Proposal, reason: &str, by: &Actor) -> Result<()> {
    for topic in &it.topic_ids {
        let about = (*topic == it.topic_id).then_some(&it.id);
        match message::post(tx, &site.ids, topic, by, &message::plain_lines(reason), about) {
            Err(cause)
                if !matches!(
                    cause.code_str(),
                    "topic_closed" | "too_many_messages" | "topic_full"
                ) =>
            {
                return Err(cause);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Rejects a proposal. Its Topic stays open; a requested rework is cancelled.
///
/// # Errors
/// `conflict` with codes `already_decided` and `superseded`; `forbidden` for viewers and jobs.
pub async fn reject(
    site: &Site,
    caller: &Caller,
    id: &ProposalId,
    request: RejectRequest,
) -> Result<Rejected> {
    let actor = Actor::Person(caller.may_decide()?.id.clone());
    let (works, id) = (site.clone(), id.clone());
    site.store
        .write(move |tx| {
            proposal::reject(tx, &id, &actor, &request.reason)?;
            let cancelled_job_id = cancel_obsolete::of_proposal(tx, &works, &id, &actor)?;
            let proposal = proposal::find(tx.connection(), &id)?;
            tell(tx, &works, &proposal, &request.reason, &actor)?;
            let proposal = shown_names::fill_proposal(tx.connection(), proposal)?;
            Ok(Rejected { proposal, cancelled_job_id })
        })
        .await
}
