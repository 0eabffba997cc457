//! The doctor's checks of engines: whether they exist, and the versions of known ones.

use std::time::Duration;

use camino::Utf8Path;

use crate::base::{Error, Finding, Result};
use crate::flows::assistant::missing;
use crate::flows::check::steering_files::AgentFiles;
use crate::flows::doctor::Surroundings;
use crate::jobs::{Engines, ResolvedEngine};
use crate::process::{self, Children, Run, Terminals};
use crate::script::{Engine, EnvValue, Loaded};

const WHAT: &str = "engine";
/// The hint about files that steer agents.
const AGENT_FILES: &str = "agent files";
/// Programs that answer `--version` at once and do nothing else. Others are not started.
const KNOWN: [&str; 9] =
    ["aider", "amp", "claude", "codex", "copilot", "cursor-agent", "gemini", "goose", "opencode"];
/// How long a program may take to print its version.
const VERSION_MAX: Duration = Duration::from_secs(5);
const VERSION_BYTES_MAX: usize = 64 * 1024;
/// Longest version shown.
const VERSION_CHARS_MAX: usize = 60;

pub(super) async fn engines(loaded: &Loaded, around: &Surroundings) -> Vec<Finding> {
    let Ok(wb_agent) = &around.wb_agent else { return Vec::new() };
    let engines = match Engines::resolve(&loaded.config, &around.path, wb_agent) {
        Ok(engines) => engines,
        Err(cause) => {
            let advice = cause.hint_str().unwrap_or("install it");
            return vec![Finding::error(WHAT, cause.message(), advice)];
        }
    };
    let mut found = Vec::new();
    for engine in engines.iter() {
        found.push(look(engine, around).await);
        found.extend(refusal(loaded, engine, around));
        found.extend(files(loaded, engine, around));
    }
    let used = loaded.config.engines.values().filter(|it| loaded.config.uses(&it.name));
    for (engine, model) in used.filter_map(|it| Some((it, it.model()?))) {
        let says = format!("\"{}\" asks {} at {}", engine.name, model.model, model.base_url);
        found.push(Finding::ok(WHAT, says));
    }
    found.extend(gateway(loaded, around));
    found.extend(terminals(loaded, around).await);
    if found.is_empty() {
        let advice = "declare kinds with wb.kind, or add one: wiki-browser new kind NAME";
        found.push(Finding::warn(WHAT, "no kind uses one, so no agent can work here", advice));
    }
    found
}

/// Checks whether the gateway can be started, if the script declares one.
fn gateway(loaded: &Loaded, around: &Surroundings) -> Option<Finding> {
    const WHAT: &str = "gateway";
    let config = &loaded.config;
    let mut used = config.engines.values().filter(|it| config.uses(&it.name));
    let (engine, model) = used.find_map(|it| Some((it, it.subscribed()?)))?;
    if process::which("node", &around.path, &config.folder).is_none() {
        let says = "Node.js is not there, which the gateway needs";
        return Some(Finding::error(WHAT, says, "install Node.js 20 or newer"));
    }
    Some(match missing(config) {
        None => {
            let says = format!("\"{}\" asks {} of {}", engine.name, model.model, model.provider);
            Finding::ok(WHAT, says)
        }
        Some(cause) => Finding::error(WHAT, cause.message(), cause.hint_str().unwrap_or_default()),
    })
}

/// Checks what agents in terminals need, if the script declares any.
async fn terminals(loaded: &Loaded, around: &Surroundings) -> Option<Finding> {
    const WHAT: &str = "terminal";
    let is_typed = |it: &Engine| it.speech.as_ref().is_some_and(|it| it.typed.is_some());
    let mut used = loaded.config.engines.values().filter(|it| loaded.config.uses(&it.name));
    let engine = used.find(|it| is_typed(it))?;
    let env = [("PATH".to_owned(), around.path.clone())];
    let terminals = Terminals::new(Children::new(), &loaded.config.site.data, &env);
    Some(match terminals.missing().await {
        None => Finding::ok(WHAT, format!("tmux is available for \"{}\"", engine.name)),
        Some(cause) => {
            let advice = cause.hint_str().unwrap_or("install tmux 3.2 or newer");
            Finding::error(WHAT, cause.message(), advice)
        }
    })
}

