//! The search for FIFOs, sockets and devices at names that git opens. Nothing is opened.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::{FileType, Metadata};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use camino::{Utf8Path, Utf8PathBuf};

use crate::documents::git::GIT_FILE_BYTES_MAX;
use crate::documents::snapshot::{GIT, name};
use crate::process::read_small;

/// The folders of git's own in which it opens whatever it finds; the one with most files last.
const FOLDERS: &[&str] = &[
    "branches",
    "info",
    "logs",
    "rebase-apply",
    "rebase-merge",
    "refs",
    "reftable",
    "remotes",
    "sequencer",
    "worktrees",
    "objects",
];
/// The same in a repository within the working tree, whose checked-out commit git asks for.
const NESTED: &[&str] = &["refs", "reftable"];
/// What git reads whatever it is asked, and the index.
const TO_OPEN: [&str; 5] = ["HEAD", "commondir", "config", "config.worktree", "index"];
/// What git reads in any folder of the working tree.
const IN_TREE: &[&str] = &[".gitattributes", ".gitignore", ".gitmodules", ".mailmap"];
/// What git reads at the top of the folder of such a repository, beside names in capital letters.
const TO_OPEN_NESTED: &[&str] = &["commondir", "config", "index", "packed-refs", "shallow"];
/// The socket of git's own monitor, which it never opens as a file.
const MONITOR: &str = "fsmonitor--daemon.ipc";
/// Most entries looked at, nearest to the top first. Beyond, git's time limit is all there is.
const ENTRIES_MAX: usize = 1_000_000;
/// Most entries looked at behind one link, or wherever a repository within the tree leads.
const BEYOND_MAX: usize = 10_000;

/// A FIFO, socket or device at a name that git opens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::documents) struct Special {
    /// `.git/NAME`, or relative to the top of the working tree; elsewhere the whole path.
    pub(in crate::documents) name: String,
    /// The folder that the name begins at, and the name from there.
    pub(in crate::documents) within: (Utf8PathBuf, String),
    /// How this name leads to it.
    pub(in crate::documents) way: Way,
    pub(super) what: &'static str,
}

/// How a name leads to a FIFO, a socket or a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::documents) enum Way {
    /// It is one.
    Direct,
    /// A link in git's own folder, to one or to a folder with one.
    Link,
    /// The `.git` of a repository within the working tree to a folder elsewhere with one, or a link
    /// in it.
    Repository,
    /// A setting, of this name.
    Setting,
}

/// A search for them.
pub(super) struct Search {
    top: Utf8PathBuf,
    /// Git's folder, and the one shared by all worktrees.
    folders: [Utf8PathBuf; 2],
    data: Option<Utf8PathBuf>,
    left: usize,
    found: Vec<Special>,
    /// What led out of the folder that is searched: it is reported, not what is there.
    via: Option<(PathBuf, Way)>,
    /// Files that settings name.
    pub(super) named: Vec<(&'static str, Utf8PathBuf)>,
}

impl Search {
    pub(super) fn new(top: &Utf8Path, folders: [Utf8PathBuf; 2]) -> Search {
        let (top, left, found) = (top.to_owned(), ENTRIES_MAX, Vec::new());
        Search { top, folders, data: None, left, found, via: None, named: Vec::new() }
    }

    /// Leaves out a folder where git looks at nothing.
    pub(super) fn past(self, data: Option<Utf8PathBuf>) -> Search {
        Search { data, ..self }
    }

    pub(super) fn all(self) -> Vec<Special> {
        self.by(|it| {
            it.folders();
            it.left = ENTRIES_MAX;
            it.tree();
        })
    }

    pub(super) fn by(mut self, how: impl FnOnce(&mut Search)) -> Vec<Special> {
        how(&mut self);
        self.found.sort_unstable();
        self.found.dedup_by(|next, it| next.name == it.name);
        self.found
    }

