//! A restart in the middle of everything: commands, streams and agents.

use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::support::{Bench, Server, until};

/// The operator's program at work.
struct Running(Child);

impl Running {
    #[allow(clippy::disallowed_methods, reason = "a test plays the operator in a terminal")]
    fn new(bench: &Bench, args: &[&str]) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wiki-browser"));
        command.args(args).current_dir(&bench.top).env_clear().env("PATH", "/usr/bin:/bin");
        if let Ok(off) = std::env::var("WB_WITHOUT") {
            command.env("WB_WITHOUT", off);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(command.spawn().unwrap())
    }

    /// Waits for its end; returns exit code and both outputs.
    fn end(self) -> (Option<i32>, String, String) {
        let output = self.0.wait_with_output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }
}

/// A server that stops when a command has been received: its answer never comes.
fn frozen(bench: &Bench, server: &Server, args: &[&str]) -> Running {
    server.signal("STOP");
    let running = Running::new(bench, args);
    // It has a socket and sleeps: it has asked and waits for the answer.
    let folder = format!("/proc/{}", running.0.id());
    until("it waits for its answer", || {
        let files = std::fs::read_dir(format!("{folder}/fd")).unwrap().flatten();
        let mut links = files.filter_map(|it| std::fs::read_link(it.path()).ok());
        let has_socket = links.any(|it| it.to_string_lossy().starts_with("socket:"));
        let stat = std::fs::read_to_string(format!("{folder}/stat")).unwrap();
        has_socket && stat.contains(") S ")
    });
    running
}

fn count(bench: &Bench, kind: &str) -> usize {
    let page = bench.get(&format!("/api/agent/jobs?kind={kind}&limit=200")).ok();
    page["items"].as_array().unwrap().len()
}

/// Fails with `WB_WITHOUT=client_retry`.
#[test]
fn a_command_whose_server_is_killed_gets_its_answer_from_the_next_one() {
    let bench = Bench::new();
    bench.word_kind("quick", "timeout = \"20s\"", "exit 0");
    let server = bench.serve();
    let list = frozen(&bench, &server, &["job", "list", "--json"]);
    let status = frozen(&bench, &server, &["status", "--json"]);
    server.kill();
    let server = bench.serve();
    for running in [list, status] {
        let (code, out, err) = running.end();
        assert_eq!(code, Some(0), "{out}{err}");
        assert!(serde_json::from_str::<Value>(&out).is_ok(), "{out}");
    }
    server.stop();
}

/// The answer was lost and the job was not: the same key brings the same job.
/// Fails with `WB_WITHOUT=client_retry`.
#[test]
fn a_job_whose_answer_was_lost_is_made_once() {
    let bench = Bench::new();
    bench.word_kind("quick", "timeout = \"20s\"", "exit 0");
    let server = bench.serve_with(&[("WB_CRASH_AT", "before_answer")]);
    // Not before the crash: a job that was running then has failed with its server.
    let args = ["job", "create", "quick", "--not-before", "3s", "--wait", "--json"];
    let running = Running::new(&bench, &args);
    let mut server = server;
    server.wait();
    let server = bench.serve();
    let (code, out, err) = running.end();
    assert_eq!(code, Some(0), "{out}{err}");
    let job: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(job["status"], "succeeded");
    assert_eq!(count(&bench, "quick"), 1, "one job, not two");
    server.stop();
}

#[test]
fn what_cannot_be_sent_twice_says_so() {
    let bench = Bench::new();
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "More.");
    let running = frozen(&bench, &server, &["topic", "discard", &topic.id]);
    server.kill();
    let server = bench.serve();
    let (code, out, err) = running.end();
    if code == Some(6) {
        assert!(err.contains("ended before its answer"), "{out}{err}");
        assert!(err.contains("look before you ask again"), "{err}");
        assert_eq!(bench.get(&format!("/api/topics/{}", topic.id)).ok()["topic"]["status"], "open");
    } else {
        // It had not been sent yet when the server went.
        assert_eq!(code, Some(0), "{out}{err}");
    }
    server.stop();
}

/// Nobody waits for a server that was never there.
#[test]
fn without_a_server_a_command_ends_at_once() {
    let bench = Bench::new();
    let server = bench.serve();
    server.kill();
    let start = std::time::Instant::now();
    let (code, _, err) = Running::new(&bench, &["job", "list"]).end();
    assert_eq!(code, Some(6), "{err}");
    assert!(err.contains("no server listens"), "{err}");
    assert!(start.elapsed() < wiki_browser::client::RESTART_WAIT_MAX);
}

/// An agent that calls while its server goes away: its job ends with the server, and it gets an
/// error that it can read, or its end.
#[test]
fn an_agent_that_calls_into_a_restart_is_told_or_ended() {
    let bench = Bench::new();
    bench.topic_kind(
        "talks",
        "timeout = \"60s\"",
        "echo began > \"$OUT/began\"; while :; do echo hello | \"$wb_agent\" post-message \
         --topic-id \"$topic\" >> \"$OUT/ids\" 2>> \"$OUT/errors\"; done",
    );
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "More.");
    let job = bench.job_on("talks", &topic);
    bench.wait_left("ids");
    server.kill();
    bench.quiet();
    let server = bench.serve();
    let row = bench.ended(&job);
    assert_eq!(row["reason"], "server_restarted", "{row:#}");
    // Each id that it was told is a message that is there: nothing that was acknowledged is lost.
    let page = bench.get(&format!("/api/topics/{}", topic.id)).ok();
    let known: Vec<&str> =
        page["messages"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap()).collect();
    let told = bench.left("ids");
    assert!(told.lines().count() > 0);
    for id in told.lines() {
        assert!(known.contains(&id), "{id} was acknowledged");
    }
    for line in bench.left("errors").lines().filter(|it| it.starts_with("error")) {
        assert!(line.contains("server") || line.contains("job"), "{line}");
    }
    assert_eq!(json!(known.len()), page["topic"]["message_count"]);
    server.stop();
}
