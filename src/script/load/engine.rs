//! Builds an `Engine` from its declaration.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::script::config::output::Reads;
use crate::script::config::secret::EnvValue;
use crate::script::config::{Builtin, Engine, EngineBody, PromptBy, SESSION, Sessions};
use crate::script::load::anthropic::{self, OF_MODEL};
use crate::script::load::external::{Lead, Target};
use crate::script::load::extract::{Checked, Given};
use crate::script::load::gateway::{self, NOT_OF_GATEWAY};
use crate::script::load::live_agent::{
    HOOKS_FILE, MCP_CONFIG, Proof, SYSTEM_FILE, Speaks, Speech, Typed,
};
use crate::script::load::node::Declared;
use crate::script::schema::{BUILTINS, PROMPT_BY};
use crate::script::source::diagnostic::{Diagnostic, Findings, expected};
use crate::script::source::span::Spot;

/// Default time for a stream to confirm that it received its input.
const PROOF_WAIT: Duration = Duration::from_secs(60);

/// Fields that a builtin engine does not have.
const OF_PROCESS: [&str; 9] =
    ["command", "prompt", "reads", "env", "on_rate_limit", "session", "resume", "asks", "trusts"];

/// Fields that only an engine in a terminal has.
const OF_TERMINAL: [&str; 5] = ["hooks", "submit", "input", "ready", "proof"];
/// The keys that submit input: programs differ in which of them they accept.
const SUBMIT: [&str; 2] = ["Enter", "C-m"];
/// Longest name of a key.
const KEY_BYTES_MAX: usize = 16;

/// Builds engines, and collects findings.
pub(crate) struct EngineBuilder<'a> {
    /// The findings.
    pub(crate) findings: &'a mut Findings,
    /// References to things outside the script.
    pub(crate) leads: &'a mut Vec<Lead>,
}

