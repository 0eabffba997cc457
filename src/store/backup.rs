//! Full copies of a database: taking one while it is in use, checking one, and restoring one.
//!
//! **Invariant:** a copy gets its name only once it is complete, checked and synced; until then its
//! name marks it as partial.
//! **Invariant:** a single rename replaces the database. Before it the old one is in force, after
//! it the new one: [`put_in_place`] finishes the work at the next start, whatever happened in
//! between.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::sync::atomic::{AtomicBool, Ordering};

use camino::{Utf8Path, Utf8PathBuf};
use rusqlite::{Connection, OpenFlags, OptionalExtension as _};

use crate::base::{
    Context, DATABASE_CORRUPT, DISK_FULL, Error, ErrorKind, Result, fault, random_token,
};
use crate::store::read::refuse_emptied;
use crate::store::trouble::{BACKUPS, is_of_index};
use crate::store::{Migration, loss};

/// Suffix of a copy that is being written.
const PART: &str = ".part";
/// Suffix of the database that is about to be installed: next to `wiki.db` it is `wiki.db.next`.
const NEXT: &str = ".next";
/// Prefixes of databases that were replaced and kept.
const KEPT: [&str; 2] = ["replaced-", "damaged-"];
/// Most faults reported for a damaged database.
const FAULTS_MAX: usize = 10;
/// Interval at which a copy is synced while it is written.
const SYNC_EVERY: std::time::Duration = std::time::Duration::from_millis(50);
/// The first bytes of every SQLite database.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Mode of the folder of a database and its copies.
const FOLDER_MODE: u32 = 0o700;

/// The properties of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its last migration.
    pub version: i64,
    /// The epoch of the database it was copied from.
    pub epoch: String,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Writes a complete, checked copy of a database to a new file, mode 0600. The database may be in
/// use: the copy is a snapshot from the start of the call, and it blocks nobody.
///
/// # Errors
/// `not_found`, or `invalid` with code `not_a_backup`, if there is no database; `conflict` with
/// code `file_exists`; `unavailable` if the copy cannot be written or is incomplete.
pub fn copy(from: &Utf8Path, to: &Utf8Path, migrations: &[Migration]) -> Result<Facts> {
    look_at_file(from)?;
    if fs::symlink_metadata(to).is_ok() {
        return Err(taken(to));
    }
    // Random, so that two calls for the same name cannot write into each other's file.
    let part = Utf8PathBuf::from(random_token(&format!("{to}."))? + PART);
    let copied = copy_to_part(from, &part, migrations);
    let facts = match copied {
        Ok(facts) => facts,
        Err(cause) => {
            // A partial copy is useless; failing to remove it changes nothing for the caller.
            let _ = fs::remove_file(&part);
            return Err(cause);
        }
    };
    fault::crash_point("backup_copied");
    // Reserve the name first, so that no existing file is replaced; then rename the copy over it.
    let reserved = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to);
    match reserved {
        Err(cause) if cause.kind() == std::io::ErrorKind::AlreadyExists => return Err(taken(to)),
        reserved => reserved.context(ErrorKind::Unavailable, || format!("cannot create {to}"))?,
    };
    fs::rename(&part, to).context(ErrorKind::Unavailable, || format!("cannot name {to}"))?;
    sync_folder_of(to)?;
    Ok(facts)
}

fn copy_to_part(from: &Utf8Path, part: &Utf8Path, migrations: &[Migration]) -> Result<Facts> {
    let cannot = || format!("cannot write {part}");
    // Created here, before SQLite opens it, so that it is never readable by others.
    let options = OpenOptions::new().write(true).create_new(true).mode(0o600).open(part);
    options.context(ErrorKind::Unavailable, cannot).map_err(|it| {
        it.code("backup_failed").hint("check that the folder exists and is writable")
    })?;
    let reading = open(from, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    // One read transaction: writers continue, and what they commit is not in the copy.
    let copied = synced_meanwhile(part, || reading.execute("VACUUM INTO ?1", [part.as_str()]))?;
    copied
        .map_err(Error::from)
        .context(ErrorKind::Unavailable, || format!("cannot copy {from} to {part}"))
        .map_err(|cause| keep_code(cause, from))?;
    drop(reading);
    let facts = check(part, migrations)?;
    File::open(part).and_then(|it| it.sync_all()).context(ErrorKind::Unavailable, cannot)?;
    Ok(facts)
}

/// Runs `work`, which writes a file, and syncs that file meanwhile. A single sync at the end of a
/// large file would block every commit for as long as the disk needs.
fn synced_meanwhile<T>(path: &Utf8Path, work: impl FnOnce() -> T) -> Result<T> {
    let file =
        File::open(path).context(ErrorKind::Unavailable, || format!("cannot open {path}"))?;
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let syncing = std::thread::Builder::new().name("wb-backup-sync".to_owned());
        let syncing = syncing.spawn_scoped(scope, || {
            while !is_done.load(Ordering::Relaxed) {
                // Only the final sync, by the caller, must succeed.
                let _ = file.sync_data();
                std::thread::park_timeout(SYNC_EVERY);
            }
        });
        let worked = work();
        is_done.store(true, Ordering::Relaxed);
        // Without the thread the copy is just as good; only the final sync takes longer.
        if let Ok(syncing) = syncing {
            syncing.thread().unpark();
        }
        Ok(worked)
    })
}

