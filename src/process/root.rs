//! Reads files below a folder so that no path and no race leads outside.
//!
//! **Invariant:** no link is followed, anywhere in a path; only regular files are read, and opening
//! never blocks.

mod links;
mod look;
mod made;
mod place;

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path};
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag};

use crate::base::{Context, Error, ErrorKind, Result, SourcePath, fault};

pub use look::{Entry, EntryKind};
pub use place::{CLOSED, Standing};

/// The code of a missing document.
pub const SOURCE_GONE: &str = "source_gone";
/// The code of a missing file.
pub const FILE_GONE: &str = "file_gone";
/// The code of a path with a symbolic link in it.
pub const PATH_IS_LINK: &str = "path_is_link";
/// The code of a path that is not a regular file.
pub const NOT_A_FILE: &str = "not_a_file";

/// Retries of a lookup that raced with a rename.
const RACES_MAX: usize = 32;

/// An open folder below which files are read.
#[derive(Clone, Debug)]
pub struct Root {
    folder: Arc<OwnedFd>,
    path: Utf8PathBuf,
}

/// The metadata of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileFacts {
    /// Its size.
    pub bytes: u64,
    /// Number of hard links; more than one means that a second name could change it.
    pub links: u64,
    /// Permission bits and type.
    pub mode: u32,
    /// Modification time, in milliseconds since 1970.
    pub modified_ms: i64,
}

impl Root {
    /// Opens a folder as a root.
    ///
    /// # Errors
    /// `not_found` if the folder does not exist; `unavailable` with code `no_openat2` on an old
    /// kernel.
    pub fn open(path: &Utf8Path) -> Result<Root> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let folder = nix::fcntl::open(path.as_std_path(), flags, nix::sys::stat::Mode::empty());
        let folder = folder.map_err(|cause| {
            Error::not_found(format!("{path} is not a folder that can be opened")).source(cause)
        })?;
        let tried = match fault::is_absent("openat2") {
            true => Err(Errno::ENOSYS),
            false => nix::fcntl::openat2(folder.as_fd(), ".", how(flags)),
        };
        match tried {
            Ok(_) => Ok(Root { folder: Arc::new(folder), path: path.to_owned() }),
            Err(cause @ (Errno::ENOSYS | Errno::EPERM)) => {
                Err(Error::unavailable("this system has no openat2")
                    .code("no_openat2")
                    .hint("use Linux 5.6 or later; a container must allow the call openat2")
                    .source(cause))
            }
            Err(cause) => {
                Err(Error::unavailable(format!("cannot open files below {path}")).source(cause))
            }
        }
    }

    /// Uses an open folder as a root.
    pub fn of(folder: File, path: &Utf8Path) -> Root {
        Root { folder: Arc::new(folder.into()), path: path.to_owned() }
    }

    /// Returns the folder's path as given.
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// Reads a Source: a regular file of at most `bytes_max` bytes.
    ///
    /// # Errors
    /// `not_found` with code `source_gone`; `too_large`; `invalid` with code `path_is_link` or
    /// `not_a_file`; `forbidden` if the file is not readable.
    pub fn read(&self, path: &SourcePath, bytes_max: usize) -> Result<(Vec<u8>, FileFacts)> {
        self.read_below(path.as_path(), bytes_max, SOURCE_GONE)
    }

    /// Reads at most the first `bytes_max` bytes of a regular file.
    ///
    /// # Errors
    /// Same as [`Root::read`], except that no file is too large.
    pub fn read_head(&self, path: &SourcePath, bytes_max: usize) -> Result<Vec<u8>> {
        let (file, _) = self.open_file(path.as_path(), SOURCE_GONE)?;
        let mut bytes = Vec::new();
        file.take(u64::try_from(bytes_max).unwrap_or(u64::MAX))
            .read_to_end(&mut bytes)
            .context(ErrorKind::Unavailable, || format!("cannot read {path}"))?;
        Ok(bytes)
    }

    /// Returns the metadata of a Source, which must be a regular file.
    ///
    /// # Errors
    /// Same as [`Root::read`].
    pub fn facts(&self, path: &SourcePath) -> Result<FileFacts> {
        self.open_file(path.as_path(), SOURCE_GONE).map(|(_, facts)| facts)
    }

    /// Opens the folder of a file and returns the file's name in it.
    pub(super) fn folder_of<'a>(&self, path: &'a SourcePath) -> Result<(OwnedFd, &'a str)> {
        let name = path.as_path().file_name().unwrap_or_default();
        let parent = path.as_path().parent().filter(|it| !it.as_str().is_empty());
        let parent = parent.unwrap_or(Utf8Path::new("."));
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut opened = Err(Errno::EAGAIN);
        for _ in 0..RACES_MAX {
            opened = nix::fcntl::openat2(self.folder.as_fd(), parent.as_std_path(), how(flags));
            if !matches!(opened, Err(Errno::EAGAIN | Errno::EINTR)) {
                break;
            }
        }
        let folder = opened.map_err(|cause| refusal(parent, SOURCE_GONE, cause))?;
        Ok((folder, name))
    }

    /// Reads a regular file by a plain relative path, such as `agents/NAME.md` or a skill's.
    ///
    /// # Errors
    /// Same as [`Root::read`], with code `file_gone`; `invalid` for a path that is not plain.
    pub fn read_relative(&self, path: &Utf8Path, bytes_max: usize) -> Result<(Vec<u8>, FileFacts)> {
        check_plain(path)?;
        self.read_below(path, bytes_max, FILE_GONE)
    }

    fn read_below(
        &self,
        path: &Utf8Path,
        bytes_max: usize,
        gone: &'static str,
    ) -> Result<(Vec<u8>, FileFacts)> {
        let (file, facts) = self.open_file(path, gone)?;
        let too_large =
            || Error::new(ErrorKind::TooLarge, format!("{path} has more than {bytes_max} bytes"));
        let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX);
        if facts.bytes > limit {
            return Err(too_large());
        }
        let mut bytes = Vec::with_capacity(usize::try_from(facts.bytes).unwrap_or(0));
        // One byte more than allowed, because the file may grow while it is read.
        file.take(limit.saturating_add(1))
            .read_to_end(&mut bytes)
            .context(ErrorKind::Unavailable, || format!("cannot read {path}"))?;
        if bytes.len() > bytes_max {
            return Err(too_large());
        }
        Ok((bytes, facts))
    }

    fn open_file(&self, path: impl AsRef<Path>, gone: &'static str) -> Result<(File, FileFacts)> {
        let (at, path) = (path.as_ref(), shown(path.as_ref()));
        let flags = OFlag::O_RDONLY
            | OFlag::O_NOFOLLOW
            | OFlag::O_NONBLOCK
            | OFlag::O_NOCTTY
            | OFlag::O_CLOEXEC;
        let mut opened = Err(Errno::EAGAIN);
        for _ in 0..RACES_MAX {
            opened = nix::fcntl::openat2(self.folder.as_fd(), at, how(flags));
            // The kernel reports that a concurrent rename made the lookup ambiguous.
            if !matches!(opened, Err(Errno::EAGAIN | Errno::EINTR)) {
                break;
            }
        }
        let file = File::from(opened.map_err(|cause| refusal(&path, gone, cause))?);
        let meta =
            file.metadata().context(ErrorKind::Unavailable, || format!("cannot read {path}"))?;
        if !meta.is_file() {
            return Err(not_a_file(&path));
        }
        let facts = FileFacts {
            bytes: meta.len(),
            links: meta.nlink(),
            mode: meta.mode(),
            modified_ms: meta
                .mtime()
                .saturating_mul(1_000)
                .saturating_add(meta.mtime_nsec() / 1_000_000),
        };
        Ok((file, facts))
    }
}