impl EngineBuilder<'_> {
    /// Validates a declaration; the engine is valid only if no finding is an error.
    pub(crate) fn build(&mut self, declared: &Declared) -> Option<Engine> {
        let (checked, name) = (declared.checked(), declared.name.clone()?);
        let body = self.body(declared, &name, checked)?;
        let is_held_by_limits = checked.text("on_rate_limit") != Some("go_on");
        let sessions = self.sessions(declared.title(), checked);
        let speech = self.speech(declared.title(), checked);
        let asks = self.asks(declared.title(), checked);
        let trusted = self.trusted(declared.title(), checked);
        let at = declared.spot.at();
        Some(Engine { name, body, is_held_by_limits, speech, sessions, asks, trusted, at })
    }

    /// Returns the arguments that make an engine ask for permission.
    fn asks(&mut self, title: &str, checked: &Checked) -> Vec<String> {
        let words: Vec<String> =
            checked.lines("asks").iter().map(|(word, _)| word.clone()).collect();
        let is_right = !checked.has("asks") || checked.is_wrong("asks");
        if !is_right && !words.iter().any(|it| it.contains(MCP_CONFIG)) {
            let message = format!("`asks` of {title} does not name our server of tools");
            let note = format!("write \"--mcp-config\", \"{MCP_CONFIG}\"");
            self.error("bad-text", message, checked.spot("asks"), &note);
        }
        words
    }

    /// Returns the files that its agent may obey.
    fn trusted(&mut self, title: &str, checked: &Checked) -> Vec<String> {
        let mut trusted = Vec::new();
        for (path, spot) in checked.lines("trusts") {
            let plain = path.trim_end_matches('/');
            let is_plain = |part: &str| !matches!(part, "" | "." | "..");
            if plain.is_empty() || !plain.split('/').all(is_plain) {
                let message = format!("`trusts` of {title} names `{}`", path.escape_debug());
                let note = "write files as git names them: trusts = { \".opencode/plugin\" }";
                self.error("bad-text", message, spot, note);
            }
            trusted.push(plain.to_owned());
        }
        trusted
    }

    fn sessions(&mut self, title: &str, checked: &Checked) -> Sessions {
        let mut words = |field: &str| {
            let words: Vec<String> =
                checked.lines(field).iter().map(|(word, _)| word.clone()).collect();
            let is_right = !checked.has(field) || checked.is_wrong(field);
            if !is_right && !words.iter().any(|it| it.contains(SESSION)) {
                let message = format!("`{field}` of {title} does not name the session");
                let note = format!("write {SESSION} where its name belongs");
                self.error("bad-text", message, checked.spot(field), &note);
            }
            words
        };
        Sessions { session: words("session"), resume: words("resume") }
    }

    /// Returns the protocol of a long-running engine.
    fn speech(&mut self, title: &str, checked: &Checked) -> Option<Speech> {
        let ty = checked.text("type");
        let is_terminal = ty == Some("terminal");
        let others: [(&[&str], bool, &str); 3] = [
            (&["proof_wait", "system"], is_terminal || ty == Some("stream"), "that lives on"),
            (&["speaks"], ty == Some("stream"), "of type \"stream\""),
            (&OF_TERMINAL, is_terminal, "of type \"terminal\""),
        ];
        for (fields, is_right, which) in others {
            for field in fields.iter().filter(|field| !is_right && checked.has(field)) {
                let message = match is_terminal || ty == Some("stream") {
                    true => format!("{title} has `{field}`, which is not for its type"),
                    false => format!("{title} has `{field}`, but does not live on"),
                };
                let note = format!("only an engine {which} has it");
                self.error("unknown-field", message, checked.spot(field), &note);
            }
        }
        if !is_terminal && ty != Some("stream") {
            return None;
        }
        for field in ["prompt", "reads"].into_iter().filter(|field| checked.has(field)) {
            let message = format!("{title} lives on and has no `{field}`");
            let note = "how it is told and read follows from its type and from `speaks`";
            self.error("unknown-field", message, checked.spot(field), note);
        }
        let system: Vec<String> =
            checked.lines("system").iter().map(|(word, _)| word.clone()).collect();
        let is_right = !checked.has("system") || checked.is_wrong("system");
        if !is_right && !system.iter().any(|it| it.contains(SYSTEM_FILE)) {
            let message = format!("`system` of {title} does not name the file");
            let note = format!("write {SYSTEM_FILE} where its path belongs");
            self.error("bad-text", message, checked.spot("system"), &note);
        }
        let proof_wait = checked.duration("proof_wait").unwrap_or(PROOF_WAIT);
        if is_terminal {
            let typed = Some(self.typed(title, checked));
            return Some(Speech { speaks: Speaks::Hooks, proof_wait, system, typed });
        }
        let word = checked.text("speaks")?;
        let speaks = Speaks::ALL.into_iter().find(|it| it.as_str() == word)?;
        Some(Speech { speaks, proof_wait, system, typed: None })
    }

    /// Returns the settings for typing to an engine of type "terminal".
    fn typed(&mut self, title: &str, checked: &Checked) -> Typed {
        let hooks: Vec<String> =
            checked.lines("hooks").iter().map(|(word, _)| word.clone()).collect();
        let is_right = !checked.has("hooks") || checked.is_wrong("hooks");
        if !is_right && !hooks.iter().any(|it| it.contains(HOOKS_FILE)) {
            let message = format!("`hooks` of {title} does not name the file");
            let note = format!("write {HOOKS_FILE} where its path belongs");
            self.error("bad-text", message, checked.spot("hooks"), &note);
        }
        let mut submit = Vec::new();
        for (key, spot) in checked.lines("submit") {
            let is_key = |it: u8| it.is_ascii_alphanumeric() || it == b'-';
            if key.is_empty() || key.len() > KEY_BYTES_MAX || !key.bytes().all(is_key) {
                let message = format!("`submit` of {title} names `{}`", key.escape_debug());
                let note = "write keys as tmux names them: submit = { \"Enter\", \"C-m\" }";
                self.error("bad-text", message, spot, note);
            }
            submit.push(key.clone());
        }
        if submit.is_empty() {
            submit = SUBMIT.map(str::to_owned).to_vec();
        }
        let word = |field: &str| checked.text(field).map(str::to_owned);
        let proof = checked.text("proof");
        let proof = Proof::ALL.into_iter().find(|it| Some(it.as_str()) == proof);
        let proof = proof.unwrap_or_default();
        if proof == Proof::Screen && checked.has("hooks") {
            let message = format!("{title} has `hooks`, and `proof = \"screen\"`");
            let note = "what has hooks is known by them: leave `proof` out";
            self.error("unknown-field", message, checked.spot("hooks"), note);
        }
        Typed { hooks, submit, input: word("input"), ready: word("ready"), proof }
    }

    fn error(&mut self, code: &'static str, message: String, spot: &Spot, note: &str) {
        self.findings.add(Diagnostic::error(code, message).at(spot).note(note));
    }

    fn body(&mut self, declared: &Declared, name: &str, checked: &Checked) -> Option<EngineBody> {
        let title = declared.title();
        let sort = checked.text("type")?;
        if sort == "gateway" {
            let is = "asks a model with a person's subscription";
            let note = "it has provider, model, max_output, context and thinking";
            self.refuse(title, checked, (&NOT_OF_GATEWAY, is, note));
            let model = gateway::build(title, checked, &declared.spot, self.findings)?;
            return Some(EngineBody::Gateway(model));
        }
        let only = "only an engine of type \"gateway\" has it";
        self.refuse(title, checked, (&["provider"], "uses no subscription", only));
        if sort == "anthropic" {
            self.refuse(title, checked, (&OF_PROCESS, "asks a model", "only a program has it"));
            let model = anthropic::build(title, checked, &declared.spot, self.findings)?;
            let to = Target::OfEngine(name.to_owned(), model.key.clone());
            self.leads.push(Lead::new(to, checked.spot("key")));
            return Some(EngineBody::Anthropic(model));
        }
        let only = "only an engine of type \"anthropic\" has it";
        self.refuse(title, checked, (&OF_MODEL, "asks no model", only));
        if sort == "builtin" {
            let only = "only an engine of type \"process\" has it";
            self.refuse(title, checked, (&OF_PROCESS, "is builtin", only));
            if name == BUILTINS[0] {
                return Some(EngineBody::Builtin(Builtin::Suggestions));
            }
            let message = format!("unknown builtin engine `{}`", name.escape_debug());
            self.error("unknown-engine", message, &declared.spot, &expected(BUILTINS));
            return None;
        }
        let is_stream = checked.text("type") == Some("stream");
        let is_terminal = checked.text("type") == Some("terminal");
        self.require(declared, checked, (is_stream, is_terminal));
        let command: Vec<String> =
            checked.lines("command").iter().map(|(word, _)| word.clone()).collect();
        if checked.has("command") && !checked.is_wrong("command") && command.is_empty() {
            let message = format!("`command` of {title} is empty");
            self.error("bad-text", message, checked.spot("command"), "it needs a program");
        }
        if let ([only], Some((_, spot))) = (command.as_slice(), checked.lines("command").first())
            && only.contains(' ')
            && !only.contains('/')
        {
            let words: Vec<String> =
                only.split_whitespace().map(|it| format!("\"{it}\"")).collect();
            let message = format!("`command` of {title} is one word with blanks");
            let note = format!("no shell parts it: write {{ {} }}", words.join(", "));
            self.error("bad-text", message, spot, &note);
        }
        let prompt = match checked.text("prompt") {
            _ if is_stream || is_terminal => PromptBy::Pipe,
            Some(word) if word == PROMPT_BY[1] => PromptBy::Argument,
            _ => PromptBy::Stdin,
        };
        let reads = checked.text("reads");
        let reads = reads.and_then(|word| Reads::ALL.into_iter().find(|it| it.as_str() == word));
        let reads = match checked.text("speaks") {
            Some("claude-stream-json") => Some(Reads::ClaudeStreamJson),
            Some("codex-app-server") => Some(Reads::CodexJsonl),
            Some("pi-rpc") => Some(Reads::PiRpc),
            Some(_) => Some(Reads::Plain),
            None if is_terminal => Some(Reads::Plain),
            None => reads,
        };
        let env = self.env(name, title, checked);
        Some(EngineBody::Process { command, prompt, reads, env })
    }

    /// Reports required fields that are missing.
    fn require(
        &mut self,
        declared: &Declared,
        checked: &Checked,
        (is_stream, is_terminal): (bool, bool),
    ) {
        let title = declared.title();
        let is_by_screen = checked.text("proof") == Some(Proof::Screen.as_str());
        for (field, needs) in [
            ("command", "a list of texts: write command = { \"claude\", \"-p\" }"),
            ("hooks", "arguments: write hooks = { \"--settings\", \"{{hooks_file}}\" }"),
            ("input", "the beginning of its line, which is looked at: write input = \"❯\""),
            ("prompt", "\"stdin\" or \"argument\": write prompt = \"stdin\""),
            ("speaks", "how it is spoken to: write speaks = \"lines\" for a program of your own"),
        ] {
            let is_needed = match field {
                "command" => true,
                "speaks" => is_stream,
                "hooks" => is_terminal && !is_by_screen,
                "input" => is_terminal && is_by_screen,
                _ => !is_stream && !is_terminal,
            };
            if is_needed && !checked.has(field) {
                let message = format!("{title} has no `{field}`");
                self.error("missing-field", message, &declared.spot, &format!("it needs {needs}"));
            }
        }
    }

    /// Refuses fields that only engines of another type have.
    fn refuse(
        &mut self,
        title: &str,
        checked: &Checked,
        (fields, is, note): (&[&str], &str, &str),
    ) {
        for field in fields.iter().filter(|it| checked.has(it)) {
            let message = format!("{title} {is} and has no `{field}`");
            self.error("unknown-field", message, checked.spot(field), note);
        }
    }

    fn env(&mut self, engine: &str, title: &str, checked: &Checked) -> BTreeMap<String, EnvValue> {
        let mut env = BTreeMap::new();
        let Some(Given::Texts(texts)) = checked.given("env") else { return env };
        for (name, (value, spot)) in texts {
            let is_plain = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if !is_plain {
                let message = format!("`{}` is not a name for a variable", name.escape_debug());
                self.error("bad-name", message, spot, "it is letters, digits and `_`");
            } else if name.starts_with("WB_") {
                let message = format!("{title} sets `{name}`, which belongs to the server");
                self.error("bad-name", message, spot, "choose a name that has no WB_");
            } else if matches!(value, EnvValue::Text(text) if text.contains('\0')) {
                let message = format!("`{name}` in `env` of {title} holds a zero byte");
                self.error("bad-text", message, spot, "");
            }
            if let EnvValue::Secret(secret) = value {
                let to = Target::OfEngine(engine.to_owned(), secret.clone());
                self.leads.push(Lead::new(to, spot));
            }
            env.insert(name.clone(), value.clone());
        }
        env
    }
}
