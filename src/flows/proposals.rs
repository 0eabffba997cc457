//! Proposals as a reviewer sees them, and the decision against one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::base::limit::SOURCE_BYTES_MAX;
use crate::base::{Actor, BlobId, Error, ProposalId, Result, SourcePath, TopicId};
use crate::documents::commit;
use crate::documents::fate::Version;
use crate::documents::placement;
use crate::documents::proposal::{self, ProposalFilter};
use crate::documents::{
    self, Fate, Placement, Proposal, ProposalStatus, SourceState, Topic, TopicStatus, fate, topic,
};
use crate::flows::{Site, changes, names, page_limit, place};
use crate::jobs::{self, Job, Status};
use crate::people::Caller;

/// The query of `GET /api/proposals`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProposalQuery {
    /// `open`, `superseded`, `approved`, `rejected`, `stale` or `void`.
    pub status: Option<String>,
    /// Only for this Source.
    pub source_path: Option<SourcePath>,
    /// Only of this Topic.
    pub topic_id: Option<TopicId>,
    /// The `next` of the page before.
    pub after: Option<ProposalId>,
    /// Rows of a page.
    pub limit: Option<u32>,
}

/// Returns proposals without their texts, newest first, as `{items, next}`.
///
/// # Errors
/// `invalid` for a status that is none.
pub async fn list(site: &Site, caller: &Caller, query: ProposalQuery) -> Result<Value> {
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
            let page = proposal::list(c, &filter)?;
            let items: Vec<Proposal> = page
                .items
                .into_iter()
                .map(|it| names::fill_proposal(c, it))
                .collect::<Result<_>>()?;
            Ok(json!({"items": items, "next": page.next}))
        })
        .await
}

/// What stands behind a decision: read once, so that all of it is of one moment.
pub(super) struct Dossier {
    pub(super) proposal: Proposal,
    pub(super) text: String,
    pub(super) topic: Topic,
    pub(super) job: Option<Job>,
}

pub(super) async fn dossier(site: &Site, id: &ProposalId) -> Result<Dossier> {
    let id = id.clone();
    site.store
        .read(move |c| {
            let proposal = names::fill_proposal(c, proposal::find(c, &id)?)?;
            let topic = names::fill_topic(c, topic::find(c, &proposal.topic_id, None)?)?;
            let job = proposal.job_id.as_ref().map(|job| jobs::find(c, job)).transpose()?;
            Ok(Dossier { text: proposal::text(c, &id)?, topic, job, proposal })
        })
        .await
}

/// A proposal with all that a reviewer needs.
#[derive(Serialize)]
pub struct ProposalPage {
    proposal: Proposal,
    topic: Topic,
    text: String,
    base_text: String,
    diff: String,
    fate: Vec<Fate>,
    base: Base,
    approvable: Approvable,
}

#[derive(Serialize)]
struct Base {
    is_current: bool,
    head_blob: Option<BlobId>,
    state: Option<SourceState>,
}

/// Whether it could be approved now, and if not, what `POST …/approve` would say.
#[derive(Serialize)]
struct Approvable {
    ok: bool,
    code: Option<String>,
    message: Option<String>,
    hint: Option<String>,
}

