//! Worktrees of a site that was moved: found again by their names, and recorded where they are.

use std::os::unix::fs::MetadataExt as _;

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::json;
use tracing::info;

use crate::base::{Context, Error, ErrorKind, Result};
use crate::documents::workspace::{self, Wanted, Workspace, WorkspaceSort, WorkspaceState, row};
use crate::flows::Works;
use crate::jobs::{self, HookRun};

/// Where a worktree and its repository are now.
struct Place {
    path: Utf8PathBuf,
    repo: Utf8PathBuf,
}

/// Returns the key that distinguishes this site from a copy of its data folder.
pub(super) fn mark(works: &Works) -> Result<String> {
    mark_of(&works.config.site.data)
}

/// Returns the same key of the site with this data folder.
pub(super) fn mark_of(data: &Utf8Path) -> Result<String> {
    let facts = facts(data).context(ErrorKind::Unavailable, || format!("cannot read {data}"))?;
    Ok(format!("{data} {facts}"))
}

fn facts(folder: &Utf8Path) -> std::io::Result<String> {
    std::fs::metadata(folder).map(|it| format!("{}:{}", it.dev(), it.ino()))
}

/// Returns a workspace where it is now: a site that is moved takes its worktrees along, and its
/// repository.
///
/// # Errors
/// `unavailable` if git's record, or the row, cannot be written.
pub(super) async fn followed(works: &Works, found: Workspace) -> Result<Workspace> {
    let (site, was) = (works.config.site.clone(), found.clone());
    let place = tokio::task::spawn_blocking(move || place_of(&was, (&site.data, &site.root)));
    let place = place
        .await
        .map_err(|cause| Error::internal("a worktree could not be looked for").source(cause))?;
    let Some(Place { path, repo }) = place else { return Ok(found) };
    let now = mark(works)?;
    let wanted = Wanted { folder: &repo, path: &path, job: &found.root, mark: &now };
    let moved = |told: &str| is_moved(told, &now);
    match workspace::follow(&works.repo, &found.path, wanted, moved).await {
        Ok(true) => {}
        Ok(false) => return Ok(found),
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(found),
        Err(cause) => return Err(cause),
    }
    let cleanup = match &found.cleanup {
        Some(text) => Some(json!(renamed(&hook(text)?, &found, (&path, &repo))).to_string()),
        None => None,
    };
    let next = Workspace { path, repo: Some(repo), cleanup, ..found.clone() };
    let row = next.clone();
    works.store.write(move |tx| row::relocate(tx, &row)).await?;
    info!(job_id = %next.root, "the worktree {} is at {} now", found.path, next.path);
    Ok(next)
}

/// Returns the cleanup hook of a row.
///
/// # Errors
/// `internal` if the row makes no sense.
pub(super) fn hook(text: &str) -> Result<HookRun> {
    serde_json::from_str(text)
        .map_err(|cause| Error::internal("the cleanup of a workspace makes no sense").source(cause))
}

/// Returns where a worktree of this site is, or would be, that is not where its row says.
fn place_of(found: &Workspace, (data, root): (&Utf8Path, &Utf8Path)) -> Option<Place> {
    let is_open = found.state != WorkspaceState::Gone && found.sort == WorkspaceSort::Worktree;
    let repo = found.repo.as_ref().filter(|_| is_open)?;
    let is_missing = |path: &Utf8Path| path.symlink_metadata().is_err();
    // A link at the old place of a moved site leads to the new one.
    let is_root = facts(repo).is_ok_and(|it| facts(root).is_ok_and(|root| it == root));
    let now = if is_root || is_missing(repo) { root } else { repo };
    let usual = jobs::usual_worktree(data, &found.root);
    let beside = found.path.strip_prefix(repo).ok().map(|it| root.join(it));
    let has_name = usual.file_name() == found.path.file_name();
    let mut places = Some(usual).filter(|_| has_name).into_iter().chain(beside);
    let path = if is_missing(&found.path) {
        let places: Vec<_> = places.collect();
        let is_it = |path: &&Utf8PathBuf| jobs::is_folder(path);
        // One that is nowhere belongs to the moved repository: its commits are there.
        let nowhere = || places.first().filter(|_| is_missing(repo));
        places.iter().find(is_it).or_else(nowhere)?.clone()
    } else {
        places.find(|it| is_same(it, &found.path)).unwrap_or_else(|| found.path.clone())
    };
    (path != found.path || now != repo).then(|| Place { path, repo: now.to_owned() })
}

/// Returns whether two paths name one folder; a link in its place is another.
fn is_same(one: &Utf8Path, other: &Utf8Path) -> bool {
    let facts = |path: &Utf8Path| {
        let found = path.symlink_metadata().ok().filter(std::fs::Metadata::is_dir);
        found.map(|it| (it.dev(), it.ino()))
    };
    facts(one).is_some_and(|it| Some(it) == facts(other))
}

/// Returns whether the site with the mark `told` is the one that has the mark `now`: the same
/// folder under another name, or one on another disk whose first folder is gone. A copy of a site
/// that still exists is neither.
fn is_moved(told: &str, now: &str) -> bool {
    let (Some((old, was)), Some((_, is))) = (told.rsplit_once(' '), now.rsplit_once(' ')) else {
        return false;
    };
    was == is || facts(Utf8Path::new(old)).map_or(true, |it| it != was)
}

/// Returns a hook with the paths that the move changed.
fn renamed(hook: &HookRun, was: &Workspace, (path, repo): (&Utf8Path, &Utf8Path)) -> HookRun {
    let pairs = [(Some(&was.path), path), (was.repo.as_ref(), repo)];
    let moved = |text: &str| {
        let below = |(old, new): &(Option<&Utf8PathBuf>, &Utf8Path)| {
            let rest = text.strip_prefix(old.as_ref()?.as_str())?;
            (rest.is_empty() || rest.starts_with('/')).then(|| format!("{new}{rest}"))
        };
        pairs.iter().find_map(below).unwrap_or_else(|| text.to_owned())
    };
    HookRun {
        argv: hook.argv.iter().map(|it| moved(it)).collect(),
        env: hook.env.iter().map(|(name, value)| (name.clone(), moved(value))).collect(),
        cwd: moved(hook.cwd.as_str()).into(),
        ..hook.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moved_site_is_told_from_a_copy() {
        let held = tempfile::tempdir().unwrap();
        let base = Utf8Path::from_path(held.path()).unwrap();
        let of = |name: &str| {
            let folder = base.join(name);
            std::fs::create_dir_all(&folder).unwrap();
            format!("{folder} {}", facts(&folder).unwrap())
        };
        let (first, copy) = (of("first"), of("copy of it"));
        assert!(is_moved(&first, &first));
        assert!(!is_moved(&first, &copy), "the first is still there");
        std::fs::rename(base.join("first"), base.join("moved")).unwrap();
        assert!(is_moved(&first, &of("moved")));
        assert!(is_moved(&first, &copy), "on another disk");
        assert!(!is_moved("", &copy));
    }
}
