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

/// The migrations of this program, in order.
pub const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "site", sql: include_str!("../../migrations/001_site.sql") },
    Migration {
        version: 2,
        name: "documents",
        sql: include_str!("../../migrations/002_documents.sql"),
    },
    Migration { version: 3, name: "jobs", sql: include_str!("../../migrations/003_jobs.sql") },
    Migration {
        version: 4,
        name: "operations",
        sql: include_str!("../../migrations/004_operations.sql"),
    },
    Migration { version: 5, name: "life", sql: include_str!("../../migrations/005_life.sql") },
    Migration {
        version: 6,
        name: "job_changes",
        sql: include_str!("../../migrations/006_job_changes.sql"),
    },
    // The number 7 was never used.
    Migration { version: 8, name: "usage", sql: include_str!("../../migrations/008_usage.sql") },
    Migration {
        version: 9,
        name: "job_lists",
        sql: include_str!("../../migrations/009_job_lists.sql"),
    },
    Migration {
        version: 10,
        name: "perspectives",
        sql: include_str!("../../migrations/010_perspectives.sql"),
    },
    Migration { version: 11, name: "review", sql: include_str!("../../migrations/011_review.sql") },
    Migration { version: 12, name: "places", sql: include_str!("../../migrations/012_places.sql") },
    Migration { version: 13, name: "search", sql: include_str!("../../migrations/013_search.sql") },
    Migration {
        version: 14,
        name: "search_marks",
        sql: include_str!("../../migrations/014_search_marks.sql"),
    },
    Migration {
        version: 15,
        name: "schedules",
        sql: include_str!("../../migrations/015_schedules.sql"),
    },
    Migration {
        version: 16,
        name: "opened_topics",
        sql: include_str!("../../migrations/016_opened_topics.sql"),
    },
    Migration {
        version: 17,
        name: "renames",
        sql: include_str!("../../migrations/017_renames.sql"),
    },
    Migration {
        version: 18,
        name: "steering_holds",
        sql: include_str!("../../migrations/018_steering_holds.sql"),
    },
    Migration { version: 19, name: "titles", sql: include_str!("../../migrations/019_titles.sql") },
    Migration {
        version: 20,
        name: "dismissals",
        sql: include_str!("../../migrations/020_dismissals.sql"),
    },
    Migration {
        version: 21,
        name: "commits",
        sql: include_str!("../../migrations/021_commits.sql"),
    },
    Migration {
        version: 22,
        name: "long_inputs",
        sql: include_str!("../../migrations/022_long_inputs.sql"),
    },
    Migration {
        version: 23,
        name: "script_jobs",
        sql: include_str!("../../migrations/023_script_jobs.sql"),
    },
    Migration {
        version: 24,
        name: "instances",
        sql: include_str!("../../migrations/024_instances.sql"),
    },
    Migration { version: 25, name: "mail", sql: include_str!("../../migrations/025_mail.sql") },
    Migration {
        version: 26,
        name: "workspaces",
        sql: include_str!("../../migrations/026_workspaces.sql"),
    },
    Migration {
        version: 27,
        name: "approvals",
        sql: include_str!("../../migrations/027_approvals.sql"),
    },
    Migration { version: 28, name: "agents", sql: include_str!("../../migrations/028_agents.sql") },
    Migration { version: 29, name: "pools", sql: include_str!("../../migrations/029_pools.sql") },
    Migration {
        version: 30,
        name: "own_usage",
        sql: include_str!("../../migrations/030_own_usage.sql"),
    },
    Migration {
        version: 31,
        name: "own_holds",
        sql: include_str!("../../migrations/031_own_holds.sql"),
    },
    Migration { version: 32, name: "chat", sql: include_str!("../../migrations/032_chat.sql") },
    Migration {
        version: 33,
        name: "channels",
        sql: include_str!("../../migrations/033_channels.sql"),
    },
    Migration {
        version: 34,
        name: "permissions",
        sql: include_str!("../../migrations/034_permissions.sql"),
    },
    Migration {
        version: 35,
        name: "forgotten_mail",
        sql: include_str!("../../migrations/035_forgotten_mail.sql"),
    },
    Migration {
        version: 36,
        name: "chat_calls",
        sql: include_str!("../../migrations/036_chat_calls.sql"),
    },
    Migration {
        version: 37,
        name: "handoffs",
        sql: include_str!("../../migrations/037_handoffs.sql"),
    },
    Migration {
        version: 38,
        name: "held_answers",
        sql: include_str!("../../migrations/038_held_answers.sql"),
    },
    Migration {
        version: 39,
        name: "chat_search",
        sql: include_str!("../../migrations/039_chat_search.sql"),
    },
    Migration {
        version: 40,
        name: "artefacts",
        sql: include_str!("../../migrations/040_artefacts.sql"),
    },
    Migration {
        version: 41,
        name: "chat_uploads",
        sql: include_str!("../../migrations/041_chat_uploads.sql"),
    },
    Migration {
        version: 42,
        name: "promoted_channels",
        sql: include_str!("../../migrations/042_promoted_channels.sql"),
    },
    Migration {
        version: 43,
        name: "outside_members",
        sql: include_str!("../../migrations/043_outside_members.sql"),
    },
    Migration {
        version: 44,
        name: "channel_attachments",
        sql: include_str!("../../migrations/044_channel_attachments.sql"),
    },
    Migration {
        version: 45,
        name: "agent_starts",
        sql: include_str!("../../migrations/045_agent_starts.sql"),
    },
    Migration {
        version: 46,
        name: "monitors",
        sql: include_str!("../../migrations/046_monitors.sql"),
    },
    Migration {
        version: 47,
        name: "script_messages",
        sql: include_str!("../../migrations/047_script_messages.sql"),
    },
    Migration {
        version: 48,
        name: "unused_index",
        sql: include_str!("../../migrations/048_unused_index.sql"),
    },
    Migration {
        version: 49,
        name: "channel_uploaders",
        sql: include_str!("../../migrations/049_channel_uploaders.sql"),
    },
    Migration {
        version: 50,
        name: "asking_answers",
        sql: include_str!("../../migrations/050_asking_answers.sql"),
    },
    Migration {
        version: 51,
        name: "agent_rests",
        sql: include_str!("../../migrations/051_agent_rests.sql"),
    },
    Migration {
        version: 52,
        name: "before_digest",
        sql: include_str!("../../migrations/052_before_digest.sql"),
    },
    Migration {
        version: 53,
        name: "silent_guards",
        sql: include_str!("../../migrations/053_silent_guards.sql"),
    },
    Migration {
        version: 54,
        name: "mute_changes",
        sql: include_str!("../../migrations/054_mute_changes.sql"),
    },
    Migration {
        version: 55,
        name: "chat_search_gone",
        sql: include_str!("../../migrations/055_chat_search_gone.sql"),
    },
    Migration {
        version: 56,
        name: "unfit_jobs",
        sql: include_str!("../../migrations/056_unfit_jobs.sql"),
    },
    Migration {
        version: 57,
        name: "kind_names",
        sql: include_str!("../../migrations/057_kind_names.sql"),
    },
    Migration {
        version: 58,
        name: "piped_questions",
        sql: include_str!("../../migrations/058_piped_questions.sql"),
    },
    Migration {
        version: 59,
        name: "session_engines",
        sql: include_str!("../../migrations/059_session_engines.sql"),
    },
    Migration {
        version: 60,
        name: "session_marks",
        sql: include_str!("../../migrations/060_session_marks.sql"),
    },
    Migration {
        version: 61,
        name: "recorded_sources",
        sql: include_str!("../../migrations/061_recorded_sources.sql"),
    },
    Migration {
        version: 62,
        name: "sources_told",
        sql: include_str!("../../migrations/062_sources_told.sql"),
    },
    Migration {
        version: 63,
        name: "rename_history",
        sql: include_str!("../../migrations/063_rename_history.sql"),
    },
    Migration {
        version: 64,
        name: "files_of_others",
        sql: include_str!("../../migrations/064_files_of_others.sql"),
    },
    Migration {
        version: 65,
        name: "earlier_names",
        sql: include_str!("../../migrations/065_earlier_names.sql"),
    },
    Migration {
        version: 66,
        name: "changes_told",
        sql: include_str!("../../migrations/066_changes_told.sql"),
    },
    Migration {
        version: 67,
        name: "counted_until",
        sql: include_str!("../../migrations/067_counted_until.sql"),
    },
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
