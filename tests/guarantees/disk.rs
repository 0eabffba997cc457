//! G29: a full, read-only or failing disk loses nothing that was acknowledged.

use std::collections::BTreeSet;

use camino::Utf8PathBuf;
use serde_json::{Value, json};

use crate::support::{Bench, Server, SmallDisk, Topic, shell, shim, until, within};

/// A disk below a server that fails as the test says.
struct BadDisk {
    library: Utf8PathBuf,
    root: Utf8PathBuf,
    fault: Utf8PathBuf,
}

impl BadDisk {
    fn new(bench: &Bench) -> BadDisk {
        BadDisk {
            library: shim("bad_disk", &bench.base),
            root: bench.data.clone(),
            fault: bench.base.join("fault"),
        }
    }

    fn env(&self) -> Vec<(&str, &str)> {
        vec![
            ("LD_PRELOAD", self.library.as_str()),
            ("WB_DISK_ROOT", self.root.as_str()),
            ("WB_DISK_FAULT", self.fault.as_str()),
        ]
    }

    fn fail(&self, how: &str) {
        // Renamed: a half-written word is no fault.
        let aside = self.fault.with_extension("new");
        std::fs::write(&aside, how).unwrap();
        std::fs::rename(&aside, &self.fault).unwrap();
    }

    fn heal(&self) {
        std::fs::remove_file(&self.fault).unwrap();
    }
}

/// What was acknowledged of one Topic, and what was not.
struct Book {
    topic: Topic,
    said: BTreeSet<String>,
    refused: usize,
}

impl Book {
    fn open(bench: &Bench) -> Book {
        let topic = bench.topic("guide.md", "The first line.", "Say it better.");
        Book { topic, said: BTreeSet::new(), refused: 0 }
    }

    /// Posts a message; whether it was acknowledged. A refusal has one of these codes.
    fn post(&mut self, bench: &Bench, text: &str, codes: &[&str]) -> bool {
        let target = format!("/api/topics/{}/messages", self.topic.id);
        let answer = bench.post(&target, json!({"body": text}));
        if answer.status == 201 {
            self.said.insert(answer.body["id"].as_str().unwrap().to_owned());
            return true;
        }
        assert_eq!(answer.status, 503, "{answer:?}");
        assert!(codes.contains(&answer.code()), "{answer:?}");
        assert!(answer.body["error"]["hint"].is_string(), "{answer:?}");
        self.refused += 1;
        false
    }

    /// Everything that was acknowledged is there, and nothing else.
    fn check(&self, bench: &Bench) {
        let shown = bench.get(&format!("/api/topics/{}", self.topic.id)).ok();
        let ids = shown["messages"].as_array().unwrap().iter();
        let mut there: BTreeSet<String> =
            ids.map(|it| it["id"].as_str().unwrap().to_owned()).collect();
        // The first one came with the Topic.
        let first = shown["messages"][0]["id"].as_str().unwrap().to_owned();
        there.remove(&first);
        assert_eq!(there, self.said);
    }
}

fn health(bench: &Bench) -> Value {
    bench.get("/api/health").ok()
}

fn wait_well(bench: &Bench) {
    until("the database is written again", || health(bench)["status"] == "ok");
    assert_eq!(bench.get("/readyz").status, 200);
}

