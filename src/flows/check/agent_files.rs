//! Files by which agents are steered, where an agent of the site finds them: the repository, the
//! folder of the script, the account of the server.

use std::collections::BTreeSet;

use camino::{Utf8Path, Utf8PathBuf};

use crate::script::{Agent, Config, Engine};

/// Most files that a sentence names.
const NAMED_MAX: usize = 8;

/// What an agent finds.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct AgentFiles {
    /// In the repository: they make it start programs.
    pub starting: Vec<String>,
    /// In the repository: it takes them for instructions.
    pub instructing: Vec<String>,
    /// In the account: they make it start programs.
    pub account: Vec<String>,
}

impl AgentFiles {
    /// Looks from the folder of the script up to the repository's top, and in a home.
    pub fn of(agent: Agent, config: &Config, home: Option<&Utf8Path>) -> AgentFiles {
        let folders = folders(config);
        // The outermost comes first: git names files from there.
        let top = folders.first().cloned().unwrap_or_default();
        let in_folders = |names: &[&str]| -> Vec<String> {
            let paths = folders.iter().flat_map(|folder| names.iter().map(|it| folder.join(it)));
            let there = paths.filter(|it| is_there(it));
            there.map(|it| it.strip_prefix(&top).unwrap_or(&it).to_string()).collect()
        };
        let below_home = |home: &Utf8Path| -> Vec<String> {
            let names = agent.account_files().iter();
            names.filter(|it| is_there(&home.join(it))).map(|it| format!("~/{it}")).collect()
        };
        AgentFiles {
            starting: in_folders(agent.starting_files()),
            instructing: in_folders(agent.instructions()),
            account: home.map(below_home).unwrap_or_default(),
        }
    }

    /// Returns the names of all that make the agent start programs.
    pub fn programs(&self) -> Option<String> {
        let all: Vec<&str> =
            self.starting.iter().chain(&self.account).map(String::as_str).collect();
        named(&all)
    }
}

/// Returns what a job says of the files that make its agent start programs, if it would.
pub fn warning(engine: &Engine, config: &Config) -> Option<String> {
    let agent = engine.agent().filter(|_| !engine.open_doors().is_empty())?;
    let found = AgentFiles::of(agent, config, None);
    let starting: Vec<&str> = found.starting.iter().map(String::as_str).collect();
    let names = named(&starting)?;
    let title = &engine.name;
    Some(format!("agent_programs: engine \"{title}\" starts what the repository names in {names}"))
}

fn named(names: &[&str]) -> Option<String> {
    let more = names.len().saturating_sub(NAMED_MAX);
    let first = names[..names.len().min(NAMED_MAX)].join(", ");
    match (names.is_empty(), more) {
        (true, _) => None,
        (_, 0) => Some(first),
        _ => Some(format!("{first} and {more} more")),
    }
}

/// Agents look from their working folder upwards, as far as the repository goes.
fn folders(config: &Config) -> BTreeSet<Utf8PathBuf> {
    let mut found = BTreeSet::from([config.site.root.clone()]);
    for folder in config.folder.ancestors() {
        found.insert(folder.to_owned());
        if folder.join(".git").exists() {
            return found;
        }
    }
    // No repository is around the script: only its own folder counts.
    BTreeSet::from([config.site.root.clone(), config.folder.clone()])
}

fn is_there(path: &Utf8Path) -> bool {
    path.symlink_metadata().is_ok()
}
