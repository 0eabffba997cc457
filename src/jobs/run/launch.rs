//! What the guard is told: program, environment, clocks.
//!
//! **Invariant:** no variable's value is written to a file, except those of [`PLAIN`]: any of them
//! might be a key.

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::json;

use crate::base::limit::{OUTPUT_HEAD_BYTES_MAX, OUTPUT_TAIL_BYTES_MAX};
use crate::base::{Error, JobId, Result, fault};
use crate::jobs::run::takeover;
use crate::jobs::speak::curb::CURBS;
use crate::jobs::speak::hook_settings;
use crate::jobs::speak::mention::disarmed;
use crate::jobs::speak::typist::session_of;
use crate::jobs::{HookRun, ResolvedEngine, job_dir};
use crate::process::{
    Cgroups, Clocks, GuardSpec, HOOKS_PIPE, InPane, Launch, LaunchStdin, OnServerLoss, OutputCaps,
    PROMPT_FILE, Terminals,
};
use crate::script::{
    EnvValue, HOOKS_FILE, Kind, MCP_CONFIG, PromptBy, SYSTEM_FILE, Speech, Typed, WB_AGENT,
};

/// Longest single argument on Linux, without the terminating NUL.
const ARGUMENT_BYTES_MAX: usize = crate::base::limit::ARGUMENT_BYTES_MAX;

/// Longest first text for an engine that is spoken to, in bytes: escaped, it fits the buffer of the
/// guard.
const FIRST_BYTES_MAX: usize = 512 * 1024;

/// Time for answering a permission request, besides waiting for the decision.
const ANSWER_TIME: Duration = Duration::from_secs(180);

/// Variables by which an agent detects that it runs inside of another one. If an operator started
/// the server from such an agent, every job would refuse to start. Other `CLAUDE_CODE_*` settings
/// of theirs are kept. All of these were seen in such an agent's shell; one is the address and
/// secret of its session.
const ENCLOSING_AGENT: [&str; 16] = [
    "AI_AGENT",
    "CLAUDECODE",
    "CLAUDE_CODE_CHILD_NOTES_DIR",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_EXECPATH",
    "CLAUDE_CODE_MESSAGING_SOCKET",
    "CLAUDE_CODE_MESSAGING_TOKEN",
    "CLAUDE_CODE_SESSION_ATTENDED",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_SSE_PORT",
    "CLAUDE_EFFORT",
    "CLAUDE_PID",
    "CODEX_THREAD_ID",
    "CODEX_SANDBOX",
    "CODEX_SANDBOX_NETWORK_DISABLED",
];

/// Variables by which an agent knows that it is an instance: a server started by one must not pass
/// them on.
const INSTANCE: [&str; 15] = [
    "MESSAGE_ID",
    "MESSAGE_PATH",
    "REPLY_PATH",
    "STATUS_PATH",
    "MESSAGE_CONTENT",
    "WORKTREE_PATH",
    "CWD_BASE",
    "REPO_ROOT",
    "AGENT_TEMPLATE",
    "TOPIC_NAME",
    "INSTANCE_ADDR",
    "REPLY_TO_ADDR",
    "INSTANCE_ID",
    "WORKER_ADDR",
    "WORKER_ID",
];

/// Variables with harmless values: they are stored with the job for troubleshooting. All others
/// only pass over the guard's lifeline.
const PLAIN: [&str; 17] = [
    CURBS[0].name,
    CURBS[1].name,
    CURBS[2].name,
    CURBS[3].name,
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_KEY_0",
    "GIT_CONFIG_VALUE_0",
    "HOME",
    "LANG",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "WB_SOCKET",
];

/// The file in a job's folder with our hooks.
pub(super) const HOOKS_FILE_NAME: &str = "hooks.json";
/// The variable with the pipe to which a hook writes.
pub const HOOKS_WAY: &str = "WB_HOOKS";
/// The `TERM` of our terminals.
const TERM: &str = "screen-256color";

/// What all launches of a site share.
#[derive(Clone, Debug)]
pub(in crate::jobs) struct Ground {
    pub(in crate::jobs) data: Utf8PathBuf,
    pub(in crate::jobs) folder: Utf8PathBuf,
    pub(in crate::jobs) socket: Utf8PathBuf,
    pub(in crate::jobs) wb_agent: Utf8PathBuf,
    /// The server's environment, without what agents must not inherit.
    pub(in crate::jobs) env: Vec<(String, String)>,
    pub(in crate::jobs) grace: Duration,
    pub(in crate::jobs) cgroups: Cgroups,
    pub(in crate::jobs) terminals: Terminals,
}

