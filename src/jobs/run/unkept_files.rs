//! Files that an agent obeys whatever its command says: where they are, it is not started.
//!
//! **Invariant:** the look is taken in the folder in which the agent is about to work, after the
//! last hook has run.

use std::fmt;

use camino::{Utf8Path, Utf8PathBuf};

use crate::base::fault;
use crate::jobs::rows::sentence::REFUSED;
use crate::jobs::{Generation, Job};
use crate::process::{self, Root};
use crate::script::{Agent, Engine, unkept_settings};

/// Settings of more bytes are not looked into.
const SETTINGS_BYTES_MAX: usize = 1024 * 1024;
/// Largest `.git` of a worktree: one line with a path.
const GIT_FILE_BYTES_MAX: u64 = 16 * 1024;

/// A file that an agent would obey, whatever its command says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unkept {
    /// The file, from the repository's top.
    pub file: String,
    /// What of it; all of it if nothing is said.
    pub part: Option<&'static str>,
}

impl fmt::Display for Unkept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part {
            Some(part) => write!(f, "{part} in {}", self.file),
            None => f.write_str(&self.file),
        }
    }
}

/// Returns the files that an engine's agent would obey in a folder, whatever its command says, and
/// that its script does not trust; from the repository's top.
pub fn unkept_files(engine: &Engine, folder: &Utf8Path) -> Vec<Unkept> {
    let Some(agent) = engine.agent() else { return Vec::new() };
    let top = folder.ancestors().find(|it| it.join(".git").symlink_metadata().is_ok());
    let top = top.unwrap_or(folder);
    // Pi looks in its own folder alone.
    let is_within = |it: &&Utf8Path| it.starts_with(top) && (agent != Agent::Pi || *it == folder);
    // Gemini takes variables from the nearest `.env`, up to the root. The one of the account is its
    // owner's, of which `doctor` warns.
    let is_reached = |it: &&Utf8Path| match agent {
        Agent::Gemini => !is_home(it) || it.starts_with(top),
        _ => is_within(it),
    };
    let (own, local) = engine.settings_files();
    let mut found = Vec::new();
    for place in folder.ancestors().filter(is_reached) {
        let mut add = |path: &Utf8Path, part| {
            let file = path.strip_prefix(top).unwrap_or(path).to_string();
            found.push(Unkept { file, part });
        };
        let there = agent.unkept_files().iter().map(|it| place.join(it));
        there.filter(|it| it.symlink_metadata().is_ok()).for_each(|it| add(&it, None));
        // Newer versions of Claude Code read local settings at the top, too, and no others there.
        for file in [own.filter(|_| place == folder), local].into_iter().flatten() {
            if let Some(part) = unkept_part(place, file) {
                add(&place.join(file), Some(part));
            }
        }
    }
    if let (Some(local), Some(main)) = (local, main_checkout(top))
        && let Some(part) = unkept_part(&main, local)
    {
        found.push(Unkept { file: local.to_owned(), part: Some(part) });
    }
    found.retain(|it| !engine.trusts(&it.file));
    found
}

/// Returns whether a folder is that of the account.
fn is_home(folder: &Utf8Path) -> bool {
    std::env::var_os("HOME").is_some_and(|it| folder.as_std_path() == it)
}

/// Returns the top of the checkout to which a worktree belongs: newer versions of Claude Code obey
/// the local settings there too (seen with 2.1.331).
fn main_checkout(top: &Utf8Path) -> Option<Utf8PathBuf> {
    // A folder in its place is a checkout by itself, and cannot be read.
    let told = process::read_small(&top.join(".git"), GIT_FILE_BYTES_MAX).ok().flatten()?;
    let folder = std::str::from_utf8(&told).ok()?.strip_prefix("gitdir:")?.trim();
    // `TOP/.git/worktrees/NAME`
    let worktrees = top.join(folder).parent()?.to_owned();
    let git = worktrees.parent().filter(|_| worktrees.file_name() == Some("worktrees"))?;
    git.parent().map(Utf8Path::to_owned)
}

/// Returns what of a settings file nothing keeps out, if it is there. What cannot be looked into
/// might hold anything.
fn unkept_part(place: &Utf8Path, file: &str) -> Option<&'static str> {
    let path = place.join(file);
    path.symlink_metadata().ok()?;
    // Links are not followed: what they lead to is no file of the repository.
    let read = Root::open(place)
        .and_then(|folder| folder.read_relative(Utf8Path::new(file), SETTINGS_BYTES_MAX));
    match read.map(|(bytes, _)| String::from_utf8(bytes)) {
        Ok(Ok(text)) => unkept_settings(&text),
        _ => Some("what cannot be read"),
    }
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
         trusts = {{ \"{}\" }} in engine \"{}\"",
        first.file, engine.name
    ))
}
