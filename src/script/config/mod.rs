//! What a script declares, as plain data: one immutable `Config` per generation.
//!
//! **Invariant:** nothing here refers to the script engine; a function is a numbered `Slot`.

pub(in crate::script) mod engine;
mod example;
mod file_words;
mod input_type;
pub(in crate::script) mod json_schema;
pub(in crate::script) mod output;
mod package;
pub(in crate::script) mod program;
pub(in crate::script) mod request_fields;
mod runners;
pub(in crate::script) mod secret;
pub(in crate::script) mod words_behind;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use camino::Utf8PathBuf;
use serde::{Serialize, Serializer};

pub use input_type::InputType;

use crate::base::EventKind;
use crate::base::limit::format_duration;
use crate::script::load::assistant::{Assistant, ChatCaps};
use crate::script::load::channel::{ChannelLimits, Channels};
use crate::script::load::daily::Daily;
use crate::script::load::inbox::{Hooks, Inbox};
use crate::script::load::live_agent::LiveAgent;
use crate::script::load::schedule::Schedule;
use crate::script::load::webhook::Webhook;
use crate::script::source::location::{Location, ScriptFile, Slot};

pub use crate::script::config::engine::{Builtin, Engine, EngineBody, PromptBy, SESSION, Sessions};

/// One loaded generation of the script.
#[derive(Clone, Debug, Serialize)]
pub struct Config {
    /// SHA-256 over the paths and texts of all loaded files.
    pub digest: String,
    /// The loaded files, the script itself first.
    pub files: Vec<ScriptFile>,
    /// Absolute folder of the script.
    pub folder: Utf8PathBuf,
    /// Absolute path of the script.
    pub script: Utf8PathBuf,
    /// Paths and addresses of the site.
    pub site: Site,
    /// Author and committer of commits.
    pub identity: Identity,
    /// Bounds on what runs and what it may spend.
    pub limits: Limits,
    /// How many answers of assistants may be in progress at once.
    pub chat: ChatCaps,
    /// How agents are run, by name.
    pub engines: BTreeMap<String, Engine>,
    /// Kinds of jobs, by name.
    pub kinds: BTreeMap<String, Kind>,
    /// Settings of the assistant, if there is one.
    pub assistant: Option<Assistant>,
    /// The kinds of the assistant's runs: never listed, and never named by a request.
    pub private: BTreeMap<String, Kind>,
    /// Settings of channels.
    pub channels: Channels,
    /// Event handlers, in the order of their declaration.
    pub handlers: Vec<Handler>,
    /// Schedules by name.
    pub schedules: BTreeMap<String, Schedule>,
    /// Webhooks by name.
    pub webhooks: BTreeMap<String, Webhook>,
}

/// Paths and addresses of the site.
#[derive(Clone, Debug, Serialize)]
pub struct Site {
    /// Absolute folder of the git repository that holds the Sources.
    pub root: Utf8PathBuf,
    /// Absolute folder of the database, the socket and the jobs.
    pub data: Utf8PathBuf,
    /// Loopback address of the HTTP server.
    pub listen: SocketAddr,
    /// Globs of the tracked files that are Sources.
    pub sources: Vec<String>,
    /// Absolute path of the agent's client, if it is not next to the running binary.
    pub wb_agent: Option<Utf8PathBuf>,
    /// Host names, besides loopback, under which a proxy publishes the site.
    pub public_hosts: Vec<String>,
    /// Name of the site on its pages; the name of its folder by default.
    pub name: Option<String>,
}

impl Site {
    /// Returns the title of the site on its pages.
    pub fn title(&self) -> &str {
        let name = self.name.as_deref().or_else(|| self.root.file_name());
        name.unwrap_or("wiki-browser")
    }
}

/// Author and committer of commits.
#[derive(Clone, Debug, Serialize)]
pub struct Identity {
    /// Author's name.
    pub author_name: String,
    /// Author's mail address.
    pub author_email: String,
    /// Committer's name, if different from the author's.
    pub committer_name: Option<String>,
    /// Committer's mail address, if different from the author's.
    pub committer_email: Option<String>,
}

