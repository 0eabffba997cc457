//! Which databases the server refuses, for `serve` and `doctor`.
//!
//! **Invariant:** nothing is changed.

use camino::{Utf8Path, Utf8PathBuf};

use crate::base::{Clock, DATABASE_CORRUPT, Error, Result, fault};
use crate::flows::site::{backup, server_file};
use crate::store::{self, MIGRATIONS};

/// Refuses a database that is lost, has lost its log, is older than what was acknowledged, or is
/// from a newer program.
///
/// # Errors
/// `not_found` with code `no_database`; `unavailable` with code `database_corrupt`; `conflict` with
/// code `database_newer`; `unavailable` if the database cannot be read.
pub fn refuse_unservable(data: &Utf8Path) -> Result<()> {
    let database = data.join("wiki.db");
    refuse_other_file(&database)?;
    refuse_lost_database(data, &database)?;
    refuse_lost_log(data, &database)?;
    store::refuse_unusable(&database, MIGRATIONS)
}

/// Refuses what is no file: opening a FIFO never ends.
///
/// # Errors
/// `unavailable` with code `database_corrupt`.
fn refuse_other_file(database: &Utf8Path) -> Result<()> {
    if database.metadata().map_or(true, |it| it.is_file()) {
        return Ok(());
    }
    Err(Error::unavailable(format!("{database} is not a regular file"))
        .code(DATABASE_CORRUPT)
        .hint("move it away, then restore a backup: wiki-browser restore FILE"))
}

/// Refuses to create a new database where a site has lost its own.
///
/// # Errors
/// `not_found` with code `no_database`.
fn refuse_lost_database(data: &Utf8Path, database: &Utf8Path) -> Result<()> {
    // Some tools leave an empty file, which SQLite would take for a new database.
    if database.metadata().is_ok_and(|it| it.len() > 0) || fault::is_off("lost_database") {
        return Ok(());
    }
    // The store refuses an empty file next to a log with content, and names that log.
    let log = Utf8PathBuf::from(format!("{database}-wal"));
    if database.exists() && log.metadata().is_ok_and(|it| it.len() > 0) {
        return Ok(());
    }
    let is_filled = |name: &str| {
        data.join(name).read_dir_utf8().is_ok_and(|mut entries| entries.next().is_some())
    };
    let left: Vec<&str> = ["operator.token", "jobs", "backups"]
        .into_iter()
        .filter(|name| data.join(name).is_file() || is_filled(name))
        .collect();
    if left.is_empty() {
        return Ok(());
    }
    let left = left.join(", ");
    let message = format!("no database at {database}, but {data} has {left}");
    let anew = format!("to start over, move {data} away");
    Err(Error::not_found(message).code("no_database").hint(
        match backup::newest(data, Clock::system().now()) {
            Some(it) => {
                format!("restore the newest backup: wiki-browser restore {}; {anew}", it.path)
            }
            None => format!("put it back, or restore a backup: wiki-browser restore FILE; {anew}"),
        },
    ))
}

/// Refuses a database whose log is missing although its last server was killed: the last
/// acknowledged writes were only in the log.
///
/// It is no loss if another program has opened the database and merged the log, or if the database
/// was restored.
///
/// # Errors
/// `unavailable` with code `database_corrupt`.
fn refuse_lost_log(data: &Utf8Path, database: &Utf8Path) -> Result<()> {
    let log = Utf8PathBuf::from(format!("{database}-wal"));
    let left = server_file::read(data)?.unwrap_or_default();
    let (Some(epoch), Some(life)) = (left.epoch, left.life) else { return Ok(()) };
    // Another program that opened the database leaves an empty one.
    let has_log = log.metadata().is_ok_and(|it| it.len() > 0);
    if has_log || !database.exists() || fault::is_off("lost_log") {
        return Ok(());
    }
    if !store::has_lost(database, &epoch, &life)? {
        return Ok(());
    }
    Err(Error::unavailable(format!("{log} is missing, and the data it held is lost"))
        .code(DATABASE_CORRUPT)
        .hint(
            "put it back, or restore a backup (wiki-browser restore); to go on without it: \
             wiki-browser recover",
        ))
}
