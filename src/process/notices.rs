//! File change notifications: which names in some folders the kernel reports as changed.
//!
//! **Invariant:** a folder that is not watched is never assumed to be: if the kernel refuses a
//! watch, drops it or the folder moves away, it is reported as unwatched.

use std::collections::{BTreeSet, HashMap};
use std::os::fd::{AsFd as _, OwnedFd};

use camino::{Utf8Path, Utf8PathBuf};
use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};
use tokio::io::unix::AsyncFd;

use crate::base::{Context, ErrorKind, Result};
use crate::process::sys;

/// Most reads per batch, 4 KiB each, so that a flood of changes is processed in pieces.
const READS_MAX: usize = 64;

/// Watched folders; links are not followed.
pub struct Notices {
    inotify: Inotify,
    ready: AsyncFd<OwnedFd>,
    folders: HashMap<WatchDescriptor, Utf8PathBuf>,
    watched: BTreeSet<Utf8PathBuf>,
}

/// The changes reported together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Noticed {
    /// Paths of entries that changed, appeared or disappeared; names that are not UTF-8 are
    /// skipped.
    pub paths: BTreeSet<Utf8PathBuf>,
    /// Those that are folders, and watched folders that changed their identity.
    pub folders: BTreeSet<Utf8PathBuf>,
    /// Whether the kernel's queue overflowed: anything may have changed.
    pub is_overflow: bool,
}

impl Noticed {
    /// Returns whether nothing was reported.
    pub fn is_empty(&self) -> bool {
        *self == Noticed::default()
    }

    /// Merges a later batch into this one.
    pub fn merge(&mut self, later: Noticed) {
        self.paths.extend(later.paths);
        self.folders.extend(later.folders);
        self.is_overflow |= later.is_overflow;
    }
}

impl Notices {
    /// Starts without any folder.
    ///
    /// # Errors
    /// `unavailable` if the limit `fs.inotify.max_user_instances` is reached.
    pub fn open() -> Result<Notices> {
        let refused = || "the kernel does not say what changes (inotify)".to_owned();
        let flags = InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK;
        let inotify = Inotify::init(flags).context(ErrorKind::Unavailable, refused)?;
        let twin = inotify.as_fd().try_clone_to_owned();
        let twin = twin.context(ErrorKind::Unavailable, refused)?;
        let ready = sys::readable(twin).context(ErrorKind::Unavailable, refused)?;
        Ok(Notices { inotify, ready, folders: HashMap::new(), watched: BTreeSet::new() })
    }

    /// Watches exactly these folders from now on, the first `most` of them; returns how many are
    /// covered. A missing folder is skipped but counts.
    pub fn watch_only(&mut self, wanted: &[Utf8PathBuf], most: usize) -> usize {
        let kept: BTreeSet<&Utf8Path> =
            wanted.iter().take(most).map(Utf8PathBuf::as_path).collect();
        let left: Vec<Utf8PathBuf> =
            self.watched.iter().filter(|it| !kept.contains(it.as_path())).cloned().collect();
        for folder in &left {
            self.forget(|it| it == folder);
        }
        wanted.iter().take(most).take_while(|it| self.add(it)).count()
    }

    /// Stops watching a folder and everything below it, since other folders may have taken their
    /// names.
    pub fn forget_below(&mut self, folder: &Utf8Path) {
        self.forget(|it| it.starts_with(folder));
    }

    /// Waits for changes, and returns all that are pending.
    ///
    /// # Errors
    /// `unavailable` if the kernel's queue cannot be read any more.
    pub async fn next(&mut self) -> Result<Noticed> {
        loop {
            let mut ready = self.ready.readable().await.context(ErrorKind::Unavailable, no_more)?;
            let mut found = Noticed::default();
            let mut is_drained = false;
            for _ in 0..READS_MAX {
                match self.inotify.read_events() {
                    Ok(events) => {
                        for event in events {
                            note(&mut self.folders, &mut self.watched, &mut found, event);
                        }
                    }
                    Err(Errno::EAGAIN) => {
                        is_drained = true;
                        break;
                    }
                    Err(Errno::EINTR) => {}
                    Err(cause) => return Err(cause).context(ErrorKind::Unavailable, no_more),
                }
            }
            if is_drained {
                ready.clear_ready();
            }
            if !found.is_empty() {
                return Ok(found);
            }
        }
    }

    /// Returns whether a folder is watched, or does not exist.
    fn add(&mut self, folder: &Utf8Path) -> bool {
        if self.watched.contains(folder) {
            return true;
        }
        let flags = AddWatchFlags::IN_MODIFY
            | AddWatchFlags::IN_CLOSE_WRITE
            | AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_MOVE
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_ONLYDIR
            | AddWatchFlags::IN_DONT_FOLLOW;
        match self.inotify.add_watch(folder.as_std_path(), flags) {
            Ok(descriptor) => {
                // One folder under two names has one descriptor: the later name wins.
                if let Some(before) = self.folders.insert(descriptor, folder.to_owned()) {
                    self.watched.remove(&before);
                }
                self.watched.insert(folder.to_owned());
                true
            }
            // A link or file in place of the folder contains no Source.
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => true,
            Err(_) => false,
        }
    }

