//! A worktree whose site was moved: git's record of it follows to the new place.
//!
//! **Invariant:** only a record that names the worktree's old or new path is changed.

use std::io::Write as _;

use camino::Utf8Path;

use crate::base::{Context, ErrorKind, Result};
use crate::documents::git::{Repo, blocking};
use crate::documents::workspace::tree::{MARK, Tree};
use crate::documents::workspace::worktree::Wanted;

/// Points git's record of a worktree from its old path to the one in `wanted`, if `is_moved` says
/// that the site with the recorded mark is this one. Returns whether it did.
///
/// # Errors
/// `not_found` if the folder is in no repository; `unavailable` if the record cannot be written.
pub async fn follow(
    site: &Repo,
    old: &Utf8Path,
    wanted: Wanted<'_>,
    is_moved: impl Fn(&str) -> bool,
) -> Result<bool> {
    let tree = Tree::of(site, wanted.folder, wanted.path).await?;
    let told = tree.told_path().await?;
    let is_at = |path: &Utf8Path| told.as_deref() == Some(path.join(".git").as_str());
    let Some(mark) = tree.told_mark().await? else { return Ok(false) };
    if !(is_at(old) || is_at(wanted.path)) || !is_moved(&mark) {
        return Ok(false);
    }
    let (own, path, mark) = (tree.own.clone(), wanted.path.to_owned(), wanted.mark.to_owned());
    let written = blocking(move || {
        std::fs::write(own.join("gitdir"), format!("{path}/.git\n"))?;
        let link = path.join(".git");
        // What an agent put in its place stays: git is never sent through it.
        if link.symlink_metadata().is_ok_and(|it| it.is_file()) {
            std::fs::remove_file(&link)?;
            std::fs::File::create_new(&link)?.write_all(format!("gitdir: {own}\n").as_bytes())?;
        }
        // The mark comes last: until then this is repeated.
        std::fs::write(own.join(MARK), mark)
    });
    written.await?.context(ErrorKind::Unavailable, || format!("cannot write {}", tree.own))?;
    Ok(true)
}
