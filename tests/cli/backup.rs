//! Backups while clients write, restoring them, and what a kill in the middle leaves.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use rusqlite::Connection;
use serde_json::{Value, json};

use super::desk::{ADDS_A_LINE, PROPOSES, operator, refused, said};
use crate::support::{Bench, Call, Patience, until};

fn bench() -> Bench {
    let bench = Bench::new();
    bench.topic_kind("incorporate", PROPOSES, ADDS_A_LINE);
    bench.word_kind("note", "timeout = \"20s\", lane = \"word\"", "echo done");
    bench.word_kind("long", "timeout = \"1h\", lane = \"word\"", "exec sleep 600");
    bench
}

fn epoch(database: &Utf8Path) -> String {
    let connection = Connection::open(database).unwrap();
    connection.query_row("SELECT epoch FROM site", [], |row| row.get(0)).unwrap()
}

fn whole(database: &Utf8Path) {
    let connection = Connection::open(database).unwrap();
    let found: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(found, "ok");
    let orphans = connection.prepare("PRAGMA foreign_key_check").unwrap().exists([]).unwrap();
    assert!(!orphans);
}

fn topics(bench: &Bench) -> Vec<String> {
    let page = bench.get("/api/topics?limit=200").ok();
    let items = page["items"].as_array().unwrap();
    items.iter().map(|it| it["title"].as_str().unwrap().to_owned()).collect()
}

fn global(bench: &Bench, title: &str) -> String {
    let body = json!({"source_path": "guide.md", "global": true, "title": title, "body": "x"});
    bench.post("/api/topics", body).ok()["id"].as_str().unwrap().to_owned()
}

/// Returns the first words of the stream of events after an id.
fn first_of_stream(bench: &Bench, after: &str) -> String {
    let mut stream = UnixStream::connect(bench.socket()).unwrap();
    let token = bench.operator();
    let head = format!(
        "GET /api/events?after={after} HTTP/1.1\r\nHost: localhost\r\n\
         Authorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut told = Vec::new();
    let mut piece = [0; 4096];
    // The answer's own empty line, and the one that ends the first event.
    while told.windows(2).filter(|it| it == b"\n\n").count() < 1 {
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "{}", String::from_utf8_lossy(&told));
        told.extend_from_slice(&piece[..count]);
    }
    String::from_utf8_lossy(&told).into_owned()
}

/// Clients that post messages until they are told to stop; what was acknowledged is kept.
struct Writers {
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<(Vec<String>, Duration)>>,
}

impl Writers {
    fn start(bench: &Bench, topic: &str, count: usize) -> Writers {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..count).map(|writer| {
            let (stop, socket, token) = (Arc::clone(&stop), bench.socket(), bench.operator());
            let route = format!("/api/topics/{topic}/messages");
            std::thread::spawn(move || {
                let (mut acknowledged, mut slowest) = (Vec::new(), Duration::ZERO);
                for n in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let body = format!("message {writer}-{n}");
                    let start = Instant::now();
                    let call = Call::post(&route, json!({"body": body})).token(&token);
                    let answer = call.try_socket(&socket).unwrap();
                    assert_eq!(answer.status, 201, "{answer:?}");
                    slowest = slowest.max(start.elapsed());
                    acknowledged.push(body);
                }
                (acknowledged, slowest)
            })
        });
        Writers { threads: threads.collect(), stop }
    }

    fn stop(self) -> (Vec<String>, Duration) {
        self.stop.store(true, Ordering::Relaxed);
        let (mut all, mut slowest) = (Vec::new(), Duration::ZERO);
        for thread in self.threads {
            let (acknowledged, slow) = thread.join().unwrap();
            all.extend(acknowledged);
            slowest = slowest.max(slow);
        }
        (all, slowest)
    }
}

fn messages(bench: &Bench, topic: &str) -> Vec<(i64, String)> {
    let page = bench.get(&format!("/api/topics/{topic}")).ok();
    let all = page["messages"].as_array().unwrap().iter();
    all.map(|it| (it["sequence"].as_i64().unwrap(), it["body"].as_str().unwrap().into())).collect()
}