/// Returns the part of the server's environment that agents may inherit.
pub(in crate::jobs) fn inheritable(vars: Vec<(String, String)>) -> Vec<(String, String)> {
    let is_kept = |name: &str| {
        !name.starts_with("WB_") && !ENCLOSING_AGENT.contains(&name) && !INSTANCE.contains(&name)
    };
    vars.into_iter().filter(|(name, _)| is_kept(name)).collect()
}

/// Runs an agent isolated from the site's other agents: with its own arguments and folder, with
/// almost nothing of the server's environment, and without a token of this site unless it gets
/// tools.
#[derive(Clone, Debug)]
pub struct Alone {
    /// Arguments after the engine's command.
    pub arguments: Vec<String>,
    /// Its working directory.
    pub cwd: Utf8PathBuf,
    /// Which of the server's variables it inherits.
    pub inherits: fn(&str) -> bool,
    /// Additional variables.
    pub env: Vec<(String, String)>,
    /// Secrets, which are stored nowhere.
    pub secrets: Vec<(String, String)>,
    /// Whether it gets its job's token, which only gives access to the tools of its run.
    pub has_token: bool,
}

/// Returns the specification for starting a job's guard.
///
/// # Errors
/// `invalid` if the prompt is passed as an argument and too long; `unavailable` with code
/// `secret_missing`.
pub(in crate::jobs) fn guard_spec(
    ground: &Ground,
    id: &JobId,
    (kind, alone): (&Kind, Option<&Alone>),
    engine: &ResolvedEngine,
    (prompt, token): (String, String),
    env: &[(String, String)],
) -> Result<GuardSpec> {
    let mut argv = engine.argv.clone();
    let base = || kind.hooks.cwd_base.as_ref().unwrap_or(&ground.folder).clone();
    let cwd = alone.map_or_else(base, |it| it.cwd.clone());
    // Over the pipe it gets texts later; the assistant is told otherwise.
    let is_said_now = alone.is_none() && engine.prompt.is_some_and(|it| it != PromptBy::Pipe);
    let prompt = match is_said_now && engine.is_claude() {
        true => disarmed(&prompt, &cwd).into_owned(),
        false => prompt,
    };
    let typed = engine.speech.as_ref().and_then(|it| it.typed.as_ref());
    let stdin = stdin_of((engine, typed), &prompt, &mut argv)?;
    let (plain, mut private): (Vec<_>, Vec<_>) = environment(ground, engine, alone)?
        .into_iter()
        .partition(|(name, _)| PLAIN.contains(&name.as_str()) || name.starts_with("LC_"));
    private.extend(has_token(alone).then(|| ("WB_TOKEN".to_owned(), token)));
    let mut plain = with_names_of_instance(plain, env, &ground.wb_agent);
    let pane =
        typed.map(|typed| pane_of(ground, (id, typed), &mut argv, &mut plain)).transpose()?;
    let ms = |it: Duration| u64::try_from(it.as_millis()).unwrap_or(u64::MAX);
    let launch = Launch {
        private_names: Vec::new(),
        version: 1,
        job: id.to_string(),
        argv,
        env: plain,
        cwd,
        stdin,
        clocks: Clocks {
            start_ms: kind.start.map(ms),
            idle_ms: kind.idle.map(ms),
            wall_ms: kind.agent.is_none().then(|| ms(kind.timeout)),
            linger_ms: ms(kind.linger),
        },
        grace_ms: ms(ground.grace),
        output: OutputCaps { head_bytes: OUTPUT_HEAD_BYTES_MAX, tail_bytes: OUTPUT_TAIL_BYTES_MAX },
        on_server_loss: match kind.is_kept && alone.is_none() {
            true => takeover::keep(&ground.data, id)?,
            // The server can only reach it through its socket.
            false if typed.is_some() => takeover::keep_for(&ground.data, id, 0)?,
            false => OnServerLoss::Kill,
        },
        cgroup: None,
        sandbox: None,
    };
    Ok(GuardSpec {
        program: ground.wb_agent.clone(),
        job_dir: job_dir(&ground.data, id),
        launch,
        prompt: Some(prompt.into_bytes()),
        secrets: private,
        masked: alone.iter().flat_map(|it| &it.secrets).map(|it| it.1.clone()).collect(),
        cgroups: ground.cgroups.clone(),
        pane,
    })
}

/// Returns where the agent's standard input comes from; a prompt that is an argument is added.
fn stdin_of(
    (engine, typed): (&ResolvedEngine, Option<&Typed>),
    prompt: &str,
    argv: &mut Vec<String>,
) -> Result<LaunchStdin> {
    let by = engine.prompt.map(|by| match fault::is_off("prompt_file") {
        true => PromptBy::Argument,
        false => by,
    });
    match by {
        Some(PromptBy::Stdin) => Ok(LaunchStdin::File),
        Some(PromptBy::Pipe) if typed.is_some() => Ok(LaunchStdin::Terminal),
        Some(PromptBy::Pipe) => Ok(LaunchStdin::Pipe),
        Some(PromptBy::Argument) => {
            check_argument(prompt)?;
            argv.push(prompt.to_owned());
            Ok(LaunchStdin::Null)
        }
        None => Ok(LaunchStdin::Null),
    }
}

