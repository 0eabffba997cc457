//! How an agent is run, as the script declares it.

use std::collections::BTreeMap;

use camino::Utf8Path;
use serde::Serialize;
use serde_json::json;

use crate::base::digest_hex;
use crate::script::config::output::Reads;
use crate::script::config::program::program;
use crate::script::config::secret::EnvValue;
use crate::script::load::anthropic::Anthropic;
use crate::script::load::gateway::Subscribed;
use crate::script::load::live_agent::{Speaks, Speech};
use crate::script::source::location::Location;

/// Characters of a mark.
const MARK_CHARS: usize = 16;

/// How an agent is run.
#[derive(Clone, Debug, Serialize)]
pub struct Engine {
    /// The name that kinds use.
    pub name: String,
    /// The program or built-in part to run.
    pub body: EngineBody,
    /// Whether its other jobs are held while its provider limits the rate.
    pub is_held_by_limits: bool,
    /// The protocol of a long-running engine.
    pub speech: Option<Speech>,
    /// Arguments that start and resume sessions.
    pub sessions: Sessions,
    /// Arguments that make it ask for permission before it uses a tool.
    pub asks: Vec<String>,
    /// Files that its agent may obey although its command does not exclude them; relative to the
    /// repository's root, or to the home of its account with a leading `~/`.
    pub trusted: Vec<String>,
    /// Where it is declared.
    pub at: Location,
}

impl Engine {
    /// Returns whether it is built in.
    pub fn is_builtin(&self) -> bool {
        matches!(self.body, EngineBody::Builtin(_))
    }

    /// Returns what tells it from another engine of the same name, which does not know its
    /// sessions: a short digest of its type, protocol, output and program, seen from the script's
    /// folder. Arguments and the environment may change.
    pub fn mark(&self, folder: &Utf8Path) -> String {
        let speaks = self.speech.as_ref().map(|it| it.speaks);
        let program = match &self.body {
            EngineBody::Process { command, .. } => program(command, folder),
            EngineBody::Builtin(_) | EngineBody::Anthropic(_) | EngineBody::Gateway(_) => {
                String::new()
            }
        };
        let told = json!([self.body.word(), speaks, self.reads(), program]);
        let mut mark = digest_hex(told.to_string().as_bytes());
        mark.truncate(MARK_CHARS);
        mark
    }

    /// Returns the format of its output, if it is parsed.
    pub fn reads(&self) -> Option<Reads> {
        match &self.body {
            EngineBody::Process { reads, .. } => *reads,
            EngineBody::Builtin(_) | EngineBody::Anthropic(_) | EngineBody::Gateway(_) => None,
        }
    }

    /// Returns whether what it reports includes tokens. A built-in part spends none.
    pub fn tells_tokens(&self) -> bool {
        self.tells(Speaks::tells_tokens, Reads::tells_tokens)
    }

    /// Returns whether what it reports includes the cost.
    pub fn tells_cost(&self) -> bool {
        self.tells(Speaks::tells_cost, Reads::tells_cost)
    }

    fn tells(&self, turns: fn(Speaks) -> bool, output: fn(Reads) -> bool) -> bool {
        self.is_builtin()
            || match &self.speech {
                Some(speech) => turns(speech.speaks),
                None => self.reads().is_some_and(output),
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

/// Placeholder of the session's name in the arguments of [`Sessions`].
pub const SESSION: &str = "{{session}}";

/// Arguments about sessions, added to the command when they apply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sessions {
    /// For a new session, which we name; empty where the engine names it.
    pub session: Vec<String>,
    /// For resuming a session; empty for an engine that cannot.
    pub resume: Vec<String>,
}

/// The body of an engine, by type.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineBody {
    /// A program.
    Process {
        /// Program and arguments; never empty.
        command: Vec<String>,
        /// How the program receives its prompt.
        prompt: PromptBy,
        /// Format of the output, if it is parsed.
        reads: Option<Reads>,
        /// Environment variables to set.
        env: BTreeMap<String, EnvValue>,
    },
    /// A built-in engine.
    Builtin(Builtin),
    /// A model API, called for the assistant.
    Anthropic(Anthropic),
    /// A model that is asked with a person's own subscription.
    Gateway(Subscribed),
}

impl EngineBody {
    /// Returns the word for its type.
    pub fn word(&self) -> &'static str {
        match self {
            EngineBody::Process { .. } => "process",
            EngineBody::Builtin(_) => "builtin",
            EngineBody::Anthropic(_) => "anthropic",
            EngineBody::Gateway(_) => "gateway",
        }
    }
}

/// How a program receives its prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptBy {
    /// As its standard input.
    Stdin,
    /// As its last argument.
    Argument,
    /// Not at all: input is sent to it while it runs.
    Pipe,
}

/// A built-in engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Builtin {
    /// Applies the ```` ```suggestion ```` blocks of a Topic.
    Suggestions,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn mark(command: &[&str], folder: &str) -> String {
        let engine = Engine {
            name: "e".to_owned(),
            body: EngineBody::Process {
                command: command.iter().map(|it| (*it).to_owned()).collect(),
                prompt: PromptBy::Stdin,
                reads: None,
                env: BTreeMap::new(),
            },
            is_held_by_limits: true,
            speech: None,
            sessions: Sessions::default(),
            asks: Vec::new(),
            trusted: Vec::new(),
            at: Location { file: Arc::from(Utf8Path::new("wiki-browser.lua")), line: 1, column: 1 },
        };
        engine.mark(Utf8Path::new(folder))
    }

    #[test]
    fn an_engine_is_the_same_where_its_program_is() {
        let here = mark(&["sh", "bin/ask.sh"], "/srv/site");
        assert_eq!(here, mark(&["env", "A=b", "/bin/sh", "-eu", "./bin/ask.sh"], "/srv/site"));
        assert_eq!(here, mark(&["/new/site/bin/ask.sh"], "/new/site"));
        assert_ne!(here, mark(&["sh", "-c", "exec sh bin/other.sh"], "/srv/site"));
        assert_ne!(here, mark(&["timeout", "30", "bin/other.sh"], "/srv/site"));
    }
}
