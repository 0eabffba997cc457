//! What stands at a path below a root, and putting something else there.
//!
//! **Invariant:** a file takes its place by an exchange, and what was there is looked at after it:
//! if it is not what the caller expects, the exchange is taken back. Nothing is overwritten unseen.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;

use camino::{Utf8Path, Utf8PathBuf};
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{OFlag, RenameFlags, openat, readlinkat, renameat2};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, symlinkat, unlinkat};

use crate::base::{Context, Error, ErrorKind, Result, random_token};
use crate::process::root::{Root, check_plain, how, not_a_file, refusal};

/// What stands at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing.
    Nothing,
    /// A regular file.
    File {
        /// Its content.
        bytes: Vec<u8>,
        /// Its permission bits.
        mode: u32,
    },
    /// A symbolic link.
    Link {
        /// Where it points, as it is written.
        target: String,
    },
    /// A folder, a device, a file that is too large or may not be read.
    Other {
        /// Size, times and inode: they tell one such thing from another.
        facts: String,
    },
}

impl Root {
    /// Returns what stands at a plain relative path. A file of more than `bytes_max` bytes is not
    /// read. A link on the way is not followed: then nothing that is ours stands there.
    ///
    /// # Errors
    /// `invalid` for a path that is not plain; `unavailable` if the file system does not answer.
    pub fn standing(&self, path: &Utf8Path, bytes_max: usize) -> Result<Standing> {
        check_plain(path)?;
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let found = match nix::fcntl::openat2(self.folder.as_fd(), path.as_std_path(), how(flags)) {
            Ok(found) => found,
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => return Ok(Standing::Nothing),
            Err(cause) => return Err(refusal(path, "file_gone", cause)),
        };
        look_at(found, || self.open_file(path, "file_gone").map(|(file, _)| file), bytes_max)
            .context(ErrorKind::Unavailable, || format!("cannot look at {path}"))
    }

    /// Returns when something at a plain relative path was last changed in any way, in milliseconds
    /// since 1970: unlike the time of its content, no program can set that. Nothing if it is gone.
    pub fn changed_ms(&self, path: &Utf8Path) -> Option<i64> {
        check_plain(path).ok()?;
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let found =
            nix::fcntl::openat2(self.folder.as_fd(), path.as_std_path(), how(flags)).ok()?;
        let meta = File::from(found).metadata().ok()?;
        Some(meta.ctime().saturating_mul(1_000).saturating_add(meta.ctime_nsec() / 1_000_000))
    }

