//! `wb.assistant { … }`: who may use the assistant, its engines, and its bounds.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use camino::Utf8Path;
use jiff::tz::TimeZone;
use serde::Serialize;

use crate::base::limit::format_duration;
use crate::script::config::output::Reads;
use crate::script::config::secret::EnvValue;
use crate::script::config::{Engine, EngineBody, Kind, OnBusy, Prompt, PromptBy, Site};
use crate::script::load::assistant_tools::{Policy, Vaults};
use crate::script::load::build::Builder;
use crate::script::load::extract::{Checked, Given};
use crate::script::load::inbox::Hooks;
use crate::script::load::linkedin::{self, Linkedin};
use crate::script::source::diagnostic::{Diagnostic, Findings, suggestion};
use crate::script::source::location::Location;
use crate::script::source::span::Spot;
use crate::script::vm::dates::{zone_note, zone_of};

/// Prefix of the names of the assistant's kinds.
pub(crate) const KIND_PREFIX: &str = "assistant_";
/// Largest cost limit of an answer, in dollars.
const COST_USD_MAX: f64 = 10_000.0;
/// How long a run's process may take to exit after the answer.
const LINGER: Duration = Duration::from_secs(5);

/// Which program answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// A model API over HTTP, with a key of the site.
    AnthropicApiKey,
    /// Claude Code as a process, on the person's own subscription.
    ClaudeCode,
    /// A model by the gateway, with the person's own subscription.
    GatewaySubscription,
}

impl Mode {
    /// All modes.
    pub const ALL: [Mode; 3] = [Mode::AnthropicApiKey, Mode::ClaudeCode, Mode::GatewaySubscription];

    /// Returns the word used in the script and over HTTP.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::AnthropicApiKey => "anthropic_api_key",
            Mode::ClaudeCode => "claude_code",
            Mode::GatewaySubscription => "gateway_subscription",
        }
    }

    /// Returns the mode with this word.
    pub fn parse(word: &str) -> Option<Mode> {
        Mode::ALL.into_iter().find(|it| it.as_str() == word)
    }

    /// Returns the name of the kind of its runs.
    pub fn kind(self) -> String {
        format!("{KIND_PREFIX}{}", self.as_str())
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The assistant of a site.
#[derive(Clone, Debug, Serialize)]
pub struct Assistant {
    /// The engine of each mode.
    pub runtimes: BTreeMap<Mode, String>,
    /// The default mode.
    pub mode: Mode,
    /// Whether the site's key answers if a subscription cannot be used.
    pub fallback: bool,
    /// Who may use it; everybody with write access by default.
    pub persons: Option<Vec<String>>,
    /// Who may use the mode `claude_code`.
    pub claude_code_persons: Vec<String>,
    /// Its tools with their policies.
    pub tools: BTreeMap<&'static str, Policy>,
    /// The hosts whose pages it fetches without a question.
    pub web_hosts: Vec<String>,
    /// The LinkedIn app, if people may connect LinkedIn.
    pub linkedin: Option<Linkedin>,
    /// Whether `/api/claude` exists.
    pub claude_api: bool,
    /// The folders of the vaults.
    pub vaults: Vaults,
    /// The time zone of the dates that it is told.
    pub zone: String,
    /// Its bounds.
    pub limits: AssistantLimits,
    /// Where it is declared.
    pub at: Location,
}

/// The bounds of the assistant's runs.
#[derive(Clone, Debug, Serialize)]
pub struct AssistantLimits {
    /// Longest run.
    #[serde(serialize_with = "write_duration")]
    pub run: Duration,
    /// Longest silence of the program.
    #[serde(serialize_with = "write_duration")]
    pub idle: Duration,
    /// Longest question, in bytes.
    pub prompt_bytes: u64,
    /// Longest answer, in bytes.
    pub output_bytes: u64,
    /// How long a confirmation waits for the person.
    #[serde(serialize_with = "write_duration")]
    pub confirm: Duration,
    /// Most calls of tools in a run.
    pub tool_calls: u32,
    /// Most requests to a model in a run.
    pub steps: u32,
    /// Most US dollars per run, if bounded.
    pub cost_usd: Option<f64>,
    /// Most runs at once.
    pub running: u32,
    /// Most concurrent runs of one person.
    pub running_person: u32,
}

fn write_duration<S: serde::Serializer>(it: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&format_duration(*it))
}

/// Bounds on concurrent answers of assistants.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ChatCaps {
    /// For all persons together.
    pub running: u32,
    /// For each person.
    pub running_person: u32,
}

impl Default for ChatCaps {
    fn default() -> ChatCaps {
        ChatCaps { running: 16, running_person: 4 }
    }
}

