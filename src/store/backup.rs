//! Whole copies of a database: taking one while it is written, checking one, putting one in place.
//!
//! **Invariant:** a copy has its name only once it is whole, checked and on the disk; until then it
//! has another, which nobody takes for a backup.
//! **Invariant:** the database is replaced by one rename. Before it the old one is in force, after
//! it the new one: [`put_in_place`] does the rest at the next start, whatever happened between.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::sync::atomic::{AtomicBool, Ordering};

use camino::{Utf8Path, Utf8PathBuf};
use rusqlite::{Connection, OpenFlags, OptionalExtension as _};

use crate::base::{Context, Error, ErrorKind, Result, fault, random_token};
use crate::store::read::refuse_emptied;
use crate::store::trouble::{BACKUPS, is_of_index};
use crate::store::{Migration, loss};

/// What the name of a copy ends with while it is being written.
const PART: &str = ".part";
/// What the database that is to be put in place is called; beside `wiki.db` it is `wiki.db.next`.
const NEXT: &str = ".next";
/// How the names of databases begin that were replaced and kept.
const KEPT: [&str; 2] = ["replaced-", "damaged-"];
/// Most faults that are told of a damaged database.
const FAULTS_MAX: usize = 10;
/// How often a copy is handed to the disk while it is written.
const SYNC_EVERY: std::time::Duration = std::time::Duration::from_millis(50);
/// The first bytes of every database.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// How the folder of a database and its copies is made.
const FOLDER_MODE: u32 = 0o700;

/// What a copy says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The last migration that is in it.
    pub version: i64,
    /// The life of the database that it was taken from.
    pub epoch: String,
    /// Its size.
    pub bytes: u64,
}

/// Writes a whole, checked copy of a database to a new file, mode 0600. The database may be in use:
/// the copy is what was committed when it began, and nobody waits for it.
///
/// # Errors
/// `not_found`, or `invalid` with code `not_a_backup`, if there is no database; `conflict` with
/// code `file_exists`; `unavailable` if the copy cannot be written or is not whole.
pub fn copy(from: &Utf8Path, to: &Utf8Path, migrations: &[Migration]) -> Result<Facts> {
    look_at_file(from)?;
    if fs::symlink_metadata(to).is_ok() {
        return Err(taken(to));
    }
    // Two that are asked for the same name at once must not write into one another.
    let part = Utf8PathBuf::from(random_token(&format!("{to}."))? + PART);
    let copied = copy_to_part(from, &part, migrations);
    let facts = match copied {
        Ok(facts) => facts,
        Err(cause) => {
            // What was begun is of no use; that it cannot be removed changes nothing for the
            // caller.
            let _ = fs::remove_file(&part);
            return Err(cause);
        }
    };
    fault::crash_point("backup_copied");
    // The name is taken first, so that nothing is replaced; then the whole copy gets it.
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
    // Ours before SQLite opens it, so that it is never readable by others.
    let options = OpenOptions::new().write(true).create_new(true).mode(0o600).open(part);
    options.context(ErrorKind::Unavailable, cannot).map_err(|it| {
        it.code("backup_failed").hint("is the folder there, and may it be written?")
    })?;
    let reading = open(from, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    // One read transaction: writers go on, and what they commit is not in the copy.
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

/// Does some work that writes a file, and hands the file to the disk all the while. Handed over at
/// once at the end, a large file would hold up every commit for as long as the disk needs for it.
fn synced_meanwhile<T>(path: &Utf8Path, work: impl FnOnce() -> T) -> Result<T> {
    let file =
        File::open(path).context(ErrorKind::Unavailable, || format!("cannot open {path}"))?;
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let syncing = std::thread::Builder::new().name("wb-backup-sync".to_owned());
        let syncing = syncing.spawn_scoped(scope, || {
            while !is_done.load(Ordering::Relaxed) {
                // The last one, by whoever writes the file, is the one that must succeed.
                let _ = file.sync_data();
                std::thread::park_timeout(SYNC_EVERY);
            }
        });
        let worked = work();
        is_done.store(true, Ordering::Relaxed);
        // Without that thread the copy is as good, and the pause at its end longer.
        if let Ok(syncing) = syncing {
            syncing.thread().unpark();
        }
        Ok(worked)
    })
}

/// The code of the database's own error (`disk_full`, `database_corrupt`) is the one that counts.
fn keep_code(wrapped: Error, from: &Utf8Path) -> Error {
    let inner = std::error::Error::source(&wrapped).and_then(|it| it.downcast_ref::<Error>());
    let (code, hint) = match inner.map(Error::code_str) {
        Some("disk_full") => ("disk_full", "free some space, or name another disk".to_owned()),
        Some("database_corrupt") => {
            ("database_corrupt", format!("{from} is damaged: wiki-browser recover --dry-run"))
        }
        _ => ("backup_failed", "is there space, and may the folder be written?".to_owned()),
    };
    wrapped.code(code).hint(hint)
}