    /// Returns the names in a folder below the root, or with `.` in the root, in no order. A name
    /// that is not UTF-8 has replacement characters in it. The folder may not be a link.
    ///
    /// # Errors
    /// As [`Root::read_relative`]; `too_large` if there are more than `names_max`.
    pub fn names(&self, folder: &Utf8Path, names_max: usize) -> Result<Vec<String>> {
        if folder != "." {
            check_plain(folder)?;
        }
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let opened = nix::fcntl::openat2(self.folder.as_fd(), folder.as_std_path(), how(flags));
        let opened = opened.map_err(|cause| refusal(folder, "file_gone", cause))?;
        let cannot = || format!("cannot read {folder}");
        let mut listing = Dir::from_fd(opened).context(ErrorKind::Unavailable, cannot)?;
        let mut names = Vec::new();
        for entry in listing.iter() {
            let entry = entry.context(ErrorKind::Unavailable, cannot)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if names.len() >= names_max {
                let message = format!("{folder} has more than {names_max} entries");
                return Err(Error::new(ErrorKind::TooLarge, message));
            }
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Puts something else at a plain relative path, if what stands there is expected. Returns
    /// whether it did; if not, everything is as it was. Missing folders are made; a folder that is
    /// empty after a removal goes too, as with git. `new` may not be [`Standing::Other`].
    ///
    /// # Errors
    /// `unavailable` if the file system refuses; `invalid` for a path that is not plain.
    pub fn swap(
        &self,
        path: &Utf8Path,
        bytes_max: usize,
        is_expected: impl Fn(&Standing) -> bool,
        new: &Standing,
    ) -> Result<bool> {
        let done = self.swap_here(path, bytes_max, is_expected, new)?;
        if done && *new == Standing::Nothing {
            self.drop_empty_folders(path);
        }
        Ok(done)
    }

    /// Does as [`Root::swap`], but a folder that is empty after a removal stays.
    ///
    /// # Errors
    /// As [`Root::swap`].
    pub fn swap_here(
        &self,
        path: &Utf8Path,
        bytes_max: usize,
        is_expected: impl Fn(&Standing) -> bool,
        new: &Standing,
    ) -> Result<bool> {
        check_plain(path)?;
        let before = self.standing(path, bytes_max)?;
        if !is_expected(&before) {
            return Ok(false);
        }
        let cannot = || format!("cannot write {path}");
        let (folder, name) = self.parent(path, *new != Standing::Nothing)?;
        let Some(folder) = folder else { return Ok(before == Standing::Nothing) };
        let aside = random_token(".wb-")?;
        let aside = &aside[..24];
        let place = Place { folder: &folder, name, aside, bytes_max };
        place.write(new, true).context(ErrorKind::Unavailable, cannot)?;
        let done = match (&before, new) {
            (Standing::Nothing, Standing::Nothing) => Ok(true),
            (Standing::Nothing, _) => place.appear(),
            (_, Standing::Nothing) => place.vanish(&is_expected),
            _ => place.exchange(&is_expected),
        };
        done.context(ErrorKind::Unavailable, cannot)
    }

    /// Puts a private file at a plain relative path, whatever stood there; it is not synced.
    ///
    /// # Errors
    /// `unavailable` if the file system refuses; `invalid` for a path that is not plain.
    pub fn put(&self, path: &Utf8Path, bytes: &[u8]) -> Result<()> {
        check_plain(path)?;
        let cannot = || format!("cannot write {path}");
        let (folder, name) = self.parent(path, true)?;
        let folder = folder.ok_or_else(|| Error::unavailable(cannot()))?;
        let aside = random_token(".wb-")?;
        let place = Place { folder: &folder, name, aside: &aside[..24], bytes_max: 0 };
        let new = Standing::File { bytes: bytes.to_vec(), mode: 0o600 };
        let put = place.write(&new, false).and_then(|()| {
            let moved = place.rename(place.aside, name, RenameFlags::empty());
            Ok(moved.inspect_err(|_| place.forget())?)
        });
        put.context(ErrorKind::Unavailable, cannot)
    }

    /// Opens the folder of a path; nothing if it is not there and is not to be made.
    pub(in crate::process) fn parent<'a>(
        &self,
        path: &'a Utf8Path,
        make: bool,
    ) -> Result<(Option<OwnedFd>, &'a str)> {
        let name = path.file_name().ok_or_else(|| not_a_file(path))?;
        let above = path.parent().unwrap_or(Utf8Path::new(""));
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let open =
            |at: &Utf8Path| nix::fcntl::openat2(self.folder.as_fd(), at.as_std_path(), how(flags));
        let mut folder = open(Utf8Path::new(".")).map_err(|it| refusal(path, "file_gone", it))?;
        let mut at = Utf8PathBuf::new();
        for part in above.components() {
            at.push(part.as_str());
            folder = match open(&at) {
                Err(Errno::ENOENT) if make => {
                    let made = mkdirat(&folder, part.as_str(), Mode::from_bits_truncate(0o777));
                    // Somebody else may have made it meanwhile.
                    made.or_else(|it| if it == Errno::EEXIST { Ok(()) } else { Err(it) })
                        .and_then(|()| open(&at))
                        .map_err(|cause| refusal(&at, "file_gone", cause))?
                }
                Err(Errno::ENOENT) => return Ok((None, name)),
                other => other.map_err(|cause| refusal(&at, "file_gone", cause))?,
            };
        }
        Ok((Some(folder), name))
    }

    pub(in crate::process) fn drop_empty_folders(&self, path: &Utf8Path) {
        let above = path.ancestors().skip(1).filter(|it| !it.as_str().is_empty());
        for folder in above {
            let Ok((Some(parent), name)) = self.parent(folder, false) else { return };
            // One that is not empty stays, and so do those above it.
            if unlinkat(&parent, name, UnlinkatFlags::RemoveDir).is_err() {
                return;
            }
        }
    }
}

/// One place in a folder, and the name beside it under which the new file waits.
pub(super) struct Place<'a> {
    pub(super) folder: &'a OwnedFd,
    pub(super) name: &'a str,
    pub(super) aside: &'a str,
    pub(super) bytes_max: usize,
}

