//! Declared agents whose name another agent has: the successor of one that handed over.

use rusqlite::Connection;

use crate::base::Result;
use crate::mail::agent;
use crate::script::{Config, Diagnostic};

/// The code of the error about one.
const CODE: &str = "agent-name";

/// A declared agent that never runs, because another one has its name.
#[derive(Clone, Debug)]
pub(in crate::flows) struct Taken {
    /// The name.
    pub(in crate::flows) name: String,
    /// The declaration of the agent that has it.
    of: String,
}

impl Taken {
    /// Says who has the name.
    pub(in crate::flows) fn what(&self) -> String {
        let Taken { name, of } = self;
        format!("agent \"{name}\" never runs: agent:{name} is a successor of {of}")
    }

    /// Returns the error about it.
    pub(in crate::flows) fn error(&self) -> Diagnostic {
        Diagnostic::error(CODE, self.what()).note(ADVICE)
    }

    /// Says it in one line, with what to do.
    pub(in crate::flows) fn sentence(&self) -> String {
        format!("{}; {ADVICE}", self.what())
    }
}

const ADVICE: &str = "declare it under another name, and reload";

/// Returns the agents that a script declares under a name that a successor has.
///
/// # Errors
/// As any read.
pub(in crate::flows) fn taken(c: &Connection, config: &Config) -> Result<Vec<Taken>> {
    let mut taken = Vec::new();
    for declared in config.kinds.values().filter_map(|it| it.agent.as_ref()) {
        let name = declared.name.clone();
        let found = agent::find(c, &name)?.filter(|it| it.declared != name);
        taken.extend(found.map(|it| Taken { name, of: it.declared }));
    }
    Ok(taken)
}
