//! Files that steer agents, in places where the site's agents look: the repository, the folder of
//! the script, the server's account.

use std::collections::BTreeSet;

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};

use crate::jobs;
use crate::script::{Agent, Config, Engine, EngineBody, EnvValue};

/// Most files named in a sentence.
const NAMED_MAX: usize = 8;

/// What an agent would find.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct AgentFiles {
    /// Files in the repository that make it start programs.
    pub starting: Vec<String>,
    /// Files in the repository that it reads as instructions.
    pub instructing: Vec<String>,
    /// Files in the account that make it start programs.
    pub account: Vec<String>,
    /// Files in the repository that it obeys whatever its command says, without permission in the
    /// script. Its jobs are refused.
    pub unkept: Vec<jobs::Unkept>,
    /// The same in the account, whose owner is asked to check them.
    pub unkept_account: Vec<String>,
}

impl AgentFiles {
    /// Searches from the folder of the script up to the repository's top, and in a home.
    pub fn of(
        (engine, agent): (&Engine, Agent),
        config: &Config,
        home: Option<&Utf8Path>,
    ) -> AgentFiles {
        let folders = folders(config);
        // The outermost comes first, as git lists files.
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

    /// Returns the names of all files that make the agent start programs.
    pub fn programs(&self) -> Option<String> {
        let all: Vec<&str> =
            self.starting.iter().chain(&self.account).map(String::as_str).collect();
        named(&all)
    }
}

/// Returns a job's warning about files that make its agent start programs, if there are any.
pub fn warning(engine: &Engine, config: &Config) -> Option<String> {
    let agent = engine.agent().filter(|_| !engine.open_doors().is_empty())?;
    let found = AgentFiles::of((engine, agent), config, None);
    let starting: Vec<&str> = found.starting.iter().map(String::as_str).collect();
    let names = named(&starting)?;
    let title = &engine.name;
    Some(format!("agent_programs: engine \"{title}\" starts what the repository names in {names}"))
}

/// Returns the files and folders by which a script steers its agents, relative to the repository's
/// top: its skills, and paths in commands, hooks and variables of its engines.
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
    // The value of `--option=value` may be a file.
    let values: Vec<&str> = words.iter().filter_map(|it| Some(it.split_once('=')?.1)).collect();
    words.extend(values);
    let is_file = |it: &&&str| it.contains(['/', '.']) && !it.contains(['{', '\n', ' ']);
    let below = |it: &&str| -> Option<String> {
        let path = plain(&config.folder.join(it))?;
        let below = path.strip_prefix(top).ok()?.to_string();
        // Not the whole repository or the whole folder of the script.
        (!below.is_empty() && path != config.folder).then_some(below)
    };
    words.iter().filter(is_file).filter_map(below).collect()
}

/// Returns an absolute path without `.` and `..`; `None` if it leads above the root.
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

/// Agents search from their working folder upwards, up to the repository's top.
fn folders(config: &Config) -> BTreeSet<Utf8PathBuf> {
    let mut found = BTreeSet::from([config.site.root.clone()]);
    for folder in config.folder.ancestors() {
        found.insert(folder.to_owned());
        if folder.join(".git").exists() {
            return found;
        }
    }
    // The script is outside a repository: only its own folder counts.
    BTreeSet::from([config.site.root.clone(), config.folder.clone()])
}

fn is_there(path: &Utf8Path) -> bool {
    path.symlink_metadata().is_ok()
}
