//! Adopts commits of approvals that a restored, older database does not know.

use std::sync::Arc;

use crate::api::proposals::Proposal;
use crate::base::{Actor, AttemptId, BlobId, Error, Result};
use crate::documents::commit::{Committed, Settle, Settled};
use crate::documents::git::{DETACHED_HEAD, Repo};
use crate::documents::proposals::attempt::{self, Attempt};
use crate::store::{Store, Tx};

/// An approval that is recorded afterwards.
#[derive(Clone, Debug)]
pub struct Adopted {
    /// The id of the new journal row.
    pub id: AttemptId,
    /// The commit that contains the text.
    pub commit: BlobId,
    /// Who approved it.
    pub approver: Actor,
    /// How the commit was found.
    pub note: String,
}

/// Returns the commit of the current branch that contains the text of an open proposal and names
/// its Topic, and the name in its trailer `Approved-by`. Anybody who can commit can write both
/// trailers.
///
/// # Errors
/// `unavailable` if git fails.
pub async fn commit_of(
    repo: &Repo,
    proposal: &Proposal,
    commits_max: usize,
) -> Result<Option<(BlobId, Option<String>)>> {
    for entry in repo.history(&proposal.source_path, commits_max).await? {
        if entry.topic_id.as_ref() != Some(&proposal.topic_id) {
            continue;
        }
        let held = repo.blob_at(&entry.commit, &proposal.source_path).await?;
        if held.is_some_and(|it| it.blob == proposal.proposed_sha) {
            return Ok(Some((entry.commit, entry.approved_by)));
        }
    }
    Ok(None)
}

/// Records that an open proposal was approved and committed, in one transaction: the journal row
/// and everything that follows from it.
///
/// # Errors
/// `conflict` with code `detached_head`, or `branch_busy` during an approval.
pub async fn adopt(
    repo: &Repo,
    store: &Store,
    settle: &Settle,
    proposal: &Proposal,
    Adopted { id, commit, approver, note }: Adopted,
) -> Result<()> {
    let Some(branch) = repo.branch().await? else {
        return Err(Error::conflict(DETACHED_HEAD, "no branch is checked out"));
    };
    let parent = repo.tip(&format!("{commit}^")).await?;
    let attempt = Attempt {
        id: id.clone(),
        proposal_id: proposal.id.clone(),
        topic_id: proposal.topic_id.clone(),
        approver: approver.clone(),
        text_digest: proposal.text_digest.clone(),
        base_commit: parent.unwrap_or_else(|| commit.clone()),
        branch: branch.clone(),
        commit: commit.clone(),
    };
    let settled = Settled {
        attempt: id,
        proposal_id: proposal.id.clone(),
        topic_id: proposal.topic_id.clone(),
        path: proposal.source_path.clone(),
        proposed_blob: proposal.proposed_sha.clone(),
        approver,
        committed: Committed { commit, branch, already: true },
    };
    let settle = Arc::clone(settle);
    let work = move |tx: &Tx<'_>| {
        attempt::prepare(tx, &attempt)?;
        attempt::complete(tx, &settled.attempt, &settled.committed.commit)?;
        attempt::annotate(tx, &settled.attempt, &note)?;
        settle(tx, &settled)
    };
    store.write(work).await
}
