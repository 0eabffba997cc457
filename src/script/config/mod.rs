//! What a script declares, as plain data: one immutable `Config` per generation.
//!
//! **Invariant:** nothing here refers to the script engine; a function is a numbered `Slot`.

pub(in crate::script) mod engine;
mod input_type;
pub(in crate::script) mod json_schema;
pub(in crate::script) mod output;
pub(in crate::script) mod request_fields;
pub(in crate::script) mod secret;

use std::collections::BTreeMap;
use std::net::SocketAddr;
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
    /// Where the site's things are.
    pub site: Site,
    /// Who writes the commits.
    pub identity: Identity,
    /// What may run at once.
    pub limits: Limits,
    /// How many answers of assistants may be written at once.
    pub chat: ChatCaps,
    /// How agents are run, by name.
    pub engines: BTreeMap<String, Engine>,
    /// What agents do, by name.
    pub kinds: BTreeMap<String, Kind>,
    /// Who may talk with the assistant, and what answers.
    pub assistant: Option<Assistant>,
    /// The kinds of the assistant's runs: no list has them, and no request names them.
    pub private: BTreeMap<String, Kind>,
    /// What channels are like.
    pub channels: Channels,
    /// Functions that are told of events, in the order of their declaration.
    pub handlers: Vec<Handler>,
    /// What happens by itself, by name.
    pub schedules: BTreeMap<String, Schedule>,
    /// Who may call from outside, by name.
    pub webhooks: BTreeMap<String, Webhook>,
}

/// Where the site's things are.
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
    /// Absolute path of the agent's client, if it is not the file beside the running binary.
    pub wb_agent: Option<Utf8PathBuf>,
    /// Host names beside loopback under which a proxy publishes the site.
    pub public_hosts: Vec<String>,
    /// Name of the site on its pages; that of its folder if it has none.
    pub name: Option<String>,
}

impl Site {
    /// Returns what the site is called on its pages.
    pub fn title(&self) -> &str {
        let name = self.name.as_deref().or_else(|| self.root.file_name());
        name.unwrap_or("wiki-browser")
    }
}

/// Who writes the commits.
#[derive(Clone, Debug, Serialize)]
pub struct Identity {
    /// Author's name.
    pub author_name: String,
    /// Author's mail address.
    pub author_email: String,
    /// Committer's name, if it is not the author's.
    pub committer_name: Option<String>,
    /// Committer's mail address, if it is not the author's.
    pub committer_email: Option<String>,
}

/// What may run at once.
#[derive(Clone, Debug, Serialize)]
pub struct Limits {
    /// Most agents that run at once; at least one.
    pub jobs: u32,
    /// Most agents that live on at once, beside those.
    pub agents: u32,
    /// Whole budget from the first signal to KILL.
    #[serde(serialize_with = "write_duration")]
    pub grace: Duration,
    /// Capacity of a lane by the name of its input; a lane that is not named has one place.
    pub lanes: BTreeMap<String, u32>,
    /// What all jobs together may spend on a day.
    pub daily: Option<Daily>,
    /// What the jobs of each person may spend on a day.
    pub daily_person: Option<Daily>,
    /// Jobs that handlers may ask for within an hour.
    pub script_jobs: u32,
    /// How far agents in channels go on without a person.
    pub channels: ChannelLimits,
}

/// A sort of job.
#[derive(Clone, Debug, Serialize)]
pub struct Kind {
    /// Its name.
    pub name: String,
    /// What it does, for people.
    pub about: String,
    /// Name of the engine that runs it.
    pub engine: String,
    /// The skill that the prompt names.
    pub skill: Option<Skill>,
    /// What the agent is told.
    pub prompt: Prompt,
    /// What a job of this kind is given; a derived input stands after its origin.
    pub inputs: Vec<Input>,
    /// What must not be worked on twice at once.
    pub lane: Option<Lane>,
    /// What happens to a job whose lane is taken.
    pub on_busy: OnBusy,
    /// Most jobs of this kind that run at once.
    pub max_running: Option<u32>,
    /// Place of its jobs among those that wait, from -100 to 100: higher is earlier.
    pub priority: i64,
    /// What its jobs may spend on a day.
    pub daily: Option<Daily>,
    /// What a job must leave behind to be a success.
    pub produces: Option<Produces>,
    /// Whether its jobs may look at every Source and every Topic.
    pub sees_site: bool,
    /// Whether its agents may ask people for approvals.
    pub asks: bool,
    /// How long an engine that asks before it uses a tool waits for the decision.
    #[serde(serialize_with = "write_duration")]
    pub permission_wait: Duration,
    /// A check of the result beside that of `produces`.
    pub verify: Option<Slot>,
    /// Says whether a job that failed is repeated, and when.
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
    /// What runs before and after its agent, and where.
    pub hooks: Hooks,
    /// What it has more if messages start its jobs.
    pub inbox: Option<Inbox>,
    /// What it has more if its jobs are starts of an agent that lives on.
    pub agent: Option<LiveAgent>,
    /// The name that it had before.
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

    /// Returns what people call it: `kind "answer"`, `inbox "accounts/teardown"`.
    pub fn title(&self) -> String {
        format!("{} \"{}\"", self.word(), self.declared_name())
    }

    /// Returns the input with this name.
    pub fn input(&self, name: &str) -> Option<&Input> {
        self.inputs.iter().find(|input| input.name == name)
    }
}

/// What must not be worked on twice at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    /// The value of the input with this name.
    Input(String),
    /// What a function makes of the inputs.
    Function(Slot),
}

impl Lane {
    /// Returns the name of its input, if it is one.
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

/// What the agent is told.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Prompt {
    /// Text with `{{name}}`; every name in it is known.
    Template(String),
    /// A function of the script.
    Function(Slot),
}

/// A value that a job is given.
#[derive(Clone, Debug, Serialize)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// What it is.
    #[serde(rename = "type")]
    pub ty: InputType,
    /// Name of the input from which it follows.
    pub from: Option<String>,
    /// Whether a job without it is refused.
    pub required: bool,
    /// What it is for, for people.
    pub about: Option<String>,
    /// The words of a choice.
    pub choices: Vec<String>,
    /// Smallest number.
    pub min: Option<f64>,
    /// Largest number.
    pub max: Option<f64>,
    /// The value of a job that gives none, as text.
    pub default: Option<String>,
    /// Whether it may be a Source that does not exist yet.
    pub new: bool,
}

/// What happens to a job whose lane is taken.
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

/// What a job must leave behind to be a success.
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
    /// Topics, or a result that says why there is none.
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

/// A function that is told of an event.
#[derive(Clone, Debug, Serialize)]
pub struct Handler {
    /// The event.
    pub event: EventKind,
    /// The function.
    pub slot: Slot,
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
