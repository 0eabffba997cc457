//! How an agent is run, as the script declares it.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::script::config::output::Reads;
use crate::script::config::secret::EnvValue;
use crate::script::load::anthropic::Anthropic;
use crate::script::load::gateway::Subscribed;
use crate::script::load::live_agent::Speech;
use crate::script::source::location::Location;

/// How an agent is run.
#[derive(Clone, Debug, Serialize)]
pub struct Engine {
    /// The name that kinds use.
    pub name: String,
    /// What is run.
    pub body: EngineBody,
    /// Whether its other jobs wait when its provider takes no more.
    pub is_held_by_limits: bool,
    /// How it is spoken to while it runs, if it lives on.
    pub speech: Option<Speech>,
    /// How it is told which session it begins, and which one it goes on with.
    pub sessions: Sessions,
    /// Arguments that make it ask people before it uses a tool.
    pub asks: Vec<String>,
    /// Files that its agent may obey, which no word of its command keeps out; from the repository's
    /// top, or below the home of its account with `~/` before them.
    pub trusted: Vec<String>,
    /// Where it is declared.
    pub at: Location,
}

impl Engine {
    /// Returns whether it is a part of this program.
    pub fn is_builtin(&self) -> bool {
        matches!(self.body, EngineBody::Builtin(_))
    }

    /// Returns the form of its output, if it is read.
    pub fn reads(&self) -> Option<Reads> {
        match &self.body {
            EngineBody::Process { reads, .. } => *reads,
            EngineBody::Builtin(_) | EngineBody::Anthropic(_) | EngineBody::Gateway(_) => None,
        }
    }

    /// Returns whether this program asks it for the assistant, by HTTP.
    pub fn is_model(&self) -> bool {
        matches!(self.body, EngineBody::Anthropic(_) | EngineBody::Gateway(_))
    }

    /// Returns the model that is asked with a person's own subscription, if it is one.
    pub fn subscribed(&self) -> Option<&Subscribed> {
        match &self.body {
            EngineBody::Gateway(model) => Some(model),
            _ => None,
        }
    }

    /// Returns the model that this program asks itself with a key, if it is one.
    pub fn model(&self) -> Option<&Anthropic> {
        match &self.body {
            EngineBody::Anthropic(model) => Some(model),
            _ => None,
        }
    }
}

/// What stands for the session's name in the arguments of [`Sessions`].
pub const SESSION: &str = "{{session}}";

/// Arguments about sessions, added to the command when they apply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sessions {
    /// For a new session, which gets its name from us; empty where the engine names it.
    pub session: Vec<String>,
    /// For going on with a session; empty for an engine that cannot.
    pub resume: Vec<String>,
}

/// What an engine runs.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineBody {
    /// A program.
    Process {
        /// Program and arguments; never empty.
        command: Vec<String>,
        /// How the program is given its prompt.
        prompt: PromptBy,
        /// Form of the output, if it is read.
        reads: Option<Reads>,
        /// Variables that are set in its environment.
        env: BTreeMap<String, EnvValue>,
    },
    /// A part of this program.
    Builtin(Builtin),
    /// A model that this program asks for the assistant.
    Anthropic(Anthropic),
    /// A model that is asked with a person's own subscription.
    Gateway(Subscribed),
}

impl EngineBody {
    /// Returns the word of its type.
    pub fn word(&self) -> &'static str {
        match self {
            EngineBody::Process { .. } => "process",
            EngineBody::Builtin(_) => "builtin",
            EngineBody::Anthropic(_) => "anthropic",
            EngineBody::Gateway(_) => "gateway",
        }
    }
}

/// How a program is given its prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptBy {
    /// As its standard input.
    Stdin,
    /// As its last argument.
    Argument,
    /// Not at all: it is spoken to while it runs.
    Pipe,
}

/// An engine that is a part of this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Builtin {
    /// Applies the ```` ```suggestion ```` blocks of a Topic.
    Suggestions,
}
