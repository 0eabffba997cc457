//! Failures of agents, case by case: the stored state, the message for people, and the log.

mod misbehavior;
mod tokens;

use serde_json::{Value, json};

use crate::support::{Bench, Server, shell, wait_for};

/// What a row of the table says.
struct Row<'a> {
    status: &'a str,
    reason: &'a str,
    exit_code: Value,
    error_tail: &'a str,
    message: &'a str,
}

/// Asserts a row of the table and the two lines of the log with A's six fields.
fn assert_row(server: &Server, job: &Value, row: &Row<'_>) {
    assert_eq!(job["status"], row.status, "{job:#}");
    assert_eq!(job["reason"], row.reason, "{job:#}");
    assert_eq!(job["exit_code"], row.exit_code, "{job:#}");
    assert_eq!(job["error_tail"], row.error_tail, "{job:#}");
    assert_eq!(job["message"], row.message, "{job:#}");
    assert!(!job["completed_at"].is_null() && job["proposal_id"].is_null(), "{job:#}");
    assert_logged(server, job);
}

fn assert_logged(server: &Server, job: &Value) {
    let id = job["id"].as_str().unwrap();
    let status = job["status"].as_str().unwrap();
    let (field, ended) = (format!("job_id={id}"), format!("job {id} ended"));
    // The row is written before the line.
    let end = wait_for(&format!("the log has the end of job {id}"), || {
        let log = server.log();
        let is_end = |it: &&str| it.contains(&field) && it.contains(&ended);
        log.lines().rfind(is_end).map(str::to_owned)
    });
    let kind = format!("kind={}", job["kind"]);
    let source = format!("source_path={}", job["source_path"]);
    let status_field = format!("status=\"{status}\"");
    for field in [kind.as_str(), &source, "duration_ms=", &status_field] {
        assert!(end.contains(field), "{field}: {end}");
    }
    let code = job["exit_code"].as_i64().map_or_else(|| "none".to_owned(), |it| it.to_string());
    assert!(end.contains(&format!("exit_code={code} ")), "{end}");
    let level = if status == "succeeded" { " INFO " } else { " WARN " };
    assert!(end.contains(level), "{end}");
}

fn assert_start_logged(server: &Server, job: &Value) {
    let id = job["id"].as_str().unwrap();
    let log = server.log();
    let start = log.lines().find(|it| it.contains(&format!("job {id} started")));
    let start = start.unwrap_or_else(|| panic!("{log}"));
    for field in [
        format!("job_id={id}"),
        format!("kind={}", job["kind"]),
        format!("source_path={}", job["source_path"]),
    ] {
        assert!(start.contains(&field), "{field}: {start}");
    }
}

/// Runs an agent on a Topic and returns its job, with the server.
fn run(fields: &str, agent: &str) -> (Bench, Server, Value) {
    let bench = Bench::new();
    bench.topic_kind("fake", fields, agent);
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "Say it better.");
    let job = bench.ended(&bench.job_on("fake", &topic));
    assert_start_logged(&server, &job);
    (bench, server, job)
}

const PROPOSES: &str = "timeout = \"20s\", produces = \"proposal\"";

/// Row 1. The program was there when the server started.
#[test]
fn an_agent_that_cannot_be_started_is_unreachable() {
    let bench = Bench::new();
    let program = bench.base.join("my-agent");
    bench.lua(&format!(
        "wb.engine \"gone\" {{ type = \"process\", command = {{ \"{program}\" }},\n\
         prompt = \"stdin\" }}\n"
    ));
    bench.topic_kind("fake", PROPOSES, "exit 0");
    bench.edit(|script| script.replace("engine = \"fake\"", "engine = \"gone\""));
    std::fs::write(&program, "#!/bin/sh\nexit 0\n").unwrap();
    shell(&format!("chmod +x {program}"));
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "Say it better.");
    std::fs::remove_file(&program).unwrap();
    let job = bench.ended(&bench.job_on("fake", &topic));
    let tail = job["error_tail"].as_str().unwrap().to_owned();
    assert!(tail.starts_with("agent unreachable: ") && tail.contains("No such file"), "{tail}");
    let message = format!("Agent is unreachable. Check that {program} is installed.");
    let row = Row {
        status: "failed",
        reason: "spawn_failed",
        exit_code: Value::Null,
        error_tail: &tail,
        message: &message,
    };
    assert_row(&server, &job, &row);
    server.stop();
}

