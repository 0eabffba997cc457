//! Finishes or undoes approvals that a crash interrupted.

use crate::base::limit::SOURCE_BYTES_MAX;
use crate::base::{AttemptId, Error, ProposalId, Result, fault};
use crate::documents::commit::place::{Change, Place, Step};
use crate::documents::commit::replaced::Aside;
use crate::documents::commit::{Committed, Settle, Settled, aside_index, drop_row, settle_row};
use crate::documents::git::{
    Moved, OBJECT_MISMATCH, PLANTED_REPOSITORY, Person, Repo, SPECIAL_FILE,
};
use crate::documents::proposals::attempt::{self, Attempt, Prepared};
use crate::documents::sources::creation::SOURCE_EXISTS;
use crate::process::{SOURCE_DIRTY, SOURCE_GONE, Spare};
use crate::store::Store;

/// The outcome of an interrupted approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The branch contains the text, and the rows say so.
    Settled(Committed),
    /// Nothing was committed; the proposal is open as before.
    Dropped {
        /// What happened to index and working tree.
        note: String,
    },
    /// It cannot be decided now, and will be tried again.
    Waiting {
        /// What prevents it.
        why: String,
    },
}

/// An interrupted approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The journal row.
    pub attempt: AttemptId,
    /// Its proposal.
    pub proposal_id: ProposalId,
    /// Its branch, `refs/heads/…`.
    pub branch: String,
    /// Its outcome.
    pub outcome: Outcome,
}

/// Settles every approval that an earlier run of the server left unfinished.
///
/// # Errors
/// `unavailable` if the journal cannot be read. Problems of a single approval are reported in its
/// [`Outcome`].
pub async fn recover(repo: &Repo, store: &Store, settle: Settle) -> Result<Vec<Recovered>> {
    // So that nobody who begins nothing is refused.
    if store.read(attempt::prepared).await?.is_empty() {
        return Ok(Vec::new());
    }
    let _turn = match repo.turn().await {
        Ok(turn) => turn,
        Err(cause) if matches!(cause.code_str(), PLANTED_REPOSITORY | SPECIAL_FILE) => {
            return all_wait(store, &cause).await;
        }
        Err(cause) => return Err(cause),
    };
    recover_all(repo, store, &settle).await
}

/// Notes that nothing can be decided while the repository is not to be touched.
async fn all_wait(store: &Store, cause: &Error) -> Result<Vec<Recovered>> {
    let mut waiting = Vec::new();
    for row in store.read(attempt::prepared).await? {
        let outcome = Outcome::Waiting { why: told(cause) };
        note(store, &row, &outcome).await?;
        waiting.push(Recovered {
            attempt: row.attempt.id,
            proposal_id: row.attempt.proposal_id,
            branch: row.attempt.branch,
            outcome,
        });
    }
    Ok(waiting)
}

/// Says what has become of an approval: in the log, and, if it waits, in the journal.
async fn note(store: &Store, row: &Prepared, outcome: &Outcome) -> Result<()> {
    let Attempt { id: attempt, proposal_id, .. } = &row.attempt;
    match outcome {
        Outcome::Settled(it) => {
            let commit = &it.commit;
            tracing::info!(attempt_id = %attempt, "approval of {proposal_id} is {commit}");
        }
        Outcome::Dropped { note } => {
            tracing::warn!(attempt_id = %attempt, "approval of {proposal_id} dropped: {note}");
        }
        Outcome::Waiting { why } if row.waits_for.as_ref() != Some(why) => {
            tracing::error!(attempt_id = %attempt, "approval of {proposal_id} waits: {why}");
            let (id, why) = (attempt.clone(), why.clone());
            store.write(move |tx| attempt::annotate(tx, &id, &why)).await?;
        }
        Outcome::Waiting { .. } => {}
    }
    Ok(())
}

fn told(cause: &Error) -> String {
    match cause.hint_str() {
        Some(hint) => format!("{}; {hint}", cause.chain()),
        None => cause.chain(),
    }
}

/// Like [`recover`], for a caller that holds the turn.
pub(super) async fn recover_all(
    repo: &Repo,
    store: &Store,
    settle: &Settle,
) -> Result<Vec<Recovered>> {
    if fault::is_off("approval_recovery") {
        return Ok(Vec::new());
    }
    let prepared = store.read(attempt::prepared).await?;
    if prepared.is_empty() {
        return Ok(Vec::new());
    }
    let repo = &repo.settled().await?;
    let mut recovered = Vec::with_capacity(prepared.len());
    for row in prepared {
        let (attempt, proposal_id) = (row.attempt.id.clone(), row.attempt.proposal_id.clone());
        let branch = row.attempt.branch.clone();
        let change = Change {
            path: row.path.clone(),
            base_blob: row.base_blob.clone(),
            proposed_blob: row.proposed_blob.clone(),
        };
        let aside = Aside::of(store, &attempt, &row.base_blob);
        let recovery = Recovery { repo, store, settle, row, change, aside };
        let outcome = recovery.run().await;
        let outcome = outcome.unwrap_or_else(|error| Outcome::Waiting { why: told(&error) });
        note(store, &recovery.row, &outcome).await?;
        recovered.push(Recovered { attempt, proposal_id, branch, outcome });
    }
    Ok(recovered)
}