/// Keeps the code of the database's own error (`disk_full`, `database_corrupt`).
fn keep_code(wrapped: Error, from: &Utf8Path) -> Error {
    let inner = std::error::Error::source(&wrapped).and_then(|it| it.downcast_ref::<Error>());
    let (code, hint) = match inner.map(Error::code_str) {
        Some(DISK_FULL) => (DISK_FULL, "free some space, or name another disk".to_owned()),
        Some(DATABASE_CORRUPT) => {
            (DATABASE_CORRUPT, format!("{from} is damaged: wiki-browser recover --dry-run"))
        }
        _ => ("backup_failed", "is there space, and may the folder be written?".to_owned()),
    };
    wrapped.code(code).hint(hint)
}

/// Checks that a file is an intact database of a site that this program can open.
///
/// # Errors
/// `not_found`; `invalid` with code `not_a_backup`; `conflict` with code `database_newer`;
/// `unavailable` with code `database_corrupt`.
pub fn check(path: &Utf8Path, migrations: &[Migration]) -> Result<Facts> {
    let bytes = look_at_file(path)?;
    let reading = open(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let version: i64 = reading.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let newest = migrations.last().map_or(0, |it| it.version);
    if version > newest {
        return Err(Error::conflict(
            "database_newer",
            format!("{path} has version {version}, this program knows {newest}"),
        )
        .hint("use the newer program"));
    }
    let faults = faults(&reading)?;
    if !faults.is_empty() {
        return Err(Error::unavailable(format!("{path} is damaged: {}", faults.join("; ")))
            .code(DATABASE_CORRUPT)
            .hint("use another backup, or save what can be read: wiki-browser recover"));
    }
    let epoch = reading.query_row("SELECT epoch FROM site", [], |row| row.get(0)).optional();
    match (version, epoch) {
        (1.., Ok(Some(epoch))) => Ok(Facts { version, epoch, bytes }),
        _ => Err(not_a_backup(path)),
    }
}

/// Returns the size of a file, if it starts like a SQLite database.
fn look_at_file(path: &Utf8Path) -> Result<u64> {
    let facts = match fs::metadata(path) {
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {
            return Err(Error::not_found(format!("no file {path}"))
                .hint("list backups: wiki-browser backup --list"));
        }
        facts => facts.context(ErrorKind::Unavailable, || format!("cannot read {path}"))?,
    };
    if !facts.is_file() {
        return Err(not_a_backup(path));
    }
    let mut head = [0; MAGIC.len()];
    let read = File::open(path).and_then(|mut it| it.read_exact(&mut head));
    if read.is_err() || &head != MAGIC {
        return Err(not_a_backup(path));
    }
    Ok(facts.len())
}

/// Returns the faults of a database in SQLite's words; empty if it is intact.
///
/// # Errors
/// `unavailable` if it cannot be read at all. Damage is not an error.
pub fn faults_of(path: &Utf8Path) -> Result<Vec<String>> {
    look_at_file(path)?;
    let reading = open(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut found = faults(&reading).or_else(|cause| match cause.code_str() {
        DATABASE_CORRUPT => Ok(vec![in_sqlites_words(&cause)]),
        _ => Err(cause),
    })?;
    // If the commits cannot be counted, the faults above are enough.
    match loss(path) {
        Ok(Some(loss)) => found.push(loss.to_string()),
        Ok(None) => {}
        Err(cause) if !found.is_empty() => {
            tracing::debug!("its commits cannot be counted: {}", cause.chain());
        }
        Err(cause) => return Err(cause),
    }
    Ok(found)
}

/// Returns SQLite's own message for an error, without this program's context.
pub(super) fn in_sqlites_words(cause: &Error) -> String {
    std::error::Error::source(cause).map_or_else(|| cause.chain(), ToString::to_string)
}

fn faults(reading: &Connection) -> Result<Vec<String>> {
    let mut found: Vec<String> = Vec::new();
    let mut statement = reading.prepare("PRAGMA integrity_check(13)")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let fault: String = row.get(0)?;
        // A full-text index can be rebuilt, so damage to it must not prevent a backup.
        if fault != "ok" && !is_of_index(&fault) {
            found.push(fault);
        }
    }
    if found.is_empty() {
        let mut statement = reading.prepare("PRAGMA foreign_key_check")?;
        let mut rows = statement.query([])?;
        while let (Some(row), true) = (rows.next()?, found.len() < FAULTS_MAX) {
            let table: String = row.get(0)?;
            found.push(format!("a row of {table} refers to a missing row"));
        }
    }
    Ok(found)
}

/// Returns the row count of each table of a database, without derived tables.
///
/// # Errors
/// Fails if the database cannot be read, as a damaged one may not be.
pub fn row_counts(path: &Utf8Path) -> Result<BTreeMap<String, i64>> {
    let reading = open(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut statement = reading.prepare(
        "SELECT name FROM sqlite_schema
         WHERE type = 'table' AND name NOT LIKE 'sqlite%' AND name <> 'schema_migrations'
             AND name NOT LIKE 'search!_%' ESCAPE '!'",
    )?;
    let names = statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<_>>>()?;
    let mut counts = BTreeMap::new();
    for name in names {
        let name: String = name;
        let ask = ["SELECT COUNT(*) FROM \"", &name, "\""].concat();
        counts.insert(name, reading.query_row(&ask, [], |row| row.get(0))?);
    }
    Ok(counts)
}

/// Gives a database that no server uses a new epoch: its event ids get a new meaning, so clients
/// are told to reload, and browser sessions end.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn begin_life(path: &Utf8Path, epoch: &str) -> Result<()> {
    let writing = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    writing.execute_batch("BEGIN IMMEDIATE")?;
    writing.execute("UPDATE site SET epoch = ?1", [epoch])?;
    writing.execute("DELETE FROM logins", [])?;
    writing.execute_batch("COMMIT")?;
    Ok(())
}

/// Merges the write-ahead log of an unused database into its main file.
///
/// # Errors
/// `unavailable` if it is in use or cannot be written.
pub fn into_one_file(path: &Utf8Path) -> Result<()> {
    let writing = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let mode: String = writing.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get(0))?;
    if mode != "delete" {
        return Err(Error::unavailable(format!("{path} is in use")).code("database_locked"));
    }
    drop(writing);
    let synced = File::open(path).and_then(|it| it.sync_all());
    synced.context(ErrorKind::Unavailable, || format!("cannot sync {path}"))
}

