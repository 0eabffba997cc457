//! Disks that fail: shims for LD_PRELOAD (`tests/data/shims`), and what a power cut leaves.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::time::UNIX_EPOCH;

use camino::{Utf8Path, Utf8PathBuf};

use crate::support::server::shell;

/// Bytes that a disk writes whole or not at all.
const PAGE_BYTES: usize = 4096;

/// Compiles a shim into a folder; returns the library.
pub(crate) fn shim(name: &str, folder: &Utf8Path) -> Utf8PathBuf {
    let source =
        Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/shims/{name}.c"));
    let library = folder.join(format!("{name}.so"));
    shell(&format!("cc -shared -fPIC -O1 -o '{library}' '{source}' -ldl"));
    library
}

/// A small disk below a folder: a real one where this process may mount it, else one that says that
/// it is full.
pub(crate) struct SmallDisk {
    at: Utf8PathBuf,
    is_mounted: bool,
    fault: Utf8PathBuf,
    library: Utf8PathBuf,
}

impl SmallDisk {
    /// Makes one of some MiB.
    pub(crate) fn mount(at: &Utf8Path, mib: u32) -> SmallDisk {
        fs::create_dir_all(at).unwrap();
        let base = at.parent().unwrap().parent().unwrap();
        let mount = format!("mount -t tmpfs -o size={mib}m,mode=700 wb-test '{at}' 2>/dev/null");
        let is_mounted = shell(&format!("{mount} && echo yes || true")) == "yes";
        SmallDisk {
            at: at.to_owned(),
            is_mounted,
            fault: base.join("fault"),
            library: shim("bad_disk", base),
        }
    }

    /// Returns whether it is a real disk, which programs of the server meet as well.
    pub(crate) fn is_real(&self) -> bool {
        self.is_mounted
    }

    /// Returns the variables with which a server runs on it.
    pub(crate) fn env(&self) -> Vec<(&str, &str)> {
        match self.is_mounted {
            true => Vec::new(),
            false => vec![
                ("LD_PRELOAD", self.library.as_str()),
                ("WB_DISK_ROOT", self.at.as_str()),
                ("WB_DISK_FAULT", self.fault.as_str()),
            ],
        }
    }

    /// Leaves no room.
    pub(crate) fn fill(&self) {
        match self.is_mounted {
            true => {
                drop(shell(&format!("cat /dev/zero > '{}/filler' 2>/dev/null || true", self.at)))
            }
            false => fs::write(&self.fault, "ENOSPC 0").unwrap(),
        }
    }

    /// Leaves room for some bytes only.
    pub(crate) fn fill_but(&self, bytes: u64) {
        if !self.is_mounted {
            return fs::write(&self.fault, format!("ROOM {bytes}")).unwrap();
        }
        let free = shell(&format!("df --output=avail -B1 '{}' | tail -1", self.at));
        let taken = free.trim().parse::<u64>().unwrap().saturating_sub(bytes);
        shell(&format!("head -c {taken} /dev/zero > '{}/filler'", self.at));
    }

    /// Makes room again.
    pub(crate) fn free(&self) {
        let file = if self.is_mounted { self.at.join("filler") } else { self.fault.clone() };
        fs::remove_file(file).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if self.is_mounted {
            shell(&format!("umount -l '{}'", self.at));
        }
    }
}

/// What of unsynced writes a power cut leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Nothing.
    Strict,
    /// Any pages of files, as it happens; of folders nothing.
    Torn,
}

/// A folder whose disk forgets what was not synced.
pub(crate) struct ForgetfulDisk {
    root: Utf8PathBuf,
    kept: Utf8PathBuf,
    library: Utf8PathBuf,
    round: u32,
}

impl ForgetfulDisk {
    /// Everything that is below `root` now is taken for synced. `aside` is a folder on the same
    /// file system, and not below it.
    pub(crate) fn new(root: &Utf8Path, aside: &Utf8Path) -> ForgetfulDisk {
        let mut disk = ForgetfulDisk {
            root: root.to_owned(),
            kept: aside.join("kept"),
            library: shim("power_cut", aside),
            round: 0,
        };
        disk.sync_all();
        disk
    }

    /// Takes everything that is there now for synced.
    pub(crate) fn sync_all(&mut self) {
        let _ = fs::remove_dir_all(&self.kept);
        fs::create_dir_all(&self.kept).unwrap();
        self.keep(&self.root);
    }

