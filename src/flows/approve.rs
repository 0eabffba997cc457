//! Approve → commit: what the approver saw, on the base that they saw, as one commit.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tracing::info;

use crate::base::{Actor, BlobId, Error, Event, EventKind, ProposalId, Result, fault};
use crate::documents::commit::{self, Approval, Check, Person, Settle, Settled};
use crate::documents::placement;
use crate::documents::proposal::{self, ProposalFilter};
use crate::documents::{Placed, Proposal, ProposalStatus, TopicStatus, topic};
use crate::flows::proposals::{Dossier, dossier, stale, undecidable};
use crate::flows::{Site, Works, changes, names};
use crate::people::Caller;
use crate::store::Tx;

/// The body of `POST /api/proposals/{id}/approve`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApproveRequest {
    /// SHA-256 of the text that the approver saw.
    pub text_digest: String,
    /// The base that they saw it against.
    pub base_source_sha: BlobId,
    /// Subject of the commit; else `Incorporate: ` and the Topic's first line.
    #[serde(default)]
    pub subject: Option<String>,
    /// Body of the commit.
    #[serde(default)]
    pub body: Option<String>,
}

/// What an approval came to.
#[derive(Serialize)]
pub struct Approved {
    commit: BlobId,
    branch: String,
    already_committed: bool,
    proposal: Proposal,
}

/// Approves a proposal and commits it.
///
/// # Errors
/// `conflict` with one of the codes in docs/http.md; nothing is changed then.
pub async fn approve(
    site: &Site,
    caller: &Caller,
    id: &ProposalId,
    request: ApproveRequest,
) -> Result<Approved> {
    let approver = Actor::Person(caller.may_decide()?.id.clone());
    let dossier = dossier(site, id).await?;
    let is_blind = fault::is_off("approval_digest");
    if !is_blind && request.text_digest != dossier.proposal.text_digest {
        return Err(Error::conflict("text_changed", format!("proposal {id} has another text"))
            .hint("look at it again, then approve what you see"));
    }
    if request.base_source_sha != dossier.proposal.base_source_sha {
        return Err(stale(&dossier.proposal));
    }
    undecidable(&dossier)?;
    let approval = approval(site, &dossier, &approver, &request).await?;
    let digest = if is_blind { dossier.proposal.text_digest.clone() } else { request.text_digest };
    let check = still_open(id.clone(), digest);
    let done = async {
        changes::refuse_switched(site).await?;
        commit::commit(&site.repo, &site.store, approval, check, settle()).await
    };
    let done = match done.await {
        Ok(done) => done,
        Err(refusal) => {
            let path = &dossier.proposal.source_path;
            return Err(changes::explain(site, Some(path), refusal).await);
        }
    };
    info!(proposal_id = %id, commit = %done.commit, "proposal {id} was committed");
    let asked = id.clone();
    let proposal =
        site.store.read(move |c| names::fill_proposal(c, proposal::find(c, &asked)?)).await?;
    Ok(Approved {
        commit: done.commit,
        branch: done.branch,
        already_committed: done.already,
        proposal,
    })
}

async fn approval(
    site: &Site,
    dossier: &Dossier,
    approver: &Actor,
    request: &ApproveRequest,
) -> Result<Approval> {
    let proposal = &dossier.proposal;
    let by = approver.clone();
    let trailer = site.store.read(move |c| names::trailer(c, &by)).await?;
    let title = dossier.topic.title.as_str();
    let message = commit::commit_message(
        title,
        request.subject.as_deref(),
        request.body.as_deref(),
        &trailer,
        &proposal.topic_id,
    )?;
    let identity = &site.config.identity;
    let author =
        Person { name: identity.author_name.clone(), email: identity.author_email.clone() };
    let committer = Person {
        name: identity.committer_name.clone().unwrap_or_else(|| author.name.clone()),
        email: identity.committer_email.clone().unwrap_or_else(|| author.email.clone()),
    };
    Ok(Approval {
        attempt: site.ids.mint(),
        proposal_id: proposal.id.clone(),
        topic_id: proposal.topic_id.clone(),
        path: proposal.source_path.clone(),
        text: dossier.text.clone(),
        text_digest: proposal.text_digest.clone(),
        base_blob: proposal.base_source_sha.clone(),
        proposed_blob: proposal.proposed_sha.clone(),
        approver: approver.clone(),
        author,
        committer,
        message,
    })
}

