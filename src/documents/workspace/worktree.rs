//! A worktree of its own for an instance: made under one lock for all, removed when its work is
//! kept.
//!
//! **Invariant:** git is told where the worktree's own folder is and which common folder counts:
//! the file `.git` inside, which an agent may have replaced, is never believed.

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};

use crate::base::{BlobId, Context, Error, ErrorKind, JobId, Result, fault};
use crate::documents::git::{Call, Repo, blocking};
use crate::documents::workspace::keep;
use crate::process::{FileLock, read_small, remove_some};

/// The lock in the common folder of a repository: `worktree add` fails when two run at once.
const LOCK: &str = "wb-worktree.lock";
/// How often and after which pause a lock that another server holds is tried.
const LOCK_TRIES: u32 = 600;
const LOCK_PAUSE: Duration = Duration::from_millis(50);
/// Entries that are removed before others may run on the same thread.
const ENTRIES_AT_ONCE: usize = 10_000;
/// The file in git's folder of a worktree that says which site made it.
const MARK: &str = "wiki-browser";
/// Longest path of a worktree in git's own file, and longest mark.
const GITDIR_BYTES_MAX: u64 = 8 * 1024;

/// A worktree that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// The commit that it holds.
    pub base: BlobId,
    /// Where in it the folder is that was asked for; empty for its top.
    pub prefix: String,
}

/// A worktree as it is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The folder whose repository it is of, absolute.
    pub folder: &'a Utf8Path,
    /// Where it is, absolute.
    pub path: &'a Utf8Path,
    /// The first leg of the instance that works in it.
    pub job: &'a JobId,
    /// Which site makes and removes it: a copy of the database must not remove what is another's.
    pub mark: &'a str,
}

/// What may be lost when a worktree is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discard {
    /// Nothing: what cannot be kept stays where it is.
    Nothing,
    /// Whatever cannot be kept: a person said so.
    Unkept,
}

/// A worktree as git knows it.
pub(in crate::documents::workspace) struct Tree {
    pub(in crate::documents::workspace) repo: Repo,
    pub(in crate::documents::workspace) path: Utf8PathBuf,
    /// Its folder below git's common one.
    pub(in crate::documents::workspace) own: Utf8PathBuf,
}

impl Tree {
    /// Opens the repository in `folder`, which need not be that of the site.
    async fn of(site: &Repo, folder: &Utf8Path, path: &Utf8Path) -> Result<Tree> {
        let name = path.file_name().ok_or_else(|| Error::invalid(format!("{path} has no name")))?;
        let repo = site.elsewhere(folder).await?;
        let own = repo.common_dir().join("worktrees").join(name);
        Ok(Tree { repo, path: path.to_owned(), own })
    }

    /// Starts a call that works in the worktree. It sees no configuration of the repository: no
    /// filter is run.
    pub(in crate::documents::workspace) async fn call(&self, args: &[&str]) -> Result<Call<'_>> {
        let settings = self.repo.settings().await?;
        let call = self.repo.git().call(args).set("core.sparseCheckout=false");
        let call = call.env("GIT_DIR", self.own.as_str());
        Ok(call.env("GIT_WORK_TREE", self.path.as_str()).on_files(&settings))
    }

    /// Returns where git's folder of this name says that its worktree is.
    async fn told_path(&self) -> Result<Option<String>> {
        let file = self.own.join("gitdir");
        let read = blocking(move || read_small(&file, GITDIR_BYTES_MAX)).await??;
        let told = read.map(|it| String::from_utf8_lossy(&it).trim_end().to_owned());
        Ok(told.filter(|it| !it.is_empty()))
    }

    /// Returns whether this site made it, or died before it could say so.
    async fn is_ours(&self, mark: &str, was_ready: bool) -> Result<bool> {
        let file = self.own.join(MARK);
        let told = blocking(move || read_small(&file, GITDIR_BYTES_MAX)).await??;
        Ok(told.map_or(!was_ready, |it| it == mark.as_bytes()))
    }

    async fn lock(&self) -> Result<FileLock> {
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

    /// Removes the worktree's files, and then what git knows of it.
    async fn remove(&self) -> Result<()> {
        remove_all(&self.path).await?;
        let _turn = self.repo.worktree_turn().await;
        let _lock = self.lock().await?;
        remove_all(&self.own).await
    }
}

