//! Workspaces, the folders that agents work in: created for the queue, swept, kept and removed.

mod moved;
pub mod orphan;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error};

use crate::api::workspaces::WorkspaceList;
use crate::api::workspaces::{Workspace, WorkspaceSort, WorkspaceState};
use crate::base::{Actor, Error, ErrorKind, JobId, Millis, Result};
use crate::documents::workspace::{self, Discard, NewWorkspace, Wanted, row};
use crate::flows::jobs::steering_hold;
use crate::flows::{Site, Works, clock};
use crate::jobs::{self, Cleanup, Job, Rest, Viewer, WorkspaceNeed, Workspaces};
use crate::people::Caller;
use crate::process;
use crate::script::Kind;
use moved::mark;

/// Interval of sweeps.
const EVERY: Duration = Duration::from_secs(3_600);
const MINUTE_MS: i64 = 60_000;
/// Most workspaces per sweep.
const SWEPT_MAX: u32 = 1_000;
/// Most workspaces in a list.
const LISTED_MAX: u32 = 200;

/// Returns the hooks that create and remove the workspaces of jobs.
pub fn workspaces(works: &Works) -> Workspaces {
    let (making, beginning, ending) = (works.clone(), works.clone(), works.clone());
    Workspaces {
        make: Arc::new(move |need| {
            let works = making.clone();
            Box::pin(async move { make(&works, need).await })
        }),
        begin_cleanup: Arc::new(move |root| {
            let works = beginning.clone();
            Box::pin(async move { begin(&works, root).await })
        }),
        end_cleanup: Arc::new(move |root, why| {
            let works = ending.clone();
            Box::pin(async move { end(&works, &root, why, Discard::Nothing).await })
        }),
    }
}

/// Writes the row first, and then creates the worktree if needed.
async fn make(works: &Works, need: WorkspaceNeed) -> Result<Utf8PathBuf> {
    let WorkspaceNeed { root, path, repo, cleanup, skill } = need;
    let cleanup = cleanup.map(|it| json!(it).to_string());
    let sort = if repo.is_some() { WorkspaceSort::Worktree } else { WorkspaceSort::Folder };
    if let Some(prefix) = kept(works, &root, (&path, repo.as_deref())).await? {
        let script = repo.as_ref().and_then(|it| counterpart(works, (it, &path), Place::Script));
        let folder = script.filter(|it| it.is_dir()).unwrap_or_else(|| path.join(prefix));
        return Ok(folder);
    }
    let (id, at) = (root.clone(), path.clone());
    works.store.read(move |c| refuse_kept(c, &id, &at)).await?;
    let new =
        NewWorkspace { root: root.clone(), sort, path: path.clone(), repo: repo.clone(), cleanup };
    works.store.write(move |tx| row::insert(tx, &new)).await?;
    let made = match &repo {
        Some(folder) => {
            steering_hold::refuse_astray(works).await?;
            let mark = mark(works)?;
            let wanted = Wanted { folder, path: &path, job: &root, mark: &mark };
            Some(workspace::make(&works.repo, wanted).await?)
        }
        None => None,
    };
    let base = made.as_ref().map(|it| it.base.clone());
    works.store.write(move |tx| row::ready(tx, &root, base.as_ref())).await?;
    let Some(made) = made else { return Ok(path) };
    let script = repo.as_ref().and_then(|repo| counterpart(works, (repo, &path), Place::Script));
    let Some(script) = script else { return Ok(path.join(made.prefix)) };
    if let Some(missing) = uncommitted(&works.config.folder, &script, &skill) {
        let site = &works.config.folder;
        return Err(Error::conflict(
            "skill_uncommitted",
            format!(
                "{missing} is not committed, so the agent would not find it there; \
                 run git add {missing} and git commit in {site}"
            ),
        ));
    }
    Ok(if script.is_dir() { script } else { path.join(made.prefix) })
}

/// Returns the workspace of the legs before a job, wherever it is now; `None` if they had none.
///
/// # Errors
/// As reading the database, or following a site that was moved.
pub async fn of_leg(works: &Works, job: &Job) -> Result<Option<WorkspaceNeed>> {
    let root = job.root().clone();
    let Some(found) = works.store.read(move |c| row::find(c, &root)).await? else {
        return Ok(None);
    };
    let Workspace { root, path, repo, .. } = moved::followed(works, found).await?;
    Ok(Some(WorkspaceNeed { root, path, repo, cleanup: None, skill: Vec::new() }))
}

