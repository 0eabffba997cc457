//! Saves the work that an agent left in its worktree under a ref before the worktree is removed.
//!
//! **Invariant:** git compares the files themselves. The worktree's own index, which an agent may
//! have told to ignore files, adds what is staged, and names those that a sparse checkout leaves
//! out.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use camino::Utf8Path;

use crate::base::limit::KEPT_WORK_BYTES_MAX;
use crate::base::{BlobId, Error, Result, fault, truncate_chars};
use crate::documents::git::{Call, GIT_FAILED, Person, blocking};
use crate::documents::snapshot::{is_huge, name};
use crate::documents::workspace::commits::lost;
use crate::documents::workspace::index::Index;
use crate::documents::workspace::proof::{UNREADABLE, require_readable};
use crate::documents::workspace::tree::{NOT_KEPT, Tree, not_kept};
use crate::process::Scratch;

/// Longest listing of changed files, in bytes.
const LISTING_BYTES_MAX: usize = crate::base::limit::GIT_LISTING_BYTES_MAX;

/// Characters kept of git's error messages.
const SAID_CHARS_MAX: usize = 300;
/// The messages of the commits that save what is in no commit yet.
const OF_FILES: &str = "Work that was left in a worktree\n";
const OF_INDEX: &str = "What was staged in that worktree\n";
/// Most names under which the work of one worktree is saved.
const KEPT_MAX: u32 = 10;

/// Saves what differs from `base` under a ref and reads it back; returns the name of the ref, or
/// `None` if nothing differs. Ignored files are skipped. Commits no longer reachable from HEAD
/// become additional parents, as does what is staged and not in the files.
///
/// # Errors
/// `conflict` with code `not_kept` if it is too much, or in a nested repository; `unavailable` if
/// git fails.
pub(in crate::documents::workspace) async fn keep(
    tree: &Tree,
    base: &BlobId,
    name: &str,
) -> Result<Option<String>> {
    let kept = match keep_once(tree, base, name).await {
        // A `git gc` before the ref was written may have removed new objects: write them again.
        Err(failure) if failure.code_str() == UNREADABLE => keep_once(tree, base, name).await,
        kept => kept,
    };
    kept.map_err(as_not_kept)
}

async fn keep_once(tree: &Tree, base: &BlobId, name: &str) -> Result<Option<String>> {
    let head = head_of(tree, base).await?;
    refuse_repository(tree).await?;
    let mut ends = lost(tree, &[base, &head]).await?;
    refuse_large(tree, base, (&head, &ends)).await?;
    let scratch = Scratch::open("wiki-browser-keep-")?;
    let index = Index::copy(tree, scratch.path()).await?;
    let written = write_tree(tree, (base, &head), &index, &scratch.path().join("index")).await?;
    let staged = index.tree().await?.filter(|it| *it != written);
    ends.extend(staged_commit(tree, staged, (base, &head, &ends), name).await?);
    if head == *base && ends.is_empty() && written == tree_of(tree, base).await? {
        return Ok(None);
    }
    let commit = match ends.is_empty() && written == tree_of(tree, &head).await? {
        true => head,
        false => join(tree, &written, &[&[head], &ends[..]].concat(), OF_FILES).await?,
    };
    refuse_large(tree, base, (&commit, &[])).await?;
    store(tree, &commit, base, name).await.map(Some)
}

/// Saves the commits of a worktree whose folder is gone, and what is staged in it, unless a ref has
/// them; returns the name of the ref.
///
/// # Errors
/// Same as [`keep`].
pub(in crate::documents::workspace) async fn keep_commits(
    tree: &Tree,
    base: &BlobId,
    name: &str,
) -> Result<Option<String>> {
    let head = head_of(tree, base).await?;
    // An interrupted removal may already have saved them.
    let unreached = ["rev-list", "--max-count=1", "--single-worktree", head.as_str(), "--not"];
    let call = tree.repo.git().call(&unreached).arg(base.as_str()).arg("--all");
    let is_reached = call.output().await?.is_empty();
    let mut ends = lost(tree, &[base, &head]).await?;
    refuse_large(tree, base, (&head, &ends)).await?;
    let scratch = Scratch::open("wiki-browser-keep-")?;
    let staged = Index::copy(tree, scratch.path()).await?.tree().await?;
    ends.extend(staged_commit(tree, staged, (base, &head, &ends), name).await?);
    let tip = match is_reached {
        false => head,
        true if ends.is_empty() => return Ok(None),
        true => ends.remove(0),
    };
    let commit = match ends.is_empty() {
        true => tip,
        false => {
            let written = tree_of(tree, &tip).await?;
            join(tree, &written, &[&[tip], &ends[..]].concat(), OF_FILES).await?
        }
    };
    refuse_large(tree, base, (&commit, &[])).await?;
    store(tree, &commit, base, name).await.map(Some).map_err(as_not_kept)
}