impl Place<'_> {
    /// Writes the new file beside its place.
    pub(super) fn write(&self, new: &Standing, is_durable: bool) -> std::io::Result<()> {
        match new {
            Standing::Nothing => Ok(()),
            Standing::Link { target } => Ok(symlinkat(target.as_str(), self.folder, self.aside)?),
            Standing::File { bytes, mode } => {
                let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
                let made = openat(self.folder, self.aside, flags, Mode::from_bits_truncate(0o600))?;
                let mut file = File::from(made);
                let mode = Mode::from_bits_truncate(*mode & 0o777);
                let written = file
                    .write_all(bytes)
                    .and_then(|()| Ok(nix::sys::stat::fchmod(&file, mode)?))
                    .and_then(|()| if is_durable { file.sync_all() } else { Ok(()) });
                written.inspect_err(|_| self.forget())
            }
            Standing::Other { .. } => {
                Err(std::io::Error::other("only files and links can be written"))
            }
        }
    }

    pub(super) fn appear(&self) -> std::io::Result<bool> {
        match self.rename(self.aside, self.name, RenameFlags::RENAME_NOREPLACE) {
            Ok(()) => Ok(true),
            Err(cause) => {
                self.forget();
                if cause == Errno::EEXIST { Ok(false) } else { Err(cause.into()) }
            }
        }
    }

    pub(super) fn vanish(&self, is_expected: &impl Fn(&Standing) -> bool) -> std::io::Result<bool> {
        self.rename(self.name, self.aside, RenameFlags::RENAME_NOREPLACE)?;
        if is_expected(&self.standing_aside()?) {
            unlinkat(self.folder, self.aside, UnlinkatFlags::NoRemoveDir)?;
            return Ok(true);
        }
        self.rename(self.aside, self.name, RenameFlags::RENAME_NOREPLACE)?;
        Ok(false)
    }

    fn exchange(&self, is_expected: &impl Fn(&Standing) -> bool) -> std::io::Result<bool> {
        if let Err(cause) = self.rename(self.aside, self.name, RenameFlags::RENAME_EXCHANGE) {
            self.forget();
            return if cause == Errno::ENOENT { Ok(false) } else { Err(cause.into()) };
        }
        let was = self.standing_aside()?;
        if !is_expected(&was) {
            self.rename(self.aside, self.name, RenameFlags::RENAME_EXCHANGE)?;
        }
        self.forget();
        Ok(is_expected(&was))
    }

    pub(super) fn rename(&self, from: &str, to: &str, flags: RenameFlags) -> Result<(), Errno> {
        renameat2(self.folder, from, self.folder, to, flags)
    }

    fn standing_aside(&self) -> std::io::Result<Standing> {
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let found = openat(self.folder, self.aside, flags, Mode::empty())?;
        let open = || {
            let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
            let file = openat(self.folder, self.aside, flags, Mode::empty());
            file.map(File::from).map_err(|cause| Error::unavailable("gone").source(cause))
        };
        look_at(found, open, self.bytes_max)
    }

    /// Removes the file beside the place; one that cannot be removed is a stray file of ours.
    pub(super) fn forget(&self) {
        if let Err(cause) = unlinkat(self.folder, self.aside, UnlinkatFlags::NoRemoveDir) {
            tracing::warn!("{} is left behind: {cause}", self.aside);
        }
    }
}