/// Refuses a prompt that cannot be an argument.
fn check_argument(prompt: &str) -> Result<()> {
    let wrong = match prompt.contains('\0') {
        true => "the prompt has a zero byte, which no argument takes".to_owned(),
        false if prompt.len() <= ARGUMENT_BYTES_MAX => return Ok(()),
        false => {
            let bytes = prompt.len();
            format!("the prompt has {bytes} bytes, an argument takes {ARGUMENT_BYTES_MAX}")
        }
    };
    Err(Error::invalid(wrong).hint("use prompt = \"stdin\" for this engine"))
}

/// Refuses a prompt that is too long to be said to an engine in one piece.
pub(in crate::jobs) fn check_first(prompt: &str) -> Result<()> {
    match prompt.len() {
        bytes if bytes > FIRST_BYTES_MAX => Err(Error::invalid(format!(
            "the prompt has {bytes} bytes, an engine of type \"stream\" takes {FIRST_BYTES_MAX}"
        ))
        .hint("name a file in the prompt, or use an engine of type \"process\"")),
        _ => Ok(()),
    }
}

/// Returns how to start an agent in a terminal, adding the pipe for its hooks.
fn pane_of(
    ground: &Ground,
    (id, typed): (&JobId, &Typed),
    argv: &mut Vec<String>,
    env: &mut Vec<(String, String)>,
) -> Result<InPane> {
    let dir = job_dir(&ground.data, id);
    let file = dir.join(HOOKS_FILE_NAME);
    argv.extend(typed.hooks.iter().map(|word| word.replace(HOOKS_FILE, file.as_str())));
    env.retain(|(name, _)| name != "TERM" && name != HOOKS_WAY);
    env.push(("TERM".to_owned(), TERM.to_owned()));
    env.push((HOOKS_WAY.to_owned(), dir.join(HOOKS_PIPE).into_string()));
    Ok(InPane {
        terminals: ground.terminals.clone(),
        session: session_of(id.as_str()),
        key: takeover::key(&ground.data, id)?,
        files: vec![(
            HOOKS_FILE_NAME.to_owned(),
            hook_settings::settings(ground.wb_agent.as_str()),
        )],
    })
}

/// Returns the arguments that name the file with an agent's system prompt: its prompt, in the job's
/// folder.
pub(in crate::jobs) fn system_arguments(
    ground: &Ground,
    id: &JobId,
    speech: &Speech,
) -> Vec<String> {
    let file = job_dir(&ground.data, id).join(PROMPT_FILE);
    speech.system.iter().map(|word| word.replace(SYSTEM_FILE, file.as_str())).collect()
}

/// Fills in where `wb-agent` lies, so that an engine may be told to allow its calls: prompts and
/// messages name it by its path.
pub(super) fn fill_own_path(ground: &Ground, argv: &mut [String]) {
    for word in argv.iter_mut().filter(|it| it.contains(WB_AGENT)) {
        *word = word.replace(WB_AGENT, ground.wb_agent.as_str());
    }
}

/// Returns the arguments that make an engine request permission before using a tool.
pub(super) fn asking_arguments(ground: &Ground, kind: &Kind, asks: &[String]) -> Vec<String> {
    if !kind.may_ask() {
        return Vec::new();
    }
    // The engine must not give up before the answer arrives.
    let timeout = kind.permission_wait.saturating_add(ANSWER_TIME);
    let server = json!({
        "type": "stdio", "command": ground.wb_agent, "args": ["mcp", "permission"],
        "timeout": u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
    });
    let config = json!({"mcpServers": {"wb": server}}).to_string();
    let fill = |word: &String| {
        word.replace(WB_AGENT, ground.wb_agent.as_str()).replace(MCP_CONFIG, &config)
    };
    asks.iter().map(fill).collect()
}

/// Adds the variables of an instance. They are not secret, and help with troubleshooting.
fn with_names_of_instance(
    mut plain: Vec<(String, String)>,
    env: &[(String, String)],
    wb_agent: &Utf8Path,
) -> Vec<(String, String)> {
    plain.retain(|(name, _)| !env.iter().any(|(own, _)| own == name));
    plain.extend(env.iter().filter(|(name, _)| name != "MESSAGE_CONTENT").cloned());
    if !env.is_empty() && !fault::is_off("agent_path") {
        with_own_path(&mut plain, wb_agent);
    }
    plain
}