#[test]
fn a_backup_under_load_holds_what_was_acknowledged_before_it() {
    let bench = bench();
    let server = bench.serve();
    let topic = global(&bench, "busy");
    let before = Writers::start(&bench, &topic, 3);
    until("there are messages", || messages(&bench, &topic).len() > 40);
    let (acknowledged, _) = before.stop();
    let during = Writers::start(&bench, &topic, 3);
    let made = bench.json(&["backup"]);
    let (later, slowest) = during.stop();
    assert!(!later.is_empty() && slowest < Patience::MAX, "{slowest:?}");
    let path = Utf8PathBuf::from(made["path"].as_str().unwrap());
    assert_eq!(path.parent().unwrap(), bench.data.join("backups"));
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |path: &Utf8Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    }
    whole(&path);
    // One file, which needs nothing beside it.
    let names: Vec<String> = path
        .parent()
        .unwrap()
        .read_dir_utf8()
        .unwrap()
        .map(|it| it.unwrap().file_name().to_owned())
        .filter(|it| it.starts_with("site-"))
        .collect();
    assert_eq!(names.len(), 1, "{names:?}");
    assert_eq!(bench.json(&["status"])["backup"]["path"], made["path"]);
    let old_epoch = epoch(&bench.data.join("wiki.db"));
    // A running server is not pulled the database from under its feet.
    refused(&bench, &["restore", path.as_str()], 5, "already_running");
    server.stop();
    let report = bench.json(&["restore", path.as_str()]);
    let kept = Utf8PathBuf::from(report["kept"][0].as_str().unwrap());
    whole(&kept);
    assert_eq!(epoch(&kept), old_epoch);
    assert!(report["rows_lost"]["topic_messages"].as_i64().unwrap_or(0) <= later.len() as i64);
    let server = bench.serve();
    let kept = messages(&bench, &topic);
    for body in &acknowledged {
        assert!(kept.iter().any(|(_, it)| it == body), "{body} is lost");
    }
    // Of what came while it was made there is a beginning and no holes.
    let numbers: Vec<i64> = kept.iter().map(|(n, _)| *n).collect();
    assert_eq!(numbers, (1..=numbers.len() as i64).collect::<Vec<_>>());
    assert!(kept.len() <= 1 + acknowledged.len() + later.len());
    // Whoever resumes by an id of the old life is told to read afresh.
    assert_ne!(epoch(&bench.data.join("wiki.db")), old_epoch);
    assert!(first_of_stream(&bench, &format!("{old_epoch}-1")).contains("event: reset"));
    server.stop();
}

/// Fails with `WB_WITHOUT=lost_database`.
#[test]
fn a_site_that_has_lost_its_database_does_not_begin_anew_by_itself() {
    let bench = bench();
    let server = bench.serve();
    global(&bench, "kept");
    let made = bench.json(&["backup"]);
    server.stop();
    let database = bench.data.join("wiki.db");
    std::fs::remove_file(&database).unwrap();
    let assert = operator(&bench, &["serve"]).assert().code(4);
    let told = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    let backup = made["path"].as_str().unwrap();
    for words in ["no_database", "operator.token", backup, "to start over, move "] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert!(!database.exists());
    said(&bench, &["restore", backup]);
    let server = bench.serve();
    assert_eq!(topics(&bench), ["kept"]);
    server.stop();
    // A copy where `git add` finds it is warned of, and what a restore put aside is listed.
    let (_, _, told) = bench.cli(&["backup", "beside.db"]);
    assert!(told.contains("warning: this file is in the repository "), "{told}");
    let link = bench.base.join("link");
    std::os::unix::fs::symlink(&bench.top, &link).unwrap();
    for (to, is_inside) in [
        (format!("{}/../out-of-it.db", bench.top), false),
        (format!("{}/../{}/leak.db", bench.base, bench.base.file_name().unwrap()), false),
        (format!("{}/../{}/leak.db", bench.out, bench.top.file_name().unwrap()), true),
        (link.join("linked.db").to_string(), true),
    ] {
        let (code, _, told) = bench.cli(&["backup", &to]);
        assert_eq!((code, told.contains("is in the repository ")), (0, is_inside), "{to}: {told}");
    }
    let (_, _, told) = bench.cli(&["backup"]);
    assert!(!told.contains("warning"), "{told}");
    said(&bench, &["restore", backup]);
    let (_, _, told) = bench.cli(&["backup", "--list"]);
    assert!(told.contains("put aside, and kept until") && told.contains("/replaced-"), "{told}");
    assert_eq!(bench.json(&["backup", "--list"])["aside"].as_array().unwrap().len(), 1);
    std::fs::rename(&bench.data, bench.base.join("away")).unwrap();
    let server = bench.serve();
    assert!(topics(&bench).is_empty());
    server.stop();
}

