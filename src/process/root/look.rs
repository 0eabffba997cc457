//! Metadata of entries below a root.
//!
//! **Invariant:** nothing is opened for reading or followed: a link is reported as a link.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use camino::Utf8Path;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::base::{Context, Error, ErrorKind, Result};
use crate::process::root::{FILE_GONE, Root, check_plain, how, refusal};

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A device, socket or pipe.
    Other,
}

/// An entry below a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its kind.
    pub kind: EntryKind,
    /// Its size in bytes.
    pub bytes: u64,
    /// Number of hard links.
    pub links: u64,
    /// Modification time, in milliseconds since 1970.
    pub modified_ms: i64,
}

impl Root {
    /// Returns the entry at a plain relative path; `None` if there is none, or if a link is on the
    /// way.
    ///
    /// # Errors
    /// `invalid` for a path that is not plain; `unavailable` if the file system fails.
    pub fn entry(&self, path: &Utf8Path) -> Result<Option<Entry>> {
        check_plain(path)?;
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let found = match nix::fcntl::openat2(self.folder.as_fd(), path.as_std_path(), how(flags)) {
            Ok(found) => found,
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => return Ok(None),
            Err(cause) => return Err(refusal(path, FILE_GONE, cause)),
        };
        let meta = File::from(found).metadata();
        let meta = meta.context(ErrorKind::Unavailable, || format!("cannot read {path}"))?;
        let kind = match meta.file_type() {
            it if it.is_symlink() => EntryKind::Link,
            it if it.is_dir() => EntryKind::Folder,
            it if it.is_file() => EntryKind::File,
            _ => EntryKind::Other,
        };
        let seconds = meta.mtime().saturating_mul(1_000);
        let modified_ms = seconds.saturating_add(meta.mtime_nsec() / 1_000_000);
        Ok(Some(Entry { kind, bytes: meta.len(), links: meta.nlink(), modified_ms }))
    }

    /// Returns whether a folder exists whose contents this account cannot reach.
    pub fn is_closed(&self, folder: &Path) -> bool {
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let within = folder.join("x");
        let found = nix::fcntl::openat2(self.folder.as_fd(), &within, how(flags));
        found.err() == Some(Errno::EACCES)
    }

    /// Renames an entry to another plain relative path, creating missing folders. Returns `false`
    /// if something exists there.
    ///
    /// # Errors
    /// Same as [`Root::entry`]; `not_found` with code `file_gone`.
    pub fn rename(&self, from: &Utf8Path, to: &Utf8Path) -> Result<bool> {
        check_plain(from)?;
        check_plain(to)?;
        if self.parent(from, false)?.0.is_none() {
            let message = format!("{from} is not there");
            return Err(Error::not_found(message).code(FILE_GONE));
        }
        self.parent(to, true)?;
        self.move_to(from.as_std_path(), self, to.as_std_path())
    }

    /// Removes an entry that is not a folder; links are not followed.
    ///
    /// # Errors
    /// Same as [`Root::entry`].
    pub fn remove(&self, path: &Utf8Path) -> Result<()> {
        check_plain(path)?;
        let (Some(parent), name) = self.parent(path, false)? else { return Ok(()) };
        match unlinkat(&parent, name, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(cause) => Err(Error::unavailable(format!("cannot remove {path}")).source(cause)),
        }
    }

    /// Removes an empty folder. Returns whether it did; a non-empty one stays.
    ///
    /// # Errors
    /// Same as [`Root::entry`].
    pub fn remove_folder(&self, path: &Utf8Path) -> Result<bool> {
        check_plain(path)?;
        let (Some(parent), name) = self.parent(path, false)? else { return Ok(false) };
        match unlinkat(&parent, name, UnlinkatFlags::RemoveDir) {
            Ok(()) => Ok(true),
            Err(Errno::ENOTEMPTY | Errno::EEXIST | Errno::ENOENT | Errno::ENOTDIR) => Ok(false),
            Err(cause) => Err(Error::unavailable(format!("cannot remove {path}")).source(cause)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_moved_onto_something() {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(folder.path()).unwrap();
        std::fs::write(path.join("a"), "a").unwrap();
        std::fs::write(path.join("b"), "b").unwrap();
        std::os::unix::fs::symlink("a", path.join("l")).unwrap();
        let root = Root::open(path).unwrap();
        assert!(!root.rename("a".into(), "b".into()).unwrap());
        assert!(root.rename("a".into(), "deep/er/a".into()).unwrap());
        assert_eq!(root.entry("deep/er/a".into()).unwrap().unwrap().kind, EntryKind::File);
        assert_eq!(root.entry("a".into()).unwrap(), None);
        assert_eq!(root.entry("l".into()).unwrap().unwrap().kind, EntryKind::Link);
        assert_eq!(root.entry("l/x".into()).unwrap(), None);
        assert_eq!(root.rename("a".into(), "c".into()).unwrap_err().code_str(), "file_gone");
        assert!(!root.remove_folder("deep".into()).unwrap());
        assert!(root.rename("../x".into(), "c".into()).is_err());
    }
}
