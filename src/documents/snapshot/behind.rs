//! What git reads behind a link in the place of one of its own files: not ours to keep, but its
//! content steers git.
//!
//! **Invariant:** whoever changes it while a job runs is noticed, however many links lead there.
//! What is in the working tree is compared there, like any other file.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use camino::Utf8Path;

use crate::base::{Result, fault};
use crate::documents::git::Repo;
use crate::documents::snapshot::private::{
    HOOKS, LISTED_MAX, OWN, REMOTES, SHARED, facts_behind, git_root,
};
use crate::documents::snapshot::steering::is_followed;
use crate::documents::snapshot::{Work, name};
use crate::process::Root;

/// What follows the name of a link, in the name of what is behind it.
const BEHIND: &str = " (behind the link)";
/// The state of what is missing.
const NOTHING: &str = "nothing";

/// Returns the name of the link, if this is the name of what is behind one.
pub(in crate::documents) fn link_of(name: &str) -> Option<&str> {
    name.strip_suffix(BEHIND)
}

/// Returns the name and the state of what is behind a link; `None` if it is in the working tree.
pub(super) fn look(repo: &Repo, root: &Root, link: &str) -> Result<Option<(String, Work)>> {
    if fault::is_off("behind_links") {
        return Ok(None);
    }
    let place = root.path().as_std_path().join(name::path(link));
    let facts = facts(repo, &place)?;
    Ok(facts.map(|facts| (format!("{link}{BEHIND}"), Work::Seen { facts })))
}

/// Returns the place where a link leads, and the state of what is there.
pub(super) fn facts(repo: &Repo, link: &Path) -> Result<Option<String>> {
    let place = place_of(link);
    if is_followed(repo.git().folder(), &place) {
        return Ok(None);
    }
    let state = state(repo, &place)?;
    Ok(Some(format!("{}\n{state}", name::shown(place.as_os_str().as_bytes()))))
}

/// Returns where a link leads, or the first of several, if there is nothing.
fn place_of(link: &Path) -> PathBuf {
    link.canonicalize().unwrap_or_else(|_| {
        let target = link.read_link().unwrap_or_default();
        link.parent().map(|it| it.join(&target)).unwrap_or(target)
    })
}

/// Returns the state of what is now behind a link; without the link, of what is where it led.
pub(in crate::documents) fn now(repo: &Repo, link: &str, before: &Work) -> Result<Work> {
    let place = git_root(repo, link)?.path().as_std_path().join(name::path(link));
    if !place.is_symlink() {
        return again(repo, before);
    }
    Ok(facts(repo, &place)?.map_or(Work::Nothing, |facts| Work::Seen { facts }))
}

/// Returns the state of what is at a place now that was behind a link.
pub(in crate::documents) fn again(repo: &Repo, work: &Work) -> Result<Work> {
    let Work::Seen { facts } = work else { return Ok(Work::Nothing) };
    let place = facts.rsplit_once('\n').map_or("", |it| it.0);
    let state = state(repo, &name::path(place))?;
    Ok(Work::Seen { facts: format!("{place}\n{state}") })
}

fn state(repo: &Repo, place: &Path) -> Result<String> {
    let folder = place.parent().and_then(Utf8Path::from_path);
    let (Some(folder), Some(own)) = (folder, place.file_name()) else {
        return Ok(NOTHING.to_owned());
    };
    let Ok(folder) = Root::open(folder) else { return Ok(NOTHING.to_owned()) };
    let facts = facts_behind(repo, &folder, &name::shown(own.as_bytes()))?;
    Ok(facts.unwrap_or_else(|| NOTHING.to_owned()))
}

/// Returns whether one of the files below a folder of git's is a link that leads out of the working
/// tree.
pub fn leads_out(top: &Utf8Path, git_folder: &Utf8Path) -> bool {
    let own = SHARED.iter().chain(OWN).map(|it| git_folder.join(it).into_std_path_buf());
    let listed = [HOOKS].into_iter().chain(REMOTES).flat_map(|folder| {
        let files = std::fs::read_dir(git_folder.join(folder)).into_iter().flatten();
        files.take(LISTED_MAX).filter_map(|it| Some(it.ok()?.path()))
    });
    let mut links = own.chain(listed).filter(|it| it.is_symlink());
    links.any(|it| !is_followed(top, &place_of(&it)))
}