fn look_at(
    found: OwnedFd,
    open: impl FnOnce() -> Result<File>,
    bytes_max: usize,
) -> std::io::Result<Standing> {
    let found = File::from(found);
    let meta = found.metadata()?;
    let facts = || {
        let kind = if meta.is_dir() { "folder" } else { "file" };
        let (size, inode) = (meta.len(), meta.ino());
        let changed = format!("{}.{:09}", meta.ctime(), meta.ctime_nsec());
        Standing::Other { facts: format!("{kind} of {size} bytes, changed {changed}, {inode}") }
    };
    if meta.is_symlink() {
        let target = readlinkat(found.as_fd(), "")?;
        return Ok(match target.into_string() {
            Ok(target) => Standing::Link { target },
            Err(_) => facts(),
        });
    }
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX);
    if !meta.is_file() || meta.len() > limit {
        return Ok(facts());
    }
    let Ok(file) = open() else { return Ok(facts()) };
    let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or(0));
    // One more than allowed, because the file may grow while it is read.
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() > bytes_max {
        return Ok(facts());
    }
    Ok(Standing::File { bytes, mode: meta.mode() & 0o7777 })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 1024;

    fn root() -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from_path_buf(folder.path().canonicalize().unwrap()).unwrap();
        let root = Root::open(&path).unwrap();
        (folder, root)
    }

    fn file(text: &str) -> Standing {
        Standing::File { bytes: text.into(), mode: 0o640 }
    }

    #[test]
    fn a_file_is_replaced_only_if_it_is_the_expected_one() {
        let (_folder, root) = root();
        let path = Utf8Path::new("a/b/c.md");
        let is = |want: Standing| move |it: &Standing| *it == want;
        assert!(!root.swap(path, MAX, is(file("x")), &file("y")).unwrap());
        assert!(root.swap(path, MAX, is(Standing::Nothing), &file("one")).unwrap());
        assert_eq!(root.standing(path, MAX).unwrap(), file("one"));
        assert!(!root.swap(path, MAX, is(file("two")), &Standing::Nothing).unwrap());
        assert!(root.swap(path, MAX, is(file("one")), &file("two")).unwrap());
        let link = Standing::Link { target: "/etc/passwd".to_owned() };
        assert!(root.swap(path, MAX, is(file("two")), &link).unwrap());
        assert_eq!(root.standing(path, MAX).unwrap(), link);
        assert!(root.swap(path, MAX, is(link), &Standing::Nothing).unwrap());
        assert_eq!(root.standing(path, MAX).unwrap(), Standing::Nothing);
        // The folders that were made for it are gone with it, and nothing lies beside.
        assert_eq!(root.path().read_dir_utf8().unwrap().count(), 0);
    }

    /// Somebody writes between the look and the exchange: their text stays.
    #[test]
    fn what_came_in_between_is_put_back() {
        let (_folder, root) = root();
        let path = Utf8Path::new("a.md");
        for (old, new) in [(file("old"), file("new")), (file("old"), Standing::Nothing)] {
            root.swap(path, MAX, |_| true, &old).unwrap();
            let looks = std::cell::Cell::new(0);
            let races = |it: &Standing| {
                looks.set(looks.get() + 1);
                if looks.get() == 1 {
                    std::fs::write(root.path().join(path), "theirs").unwrap();
                }
                *it == old
            };
            assert!(!root.swap(path, MAX, races, &new).unwrap());
            assert_eq!(std::fs::read_to_string(root.path().join(path)).unwrap(), "theirs");
            assert_eq!(root.path().read_dir_utf8().unwrap().count(), 1);
        }
    }

    #[test]
    fn nothing_is_written_behind_a_link() {
        let (folder, root) = root();
        let outside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), folder.path().join("way")).unwrap();
        assert!(root.swap(Utf8Path::new("way/x"), MAX, |_| true, &file("x")).is_err());
        assert_eq!(root.standing(Utf8Path::new("way/x"), MAX).unwrap(), Standing::Nothing);
        assert!(root.swap(Utf8Path::new("../x"), MAX, |_| true, &file("x")).is_err());
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_cannot_be_read_is_told_apart_by_its_facts() {
        let (folder, root) = root();
        std::fs::write(folder.path().join("large"), vec![b'x'; MAX + 1]).unwrap();
        nix::unistd::mkfifo(&folder.path().join("fifo"), Mode::from_bits_truncate(0o600)).unwrap();
        std::fs::create_dir(folder.path().join("folder")).unwrap();
        for name in ["large", "fifo", "folder"] {
            let standing = root.standing(Utf8Path::new(name), MAX).unwrap();
            assert!(matches!(standing, Standing::Other { .. }), "{name}: {standing:?}");
        }
    }
}