    /// Returns the variables with which a program runs on this disk.
    pub(crate) fn env(&self) -> [(&'static str, &str); 3] {
        [
            ("LD_PRELOAD", self.library.as_str()),
            ("WB_DISK_ROOT", self.root.as_str()),
            ("WB_DISK_KEPT", self.kept.as_str()),
        ]
    }

    /// Returns a folder for the PATH with a git that runs on this disk, whatever its caller does
    /// with the environment.
    pub(crate) fn git(&self) -> Utf8PathBuf {
        let folder = self.kept.with_file_name("bin");
        fs::create_dir_all(&folder).unwrap();
        let env: Vec<String> =
            self.env().iter().map(|(name, value)| format!("{name}='{value}'")).collect();
        let text = format!("#!/bin/sh\n{} exec /usr/bin/git \"$@\"\n", env.join(" "));
        let file = folder.join("git");
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        folder
    }

    /// Cuts the power: the folder is now what the disk kept. Nothing may run in it any more.
    pub(crate) fn cut(&mut self, how: Cut) {
        self.round += 1;
        let lost = Utf8PathBuf::from(format!("{}.lost-{}", self.root, self.round));
        let root = id(&self.root);
        fs::rename(&self.root, &lost).unwrap();
        let mut present = BTreeMap::new();
        paths(&lost, &mut present);
        self.restore(&root, &self.root.clone(), how, &present);
        self.sync_all();
    }

    fn keep(&self, folder: &Utf8Path) {
        let mut entries = String::new();
        for entry in folder.read_dir_utf8().unwrap().flatten() {
            let path = entry.path();
            let facts = fs::symlink_metadata(path).unwrap();
            let (kind, mut target) = (facts.file_type(), String::new());
            let kind = if kind.is_dir() {
                self.keep(path);
                'd'
            } else if kind.is_file() {
                fs::copy(path, self.kept.join(id(path))).unwrap();
                'f'
            } else if kind.is_symlink() {
                target = path.read_link_utf8().unwrap().into_string();
                'l'
            } else {
                'o'
            };
            let (id, mode, name) = (id(path), facts.mode() & 0o7777, entry.file_name());
            writeln!(entries, "{kind}\t{id}\t{mode:o}\t{name}\t{target}").unwrap();
        }
        fs::write(self.kept.join(id(folder)), entries).unwrap();
    }

    fn restore(
        &self,
        folder_id: &str,
        to: &Utf8Path,
        how: Cut,
        present: &BTreeMap<String, Utf8PathBuf>,
    ) {
        fs::create_dir(to).unwrap();
        // A folder that was never synced is empty, even if its own entry was.
        let entries = fs::read_to_string(self.kept.join(folder_id)).unwrap_or_default();
        for line in entries.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            let [kind, id, mode, name, target] = fields[..] else { panic!("{line}") };
            let path = to.join(name);
            match kind {
                "d" => self.restore(id, &path, how, present),
                "l" => std::os::unix::fs::symlink(target, &path).unwrap(),
                "f" => {
                    let kept = fs::read(self.kept.join(id)).unwrap_or_default();
                    let now = present.get(id).map(|it| fs::read(it).unwrap());
                    let bytes = match (how, now) {
                        (Cut::Torn, Some(now)) => torn(&kept, &now),
                        _ => kept,
                    };
                    fs::write(&path, bytes).unwrap();
                }
                _ => continue,
            }
            if kind != "l" {
                let mode = u32::from_str_radix(mode, 8).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            }
        }
    }
}

/// Returns the name of an inode as the shim gives it.
fn id(path: &Utf8Path) -> String {
    let facts = fs::symlink_metadata(path).unwrap();
    let born = facts.created().unwrap().duration_since(UNIX_EPOCH).unwrap();
    format!("{}-{}-{}", facts.ino(), born.as_secs(), born.subsec_nanos())
}

fn paths(folder: &Utf8Path, found: &mut BTreeMap<String, Utf8PathBuf>) {
    for entry in folder.read_dir_utf8().unwrap().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            paths(entry.path(), found);
        } else if kind.is_file() {
            found.insert(id(entry.path()), entry.path().to_owned());
        }
    }
}

/// Any mixture of two states of a file.
fn torn(kept: &[u8], now: &[u8]) -> Vec<u8> {
    let mut coins = [0; 1];
    let mut coin = || {
        getrandom::fill(&mut coins).unwrap();
        coins[0] & 1 == 1
    };
    let length = if coin() { kept.len() } else { now.len() };
    let mut bytes = vec![0; length];
    for (at, page) in bytes.chunks_mut(PAGE_BYTES).enumerate() {
        let from = if coin() { kept } else { now };
        let start = (at * PAGE_BYTES).min(from.len());
        let end = (start + page.len()).min(from.len());
        page[..end - start].copy_from_slice(&from[start..end]);
    }
    bytes
}
