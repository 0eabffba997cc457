//! Engines resolved on this machine: programs with absolute paths.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};

use crate::base::{Error, Result};
use crate::process;
use crate::script::{
    Agent, Builtin, Config, Engine, EngineBody, EnvValue, PromptBy, Reads, Secret, Sessions,
    Speaks, Speech,
};

/// The code of a prompt that the script could not make.
pub const PROMPT_FAILED: &str = "prompt_failed";
/// The code of a job whose kind changed after it was enqueued.
pub const KIND_CHANGED: &str = "kind_changed";

/// An engine that can be started on this machine.
#[derive(Clone, Debug)]
pub struct ResolvedEngine {
    /// Its name in the script.
    pub name: String,
    /// The program as written by the operator, for messages.
    pub program: String,
    /// The absolute program and its arguments.
    pub argv: Vec<String>,
    /// How it gets the prompt; `None` if it reads its Topic by itself.
    pub prompt: Option<PromptBy>,
    /// The format of its standard output, if known.
    pub reads: Option<Reads>,
    /// How to talk to it while it runs.
    pub speech: Option<Speech>,
    /// Session arguments.
    pub sessions: Sessions,
    /// Arguments that make it request permission before using a tool.
    pub asks: Vec<String>,
    /// Its additions to the environment.
    pub env: BTreeMap<String, EnvValue>,
    /// Server variables withheld from agents: with a webhook's secret they could start jobs.
    pub withheld: Vec<String>,
}

impl ResolvedEngine {
    /// Returns whether it is Claude Code, by its name or by how it talks; a hook may start it.
    pub fn is_claude(&self) -> bool {
        let talks = |it: &Speech| matches!(it.speaks, Speaks::ClaudeStreamJson | Speaks::Hooks);
        Agent::of_command(&self.argv) == Some(Agent::Claude)
            || self.reads == Some(Reads::ClaudeStreamJson)
            || self.speech.as_ref().is_some_and(talks)
    }

    /// Returns whether it can go on with a session: by arguments, or because it is told so.
    pub fn can_resume(&self) -> bool {
        let is_told = |it: &Speech| it.speaks.resumes_by_request();
        !self.sessions.resume.is_empty() || self.speech.as_ref().is_some_and(is_told)
    }
}

/// The engines used by kinds, resolved at start.
#[derive(Clone, Debug, Default)]
pub struct Engines(BTreeMap<String, ResolvedEngine>);

impl Engines {
    /// Resolves every engine used by a kind. A bare name is searched in `path`; a name with a slash
    /// is relative to the script's folder.
    ///
    /// # Errors
    /// `unavailable` with code `engine_missing`, naming every missing engine, its line and a
    /// remedy.
    pub fn resolve(config: &Config, path: &str, wb_agent: &Utf8Path) -> Result<Engines> {
        let absent = Engines::missing(config, path);
        if absent.len() > 1 {
            let all: Vec<&str> = absent.iter().map(|(_, cause)| cause.message()).collect();
            return Err(Error::unavailable(all.join("; ")).code("engine_missing").hint(
                "install them, or write their absolute paths into `command`; `wiki-browser check` \
                 shows each with its line",
            ));
        }
        let mut engines = BTreeMap::new();
        for kind in config.kinds_of_jobs() {
            let Some(engine) = config.engines.get(&kind.engine) else { continue };
            if !engines.contains_key(&engine.name) {
                let resolved = resolve_one(engine, &config.folder, path, wb_agent)?;
                let Some(mut resolved) = resolved else { continue };
                let of_webhooks = config.webhooks.values().map(|it| &it.secret);
                let variables = of_webhooks.filter_map(Secret::variable);
                resolved.withheld = variables.map(str::to_owned).collect();
                engines.insert(engine.name.clone(), resolved);
            }
        }
        Ok(Engines(engines))
    }

    /// Returns the engines used by kinds without checking the machine, for simulated agents.
    /// `secret` returns the value of a secret, if it is set.
    pub fn played(config: &Config, secret: impl Fn(&Secret) -> Option<String>) -> Engines {
        let value = |(name, value): (&String, &EnvValue)| match value {
            EnvValue::Secret(it) => match secret(it) {
                Some(text) => (name.clone(), EnvValue::Text(text)),
                // Resolve it where it is missing, to get the proper error.
                None => (name.clone(), EnvValue::Secret(Secret::Env(it.name()))),
            },
            EnvValue::Text(_) => (name.clone(), value.clone()),
        };
        let played = |engine: &Engine| match &engine.body {
            EngineBody::Anthropic(_) | EngineBody::Gateway(_) => None,
            EngineBody::Builtin(Builtin::Suggestions) => {
                Some(builtin(engine, Utf8Path::new("wb-agent")))
            }
            EngineBody::Process { command, prompt, reads, env } => Some(ResolvedEngine {
                name: engine.name.clone(),
                program: command.first().cloned().unwrap_or_default(),
                argv: command.clone(),
                prompt: Some(*prompt),
                reads: *reads,
                speech: engine.speech.clone(),
                sessions: engine.sessions.clone(),
                asks: engine.asks.clone(),
                env: env.iter().map(value).collect(),
                withheld: Vec::new(),
            }),
        };
        let named = config.kinds_of_jobs().filter_map(|it| config.engines.get(&it.engine));
        Engines(named.filter_map(|it| Some((it.name.clone(), played(it)?))).collect())
    }