impl Assistant {
    /// Returns how many of its answers may be in progress at once.
    pub(crate) fn caps(&self) -> ChatCaps {
        let (running, running_person) = (self.limits.running, self.limits.running_person);
        ChatCaps { running, running_person }
    }

    /// Returns the time zone of the dates that it is told.
    pub fn time_zone(&self) -> TimeZone {
        zone_of(&self.zone).unwrap_or(TimeZone::UTC)
    }

    /// Returns whether a person of this name may use it at all.
    pub fn admits(&self, person: &str) -> bool {
        self.persons.as_ref().is_none_or(|it| it.iter().any(|name| name == person))
    }

    /// Returns whether a person of this name may use a mode.
    pub fn admits_to(&self, mode: Mode, person: &str) -> bool {
        let is_named = match mode {
            Mode::AnthropicApiKey | Mode::GatewaySubscription => true,
            Mode::ClaudeCode => self.claude_code_persons.iter().any(|name| name == person),
        };
        is_named && self.runtimes.contains_key(&mode)
    }
}

impl Builder<'_> {
    /// Validates the declaration of the assistant; returns it with the kinds of its runs.
    pub(crate) fn assistant(
        &mut self,
        engines: &BTreeMap<String, Engine>,
        site: &Site,
    ) -> (Option<Assistant>, BTreeMap<String, Kind>) {
        let folder = self.folder.to_owned();
        let Some(declared) = self.single_declared("assistant") else { return Default::default() };
        let (checked, at) = (declared.checked(), declared.spot.at());
        let findings = self.findings();
        declared.judge(findings);
        let leads = linkedin::leads(checked);
        let judge = Judge { checked, engines, site, findings };
        let assistant = judge.build(at, &folder);
        let kinds = assistant.runtimes.iter().map(|(mode, engine)| {
            let kind = kind(*mode, engine, &assistant);
            (kind.name.clone(), kind)
        });
        let kinds: BTreeMap<String, Kind> = kinds.collect();
        self.leads.extend(leads);
        (Some(assistant), kinds)
    }
}

pub(super) struct Judge<'a> {
    pub(super) checked: &'a Checked,
    engines: &'a BTreeMap<String, Engine>,
    pub(super) site: &'a Site,
    findings: &'a mut Findings,
}

