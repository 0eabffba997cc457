//! Replaces a file below a root so that no race leads outside and no concurrent edit is lost.
//!
//! The new text is written beside the file and exchanged with it in one step, inside of a folder
//! that is held open: there is never half a file. What stood there is examined *after* the
//! exchange, and put back if it is not what was expected.
//!
//! **Invariant:** a file is removed only after its content was compared, byte for byte.

use std::fs::{File, Permissions};
use std::io::{ErrorKind as IoKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::time::SystemTime;

use camino::Utf8Path;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use nix::unistd::UnlinkatFlags;

use crate::base::fault::{self, crash_point};
use crate::base::{DISK_FULL, Error, ErrorKind, READ_ONLY, Result, SourcePath};
use crate::process::root::{Root, SOURCE_GONE, refusal};

/// The code of a document with uncommitted changes.
pub const SOURCE_DIRTY: &str = "source_dirty";
/// The code of a file with several hard links.
pub const HARD_LINK: &str = "hard_link";

/// One replacement of a file's content.
#[derive(Clone, Copy, Debug)]
pub struct Replacement<'a> {
    /// The file.
    pub path: &'a SourcePath,
    /// A temporary name beside the file, used by nobody else.
    pub spare: &'a str,
    /// What the file must contain; `None` to accept anything.
    pub from: Option<&'a [u8]>,
    /// The new content.
    pub to: &'a [u8],
    /// Where to keep the replaced file, below another root on the same file system: a program that
    /// has it open may still write to it. Without it, the file is removed.
    pub keep: Option<(&'a Root, &'a Utf8Path)>,
    /// The modification time to set; now if absent.
    pub modified: Option<SystemTime>,
}

/// How a spare file left by a crash was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spare {
    /// There was none.
    None,
    /// It contained nothing of its own and was removed.
    Removed,
    /// It contained an edit that was taken out just before the crash, and was put back in place.
    PutBack,
    /// Its content is unknown; it was left alone.
    Left,
}

impl Root {
    /// Replaces a file's content in one step and returns when it was changed last before. The
    /// file keeps its permissions.
    ///
    /// # Errors
    /// Same as [`Root::read`]; `conflict` with code `source_dirty` if it does not contain `from`,
    /// or `hard_link` if it has a second name; `unavailable` with `disk_full` or `read_only`. The
    /// file is then unchanged.
    pub fn replace(&self, it: Replacement<'_>) -> Result<SystemTime> {
        let (folder, name) = self.folder_of(it.path)?;
        let mut old = open_at(&folder, name).map_err(|cause| gone(it.path, cause))?;
        let meta = old.metadata().map_err(|cause| unwritable(it.path, cause))?;
        if !meta.is_file() {
            return Err(dirty(it.path));
        }
        if meta.nlink() > 1 {
            let message = format!("{} has {} names (hard links)", it.path, meta.nlink());
            return Err(Error::conflict(HARD_LINK, message)
                .hint("replace it with a copy; writing would break the link"));
        }
        if !it.from.is_none_or(|from| holds(&mut old, from)) {
            return Err(dirty(it.path));
        }
        let was = meta.modified().map_err(|cause| unwritable(it.path, cause))?;
        if let Err(cause) = write_spare(&folder, &it, &meta) {
            // The remains are only ours.
            let _ = unlink(&folder, it.spare);
            return Err(unwritable(it.path, cause));
        }
        crash_point("replace_spare");
        self.take_place(&folder, name, &it)?;
        crash_point("replace_exchanged");
        // After an exchange the spare name holds the old file; after a rename nothing is there.
        let is_kept = it.keep.is_some_and(|(kept, name)| keep(&folder, it.spare, kept, name));
        if !is_kept {
            match unlink(&folder, it.spare) {
                Ok(()) | Err(Errno::ENOENT) => {}
                Err(cause) => tracing::warn!("{} stays beside {}: {cause}", it.spare, it.path),
            }
        }
        if let Err(cause) = nix::unistd::fsync(&folder) {
            // The commit has the text; a power cut could only lose the folder entry.
            tracing::warn!("the folder of {} is not synced: {cause}", it.path);
        }
        Ok(was)
    }

    /// Puts a file kept by [`Root::replace`] back in its place, if that contains exactly `ours`.
    /// Returns whether it did; otherwise nothing was changed. `None` if no file was kept.
    ///
    /// # Errors
    /// Same as [`Root::read`]; `unavailable` if the file system refuses.
    pub fn take_back(
        &self,
        path: &SourcePath,
        (kept, at): (&Root, &Utf8Path),
        ours: &[u8],
    ) -> Result<Option<bool>> {
        let (Some(aside), aside_name) = kept.parent(at, false)? else { return Ok(None) };
        if matches!(open_at(&aside, aside_name), Err(Errno::ENOENT)) {
            return Ok(None);
        }
        let (folder, name) = self.folder_of(path)?;
        let is_ours = |folder: &OwnedFd, name: &str| {
            open_at(folder, name).is_ok_and(|mut file| holds(&mut file, ours))
        };
        if !is_ours(&folder, name) {
            return Ok(Some(false));
        }
        let swap = || swap((&aside, aside_name), (&folder, name));
        swap().map_err(|cause| unwritable(path, cause.into()))?;
        if !is_ours(&aside, aside_name) {
            // Somebody edited it in between: their text goes back.
            swap().map_err(|cause| unwritable(path, cause.into()))?;
            return Ok(Some(false));
        }
        unlink(&aside, aside_name).map_err(|cause| unwritable(path, cause.into()))?;
        kept.drop_empty_folders(at);
        Ok(Some(true))
    }

