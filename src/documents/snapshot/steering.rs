//! Finds further files that steer agents: behind links, and in nested repositories.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use camino::{Utf8Path, Utf8PathBuf};

use crate::base::{Result, is_agent_file};
use crate::documents::git::programs::Setting;
use crate::documents::git::{Repo, blocking};
use crate::documents::snapshot::own_index::Listed;
use crate::documents::snapshot::{HOOKS, Snapshot, Work, name};
use crate::process::{Root, Standing};

/// Marks the facts of a nested repository that contains files that steer agents.
pub(in crate::documents) const STEERS: &str = "steers agents by ";
/// What stands beside words in a line of shell.
const SHELL: &str = "'\"`!;&|()<>{}$=,:";
/// Most files of settings that include one another in a chain.
const INCLUDES_MAX: usize = 10;
/// Most folders named in a line of shell in which its other words are looked for.
const FOLDERS_NAMED_MAX: usize = 20;
/// What programs read by themselves where they start.
const READ_BY: [(&str, &[&str]); 6] = [
    ("make", &["GNUmakefile", "makefile", "Makefile"]),
    ("just", &["justfile", "Justfile", ".justfile"]),
    ("npm", &["package.json"]),
    ("pnpm", &["package.json"]),
    ("yarn", &["package.json"]),
    ("python3", &["__main__.py"]),
];
/// Most names looked at in the folder of hooks.
const HOOKS_MAX: usize = 1_000;
/// Most links followed in a chain.
const HOPS_MAX: usize = 8;
/// Where git's own files are, in names relative to the repository's top.
pub(in crate::documents) const GIT: &str = ".git";
/// What git writes by itself, among its own files; a word of a line of shell may name it.
const WRITTEN_BY_GIT: [&str; 10] = [
    "COMMIT_EDITMSG",
    "FETCH_HEAD",
    "HEAD",
    "ORIG_HEAD",
    "description",
    "index",
    "logs",
    "objects",
    "packed-refs",
    "refs",
];
/// Longest name of a file, and longest path, in bytes.
const NAME_BYTES_MAX: usize = 255;
const PATH_BYTES_MAX: usize = 1_024;
/// Most names searched in a nested repository.
const WITHIN_MAX: usize = 5_000;

impl Repo {
    /// Returns the targets, inside of the repository, of links that steer agents.
    pub(in crate::documents) async fn steering_links(
        &self,
        (before, after): (&Snapshot, &Snapshot),
        named: &[String],
    ) -> Result<Vec<String>> {
        let listed = self.listed().await?;
        let loose = before.paths.iter().chain(&after.paths);
        let loose = loose.filter(|(_, it)| matches!(it.state.work, Work::Link { .. }));
        let mut links: BTreeSet<String> = loose.map(|it| it.0.clone()).collect();
        links.extend(listed.links());
        links.retain(|it| is_agent_file(it) || named.contains(it));
        let top = self.git().folder().to_owned();
        blocking(move || links.iter().flat_map(|it| followed(&top, it)).collect()).await
    }
}

impl Repo {
    /// Returns the files and folders of the repository that git's settings name and that start
    /// programs, or hold further settings: hooks, filters, included files. Those among git's own
    /// files are named `.git/NAME`, also if they are missing: one may be made there.
    pub(in crate::documents) async fn named_by_settings(&self) -> Result<Vec<String>> {
        let settings = self.current_program_settings().await?;
        let top = self.git().folder().to_owned();
        let home = self.git().variable("HOME").map(Utf8PathBuf::from);
        let (own, common) = (self.git_dir().to_owned(), self.common_dir().to_owned());
        blocking(move || {
            let mut found: BTreeSet<PathBuf> = linked(&top, [&common, &own]);
            let places = Places { top, common, home };
            // An included file may include further ones, named from its own folder.
            for _ in 0..INCLUDES_MAX {
                let folders: BTreeSet<PathBuf> =
                    found.iter().filter_map(|it| Some(it.parent()?.to_owned())).collect();
                let count = found.len();
                for setting in &settings {
                    found.extend(named_by(setting, &places, &folders));
                }
                if found.len() == count {
                    break;
                }
            }
            let shown = |it: PathBuf| name::shown(it.as_os_str().as_bytes()).into_owned();
            Ok(found.into_iter().map(shown).collect())
        })
        .await?
    }
}

impl Listed {
    pub(super) fn links(&self) -> impl Iterator<Item = String> {
        let links = self.records().filter(|it| it.starts_with(b"120000 "));
        links.map(|it| name::shown(super::status::path_of(it)).into_owned())
    }
}