    fn forget(&mut self, is_meant: impl Fn(&Utf8Path) -> bool) {
        let meant: Vec<WatchDescriptor> =
            self.folders.iter().filter(|(_, it)| is_meant(it)).map(|(id, _)| *id).collect();
        for id in meant {
            // If the folder is gone, so is the watch.
            let _ = self.inotify.rm_watch(id);
            self.folders.remove(&id);
        }
        self.watched.retain(|it| !is_meant(it));
    }
}

fn no_more() -> String {
    "the kernel does not say any more what changes".to_owned()
}

fn note(
    folders: &mut HashMap<WatchDescriptor, Utf8PathBuf>,
    watched: &mut BTreeSet<Utf8PathBuf>,
    found: &mut Noticed,
    event: nix::sys::inotify::InotifyEvent,
) {
    if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
        found.is_overflow = true;
        return;
    }
    // Changes in a folder forgotten meanwhile are covered by the rescan that follows.
    let Some(folder) = folders.get(&event.wd).cloned() else { return };
    let is_itself = AddWatchFlags::IN_IGNORED
        | AddWatchFlags::IN_DELETE_SELF
        | AddWatchFlags::IN_MOVE_SELF
        | AddWatchFlags::IN_UNMOUNT;
    if event.mask.intersects(is_itself) {
        if event.mask.contains(AddWatchFlags::IN_IGNORED) {
            folders.remove(&event.wd);
            watched.remove(&folder);
        }
        found.folders.insert(folder);
        return;
    }
    let Some(name) = event.name.as_deref().and_then(std::ffi::OsStr::to_str) else { return };
    let path = folder.join(name);
    if event.mask.contains(AddWatchFlags::IN_ISDIR) {
        found.folders.insert(path.clone());
    }
    found.paths.insert(path);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn folder() -> (tempfile::TempDir, Utf8PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let top = Utf8PathBuf::from_path_buf(folder.path().to_owned()).unwrap();
        (folder, top)
    }

    async fn noticed(notices: &mut Notices) -> Noticed {
        tokio::time::timeout(Duration::from_secs(10), notices.next()).await.unwrap().unwrap()
    }

    #[tokio::test]
    async fn what_changes_in_a_watched_folder_is_told_by_name() {
        let (_folder, top) = folder();
        std::fs::create_dir_all(top.join("a/deep")).unwrap();
        let mut notices = Notices::open().unwrap();
        let wanted = [top.clone(), top.join("a"), top.join("none")];
        assert_eq!(notices.watch_only(&wanted, 9), 3, "what is not there needs no watch");
        assert_eq!(notices.watch_only(&wanted, 1), 1, "there is a limit");
        assert_eq!(notices.watch_only(&wanted, 9), 3);
        std::fs::write(top.join("a/x"), "1").unwrap();
        std::fs::write(top.join("a/deep/y"), "not watched").unwrap();
        let mut all = noticed(&mut notices).await;
        assert!(all.paths.contains(&top.join("a/x")) && all.folders.is_empty(), "{all:?}");
        std::fs::rename(top.join("a"), top.join("b")).unwrap();
        all = noticed(&mut notices).await;
        assert!(all.folders.contains(&top.join("a")), "{all:?}");
        // A folder that was moved away is not watched under its old name.
        notices.forget_below(&top.join("a"));
        std::fs::create_dir(top.join("a")).unwrap();
        assert_eq!(notices.watch_only(&wanted, 9), 3);
        std::fs::write(top.join("a/z"), "1").unwrap();
        let is_found = |all: &Noticed| all.paths.contains(&top.join("a/z"));
        while !is_found(&all) {
            all = noticed(&mut notices).await;
        }
    }

    #[tokio::test]
    async fn too_much_at_once_is_told_as_such() {
        let (_folder, top) = folder();
        let mut notices = Notices::open().unwrap();
        assert_eq!(notices.watch_only(std::slice::from_ref(&top), 9), 1);
        let most = std::fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
        let most: usize = most.trim().parse().unwrap();
        // Neighbors differ, so the kernel cannot coalesce them.
        for count in 0..most + 10 {
            std::fs::write(top.join((count % 7).to_string()), "").unwrap();
        }
        let mut all = Noticed::default();
        while !all.is_overflow {
            all.merge(noticed(&mut notices).await);
        }
        assert!(all.paths.len() <= 7);
    }
}
