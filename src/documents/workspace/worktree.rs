//! Worktrees for instances: created under a common lock, and removed once their work is saved.
//!
//! **Invariant:** git is told the worktree's own folder and the common folder: the file `.git`
//! inside, which an agent may have replaced, is never trusted.

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};

use crate::base::{BlobId, Context, Error, ErrorKind, JobId, Result, fault};
use crate::documents::git::{Call, Repo, blocking};
use crate::documents::workspace::keep;
use crate::process::{FileLock, read_small, remove_some};

/// The lock in a repository's common folder: `git worktree add` fails if two run at once.
const LOCK: &str = "wb-worktree.lock";
/// How often a lock held by another server is tried, and the pause between.
const LOCK_TRIES: u32 = 600;
const LOCK_PAUSE: Duration = Duration::from_millis(50);
/// Entries removed before other tasks may run on the same thread.
const ENTRIES_AT_ONCE: usize = 10_000;
/// The file in git's folder of a worktree that tells which site created it.
const MARK: &str = "wiki-browser";
/// Most folders beside a missing worktree that are searched for it.
const BESIDE_MAX: usize = 10_000;
/// Longest `gitdir` file or mark, in bytes.
const GITDIR_BYTES_MAX: u64 = 8 * 1024;

/// A new worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// Its commit.
    pub base: BlobId,
    /// The requested folder inside of it; empty for its top.
    pub prefix: String,
}

/// A request for a worktree.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// A folder in its repository, absolute.
    pub folder: &'a Utf8Path,
    /// Its absolute path.
    pub path: &'a Utf8Path,
    /// The root job of the instance that works in it.
    pub job: &'a JobId,
    /// The site that creates and removes it: a copy of the database must not remove another site's.
    pub mark: &'a str,
}

/// What may be lost when a worktree is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discard {
    /// Nothing: what cannot be saved stays where it is.
    Nothing,
    /// Anything that cannot be saved, at a person's request.
    Unkept,
}

/// A worktree as git knows it.
pub(in crate::documents::workspace) struct Tree {
    pub(in crate::documents::workspace) repo: Repo,
    pub(in crate::documents::workspace) path: Utf8PathBuf,
    /// Its folder inside of git's common one.
    pub(in crate::documents::workspace) own: Utf8PathBuf,
}

impl Tree {
    /// Opens the repository of `folder`, which need not be the site's.
    async fn of(site: &Repo, folder: &Utf8Path, path: &Utf8Path) -> Result<Tree> {
        let name = path.file_name().ok_or_else(|| Error::invalid(format!("{path} has no name")))?;
        let repo = site.elsewhere(folder).await?;
        let own = repo.common_dir().join("worktrees").join(name);
        Ok(Tree { repo, path: path.to_owned(), own })
    }

    /// Returns the requested folder inside of it, if it is there.
    fn prefix(&self) -> String {
        let prefix = self.repo.git_prefix();
        if self.path.join(&prefix).is_dir() { prefix } else { String::new() }
    }

    /// Starts a call in the worktree. It sees no configuration of the repository, so that no filter
    /// is run.
    pub(in crate::documents::workspace) async fn call(&self, args: &[&str]) -> Result<Call<'_>> {
        let settings = self.repo.settings().await?;
        let call = self.repo.git().call(args).set("core.sparseCheckout=false");
        let call = call.env("GIT_DIR", self.own.as_str());
        Ok(call.env("GIT_WORK_TREE", self.path.as_str()).on_files(&settings))
    }

    /// Returns the worktree's path according to git's folder of this name.
    async fn told_path(&self) -> Result<Option<String>> {
        let file = self.own.join("gitdir");
        let read = blocking(move || read_small(&file, GITDIR_BYTES_MAX)).await??;
        let told = read.map(|it| String::from_utf8_lossy(&it).trim_end().to_owned());
        Ok(told.filter(|it| !it.is_empty()))
    }

    /// Returns the folder beside its path that is this worktree, if somebody renamed it: git's own
    /// record still has the old path then.
    async fn moved_to(&self) -> Result<Option<Utf8PathBuf>> {
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

    /// Returns whether this site created it, or died before it could record so.
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

    /// Removes the worktree's files, then git's record of it.
    async fn remove(&self) -> Result<()> {
        remove_all(&self.path).await?;
        let _turn = self.repo.worktree_turn().await;
        let _lock = self.lock().await?;
        remove_all(&self.own).await
    }
}

/// Creates a worktree of the repository of `folder` at `path`, with the commit checked out there
/// and no branch. The files are written outside of the lock.
///
/// # Errors
/// `conflict` with code `workspace_exists` if something exists at the path; `unavailable` if git
/// fails.
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
    Ok(Made { base, prefix: tree.prefix() })
}

/// Returns the requested folder inside of a worktree; empty for its top.
///
/// # Errors
/// Same as [`make`], if the repository cannot be opened.
pub async fn prefix(site: &Repo, (folder, path): (&Utf8Path, &Utf8Path)) -> Result<String> {
    Tree::of(site, folder, path).await.map(|it| it.prefix())
}

/// Removes a worktree. What differs from `base`, or was committed since, is first saved under a
/// ref, which is returned. Without a base it was never ready, and nobody has worked in it.
///
/// # Errors
/// `conflict` with code `not_kept` (with the reason) or `not_ours`: nothing was removed then.
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
    // Git would follow a link there, and save what is behind it.
    if found == Some(false) || (is_there && !is_known) {
        return not_ours(format!("{path} is not the worktree of job {job}"))
            .map_err(|it| it.hint("check what it is, and remove it yourself"));
    }
    // After a crash git's own folder may have neither mark nor path yet.
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
    let is_missing = !is_there && is_known && base.is_some() && discard == Discard::Nothing;
    if is_missing && let Some(now) = tree.moved_to().await? {
        return not_ours(format!("the worktree of job {job} was moved to {now}"))
            .map_err(|it| it.hint("save what you need, then run `wiki-browser workspace remove`"));
    }
    let name = format!("refs/wiki-browser/jobs/{job}/work");
    let kept = match base {
        None => Ok(None),
        Some(base) if is_there => keep::keep(&tree, base, &name).await,
        Some(base) if is_known => keep::keep_commits(&tree, base, &name).await,
        // Nothing is left to save; an interrupted removal may have saved it.
        Some(_) => Ok(None),
    };
    let kept = match kept {
        Err(_) if discard == Discard::Unkept => None,
        kept => kept?,
    };
    tree.remove().await?;
    match kept {
        Some(name) => Ok(Some(name)),
        None => Ok(keep::is_kept(&tree, &name).await?.then_some(name)),
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
