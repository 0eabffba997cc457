//! Files that git ignores and that steer agents: they are known by their digest, because what
//! people keep there, such as keys, is not ours to store.

use crate::base::Result;
use crate::documents::changes::{Changes, FileChange};
use crate::documents::git::Repo;
use crate::documents::snapshot::{Kept, LARGE, Snapshot, Work};

/// Why an earlier text cannot be restored.
const UNKEPT: &str = "git ignores it, so its earlier text was not kept";

/// Why a folder cannot be restored.
const UNSEARCHED: &str = "it has more names than can be searched: look at it, and remove what is \
                          not yours";

/// Returns the later state without ignored files if the earlier one, of an older version of this
/// program, does not have them.
pub(super) fn known_to_both(before: &Snapshot, after: &Snapshot) -> Option<Snapshot> {
    (!before.has_ignored && after.has_ignored).then(|| {
        let mut after = after.clone();
        after.paths.retain(|_, it| !it.is_ignored);
        after
    })
}

/// Notes which changes of ignored files cannot be restored, and stores what the job has made.
pub(super) async fn judge(
    repo: &Repo,
    kept: &Kept,
    (before, after): (&Snapshot, &Snapshot),
    changes: &mut Changes,
) -> Result<()> {
    let is_ignored =
        |of: &Snapshot, it: &FileChange| of.paths.get(&it.path).is_some_and(|it| it.is_ignored);
    let mut made = Vec::new();
    for it in &mut changes.files {
        if is_large(&it.before.work) || is_large(&it.after.work) {
            it.obstacle = Some(UNSEARCHED.to_owned());
        } else if is_ignored(before, it) && it.before.work != Work::Nothing {
            it.obstacle = Some(UNKEPT.to_owned());
        } else if is_ignored(after, it) {
            made.push(it.path.clone());
        }
    }
    let works = repo.works(kept, made).await?;
    for it in &mut changes.files {
        if let Some(work) = works.get(&it.path) {
            it.after.work = work.clone();
        }
    }
    Ok(())
}

pub(super) fn is_large(work: &Work) -> bool {
    matches!(work, Work::Seen { facts } if facts == LARGE)
}

/// Returns whether it is a change of a file that git ignored before.
pub(super) fn is_ignored(it: &FileChange) -> bool {
    matches!(it.obstacle.as_deref(), Some(UNKEPT | UNSEARCHED))
}