    /// Returns whether a spare file exists beside a file.
    pub fn has_spare(&self, path: &SourcePath, spare: &str) -> bool {
        let found = self.folder_of(path).map(|(folder, _)| open_at(&folder, spare));
        !matches!(found, Err(_) | Ok(Err(Errno::ENOENT)))
    }

    /// Settles what a crash may have left beside a file: `known` are contents stored elsewhere,
    /// `ours` is the one being written.
    ///
    /// # Errors
    /// Same as [`Root::replace`].
    pub fn settle_spare(
        &self,
        path: &SourcePath,
        spare: &str,
        (ours, known): (&[u8], &[&[u8]]),
    ) -> Result<Spare> {
        let folder = match self.folder_of(path) {
            Ok((folder, _)) => folder,
            Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(Spare::None),
            Err(cause) => return Err(cause),
        };
        let name = path.as_path().file_name().unwrap_or_default();
        let mut file = match open_at(&folder, spare) {
            Ok(file) => file,
            Err(Errno::ENOENT) => return Ok(Spare::None),
            Err(_) => return Ok(Spare::Left),
        };
        let limit = known.iter().map(|it| it.len()).max().unwrap_or(0).max(ours.len());
        let held = read_up_to(&mut file, limit).unwrap_or_default();
        // A prefix of `ours` is a spare that was still being written.
        let is_known = known.iter().any(|it| held == *it) || ours.starts_with(&held);
        // Unknown content: an edit that the exchange took out. If `ours` stands in its place, the
        // crash came before it was put back.
        if !is_known {
            let is_ours = open_at(&folder, name).is_ok_and(|mut it| holds(&mut it, ours));
            if !is_ours || exchange(&folder, spare, name).is_err() {
                return Ok(Spare::Left);
            }
        }
        unlink(&folder, spare).map_err(|cause| unwritable(path, cause.into()))?;
        Ok(if is_known { Spare::Removed } else { Spare::PutBack })
    }

    /// Exchanges the spare file with the original, or changes nothing.
    fn take_place(&self, folder: &OwnedFd, name: &str, it: &Replacement<'_>) -> Result<()> {
        let give_up = |cause: Error| {
            // The spare is still ours: it was never exchanged, or was exchanged back.
            let _ = unlink(folder, it.spare);
            cause
        };
        match exchange(folder, it.spare, name) {
            Ok(()) => {}
            // Some file systems cannot exchange: then compare once more and rename, as git does.
            Err(Errno::EINVAL | Errno::ENOSYS | Errno::EOPNOTSUPP) => {
                let is_same = it.from.is_none_or(|from| {
                    open_at(folder, name).is_ok_and(|mut file| holds(&mut file, from))
                });
                if !is_same {
                    return Err(give_up(dirty(it.path)));
                }
                return nix::fcntl::renameat(folder, it.spare, folder, name)
                    .map_err(|cause| give_up(unwritable(it.path, cause.into())));
            }
            Err(cause @ (Errno::ENOENT | Errno::ENOTDIR)) => {
                return Err(give_up(gone(it.path, cause)));
            }
            Err(cause) => return Err(give_up(unwritable(it.path, cause.into()))),
        }
        // Compare only now: a content read before the exchange could have changed since.
        let is_expected = fault::is_off("swap_compare")
            || it.from.is_none_or(|from| {
                open_at(folder, it.spare).is_ok_and(|mut file| {
                    let is_plain = file.metadata().is_ok_and(|it| it.is_file() && it.nlink() == 1);
                    is_plain && holds(&mut file, from)
                })
            });
        if is_expected {
            return Ok(());
        }
        // Somebody edited it in between: their text goes back. What comes out must then be ours, or
        // it stays.
        let back = exchange(folder, it.spare, name);
        let is_ours = open_at(folder, it.spare).is_ok_and(|mut file| holds(&mut file, it.to));
        if back.is_err() || !is_ours {
            tracing::warn!("{} was changed twice meanwhile: {} is left", it.path, it.spare);
            return Err(dirty(it.path));
        }
        Err(give_up(dirty(it.path)))
    }
}

fn write_spare(
    folder: &OwnedFd,
    it: &Replacement<'_>,
    old: &std::fs::Metadata,
) -> std::io::Result<()> {
    let flags =
        OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let file = nix::fcntl::openat(folder, it.spare, flags, Mode::from_bits_truncate(0o600))?;
    let mut file = File::from(file);
    file.write_all(it.to)?;
    // Only root may change the owner; for anyone else the file is theirs, as when git writes it.
    let _ = fchown(&file, Some(old.uid()), Some(old.gid()));
    file.set_permissions(Permissions::from_mode(old.mode() & 0o7777))?;
    if let Some(modified) = it.modified {
        file.set_modified(modified)?;
    }
    file.sync_all()
}

