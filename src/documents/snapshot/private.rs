//! Git's own files that steer it: configuration, hooks, unfinished operations, locks.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::unix::ffi::OsStrExt as _;

use camino::{Utf8Path, Utf8PathBuf};

use crate::base::Result;
use crate::base::limit::SOURCE_BYTES_MAX;
use crate::documents::git::{Repo, blocking};
use crate::documents::snapshot::{GIT, Kept, Reader, Work, behind, links, name};
use crate::process::{Root, Standing};

/// The file that names other places of objects.
pub(in crate::documents) const ALTERNATES: &str = "objects/info/alternates";
/// The file that names the folder with the objects, settings and hooks of a worktree.
pub(in crate::documents) const COMMON_DIR: &str = "commondir";
/// The settings of one worktree.
pub(in crate::documents) const CONFIG_OF_WORKTREE: &str = "config.worktree";
/// Files in the folder shared by all worktrees.
pub(super) const SHARED: &[&str] = &[
    "config",
    "info/exclude",
    "info/attributes",
    "info/grafts",
    ALTERNATES,
    "shallow",
    "packed-refs.lock",
    "config.lock",
    "shallow.lock",
];
/// Files and folders of one worktree.
pub(super) const OWN: &[&str] = &[
    COMMON_DIR,
    CONFIG_OF_WORKTREE,
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
/// The folder of hooks, named where it is no plain folder that can be listed.
pub(in crate::documents) const HOOKS: &str = "hooks";
/// Folders whose files name other repositories, each like a remote in the configuration.
pub(super) const REMOTES: [&str; 2] = ["branches", "remotes"];
/// Most files examined of one of these folders.
pub(super) const LISTED_MAX: usize = 100;
/// The folder with what git knows of the worktrees.
const WORKTREES: &str = "worktrees";
/// Most files examined that git's settings name, with the folders that they are in.
const NAMED_MAX: usize = 1_000;
/// What git runs by name: in a folder that cannot be listed, it finds them all the same.
const HOOK_NAMES: &[&str] = &[
    "applypatch-msg",
    "commit-msg",
    "fsmonitor-watchman",
    "post-applypatch",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "post-receive",
    "post-rewrite",
    "post-update",
    "pre-applypatch",
    "pre-auto-gc",
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "pre-rebase",
    "pre-receive",
    "prepare-commit-msg",
    "proc-receive",
    "push-to-checkout",
    "reference-transaction",
    "sendemail-validate",
    "update",
];

/// Returns whether a name is that of a lock file.
pub(in crate::documents) fn names_lock(name: &str) -> bool {
    name.ends_with(".lock")
}

/// Returns the folder that contains a file of git's own.
///
/// # Errors
/// `not_found` if it cannot be opened.
pub(in crate::documents) fn git_root(repo: &Repo, name: &str) -> Result<Root> {
    let link = behind::link_of(name).unwrap_or(name);
    let folder = match OWN.contains(&link) || links::is_own(link) {
        true => repo.git_dir().to_owned(),
        false => repo.common_dir().to_owned(),
    };
    Root::open(&folder)
}

/// Returns whether a file is read whatever git's settings name.
pub(in crate::documents) fn is_usual(name: &str) -> bool {
    let is_listed = Utf8Path::new(name).parent().is_some_and(|it| it == HOOKS || is_remotes(it));
    let is_fixed = SHARED.contains(&name) || OWN.contains(&name) || name == HOOKS;
    is_fixed || is_listed || is_of_worktree(name) || names_lock(name) || links::may_be_link(name)
}

fn is_remotes(folder: &Utf8Path) -> bool {
    REMOTES.iter().any(|it| folder == *it)
}

/// Returns whether a file is one of another worktree.
pub(in crate::documents) fn is_of_worktree(name: &str) -> bool {
    Utf8Path::new(name).parent().and_then(Utf8Path::parent).is_some_and(|it| it == WORKTREES)
}

/// Returns the files of other worktrees that steer git there.
fn of_worktrees(repo: &Repo, shared: &Root) -> Vec<String> {
    let folder = shared.path().join(WORKTREES);
    let all = listed(&folder, |_| true).unwrap_or_default();
    let others = all.iter().filter(|it| folder.join(it) != *repo.git_dir());
    let names = [CONFIG_OF_WORKTREE, COMMON_DIR];
    others.flat_map(|it| names.map(|name| format!("{WORKTREES}/{it}/{name}"))).collect()
}

/// Returns the files that git's settings name, and those in the folders that they name.
fn named_files(shared: &Root, named: &[String]) -> Vec<String> {
    let own = named.iter().filter_map(|it| it.strip_prefix(GIT)?.strip_prefix('/'));
    let mut places: VecDeque<String> = own.filter(|it| !is_usual(it)).map(str::to_owned).collect();
    let mut found = Vec::new();
    for _ in 0..NAMED_MAX {
        let Some(place) = places.pop_front() else { break };
        let names = match shared.standing(name::path(&place), 0) {
            Ok(Standing::Other { facts }) if facts.starts_with("folder") => {
                shared.raw_names(name::path(&place), NAMED_MAX).ok()
            }
            _ => None,
        };
        match names {
            None => found.push(place),
            Some(mut names) => {
                names.sort_unstable();
                places.extend(names.iter().map(|it| format!("{place}/{}", name::shown(it))));
            }
        }
    }
    found
}

impl Repo {
    /// Returns what stands now at some of git's own files, as a snapshot has it.
    pub(in crate::documents) async fn own_works(
        &self,
        kept: &Kept,
        names: Vec<String>,
    ) -> Result<BTreeMap<String, Work>> {
        let (repo, kept) = (self.clone(), kept.clone());
        let read = move || {
            let files_left = names.len();
            let mut reader = Reader { repo: &repo, kept: &kept, files_left, bytes: 0 };
            let works = names.into_iter().map(|it| Ok((it.clone(), reader.own(&it)?)));
            works.collect()
        };
        blocking(read).await?
    }
}

impl Reader<'_> {
    fn own(&mut self, name: &str) -> Result<Work> {
        let root = git_root(self.repo, name)?;
        self.work(&root, name)
    }
}