/// Keeps the files of a database and its log under another name, leaving the originals in place.
/// Returns the kept files.
///
/// # Errors
/// `unavailable` if they cannot be written.
pub fn keep_aside(database: &Utf8Path, aside: &Utf8Path) -> Result<Vec<Utf8PathBuf>> {
    let mut kept = Vec::new();
    for ending in ["", "-wal"] {
        let from = Utf8PathBuf::from(format!("{database}{ending}"));
        let to = Utf8PathBuf::from(format!("{aside}{ending}"));
        if fs::metadata(&from).map_or(true, |it| it.len() == 0) {
            continue;
        }
        let linked = fs::hard_link(&from, &to);
        match linked {
            Ok(()) => {}
            Err(cause) if cause.kind() == std::io::ErrorKind::AlreadyExists => {
                return Err(taken(&to));
            }
            // Not every file system supports hard links.
            Err(_) => {
                let copied = fs::copy(&from, &to).and_then(|_| File::open(&to)?.sync_all());
                copied.context(ErrorKind::Unavailable, || format!("cannot keep {to}"))?;
            }
        }
        kept.push(to);
    }
    sync_folder_of(aside)?;
    Ok(kept)
}

/// Returns the name under which a database waits to replace `database`.
pub fn next_of(database: &Utf8Path) -> Utf8PathBuf {
    Utf8PathBuf::from(format!("{database}{NEXT}"))
}

/// Decides that `ready`, a complete single-file database next to it, replaces `database`. This
/// rename is the commit point. The caller holds the site's lock.
///
/// # Errors
/// `unavailable` if the rename fails; the old database then stays in force.
pub fn replace(database: &Utf8Path, ready: &Utf8Path) -> Result<()> {
    let next = next_of(database);
    fault::crash_point("restore_ready");
    fs::rename(ready, &next).context(ErrorKind::Unavailable, || format!("cannot name {next}"))?;
    sync_folder_of(&next)?;
    fault::crash_point("restore_decided");
    put_in_place(database)
}

