//! What a kind has more if its jobs are starts of one agent that lives on.

use std::time::Duration;

use serde::Serialize;

use crate::script::config::{Engine, Kind};
use crate::script::load::extract::Checked;
use crate::script::load::inbox::patterns;
use crate::script::load::node::Declared;
use crate::script::source::diagnostic::{Diagnostic, Findings};

/// Longest name: that of the table that counts agents, with `-NUMBER` behind it.
const NAME_BYTES_MAX: usize = 56;

/// An agent that lives on: its address is `agent:NAME`, and each start of it a job of the kind
/// `@NAME`.
#[derive(Clone, Debug, Serialize)]
pub struct LiveAgent {
    /// Its name.
    pub name: String,
    /// When it is started.
    pub autostart: Autostart,
    /// Whether it is started again when it ends unasked.
    pub restart: bool,
    /// Whether it goes on when the server ends, until the next one takes it over.
    pub is_kept: bool,
    /// Patterns of the addresses that it may send to; `*` stands for any name.
    pub sends: Vec<String>,
    /// Whether it may make channels.
    pub can_create_channel: bool,
    /// Whether it may add members to its channel.
    pub can_add_members: bool,
}

/// When an agent is started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Autostart {
    /// When a person says so.
    #[default]
    Never,
    /// When something comes for it.
    OnMessage,
    /// With the server.
    Always,
}

/// How an engine whose process lives on is spoken to.
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
    /// One JSON object a line, for programs of one's own.
    #[serde(rename = "lines")]
    Lines,
    /// Typed into its terminal; its hooks tell of its turns.
    #[serde(rename = "hooks")]
    Hooks,
}

impl Speaks {
    /// Those of streams, in the order of the schema's words.
    pub const ALL: [Speaks; 4] =
        [Speaks::ClaudeStreamJson, Speaks::CodexAppServer, Speaks::PiRpc, Speaks::Lines];

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

/// How an engine is spoken to while it runs.
#[derive(Clone, Debug, Serialize)]
pub struct Speech {
    /// In which words.
    pub speaks: Speaks,
    /// How long it may take until it shows that what was written has arrived.
    #[serde(skip)]
    pub proof_wait: Duration,
    /// Arguments that bring it what it is and what it may do: `{{system_file}}` is a file with
    /// that.
    pub system: Vec<String>,
    /// How it is typed to, if it lives in a terminal.
    pub typed: Option<Typed>,
}

/// How an engine is typed to that lives in a terminal.
#[derive(Clone, Debug, Serialize)]
pub struct Typed {
    /// Arguments that bring it our hooks: `{{hooks_file}}` is a file of settings with them.
    pub hooks: Vec<String>,
    /// The keys that hand in what was typed, the best first, by the names that tmux has for them.
    pub submit: Vec<String>,
    /// What stands at the beginning of the line in which one types, if that is known.
    pub input: Option<String>,
    /// What stands on its screen while it waits to be spoken to, if that is known.
    pub ready: Option<String>,
    /// What shows that a text has arrived.
    pub proof: Proof,
}

/// What shows that a text has arrived that was typed into a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// A hook names it, and hooks tell of turns.
    #[default]
    Hooks,
    /// Its screen: the text has left the line in which one types. Its turns are seen there, too.
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
    /// Returns whether all that is known of its turns is what its screen shows.
    pub fn is_by_screen(&self) -> bool {
        self.typed.as_ref().is_some_and(|it| it.proof == Proof::Screen)
    }
}

/// What stands for the file with our hooks in [`Typed::hooks`].
pub const HOOKS_FILE: &str = "{{hooks_file}}";

/// What stands for the file with the agent's rules in [`Speech::system`].
pub const SYSTEM_FILE: &str = "{{system_file}}";
/// What stands for the configuration of our tools in [`Engine::asks`], as JSON.
pub const MCP_CONFIG: &str = "{{mcp_config}}";
/// What stands for the path of `wb-agent` in [`Engine::asks`].
pub const WB_AGENT: &str = "{{wb_agent}}";

impl Kind {
    /// Returns whether its jobs may ask people: for approvals, and before a tool is used.
    pub fn may_ask(&self) -> bool {
        self.asks || self.inbox.is_some() || self.agent.is_some()
    }
}

/// The kind of the starts of an agent.
pub fn kind_of_agent(name: &str) -> String {
    format!("@{name}")
}

/// Judges what only an agent has; right only if no finding is an error.
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
        sends: patterns(title, checked, findings),
        can_create_channel: checked.flag("can_create_channel").unwrap_or(false),
        can_add_members: checked.flag("can_add_members").unwrap_or(false),
    }
}
