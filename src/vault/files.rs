//! Reading and changing files of a vault.
//!
//! **Invariant:** a file is changed only if it still has the content that the caller saw.

use camino::Utf8Path;

use crate::base::{Error, ErrorKind, Result, digest_hex};
use crate::process::{EntryKind, Root, Standing};
use crate::vault::path::is_name;
use crate::vault::{Vault, VaultPath};

/// Largest file that is read, written, or saved before a change.
pub const FILE_BYTES_MAX: usize = 1024 * 1024;
/// Most names read of a folder.
pub(super) const NAMES_MAX: usize = 20_000;
/// The digest of a missing file.
pub const DIGEST_OF_NOTHING: &str = "none";
/// The digest of an empty folder.
const DIGEST_OF_FOLDER: &str = "folder";

/// The content of a file at a path, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    bytes: Option<Vec<u8>>,
    mode: u32,
}

impl Image {
    /// Returns the image of a missing file.
    pub fn nothing() -> Image {
        Image { bytes: None, mode: 0o644 }
    }

    /// Returns the image of a file with the permissions of another.
    pub fn of(bytes: Vec<u8>, like: &Image) -> Image {
        Image { bytes: Some(bytes), mode: like.mode }
    }

    /// Returns the content, if it is a file.
    pub fn bytes(&self) -> Option<&[u8]> {
        self.bytes.as_deref()
    }

    /// Returns the content, if it is a file.
    pub fn into_bytes(self) -> Option<Vec<u8>> {
        self.bytes
    }

    /// Returns the content as text, if it is a file with text.
    pub fn text(&self) -> Option<&str> {
        self.bytes().and_then(|it| std::str::from_utf8(it).ok()).filter(|it| !it.contains('\0'))
    }

    /// Returns its digest.
    pub fn digest(&self) -> String {
        self.bytes().map_or_else(|| DIGEST_OF_NOTHING.to_owned(), digest_hex)
    }

    fn is(&self, standing: &Standing) -> bool {
        match (standing, &self.bytes) {
            (Standing::Nothing, None) => true,
            (Standing::File { bytes, .. }, Some(own)) => bytes == own,
            _ => false,
        }
    }

    fn standing(&self) -> Standing {
        match &self.bytes {
            None => Standing::Nothing,
            Some(bytes) => Standing::File { bytes: bytes.clone(), mode: self.mode & 0o777 },
        }
    }
}

/// A name in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The name; a folder's ends with a slash.
    pub name: String,
    /// The size of a file.
    pub bytes: Option<u64>,
    /// When it was last changed, in milliseconds since 1970.
    pub modified_ms: i64,
}

impl Vault {
    /// Returns the content at a path.
    ///
    /// # Errors
    /// `invalid` with code `not_a_file` for folders, links and devices; `too_large`; `unavailable`.
    pub fn image(&self, path: &VaultPath) -> Result<Image> {
        self.image_within(path, FILE_BYTES_MAX)
    }

    /// Returns the content at a path, with another limit.
    ///
    /// # Errors
    /// As [`Vault::image`].
    pub fn image_within(&self, path: &VaultPath, bytes_max: usize) -> Result<Image> {
        let refuse = |what: &str| {
            Err(Error::invalid(format!("{path} is {what}"))
                .code("not_a_file")
                .hint("only regular files are read and changed"))
        };
        if let Some(link) = self.link_on_the_way(path)? {
            return Err(Error::invalid(format!("{link} is a link")).code("path_is_link"));
        }
        match self.root.entry(path.as_path())? {
            None => return Ok(Image::nothing()),
            Some(it) if it.kind == EntryKind::Folder => return refuse("a folder"),
            Some(it) if it.kind != EntryKind::File => return refuse("no regular file"),
            Some(it) if it.bytes > bytes_max as u64 => {
                let message = format!("{path} has more than {bytes_max} bytes");
                return Err(Error::new(ErrorKind::TooLarge, message));
            }
            Some(_) => {}
        }
        match self.root.standing(path.as_path(), bytes_max)? {
            Standing::Nothing => Ok(Image::nothing()),
            Standing::File { bytes, mode } => Ok(Image { bytes: Some(bytes), mode }),
            Standing::Link { .. } => refuse("a link"),
            Standing::Other { .. } => refuse("no regular file"),
        }
    }

    /// Returns the bytes of a file, with another limit; `None` if there is no file.
    ///
    /// # Errors
    /// `too_large`; `unavailable`.
    pub fn bytes(&self, path: &VaultPath, bytes_max: usize) -> Result<Option<Vec<u8>>> {
        match self.root.entry(path.as_path())? {
            Some(it) if it.kind == EntryKind::File && it.bytes > bytes_max as u64 => {
                let message = format!("{path} has more than {bytes_max} bytes");
                return Err(Error::new(ErrorKind::TooLarge, message));
            }
            _ => {}
        }
        match self.root.standing(path.as_path(), bytes_max)? {
            Standing::File { bytes, .. } => Ok(Some(bytes)),
            _ => Ok(None),
        }
    }

