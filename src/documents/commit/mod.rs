//! Commits approved texts: one approval becomes one commit on the current branch.
//!
//! **Invariant:** the commit contains byte for byte what was approved, on top of the version for
//! which it was approved.
//! **Invariant:** the order is: objects, journal row, file and index, branch, rows. The file comes
//! before the branch, so that a crash never leaves the user with a staged reversal.
//! **Invariant:** a refusal changes nothing, and nobody's uncommitted work is overwritten.

mod adopt;
mod message;
mod paper;
mod place;
mod recover;
mod replaced;
mod survey;
mod undo;

use std::sync::Arc;
use std::time::Duration;

use camino::Utf8PathBuf;

use crate::base::fault::{crash_point, holds};
use crate::base::limit::SOURCE_BYTES_MAX;
use crate::base::{
    Actor, AttemptId, BlobId, Context, Error, ErrorKind, ProposalId, Result, SourcePath, TopicId,
    digest_hex,
};
use crate::documents::git::{Head, Moved, Repo};
use crate::documents::proposals::attempt::{self, Attempt};
use crate::documents::proposals::proposal::STALE_BASE;
use crate::documents::sources::creation::SOURCE_EXISTS;
use crate::documents::sources::source::NOT_TEXT;
use crate::store::{Store, Tx};

pub use crate::documents::git::Person;
pub use adopt::{Adopted, adopt, commit_of};
pub use message::{Trailers, commit_message, made_subject};
pub use recover::{Outcome, Recovered, recover};
pub use replaced::look_after_replaced;
pub use survey::obstacle;

use place::{Change, Place, Step};
use replaced::Aside;
use survey::{Ready, Survey, stale, survey};

/// How often a commit is rebuilt because the branch moved without touching the Source.
const REBUILDS_MAX: usize = 3;
/// Longest message of a commit, in bytes.
const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// A complete approval.
#[derive(Clone, Debug)]
pub struct Approval {
    /// The id of the journal row, new for each approval.
    pub attempt: AttemptId,
    /// The proposal.
    pub proposal_id: ProposalId,
    /// Its Topic.
    pub topic_id: TopicId,
    /// The Source that it changes.
    pub path: SourcePath,
    /// The Source's complete new text.
    pub text: String,
    /// SHA-256 of the text that the approver saw.
    pub text_digest: String,
    /// The version for which it was proposed.
    pub base_blob: BlobId,
    /// The version of the new text.
    pub proposed_blob: BlobId,
    /// Who approved it.
    pub approver: Actor,
    /// The commit's author.
    pub author: Person,
    /// The commit's committer.
    pub committer: Person,
    /// The complete commit message, including trailers.
    pub message: String,
}

/// A commit that contains an approved text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The commit: a new one, or the tip if it already contained the text.
    pub commit: BlobId,
    /// The branch, `refs/heads/…`.
    pub branch: String,
    /// Whether the branch already contained the text (`already_committed`); then no commit was
    /// made.
    pub already: bool,
}

/// The argument of the last transaction of an approval.
#[derive(Clone, Debug)]
pub struct Settled {
    /// The journal row, which becomes `committed` in the same transaction.
    pub attempt: AttemptId,
    /// The approved proposal.
    pub proposal_id: ProposalId,
    /// Its Topic.
    pub topic_id: TopicId,
    /// The Source.
    pub path: SourcePath,
    /// The Source's new version.
    pub proposed_blob: BlobId,
    /// Who approved it.
    pub approver: Actor,
    /// The commit.
    pub committed: Committed,
}

