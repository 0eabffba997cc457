//! Changes of the repository while a job ran, and a person's decision about them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::{JobId, Millis, word_enum};

word_enum! {
    /// The decision about a job's changes.
    ChangesState {
        /// Undecided.
        Open = "open",
        /// They were reverted.
        Restored = "restored",
        /// They were kept.
        Kept = "kept",
        /// Nobody decided, and the data needed to revert them was deleted.
        Expired = "expired",
    }
}

/// The possible or actual result of restoring one change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "RestoreOutcome"))]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It can be restored.
    Ready,
    /// It was restored.
    Restored,
    /// It is as it was before the job.
    AsBefore,
    /// Somebody changed it after the job.
    ChangedSince,
    /// It cannot be restored, or not without being asked for: `why` says more.
    NotKept,
}

/// One change and whether it can be restored.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "RestoreItem"))]
pub struct Item {
    /// `HEAD`, the name of a branch, a path, or `.git/NAME`.
    pub name: String,
    /// What restoring it does, in a few words.
    pub to: String,
    /// Whether it can be, or was, restored.
    pub outcome: Outcome,
    /// The reason if not.
    pub why: Option<String>,
}

/// The response of `POST /api/agent/jobs/{id}/restore`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Restored {
    /// One per change.
    pub items: Vec<Item>,
    /// Whether all of them can be restored.
    pub restorable: bool,
    /// Whether they were restored.
    pub restored: bool,
    /// The refs that hold both states.
    pub held_at: String,
}

/// The response of `POST /api/agent/jobs/{id}/keep`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Kept {
    /// Always true.
    pub kept: bool,
    /// The refs that hold both states, if any do.
    pub held_at: Option<String>,
}

/// Changes while a job ran.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ChangesView {
    /// Whether a person has decided.
    pub state: ChangesState,
    /// Number of changes that are not listed.
    pub more: usize,
    /// The changes.
    pub items: Vec<ChangeView>,
    /// Jobs that ran at the same time.
    pub also_running: Vec<JobId>,
    /// Who decided.
    pub decided_by_name: Option<String>,
    /// When.
    pub decided_at: Option<Millis>,
    /// The refs that hold both states, if any do.
    pub held_at: Option<String>,
}

/// One change.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ChangeView {
    /// `HEAD`, the name of a branch, a path, or `.git/NAME`.
    pub name: String,
    /// `created`, `deleted`, `edited`, `staged`, `moved` or `changed`.
    pub how: String,
    /// The state before: a text, or that of a file.
    pub before: Value,
    /// The state after.
    pub after: Value,
}
