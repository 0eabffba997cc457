//! A file lock that is released when its holder exits, however that happens.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt};

use camino::Utf8Path;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag};

use crate::base::{Context, Error, ErrorKind, Result};

/// An exclusive lock; the kernel releases it when the holder drops it or dies.
#[derive(Debug)]
pub struct FileLock {
    held: Flock<File>,
}

impl FileLock {
    /// Takes the lock without waiting; `None` if another process holds it. Creates the file (0600).
    ///
    /// # Errors
    /// `unavailable` if the file cannot be created or the file system has no locks.
    pub fn try_take(path: &Utf8Path) -> Result<Option<FileLock>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            // The standard library sets close-on-exec. A fifo in its place must not block us.
            .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits())
            .open(path)
            .context(ErrorKind::Unavailable, || format!("cannot open the lock {path}"))
            .map_err(|cause| {
                let folder = path.parent().unwrap_or(path);
                cause.hint(format!("this user must be able to write there: ls -ld '{folder}'"))
            })?;
        FileLock::on(file, path)
    }

    /// Locks a file that is already open.
    pub(in crate::process) fn on(file: File, path: &Utf8Path) -> Result<Option<FileLock>> {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(held) => Ok(Some(FileLock { held })),
            Err((_, Errno::EWOULDBLOCK)) => Ok(None),
            Err((_, cause)) => Err(Error::unavailable(format!("cannot lock {path}")).source(cause)),
        }
    }

    /// Returns whether the locked file is still the one at `path`: otherwise it excludes nobody.
    pub fn is_at(&self, path: &Utf8Path) -> bool {
        match (self.held.metadata(), std::fs::symlink_metadata(path)) {
            (Ok(held), Ok(there)) => (held.dev(), held.ino()) == (there.dev(), there.ino()),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_has_one_holder() {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(folder.path()).unwrap().join("lock");
        let held = FileLock::try_take(&path).unwrap().unwrap();
        assert!(FileLock::try_take(&path).unwrap().is_none());
        assert!(held.is_at(&path));
        std::fs::remove_file(&path).unwrap();
        assert!(!held.is_at(&path));
        let other = FileLock::try_take(&path).unwrap().unwrap();
        assert!(!held.is_at(&path) && other.is_at(&path));
        drop((held, other));
        assert!(FileLock::try_take(&path).unwrap().is_some());
    }
}