/// Finishes a replacement that was decided, or undoes one that was not. The old database's log is
/// moved first: SQLite would apply it to the new database.
///
/// # Errors
/// `unavailable` if the files cannot be moved.
pub fn put_in_place(database: &Utf8Path) -> Result<()> {
    let next = next_of(database);
    if fs::symlink_metadata(&next).is_err() {
        return not_kept(database);
    }
    for ending in ["-wal", "-shm", "-journal"] {
        let path = format!("{database}{ending}");
        match fs::remove_file(&path) {
            Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
                return Err(cause)
                    .context(ErrorKind::Unavailable, || format!("cannot remove {path}"));
            }
            _ => {}
        }
    }
    sync_folder_of(database)?;
    fault::crash_point("restore_log_gone");
    fs::rename(&next, database)
        .context(ErrorKind::Unavailable, || format!("cannot put {next} in place"))?;
    sync_folder_of(database)
}

/// Removes the hard links that [`keep_aside`] made to files still in use: a copy that is linked to
/// the database would change with it.
fn not_kept(database: &Utf8Path) -> Result<()> {
    let Ok(own) = fs::metadata(database) else { return Ok(()) };
    let folder = database.parent().unwrap_or(Utf8Path::new(".")).join(BACKUPS);
    if own.nlink() < 2 || !folder.is_dir() {
        return Ok(());
    }
    let cannot = || format!("cannot read {folder}");
    for entry in folder.read_dir_utf8().context(ErrorKind::Unavailable, cannot)? {
        let path = entry.context(ErrorKind::Unavailable, cannot)?.into_path();
        let name = path.file_name().unwrap_or_default();
        let is_ours = KEPT.iter().any(|word| name.starts_with(word)) && name.ends_with(".db");
        let is_same = fs::symlink_metadata(&path)
            .is_ok_and(|it| (it.dev(), it.ino()) == (own.dev(), own.ino()));
        if !(is_ours && is_same) {
            continue;
        }
        // The log first: without its database nobody would find it.
        for path in [format!("{path}-wal"), path.to_string()] {
            match fs::remove_file(&path) {
                Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
                    return Err(cause)
                        .context(ErrorKind::Unavailable, || format!("cannot remove {path}"));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Returns the epoch of a database.
///
/// # Errors
/// `not_found`; `invalid` with code `not_a_backup`; `unavailable` if it cannot be read.
pub fn epoch_of(path: &Utf8Path) -> Result<String> {
    look_at_file(path)?;
    let reading = open(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let epoch = reading.query_row("SELECT epoch FROM site", [], |row| row.get(0)).optional();
    let epoch: Option<String> = epoch
        .map_err(Error::from)
        .context(ErrorKind::Unavailable, || format!("cannot read {path}"))
        .map_err(|cause| keep_code(cause, path))?;
    epoch.ok_or_else(|| not_a_backup(path))
}

/// Creates a private folder for copies.
///
/// # Errors
/// `unavailable` if it cannot be created.
pub fn make_folder(folder: &Utf8Path) -> Result<()> {
    let made = fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder);
    made.context(ErrorKind::Unavailable, || format!("cannot create the folder {folder}"))
}

/// Removes the leftovers of interrupted copies.
///
/// # Errors
/// `unavailable` if the folder cannot be read.
pub fn remove_parts(folder: &Utf8Path) -> Result<()> {
    let cannot = || format!("cannot read {folder}");
    for entry in folder.read_dir_utf8().context(ErrorKind::Unavailable, cannot)? {
        let path = entry.context(ErrorKind::Unavailable, cannot)?.into_path();
        let name = path.file_name().unwrap_or_default();
        let stem = name.strip_suffix(PART).or_else(|| name.strip_suffix("-journal"));
        let is_ours = stem.is_some_and(|it| it.contains(".db."));
        if is_ours {
            fs::remove_file(&path)
                .context(ErrorKind::Unavailable, || format!("cannot remove {path}"))?;
        }
    }
    Ok(())
}

/// Reads from any database file, such as one that was replaced.
///
/// # Errors
/// The error of `look`; `unavailable` if it cannot be opened.
pub fn look<T>(path: &Utf8Path, look: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
    look_at_file(path)?;
    look(&open(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?)
}

pub(super) fn open(path: &Utf8Path, how: OpenFlags) -> Result<Connection> {
    refuse_emptied(path)?;
    let flags = how | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)
        .context(ErrorKind::Unavailable, || format!("cannot open the database {path}"))?;
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    Ok(connection)
}

pub(super) fn sync_folder_of(path: &Utf8Path) -> Result<()> {
    let folder = path.parent().filter(|it| !it.as_str().is_empty()).unwrap_or(Utf8Path::new("."));
    let synced = File::open(folder).and_then(|it| it.sync_all());
    synced.context(ErrorKind::Unavailable, || format!("cannot sync {folder}"))
}

fn taken(path: &Utf8Path) -> Error {
    Error::conflict("file_exists", format!("{path} already exists"))
        .hint("choose another file; a backup never overwrites one")
}

fn not_a_backup(path: &Utf8Path) -> Error {
    Error::invalid(format!("{path} is not the database of a site")).code("not_a_backup")
}
