//! Work that an agent left in its worktree: kept under a ref before the worktree goes.
//!
//! **Invariant:** the worktree's own index, which an agent may have told to overlook files, is
//! never asked; git compares the files themselves.

use camino::Utf8Path;

use crate::base::limit::KEPT_WORK_BYTES_MAX;
use crate::base::{BlobId, Error, Result, fault};
use crate::documents::git::{Call, Person, blocking};
use crate::documents::snapshot::name;
use crate::documents::workspace::worktree::Tree;
use crate::process::Scratch;

/// Longest listing of changed files.
const LISTING_BYTES_MAX: usize = crate::base::limit::GIT_LISTING_BYTES_MAX;

/// How often the work of one worktree is kept under another name.
const KEPT_MAX: u32 = 10;

/// Keeps what differs from `base` under a ref, if anything does; whether it did. Ignored files are
/// not looked at.
///
/// # Errors
/// `conflict` with code `not_kept` if it is too much, or in a repository of its own; as git.
pub(in crate::documents::workspace) async fn keep(
    tree: &Tree,
    base: &BlobId,
    name: &str,
) -> Result<Option<()>> {
    let head = tree.call(&["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]).await?;
    let head = head.run().await?;
    // An agent may have left a branch without a commit.
    let head: BlobId = if head.code == 0 { head.line()?.parse()? } else { base.clone() };
    refuse_repository(tree).await?;
    let scratch = Scratch::open("wiki-browser-keep-")?;
    let index = scratch.path().join("index");
    let written = write_tree(tree, &head, base, &index).await?;
    let tree_of = async |commit: &BlobId| -> Result<String> {
        tree.repo.git().call(&["rev-parse", &format!("{commit}^{{tree}}")]).line().await
    };
    if head == *base && written == tree_of(base).await? {
        return Ok(None);
    }
    let commit = match written == tree_of(&head).await? {
        true => head,
        false => {
            let by = Person { name: "wiki-browser".to_owned(), email: String::new() };
            let parents = std::slice::from_ref(&head);
            let message = "Work that was left in a worktree\n";
            tree.repo.commit_aside(&written.parse()?, parents, &by, message).await?
        }
    };
    // Only where nothing is: a removal that was cut off leaves a tree without half of its files,
    // and what was kept before stays as it is.
    let absent = "0".repeat(commit.as_str().len());
    for number in 1..=KEPT_MAX {
        let name = match number {
            1 => name.to_owned(),
            number => format!("{name}-{number}"),
        };
        let call = ["update-ref", "--no-deref", &name, commit.as_str(), &absent];
        if tree.repo.git().call(&call).writing().run().await?.code == 0 {
            return Ok(Some(()));
        }
        let found = ["rev-parse", "--verify", "--quiet", &format!("{name}^{{commit}}")];
        let found = tree.repo.git().call(&found).run().await?;
        if found.code != 0 {
            return Err(Error::unavailable(format!("{name} cannot be written")));
        }
        if found.line()? == commit.as_str() {
            return Ok(Some(()));
        }
    }
    Err(not_kept(format!("it was kept {KEPT_MAX} times already")))
}

/// Stores the files as they are as a tree; refuses before anything is stored if that is too much.
async fn write_tree(tree: &Tree, head: &BlobId, base: &BlobId, index: &Utf8Path) -> Result<String> {
    let call = async |args: &[&str]| -> Result<Call<'_>> {
        let call = tree.call(args).await?.set("core.splitIndex=false");
        Ok(call.env("GIT_INDEX_FILE", index.as_str()).writing().output_max(LISTING_BYTES_MAX))
    };
    call(&["read-tree", head.as_str()]).await?.output().await?;
    // 1: some files differ, which is no failure.
    let refreshed = call(&["update-index", "-q", "--refresh"]).await?.run().await?;
    if refreshed.code > 1 {
        return Err(refreshed.failure());
    }
    let changed = call(&["diff-files", "--name-only", "-z"]).await?.output().await?;
    let others = call(&["ls-files", "--others", "--exclude-standard", "-z"]).await?.run().await?;
    if others.said.contains("could not open directory") {
        // Git goes on without it, and would lose what is in it.
        return Err(not_kept(format!("a folder in {} cannot be read", tree.path)));
    }
    let names = [changed, others.ok()?].concat();
    let range = format!("^{base}");
    let args = ["rev-list", "--objects", "--disk-usage", head.as_str(), &range];
    let committed = tree.repo.git().call(&args).line().await?;
    let committed = committed.trim().parse::<u64>().unwrap_or(u64::MAX);
    let bytes = committed.saturating_add(size_of(tree, names).await?);
    if bytes > KEPT_WORK_BYTES_MAX && !fault::is_off("kept_work") {
        return Err(not_kept(format!(
            "{bytes} bytes changed, and at most {KEPT_WORK_BYTES_MAX} are kept"
        )));
    }
    call(&["add", "--all"]).await?.output().await?;
    refuse_nested(tree, call(&["ls-files", "--stage", "-z"]).await?.output().await?).await?;
    call(&["write-tree"]).await?.line().await
}

async fn size_of(tree: &Tree, names: Vec<u8>) -> Result<u64> {
    let top = tree.path.clone();
    blocking(move || {
        let names = names.split(|byte| *byte == 0).filter(|it| !it.is_empty());
        names
            .map(|name| {
                use std::os::unix::ffi::OsStrExt as _;
                let path = top.as_std_path().join(std::ffi::OsStr::from_bytes(name));
                path.symlink_metadata().map_or(0, |it| it.len())
            })
            .sum()
    })
    .await
}

/// Refuses a worktree in which the agent made a repository: its commits are in that one only.
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

/// Refuses files that are a repository within the worktree: git would keep its commit's name only.
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
        Some(name) => Err(not_kept(format!("{name} is a repository of its own"))),
        None => Ok(()),
    }
}

fn not_kept(why: String) -> Error {
    Error::conflict("not_kept", format!("the work is not kept: {why}"))
        .hint("save what is wanted, then `wiki-browser workspace remove`")
}
