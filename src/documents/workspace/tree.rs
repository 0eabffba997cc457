//! A worktree as git knows it: where its files and git's own folder are, whose it is, its removal.
//!
//! **Invariant:** git is told the worktree's own folder and the common folder: the file `.git`
//! inside, which an agent may have replaced, is never trusted.

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};

use crate::base::{Error, Result};
use crate::documents::git::{Call, Repo, blocking, refuse_in_tree};
use crate::process::{FileLock, read_small, remove_some};

/// The code of work that cannot be saved.
pub(super) const NOT_KEPT: &str = "not_kept";

/// The lock in a repository's common folder: `git worktree add` fails if two run at once.
const LOCK: &str = "wb-worktree.lock";
/// How often a lock held by another server is tried, and the pause between.
const LOCK_TRIES: u32 = 600;
const LOCK_PAUSE: Duration = Duration::from_millis(50);
/// Entries removed before other tasks may run on the same thread.
const ENTRIES_AT_ONCE: usize = 10_000;
/// The file in git's folder of a worktree that tells which site created it.
pub(super) const MARK: &str = "wiki-browser";
/// Most folders beside a missing worktree that are searched for it.
const BESIDE_MAX: usize = 10_000;
/// Longest `gitdir` file or mark, in bytes.
const GITDIR_BYTES_MAX: u64 = 8 * 1024;

/// A worktree as git knows it.
pub(super) struct Tree {
    pub(super) repo: Repo,
    pub(super) path: Utf8PathBuf,
    /// Its folder inside of git's common one.
    pub(super) own: Utf8PathBuf,
}

impl Tree {
    /// Opens the repository of `folder`, which need not be the site's.
    pub(super) async fn of(site: &Repo, folder: &Utf8Path, path: &Utf8Path) -> Result<Tree> {
        let name = path.file_name().ok_or_else(|| Error::invalid(format!("{path} has no name")))?;
        let repo = site.elsewhere(folder).await?;
        if repo.top() == site.top() {
            // What is saved would be in another repository than the site's.
            site.refuse_led_away().await?;
        }
        let own = repo.common_dir().join("worktrees").join(name);
        Ok(Tree { repo, path: path.to_owned(), own })
    }

    /// Returns the requested folder inside of it, if it is there.
    pub(super) fn prefix(&self) -> String {
        let prefix = self.repo.git_prefix();
        if self.path.join(&prefix).is_dir() { prefix } else { String::new() }
    }

    /// Starts a call in the worktree. It sees no configuration of the repository, so that no filter
    /// is run.
    pub(super) async fn call(&self, args: &[&str]) -> Result<Call<'_>> {
        refuse_in_tree(&self.path).await?;
        let settings = self.repo.settings().await?;
        let call = self.repo.git().call(args).set("core.sparseCheckout=false");
        let call = call.env("GIT_DIR", self.own.as_str());
        Ok(call.env("GIT_WORK_TREE", self.path.as_str()).on_files(&settings))
    }

    /// Returns the worktree's path according to git's folder of this name.
    pub(super) async fn told_path(&self) -> Result<Option<String>> {
        let file = self.own.join("gitdir");
        let read = blocking(move || read_small(&file, GITDIR_BYTES_MAX)).await??;
        let told = read.map(|it| String::from_utf8_lossy(&it).trim_end().to_owned());
        Ok(told.filter(|it| !it.is_empty()))
    }

    /// Returns the folder beside its path that is this worktree, if somebody renamed it: git's own
    /// record still has the old path then.
    pub(super) async fn moved_to(&self) -> Result<Option<Utf8PathBuf>> {
        let (path, link) = (self.path.clone(), format!("gitdir: {}", self.own));
        blocking(move || {
            let beside = path.parent()?.read_dir_utf8().ok()?;
            let folders = beside.flatten().take(BESIDE_MAX).map(|it| it.path().to_owned());
            folders.filter(|it| *it != path).find(|it| {
                let told = read_small(&it.join(".git"), GITDIR_BYTES_MAX).ok().flatten();
                told.is_some_and(|it| String::from_utf8_lossy(&it).trim_end() == link)
            })
        })
        .await
    }

    /// Returns the mark of the site that created it, if one is recorded.
    pub(super) async fn told_mark(&self) -> Result<Option<String>> {
        let file = self.own.join(MARK);
        let told = blocking(move || read_small(&file, GITDIR_BYTES_MAX)).await??;
        Ok(told.map(|it| String::from_utf8_lossy(&it).into_owned()))
    }

    /// Returns whether this site created it, or died before it could record so.
    pub(super) async fn is_ours(&self, mark: &str, was_ready: bool) -> Result<bool> {
        Ok(self.told_mark().await?.map_or(!was_ready, |it| it == mark))
    }

    pub(super) async fn lock(&self) -> Result<FileLock> {
        let path = self.repo.common_dir().join(LOCK);
        for _ in 0..LOCK_TRIES {
            let lock = path.clone();
            if let Some(held) = blocking(move || FileLock::try_take(&lock)).await?? {
                return Ok(held);
            }
            tokio::time::sleep(LOCK_PAUSE).await;
        }
        Err(Error::unavailable(format!("another program holds {path}")).code("worktree_locked"))
    }

    /// Removes the worktree's files, then git's record of it.
    pub(super) async fn remove(&self) -> Result<()> {
        remove_all(&self.path).await?;
        let _turn = self.repo.worktree_turn().await;
        let _lock = self.lock().await?;
        remove_all(&self.own).await
    }
}

async fn remove_all(path: &Utf8Path) -> Result<()> {
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Error::internal(format!("{path} is not a folder that can be removed")));
    };
    let (above, name) = (above.to_owned(), name.to_owned());
    loop {
        let (above, name) = (above.clone(), name.clone());
        let removed = blocking(move || match above.symlink_metadata() {
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(true),
            _ => remove_some(&above, &name, ENTRIES_AT_ONCE).map(|it| it.is_done),
        });
        if removed.await?? {
            return Ok(());
        }
    }
}

/// Returns the error for work that cannot be saved.
pub(super) fn not_kept(why: String) -> Error {
    Error::conflict(NOT_KEPT, format!("the work is not kept: {why}"))
        .hint("save what you need, then run `wiki-browser workspace remove JOB`")
}
