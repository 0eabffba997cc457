//! Links that replace git's own files and folders: git reads and writes where they lead, and we do
//! not look there, except for the rules behind a link at `info` or `objects/info`.

use std::collections::BTreeMap;

use camino::Utf8Path;

use crate::base::{Error, JobId, Result};
use crate::documents::git::{PLANTED_REPOSITORY, Repo};
use crate::documents::snapshot::private::{facts_behind, git_root};
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
const OWN: &[&str] = &["HEAD", "index"];

/// Returns whether a link may stand there in the place of git's own file or folder.
pub(in crate::documents) fn may_be_link(name: &str) -> bool {
    SHARED.contains(&name) || OWN.contains(&name)
}

pub(super) fn is_shared(name: &str) -> bool {
    SHARED.contains(&name)
}

/// Returns the links among them.
pub(super) fn look(repo: &Repo, reader: &mut Reader<'_>) -> Result<BTreeMap<String, Work>> {
    let mut found = BTreeMap::new();
    for name in SHARED.iter().chain(OWN) {
        let root = git_root(repo, name)?;
        if let Standing::Link { .. } = root.standing(name, 0)? {
            found.insert((*name).to_owned(), reader.work(&root, name)?);
        }
    }
    Ok(found)
}

/// Returns where a link in the place of git's own file or folder leads; `None` if none is there.
pub(in crate::documents) fn link_at(repo: &Repo, name: &str) -> Result<Option<String>> {
    Ok(match git_root(repo, name)?.standing(name, 0)? {
        Standing::Link { target } => Some(target),
        _ => None,
    })
}

/// A link in the place of git's own file or folder: its name, and where it leads.
pub(in crate::documents) type Link = (&'static str, String);

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
        let mut found = Vec::new();
        for name in SHARED.iter().chain(OWN) {
            found.extend(link_at(self, name)?.map(|target| (*name, target)));
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
        Error::conflict(PLANTED_REPOSITORY, message).hint(format!(
            "nothing was changed. Check what it leads to, and put it back by hand (`rm '{place}'`, \
             then move what was there back), then run `wiki-browser job restore {job}` once the \
             job has ended; or keep the link: `wiki-browser job keep {job}`"
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
    SHARED.iter().chain(OWN).any(|it| git_folder.join(it).is_symlink())
}
