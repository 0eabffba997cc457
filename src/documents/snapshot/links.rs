//! Links that replace git's own files and folders, and logs that have another name: git reads and
//! writes where they lead, and we do not look there, except for the rules behind a link at `info`
//! or `objects/info`.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use camino::Utf8Path;

use crate::base::{Error, JobId, Result};
use crate::documents::git::{PLANTED_REPOSITORY, Repo};
use crate::documents::snapshot::private::{facts_behind, git_root, names_lock};
use crate::documents::snapshot::{Reader, Snapshot, Work, name};
use crate::process::{Root, Standing};

/// What a link may stand for, in the folder shared by all worktrees.
const SHARED: &[&str] = &[
    "branches",
    "info",
    "logs",
    "modules",
    "objects",
    "objects/info",
    "objects/pack",
    "packed-refs",
    "refs",
    "refs/heads",
    "refs/remotes",
    "refs/tags",
    "remotes",
    "worktrees",
];
/// The same in the folder of one worktree.
const OWN: &[&str] = &["HEAD", LOG_OF_HEAD, "index", ASIDE];
/// The log of what is checked out.
const LOG_OF_HEAD: &str = "logs/HEAD";
/// The folder for what a restore puts aside.
pub(in crate::documents) const ASIDE: &str = "wiki-browser";
/// Folders in which git writes at any depth.
const DEEP: &[&str] = &["logs", "refs"];
/// Folders in which git, or a restore, writes one level deeper.
const FLAT: &[&str] = &["objects", ASIDE];
/// The folder whose files git appends to, and so to any other name of theirs.
const APPENDED: &str = "logs";
/// Where a file leads that has another name.
pub(in crate::documents) const OTHER_NAME: &str = "another name of the same file";
/// Most entries searched for links in one of these folders.
const SEARCHED_MAX: usize = 1_000_000;

/// Returns whether a link may stand there in the place of git's own file or folder.
pub(in crate::documents) fn may_be_link(name: &str) -> bool {
    SHARED.contains(&name) || OWN.contains(&name) || is_within(name)
}

/// Returns whether a name is that of an entry in a folder that is searched for links.
fn is_within(name: &str) -> bool {
    let below = |folder: &str| name.strip_prefix(folder)?.strip_prefix('/');
    let is_deep = DEEP.iter().any(|it| below(it).is_some());
    let is_flat = FLAT.iter().any(|it| below(it).is_some_and(|it| !it.contains('/')));
    // Git makes no lock where a link is.
    (is_deep || is_flat) && !names_lock(name)
}

/// Returns whether nothing is behind a link of this name that the repository needs: a restore
/// removes it.
pub fn is_removable(name: &str) -> bool {
    let is_in = |folder: &str| Path::new(name).starts_with(folder);
    is_in(ASIDE) || (is_in("logs") && name != "logs")
}

pub(super) fn is_own(name: &str) -> bool {
    OWN.contains(&name) || Path::new(name).starts_with(ASIDE)
}

/// Returns the links among them.
pub(super) fn look(repo: &Repo, reader: &mut Reader<'_>) -> Result<BTreeMap<String, Work>> {
    let mut found = BTreeMap::new();
    for (name, target) in repo.links()? {
        // A link is small, and counts as none of the files that are read.
        reader.kept.put(&repo.hash(target.as_bytes()), target.as_bytes())?;
        found.insert(name, Work::Link { target });
    }
    Ok(found)
}

/// Returns where a link in the place of git's own file or folder leads; `None` if none is there.
pub(in crate::documents) fn link_at(repo: &Repo, name: &str) -> Result<Option<String>> {
    target_of(&git_root(repo, name)?, name)
}

fn target_of(root: &Root, name: &str) -> Result<Option<String>> {
    Ok(match root.standing(name::path(name), 0)? {
        Standing::Link { target } => Some(target),
        Standing::Nothing => None,
        _ => {
            let is_one = Path::new(name).starts_with(APPENDED);
            let is_one = is_one && root.has_other_name(&name::path(name));
            is_one.then(|| OTHER_NAME.to_owned())
        }
    })
}

