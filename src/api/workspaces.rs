//! Workspaces: the folders of their own in which agents work.

use camino::Utf8PathBuf;
use serde::{Deserialize, Serialize};

use crate::base::{BlobId, JobId, Millis, word_enum};

word_enum! {
    /// Who makes a workspace.
    WorkspaceSort {
        /// The server: a worktree of a repository.
        Worktree = "worktree",
        /// The script's hooks make and remove it.
        Folder = "folder",
    }
}

word_enum! {
    /// Where a workspace is in its life.
    WorkspaceState {
        /// It is being made.
        Making = "making",
        /// Hooks and agents may work in it.
        Ready = "ready",
        /// The cleanup runs.
        Cleaning = "cleaning",
        /// It was removed, or left to a person.
        Gone = "gone",
        /// Its cleanup failed, or something in it cannot be kept.
        Failed = "failed",
    }
}

/// A workspace.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Workspace {
    /// The first leg of the instance.
    #[serde(rename = "job_id")]
    pub root: JobId,
    /// Who makes it.
    pub sort: WorkspaceSort,
    /// Where it is, absolute.
    #[cfg_attr(test, schemars(with = "String"))]
    pub path: Utf8PathBuf,
    /// The repository of a worktree, absolute.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub repo: Option<Utf8PathBuf>,
    /// The commit that a worktree began with.
    pub base_commit: Option<BlobId>,
    /// Where it is in its life.
    pub state: WorkspaceState,
    /// The hook that runs afterwards, as JSON; it holds the environment of a message.
    #[serde(skip)]
    pub cleanup: Option<String>,
    /// The ref that holds what was not committed anywhere else.
    pub kept_ref: Option<String>,
    /// When it was asked for.
    pub made_at: Millis,
    /// When it was removed, or its cleanup failed.
    pub ended_at: Option<Millis>,
    /// How often a cleanup began.
    pub tries: u32,
    /// What a person should know.
    pub note: Option<String>,
}

/// The newest workspaces.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WorkspaceList {
    /// Newest first.
    pub items: Vec<Workspace>,
}