/// Reads all of them, and those that git's settings name; missing ones are omitted.
pub(super) fn look(
    repo: &Repo,
    reader: &mut Reader<'_>,
    branch: Option<&str>,
    named: &[String],
) -> Result<BTreeMap<String, Work>> {
    let shared = repo.common_dir().to_owned();
    let mut names: Vec<String> = SHARED.iter().map(|it| (*it).to_owned()).collect();
    let root = Root::open(&shared)?;
    let hooks = Hooks::of(&root);
    if !hooks.is_linked {
        names.extend(hooks.names.iter().map(|it| format!("{HOOKS}/{it}")));
    }
    for folder in REMOTES {
        // Git finds none in a folder that cannot be read, either.
        let listed = listed(&shared.join(folder), |_| true).unwrap_or_default();
        names.extend(listed.iter().map(|it| format!("{folder}/{it}")));
    }
    names.extend(branch.map(|it| format!("{it}.lock")));
    names.extend(of_worktrees(repo, &root));
    names.extend(named_files(&root, named));
    let mut found = hooks.behind_a_link(repo)?;
    found.extend(hooks.folder(reader, &root)?.map(|it| (HOOKS.to_owned(), it)));
    let places = [(shared, names), (repo.git_dir().to_owned(), OWN.iter().map(own).collect())];
    for (folder, names) in places {
        let root = Root::open(&folder)?;
        for name in names {
            match reader.work(&root, &name)? {
                Work::Nothing => {
                    let behind = links::behind(repo, &root, &name)?;
                    found.extend(behind.map(|work| (name, work)));
                }
                work => {
                    if let Work::Link { .. } = work {
                        found.extend(behind::look(repo, &root, &name)?);
                    }
                    found.insert(name, work);
                }
            }
        }
    }
    found.extend(links::look(repo, reader)?);
    Ok(found)
}