/// A real disk that is really full, where this may be mounted.
#[test]
fn g29_a_full_disk_refuses_writes_until_there_is_room() {
    let bench = Bench::new();
    let disk = SmallDisk::mount(&bench.data, 8);
    let agent = "echo ready > \"$OUT/ready\"; while [ ! -e \"$OUT/go\" ]; do sleep 0.05; done
i=0; while [ $((i+=1)) -lt 500 ]; do echo \"line $i of many that find no room\"; done; exit 0";
    bench.word_kind("prints", "timeout = \"60s\"", agent);
    let server = bench.serve_with(&disk.env());
    let mut book = Book::open(&bench);
    let job = bench.job("prints", json!({}));
    bench.wait_left("ready");
    assert!(book.post(&bench, "before", &[]));
    disk.fill();
    let text = "x".repeat(60_000);
    let is_refused =
        within(std::time::Duration::from_secs(20), || !book.post(&bench, &text, &["disk_full"]));
    assert!(is_refused, "the disk was never full");
    let state = health(&bench);
    assert_eq!(
        (&state["status"], &state["database"]["code"]),
        (&json!("degraded"), &json!("disk_full"))
    );
    assert_eq!(bench.get("/readyz").refusal(), (503, "disk_full"));
    // Reads go on, and the job comes to its end without a place for its output or its record.
    book.check(&bench);
    std::fs::write(bench.out.join("go"), "").unwrap();
    until("its agent has ended", || {
        bench.alive().iter().all(|(_, line)| !line.contains("prints.sh"))
    });
    disk.free();
    wait_well(&bench);
    assert_eq!(bench.ended(&job)["status"], "succeeded");
    assert!(book.post(&bench, &text, &[]), "it does not heal");
    book.check(&bench);
    let next = bench.job("prints", json!({}));
    assert_eq!(bench.ended(&next)["status"], "succeeded");
    assert!(server.log().contains("is over"), "{}", server.log());
    server.stop();
    let server = bench.serve_with(&disk.env());
    book.check(&bench);
    server.stop();
}

/// The kernel ends a process that writes beyond the limit of a file's size, unless it asks not to
/// be ended.
#[test]
fn g29_a_limit_of_a_files_size_refuses_writes_until_it_is_raised() {
    let bench = Bench::new();
    let server = bench.serve();
    let mut book = Book::open(&bench);
    let limit = |bytes: &str| shell(&format!("prlimit --pid {} --fsize={bytes}", server.pid()));
    limit("2000000:unlimited");
    let text = "x".repeat(60_000);
    let codes = ["disk_full", "disk_error"];
    let is_refused =
        within(std::time::Duration::from_secs(20), || !book.post(&bench, &text, &codes));
    assert!(is_refused, "no file was ever too large");
    book.check(&bench);
    limit("unlimited:unlimited");
    wait_well(&bench);
    assert!(book.post(&bench, &text, &[]), "it does not heal");
    book.check(&bench);
    server.stop();
}

/// A job that could not write its folder would fail for what is not its fault.
#[test]
fn g29_a_job_waits_for_room_on_the_disk() {
    let bench = Bench::new();
    let disk = SmallDisk::mount(&bench.data, 8);
    bench.word_kind("prints", "timeout = \"60s\"", "exit 0");
    let server = bench.serve_with(&disk.env());
    let job = bench.job("prints", json!({}));
    assert_eq!(bench.ended(&job)["status"], "succeeded");
    // What is left takes a row of the database, and no more.
    disk.fill_but(256 * 1024);
    let job = bench.job("prints", json!({}));
    until("the lack of room is told", || server.log().contains("no job starts until"));
    assert_eq!(bench.show(&job)["status"], "queued");
    assert_eq!(bench.get("/readyz").refusal(), (503, "disk_full"));
    assert_eq!(health(&bench)["status"], "degraded");
    let page = crate::pages::Browser::signed_in(&bench, &server).page("/settings");
    assert!(page.contains("Jobs aren’t starting."), "{page}");
    disk.free();
    assert_eq!(bench.ended(&job)["status"], "succeeded");
    wait_well(&bench);
    server.stop();
}

/// Every write of a request, one after the other, meets the disk's error.
#[test]
fn g29_a_disk_that_fails_at_any_write_loses_nothing() {
    let bench = Bench::new();
    let disk = BadDisk::new(&bench);
    let server = bench.serve_with(&disk.env());
    let mut book = Book::open(&bench);
    let kinds = [("ENOSPC", "disk_full"), ("EROFS", "read_only"), ("EIO", "disk_error")];
    for (errno, code) in kinds {
        let before = book.refused;
        for after in [0, 1, 2, 3, 5] {
            disk.fail(&format!("{errno} {after}"));
            // Long enough for several pages of the log.
            for number in 0..2 {
                let text = format!("{errno} {after} {number} {}", "x".repeat(9_000));
                book.post(&bench, &text, &[code, "disk_error"]);
            }
            book.check(&bench);
            let state = health(&bench);
            assert_eq!(state["status"], "degraded", "{state}");
            disk.heal();
            assert!(book.post(&bench, "well", &[]), "{errno} {after}: {}", server.log());
            assert_eq!(health(&bench)["status"], "ok");
        }
        assert!(book.refused >= before + 5, "{errno}: {}", book.refused);
        assert!(server.log().contains(code), "{}", server.log());
    }
    disk.fail("ENOSPC 0");
    let refused = bench.post("/api/config/reload", json!({}));
    assert_eq!(refused.refusal(), (503, "disk_full"));
    let hint = refused.body["error"]["hint"].as_str().unwrap();
    assert!(hint.contains("free some space"), "{hint}");
    disk.heal();
    assert!(book.post(&bench, "well", &[]), "{}", server.log());
    server.kill();
    let server = bench.serve();
    book.check(&bench);
    server.stop();
}

