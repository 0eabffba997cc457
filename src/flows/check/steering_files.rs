//! Files by which agents are steered, where an agent of the site finds them: the repository, the
//! folder of the script, the account of the server.

use std::collections::BTreeSet;

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};

use crate::jobs;
use crate::script::{Agent, Config, Engine, EngineBody, EnvValue};

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
    /// In the repository: it obeys them whatever its command says, and its script does not say that
    /// it may. Its jobs are not started.
    pub unkept: Vec<jobs::Unkept>,
    /// In the account: the same. Whoever set up the account is asked to look.
    pub unkept_account: Vec<String>,
}

impl AgentFiles {
    /// Looks from the folder of the script up to the repository's top, and in a home.
    pub fn of(
        (engine, agent): (&Engine, Agent),
        config: &Config,
        home: Option<&Utf8Path>,
    ) -> AgentFiles {
        let folders = folders(config);
        // The outermost comes first: git names files from there.
        let top = folders.first().cloned().unwrap_or_default();
        let in_folders = |names: &[&str]| -> Vec<String> {
            let paths = folders.iter().flat_map(|folder| names.iter().map(|it| folder.join(it)));
            let there = paths.filter(|it| is_there(it));
            there.map(|it| it.strip_prefix(&top).unwrap_or(&it).to_string()).collect()
        };
        let below_home = |names: &[&str]| -> Vec<String> {
            let Some(home) = home else { return Vec::new() };
            let there = names.iter().filter(|it| is_there(&home.join(it)));
            there.map(|it| format!("~/{it}")).collect()
        };
        let mut unkept_account = below_home(agent.unkept_account_files());
        if let Some(home) = home.filter(|_| engine.reads_settings("user")) {
            unkept_account.extend(jobs::account_plugins(home));
        }
        unkept_account.retain(|it| !engine.trusts(it));
        AgentFiles {
            starting: in_folders(agent.starting_files()),
            instructing: in_folders(agent.instructions()),
            account: below_home(agent.account_files()),
            unkept: jobs::unkept_files(engine, &config.folder),
            unkept_account,
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
    let found = AgentFiles::of((engine, agent), config, None);
    let starting: Vec<&str> = found.starting.iter().map(String::as_str).collect();
    let names = named(&starting)?;
    let title = &engine.name;
    Some(format!("agent_programs: engine \"{title}\" starts what the repository names in {names}"))
}

/// Returns the files and folders by which a script steers its agents, from the repository's top:
/// its skills, and what commands, hooks and variables of its engines may mean.
pub fn named_by_script(config: &Config, top: &Utf8Path) -> Vec<String> {
    let mut words: BTreeSet<&str> = BTreeSet::new();
    for engine in config.engines.values() {
        let EngineBody::Process { command, env, .. } = &engine.body else { continue };
        words.extend(command.iter().map(String::as_str));
        words.extend(env.values().filter_map(|it| match it {
            EnvValue::Text(text) => Some(text.as_str()),
            EnvValue::Secret(_) => None,
        }));
    }
    for kind in config.kinds.values() {
        let hooks = [&kind.hooks.prepare, &kind.hooks.start, &kind.hooks.cleanup];
        words.extend(hooks.into_iter().flatten().flatten().map(String::as_str));
        words.extend(kind.skill.iter().map(|it| it.path.as_str()));
    }
    // Of `--option=value` the value may be a file.
    let values: Vec<&str> = words.iter().filter_map(|it| Some(it.split_once('=')?.1)).collect();
    words.extend(values);
    let is_file = |it: &&&str| it.contains(['/', '.']) && !it.contains(['{', '\n', ' ']);
    let below = |it: &&str| -> Option<String> {
        let path = plain(&config.folder.join(it))?;
        let below = path.strip_prefix(top).ok()?.to_string();
        // Not the whole repository, nor the whole folder of the script.
        (!below.is_empty() && path != config.folder).then_some(below)
    };
    words.iter().filter(is_file).filter_map(below).collect()
}

/// Returns an absolute path without `.` and `..`; nothing if it leads nowhere.
fn plain(path: &Utf8Path) -> Option<Utf8PathBuf> {
    let mut plain = Utf8PathBuf::new();
    for part in path.components() {
        match part {
            Utf8Component::CurDir => {}
            Utf8Component::ParentDir => plain.pop().then_some(())?,
            other => plain.push(other),
        }
    }
    Some(plain)
}

/// Returns the first of some names.
pub fn named(names: &[&str]) -> Option<String> {
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