/// Returns the names of files in a folder, sorted.
fn listed(folder: &Utf8Path, is_wanted: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
    let names = std::fs::read_dir(folder)?.filter_map(|it| Some(it.ok()?.file_name()));
    let names = names.map(|it| name::shown(it.as_bytes()).into_owned());
    let mut names: Vec<String> = names.filter(|it| is_wanted(it)).collect();
    names.sort();
    names.truncate(LISTED_MAX);
    Ok(names)
}

fn own(name: &&str) -> String {
    (*name).to_owned()
}

/// The hooks, without samples, which git never runs.
struct Hooks {
    /// Whether their folder is a link.
    is_linked: bool,
    /// The facts of a folder that cannot be listed.
    closed: Option<String>,
    /// Where they are.
    path: Utf8PathBuf,
    names: Vec<String>,
}

impl Hooks {
    fn of(shared: &Root) -> Hooks {
        let path = shared.path().join(HOOKS);
        let listed = listed(&path, |it| !it.ends_with(".sample"));
        let names = listed.unwrap_or_else(|_| HOOK_NAMES.iter().map(own).collect());
        Hooks { is_linked: path.is_symlink(), closed: hooks_facts(shared), path, names }
    }

    /// Returns the state of their folder, unless it is a plain one that can be listed.
    fn folder(&self, reader: &mut Reader<'_>, shared: &Root) -> Result<Option<Work>> {
        match self.is_linked {
            true => reader.work(shared, HOOKS).map(Some),
            false => Ok(self.closed.clone().map(|facts| Work::Seen { facts })),
        }
    }

    /// Returns the hooks in a folder that a link names: not ours to keep, but git runs them.
    fn behind_a_link(&self, repo: &Repo) -> Result<BTreeMap<String, Work>> {
        if !self.is_linked {
            return Ok(BTreeMap::new());
        }
        let Ok(folder) = self.path.canonicalize_utf8() else { return Ok(BTreeMap::new()) };
        let Ok(root) = Root::open(&folder) else { return Ok(BTreeMap::new()) };
        let mut found = BTreeMap::new();
        for it in &self.names {
            if let Some(facts) = facts_behind(repo, &root, it)? {
                found.insert(format!("{HOOKS}/{it}"), Work::Seen { facts });
            }
        }
        Ok(found)
    }
}

/// Returns the facts of a file in a folder that a link names.
pub(super) fn facts_behind(repo: &Repo, folder: &Root, name: &str) -> Result<Option<String>> {
    Ok(match folder.standing(name::path(name), SOURCE_BYTES_MAX)? {
        Standing::Nothing => None,
        Standing::File { bytes, mode } => Some(format!("{mode:o} {}", repo.hash(&bytes))),
        Standing::Link { target } => {
            let place = folder.path().as_std_path().join(name::path(name));
            let further = behind::facts(repo, &place)?.unwrap_or_default();
            Some(format!("-> {target} {further}"))
        }
        Standing::Other { facts } => Some(facts),
    })
}

/// Returns what stands now where a snapshot saw a hook behind a link, `hooks/NAME`.
pub(in crate::documents) fn hook_behind_a_link(
    repo: &Repo,
    shared: &Root,
    name: &str,
) -> Result<Work> {
    let Some(name) = name.strip_prefix("hooks/") else { return Ok(Work::Nothing) };
    let Ok(folder) = shared.path().join(HOOKS).canonicalize_utf8() else {
        return Ok(Work::Nothing);
    };
    let facts = facts_behind(repo, &Root::open(&folder)?, name)?;
    Ok(facts.map_or(Work::Nothing, |facts| Work::Seen { facts }))
}

/// Returns facts of the folder of hooks if it is one that cannot be listed.
pub(in crate::documents) fn hooks_facts(shared: &Root) -> Option<String> {
    let closed = std::fs::read_dir(shared.path().join(HOOKS)).err()?;
    let is_closed = closed.kind() == std::io::ErrorKind::PermissionDenied;
    is_closed.then(|| "folder that cannot be listed".to_owned())
}