    /// Judges what git reads whatever it is asked, and the index.
    pub(super) fn opened_first(self) -> Vec<Special> {
        let folders = self.folders.clone();
        self.by(|search| {
            for place in folders.iter().flat_map(|it| TO_OPEN.map(|name| it.join(name))) {
                if let Ok(found) = place.symlink_metadata() {
                    search.judge(place.as_std_path(), found.file_type());
                }
            }
        })
    }

    pub(super) fn folders(&mut self) {
        let [own, common] = self.folders.clone();
        self.git_folder(common.as_std_path(), FOLDERS, |_| true);
        if own != common {
            self.git_folder(own.as_std_path(), FOLDERS, |_| true);
        }
    }

    /// Searches a folder of git: files at its top with such names, and all in the folders `below`.
    fn git_folder(&mut self, folder: &Path, below: &[&str], is_opened: fn(&OsStr) -> bool) {
        for (path, kind) in self.entries(folder) {
            if is_opened(path.file_name().unwrap_or_default()) {
                self.judge(&path, kind);
            }
        }
        for name in below {
            let top = folder.join(name);
            match top.symlink_metadata() {
                Ok(found) if found.is_symlink() => self.behind(top, name),
                _ => self.deep(top, name),
            }
        }
    }

    /// Searches a folder of git and what is below it.
    fn deep(&mut self, folder: PathBuf, name: &str) {
        let mut folders = VecDeque::from([folder]);
        while let Some(folder) = folders.pop_front() {
            for (path, kind) in self.entries(&folder) {
                if kind.is_dir() {
                    folders.push_back(path);
                } else if kind.is_symlink() && path.is_dir() {
                    self.behind(path, name);
                } else if name != "worktrees" || !is_index(&path) {
                    self.judge(&path, kind);
                }
            }
        }
    }

    /// Searches what is behind a link to a folder, but no further link there.
    fn behind(&mut self, link: PathBuf, name: &str) {
        if self.via.is_none() {
            let folder = link.clone();
            self.beyond((link, Way::Link), |it| it.deep(folder, name));
        }
    }

    /// Searches somewhere else, which may be large, and reports what leads there.
    fn beyond(&mut self, via: (PathBuf, Way), how: impl FnOnce(&mut Search)) {
        let left = self.left.min(BEYOND_MAX);
        let rest = self.left - left;
        (self.left, self.via) = (left, Some(via));
        how(self);
        (self.left, self.via) = (self.left + rest, None);
    }

    pub(super) fn tree(&mut self) {
        for (setting, path) in std::mem::take(&mut self.named) {
            let kind = path.metadata().ok().filter(|it| !is_null(it)).map(|it| it.file_type());
            if let Some(what) = kind.and_then(word) {
                let (name, what) = (setting.to_owned(), seen_by(what, Way::Setting));
                let within = (Utf8PathBuf::from("/"), path.into_string());
                self.found.push(Special { name, within, way: Way::Setting, what });
            }
        }
        let top = self.top.as_std_path().to_owned();
        let mut folders = VecDeque::from([top.clone()]);
        while let Some(folder) = folders.pop_front() {
            for (path, kind) in self.entries(&folder) {
                let own = path.file_name().unwrap_or_default();
                if own == GIT {
                    if folder != top {
                        self.nested(&folder, &path, kind);
                    }
                } else if kind.is_dir() {
                    let is_data = self.data.as_ref().is_some_and(|it| path == it.as_std_path());
                    folders.extend(Some(path).filter(|_| !is_data));
                } else if IN_TREE.iter().any(|it| own == *it) && !kind.is_symlink() {
                    // Git follows no link there.
                    self.judge(&path, kind);
                }
            }
        }
    }

