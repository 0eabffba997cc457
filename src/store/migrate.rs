//! Numbered migrations, each applied once and never edited after a release.

use std::io::Read as _;

use camino::{Utf8Path, Utf8PathBuf};
use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::{Batch, Connection, OpenFlags, OptionalExtension as _, named_params};

use crate::base::{Clock, Context, Error, ErrorKind, Ids, JobId, Result, fault};
use crate::store::read::refuse_emptied;

/// One file of `migrations/`.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// Its number; numbers ascend.
    pub version: i64,
    /// The file's name without number and extension.
    pub name: &'static str,
    /// Its SQL.
    pub sql: &'static str,
}

/// Reads a file of `migrations/` by its number, as a number and in its name, and by its name.
macro_rules! migration {
    ($version:literal, $number:literal, $name:literal) => {
        Migration {
            version: $version,
            name: $name,
            sql: include_str!(concat!("../../migrations/", $number, "_", $name, ".sql")),
        }
    };
}

/// The migrations of this program, in order.
pub const MIGRATIONS: &[Migration] = &[
    migration!(1, "001", "site"),
    migration!(2, "002", "documents"),
    migration!(3, "003", "jobs"),
    migration!(4, "004", "operations"),
    migration!(5, "005", "life"),
    migration!(6, "006", "job_changes"),
    // The number 7 was never used.
    migration!(8, "008", "usage"),
    migration!(9, "009", "job_lists"),
    migration!(10, "010", "perspectives"),
    migration!(11, "011", "review"),
    migration!(12, "012", "places"),
    migration!(13, "013", "search"),
    migration!(14, "014", "search_marks"),
    migration!(15, "015", "schedules"),
    migration!(16, "016", "opened_topics"),
    migration!(17, "017", "renames"),
    migration!(18, "018", "steering_holds"),
    migration!(19, "019", "titles"),
    migration!(20, "020", "dismissals"),
    migration!(21, "021", "commits"),
    migration!(22, "022", "long_inputs"),
    migration!(23, "023", "script_jobs"),
    migration!(24, "024", "instances"),
    migration!(25, "025", "mail"),
    migration!(26, "026", "workspaces"),
    migration!(27, "027", "approvals"),
    migration!(28, "028", "agents"),
    migration!(29, "029", "pools"),
    migration!(30, "030", "own_usage"),
    migration!(31, "031", "own_holds"),
    migration!(32, "032", "chat"),
    migration!(33, "033", "channels"),
    migration!(34, "034", "permissions"),
    migration!(35, "035", "forgotten_mail"),
    migration!(36, "036", "chat_calls"),
    migration!(37, "037", "handoffs"),
    migration!(38, "038", "held_answers"),
    migration!(39, "039", "chat_search"),
    migration!(40, "040", "artefacts"),
    migration!(41, "041", "chat_uploads"),
    migration!(42, "042", "promoted_channels"),
    migration!(43, "043", "outside_members"),
    migration!(44, "044", "channel_attachments"),
    migration!(45, "045", "agent_starts"),
    migration!(46, "046", "monitors"),
    migration!(47, "047", "script_messages"),
    migration!(48, "048", "unused_index"),
    migration!(49, "049", "channel_uploaders"),
    migration!(50, "050", "asking_answers"),
    migration!(51, "051", "agent_rests"),
    migration!(52, "052", "before_digest"),
    migration!(53, "053", "silent_guards"),
    migration!(54, "054", "mute_changes"),
    migration!(55, "055", "chat_search_gone"),
    migration!(56, "056", "unfit_jobs"),
    migration!(57, "057", "kind_names"),
    migration!(58, "058", "piped_questions"),
    migration!(59, "059", "session_engines"),
    migration!(60, "060", "session_marks"),
    migration!(61, "061", "recorded_sources"),
    migration!(62, "062", "sources_told"),
    migration!(63, "063", "rename_history"),
    migration!(64, "064", "files_of_others"),
    migration!(65, "065", "earlier_names"),
    migration!(66, "066", "changes_told"),
    migration!(67, "067", "counted_until"),
    migration!(68, "068", "jobs_without_a_lane"),
];

/// The first line of a migration that manages its own transaction to rebuild tables: `PRAGMA
/// foreign_keys` has no effect inside a transaction.
const NO_TX: &str = "-- migrate:no-tx";

/// Refuses a database of a newer program before writing anything to it or beside it.
pub(super) fn refuse_newer(path: &Utf8Path, migrations: &[Migration]) -> Result<()> {
    let version = version_of(path)?;
    let newest = migrations.last().map_or(0, |it| it.version);
    if version > newest && !fault::is_off("newer_refusal") {
        return Err(Error::conflict(
            "database_newer",
            format!("{path} has version {version}, this program knows {newest}"),
        )
        .hint("use the newer program, or restore an older backup"));
    }
    Ok(())
}

