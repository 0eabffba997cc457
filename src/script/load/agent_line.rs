//! The command line of a known coding agent, also behind programs that run another one.

use std::collections::BTreeMap;

use crate::script::config::output::Reads;
use crate::script::config::secret::EnvValue;
use crate::script::config::words_behind::words_behind;
use crate::script::config::{Engine, EngineBody};
use crate::script::load::agent::Agent;
use crate::script::load::live_agent::Speaks;

/// Settings of Claude Code that let a file of the repository start a program.
pub(super) const SETTINGS_KEYS: [&str; 7] = [
    "disableAllHooks",
    "apiKeyHelper",
    "awsAuthRefresh",
    "awsCredentialExport",
    "gcpAuthRefresh",
    "otelHeadersHelper",
    "proxyAuthHelper",
];

/// The command line of an engine's agent, and its environment.
pub(super) struct Line<'a> {
    /// From the agent's program on.
    pub(super) command: Vec<String>,
    /// The variables that the words before it set.
    set: Vec<String>,
    env: &'a BTreeMap<String, EnvValue>,
}

impl Line<'_> {
    /// Returns that of an engine that runs a program.
    pub(super) fn of(engine: &Engine) -> Option<Line<'_>> {
        let EngineBody::Process { command, env, .. } = &engine.body else { return None };
        let (command, set) = words_behind(command);
        Some(Line { command, set, env })
    }

    /// Returns the agent that it runs, if known.
    pub(super) fn agent(&self) -> Option<Agent> {
        Agent::of(self.command.first()?)
    }

    /// Returns whether one of these options is present, also as `--option=value`.
    pub(super) fn has(&self, options: &[&str]) -> bool {
        let is_one = |word: &String| {
            let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
            options.contains(&name)
        };
        self.command.iter().any(is_one)
    }

    /// Returns whether an environment variable is set.
    pub(super) fn sets(&self, name: &str) -> bool {
        self.env.contains_key(name) || self.set.iter().any(|it| it == name)
    }

    /// Returns the values of an option.
    pub(super) fn values<'l>(&'l self, option: &'l str) -> impl Iterator<Item = &'l str> {
        self.command.iter().enumerate().filter_map(move |(at, word)| match word.split_once('=') {
            Some((name, value)) if name == option => Some(value),
            _ if word == option => self.command.get(at + 1).map(String::as_str),
            _ => None,
        })
    }

    /// Returns whether the command decides about hooks and helpers of Claude Code: explicitly, or
    /// with a settings file that the script names.
    pub(super) fn decides_settings(&self) -> bool {
        let names = |value: &str, key: &&str| value.contains(&format!("\"{key}\""));
        let decides = |value: &str| {
            !value.trim_start().starts_with('{') || SETTINGS_KEYS.iter().all(|it| names(value, it))
        };
        self.values("--settings").any(decides)
    }

    /// Returns whether Claude Code reads the settings of a source.
    pub(super) fn reads_settings(&self, source: &str) -> bool {
        let mut named = self.values("--setting-sources").peekable();
        named.peek().is_none() || named.any(|it| it.split(',').any(|it| it.trim() == source))
    }

    /// Returns whether Claude Code reads no settings at all: neither those of the repository, with
    /// its skills, nor those of the account.
    pub(super) fn reads_no_settings(&self) -> bool {
        self.values("--setting-sources").any(str::is_empty)
    }

    /// Returns whether a feature of Codex is explicitly enabled or disabled.
    pub(super) fn decides_feature(&self, name: &str) -> bool {
        let switches = self.values("--disable").chain(self.values("--enable"));
        let mut settings = self.values("-c").chain(self.values("--config"));
        switches.into_iter().any(|it| it == name)
            || settings.any(|it| it.starts_with(&format!("features.{name}=")))
    }
}

/// Returns the agent that talks as an engine does, if only one does so.
pub(super) fn of_form(engine: &Engine) -> Option<Agent> {
    let talks = engine.speech.as_ref().and_then(|it| match it.speaks {
        Speaks::ClaudeStreamJson => Some(Agent::Claude),
        // Without hooks, any program may be in a terminal.
        Speaks::Hooks => (!it.is_by_screen()).then_some(Agent::Claude),
        Speaks::CodexAppServer => Some(Agent::Codex),
        Speaks::PiRpc => Some(Agent::Pi),
        Speaks::Lines => None,
    });
    talks.or(match engine.reads()? {
        Reads::ClaudeStreamJson => Some(Agent::Claude),
        Reads::CodexJsonl => Some(Agent::Codex),
        Reads::OpencodeJson => Some(Agent::Opencode),
        Reads::GeminiStreamJson => Some(Agent::Gemini),
        Reads::PiRpc => Some(Agent::Pi),
        Reads::Plain => None,
    })
}
