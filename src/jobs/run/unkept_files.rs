//! Files that an agent obeys regardless of its command: if any exist, it is not started.
//!
//! **Invariant:** the check runs in the agent's working directory, after the last hook.

use std::collections::BTreeSet;
use std::fmt;
use std::io::ErrorKind;

use camino::{Utf8Path, Utf8PathBuf};

use crate::base::fault;
use crate::jobs::rows::sentence::REFUSED;
use crate::jobs::{Generation, Job, Reason};
use crate::process::{self, Launch, Root};
use crate::script::{Agent, Engine, unkept_settings};

/// Largest settings file that is parsed, in bytes.
const SETTINGS_BYTES_MAX: usize = 1024 * 1024;
/// Largest `.git` file of a worktree, in bytes: one line with a path.
const GIT_FILE_BYTES_MAX: u64 = 16 * 1024;
/// Folders of skills, relative to a folder: `init` makes the first a link to the second.
const SKILL_FOLDERS: [&str; 2] = [".claude/skills", "skills"];
/// The folder that makes a skill a plugin of Claude Code, which starts the language servers that it
/// names: no option prevents it but one that also hides the skills (seen with 2.1.197, 2.1.330).
const PLUGIN: &str = ".claude-plugin";
/// Most skills of a folder that are checked.
const SKILLS_MAX: usize = 10_000;

/// A file that an agent would obey regardless of its command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unkept {
    /// Its path from the repository's top.
    pub file: String,
    /// The relevant part; `None` for the whole file.
    pub part: Option<&'static str>,
}

impl fmt::Display for Unkept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part {
            Some(part) => write!(f, "{part} in {}", self.file.escape_debug()),
            None => write!(f, "{}", self.file.escape_debug()),
        }
    }
}

