//! Files that one of two looks read and the other did not: because too many were changed then, or
//! because git called them as indexed then. For what a filter has made, that depends on whether
//! somebody's git has refreshed the index since.

use std::collections::BTreeSet;

use crate::base::Result;
use crate::base::limit::SOURCE_BYTES_MAX;
use crate::documents::changes::{Changes, FileChange};
use crate::documents::git::{Repo, blocking};
use crate::documents::snapshot::{Work, name};
use crate::process::{Root, Standing};

/// Takes out what is as it was: the look that did not read it knows only its times.
pub(super) async fn drop_unchanged(repo: &Repo, changes: &mut Changes) -> Result<()> {
    let is_unread = |it: &&FileChange| {
        let works = (&it.before.work, &it.after.work);
        let is_one = matches!(
            works,
            (Work::File { .. }, Work::Seen { .. } | Work::Indexed)
                | (Work::Seen { .. }, Work::File { .. })
        );
        is_one && it.before.index == it.after.index && !it.path.ends_with('/')
    };
    let unread: Vec<FileChange> = changes.files.iter().filter(is_unread).cloned().collect();
    if unread.is_empty() || crate::base::fault::is_off("unread_files") {
        return Ok(());
    }
    let (repo, top) = (repo.clone(), repo.git().folder().to_owned());
    let same = blocking(move || {
        let root = Root::open(&top)?;
        let mut same = BTreeSet::new();
        for it in unread {
            if is_same(&repo, &root, &it)? {
                same.insert(it.path);
            }
        }
        Ok::<_, crate::base::Error>(same)
    });
    let same = same.await??;
    changes.files.retain(|it| !same.contains(&it.path));
    Ok(())
}

/// Returns whether what stands there is what both looks saw, each in its way.
fn is_same(repo: &Repo, root: &Root, it: &FileChange) -> Result<bool> {
    let place = name::path(&it.path);
    let is_read = |work: &Work| -> Result<bool> {
        let Work::File { blob, mode } = work else { return Ok(false) };
        Ok(match root.standing(&place, SOURCE_BYTES_MAX)? {
            Standing::File { bytes, mode: now } => now == *mode && repo.hash(&bytes) == *blob,
            _ => false,
        })
    };
    let is_seen = |work: &Work| -> Result<bool> {
        let Work::Seen { facts } = work else { return Ok(false) };
        Ok(matches!(root.standing(&place, 0)?, Standing::Other { facts: now } if now == *facts))
    };
    // The earlier look may have been long ago: its facts hold as long as nobody touched the file.
    Ok(match &it.before.work {
        Work::File { .. } => {
            let is_as_told = it.after.work == Work::Indexed || is_seen(&it.after.work)?;
            is_as_told && is_read(&it.before.work)?
        }
        _ => is_read(&it.after.work)? && is_seen(&it.before.work)?,
    })
}
