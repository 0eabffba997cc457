//! Rebases open proposals when their Source changes: a clean merge becomes a new revision, which
//! needs its own approval; a conflict is marked, and a rework is offered.
//!
//! **Invariant:** nothing is committed here, and no text that was shown is changed.

use serde_json::json;

use crate::api::proposals::Followed;
use crate::api::proposals::{Conflicts, How, Origin, Proposal, ProposalStatus};
use crate::base::limit::{PAGE_ROWS_MAX, SOURCE_BYTES_MAX, TOPIC_PROPOSALS_MAX};
use crate::base::{
    Actor, BlobId, Error, ErrorKind, Event, EventKind, ProposalId, Result, SourcePath, fault,
};
use crate::documents::compare::merge::{Merged, merge};
use crate::documents::proposals::proposal::lineage;
use crate::documents::proposals::proposal::{self, NewProposal, ProposalFilter, require_open};
use crate::documents::topics::topic;
use crate::flows::Works;
use crate::flows::jobs::changes;
use crate::flows::proposals::fates::{self, Judge};
use crate::flows::proposals::rework;
use crate::jobs::{self, Status};

/// Rebases the open proposals for changed Sources onto the checked-out commit, and returns the
/// result for each that was not made for it. May be called at any time and repeatedly; decisions
/// made in the meantime stand.
///
/// Nothing is done while git is in the middle of something, while it was a job that changed the
/// Source or the branch and nobody has decided about that, while the proposal's own job runs, or
/// while a rework of it does.
///
/// # Errors
/// As reading or writing the database, or git.
pub async fn sources_moved(works: &Works, paths: &[SourcePath]) -> Result<Vec<Followed>> {
    let mut followed = Vec::new();
    for path in paths {
        followed.extend(source_moved(works, path).await?);
    }
    Ok(followed)
}

/// The same for one Source, including proposals for a previous name of it.
///
/// # Errors
/// As [`sources_moved`].
pub async fn source_moved(works: &Works, path: &SourcePath) -> Result<Vec<Followed>> {
    let waiting = waiting(works, path).await?;
    if waiting.is_empty() || fault::is_off("moved_base") {
        return Ok(Vec::new());
    }
    let Some(current) = unless_conflict(current(works, path).await)?.flatten() else {
        return Ok(Vec::new());
    };
    let mut followed = Vec::new();
    let mut text = None;
    for it in waiting {
        let is_renamed = it.source_path != *path;
        if it.base_source_sha == current && !is_renamed {
            if it.has_conflict {
                let id = it.id.clone();
                works.store.write(move |tx| lineage::clear_conflict(tx, &id)).await?;
            }
            continue;
        }
        // A proposed new Source has nothing in common with a file that now exists.
        if it.base_source_sha.is_absent() {
            continue;
        }
        let is_done = it.proposed_sha == current && !is_renamed;
        if is_done || is_known(works, &it, &current).await? {
            continue;
        }
        let now = match &text {
            Some(text) => String::clone(text),
            None => {
                let Some(read) = read(works, &current).await? else { return Ok(followed) };
                text.insert(read).clone()
            }
        };
        if let Some(done) = unless_conflict(follow(works, &it, path, (current.clone(), now)).await)?
        {
            followed.extend(done);
        }
    }
    Ok(followed)
}

/// The same for a reader: failures are logged, because they are not the reader's problem.
pub(in crate::flows) async fn look_after(works: &Works, path: &SourcePath) -> Vec<Followed> {
    match source_moved(works, path).await {
        Ok(followed) => followed,
        Err(cause) => {
            tracing::warn!("proposals for {path} cannot follow it: {}", cause.chain());
            Vec::new()
        }
    }
}

/// A conflict here means that somebody else decided, or that the repository is busy: nothing to do.
fn unless_conflict<T>(outcome: Result<T>) -> Result<Option<T>> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(cause) if cause.kind() == ErrorKind::Conflict => Ok(None),
        Err(cause) => Err(cause),
    }
}

/// Returns the open proposals for a Source that a person can decide now.
async fn waiting(works: &Works, path: &SourcePath) -> Result<Vec<Proposal>> {
    let path = path.clone();
    let filter = ProposalFilter {
        status: Some(ProposalStatus::Open),
        source_path: Some(path.clone()),
        limit: PAGE_ROWS_MAX,
        ..ProposalFilter::default()
    };
    works
        .store
        .read(move |c| {
            let mut found = proposal::list(c, &filter)?.items;
            // Oldest first, so that of two rebased ones the newer one stays newer.
            found.reverse();
            found.extend(proposal::open_elsewhere(c, &path)?);
            let mut waiting = Vec::new();
            for it in found {
                // Its document may have another name by now, and another one its own.
                if topic::find(c, &it.topic_id, None)?.source_path != path {
                    continue;
                }
                let has_ended = match &it.job_id {
                    Some(job) => {
                        jobs::find_brief(c, &jobs::Viewer::Program, job)?.status
                            == Status::Succeeded
                    }
                    None => true,
                };
                if has_ended && rework::running(c, &it.id)?.is_none() {
                    waiting.push(it);
                }
            }
            Ok(waiting)
        })
        .await
}

/// Returns the version of a Source in the checked-out commit.
async fn current(works: &Works, path: &SourcePath) -> Result<Option<BlobId>> {
    changes::refuse_switched(works).await?;
    if changes::is_undecided(works, path).await? {
        return Ok(None);
    }
    let head = works.repo.head_at_rest().await?;
    Ok(works.repo.blob_at(&head.commit, path).await?.map(|it| it.blob))
}

