//! Additional settings of long-running agents.

use std::time::Duration;

use serde::Serialize;

use crate::base::limit::format_duration;
use crate::script::config::{Engine, Kind};
use crate::script::load::extract::Checked;
use crate::script::load::inbox::patterns;
use crate::script::load::node::Declared;
use crate::script::source::diagnostic::{Diagnostic, Findings};

/// Longest name: the table of agents appends `-NUMBER` to it.
const NAME_BYTES_MAX: usize = 56;

/// After which silence an agent is probed, if its declaration does not say.
const PROBE_AFTER: Duration = Duration::from_secs(30 * 60);
/// The shortest: below it, a model that thinks looks like one that is lost.
const PROBE_AFTER_MIN: Duration = Duration::from_secs(60);

/// An agent that lives on: its address is `agent:NAME`, and each start of it a job of the kind
/// `@NAME`.
#[derive(Clone, Debug, Serialize)]
pub struct LiveAgent {
    /// Its name.
    pub name: String,
    /// When it is started.
    pub autostart: Autostart,
    /// Whether it is restarted when it ends unexpectedly.
    pub restart: bool,
    /// Whether it keeps running when the server ends, until the next one takes it over.
    pub is_kept: bool,
    /// After which silence it is checked whether its state still holds.
    #[serde(skip)]
    pub probe_after: Duration,
    /// Patterns of the addresses that it may send to; `*` matches any name.
    pub sends: Vec<String>,
    /// Whether it may create channels.
    pub can_create_channel: bool,
    /// Whether it may add members to its channel.
    pub can_add_members: bool,
}

/// When an agent is started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Autostart {
    /// When a person starts it.
    #[default]
    Never,
    /// When a message arrives for it.
    OnMessage,
    /// With the server.
    Always,
}

/// Protocols of long-running engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Speaks {
    /// `claude --input-format stream-json --output-format stream-json`.
    #[serde(rename = "claude-stream-json")]
    ClaudeStreamJson,
    /// `codex app-server`.
    #[serde(rename = "codex-app-server")]
    CodexAppServer,
    /// `pi --mode rpc`.
    #[serde(rename = "pi-rpc")]
    PiRpc,
    /// One JSON object per line, for custom programs.
    #[serde(rename = "lines")]
    Lines,
    /// Typed into its terminal; its hooks report its turns.
    #[serde(rename = "hooks")]
    Hooks,
}

impl Speaks {
    /// Those of streams, in the order of the schema's words.
    pub const ALL: [Speaks; 4] =
        [Speaks::ClaudeStreamJson, Speaks::CodexAppServer, Speaks::PiRpc, Speaks::Lines];

    /// Returns whether instances of inboxes can be spoken to in it.
    pub fn serves_inboxes(self) -> bool {
        self != Speaks::Hooks
    }

    /// Returns whether a request makes it go on with a session; others need arguments for that.
    pub fn resumes_by_request(self) -> bool {
        self == Speaks::CodexAppServer
    }

    /// Returns whether it reports the tokens of a turn. A program of its own may.
    pub fn tells_tokens(self) -> bool {
        self != Speaks::Hooks
    }

    /// Returns whether it reports the cost of a turn.
    pub fn tells_cost(self) -> bool {
        !matches!(self, Speaks::Hooks | Speaks::CodexAppServer)
    }

    /// Returns the word in the script.
    pub const fn as_str(self) -> &'static str {
        match self {
            Speaks::ClaudeStreamJson => "claude-stream-json",
            Speaks::CodexAppServer => "codex-app-server",
            Speaks::PiRpc => "pi-rpc",
            Speaks::Lines => "lines",
            Speaks::Hooks => "hooks",
        }
    }
}

/// How to communicate with a long-running engine.
#[derive(Clone, Debug, Serialize)]
pub struct Speech {
    /// In which words.
    pub speaks: Speaks,
    /// Longest wait until it confirms that it received its input.
    #[serde(skip)]
    pub proof_wait: Duration,
    /// Arguments that pass its system prompt: `{{system_file}}` is a file that contains it.
    pub system: Vec<String>,
    /// How to type to it, if it runs in a terminal.
    pub typed: Option<Typed>,
}

