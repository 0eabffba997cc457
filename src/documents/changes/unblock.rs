//! Removes FIFOs, sockets and devices at names that git opens: until then git is not started, so
//! nobody can tell what else changed.
//!
//! **Invariant:** nothing is in them, and none is removed that is elsewhere, where it may be
//! somebody's: only a link of git's own that leads there, if it was not there before the job.

use std::os::unix::fs::FileTypeExt as _;

use crate::api::changes::{Item, Outcome};
use crate::base::Result;
use crate::documents::git::{Repo, Special, Way, blocking};
use crate::documents::snapshot::{GIT, Snapshot, Work, name};
use crate::process::{Root, Standing};

/// Removes those that a job made, or with `is_rehearsal` only names them. `before` is the state
/// before the job, which could only be read without any. With names, those alone are removed.
///
/// # Errors
/// `unavailable` if the file system refuses.
pub async fn unblock(
    repo: &Repo,
    before: &Snapshot,
    names: &[String],
    is_rehearsal: bool,
) -> Result<Vec<Item>> {
    let mut found = repo.specials().await?;
    found.retain(|it| names.is_empty() || names.contains(&it.name));
    found.retain(|it| it.way != Way::Link || !was_link(before, &it.name));
    let work = move || found.iter().map(|it| item(it, is_rehearsal)).collect();
    blocking(work).await?
}

/// Returns whether one of git's own files was a link before.
fn was_link(before: &Snapshot, name: &str) -> bool {
    let own = name.strip_prefix(GIT).and_then(|it| it.strip_prefix('/'));
    let was = own.and_then(|it| before.private.get(it));
    matches!(was, Some(Work::Link { .. }))
}

fn item(it: &Special, is_rehearsal: bool) -> Result<Item> {
    let (outcome, why) = match it.way {
        Way::Repository | Way::Setting => {
            (Outcome::NotKept, Some("it is not known what was there before"))
        }
        _ if is_rehearsal => (Outcome::Ready, None),
        _ if remove(it)? => (Outcome::Restored, None),
        _ => (Outcome::ChangedSince, Some("it was replaced since")),
    };
    let why = why.map(str::to_owned);
    Ok(Item { name: it.name.clone(), to: "remove it".to_owned(), outcome, why })
}

/// Removes one, unless something else is there by now.
fn remove(it: &Special) -> Result<bool> {
    let (folder, own) = &it.within;
    let (root, path) = (Root::open(folder)?, name::path(own));
    let standing = root.standing(&path, 0)?;
    let is_special = match (&standing, root.path().as_std_path().join(&path).symlink_metadata()) {
        (Standing::Link { .. }, _) => it.way == Way::Link,
        (Standing::Other { .. }, Ok(found)) => {
            let kind = found.file_type();
            kind.is_fifo() || kind.is_socket() || kind.is_char_device() || kind.is_block_device()
        }
        _ => false,
    };
    Ok(is_special && root.swap(&path, 0, |now| *now == standing, &Standing::Nothing)?)
}
