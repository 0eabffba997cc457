//! A temporary folder that is removed with its owner, however that ends.
//!
//! **Invariant:** only folders of this user whose owner is gone are cleaned up: an owner holds the
//! lock in its folder, and the kernel releases it when the owner dies.

use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};

use crate::base::{Error, Result};
use crate::process::lock::FileLock;
use crate::process::replace::private_folder;

/// The lock file.
const LOCK: &str = "owner.lock";
/// Most names searched for abandoned folders.
const NAMES_MAX: usize = 10_000;
/// Minimum age of a folder without a lock: a new one gets its lock within moments.
const UNLOCKED_AGE: Duration = Duration::from_secs(3_600);
/// Attempts to create a folder, in case one is mistaken for an abandoned one.
const TRIES: usize = 3;

/// A locked temporary folder, removed when dropped.
#[derive(Debug)]
pub struct Scratch {
    folder: Utf8PathBuf,
    _lock: FileLock,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // If it cannot be removed now, the next owner tries again.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Scratch {
    /// Creates a private folder in the system's temporary folder, and removes those with the same
    /// prefix whose owners were killed.
    ///
    /// # Errors
    /// `unavailable` if it cannot be created.
    pub fn open(prefix: &str) -> Result<Scratch> {
        let place = std::env::temp_dir();
        let place = Utf8Path::from_path(&place).ok_or_else(|| {
            Error::unavailable("the path of the temporary folder is no text").hint("set `TMPDIR`")
        })?;
        Scratch::open_in(place, prefix)
    }

    fn open_in(place: &Utf8Path, prefix: &str) -> Result<Scratch> {
        sweep(place, prefix);
        for _ in 0..TRIES {
            let folder = private_folder(place, prefix)?;
            let lock = FileLock::try_take(&folder.join(LOCK));
            // A concurrent sweep may hold the lock or have removed the folder.
            if let Ok(Some(lock)) = lock
                && folder.join(LOCK).exists()
            {
                return Ok(Scratch { folder, _lock: lock });
            }
        }
        Err(Error::unavailable(format!("cannot keep a temporary folder in {place}"))
            .hint("check `TMPDIR`, its free space and its permissions"))
    }

    /// Returns the folder.
    pub fn path(&self) -> &Utf8Path {
        &self.folder
    }
}

/// Removes the folders whose owners are gone. What cannot be examined is left alone.
fn sweep(place: &Utf8Path, prefix: &str) {
    let Ok(entries) = place.read_dir_utf8() else { return };
    let own = nix::unistd::geteuid().as_raw();
    for entry in entries.take(NAMES_MAX).flatten() {
        let folder = entry.path();
        if !entry.file_name().starts_with(prefix) {
            continue;
        }
        let Ok(about) = folder.symlink_metadata() else { continue };
        if !about.is_dir() || about.uid() != own {
            continue;
        }
        let has_lock = folder.join(LOCK).symlink_metadata().is_ok();
        let is_new =
            about.modified().is_ok_and(|it| it.elapsed().is_ok_and(|age| age < UNLOCKED_AGE));
        if !has_lock && is_new {
            continue;
        }
        if let Ok(Some(_held)) = FileLock::try_take(&folder.join(LOCK))
            && let Err(cause) = std::fs::remove_dir_all(folder)
        {
            tracing::debug!("{folder} is left behind: {cause}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_whose_owner_is_gone_is_removed_and_no_other() {
        let temp = tempfile::tempdir().unwrap();
        let place = Utf8Path::from_path(temp.path()).unwrap();
        let kept = Scratch::open_in(place, "x-").unwrap();
        let gone = private_folder(place, "x-").unwrap();
        std::fs::write(gone.join(LOCK), "").unwrap();
        std::fs::create_dir(gone.join("deep")).unwrap();
        let (new, old) =
            (private_folder(place, "x-").unwrap(), private_folder(place, "x-").unwrap());
        let before = std::fs::File::open(&old).unwrap();
        let age = Duration::from_secs(7_200);
        before.set_modified(std::fs::metadata(&old).unwrap().modified().unwrap() - age).unwrap();
        let other = private_folder(place, "y-").unwrap();
        std::fs::write(other.join(LOCK), "").unwrap();
        std::os::unix::fs::symlink(&other, place.join("x-link")).unwrap();
        let next = Scratch::open_in(place, "x-").unwrap();
        for (folder, is_left) in
            [(kept.path(), true), (&gone, false), (&new, true), (&old, false), (&other, true)]
        {
            assert_eq!(folder.exists(), is_left, "{folder}");
        }
        let path = next.path().to_owned();
        drop(next);
        assert!(!path.exists() && kept.path().exists());
    }
}
