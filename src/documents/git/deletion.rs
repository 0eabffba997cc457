//! Deleted Sources and the commits that deleted them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::api::sources::Deletion;
use crate::base::{BlobId, Error, Result, SourcePath};
use crate::documents::git::{Repo, blocking};
use crate::documents::sources::source::LIST_HINT;
use crate::process::SOURCE_GONE;

/// Most commits cached.
const KEPT_MAX: usize = 1_000;

/// Deleting commits of Sources, as seen from one head; `None` if git cannot name it.
type OfHead = (BlobId, HashMap<SourcePath, Option<BlobId>>);

/// A cache of deletions.
#[derive(Default)]
pub(super) struct Deletions {
    known: Mutex<Option<OfHead>>,
}

impl Repo {
    /// Returns whether the working tree has a file at a path.
    ///
    /// # Errors
    /// `internal` if reading the disk panicked.
    pub async fn is_there(&self, path: &SourcePath) -> Result<bool> {
        if let Some(papers) = self.papers() {
            return Ok(self.paper(papers, path).is_ok());
        }
        let (root, path) = (self.root().clone(), path.clone());
        blocking(move || root.facts(&path).is_ok()).await
    }

    /// Returns how a Source was deleted; `None` if it exists, or cannot be read for another reason.
    ///
    /// # Errors
    /// `unavailable` if git fails.
    pub async fn deletion(&self, path: &SourcePath) -> Result<Option<Deletion>> {
        if self.papers().is_some() || self.is_there(path).await? {
            return Ok(None);
        }
        match self.present(path).await {
            // With another hint, the file is only excluded by a sparse checkout.
            Err(cause)
                if cause.code_str() == SOURCE_GONE && cause.hint_str() == Some(LIST_HINT) => {}
            _ => return Ok(None),
        }
        let uncommitted = Deletion { is_committed: false, commit: None };
        let Some(head) = self.tip("HEAD").await? else { return Ok(Some(uncommitted)) };
        if self.blob_at(&head, path).await?.is_some() {
            return Ok(Some(uncommitted));
        }
        let commit = self.deleting_commit(&head, path).await;
        Ok(Some(Deletion { is_committed: true, commit }))
    }

    /// Returns the commit that deleted a Source missing in `head`, if git finds it in time.
    async fn deleting_commit(&self, head: &BlobId, path: &SourcePath) -> Option<BlobId> {
        let known = || self.shared.deletions.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, of_head)) = known().as_ref().filter(|(of, _)| of == head)
            && let Some(commit) = of_head.get(path)
        {
            return commit.clone();
        }
        let found = async {
            let Some(newest) = self.history_from(head, path, 1).await?.pop() else {
                return Ok(None);
            };
            let is_deletion = self.blob_at(&newest.commit, path).await?.is_none();
            Ok::<_, Error>(is_deletion.then_some(newest.commit))
        };
        let commit = match found.await {
            Ok(commit) => commit,
            Err(cause) => {
                tracing::warn!("the commit that deleted {path} is not known: {}", cause.chain());
                return None;
            }
        };
        let mut known = known();
        let of_head = match known.take() {
            Some((of, of_head)) if of == *head && of_head.len() < KEPT_MAX => of_head,
            _ => HashMap::new(),
        };
        let (_, of_head) = known.insert((head.clone(), of_head));
        of_head.insert(path.clone(), commit.clone());
        commit
    }
}