    /// Looks into a repository within the working tree, which may be elsewhere.
    fn nested(&mut self, folder: &Path, place: &Path, kind: FileType) {
        let is_opened = |name: &OsStr| {
            let is_capital = |byte: &u8| byte.is_ascii_uppercase() || *byte == b'_';
            TO_OPEN_NESTED.iter().any(|it| name == *it) || name.as_bytes().iter().all(is_capital)
        };
        if kind.is_dir() {
            self.git_folder(place, NESTED, is_opened);
            return self.common(place, place, is_opened);
        }
        let utf8 = Utf8Path::from_path(folder).zip(Utf8Path::from_path(place));
        let named = utf8.filter(|_| kind.is_file()).and_then(|(folder, file)| led_by(folder, file));
        let led = named.map(|it| it.1.into_std_path_buf());
        let Some(led) = led.or_else(|| kind.is_symlink().then(|| place.to_owned())) else {
            return self.judge(place, kind);
        };
        let via = (place.to_owned(), Way::Repository);
        self.beyond(via, |it| it.git_folder(&led, NESTED, is_opened));
        self.common(place, &led, is_opened);
    }

    /// Looks into the folder that a repository within the working tree shares with others.
    fn common(&mut self, place: &Path, folder: &Path, is_opened: fn(&OsStr) -> bool) {
        let file = Utf8Path::from_path(folder).map(|it| it.join("commondir"));
        let Some(told) = file.and_then(|it| small(&it)) else { return };
        let (via, common) = ((place.to_owned(), Way::Repository), folder.join(told.trim_end()));
        self.beyond(via, |it| it.git_folder(&common, NESTED, is_opened));
    }

    /// Returns what is in a folder; nothing if it cannot be listed, as for git.
    fn entries(&mut self, folder: &Path) -> Vec<(PathBuf, FileType)> {
        let listed = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let listed = listed.filter_map(|it| Some((it.path(), it.file_type().ok()?)));
        let found: Vec<_> = listed.take(self.left).collect();
        self.left -= found.len();
        found
    }

    fn judge(&mut self, path: &Path, kind: FileType) {
        let is_link = kind.is_symlink();
        let behind = if is_link { path.metadata().ok().filter(|it| !is_null(it)) } else { None };
        let kind = if is_link { behind.map(|it| it.file_type()) } else { Some(kind) };
        let Some(what) = kind.and_then(word) else { return };
        if path.file_name() == Some(OsStr::new(MONITOR)) {
            return;
        }
        let itself = if is_link { Way::Link } else { Way::Direct };
        let (path, way, what) = match &self.via {
            None => (path, itself, what),
            Some((via, way)) => (via.as_path(), *way, seen_by(what, *way)),
        };
        let [own, common] = &self.folders;
        let below = |root: &Utf8Path| {
            let rest = path.strip_prefix(root).ok()?;
            Some((root.to_owned(), name::shown(rest.as_os_str().as_bytes()).into_owned()))
        };
        let whole = || name::shown(path.as_os_str().as_bytes()).into_owned();
        let (shown, within, is_ours) = match below(common).or_else(|| below(own)) {
            Some(within) => (format!("{GIT}/{}", within.1), within, true),
            None => match below(&self.top) {
                Some(within) => (within.1.clone(), within, false),
                None => (whole(), (Utf8PathBuf::from("/"), whole()), false),
            },
        };
        // A link in a repository within the tree may be its owner's.
        let way = if way == Way::Link && !is_ours { Way::Repository } else { way };
        self.found.push(Special { name: shown, within, way, what });
    }
}

/// Returns what a file in the place of git's folder names.
pub(super) fn led_by(folder: &Utf8Path, file: &Utf8Path) -> Option<(String, Utf8PathBuf)> {
    let text = small(file)?;
    let told = text.strip_prefix("gitdir:")?.trim();
    Some((told.to_owned(), folder.join(told)))
}

/// Returns the text of a small file in which git keeps a path.
fn small(file: &Utf8Path) -> Option<String> {
    let bytes = u64::try_from(GIT_FILE_BYTES_MAX).unwrap_or(u64::MAX);
    String::from_utf8(read_small(file, bytes).ok()??).ok()
}

/// Returns whether it is an index, or a part of one. That of another worktree is not opened by git;
/// what is staged there is read from a copy.
fn is_index(path: &Path) -> bool {
    let name = path.file_name().map(|it| it.to_string_lossy()).unwrap_or_default();
    name == "index" || name.starts_with("sharedindex.")
}

/// Returns what is said of a FIFO, a socket or a device.
fn word(kind: FileType) -> Option<&'static str> {
    match kind {
        _ if kind.is_fifo() => Some("is a FIFO"),
        _ if kind.is_socket() => Some("is a socket"),
        _ if kind.is_char_device() || kind.is_block_device() => Some("is a device"),
        _ => None,
    }
}

