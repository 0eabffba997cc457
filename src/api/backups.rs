//! Backups of the database.

use camino::Utf8PathBuf;
use serde::{Deserialize, Serialize};

use crate::base::Millis;

/// A backup in the site's folder.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Backup {
    /// Its file.
    #[cfg_attr(test, schemars(with = "String"))]
    pub path: Utf8PathBuf,
    /// When it was started, by its name.
    pub at: Millis,
    /// Its size in bytes.
    pub bytes: u64,
    /// Whether it was made automatically.
    pub daily: bool,
    /// Its site's key, if its name has one.
    #[serde(skip)]
    pub key: Option<String>,
}

/// A new backup.
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
    /// Removed older backups.
    #[cfg_attr(test, schemars(with = "Vec<String>"))]
    pub removed: Vec<Utf8PathBuf>,
}

/// The backups of a site.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BackupList {
    /// Newest first.
    pub items: Vec<Backup>,
    /// Always absent: there is one page.
    pub next: Option<String>,
    /// The folder.
    #[cfg_attr(test, schemars(with = "String"))]
    pub folder: Utf8PathBuf,
    /// Databases that a restore or a recovery put aside there.
    #[cfg_attr(test, schemars(with = "Vec<String>"))]
    pub aside: Vec<Utf8PathBuf>,
}
