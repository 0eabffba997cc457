//! Reads what stands at a path below a root, and replaces it.
//!
//! **Invariant:** a file is put in place by an exchange, and the old content is examined after it:
//! if it is not what the caller expected, the exchange is reverted. Nothing is overwritten unseen.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use camino::Utf8Path;
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{OFlag, RenameFlags, openat, readlinkat, renameat2};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, symlinkat, unlinkat};

use crate::base::{Context, Error, ErrorKind, Result, random_token};
use crate::process::root::{FILE_GONE, Root, check_plain, how, not_a_file, refusal, shown};

/// The facts of what is in a folder to which this account has no access.
pub const CLOSED: &str = "closed";

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
        /// Its target, as written.
        target: String,
    },
    /// A folder, a device, or a file that is too large or unreadable.
    Other {
        /// Size, times and inode, which distinguish one from another.
        facts: String,
    },
}

impl Root {
    /// Returns what stands at a plain relative path. A file of more than `bytes_max` bytes is not
    /// read. A link on the way is not followed: nothing of ours is behind it.
    ///
    /// # Errors
    /// `invalid` for a path that is not plain; `unavailable` if the file system fails.
    pub fn standing(&self, path: impl AsRef<Path>, bytes_max: usize) -> Result<Standing> {
        Ok(self.look(path.as_ref(), bytes_max)?.0)
    }

    fn look(&self, path: &Path, bytes_max: usize) -> Result<(Standing, Option<Identity>)> {
        check_plain(path)?;
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let found = match nix::fcntl::openat2(self.folder.as_fd(), path, how(flags)) {
            Ok(found) => found,
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => {
                return Ok((Standing::Nothing, None));
            }
            Err(Errno::EACCES) => {
                return Ok((Standing::Other { facts: CLOSED.to_owned() }, None));
            }
            Err(cause) => return Err(refusal(&shown(path), FILE_GONE, cause)),
        };
        look_at(found, || self.open_file(path, FILE_GONE).map(|(file, _)| file), bytes_max)
            .map(|(standing, identity)| (standing, Some(identity)))
            .context(ErrorKind::Unavailable, || format!("cannot read {}", shown(path)))
    }

    /// Returns the ctime of an entry at a plain relative path, in milliseconds since 1970: unlike
    /// the mtime, no program can set it. `None` if the entry is gone.
    pub fn changed_ms(&self, path: impl AsRef<Path>) -> Option<i64> {
        check_plain(path.as_ref()).ok()?;
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let found = nix::fcntl::openat2(self.folder.as_fd(), path.as_ref(), how(flags)).ok()?;
        let meta = File::from(found).metadata().ok()?;
        Some(meta.ctime().saturating_mul(1_000).saturating_add(meta.ctime_nsec() / 1_000_000))
    }

