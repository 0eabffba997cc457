//! An open job folder: `jobs/ID` in the data folder, or a phase's folder inside.
//!
//! Agents run with our own uid and can put anything there, even replace the folder itself.
//!
//! **Invariant:** no link is followed below the data folder, and reads and writes go to the folder
//! that was opened, whatever its path comes to mean. Opening never blocks on a fifo.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};

use camino::{Utf8Path, Utf8PathBuf};
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat, openat2, renameat};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::base::{Context, Error, ErrorKind, Result, fault};
use crate::process::launch::{NOT_A_FOLDER, not_regular};
use crate::process::lock::FileLock;

/// Retries of a lookup that raced with a rename.
const RACES_MAX: usize = 32;

/// A job's folder.
#[derive(Debug)]
pub struct JobFolder {
    folder: OwnedFd,
    path: Utf8PathBuf,
}

impl JobFolder {
    /// Opens a job's folder by its path, which ends in `jobs/ID` or `jobs/ID/PHASE`; `None` if it
    /// does not exist.
    ///
    /// # Errors
    /// `unavailable`, with code `path_is_link` if a link or file takes the place of a folder.
    pub fn open(path: &Utf8Path) -> Result<Option<JobFolder>> {
        match opened(path) {
            Ok(folder) => Ok(Some(JobFolder { folder, path: path.to_owned() })),
            Err(Errno::ENOENT) => Ok(None),
            Err(cause) => Err(refused(path, cause)),
        }
    }

    /// Opens a job's folder, creating it with mode 0700 if it does not exist.
    ///
    /// # Errors
    /// Same as [`JobFolder::open`].
    pub fn make(path: &Utf8Path) -> Result<JobFolder> {
        let (data, below) = parts(path);
        let make = || -> nix::Result<OwnedFd> {
            let mut folder = open_top(data)?;
            let mut at = Utf8PathBuf::new();
            for part in below.components() {
                at.push(part);
                match mkdirat(&folder, part.as_str(), Mode::from_bits_truncate(0o700)) {
                    Ok(()) | Err(Errno::EEXIST) => {}
                    Err(cause) => return Err(cause),
                }
                folder = open_below(&open_top(data)?, &at)?;
            }
            Ok(folder)
        };
        let folder = make().map_err(|cause| match cause {
            Errno::ELOOP | Errno::ENOTDIR | Errno::EXDEV => refused(path, cause),
            _ => Error::of_disk(format!("cannot make the folder {path}"), cause.into()),
        })?;
        Ok(JobFolder { folder, path: path.to_owned() })
    }

    /// Returns a second handle to the same folder.
    pub(in crate::process) fn again(&self) -> io::Result<JobFolder> {
        Ok(JobFolder { folder: self.folder.try_clone()?, path: self.path.clone() })
    }

    /// Returns the path with which it was opened.
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// Returns whether an entry with this name exists.
    pub(in crate::process) fn has(&self, name: &str) -> bool {
        let found = self.opened(name, OFlag::O_PATH, Mode::empty());
        !matches!(found, Err(Errno::ENOENT))
    }

    /// Opens a regular file; `None` if it does not exist.
    ///
    /// # Errors
    /// `unavailable` if it cannot be opened or is not a regular file.
    pub(in crate::process) fn regular(&self, name: &str) -> Result<Option<File>> {
        match self.opened(name, OFlag::O_RDONLY, Mode::empty()) {
            Err(Errno::ENOENT) => Ok(None),
            Err(Errno::ELOOP) => Err(not_regular(&self.path.join(name))),
            opened => self.checked(name, opened).map(Some),
        }
    }

    /// Reads a regular file of at most `bytes_max` bytes; `None` if it does not exist.
    ///
    /// # Errors
    /// `unavailable` if it cannot be read or is not a regular file; `too_large`.
    pub fn read(&self, name: &str, bytes_max: u64) -> Result<Option<Vec<u8>>> {
        let Some(file) = self.regular(name)? else { return Ok(None) };
        let mut bytes = Vec::new();
        let read = file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes);
        read.context(ErrorKind::Unavailable, || format!("cannot read {}", self.path.join(name)))?;
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > bytes_max {
            let message = format!("{} is too large", self.path.join(name));
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        Ok(Some(bytes))
    }

    /// Reads at most `bytes_max` bytes of a regular file, starting at `offset`; `None` if it does
    /// not exist.
    ///
    /// # Errors
    /// `unavailable` if it cannot be read or is not a regular file.
    pub fn read_from(&self, name: &str, offset: u64, bytes_max: u64) -> Result<Option<Vec<u8>>> {
        let Some(mut file) = self.regular(name)? else { return Ok(None) };
        let mut bytes = Vec::new();
        let read = file
            .seek(SeekFrom::Start(offset))
            .and_then(|_| file.take(bytes_max).read_to_end(&mut bytes));
        read.context(ErrorKind::Unavailable, || format!("cannot read {}", self.path.join(name)))?;
        Ok(Some(bytes))
    }