/// Bounds on what runs and what it may spend.
#[derive(Clone, Debug, Serialize)]
pub struct Limits {
    /// Most jobs that run at once; at least one.
    pub jobs: u32,
    /// Most long-running agents at once, in addition to `jobs`.
    pub agents: u32,
    /// Time from the first signal to KILL.
    #[serde(serialize_with = "write_duration")]
    pub grace: Duration,
    /// Capacity of lanes by the name of their input; 1 for any other lane.
    pub lanes: BTreeMap<String, u32>,
    /// What all jobs together may spend per day.
    pub daily: Option<Daily>,
    /// What the jobs of each person may spend per day.
    pub daily_person: Option<Daily>,
    /// Jobs that handlers may request per hour.
    pub script_jobs: u32,
    /// Bounds on agents in channels talking without a person.
    pub channels: ChannelLimits,
}

/// A kind of job.
#[derive(Clone, Debug, Serialize)]
pub struct Kind {
    /// Its name.
    pub name: String,
    /// Its purpose, for people.
    pub about: String,
    /// Name of the engine that runs it.
    pub engine: String,
    /// The skill named in the prompt.
    pub skill: Option<Skill>,
    /// The prompt of its agent.
    pub prompt: Prompt,
    /// Inputs of its jobs; a derived input follows the one that it is derived from.
    pub inputs: Vec<Input>,
    /// Its lane: only one job per lane runs at a time, or as many as the lane's capacity.
    pub lane: Option<Lane>,
    /// What happens to a job whose lane is occupied.
    pub on_busy: OnBusy,
    /// Most jobs of this kind that run at once.
    pub max_running: Option<u32>,
    /// Priority of its jobs in the queue, from -100 to 100: higher starts earlier.
    pub priority: i64,
    /// What its jobs may spend per day.
    pub daily: Option<Daily>,
    /// What a job must produce to succeed.
    pub produces: Option<Produces>,
    /// Whether its jobs may read every Source and every Topic.
    pub sees_site: bool,
    /// Whether its agents may request approvals.
    pub asks: bool,
    /// How long an engine that asks for permission waits for the decision.
    #[serde(serialize_with = "write_duration")]
    pub permission_wait: Duration,
    /// An additional check of the result, after that of `produces`.
    pub verify: Option<Slot>,
    /// Decides whether and when a failed job is retried.
    pub retry: Option<Slot>,
    /// Longest run.
    #[serde(serialize_with = "write_duration")]
    pub timeout: Duration,
    /// Longest wait for the first output.
    #[serde(serialize_with = "write_duration_if_any")]
    pub start: Option<Duration>,
    /// Longest silence.
    #[serde(serialize_with = "write_duration_if_any")]
    pub idle: Option<Duration>,
    /// Longest wait for the exit after the final result.
    #[serde(serialize_with = "write_duration")]
    pub linger: Duration,
    /// Commands before and after its agent, and its workspace.
    pub hooks: Hooks,
    /// Additional settings of an inbox.
    pub inbox: Option<Inbox>,
    /// Additional settings of a long-running agent.
    pub agent: Option<LiveAgent>,
    /// Whether its jobs go on when the server ends, until another one takes them over.
    pub is_kept: bool,
    /// Its previous name.
    pub was: Option<String>,
    /// Where it is declared.
    pub at: Location,
}

