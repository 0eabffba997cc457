//! Known coding agents: which words of a command let them do anything, and which keep them from
//! starting programs that the repository or their account configures.
//!
//! Each word was tried with the program itself; `docs/engines.md` lists the versions.

use serde_json::Value;

use crate::script::config::words_behind::words_behind;
use crate::script::config::{Engine, EngineBody};
use crate::script::load::agent_line::{Line, of_form};
use crate::script::load::live_agent::NO_GOALS;

/// Flags by which any agent acts without asking for permission.
const UNASKED: [&str; 4] = [
    "--dangerously-skip-permissions",
    "--dangerously-bypass-approvals-and-sandbox",
    "--yolo",
    "--approval-mode=yolo",
];
/// Settings that Claude Code must override: each of these lets a file of the repository start a
/// program.
const SETTINGS: &str = concat!(
    r#""--settings", '{"disableAllHooks":true,"apiKeyHelper":"","awsAuthRefresh":"","#,
    r#""awsCredentialExport":"","gcpAuthRefresh":"","otelHeadersHelper":"","proxyAuthHelper":""}'"#
);

/// Parts of `sandbox` in Claude Code's settings that name programs.
const SANDBOX_PROGRAMS: [&str; 4] = ["ripgrep", "seccomp", "bwrapPath", "socatPath"];

/// Returns the entry of a Claude Code settings file that starts programs or redirects its traffic
/// whatever the command says: `env` overrides the engine's own variables. A file that is not JSON
/// for us might be valid for Claude Code, so it is reported too.
pub fn unkept_settings(text: &str) -> Option<&'static str> {
    let Ok(Value::Object(settings)) = serde_json::from_str(text) else {
        return Some("what is no JSON object");
    };
    let is_empty = |it: &Value| match it {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    if settings.get("env").is_some_and(|it| !is_empty(it)) {
        return Some("`env`");
    }
    let names = |it: &&str| settings.get("sandbox").and_then(|map| map.get(it)).is_some();
    SANDBOX_PROGRAMS.iter().any(names).then_some("programs of `sandbox`")
}

/// A coding agent that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agent {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// opencode.
    Opencode,
    /// Pi.
    Pi,
}

impl Agent {
    /// Returns the agent that a command runs, also behind `env`, `timeout` and the like.
    pub fn of_command(command: &[String]) -> Option<Agent> {
        Agent::of(words_behind(command).0.first()?)
    }

    /// Returns the agent that a program is, judging by its file name or the name of its package.
    pub fn of(program: &str) -> Option<Agent> {
        match program.rsplit('/').next().unwrap_or(program) {
            "claude" | "claude-code" => Some(Agent::Claude),
            "codex" => Some(Agent::Codex),
            "gemini" | "gemini-cli" => Some(Agent::Gemini),
            "opencode" | "opencode-ai" => Some(Agent::Opencode),
            "pi" | "pi-coding-agent" => Some(Agent::Pi),
            _ => None,
        }
    }

