//! G30: the database of every release opens in this program, and one of a newer program is refused.
//!
//! `tests/data/releases/VERSION.db` is what a server of that release left when it was killed;
//! `VERSION.bundle` is its repository. `scripts/fixture` makes both.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use rusqlite::Connection;
use serde_json::Value;
use wiki_browser::base::{Clock, digest_hex};
use wiki_browser::store::{MIGRATIONS, Store};

use crate::support::{Bench, Server, wait_for};

fn folder() -> Utf8PathBuf {
    Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/releases")
}

/// The releases that have a fixture.
fn releases() -> Vec<String> {
    let names = folder().read_dir_utf8().unwrap().map(|it| it.unwrap().file_name().to_owned());
    let mut releases: Vec<String> =
        names.filter_map(|it| it.strip_suffix(".db").map(str::to_owned)).collect();
    releases.sort();
    releases
}

/// Copies a fixture into a folder of its own.
fn copied(release: &str) -> (tempfile::TempDir, Utf8PathBuf) {
    let temp = tempfile::tempdir().unwrap();
    let path = Utf8PathBuf::from_path_buf(temp.path().join("wiki.db")).unwrap();
    std::fs::copy(folder().join(format!("{release}.db")), &path).unwrap();
    (temp, path)
}

/// How many rows each table has; the log of migrations grows by itself.
fn counts(path: &Utf8Path) -> BTreeMap<String, i64> {
    let connection = Connection::open(path).unwrap();
    let mut tables = connection
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
        .unwrap();
    let names: Vec<String> =
        tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let count = |name: &String| {
        connection.query_row(&format!("SELECT COUNT(*) FROM {name}"), [], |row| row.get(0)).unwrap()
    };
    let kept = names.iter().filter(|it| *it != "schema_migrations");
    kept.map(|name| (name.clone(), count(name))).collect()
}

