//! What changed in the repository while a job ran, and what a person does about it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::{JobId, Millis, word_enum};

word_enum! {
    /// What a person decided about the changes.
    ChangesState {
        /// Nothing.
        Open = "open",
        /// They were put back.
        Restored = "restored",
        /// They are wanted.
        Kept = "kept",
        /// Nobody decided, and what is needed to put them back was dropped.
        Expired = "expired",
    }
}

/// What is, or was, done about one change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "RestoreOutcome"))]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It can be put back.
    Ready,
    /// It was put back.
    Restored,
    /// It is as it was before the job.
    AsBefore,
    /// It is not as the job left it: somebody changed it since.
    ChangedSince,
    /// What was there before is not kept.
    NotKept,
}

/// One change and what can be done about it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "RestoreItem"))]
pub struct Item {
    /// `HEAD`, the name of a branch, a path, or `.git/NAME`.
    pub name: String,
    /// What putting it back does, in a few words.
    pub to: String,
    /// Whether it can be done, or was.
    pub outcome: Outcome,
    /// Why not, if not.
    pub why: Option<String>,
}

/// The answer of `POST /api/agent/jobs/{id}/restore`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Restored {
    /// One for each change.
    pub items: Vec<Item>,
    /// Whether all of them can be put back.
    pub restorable: bool,
    /// Whether that was done.
    pub restored: bool,
    /// The refs that hold both states.
    pub held_at: String,
}

/// The answer of `POST /api/agent/jobs/{id}/keep`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Kept {
    /// That it is so.
    pub kept: bool,
    /// The refs that hold both states, if any do.
    pub held_at: Option<String>,
}

/// What changed while a job ran.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ChangesView {
    /// Whether a person has decided.
    pub state: ChangesState,
    /// How many changes are not shown.
    pub more: usize,
    /// The changes.
    pub items: Vec<ChangeView>,
    /// Jobs that ran at some time while this one did.
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
    /// What was there: a text, or the state of a file.
    pub before: Value,
    /// The same after it.
    pub after: Value,
}
