//! G29: a damaged database is noticed, is no longer written to, and the error names the backup.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;

use camino::Utf8PathBuf;
use serde_json::json;

use crate::support::{Bench, Call, until};

const PAGE: usize = 4096;

/// A site with some Topics, stopped in an orderly way, so that all is in one file.
fn filled() -> (Bench, Utf8PathBuf) {
    let bench = Bench::new();
    let server = bench.serve();
    for number in 0..30 {
        let body = json!({
            "source_path": "guide.md", "global": true,
            "body": format!("{number} {}", "x".repeat(3_000)),
        });
        bench.post("/api/topics", body).ok();
    }
    server.stop();
    let file = bench.data.join("wiki.db");
    (bench, file)
}

fn overwrite(file: &Utf8PathBuf, at: usize, bytes: &[u8]) {
    let opened = OpenOptions::new().write(true).open(file).unwrap();
    opened.write_all_at(bytes, at as u64).unwrap();
}

/// Overwrites the pages that hold what was written in Topics; nothing reads them at a start.
fn damage_pages(file: &Utf8PathBuf) {
    let bytes = fs::read(file).unwrap();
    let mut count = 0;
    for (page, bytes) in bytes.chunks(PAGE).enumerate() {
        if bytes.windows(500).any(|it| it.iter().all(|byte| *byte == b'x')) {
            overwrite(file, page * PAGE, &[0xa5; PAGE]);
            count += 1;
        }
    }
    assert!(count > 5, "{count}");
}

fn truncate(file: &Utf8PathBuf) {
    let opened = OpenOptions::new().write(true).open(file).unwrap();
    opened.set_len(opened.metadata().unwrap().len() / 2).unwrap();
}

fn keep_backups(bench: &Bench) -> Utf8PathBuf {
    let folder = bench.data.join("backups");
    fs::create_dir_all(&folder).unwrap();
    for name in ["older.db", "newer.db"] {
        fs::write(folder.join(name), name).unwrap();
        let time = std::time::UNIX_EPOCH
            + std::time::Duration::from_secs(if name == "newer.db" {
                2_000_000
            } else {
                1_000_000
            });
        fs::File::open(folder.join(name)).unwrap().set_modified(time).unwrap();
    }
    folder.join("newer.db")
}

#[test]
fn g29_a_damaged_database_is_not_served_and_the_backup_is_named() {
    type Damage = fn(&Utf8PathBuf);
    let garbage: Damage = |file| overwrite(file, 0, b"this is no database any more....");
    for (what, damage) in
        [("pages", damage_pages as Damage), ("truncated", truncate), ("header", garbage)]
    {
        let (bench, file) = filled();
        damage(&file);
        let damaged = fs::read(&file).unwrap();
        let mut server = bench.start(&[]);
        let (status, _) = server.wait();
        assert_eq!(status.code(), Some(6), "{what}: {}", server.log());
        let log = server.log();
        assert!(log.contains("is damaged") && log.contains("no backup in"), "{what}: {log}");
        let newest = keep_backups(&bench);
        let mut server = bench.start(&[]);
        server.wait();
        let log = server.log();
        assert!(log.contains(&format!("wiki-browser restore {newest}")), "{what}: {log}");
        assert_eq!(fs::read(&file).unwrap(), damaged, "{what}: it was written to");
    }
}

/// A database that is too large to be read before it is served is read while it is served.
#[test]
fn g29_damage_that_is_found_later_stops_all_writing() {
    let (bench, file) = filled();
    let newest = keep_backups(&bench);
    damage_pages(&file);
    let server = bench.start(&[("WB_ABSENT", "check_at_open")]);
    // It serves, and it is not ready any more.
    until("it listens", || Call::get("/healthz").try_socket(&bench.socket()).is_some());
    until("the damage is found", || bench.get("/api/health").ok()["status"] == "corrupt");
    let told = bench.get("/api/health").ok();
    assert_eq!(told["database"]["code"], "database_corrupt");
    assert!(told["database"]["hint"].as_str().unwrap().contains(newest.as_str()), "{told}");
    assert_eq!(bench.get("/readyz").refusal(), (503, "database_corrupt"));
    let body = json!({"source_path": "guide.md", "global": true, "body": "more"});
    let bytes = || [fs::read(&file).unwrap(), fs::read(format!("{file}-wal")).unwrap_or_default()];
    let before = bytes();
    for _ in 0..3 {
        let refused = bench.post("/api/topics", body.clone());
        assert_eq!(refused.refusal(), (503, "database_corrupt"), "{refused:?}");
    }
    assert_eq!(bench.get("/healthz").status, 200);
    assert_eq!(before, bytes());
    server.kill();
}