/// The proposals whose approval was half-way.
fn prepared(path: &Utf8Path) -> Vec<String> {
    let connection = Connection::open(path).unwrap();
    let sql = "SELECT proposal_id FROM incorporation_attempts WHERE state = 'prepared'";
    let mut statement = connection.prepare(sql).unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// What SQLite itself finds wrong.
fn faults(path: &Utf8Path) -> Vec<String> {
    let connection = Connection::open(path).unwrap();
    let ask = |sql: &str| -> Vec<String> {
        let mut statement = connection.prepare(sql).unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let mut found = ask("PRAGMA integrity_check");
    found.retain(|it| it != "ok");
    found.extend(ask("PRAGMA foreign_key_check"));
    found
}

/// All files of a folder with the digests of their bytes. The index of the log (`-shm`) is memory
/// that is shared, and no data.
fn bytes_of(folder: &Utf8Path) -> BTreeMap<String, String> {
    let entries = folder.read_dir_utf8().unwrap().map(Result::unwrap);
    let entries = entries.filter(|it| !it.file_name().ends_with("-shm"));
    let digest = |path: &Utf8Path| digest_hex(std::fs::read(path).unwrap());
    entries.map(|it| (it.file_name().to_owned(), digest(it.path()))).collect()
}

#[test]
fn g30_every_release_has_a_fixture_with_rows_in_all_its_tables() {
    let log = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/CHANGELOG.md"));
    let log = log.unwrap();
    let named = log.lines().filter_map(|it| it.strip_prefix("## "));
    let named = named.filter_map(|it| it.split([' ', ':']).find(|word| word.contains('.')));
    for release in named {
        assert!(releases().iter().any(|it| it == release), "{release} has no fixture");
    }
    assert!(!releases().is_empty());
    for release in releases() {
        let (_temp, path) = copied(&release);
        assert_eq!(faults(&path), Vec::<String>::new());
        let empty: Vec<String> = counts(&path)
            .into_iter()
            .filter(|(_, rows)| *rows == 0)
            .map(|(name, _)| name)
            .collect();
        assert!(empty.is_empty(), "{release}: {empty:?}");
    }
}

#[tokio::test]
async fn g30_a_database_of_every_release_opens_and_keeps_its_rows() {
    for release in releases() {
        let (_temp, path) = copied(&release);
        let (before, epoch) = (counts(&path), epoch_of(&path));
        // Twice: what was migrated is migrated once.
        for _ in 0..2 {
            let (store, writer) = Store::open(&path, MIGRATIONS, Clock::system()).unwrap();
            assert_eq!(store.epoch(), epoch, "{release}");
            drop((store, writer));
        }
        let after = counts(&path);
        for (table, rows) in before {
            assert_eq!(after.get(&table), Some(&rows), "{release}: {table}");
        }
        assert_eq!(faults(&path), Vec::<String>::new(), "{release}");
        let version: i64 = Connection::open(&path)
            .unwrap()
            .pragma_query_value(None, "user_version", |row| row.get(0))
            .unwrap();
        assert_eq!(Some(version), MIGRATIONS.last().map(|it| it.version));
    }
}

fn epoch_of(path: &Utf8Path) -> String {
    let connection = Connection::open(path).unwrap();
    connection.query_row("SELECT epoch FROM site", [], |row| row.get(0)).unwrap()
}

#[test]
fn g30_a_database_of_a_newer_program_is_refused_untouched() {
    let newest = MIGRATIONS.last().unwrap().version;
    for (mode, is_crashed) in [("DELETE", false), ("WAL", false), ("WAL", true)] {
        let (temp, path) = copied(releases().last().unwrap());
        let newer = Connection::open(&path).unwrap();
        newer.pragma_update(None, "journal_mode", mode).unwrap();
        newer.pragma_update(None, "user_version", newest + 1).unwrap();
        let crashed = temp.path().join("crashed");
        std::fs::create_dir(&crashed).unwrap();
        for file in if is_crashed { &["wiki.db", "wiki.db-wal"][..] } else { &[] } {
            std::fs::copy(temp.path().join(file), crashed.join(file)).unwrap();
        }
        drop(newer);
        if !is_crashed {
            std::fs::rename(&path, crashed.join("wiki.db")).unwrap();
        }
        let folder = Utf8Path::from_path(&crashed).unwrap();
        let before = bytes_of(folder);
        let refused = Store::open(&folder.join("wiki.db"), MIGRATIONS, Clock::system());
        let refused = refused.map(drop).unwrap_err();
        assert_eq!(refused.code_str(), "database_newer");
        assert!(refused.hint_str().unwrap().contains("newer program"));
        assert_eq!(bytes_of(folder), before, "{mode} {is_crashed}");
        assert_eq!(before.len(), 1 + usize::from(is_crashed));
    }
}

/// A site that goes on with what a release left.
fn upgraded(release: &str) -> (Bench, Server) {
    let bench = Bench::new();
    let bundle = folder().join(format!("{release}.bundle"));
    bench.git(&["fetch", "-q", bundle.as_str(), "refs/*:refs/left/*"]);
    bench.git(&["reset", "-q", "--hard", "refs/left/heads/main"]);
    std::fs::create_dir_all(&bench.data).unwrap();
    std::fs::copy(folder().join(format!("{release}.db")), bench.data.join("wiki.db")).unwrap();
    bench.topic_kind("incorporate", "timeout = \"1m\", produces = \"proposal\"", "exit 0");
    bench.word_kind("count", "timeout = \"1m\", lane = \"word\"", "exit 0");
    bench.word_kind("long", "timeout = \"1m\", lane = \"word\"", "exit 0");
    let server = bench.serve();
    (bench, server)
}

/// All items of a list, page by page.
fn all(bench: &Bench, route: &str) -> Vec<Value> {
    let (mut items, mut after) = (Vec::new(), None::<String>);
    loop {
        let place = after.map_or_else(String::new, |it| format!("&after={it}"));
        let page = bench.get(&format!("{route}?limit=5{place}")).ok();
        items.extend(page["items"].as_array().unwrap().iter().cloned());
        match page["next"].as_str() {
            Some(next) => after = Some(next.to_owned()),
            None => return items,
        }
    }
}

fn id(item: &Value) -> &str {
    item["id"].as_str().unwrap()
}

/// Everything that the old release wrote can be listed and looked at, and what it left half-way is
/// finished: the approval, the job that ran, the one that waited.
#[test]
fn g30_a_server_goes_on_with_what_a_release_left() {
    for release in releases() {
        let (_temp, path) = copied(&release);
        let rows = counts(&path);
        let prepared = prepared(&path);
        let (bench, server) = upgraded(&release);
        let (topics, proposals, jobs) = (
            all(&bench, "/api/topics"),
            all(&bench, "/api/proposals"),
            all(&bench, "/api/agent/jobs"),
        );
        let len = |items: &[Value]| i64::try_from(items.len()).unwrap();
        assert_eq!(len(&topics), rows["topics"]);
        // One for a Source that the finished approval has changed has a new revision.
        assert!(len(&proposals) >= rows["incorporation_proposals"]);
        assert_eq!(len(&jobs), rows["agent_jobs"]);
        let mut messages = 0;
        for topic in &topics {
            let page = bench.get(&format!("/api/topics/{}", id(topic))).ok();
            messages += len(page["messages"].as_array().unwrap());
            bench.get(&format!("/topics/{}", id(topic))).ok();
        }
        assert_eq!(messages, rows["topic_messages"]);
        for proposal in &proposals {
            let shown = bench.get(&format!("/api/proposals/{}", id(proposal))).ok();
            assert!(!shown["text"].as_str().unwrap().is_empty());
            bench.get(&format!("/proposals/{}", id(proposal))).ok();
        }
        for job in &jobs {
            bench.get(&format!("/api/agent/jobs/{}", id(job))).ok();
            bench.get(&format!("/jobs/{}", id(job))).ok();
        }
        for page in ["/", "/d", "/d/guide.md", "/topics", "/proposals", "/jobs", "/api/config"] {
            bench.get(page).ok();
        }
        let with = |items: &[Value], status: &str| -> Vec<String> {
            let found = items.iter().filter(|it| it["status"] == status);
            found.map(|it| id(it).to_owned()).collect()
        };
        let approved = with(&proposals, "approved");
        assert!(prepared.iter().all(|it| approved.contains(it)), "{prepared:?}: {approved:?}");
        assert!(bench.git(&["show", "HEAD:guide.md"]).starts_with("# The guide"));
        assert_eq!(bench.status(), "");
        wait_for("only the job that waits for its time is left", || {
            let left = [
                with(&all(&bench, "/api/agent/jobs"), "running"),
                with(&all(&bench, "/api/agent/jobs"), "queued"),
            ];
            (left[0].is_empty() && left[1].len() == 1).then_some(())
        });
        let reasons: Vec<String> =
            jobs.iter().filter_map(|it| it["reason"].as_str().map(str::to_owned)).collect();
        assert!(reasons.iter().any(|it| it == "server_restarted"), "{reasons:?}");
        server.stop();
        assert_eq!(faults(&bench.data.join("wiki.db")), Vec::<String>::new());
    }
}

/// A conversation that writes a file, reads a document, and writes another file.
const OLD_CALLS: &str = "
    INSERT INTO chat_sessions (id, person_id, title, created_ms, touched_ms)
        SELECT 's', id, '', 1, 1 FROM persons LIMIT 1;
    INSERT INTO chat_messages (id, session_id, role, state, body, created_ms)
        VALUES ('q', 's', 'user', 'whole', '', 1);
    INSERT INTO chat_runs (job_id, session_id, question_id, mode, created_ms)
        SELECT id, 's', 'q', 'm', 1 FROM agent_jobs LIMIT 1;
    INSERT INTO chat_calls (id, run_id, step, place, call_ref, tool, args_json, args_digest, state,
        target, before_digest, after_digest, ok, created_ms, started_ms)
        SELECT 'c' || at, job_id, 1, at, 'c' || at, tool, '{}', '', 'done', path, old, new, 1,
            at, at
        FROM chat_runs, (SELECT 1 AS at, 'write_file' AS tool, 'before.md' AS path, 'none' AS old,
                'd1' AS new
            UNION ALL SELECT 2, 'read_source', NULL, NULL, NULL
            UNION ALL SELECT 3, 'write_file', 'after.md', 'none', 'd3');";

/// What answers of earlier versions wrote from text of others counts, too.
#[test]
fn files_that_old_answers_wrote_from_text_of_others_are_known() {
    let (_temp, path) = copied(releases().last().unwrap());
    let before = MIGRATIONS.iter().position(|it| it.version == 64).unwrap();
    drop(Store::open(&path, &MIGRATIONS[..before], Clock::system()).unwrap());
    let old = Connection::open(&path).unwrap();
    old.execute_batch(OLD_CALLS).unwrap();
    drop(old);
    drop(Store::open(&path, MIGRATIONS, Clock::system()).unwrap());
    let new = Connection::open(&path).unwrap();
    let sql = "SELECT path || ' ' || digest FROM chat_files_of_others";
    let mut statement = new.prepare(sql).unwrap();
    let found = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    assert_eq!(found.collect::<Result<Vec<_>, _>>().unwrap(), ["after.md d3"]);
}
