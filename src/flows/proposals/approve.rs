//! Approve → commit: the text that the approver saw, on the base that they saw, as one commit.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use tracing::{info, warn};

use crate::api::proposals::ProposalStatus;
use crate::api::proposals::{Approved, Followed};
use crate::api::topics::TopicStatus;
use crate::base::{
    Actor, BlobId, Error, Event, EventKind, JobId, ProposalId, Result, SourcePath, fault,
};
use crate::documents::Placed;
use crate::documents::anchor::{self, NewAnchor, Portrait};
use crate::documents::commit::{
    self, Approval, Check, Committed, Outcome, Person, Settle, Settled, Trailers,
};
use crate::documents::proposals::proposal::{ALREADY_DECIDED, STALE_BASE};
use crate::documents::proposals::{attempt, proposal};
use crate::documents::topics::{placement, topic};
use crate::flows::jobs::{cancel_obsolete, changes};
use crate::flows::people::{refuse_demoted, shown_names};
use crate::flows::proposals::rebase;
use crate::flows::proposals::rework;
use crate::flows::proposals::{Dossier, dossier, stale, undecidable, with_conflict};
use crate::flows::topics::places;
use crate::flows::{Site, Works};
use crate::people::Caller;
use crate::store::Tx;
use crate::store::idempotency::{self, Key};

/// The body of `POST /api/proposals/{id}/approve`.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ApproveRequest {
    /// SHA-256 of the text that the approver saw.
    pub text_digest: String,
    /// The base that they saw it against.
    pub base_source_sha: BlobId,
    /// Subject of the commit; by default the first line of the proposal's summary.
    #[serde(default)]
    pub subject: Option<String>,
    /// Body of the commit.
    #[serde(default)]
    pub body: Option<String>,
}

/// Approves a proposal and commits it. Repeating the approval as the same person with the same key
/// returns the same commit.
///
/// # Errors
/// `conflict` with one of the codes in docs/http.md; nothing is changed then.
pub async fn approve(
    site: &Site,
    caller: &Caller,
    id: &ProposalId,
    request: ApproveRequest,
    key: Option<Key>,
) -> Result<Approved> {
    let approver = Actor::Person(caller.may_decide()?.id.clone());
    let (digest, asked) = (request.text_digest.clone(), key.clone());
    let refusal = match once(site, &approver, id, request, asked).await {
        Ok((path, done)) => {
            let followed = rebase::look_after(site, &path).await;
            let cancelled_jobs = call_off(site, id, approver).await;
            return answer(site, id, done, (followed, cancelled_jobs)).await;
        }
        Err(refusal) => refusal,
    };
    match refusal.code_str() {
        ALREADY_DECIDED => match repeated(site, &approver, id, &digest, key).await? {
            Some(done) => answer(site, id, done, (Vec::new(), Vec::new())).await,
            None => Err(refusal),
        },
        STALE_BASE => Err(after_a_move(site, id, refusal).await),
        _ => Err(refusal),
    }
}

/// Returns the commit of an approval that this request made earlier.
async fn repeated(
    site: &Site,
    approver: &Actor,
    id: &ProposalId,
    digest: &str,
    key: Option<Key>,
) -> Result<Option<Committed>> {
    let Some(key) = key else { return Ok(None) };
    let (approver, id, digest) = (approver.clone(), id.clone(), digest.to_owned());
    site.store
        .read(move |c| {
            let proposal = proposal::find(c, &id)?;
            let is_own = proposal.status == ProposalStatus::Approved
                && proposal.decided_by.as_ref() == Some(&approver)
                && proposal.text_digest == digest
                && idempotency::find(c, &key)?.is_some();
            let done = if is_own { attempt::committed(c, &id)? } else { None };
            Ok(done.map(|(commit, branch)| Committed { commit, branch, already: true }))
        })
        .await
}

/// Adds to the refusal of a stale base what has become of the proposal.
async fn after_a_move(site: &Site, id: &ProposalId, refusal: Error) -> Error {
    let Ok(before) = dossier(site, id).await else { return refusal };
    rebase::look_after(site, &before.proposal.source_path).await;
    let Ok(now) = dossier(site, id).await else { return refusal };
    match &now.proposal.superseded_by {
        Some(later) => {
            let message = format!("{}; it was merged with what is there now", refusal.message());
            Error::conflict(STALE_BASE, message).hint(format!(
                "review the newer revision, proposal {later}, and approve that instead"
            ))
        }
        None if before.conflict.is_none() => with_conflict(&now, refusal),
        None => refusal,
    }
}

