//! G1 and G19 on a disk that loses everything that was not synced.

use std::sync::atomic::AtomicBool;

use rusqlite::Connection;
use serde_json::Value;

use crate::guarantees::approve_crash::proposed;
use crate::guarantees::kills::{Ledger, assert_all_there, write_until};
use crate::support::{Bench, Cut, ForgetfulDisk, Server, Topic, shell, until};

/// How many answers a round waits for.
const ACKNOWLEDGED: usize = 40;

/// Ends the server and all that it started as a power cut does, and forgets what it did not sync.
fn cut(bench: &Bench, disk: &mut ForgetfulDisk, server: Option<Server>, how: Cut) {
    if let Some(server) = server {
        server.kill();
    }
    until("nothing runs any more", || {
        let left = bench.alive();
        for (pid, _) in &left {
            shell(&format!("kill -KILL {pid} 2>/dev/null || true"));
        }
        left.is_empty()
    });
    disk.cut(how);
}

fn check_database(bench: &Bench) {
    let connection = Connection::open(bench.data.join("wiki.db")).unwrap();
    let found: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(found, "ok");
}

/// Fails with `WB_WITHOUT=synchronous`, which is `synchronous=NORMAL`: it survives every kill, and
/// no power cut.
#[test]
fn g01_what_was_acknowledged_survives_a_power_cut() {
    let bench = Bench::new();
    bench.word_kind("quick", "timeout = \"20s\"", "exit 0");
    let mut disk = ForgetfulDisk::new(&bench.top, &bench.base);
    let ledger = Ledger::default();
    let mut topic = String::new();
    // The first round begins without a data folder: that it is there at all must be synced too.
    for (round, how) in [Cut::Strict, Cut::Torn, Cut::Strict, Cut::Torn].into_iter().enumerate() {
        let server = bench.serve_with(&disk.env());
        if topic.is_empty() {
            topic = bench.topic("notes.md", "Keep this.", "What for?").id;
        } else {
            assert_all_there(&bench, &ledger, &topic, round);
        }
        let (before, is_over) = (ledger.count(), AtomicBool::new(false));
        write_until(&bench, &ledger, &topic, round, &is_over, || {
            until("enough was acknowledged", || ledger.count() >= before + ACKNOWLEDGED);
            server.signal("KILL");
        });
        cut(&bench, &mut disk, Some(server), how);
    }
    let server = bench.serve();
    assert_all_there(&bench, &ledger, &topic, 4);
    server.stop();
    check_database(&bench);
}

/// The points of an approval at which the power goes. At the last one it was acknowledged.
const POINTS: [&str; 7] = [
    "approve_built",
    "approve_prepared",
    "approve_tree",
    "approve_ref",
    "approve_committed",
    "before_commit",
    "",
];

/// Approves, and cuts the power at a point.
fn approve_and_cut(bench: &Bench, shown: &Value, point: &str, how: Cut) {
    let mut disk = ForgetfulDisk::new(&bench.top, &bench.base);
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", disk.git());
    let armed = bench.base.join("armed");
    let mut env = disk.env().to_vec();
    env.extend([
        ("PATH", path.as_str()),
        ("WB_CRASH_AT", point),
        ("WB_CRASH_WHEN", armed.as_str()),
    ]);
    let mut server = bench.serve_with(&env);
    // The first use of the token is noted, which is a commit of its own.
    bench.get("/api/me").ok();
    std::fs::write(&armed, "").unwrap();
    let answer = bench.approval(shown).try_socket(&bench.socket());
    if point.is_empty() {
        answer.unwrap().ok();
        cut(bench, &mut disk, Some(server), how);
    } else {
        assert!(answer.is_none(), "{point}: {answer:?}");
        server.wait();
        cut(bench, &mut disk, None, how);
    }
}

/// One commit or none, the rows agree with it, and the repository is whole.
fn assert_one_or_none(bench: &Bench, topic: &Topic, shown: &Value, point: &str) -> bool {
    let is_committed = bench.commits().len() == 2;
    assert!(is_committed || bench.commits().len() == 1, "{point}: {:?}", bench.commits());
    let now = bench.get(&format!("/api/topics/{}", topic.id)).ok();
    let expected = if is_committed { ("incorporated", "approved") } else { ("open", "open") };
    assert_eq!(now["topic"]["status"], expected.0, "{point}");
    assert_eq!(now["proposals"][0]["status"], expected.1, "{point}");
    assert_eq!(bench.git(&["fsck", "--strict", "--no-dangling"]), "", "{point}");
    if is_committed {
        let text = shown["text"].as_str().unwrap();
        assert_eq!(now["proposals"][0]["commit"], bench.commits()[0], "{point}");
        assert_eq!(bench.git(&["cat-file", "blob", "HEAD:guide.md"]), text.trim_end(), "{point}");
    }
    assert_eq!(bench.status(), "", "{point}");
    is_committed
}

fn check_approvals(points: &[&str], how: Cut) {
    for point in points {
        let (bench, topic, shown) = proposed();
        approve_and_cut(&bench, &shown, point, how);
        let server = bench.serve();
        let is_committed = assert_one_or_none(&bench, &topic, &shown, point);
        if point.is_empty() || *point == "approve_committed" {
            assert!(is_committed, "{point}: it was acknowledged");
        }
        if !is_committed {
            bench.send(&bench.approval(&shown)).ok();
            assert!(assert_one_or_none(&bench, &topic, &shown, point), "{point}");
        }
        server.stop();
    }
}

/// Fails with `WB_WITHOUT=approval_sync`.
#[test]
fn g19_an_approval_is_one_commit_or_none_after_a_power_cut() {
    check_approvals(&["approve_tree", "approve_ref", ""], Cut::Strict);
}

#[test]
#[ignore = "long: every point on a disk that keeps any part of what was not synced"]
fn g19_an_approval_is_one_commit_or_none_after_any_power_cut() {
    check_approvals(&POINTS, Cut::Strict);
    for _ in 0..4 {
        check_approvals(&POINTS, Cut::Torn);
    }
}
