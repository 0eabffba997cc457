//! One change of one Source, and its state in a commit, the index and the working tree.

use std::time::SystemTime;

use crate::base::fault::{self, crash_point};
use crate::base::limit::SOURCE_BYTES_MAX;
use crate::base::{BlobId, Error, ErrorKind, Result, SourcePath};
use crate::documents::commit::replaced::Aside;
use crate::documents::git::{Repo, TreeEntry, blocking};
use crate::documents::sources::creation::exists;
use crate::documents::sources::writable::dirty;
use crate::process::{Replacement, Root, SOURCE_GONE, Spare};

/// A Source with its old and new version.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) path: SourcePath,
    pub(super) base_blob: BlobId,
    pub(super) proposed_blob: BlobId,
}

/// What a commit contains at the change's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The version for which the proposal was made.
    Base,
    /// The proposed version.
    Proposed,
    /// Anything else.
    Other,
}

/// One step of working file and index.
pub(super) struct Step<'a> {
    /// The content before.
    pub(super) from: &'a [u8],
    /// The content after.
    pub(super) to: &'a [u8],
    /// The commits that contain them.
    pub(super) commits: (&'a BlobId, &'a BlobId),
}

impl Change {
    /// Returns whether the change creates the Source.
    pub(super) fn is_new(&self) -> bool {
        self.base_blob.is_absent()
    }

    /// Returns what a commit contains.
    pub(super) async fn place(&self, repo: &Repo, commit: &BlobId) -> Result<Place> {
        Ok(self.place_of(repo.blob_at(commit, &self.path).await?))
    }

    /// Classifies an entry of a commit's tree.
    pub(super) fn place_of(&self, entry: Option<TreeEntry>) -> Place {
        let is_file = |it: &TreeEntry| matches!(it.mode.as_str(), "100644" | "100755" | "100664");
        if entry.is_none() && self.is_new() {
            return Place::Base;
        }
        match entry.filter(is_file) {
            None => Place::Other,
            Some(it) if it.blob == self.proposed_blob => Place::Proposed,
            Some(it) if it.blob == self.base_blob || fault::is_off("approval_base") => Place::Base,
            Some(_) => Place::Other,
        }
    }

    /// Refuses a commit that does not contain the proposed version, read back completely.
    ///
    /// # Errors
    /// `unavailable` with code `object_mismatch`, or `repository_damaged`.
    pub(super) async fn prove(&self, repo: &Repo, commit: &BlobId) -> Result<()> {
        if self.place(repo, commit).await? != Place::Proposed {
            return Err(Error::internal(format!("commit {commit} holds another {}", self.path)));
        }
        repo.proven(std::slice::from_ref(&self.proposed_blob)).await.map(drop)
    }

    /// Moves working file and index from the base to the proposed text, after a crash. Parts that
    /// are done already stay; if it cannot be completed, everything is undone.
    pub(super) async fn step(&self, repo: &Repo, aside: &Aside, step: Step<'_>) -> Result<()> {
        let entry = repo.entry(&self.path).await?;
        let is_staged = entry.as_ref().is_some_and(|it| it.blob == self.proposed_blob);
        if self.is_new() {
            if entry.is_some_and(|it| it.is_unmerged || it.blob != self.proposed_blob) {
                return Err(exists(&self.path));
            }
        } else {
            let entry = entry.filter(|it| !it.is_unmerged).ok_or_else(|| dirty(&self.path))?;
            if entry.blob != self.base_blob && !is_staged {
                return Err(dirty(&self.path));
            }
        }
        // The file comes before the index: edits made on top of it stay.
        let is_written = (is_staged && !self.is_new())
            || self.working_blob(repo).await?.as_ref() == Some(&self.proposed_blob);
        self.make(repo, aside, step, is_written).await
    }

    /// Like [`Change::step`], for a known state: first the file, which may be refused, then the
    /// index.
    pub(super) async fn make(
        &self,
        repo: &Repo,
        aside: &Aside,
        step: Step<'_>,
        is_written: bool,
    ) -> Result<()> {
        let mut was = None;
        if !is_written {
            let expected = if fault::is_off("approval_dirty") { None } else { Some(step.from) };
            was = self.write(repo, aside, (expected, step.to)).await?;
        }
        crash_point("approve_file");
        let (old, new) = step.commits;
        if let Err(refusal) = repo.step_index(old, new).await {
            if !is_written {
                // Ours until a moment ago: whoever changed it meanwhile keeps their edit.
                match self.put_back(repo, aside, step.to, was).await {
                    Ok(true) => {}
                    Ok(false) => tracing::warn!("{} was changed and is left", self.path),
                    Err(cause) => {
                        tracing::warn!("{} is not put back: {}", self.path, cause.chain());
                    }
                }
            }
            return Err(refusal);
        }
        self.refresh(repo).await;
        Ok(())
    }

    /// Makes git re-read the file's metadata.
    pub(super) async fn refresh(&self, repo: &Repo) {
        if let Err(cause) = repo.refresh(&self.path).await {
            // Git will read the file once more; another git may hold the index.
            tracing::debug!("{} is not refreshed: {}", self.path, cause.chain());
        }
    }