struct Recovery<'a> {
    repo: &'a Repo,
    store: &'a Store,
    settle: &'a Settle,
    row: Prepared,
    change: Change,
    aside: Aside,
}

impl Recovery<'_> {
    async fn run(&self) -> Result<Outcome> {
        let index = aside_index(self.store, &self.row.attempt.id)?;
        self.repo.remove_aside(&index).await?;
        let settled = self.change.settle_spare(self.repo, &self.aside, self.text()).await?;
        if settled == Spare::Left {
            tracing::warn!("{} beside {} is nobody's", self.aside.spare, self.change.path);
        }
        let attempt = &self.row.attempt;
        let tip = self.repo.tip(&attempt.branch).await?;
        let Some(tip) = tip else {
            return self.drop(&format!("{} is gone", attempt.branch)).await;
        };
        if self.repo.is_ancestor(&attempt.commit, &tip).await? {
            return self.settled(attempt.commit.clone(), false).await;
        }
        if tip == attempt.base_commit {
            return self.go_on().await;
        }
        self.after_a_move().await
    }

    fn text(&self) -> &[u8] {
        self.row.text.as_bytes()
    }

    /// The branch has not moved: completes the remaining steps.
    async fn go_on(&self) -> Result<Outcome> {
        let attempt = &self.row.attempt;
        if !self.repo.has_commit(&attempt.commit).await? {
            return self.drop("the commit that was built is gone").await;
        }
        if self.repo.branch().await?.as_deref() != Some(attempt.branch.as_str()) {
            return self.drop(&format!("{} is not checked out", attempt.branch)).await;
        }
        if let Err(refusal) = self.change.prove(self.repo, &attempt.commit).await {
            return match refusal.code_str() {
                OBJECT_MISMATCH => self.drop(&refusal.chain()).await,
                _ => Err(refusal),
            };
        }
        let (base, new) = (&attempt.base_commit, &attempt.commit);
        if let Err(refusal) = self.step().await {
            if !matches!(refusal.code_str(), SOURCE_DIRTY | SOURCE_GONE | SOURCE_EXISTS) {
                return Err(refusal);
            }
            if !self.change.mend(self.repo, self.text()).await? {
                return self.drop(&refusal.chain()).await;
            }
            self.repo.refresh(&self.change.path).await?;
            if let Err(refusal) = self.step().await {
                return self.drop(&refusal.chain()).await;
            }
        }
        self.repo.sync_index().await?;
        let committer = Person { name: "wiki-browser".to_owned(), email: String::new() };
        let subject = format!("proposal {}", attempt.proposal_id);
        match self.repo.move_branch(&attempt.branch, (base, new), &committer, &subject).await? {
            Moved::Done => self.settled(new.clone(), false).await,
            Moved::Lost => self.after_a_move().await,
        }
    }

    async fn step(&self) -> Result<()> {
        let (change, attempt) = (&self.change, &self.row.attempt);
        let from = self.repo.read_blob(&change.base_blob, SOURCE_BYTES_MAX).await?;
        let commits = (&attempt.base_commit, &attempt.commit);
        let step = Step { from: &from, to: self.text(), commits };
        change.step(self.repo, &self.aside, step).await
    }

    /// Decides after somebody else moved the branch.
    async fn after_a_move(&self) -> Result<Outcome> {
        let branch = &self.row.attempt.branch;
        match self.repo.tip(branch).await? {
            Some(tip) if self.change.place(self.repo, &tip).await? == Place::Proposed => {
                self.change.prove(self.repo, &tip).await?;
                self.settled(tip, true).await
            }
            _ => self.drop(&format!("{branch} moved meanwhile")).await,
        }
    }

    async fn settled(&self, commit: crate::base::BlobId, already: bool) -> Result<Outcome> {
        let attempt = &self.row.attempt;
        // The run that moved the branch may have ended before it was synced.
        self.repo.sync_branch(&attempt.branch).await?;
        let committed = Committed { commit, branch: attempt.branch.clone(), already };
        let settled = Settled {
            attempt: attempt.id.clone(),
            proposal_id: attempt.proposal_id.clone(),
            topic_id: attempt.topic_id.clone(),
            path: self.change.path.clone(),
            proposed_blob: self.change.proposed_blob.clone(),
            approver: attempt.approver.clone(),
            committed: committed.clone(),
        };
        let note = self.change.late_write(self.repo, &self.aside).await;
        settle_row(self.store, self.settle, settled, note).await?;
        Ok(Outcome::Settled(committed))
    }

    async fn drop(&self, why: &str) -> Result<Outcome> {
        let attempt = &self.row.attempt;
        let ends = (&attempt.base_commit, &attempt.commit);
        let undone = self.change.undo(self.repo, (&self.aside, self.text()), ends).await?;
        let note = format!("after a crash: {why}{}", undone.note(&self.change.path));
        drop_row(self.store, attempt, &note).await?;
        Ok(Outcome::Dropped { note })
    }
}