/// Row 1, earlier: a program that is not there at all ends the start, and the line helps.
#[test]
fn a_program_that_is_not_there_ends_the_start() {
    let bench = Bench::new();
    bench.lua(
        "wb.engine \"claude\" { type = \"process\", command = { \"claude-that-is-not-there\" },\n\
         prompt = \"stdin\" }\n",
    );
    bench.topic_kind("fake", PROPOSES, "exit 0");
    bench.edit(|script| script.replace("engine = \"fake\"", "engine = \"claude\""));
    let mut server = bench.start(&[]);
    let (status, _) = server.wait();
    assert!(!status.success());
    let log = server.log();
    assert!(log.contains("claude-that-is-not-there") && log.contains("hint: "), "{log}");
}

/// Row 2: the last 4 KiB of stderr, cut at a character.
#[test]
fn an_agent_that_fails_leaves_the_end_of_its_errors() {
    // 1 + 3,000 characters of two bytes: the cut would fall into the middle of one.
    let agent = "i=0; while [ $((i+=1)) -le 3000 ]; do printf ü >&2; done; printf x >&2; exit 3";
    let (_bench, server, job) = run(PROPOSES, agent);
    let tail = format!("{}x", "ü".repeat(2_047));
    let row = Row {
        status: "failed",
        reason: "exit_status",
        exit_code: json!(3),
        error_tail: &tail,
        message: "Agent failed. See log.",
    };
    assert_row(&server, &job, &row);
    server.stop();
}

#[test]
fn an_agent_that_dies_of_a_signal_has_failed() {
    let (_bench, server, job) = run(PROPOSES, "echo last >&2; kill -SEGV $$");
    let row = Row {
        status: "failed",
        reason: "signal",
        exit_code: Value::Null,
        error_tail: "last\n",
        message: "Agent crashed (signal 11). See log.",
    };
    assert_row(&server, &job, &row);
    assert_eq!(job["signal"], 11);
    server.stop();
}

/// Row 3: what it had said so far is kept.
#[test]
fn an_agent_that_takes_too_long_is_timed_out() {
    let agent = "trap 'exit 5' INT TERM; echo partial >&2; while :; do sleep 0.02; done";
    let (_bench, server, job) = run("timeout = \"3s\", produces = \"proposal\"", agent);
    let row = Row {
        status: "timed_out",
        reason: "wall_timeout",
        exit_code: json!(5),
        error_tail: "partial\n",
        message: "Agent timed out after 3s.",
    };
    assert_row(&server, &job, &row);
    server.stop();
}

#[test]
fn an_agent_that_falls_silent_is_timed_out() {
    let silent = "echo one; while :; do sleep 0.02; done";
    let fields = "timeout = \"20s\", idle = \"300ms\"";
    let (_bench, server, job) = run(fields, silent);
    assert_eq!((&job["status"], &job["reason"]), (&json!("timed_out"), &json!("idle_timeout")));
    assert_eq!(job["message"], "Agent timed out: no more output.");
    server.stop();
    let fields = "timeout = \"20s\", start = \"300ms\"";
    let (_bench, server, job) = run(fields, "while :; do sleep 0.02; done");
    assert_eq!((&job["status"], &job["reason"]), (&json!("timed_out"), &json!("start_timeout")));
    assert_eq!(job["message"], "Agent timed out: no output.");
    server.stop();
}

