//! A path in a vault, validated once at the edge.

use std::fmt;
use std::str::FromStr;

use camino::Utf8Path;
use unicode_normalization::UnicodeNormalization as _;

use crate::base::{Error, Result};

/// Longest path, in bytes.
const PATH_BYTES_MAX: usize = 1_024;
/// Longest name of a file or folder, in bytes.
const NAME_BYTES_MAX: usize = 255;
/// Deepest path.
const DEPTH_MAX: usize = 32;

/// A file's path: relative, below the vault, `/`-separated, in composed Unicode, without `.`, `..`,
/// hidden names, backslashes and control characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VaultPath(String);

impl VaultPath {
    /// Returns the path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the path as a relative path.
    pub fn as_path(&self) -> &Utf8Path {
        Utf8Path::new(&self.0)
    }

    /// Returns whether it equals a folder or is in it.
    pub fn is_in(&self, folder: &str) -> bool {
        let rest = self.0.strip_prefix(folder);
        rest.is_some_and(|it| it.is_empty() || it.starts_with('/'))
    }
}

/// Returns whether a name is allowed in a vault's path.
pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && !name.starts_with('.')
        && !name.contains(['\\', '/'])
        && !name.chars().any(char::is_control)
        && name.nfc().eq(name.chars())
}

impl FromStr for VaultPath {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let refuse = |why: &str| {
            let shown: String = text.chars().take(120).flat_map(char::escape_debug).collect();
            Err(Error::invalid(format!("`{shown}` is not a path in the vault: {why}"))
                .code("bad_path")
                .hint("give a path such as notes/today.md; list_directory names what is there"))
        };
        if text.is_empty() || text.len() > PATH_BYTES_MAX {
            return refuse("it has 1 to 1,024 bytes");
        }
        if text.starts_with('/') || text.ends_with('/') {
            return refuse("it neither begins nor ends with a slash");
        }
        if text.split('/').count() > DEPTH_MAX {
            return refuse("it leads too deep");
        }
        if let Some(name) = text.split('/').find(|it| !is_name(it)) {
            return refuse(match name {
                "" | "." | ".." => "a part of it is empty, `.` or `..`",
                it if it.starts_with('.') => "hidden files are not part of the vault",
                it if it.len() > NAME_BYTES_MAX => "a name in it is too long",
                it if !it.nfc().eq(it.chars()) => "it is not in composed Unicode (NFC)",
                _ => "it has a backslash or a control character",
            });
        }
        Ok(VaultPath(text.to_owned()))
    }
}

impl fmt::Display for VaultPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_paths_are_paths() {
        for good in ["a", "a/b.md", "Grüße/2026 11 22.md", "a..b", "agent/actions/x.prompt.md"] {
            assert_eq!(good.parse::<VaultPath>().unwrap().as_str(), good);
        }
        let long = format!("a/{}", "x".repeat(256));
        let deep = ["a"; 33].join("/");
        let decomposed = "u\u{308}";
        for bad in [
            "",
            "/a",
            "a/",
            "a//b",
            ".",
            "..",
            "a/../b",
            "./a",
            ".git/config",
            "a/.b",
            "a\\b",
            "a\nb",
            "a\0",
            &long,
            &deep,
            decomposed,
        ] {
            assert_eq!(bad.parse::<VaultPath>().unwrap_err().code_str(), "bad_path", "{bad:?}");
        }
        let path: VaultPath = "agent/runs/x".parse().unwrap();
        assert!(path.is_in("agent") && path.is_in("agent/runs") && !path.is_in("agent/run"));
    }
}