/// Refuses the folder of an earlier job of the same message that a person has kept: what is in it
/// is theirs, and neither hooks nor agents may touch it.
fn refuse_kept(c: &Connection, root: &JobId, path: &Utf8Path) -> Result<()> {
    let Some(message) = jobs::find_brief(c, &Viewer::Program, root)?.message_id else {
        return Ok(());
    };
    if !path.exists() {
        return Ok(());
    }
    for earlier in jobs::roots_of_message(c, &message)? {
        let kept = row::find(c, &earlier)?.filter(|it| it.is_kept() && it.path == path);
        if kept.is_some() {
            let message = format!(
                "{path} was kept by a person after job {earlier}; to run it again, move that \
                 folder away and type: wiki-browser job retry {root}"
            );
            return Err(Error::conflict("workspace_kept", message));
        }
    }
    Ok(())
}

/// Returns the folder of the agent inside of the workspace that an earlier leg has left; nothing
/// for the first leg.
async fn kept(
    works: &Works,
    root: &JobId,
    (path, repo): (&Utf8Path, Option<&Utf8Path>),
) -> Result<Option<String>> {
    let id = root.clone();
    let Some(found) = works.store.read(move |c| row::find(c, &id)).await? else { return Ok(None) };
    let found = moved::followed(works, found).await?;
    if found.state != WorkspaceState::Ready || found.path != path {
        let message = format!("the workspace {} of job {root} is gone", found.path);
        return Err(Error::conflict("workspace_state", message)
            .hint("see its state: wiki-browser workspace list"));
    }
    match repo {
        Some(folder) => workspace::prefix(&works.repo, (folder, path)).await.map(Some),
        None => Ok(Some(String::new())),
    }
}

/// Returns the first path that the site's folder has and its counterpart in a worktree lacks.
fn uncommitted<'a>(
    site: &Utf8Path,
    worktree: &Utf8Path,
    paths: &'a [Utf8PathBuf],
) -> Option<&'a Utf8Path> {
    let is_missing = |path: &&Utf8PathBuf| {
        path.is_relative() && site.join(path).exists() && !worktree.join(path).exists()
    };
    paths.iter().find(is_missing).map(Utf8PathBuf::as_path)
}

/// A folder of the site that its worktrees also have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The folder of the documents.
    Root,
    /// The folder of the script.
    Script,
}

/// Returns a folder of the site in a worktree at `path`; `None` if `repo` is not the site's own, or
/// the folder is outside the repository.
fn counterpart(
    works: &Works,
    (repo, path): (&Utf8Path, &Utf8Path),
    place: Place,
) -> Option<Utf8PathBuf> {
    let site = &works.config.site;
    let folder = match place {
        Place::Root => &site.root,
        Place::Script => &works.config.folder,
    };
    let below = folder.strip_prefix(works.repo.top()).ok()?;
    let inside = if below.as_str().is_empty() { path.to_owned() } else { path.join(below) };
    (repo == site.root).then_some(inside)
}

/// Returns `root` and `folder` for the prompt of a job: in its worktree, if the server creates one
/// of the site's repository, so that an agent that follows its prompt writes there.
pub fn prompt_names(works: &Works, kind: &Kind, job: &Job) -> BTreeMap<String, String> {
    let path = jobs::worktree_path(&kind.hooks, &works.config.site.data, job.root());
    let (Some(path), Some(repo)) = (path, &kind.hooks.repo) else { return BTreeMap::new() };
    [("root", Place::Root), ("folder", Place::Script)]
        .into_iter()
        .filter_map(|(name, place)| {
            let folder = counterpart(works, (repo, &path), place)?;
            Some((name.to_owned(), folder.into_string()))
        })
        .collect()
}

async fn begin(works: &Works, root: JobId) -> Result<Option<Cleanup>> {
    let id = root.clone();
    if let Some(found) = works.store.read(move |c| row::find(c, &id)).await? {
        moved::followed(works, found).await?;
    }
    let begun = works.store.write(move |tx| row::begin_cleanup(tx, &root)).await?;
    let Some(begun) = begun else { return Ok(None) };
    let mut hook = begun.cleanup.as_deref().map(moved::hook).transpose()?;
    // Also one recorded by a version that did not say so.
    hook.iter_mut().for_each(|it| it.is_bound = begun.sort == WorkspaceSort::Worktree);
    Ok(Some(Cleanup { number: begun.tries, hook }))
}

/// Finishes a cleanup. A worktree stays if its hook failed or its content cannot be saved.
async fn end(
    works: &Works,
    root: &JobId,
    why: Option<String>,
    discard: Discard,
) -> Result<Option<String>> {
    let id = root.clone();
    let Some(found) = works.store.read(move |c| row::find(c, &id)).await? else { return Ok(None) };
    let done = match (why, &found.repo) {
        (Some(why), _) => Err(why),
        (None, Some(_)) => remove(works, &found, discard).await.map_err(|cause| {
            error!(job_id = %root, "a worktree stays: {}", cause.chain());
            cause.message().to_owned()
        }),
        (None, None) => Ok(None),
    };
    let (state, kept, why) = match done {
        Ok(kept) => (WorkspaceState::Gone, kept, None),
        Err(why) => (WorkspaceState::Failed, None, Some(why)),
    };
    let (id, note) = (root.clone(), why.clone());
    works
        .store
        .write(move |tx| row::end(tx, &id, state, (kept.as_deref(), note.as_deref())))
        .await?;
    Ok(why.map(|why| format!("cleanup_failed: {why}")))
}

