//! Untracked files that git no longer lists, or lists for the first time: because they changed, or
//! because the rules of what it ignores did.
//!
//! **Invariant:** what a person had before the job is judged by what stands there, not by whether
//! git lists it: the rules may be the job's.

use crate::base::{Result, is_agent_file};
use crate::documents::changes::{Changes, FileChange, PrivateChange, how};
use crate::documents::git::{Repo, blocking};
use crate::documents::snapshot::{Kept, Snapshot, Work, link_of};
use crate::process::read_small;

/// Largest configuration that is read, in bytes.
const CONFIG_BYTES_MAX: u64 = 1024 * 1024;

/// Corrects the changes of untracked files by what stands there.
pub(super) async fn look_again(
    repo: &Repo,
    kept: &Kept,
    before: &Snapshot,
    changes: &mut Changes,
) -> Result<()> {
    let is_gone = |before: &Work, after: &Work| *before != Work::Nothing && *after == Work::Nothing;
    let asked = changes.files.iter().filter(|it| it.is_untracked());
    let asked = asked.filter(|it| is_gone(&it.before.work, &it.after.work));
    let works = repo.works(kept, asked.map(|it| it.path.clone()).collect()).await?;
    for it in &mut changes.files {
        if let Some(work) = works.get(&it.path) {
            it.after.work = work.clone();
            it.how = how(&it.before, &it.after).to_owned();
        }
    }
    // What still stands there was hidden, and nothing else.
    changes.files.retain(|it| it.before != it.after);
    if !ignores_otherwise(kept, changes).await? {
        return Ok(());
    }
    // Those that steer agents are known, also if git ignores them.
    let is_known = |it: &FileChange| before.has_ignored && is_agent_file(&it.path);
    for it in changes.files.iter_mut().filter(|it| it.is_untracked() && !is_known(it)) {
        if it.before.work == Work::Nothing && !it.path.ends_with(".gitignore") {
            it.obstacle = Some("it may have been there before, ignored by git".to_owned());
        }
    }
    Ok(())
}

/// Returns whether git may ignore other files than before.
async fn ignores_otherwise(kept: &Kept, changes: &Changes) -> Result<bool> {
    if changes.files.iter().any(|it| it.path.ends_with(".gitignore")) {
        return Ok(true);
    }
    for it in &changes.private {
        let is_other = match link_of(&it.name).unwrap_or(&it.name) {
            "info/exclude" => true,
            "config" | "config.worktree" => names_ignored(kept, it).await?,
            _ => false,
        };
        if is_other {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether a configuration names, or named, further rules or files.
async fn names_ignored(kept: &Kept, it: &PrivateChange) -> Result<bool> {
    for work in [&it.before, &it.after] {
        let blob = match work {
            Work::Nothing => continue,
            Work::File { blob, .. } => blob,
            _ => return Ok(true),
        };
        let file = kept.file(blob);
        let text = blocking(move || read_small(&file, CONFIG_BYTES_MAX)).await?;
        let Some(text) = text.ok().flatten() else { return Ok(true) };
        let text = String::from_utf8_lossy(&text).to_lowercase();
        if ["excludesfile", "[include", "worktree"].iter().any(|it| text.contains(it)) {
            return Ok(true);
        }
    }
    Ok(false)
}