impl Judge<'_> {
    fn build(mut self, at: Location, folder: &Utf8Path) -> Assistant {
        let runtimes = self.runtimes();
        let mode = self.mode(&runtimes);
        let fallback = self.fallback(&runtimes);
        let names = |lines: &[(String, Spot)]| -> Vec<String> {
            lines.iter().map(|(name, _)| name.clone()).collect()
        };
        let checked = self.checked;
        let persons = checked.has("persons").then(|| names(checked.lines("persons")));
        let claude_code_persons = names(checked.lines("claude_code_persons"));
        self.warn_addresses();
        let (tools, web_hosts, linkedin) = (self.tools(), self.web_hosts(), self.linkedin());
        let (vaults, zone, limits) = (self.vaults(folder), self.zone(), self.limits());
        self.warn_unpriced(&runtimes, &limits);
        if runtimes.contains_key(&Mode::ClaudeCode) && claude_code_persons.is_empty() {
            let message = "nobody may use the mode claude_code of the assistant".to_owned();
            let note = "name them: claude_code_persons = { \"ada\" }; its process can read what \
                        the server's account can read";
            self.warn("assistant-unused", message, checked.spot("runtimes"), note);
        } else if runtimes.contains_key(&Mode::ClaudeCode) {
            let message = "Claude Code runs as the server's account, without a sandbox".to_owned();
            let note = "it is given our tools only; name only people in claude_code_persons whom \
                        you trust with that account";
            self.warn("assistant-unsandboxed", message, checked.spot("runtimes"), note);
        }
        Assistant {
            runtimes,
            mode,
            fallback,
            persons,
            claude_code_persons,
            tools,
            web_hosts,
            linkedin,
            claude_api: checked.flag("claude_api").unwrap_or(false),
            vaults,
            zone,
            limits,
            at,
        }
    }

    pub(super) fn error(&mut self, code: &'static str, message: String, spot: &Spot, note: &str) {
        self.findings.add(Diagnostic::error(code, message).at(spot).note(note));
    }

    pub(super) fn warn(&mut self, code: &'static str, message: String, spot: &Spot, note: &str) {
        self.findings.add(Diagnostic::warning(code, message).at(spot).note(note));
    }

    /// Returns the mode with this name; reports an error if there is none.
    fn parse(&mut self, word: &str, spot: &Spot) -> Option<Mode> {
        let mode = Mode::parse(word);
        if mode.is_none() {
            let message = format!("the assistant has no mode `{}`", word.escape_debug());
            let note = suggestion(word, Mode::ALL.map(Mode::as_str));
            self.error("unknown-word", message, spot, &note);
        }
        mode
    }

    fn zone(&mut self) -> String {
        let (checked, name) = (self.checked, self.checked.text("zone").unwrap_or("local"));
        if zone_of(name).is_none() {
            let message = format!("unknown time zone `{}`", name.escape_debug());
            self.error("bad-zone", message, checked.spot("zone"), &zone_note(name));
        }
        name.to_owned()
    }

    fn runtimes(&mut self) -> BTreeMap<Mode, String> {
        let mut runtimes = BTreeMap::new();
        let checked = self.checked;
        let Some(Given::Texts(given)) = checked.given("runtimes") else { return runtimes };
        for (word, (engine, spot)) in given {
            let Some(mode) = self.parse(word, spot) else { continue };
            let EnvValue::Text(engine) = engine else {
                let message = format!("`{word}` of the assistant is a secret");
                self.error("wrong-type", message, spot, "write the name of an engine");
                continue;
            };
            if self.is_right(mode, engine, spot) {
                runtimes.insert(mode, engine.clone());
            }
        }
        if given.is_empty() {
            let message = "`runtimes` of the assistant is empty".to_owned();
            let note = "write runtimes = { anthropic_api_key = \"NAME OF AN ENGINE\" }";
            self.error("bad-text", message, checked.spot("runtimes"), note);
        }
        runtimes
    }

    fn is_right(&mut self, mode: Mode, name: &str, spot: &Spot) -> bool {
        let Some(engine) = self.engines.get(name) else {
            let message = format!("the assistant names no engine: `{}`", name.escape_debug());
            let note = match self.engines.is_empty() {
                true => format!("declare it: wb.engine \"{}\" {{ … }}", name.escape_debug()),
                false => suggestion(name, self.engines.keys().map(String::as_str)),
            };
            self.error("unknown-engine", message, spot, &note);
            return false;
        };
        let (is_right, note) = match mode {
            Mode::AnthropicApiKey => {
                (engine.model().is_some(), "it needs type = \"anthropic\", model = \"…\" and a key")
            }
            Mode::GatewaySubscription => {
                let note = "it needs type = \"gateway\", provider = \"openai-codex\" and a model";
                (engine.subscribed().is_some(), note)
            }
            Mode::ClaudeCode => {
                let is_right = matches!(
                    &engine.body,
                    EngineBody::Process {
                        prompt: PromptBy::Stdin,
                        reads: Some(Reads::ClaudeStreamJson),
                        ..
                    }
                );
                let note = "it needs type = \"process\", command = { \"claude\" }, prompt = \
                            \"stdin\" and reads = \"claude-stream-json\"; its arguments are added";
                (is_right, note)
            }
        };
        if !is_right {
            let message = format!("engine \"{name}\" does not fit the mode {mode}");
            self.error("broken-rule", message, spot, note);
        }
        is_right
    }

    fn mode(&mut self, runtimes: &BTreeMap<Mode, String>) -> Mode {
        let first = runtimes.keys().next().copied().unwrap_or(Mode::ClaudeCode);
        let Some(word) = self.checked.text("mode") else { return first };
        let spot = self.checked.spot("mode");
        let Some(mode) = self.parse(word, spot) else { return first };
        if !runtimes.contains_key(&mode) && !runtimes.is_empty() {
            let message = format!("`mode` of the assistant is {mode}, which has no engine");
            self.error("broken-rule", message, spot, "name its engine in `runtimes`");
        }
        if mode == Mode::GatewaySubscription && runtimes.len() > 1 {
            let message = "a subscription is not the assistant's usual mode".to_owned();
            let note = "each person chooses it on the page of the assistant, and signs in there";
            self.error("broken-rule", message, spot, note);
        }
        mode
    }

    fn fallback(&mut self, runtimes: &BTreeMap<Mode, String>) -> bool {
        let is_on = self.checked.flag("fallback").unwrap_or(false);
        let needs = [Mode::GatewaySubscription, Mode::AnthropicApiKey];
        if is_on && !needs.iter().all(|it| runtimes.contains_key(it)) {
            let message = "`fallback` of the assistant needs two modes".to_owned();
            let note = "name engines for gateway_subscription and anthropic_api_key in `runtimes`";
            self.error("broken-rule", message, self.checked.spot("fallback"), note);
        }
        is_on
    }

    fn limits(&mut self) -> AssistantLimits {
        let mut limits = AssistantLimits {
            run: Duration::from_secs(45 * 60),
            idle: Duration::from_secs(90),
            prompt_bytes: 64 * 1024,
            output_bytes: 1024 * 1024,
            confirm: Duration::from_secs(30 * 60),
            tool_calls: 40,
            steps: 40,
            cost_usd: None,
            running: 16,
            running_person: 4,
        };
        let Some(Given::Fields(given)) = self.checked.given("limits") else { return limits };
        let second = Duration::from_secs(1);
        if let Some(it) = self.time(given, "run", (second, 12 * 3_600 * second)) {
            limits.run = it;
        }
        if let Some(it) = self.time(given, "idle", (5 * second, 1_800 * second)) {
            limits.idle = it;
        }
        if let Some(it) = self.time(given, "confirm", (10 * second, 24 * 3_600 * second)) {
            limits.confirm = it;
        }
        if let Some(it) = self.count(given, "tool_calls", 500) {
            limits.tool_calls = it;
        }
        if let Some(it) = self.count(given, "steps", 500) {
            limits.steps = it;
        }
        limits.cost_usd = self.money(given);
        let kib = |it: u32| u64::from(it) * 1024;
        if let Some(it) = self.count(given, "prompt_kib", 1_024) {
            limits.prompt_bytes = kib(it);
        }
        if let Some(it) = self.count(given, "output_kib", 8 * 1_024) {
            limits.output_bytes = kib(it);
        }
        if let Some(it) = self.count(given, "running", 200) {
            limits.running = it;
            limits.running_person = limits.running_person.min(it);
        }
        if let Some(it) = self.count(given, "running_person", limits.running) {
            limits.running_person = it;
        }
        limits
    }

    fn time(
        &mut self,
        given: &Checked,
        name: &str,
        (least, most): (Duration, Duration),
    ) -> Option<Duration> {
        let it = given.duration(name)?;
        if (least..=most).contains(&it) {
            return Some(it);
        }
        let (least, most) = (format_duration(least), format_duration(most));
        let message = format!("`{name}` of the assistant must be between {least} and {most}");
        self.error("out-of-range", message, given.spot(name), "");
        None
    }

    fn money(&mut self, given: &Checked) -> Option<f64> {
        let it = given.number("cost_usd")?;
        if it > 0.0 && it <= COST_USD_MAX {
            return Some(it);
        }
        let message = format!("`cost_usd` of the assistant is {it}, not above 0 to {COST_USD_MAX}");
        self.error("out-of-range", message, given.spot("cost_usd"), "");
        None
    }

    /// Warns about a cost limit that cannot apply because no price is set.
    fn warn_unpriced(&mut self, runtimes: &BTreeMap<Mode, String>, limits: &AssistantLimits) {
        let engine = runtimes.get(&Mode::AnthropicApiKey).and_then(|it| self.engines.get(it));
        let is_unpriced = engine.and_then(Engine::model).is_some_and(|it| it.price.is_none());
        if is_unpriced && limits.cost_usd.is_some() {
            let message = "`cost_usd` of the assistant bounds nothing: its engine has no price";
            let note = "add price = { input = …, output = … } to it, in US dollars for a million \
                        tokens";
            self.warn("no-price", message.to_owned(), self.checked.spot("limits"), note);
        }
    }

    fn count(&mut self, given: &Checked, name: &str, most: u32) -> Option<u32> {
        let it = given.count(name)?;
        if it <= most {
            return Some(it);
        }
        let message = format!("`{name}` of the assistant is {it}, above {most}");
        self.error("out-of-range", message, given.spot(name), "");
        None
    }
}

/// Returns the kind of a mode's runs. It is never listed and cannot be requested.
fn kind(mode: Mode, engine: &str, assistant: &Assistant) -> Kind {
    Kind {
        name: mode.kind(),
        about: "An answer of the assistant".to_owned(),
        engine: engine.to_owned(),
        skill: None,
        prompt: Prompt::Template(String::new()),
        inputs: Vec::new(),
        lane: None,
        on_busy: OnBusy::Reject,
        max_running: None,
        priority: 0,
        daily: None,
        produces: None,
        sees_site: false,
        asks: false,
        permission_wait: crate::script::load::kind::PERMISSION_WAIT,
        verify: None,
        retry: None,
        timeout: assistant.limits.run,
        start: None,
        idle: Some(assistant.limits.idle),
        linger: LINGER,
        hooks: Hooks::default(),
        inbox: None,
        agent: None,
        is_kept: false,
        was: None,
        at: assistant.at.clone(),
    }
}