/// Returns what is said of a name that leads to one.
fn seen_by(what: &str, way: Way) -> &'static str {
    match (way, what) {
        (Way::Setting, "is a FIFO") => "names a FIFO",
        (Way::Setting, "is a socket") => "names a socket",
        (Way::Setting, _) => "names a device",
        (_, "is a FIFO") => "leads to a FIFO",
        (_, "is a socket") => "leads to a socket",
        _ => "leads to a device",
    }
}

/// Returns whether it is `/dev/null`, which people link to for a file that is to be empty.
fn is_null(found: &Metadata) -> bool {
    let null = Path::new("/dev/null").metadata();
    found.file_type().is_char_device() && null.is_ok_and(|it| it.rdev() == found.rdev())
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    fn found(top: &Utf8Path) -> Vec<String> {
        let git = top.join(GIT);
        let search = Search::new(top, [git.clone(), git]).past(Some(top.join("data")));
        search.all().into_iter().map(|it| it.name).collect()
    }

    #[test]
    fn what_git_would_wait_at_is_found_wherever_it_opens_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let top = Utf8Path::from_path(folder.path()).unwrap();
        let socket = |name: &str| {
            let place = top.join(name);
            std::fs::create_dir_all(place.parent().unwrap()).unwrap();
            UnixListener::bind(place).unwrap();
        };
        // What is left alone: other names, the monitor, `/dev/null`, the data folder.
        let _monitor = {
            std::fs::create_dir(top.join(GIT)).unwrap();
            UnixListener::bind(top.join(".git/fsmonitor--daemon.ipc")).unwrap()
        };
        socket("docs/pipe.md");
        socket(".git/annex/ssh/socket");
        socket("data/worktrees/one/.gitignore");
        socket(".git/worktrees/one/index");
        symlink("/dev/null", top.join(".git/description")).unwrap();
        symlink("../gone", top.join(".git/COMMIT_EDITMSG")).unwrap();
        symlink("pipe.md", top.join("docs/.gitignore")).unwrap();
        assert_eq!(found(top), [""; 0]);
        let names = [
            ".git/commondir",
            ".git/info/exclude",
            ".git/logs/refs/heads/deep/main",
            ".git/objects/ab/cd",
            ".git/packed-refs",
            ".git/worktrees/one/config.worktree",
            ".gitattributes",
            "deep/er/.mailmap",
            "docs/.gitattributes",
            "nested/.git/HEAD",
        ];
        names.iter().for_each(|it| socket(it));
        symlink(top.join("docs/pipe.md"), top.join(".git/info/sparse-checkout")).unwrap();
        // Of what is elsewhere, only the way there is reported.
        socket("run/server.sock");
        socket("run/HEAD");
        for folder in ["sub", "other", ".git/refs/heads"] {
            std::fs::create_dir_all(top.join(folder)).unwrap();
        }
        std::fs::write(top.join("sub/.git"), "gitdir: ../run\n").unwrap();
        symlink("../run", top.join("other/.git")).unwrap();
        std::fs::create_dir_all(top.join("shared/.git")).unwrap();
        std::fs::write(top.join("shared/.git/commondir"), "../../run\n").unwrap();
        symlink("../run", top.join(".git/rebase-merge")).unwrap();
        symlink("../../../run", top.join(".git/refs/heads/there")).unwrap();
        let _socket = UnixListener::bind(top.join(".git/logs/HEAD")).unwrap();
        let mut expected: Vec<&str> = names.to_vec();
        expected.extend([".git/info/sparse-checkout", ".git/logs/HEAD", ".git/rebase-merge"]);
        expected.extend([".git/refs/heads/there", "other/.git", "shared/.git", "sub/.git"]);
        expected.sort_unstable();
        assert_eq!(found(top), expected);
    }
}