    /// Returns the raw names in a folder below the root (`.` for the root), unordered. The folder
    /// must not be a link.
    ///
    /// # Errors
    /// Same as [`Root::read_relative`]; `too_large` if there are more than `names_max`.
    pub fn raw_names(&self, folder: impl AsRef<Path>, names_max: usize) -> Result<Vec<Vec<u8>>> {
        let folder = folder.as_ref();
        if folder != Path::new(".") {
            check_plain(folder)?;
        }
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let opened = nix::fcntl::openat2(self.folder.as_fd(), folder, how(flags));
        let opened = opened.map_err(|cause| refusal(&shown(folder), FILE_GONE, cause))?;
        let cannot = || format!("cannot read {}", shown(folder));
        let mut listing = Dir::from_fd(opened).context(ErrorKind::Unavailable, cannot)?;
        let mut names = Vec::new();
        for entry in listing.iter() {
            let entry = entry.context(ErrorKind::Unavailable, cannot)?;
            let name = entry.file_name().to_bytes();
            if names.len() >= names_max {
                let message = format!("{} has more than {names_max} entries", shown(folder));
                return Err(Error::new(ErrorKind::TooLarge, message));
            }
            if name != b"." && name != b".." {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// Returns the names in a folder as text; invalid UTF-8 becomes replacement characters.
    ///
    /// # Errors
    /// Same as [`Root::raw_names`].
    pub fn names(&self, folder: &Utf8Path, names_max: usize) -> Result<Vec<String>> {
        let names = self.raw_names(folder, names_max)?;
        Ok(names.iter().map(|it| String::from_utf8_lossy(it).into_owned()).collect())
    }

    /// Replaces what stands at a plain relative path, if it is what was expected. Returns whether
    /// it did; otherwise nothing is changed. Missing folders are created; folders left empty by a
    /// removal are removed, as git does. `new` must not be [`Standing::Other`].
    ///
    /// # Errors
    /// `unavailable` if the file system refuses; `invalid` for a path that is not plain.
    pub fn swap(
        &self,
        path: impl AsRef<Path>,
        bytes_max: usize,
        is_expected: impl Fn(&Standing) -> bool,
        new: &Standing,
    ) -> Result<bool> {
        let aside = random_token(".wb-")?;
        self.swap_aside((path.as_ref(), &aside[..24]), bytes_max, is_expected, new)
    }

    /// Like [`Root::swap`], but keeps a folder left empty by a removal.
    ///
    /// # Errors
    /// Same as [`Root::swap`].
    pub fn swap_here(
        &self,
        path: impl AsRef<Path>,
        bytes_max: usize,
        is_expected: impl Fn(&Standing) -> bool,
        new: &Standing,
    ) -> Result<bool> {
        let aside = random_token(".wb-")?;
        self.swap_at((path.as_ref(), &aside[..24]), bytes_max, is_expected, new)
    }

    pub(super) fn swap_at(
        &self,
        (path, aside): (&Path, &str),
        bytes_max: usize,
        is_expected: impl Fn(&Standing) -> bool,
        new: &Standing,
    ) -> Result<bool> {
        let (before, identity) = self.look(path, bytes_max)?;
        if !is_expected(&before) {
            return Ok(false);
        }
        let cannot = || format!("cannot write {}", shown(path));
        let (folder, name) = self.folder_above(path, *new != Standing::Nothing)?;
        let Some(folder) = folder else { return Ok(before == Standing::Nothing) };
        let place = Place { folder: &folder, name, aside, bytes_max };
        place.write(new, true).map_err(|cause| Error::of_disk(cannot(), cause))?;
        let done = match (&before, new) {
            (Standing::Nothing, Standing::Nothing) => Ok(true),
            (Standing::Nothing, _) => place.appear(),
            (_, Standing::Nothing) => place.vanish(&is_expected, identity),
            _ => place.exchange(&is_expected, identity),
        };
        done.map_err(|cause| Error::of_disk(cannot(), cause))
    }

    /// Opens the folder of a path; `None` if it does not exist and `make` is false.
    pub(in crate::process) fn parent<'a>(
        &self,
        path: &'a Utf8Path,
        make: bool,
    ) -> Result<(Option<OwnedFd>, &'a str)> {
        let name = path.file_name().ok_or_else(|| not_a_file(path))?;
        Ok((self.folder_above(path.as_std_path(), make)?.0, name))
    }

    pub(super) fn folder_above<'a>(
        &self,
        path: &'a Path,
        make: bool,
    ) -> Result<(Option<OwnedFd>, &'a OsStr)> {
        let name = path.file_name().ok_or_else(|| not_a_file(&shown(path)))?;
        let above = path.parent().unwrap_or(Path::new(""));
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let open = |at: &Path| nix::fcntl::openat2(self.folder.as_fd(), at, how(flags));
        let refused = |at: &Path, cause| refusal(&shown(at), FILE_GONE, cause);
        let mut folder = open(Path::new(".")).map_err(|it| refused(path, it))?;
        let mut at = PathBuf::new();
        for part in above.components() {
            at.push(part);
            folder = match open(&at) {
                Err(Errno::ENOENT) if make => {
                    let made = mkdirat(&folder, part.as_os_str(), Mode::from_bits_truncate(0o777));
                    // Somebody else may have created it meanwhile.
                    made.or_else(|it| if it == Errno::EEXIST { Ok(()) } else { Err(it) })
                        .and_then(|()| open(&at))
                        .map_err(|cause| refused(&at, cause))?
                }
                Err(Errno::ENOENT) => return Ok((None, name)),
                other => other.map_err(|cause| refused(&at, cause))?,
            };
        }
        Ok((Some(folder), name))
    }

    pub(in crate::process) fn drop_empty_folders(&self, path: &Utf8Path) {
        self.drop_folders(path.as_std_path());
    }

    pub(super) fn drop_folders(&self, path: &Path) {
        let above = path.ancestors().skip(1).filter(|it| !it.as_os_str().is_empty());
        for folder in above {
            let Ok((Some(parent), name)) = self.folder_above(folder, false) else { return };
            // A non-empty folder stays, and so do those above it.
            if unlinkat(&parent, name, UnlinkatFlags::RemoveDir).is_err() {
                return;
            }
        }
    }
}

/// Identifies an entry across moves, unlike its ctime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    is_folder: bool,
}