/// Runs in the transaction that journals the attempt: nobody decided meanwhile.
fn still_open(id: ProposalId, text_digest: String) -> Check {
    Arc::new(move |tx| {
        let proposal = proposal::find(tx.connection(), &id)?;
        if proposal.status != ProposalStatus::Open {
            let message = format!("proposal {id} is {} already", proposal.status.as_str());
            return Err(Error::conflict("already_decided", message)
                .hint("wiki-browser proposal show says by whom"));
        }
        let topic = topic::find(tx.connection(), &proposal.topic_id, None)?;
        if topic.status != TopicStatus::Open {
            return Err(Error::conflict("topic_closed", format!("topic {} is closed", topic.id)));
        }
        if proposal.text_digest != text_digest {
            return Err(Error::conflict("text_changed", format!("proposal {id} has another text")));
        }
        Ok(())
    })
}

/// What becomes true with the commit, in one transaction; also for a commit that an earlier server
/// made and could not write down.
pub fn settle() -> Settle {
    Arc::new(settle_commit)
}

fn settle_commit(tx: &Tx<'_>, settled: &Settled) -> Result<()> {
    let by = &settled.approver;
    let proposal = proposal::find(tx.connection(), &settled.proposal_id)?;
    proposal::approve(tx, &settled.proposal_id, by, &settled.committed.commit)?;
    topic::set_status(tx, &settled.topic_id, TopicStatus::Open, TopicStatus::Incorporated, by)?;
    let text = proposal::text(tx.connection(), &settled.proposal_id)?;
    let path = &proposal.source_path;
    for open in topic::list_open_of(tx.connection(), path, None)? {
        let placed = placement::find(tx.connection(), &open.id, &proposal.proposed_sha)?;
        // One that was opened after the proposal was handed in is placed when it is next looked at.
        if let Some((placed, range)) = placed.and_then(|it| it.range().map(|range| (it, range))) {
            let again = Placed {
                state: placed.state,
                range: Some(range.clone()),
                confidence: placed.confidence,
                method: "committed",
            };
            placement::put(tx, &open.id, &proposal.proposed_sha, &again, &placed.decided_by)?;
            placement::rebaseline(tx, &open.id, &proposal.proposed_sha, &text, range)?;
        }
    }
    mark_others_stale(tx, &proposal)?;
    let event = Event::new(
        EventKind::SourceChanged,
        format!("source:{path}"),
        by.clone(),
        json!({
            "path": path, "blob": proposal.proposed_sha, "commit": settled.committed.commit,
            "branch": settled.committed.branch, "proposal_id": settled.proposal_id,
        }),
    );
    tx.emit(event.audited())
}

/// What else was proposed for the Source was proposed for a version that is not the newest any
/// more.
fn mark_others_stale(tx: &Tx<'_>, approved: &Proposal) -> Result<()> {
    let mut filter = ProposalFilter {
        status: Some(ProposalStatus::Open),
        source_path: Some(approved.source_path.clone()),
        limit: crate::base::limit::PAGE_ROWS_MAX,
        ..ProposalFilter::default()
    };
    loop {
        let page = proposal::list(tx.connection(), &filter)?;
        for other in &page.items {
            if other.base_source_sha != approved.proposed_sha {
                proposal::mark_stale(tx, &other.id)?;
            }
        }
        match page.next {
            Some(next) => filter.after = Some(next.parse()?),
            None => return Ok(()),
        }
    }
}

/// Finishes or drops what an earlier server left of an approval.
///
/// # Errors
/// As git or the database.
pub async fn recover(works: &Works) -> Result<()> {
    for left in commit::recover(&works.repo, &works.store, settle()).await? {
        let id = &left.proposal_id;
        info!(proposal_id = %id, "the approval of proposal {id} was recovered: {:?}", left.outcome);
    }
    Ok(())
}
