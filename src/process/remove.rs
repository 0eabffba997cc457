//! Removes and measures folders that an agent could fill with anything: links, a million files,
//! folders without permissions, endlessly nested folders.
//!
//! **Invariant:** no link is followed and no mount is entered, at any level: every step is relative
//! to an open folder.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;

use camino::Utf8Path;
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat, openat2, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::base::{Error, Result};

/// Most folders open at once: deeper ones are first moved to the top.
const DEPTH_MAX: usize = 32;
/// Names read from a folder per round.
const NAMES_MAX: usize = 512;
/// Name prefix of a folder that was moved to the top.
const LIFTED: &str = ".lifted-";

/// The result of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removal {
    /// Entries removed.
    pub entries: usize,
    /// Whether nothing is left.
    pub is_done: bool,
}

/// The size of a folder on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Blocks of all files, in bytes.
    pub bytes: u64,
    /// Entries visited.
    pub entries: usize,
    /// Whether everything was visited.
    pub is_whole: bool,
}

/// Removes at most about `entries_max` entries of the file or folder `name` in `folder`; call it
/// again until it is done. A missing entry is done.
///
/// # Errors
/// `unavailable` if something inside cannot be removed.
pub fn remove_some(folder: &Utf8Path, name: &str, entries_max: usize) -> Result<Removal> {
    let told = |cause: Errno| {
        let error = Error::unavailable(format!("cannot remove {folder}/{name}"));
        let error = match cause {
            Errno::EXDEV | Errno::EBUSY => error.hint("something is mounted in it: unmount it"),
            _ => error,
        };
        error.code("cannot_remove").source(cause)
    };
    let parent = open_top(folder).map_err(told)?;
    let name = CString::new(name).map_err(|_| Error::invalid("a name holds a zero byte"))?;
    let mut work = Work { left: entries_max.max(1), removed: 0, lifted: 0 };
    let is_done = work.remove(&parent, &name).map_err(told)?;
    Ok(Removal { entries: work.removed, is_done })
}

/// Returns the size of the file or folder `name` in `folder`, visiting at most `entries_max`
/// entries.
///
/// # Errors
/// `unavailable` if it cannot be examined. A missing entry has no size.
pub fn measure(folder: &Utf8Path, name: &str, entries_max: usize) -> Result<Size> {
    let told =
        |cause: Errno| Error::unavailable(format!("cannot read {folder}/{name}")).source(cause);
    let parent = open_top(folder).map_err(told)?;
    let name = CString::new(name).map_err(|_| Error::invalid("a name holds a zero byte"))?;
    let mut size = Size { is_whole: true, ..Size::default() };
    measure_entry(&parent, &name, DEPTH_MAX, entries_max, &mut size).map_err(told)?;
    Ok(size)
}

fn open_top(folder: &Utf8Path) -> nix::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    nix::fcntl::open(folder.as_std_path(), flags, Mode::empty())
}

/// Returns the metadata of an entry; `None` if it does not exist.
fn look(parent: &OwnedFd, name: &CStr) -> nix::Result<Option<FileStat>> {
    match fstatat(parent.as_fd(), name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(facts) => Ok(Some(facts)),
        Err(Errno::ENOENT) => Ok(None),
        Err(cause) => Err(cause),
    }
}

fn is_folder(facts: &FileStat) -> bool {
    SFlag::from_bits_truncate(facts.st_mode) & SFlag::S_IFMT == SFlag::S_IFDIR
}

/// Opens a folder that is not a link, giving ourselves permission if that is missing.
fn open_folder(parent: &OwnedFd, name: &CStr) -> nix::Result<OwnedFd> {
    let how = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    match open_here(parent, name, how | OFlag::O_RDONLY) {
        Err(Errno::EACCES) => {
            allow(parent, name)?;
            open_here(parent, name, how | OFlag::O_RDONLY)
        }
        opened => opened,
    }
}

/// Opens an entry, unless something is mounted there (`EXDEV`): what lies behind a mount, even of
/// the same disk, is not ours.
fn open_here(parent: &OwnedFd, name: &CStr, flags: OFlag) -> nix::Result<OwnedFd> {
    let stays = ResolveFlag::RESOLVE_BENEATH
        | ResolveFlag::RESOLVE_NO_SYMLINKS
        | ResolveFlag::RESOLVE_NO_XDEV;
    openat2(parent.as_fd(), name, OpenHow::new().flags(flags).resolve(stays))
}

/// Makes a folder of ours accessible to us. The change goes through a descriptor: by name it could
/// hit the target of a link.
fn allow(parent: &OwnedFd, name: &CStr) -> nix::Result<()> {
    let how = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    permit(&open_here(parent, name, how)?)
}