/// Returns the version of a database; 0 if the file does not exist.
fn version_of(path: &Utf8Path) -> Result<i64> {
    let in_header = version_in_header(path)?;
    let log = Utf8PathBuf::from(format!("{path}-wal"));
    // Opening a database in WAL mode creates files beside it, so it is only opened if a crash left
    // a log, which may hold a newer first page.
    if std::fs::metadata(&log).is_ok_and(|it| it.len() > 0) {
        refuse_emptied(path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let reading = Connection::open_with_flags(path, flags)
            .context(ErrorKind::Unavailable, || format!("cannot open the database {path}"))?;
        let version: i64 = reading.pragma_query_value(None, "user_version", |row| row.get(0))?;
        return Ok(version.max(in_header));
    }
    Ok(in_header)
}

/// Reads `user_version` from the file header of SQLite: 4 bytes at offset 60, big-endian.
fn version_in_header(path: &Utf8Path) -> Result<i64> {
    let cannot = || format!("cannot open the database {path}");
    let mut header = Vec::with_capacity(64);
    match std::fs::File::open(path) {
        Ok(file) => {
            file.take(64).read_to_end(&mut header).context(ErrorKind::Unavailable, cannot)?;
        }
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        Err(cause) => return Err(cause).context(ErrorKind::Unavailable, cannot),
    }
    // Not a database; opening it reports that.
    if !header.starts_with(b"SQLite format 3\0") {
        return Ok(0);
    }
    let bytes: Option<[u8; 4]> = header.get(60..64).and_then(|it| it.try_into().ok());
    Ok(bytes.map_or(0, |it| i64::from(i32::from_be_bytes(it))))
}

/// Migrates a database to the newest version. `user_version` is the last applied migration.
///
/// # Errors
/// `internal` if a migration fails; the database then stays at the previous version.
pub fn migrate(connection: &Connection, migrations: &[Migration], clock: &Clock) -> Result<()> {
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS schema_migrations (
             version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_ms INTEGER NOT NULL
         ) STRICT",
    )?;
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    for migration in migrations {
        if migration.version > version {
            apply(connection, migration)?;
        }
        // Outside of the migration's transaction: a crash may have come right after its own commit.
        record(connection, migration, clock)?;
    }
    let has_site = migrations.iter().any(|it| it.name == "site");
    if has_site {
        connection.execute(
            "INSERT INTO site (one, epoch, created_ms) VALUES (1, :epoch, :now)
             ON CONFLICT (one) DO NOTHING",
            named_params! {
                ":epoch": Ids::new(clock.clone()).mint::<JobId>().as_str(), ":now": clock.now(),
            },
        )?;
    }
    Ok(())
}

/// Returns the epoch of a migrated database; empty if it has no `site` table.
pub(super) fn epoch(connection: &Connection) -> Result<String> {
    let has_site = connection.table_exists(None, "site")?;
    if !has_site {
        return Ok(String::new());
    }
    let epoch = connection.query_row("SELECT epoch FROM site", [], |row| row.get(0)).optional()?;
    Ok(epoch.unwrap_or_default())
}

/// Returns epoch and life of a database, which may be older than this program.
pub(super) fn last_life(connection: &Connection) -> Result<Option<(String, Option<String>)>> {
    if !connection.column_exists(None, "site", "life")? {
        return Ok(None);
    }
    let found = connection
        .query_row("SELECT epoch, life FROM site", [], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(found)
}

fn record(connection: &Connection, migration: &Migration, clock: &Clock) -> Result<()> {
    connection.execute(
        "INSERT INTO schema_migrations (version, name, applied_ms) VALUES (:version, :name, :now)
         ON CONFLICT (version) DO NOTHING",
        named_params! {
            ":version": migration.version, ":name": migration.name, ":now": clock.now(),
        },
    )?;
    Ok(())
}

fn apply(connection: &Connection, migration: &Migration) -> Result<()> {
    let first = migration.sql.lines().find(|line| !line.trim().is_empty()).unwrap_or("");
    let outcome = if first.trim() == NO_TX {
        run_statements(connection, migration)
    } else {
        run_in_transaction(connection, migration)
    };
    if let Err(cause) = outcome {
        if !connection.is_autocommit() {
            connection.execute_batch("ROLLBACK")?;
        }
        connection.pragma_update(None, "foreign_keys", true)?;
        let name = format!("{:03}_{}", migration.version, migration.name);
        return Err(Error::internal(format!("migration {name} failed: {}", cause.chain()))
            .code("migration_failed")
            .hint("the database is unchanged; start the older program again")
            .source(cause));
    }
    connection.pragma_update(None, "foreign_keys", true)?;
    Ok(())
}

fn run_in_transaction(connection: &Connection, migration: &Migration) -> Result<()> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    connection.execute_batch(migration.sql)?;
    refuse_orphans(connection)?;
    connection.pragma_update(None, "user_version", migration.version)?;
    connection.execute_batch("COMMIT")?;
    Ok(())
}

/// Runs a migration with its own BEGIN and COMMIT. It fails if its own `foreign_key_check` returns
/// a row, or if it does not set `user_version`, without which a crash could repeat it.
fn run_statements(connection: &Connection, migration: &Migration) -> Result<()> {
    let mut batch = Batch::new(connection, migration.sql);
    while let Some(mut statement) = batch.next()? {
        if statement.column_count() == 0 {
            statement.execute([])?;
            continue;
        }
        let is_check = statement
            .expanded_sql()
            .is_some_and(|sql| sql.to_ascii_lowercase().contains("foreign_key_check"));
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            if is_check && !fault::is_off("orphan_check") {
                let table: String = row.get(0)?;
                return Err(orphan(&table));
            }
        }
    }
    if !connection.is_autocommit() {
        return Err(Error::internal("it leaves a transaction open"));
    }
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version != migration.version {
        return Err(Error::internal(format!(
            "it must set PRAGMA user_version = {} inside its transaction",
            migration.version
        )));
    }
    Ok(())
}

fn refuse_orphans(connection: &Connection) -> Result<()> {
    let mut statement = connection.prepare("PRAGMA foreign_key_check")?;
    let mut rows = statement.query([])?;
    rows.next()?.map_or(Ok(()), |row| Err(orphan(&row.get::<_, String>(0)?)))
}

fn orphan(table: &str) -> Error {
    Error::internal(format!("a row of {table} refers to a missing row"))
}
