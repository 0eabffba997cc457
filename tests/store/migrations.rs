//! Migrations, also those that manage their own transaction.

use camino::{Utf8Path, Utf8PathBuf};
use rusqlite::Connection;
use wiki_browser::base::{Clock, ErrorKind, Millis};
use wiki_browser::jobs::{UsageBy, Viewer, usage};
use wiki_browser::store::{MIGRATIONS, Migration, Store, migrate};

const OLD: Migration = Migration {
    version: 1,
    name: "old_shape",
    sql: include_str!("../data/migrations/001_old_shape.sql"),
};
const REBUILD: Migration = Migration {
    version: 2,
    name: "rebuild",
    sql: include_str!("../data/migrations/002_rebuild.sql"),
};
const ORPHAN: Migration = Migration {
    version: 2,
    name: "rebuild_with_orphan",
    sql: include_str!("../data/migrations/002_rebuild_with_orphan.sql"),
};

/// A database of the old shape with a row in every table.
fn populated() -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    connection.pragma_update(None, "foreign_keys", true).unwrap();
    migrate(&connection, &[OLD], &Clock::system()).unwrap();
    connection
        .execute_batch(
            "INSERT INTO users VALUES ('u', 'Ada');
             INSERT INTO topics VALUES ('t', NULL);
             INSERT INTO incorporation_proposals VALUES ('p', 't', 1, 'text', 'sha', 'u', 7);
             UPDATE topics SET incorporated_proposal = 'p';
             INSERT INTO incorporation_attempts VALUES ('a', 'p', 't');",
        )
        .unwrap();
    connection
}

/// Returns the names and values of the columns of the one proposal.
fn columns(connection: &Connection) -> Vec<(String, rusqlite::types::Value)> {
    let sql = "SELECT * FROM incorporation_proposals WHERE id = 'p'";
    let mut statement = connection.prepare(sql).unwrap();
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let value = |row: &rusqlite::Row<'_>| {
        names.iter().map(|name| Ok((name.clone(), row.get(name.as_str())?))).collect()
    };
    statement.query_row([], value).unwrap()
}

