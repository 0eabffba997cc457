//! What a script names outside of itself, as `check`, a start, a reload and the doctor look at it:
//! secrets, the folder of the repository, globs, the agents' client. Nothing is started.
//!
//! **Invariant:** no value of a secret is kept, shown or written.

use std::fs;

use camino::{Utf8Path, Utf8PathBuf};

use crate::documents;
use crate::flows::check::Purpose;
use crate::script::{Diagnostic, Lead, Loaded, Secret, Target};

/// Most files and folders searched for what a glob could mean.
const LOOKED_AT_MAX: usize = 20_000;

/// A missing secret.
pub struct Missing<'l> {
    /// The position in the script.
    pub lead: &'l Lead,
    /// What is missing, and what needs it.
    pub says: String,
    /// What to type.
    pub advice: String,
}

/// Returns problems outside the script, for a purpose. `env` is the environment of this process.
pub fn check(loaded: &Loaded, env: &[(String, String)], purpose: Purpose) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut add = |lead: &Lead, finding: Diagnostic| {
        let file = loaded.config.files.iter().find(|it| it.path == *lead.at.file);
        let line = file.and_then(|it| it.text.lines().nth(lead.at.line.saturating_sub(1) as usize));
        found.push(lead.place(finding, line));
    };
    for it in missing_secrets(loaded, env) {
        add(it.lead, Diagnostic::warning("secret-missing", it.says).note(it.advice));
    }
    for lead in &loaded.leads {
        if let Some(finding) = place(&lead.to, purpose) {
            add(lead, finding);
        }
    }
    if purpose == Purpose::Check
        && let Some(paths) = below(&loaded.config.site.root, &loaded.config.site.data)
    {
        for (lead, glob) in unmatched(loaded, &paths) {
            let message = format!("`{glob}` in `sources` matches no file below the root");
            add(lead, Diagnostic::warning("unused-glob", message).note(meant(glob, &paths)));
        }
    }
    found
}

/// Returns the secrets of used engines and of webhooks, with what each is needed for.
pub fn named_secrets(loaded: &Loaded) -> Vec<(&Lead, &Secret, String)> {
    let is_used = |name: &str| loaded.config.uses(name);
    let mut named = Vec::new();
    for lead in &loaded.leads {
        match &lead.to {
            Target::OfEngine(name, secret) if is_used(name) => {
                named.push((lead, secret, format!("engine \"{name}\" has no secret")));
            }
            Target::OfWebhook(name, secret) => {
                named.push((lead, secret, format!("webhook \"{name}\" takes no call")));
            }
            Target::OfLinkedin(secret) => {
                named.push((lead, secret, "nobody can connect LinkedIn".to_owned()));
            }
            _ => {}
        }
    }
    named
}

/// Returns the missing ones.
pub fn missing_secrets<'l>(loaded: &'l Loaded, env: &[(String, String)]) -> Vec<Missing<'l>> {
    let folder = &loaded.config.folder;
    let missing = |(lead, secret, lacks): (&'l Lead, &Secret, String)| {
        let cause = secret.read(folder, env).err()?;
        let (why, advice) = match secret {
            Secret::Env(name) => (
                format!("the variable {name} is not set here"),
                format!("before wiki-browser serve, type: read -rs {name} && export {name}"),
            ),
            Secret::File(path) => (
                cause.message().to_owned(),
                format!(
                    "type: install -m 600 /dev/stdin '{}', then the secret, then Ctrl-D",
                    folder.join(path)
                ),
            ),
        };
        Some(Missing { lead, says: format!("{lacks}: {why}"), advice })
    };
    named_secrets(loaded).into_iter().filter_map(missing).collect()
}

/// Returns the globs of the script that match none of these paths.
pub fn unmatched<'l>(loaded: &'l Loaded, paths: &[Utf8PathBuf]) -> Vec<(&'l Lead, &'l str)> {
    let of_sources = |lead: &'l Lead| match &lead.to {
        Target::Sources(glob) => Some((lead, glob.as_str())),
        _ => None,
    };
    let globs = loaded.leads.iter().filter_map(of_sources);
    globs.filter(|(_, glob)| !documents::matches_any(glob, paths)).collect()
}

/// Suggests a glob that matches these paths: `*.md` matches only the top.
pub fn meant(glob: &str, paths: &[Utf8PathBuf]) -> String {
    if let Some(excluded) = glob.strip_prefix('!') {
        return format!("it excludes nothing: remove it, or fix `{excluded}`");
    }
    let deeper = format!("**/{glob}");
    match documents::matches_any(&deeper, paths) {
        true => format!("did you mean \"{deeper}\"?"),
        false => "commit what it should match, or fix it".to_owned(),
    }
}

/// Returns the problem of a folder named in the script.
fn place(to: &Target, purpose: Purpose) -> Option<Diagnostic> {
    match to {
        Target::Root(path) if !path.is_dir() => {
            let what = if path.exists() { "is no folder" } else { "is not there" };
            let note = format!("name the folder of a git repository, or type: git init '{path}'");
            let message = format!("`root` of site {what}: {path}");
            Some(Diagnostic::error("missing-root", message).note(note))
        }
        // At startup, git reports problems more precisely.
        Target::Root(path) if purpose == Purpose::Check && documents::work_tree(path).is_none() => {
            let message = format!("`root` of site is in no working tree of git: {path}");
            let note = format!("name a folder of one, or type: git init '{path}'");
            Some(Diagnostic::error("no-repository", message).note(note))
        }
        Target::WbAgent(path) if !path.is_file() => {
            let message = format!("`wb_agent` of site is not there: {path}");
            let note = "serve refuses it: leave it out if wb-agent is next to wiki-browser";
            Some(Diagnostic::warning("wb-agent-missing", message).note(note))
        }
        Target::Folder(field, path) if !path.is_dir() => {
            let what = if path.exists() { "is no folder" } else { "is not there" };
            let message = format!("`{field}` {what}: {path}");
            let note = match *field {
                "repo" => "name the folder of a git repository".to_owned(),
                _ => format!("its jobs fail until it is there: fix it, or type: mkdir -p '{path}'"),
            };
            Some(Diagnostic::warning("missing-folder", message).note(note))
        }
        _ => None,
    }
}

/// Returns the visible files below a folder; `None` if there are too many to say that something is
/// missing.
fn below(root: &Utf8Path, data: &Utf8Path) -> Option<Vec<Utf8PathBuf>> {
    let (mut found, mut waiting) = (Vec::new(), vec![root.to_owned()]);
    let mut looked_at = 0;
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder).ok()? {
            looked_at += 1;
            if looked_at > LOOKED_AT_MAX {
                return None;
            }
            let entry = entry.ok()?;
            // A name that is not UTF-8 cannot be a Source.
            let Ok(path) = Utf8PathBuf::from_path_buf(entry.path()) else { continue };
            let is_folder = entry.file_type().ok()?.is_dir();
            if is_folder && path != data && path.file_name() != Some(".git") {
                waiting.push(path);
            } else if !is_folder {
                found.extend(path.strip_prefix(root).map(Utf8Path::to_owned));
            }
        }
    }
    Some(found)
}

/// Returns the environment variables that are UTF-8.
pub fn environment() -> Vec<(String, String)> {
    let text = |it: std::ffi::OsString| it.into_string().ok();
    std::env::vars_os().filter_map(|(name, value)| Some((text(name)?, text(value)?))).collect()
}
