//! Finds links in the folders of a root, without a look at each entry; moves entries between roots,
//! and sets modes.
//!
//! **Invariant:** no link is followed, neither to what is moved nor to where it goes.

use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use camino::Utf8Path;
use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, RenameFlags, renameat2};
use nix::sys::stat::{Mode, SFlag, fstatat, mkdirat};

use crate::base::{Context, Error, ErrorKind, Result};
use crate::process::root::place::Standing;
use crate::process::root::{FILE_GONE, Root, check_plain, how, refusal, shown};

impl Root {
    /// Returns the links in a folder, and below it if `is_deep`, as paths below the root; with
    /// `are_hard_too` also files that have another name. A folder that is not there, or is a link
    /// itself, has none.
    ///
    /// # Errors
    /// `forbidden` if a folder cannot be listed; `too_large` if there are more than `names_max`
    /// entries; `unavailable` if the file system fails.
    pub fn links_in(
        &self,
        folder: &Path,
        (is_deep, are_hard_too): (bool, bool),
        names_max: usize,
    ) -> Result<Vec<PathBuf>> {
        check_plain(folder)?;
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let (mut folders, mut found, mut left) = (vec![folder.to_owned()], Vec::new(), names_max);
        while let Some(at) = folders.pop() {
            let cannot = || format!("cannot list {}", shown(&at));
            let opened = match nix::fcntl::openat2(self.folder.as_fd(), &at, how(flags)) {
                Ok(opened) => opened,
                Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => continue,
                Err(cause) => return Err(refusal(&shown(&at), FILE_GONE, cause)),
            };
            let mut listing = Dir::from_fd(opened).context(ErrorKind::Unavailable, cannot)?;
            let mut unsure = Vec::new();
            for entry in listing.iter() {
                let entry = entry.context(ErrorKind::Unavailable, cannot)?;
                let name = OsStr::from_bytes(entry.file_name().to_bytes());
                if name == "." || name == ".." {
                    continue;
                }
                left = left.checked_sub(1).ok_or_else(|| {
                    let message = format!("{} has more than {names_max} entries", shown(folder));
                    Error::new(ErrorKind::TooLarge, message)
                })?;
                match entry.file_type() {
                    Some(Type::Symlink) => found.push(at.join(name)),
                    Some(Type::Directory) if is_deep => folders.push(at.join(name)),
                    None => unsure.push(name.to_owned()),
                    Some(Type::File) if are_hard_too => unsure.push(name.to_owned()),
                    Some(_) => {}
                }
            }
            // Some file systems do not tell it in the listing.
            for name in unsure {
                let stat = fstatat(&listing, name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW);
                let is_hard = stat.is_ok_and(|it| are_hard_too && it.st_nlink > 1);
                match stat.map(|it| SFlag::from_bits_truncate(it.st_mode) & SFlag::S_IFMT) {
                    Ok(SFlag::S_IFREG) if is_hard => found.push(at.join(name)),
                    Ok(SFlag::S_IFLNK) => found.push(at.join(name)),
                    Ok(SFlag::S_IFDIR) if is_deep => folders.push(at.join(name)),
                    Ok(_) | Err(Errno::ENOENT) => {}
                    Err(cause) => return Err(Error::unavailable(cannot()).source(cause)),
                }
            }
        }
        Ok(found)
    }

