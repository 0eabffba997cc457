//! Whether changes of one job are those of another as well.

use crate::base::{JobId, Result};
use crate::documents::changes::{Changes, FileChange, PrivateChange, RefChange, Wish, between};
use crate::documents::git::{GitFolder, Repo};
use crate::documents::snapshot::{GIT, Kept};

impl Changes {
    /// Returns the files that steer agents, also of changes that were read from their row. `named`
    /// are files and folders by which a script steers its agents.
    pub fn steering_files<'a>(
        &'a self,
        named: &'a [String],
    ) -> impl Iterator<Item = &'a FileChange> {
        self.files.iter().filter(|it| {
            let is_listed = self.steering.contains(&it.path) || self.agent_files.contains(&it.path);
            is_listed || it.steers(named)
        })
    }

    /// Returns those of git's own files that start other programs since.
    pub fn steering_private(&self) -> impl Iterator<Item = &PrivateChange> {
        self.private.iter().filter(|it| it.steers())
    }

    /// Returns whether everything that steers agents is as it was before the job, also if a person
    /// has put it back, and was in no commit since.
    ///
    /// # Errors
    /// As [`Changes::restore`].
    pub async fn steers_as_before(
        &self,
        (repo, kept): (&Repo, &Kept),
        job: &JobId,
        named: &[String],
    ) -> Result<bool> {
        let files: Vec<String> = self.steering_files(named).map(|it| it.path.clone()).collect();
        for it in &self.refs {
            // A worktree of that branch would have them still.
            let is_steady = match (&it.before, &it.after) {
                (Some(was), Some(is)) => {
                    let moved = between(repo, Some(was), Some(is)).await?;
                    !files.iter().any(|path| moved.contains_key(path))
                }
                (None, Some(_)) => false,
                (_, None) => true,
            };
            if !is_steady {
                return Ok(false);
            }
        }
        let private = self.steering_private().map(|it| format!(".git/{}", it.name));
        let folder = self.folder.iter().map(|_| GIT.to_owned());
        let names: Vec<String> = folder.chain(private).chain(files).collect();
        if names.is_empty() || self.more > 0 {
            return Ok(false);
        }
        let wish = Wish { job: job.clone(), names, with_commits: false, is_rehearsal: true };
        Ok(self.restore(repo, kept, &wish).await?.is_done())
    }

    /// Returns whether all that these changes led to is what others led to as well.
    pub fn are_within(&self, others: &Changes) -> bool {
        let tip = self.tip.as_ref().map(|it| &it.1);
        let has_file = |it: &FileChange| {
            others.files.iter().any(|other| (&other.path, &other.after) == (&it.path, &it.after))
        };
        let has_ref = |it: &RefChange| {
            others.refs.iter().any(|other| {
                (&other.name, &other.after, &other.entries_after)
                    == (&it.name, &it.after, &it.entries_after)
            })
        };
        let has_private = |it: &PrivateChange| {
            others.private.iter().any(|other| (&other.name, &other.after) == (&it.name, &it.after))
        };
        let has_folder =
            |it: &GitFolder| others.folder.as_ref().is_some_and(|other| other.1.is_same(it));
        self.more == 0
            && self.folder.as_ref().is_none_or(|it| has_folder(&it.1))
            && (tip.is_none() || tip == others.tip.as_ref().map(|it| &it.1))
            && self.files.iter().all(has_file)
            && self.refs.iter().all(has_ref)
            && self.private.iter().all(has_private)
    }
}