fn permit(folder: &OwnedFd) -> nix::Result<()> {
    let path = format!("/proc/self/fd/{}", folder.as_raw_fd());
    let done = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700));
    done.map_err(|cause| cause.raw_os_error().map_or(Errno::EIO, Errno::from_raw))
}

/// Reads the first names of a folder.
fn names(folder: &OwnedFd) -> nix::Result<Vec<CString>> {
    // A separate descriptor, so that reading starts at the first name.
    let own = openat(folder.as_fd(), c".", OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())?;
    let mut dir = Dir::from_fd(own)?;
    let mut names = Vec::new();
    for entry in dir.iter() {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            names.push(name.to_owned());
        }
        if names.len() >= NAMES_MAX {
            break;
        }
    }
    Ok(names)
}

struct Work {
    left: usize,
    removed: usize,
    lifted: u64,
}

impl Work {
    /// Removes an entry; returns whether all of it is gone.
    fn remove(&mut self, parent: &OwnedFd, name: &CStr) -> nix::Result<bool> {
        let Some(facts) = look(parent, name)? else { return Ok(true) };
        if !is_folder(&facts) {
            return self.unlink(parent, name, UnlinkatFlags::NoRemoveDir);
        }
        let top = open_folder(parent, name)?;
        if !self.empty(&top, &top, DEPTH_MAX)? {
            return Ok(false);
        }
        self.unlink(parent, name, UnlinkatFlags::RemoveDir)
    }

    /// Empties a folder; returns whether it is empty.
    fn empty(&mut self, top: &OwnedFd, folder: &OwnedFd, depth: usize) -> nix::Result<bool> {
        loop {
            let names = names(folder)?;
            if names.is_empty() {
                return Ok(true);
            }
            for name in &names {
                if self.left == 0 {
                    return Ok(false);
                }
                self.remove_within(top, folder, name, depth)?;
            }
        }
    }

    fn remove_within(
        &mut self,
        top: &OwnedFd,
        folder: &OwnedFd,
        name: &CStr,
        depth: usize,
    ) -> nix::Result<()> {
        let facts = match look(folder, name) {
            // The folder is readable but not searchable.
            Err(Errno::EACCES) => {
                permit(folder)?;
                look(folder, name)?
            }
            facts => facts?,
        };
        let Some(facts) = facts else { return Ok(()) };
        if !is_folder(&facts) {
            self.unlink(folder, name, UnlinkatFlags::NoRemoveDir)?;
            return Ok(());
        }
        if depth == 0 {
            return self.lift(top, folder, name);
        }
        let inner = open_folder(folder, name)?;
        if self.empty(top, &inner, depth - 1)? {
            self.unlink(folder, name, UnlinkatFlags::RemoveDir)?;
        }
        Ok(())
    }

    /// Moves a folder that is nested too deeply to the top, where it is found again.
    fn lift(&mut self, top: &OwnedFd, folder: &OwnedFd, name: &CStr) -> nix::Result<()> {
        loop {
            self.lifted += 1;
            let aside =
                CString::new(format!("{LIFTED}{}", self.lifted)).map_err(|_| Errno::EINVAL)?;
            if look(top, &aside)?.is_none() {
                self.left = self.left.saturating_sub(1);
                let rename = || renameat(folder.as_fd(), name, top.as_fd(), aside.as_c_str());
                return match rename() {
                    // The moved folder must be writable too: its `..` changes.
                    Err(Errno::EACCES) => {
                        permit(folder)?;
                        allow(folder, name)?;
                        rename()
                    }
                    moved => moved,
                };
            }
        }
    }

    fn unlink(&mut self, parent: &OwnedFd, name: &CStr, how: UnlinkatFlags) -> nix::Result<bool> {
        let mut done = unlinkat(parent.as_fd(), name, how);
        if done == Err(Errno::EACCES) {
            permit(parent)?;
            done = unlinkat(parent.as_fd(), name, how);
        }
        match done {
            Ok(()) => {
                self.removed += 1;
                self.left = self.left.saturating_sub(1);
                Ok(true)
            }
            Err(Errno::ENOENT) => Ok(true),
            Err(cause) => Err(cause),
        }
    }
}

