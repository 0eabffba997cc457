//! Reads the files of a script: only below its folder, without links.
//!
//! **Invariant:** a generation that is built again takes its stored text, never the disk.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsRawFd;

use camino::{Utf8Path, Utf8PathBuf};

use crate::base::limit::SCRIPT_TEXT_BYTES_MAX;
use crate::base::{Error, Result};

/// Largest file of a script, in bytes.
pub(crate) const FILE_BYTES_MAX: u64 = crate::base::limit::SCRIPT_FILE_BYTES_MAX;
/// Most files of a script.
pub(crate) const FILES_MAX: usize = crate::base::limit::SCRIPT_FILES_MAX;

/// Where the text of a script comes from.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// The folder.
    Disk,
    /// The files of a loaded generation.
    Stored(BTreeMap<Utf8PathBuf, String>),
}

impl Origin {
    /// Returns the text of a file.
    ///
    /// # Errors
    /// `not_found`, or `invalid` for links, large files and text that is not UTF-8.
    pub(crate) fn read(&self, folder: &Utf8Path, path: &Utf8Path) -> Result<String> {
        match self {
            Origin::Disk => read_below(folder, path, FILE_BYTES_MAX),
            Origin::Stored(files) => stored(files, path),
        }
    }

    /// Returns a text that the script reads beside its own.
    ///
    /// # Errors
    /// As [`Origin::read`].
    pub(crate) fn read_text(&self, folder: &Utf8Path, path: &Utf8Path) -> Result<String> {
        match self {
            Origin::Disk => read_below(folder, path, SCRIPT_TEXT_BYTES_MAX),
            Origin::Stored(files) => stored(files, path),
        }
    }
}

fn stored(files: &BTreeMap<Utf8PathBuf, String>, path: &Utf8Path) -> Result<String> {
    files
        .get(path)
        .cloned()
        .ok_or_else(|| Error::not_found(format!("{path} is not a part of the loaded generation")))
}

/// Returns the file that `require "a.b"` means.
///
/// # Errors
/// `invalid` unless the name is plain words parted by dots.
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

/// Reads a text file below a folder. The folder must be canonical.
///
/// # Errors
/// As `Origin::read`.
pub(crate) fn read_below(folder: &Utf8Path, path: &Utf8Path, bytes_max: u64) -> Result<String> {
    let full = folder.join(path);
    let cannot = |cause: std::io::Error| match cause.kind() {
        std::io::ErrorKind::NotFound => Error::not_found(format!("there is no {path}")),
        _ => Error::unavailable(format!("cannot read {path}: {cause}")),
    };
    // Looked at before it is opened: opening a pipe would wait for its writer.
    let about = fs::symlink_metadata(&full).map_err(cannot)?;
    if about.is_symlink() {
        return Err(Error::invalid(format!("{path} is a link")));
    }
    if !about.is_file() {
        return Err(Error::invalid(format!("{path} is not a file")));
    }
    let mut file = File::open(&full).map_err(cannot)?;
    // The name of the open file tells whether a link was on the way, even one made just now.
    let real = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).map_err(cannot)?;
    if real != full.as_std_path() {
        return Err(Error::invalid(format!("{path} is reached through a link")));
    }
    let mut bytes = Vec::new();
    file.by_ref().take(bytes_max + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > bytes_max {
        return Err(Error::invalid(format!("{path} is larger than {} KiB", bytes_max / 1024)));
    }
    String::from_utf8(bytes).map_err(|_| Error::invalid(format!("{path} is not UTF-8")))
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