/// How to type to an engine in a terminal.
#[derive(Clone, Debug, Serialize)]
pub struct Typed {
    /// Arguments that install our hooks: `{{hooks_file}}` is a settings file that contains them.
    pub hooks: Vec<String>,
    /// The keys that submit input, in order of preference, by their tmux names.
    pub submit: Vec<String>,
    /// Prefix of the input line, if known.
    pub input: Option<String>,
    /// Text on its screen while it waits for input, if known.
    pub ready: Option<String>,
    /// What confirms that a text was received.
    pub proof: Proof,
}

/// What confirms that a text typed into a terminal was received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// A hook reports it, and hooks report turns.
    #[default]
    Hooks,
    /// Its screen: the text has left the input line. Its turns are read from the screen, too.
    Screen,
}

impl Proof {
    /// All, in the order of the schema's words.
    pub const ALL: [Proof; 2] = [Proof::Hooks, Proof::Screen];

    /// Returns the word in the script.
    pub const fn as_str(self) -> &'static str {
        match self {
            Proof::Hooks => "hooks",
            Proof::Screen => "screen",
        }
    }
}

impl Speech {
    /// Returns whether its turns are known only from its screen.
    pub fn is_by_screen(&self) -> bool {
        self.typed.as_ref().is_some_and(|it| it.proof == Proof::Screen)
    }
}

/// Placeholder of the file with our hooks in [`Typed::hooks`].
pub const HOOKS_FILE: &str = "{{hooks_file}}";

/// What keeps `codex app-server` from turns that nobody gave: with a goal of its own, it goes on
/// for ever. Versions without that feature ignore the setting.
pub const NO_GOALS: &str = r#""-c", "features.goals=false""#;
/// Placeholder of the file with the agent's rules in [`Speech::system`].
pub const SYSTEM_FILE: &str = "{{system_file}}";
/// Placeholder of the configuration of our tools in [`Engine::asks`], as JSON.
pub const MCP_CONFIG: &str = "{{mcp_config}}";
/// Placeholder of the path of `wb-agent` in [`Engine::asks`].
pub const WB_AGENT: &str = "{{wb_agent}}";

impl Kind {
    /// Returns whether its jobs may ask people for approvals and for permissions.
    pub fn may_ask(&self) -> bool {
        self.asks || self.inbox.is_some() || self.agent.is_some()
    }
}

/// The kind of an agent's starts.
pub fn kind_of_agent(name: &str) -> String {
    format!("@{name}")
}

/// Validates the fields that only an agent has; valid only if no finding is an error.
pub(crate) fn build(
    declared: &Declared,
    checked: &Checked,
    engine: Option<&Engine>,
    findings: &mut Findings,
) -> LiveAgent {
    let title = declared.title();
    if engine.is_some_and(|it| it.speech.is_none()) {
        let message = format!("the engine of {title} does not live on");
        let note =
            "name one of type = \"stream\" or \"terminal\", which is spoken to while it runs";
        findings
            .add(Diagnostic::error("broken-rule", message).at(checked.spot("engine")).note(note));
    }
    let name = declared.name.clone().unwrap_or_default();
    if name.len() > NAME_BYTES_MAX {
        let message = format!("the name of {title} is longer than {NAME_BYTES_MAX} bytes");
        findings.add(Diagnostic::error("bad-name", message).at(&declared.spot).note("shorten it"));
    }
    LiveAgent {
        name,
        autostart: match checked.text("autostart") {
            Some("on_message") => Autostart::OnMessage,
            Some("always") => Autostart::Always,
            _ => Autostart::Never,
        },
        restart: checked.flag("restart").unwrap_or(true),
        is_kept: checked.text("on_server_loss") != Some("kill"),
        probe_after: probe_after(title, checked, findings),
        sends: patterns(title, checked, findings),
        can_create_channel: checked.flag("can_create_channel").unwrap_or(false),
        can_add_members: checked.flag("can_add_members").unwrap_or(false),
    }
}

/// Returns after which silence an agent is probed.
fn probe_after(title: &str, checked: &Checked, findings: &mut Findings) -> Duration {
    let given = checked.duration("probe_after").unwrap_or(PROBE_AFTER);
    if given < PROBE_AFTER_MIN {
        let message = format!(
            "`probe_after` of {title} is {}, but must be at least {}",
            format_duration(given),
            format_duration(PROBE_AFTER_MIN)
        );
        let finding = Diagnostic::error("out-of-range", message);
        findings.add(finding.at(checked.spot("probe_after")).note("raise it"));
    }
    given
}
