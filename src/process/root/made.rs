//! Creates a file where nothing exists, and removes it again as long as it is still ours.
//!
//! **Invariant:** nothing is overwritten, and a file is removed only after its content was
//! compared, byte for byte.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use camino::Utf8Path;
use nix::errno::Errno;
use nix::fcntl::{OFlag, RenameFlags, openat};
use nix::sys::stat::Mode;

use crate::base::fault::crash_point;
use crate::base::{Context, Error, ErrorKind, Result, SourcePath, random_token};
use crate::process::replace::{Spare, unwritable};
use crate::process::root::place::{Place, Standing};
use crate::process::root::{Root, check_plain};

/// The permissions of a new file, same as git's.
const FILE_MODE: u32 = 0o644;

impl Root {
    /// Creates a file and its parent folders in one step; `spare` is its temporary name beside its
    /// place, used by nobody else. Returns `false` if something exists there; nothing is changed
    /// then.
    ///
    /// # Errors
    /// `unavailable` with `disk_full`, `read_only` or `write_failed`; `not_found` or `invalid` if
    /// something other than folders is on the way.
    pub fn create(&self, path: &SourcePath, spare: &str, bytes: &[u8]) -> Result<bool> {
        let (folder, name) = self.parent(path.as_path(), true)?;
        let Some(folder) = folder else { return Ok(false) };
        let place = Place { folder: &folder, name: name.as_ref(), aside: spare, bytes_max: 0 };
        let new = Standing::File { bytes: bytes.to_vec(), mode: FILE_MODE };
        let made = place.write(&new, true).and_then(|()| {
            crash_point("create_spare");
            place.appear()
        });
        if !matches!(made, Ok(true)) {
            self.drop_empty_folders(path.as_path());
        } else if let Err(cause) = nix::unistd::fsync(&folder) {
            // The commit has the text; a power cut could only lose the folder entry.
            tracing::warn!("the folder of {path} is not synced: {cause}");
        }
        made.map_err(|cause| unwritable(path, cause))
    }

    /// Like [`Root::swap`], with the temporary name beside the place, used by nobody else: whoever
    /// knows it finds what a crash left.
    ///
    /// # Errors
    /// Same as [`Root::swap`].
    pub fn swap_aside(
        &self,
        place: (&Path, &str),
        bytes_max: usize,
        is_expected: impl Fn(&Standing) -> bool,
        new: &Standing,
    ) -> Result<bool> {
        let done = self.swap_at(place, bytes_max, is_expected, new)?;
        if done && *new == Standing::Nothing {
            self.drop_folders(place.0);
        }
        Ok(done)
    }

    /// Writes a private file at a plain relative path, replacing anything there; it is not synced.
    ///
    /// # Errors
    /// `unavailable` if the file system refuses; `invalid` for a path that is not plain.
    pub fn put(&self, path: &Utf8Path, bytes: &[u8]) -> Result<()> {
        check_plain(path)?;
        let cannot = || format!("cannot write {path}");
        let (folder, name) = self.parent(path, true)?;
        let folder = folder.ok_or_else(|| Error::unavailable(cannot()))?;
        let aside = random_token(".wb-")?;
        let name: &OsStr = name.as_ref();
        let place = Place { folder: &folder, name, aside: &aside[..24], bytes_max: 0 };
        let new = Standing::File { bytes: bytes.to_vec(), mode: 0o600 };
        let put = place.write(&new, false).and_then(|()| {
            let moved = place.rename(place.aside.as_ref(), name, RenameFlags::empty());
            Ok(moved.inspect_err(|_| place.forget())?)
        });
        put.context(ErrorKind::Unavailable, cannot)
    }

    /// Removes a file that contains exactly these bytes, and the folders left empty. Returns
    /// whether it did; otherwise nothing is changed.
    ///
    /// # Errors
    /// Same as [`Root::create`].
    pub fn remove_same(&self, path: &SourcePath, spare: &str, bytes: &[u8]) -> Result<bool> {
        let (folder, name) = self.parent(path.as_path(), false)?;
        let Some(folder) = folder else { return Ok(false) };
        let place =
            Place { folder: &folder, name: name.as_ref(), aside: spare, bytes_max: bytes.len() };
        let is_same =
            |it: &Standing| matches!(it, Standing::File { bytes: held, .. } if held == bytes);
        match place.vanish(&is_same, None) {
            Ok(is_gone) => {
                if is_gone {
                    self.drop_empty_folders(path.as_path());
                }
                Ok(is_gone)
            }
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(cause) => Err(unwritable(path, cause)),
        }
    }