/// Opens a file in a folder for reading, without following a link.
fn open_at(folder: &OwnedFd, name: &str) -> nix::Result<File> {
    let flags = OFlag::O_RDONLY
        | OFlag::O_NOFOLLOW
        | OFlag::O_NONBLOCK
        | OFlag::O_NOCTTY
        | OFlag::O_CLOEXEC;
    nix::fcntl::openat(folder, name, flags, Mode::empty()).map(File::from)
}

/// Returns whether a file contains exactly these bytes.
fn holds(file: &mut File, bytes: &[u8]) -> bool {
    read_up_to(file, bytes.len()).is_ok_and(|held| held == bytes)
}

/// Reads a file from the start: at most `limit` bytes, and one more if it is longer.
fn read_up_to(file: &mut File, limit: usize) -> std::io::Result<Vec<u8>> {
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::from(IoKind::InvalidInput));
    }
    let mut held = Vec::new();
    let limit = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    std::io::Seek::rewind(file)?;
    file.take(limit).read_to_end(&mut held)?;
    Ok(held)
}

/// Moves the replaced file to where it is kept; returns whether it is there.
fn keep(folder: &OwnedFd, spare: &str, kept: &Root, at: &Utf8Path) -> bool {
    if fault::is_off("late_writes") {
        return false;
    }
    let Ok((Some(aside), name)) = kept.parent(at, true) else { return false };
    match nix::fcntl::renameat(folder, spare, &aside, name) {
        Ok(()) => true,
        Err(cause) => {
            // Another file system, or one without exchange, where no old file is left.
            tracing::debug!("the replaced file is not kept as {at}: {cause}");
            false
        }
    }
}

fn exchange(folder: &OwnedFd, one: &str, other: &str) -> nix::Result<()> {
    swap((folder, one), (folder, other))
}

#[cfg(target_env = "gnu")]
fn swap(one: (&OwnedFd, &str), other: (&OwnedFd, &str)) -> nix::Result<()> {
    if fault::is_absent("rename_exchange") {
        return Err(Errno::EINVAL);
    }
    let flags = nix::fcntl::RenameFlags::RENAME_EXCHANGE;
    nix::fcntl::renameat2(one.0, one.1, other.0, other.1, flags)
}

/// Other C libraries have no binding for it.
#[cfg(not(target_env = "gnu"))]
fn swap(_: (&OwnedFd, &str), _: (&OwnedFd, &str)) -> nix::Result<()> {
    Err(Errno::ENOSYS)
}

fn unlink(folder: &OwnedFd, name: &str) -> nix::Result<()> {
    nix::unistd::unlinkat(folder.as_fd(), name, UnlinkatFlags::NoRemoveDir)
}

fn gone(path: &SourcePath, cause: Errno) -> Error {
    refusal(path.as_path(), SOURCE_GONE, cause)
}

fn dirty(path: &SourcePath) -> Error {
    Error::conflict(SOURCE_DIRTY, format!("{path} has uncommitted changes"))
        .hint("commit, stash or undo them first")
}

pub(super) fn unwritable(path: &SourcePath, cause: std::io::Error) -> Error {
    let error = match cause.kind() {
        IoKind::StorageFull | IoKind::QuotaExceeded => Error::unavailable("the disk is full")
            .code(DISK_FULL)
            .hint("free some space and try again; nothing was committed"),
        IoKind::ReadOnlyFilesystem | IoKind::PermissionDenied => {
            Error::unavailable(format!("{path} cannot be written"))
                .code(READ_ONLY)
                .hint("give the server's user write access to the file and its folder")
        }
        _ => Error::unavailable(format!("cannot write {path}"))
            .code("write_failed")
            .hint("look at the folder of that file; the server's log has the cause"),
    };
    error.source(cause)
}

/// Creates a private file; an existing one is left unchanged.
///
/// # Errors
/// The error of the file system.
pub fn private_file(path: &Utf8Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let made = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match made {
        Ok(mut file) => {
            std::io::Write::write_all(&mut file, bytes)?;
            file.sync_all()
        }
        Err(cause) if cause.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(cause) => Err(cause),
    }
}

/// Creates a private folder inside of `place`.
///
/// # Errors
/// `unavailable` if it cannot be created.
pub fn private_folder(place: &Utf8Path, prefix: &str) -> Result<camino::Utf8PathBuf> {
    let cannot = |cause: Box<dyn std::error::Error + Send + Sync>| {
        Error::unavailable(format!("cannot make a folder in {place}"))
            .hint("check `TMPDIR`, its free space and its permissions")
            .source(cause)
    };
    let made = nix::unistd::mkdtemp(place.join(format!("{prefix}{}", "X".repeat(6))).as_std_path());
    let made = made.map_err(|cause| cannot(cause.into()))?;
    camino::Utf8PathBuf::from_path_buf(made).map_err(|_| cannot("its path is no text".into()))
}