    /// Creates a file. Returns `false` if something is at its path.
    ///
    /// # Errors
    /// `unavailable` if the file system refuses.
    pub fn add(&self, path: &VaultPath, bytes: Vec<u8>) -> Result<bool> {
        let most = bytes.len().max(FILE_BYTES_MAX);
        let new = Standing::File { bytes, mode: 0o644 };
        self.root.swap_here(path.as_path(), most, |it| *it == Standing::Nothing, &new)
    }

    /// Removes a file with this digest. Returns whether it did.
    ///
    /// # Errors
    /// `unavailable` if the file system refuses.
    pub fn remove(&self, path: &VaultPath, digest: &str, bytes_max: usize) -> Result<bool> {
        let is_it = |it: &Standing| match it {
            Standing::File { bytes, .. } => digest_hex(bytes) == digest,
            _ => false,
        };
        self.root.swap_here(path.as_path(), bytes_max, is_it, &Standing::Nothing)
    }

    /// Finds a link among the parent folders, to report it instead of a missing file.
    fn link_on_the_way(&self, path: &VaultPath) -> Result<Option<String>> {
        let folders: Vec<&Utf8Path> = path.as_path().ancestors().skip(1).collect();
        for folder in folders.into_iter().rev().filter(|it| !it.as_str().is_empty()) {
            match self.root.entry(folder)? {
                Some(it) if it.kind == EntryKind::Link => return Ok(Some(folder.to_string())),
                Some(_) => {}
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Refuses a file with a second hard link, whose other name would keep the old content.
    ///
    /// # Errors
    /// `invalid` with code `hard_link`.
    pub fn refuse_hard_link(&self, path: &VaultPath) -> Result<()> {
        match self.root.entry(path.as_path())? {
            Some(it) if it.kind == EntryKind::File && it.links > 1 => {
                Err(Error::invalid(format!("{path} has a second name (a hard link)"))
                    .code("hard_link")
                    .hint("it is not changed here; copy it to a file of its own"))
            }
            _ => Ok(()),
        }
    }

    /// Replaces the content at a path if it is still `before`. Returns whether it did; if not,
    /// nothing has changed.
    ///
    /// # Errors
    /// `unavailable` if the file system refuses.
    pub fn swap(&self, path: &VaultPath, before: &Image, after: &Image) -> Result<bool> {
        let is_expected =
            |it: &Standing| before.is(it) || crate::base::fault::is_off("swap_compare");
        self.root.swap_here(path.as_path(), FILE_BYTES_MAX, is_expected, &after.standing())
    }

    /// Moves a file to an unused path. Returns whether it did.
    ///
    /// # Errors
    /// `not_found` with code `file_gone`; `unavailable`.
    pub fn rename(&self, from: &VaultPath, to: &VaultPath) -> Result<bool> {
        self.root.rename(from.as_path(), to.as_path())
    }

    /// Removes an empty folder. Returns whether it did.
    ///
    /// # Errors
    /// `unavailable` if the file system refuses.
    pub fn remove_folder(&self, path: &VaultPath) -> Result<bool> {
        self.root.remove_folder(path.as_path())
    }

    /// Returns the digest of the content at a path; all folders have the same.
    ///
    /// # Errors
    /// As [`Vault::image`].
    pub fn digest(&self, path: &VaultPath) -> Result<String> {
        match self.is_folder(path)? {
            true => Ok(DIGEST_OF_FOLDER.to_owned()),
            false => Ok(self.image(path)?.digest()),
        }
    }

    /// Returns whether a file was last changed before a time, in milliseconds since 1970.
    ///
    /// # Errors
    /// `unavailable` if the file system does not answer.
    pub fn is_before(&self, path: &VaultPath, before_ms: i64) -> Result<bool> {
        let entry = self.root.entry(path.as_path())?;
        Ok(entry.is_some_and(|it| it.kind == EntryKind::File && it.modified_ms < before_ms))
    }

    /// Returns whether a folder is at a path.
    ///
    /// # Errors
    /// `unavailable` if the file system does not answer.
    pub fn is_folder(&self, path: &VaultPath) -> Result<bool> {
        Ok(self.root.entry(path.as_path())?.is_some_and(|it| it.kind == EntryKind::Folder))
    }

    /// Returns whether a folder has no names at all, not even hidden ones.
    ///
    /// # Errors
    /// `not_found` with code `file_gone`; `invalid` for anything but a folder.
    pub fn is_empty(&self, folder: &VaultPath) -> Result<bool> {
        match self.root.raw_names(folder.as_path(), 1) {
            Ok(names) => Ok(names.is_empty()),
            Err(cause) if cause.kind() == ErrorKind::TooLarge => Ok(false),
            Err(cause) => Err(cause),
        }
    }

    /// Returns the names in a folder, or in the vault, in order; and how many were left out because
    /// they are hidden, links, devices or invalid.
    ///
    /// # Errors
    /// `not_found` with code `file_gone`; `too_large`; `invalid` for anything but a folder.
    pub fn list(&self, folder: Option<&VaultPath>) -> Result<(Vec<Listed>, usize)> {
        list(&self.root, folder.map(VaultPath::as_path))
    }
}

pub(super) fn list(root: &Root, folder: Option<&Utf8Path>) -> Result<(Vec<Listed>, usize)> {
    let names = root.names(folder.unwrap_or(Utf8Path::new(".")), NAMES_MAX)?;
    let all = names.len();
    let mut listed = Vec::new();
    for name in names.into_iter().filter(|it| is_name(it)) {
        let path = folder.map_or_else(|| name.clone().into(), |it| it.join(&name));
        let Some(entry) = root.entry(&path)? else { continue };
        let modified_ms = entry.modified_ms;
        match entry.kind {
            EntryKind::File => {
                listed.push(Listed { name, bytes: Some(entry.bytes), modified_ms });
            }
            EntryKind::Folder => {
                listed.push(Listed { name: format!("{name}/"), bytes: None, modified_ms });
            }
            EntryKind::Link | EntryKind::Other => {}
        }
    }
    listed.sort_by(|a, b| a.name.cmp(&b.name));
    let left_out = all - listed.len();
    Ok((listed, left_out))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vault() -> (tempfile::TempDir, Vault) {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(folder.path()).unwrap();
        std::fs::create_dir_all(path.join("vault/notes")).unwrap();
        std::fs::write(path.join("outside"), "SECRET").unwrap();
        std::fs::write(path.join("vault/notes/a.md"), "one\n").unwrap();
        let vault = Vault::open(&path.join("vault"), &[]).unwrap();
        (folder, vault)
    }

    fn path(text: &str) -> VaultPath {
        text.parse().unwrap()
    }

    #[allow(clippy::disallowed_methods, reason = "a test makes a pipe")]
    fn pipe(path: &Utf8Path) {
        let made = std::process::Command::new("/usr/bin/mkfifo").arg(path).status().unwrap();
        assert!(made.success());
    }

    /// Fails with `WB_WITHOUT=beneath`.
    #[test]
    fn g44_no_path_leads_out_of_a_vault() {
        let (folder, vault) = vault();
        let base = Utf8Path::from_path(folder.path()).unwrap();
        let own = base.join("vault");
        std::os::unix::fs::symlink(base.join("outside"), own.join("link")).unwrap();
        std::os::unix::fs::symlink(base, own.join("up")).unwrap();
        std::os::unix::fs::symlink("nowhere", own.join("dangling")).unwrap();
        std::fs::hard_link(base.join("outside"), own.join("twin")).unwrap();
        pipe(&own.join("pipe"));
        for (at, code) in [
            ("link", "not_a_file"),
            ("dangling", "not_a_file"),
            ("up/outside", "path_is_link"),
            ("up/vault/notes/a.md", "path_is_link"),
            ("pipe", "not_a_file"),
            ("notes", "not_a_file"),
        ] {
            assert_eq!(vault.image(&path(at)).unwrap_err().code_str(), code, "{at}");
        }
        assert_eq!(vault.refuse_hard_link(&path("twin")).unwrap_err().code_str(), "hard_link");
        vault.refuse_hard_link(&path("notes/a.md")).unwrap();
        let new = Image::of(b"mine".to_vec(), &Image::nothing());
        assert!(vault.swap(&path("up/new"), &Image::nothing(), &new).is_err());
        assert!(!vault.swap(&path("link"), &Image::nothing(), &new).unwrap());
        assert!(vault.rename(&path("notes/a.md"), &path("up/stolen")).is_err());
        assert!(vault.list(Some(&path("up"))).is_err());
        let (listed, left_out) = vault.list(None).unwrap();
        let names: Vec<&str> = listed.iter().map(|it| it.name.as_str()).collect();
        assert_eq!((names, left_out), (vec!["notes/", "twin"], 4));
        assert_eq!(std::fs::read_to_string(base.join("outside")).unwrap(), "SECRET");
        assert!(!base.join("new").exists() && !base.join("stolen").exists());
    }

    /// Fails with `WB_WITHOUT=swap_compare`.
    #[test]
    fn a_file_that_has_changed_is_not_written() {
        let (folder, vault) = vault();
        let at = path("notes/a.md");
        let seen = vault.image(&at).unwrap();
        assert_eq!((seen.text(), seen.digest().len()), (Some("one\n"), 64));
        std::fs::write(folder.path().join("vault/notes/a.md"), "two\n").unwrap();
        let new = Image::of(b"three\n".to_vec(), &seen);
        assert!(!vault.swap(&at, &seen, &new).unwrap());
        assert_eq!(vault.image(&at).unwrap().text(), Some("two\n"));
        let seen = vault.image(&at).unwrap();
        assert!(vault.swap(&at, &seen, &new).unwrap());
        assert!(vault.swap(&at, &new, &Image::nothing()).unwrap());
        assert_eq!(vault.digest(&at).unwrap(), DIGEST_OF_NOTHING);
        assert!(vault.is_folder(&path("notes")).unwrap(), "its folder stays");
        assert!(vault.remove_folder(&path("notes")).unwrap());
    }
}
