//! Files of the script, places in them, and numbered functions.

use std::fmt;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A place in a file of the script; lines and columns count from one, columns count characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Location {
    /// Path relative to the script's folder; shared, since a script has thousands of places.
    #[serde(serialize_with = "path", deserialize_with = "read_path")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub file: Arc<Utf8Path>,
    /// Line.
    pub line: u32,
    /// Column.
    pub column: u32,
}

fn path<S: Serializer>(file: &Arc<Utf8Path>, to: S) -> std::result::Result<S::Ok, S::Error> {
    to.serialize_str(file.as_str())
}

fn read_path<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Arc<Utf8Path>, D::Error> {
    Utf8PathBuf::deserialize(from).map(|it| Arc::from(it.as_path()))
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// A numbered function of the script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Slot {
    /// Its number; the same in every VM of a generation.
    pub number: u32,
    /// Where it is declared.
    pub at: Location,
}

/// A file of the script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ScriptFile {
    /// Path relative to the script's folder.
    pub path: Utf8PathBuf,
    /// The text when it was loaded; shared, since it is used three times during loading.
    #[serde(serialize_with = "shared_text")]
    pub text: Arc<str>,
}

fn shared_text<S: Serializer>(text: &Arc<str>, to: S) -> std::result::Result<S::Ok, S::Error> {
    to.serialize_str(text)
}