/// Where names in git's settings begin.
struct Places {
    top: Utf8PathBuf,
    common: Utf8PathBuf,
    home: Option<Utf8PathBuf>,
}

/// Returns the files that programs read by themselves in the folder where they start.
fn read_by(words: &[&str]) -> Vec<&'static str> {
    let is_called = |program: &str| words.iter().any(|it| it.rsplit('/').next() == Some(program));
    let called = READ_BY.iter().filter(|it| is_called(it.0));
    called.flat_map(|it| it.1.iter().copied()).collect()
}

/// Returns the name of a place among git's own files, as a path below `.git`.
fn own_name(place: &Path, common: &Utf8Path) -> Option<PathBuf> {
    let name = plain(place, common)?;
    let is_sound = |it: Component<'_>| it.as_os_str().len() <= NAME_BYTES_MAX;
    let is_short = name.as_os_str().len() <= PATH_BYTES_MAX && name.components().all(is_sound);
    is_short.then(|| Path::new(GIT).join(name))
}

/// Returns whether git writes a file of its own by itself, in any work.
fn is_work_of_git(own: &Path) -> bool {
    let name = own.strip_prefix(GIT).unwrap_or(own);
    WRITTEN_BY_GIT.iter().any(|it| name.starts_with(it))
}

/// Returns what may be a path in a setting: the value as a whole, or of a line of shell its words
/// besides, with and without what stands beside them.
fn words_of<'v>((key, value): (&str, &'v str), is_path: bool) -> Vec<&'v str> {
    if is_path {
        return vec![value];
    }
    let plain = value.split([' ', '\t', '\n', '\'', '"']);
    let bare = value.split(|it: char| it.is_whitespace() || SHELL.contains(it));
    // A bare word is rather an argument than a file, but in a line of shell.
    let is_shell = key.starts_with("alias.") && value.starts_with('!');
    let all = plain.chain(bare).chain([value]);
    all.filter(|it| is_shell || it.contains(['/', '.'])).collect()
}

/// Returns the files and folders of the repository that a setting names. `folders` are those of
/// the files with settings that are known.
fn named_by(
    (key, value): &Setting,
    places: &Places,
    folders: &BTreeSet<PathBuf>,
) -> BTreeSet<PathBuf> {
    let Places { top, common, home } = places;
    let is_include = key.starts_with("include");
    let may_be_folder = matches!(key.as_str(), "core.hookspath" | "init.templatedir");
    let words = words_of((key, value), may_be_folder || is_include);
    // A line of shell may go into a folder, or search it for programs: the words are looked for
    // there, too.
    let is_folder = |it: &Utf8PathBuf| it.starts_with(top) && it.is_dir();
    let folders_named = words.iter().filter(|it| !it.is_empty() && !may_be_folder && !is_include);
    let inner = folders_named.map(|it| top.join(it)).filter(is_folder).take(FOLDERS_NAMED_MAX);
    let inner: BTreeSet<Utf8PathBuf> = inner.collect();
    let mut found = BTreeSet::new();
    for word in words.iter().copied().chain(read_by(&words)).filter(|it| !it.is_empty()) {
        let mut named = match word.strip_prefix("~/").zip(home.as_ref()) {
            Some((word, home)) => vec![home.join(word)],
            None => vec![top.join(word), common.join(word)],
        };
        named.extend(inner.iter().map(|it| it.join(word)));
        // An included file is named from the folder of the file that includes it.
        if is_include && !word.starts_with('~') {
            let inner = folders.iter().filter_map(|it| Utf8Path::from_path(it));
            named.extend(inner.map(|it| match it.strip_prefix(GIT) {
                Ok(own) => common.join(own).join(word),
                Err(_) => top.join(it).join(word),
            }));
        }
        // Programs start at the top, and a folder may be what an alias works on.
        let from_common = Some(common.join(word)).filter(|_| !is_include && !word.starts_with('/'));
        let is_read = |it: &&Utf8PathBuf| {
            may_be_folder || is_include || (from_common.as_ref() != Some(it) && !it.is_dir())
        };
        let is_kept = |it: &PathBuf| may_be_folder || is_include || !is_work_of_git(it);
        let own = named.iter().filter(is_read);
        let own = own.filter_map(|it| own_name(it.as_std_path(), common));
        found.extend(own.filter(is_kept));
        named.retain(|it| {
            let is_there = it.symlink_metadata().is_ok_and(|it| may_be_folder || !it.is_dir());
            is_there && from_common.as_ref() != Some(it)
        });
        let real: Vec<PathBuf> = named.iter().filter_map(|it| it.canonicalize().ok()).collect();
        let named =
            named.iter().map(|it| it.as_std_path()).chain(real.iter().map(PathBuf::as_path));
        for it in named {
            found.extend(own_name(it, common).filter(is_kept));
            found.extend(plain(it, top).filter(|it| !it.starts_with(GIT)));
        }
    }
    // Hooks that only call those beside their folder, which people write.
    let called = |it: &PathBuf| {
        let above = it.parent().filter(|it| *it != Path::new(GIT));
        above.filter(|_| it.ends_with("_")).map(Path::to_owned)
    };
    let called: Vec<PathBuf> = found.iter().filter(|_| may_be_folder).filter_map(called).collect();
    found.extend(called.into_iter().filter(|it| !it.as_os_str().is_empty()));
    found
}

