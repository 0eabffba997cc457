//! What git starts since a change of its own files, and did not start before: hooks, and settings
//! that name programs; and links that lead it elsewhere. An agent's git reads them; ours does not
//! (`documents::git::settings`).

use std::collections::BTreeSet;

use crate::base::Result;
use crate::documents::changes::{NAMED_MAX, PrivateChange};
use crate::documents::git::programs::{Setting, shown_setting};
use crate::documents::git::{Repo, blocking};
use crate::documents::snapshot::{
    COMMON_DIR, CONFIG_OF_WORKTREE, HOOKS, Kept, Snapshot, Work, is_of_worktree, is_usual, link_of,
};
use crate::process::read_small;

/// Largest configuration that is read, in bytes.
const CONFIG_BYTES_MAX: u64 = 1024 * 1024;
/// What leads a worktree to its repository, as git writes it.
const USUAL: &[u8] = b"../..\n";
/// What is said of a configuration that nobody can read.
const UNREADABLE: &str = "unreadable";

impl PrivateChange {
    /// Returns whether git starts other programs since, or is led elsewhere.
    pub fn steers(&self) -> bool {
        !self.starts.is_empty()
    }

    /// Returns its name among the files that control agents.
    pub(super) fn steering_name(&self) -> String {
        // The file as a whole.
        match self.starts == [self.name.as_str()] {
            true => format!(".git/{}", self.name),
            false => format!(".git/{} ({})", self.name, self.starts.join(", ")),
        }
    }
}

/// Returns whether a name is that of a file behind a link from which git starts programs. Nobody
/// keeps what was in it.
fn starts_behind(name: &str) -> bool {
    let starts = |it: &str| matches!(it, "config" | "config.worktree" | COMMON_DIR) || is_hook(it);
    link_of(name).is_some_and(starts)
}

/// Returns whether a name is that of a hook, or of their folder.
fn is_hook(name: &str) -> bool {
    name == HOOKS || name.starts_with("hooks/")
}

/// Notes in each change what git starts since. What other worktrees have besides is left out.
pub(super) async fn note(
    repo: &Repo,
    kept: &Kept,
    before: &Snapshot,
    changes: &mut Vec<PrivateChange>,
) -> Result<()> {
    // A worktree that is made gets a copy of these.
    let copied = before.private.get(CONFIG_OF_WORKTREE).unwrap_or(&Work::Nothing);
    let copied = in_file(repo, kept, copied).await?.unwrap_or_default();
    let none = BTreeSet::new();
    for it in changes.iter_mut() {
        let is_named = before.names(link_of(&it.name).unwrap_or(&it.name)) && !is_usual(&it.name);
        it.starts = match it.name.as_str() {
            name if it.leads_elsewhere() || starts_behind(name) => vec![name.to_owned()],
            name if (is_hook(name) || is_named) && it.after != Work::Nothing => {
                vec![name.to_owned()]
            }
            // It leads git to other settings and hooks.
            name if is_file(name, COMMON_DIR) && it.after != Work::Nothing => {
                let is_usual = it.after.blob() == Some(&repo.hash(USUAL)) && name != COMMON_DIR;
                if is_usual { Vec::new() } else { vec![name.to_owned()] }
            }
            name if name == "config" || is_file(name, CONFIG_OF_WORKTREE) => {
                let known = if is_of_worktree(name) { &copied } else { &none };
                settings(repo, kept, it, known).await?
            }
            _ => Vec::new(),
        };
    }
    changes.retain(|it| !is_of_worktree(&it.name) || it.steers());
    Ok(())
}

/// Returns whether a name is that of a file of this worktree, or of another one.
fn is_file(name: &str, file: &str) -> bool {
    name == file || (is_of_worktree(name) && name.rsplit('/').next() == Some(file))
}

/// Returns the names of settings that are new or have another value, without known ones.
async fn settings(
    repo: &Repo,
    kept: &Kept,
    it: &PrivateChange,
    known: &BTreeSet<Setting>,
) -> Result<Vec<String>> {
    let was = in_file(repo, kept, &it.before).await?;
    let is = in_file(repo, kept, &it.after).await?;
    let (Some(was), Some(is)) = (was, is) else { return Ok(vec![UNREADABLE.to_owned()]) };
    let new = is.difference(&was).filter(|it| !known.contains(it));
    let names: BTreeSet<String> = new.map(|it| shown_setting(&it.0)).collect();
    Ok(names.into_iter().take(NAMED_MAX).collect())
}

async fn in_file(repo: &Repo, kept: &Kept, work: &Work) -> Result<Option<BTreeSet<Setting>>> {
    let blob = match work {
        Work::Nothing => return Ok(Some(BTreeSet::new())),
        Work::File { blob, .. } => blob.clone(),
        _ => return Ok(None),
    };
    let file = kept.file(&blob);
    let text = blocking(move || read_small(&file, CONFIG_BYTES_MAX)).await?;
    // What is too large, or was replaced, is not what it says.
    match text.ok().flatten().filter(|it| repo.hash(it) == blob) {
        Some(text) => repo.program_settings(text).await,
        None => Ok(None),
    }
}
