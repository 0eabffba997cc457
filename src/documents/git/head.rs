//! The current branch, its newest commit, and unfinished operations.

use crate::base::{BlobId, Error, Result};
use crate::documents::git::failure::{MERGE_IN_PROGRESS, damaged};
use crate::documents::git::{Repo, blocking};

/// The code of a repository with no branch checked out.
pub const DETACHED_HEAD: &str = "detached_head";
/// The code of a branch without a commit.
pub const UNBORN_HEAD: &str = "unborn_head";

/// Files and folders in the git folder that indicate an unfinished operation.
const BUSY: &[(&str, &str)] = &[
    ("MERGE_HEAD", "a merge"),
    ("BISECT_LOG", "a bisect"),
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase or `git am`"),
    ("sequencer", "a cherry-pick or revert"),
];
/// The same as names of commits: some ref backends have no files for these.
const BUSY_COMMITS: &[(&str, &str)] =
    &[("CHERRY_PICK_HEAD", "a cherry-pick"), ("REVERT_HEAD", "a revert")];

/// The current branch and its newest commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The branch's full name, `refs/heads/…`.
    pub branch: String,
    /// Its newest commit.
    pub commit: BlobId,
}

impl Repo {
    /// Returns the current branch and its newest commit.
    ///
    /// # Errors
    /// `conflict` with code `detached_head` or `unborn_head`; `unavailable` with code
    /// `repository_damaged` if the commit cannot be read.
    pub async fn head(&self) -> Result<Head> {
        let branch = self.branch().await?.ok_or_else(detached)?;
        let commit = self.tip(&branch).await?;
        self.head_of(branch, commit).await
    }

    /// Refuses during a merge, rebase, cherry-pick, revert or bisect.
    ///
    /// # Errors
    /// `conflict` with code `merge_in_progress`.
    pub async fn refuse_busy(&self) -> Result<()> {
        if self.papers().is_some() {
            return Ok(());
        }
        self.refuse_stopped().await?;
        let names: Vec<&str> = BUSY_COMMITS.iter().map(|(name, _)| *name).collect();
        refuse_commits(&self.commits(&names).await?)
    }

    /// Does both with as few calls as possible: unfinished operations first, because one may be the
    /// reason for a detached head.
    ///
    /// # Errors
    /// Same as [`Repo::refuse_busy`] and [`Repo::head`].
    pub async fn head_at_rest(&self) -> Result<Head> {
        if let Some(papers) = self.papers() {
            return Ok(papers.head(self));
        }
        self.refuse_stopped().await?;
        let branch = self.branch().await?;
        let mut names: Vec<&str> = BUSY_COMMITS.iter().map(|(name, _)| *name).collect();
        names.extend(branch.as_deref());
        let mut commits = self.commits(&names).await?;
        let tip = if branch.is_some() { commits.pop().flatten() } else { None };
        refuse_commits(&commits)?;
        self.head_of(branch.ok_or_else(detached)?, tip).await
    }

    /// Returns the full name of the current branch, if one is checked out.
    pub(in crate::documents) async fn branch(&self) -> Result<Option<String>> {
        let answer = self.git().call(&["symbolic-ref", "--quiet", "HEAD"]).run().await?;
        if answer.code == 1 {
            return Ok(None);
        }
        let branch = answer.line()?;
        Ok(Some(branch).filter(|it| it.starts_with("refs/heads/")))
    }

    /// Returns the newest commit of a branch, if it has one.
    pub(in crate::documents) async fn tip(&self, branch: &str) -> Result<Option<BlobId>> {
        Ok(self.commits(&[branch]).await?.pop().flatten())
    }

    /// Returns the commits with these names; `None` for a name without commit.
    async fn commits(&self, names: &[&str]) -> Result<Vec<Option<BlobId>>> {
        let asked: String = names.iter().map(|it| format!("{it}^{{commit}}\n")).collect();
        let call = self.git().call(&["cat-file", "--batch-check=%(objectname)"]);
        let told = call.stdin(asked).line().await?;
        let commits: Vec<Option<BlobId>> = told.lines().map(|it| it.parse().ok()).collect();
        match commits.len() == names.len() {
            true => Ok(commits),
            false => Err(Error::internal("git cat-file answered about other names than requested")),
        }
    }

    async fn refuse_stopped(&self) -> Result<()> {
        let git_dir = self.shared.git_dir.clone();
        let stopped = blocking(move || {
            BUSY.iter().find(|(name, _)| git_dir.join(name).symlink_metadata().is_ok())
        });
        stopped.await?.map_or(Ok(()), |(_, what)| Err(busy(what)))
    }

    async fn head_of(&self, branch: String, commit: Option<BlobId>) -> Result<Head> {
        if let Some(commit) = commit {
            return Ok(Head { branch, commit });
        }
        // Either the branch does not exist yet, or its commit cannot be read.
        let named = ["rev-parse", "--verify", "--quiet", "--end-of-options", &branch];
        let is_named = self.git().call(&named).run().await?.code == 0;
        let file = self.shared.common.join(&branch);
        if is_named || blocking(move || file.is_file()).await? {
            return Err(damaged(format!("the commit of {branch} cannot be read")));
        }
        Err(Error::conflict(UNBORN_HEAD, format!("{branch} has no commit yet"))
            .hint("make a first commit"))
    }
}

fn detached() -> Error {
    Error::conflict(DETACHED_HEAD, "no branch is checked out")
        .hint("check out the branch that should get the commits: `git switch BRANCH`")
}

fn refuse_commits(commits: &[Option<BlobId>]) -> Result<()> {
    let found = BUSY_COMMITS.iter().zip(commits).find(|(_, commit)| commit.is_some());
    found.map_or(Ok(()), |((_, what), _)| Err(busy(what)))
}

fn busy(what: &str) -> Error {
    Error::conflict(MERGE_IN_PROGRESS, format!("{what} is in progress"))
        .hint("finish or abort it first; `git status` says how")
}