async fn remove(works: &Works, found: &Workspace, discard: Discard) -> Result<Option<String>> {
    let Some(repo) = &found.repo else { return Ok(None) };
    // What is saved would be behind the link of another job, or in the repository that it left.
    steering_hold::refuse_astray(works).await?;
    let mark = mark(works)?;
    let wanted =
        Wanted { folder: repo.as_path(), path: &found.path, job: &found.root, mark: &mark };
    // A removal that a crash interrupted left no note.
    let is_again = found.tries > 1 && found.note.is_none();
    let discard = match discard {
        Discard::Nothing if is_again || found.cleanup.is_some() => Discard::Missing,
        discard => discard,
    };
    let removed = workspace::remove(&works.repo, wanted, found.base_commit.as_ref(), discard);
    match removed.await {
        // Its repository is missing too: nothing can be saved.
        Err(cause) if cause.kind() == ErrorKind::NotFound && !found.path.exists() => {
            match discard {
                Discard::Unkept => Ok(None),
                _ => Err(workspace::missing(&found.path, &found.root).source(cause)),
            }
        }
        removed => removed,
    }
}

/// The result of a sweep.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Swept {
    /// The workspaces that were, or would be, cleaned up.
    pub items: Vec<SweptOne>,
    /// Whether nothing was changed.
    pub dry_run: bool,
}

/// A workspace that a sweep cleaned up, or would clean up.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SweptOne {
    /// Its job.
    pub job_id: JobId,
    /// Where it is.
    #[cfg_attr(test, schemars(with = "String"))]
    pub path: Utf8PathBuf,
    /// The error; null if there was none.
    pub problem: Option<String>,
}

/// Sweeps at the start, whenever a cleanup is due, and hourly, until `stop`.
pub async fn serve(site: Site, stop: CancellationToken) {
    let bell = site.store.bell(row::BELL);
    while clock::sleep(round(&site, &stop).await, "workspaces are swept", &bell, &stop).await {}
}

/// Sweeps; returns how long until the next cleanup is due.
async fn round(site: &Site, stop: &CancellationToken) -> Result<Option<Duration>> {
    let swept = sweep(site, false, stop).await?;
    debug!(count = swept.items.len(), "workspaces were swept");
    let now = site.store.clock().now();
    let next = site.store.read(move |c| {
        let mut next = None;
        for found in row::open(c, SWEPT_MAX)? {
            let due = due(&found, jobs::rest_of(c, &found.root)?).filter(|at| *at > now);
            next = next.into_iter().chain(due).min();
        }
        Ok(next)
    });
    Ok(Some(next.await?.map_or(EVERY, |at| clock::until(at, now))))
}

/// Cleans up the workspaces of ended jobs: after a crash, or after a failed cleanup. Only folders
/// with a row are touched.
///
/// # Errors
/// As the database; what goes wrong with one of them is in the answer.
pub async fn sweep(site: &Site, dry_run: bool, stop: &CancellationToken) -> Result<Swept> {
    let open = site.store.read(|c| row::open(c, SWEPT_MAX)).await?;
    let mut swept = Swept { items: Vec::new(), dry_run };
    for found in open {
        let found = moved::followed(&site.works, found).await?;
        let (root, now) = (found.root.clone(), site.store.clock().now());
        let rest = site.store.read(move |c| jobs::rest_of(c, &root)).await?;
        if due(&found, rest).is_none_or(|at| at > now) || stop.is_cancelled() {
            continue;
        }
        let path = found.path.clone();
        let is_used = tokio::task::spawn_blocking(move || process::is_occupied(&path)).await;
        if is_used.unwrap_or(true) {
            continue;
        }
        let problem = match dry_run {
            true => found.note.clone(),
            false => match site.queue.clean_up(&found.root, stop).await {
                Ok(warning) => warning,
                Err(cause) => Some(cause.message().to_owned()),
            },
        };
        swept.items.push(SweptOne { job_id: found.root, path: found.path, problem });
    }
    Ok(swept)
}

/// Returns when a workspace is cleaned up: some time after its job ended, because that job usually
/// does it, and at once if it was cancelled while it waited. A failed cleanup is repeated later.
fn due(found: &Workspace, rest: Rest) -> Option<Millis> {
    let ended = rest.ended.filter(|_| !rest.is_active)?;
    let pause = match (found.state, found.tries) {
        (WorkspaceState::Failed, 1) => MINUTE_MS,
        (WorkspaceState::Failed, 2) => 10 * MINUTE_MS,
        (WorkspaceState::Failed, 3) => 60 * MINUTE_MS,
        (WorkspaceState::Failed, _) => return None,
        (WorkspaceState::Ready, _) if rest.is_cancelled => 0,
        _ => 10 * MINUTE_MS,
    };
    Some(found.ended_at.unwrap_or(ended).plus(pause))
}

