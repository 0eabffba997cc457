//! Folders of their own in which agents work: rows, our worktrees, and the work that is kept.
//!
//! **Invariant:** a worktree is removed only when nothing that is in it would be lost, or a person
//! says so; and only one that was made for that very row is removed.

mod commits;
mod keep;
pub mod row;
mod worktree;

pub use crate::api::workspaces::{Workspace, WorkspaceSort, WorkspaceState};
pub use row::NewWorkspace;
pub use worktree::{Discard, Made, Wanted, make, remove};
