//! The folder of its own that a job may have, and the hooks of the script around its agent: what is
//! asked of other domains, and what is run.
//!
//! **Invariant:** git is unknown here: who makes and removes a worktree is told, and says how it
//! went.

use std::sync::Arc;

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::base::{Error, JobId, Result, fault};
use crate::jobs::Job;
use crate::jobs::run::launch::Ground;
use crate::process::which;
use crate::script::{Hooks, Kind, WorkspaceMode};

/// The environment that every hook has, beside what is inherited. The agent has it without
/// `MESSAGE_CONTENT`.
const NAMES: [&str; 13] = [
    "MESSAGE_ID",
    "MESSAGE_PATH",
    "REPLY_PATH",
    "STATUS_PATH",
    CONTENT,
    "WORKTREE_PATH",
    "CWD_BASE",
    "REPO_ROOT",
    "AGENT_TEMPLATE",
    "TOPIC_NAME",
    "INSTANCE_ADDR",
    "REPLY_TO_ADDR",
    "INSTANCE_ID",
];
const CONTENT: &str = "MESSAGE_CONTENT";
/// Where engines look for skills, as `init` links them.
const SKILL_FOLDERS: [&str; 2] = [".claude/skills", ".agents/skills"];

/// A command of the script that runs before or after an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookRun {
    /// Absolute program, and arguments.
    pub argv: Vec<String>,
    /// What it has beside the inherited environment; no secrets.
    pub env: Vec<(String, String)>,
    /// Where it starts, if that is there.
    pub cwd: Utf8PathBuf,
    /// Whether it runs there or not at all: the folder is a worktree, and what the hook names in it
    /// stands under the same names among the user's own files.
    #[serde(default)]
    pub is_bound: bool,
    /// Longest run, in milliseconds.
    pub timeout_ms: u64,
}

/// A workspace that a job needs.
#[derive(Clone, Debug)]
pub struct WorkspaceNeed {
    /// The first leg of the job's instance.
    pub root: JobId,
    /// Where it is to be, absolute.
    pub path: Utf8PathBuf,
    /// The folder of the repository of which a worktree is made; none if a hook makes the folder.
    pub repo: Option<Utf8PathBuf>,
    /// What is to run afterwards.
    pub cleanup: Option<HookRun>,
    /// Where the agent looks for the kind's skill, relative to the script's folder.
    pub skill: Vec<Utf8PathBuf>,
}

/// A cleanup that was counted and is about to begin.
#[derive(Clone, Debug)]
pub struct Cleanup {
    /// Which one it is, from 1.
    pub number: u32,
    /// What runs.
    pub hook: Option<HookRun>,
}

/// Returns the path of the worktree that the server makes for a job; `None` if it makes none.
/// `root` is the first leg of the job's instance.
pub fn worktree_path(hooks: &Hooks, data: &Utf8Path, root: &JobId) -> Option<Utf8PathBuf> {
    let base = || hooks.cwd_base.clone().unwrap_or_else(|| data.join("worktrees"));
    (hooks.workspace == WorkspaceMode::Worktree).then(|| base().join(format!("wt-{root}")))
}

type Make = dyn Fn(WorkspaceNeed) -> BoxFuture<'static, Result<Utf8PathBuf>> + Send + Sync;
type Begin = dyn Fn(JobId) -> BoxFuture<'static, Result<Option<Cleanup>>> + Send + Sync;
type End =
    dyn Fn(JobId, Option<String>) -> BoxFuture<'static, Result<Option<String>>> + Send + Sync;

/// Who makes the workspaces of jobs and removes them.
#[derive(Clone)]
pub struct Workspaces {
    /// Writes the row, makes a worktree, and returns the folder in which the agent is to start.
    pub make: Arc<Make>,
    /// Counts a cleanup; nothing if the instance has no workspace, or it is gone.
    pub begin_cleanup: Arc<Begin>,
    /// Ends a cleanup, whose hook failed for this reason, if it did: keeps what was left in a
    /// worktree and removes it. Returns what a person should know.
    pub end_cleanup: Arc<End>,
}

impl Workspaces {
    /// Returns what a queue has whose jobs have no workspaces.
    pub fn none() -> Workspaces {
        Workspaces {
            make: Arc::new(|need| {
                Box::pin(async move {
                    Err(Error::unavailable(format!("{} cannot be made here", need.path)))
                })
            }),
            begin_cleanup: Arc::new(|_| Box::pin(async { Ok(None) })),
            end_cleanup: Arc::new(|_, _| Box::pin(async { Ok(None) })),
        }
    }
}

/// What runs around the agent of a job.
#[derive(Clone, Debug)]
pub(in crate::jobs) struct Plan {
    pub(in crate::jobs) need: WorkspaceNeed,
    pub(in crate::jobs) prepare: Option<HookRun>,
    /// What the agent has beside its usual environment.
    pub(in crate::jobs) env: Vec<(String, String)>,
    /// Where the agent starts if its workspace is not there.
    pub(in crate::jobs) base: Utf8PathBuf,
}