/// Returns the newest workspaces.
///
/// # Errors
/// As any read.
pub async fn list(site: &Site) -> Result<WorkspaceList> {
    let until = site.store.clock().now();
    let items = site.store.read(move |c| row::list(c, until, LISTED_MAX)).await?;
    Ok(WorkspaceList { items })
}

/// Keeps a workspace: its folder is no longer touched.
///
/// # Errors
/// `not_found`; `conflict` with codes `still_running` and `workspace_state`.
pub async fn keep(site: &Site, caller: &Caller, root: &JobId) -> Result<Workspace> {
    let by = Actor::Person(caller.may_decide()?.id.clone());
    rested(site, root).await?;
    let id = root.clone();
    site.store.write(move |tx| row::leave(tx, &id, &by)).await?;
    shown(site, root).await
}

/// Removes a workspace, including unsaved work in a worktree. A folder created by a hook is cleaned
/// up by its hook.
///
/// # Errors
/// `not_found`; `conflict` with codes `still_running` and `workspace_state`.
pub async fn discard(site: &Site, caller: &Caller, root: &JobId) -> Result<Workspace> {
    caller.may_decide()?;
    let found = rested(site, root).await?;
    if found.state == WorkspaceState::Gone {
        return Err(Error::conflict("workspace_state", format!("{} is gone", found.path)));
    }
    if found.sort == WorkspaceSort::Folder {
        site.queue.clean_up(root, &CancellationToken::new()).await?;
        return shown(site, root).await;
    }
    let (works, id) = (site.works.clone(), root.clone());
    // As a task of its own: a client that disconnects does not interrupt it.
    let work = async move {
        begin(&works, id.clone()).await?;
        end(&works, &id, None, Discard::Unkept).await
    };
    site.repo.run_to_end(work).await?;
    shown(site, root).await
}

/// Returns a workspace as the job's page shows it.
///
/// # Errors
/// As any read.
pub fn of_job(connection: &Connection, job: &jobs::Job) -> Result<Option<Workspace>> {
    row::find(connection, job.root())
}

async fn rested(site: &Site, root: &JobId) -> Result<Workspace> {
    let found = shown(site, root).await?;
    let id = root.clone();
    if site.store.read(move |c| jobs::rest_of(c, &id)).await?.is_active {
        return Err(Error::conflict("still_running", format!("job {root} has not ended"))
            .hint("wait for it, or cancel it"));
    }
    Ok(found)
}

async fn shown(site: &Site, root: &JobId) -> Result<Workspace> {
    let id = root.clone();
    let found = site.store.read(move |c| row::find(c, &id)).await?;
    let Some(found) = found else {
        return Err(Error::not_found(format!("job {root} has no workspace"))
            .hint("list them: wiki-browser workspace list"));
    };
    moved::followed(&site.works, found).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_tried_again_after_a_while_and_then_left_to_a_person() {
        let ids = crate::base::Ids::new(crate::base::Clock::system());
        let at = |state, tries, ended_at| Workspace {
            root: ids.mint(),
            sort: WorkspaceSort::Folder,
            path: "/w".into(),
            repo: None,
            base_commit: None,
            state,
            cleanup: None,
            kept_ref: None,
            made_at: Millis(0),
            ended_at,
            tries,
            note: None,
        };
        let minutes = |count: i64| Millis(count * MINUTE_MS);
        let rest = |ended, is_cancelled| Rest { is_active: false, ended, is_cancelled };
        let due = |it: &Workspace, ended, now| {
            due(it, rest(ended, false)).is_some_and(|at| at <= minutes(now))
        };
        let ready = at(WorkspaceState::Ready, 0, None);
        assert!(!due(&ready, None, 100));
        assert!(!due(&ready, Some(minutes(0)), 9) && due(&ready, Some(minutes(0)), 10));
        for (tries, pause) in [(1, 1), (2, 10), (3, 60)] {
            let failed = at(WorkspaceState::Failed, tries, Some(minutes(5)));
            assert!(!due(&failed, Some(minutes(0)), 4 + pause), "{tries}");
            assert!(due(&failed, Some(minutes(0)), 5 + pause), "{tries}");
        }
        let failed = at(WorkspaceState::Failed, 4, Some(minutes(5)));
        assert!(!due(&failed, Some(minutes(0)), 1_000_000));
        // What a parked job has left is due when it is cancelled.
        assert_eq!(super::due(&ready, rest(Some(minutes(3)), true)), Some(minutes(3)));
    }
}