    /// Returns the engines used by kinds whose programs are missing, with the error of
    /// [`Engines::resolve`].
    pub fn missing<'c>(config: &'c Config, path: &str) -> Vec<(&'c Engine, Error)> {
        let named = |engine: &&Engine| config.uses(&engine.name);
        let absent = |engine: &'c Engine| match &engine.body {
            EngineBody::Process { command, .. } => {
                let program = command.first().map(String::as_str).unwrap_or_default();
                let is_there = process::which(program, path, &config.folder).is_some();
                (!is_there).then(|| (engine, missing(engine, program, &config.folder)))
            }
            EngineBody::Builtin(_) | EngineBody::Anthropic(_) | EngineBody::Gateway(_) => None,
        };
        config.engines.values().filter(named).filter_map(absent).collect()
    }

    /// Returns the engines by name.
    pub fn iter(&self) -> impl Iterator<Item = &ResolvedEngine> {
        self.0.values()
    }

    /// Returns an engine.
    ///
    /// # Errors
    /// `unavailable` with code `kind_changed` if no kind used it at the start.
    pub fn find(&self, name: &str) -> Result<&ResolvedEngine> {
        self.0.get(name).ok_or_else(|| {
            Error::unavailable(format!("engine \"{name}\" is not resolved")).code(KIND_CHANGED)
        })
    }
}

fn resolve_one(
    engine: &Engine,
    folder: &Utf8Path,
    path: &str,
    wb_agent: &Utf8Path,
) -> Result<Option<ResolvedEngine>> {
    let name = engine.name.clone();
    match &engine.body {
        EngineBody::Builtin(Builtin::Suggestions) => Ok(Some(builtin(engine, wb_agent))),
        // It has no program: the server calls it itself.
        EngineBody::Anthropic(_) | EngineBody::Gateway(_) => Ok(None),
        EngineBody::Process { command, prompt, reads, env } => {
            let program = command.first().cloned().unwrap_or_default();
            let found: Option<Utf8PathBuf> = process::which(&program, path, folder);
            let absolute = found.ok_or_else(|| missing(engine, &program, folder))?;
            let mut argv = command.clone();
            argv[0] = absolute.into_string();
            Ok(Some(ResolvedEngine {
                name,
                program,
                argv,
                prompt: Some(*prompt),
                reads: *reads,
                speech: engine.speech.clone(),
                sessions: engine.sessions.clone(),
                asks: engine.asks.clone(),
                env: env.clone(),
                withheld: Vec::new(),
            }))
        }
    }
}

fn builtin(engine: &Engine, wb_agent: &Utf8Path) -> ResolvedEngine {
    ResolvedEngine {
        name: engine.name.clone(),
        program: "wb-agent".to_owned(),
        argv: vec![wb_agent.to_string(), "apply-suggestions".to_owned()],
        prompt: None,
        reads: None,
        speech: None,
        sessions: Sessions::default(),
        asks: Vec::new(),
        env: BTreeMap::new(),
        withheld: Vec::new(),
    }
}

fn missing(engine: &Engine, program: &str, folder: &Utf8Path) -> Error {
    let at = format!("{}:{}", engine.at.file, engine.at.line);
    // `which` finds only what can be run.
    if program.contains('/') && folder.join(program).is_file() {
        let name = &engine.name;
        let message = format!("engine \"{name}\" ({at}): `{program}` is no executable file");
        let error = Error::unavailable(message).code("engine_missing");
        return error.hint(format!("type: chmod +x '{}'", folder.join(program)));
    }
    let message = format!("engine \"{}\" ({at}): program `{program}` not found", engine.name);
    let install = format!("install {program}, or write its absolute path into `command`");
    Error::unavailable(message).code("engine_missing").hint(match engine.speech {
        // The built-in engine works in kinds, and is no long-running agent.
        Some(_) => install,
        None => format!(
            "{install}; or let the kinds use engine = \"suggestions\", which needs no agent"
        ),
    })
}