/// Returns a proposal: text, base, diff, the fate of every other open Topic, and what is in the
/// way.
///
/// # Errors
/// `not_found`; `forbidden` for jobs.
pub async fn show(site: &Site, caller: &Caller, id: &ProposalId) -> Result<ProposalPage> {
    caller.person()?;
    let dossier = dossier(site, id).await?;
    let base_sha = &dossier.proposal.base_source_sha;
    let base = site.repo.read_blob(base_sha, SOURCE_BYTES_MAX).await?;
    let base = String::from_utf8(base).map_err(|_| Error::internal("the base is not UTF-8"))?;
    let path = dossier.proposal.source_path.clone();
    let source = site.repo.source(&path).await.ok();
    let obstacle = obstacle(site, &dossier).await.err();
    let fate = fates(site, &dossier, &base).await?;
    let head_blob = source.as_ref().and_then(|it| it.head_blob.clone());
    Ok(ProposalPage {
        diff: documents::unified(&base, &dossier.text, path.as_str()),
        fate,
        base: Base {
            is_current: head_blob.as_ref() == Some(base_sha),
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
        text: dossier.text,
        topic: dossier.topic,
        proposal: dossier.proposal,
    })
}

async fn fates(site: &Site, dossier: &Dossier, base: &str) -> Result<Vec<Fate>> {
    let proposal = &dossier.proposal;
    let path = &proposal.source_path;
    let before = place::in_text(site, path, &proposal.base_source_sha, base).await?;
    let (asked, version) = (path.clone(), proposal.proposed_sha.clone());
    let (mut open, by_agent) = site
        .store
        .read(move |c| {
            let open = topic::list_open_of(c, &asked, None)?;
            let mut by_agent = BTreeMap::new();
            for topic in &open {
                let found = placement::find(c, &topic.id, &version)?;
                if let Some(found) = found.filter(|it| it.decided_by != Actor::System) {
                    by_agent.insert(topic.id.clone(), found);
                }
            }
            Ok((open, by_agent))
        })
        .await?;
    for topic in &mut open {
        topic.placement = before.get(&topic.id).cloned();
    }
    let judge = Judge {
        open,
        settled: proposal.topic_id.clone(),
        base: (proposal.base_source_sha.clone(), base.to_owned()),
        proposed: (proposal.proposed_sha.clone(), dossier.text.clone()),
        // Where an agent said where a Topic went, that was verified when it was handed in.
        by_agent,
    };
    judge.fates().await
}

/// What the fate of Topics is judged from.
pub(super) struct Judge {
    pub(super) open: Vec<Topic>,
    pub(super) settled: TopicId,
    pub(super) base: (BlobId, String),
    pub(super) proposed: (BlobId, String),
    pub(super) by_agent: BTreeMap<TopicId, Placement>,
}

impl Judge {
    pub(super) async fn fates(self) -> Result<Vec<Fate>> {
        let judged = tokio::task::spawn_blocking(move || {
            let base = Version { blob: &self.base.0, text: &self.base.1 };
            let proposed = Version { blob: &self.proposed.0, text: &self.proposed.1 };
            let mut fates = fate::fates(&self.open, &self.settled, base, proposed);
            for fate in &mut fates {
                if let Some(placement) = self.by_agent.get(&fate.topic_id) {
                    fate.after = Some(placement.clone());
                }
            }
            fates
        });
        judged.await.map_err(|cause| Error::internal("placing panicked").source(cause))
    }
}

/// Refuses what cannot be approved now, with the reason: what the approval itself would say.
pub(super) async fn obstacle(site: &Site, dossier: &Dossier) -> Result<()> {
    undecidable(dossier)?;
    let it = &dossier.proposal;
    let now = async {
        changes::refuse_switched(site).await?;
        commit::obstacle(&site.repo, &it.source_path, &it.base_source_sha, &it.proposed_sha).await
    };
    match now.await {
        Ok(()) => Ok(()),
        Err(refusal) => Err(changes::explain(site, Some(&it.source_path), refusal).await),
    }
}

/// Refuses what its rows say cannot be approved, whatever the repository says.
pub(super) fn undecidable(dossier: &Dossier) -> Result<()> {
    decidable(dossier)?;
    if let Some(job) = &dossier.job {
        match job.status {
            Status::Succeeded => {}
            Status::Queued | Status::Running => {
                let message = format!("job {} has not ended yet", job.id);
                return Err(Error::conflict("job_running", message).hint("wait for its end"));
            }
            status => {
                let message = format!("job {} ended {status}; its proposal does not count", job.id);
                return Err(Error::conflict("job_failed", message).hint("retry the job"));
            }
        }
    }
    if dossier.topic.status != TopicStatus::Open {
        let message = format!("topic {} is closed", dossier.topic.id);
        return Err(Error::conflict("topic_closed", message).hint("reopen it first"));
    }
    Ok(())
}

pub(super) fn stale(proposal: &Proposal) -> Error {
    let message = format!("{} has changed since the proposal was made", proposal.source_path);
    Error::conflict("stale_base", message).hint("ask for a new proposal: retry the job")
}

fn decidable(dossier: &Dossier) -> Result<()> {
    let proposal = &dossier.proposal;
    let id = &proposal.id;
    match proposal.status {
        ProposalStatus::Open => Ok(()),
        ProposalStatus::Superseded => {
            let message = format!("proposal {id} was superseded by a later revision");
            Err(Error::conflict("superseded", message).hint("look at the topic's newest proposal"))
        }
        ProposalStatus::Stale => Err(stale(proposal)),
        ProposalStatus::Void => {
            let message = format!("proposal {id} is void: its job did not succeed");
            Err(Error::conflict("job_failed", message).hint("retry the job"))
        }
        status => {
            let message = format!("proposal {id} is {} already", status.as_str());
            Err(Error::conflict("already_decided", message)
                .hint("wiki-browser proposal show says by whom"))
        }
    }
}

/// The body of `POST /api/proposals/{id}/reject`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RejectRequest {
    /// Why; shown with the proposal.
    pub reason: String,
}

/// Rejects a proposal. Its Topic stays open.
///
/// # Errors
/// `conflict` with codes `already_decided` and `superseded`; `forbidden` for viewers and jobs.
pub async fn reject(
    site: &Site,
    caller: &Caller,
    id: &ProposalId,
    request: RejectRequest,
) -> Result<Proposal> {
    let actor = Actor::Person(caller.may_decide()?.id.clone());
    let id = id.clone();
    site.store
        .write(move |tx| {
            proposal::reject(tx, &id, &actor, &request.reason)?;
            names::fill_proposal(tx.connection(), proposal::find(tx.connection(), &id)?)
        })
        .await
}
