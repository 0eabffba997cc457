//! The workspace that a job may have, and the script's hooks around its agent: the interface to
//! other domains, and what is run.
//!
//! **Invariant:** git is unknown here: worktrees are created and removed by callbacks.

use std::sync::Arc;

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::base::{Error, JobId, Result, fault};
use crate::jobs::Job;
use crate::jobs::run::launch::Ground;
use crate::process::which;
use crate::script::{Hooks, Kind, WorkspaceMode};

/// The code of a workspace hook that cannot run.
pub(in crate::jobs) const BAD_HOOK: &str = "bad_hook";

/// Environment of every hook, besides what is inherited. The agent has the same without
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
    /// Absolute program and arguments.
    pub argv: Vec<String>,
    /// Additional environment; no secrets.
    pub env: Vec<(String, String)>,
    /// Its working directory. It runs there or not at all: the paths in the hook may also exist
    /// among the user's own files.
    pub cwd: Utf8PathBuf,
    /// Whether that is our worktree, and a link in its place leads somewhere else.
    #[serde(default)]
    pub is_bound: bool,
    /// Timeout, in milliseconds.
    pub timeout_ms: u64,
}

/// A workspace required by a job.
#[derive(Clone, Debug)]
pub struct WorkspaceNeed {
    /// The root job of the instance.
    pub root: JobId,
    /// Its absolute path.
    pub path: Utf8PathBuf,
    /// The folder of the worktree's repository; `None` if a hook creates the folder.
    pub repo: Option<Utf8PathBuf>,
    /// The hook to run afterwards.
    pub cleanup: Option<HookRun>,
    /// Where the agent looks for the kind's skill, relative to the script's folder.
    pub skill: Vec<Utf8PathBuf>,
}

/// A cleanup that was counted and is about to start.
#[derive(Clone, Debug)]
pub struct Cleanup {
    /// Its number, from 1.
    pub number: u32,
    /// The hook to run.
    pub hook: Option<HookRun>,
}

/// Returns the path of the worktree that the server makes for a job; `None` if it makes none.
/// `root` is the first leg of the job's instance.
pub fn worktree_path(hooks: &Hooks, data: &Utf8Path, root: &JobId) -> Option<Utf8PathBuf> {
    let path = || match &hooks.cwd_base {
        Some(base) => base.join(format!("wt-{root}")),
        None => usual_worktree(data, root),
    };
    (hooks.workspace == WorkspaceMode::Worktree).then(path)
}

/// Returns the path of a worktree for which the script names no other folder.
pub fn usual_worktree(data: &Utf8Path, root: &JobId) -> Utf8PathBuf {
    data.join("worktrees").join(format!("wt-{root}"))
}

type Make = dyn Fn(WorkspaceNeed) -> BoxFuture<'static, Result<Utf8PathBuf>> + Send + Sync;
type Begin = dyn Fn(JobId) -> BoxFuture<'static, Result<Option<Cleanup>>> + Send + Sync;
type End =
    dyn Fn(JobId, Option<String>) -> BoxFuture<'static, Result<Option<String>>> + Send + Sync;

/// Creates and removes the workspaces of jobs.
#[derive(Clone)]
pub struct Workspaces {
    /// Writes the row, creates a worktree, and returns the folder in which to start the agent.
    pub make: Arc<Make>,
    /// Counts a cleanup; `None` if the instance has no workspace, or it is gone.
    pub begin_cleanup: Arc<Begin>,
    /// Ends a cleanup, with the reason if its hook failed: saves what is left in a worktree, and
    /// removes it. Returns a note for people.
    pub end_cleanup: Arc<End>,
}

