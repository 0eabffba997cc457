//! Reads the files of a script: only below its folder, without following links.
//!
//! **Invariant:** rebuilding a generation uses its stored texts, never the disk.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};

use crate::base::{Error, Result};

/// Largest file of a script, in bytes.
pub(crate) const FILE_BYTES_MAX: u64 = crate::base::limit::SCRIPT_FILE_BYTES_MAX;
/// Most files of a script.
pub(crate) const FILES_MAX: usize = crate::base::limit::SCRIPT_FILES_MAX;

/// The code for a file that is not UTF-8.
pub(crate) const NOT_UTF8: &str = "not-utf8";
/// Most files and folders searched for a similar module name.
const LOOKED_AT_MAX: usize = 500;

/// The origin of the texts of a script.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// The folder.
    Disk,
    /// The folder, with these files in place of its own.
    Changed(BTreeMap<Utf8PathBuf, String>),
    /// The files of a loaded generation.
    Stored(BTreeMap<Utf8PathBuf, Arc<str>>),
}

impl Origin {
    /// Returns the text of a file of the script.
    ///
    /// # Errors
    /// `not_found`, or `invalid` for links, large files and text that is not UTF-8.
    pub(crate) fn read(&self, folder: &Utf8Path, path: &Utf8Path) -> Result<String> {
        self.read_at_most(folder, path, FILE_BYTES_MAX)
    }

    /// Returns the text of a file below the folder.
    ///
    /// # Errors
    /// Same as [`Origin::read`].
    pub(crate) fn read_at_most(
        &self,
        folder: &Utf8Path,
        path: &Utf8Path,
        bytes_max: u64,
    ) -> Result<String> {
        match self {
            Origin::Disk => read_below(folder, path, bytes_max),
            Origin::Changed(files) => match files.get(path) {
                Some(text) => Ok(text.clone()),
                None => read_below(folder, path, bytes_max),
            },
            Origin::Stored(files) => files.get(path).map(|it| it.to_string()).ok_or_else(|| {
                Error::not_found(format!("{path} is not a part of the loaded generation"))
            }),
        }
    }
}

/// Returns the names of the existing modules, as for `require`.
pub(crate) fn modules(folder: &Utf8Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut looked_at = 0;
    let mut waiting = vec![folder.to_owned()];
    while let Some(here) = waiting.pop() {
        let Ok(entries) = here.read_dir_utf8() else { continue };
        for entry in entries.flatten() {
            looked_at += 1;
            if looked_at > LOOKED_AT_MAX {
                return found;
            }
            let (name, path) = (entry.file_name(), entry.path());
            let is_folder = entry.file_type().is_ok_and(|it| it.is_dir());
            if is_folder && !name.starts_with('.') {
                waiting.push(path.to_owned());
            } else if let (Some(stem), Ok(below)) =
                (name.strip_suffix(".lua"), path.strip_prefix(folder))
            {
                let parent = below.parent().unwrap_or(Utf8Path::new(""));
                found.push(parent.join(stem).as_str().replace('/', "."));
            }
        }
    }
    found
}

/// Returns line, column and line text of the first byte that is not UTF-8.
pub(crate) fn first_bad_byte(folder: &Utf8Path, path: &Utf8Path) -> Option<(u32, u32, String)> {
    let full = folder.join(path);
    // Opening a pipe would block until it has a writer.
    let is_file = fs::symlink_metadata(&full).is_ok_and(|it| it.is_file());
    let bytes = is_file.then(|| fs::read(&full).ok()).flatten()?;
    let end = std::str::from_utf8(&bytes).err()?.valid_up_to();
    let before = std::str::from_utf8(&bytes[..end]).ok()?;
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = u32::try_from(before.matches('\n').count() + 1).ok()?;
    let column = u32::try_from(before[start..].chars().count() + 1).ok()?;
    let text = bytes[start..].split(|byte| *byte == b'\n').next().unwrap_or_default();
    Some((line, column, String::from_utf8_lossy(text).into_owned()))
}

/// Returns the file for `require "a.b"`.
///
/// # Errors
/// `invalid` unless the name consists of plain words separated by dots.
pub(crate) fn module_path(name: &str) -> Result<Utf8PathBuf> {
    let is_plain = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    if name.len() > 200 || !name.split('.').all(is_plain) {
        return Err(Error::invalid(format!(
            "`{}` is not a module: write plain names parted by dots, as in \"kinds.review\"",
            crate::base::truncate_chars(name, 80).escape_debug()
        )));
    }
    Ok(Utf8PathBuf::from(format!("{}.lua", name.replace('.', "/"))))
}

/// Reads a text file below a folder, which must be canonical.
///
/// # Errors
/// Same as `Origin::read`.
pub(crate) fn read_below(folder: &Utf8Path, path: &Utf8Path, bytes_max: u64) -> Result<String> {
    let full = folder.join(path);
    let cannot = |cause: std::io::Error| match cause.kind() {
        std::io::ErrorKind::NotFound => Error::not_found(format!("there is no {path}")),
        _ => Error::unavailable(format!("cannot read {path}: {cause}")),
    };
    // Checked before opening: opening a pipe would block until it has a writer.
    let about = fs::symlink_metadata(&full).map_err(cannot)?;
    if about.is_symlink() {
        return Err(Error::invalid(format!("{path} is a link")));
    }
    if !about.is_file() {
        return Err(Error::invalid(format!("{path} is not a file")));
    }
    let mut file = File::open(&full).map_err(cannot)?;
    // The name of the open file shows whether a link was followed, even one created just now.
    let real = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).map_err(cannot)?;
    if real != full.as_std_path() {
        return Err(Error::invalid(format!("{path} is reached through a link")));
    }
    let mut bytes = Vec::new();
    file.by_ref().take(bytes_max + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > bytes_max {
        return Err(Error::invalid(format!("{path} is larger than {} KiB", bytes_max / 1024)));
    }
    String::from_utf8(bytes).map_err(|cause| {
        let end = cause.utf8_error().valid_up_to();
        let line = cause.as_bytes()[..end].iter().filter(|byte| **byte == b'\n').count() + 1;
        Error::invalid(format!("{path} is not UTF-8: line {line}")).code(NOT_UTF8)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_plain_names_parted_by_dots() {
        assert_eq!(module_path("kinds.re-view").unwrap(), "kinds/re-view.lua");
        for bad in ["", ".", "..", "../x", "a/b", "a..b", ".a", "a.", "/etc/x", "a\0b", "ä"] {
            assert!(module_path(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_link_is_never_followed() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8PathBuf::from_path_buf(folder.path().canonicalize().unwrap()).unwrap();
        fs::create_dir_all(folder.join("in")).unwrap();
        fs::create_dir_all(folder.join("out/deep")).unwrap();
        fs::write(folder.join("out/deep/x.lua"), "x").unwrap();
        std::os::unix::fs::symlink(folder.join("out/deep/x.lua"), folder.join("in/x.lua")).unwrap();
        std::os::unix::fs::symlink(folder.join("out/deep"), folder.join("in/deep")).unwrap();
        let inside = folder.join("in");
        for bad in ["x.lua", "deep/x.lua", "deep", "none.lua"] {
            assert!(read_below(&inside, Utf8Path::new(bad), 10).is_err(), "{bad}");
        }
        let outside = folder.join("out");
        assert_eq!(read_below(&outside, Utf8Path::new("deep/x.lua"), 10).unwrap(), "x");
        assert!(read_below(&outside, Utf8Path::new("deep/x.lua"), 0).is_err());
    }
}
