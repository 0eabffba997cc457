//! What git starts since a change of its own files, and did not start before: hooks, and settings
//! that name programs; and links that lead it elsewhere. An agent's git reads them; ours does not
//! (`documents::git::settings`).

use std::collections::BTreeSet;

use crate::base::Result;
use crate::documents::changes::{NAMED_MAX, PrivateChange};
use crate::documents::git::programs::{Setting, shown_setting};
use crate::documents::git::{Repo, blocking};
use crate::documents::snapshot::{COMMON_DIR, HOOKS, Kept, Work, link_of};
use crate::process::read_small;

/// Largest configuration that is read, in bytes.
const CONFIG_BYTES_MAX: u64 = 1024 * 1024;
/// What is said of a configuration that nobody can read.
const UNREADABLE: &str = "unreadable";

impl PrivateChange {
    /// Returns whether git starts other programs since, or is led elsewhere.
    pub fn steers(&self) -> bool {
        !self.starts.is_empty()
    }

    /// Returns its name among the files that control agents.
    pub(super) fn steering_name(&self) -> String {
        let is_whole = is_hook(&self.name) || self.name == COMMON_DIR || self.leads_elsewhere();
        match is_whole || starts_behind(&self.name) {
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

/// Notes in each change what git starts since.
pub(super) async fn note(repo: &Repo, kept: &Kept, changes: &mut [PrivateChange]) -> Result<()> {
    for it in changes {
        it.starts = match it.name.as_str() {
            name if it.leads_elsewhere() || starts_behind(name) => vec![name.to_owned()],
            name if is_hook(name) && it.after != Work::Nothing => {
                vec![name.to_owned()]
            }
            // It leads git to other settings and hooks.
            COMMON_DIR if it.after != Work::Nothing => vec![COMMON_DIR.to_owned()],
            "config" | "config.worktree" => settings(repo, kept, it).await?,
            _ => Vec::new(),
        };
    }
    Ok(())
}

/// Returns the names of settings that are new or have another value.
async fn settings(repo: &Repo, kept: &Kept, it: &PrivateChange) -> Result<Vec<String>> {
    let was = in_file(repo, kept, &it.before).await?;
    let is = in_file(repo, kept, &it.after).await?;
    let (Some(was), Some(is)) = (was, is) else { return Ok(vec![UNREADABLE.to_owned()]) };
    let names: BTreeSet<String> = is.difference(&was).map(|it| shown_setting(&it.0)).collect();
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
