//! Hearing that a file has lost its name: it was removed, replaced or moved.

use std::os::fd::{AsFd as _, OwnedFd};

use camino::Utf8Path;
use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tokio::io::unix::AsyncFd;

use crate::base::{Context, ErrorKind, Result};
use crate::process::sys;

/// One file that is watched, whatever it is called by now.
pub struct NameWatch {
    inotify: Inotify,
    ready: AsyncFd<OwnedFd>,
}

impl NameWatch {
    /// Watches the file that is at `path`; no link is followed.
    ///
    /// # Errors
    /// `unavailable` if it is not there, or the kernel watches no more.
    pub fn of(path: &Utf8Path) -> Result<NameWatch> {
        let refused = || format!("{path} cannot be watched (inotify)");
        let flags = InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK;
        let inotify = Inotify::init(flags).context(ErrorKind::Unavailable, refused)?;
        // The last name of a file that is held open goes with a change of its attributes.
        let changes = AddWatchFlags::IN_ATTRIB
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_DONT_FOLLOW;
        inotify.add_watch(path.as_std_path(), changes).context(ErrorKind::Unavailable, refused)?;
        let twin = inotify.as_fd().try_clone_to_owned();
        let ready = sys::readable(twin.context(ErrorKind::Unavailable, refused)?);
        Ok(NameWatch { inotify, ready: ready.context(ErrorKind::Unavailable, refused)? })
    }

    /// Waits until the file may have lost its name.
    ///
    /// # Errors
    /// `unavailable` if the kernel cannot be asked any more.
    pub async fn touched(&mut self) -> Result<()> {
        let no_more = || "the kernel does not say what changes any more (inotify)".to_owned();
        loop {
            let mut ready = self.ready.readable().await.context(ErrorKind::Unavailable, no_more)?;
            match self.inotify.read_events() {
                Ok(_) => return Ok(()),
                Err(Errno::EAGAIN) => ready.clear_ready(),
                Err(Errno::EINTR) => {}
                Err(cause) => return Err(cause).context(ErrorKind::Unavailable, no_more),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_that_is_held_open_tells_that_its_name_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(folder.path()).unwrap().join("lock");
        for how in ["removed", "moved", "replaced"] {
            let held = std::fs::File::create(&path).unwrap();
            let mut watch = NameWatch::of(&path).unwrap();
            match how {
                "removed" => std::fs::remove_file(&path).unwrap(),
                "moved" => std::fs::rename(&path, path.with_extension("old")).unwrap(),
                _ => {
                    std::fs::write(path.with_extension("new"), "").unwrap();
                    std::fs::rename(path.with_extension("new"), &path).unwrap();
                }
            }
            watch.touched().await.unwrap();
            drop(held);
        }
        assert!(NameWatch::of(&path.with_extension("none")).is_err());
    }
}
