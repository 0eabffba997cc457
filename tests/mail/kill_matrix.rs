//! Whatever of an instance is killed at whatever step: its sender gets one answer, its worktree is
//! cleaned up, and the next message is answered. The steps before the run are in `hooks.rs` and
//! `crashes.rs`, agents in terminals in `agents/kills.rs`.

use std::os::unix::process::ExitStatusExt as _;

use serde_json::{Value, json};

use crate::mail::{answer, send};
use crate::support::{Bench, until};

/// The fields of an inbox whose instances work in a worktree between two hooks.
fn fields(bench: &Bench, cleanup: &str) -> String {
    let out = &bench.out;
    format!(
        "timeout = \"1m\", workspace = \"worktree\", prepare = [[echo prepare >> {out}/log]],
        cleanup = [[echo cleanup >> {out}/log; {cleanup}]]"
    )
}

/// Fails unless a message has one answer, and nothing of its instance is left.
fn check(bench: &Bench, case: &str, message: &str) -> Value {
    let told = answer(bench, message);
    let sent = bench.get(&format!("/api/messages/{message}")).ok();
    let job = bench.ended(sent["deliveries"][0]["job_id"].as_str().unwrap());
    let thread = bench.get(&format!("/api/messages?thread={message}")).ok();
    assert_eq!(thread["items"].as_array().unwrap().len(), 2, "{case}: {thread:#}");
    let state = &job["workspace"]["state"];
    assert!(state == "gone" || job["warnings"] != json!([]), "{case}: {job:#}");
    bench.quiet();
    told
}

#[cfg(feature = "faults")]
#[test]
fn g34_a_server_that_dies_after_the_run_began_sends_one_answer() {
    for (point, reply) in [
        ("run_begun", json!(null)),
        ("after_fence", json!(7)),
        ("after_exit", json!(7)),
        ("before_cleanup", json!(7)),
        ("cleanup_spawned", json!(7)),
        ("after_cleanup", json!(7)),
        ("after_settle", json!(7)),
    ] {
        let bench = Bench::new();
        let agent = "echo run >> \"$OUT/log\"; echo x >> guide.md; wb-agent complete --reply 7";
        bench.inbox("t/work", &fields(&bench, "true"), agent);
        let mut server = bench.serve_with(&[("WB_CRASH_AT", point)]);
        bench.send_into_crash("topic:t/work", json!({}));
        let (status, _) = server.wait();
        assert_eq!(status.signal(), Some(6), "{point}: {}", server.log());
        let server = bench.serve();
        let told = check(&bench, point, &bench.newest_message("topic:t/work"));
        assert_eq!(told["reply"], reply, "{point}: {told:#}");
        let runs = bench.left("log").matches("run").count();
        assert_eq!(runs, usize::from(reply == 7), "{point}: {}", bench.left("log"));
        assert_eq!(bench.git(&["worktree", "list"]).lines().count(), 1, "{point}");
        let next = send(&bench, "topic:t/work", json!({})).ok();
        assert_eq!(answer(&bench, next["message_id"].as_str().unwrap())["reply"], 7, "{point}");
        server.stop();
    }
}

/// The agent kills them, before or after it has said how it ended.
#[test]
fn g34_a_killed_agent_or_guard_or_hook_sends_one_answer() {
    let bench = Bench::new();
    let complete = "wb-agent complete --reply 7";
    let cases = [
        ("agent-before", "kill -9 $$".to_owned(), "true", json!(null), json!("signal")),
        ("agent-after", format!("{complete}; kill -9 $$"), "true", json!(7), json!(null)),
        (
            "guard-before",
            "kill -9 $PPID; sleep 60".to_owned(),
            "true",
            json!(null),
            json!("guard_lost"),
        ),
        ("guard-after", format!("{complete}; kill -9 $PPID"), "true", json!(7), json!(null)),
        ("hook-after", complete.to_owned(), "kill -9 $$", json!(7), json!(null)),
    ];
    for (name, agent, cleanup, _, _) in &cases {
        bench.inbox(&format!("t/{name}"), &fields(&bench, cleanup), agent);
    }
    let server = bench.serve();
    for (name, _, cleanup, reply, reason) in &cases {
        let sent = send(&bench, &format!("topic:t/{name}"), json!({})).ok();
        let told = check(&bench, name, sent["message_id"].as_str().unwrap());
        assert_eq!(&told["reply"], reply, "{name}: {told:#}");
        let job = bench.show(sent["job_id"].as_str().unwrap());
        assert_eq!(&job["reason"], reason, "{name}: {job:#}");
        let is_failed = job["warnings"].to_string().contains("cleanup_failed");
        assert_eq!(is_failed, *cleanup != "true", "{name}: {job:#}");
    }
    server.stop();
}

/// With the server: the last word of an agent is committed before it is acknowledged.
#[test]
fn g34_a_verdict_outlives_its_agent_its_guard_and_its_server() {
    for (case, killed) in [
        ("server", "$(cat \"$OUT/server\")"),
        ("server and guard", "$(cat \"$OUT/server\") $PPID"),
        ("all", "$(cat \"$OUT/server\") $PPID $$"),
    ] {
        let bench = Bench::new();
        let agent = format!("wb-agent complete --reply 7 && kill -9 {killed}");
        bench.inbox("t/work", &fields(&bench, "true"), &agent);
        let mut server = bench.serve();
        std::fs::write(bench.out.join("server"), server.pid().to_string()).unwrap();
        let sent = send(&bench, "topic:t/work", json!({})).ok();
        let (status, _) = server.wait();
        assert_eq!(status.signal(), Some(9), "{case}");
        std::fs::write(bench.out.join("server"), "999999999").unwrap();
        let server = bench.serve();
        assert_eq!(check(&bench, case, sent["message_id"].as_str().unwrap())["reply"], 7, "{case}");
        until("the worktree is gone", || bench.git(&["worktree", "list"]).lines().count() == 1);
        server.stop();
    }
}
