//! Approves an in-memory text, for tests of a script, which have no repository.
//!
//! **Invariant:** only git is replaced. The journal, the check in its transaction, and what becomes
//! true with the commit are the same as for every approval.

use std::collections::BTreeMap;

use crate::base::{Error, Result};
use crate::documents::commit::place::Place;
use crate::documents::commit::survey::{gone_is_conflict, stale};
use crate::documents::commit::{Approving, Committed, settle_row};
use crate::documents::git::Papers;

impl Approving {
    /// Commits the text to the texts in memory.
    ///
    /// # Errors
    /// Same as every approval.
    pub(super) async fn on_paper(&self, papers: &Papers) -> Result<Committed> {
        let (repo, path) = (&self.repo, &self.change.path);
        let head = repo.head_at_rest().await?;
        match self.change.place_of(papers.entry(repo, path)) {
            Place::Proposed => return self.settle_already(&head).await,
            Place::Base if self.change.is_new() => repo.refuse_uncreatable(path).await?,
            Place::Base => repo.refuse_unwritable(path).await.map_err(gone_is_conflict)?,
            Place::Other => {
                repo.refuse_unwritable(path).await.map_err(gone_is_conflict)?;
                return Err(stale(path));
            }
        }
        let new = papers.next_commit(repo);
        self.prepare(self.attempt(&head, &new)).await?;
        let files = BTreeMap::from([(path.clone(), Some(self.approval.text.clone()))]);
        let persons = (&self.approval.author, &self.approval.committer);
        let made = repo.put_commit(&files, persons, &self.approval.message)?;
        if made.id != new {
            return Err(Error::internal("a commit of a test came between"));
        }
        let committed = Committed { commit: new, branch: head.branch, already: false };
        settle_row(&self.store, &self.settle, self.settled(committed.clone()), None).await?;
        Ok(committed)
    }
}