/// Cancels the jobs for the Topics that are now settled. The commit exists, so errors here are
/// logged; such a job is refused when it submits something.
async fn call_off(site: &Site, id: &ProposalId, by: Actor) -> Vec<JobId> {
    let (works, asked) = (site.clone(), id.clone());
    let done = site.store.write(move |tx| {
        let mut cancelled = Vec::new();
        for topic in proposal::find(tx.connection(), &asked)?.topic_ids {
            cancelled.extend(cancel_obsolete::of_topic(tx, &works, &topic, &by)?);
        }
        Ok(cancelled)
    });
    done.await.unwrap_or_else(|cause| {
        warn!(proposal_id = %id, "jobs of proposal {id} are not cancelled: {}", cause.chain());
        Vec::new()
    })
}

async fn answer(
    site: &Site,
    id: &ProposalId,
    done: Committed,
    (followed, cancelled_jobs): (Vec<Followed>, Vec<JobId>),
) -> Result<Approved> {
    let asked = id.clone();
    let (proposal, note, still_open) = site
        .store
        .read(move |c| {
            let proposal = shown_names::fill_proposal(c, proposal::find(c, &asked)?)?;
            let blob = &proposal.proposed_sha;
            let open = topic::list_open_of(c, &proposal.source_path, Some(blob))?;
            let open = open.into_iter().map(|it| shown_names::fill_topic(c, it));
            let note = attempt::note(c, &asked)?;
            Ok((proposal.clone(), note, open.collect::<Result<Vec<_>>>()?))
        })
        .await?;
    Ok(Approved {
        commit: done.commit,
        branch: done.branch,
        already_committed: done.already,
        note,
        proposal,
        still_open,
        followed,
        cancelled_jobs,
    })
}

async fn once(
    site: &Site,
    approver: &Actor,
    id: &ProposalId,
    request: ApproveRequest,
    key: Option<Key>,
) -> Result<(SourcePath, Committed)> {
    let dossier = dossier(site, id).await?;
    let is_blind = fault::is_off("approval_digest");
    if !is_blind && request.text_digest != dossier.proposal.text_digest {
        return Err(Error::conflict("text_changed", format!("proposal {id} has another text"))
            .hint("review it again before approving"));
    }
    if request.base_source_sha != dossier.proposal.base_source_sha {
        return Err(stale(&dossier.proposal));
    }
    undecidable(&dossier)?;
    let approval = approval(site, &dossier, approver, &request).await?;
    let digest = if is_blind { dossier.proposal.text_digest.clone() } else { request.text_digest };
    let check = still_open(id.clone(), (approver.clone(), digest), key);
    let done = async {
        changes::refuse_switched(site).await?;
        let described = described(site, &dossier).await?;
        let settle: Settle = Arc::new(move |tx, it| settle_commit(tx, it, &described));
        commit::commit(&site.repo, &site.store, approval, check, settle).await
    };
    let path = &dossier.proposal.source_path;
    match done.await {
        Ok(done) => {
            info!(proposal_id = %id, commit = %done.commit, "proposal {id} was committed");
            Ok((path.clone(), done))
        }
        Err(refusal) => {
            let refusal = with_conflict(&dossier, refusal);
            Err(changes::explain(site, Some(path), refusal).await)
        }
    }
}