async fn look(engine: &ResolvedEngine, around: &Surroundings) -> Finding {
    let name = &engine.name;
    let program = engine.argv.first().map_or("", String::as_str);
    let file = program.rsplit('/').next().unwrap_or(program);
    if !KNOWN.contains(&file) {
        return Finding::ok(WHAT, format!("\"{name}\" runs {program}"));
    }
    match version(program, engine, around).await {
        Ok(version) => Finding::ok(WHAT, format!("\"{name}\" runs {program}, version {version}")),
        Err(cause) => Finding::warn(
            WHAT,
            format!("\"{name}\" runs {program}, which reports no version: {}", cause.message()),
            format!("try it in a terminal: {program} --version"),
        ),
    }
}

async fn version(program: &str, engine: &ResolvedEngine, around: &Surroundings) -> Result<String> {
    let mut env = around.env.clone();
    // `--version` needs no secret.
    env.extend(engine.env.iter().filter_map(|(name, value)| match value {
        EnvValue::Text(text) => Some((name.clone(), text.clone())),
        EnvValue::Secret(_) => None,
    }));
    let run = Run {
        program: program.into(),
        args: vec!["--version".into()],
        cwd: "/".into(),
        env,
        stdin: Vec::new(),
        timeout: VERSION_MAX,
        output_bytes_max: VERSION_BYTES_MAX,
    };
    let output = process::run(&Children::new(), run).await?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().next().unwrap_or_default().trim();
    match output.code == 0 && !line.is_empty() {
        true => Ok(line.chars().take(VERSION_CHARS_MAX).collect()),
        false => Err(Error::unavailable(format!("it exited with {}", output.code))),
    }
}

/// Names the files that steer the agent, and whether its command lets them start programs.
fn files(loaded: &Loaded, engine: &ResolvedEngine, around: &Surroundings) -> Vec<Finding> {
    let Some(declared) = loaded.config.engines.get(&engine.name) else { return Vec::new() };
    // The server controls how the assistant's engine is started.
    let is_used = loaded.config.kinds.values().any(|kind| kind.engine == engine.name);
    let Some(agent) = declared.agent().filter(|_| is_used) else { return Vec::new() };
    let home = around.env.iter().find(|it| it.0 == "HOME").map(|it| Utf8Path::new(&it.1));
    let (there, name) = (AgentFiles::of((declared, agent), &loaded.config, home), &engine.name);
    let adds = declared.open_doors();
    let mut found = Vec::new();
    if !adds.is_empty() {
        let files = there.programs().map_or_else(String::new, |it| format!(": {it}"));
        found.push(Finding::warn(
            AGENT_FILES,
            format!("\"{name}\" starts MCP servers, hooks and plugins it finds{files}"),
            format!("add {}", adds.join(", ")),
        ));
    } else if let Some(files) = there.programs() {
        found.push(Finding::ok(
            AGENT_FILES,
            format!("\"{name}\" leaves out the programs of {files}"),
        ));
    }
    if !there.unkept.is_empty() {
        let files: Vec<String> = there.unkept.iter().map(ToString::to_string).collect();
        let files = files.join(", ");
        found.push(Finding::warn(
            AGENT_FILES,
            format!("\"{name}\" would obey {files}, which nothing keeps out: no job is started"),
            "remove them, or list them in `trusts` of the engine",
        ));
    }
    if !there.unkept_account.is_empty() {
        let files = there.unkept_account.join(", ");
        found.push(Finding::warn(
            AGENT_FILES,
            format!("\"{name}\" obeys {files} of its account, which nothing keeps out"),
            "check whether they start programs, then list them in `trusts` of the engine",
        ));
    }
    let instructing: Vec<&str> = there.instructing.iter().map(String::as_str).collect();
    if !instructing.is_empty() {
        let says = format!("\"{name}\" is instructed by {}", instructing.join(", "));
        found.push(Finding::ok(AGENT_FILES, says));
    }
    found
}

/// As root, Claude Code runs without asking for permissions only if it is told that it may.
fn refusal(loaded: &Loaded, engine: &ResolvedEngine, around: &Surroundings) -> Option<Finding> {
    let declared = loaded.config.engines.get(&engine.name)?;
    let is_told = declared.sets("IS_SANDBOX") || around.env.iter().any(|it| it.0 == "IS_SANDBOX");
    let is_refused = process::is_root() && declared.is_refused_to_root() && !is_told;
    is_refused.then(|| {
        Finding::warn(
            WHAT,
            format!("\"{}\" skips permissions, which Claude Code refuses to root", engine.name),
            "run the server as another user; or, in a container made for it, set \
             env = { IS_SANDBOX = \"1\" } in the engine",
        )
    })
}