    /// Opens a regular file to read it; `None` if it does not exist.
    ///
    /// # Errors
    /// `unavailable` if it cannot be opened or is not a regular file.
    pub fn reader(&self, name: &str) -> Result<Option<File>> {
        self.regular(name)
    }

    /// Opens a regular file (mode 0600) to append to it.
    ///
    /// # Errors
    /// `unavailable` if it cannot be opened or is not a regular file.
    pub fn append(&self, name: &str) -> Result<File> {
        let flags = OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_CREAT;
        self.checked(name, self.opened(name, flags, Mode::from_bits_truncate(0o600)))
    }

    /// Creates a private file that must not exist yet.
    pub(in crate::process) fn create(&self, name: &str) -> io::Result<File> {
        let flags = OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_CREAT | OFlag::O_EXCL;
        Ok(self.opened(name, flags, Mode::from_bits_truncate(0o600))?)
    }

    /// Atomically writes a private file and syncs it.
    ///
    /// # Errors
    /// `unavailable` if it cannot be written.
    pub fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let write = || -> io::Result<()> {
            self.replace(name, |file| {
                file.write_all(bytes)?;
                file.sync_all()
            })?;
            Ok(nix::unistd::fsync(&self.folder)?)
        };
        write().map_err(|cause| {
            Error::of_disk(format!("cannot write {}", self.path.join(name)), cause)
        })
    }

    /// Atomically writes a private file and returns it open.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn replace(
        &self,
        name: &str,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<File> {
        let aside = format!("{name}.new");
        self.remove(&aside)?;
        let mut file = self.create(&aside)?;
        write(&mut file)?;
        renameat(&self.folder, aside.as_str(), &self.folder, name)?;
        Ok(file)
    }

    /// Removes a file, if it exists.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        match unlinkat(&self.folder, name, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(cause) => Err(cause.into()),
        }
    }

    /// Renames an entry to `NAME.aside`.
    ///
    /// # Errors
    /// `unavailable` if it cannot be renamed.
    pub fn put_aside(&self, name: &str) -> Result<()> {
        let aside = format!("{name}.aside");
        renameat(&self.folder, name, &self.folder, aside.as_str())
            .context(ErrorKind::Unavailable, || {
                format!("cannot put {} aside", self.path.join(name))
            })
    }

    /// Locks a file in the folder like [`FileLock::try_take`].
    ///
    /// # Errors
    /// `unavailable` if the file cannot be created or the file system has no locks.
    pub fn lock(&self, name: &str) -> Result<Option<FileLock>> {
        let path = self.path.join(name);
        let flags = OFlag::O_RDWR | OFlag::O_CREAT;
        let file = self
            .opened(name, flags, Mode::from_bits_truncate(0o600))
            .context(ErrorKind::Unavailable, || format!("cannot open the lock {path}"))?;
        FileLock::on(file, &path)
    }

    /// Creates a private named pipe in the folder and opens it for reading and writing, so that it
    /// has a reader for as long as the handle lives.
    pub(in crate::process) fn pipe(&self, name: &str) -> io::Result<File> {
        nix::unistd::mkfifoat(&self.folder, name, Mode::from_bits_truncate(0o600))?;
        Ok(self.opened(name, OFlag::O_RDWR, Mode::empty())?)
    }

    /// Creates a listening socket in the folder. Addressed through the folder's descriptor: socket
    /// addresses are short, and no link can lead elsewhere.
    pub(in crate::process) fn listen(&self, name: &str) -> io::Result<UnixListener> {
        UnixListener::bind(self.by_descriptor(name))
    }

    /// Connects to a socket in the folder.
    pub(in crate::process) fn connect(&self, name: &str) -> io::Result<UnixStream> {
        // Non-blocking: whoever listens there may be a stranger that never accepts.
        let (kind, flags) = (SockType::Stream, SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC);
        let socket = socket(AddressFamily::Unix, kind, flags, None)?;
        let address = UnixAddr::new(self.by_descriptor(name).as_str())?;
        connect(socket.as_raw_fd(), &address)?;
        Ok(UnixStream::from(socket))
    }

    fn by_descriptor(&self, name: &str) -> String {
        format!("/proc/self/fd/{}/{name}", self.folder.as_raw_fd())
    }

    fn opened(&self, name: &str, flags: OFlag, mode: Mode) -> nix::Result<File> {
        let flags =
            flags | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        openat(self.folder.as_fd(), name, flags, mode).map(File::from)
    }

    fn checked(&self, name: &str, opened: nix::Result<File>) -> Result<File> {
        let cannot = |what: &str| format!("cannot {what} {}", self.path.join(name));
        let file = opened.context(ErrorKind::Unavailable, || cannot("open"))?;
        let meta = file.metadata().context(ErrorKind::Unavailable, || cannot("look at"))?;
        match meta.is_file() {
            true => Ok(file),
            false => Err(not_regular(&self.path.join(name))),
        }
    }
}

