//! Places in the script, and functions of it by number.

use std::fmt;

use camino::Utf8PathBuf;
use serde::Serialize;

/// A place in a file of the script; lines and columns count from one, columns count characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Location {
    /// Path relative to the script's folder.
    pub file: Utf8PathBuf,
    /// Line.
    pub line: u32,
    /// Column.
    pub column: u32,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// A function of the script by its number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Slot {
    /// Its number; the same in every VM of a generation.
    pub number: u32,
    /// Where it is declared.
    pub at: Location,
}