/// Makes a worktree of the repository in `folder` at `path`, with the commit that is checked out
/// there and no branch. The files are written outside the lock.
///
/// # Errors
/// `conflict` with code `workspace_exists` if something is at the path; `unavailable` if git fails.
pub async fn make(site: &Repo, wanted: Wanted<'_>) -> Result<Made> {
    let Wanted { folder, path, job, mark } = wanted;
    let above = path.parent().map(Utf8Path::to_owned).unwrap_or_default();
    let at = path.to_owned();
    let is_taken = blocking(move || {
        let made = std::fs::create_dir_all(&above);
        made.context(ErrorKind::Unavailable, || format!("cannot make {above}"))?;
        Ok::<_, Error>(at.symlink_metadata().is_ok())
    });
    if is_taken.await?? {
        return Err(Error::conflict("workspace_exists", format!("{path} already exists")));
    }
    let tree = Tree::of(site, folder, path).await?;
    let head = tree.repo.git().call(&["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]);
    let head = head.run().await?;
    if head.code != 0 {
        return Err(Error::invalid(format!("{folder} has no commit to create a worktree from"))
            .code("no_commit")
            .hint("make a first commit there"));
    }
    let base: BlobId = head.line()?.parse()?;
    {
        let _turn = site.worktree_turn().await;
        let _lock = tree.lock().await?;
        let reason = format!("wiki-browser {job}");
        let add = ["worktree", "add", "--no-checkout", "--detach", "--lock", "--reason"];
        let call = tree.repo.git().call(&add).arg(reason).arg(path.as_str()).arg(base.as_str());
        call.writing().output().await?;
        let (file, mark) = (tree.own.join(MARK), mark.to_owned());
        let written = blocking(move || std::fs::write(&file, mark)).await?;
        written.context(ErrorKind::Unavailable, || format!("cannot write {}", tree.own))?;
    }
    tree.call(&["reset", "--hard", "--quiet"]).await?.writing().output().await?;
    let prefix = tree.repo.git_prefix();
    let is_there = tree.path.join(&prefix).is_dir();
    Ok(Made { base, prefix: if is_there { prefix } else { String::new() } })
}

/// Removes a worktree. What differs from `base`, or was committed since, is kept under a ref
/// before; returns that. Without a base nobody has worked in it: it was never ready.
///
/// # Errors
/// `conflict` with code `not_kept` (and why) or `not_ours`: then nothing was removed.
pub async fn remove(
    site: &Repo,
    wanted: Wanted<'_>,
    base: Option<&BlobId>,
    discard: Discard,
) -> Result<Option<String>> {
    let Wanted { folder, path, job, mark } = wanted;
    let tree = Tree::of(site, folder, path).await?;
    let at = path.to_owned();
    let found = blocking(move || at.symlink_metadata().map(|it| it.is_dir()).ok()).await?;
    let is_there = found.is_some();
    let told = tree.told_path().await?;
    let is_known = told.as_deref() == Some(path.join(".git").as_str());
    let not_ours = |what: String| Err(Error::conflict("not_ours", what));
    // Git would follow a link there, and keep what lies behind it.
    if found == Some(false) || (is_there && !is_known) {
        return not_ours(format!("{path} is not the worktree of job {job}"))
            .map_err(|it| it.hint("check what it is, and remove it yourself"));
    }
    // What a crash left of git's own folder has no mark and no path in it yet.
    let was_ready = base.is_some() && told.is_some();
    let is_ours = tree.is_ours(mark, was_ready).await? || fault::is_off("worktree_mark");
    if let Some(told) = told.filter(|_| !is_known && is_ours) {
        let now = Utf8Path::new(&told).parent().map(Utf8Path::as_str).unwrap_or_default();
        return not_ours(format!("the worktree of job {job} was moved to {now}"))
            .map_err(|it| it.hint("save what you need, then run `git worktree remove`"));
    }
    if !is_ours {
        return not_ours(format!("another site made {path}")).map_err(|it| {
            it.hint("if the data folder was copied, remove the worktree there or by hand")
        });
    }
    let name = format!("refs/wiki-browser/jobs/{job}/work");
    let kept = match base {
        None => Ok(None),
        Some(base) if is_there => keep::keep(&tree, base, &name).await,
        Some(base) if is_known => keep::keep_commits(&tree, base, &name).await,
        // Nothing is left that could be kept; a removal that was cut off may have kept it.
        Some(_) => Ok(None),
    };
    let kept = match kept {
        Err(_) if discard == Discard::Unkept => None,
        kept => kept?,
    };
    tree.remove().await?;
    Ok((kept.is_some() || keep::is_kept(&tree, &name).await?).then_some(name))
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