/// Returns the names of the links in the folders of one of git's folders that are searched.
fn searched(root: &Root, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let folders = DEEP.iter().map(|it| (it, true)).chain(FLAT.iter().map(|it| (it, false)));
    for (folder, is_deep) in folders {
        let how = (is_deep, *folder == APPENDED);
        let links = root.links_in(Path::new(folder), how, SEARCHED_MAX)?;
        let names = links.iter().map(|it| name::shown(it.as_os_str().as_bytes()).into_owned());
        found.extend(names.filter(|it| is_within(it) && is_wanted(it)));
    }
    found.sort_unstable();
    Ok(found)
}

/// A link in the place of git's own file or folder: its name, and where it leads.
pub(in crate::documents) type Link = (String, String);

impl Snapshot {
    /// Returns the first of these links that was not there.
    pub(in crate::documents) fn new_link<'a>(&self, links: &'a [Link]) -> Option<&'a Link> {
        // A snapshot of an earlier version of this program has no links.
        let mut links = links.iter().filter(|_| self.git_folder.is_some());
        let was = |name: &str| match self.private.get(name) {
            Some(Work::Link { target }) => Some(target),
            _ => None,
        };
        links.find(|(name, target)| was(name) != Some(target))
    }
}

impl Repo {
    /// Returns the links that are there now.
    pub(in crate::documents) fn links(&self) -> Result<Vec<Link>> {
        let shared = Root::open(self.common_dir())?;
        let own = Root::open(self.git_dir())?;
        let named = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let names = [
            (&shared, [named(SHARED), searched(&shared, |it| !is_own(it))?].concat()),
            (&own, [named(OWN), searched(&own, |it| is_own(it) && !OWN.contains(&it))?].concat()),
        ];
        let mut found = Vec::new();
        for (root, names) in names {
            for name in names {
                found.extend(target_of(root, &name)?.map(|target| (name, target)));
            }
        }
        Ok(found)
    }

    /// Returns the error for a link that is there since a job ran.
    pub(in crate::documents) fn led_by_link(
        &self,
        (name, target): (&str, &str),
        job: &JobId,
    ) -> Error {
        let message =
            format!(".git/{name} is a link since job {job} ran, and git would write to {target}");
        let place = git_root(self, name).map(|it| it.path().join(name));
        let place = place.map_or_else(|_| format!(".git/{name}"), |it| it.to_string());
        let by_hand = format!(
            "put it back by hand (`rm '{place}'`, then move what was there back), then run \
             `wiki-browser job restore {job}`"
        );
        let way = match is_removable(name) {
            true => format!("remove it with `wiki-browser job restore {job}`"),
            false => by_hand,
        };
        Error::conflict(PLANTED_REPOSITORY, message).hint(format!(
            "nothing was changed. Check what it leads to, and {way} once the job has ended; or \
             keep the link: `wiki-browser job keep {job}`"
        ))
    }
}

/// Returns the facts of a file behind a link in the place of its folder: not ours to keep, but git
/// reads it.
pub(super) fn behind(repo: &Repo, root: &Root, file: &str) -> Result<Option<Work>> {
    let path = Utf8Path::new(file);
    let (Some(folder), Some(own)) = (path.parent(), path.file_name()) else { return Ok(None) };
    let is_linked = folder.ancestors().any(|it| root.path().join(it).is_symlink());
    if folder.as_str().is_empty() || !is_linked {
        return Ok(None);
    }
    let Ok(real) = root.path().join(folder).canonicalize_utf8() else { return Ok(None) };
    let Ok(real) = Root::open(&real) else { return Ok(None) };
    let facts = facts_behind(repo, &real, &name::shown(own.as_bytes()))?;
    Ok(facts.map(|facts| Work::Seen { facts }))
}

/// Returns whether a link leads git elsewhere below a folder of git's.
pub fn are_below(git_folder: &Utf8Path) -> bool {
    let is_one = |it: &&str| git_folder.join(it).is_symlink();
    let is_within = || {
        // What cannot be searched may have some.
        let root = Root::open(git_folder).ok();
        root.is_some_and(|root| searched(&root, |_| true).map_or(true, |it| !it.is_empty()))
    };
    SHARED.iter().chain(OWN).any(is_one) || is_within()
}
