//! Folders of their own in which agents work: made for the queue, swept, kept and removed.

use std::sync::Arc;

use camino::Utf8PathBuf;
use serde_json::json;
use tracing::error;

use crate::base::{Error, ErrorKind, JobId, Result};
use crate::documents::workspace::{
    self, Discard, NewWorkspace, Workspace, WorkspaceSort, WorkspaceState, row,
};
use crate::flows::Works;
use crate::jobs::{Cleanup, HookRun, WorkspaceNeed, Workspaces};

/// Returns what makes the workspaces of jobs and removes them.
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

/// Writes the row, and then makes the worktree, if it is to be one.
async fn make(works: &Works, need: WorkspaceNeed) -> Result<Utf8PathBuf> {
    let WorkspaceNeed { root, path, repo, cleanup } = need;
    let cleanup = cleanup.map(|it| json!(it).to_string());
    let sort = if repo.is_some() { WorkspaceSort::Worktree } else { WorkspaceSort::Folder };
    let new =
        NewWorkspace { root: root.clone(), sort, path: path.clone(), repo: repo.clone(), cleanup };
    works.store.write(move |tx| row::insert(tx, &new)).await?;
    let made = match &repo {
        Some(repo) => Some(workspace::make(&works.repo, repo, &path, &root).await?),
        None => None,
    };
    let base = made.as_ref().map(|it| it.base.clone());
    works.store.write(move |tx| row::ready(tx, &root, base.as_ref())).await?;
    Ok(made.map_or_else(|| path.clone(), |it| path.join(it.prefix)))
}

async fn begin(works: &Works, root: JobId) -> Result<Option<Cleanup>> {
    let begun = works.store.write(move |tx| row::begin_cleanup(tx, &root)).await?;
    let Some(begun) = begun else { return Ok(None) };
    let hook: Option<HookRun> = match &begun.cleanup {
        None => None,
        Some(text) => Some(serde_json::from_str(text).map_err(|cause| {
            Error::internal("the cleanup of a workspace makes no sense").source(cause)
        })?),
    };
    Ok(Some(Cleanup { number: begun.tries, hook }))
}

/// Ends a cleanup. A worktree stays where it is if its hook failed or not all of it can be kept.
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
    let at = (repo.as_path(), found.path.as_path());
    let removed =
        workspace::remove(&works.repo, at, (&found.root, found.base_commit.as_ref()), discard);
    match removed.await {
        // The repository is gone, and the worktree with it or not: nobody can keep anything.
        Err(cause) if cause.kind() == ErrorKind::NotFound && !found.path.exists() => Ok(None),
        removed => removed,
    }
}