/// Row 4. An orderly end settles the row at once; after a crash the next start does (G5, G9).
#[test]
fn a_server_that_stops_fails_its_job() {
    let bench = Bench::new();
    let agent = "echo so far >&2; echo ready > \"$OUT/ready\"; while :; do sleep 0.02; done";
    bench.topic_kind("fake", PROPOSES, agent);
    let mut server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "Say it better.");
    let job = bench.job_on("fake", &topic);
    bench.wait_left("ready");
    server.signal("TERM");
    server.wait();
    let next = bench.serve();
    let job = bench.show(&job);
    let exit_code = job["exit_code"].clone();
    let row = Row {
        status: "failed",
        reason: "server_restarted",
        exit_code,
        error_tail: "server restarted while job in flight",
        message: "Agent failed: server restarted.",
    };
    // The lines of the job are in the log of the server that ran it.
    assert_row(&server, &job, &row);
    next.stop();
}

/// Row 5.
#[test]
fn an_agent_that_promises_and_delivers_nothing_has_failed() {
    let (_bench, server, job) = run(PROPOSES, "echo all well >&2; exit 0");
    let row = Row {
        status: "failed",
        reason: "no_result",
        exit_code: json!(0),
        error_tail: "agent exited 0 but produced no proposal",
        message: "Agent finished without producing a proposal — retry.",
    };
    assert_row(&server, &job, &row);
    server.stop();
}

/// No automatic retries; a person's retry is a new job.
#[test]
fn a_failed_job_is_tried_again_by_a_person_only() {
    let agent = "echo \"$job\" >> \"$OUT/ran\"; exit 4";
    let (bench, server, job) = run(PROPOSES, agent);
    let id = job["id"].as_str().unwrap();
    assert_eq!(bench.left("ran"), id);
    let retried = bench.post(&format!("/api/agent/jobs/{id}/retry"), json!({})).ok();
    let again = bench.ended(retried["job_id"].as_str().unwrap());
    assert_eq!((&again["retry_of"], &again["status"]), (&json!(id), &json!("failed")));
    assert_eq!(bench.left("ran").lines().count(), 2);
    server.stop();
}

/// Nothing is wrong: no sentence, no tail, and the lines of the log all the same.
#[test]
fn a_job_that_succeeds_says_nothing_of_failure() {
    let agent = "echo noise >&2; printf 'new\\n' | propose";
    let (_bench, server, job) = run(PROPOSES, agent);
    assert_eq!(job["status"], "succeeded", "{job:#}");
    for field in ["reason", "message", "error_tail"] {
        assert!(job[field].is_null(), "{field}: {job:#}");
    }
    assert_eq!(job["exit_code"], 0);
    assert_logged(&server, &job);
    server.stop();
}

#[test]
fn a_cancelled_job_names_who_cancelled_it() {
    let bench = Bench::new();
    let agent = "echo ready > \"$OUT/ready\"; while :; do sleep 0.02; done";
    bench.topic_kind("fake", PROPOSES, agent);
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "Say it better.");
    let job = bench.job_on("fake", &topic);
    bench.wait_left("ready");
    bench.json(&["job", "cancel", &job]);
    let job = bench.ended(&job);
    assert_eq!(
        (&job["status"], &job["message"]),
        (&json!("cancelled"), &json!("Cancelled by ada."))
    );
    assert_logged(&server, &job);
    server.stop();
}

/// Claude Code refuses to skip permissions as root: the operator is told before the first job is.
#[test]
fn a_server_of_root_warns_of_engines_that_skip_permissions() {
    let bench = Bench::new();
    let file = bench.base.join("agents/skips.sh");
    std::fs::write(&file, "exit 0\n").unwrap();
    bench.lua(&format!(
        "wb.engine \"skips\" {{ type = \"process\", prompt = \"stdin\", command = \n\
         {{ \"/bin/sh\", \"{file}\", \"--dangerously-skip-permissions\" }} }}\n\
         wb.kind \"skips\" {{ about = \"A test\", engine = \"skips\", timeout = \"5s\",\n\
         prompt = \"x\", inputs = {{}} }}\n"
    ));
    let server = bench.serve();
    let warnings = bench.get("/api/config").ok()["warnings"].to_string();
    let is_root = shell("id -u").trim() == "0";
    assert_eq!(warnings.contains("runs as root"), is_root, "{warnings}");
    assert_eq!(warnings.contains("IS_SANDBOX"), is_root, "{warnings}");
    server.stop();
}