/// Returns a path, which may not be UTF-8, for use in messages.
fn shown(path: &Path) -> Utf8PathBuf {
    Utf8PathBuf::from(path.to_string_lossy().into_owned())
}

fn check_plain(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    let is_plain = path.components().all(|it| matches!(it, Component::Normal(_)));
    if is_plain && !path.as_os_str().is_empty() && !path.as_os_str().as_bytes().contains(&0) {
        return Ok(());
    }
    let shown = path.to_string_lossy();
    let shown: String = shown.chars().take(120).flat_map(char::escape_debug).collect();
    Err(Error::invalid(format!("`{shown}` is not a path below the root")).code("bad_path"))
}

fn how(flags: OFlag) -> OpenHow {
    if fault::is_off("beneath") {
        return OpenHow::new().flags(flags);
    }
    OpenHow::new().flags(flags).resolve(
        ResolveFlag::RESOLVE_BENEATH
            | ResolveFlag::RESOLVE_NO_SYMLINKS
            | ResolveFlag::RESOLVE_NO_MAGICLINKS,
    )
}

pub(super) fn refusal(path: &Utf8Path, gone: &'static str, cause: Errno) -> Error {
    let error = match cause {
        Errno::ENOENT | Errno::ENOTDIR => {
            Error::not_found(format!("{path} is not there")).code(gone)
        }
        Errno::ELOOP => Error::invalid(format!("{path} is a link or behind one"))
            .code(PATH_IS_LINK)
            .hint("put the file itself there; links are not followed"),
        Errno::EXDEV => Error::new(ErrorKind::Forbidden, format!("{path} leads out of its root"))
            .code("outside_root"),
        Errno::EACCES | Errno::EPERM => {
            Error::new(ErrorKind::Forbidden, format!("{path} may not be read"))
                .code("not_readable")
                .hint("give the server's user the right to read it")
        }
        // A socket, or a device without a driver.
        Errno::ENXIO | Errno::ENODEV | Errno::EISDIR => not_a_file(path),
        Errno::ENAMETOOLONG | Errno::EINVAL => {
            Error::invalid(format!("{path} is not a usable path")).code("bad_path")
        }
        Errno::EAGAIN => Error::unavailable(format!("{path} is being renamed all the time")),
        _ => Error::unavailable(format!("cannot open {path}")),
    };
    error.source(cause)
}

fn not_a_file(path: &Utf8Path) -> Error {
    Error::invalid(format!("{path} is not a regular file"))
        .code(NOT_A_FILE)
        .hint("put a regular file there, or take it out of `sources`")
}
