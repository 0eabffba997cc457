//! G29: if the log or a single task fails, the server either works or ends.

use serde_json::json;

use crate::support::{Bench, Call, Server, shell, until};

/// A server whose standard error a line of shell has set up, and which works all the same.
fn works_with(before: &str) {
    let bench = Bench::new();
    bench.word_kind("quick", "timeout = \"20s\"", "exit 0");
    bench.write_script();
    let server = Server::spawn_after(&bench, before).ready();
    for _ in 0..3 {
        let job = bench.job("quick", json!({}));
        assert_eq!(bench.ended(&job)["status"], "succeeded");
    }
    server.stop();
}

#[test]
fn g29_a_log_that_cannot_be_written_stops_nothing() {
    works_with("exec 2>/dev/full");
}

#[test]
fn g29_a_log_whose_reader_is_gone_stops_nothing() {
    works_with("mkfifo pipe && { head -n 1 <pipe >/dev/null & exec 2>pipe; }");
}

/// Somebody holds the pipe and does not read it.
#[test]
fn g29_a_log_whose_reader_stands_still_stops_nothing() {
    works_with("mkfifo pipe && export WB_LOG=trace && exec 3<>pipe 2>pipe");
}

#[test]
fn g29_a_task_that_ends_unasked_ends_the_server() {
    let services = [
        "the job runner",
        "the writer of the database",
        "the listener",
        "the watcher of the repository",
    ];
    for name in services {
        let bench = Bench::new();
        bench.write_script();
        let fault = bench.base.join("fault");
        let env = [("WB_FAIL_AT", name), ("WB_CRASH_WHEN", fault.as_str())];
        let mut server = Server::spawn(&bench, &env).ready();
        std::fs::write(&fault, "").unwrap();
        // It is asked whether it lives; nobody may be left to answer.
        let _ = Call::get("/readyz").try_socket(&bench.data.join("wb.sock"));
        let (status, _) = server.wait();
        assert_eq!(status.code(), Some(70), "{name}: {}", server.log());
        assert!(server.log().contains(name), "{}", server.log());
        bench.serve().stop();
    }
}

/// Fails with `WB_WITHOUT=site_lock`.
#[test]
fn g17_a_removed_lock_lets_no_second_server_in() {
    let bench = Bench::new();
    let server = bench.serve();
    let lock = bench.data.join("lock");
    std::fs::remove_file(&lock).unwrap();
    let mut second = Server::spawn(&bench, &[]);
    let (status, _) = second.wait();
    assert_eq!(status.code(), Some(5), "{}", second.log());
    assert!(second.log().contains("already_running"), "{}", second.log());
    shell(&format!("rm -f '{lock}'"));
    until("the lock is made again", || lock.exists());
    assert!(server.log().contains("is made again"), "{}", server.log());
    server.stop();
}

#[test]
fn a_server_without_its_socket_is_not_ready() {
    let bench = Bench::new();
    let server = bench.serve();
    std::fs::remove_file(bench.data.join("wb.sock")).unwrap();
    let answer = Call::get("/readyz").tcp(server.address());
    assert_eq!(answer.refusal(), (503, "socket_lost"));
    server.stop();
}

/// An agent can put anything in the place of its output; nobody reads it, and no page breaks.
#[test]
fn g22_output_that_became_a_link_breaks_no_page() {
    let bench = Bench::new();
    let swap = "cd \"$BASE/wiki/data/jobs/$WB_JOB_ID\"\nrm stdout.log\n\
                ln -s /etc/passwd stdout.log\necho x > \"$OUT/swapped\"\nexec sleep 60";
    bench.word_kind("swap", "timeout = \"90s\"", swap);
    let server = bench.serve();
    let job = bench.job("swap", json!({}));
    bench.wait_left("swapped");
    assert_eq!(bench.show(&job)["status"], "running");
    assert_eq!(bench.get(&format!("/jobs/{job}")).status, 200);
    let log = bench.get(&format!("/api/agent/jobs/{job}/log?stream=stdout")).ok();
    assert_eq!(log["text"], "");
    server.stop();
}