fn measure_entry(
    parent: &OwnedFd,
    name: &CStr,
    depth: usize,
    entries_max: usize,
    size: &mut Size,
) -> nix::Result<()> {
    let Some(facts) = look(parent, name)? else { return Ok(()) };
    size.entries += 1;
    size.bytes += u64::try_from(facts.st_blocks).unwrap_or(0).saturating_mul(512);
    if !is_folder(&facts) {
        return Ok(());
    }
    if depth == 0 || size.entries >= entries_max {
        size.is_whole = false;
        return Ok(());
    }
    let how = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let folder = match open_here(parent, name, how) {
        // Unreadable folders are not measured, but can still be removed. Mounted ones are not.
        Err(Errno::EACCES | Errno::EXDEV) => {
            size.is_whole = false;
            return Ok(());
        }
        opened => opened?,
    };
    let mut dir = Dir::from_fd(openat(
        folder.as_fd(),
        c".",
        OFlag::O_RDONLY | OFlag::O_CLOEXEC,
        Mode::empty(),
    )?)?;
    for entry in dir.iter() {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        if size.entries >= entries_max {
            size.is_whole = false;
            return Ok(());
        }
        match measure_entry(&folder, name, depth - 1, entries_max, size) {
            Err(Errno::EACCES) => size.is_whole = false,
            measured => measured?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn folder() -> (tempfile::TempDir, camino::Utf8PathBuf) {
        let temp = tempfile::tempdir().unwrap();
        let path = camino::Utf8PathBuf::from_path_buf(temp.path().to_owned()).unwrap();
        (temp, path)
    }

    #[test]
    fn what_links_point_at_stays() {
        let (_temp, top) = folder();
        std::fs::create_dir_all(top.join("outside")).unwrap();
        std::fs::write(top.join("outside/kept"), "mine").unwrap();
        std::fs::create_dir_all(top.join("jobs/a/deep")).unwrap();
        symlink("../../outside", top.join("jobs/a/folder")).unwrap();
        symlink("../../../outside/kept", top.join("jobs/a/deep/file")).unwrap();
        symlink("/", top.join("jobs/a/root")).unwrap();
        symlink("../outside", top.join("jobs/link")).unwrap();
        let jobs = top.join("jobs");
        assert!(measure(&jobs, "a", 100).unwrap().entries <= 6, "links are not walked");
        assert!(remove_some(&jobs, "a", 100).unwrap().is_done);
        // A link in place of a job's folder is itself removed.
        assert!(remove_some(&jobs, "link", 100).unwrap().is_done);
        assert!(remove_some(&jobs, "nothing", 100).unwrap().is_done);
        assert_eq!(std::fs::read_to_string(top.join("outside/kept")).unwrap(), "mine");
        assert_eq!(jobs.read_dir_utf8().unwrap().count(), 0);
    }

    /// `/proc` is a mount wherever this runs.
    #[test]
    fn what_is_mounted_is_not_entered() {
        let top = open_top(Utf8Path::new("/")).unwrap();
        assert_eq!(open_folder(&top, c"proc").unwrap_err(), Errno::EXDEV);
        let mut work = Work { left: 10, removed: 0, lifted: 0 };
        assert_eq!(work.remove(&top, c"proc").unwrap_err(), Errno::EXDEV);
        let size = measure(Utf8Path::new("/"), "proc", 100).unwrap();
        assert_eq!((size.entries, size.is_whole), (1, false));
    }

    #[test]
    fn a_folder_that_may_not_be_entered_goes_too() {
        let (_temp, top) = folder();
        for (name, mode) in [("none", 0o000), ("read", 0o400), ("look", 0o500)] {
            let path = top.join("a").join(name);
            std::fs::create_dir_all(path.join("inner")).unwrap();
            std::fs::write(path.join("file"), "x").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        std::fs::set_permissions(top.join("a"), std::fs::Permissions::from_mode(0o000)).unwrap();
        assert!(remove_some(&top, "a", 100).unwrap().is_done);
        assert!(!top.join("a").exists());
    }

    #[test]
    fn many_files_take_many_bounded_calls() {
        let (_temp, top) = folder();
        std::fs::create_dir(top.join("a")).unwrap();
        for n in 0..3_000 {
            std::fs::write(top.join("a").join(n.to_string()), "").unwrap();
        }
        let size = measure(&top, "a", 1_000).unwrap();
        assert!(!size.is_whole && size.entries == 1_000, "{size:?}");
        let mut calls = 0;
        loop {
            let removal = remove_some(&top, "a", 500).unwrap();
            // The folder itself may be one more.
            assert!(removal.entries <= 501, "{removal:?}");
            calls += 1;
            if removal.is_done {
                break;
            }
        }
        assert!(calls >= 6 && !top.join("a").exists(), "{calls}");
    }

    #[test]
    fn folders_within_folders_without_end_need_few_descriptors() {
        let (_temp, top) = folder();
        let mut here = open_top(&top).unwrap();
        for name in std::iter::once(c"a").chain(std::iter::repeat_n(c"d", 3_000)) {
            let mode = Mode::from_bits_truncate(0o700);
            nix::sys::stat::mkdirat(here.as_fd(), name, mode).unwrap();
            here = open_folder(&here, name).unwrap();
        }
        drop(here);
        assert!(!measure(&top, "a", 10_000).unwrap().is_whole);
        while !remove_some(&top, "a", 1_000).unwrap().is_done {}
        assert!(!top.join("a").exists());
    }
}