/// Returns the columns of each unique index of the proposals.
fn indices(connection: &Connection) -> Vec<String> {
    let sql =
        "SELECT (SELECT group_concat(name, ', ') FROM pragma_index_info(list.name)) AS columns
         FROM pragma_index_list('incorporation_proposals') AS list WHERE list.\"unique\"
         ORDER BY columns";
    let mut statement = connection.prepare(sql).unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

fn versions(connection: &Connection) -> Vec<i64> {
    let mut statement =
        connection.prepare("SELECT version FROM schema_migrations ORDER BY version").unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

fn user_version(connection: &Connection) -> i64 {
    connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

#[test]
fn a_the_rebuilt_table_takes_a_proposal_of_no_user() {
    let connection = populated();
    let insert = "INSERT INTO incorporation_proposals VALUES ('q', 't', 2, 'x', 'sha', NULL, 8)";
    assert!(connection.execute(insert, []).is_err());
    migrate(&connection, &[OLD, REBUILD], &Clock::system()).unwrap();
    assert_eq!(connection.execute(insert, []).unwrap(), 1);
}

#[test]
fn b_rows_survive_the_rebuild_with_their_values() {
    let connection = populated();
    let before = (columns(&connection), indices(&connection));
    assert_eq!(before.0.len(), 7);
    assert!(before.1.contains(&"topic_id, revision_number".to_owned()), "{:?}", before.1);
    migrate(&connection, &[OLD, REBUILD], &Clock::system()).unwrap();
    assert_eq!((columns(&connection), indices(&connection)), before);
    let again = "INSERT INTO incorporation_proposals VALUES ('q', 't', 1, 'x', 'sha', 'u', 8)";
    let refused = connection.execute(again, []).unwrap_err().to_string();
    assert!(refused.contains("topic_id, incorporation_proposals.revision_number"), "{refused}");
    // References to the rebuilt table hold, and are enforced again.
    let bad = connection.execute("INSERT INTO incorporation_attempts VALUES ('b', 'no', 't')", []);
    assert!(bad.is_err());
}

/// Fails with `WB_WITHOUT=orphan_check`.
#[test]
fn c_a_row_of_the_foreign_key_check_ends_the_migration() {
    let connection = populated();
    let failed = migrate(&connection, &[OLD, ORPHAN], &Clock::system()).unwrap_err();
    assert_eq!(failed.code_str(), "migration_failed");
    assert!(failed.message().contains("002_rebuild_with_orphan"), "{failed}");
    assert_eq!(user_version(&connection), 1);
    assert_eq!(versions(&connection), [1]);
    let topics: i64 =
        connection.query_row("SELECT COUNT(*) FROM topics", [], |row| row.get(0)).unwrap();
    assert_eq!(topics, 1, "the migration was not rolled back");
    let on: bool = connection.pragma_query_value(None, "foreign_keys", |row| row.get(0)).unwrap();
    assert!(on, "foreign keys were left off");
}

#[test]
fn d_a_migration_with_its_own_transaction_is_recorded() {
    let connection = populated();
    migrate(&connection, &[OLD, REBUILD], &Clock::system()).unwrap();
    assert_eq!(versions(&connection), [1, 2]);
    // Once more changes nothing.
    migrate(&connection, &[OLD, REBUILD], &Clock::system()).unwrap();
    assert_eq!(versions(&connection), [1, 2]);
}

#[test]
fn a_crash_before_the_record_is_mended_at_the_next_open() {
    let connection = populated();
    migrate(&connection, &[OLD, REBUILD], &Clock::system()).unwrap();
    connection.execute("DELETE FROM schema_migrations WHERE version = 2", []).unwrap();
    migrate(&connection, &[OLD, REBUILD], &Clock::system()).unwrap();
    assert_eq!(versions(&connection), [1, 2]);
}

#[test]
fn a_migration_that_does_not_set_its_version_is_refused() {
    let forgetful =
        Migration { version: 2, name: "forgetful", sql: "-- migrate:no-tx\nCREATE TABLE x (y);" };
    let connection = populated();
    let failed = migrate(&connection, &[OLD, forgetful], &Clock::system()).unwrap_err();
    assert!(failed.message().contains("user_version"), "{failed}");
}

/// A number that is missing would be a file that was lost: but for 7, which was never used.
#[test]
fn every_file_is_a_migration_and_the_numbers_follow_each_other() {
    let folder = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let mut files: Vec<String> =
        folder.read_dir_utf8().unwrap().map(|it| it.unwrap().file_name().to_owned()).collect();
    files.sort();
    let named = |it: &Migration| format!("{:03}_{}.sql", it.version, it.name);
    assert_eq!(files, MIGRATIONS.iter().map(named).collect::<Vec<_>>());
    let last = MIGRATIONS.last().unwrap().version;
    let expected: Vec<i64> = (1..=last).filter(|it| *it != 7).collect();
    assert_eq!(MIGRATIONS.iter().map(|it| it.version).collect::<Vec<_>>(), expected);
}

fn temporary(name: &str) -> (tempfile::TempDir, Utf8PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = Utf8Path::from_path(folder.path()).unwrap().join(name);
    (folder, path)
}

#[test]
fn a_database_of_a_newer_program_is_refused_untouched() {
    let (_folder, path) = temporary("wiki.db");
    drop(Store::open(&path, MIGRATIONS, Clock::system()).unwrap());
    let connection = Connection::open(&path).unwrap();
    connection.pragma_update(None, "user_version", 999).unwrap();
    connection.pragma_update(None, "journal_mode", "DELETE").unwrap();
    drop(connection);
    let before = std::fs::read(&path).unwrap();
    let refused = Store::open(&path, MIGRATIONS, Clock::system()).err().unwrap();
    assert_eq!((refused.kind(), refused.code_str()), (ErrorKind::Conflict, "database_newer"));
    assert!(refused.message().contains("999"));
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn opening_again_keeps_the_epoch() {
    let (_folder, path) = temporary("wiki.db");
    let first = Store::open(&path, MIGRATIONS, Clock::system()).unwrap().0.epoch().to_owned();
    let second = Store::open(&path, MIGRATIONS, Clock::system()).unwrap().0.epoch().to_owned();
    assert!(!first.is_empty());
    assert_eq!(first, second);
}

#[test]
fn a_file_that_is_no_database_is_named() {
    let (_folder, path) = temporary("wiki.db");
    std::fs::write(&path, "this is not a database, it only has its name".repeat(100)).unwrap();
    let refused = Store::open(&path, MIGRATIONS, Clock::system()).err().unwrap();
    assert_eq!(refused.code_str(), "database_corrupt");
}

/// A database of the first release has the sums of its jobs afterwards, and its handlers are not
/// told of what happened before.
#[test]
fn the_jobs_of_an_older_release_are_summed_up() {
    let connection = Connection::open_in_memory().unwrap();
    let clock = Clock::fixed(Millis(1_700_000_000_000));
    let old: Vec<_> = MIGRATIONS.iter().filter(|it| it.version <= 3).copied().collect();
    migrate(&connection, &old, &clock).unwrap();
    let rows = [
        ("a", "succeeded", Some(r#"{"input_tokens":3,"output_tokens":4,"turns":1}"#), Some(0.5)),
        ("a", "failed", Some(r#"{"input_tokens":null,"cache_read_input_tokens":9}"#), None),
        ("b", "cancelled", None, None),
    ];
    for (kind, status, usage, cost) in rows {
        let sql =
            "INSERT INTO agent_jobs (id, kind, status, inputs_json, grants_json, requested_by,
            created_ms, started_ms, completed_ms, config_digest, usage_json, cost_usd)
            VALUES (?1, ?2, ?3, '{}', '[]', 'person:x', 1, 1000, 3000, '', ?4, ?5)";
        let params = rusqlite::params![format!("{kind}{status}"), kind, status, usage, cost];
        connection.execute(sql, params).unwrap();
    }
    let never = "INSERT INTO agent_jobs (id, kind, status, inputs_json, grants_json, requested_by,
        created_ms, completed_ms, config_digest)
        VALUES ('never', 'a', 'cancelled', '{}', '[]', 'person:x', 1, 3000, '')";
    connection.execute(never, []).unwrap();
    let event = "INSERT INTO events (at_ms, kind, subject, actor, scope, audit, data_json)
        VALUES (1, 'job_queued', 'job:x', 'system', 'site', 0, '{}')";
    connection.execute(event, []).unwrap();
    migrate(&connection, MIGRATIONS, &clock).unwrap();
    let (kinds, total) = usage(&connection, &Viewer::Site, UsageBy::Kind, Millis(0)).unwrap();
    let shown: Vec<_> = kinds.iter().map(|it| (it.name.as_str(), it.jobs, it.failed)).collect();
    assert_eq!(shown, [("a", 2, 1), ("b", 1, 0)]);
    assert_eq!((total.input_tokens, total.cached_tokens, total.output_tokens), (3, 9, 4));
    assert_eq!((total.cost_usd, total.agent_ms, total.succeeded), (0.5, 6_000, 1));
    let told: i64 =
        connection.query_row("SELECT event_id FROM handlers_told", [], |row| row.get(0)).unwrap();
    assert_eq!(told, 1);
}
