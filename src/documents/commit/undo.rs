//! Undoes the step of an approval: file and index are restored independently, where they are ours.
//!
//! **Invariant:** what somebody else wrote or staged since stays, and the report is exact.

use crate::base::{BlobId, Result, SourcePath};
use crate::documents::commit::place::{Change, Place};
use crate::documents::commit::replaced::Aside;
use crate::documents::git::{GIT_FAILED, IndexEntry, REPOSITORY_DAMAGED, Repo};
use crate::process::SOURCE_DIRTY;

/// The result of undoing a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Undone {
    file: Fate,
    index: Fate,
}

/// What became of the file, or of its index entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It contained nothing of ours.
    Untouched,
    /// It is restored.
    PutBack,
    /// Somebody changed it on top of ours: it was left alone.
    Left,
}

impl Undone {
    /// Returns whether nothing of ours is left.
    pub(super) fn is_whole(self) -> bool {
        self.file != Fate::Left && self.index != Fate::Left
    }

    /// Returns the text for the journal's note.
    pub(super) fn note(self, path: &SourcePath) -> String {
        let done = match (self.file, self.index) {
            (Fate::PutBack, Fate::PutBack) => "; index and working tree were put back",
            (Fate::PutBack, _) => "; the file was put back",
            (_, Fate::PutBack) => "; the index was put back",
            _ => "",
        };
        let file = match self.file {
            Fate::Left => format!("; {path} was changed meanwhile and is left as it is"),
            _ => String::new(),
        };
        let index = match self.index {
            Fate::Left => "; the proposed text is left in the index",
            _ => "",
        };
        format!("{done}{file}{index}")
    }
}

impl Change {
    /// Undoes the step as far as it was made, where file and index are still as we left them.
    pub(super) async fn undo(
        &self,
        repo: &Repo,
        (aside, text): (&Aside, &[u8]),
        ends: (&BlobId, &BlobId),
    ) -> Result<Undone> {
        let entry = repo.entry(&self.path).await?;
        let stands = self.working_blob(repo).await?;
        let nothing = Undone { file: Fate::Untouched, index: Fate::Untouched };
        let is_ours = stands.as_ref() == Some(&self.proposed_blob);
        let staged = entry.filter(|it| !it.is_unmerged && it.blob == self.proposed_blob);
        if !is_ours && staged.is_none() {
            return Ok(nothing);
        }
        if let Some(head) = repo.tip("HEAD").await?
            && self.place(repo, &head).await? == Place::Proposed
        {
            // The checked-out commit contains the text itself: everything is right as it is.
            return Ok(nothing);
        }
        let is_gone = stands.is_none();
        let file = match is_ours {
            // The file first: it may be refused, and the index is useless without it.
            true if self.put_back(repo, aside, text, None).await? => Fate::PutBack,
            true => Fate::Left,
            false if is_gone || stands.as_ref() == Some(&self.base_blob) => Fate::Untouched,
            false => Fate::Left,
        };
        let index = match staged {
            Some(entry) => self.unstage(repo, &entry, ends).await?,
            None => Fate::Untouched,
        };
        self.refresh(repo).await;
        Ok(Undone { file, index })
    }

    /// Removes the proposed version from the index.
    async fn unstage(
        &self,
        repo: &Repo,
        entry: &IndexEntry,
        (base, new): (&BlobId, &BlobId),
    ) -> Result<Fate> {
        match repo.step_index(new, base).await {
            Ok(()) => Ok(Fate::PutBack),
            Err(refusal) if refusal.code_str() == SOURCE_DIRTY => Ok(Fate::Left),
            Err(cause) if matches!(cause.code_str(), REPOSITORY_DAMAGED | GIT_FAILED) => {
                // One of the commits may be gone: no branch refers to ours, and git may prune it.
                tracing::debug!("the index goes back without commits: {}", cause.chain());
                let mode = if self.is_new() { "0" } else { entry.mode.as_str() };
                let line = format!("{mode} {}\t{}\0", self.base_blob, repo.git_path(&self.path));
                repo.write_entries(line.into_bytes()).await?;
                Ok(Fate::PutBack)
            }
            Err(cause) => Err(cause),
        }
    }
}
