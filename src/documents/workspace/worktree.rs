//! Worktrees for instances: created under a common lock, and removed once their work is saved.

use camino::Utf8Path;
use tracing::warn;

use crate::base::{BlobId, Context, Error, ErrorKind, JobId, Result, fault};
use crate::documents::git::{Repo, blocking};
use crate::documents::workspace::keep;
use crate::documents::workspace::tree::{MARK, Tree};

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
    /// Nothing: what cannot be saved stays where it is, and a worktree that is missing is an error.
    Nothing,
    /// Only a worktree that is missing: an interrupted removal, or a hook, has removed it.
    Missing,
    /// Anything that cannot be saved, at a person's request.
    Unkept,
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
    if let Err(cause) = tree.call(&["reset", "--hard", "--quiet"]).await?.writing().output().await {
        // Nobody has worked in it, and it may be what fills the disk: nothing could be recorded,
        // and so nothing removed, until somebody else makes room.
        if let Err(left) = tree.remove().await {
            warn!("a worktree that could not be made is left: {}", left.chain());
        }
        return Err(cause);
    }
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
/// `conflict` with code `not_kept` (with the reason), `not_ours` or `worktree_missing`: nothing was
/// removed then.
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
        return not_ours(format!("the worktree of job {job} was moved to {now}")).map_err(|it| {
            it.hint(format!(
                "save what you need, then run `git worktree remove --force --force '{now}'`"
            ))
        });
    }
    if !is_ours {
        return not_ours(format!("another site made {path}")).map_err(|it| {
            it.hint("if the data folder was copied, remove the worktree there or by hand")
        });
    }
    let is_missing = !is_there && base.is_some();
    if is_missing
        && is_known
        && discard != Discard::Unkept
        && let Some(now) = tree.moved_to().await?
    {
        return not_ours(format!("the worktree of job {job} was moved to {now}")).map_err(|it| {
            it.hint(format!("save what you need, then run `wiki-browser workspace remove {job}`"))
        });
    }
    if is_missing && discard == Discard::Nothing {
        return Err(missing(path, job));
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

/// Returns the error for a worktree that is not where it was made.
pub fn missing(path: &Utf8Path, job: &JobId) -> Error {
    let message = format!("{path} is missing, so what was not committed in it cannot be saved");
    Error::conflict("worktree_missing", message).hint(format!(
        "move it back if somebody moved it; otherwise run `wiki-browser workspace remove {job}`"
    ))
}
