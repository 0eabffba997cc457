//! What a kind has more if messages start its jobs: its address, its schemas, its hooks.

use std::collections::BTreeMap;
use std::time::Duration;

use camino::Utf8PathBuf;
use serde::Serialize;

use crate::script::json_schema::JsonSchema;

/// An inbox: a kind `TEMPLATE/NAME` whose jobs are started by messages to `topic:TEMPLATE/NAME`.
#[derive(Clone, Debug, Serialize)]
pub struct Inbox {
    /// What stands before the slash: whom the instances are instances of.
    pub template: String,
    /// What stands behind it.
    pub name: String,
    /// What the payload of a message must be.
    pub schema: Option<JsonSchema>,
    /// What the reply of an instance must be.
    pub reply_schema: Option<JsonSchema>,
    /// What happens to an instance that a crash ended.
    pub on_lost: OnLost,
    /// Patterns of the addresses that its instances may send to; `*` stands for any name.
    pub sends: Vec<String>,
}

/// What happens to an instance that a crash of server or guard ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLost {
    /// It has failed.
    #[default]
    Fail,
    /// It is repeated if its run had not begun; twice at most.
    Requeue,
    /// It is repeated, also after its run began and after a timeout; twice at most.
    RequeueAlways,
}

/// What is run before and after the agent of a job, and where.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Hooks {
    /// Program and arguments that run before the agent.
    pub prepare: Option<Vec<String>>,
    /// Program and arguments that run after it, whatever it came to.
    pub cleanup: Option<Vec<String>>,
    /// Program and arguments that run in place of the engine's command.
    pub start: Option<Vec<String>>,
    /// Longest run of a hook.
    pub timeout: Duration,
    /// Where the agent works.
    pub workspace: WorkspaceMode,
    /// Absolute folder in which the hooks start, and below which worktrees are made.
    pub cwd_base: Option<Utf8PathBuf>,
    /// Absolute path of the folder of an instance, with `{{message_id}}` in it.
    pub cwd_template: Option<String>,
    /// Absolute folder of the repository of which worktrees are made.
    pub repo: Option<Utf8PathBuf>,
    /// Variables that the declaration adds.
    pub env: BTreeMap<String, String>,
}

impl Hooks {
    /// Returns whether a job of this kind is more than one process: it has a folder of its own, or
    /// something runs before or after it.
    pub fn needs_workspace(&self) -> bool {
        self.prepare.is_some()
            || self.cleanup.is_some()
            || self.workspace == WorkspaceMode::Worktree
    }
}

/// Where an agent works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceMode {
    /// In the folder that all jobs share.
    #[default]
    Shared,
    /// In a worktree of its own, which is removed when its work is kept.
    Worktree,
}