/// The log holds what was acknowledged last: without it the database is intact, and too old. Fails
/// with `WB_WITHOUT=lost_log`.
#[test]
fn g29_a_log_that_is_gone_is_noticed() {
    let bench = Bench::new();
    let server = bench.serve();
    bench.topic("guide.md", "The first line.", "Say it better.");
    server.kill();
    let log = bench.data.join("wiki.db-wal");
    let aside = bench.data.join("aside");
    fs::rename(&log, &aside).unwrap();
    for _ in 0..2 {
        let mut server = bench.start(&[]);
        let (status, _) = server.wait();
        assert_eq!(status.code(), Some(6), "{}", server.log());
        assert!(server.log().contains("wiki.db-wal is missing"), "{}", server.log());
    }
    fs::rename(&aside, &log).unwrap();
    let _ = fs::remove_file(bench.data.join("wiki.db-shm"));
    let server = bench.serve();
    assert_eq!(bench.get("/api/topics").ok()["items"].as_array().unwrap().len(), 1);
    server.stop();
    // Another program that looks works the log in, and it is not missed.
    let server = bench.serve();
    bench.topic("guide.md", "The first line.", "Say it better.");
    server.kill();
    let looking = rusqlite::Connection::open(bench.data.join("wiki.db")).unwrap();
    let found = "SELECT COUNT(*) FROM topics";
    assert_eq!(looking.query_row(found, [], |row| row.get::<_, i64>(0)).unwrap(), 2);
    drop(looking);
    assert!(!log.exists());
    let server = bench.serve();
    assert_eq!(bench.get("/api/topics").ok()["items"].as_array().unwrap().len(), 2);
    server.stop();
    // Of an orderly end there is no log, and none is missed.
    assert!(!bench.data.join("server.json").exists());
    bench.serve().stop();
}

/// A start that is cut off while it recovers has begun a life of its own.
#[test]
fn g29_a_log_that_was_worked_in_after_a_start_was_cut_off_is_not_missed() {
    let bench = Bench::new();
    bench.word_kind("long", "timeout = \"1h\"", "exec sleep 600");
    let server = bench.serve();
    let job = bench.job("long", json!({"word": "x"}));
    bench.wait_status(&job, "running");
    server.kill();
    until("its guard has ended", || bench.alive().is_empty());
    let mut server = bench.start(&[("WB_CRASH_AT", "before_settle")]);
    let (status, _) = server.wait();
    assert!(status.code().is_none(), "{status:?}: {}", server.log());
    assert!(bench.data.join("wiki.db-wal").exists());
    bench.json(&["cleanup"]);
    // Who looks at it last works the log in.
    let looking = rusqlite::Connection::open(bench.data.join("wiki.db")).unwrap();
    looking.query_row("SELECT COUNT(*) FROM topics", [], |row| row.get::<_, i64>(0)).unwrap();
    drop(looking);
    assert!(!bench.data.join("wiki.db-wal").exists());
    let server = bench.serve();
    assert_eq!(bench.ended(&job)["reason"], "server_restarted");
    server.stop();
}

/// The index of the log is rebuilt from the log.
#[test]
fn g29_an_index_of_the_log_that_is_stale_or_garbage_does_no_harm() {
    let bench = Bench::new();
    let mut count = 0;
    for bytes in [&[][..], &[0xff; 32 * 1024], &[0x00; 4096]] {
        let server = bench.serve();
        bench.topic("guide.md", "The first line.", "Say it better.");
        count += 1;
        server.kill();
        fs::write(bench.data.join("wiki.db-shm"), bytes).unwrap();
        let server = bench.serve();
        assert_eq!(bench.get("/api/topics").ok()["items"].as_array().unwrap().len(), count);
        server.kill();
    }
}