async fn approval(
    site: &Site,
    dossier: &Dossier,
    approver: &Actor,
    request: &ApproveRequest,
) -> Result<Approval> {
    let proposal = &dossier.proposal;
    let by = approver.clone();
    let trailer = site.store.read(move |c| shown_names::trailer(c, &by)).await?;
    let message = commit::commit_message(
        &dossier.subject,
        request.subject.as_deref(),
        request.body.as_deref(),
        &Trailers {
            editors: &dossier.editors,
            suggesters: &dossier.suggesters,
            approver: &trailer,
            topics: &proposal.topic_ids,
        },
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

/// Runs in the transaction that journals the attempt: nobody has decided in the meantime, and its
/// approver still may.
fn still_open(id: ProposalId, (approver, text_digest): (Actor, String), key: Option<Key>) -> Check {
    Arc::new(move |tx| {
        let c = tx.connection();
        refuse_demoted(c, &approver)?;
        let proposal = proposal::find(c, &id)?;
        if proposal.status != ProposalStatus::Open {
            return Err(proposal::refusal(&proposal));
        }
        for topic in &proposal.topic_ids {
            if topic::status_of(c, topic)? != TopicStatus::Open {
                return Err(Error::conflict("topic_closed", format!("topic {topic} is closed"))
                    .hint("reopen it first"));
            }
        }
        rework::refuse_running(c, &id)?;
        if proposal.text_digest != text_digest {
            return Err(Error::conflict("text_changed", format!("proposal {id} has another text")));
        }
        match &key {
            Some(key) if idempotency::find(c, key)?.is_none() => {
                idempotency::remember(tx, key, &json!({"proposal_id": id}))
            }
            _ => Ok(()),
        }
    })
}

/// The new baselines of Topics, by their ranges in the approved text; `None` for passages that are
/// too long for a quote.
type Described = HashMap<(usize, usize), Option<NewAnchor>>;

/// Prepares the places of the Source's open Topics in the proposed text, before the transaction of
/// the commit, in which everybody waits.
async fn described(site: &Site, dossier: &Dossier) -> Result<Described> {
    let (path, blob) =
        (dossier.proposal.source_path.clone(), dossier.proposal.proposed_sha.clone());
    let version = blob.clone();
    let ranges: BTreeSet<(usize, usize)> = site
        .store
        .read(move |c| {
            let mut ranges = BTreeSet::new();
            for open in topic::list_open_of(c, &path, None)? {
                let placed = placement::find(c, &open.id, &version)?;
                ranges.extend(placed.and_then(|it| it.range()).map(|it| (it.start, it.end)));
            }
            Ok(ranges)
        })
        .await?;
    let text = dossier.text.clone();
    let described = tokio::task::spawn_blocking(move || describe(&text, &blob, ranges));
    described.await.map_err(|cause| Error::internal("describing panicked").source(cause))?
}

fn describe(text: &str, blob: &BlobId, ranges: BTreeSet<(usize, usize)>) -> Result<Described> {
    let portrait = Portrait::of(text, blob);
    let anchor = |it: (usize, usize)| Ok((it, places::baseline(&portrait, it.0..it.1)?));
    ranges.into_iter().map(anchor).collect()
}

/// The effects of the commit, in one transaction; also for a commit that an earlier server made but
/// could not record.
pub fn settle() -> Settle {
    Arc::new(|tx, settled| settle_commit(tx, settled, &Described::new()))
}

fn settle_commit(tx: &Tx<'_>, settled: &Settled, described: &Described) -> Result<()> {
    let by = &settled.approver;
    let proposal = proposal::find(tx.connection(), &settled.proposal_id)?;
    proposal::approve(tx, &settled.proposal_id, by, &settled.committed.commit)?;
    for topic in &proposal.topic_ids {
        topic::set_status(tx, topic, TopicStatus::Open, TopicStatus::Incorporated, by)?;
    }
    let (path, blob) = (&proposal.source_path, &proposal.proposed_sha);
    let mut placed = Vec::new();
    for open in topic::list_open_of(tx.connection(), path, None)? {
        // A Topic opened after the proposal was submitted is placed when it is next read.
        let found = placement::find(tx.connection(), &open.id, blob)?;
        placed.extend(found.and_then(|it| Some((open.id, it.range()?, it))));
    }
    let is_missing = |it: &(_, Range<usize>, _)| !described.contains_key(&(it.1.start, it.1.end));
    let missing = placed.iter().filter(|it| is_missing(it)).map(|it| (it.1.start, it.1.end));
    let missing: BTreeSet<(usize, usize)> = missing.collect();
    let late = match missing.is_empty() {
        true => Described::new(),
        false => {
            let text = proposal::text(tx.connection(), &settled.proposal_id)?;
            describe(&text, blob, missing)?
        }
    };
    for (topic, range, found) in placed {
        let key = (range.start, range.end);
        let again = Placed {
            state: found.state,
            range: Some(range),
            confidence: found.confidence,
            method: "committed",
        };
        placement::put(tx, &topic, blob, &again, &found.decided_by)?;
        if let Some(Some(anchor)) = described.get(&key).or_else(|| late.get(&key)) {
            anchor::row::rebase(tx, &topic, anchor)?;
        }
    }
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

/// Completes or drops an approval that an earlier server left unfinished.
///
/// # Errors
/// As git or the database.
pub async fn recover(works: &Works) -> Result<()> {
    for left in commit::recover(&works.repo, &works.store, settle()).await? {
        // What waits is said once where it is noted.
        if matches!(left.outcome, Outcome::Waiting { .. }) {
            continue;
        }
        let id = &left.proposal_id;
        info!(proposal_id = %id, "the approval of proposal {id} was recovered: {:?}", left.outcome);
        let asked = id.clone();
        let path = works.store.read(move |c| Ok(proposal::find(c, &asked)?.source_path)).await?;
        rebase::look_after(works, &path).await;
    }
    Ok(())
}
