//! Stamps: a digest of the metadata of everything below some folders, and of the content of some
//! files, to detect changes cheaply.
//!
//! **Invariant:** two equal, settled stamps mean the same names, kinds and modes, and the same
//! content of the files that are read. Writing to another file changes its ctime, which no process
//! can set; a clock that was set back, or a change within the same tick, could go unnoticed, and a
//! stamp that fresh is not settled. So could a write through a mapping into memory, to a page that
//! waits to be written to the disk: it sets no time.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use camino::Utf8Path;
use sha2::{Digest as _, Sha256};

use crate::base::{Clock, Millis};
use crate::process::read_small;

/// Minimum age of the newest change: many ticks of the clock used for timestamps.
const SETTLED_MS: i64 = 100;
/// Largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Most bytes that are read.
const BYTES_MAX: usize = 16 * 1024 * 1024;

/// A stamp taken at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    digest: [u8; 32],
    newest_ms: i64,
}

impl Stamp {
    /// Stamps everything below `folders` except below `except`, following no links; the files for
    /// which `is_read` are read. `None` if there are more than `entries_max` names, too much is to
    /// be read, or something cannot be.
    pub fn take(
        folders: &[&Utf8Path],
        except: &[&Utf8Path],
        entries_max: usize,
        is_read: &dyn Fn(&Utf8Path) -> bool,
    ) -> Option<Stamp> {
        let (hash, bytes_left) = (Sha256::new(), BYTES_MAX);
        let mut walk = Walk { except, is_read, left: entries_max, bytes_left, hash, newest_ms: 0 };
        for folder in folders {
            walk.below(folder.as_std_path())?;
        }
        Some(Stamp { digest: walk.hash.finalize().into(), newest_ms: walk.newest_ms })
    }

    /// Returns whether the newest change is old enough that a later one must show.
    pub fn is_settled(&self, clock: &Clock) -> bool {
        Millis(self.newest_ms).plus(SETTLED_MS) <= clock.now()
    }
}

struct Walk<'a> {
    except: &'a [&'a Utf8Path],
    is_read: &'a dyn Fn(&Utf8Path) -> bool,
    left: usize,
    bytes_left: usize,
    hash: Sha256,
    newest_ms: i64,
}

impl Walk<'_> {
    fn below(&mut self, folder: &Path) -> Option<()> {
        let mut folders: Vec<PathBuf> = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            let entries = std::fs::read_dir(&folder).ok()?;
            let mut paths = Vec::new();
            for entry in entries {
                self.left = self.left.checked_sub(1)?;
                paths.push(entry.ok()?.path());
            }
            // Folders list their names in no particular order.
            paths.sort_unstable();
            for path in paths {
                if self.except.iter().any(|it| it.as_std_path() == path) {
                    continue;
                }
                let meta = path.symlink_metadata().ok()?;
                self.note(&path, &meta);
                if meta.is_file() {
                    self.read(&path)?;
                }
                if meta.is_dir() {
                    folders.push(path);
                }
            }
        }
        Some(())
    }

    /// Adds the content of a file whose content counts.
    fn read(&mut self, path: &Path) -> Option<()> {
        let path = Utf8Path::from_path(path)?;
        if !(self.is_read)(path) {
            return Some(());
        }
        let bytes = read_small(path, FILE_BYTES_MAX).ok()??;
        self.bytes_left = self.bytes_left.checked_sub(bytes.len())?;
        self.hash.update(bytes.len().to_le_bytes());
        self.hash.update(&bytes);
        Some(())
    }

    fn note(&mut self, path: &Path, meta: &std::fs::Metadata) {
        let name = path.as_os_str().as_bytes();
        self.hash.update(name.len().to_le_bytes());
        self.hash.update(name);
        self.hash.update(meta.dev().to_le_bytes());
        self.hash.update(meta.ino().to_le_bytes());
        self.hash.update(meta.mode().to_le_bytes());
        if meta.is_dir() {
            // Its names are visited one by one; its own times also change when a lock file comes
            // and goes.
            return;
        }
        self.hash.update(meta.size().to_le_bytes());
        for time in [meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()] {
            self.hash.update(time.to_le_bytes());
        }
        let changed_ms = meta.ctime().saturating_mul(1_000) + meta.ctime_nsec() / 1_000_000;
        self.newest_ms = self.newest_ms.max(changed_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_shows_and_what_is_left_out_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let top = Utf8Path::from_path(folder.path()).unwrap();
        let aside = top.join("data");
        for name in ["a", "data"] {
            std::fs::create_dir(top.join(name)).unwrap();
        }
        std::fs::write(top.join("a/x"), "one").unwrap();
        std::fs::write(top.join("y"), "two").unwrap();
        let take = || Stamp::take(&[top], &[&aside], 100, &|_| false).unwrap();
        let first = take();
        assert_eq!(take(), first);
        std::fs::write(aside.join("z"), "not looked at").unwrap();
        assert_eq!(take(), first);
        let changes: [(&str, &dyn Fn()); 5] = [
            ("content", &|| std::fs::write(top.join("a/x"), "other").unwrap()),
            ("a name", &|| std::fs::rename(top.join("y"), top.join("w")).unwrap()),
            ("a file", &|| std::fs::write(top.join("new"), "").unwrap()),
            ("a folder", &|| std::fs::create_dir(top.join("b")).unwrap()),
            ("a link in a folder's place", &|| {
                std::fs::rename(top.join("a"), top.join("c")).unwrap();
                std::os::unix::fs::symlink("c", top.join("a")).unwrap();
            }),
        ];
        let mut last = first;
        for (what, change) in changes {
            change();
            let next = take();
            assert_ne!(next.digest, last.digest, "{what}");
            last = next;
        }
    }

    #[test]
    fn a_fresh_change_is_not_settled_and_a_large_tree_has_no_stamp() {
        let folder = tempfile::tempdir().unwrap();
        let top = Utf8Path::from_path(folder.path()).unwrap();
        std::fs::write(top.join("x"), "").unwrap();
        let stamp = Stamp::take(&[top], &[], 1, &|_| false).unwrap();
        let clock = Clock::fixed(Millis(stamp.newest_ms));
        assert!(!stamp.is_settled(&clock));
        clock.advance(SETTLED_MS);
        assert!(stamp.is_settled(&clock));
        std::fs::write(top.join("y"), "").unwrap();
        assert!(Stamp::take(&[top], &[], 1, &|_| false).is_none());
        assert!(Stamp::take(&[&top.join("gone")], &[], 1, &|_| false).is_none());
    }
}