/// Returns whether a conflict with this version is already recorded.
async fn is_known(works: &Works, proposal: &Proposal, current: &BlobId) -> Result<bool> {
    let (id, current) = (proposal.id.clone(), current.clone());
    let known = works.store.read(move |c| lineage::conflict(c, &id)).await?;
    Ok(known.is_some_and(|it| it.current_sha == current))
}

/// Reads a version; `None` if it is missing or not text.
async fn read(works: &Works, blob: &BlobId) -> Result<Option<String>> {
    match works.repo.read_blob(blob, SOURCE_BYTES_MAX).await {
        Ok(bytes) => Ok(String::from_utf8(bytes).ok().filter(|it| !it.contains('\0'))),
        Err(cause) if cause.kind() == ErrorKind::Unavailable => Err(cause),
        Err(_) => Ok(None),
    }
}

async fn follow(
    works: &Works,
    proposal: &Proposal,
    path: &SourcePath,
    current: (BlobId, String),
) -> Result<Option<Followed>> {
    let Some(merged) = merged(works, proposal, &current).await? else { return Ok(None) };
    let id = proposal.id.clone();
    let (outcome, revision_id) = match merged {
        Merged::Clean(text) if text == current.1 => {
            let work = move |tx: &crate::store::Tx<'_>| {
                require_open(tx, &id)?;
                lineage::clear_conflict(tx, &id)?;
                proposal::mark_stale(tx, &id)
            };
            works.store.write(work).await?;
            ("contained", None)
        }
        Merged::Clean(text) => {
            ("merged", Some(insert_merged(works, (proposal, path), current, text).await?))
        }
        Merged::Conflicts(conflicts) => {
            mark(works, proposal, current.0, conflicts).await?;
            ("conflict", None)
        }
    };
    tracing::info!(proposal_id = %proposal.id, "{path} has changed: {outcome}");
    Ok(Some(Followed { proposal_id: proposal.id.clone(), outcome: outcome.into(), revision_id }))
}

/// Merges a proposal with the current text. If an earlier revision was made for this very version
/// (the user has switched back to a branch), its text is used.
async fn merged(
    works: &Works,
    proposal: &Proposal,
    current: &(BlobId, String),
) -> Result<Option<Merged>> {
    let (id, version) = (proposal.id.clone(), current.0.clone());
    let (text, earlier) = works
        .store
        .read(move |c| Ok((proposal::text(c, &id)?, before_merges(c, &id, &version)?)))
        .await?;
    if let Some(text) = earlier {
        return Ok(Some(Merged::Clean(text)));
    }
    let Some(base) = read(works, &proposal.base_source_sha).await? else { return Ok(None) };
    let now = current.1.clone();
    let merged = tokio::task::spawn_blocking(move || merge(&base, &now, &text));
    let merged = merged.await;
    merged.map(Some).map_err(|cause| Error::internal("merging panicked").source(cause))
}

/// Returns the text of an earlier revision for a version, if only rebases lie in between.
fn before_merges(
    c: &rusqlite::Connection,
    id: &ProposalId,
    version: &BlobId,
) -> Result<Option<String>> {
    let mut at = id.clone();
    // Each revision comes from an earlier one: the chain is no longer than the number of a Topic's
    // proposals.
    for _ in 0..TOPIC_PROPOSALS_MAX {
        let origin = lineage::origin(c, &at)?.filter(|it| it.how == How::Merged);
        let Some(origin) = origin else { return Ok(None) };
        at = origin.from_id;
        if proposal::find(c, &at)?.base_source_sha == *version {
            return proposal::text(c, &at).map(Some);
        }
    }
    Ok(None)
}

async fn insert_merged(
    works: &Works,
    (was, path): (&Proposal, &SourcePath),
    current: (BlobId, String),
    text: String,
) -> Result<ProposalId> {
    let proposed = (works.repo.hash_text(&text).await?, text);
    let topics = &was.topic_ids;
    let mut judge = Judge::of(works, path, topics, current.clone(), proposed.clone()).await?;
    judge.carry(works, &was.id).await?;
    let placements = judge.judge().await?.placements;
    let new = NewProposal {
        topic_id: was.topic_id.clone(),
        job_id: was.job_id.clone(),
        proposed_by: was.proposed_by.clone(),
        source_path: path.clone(),
        base_source_sha: current.0,
        proposed_sha: proposed.0,
        text: proposed.1,
        summary: was.summary.clone(),
    };
    let from_id = was.id.clone();
    let origin = Origin { how: How::Merged, from_id, made_by: Actor::System, made_by_name: None };
    let (ids, further) = (works.ids.clone(), topics[1..].to_vec());
    works
        .store
        .write(move |tx| {
            rework::refuse_running(tx.connection(), &origin.from_id)?;
            let made = proposal::insert_with(tx, &ids, new.clone(), &further, Some(&origin))?;
            fates::keep(tx, &made.proposed_sha, &placements)?;
            Ok(made.id)
        })
        .await
}

async fn mark(
    works: &Works,
    proposal: &Proposal,
    current: BlobId,
    conflicts: Conflicts,
) -> Result<()> {
    let id = proposal.id.clone();
    works
        .store
        .write(move |tx| {
            let proposal = require_open(tx, &id)?;
            lineage::put_conflict(tx, &id, &current, &conflicts)?;
            let data = json!({
                "proposal_id": id, "topic_id": proposal.topic_id,
                "source_path": proposal.source_path, "blob": current,
            });
            let subject = format!("proposal:{id}");
            tx.emit(Event::new(EventKind::ProposalConflicted, subject, Actor::System, data))
        })
        .await
}