    /// Returns the files, relative to a folder, that make it start programs unless its command
    /// prevents it.
    pub fn starting_files(self) -> &'static [&'static str] {
        match self {
            Agent::Claude => &[
                ".mcp.json",
                ".claude/settings.json",
                ".claude/settings.local.json",
                ".claude/hooks",
                ".claude/plugins",
            ],
            Agent::Codex => &[".codex/config.toml", ".codex/hooks.json"],
            Agent::Gemini => &[".gemini/settings.json", ".gemini/extensions"],
            Agent::Opencode => &[".opencode/tool", ".opencode/tools"],
            Agent::Pi => &[".pi/extensions"],
        }
    }

    /// Returns the files, relative to a folder, that it obeys whatever its command says: they make
    /// it start programs, or redirect its traffic.
    pub fn unkept_files(self) -> &'static [&'static str] {
        match self {
            // Those of Claude Code are searched for, or checked by content: `jobs::unkept_files`.
            Agent::Claude | Agent::Codex => &[],
            Agent::Gemini => &[".env", ".gemini/.env"],
            // Its second loader obeys neither `--pure` nor a variable.
            Agent::Opencode => &[
                "opencode.json",
                "opencode.jsonc",
                ".opencode/opencode.json",
                ".opencode/opencode.jsonc",
                ".opencode/plugin",
                ".opencode/plugins",
            ],
            // They set the shell of its commands, and a prefix for each of them.
            Agent::Pi => &[".pi/settings.json"],
        }
    }

    /// Returns the files that it reads as instructions, whatever its command says.
    pub fn instructions(self) -> &'static [&'static str] {
        match self {
            Agent::Claude => {
                &["CLAUDE.md", "CLAUDE.local.md", ".claude/agents", ".claude/commands"]
            }
            Agent::Codex => &["AGENTS.md", "AGENTS.override.md"],
            Agent::Gemini => &["GEMINI.md"],
            Agent::Opencode => &["AGENTS.md", "CLAUDE.md"],
            Agent::Pi => &["AGENTS.md", "CLAUDE.md", ".pi/SYSTEM.md", ".pi/APPEND_SYSTEM.md"],
        }
    }

    /// Returns the files below its account's home that make it start programs unless its command
    /// prevents it.
    pub fn account_files(self) -> &'static [&'static str] {
        match self {
            Agent::Claude => &[".claude/settings.json", ".claude/plugins", ".claude.json"],
            Agent::Codex => &[".codex/config.toml", ".codex/hooks.json"],
            Agent::Gemini => &[".gemini/extensions"],
            Agent::Opencode => &[".config/opencode"],
            Agent::Pi => &[".pi/agent/extensions"],
        }
    }

    /// Returns the files below its account's home that it obeys whatever its command says.
    pub fn unkept_account_files(self) -> &'static [&'static str] {
        match self {
            Agent::Claude | Agent::Codex => &[],
            Agent::Gemini => &[".gemini/settings.json", ".gemini/.env", ".env"],
            Agent::Opencode => &[
                ".opencode/opencode.json",
                ".opencode/opencode.jsonc",
                ".opencode/plugin",
                ".opencode/plugins",
                ".opencode/tool",
                ".opencode/tools",
            ],
            Agent::Pi => &[".pi/agent/settings.json"],
        }
    }
}

impl Engine {
    /// Returns whether the engine sets an environment variable.
    pub fn sets(&self, name: &str) -> bool {
        Line::of(self).is_some_and(|it| it.sets(name))
    }

    /// Returns the agent that it runs, if known.
    pub fn agent(&self) -> Option<Agent> {
        Line::of(self)?.agent()
    }

    /// Returns the agent that it runs, also behind a program that is not known, judging by how that
    /// talks.
    pub fn likely_agent(&self) -> Option<Agent> {
        self.agent().or_else(|| of_form(self))
    }

    /// Returns the engine with the command line that is really run, if that starts its agent: the
    /// server adds arguments of its own.
    pub fn running(&self, argv: &[String]) -> Engine {
        let mut running = self.clone();
        if let EngineBody::Process { command, .. } = &mut running.body
            && Agent::of_command(argv) == self.agent()
        {
            *command = argv.to_vec();
        }
        running
    }

    /// Returns the word of its command that disables the agent's permission prompts.
    pub fn unasked(&self) -> Option<String> {
        let line = Line::of(self)?;
        let agent = line.agent();
        let is_unasked = |(at, word): &(usize, &String)| {
            let before = at.checked_sub(1).and_then(|it| line.command.get(it)).map(String::as_str);
            let with_agent = match agent {
                Some(Agent::Gemini) => *word == "-y",
                Some(Agent::Opencode) => *word == "--auto",
                Some(Agent::Codex) => {
                    matches!(before, Some("-s" | "--sandbox")) && *word == "danger-full-access"
                }
                _ => false,
            };
            let with_option = matches!(
                (before, word.as_str()),
                (Some("--approval-mode"), "yolo")
                    | (Some("--permission-mode"), "bypassPermissions")
            );
            UNASKED.contains(&word.as_str()) || with_agent || with_option
        };
        let found = line.command.iter().enumerate().find(is_unasked);
        found.map(|(_, word)| word.clone())
    }