/// A place in a folder, and the name beside it under which the new file waits.
pub(super) struct Place<'a> {
    pub(super) folder: &'a OwnedFd,
    pub(super) name: &'a OsStr,
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
        match self.rename(self.aside.as_ref(), self.name, RenameFlags::RENAME_NOREPLACE) {
            Ok(()) => Ok(true),
            Err(cause) => {
                self.forget();
                if cause == Errno::EEXIST { Ok(false) } else { Err(cause.into()) }
            }
        }
    }

    /// Removes what is expected, or an unread entry with this identity.
    pub(super) fn vanish(
        &self,
        is_expected: &impl Fn(&Standing) -> bool,
        identity: Option<Identity>,
    ) -> std::io::Result<bool> {
        // Moved aside first and examined there, where nobody else looks for it.
        self.rename(self.name, self.aside.as_ref(), RenameFlags::RENAME_NOREPLACE)?;
        if self.is_gone(is_expected, identity)? {
            return Ok(true);
        }
        // Not what was expected: it goes back.
        self.rename(self.aside.as_ref(), self.name, RenameFlags::RENAME_NOREPLACE)?;
        Ok(false)
    }

    fn exchange(
        &self,
        is_expected: &impl Fn(&Standing) -> bool,
        identity: Option<Identity>,
    ) -> std::io::Result<bool> {
        let swap = || self.rename(self.aside.as_ref(), self.name, RenameFlags::RENAME_EXCHANGE);
        if let Err(cause) = swap() {
            self.forget();
            return if cause == Errno::ENOENT { Ok(false) } else { Err(cause.into()) };
        }
        let is_gone = self.is_gone(is_expected, identity)?;
        if !is_gone {
            swap()?;
            self.forget();
        }
        Ok(is_gone)
    }

    /// Removes what was moved aside, if it was expected; a folder only if it is empty.
    fn is_gone(
        &self,
        is_expected: &impl Fn(&Standing) -> bool,
        identity: Option<Identity>,
    ) -> std::io::Result<bool> {
        let (was, found) = self.standing_aside()?;
        let is_same = matches!(was, Standing::Other { .. }) && identity == Some(found);
        if !is_same && !is_expected(&was) {
            return Ok(false);
        }
        let how =
            if found.is_folder { UnlinkatFlags::RemoveDir } else { UnlinkatFlags::NoRemoveDir };
        match unlinkat(self.folder, self.aside, how) {
            Ok(()) => Ok(true),
            Err(Errno::ENOTEMPTY | Errno::EEXIST) => Ok(false),
            Err(cause) => Err(cause.into()),
        }
    }

    pub(super) fn rename(&self, from: &OsStr, to: &OsStr, flags: RenameFlags) -> Result<(), Errno> {
        renameat2(self.folder, from, self.folder, to, flags)
    }

    fn standing_aside(&self) -> std::io::Result<(Standing, Identity)> {
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let found = openat(self.folder, self.aside, flags, Mode::empty())?;
        let open = || {
            let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
            let file = openat(self.folder, self.aside, flags, Mode::empty());
            file.map(File::from).map_err(|cause| Error::unavailable("gone").source(cause))
        };
        look_at(found, open, self.bytes_max)
    }

    /// Removes the file beside the place; if that fails, it remains as a stray file of ours.
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
) -> std::io::Result<(Standing, Identity)> {
    let found = File::from(found);
    let meta = found.metadata()?;
    let identity = Identity {
        device: meta.dev(),
        inode: meta.ino(),
        bytes: meta.len(),
        modified: (meta.mtime(), meta.mtime_nsec()),
        is_folder: meta.is_dir(),
    };
    let facts = || {
        let kind = if meta.is_dir() { "folder" } else { "file" };
        let (size, inode) = (meta.len(), meta.ino());
        let changed = format!("{}.{:09}", meta.ctime(), meta.ctime_nsec());
        Standing::Other { facts: format!("{kind} of {size} bytes, changed {changed}, {inode}") }
    };
    if meta.is_symlink() {
        let target = readlinkat(found.as_fd(), "")?;
        let standing = match target.into_string() {
            Ok(target) => Standing::Link { target },
            Err(_) => facts(),
        };
        return Ok((standing, identity));
    }
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX);
    if !meta.is_file() || meta.len() > limit {
        return Ok((facts(), identity));
    }
    let Ok(file) = open() else { return Ok((facts(), identity)) };
    let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or(0));
    // One byte more than allowed, because the file may grow while it is read.
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() > bytes_max {
        return Ok((facts(), identity));
    }
    Ok((Standing::File { bytes, mode: meta.mode() & 0o7777 }, identity))
}

#[cfg(test)]
mod tests {
    use super::*;
    use camino::Utf8PathBuf;

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
        // The folders created for it are gone with it, and nothing is left beside.
        assert_eq!(root.path().read_dir_utf8().unwrap().count(), 0);
    }

    /// Somebody writes between the check and the exchange: their text stays.
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
