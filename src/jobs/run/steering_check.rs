//! Files that an agent obeys whatever its command says: where they are, it is not started.
//!
//! **Invariant:** the look is taken in the folder in which the agent is about to work, after the
//! last hook has run.

use camino::Utf8Path;

use crate::base::fault;
use crate::jobs::rows::sentence::REFUSED;
use crate::jobs::{Generation, Job};
use crate::script::{Agent, Engine};

/// Returns the files that an engine's agent would obey in a folder, whatever its command says, and
/// that its script does not trust; from the repository's top.
pub fn unkept_files(engine: &Engine, folder: &Utf8Path) -> Vec<String> {
    let Some(agent) = engine.agent() else { return Vec::new() };
    let top = folder.ancestors().find(|it| it.join(".git").symlink_metadata().is_ok());
    let top = top.unwrap_or(folder);
    // Pi looks in its own folder alone.
    let is_within = |it: &&Utf8Path| it.starts_with(top) && (agent != Agent::Pi || *it == folder);
    let mut found = Vec::new();
    for place in folder.ancestors().take_while(is_within) {
        let there = agent.unkept_files().iter().map(|it| place.join(it));
        let there = there.filter(|it| it.symlink_metadata().is_ok());
        found.extend(there.map(|it| it.strip_prefix(top).unwrap_or(&it).to_string()));
    }
    found.retain(|it| !engine.trusts(it));
    found
}

/// Returns why a job's agent must not be started in a folder, if so.
pub(in crate::jobs) fn refusal(
    generation: &Generation,
    job: &Job,
    folder: &Utf8Path,
) -> Option<String> {
    if fault::is_off("unkept_files") {
        return None;
    }
    let kind = generation.config.kind_of_job(&job.kind)?;
    let engine = generation.config.engines.get(&kind.engine)?;
    let found = unkept_files(engine, folder);
    let first = found.first()?;
    let more = match found.len() {
        1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    Some(format!(
        "{REFUSED}{first}{more}, and no word of its command keeps that out: remove it, or say \
         trusts = {{ \"{first}\" }} in engine \"{}\"",
        engine.name
    ))
}