/// Returns the files in a folder that an engine's agent would obey regardless of its command, and
/// that its script does not trust, as paths from the repository's top.
pub fn unkept_files(engine: &Engine, folder: &Utf8Path) -> Vec<Unkept> {
    let Some(agent) = engine.likely_agent() else { return Vec::new() };
    let top = folder.ancestors().find(|it| it.join(".git").symlink_metadata().is_ok());
    let top = top.unwrap_or(folder);
    // Pi only reads its own folder.
    let is_within = |it: &&Utf8Path| it.starts_with(top) && (agent != Agent::Pi || *it == folder);
    // Gemini reads variables from the nearest `.env`, up to the file system's root. The one in the
    // home folder is the owner's; `doctor` warns about it.
    let is_reached = |it: &&Utf8Path| match agent {
        Agent::Gemini => !is_home(it) || it.starts_with(top),
        _ => is_within(it),
    };
    let (own, local) = engine.settings_files();
    let mut found = match own {
        Some(_) => plugins(top, folder.ancestors().filter(is_within)),
        None => Vec::new(),
    };
    for place in folder.ancestors().filter(is_reached) {
        let mut add = |path: &Utf8Path, part| {
            let file = path.strip_prefix(top).unwrap_or(path).to_string();
            found.push(Unkept { file, part });
        };
        let there = agent.unkept_files().iter().map(|it| place.join(it));
        there.filter(|it| it.symlink_metadata().is_ok()).for_each(|it| add(&it, None));
        // Newer versions of Claude Code also read local settings at the top, and no others there.
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

/// Returns the skills that are plugins of Claude Code, each once: also those behind links.
fn plugins<'a>(top: &Utf8Path, places: impl Iterator<Item = &'a Utf8Path>) -> Vec<Unkept> {
    let real_top = top.canonicalize_utf8().unwrap_or_else(|_| top.to_owned());
    let folders = places.flat_map(|place| SKILL_FOLDERS.map(|it| place.join(it)));
    let named = |path: Utf8PathBuf| {
        // A link outwards keeps the name by which the agent finds it.
        let real = path.canonicalize_utf8().ok();
        let below = real.as_ref().and_then(|it| it.strip_prefix(&real_top).ok());
        below.or_else(|| path.strip_prefix(top).ok()).unwrap_or(&path).to_string()
    };
    let files: BTreeSet<String> = folders.flat_map(plugins_in).map(named).collect();
    files.into_iter().map(|file| Unkept { file, part: None }).collect()
}

/// Returns the plugins in a folder of skills; the folder itself if it cannot be searched.
fn plugins_in(skills: Utf8PathBuf) -> Vec<Utf8PathBuf> {
    let listed = match skills.read_dir_utf8() {
        Ok(listed) => listed,
        Err(cause) if matches!(cause.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Vec::new();
        }
        Err(_) => return vec![skills],
    };
    let mut found = Vec::new();
    for (at, entry) in listed.enumerate() {
        let Some(entry) = entry.ok().filter(|_| at < SKILLS_MAX) else { return vec![skills] };
        let plugin = entry.path().join(PLUGIN);
        if plugin.symlink_metadata().is_ok() {
            found.push(plugin);
        }
    }
    found
}

/// Returns the skills of an account that are plugins of Claude Code.
pub fn account_plugins(home: &Utf8Path) -> Vec<String> {
    let found = plugins_in(home.join(SKILL_FOLDERS[0]));
    let named = |it: Utf8PathBuf| it.strip_prefix(home).map(|it| format!("~/{it}")).ok();
    found.into_iter().filter_map(named).collect()
}

/// Returns whether a folder is the home folder.
fn is_home(folder: &Utf8Path) -> bool {
    std::env::var_os("HOME").is_some_and(|it| folder.as_std_path() == it)
}

/// Returns the top of the checkout that a worktree belongs to: newer versions of Claude Code obey
/// its local settings too (seen with 2.1.331).
fn main_checkout(top: &Utf8Path) -> Option<Utf8PathBuf> {
    // A folder in its place is a full checkout, and cannot be read as a file.
    let told = process::read_small(&top.join(".git"), GIT_FILE_BYTES_MAX).ok().flatten()?;
    let folder = std::str::from_utf8(&told).ok()?.strip_prefix("gitdir:")?.trim();
    // `TOP/.git/worktrees/NAME`
    let worktrees = top.join(folder).parent()?.to_owned();
    let git = worktrees.parent().filter(|_| worktrees.file_name() == Some("worktrees"))?;
    git.parent().map(Utf8Path::to_owned)
}

/// Returns the part of a settings file that cannot be disabled, if it exists. An unreadable file
/// might contain anything.
fn unkept_part(place: &Utf8Path, file: &str) -> Option<&'static str> {
    let path = place.join(file);
    path.symlink_metadata().ok()?;
    // Links are not followed: their targets are not files of the repository.
    let read = Root::open(place)
        .and_then(|folder| folder.read_relative(Utf8Path::new(file), SETTINGS_BYTES_MAX));
    match read.map(|(bytes, _)| String::from_utf8(bytes)) {
        Ok(Ok(text)) => unkept_settings(&text),
        _ => Some("what cannot be read"),
    }
}

/// Returns why a job's agent must not be started in its folder, if so.
pub(in crate::jobs) fn refusal(
    generation: &Generation,
    job: &Job,
    launch: &Launch,
) -> Option<(Reason, String)> {
    if fault::is_off("unkept_files") {
        return None;
    }
    let kind = generation.config.kind_of_job(&job.kind)?;
    let engine = generation.config.engines.get(&kind.engine)?;
    let found = unkept_files(&engine.running(&launch.argv), &launch.cwd);
    let first = found.first()?;
    let more = match found.len() {
        1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    let why = format!(
        "{REFUSED}{first}{more}, and no word of its command keeps that out: remove it, or say \
         trusts = {{ \"{}\" }} in engine \"{}\"",
        first.file.escape_debug(),
        engine.name
    );
    Some((Reason::SpawnFailed, why))
}
