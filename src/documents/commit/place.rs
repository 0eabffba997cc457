//! One change of one Source, and where it stands: in a commit, in the index, in the working tree.

use crate::base::limit::SOURCE_BYTES_MAX;
use crate::base::{BlobId, Error, Result, SourcePath, fault};
use crate::documents::git::Repo;

/// A Source, the version it had and the version it gets.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) path: SourcePath,
    pub(super) base_blob: BlobId,
    pub(super) proposed_blob: BlobId,
}

/// What a commit holds at the change's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The version that the proposal was made for, with this mode.
    Base { mode: String },
    /// The proposed version.
    Proposed,
    /// Anything else.
    Other,
}

/// How the undoing of a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Undone {
    /// There was nothing of ours.
    Needless,
    /// Index and working tree are as before.
    Done,
    /// Somebody changed the file on top of ours: it is left to them.
    Left,
}

impl Undone {
    /// Returns what the journal's note says about it.
    pub(super) fn note(self) -> &'static str {
        match self {
            Undone::Needless => "",
            Undone::Done => "; index and working tree were put back",
            Undone::Left => {
                "; the file was changed meanwhile and is left as it is, with the \
                             proposed text in the index"
            }
        }
    }
}

impl Change {
    /// Returns what a commit holds.
    pub(super) async fn place(&self, repo: &Repo, commit: &BlobId) -> Result<Place> {
        let Some(entry) = repo.blob_at(commit, &self.path).await? else { return Ok(Place::Other) };
        let is_file = matches!(entry.mode.as_str(), "100644" | "100755");
        Ok(match entry {
            _ if !is_file => Place::Other,
            it if it.blob == self.proposed_blob => Place::Proposed,
            it if it.blob == self.base_blob || fault::is_off("approval_base") => {
                Place::Base { mode: it.mode }
            }
            _ => Place::Other,
        })
    }

    /// Takes the step back, if it is in the index and the file is still exactly as we wrote it.
    pub(super) async fn undo(
        &self,
        repo: &Repo,
        (base, new): (&BlobId, &BlobId),
    ) -> Result<Undone> {
        let entry = repo.entry(&self.path).await?;
        if entry.is_none_or(|it| it.is_unmerged || it.blob != self.proposed_blob) {
            return Ok(Undone::Needless);
        }
        if let Some(head) = repo.tip("HEAD").await?
            && self.place(repo, &head).await? == Place::Proposed
        {
            // What is checked out holds the text itself: the index is right as it is.
            return Ok(Undone::Needless);
        }
        if self.working_blob(repo).await?.as_ref() != Some(&self.proposed_blob) {
            return Ok(Undone::Left);
        }
        match repo.step(new, base).await {
            Ok(()) => Ok(Undone::Done),
            Err(refusal) if refusal.code_str() == "source_dirty" => Ok(Undone::Left),
            Err(failure) => Err(failure),
        }
    }

    /// Mends what git leaves if it is ended, or fails, between removing the old working file and
    /// writing the index: no file, or the beginning of the proposed text. Returns whether the
    /// step can be made now. Nothing is lost by it: every byte is in the repository.
    pub(super) async fn mend(&self, repo: &Repo) -> Result<bool> {
        let entry = repo.entry(&self.path).await?;
        let Some(entry) = entry.filter(|it| !it.is_unmerged && it.blob == self.base_blob) else {
            return Ok(false);
        };
        let written = match repo.read_working(&self.path, SOURCE_BYTES_MAX).await {
            Ok((bytes, _)) => Some(bytes),
            Err(error) if error.code_str() == "source_gone" => None,
            Err(_) => return Ok(false),
        };
        if written.as_ref().is_some_and(|it| repo.hash(it) == self.base_blob) {
            return Ok(true);
        }
        let proposed = repo.read_blob(&self.proposed_blob, SOURCE_BYTES_MAX).await?;
        if written.as_ref() == Some(&proposed) {
            repo.set_entry(&self.path, &entry.mode, &self.proposed_blob).await?;
            return Ok(true);
        }
        if written.is_none_or(|it| proposed.starts_with(&it)) {
            repo.restore(&self.path).await?;
            return Ok(true);
        }
        Ok(false)
    }

    async fn working_blob(&self, repo: &Repo) -> Result<Option<BlobId>> {
        match repo.read_working(&self.path, SOURCE_BYTES_MAX).await {
            Ok((bytes, _)) => Ok(Some(repo.hash(&bytes))),
            // Whatever else stands there is not ours.
            Err(_) => Ok(None),
        }
    }
}

/// Returns whether a failed step may have been made in part: git checks all before it begins, so
/// its own refusals never are.
pub(super) fn may_be_torn(failure: &Error) -> bool {
    !matches!(failure.code_str(), "source_dirty" | "index_locked" | "merge_in_progress")
}