/// Puts the folder of `wb-agent` first in the `PATH` of an instance.
fn with_own_path(env: &mut Vec<(String, String)>, wb_agent: &Utf8Path) {
    let Some(folder) = wb_agent.parent() else { return };
    match env.iter_mut().find(|(name, _)| name == "PATH") {
        Some((_, path)) => *path = format!("{folder}:{path}"),
        None => env.push(("PATH".to_owned(), folder.to_string())),
    }
}

fn environment(
    ground: &Ground,
    engine: &ResolvedEngine,
    alone: Option<&Alone>,
) -> Result<Vec<(String, String)>> {
    let mut env = ground.env.clone();
    if let Some(alone) = alone.filter(|_| !fault::is_off("alone_env")) {
        env.retain(|(name, _)| (alone.inherits)(name));
    }
    if !fault::is_off("webhook_withheld") {
        env.retain(|(name, _)| !engine.withheld.contains(name));
    }
    let mut set = |name: &str, value: &str| {
        env.retain(|(other, _)| other != name);
        env.push((name.to_owned(), value.to_owned()));
    };
    if has_token(alone) {
        set("WB_SOCKET", ground.socket.as_str());
    }
    // A detached `git gc` of the agent would outlive it and be swept as a stray.
    set("GIT_CONFIG_COUNT", "1");
    set("GIT_CONFIG_KEY_0", "gc.auto");
    set("GIT_CONFIG_VALUE_0", "0");
    if engine.is_claude() {
        for curb in &CURBS {
            set(curb.name, curb.value);
        }
    }
    for (name, value) in &engine.env {
        match value {
            EnvValue::Text(text) => set(name, text),
            EnvValue::Secret(it) => set(name, &it.read(&ground.folder, &ground.env)?),
        }
    }
    for (name, value) in alone.iter().flat_map(|it| &it.env) {
        set(name, value);
    }
    for (name, value) in alone.iter().flat_map(|it| &it.secrets) {
        set(name, value);
    }
    Ok(env)
}

/// Returns the specification for starting a hook's guard in its own folder, without token and
/// standard input.
pub(in crate::jobs) fn hook_spec(
    ground: &Ground,
    id: &JobId,
    dir: &Utf8Path,
    hook: &HookRun,
) -> GuardSpec {
    let is_own = |name: &str| hook.env.iter().any(|it| it.0 == name);
    let quiet =
        [("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "gc.auto"), ("GIT_CONFIG_VALUE_0", "0")];
    let quiet = quiet.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let inherited = ground.env.iter().filter(|it| !is_own(&it.0)).cloned();
    let inherited = inherited.filter(|it| quiet.iter().all(|other| other.0 != it.0));
    let (mut plain, private): (Vec<_>, Vec<_>) =
        inherited.partition(|(name, _)| PLAIN.contains(&name.as_str()) || name.starts_with("LC_"));
    plain.extend(quiet);
    plain.extend(hook.env.iter().cloned());
    let grace_ms = u64::try_from(ground.grace.as_millis()).unwrap_or(u64::MAX);
    let (start_ms, idle_ms, wall_ms) = (None, None, Some(hook.timeout_ms));
    let launch = Launch {
        private_names: Vec::new(),
        version: 1,
        job: id.to_string(),
        argv: hook.argv.clone(),
        env: plain,
        cwd: hook.cwd.clone(),
        stdin: LaunchStdin::Null,
        clocks: Clocks { start_ms, idle_ms, wall_ms, linger_ms: grace_ms },
        grace_ms,
        output: OutputCaps { head_bytes: OUTPUT_HEAD_BYTES_MAX, tail_bytes: OUTPUT_TAIL_BYTES_MAX },
        on_server_loss: OnServerLoss::Kill,
        cgroup: None,
        sandbox: None,
    };
    GuardSpec {
        program: ground.wb_agent.clone(),
        job_dir: dir.to_owned(),
        launch,
        prompt: None,
        secrets: private,
        masked: Vec::new(),
        cgroups: ground.cgroups.clone(),
        pane: None,
    }
}

fn has_token(alone: Option<&Alone>) -> bool {
    alone.is_none_or(|it| it.has_token)
}

/// Returns the socket's path for agents.
pub(in crate::jobs) fn socket_path(data: &Utf8Path) -> Utf8PathBuf {
    data.join("wb.sock")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_does_not_inherit_the_session_of_another() {
        let shell = include_str!("../../../tests/data/claude-shell-env.txt");
        assert!(shell.contains("CLAUDE_CODE_MESSAGING_TOKEN"));
        let vars: Vec<(String, String)> =
            shell.lines().map(|name| (name.to_owned(), "x".to_owned())).collect();
        let kept: Vec<String> = inheritable(vars).into_iter().map(|it| it.0).collect();
        assert_eq!(kept, ["CLAUDE_CODE_MAX_RETRIES", "HOME", "PATH"]);
    }
}