/// Returns whether something is saved under a ref.
///
/// # Errors
/// `unavailable` if git fails.
pub(in crate::documents::workspace) async fn is_kept(tree: &Tree, name: &str) -> Result<bool> {
    let found = ["rev-parse", "--verify", "--quiet", &format!("{name}^{{commit}}")];
    Ok(tree.repo.git().call(&found).run().await?.code == 0)
}

/// Returns the commit of a worktree's HEAD. An agent may have left a branch without one.
async fn head_of(tree: &Tree, base: &BlobId) -> Result<BlobId> {
    let head = tree.repo.git().call(&["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]);
    let head = head.env("GIT_DIR", tree.own.as_str()).run().await?;
    if head.code == 0 { head.line()?.parse() } else { Ok(base.clone()) }
}

async fn tree_of(tree: &Tree, commit: &BlobId) -> Result<String> {
    tree.repo.git().call(&["rev-parse", &format!("{commit}^{{tree}}")]).line().await
}

/// Stores what is staged as a commit, unless the history that is saved has it.
async fn staged_commit(
    tree: &Tree,
    staged: Option<String>,
    (base, head, lost): (&BlobId, &BlobId, &[BlobId]),
    name: &str,
) -> Result<Option<BlobId>> {
    let Some(staged) = staged else { return Ok(None) };
    if staged == tree_of(tree, base).await? {
        return Ok(None);
    }
    let call = tree.repo.git().call(&["rev-list", "--format=%T", head.as_str()]);
    let call = lost.iter().fold(call, |call, it| call.arg(it.as_str()));
    // An interrupted removal may already have saved it.
    let call = call.arg(format!("--glob={name}*")).arg(format!("^{base}"));
    let saved = call.output_max(LISTING_BYTES_MAX).output().await?;
    if saved.split(|byte| *byte == b'\n').any(|it| it == staged.as_bytes()) {
        return Ok(None);
    }
    join(tree, &staged, std::slice::from_ref(head), OF_INDEX).await.map(Some)
}

async fn join(tree: &Tree, written: &str, parents: &[BlobId], message: &str) -> Result<BlobId> {
    let by = Person { name: "wiki-browser".to_owned(), email: String::new() };
    tree.repo.commit_aside(&written.parse()?, parents, &by, message).await
}

/// Puts a commit under a ref and reads it back; returns the name of the ref.
async fn store(tree: &Tree, commit: &BlobId, base: &BlobId, name: &str) -> Result<String> {
    // Never over an existing ref: after an interrupted removal half of the files are missing, and
    // the earlier save must stay.
    let absent = "0".repeat(commit.as_str().len());
    for number in 1..=KEPT_MAX {
        let name = match number {
            1 => name.to_owned(),
            number => format!("{name}-{number}"),
        };
        let call = ["update-ref", "--no-deref", &name, commit.as_str(), &absent];
        if tree.repo.git().call(&call).writing().run().await?.code == 0 {
            if let Err(failure) = require_readable(tree, commit, base).await {
                // A ref to something unreadable would break `git gc` and fetches.
                let drop = ["update-ref", "--no-deref", "-d", &name, commit.as_str()];
                tree.repo.git().call(&drop).writing().output().await?;
                return Err(failure);
            }
            return Ok(name);
        }
        let found = ["rev-parse", "--verify", "--quiet", &format!("{name}^{{commit}}")];
        let found = tree.repo.git().call(&found).run().await?;
        if found.code != 0 {
            return Err(Error::unavailable(format!("{name} cannot be written")));
        }
        if found.line()? == commit.as_str() {
            return require_readable(tree, commit, base).await.map(|()| name);
        }
    }
    Err(not_kept(format!("it was kept {KEPT_MAX} times already")))
}

/// Stores the current files as a tree; refuses before storing anything if it is too much.
async fn write_tree(
    tree: &Tree,
    (base, head): (&BlobId, &BlobId),
    theirs: &Index<'_>,
    index: &Utf8Path,
) -> Result<String> {
    let call = async |args: &[&str]| -> Result<Call<'_>> {
        let call = tree.call(args).await?.set("core.splitIndex=false");
        Ok(call.env("GIT_INDEX_FILE", index.as_str()).writing().output_max(LISTING_BYTES_MAX))
    };
    refuse_huge(tree, head).await?;
    call(&["read-tree", head.as_str()]).await?.output().await?;
    // 1: some files differ, which is not a failure.
    let refreshed = call(&["update-index", "-q", "--refresh"]).await?.run().await?;
    if refreshed.code > 1 {
        return Err(refreshed.failure());
    }
    let gone = call(&["ls-files", "--deleted", "-z"]).await?.output().await?;
    let hidden = hidden_of(&gone, theirs).await?;
    if !hidden.is_empty() {
        let skip = ["update-index", "-z", "--skip-worktree", "--stdin"];
        call(&skip).await?.stdin(hidden).output().await?;
    }
    let changed = call(&["diff-files", "--name-only", "-z"]).await?.output().await?;
    let others = call(&["ls-files", "--others", "--exclude-standard", "-z"]).await?.run().await?;
    if others.said.contains("could not open directory") {
        // Git continues without that folder, and its content would be lost.
        return Err(not_kept(format!("a folder in {} cannot be read", tree.path)));
    }
    let others = others.ok()?;
    refuse_listed_repository(tree, others.clone()).await?;
    let names = [changed, others].concat();
    let committed = committed_bytes(tree, base, (head, &[])).await?;
    let bytes = committed.saturating_add(size_of(tree, names).await?);
    if bytes > KEPT_WORK_BYTES_MAX && !fault::is_off("kept_work") {
        return Err(not_kept(format!(
            "{bytes} bytes changed, and at most {KEPT_WORK_BYTES_MAX} are kept"
        )));
    }
    let added = call(&["add", "--all"]).await?.run().await?;
    if added.code != 0 {
        let failure = added.failure();
        // For a failure without a code of its own, git's message names the file and the reason.
        if failure.code_str() != GIT_FAILED {
            return Err(failure);
        }
        let why = added.said.lines().rfind(|it| !it.trim().is_empty()).unwrap_or_default();
        let why = truncate_chars(why, SAID_CHARS_MAX);
        return Err(not_kept(format!("git add says `{}`", why.escape_debug())));
    }
    refuse_nested(tree, call(&["ls-files", "--stage", "-z"]).await?.output().await?).await?;
    call(&["write-tree"]).await?.line().await
}

/// Refuses tracked files that are too large to compare, unless they have their committed size: git
/// would read them, and a file with a hole is as large as somebody likes.
async fn refuse_huge(tree: &Tree, head: &BlobId) -> Result<()> {
    let list = async |args: &[&str]| {
        let call = tree.repo.git().call(&["ls-tree", "--full-tree", "-r", "-z"]);
        let call = args.iter().fold(call, |call, it| call.arg(*it)).arg(head.as_str());
        call.output_max(LISTING_BYTES_MAX).output().await
    };
    let (top, names) = (tree.path.clone(), list(&["--name-only"]).await?);
    let huge: BTreeMap<Vec<u8>, u64> = blocking(move || {
        let names = names.split(|byte| *byte == 0).filter(|it| is_huge(&top, it));
        names.map(|it| (it.to_vec(), bytes_of(&top, it))).collect()
    })
    .await?;
    if huge.is_empty() {
        return Ok(());
    }
    // `MODE TYPE ID SIZE<tab>PATH`.
    let sized = list(&["--long"]).await?;
    for record in sized.split(|byte| *byte == 0) {
        let text = name::shown(record);
        let Some((about, path)) = text.split_once('\t') else { continue };
        let Some(bytes) = huge.get(&*name::bytes(path)) else { continue };
        if about.rsplit(' ').next() != Some(&bytes.to_string()) {
            return Err(not_kept(format!(
                "{path} has {bytes} bytes, and at most {KEPT_WORK_BYTES_MAX} are kept"
            )));
        }
    }
    Ok(())
}

/// Returns those of the missing files that a sparse checkout leaves out: they are unchanged.
async fn hidden_of(gone: &[u8], theirs: &Index<'_>) -> Result<Vec<u8>> {
    if gone.is_empty() {
        return Ok(Vec::new());
    }
    let hidden = theirs.hidden().await?;
    let names = gone.split_inclusive(|byte| *byte == 0);
    let names = names.filter(|it| it.strip_suffix(b"\0").is_some_and(|it| hidden.contains(it)));
    Ok(names.flatten().copied().collect())
}

/// Returns the total size of the commits since `base`, in bytes.
async fn committed_bytes(
    tree: &Tree,
    base: &BlobId,
    (head, lost): (&BlobId, &[BlobId]),
) -> Result<u64> {
    let call = tree.repo.git().call(&["rev-list", "--objects", "--disk-usage", head.as_str()]);
    let call = lost.iter().fold(call, |call, it| call.arg(it.as_str()));
    let bytes = call.arg(format!("^{base}")).line().await?;
    Ok(bytes.trim().parse::<u64>().unwrap_or(u64::MAX))
}

async fn refuse_large(tree: &Tree, base: &BlobId, commits: (&BlobId, &[BlobId])) -> Result<()> {
    let bytes = committed_bytes(tree, base, commits).await?;
    match bytes > KEPT_WORK_BYTES_MAX && !fault::is_off("kept_work") {
        true => Err(not_kept(format!(
            "{bytes} bytes were committed or staged, and at most {KEPT_WORK_BYTES_MAX} are kept"
        ))),
        false => Ok(()),
    }
}

async fn size_of(tree: &Tree, names: Vec<u8>) -> Result<u64> {
    let top = tree.path.clone();
    blocking(move || {
        let names = names.split(|byte| *byte == 0).filter(|it| !it.is_empty());
        names.map(|it| bytes_of(&top, it)).sum()
    })
    .await
}

fn bytes_of(top: &Utf8Path, name: &[u8]) -> u64 {
    let path = top.as_std_path().join(OsStr::from_bytes(name));
    path.symlink_metadata().map_or(0, |it| it.len())
}

/// Refuses a worktree in which the agent created a repository: its commits exist only there.
async fn refuse_repository(tree: &Tree) -> Result<()> {
    let (link, modules) = (tree.path.join(".git"), tree.own.join("modules"));
    let is_own = blocking(move || {
        link.symlink_metadata().is_ok_and(|it| !it.is_file()) || modules.symlink_metadata().is_ok()
    });
    match is_own.await? {
        true => Err(not_kept(format!("{} holds a repository of its own", tree.path))),
        false => Ok(()),
    }
}

/// Refuses a new repository by its folder, which git lists without looking into it: one without a
/// commit cannot be added at all.
async fn refuse_listed_repository(tree: &Tree, listed: Vec<u8>) -> Result<()> {
    let top = tree.path.clone();
    let found = blocking(move || {
        let names = listed.split(|byte| *byte == 0).filter(|it| it.ends_with(b"/"));
        let mut names = names.map(|it| name::shown(it).trim_end_matches('/').to_owned());
        let inner = |it: &String| top.as_std_path().join(name::path(it)).join(".git");
        names.find(|it| inner(it).symlink_metadata().is_ok())
    });
    match found.await? {
        Some(name) => Err(nested(&name)),
        None => Ok(()),
    }
}

fn nested(name: &str) -> Error {
    not_kept(format!("{name} is a repository of its own"))
}

/// Refuses nested repositories: git would only save the id of their commit.
async fn refuse_nested(tree: &Tree, listed: Vec<u8>) -> Result<()> {
    let top = tree.path.clone();
    let found = blocking(move || {
        let lines = listed.split(|byte| *byte == 0).map(name::shown);
        let links = lines.filter(|it| it.starts_with("160000 "));
        let names: Vec<String> =
            links.filter_map(|it| Some(it.split_once('\t')?.1.to_owned())).collect();
        let inner = |it: &String| top.as_std_path().join(name::path(it)).join(".git");
        names.into_iter().find(|it| inner(it).symlink_metadata().is_ok())
    });
    match found.await? {
        Some(name) => Err(nested(&name)),
        None => Ok(()),
    }
}

fn as_not_kept(failure: Error) -> Error {
    if failure.code_str() == UNREADABLE { failure.code(NOT_KEPT) } else { failure }
}
