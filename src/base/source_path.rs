//! A document's path, validated once at the edge.

use std::fmt;
use std::str::FromStr;

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use rusqlite::ToSql;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};
use serde::{Deserialize, Serialize};

use crate::base::limit::SOURCE_PATH_BYTES_MAX;
use crate::base::{Error, Result};

/// A document's path: relative, below the root, `/`-separated, without `.`, `..`, hidden or `.git`
/// components and control characters. Whether the file exists, or a symbolic link is on the way, is
/// only known when it is opened (`process::Root`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SourcePath(Utf8PathBuf);

impl SourcePath {
    /// Returns the path as text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Returns the path as a relative path.
    pub fn as_path(&self) -> &Utf8Path {
        &self.0
    }
}

impl TryFrom<String> for SourcePath {
    type Error = Error;
    fn try_from(text: String) -> Result<Self> {
        let refuse = |why: &str| {
            let shown: String = text.chars().take(120).flat_map(char::escape_debug).collect();
            Err(Error::invalid(format!("`{shown}` is not a path of a source: {why}"))
                .code("bad_path")
                .hint("list sources: wiki-browser source list"))
        };
        if text.is_empty() {
            return refuse("it is empty");
        }
        if text.len() > SOURCE_PATH_BYTES_MAX {
            return refuse(&format!("it has more than {SOURCE_PATH_BYTES_MAX} bytes"));
        }
        if text.chars().any(char::is_control) {
            return refuse("it holds a control character");
        }
        if text.contains('\\') {
            return refuse("it holds a backslash");
        }
        let path = Utf8Path::new(&text);
        let mut plain = Utf8PathBuf::new();
        for part in path.components() {
            let Utf8Component::Normal(name) = part else {
                return refuse("it must be relative and stay below the root");
            };
            if name.starts_with('.') {
                return refuse("it has a hidden part");
            }
            plain.push(name);
        }
        // `a//b`, `a/./b` and `a/` equal `a/b` in Rust, but not in SQL and git: allow only one
        // spelling.
        if plain.as_str() != text {
            return refuse("it has an empty or `.` part");
        }
        Ok(Self(plain))
    }
}

impl FromStr for SourcePath {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        Self::try_from(text.to_owned())
    }
}

impl From<SourcePath> for String {
    fn from(path: SourcePath) -> String {
        path.0.into_string()
    }
}

impl fmt::Display for SourcePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl ToSql for SourcePath {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::from(self.as_str()))
    }
}

impl FromSql for SourcePath {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let text = String::column_result(value)?;
        Self::try_from(text).map_err(|cause| FromSqlError::Other(Box::new(cause)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_relative_paths_are_sources() {
        for good in ["a.md", "docs/a b.md", "docs/ä/ü.md", "x/y/z..md", "a'b\"c.md"] {
            assert!(good.parse::<SourcePath>().is_ok(), "{good}");
        }
        let long = "a/".repeat(3000) + "b";
        for bad in [
            "",
            "/etc/passwd",
            "../a.md",
            "a/../../b",
            "a/..",
            ".",
            "./a",
            "a//b",
            "a/",
            "a/./b",
            ".git/config",
            "a/.git/hooks/x",
            ".hidden.md",
            "a\nb.md",
            "a\0b",
            "a\\b",
            long.as_str(),
        ] {
            assert!(bad.parse::<SourcePath>().is_err(), "{bad:?}");
        }
    }
}