/// A transaction that cannot be rolled back does not take the later ones with it. Fails with
/// `WB_WITHOUT=reopen`.
#[test]
fn g29_a_failed_rollback_is_no_end() {
    let bench = Bench::new();
    let armed = bench.base.join("armed");
    let env = [("WB_FAIL_AT", "commit,rollback"), ("WB_CRASH_WHEN", armed.as_str())];
    let server = bench.serve_with(&env);
    let mut book = Book::open(&bench);
    bench.wait_indexed();
    for _ in 0..2 {
        std::fs::write(&armed, "").unwrap();
        assert!(!book.post(&bench, "lost", &["disk_error"]));
        std::fs::remove_file(&armed).unwrap();
        assert!(book.post(&bench, "kept", &[]), "{}", server.log());
    }
    book.check(&bench);
    wait_well(&bench);
    server.stop();
}

/// What runs when the disk goes read-only ends, and its row says how, when the disk is well.
#[test]
fn g29_jobs_end_with_a_reason_when_the_disk_is_well() {
    let bench = Bench::new();
    let disk = BadDisk::new(&bench);
    let agent = "echo \"$job\" >> \"$OUT/ran\"; echo ready > \"$OUT/ready.$word\"
while [ ! -e \"$OUT/go\" ]; do sleep 0.05; done; [ $word = well ] || exit 5";
    bench.word_kind("waits", "timeout = \"60s\"", agent);
    let server = bench.serve_with(&disk.env());
    let jobs = ["well", "badly"].map(|it| bench.job("waits", json!({"word": it})));
    for word in ["well", "badly"] {
        bench.wait_left(&format!("ready.{word}"));
    }
    disk.fail("EROFS 0");
    std::fs::write(bench.out.join("go"), "").unwrap();
    until("both have ended", || bench.alive().iter().all(|(_, line)| !line.contains("waits.sh")));
    let refused = bench.post("/api/agent/jobs", json!({"kind": "waits", "word": "well"}));
    assert_eq!(refused.refusal(), (503, "read_only"), "{refused:?}");
    for job in &jobs {
        assert_eq!(bench.show(job)["status"], "running");
    }
    disk.heal();
    let rows = jobs.each_ref().map(|it| bench.ended(it));
    assert_eq!(rows[0]["status"], "succeeded", "{}", server.log());
    assert_eq!((&rows[1]["reason"], &rows[1]["exit_code"]), (&json!("exit_status"), &json!(5)));
    assert_eq!(bench.left("ran").lines().count(), 2, "something was repeated");
    server.stop();
}

/// A start on a disk that takes nothing says so, and changes nothing.
#[test]
fn g29_a_start_on_a_bad_disk_says_why() {
    let bench = Bench::new();
    let disk = BadDisk::new(&bench);
    bench.serve().stop();
    let before = std::fs::read(bench.data.join("wiki.db")).unwrap();
    for (errno, words) in [("EROFS", "read-only"), ("ENOSPC", "full")] {
        disk.fail(&format!("{errno} 0"));
        let mut server: Server = bench.start(&disk.env());
        let (status, _) = server.wait();
        assert_eq!(status.code(), Some(6), "{}", server.log());
        let log = server.log();
        assert!(log.to_lowercase().contains(words) && log.contains("hint: "), "{log}");
        assert_eq!(std::fs::read(bench.data.join("wiki.db")).unwrap(), before);
    }
    disk.heal();
    bench.serve().stop();
}
