//! Worktrees without a row: those made since a backup that was restored. Their work is saved as
//! that of an interrupted job, because no server will look for them.

use camino::{Utf8Path, Utf8PathBuf};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::api::workspaces::{Workspace, WorkspaceSort};
use crate::base::{Error, JobId, Result};
use crate::documents::Repo;
use crate::documents::workspace::{self, Discard, Wanted, row};
use crate::flows::workspaces::SWEPT_MAX;
use crate::flows::workspaces::moved::mark_of;
use crate::process;

/// A workspace that the restored database does not know.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Orphan {
    /// Its job.
    pub job_id: JobId,
    /// Where it is, or was.
    pub path: Utf8PathBuf,
    /// The ref with its work, if there was any.
    pub kept_ref: Option<String>,
    /// Why the folder stays; null if it was removed.
    pub problem: Option<String>,
}

/// Returns the workspaces that the server has not removed.
///
/// # Errors
/// Fails if the database cannot be read.
pub(in crate::flows) fn open(connection: &Connection) -> Result<Vec<Workspace>> {
    row::open(connection, SWEPT_MAX)
}

/// Returns those workspaces that a database has no row of.
///
/// # Errors
/// Fails if the database cannot be read.
pub(in crate::flows) fn unknown(
    connection: &Connection,
    made: Vec<Workspace>,
) -> Result<Vec<Workspace>> {
    let mut unknown = Vec::new();
    for it in made {
        if row::find(connection, &it.root)?.is_none() {
            unknown.push(it);
        }
    }
    Ok(unknown)
}

/// Saves the work in each worktree and removes it. One that must stay is reported with the reason.
pub(in crate::flows) async fn save(
    repo: Option<&Repo>,
    data: &Utf8Path,
    unknown: Vec<Workspace>,
) -> Vec<Orphan> {
    let mut orphans = Vec::new();
    for found in unknown {
        let (kept_ref, problem) = match save_one(repo, data, &found).await {
            Ok(kept) => (kept, None),
            Err(cause) => (None, Some(cause.message().to_owned())),
        };
        orphans.push(Orphan { job_id: found.root, path: found.path, kept_ref, problem });
    }
    orphans
}

async fn save_one(
    repo: Option<&Repo>,
    data: &Utf8Path,
    found: &Workspace,
) -> Result<Option<String>> {
    let stays = |why: &str| Err(Error::conflict("not_kept", why));
    let (WorkspaceSort::Worktree, Some(folder)) = (found.sort, &found.repo) else {
        return stays("it was made by a hook, which knows how to clean it up");
    };
    let Some(repo) = repo else { return stays("the repository cannot be opened") };
    if found.cleanup.is_some() {
        return stays("its `cleanup` has not run");
    }
    let path = found.path.clone();
    let is_used = tokio::task::spawn_blocking(move || process::is_occupied(&path)).await;
    if is_used.unwrap_or(true) {
        return stays("a process works in it");
    }
    let mark = mark_of(data)?;
    let wanted = Wanted { folder, path: &found.path, job: &found.root, mark: &mark };
    workspace::remove(repo, wanted, found.base_commit.as_ref(), Discard::Nothing).await
}
