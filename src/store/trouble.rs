//! What prevents writing: a full, read-only or failing disk, or a damaged database.
//!
//! **Invariant:** while the disk is failing every write is still attempted, and the first
//! successful commit ends the trouble. Damage never ends by itself: nothing is written any more.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use camino::{Utf8Path, Utf8PathBuf};
use rusqlite::Connection;
use tracing::{error, info};

use crate::base::{
    Clock, DATABASE_CORRUPT, DATABASE_LOCKED, DISK_ERROR, DISK_FULL, Error, Millis, READ_ONLY,
    Result, fault,
};

/// Codes of a disk that does not accept writes.
const DISK: [&str; 4] = [DISK_FULL, READ_ONLY, DISK_ERROR, DATABASE_LOCKED];
/// Bytes written to probe a disk: more than a page.
const PROBE_BYTES: usize = 16 * 1024;
/// The folder of backups inside of the data folder.
pub(super) const BACKUPS: &str = "backups";

/// Why writing fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Stable code: `disk_full`, `read_only`, `disk_error`, `database_locked` or
    /// `database_corrupt`.
    pub code: String,
    /// What is wrong.
    pub message: String,
    /// What the operator should do next.
    pub hint: Option<String>,
    /// When it was first seen.
    pub since: Millis,
}

impl Trouble {
    /// Returns the error for a refused write.
    pub fn to_error(&self) -> Error {
        let error = Error::unavailable(self.message.clone()).code(self.code.clone());
        match &self.hint {
            Some(hint) => error.hint(hint.clone()),
            None => error,
        }
    }
}

/// The current trouble of a database, shared by writer, readers and health checks.
#[derive(Clone)]
pub(super) struct Watch {
    path: Utf8PathBuf,
    clock: Clock,
    now: Arc<Mutex<Option<Trouble>>>,
}

impl Watch {
    pub(super) fn new(path: &Utf8Path, clock: Clock) -> Watch {
        Watch { path: path.to_owned(), clock, now: Arc::default() }
    }

    pub(super) fn trouble(&self) -> Option<Trouble> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the damage, if any: no write is attempted then.
    pub(super) fn damage(&self) -> Option<Trouble> {
        self.trouble().filter(|it| it.code == DATABASE_CORRUPT && !fault::is_off("damage_stop"))
    }

    /// Records a database error and returns it as the caller should see it.
    pub(super) fn note(&self, cause: Error) -> Error {
        let cause = self.named(cause);
        let is_damage = cause.code_str() == DATABASE_CORRUPT;
        if !is_damage && !DISK.contains(&cause.code_str()) {
            return cause;
        }
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        if now.as_ref().is_some_and(|it| it.code == DATABASE_CORRUPT || it.code == cause.code_str())
        {
            return cause;
        }
        error!("writes are refused until this is well: {}", cause.chain());
        *now = Some(Trouble {
            code: cause.code_str().to_owned(),
            message: cause.message().to_owned(),
            hint: cause.hint_str().map(str::to_owned),
            since: self.clock.now(),
        });
        cause
    }

    /// Records a successful commit. Returns whether it ended a trouble.
    pub(super) fn committed(&self) -> bool {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        match now.as_ref() {
            Some(it) if it.code != DATABASE_CORRUPT => {
                info!("the database is written again: {} is over", it.code);
                *now = None;
                true
            }
            _ => false,
        }
    }

    /// Adds the disk's own diagnosis, or for damage the newest backup, to an error.
    fn named(&self, cause: Error) -> Error {
        match cause.code_str() {
            DISK_ERROR => match probe(&self.folder()) {
                Some((code, message)) => Error::unavailable(message).code(code),
                None => cause,
            }
            .hint("check the disk; nothing that was acknowledged is lost"),
            DATABASE_CORRUPT => damaged(&self.path).source(cause),
            _ => cause,
        }
    }

    fn folder(&self) -> Utf8PathBuf {
        self.path.parent().unwrap_or(Utf8Path::new(".")).to_owned()
    }
}

/// Returns the error for a corrupt database, with a hint that names what can be restored.
pub(super) fn damaged(path: &Utf8Path) -> Error {
    let message = format!("the database {path} is damaged");
    Error::unavailable(message).code(DATABASE_CORRUPT).hint(advice(path))
}

/// Returns advice for a database that cannot be used.
pub(super) fn advice(path: &Utf8Path) -> String {
    let folder = path.parent().unwrap_or(Utf8Path::new(".")).join(BACKUPS);
    match newest(&folder) {
        Some(backup) => {
            format!("stop the server and restore the newest backup: wiki-browser restore {backup}")
        }
        None => format!("no backup in {folder}; keep {path} and its -wal aside"),
    }
}

/// Checks the whole database. Returns whether a full-text index is damaged: nothing written is lost
/// then, and the index can be rebuilt.
///
/// # Errors
/// `unavailable` with code `database_corrupt`; `unavailable` if the database cannot be read.
pub(super) fn check(connection: &Connection, path: &Utf8Path) -> Result<bool> {
    let look = || -> rusqlite::Result<Vec<String>> {
        let mut statement = connection.prepare("PRAGMA quick_check(10)")?;
        statement.query_map([], |row| row.get(0))?.collect()
    };
    let found = look().map_err(|cause| {
        let cause = Error::from(cause);
        if cause.code_str() == DATABASE_CORRUPT { damaged(path).source(cause) } else { cause }
    })?;
    let is_index_damaged = found.iter().any(|it| is_of_index(it));
    match found.into_iter().find(|it| it != "ok" && !is_of_index(it)) {
        Some(what) => Err(damaged(path).source(Error::internal(what))),
        None => Ok(is_index_damaged),
    }
}

/// Returns whether a fault concerns only a full-text index.
pub(super) fn is_of_index(fault: &str) -> bool {
    fault.starts_with("fts5:") || fault.contains("inverted index for FTS5 table")
}

/// Returns the newest file in a folder of backups.
fn newest(folder: &Utf8Path) -> Option<Utf8PathBuf> {
    let entries = folder.read_dir_utf8().ok()?.flatten();
    let dated = entries.filter_map(|it| {
        let facts = it.metadata().ok()?;
        let name = it.file_name();
        // Replaced databases and partial copies are not backups.
        let is_other = ["damaged-", "replaced-", "."].iter().any(|word| name.starts_with(word));
        let is_whole = ![".new", ".part", "-wal"].iter().any(|word| name.ends_with(word));
        (!is_other && is_whole && facts.len() > 0)
            .then_some((facts.modified().ok()?, it.into_path()))
    });
    dated.max().map(|(_, path)| path)
}

/// Writes a file into the folder to see how its disk fails.
fn probe(folder: &Utf8Path) -> Option<(&'static str, &'static str)> {
    let path = folder.join(format!(".probe-{}", std::process::id()));
    let written = std::fs::write(&path, [0; PROBE_BYTES])
        .and_then(|()| std::fs::File::open(&path)?.sync_all());
    // There may be nothing to remove; a leftover is overwritten by the next probe.
    let _ = std::fs::remove_file(&path);
    match written.map_err(|it| it.kind()) {
        Err(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
            Some((DISK_FULL, "the disk is full"))
        }
        Err(io::ErrorKind::ReadOnlyFilesystem) => Some((READ_ONLY, "the disk is read-only")),
        _ => None,
    }
}