/// Checks that a file is a whole database of a site that this program can open.
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
            .code("database_corrupt")
            .hint("use another backup, or save what can be read: wiki-browser recover"));
    }
    let epoch = reading.query_row("SELECT epoch FROM site", [], |row| row.get(0)).optional();
    match (version, epoch) {
        (1.., Ok(Some(epoch))) => Ok(Facts { version, epoch, bytes }),
        _ => Err(not_a_backup(path)),
    }
}

/// Returns the size of a file that begins as a database does.
fn look_at_file(path: &Utf8Path) -> Result<u64> {
    let facts = match fs::metadata(path) {
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {
            return Err(Error::not_found(format!("there is no file {path}"))
                .hint("wiki-browser backup --list names the copies"));
        }
        facts => facts.context(ErrorKind::Unavailable, || format!("cannot look at {path}"))?,
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

/// Returns what is wrong with a database, in SQLite's words; nothing if it is whole.
///
/// # Errors
/// None for damage; `unavailable` if it cannot be read at all.
pub fn faults_of(path: &Utf8Path) -> Result<Vec<String>> {
    look_at_file(path)?;
    let reading = open(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut found = faults(&reading).or_else(|cause| match cause.code_str() {
        "database_corrupt" => Ok(vec![in_sqlites_words(&cause)]),
        _ => Err(cause),
    })?;
    // What cannot be counted is told above.
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

/// Returns what SQLite said of an error, without what this program says of it.
pub(super) fn in_sqlites_words(cause: &Error) -> String {
    std::error::Error::source(cause).map_or_else(|| cause.chain(), ToString::to_string)
}

fn faults(reading: &Connection) -> Result<Vec<String>> {
    let mut found: Vec<String> = Vec::new();
    let mut statement = reading.prepare("PRAGMA integrity_check(13)")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let fault: String = row.get(0)?;
        // An index of words is made anew from the rest; it keeps no copy from being made.
        if fault != "ok" && !is_of_index(&fault) {
            found.push(fault);
        }
    }
    if found.is_empty() {
        let mut statement = reading.prepare("PRAGMA foreign_key_check")?;
        let mut rows = statement.query([])?;
        while let (Some(row), true) = (rows.next()?, found.len() < FAULTS_MAX) {
            let table: String = row.get(0)?;
            found.push(format!("a row of {table} refers to a row that is not there"));
        }
    }
    Ok(found)
}

/// Returns how many rows each table of a database has, but those that are made from others.
///
/// # Errors
/// As any read; a damaged database may not say.
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

/// Begins another life of a database that no server uses: its event ids mean something else from
/// now on, so that clients are told to read afresh, and the sessions of browsers have ended.
///
/// # Errors
/// As any write.
pub fn begin_life(path: &Utf8Path, epoch: &str) -> Result<()> {
    let writing = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    writing.execute_batch("BEGIN IMMEDIATE")?;
    writing.execute("UPDATE site SET epoch = ?1", [epoch])?;
    writing.execute("DELETE FROM logins", [])?;
    writing.execute_batch("COMMIT")?;
    Ok(())
}

/// Puts what stands in the log of a database that nobody uses into its one file.
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

/// Keeps the files of a database, with its log, under another name, and leaves them where they are.
/// Returns what was kept.
///
/// # Errors
/// `unavailable` if that cannot be written.
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
            // Not every file system has links.
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

/// Decides that `ready`, a whole database in one file beside it, replaces `database`: this is the
/// one step that counts. The caller holds the lock of the site.
///
/// # Errors
/// `unavailable` if the disk does not take it; the old one is in force then.
pub fn replace(database: &Utf8Path, ready: &Utf8Path) -> Result<()> {
    let next = next_of(database);
    fault::crash_point("restore_ready");
    fs::rename(ready, &next).context(ErrorKind::Unavailable, || format!("cannot name {next}"))?;
    sync_folder_of(&next)?;
    fault::crash_point("restore_decided");
    put_in_place(database)
}

/// Does what is left of a decided replacement; if there is none, it takes back what one that was
/// not decided left. The log of the old database goes first: SQLite would take it for the new
/// one's.
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

/// Removes the other names that [`keep_aside`] gave to files that are in force still: what is
/// called kept would change with the database.
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
        // The log first: without its database nothing would lead to it.
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

/// Returns the life of a database.
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

/// Makes a private folder for copies.
///
/// # Errors
/// `unavailable` if it cannot be made.
pub fn make_folder(folder: &Utf8Path) -> Result<()> {
    let made = fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder);
    made.context(ErrorKind::Unavailable, || format!("cannot create the folder {folder}"))
}

/// Removes what a copy that was cut off left in a folder.
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

/// Looks at a database that may be any file of the machine, such as one that was replaced.
///
/// # Errors
/// What `look` returned; `unavailable` if it cannot be opened.
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
    Error::conflict("file_exists", format!("{path} is there already"))
        .hint("name another file: a backup never replaces one")
}

fn not_a_backup(path: &Utf8Path) -> Error {
    Error::invalid(format!("{path} is not the database of a site")).code("not_a_backup")
}