/// Returns the targets, in the repository, of links among git's own files that steer it.
fn linked(top: &Utf8Path, folders: [&Utf8PathBuf; 2]) -> BTreeSet<PathBuf> {
    let mut links: Vec<PathBuf> = Vec::new();
    for folder in folders {
        let own = ["config", "config.worktree", "info/attributes", "info/exclude"];
        links.extend(own.iter().map(|it| folder.join(it).into_std_path_buf()));
        let hooks = std::fs::read_dir(folder.join(HOOKS)).into_iter().flatten();
        links.extend(hooks.take(HOOKS_MAX).filter_map(|it| Some(it.ok()?.path())));
    }
    let mut found = BTreeSet::new();
    for link in links.iter().filter(|it| it.is_symlink()) {
        let target = link.read_link().ok().zip(link.parent()).map(|(it, at)| at.join(it));
        found.extend(target.and_then(|it| plain(&it, top)));
        found.extend(link.canonicalize().ok().and_then(|it| plain(&it, top)));
    }
    found.retain(|it| !it.starts_with(GIT));
    found
}

/// Returns whether a place is in the working tree, where what links lead to is compared.
pub(super) fn is_followed(top: &Utf8Path, place: &Path) -> bool {
    plain(place, top).is_some_and(|it| !it.starts_with(GIT))
}

/// Returns each path in the repository that a link passes through.
pub(super) fn followed(top: &Utf8Path, link: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut at = name::path(link);
    for _ in 0..HOPS_MAX {
        let Ok(target) = top.as_std_path().join(&at).read_link() else { break };
        let folder = at.parent().unwrap_or(Path::new(""));
        let Some(next) = plain(&top.as_std_path().join(folder).join(target), top) else { break };
        found.push(next.clone());
        at = next;
    }
    // Also resolves folders on the way that are links.
    let real = top.as_std_path().join(name::path(link)).canonicalize();
    found.extend(real.ok().and_then(|it| plain(&it, top)));
    found.iter().map(|it| name::shown(it.as_os_str().as_bytes()).into_owned()).collect()
}

/// Returns a normalized path below the top; `None` for the top itself and anything outside.
fn plain(path: &Path, top: &Utf8Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => plain.pop().then_some(())?,
            other => plain.push(other),
        }
    }
    let below = plain.strip_prefix(top.as_std_path()).ok()?;
    (!below.as_os_str().is_empty()).then(|| below.to_owned())
}

/// Returns the facts of a nested repository, about which git reports nothing: whether it contains
/// files that steer agents, and their contents.
pub(in crate::documents) fn facts_within(repo: &Repo, root: &Root, folder: &str) -> Result<String> {
    let mut folders = vec![folder.trim_end_matches('/').to_owned()];
    let (mut left, mut found) = (WITHIN_MAX, Vec::new());
    while let Some(folder) = folders.pop() {
        // A folder that cannot be listed, or is too large, is skipped: it must not block anything.
        let Ok(names) = root.raw_names(name::path(&folder), left) else { continue };
        left -= names.len();
        for entry in names {
            if entry == b".git" {
                continue;
            }
            let path = format!("{folder}/{}", name::shown(&entry));
            match root.standing(name::path(&path), 0)? {
                Standing::Other { facts } if facts.starts_with("folder") => folders.push(path),
                standing if is_agent_file(&path) => found.push((path, standing)),
                _ => {}
            }
        }
    }
    if found.is_empty() {
        return Ok("folder".to_owned());
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let told = found.iter().map(|(path, it)| format!("{path} {it:?}\n"));
    let digest = repo.hash(told.collect::<String>().as_bytes());
    Ok(format!("folder that {STEERS}{}, {digest}", found[0].0))
}