    /// Returns whether Claude Code refuses this command as root, unless it is told that it runs in
    /// a sandbox.
    pub fn is_refused_to_root(&self) -> bool {
        self.unasked().as_deref() == Some(UNASKED[0])
    }

    /// Returns the settings files of Claude Code in the repository, relative to a folder: those
    /// read in its working folder, and those also read in the folders above it. Behind a program
    /// that is not known, the words of that count.
    pub fn settings_files(&self) -> (Option<&'static str>, Option<&'static str>) {
        let line = Line::of(self).filter(|_| self.likely_agent() == Some(Agent::Claude));
        let reads = |source: &str| line.as_ref().is_some_and(|it| it.reads_settings(source));
        (
            reads("project").then_some(".claude/settings.json"),
            reads("local").then_some(".claude/settings.local.json"),
        )
    }

    /// Returns whether its agent is Claude Code and reads the settings of a source: `user`,
    /// `project` or `local`. The skills of that source depend on the same option.
    pub fn reads_settings(&self, source: &str) -> bool {
        let line = Line::of(self).filter(|it| it.agent() == Some(Agent::Claude));
        line.is_some_and(|it| it.reads_settings(source))
    }

    /// Returns whether the script trusts a file, by its own path or that of a folder around it.
    pub fn trusts(&self, file: &str) -> bool {
        let is_in = |it: &String| {
            file.strip_prefix(it.as_str()).is_some_and(|it| it.is_empty() || it.starts_with('/'))
        };
        self.trusted.iter().any(is_in)
    }