#[test]
fn a_backup_never_replaces_a_file_and_keeps_only_so_many() {
    let bench = bench();
    let server = bench.serve();
    let folder = bench.base.join("copies");
    std::fs::create_dir(&folder).unwrap();
    let file = folder.join("mine.db");
    said(&bench, &["backup", file.as_str()]);
    whole(&file);
    refused(&bench, &["backup", file.as_str()], 5, "file_exists");
    refused(&bench, &["backup", "--to", folder.join("none").as_str()], 4, "not_found");
    let (exit, _, err) = bench.cli(&["backup", "/proc/none/x.db", "--json"]);
    assert!(exit == 6 && err.contains("\"backup_failed\"") && err.contains("hint"), "{err}");
    let first = bench.json(&["backup", "--to", folder.as_str()]);
    let name = Utf8Path::new(first["path"].as_str().unwrap()).file_name().unwrap();
    let key = name.split('-').nth(1).unwrap();
    // Others have their copies in the same folder, and so had this site before its last restore.
    let others = ["site-0a1b2c3d-20200101T000000000Z.db", "site-20200101T000000Z.db"];
    for name in others {
        std::fs::write(folder.join(name), "another's").unwrap();
    }
    for n in 1..4 {
        std::fs::write(folder.join(format!("site-{key}-2020010{n}T000000000Z.db")), "old").unwrap();
    }
    let made = bench.json(&["backup", "--to", folder.as_str(), "--keep", "3"]);
    assert_eq!(made["removed"].as_array().unwrap().len(), 2, "{made}");
    assert!(folder.join(format!("site-{key}-20200103T000000000Z.db")).exists() && file.exists());
    assert!(others.iter().all(|it| folder.join(it).exists()));
    server.stop();
    // Without a server the command does it itself.
    let alone = bench.json(&["backup", "alone.db"]);
    whole(Utf8Path::new(alone["path"].as_str().unwrap()));
    std::fs::remove_file(alone["path"].as_str().unwrap()).unwrap();
    let head = [&b"SQLite format 3\0"[..], &[0; 100]].concat();
    for (bytes, code, exit) in
        [(&b"not a database"[..], "not_a_backup", 2), (&head, "database_corrupt", 6)]
    {
        let bad = folder.join("bad.db");
        std::fs::write(&bad, bytes).unwrap();
        let before = std::fs::read(bench.data.join("wiki.db")).unwrap();
        let (found, _, err) = bench.cli(&["restore", bad.as_str(), "--json"]);
        assert!(found == exit && err.contains(code), "{found} {err}");
        assert_eq!(std::fs::read(bench.data.join("wiki.db")).unwrap(), before);
    }
    refused(&bench, &["restore", folder.join("none.db").as_str()], 4, "not_found");
}

#[test]
fn a_kill_during_a_restore_leaves_the_old_database_or_the_new_one() {
    let bench = bench();
    let server = bench.serve();
    global(&bench, "first");
    let backup = bench.json(&["backup"])["path"].as_str().unwrap().to_owned();
    global(&bench, "second");
    server.stop();
    let points = [
        ("backup_copied", 2),
        ("restore_copied", 2),
        ("restore_settled", 2),
        ("restore_aside", 2),
        ("restore_ready", 2),
        ("restore_decided", 1),
        ("restore_log_gone", 1),
    ];
    for (point, expected) in points {
        let assert = operator(&bench, &["restore", &backup]).env("WB_CRASH_AT", point).assert();
        let output = assert.get_output();
        assert!(output.status.code().is_none(), "{point} is never passed: {output:?}");
        // The server finishes what was decided, and takes the old one otherwise.
        let server = bench.serve();
        assert_eq!(topics(&bench).len(), expected, "{point}");
        if expected == 1 {
            global(&bench, "second");
        }
        server.kill();
        // A program that it was about to start holds its lock for a moment longer.
        until("nothing of it is left", || bench.alive().is_empty());
        whole(&bench.data.join("wiki.db"));
        // What is called kept is no other name of what is in force.
        let kept = bench.data.join("backups").read_dir_utf8().unwrap().map(Result::unwrap);
        let kept: Vec<_> = kept.filter(|it| it.file_name().starts_with("replaced-")).collect();
        let links = bench.data.join("wiki.db").metadata().unwrap().nlink();
        assert!(links == 1 && kept.is_empty() == (expected == 2), "{point}: {kept:?}");
        for it in kept {
            std::fs::remove_file(it.path()).unwrap();
        }
    }
    said(&bench, &["restore", &backup]);
    let left = bench.data.read_dir_utf8().unwrap().map(Result::unwrap);
    let left: Vec<_> = left.filter(|it| it.file_name().contains("restoring")).collect();
    assert!(left.is_empty(), "{left:?}");
    let server = bench.serve();
    assert_eq!(topics(&bench), ["first"]);
    server.stop();
}