    /// Creates a folder, and those above it, for this account alone. One that exists stays.
    ///
    /// # Errors
    /// `invalid` with code `path_is_link` if a link is on the way; `unavailable` if the file system
    /// refuses.
    pub fn make_private(&self, folder: &Utf8Path) -> Result<()> {
        check_plain(folder)?;
        let gone = || Error::not_found(format!("{folder} is not there")).code(FILE_GONE);
        let mut parts: Vec<&Utf8Path> =
            folder.ancestors().filter(|it| !it.as_str().is_empty()).collect();
        parts.reverse();
        for part in parts {
            let (above, name) = self.parent(part, false)?;
            let above = above.ok_or_else(gone)?;
            match mkdirat(&above, name, Mode::S_IRWXU) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(cause) => {
                    return Err(Error::unavailable(format!("cannot make {part}")).source(cause));
                }
            }
        }
        Ok(())
    }

    /// Moves an entry to a path below another root, in a folder that exists. Returns `false` if
    /// something exists there.
    ///
    /// # Errors
    /// `invalid` with code `path_is_link` if a link is on the way; `not_found` with code
    /// `file_gone`; `unavailable` if the file system refuses.
    pub fn move_to(&self, from: &Path, target: &Root, to: &Path) -> Result<bool> {
        check_plain(from)?;
        check_plain(to)?;
        let (from_shown, to_shown) = (shown(from), shown(to));
        let gone = |path| Error::not_found(format!("{path} is not there")).code(FILE_GONE);
        let (folder, name) = self.folder_above(from, false)?;
        let folder = folder.ok_or_else(|| gone(&from_shown))?;
        let (aside, new) = target.folder_above(to, false)?;
        let aside = aside.ok_or_else(|| gone(&to_shown))?;
        match renameat2(&folder, name, &aside, new, RenameFlags::RENAME_NOREPLACE) {
            Ok(()) => {
                for changed in [folder, aside] {
                    let synced = File::from(changed).sync_all();
                    synced.context(ErrorKind::Unavailable, || format!("cannot sync {to_shown}"))?;
                }
                Ok(true)
            }
            Err(Errno::EEXIST) => Ok(false),
            Err(Errno::ENOENT) => Err(gone(&from_shown)),
            Err(cause) => {
                let message = format!("cannot move {from_shown} to {to_shown}");
                Err(Error::unavailable(message).source(cause))
            }
        }
    }

    /// Returns whether a path is a regular file that has another name, perhaps elsewhere.
    pub fn has_other_name(&self, path: &Path) -> bool {
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let found = nix::fcntl::openat2(self.folder.as_fd(), path, how(flags));
        let meta = found.ok().and_then(|it| File::from(it).metadata().ok());
        meta.is_some_and(|it| it.is_file() && it.nlink() > 1)
    }

    /// Sets the permission bits of a regular file, if it still is one; its content is not touched.
    /// One that has another name, perhaps elsewhere, is written anew, if it has at most
    /// `bytes_max` bytes. Returns whether it did.
    ///
    /// # Errors
    /// `invalid` for a path that is not plain or has a link in it; `unavailable` if the file system
    /// refuses.
    pub fn set_mode(&self, path: &Path, mode: u32, bytes_max: usize) -> Result<bool> {
        check_plain(path)?;
        let cannot = || format!("cannot set the mode of {}", shown(path));
        // A file whose owner may not read it can be opened by its path only.
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let file = match nix::fcntl::openat2(self.folder.as_fd(), path, how(flags)) {
            Ok(file) => File::from(file),
            Err(Errno::ENOENT | Errno::ENOTDIR) => return Ok(false),
            Err(cause) => return Err(refusal(&shown(path), FILE_GONE, cause)),
        };
        let meta = file.metadata().context(ErrorKind::Unavailable, cannot)?;
        if !meta.is_file() || meta.mode() & 0o777 == mode & 0o777 {
            return Ok(meta.is_file());
        }
        if meta.nlink() > 1 {
            let now = self.standing(path, bytes_max)?;
            let Standing::File { bytes, .. } = &now else { return Ok(false) };
            let new = Standing::File { bytes: bytes.clone(), mode: mode & 0o777 };
            return self.swap(path, bytes_max, |it| *it == now, &new);
        }
        let open = format!("/proc/self/fd/{}", file.as_raw_fd());
        let set = std::fs::set_permissions(open, Permissions::from_mode(mode & 0o777));
        set.context(ErrorKind::Unavailable, cannot)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn root() -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::open(Utf8Path::from_path(folder.path()).unwrap()).unwrap();
        (folder, root)
    }

    #[test]
    fn links_are_found_and_none_is_followed() {
        let (folder, root) = root();
        let at = folder.path();
        std::fs::create_dir_all(at.join("logs/refs/heads")).unwrap();
        std::fs::write(at.join("logs/HEAD"), "x").unwrap();
        symlink(at, at.join("logs/refs/loop")).unwrap();
        symlink("gone", at.join("logs/refs/heads/main")).unwrap();
        let find = |name: &str, is_deep| {
            let mut found = root.links_in(Path::new(name), (is_deep, false), 5).unwrap();
            found.sort();
            found
        };
        let deep = ["logs/refs/heads/main", "logs/refs/loop"].map(PathBuf::from);
        assert_eq!(find("logs", true), deep);
        assert_eq!(find("logs/refs", false), [PathBuf::from("logs/refs/loop")]);
        for none in ["logs", "gone", "logs/HEAD", "logs/refs/loop"] {
            assert!(find(none, false).is_empty(), "{none}");
        }
        std::fs::hard_link(at.join("logs/HEAD"), at.join("other")).unwrap();
        let hard = root.links_in(Path::new("logs"), (false, true), 5).unwrap();
        assert_eq!(hard, [PathBuf::from("logs/HEAD")]);
        let cause = root.links_in(Path::new("logs"), (true, false), 4).unwrap_err();
        assert_eq!(cause.kind(), ErrorKind::TooLarge);
    }

    #[test]
    fn nothing_is_moved_through_a_link_or_onto_something() {
        let (folder, root) = root();
        let (outside, at) = (tempfile::tempdir().unwrap(), folder.path());
        std::fs::write(at.join("a"), "a").unwrap();
        std::fs::write(outside.path().join("x"), "PRECIOUS").unwrap();
        symlink(outside.path(), at.join("way")).unwrap();
        let (a, x) = (Path::new("a"), Path::new("way/x"));
        assert!(root.make_private("way/deep".into()).is_err());
        assert!(root.move_to(a, &root, x).is_err());
        assert!(root.move_to(x, &root, Path::new("b")).is_err());
        assert_eq!(std::fs::read_to_string(outside.path().join("x")).unwrap(), "PRECIOUS");
        root.make_private("own/one".into()).unwrap();
        root.make_private("own/one".into()).unwrap();
        assert_eq!(at.join("own").metadata().unwrap().permissions().mode() & 0o777, 0o700);
        std::fs::write(at.join("own/one/b"), "b").unwrap();
        assert!(!root.move_to(a, &root, Path::new("own/one/b")).unwrap());
        assert!(root.move_to(a, &root, Path::new("own/one/a")).unwrap());
        assert_eq!(std::fs::read_to_string(at.join("own/one/a")).unwrap(), "a");
    }

    #[test]
    fn a_mode_is_set_on_a_file_only() {
        let (folder, root) = root();
        let at = folder.path();
        std::fs::write(at.join("a"), "a").unwrap();
        std::fs::set_permissions(at.join("a"), Permissions::from_mode(0o000)).unwrap();
        symlink("a", at.join("l")).unwrap();
        assert!(root.set_mode(Path::new("a"), 0o755, 9).unwrap());
        assert_eq!(at.join("a").metadata().unwrap().permissions().mode() & 0o777, 0o755);
        assert!(!root.set_mode(Path::new("gone"), 0o755, 9).unwrap());
        std::fs::hard_link(at.join("a"), at.join("b")).unwrap();
        assert!(root.has_other_name(Path::new("a")));
        assert!(!root.set_mode(Path::new("a"), 0o700, 0).unwrap());
        assert!(root.set_mode(Path::new("a"), 0o700, 9).unwrap());
        let facts = |name: &str| {
            let mode = at.join(name).metadata().unwrap().permissions().mode() & 0o777;
            (mode, std::fs::read_to_string(at.join(name)).unwrap())
        };
        assert_eq!((facts("a"), facts("b")), ((0o700, "a".into()), (0o755, "a".into())));
        assert!(
            !root.has_other_name(Path::new("a"))
                && root.set_mode(Path::new("a"), 0o755, 9).unwrap()
        );
        assert!(!root.set_mode(Path::new("l"), 0o600, 9).unwrap_or(false));
        assert_eq!(at.join("a").metadata().unwrap().permissions().mode() & 0o777, 0o755);
    }
}