    /// Returns the missing flags that keep its agent from starting MCP servers, hooks or plugins
    /// that the command does not name, and from turns that nobody gave; empty for an unknown agent.
    pub fn open_doors(&self) -> Vec<&'static str> {
        let Some(line) = Line::of(self) else { return Vec::new() };
        let Some(agent) = line.agent() else { return Vec::new() };
        let is_typed = self.speech.as_ref().is_some_and(|it| it.typed.is_some());
        let wanted: &[(bool, &'static str)] = match agent {
            // Our own hooks report its turns and stay on; no others are read.
            Agent::Claude if is_typed => &[
                (line.has(&["--strict-mcp-config"]), r#""--strict-mcp-config""#),
                (line.reads_no_settings(), r#""--setting-sources=""#),
            ],
            Agent::Claude => &[
                (line.has(&["--strict-mcp-config"]), r#""--strict-mcp-config""#),
                (line.decides_settings() || line.reads_no_settings(), SETTINGS),
            ],
            // It reads the account's configuration whatever it is told.
            Agent::Codex if line.command.iter().any(|it| it == "app-server") => &[
                (line.sets("CODEX_HOME"), r#"env = { CODEX_HOME = "/srv/codex" }"#),
                (line.decides_feature("hooks"), r#""--disable", "hooks""#),
                (line.decides_feature("plugins"), r#""--disable", "plugins""#),
                (line.decides_feature("apps"), r#""--disable", "apps""#),
                (line.decides_feature("goals"), NO_GOALS),
            ],
            Agent::Codex => &[
                (line.has(&["--ignore-user-config"]), r#""--ignore-user-config""#),
                (line.decides_feature("hooks"), r#""--disable", "hooks""#),
                (line.decides_feature("plugins"), r#""--disable", "plugins""#),
                (line.decides_feature("apps"), r#""--disable", "apps""#),
            ],
            Agent::Gemini => &[
                (line.has(&["-e", "--extensions"]), r#""-e", "none""#),
                (
                    line.has(&["--allowed-mcp-server-names"]),
                    r#""--allowed-mcp-server-names", "none""#,
                ),
                (
                    line.sets("GEMINI_CLI_TRUST_WORKSPACE"),
                    r#"env = { GEMINI_CLI_TRUST_WORKSPACE = "false" }"#,
                ),
            ],
            Agent::Opencode => &[
                (line.has(&["--pure"]), r#""--pure""#),
                (
                    line.sets("OPENCODE_DISABLE_PROJECT_CONFIG"),
                    r#"env = { OPENCODE_DISABLE_PROJECT_CONFIG = "1" }"#,
                ),
                (line.sets("XDG_CONFIG_HOME"), r#"env = { XDG_CONFIG_HOME = "data/agents" }"#),
            ],
            Agent::Pi => &[(line.has(&["--no-extensions", "-ne"]), r#""--no-extensions""#)],
        };
        wanted.iter().filter(|(is_there, _)| !is_there).map(|(_, add)| *add).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::config::PromptBy;
    use crate::script::config::output::Reads;
    use crate::script::config::secret::EnvValue;
    use crate::script::load::agent_line::SETTINGS_KEYS;
    use crate::script::source::location::Location;

    fn engine(command: &[&str], env: &[&str]) -> Engine {
        let text = |name: &&str| ((*name).to_owned(), EnvValue::Text("1".to_owned()));
        Engine {
            name: "e".to_owned(),
            body: EngineBody::Process {
                command: command.iter().map(|it| (*it).to_owned()).collect(),
                prompt: PromptBy::Stdin,
                reads: None,
                env: env.iter().map(text).collect(),
            },
            is_held_by_limits: true,
            speech: None,
            sessions: crate::script::config::Sessions::default(),
            asks: Vec::new(),
            trusted: vec![".opencode/plugin".to_owned()],
            at: Location { file: camino::Utf8Path::new("x").into(), line: 1, column: 1 },
        }
    }

    #[test]
    fn settings_that_nothing_keeps_out_are_told_from_others() {
        for (text, found) in [
            ("{}", None),
            (r#"{"permissions":{"allow":["Bash"]},"hooks":{},"env":{},"sandbox":{}}"#, None),
            (r#"{"env":null}"#, None),
            (r#"{"env":{"ANTHROPIC_BASE_URL":"http://127.0.0.1:1"}}"#, Some("`env`")),
            (r#"{"env":"x"}"#, Some("`env`")),
            (r#"{"env":{},"env":{"BASH_ENV":"x"}}"#, Some("`env`")),
            (r#"{"sandbox":{"ripgrep":{"command":"x"}}}"#, Some("programs of `sandbox`")),
            ("", Some("what is no JSON object")),
            ("[]", Some("what is no JSON object")),
            ("\u{feff}{}", Some("what is no JSON object")),
            ("// a comment\n{}", Some("what is no JSON object")),
        ] {
            assert_eq!(unkept_settings(text), found, "{text}");
        }
        let reads = |words: &[&str]| engine(words, &[]).settings_files();
        let (own, local) = (Some(".claude/settings.json"), Some(".claude/settings.local.json"));
        assert_eq!(reads(&["claude", "-p"]), (own, local));
        assert_eq!(reads(&["claude", "--setting-sources="]), (None, None));
        assert_eq!(reads(&["claude", "--setting-sources", "user,project"]), (own, None));
        assert_eq!(reads(&["claude", "--setting-sources=local, user"]), (None, local));
        assert_eq!(reads(&["codex"]), (None, None));
        // Behind a program that is not known, how it talks tells, and its words count.
        let talks = |words: &[&str], form: Option<Reads>| {
            let mut engine = engine(words, &[]);
            if let EngineBody::Process { reads, .. } = &mut engine.body {
                *reads = form;
            }
            (engine.agent(), engine.likely_agent(), engine.settings_files())
        };
        let (form, likely) = (Some(Reads::ClaudeStreamJson), Some(Agent::Claude));
        assert_eq!(talks(&["bin/ask.sh"], form), (None, likely, (own, local)));
        let words = ["bin/ask.sh", "--setting-sources="];
        assert_eq!(talks(&words, form), (None, likely, (None, None)));
        assert_eq!(talks(&["bin/ask.sh"], Some(Reads::Plain)), (None, None, (None, None)));
        let form = Some(Reads::GeminiStreamJson);
        assert_eq!(talks(&["bin/ask.sh"], form).1, Some(Agent::Gemini));
        assert_eq!(talks(&["pi"], form).1, Some(Agent::Pi), "its name comes first");
        // The arguments that the server adds count; another program in its place has none.
        let run = |words: &[&str]| {
            let argv: Vec<String> = words.iter().map(|it| (*it).to_owned()).collect();
            engine(&["claude"], &[]).running(&argv).settings_files()
        };
        assert_eq!(run(&["/usr/bin/claude", "-p", "--setting-sources", ""]), (None, None));
        assert_eq!(run(&["/bin/sh", "-c", "claude --setting-sources="]), (None, None));
        assert_eq!(run(&["/bin/sh", "-c", "cat --setting-sources="]), (own, local));
    }

    #[test]
    fn an_agent_that_asks_nobody_is_known_by_a_word_of_its_command() {
        for command in [
            &["claude", "-p", "--dangerously-skip-permissions"][..],
            &["x", "--dangerously-skip-permissions"],
            &["claude", "--permission-mode", "bypassPermissions"],
            &["codex", "exec", "--dangerously-bypass-approvals-and-sandbox", "-"],
            &["codex", "exec", "-s", "danger-full-access"],
            &["gemini", "--yolo"],
            &["gemini", "-y"],
            &["gemini", "--approval-mode", "yolo"],
            &["/opt/bin/opencode", "run", "--auto"],
            &["nice", "gemini", "-y"],
        ] {
            assert!(engine(command, &[]).unasked().is_some(), "{command:?}");
        }
        for command in [&["sh", "-y"][..], &["codex", "exec", "-s", "read-only"], &["gemini", "-p"]]
        {
            assert_eq!(engine(command, &[]).unasked(), None, "{command:?}");
        }
    }

    #[test]
    fn an_agent_is_known_by_the_name_of_its_package() {
        for (command, agent) in [
            ("npx -y @anthropic-ai/claude-code -p", Agent::Claude),
            ("npx @anthropic-ai/claude-code@1.2.3", Agent::Claude),
            ("npx -p @anthropic-ai/claude-code claude -p", Agent::Claude),
            ("env A=b npm exec -- @openai/codex@latest exec", Agent::Codex),
            ("pnpm dlx @google/gemini-cli -p", Agent::Gemini),
            ("bunx opencode-ai@1 run", Agent::Opencode),
            ("npx @mariozechner/pi-coding-agent --mode rpc", Agent::Pi),
        ] {
            let words: Vec<&str> = command.split(' ').collect();
            let engine = engine(&words, &[]);
            assert_eq!(engine.agent(), Some(agent), "{command}");
            assert!(!engine.open_doors().is_empty(), "{command}");
        }
        let other = engine(&["npx", "claude-code-router"], &[]);
        assert_eq!((other.agent(), other.likely_agent()), (None, None));
    }

    #[test]
    fn what_keeps_an_agent_from_foreign_programs_is_asked_for_until_it_is_there() {
        let adds = |command: &[&str], env: &[&str]| engine(command, env).open_doors().len();
        assert_eq!(adds(&["claude", "-p"], &[]), 2);
        assert_eq!(adds(&["claude", "--strict-mcp-config"], &[]), 1);
        let hooks = r#"{"disableAllHooks":true}"#;
        assert_eq!(adds(&["claude", "--strict-mcp-config", "--settings", hooks], &[]), 1);
        // The script's explicit choice counts, whatever it is; so does a file that it names.
        let other = SETTINGS.split('\'').nth(1).unwrap().replace("true", "false");
        for settings in [other.as_str(), "agents/settings.json"] {
            assert_eq!(adds(&["claude", "--strict-mcp-config", "--settings", settings], &[]), 0);
        }
        let ours = SETTINGS.split('\'').nth(1).unwrap();
        let same = format!("--settings={ours}");
        assert_eq!(adds(&["claude", "--strict-mcp-config", &same], &[]), 0);
        for key in SETTINGS_KEYS {
            let without = format!("--settings={}", ours.replace(&format!("\"{key}\""), "\"x\""));
            assert_eq!(adds(&["claude", "--strict-mcp-config", &without], &[]), 1, "{key}");
        }
        // No settings at all: no hook and no helper.
        for none in [&["--setting-sources="][..], &["--setting-sources", ""]] {
            let command = [&["claude", "--strict-mcp-config"], none].concat();
            assert_eq!(adds(&command, &[]), 0, "{none:?}");
        }
        assert_eq!(adds(&["claude", "--strict-mcp-config", "--setting-sources=user"], &[]), 1);
        let codex = ["codex", "exec", "--ignore-user-config", "--disable", "hooks"];
        assert_eq!(adds(&codex[..2], &[]), 4);
        assert_eq!(adds(&codex, &[]), 2);
        let live = ["codex", "app-server", "--disable", "hooks"];
        let no_goals = [&live[..], &["-c", "features.goals=false"]].concat();
        assert_eq!([&live[..], &no_goals].map(|it| adds(it, &["CODEX_HOME"])), [3, 2]);
        let named = [&codex[..], &["--enable", "plugins", "-c", "features.apps=false"]].concat();
        assert_eq!(adds(&named, &[]), 0);
        assert_eq!(adds(&["gemini", "-e", "none"], &[]), 2);
        let gemini = ["gemini", "--extensions=none", "--allowed-mcp-server-names", "none"];
        assert_eq!(adds(&gemini, &[]), 1);
        assert_eq!(adds(&gemini, &["GEMINI_CLI_TRUST_WORKSPACE"]), 0);
        assert_eq!(adds(&["pi", "-p"], &[]), 1);
        assert_eq!(adds(&["pi", "-p", "--no-extensions"], &[]), 0);
        assert_eq!(adds(&["opencode", "run"], &[]), 3);
        let env = ["OPENCODE_DISABLE_PROJECT_CONFIG", "XDG_CONFIG_HOME"];
        assert_eq!(adds(&["opencode", "run", "--pure"], &env), 0);
        assert_eq!(adds(&["my-agent"], &[]), 0, "an unknown program");
        // Behind another program, and with variables that this sets.
        assert_eq!(adds(&["env", "A=b", "claude", "-p"], &[]), 2);
        assert_eq!(adds(&["timeout", "60", "claude", "--strict-mcp-config"], &[]), 1);
        assert_eq!(adds(&["sh", "-c", "exec claude --strict-mcp-config"], &[]), 1);
        let behind = [&["env", "CODEX_HOME=/srv/codex", "nice"], &no_goals[..]].concat();
        assert_eq!(adds(&behind, &[]), 2);
        assert_eq!(adds(&["stdbuf", "-e", "0", "gemini"], &[]), 3, "the option is not its own");
    }

    #[test]
    fn a_file_is_trusted_by_its_name_or_by_that_of_its_folder() {
        let engine = engine(&["opencode"], &[]);
        for file in [".opencode/plugin", ".opencode/plugin/e.js"] {
            assert!(engine.trusts(file), "{file}");
        }
        for file in [".opencode", ".opencode/plugins", "x/.opencode/plugin", "opencode.json"] {
            assert!(!engine.trusts(file), "{file}");
        }
    }
}