    /// Writes the proposed text to the file; returns the previous modification time, if it existed.
    async fn write(
        &self,
        repo: &Repo,
        aside: &Aside,
        (from, to): (Option<&[u8]>, &[u8]),
    ) -> Result<Option<SystemTime>> {
        let (root, path, aside) = (repo.root().clone(), self.path.clone(), aside.clone());
        let (from, to) = (from.map(<[u8]>::to_vec), to.to_vec());
        if self.is_new() {
            let made = blocking(move || root.create(&path, &aside.spare, &to)).await?;
            return match made.map_err(|cause| self.blocked(cause))? {
                true => Ok(None),
                false => Err(exists(&self.path)),
            };
        }
        let written = blocking(move || {
            let data = Root::open(&aside.data)?;
            let (path, spare) = (&path, aside.spare.as_str());
            let (from, keep) = (from.as_deref(), Some((&data, aside.kept.as_path())));
            root.replace(Replacement { path, spare, from, to: &to, keep, modified: None })
        });
        written.await?.map(Some)
    }

    /// Removes the proposed text from the working tree: the file that it replaced comes back with
    /// later writes to it, or the base is rewritten with its old time. Returns whether it did; a
    /// file that is not exactly as we wrote it stays.
    pub(super) async fn put_back(
        &self,
        repo: &Repo,
        aside: &Aside,
        text: &[u8],
        modified: Option<SystemTime>,
    ) -> Result<bool> {
        let (root, path, at) = (repo.root().clone(), self.path.clone(), aside.clone());
        let ours = text.to_vec();
        if self.is_new() {
            let removed = blocking(move || root.remove_same(&path, &at.spare, &ours)).await?;
            return removed.map_err(|cause| self.blocked(cause));
        }
        let taken = blocking(move || {
            let data = Root::open(&at.data)?;
            root.take_back(&path, (&data, &at.kept), &ours)
        });
        if let Some(is_back) = taken.await?? {
            return Ok(is_back);
        }
        let base = repo.read_blob(&self.base_blob, SOURCE_BYTES_MAX).await?;
        let (root, path, at) = (repo.root().clone(), self.path.clone(), aside.clone());
        let ours = text.to_vec();
        let written = blocking(move || {
            let (path, spare, from) = (&path, at.spare.as_str(), Some(ours.as_slice()));
            root.replace(Replacement { path, spare, from, to: &base, keep: None, modified })
        });
        match written.await? {
            Ok(_) => Ok(true),
            Err(refusal) if matches!(refusal.kind(), ErrorKind::Conflict | ErrorKind::NotFound) => {
                Ok(false)
            }
            Err(cause) => Err(cause),
        }
    }

    /// Maps the error of something other than a folder in the path of a new Source.
    fn blocked(&self, cause: Error) -> Error {
        match cause.kind() {
            ErrorKind::NotFound | ErrorKind::Invalid => exists(&self.path).source(cause),
            _ => cause,
        }
    }

    /// Settles a spare file that a crash may have left beside the Source.
    pub(super) async fn settle_spare(
        &self,
        repo: &Repo,
        aside: &Aside,
        text: &[u8],
    ) -> Result<Spare> {
        let (root, path, spare) = (repo.root().clone(), self.path.clone(), aside.spare.clone());
        let (at, beside) = (root.clone(), path.clone());
        let (name, ours) = (spare.clone(), text.to_vec());
        if !blocking(move || at.has_spare(&beside, &name)).await? {
            return Ok(Spare::None);
        }
        if self.is_new() {
            return blocking(move || root.settle_made(&path, &spare, &ours)).await?;
        }
        let base = repo.read_blob(&self.base_blob, SOURCE_BYTES_MAX).await?;
        let settled = blocking(move || root.settle_spare(&path, &spare, (&ours, &[&base])));
        settled.await?
    }

    /// Repairs what release 0.1, whose git wrote the working file, may have left: no file, or the
    /// beginning of the proposed text. Returns whether the step is possible now. Nothing is lost:
    /// every byte is in the repository.
    pub(super) async fn mend(&self, repo: &Repo, text: &[u8]) -> Result<bool> {
        let entry = repo.entry(&self.path).await?;
        let Some(entry) = entry.filter(|it| !it.is_unmerged && it.blob == self.base_blob) else {
            return Ok(false);
        };
        let written = match repo.read_working(&self.path, SOURCE_BYTES_MAX).await {
            Ok((bytes, _)) => Some(bytes),
            Err(error) if error.code_str() == SOURCE_GONE => None,
            Err(_) => return Ok(false),
        };
        if written.as_ref().is_some_and(|it| repo.hash(it) == self.base_blob) {
            return Ok(true);
        }
        if written.as_deref() == Some(text) {
            repo.set_entry(&self.path, &entry.mode, &self.proposed_blob).await?;
            return Ok(true);
        }
        if written.is_none_or(|it| text.starts_with(&it)) {
            repo.restore(&self.path).await?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Returns the version of the working file; `None` if it is missing or not a plain file.
    pub(super) async fn working_blob(&self, repo: &Repo) -> Result<Option<BlobId>> {
        match repo.read_working(&self.path, SOURCE_BYTES_MAX).await {
            Ok((bytes, _)) => Ok(Some(repo.hash(&bytes))),
            // Anything else is not ours.
            Err(_) => Ok(None),
        }
    }
}