/// Returns where the last frame of a write-ahead log ends: behind it there may be those of an
/// earlier round, which have other salts (<https://www.sqlite.org/walformat.html>).
fn end_of_log(log: &[u8]) -> usize {
    let size = 24 + usize::try_from(u32::from_be_bytes(log[8..12].try_into().unwrap())).unwrap();
    let frames = log[32..].chunks_exact(size).take_while(|it| it[8..16] == log[16..24]);
    32 + frames.count() * size
}

/// A damaged frame of the log makes SQLite drop all that follows it, without a word. Fails with
/// `WB_WITHOUT=tally`.
#[test]
fn g29_a_log_that_lost_its_end_is_noticed() {
    let bench = Bench::new();
    let server = bench.serve();
    bench.json(&["backup"]);
    let post = |count: usize| {
        for number in 0..count {
            let body =
                json!({"source_path": "guide.md", "global": true, "body": number.to_string()});
            bench.post("/api/topics", body).ok();
        }
    };
    let topics = || bench.get("/api/topics?limit=200").ok()["items"].as_array().unwrap().len();
    post(20);
    server.kill();
    let log = bench.data.join("wiki.db-wal");
    let whole = fs::read(&log).unwrap();
    let mut torn = whole.clone();
    torn[whole.len() / 2] ^= 1;
    fs::write(&log, &torn).unwrap();
    for _ in 0..2 {
        let mut server = bench.start(&[]);
        let (status, _) = server.wait();
        let said = server.log();
        assert_eq!(status.code(), Some(6), "{said}");
        assert!(said.contains("has lost its last") && said.contains("database_corrupt"), "{said}");
        assert!(said.contains("wiki-browser restore") && said.contains("backups/"), "{said}");
        assert_eq!(fs::read(&log).unwrap(), torn, "it was written to");
    }
    assert_ne!(bench.cli(&["cleanup"]).0, 0);
    // The log as it was is good again.
    fs::write(&log, &whole).unwrap();
    let server = bench.serve();
    assert_eq!(topics(), 20);
    post(5);
    server.kill();
    let mut torn = fs::read(&log).unwrap();
    let end = end_of_log(&torn) - 1;
    torn[end] ^= 1;
    fs::write(&log, &torn).unwrap();
    bench.start(&[]).wait();
    // Whoever goes on without the end says so.
    let (code, said, _) = bench.cli(&["recover"]);
    assert_eq!(code, 0, "{said}");
    let server = bench.serve();
    let left = topics();
    assert!((20..=25).contains(&left), "{left}");
    post(1);
    server.kill();
    let server = bench.serve();
    assert_eq!(topics(), left + 1);
    server.stop();
}

/// An older copy that was put in place by hand is no restored backup.
#[test]
fn g29_an_older_copy_in_place_of_the_database_is_noticed() {
    let bench = Bench::new();
    let server = bench.serve();
    let copy = bench.base.join("copy.db");
    bench.json(&["backup", copy.as_str()]);
    bench.topic("guide.md", "The first line.", "Say it better.");
    server.stop();
    fs::copy(&copy, bench.data.join("wiki.db")).unwrap();
    let mut server = bench.start(&[]);
    assert_eq!(server.wait().0.code(), Some(6), "{}", server.log());
    // The doctor refuses it as the server does.
    let (code, said, _) = bench.cli(&["doctor"]);
    assert!(code == 1 && said.contains("has lost its last"), "{said}");
    bench.json(&["restore", copy.as_str()]);
    let server = bench.serve();
    // Also one from before that: what was committed since the restore is not in it.
    bench.topic("guide.md", "The first line.", "Say it shorter.");
    server.stop();
    fs::copy(&copy, bench.data.join("wiki.db")).unwrap();
    let mut server = bench.start(&[]);
    assert_eq!(server.wait().0.code(), Some(6), "{}", server.log());
    assert!(server.log().contains("from before it was restored"), "{}", server.log());
    // Whoever wants that copy says so.
    bench.json(&["restore", copy.as_str()]);
    bench.serve().stop();
    fs::copy(&copy, bench.data.join("wiki.db")).unwrap();
    bench.start(&[]).wait();
    let (code, said, _) = bench.cli(&["recover"]);
    assert_eq!(code, 0, "{said}");
    bench.serve().stop();
}