impl Kind {
    /// Returns the word by which it is declared: `kind`, `inbox` or `agent`.
    pub fn word(&self) -> &'static str {
        match (&self.inbox, &self.agent) {
            (Some(_), _) => "inbox",
            (_, Some(_)) => "agent",
            _ => "kind",
        }
    }

    /// Returns its title in messages: `kind "answer"`, `inbox "accounts/teardown"`.
    pub fn title(&self) -> String {
        format!("{} \"{}\"", self.word(), self.declared_name())
    }

    /// Returns the input with this name.
    pub fn input(&self, name: &str) -> Option<&Input> {
        self.inputs.iter().find(|input| input.name == name)
    }

    /// Returns the names of the inputs that are Sources.
    pub fn source_names(&self) -> Vec<String> {
        let sources = self.inputs.iter().filter(|it| it.ty == InputType::Source);
        sources.map(|it| it.name.clone()).collect()
    }

    /// Returns the input with the Source that a job works on, among those that are given: the one
    /// whose blob is an input, else `source_path`, else the first by name. The order in which they
    /// are written does not count: it is unknown for a table made elsewhere.
    pub fn source_input(&self, is_given: impl Fn(&Input) -> bool) -> Option<&Input> {
        let has_blob = |source: &Input| {
            let mut blobs = self.inputs.iter().filter(|it| it.ty == InputType::Blob);
            blobs.any(|it| it.from.as_ref() == Some(&source.name))
        };
        let sources = self.inputs.iter().filter(|it| it.ty == InputType::Source && is_given(it));
        sources.min_by_key(|it| (!has_blob(it), it.name != "source_path", it.name.as_str()))
    }
}

/// How the lane of a job is determined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    /// The value of the input with this name.
    Input(String),
    /// The result of a function of the inputs.
    Function(Slot),
}

impl Lane {
    /// Returns the name of its input, unless a function determines it.
    pub fn input(&self) -> Option<&str> {
        if let Lane::Input(name) = self { Some(name) } else { None }
    }
}

/// A skill: a folder with a `SKILL.md`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Skill {
    /// The folder as it is written, relative to the script's folder.
    pub path: Utf8PathBuf,
    /// The folder's last part, which is also `name` in the front matter.
    pub name: String,
}

/// The prompt of an agent.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Prompt {
    /// Text with `{{name}}`; every name in it is known.
    Template(String),
    /// A function of the script.
    Function(Slot),
}

/// An input of a kind.
#[derive(Clone, Debug, Serialize)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub ty: InputType,
    /// Name of the input from which it follows.
    pub from: Option<String>,
    /// Whether it is required.
    pub required: bool,
    /// Its purpose, for people.
    pub about: Option<String>,
    /// The words of a choice.
    pub choices: Vec<String>,
    /// Smallest number.
    pub min: Option<f64>,
    /// Largest number.
    pub max: Option<f64>,
    /// The default value, as text.
    pub default: Option<String>,
    /// Whether it may name a Source that does not exist yet.
    pub new: bool,
}

/// What happens to a job whose lane is occupied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnBusy {
    /// It is refused.
    Reject,
    /// It waits.
    Queue,
}

impl OnBusy {
    /// Returns the word in the script.
    pub fn as_str(self) -> &'static str {
        match self {
            OnBusy::Reject => "reject",
            OnBusy::Queue => "queue",
        }
    }
}

/// What a job must produce to succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Produces {
    /// Another text of a Source, for a person to decide on.
    Proposal,
    /// A Source from the point of view of a persona.
    Perspective,
    /// A message in a Topic.
    Message,
    /// A text.
    Result,
    /// Topics, or a result that says why there are none.
    Topic,
}

impl Produces {
    /// Returns the word in the script.
    pub fn as_str(self) -> &'static str {
        match self {
            Produces::Proposal => "proposal",
            Produces::Perspective => "perspective",
            Produces::Message => "message",
            Produces::Result => "result",
            Produces::Topic => "topic",
        }
    }
}

/// An event handler.
#[derive(Clone, Debug, Serialize)]
pub struct Handler {
    /// The event.
    pub event: EventKind,
    /// The function.
    pub slot: Slot,
    /// Where `wb.on` was called, which no other handler of this event has: a number tells those
    /// apart that one line made.
    #[serde(skip)]
    pub place: Arc<str>,
}

fn write_duration<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&format_duration(*duration))
}

fn write_duration_if_any<S: Serializer>(
    duration: &Option<Duration>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match duration {
        Some(duration) => write_duration(duration, to),
        None => to.serialize_none(),
    }
}
