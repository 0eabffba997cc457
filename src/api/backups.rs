//! Copies of the database.

use camino::Utf8PathBuf;
use serde::{Deserialize, Serialize};

use crate::base::Millis;

/// A copy in the site's folder of copies.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Backup {
    /// Its file.
    #[cfg_attr(test, schemars(with = "String"))]
    pub path: Utf8PathBuf,
    /// When it was begun, as its name says.
    pub at: Millis,
    /// Its size in bytes.
    pub bytes: u64,
    /// Whether it was made by itself.
    pub daily: bool,
    /// Whose copy it is, if its name says that.
    #[serde(skip)]
    pub key: Option<String>,
}

/// What was made.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "BackupMade"))]
pub struct Made {
    /// The file.
    #[cfg_attr(test, schemars(with = "String"))]
    pub path: Utf8PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its last migration.
    pub version: i64,
    /// How long it took.
    pub took_ms: i64,
    /// Older copies that were removed.
    #[cfg_attr(test, schemars(with = "Vec<String>"))]
    pub removed: Vec<Utf8PathBuf>,
}

/// The copies of a site.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BackupList {
    /// Newest first.
    pub items: Vec<Backup>,
    /// Nothing: there is one page.
    pub next: Option<String>,
    /// Where they are.
    #[cfg_attr(test, schemars(with = "String"))]
    pub folder: Utf8PathBuf,
    /// Databases that a restore or a recovery put aside there.
    #[cfg_attr(test, schemars(with = "Vec<String>"))]
    pub aside: Vec<Utf8PathBuf>,
}