    /// Settles a spare file left by a crash of [`Root::create`] or [`Root::remove_same`].
    ///
    /// # Errors
    /// Same as [`Root::create`].
    pub fn settle_made(&self, path: &SourcePath, spare: &str, ours: &[u8]) -> Result<Spare> {
        let (folder, name) = match self.parent(path.as_path(), false) {
            Ok((Some(folder), name)) => (folder, name),
            Ok((None, _)) => return Ok(Spare::None),
            // A link or file is now in place of the folder: nothing of ours is behind it.
            Err(cause) if matches!(cause.kind(), ErrorKind::Invalid | ErrorKind::NotFound) => {
                return Ok(Spare::None);
            }
            Err(cause) => return Err(cause),
        };
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = match openat(&folder, spare, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::ENOENT) => return Ok(Spare::None),
            Err(_) => return Ok(Spare::Left),
        };
        let place =
            Place { folder: &folder, name: name.as_ref(), aside: spare, bytes_max: ours.len() };
        let mut held = Vec::new();
        let limit = u64::try_from(ours.len()).unwrap_or(u64::MAX).saturating_add(1);
        let read = file.take(limit).read_to_end(&mut held);
        if read.is_ok() && ours.starts_with(&held) {
            place.forget();
            self.drop_empty_folders(path.as_path());
            return Ok(Spare::Removed);
        }
        // Taken out just before the crash, and not ours: it goes back if its place is free.
        match place.rename(spare.as_ref(), name.as_ref(), RenameFlags::RENAME_NOREPLACE) {
            Ok(()) => Ok(Spare::PutBack),
            Err(_) => Ok(Spare::Left),
        }
    }
}

#[cfg(test)]
mod tests {
    use camino::Utf8PathBuf;

    use super::*;

    fn root() -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from_path_buf(folder.path().canonicalize().unwrap()).unwrap();
        let root = Root::open(&path).unwrap();
        (folder, root)
    }

    #[test]
    fn a_file_is_made_and_taken_away_with_its_folders() {
        let (_folder, root) = root();
        let path: SourcePath = "a/b/c.md".parse().unwrap();
        assert!(root.create(&path, ".wb-x", b"one").unwrap());
        assert!(!root.create(&path, ".wb-x", b"two").unwrap());
        assert_eq!(root.read(&path, 10).unwrap().0, b"one");
        assert!(!root.remove_same(&path, ".wb-x", b"two").unwrap());
        assert_eq!(root.read(&path, 10).unwrap().0, b"one");
        assert!(root.remove_same(&path, ".wb-x", b"one").unwrap());
        assert!(!root.remove_same(&path, ".wb-x", b"one").unwrap());
        assert_eq!(root.path().read_dir_utf8().unwrap().count(), 0);
        std::fs::write(root.path().join("a"), "a file").unwrap();
        assert!(root.create(&path, ".wb-x", b"one").is_err());
        let link: SourcePath = "way/c.md".parse().unwrap();
        std::os::unix::fs::symlink("/tmp", root.path().join("way")).unwrap();
        assert!(root.create(&link, ".wb-x", b"one").is_err());
        assert_eq!(root.settle_made(&link, ".wb-x", b"one").unwrap(), Spare::None);
    }

    #[test]
    fn what_a_crash_left_is_settled() {
        let (_folder, root) = root();
        let path: SourcePath = "c.md".parse().unwrap();
        let settle = || root.settle_made(&path, ".wb-x", b"ours").unwrap();
        assert_eq!(settle(), Spare::None);
        for (held, outcome) in
            [("ou", Spare::Removed), ("", Spare::Removed), ("ours", Spare::Removed)]
        {
            std::fs::write(root.path().join(".wb-x"), held).unwrap();
            assert_eq!(settle(), outcome, "{held}");
        }
        std::fs::write(root.path().join(".wb-x"), "theirs").unwrap();
        assert_eq!(settle(), Spare::PutBack);
        assert_eq!(root.read(&path, 10).unwrap().0, b"theirs");
        std::fs::write(root.path().join(".wb-x"), "other").unwrap();
        assert_eq!(settle(), Spare::Left);
    }
}