impl Plan {
    /// Returns what runs around the agent; nothing for a job without hooks and workspace. `given`
    /// is what the message says.
    ///
    /// # Errors
    /// `invalid` with code `bad_hook` if a program or the folder cannot be.
    pub(in crate::jobs) fn of(
        ground: &Ground,
        job: &Job,
        kind: &Kind,
        given: &[(String, String)],
    ) -> Result<Option<Plan>> {
        let hooks = &kind.hooks;
        if !hooks.needs_workspace() {
            return Ok(None);
        }
        let is_worktree = hooks.workspace == WorkspaceMode::Worktree;
        let base = hooks.cwd_base.clone().unwrap_or_else(|| ground.folder.clone());
        let root = job.root();
        let path = match (worktree_path(hooks, &ground.data, root), &hooks.cwd_template) {
            (Some(path), _) => path,
            (None, Some(template)) => rendered(template, job, &base)?,
            (None, None) => match &hooks.cwd_base {
                Some(base) => base.join(format!("wt-{root}")),
                None => ground.data.join("worktrees").join(format!("wt-{root}")),
            },
        };
        let repo = hooks.repo.clone().unwrap_or_else(|| ground.folder.clone());
        let own = [
            ("WORKTREE_PATH", path.as_str()),
            ("CWD_BASE", base.as_str()),
            ("REPO_ROOT", hooks.repo.as_ref().map_or(base.as_str(), |it| it.as_str())),
            ("INSTANCE_ID", root.as_str()),
        ];
        let value = |name: &str| {
            let ours = own.iter().find(|it| it.0 == name).map(|it| it.1.to_owned());
            let is_off = fault::is_off("hook_env");
            let given = if is_off { [].as_slice() } else { given };
            let told = || given.iter().find(|it| it.0 == name).map(|it| it.1.clone());
            ours.or_else(told).unwrap_or_default()
        };
        let all: Vec<(String, String)> =
            NAMES.iter().map(|name| ((*name).to_owned(), value(name))).collect();
        // A hook of the script works where it always did; in our worktree once that is there.
        let cwd = if is_worktree { path.clone() } else { base.clone() };
        let run = |argv: &[String], env: Vec<(String, String)>| -> Result<HookRun> {
            Ok(HookRun {
                argv: resolved(ground, argv)?,
                env,
                cwd: cwd.clone(),
                is_bound: is_worktree,
                timeout_ms: u64::try_from(hooks.timeout.as_millis()).unwrap_or(u64::MAX),
            })
        };
        let without = |is_there: bool| -> Vec<(String, String)> {
            let blank = |(name, value): &(String, String)| match name == CONTENT {
                true => is_there.then(|| (name.clone(), String::new())),
                false => Some((name.clone(), value.clone())),
            };
            all.iter().filter_map(blank).collect()
        };
        let cleanup = hooks.cleanup.as_deref().map(|it| run(it, without(true))).transpose()?;
        let prepare = hooks.prepare.as_deref().map(|it| run(it, all.clone())).transpose()?;
        let repo = is_worktree.then_some(repo);
        let skill = kind.skill.as_ref().map_or_else(Vec::new, |skill| {
            let link = |folder: &str| Utf8Path::new(folder).join(&skill.name);
            [skill.path.clone()].into_iter().chain(SKILL_FOLDERS.map(link)).collect()
        });
        let need = WorkspaceNeed { root: root.clone(), path, repo, cleanup, skill };
        Ok(Some(Plan { need, prepare, env: without(false), base }))
    }
}

fn rendered(template: &str, job: &Job, base: &Utf8Path) -> Result<Utf8PathBuf> {
    let message =
        job.message_id.as_ref().map_or_else(|| job.root().to_string(), |it| it.to_string());
    let text = template.replace("{{message_id}}", &message).replace("{{cwd_base}}", base.as_str());
    let path = Utf8PathBuf::from(text);
    let is_plain =
        path.components().all(|it| matches!(it, Utf8Component::RootDir | Utf8Component::Normal(_)));
    if path.is_absolute() && is_plain && path.file_name().is_some() {
        return Ok(path);
    }
    Err(bad(format!("`cwd_template` makes {path}, which is not an absolute path of a folder"))
        .hint("begin it with {{cwd_base}}, and put {{message_id}} into its last part"))
}

/// Returns a command with its program as an absolute path.
///
/// # Errors
/// `invalid` with code `bad_hook`.
pub(in crate::jobs) fn resolved(ground: &Ground, argv: &[String]) -> Result<Vec<String>> {
    let path = ground.env.iter().find(|it| it.0 == "PATH").map_or("", |it| it.1.as_str());
    let Some((program, rest)) = argv.split_first() else { return Err(bad("a hook is empty")) };
    let found = which(program, path, &ground.folder)
        .ok_or_else(|| bad(format!("the program `{program}` of a hook is not found")))?;
    Ok(std::iter::once(found.into_string()).chain(rest.iter().cloned()).collect())
}

fn bad(message: impl Into<String>) -> Error {
    Error::invalid(message.into()).code("bad_hook")
}
