//! One change of one Source, and where it stands: in a commit, in the index, in the working tree.

use std::time::SystemTime;

use crate::base::fault::{self, crash_point};
use crate::base::limit::SOURCE_BYTES_MAX;
use crate::base::{BlobId, ErrorKind, Result, SourcePath};
use crate::documents::creation::exists;
use crate::documents::git::{Repo, TreeEntry, blocking};
use crate::documents::source::dirty;
use crate::process::{Replacement, Spare};

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
    /// The version that the proposal was made for.
    Base,
    /// The proposed version.
    Proposed,
    /// Anything else.
    Other,
}

/// One step of working file and index, forth or back.
pub(super) struct Step<'a> {
    /// What the file holds.
    pub(super) from: &'a [u8],
    /// What it gets.
    pub(super) to: &'a [u8],
    /// The commits that hold the two.
    pub(super) commits: (&'a BlobId, &'a BlobId),
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
    /// Returns whether the Source comes into being by it.
    pub(super) fn is_new(&self) -> bool {
        self.base_blob.is_absent()
    }

    /// Returns what a commit holds.
    pub(super) async fn place(&self, repo: &Repo, commit: &BlobId) -> Result<Place> {
        Ok(self.place_of(repo.blob_at(commit, &self.path).await?))
    }

    /// Returns what that is that a commit holds.
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

    /// Takes working file and index from one of the two texts to the other. What of it is done
    /// already stays done; if it cannot be done whole, it is as before.
    pub(super) async fn step(&self, repo: &Repo, spare: &str, step: Step<'_>) -> Result<()> {
        let entry = repo.entry(&self.path).await?;
        let (from, to) = (repo.hash(step.from), repo.hash(step.to));
        if self.is_new() {
            if entry.is_some_and(|it| it.is_unmerged || it.blob != self.proposed_blob) {
                return Err(exists(&self.path));
            }
            let stands = self.working_blob(repo).await?;
            let is_written = match to == self.proposed_blob {
                true => stands.as_ref() == Some(&to),
                false => stands.is_none(),
            };
            return self.make(repo, spare, step, is_written).await;
        }
        let entry = entry.filter(|it| !it.is_unmerged).ok_or_else(|| dirty(&self.path))?;
        if entry.blob != from && entry.blob != to {
            return Err(dirty(&self.path));
        }
        let is_written = entry.blob == to || self.working_blob(repo).await?.as_ref() == Some(&to);
        self.make(repo, spare, step, is_written).await
    }

    /// The same where it is known how things stand: first the file, which may be refused, then the
    /// index.
    pub(super) async fn make(
        &self,
        repo: &Repo,
        spare: &str,
        step: Step<'_>,
        is_written: bool,
    ) -> Result<()> {
        let expected = if fault::is_off("approval_dirty") { None } else { Some(step.from) };
        let mut was = None;
        if !is_written {
            was = Some(self.write(repo, spare, (expected, step.to), None).await?);
        }
        crash_point("approve_file");
        let (old, new) = step.commits;
        if let Err(refusal) = repo.step_index(old, new).await {
            if let Some(was) = was {
                // Ours for a moment only: whoever changed it meanwhile keeps what they made.
                let back = (Some(step.to), step.from);
                if let Err(cause) = self.write(repo, spare, back, Some(was)).await {
                    tracing::warn!("{} is not put back: {}", self.path, cause.chain());
                }
            }
            return Err(refusal);
        }
        if let Err(cause) = repo.refresh(&self.path).await {
            // Git will look at the file once more; another git may hold the index.
            tracing::debug!("{} is not refreshed: {}", self.path, cause.chain());
        }
        Ok(())
    }

    async fn write(
        &self,
        repo: &Repo,
        spare: &str,
        (from, to): (Option<&[u8]>, &[u8]),
        modified: Option<SystemTime>,
    ) -> Result<SystemTime> {
        if self.is_new() {
            return self.make_or_remove(repo, spare, (from, to)).await;
        }
        let (root, path, spare) = (repo.root().clone(), self.path.clone(), spare.to_owned());
        let (from, to) = (from.map(<[u8]>::to_vec), to.to_vec());
        blocking(move || {
            let (path, spare) = (&path, spare.as_str());
            root.replace(Replacement { path, spare, from: from.as_deref(), to: &to, modified })
        })
        .await?
    }

    /// Makes the file, or takes it away again; what is not ours stays as it is.
    async fn make_or_remove(
        &self,
        repo: &Repo,
        spare: &str,
        (from, to): (Option<&[u8]>, &[u8]),
    ) -> Result<SystemTime> {
        let (root, path, spare) = (repo.root().clone(), self.path.clone(), spare.to_owned());
        let is_made = repo.hash(to) == self.proposed_blob;
        let text = if is_made { to.to_vec() } else { from.unwrap_or_default().to_vec() };
        let done = blocking(move || match is_made {
            true => root.create(&path, &spare, &text),
            false => root.remove_same(&path, &spare, &text),
        });
        let done = done.await?.map_err(|cause| match cause.kind() {
            // Something else than a folder came on the way.
            ErrorKind::NotFound | ErrorKind::Invalid => exists(&self.path).source(cause),
            _ => cause,
        });
        match (done?, is_made) {
            // What was not there has no time to be given back.
            (true, _) => Ok(SystemTime::UNIX_EPOCH),
            (false, true) => Err(exists(&self.path)),
            (false, false) => Err(dirty(&self.path)),
        }
    }

    /// Takes the step back, if it was made and the file is still exactly as we wrote it.
    pub(super) async fn undo(
        &self,
        repo: &Repo,
        spare: &str,
        (base, new): (&BlobId, &BlobId),
    ) -> Result<Undone> {
        let entry = repo.entry(&self.path).await?.filter(|it| !it.is_unmerged);
        let is_staged = entry.as_ref().is_some_and(|it| it.blob == self.proposed_blob);
        let is_ours = self.working_blob(repo).await?.as_ref() == Some(&self.proposed_blob);
        let is_base = match self.is_new() {
            true => entry.is_none(),
            false => entry.is_some_and(|it| it.blob == self.base_blob),
        };
        if !(is_staged || (is_base && is_ours)) {
            return Ok(Undone::Needless);
        }
        if let Some(head) = repo.tip("HEAD").await?
            && self.place(repo, &head).await? == Place::Proposed
        {
            // What is checked out holds the text itself: the index is right as it is.
            return Ok(Undone::Needless);
        }
        if !is_ours {
            return Ok(Undone::Left);
        }
        let from = repo.read_blob(&self.proposed_blob, SOURCE_BYTES_MAX).await?;
        let to = repo.read_blob(&self.base_blob, SOURCE_BYTES_MAX).await?;
        let step = Step { from: &from, to: &to, commits: (new, base) };
        match self.step(repo, spare, step).await {
            Ok(()) => Ok(Undone::Done),
            Err(refusal) if refusal.code_str() == "source_dirty" => Ok(Undone::Left),
            Err(failure) => Err(failure),
        }
    }

    /// Settles the spare file that a crash may have left beside the Source.
    pub(super) async fn settle_spare(&self, repo: &Repo, spare: &str) -> Result<Spare> {
        let (root, path, spare) = (repo.root().clone(), self.path.clone(), spare.to_owned());
        let (at, beside) = (root.clone(), path.clone());
        let name = spare.clone();
        if !blocking(move || at.has_spare(&beside, &name)).await? {
            return Ok(Spare::None);
        }
        let ours = repo.read_blob(&self.proposed_blob, SOURCE_BYTES_MAX).await?;
        if self.is_new() {
            return blocking(move || root.settle_made(&path, &spare, &ours)).await?;
        }
        let base = repo.read_blob(&self.base_blob, SOURCE_BYTES_MAX).await?;
        let settled = blocking(move || root.settle_spare(&path, &spare, (&ours, &[&base])));
        settled.await?
    }

    /// Mends what release 0.1 may have left, whose git wrote the working file: no file, or the
    /// beginning of the proposed text. Returns whether the
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