/// Checks, in the transaction of the journal row, that the proposal can still be approved: it is
/// open, its digest is unchanged, its Topic is open.
pub type Check = Arc<dyn Fn(&Tx<'_>) -> Result<()> + Send + Sync>;

/// Updates proposal and Topic and emits events, in the transaction that completes the journal row.
/// It must only rely on its argument: it also runs for approvals of an earlier server run.
pub type Settle = Arc<dyn Fn(&Tx<'_>, &Settled) -> Result<()> + Send + Sync>;

/// Commits an approved text. Approvals in one repository run one at a time.
///
/// The work is a task of the repository ([`Repo::close`] waits for it): it continues if the caller
/// goes away, because git must not be killed while it holds a lock.
///
/// # Errors
/// `conflict` with a code of a refused approval, or the error of `check`: nothing has changed then.
/// `unavailable` with `read_only`, `disk_full`, `git_failed`; with `committed_unsettled` if the
/// branch already has the text: the rows follow at the next approval or start.
pub async fn commit(
    repo: &Repo,
    store: &Store,
    approval: Approval,
    check: Check,
    settle: Settle,
) -> Result<Committed> {
    approval.check(repo)?;
    let change = Change {
        path: approval.path.clone(),
        base_blob: approval.base_blob.clone(),
        proposed_blob: approval.proposed_blob.clone(),
    };
    let aside = Aside::of(store, &approval.attempt, &approval.base_blob);
    let (at, store) = (repo.clone(), store.clone());
    let approving = Approving { repo: at, store, approval, change, check, settle, aside };
    repo.run_to_end(async move { approving.run().await }).await
}

/// An approval in progress.
struct Approving {
    repo: Repo,
    store: Store,
    approval: Approval,
    change: Change,
    check: Check,
    settle: Settle,
    aside: Aside,
}

impl Approval {
    fn check(&self, repo: &Repo) -> Result<()> {
        if self.text.len() > SOURCE_BYTES_MAX {
            let message = format!("the text has more than {SOURCE_BYTES_MAX} bytes");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        if self.text.contains('\0') {
            return Err(Error::invalid("the text has a NUL byte").code(NOT_TEXT));
        }
        let is_same = digest_hex(&self.text) == self.text_digest
            && repo.hash(self.text.as_bytes()) == self.proposed_blob;
        if !is_same {
            return Err(Error::conflict("text_changed", "the text has changed since it was shown")
                .hint("review the proposal again"));
        }
        if self.base_blob == self.proposed_blob {
            return Err(Error::conflict("no_change", "the proposal changes nothing"));
        }
        let is_message = !self.message.trim().is_empty()
            && self.message.len() <= MESSAGE_BYTES_MAX
            && !self.message.contains('\0');
        if !is_message {
            return Err(Error::invalid("the commit message is empty or too long"));
        }
        self.author.check()?;
        self.committer.check()
    }
}

impl Approving {
    async fn run(mut self) -> Result<Committed> {
        let repo = self.repo.clone();
        let _turn = repo.turn().await?;
        if let Some(papers) = repo.papers() {
            return self.on_paper(papers).await;
        }
        // Repair what a crash left first: it may have changed this file or the index.
        let left = recover::recover_all(&self.repo, &self.store, &self.settle).await?;
        refuse_unfinished(&self.repo, left).await?;
        for _ in 0..=REBUILDS_MAX {
            self.repo = repo.settled().await?;
            if let Some(committed) = self.round().await? {
                return Ok(committed);
            }
        }
        Err(Error::conflict(STALE_BASE, "the branch keeps changing during the approval")
            .hint("try again when it stops changing"))
    }

    /// Tries once; returns `None` if the branch moved meanwhile and everything was undone.
    async fn round(&self) -> Result<Option<Committed>> {
        let ready = match survey(&self.repo, &self.change).await? {
            Survey::Already(head) => return self.settle_already(&head).await.map(Some),
            Survey::Ready(ready) => ready,
        };
        let head = &ready.head;
        // Only objects: nothing in the repository refers to them until the branch moves.
        let new = self.build(&ready).await?;
        crash_point("approve_built");
        // Everything that can be known in advance fails here, while there is nothing to undo.
        if let Err(refusal) = self.rehearse(head, &new).await {
            return self.again_or((head, &new), refusal).await;
        }
        crash_point("approve_dry");
        let attempt = self.attempt(head, &new);
        // The row promises that the step is finished or undone: after a crash, `recover` does it.
        self.prepare(attempt.clone()).await?;
        crash_point("approve_prepared");
        let from = ready.source.bytes.as_deref().unwrap_or_default();
        let commits = (&head.commit, &new);
        let step = Step { from, to: self.approval.text.as_bytes(), commits };
        // File and index before the branch: after a crash the text shows up as an uncommitted
        // change, and never as the staged reversal of a commit.
        if let Err(refusal) = self.change.make(&self.repo, &self.aside, step, false).await {
            if self.change.is_new() && refusal.code_str() == SOURCE_EXISTS {
                // Whatever stands there now is somebody else's, even if the text is the same.
                let id = attempt.id.clone();
                self.store.write(move |tx| attempt::forget(tx, &id)).await?;
                return Err(refusal);
            }
            self.give_up(&attempt, &refusal).await?;
            return self.again_or((head, &new), refusal).await;
        }
        // Synced first, so that a power cut cannot leave the branch ahead of its index.
        let synced = self.repo.sync_index().await;
        crash_point("approve_tree");
        // Who saw the new file may have put another repository in the place of this one; or another
        // branch was checked out since the survey, whose file was changed then. The latter is asked
        // last: the former takes a while in a large tree.
        if let Err(refusal) = synced.and(self.refuse_left(head).await) {
            self.give_up(&attempt, &refusal).await?;
            return Err(refusal);
        }
        let ends = (&head.commit, &new);
        let committer = &self.approval.committer;
        // The commit point: the branch moves only if it still is where the survey found it.
        match self.repo.move_branch(&head.branch, ends, committer, self.subject()).await {
            Ok(Moved::Done) => {}
            Ok(Moved::Lost) => return self.lost(&attempt).await,
            Err(refusal) => {
                self.give_up(&attempt, &refusal).await?;
                return self.again_or((head, &new), refusal).await;
            }
        }
        crash_point("approve_ref");
        let committed = Committed { commit: new, branch: head.branch.clone(), already: false };
        // It cannot be refused any more, only be recorded late.
        self.write_down(&committed).await.map_err(|cause| unsettled(&committed, cause))?;
        crash_point("approve_committed");
        Ok(Some(committed))
    }

    /// Syncs the branch to disk, then records what became true with it.
    async fn write_down(&self, committed: &Committed) -> Result<()> {
        self.repo.sync_branch(&committed.branch).await?;
        let note = self.change.late_write(&self.repo, &self.aside).await;
        settle_row(&self.store, &self.settle, self.settled(committed.clone()), note).await
    }

    fn subject(&self) -> &str {
        self.approval.message.lines().next().unwrap_or_default()
    }

    /// Stores blob, trees and commit; nothing refers to them yet.
    async fn build(&self, ready: &Ready) -> Result<BlobId> {
        let (approval, path) = (&self.approval, &self.change.path);
        let blob = self.repo.write_blob(&approval.text).await?;
        if blob != approval.proposed_blob {
            return Err(Error::internal(format!("git stored {blob} for the text of {path}")));
        }
        let text = (approval.text.as_bytes(), &blob);
        self.repo.refuse_converted(path, &ready.source.conversion, text).await?;
        let trees = self.repo.write_trees(&ready.grove, &blob).await?;
        let tree = trees.last().unwrap_or(&blob);
        let persons = (&approval.author, &approval.committer);
        let (base, now) = (&ready.head.commit, self.store.clock().now());
        let new = self.repo.commit_tree((tree, base), persons, now, &approval.message).await?;
        let all = [vec![blob, new.clone()], trees].concat();
        // Read back through git: a commit must contain what was approved, byte for byte.
        let proven = self.repo.proven(&all).await?;
        if proven.first().map(Vec::as_slice) != Some(approval.text.as_bytes()) {
            return Err(Error::internal(format!("git gives another text of {path}")));
        }
        // Objects must survive a power cut before anything refers to them.
        self.repo.sync_objects(&all).await?;
        Ok(new)
    }

    /// Rehearses the writes to branch and index, with git's own locks and checks.
    async fn rehearse(&self, head: &Head, new: &BlobId) -> Result<()> {
        self.repo.rehearse_move(&head.branch, (&head.commit, new)).await?;
        self.repo.dry_run(&head.commit, new).await
    }

    async fn prepare(&self, attempt: Attempt) -> Result<()> {
        let check = Arc::clone(&self.check);
        let work = move |tx: &Tx<'_>| check(tx).and_then(|()| attempt::prepare(tx, &attempt));
        self.store.write(work).await
    }

    /// Somebody else moved the branch after the step. If their commit contains the text (they may
    /// have committed our own index), undoing would stage a reversal: treat it as committed.
    async fn lost(&self, attempt: &Attempt) -> Result<Option<Committed>> {
        if let Some(tip) = self.repo.tip(&attempt.branch).await?
            && matches!(self.change.place(&self.repo, &tip).await?, Place::Proposed)
        {
            self.change.prove(&self.repo, &tip).await?;
            let branch = attempt.branch.clone();
            let committed = Committed { commit: tip, branch, already: true };
            self.write_down(&committed).await.map_err(|cause| unsettled(&committed, cause))?;
            return Ok(Some(committed));
        }
        self.give_up(attempt, &stale(&self.change.path)).await?;
        Ok(None)
    }

    /// Undoes the step and removes the row. If that fails, the row stays and recovery decides: a
    /// refusal would promise that nothing has changed.
    async fn give_up(&self, attempt: &Attempt, why: &Error) -> Result<()> {
        let given_up = self.put_back(attempt, why).await;
        given_up.map_err(|cause| {
            tracing::error!(attempt_id = %attempt.id, "an approval is half-way: {}", cause.chain());
            let code = cause.code_str().to_owned();
            Error::unavailable(format!("the approval is half-way: {}", why.message()))
                .code(code)
                .hint("it is finished, or taken back, at the next approval or start")
                .source(cause)
        })
    }

    async fn put_back(&self, attempt: &Attempt, why: &Error) -> Result<()> {
        let ends = (&attempt.base_commit, &attempt.commit);
        let ours = (&self.aside, self.approval.text.as_bytes());
        let undone = self.change.undo(&self.repo, ours, ends).await?;
        if !undone.is_whole() {
            let note = format!("{}{}", why.chain(), undone.note(&self.change.path));
            tracing::warn!(attempt_id = %attempt.id, "an approval was refused: {note}");
            return drop_row(&self.store, attempt, &note).await;
        }
        tracing::info!(attempt_id = %attempt.id, "an approval was refused: {}", why.chain());
        let id = attempt.id.clone();
        self.store.write(move |tx| attempt::forget(tx, &id)).await
    }

    /// Returns `None` to try again if the refusal was caused by a branch that moved, or by git
    /// pruning the new commit, which no branch referred to yet. Otherwise returns the refusal.
    async fn again_or(
        &self,
        (head, new): (&Head, &BlobId),
        refusal: Error,
    ) -> Result<Option<Committed>> {
        match self.repo.tip(&head.branch).await? {
            Some(tip) if tip != head.commit => Ok(None),
            Some(_) if !self.repo.has_commit(new).await? => Ok(None),
            _ => Err(refusal),
        }
    }

    async fn refuse_switched(&self, head: &Head) -> Result<()> {
        if self.repo.branch().await?.as_deref() == Some(head.branch.as_str()) {
            return Ok(());
        }
        Err(Error::conflict(STALE_BASE, format!("{} was left in the meantime", head.branch))
            .hint("switch to the right branch and approve it again"))
    }

    /// Refuses what `refuse_led_away` and `refuse_switched` do.
    async fn refuse_left(&self, head: &Head) -> Result<()> {
        self.repo.refuse_led_away().await?;
        while holds("approve_looked") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.refuse_switched(head).await
    }

    /// Settles an approval whose text is already on the branch, in one transaction.
    async fn settle_already(&self, head: &Head) -> Result<Committed> {
        let branch = head.branch.clone();
        let committed = Committed { commit: head.commit.clone(), branch, already: true };
        let attempt = self.attempt(head, &head.commit);
        let (check, settle) = (Arc::clone(&self.check), Arc::clone(&self.settle));
        let settled = self.settled(committed.clone());
        let work = move |tx: &Tx<'_>| {
            check(tx)?;
            attempt::prepare(tx, &attempt)?;
            attempt::complete(tx, &settled.attempt, &settled.committed.commit)?;
            settle(tx, &settled)
        };
        self.store.write(work).await?;
        Ok(committed)
    }

    fn attempt(&self, head: &Head, new: &BlobId) -> Attempt {
        Attempt {
            id: self.approval.attempt.clone(),
            proposal_id: self.approval.proposal_id.clone(),
            topic_id: self.approval.topic_id.clone(),
            approver: self.approval.approver.clone(),
            text_digest: self.approval.text_digest.clone(),
            base_commit: head.commit.clone(),
            branch: head.branch.clone(),
            commit: new.clone(),
        }
    }

    fn settled(&self, committed: Committed) -> Settled {
        Settled {
            attempt: self.approval.attempt.clone(),
            proposal_id: self.approval.proposal_id.clone(),
            topic_id: self.approval.topic_id.clone(),
            path: self.change.path.clone(),
            proposed_blob: self.change.proposed_blob.clone(),
            approver: self.approval.approver.clone(),
            committed,
        }
    }
}

/// Returns the error for a commit that is on the branch but not recorded in the database.
fn unsettled(committed: &Committed, cause: Error) -> Error {
    let commit = &committed.commit;
    tracing::error!(%commit, "an approval is committed and not written down: {}", cause.chain());
    let why = cause.message();
    Error::unavailable(format!(
        "it was committed as {commit}, but that could not be recorded: {why}"
    ))
    .code("committed_unsettled")
    .hint(
        "nothing is lost and nothing has to be undone: the next approval or start writes it \
             down; free the disk, then approve this one again, which makes no second commit",
    )
    .source(cause)
}

/// Completes the row and everything that depends on it, with an optional note.
async fn settle_row(
    store: &Store,
    settle: &Settle,
    settled: Settled,
    note: Option<String>,
) -> Result<()> {
    let settle = Arc::clone(settle);
    let work = move |tx: &Tx<'_>| {
        attempt::complete(tx, &settled.attempt, &settled.committed.commit)?;
        if let Some(note) = &note {
            attempt::annotate(tx, &settled.attempt, note)?;
        }
        settle(tx, &settled)
    };
    store.write(work).await
}

async fn drop_row(store: &Store, attempt: &Attempt, note: &str) -> Result<()> {
    let (id, note) = (attempt.id.clone(), note.to_owned());
    store.write(move |tx| attempt::drop_row(tx, &id, &note)).await
}

/// Refuses if an earlier approval on the current branch could not be finished.
async fn refuse_unfinished(repo: &Repo, recovered: Vec<Recovered>) -> Result<()> {
    if recovered.is_empty() {
        return Ok(());
    }
    let branch = repo.branch().await?;
    for it in recovered {
        if let (Outcome::Waiting { why }, true) = (it.outcome, Some(&it.branch) == branch.as_ref())
        {
            let message = format!("the approval of proposal {} is not finished", it.proposal_id);
            return Err(Error::conflict("branch_busy", message).hint(why));
        }
    }
    Ok(())
}

/// Returns the index file in the data folder in which release 0.1 built a tree.
fn aside_index(store: &Store, attempt: &AttemptId) -> Result<Utf8PathBuf> {
    let data = store.path().parent().unwrap_or(store.path());
    let index = data.join(format!("approve-{attempt}.index"));
    camino::absolute_utf8(&index).context(ErrorKind::Unavailable, || format!("no way to {index}"))
}
