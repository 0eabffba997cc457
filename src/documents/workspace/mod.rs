//! Workspaces, the folders in which agents work: rows, our worktrees, and saved work.
//!
//! **Invariant:** a worktree is removed only if nothing in it would be lost, or at a person's
//! request; and only if it was created for that very row.

mod commits;
mod index;
mod keep;
mod moved;
mod proof;
pub mod row;
mod tree;
mod worktree;

pub use crate::api::workspaces::{Workspace, WorkspaceSort, WorkspaceState};
pub use moved::follow;
pub use row::NewWorkspace;
pub use worktree::{Discard, Made, Wanted, make, missing, prefix, remove};