impl Workspaces {
    /// Returns the callbacks for a queue whose jobs have no workspaces.
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

/// What runs around a job's agent.
#[derive(Clone, Debug)]
pub(in crate::jobs) struct Plan {
    pub(in crate::jobs) need: WorkspaceNeed,
    pub(in crate::jobs) prepare: Option<HookRun>,
    /// Additional environment of the agent.
    pub(in crate::jobs) env: Vec<(String, String)>,
    /// Where the agent starts without a workspace.
    pub(in crate::jobs) base: Utf8PathBuf,
}

impl HookRun {
    /// Returns whether its working directory is there.
    pub(in crate::jobs) fn has_place(&self) -> bool {
        if self.is_bound { is_folder(&self.cwd) } else { self.cwd.is_dir() }
    }
}

/// Returns whether a folder itself is there: a link in its place leads somewhere else.
pub fn is_folder(path: &Utf8Path) -> bool {
    path.symlink_metadata().is_ok_and(|it| it.is_dir())
}

impl Plan {
    /// Returns what runs around the agent; `None` for a job without hooks and workspace. `given`
    /// are the variables of the message. A later leg goes on in the workspace that the ones before
    /// it have `left`, or in none, whatever the script says now.
    ///
    /// # Errors
    /// `invalid` with code `bad_hook` if a program or the folder is not usable.
    pub(in crate::jobs) fn of(
        ground: &Ground,
        job: &Job,
        (kind, left): (&Kind, Option<WorkspaceNeed>),
        given: &[(String, String)],
    ) -> Result<Option<Plan>> {
        let hooks = &kind.hooks;
        let base = hooks.cwd_base.clone().unwrap_or_else(|| ground.folder.clone());
        if job.resumes.is_some() && !fault::is_off("leg_workspace") {
            return Ok(left.map(|need| {
                let env = for_agent(&variables((hooks, &base), (&need.root, &need.path), given));
                Plan { need, prepare: None, env, base }
            }));
        }
        if !hooks.needs_workspace() {
            return Ok(None);
        }
        let is_worktree = hooks.workspace == WorkspaceMode::Worktree;
        let root = job.root();
        let path = match (worktree_path(hooks, &ground.data, root), &hooks.cwd_template) {
            (Some(path), _) => path,
            (None, Some(template)) => rendered(template, job, &base)?,
            (None, None) => match &hooks.cwd_base {
                Some(base) => base.join(format!("wt-{root}")),
                None => usual_worktree(&ground.data, root),
            },
        };
        let repo = hooks.repo.clone().unwrap_or_else(|| ground.folder.clone());
        let all = variables((hooks, &base), (root, &path), given);
        // The script's hooks run in the script's folder; in our worktree once it exists.
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
        let cleanup = hooks.cleanup.as_deref().map(|it| run(it, for_cleanup(&all))).transpose()?;
        let prepare = hooks.prepare.as_deref().map(|it| run(it, all.clone())).transpose()?;
        let repo = is_worktree.then_some(repo);
        let skill = kind.skill.as_ref().map_or_else(Vec::new, |skill| {
            let link = |folder: &str| Utf8Path::new(folder).join(&skill.name);
            [skill.path.clone()].into_iter().chain(SKILL_FOLDERS.map(link)).collect()
        });
        let need = WorkspaceNeed { root: root.clone(), path, repo, cleanup, skill };
        Ok(Some(Plan { need, prepare, env: for_agent(&all), base }))
    }
}

/// Returns the environment of a hook. `given` are the variables of the message.
fn variables(
    (hooks, base): (&Hooks, &Utf8Path),
    (root, path): (&JobId, &Utf8Path),
    given: &[(String, String)],
) -> Vec<(String, String)> {
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
    NAMES.iter().map(|name| ((*name).to_owned(), value(name))).collect()
}

/// Returns the variables without the message, which the agent has in its prompt.
fn for_agent(all: &[(String, String)]) -> Vec<(String, String)> {
    all.iter().filter(|it| it.0 != CONTENT).cloned().collect()
}

/// Returns the variables with an empty message: they are stored.
fn for_cleanup(all: &[(String, String)]) -> Vec<(String, String)> {
    let blank = |(name, value): &(String, String)| match name == CONTENT {
        true => (name.clone(), String::new()),
        false => (name.clone(), value.clone()),
    };
    all.iter().map(blank).collect()
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

/// Returns a command with the absolute path of its program.
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
    Error::invalid(message.into()).code(BAD_HOOK)
}