#[test]
fn what_was_approved_after_the_backup_is_found_in_git() {
    let bench = bench();
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The second line.", "One more, please.");
    let open = bench.topic("notes.md", "Keep this.", "Or not?");
    let (shown, other) =
        (bench.proposal("incorporate", &topic), bench.proposal("incorporate", &open));
    let backup = bench.json(&["backup"])["path"].as_str().unwrap().to_owned();
    let approved = bench.send(&bench.approval(&shown)).ok();
    server.stop();
    let report = bench.json(&["restore", &backup]);
    assert_eq!(report["approvals"].as_array().unwrap().len(), 1, "{report:#}");
    assert_eq!(report["approvals"][0]["commit"], approved["commit"]);
    assert_eq!(report["approvals"][0]["settled"], true);
    assert_eq!(report["git_problem"], Value::Null);
    let commits = bench.commits();
    let server = bench.serve();
    assert_eq!(bench.proposal_status(&shown), "approved");
    assert_eq!(bench.proposal_status(&other), "open");
    let now = bench.get(&format!("/api/proposals/{}", shown["proposal"]["id"].as_str().unwrap()));
    let now = now.ok();
    assert_eq!(now["proposal"]["commit"], approved["commit"]);
    assert_eq!(now["proposal"]["decided_by_name"], "ada");
    assert_eq!(now["topic"]["status"], "incorporated");
    // The other one can still be approved, and nothing was committed twice.
    bench.send(&bench.approval(&other)).ok();
    assert_eq!(bench.commits().len(), commits.len() + 1);
    server.stop();
}

#[test]
fn what_was_started_after_the_backup_is_not_started_again() {
    let bench = bench();
    bench.limits("jobs = 2, grace = \"1s\"");
    let server = bench.serve();
    let running = bench.job("long", json!({"word": "busy"}));
    bench.wait_status(&running, "running");
    let waiting = bench.job("note", json!({"word": "busy"}));
    let later = bench.job("note", json!({"word": "l", "not_before": "2100-01-01T00:00:00Z"}));
    let backup = bench.json(&["backup"])["path"].as_str().unwrap().to_owned();
    bench.post(&format!("/api/agent/jobs/{running}/cancel"), json!({})).ok();
    assert_eq!(bench.ended(&waiting)["status"], "succeeded");
    server.stop();
    let report = bench.json(&["restore", &backup]);
    assert_eq!(report["jobs_running"], 1, "{report:#}");
    assert_eq!(report["jobs_cancelled"], json!([waiting]));
    let server = bench.serve();
    assert_eq!(bench.ended(&running)["status"], "failed");
    assert_eq!(bench.show(&waiting)["status"], "cancelled");
    assert_eq!(bench.show(&later)["status"], "queued");
    server.stop();
}

#[test]
fn what_was_revoked_after_the_backup_stays_revoked() {
    let bench = bench();
    let server = bench.serve();
    let tokens: Vec<Value> =
        ["one", "two"].map(|name| bench.json(&["token", "create", name, "--scope", "read"])).into();
    said(&bench, &["person", "add", "bo"]);
    let backup = bench.json(&["backup"])["path"].as_str().unwrap().to_owned();
    said(&bench, &["token", "revoke", "one"]);
    said(&bench, &["person", "disable", "bo"]);
    let counts = |token: &Value| {
        let call = Call::get("/api/me").token(token["token"].as_str().unwrap());
        bench.send(&call).status
    };
    server.stop();
    let report = bench.json(&["restore", &backup]);
    assert_eq!((&report["tokens_ended"], &report["persons_disabled"]), (&json!(1), &json!(1)));
    let server = bench.serve();
    assert_eq!((counts(&tokens[0]), counts(&tokens[1])), (401, 200));
    let persons = bench.json(&["person", "list"]);
    assert!(
        persons["items"]
            .as_array()
            .unwrap()
            .iter()
            .any(|it| it["name"] == "bo" && !it["disabled_at"].is_null())
    );
    server.stop();
    // A database that cannot say what was revoked lets none of them count.
    std::fs::write(bench.data.join("wiki.db"), "damaged").unwrap();
    let report = bench.json(&["restore", &backup]);
    assert_eq!(report["tokens_ended"], 2);
    let server = bench.serve();
    assert_eq!((counts(&tokens[0]), counts(&tokens[1])), (401, 401));
    server.stop();
}