/// Splits the path into the data folder, chosen by the operator, and the rest.
fn parts(path: &Utf8Path) -> (&Utf8Path, &Utf8Path) {
    let is_jobs = |it: &Utf8Path| it.file_name() == Some("jobs");
    let above = path.parent().map(|it| (is_jobs(it), it.parent().is_some_and(is_jobs)));
    let levels = if above == Some((false, true)) { 3 } else { 2 };
    let data = path.ancestors().nth(levels).unwrap_or(Utf8Path::new(""));
    let below = path.strip_prefix(data).unwrap_or(path);
    (if data.as_str().is_empty() { Utf8Path::new(".") } else { data }, below)
}

fn opened(path: &Utf8Path) -> nix::Result<OwnedFd> {
    let (data, below) = parts(path);
    open_below(&open_top(data)?, below)
}

fn open_top(data: &Utf8Path) -> nix::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    nix::fcntl::open(data.as_std_path(), flags, Mode::empty())
}

fn open_below(data: &OwnedFd, below: &Utf8Path) -> nix::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let confined = ResolveFlag::RESOLVE_BENEATH
        | ResolveFlag::RESOLVE_NO_SYMLINKS
        | ResolveFlag::RESOLVE_NO_MAGICLINKS;
    let resolve = if fault::is_off("job_folder") { ResolveFlag::empty() } else { confined };
    let mut opened = Err(Errno::EAGAIN);
    for _ in 0..RACES_MAX {
        opened = openat2(data, below.as_std_path(), OpenHow::new().flags(flags).resolve(resolve));
        // The kernel reports that a concurrent rename made the lookup ambiguous.
        if !matches!(opened, Err(Errno::EAGAIN | Errno::EINTR)) {
            break;
        }
    }
    opened
}

fn refused(path: &Utf8Path, cause: Errno) -> Error {
    let error = match cause {
        Errno::ELOOP | Errno::ENOTDIR | Errno::EXDEV => Error::unavailable(format!(
            "{path} is not a job's folder any more, but a link or a file"
        ))
        .code(NOT_A_FOLDER)
        .hint("put the folder back; no link is followed there"),
        _ => return Error::of_disk(format!("cannot open {path}"), cause.into()),
    };
    error.source(cause)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn data() -> (tempfile::TempDir, Utf8PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from_path_buf(folder.path().to_owned()).unwrap();
        (folder, path)
    }

    #[test]
    fn a_folder_that_became_a_link_is_neither_opened_nor_made() {
        for (which, path) in [
            ("jobs", "jobs/a"),
            ("jobs/a", "jobs/a"),
            ("jobs", "jobs/a/prepare"),
            ("jobs/a", "jobs/a/prepare"),
            ("jobs/a/prepare", "jobs/a/prepare"),
        ] {
            let (_data, data) = data();
            let (_other, other) = self::data();
            let path = data.join(path);
            assert!(JobFolder::open(&path).unwrap().is_none());
            let made = JobFolder::make(&path).unwrap();
            made.put("exit.json", b"{}").unwrap();
            std::fs::create_dir(other.join("a")).unwrap();
            std::fs::rename(data.join(which), data.join("moved")).unwrap();
            symlink(&other, data.join(which)).unwrap();
            for refused in [JobFolder::open(&path).map(drop), JobFolder::make(&path).map(drop)] {
                assert_eq!(refused.unwrap_err().code_str(), "path_is_link", "{which}");
            }
            assert_eq!(crate::process::last_printed(&path).unwrap(), None, "{which}");
            // Open handles write to the folder that was opened.
            made.put("exit.json", b"later").unwrap();
            assert_eq!(made.read("exit.json", 10).unwrap().unwrap(), b"later");
            assert!(made.lock("lock").unwrap().is_some());
            let names: Vec<_> = other.read_dir_utf8().unwrap().flatten().collect();
            assert_eq!(names.len(), 1, "{which}");
        }
    }

    #[test]
    fn what_is_no_plain_file_is_refused_and_nobody_waits() {
        let (_data, data) = data();
        let folder = JobFolder::make(&data.join("jobs/a")).unwrap();
        let at = |name: &str| folder.path().join(name);
        symlink("/etc/hostname", at("link")).unwrap();
        nix::unistd::mkfifo(at("fifo").as_std_path(), Mode::from_bits_truncate(0o600)).unwrap();
        std::fs::create_dir(at("folder")).unwrap();
        for name in ["link", "fifo", "folder"] {
            assert!(folder.regular(name).is_err(), "{name}");
            assert!(folder.read(name, 10).is_err(), "{name}");
            assert!(folder.create(name).is_err() && folder.has(name), "{name}");
        }
        for name in ["link", "folder"] {
            assert!(folder.append(name).is_err(), "{name}");
        }
        folder.append("log").unwrap().write_all(b"12345").unwrap();
        assert_eq!(folder.read("log", 4).unwrap_err().kind(), ErrorKind::TooLarge);
        assert_eq!(folder.read("none", 4).unwrap(), None);
    }
}
