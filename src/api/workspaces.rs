//! Workspaces: the folders that agents work in.

use camino::Utf8PathBuf;
use serde::{Deserialize, Serialize};

use crate::base::{BlobId, JobId, Millis, word_enum};

word_enum! {
    /// Who creates a workspace.
    WorkspaceSort {
        /// The server: a worktree of a repository.
        Worktree = "worktree",
        /// The script's hooks create and remove it.
        Folder = "folder",
    }
}

word_enum! {
    /// The life cycle of a workspace.
    WorkspaceState {
        /// It is being created.
        Making = "making",
        /// Hooks and agents can work in it.
        Ready = "ready",
        /// The cleanup is running.
        Cleaning = "cleaning",
        /// It was removed, or left to a person.
        Gone = "gone",
        /// Its cleanup failed, or something in it cannot be saved.
        Failed = "failed",
    }
}

/// A workspace.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Workspace {
    /// The root job of the instance.
    #[serde(rename = "job_id")]
    pub root: JobId,
    /// Who creates it.
    pub sort: WorkspaceSort,
    /// Its absolute path.
    #[cfg_attr(test, schemars(with = "String"))]
    pub path: Utf8PathBuf,
    /// The repository of a worktree, absolute.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub repo: Option<Utf8PathBuf>,
    /// The initial commit of a worktree.
    pub base_commit: Option<BlobId>,
    /// Its state.
    pub state: WorkspaceState,
    /// The cleanup hook, as JSON; it contains the environment of a message.
    #[serde(skip)]
    pub cleanup: Option<String>,
    /// The ref with work that was not committed anywhere else.
    pub kept_ref: Option<String>,
    /// When it was requested.
    pub made_at: Millis,
    /// When it was removed, or its cleanup failed.
    pub ended_at: Option<Millis>,
    /// How many times a cleanup was started.
    pub tries: u32,
    /// A note for people.
    pub note: Option<String>,
}

impl Workspace {
    /// Returns whether a person has kept it: its folder is theirs.
    pub fn is_kept(&self) -> bool {
        // One that was cleaned up has no note.
        self.state == WorkspaceState::Gone && self.note.is_some()
    }
}

/// The newest workspaces.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WorkspaceList {
    /// Newest first.
    pub items: Vec<Workspace>,
}
