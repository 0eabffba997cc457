//! Git's own files that steer it: configuration, hooks, unfinished operations, locks.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;

use camino::Utf8PathBuf;

use crate::base::Result;
use crate::documents::git::Repo;
use crate::documents::snapshot::{Reader, Work, common_dir, name};
use crate::process::Root;

/// Files in the folder shared by all worktrees.
const SHARED: &[&str] = &[
    "config",
    "info/exclude",
    "info/attributes",
    "info/grafts",
    "shallow",
    "packed-refs.lock",
    "config.lock",
    "shallow.lock",
];
/// Files and folders of one worktree.
const OWN: &[&str] = &[
    "config.worktree",
    "info/sparse-checkout",
    "MERGE_HEAD",
    "MERGE_MSG",
    "MERGE_MODE",
    "SQUASH_MSG",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "REBASE_HEAD",
    "BISECT_LOG",
    "BISECT_START",
    "rebase-merge",
    "rebase-apply",
    "sequencer",
    "index.lock",
    "HEAD.lock",
];
/// Most hooks examined.
const HOOKS_MAX: usize = 100;

/// Returns whether a name is that of a lock file.
pub(in crate::documents) fn names_lock(name: &str) -> bool {
    name.ends_with(".lock")
}

/// Returns the folder that contains a file of git's own.
///
/// # Errors
/// `not_found` if it cannot be opened.
pub(in crate::documents) fn git_root(repo: &Repo, name: &str) -> Result<Root> {
    let is_shared =
        SHARED.contains(&name) || name.starts_with("hooks/") || name.starts_with("refs/");
    let folder = match is_shared {
        true => common_dir(repo.git_dir())?,
        false => repo.git_dir().to_owned(),
    };
    Root::open(&folder)
}

/// Reads all of them; missing ones are omitted.
pub(super) fn look(
    repo: &Repo,
    reader: &mut Reader<'_>,
    branch: Option<&str>,
) -> Result<BTreeMap<String, Work>> {
    let shared = common_dir(repo.git_dir())?;
    let mut names: Vec<String> = SHARED.iter().map(|it| (*it).to_owned()).collect();
    names.extend(hooks(&shared));
    names.extend(branch.map(|it| format!("{it}.lock")));
    let mut found = BTreeMap::new();
    let places = [(shared, names), (repo.git_dir().to_owned(), OWN.iter().map(own).collect())];
    for (folder, names) in places {
        let root = Root::open(&folder)?;
        for name in names {
            match reader.work(&root, &name)? {
                Work::Nothing => {}
                work => {
                    found.insert(name, work);
                }
            }
        }
    }
    Ok(found)
}

fn own(name: &&str) -> String {
    (*name).to_owned()
}

/// Returns the hooks, without samples, which git never runs.
fn hooks(shared: &Utf8PathBuf) -> Vec<String> {
    let Ok(listed) = std::fs::read_dir(shared.join("hooks")) else { return Vec::new() };
    let names =
        listed.filter_map(|it| Some(name::shown(it.ok()?.file_name().as_bytes()).into_owned()));
    let mut names: Vec<String> = names.filter(|it| !it.ends_with(".sample")).collect();
    names.sort();
    names.truncate(HOOKS_MAX);
    names.into_iter().map(|it| format!("hooks/{it}")).collect()
}
