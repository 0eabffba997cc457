//! Rules of order in the life of an answer: each test holds a step, or ends the server in it.

use camino::{Utf8Path, Utf8PathBuf};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use super::tools::{of_type, vault};
use super::{Live, ask, assistant, history, items, keyed, replay, token};
use crate::support::{Bench, Call, Server, until};

/// Starts a server whose named steps wait while a file is there; returns it and the file.
fn held(bench: &Bench, steps: &str) -> (Server, Utf8PathBuf) {
    let hold = bench.base.join("hold");
    let server = bench.serve_with(&[("WB_FAIL_AT", steps), ("WB_CRASH_WHEN", hold.as_str())]);
    (server, hold)
}

fn has_come(hold: &Utf8Path, step: &str) -> bool {
    std::fs::read_to_string(hold).is_ok_and(|it| it.ends_with(step))
}

fn of<'i>(live: &'i Live, name: &str) -> &'i str {
    live.seen[0][name].as_str().unwrap()
}

/// The answer is stopped in the moment before a call of it begins. Fails with
/// `WB_WITHOUT=call_start`.
#[test]
fn g43_no_call_begins_after_its_answer_was_stopped() {
    let bench = Bench::new();
    let _model = keyed(&bench, "");
    let (server, hold) = held(&bench, "before_call_start");
    ask(&bench, json!({"message": "hello"}));
    let path = vault(&bench).join("a.md");
    let token = token(&bench, "ada");
    std::fs::write(&hold, "").unwrap();
    let write = json!(["write_file", {"path": "a.md", "content": "x"}]);
    let steps = json!([{"calls": [write]}, {"say": ["never"]}]);
    let question = json!({"message": format!("script {steps}")});
    let mut live = Live::ask(server.address(), &token, &question);
    live.until(|it| it["type"] == "tool_call").unwrap();
    until("the call is about to begin", || has_come(&hold, "before_call_start"));
    bench.post("/api/agent/stop", json!({"run_id": of(&live, "run_id")})).ok();
    std::fs::remove_file(&hold).unwrap();
    assert_eq!(live.until(|it| it["type"] == "done").unwrap()["reason"], "stopped");
    assert!(!path.exists(), "nothing was written");
    let shown = history(&bench, of(&live, "session_id"));
    assert_eq!(shown["calls"][0]["state"], "cancelled");
    server.stop();
}

/// A program that is told to end makes one more call: its token is refused by then. Fails with
/// `WB_WITHOUT=fence_first`.
#[test]
fn g43_a_program_that_is_stopped_makes_no_more_calls() {
    let bench = Bench::new();
    bench.limits("jobs = 4, grace = \"10s\"");
    assistant(&bench, "");
    let server = bench.serve();
    ask(&bench, json!({"message": "call list_directory {}"}));
    std::fs::remove_file(bench.out.join("told")).unwrap();
    let token = token(&bench, "ada");
    let mut live = Live::ask(server.address(), &token, &json!({"message": "stubborn"}));
    live.until(|it| it["type"] == "text").unwrap();
    bench.post("/api/agent/stop", json!({"run_id": of(&live, "run_id")})).ok();
    assert_eq!(live.until(|it| it["type"] == "done").unwrap()["reason"], "stopped");
    let told = bench.left("told");
    assert!(told.contains("has ended"), "{told}");
    assert!(!vault(&bench).join("late.md").exists());
    server.stop();
}

/// A decision that comes after the stop, before the program is gone, would change nothing.
#[test]
fn g43_a_stop_withdraws_what_waits_for_a_person() {
    let bench = Bench::new();
    bench.limits("jobs = 4, grace = \"10s\"");
    assistant(&bench, "");
    let server = bench.serve();
    ask(&bench, json!({"message": "call write_file {\"path\":\"a.md\",\"content\":\"old\"}"}));
    let token = token(&bench, "ada");
    let write = "call write_file {\"path\":\"a.md\",\"content\":\"new\"}";
    let mut live = Live::ask(server.address(), &token, &json!({"message": write}));
    let asked = live.until(|it| it["type"] == "confirm_required").unwrap();
    let pid = Pid::from_raw(bench.wait_left("pid").parse().unwrap());
    kill(pid, Signal::SIGSTOP).unwrap();
    bench.post("/api/agent/stop", json!({"run_id": of(&live, "run_id")})).ok();
    let approve = format!("/api/approvals/{}/approve", asked["approval_id"].as_str().unwrap());
    let refused = bench.post(&approve, json!({"version": 1}));
    assert_eq!(refused.refusal(), (409, "run_ended"));
    assert_eq!(live.until(|it| it["type"] == "done").unwrap()["reason"], "stopped");
    assert_eq!(std::fs::read_to_string(vault(&bench).join("a.md")).unwrap(), "old");
    server.stop();
}

/// The program is gone while a call of it is still being made: the answer ends after that call.
/// Fails with `WB_WITHOUT=tracked`.
#[test]
fn g43_an_answer_ends_after_its_calls() {
    let bench = Bench::new();
    assistant(&bench, "");
    let (server, hold) = held(&bench, "in_tool,settlement_waits");
    ask(&bench, json!({"message": "call list_directory {}"}));
    let token = token(&bench, "ada");
    std::fs::write(&hold, "").unwrap();
    let write = "call write_file {\"path\":\"a.md\",\"content\":\"x\"}";
    let mut live = Live::ask(server.address(), &token, &json!({"message": write}));
    live.until(|it| it["type"] == "tool_call").unwrap();
    until("the call is being made", || has_come(&hold, "in_tool"));
    let run = of(&live, "run_id").to_owned();
    bench.post("/api/agent/stop", json!({"run_id": run})).ok();
    let is_over = || bench.get(&format!("/api/agent/runs/{run}")).ok()["state"] == "ended";
    // Each step writes its name over that of the other.
    until("its end waits, or does not", || has_come(&hold, "_waits") || is_over());
    std::fs::remove_file(&hold).unwrap();
    assert_eq!(live.until(|it| it["type"] == "done").unwrap()["reason"], "stopped");
    assert_eq!(std::fs::read_to_string(vault(&bench).join("a.md")).unwrap(), "x");
    let shown = history(&bench, of(&live, "session_id"));
    let call = &shown["calls"][0];
    assert_eq!((&call["state"], &call["ok"]), (&json!("done"), &json!(true)), "{call}");
    assert_eq!(of_type(&replay(&bench, &run), "tool_result").len(), 1);
    server.stop();
}

/// Whoever reads `done` can ask the next question. Fails with `WB_WITHOUT=done_last`.
#[test]
fn an_answer_is_done_once_its_rows_are() {
    let bench = Bench::new();
    let _model = keyed(&bench, "");
    let (server, hold) = held(&bench, "before_settle");
    let token = token(&bench, "ada");
    std::fs::write(&hold, "").unwrap();
    let mut live = Live::ask(server.address(), &token, &json!({"message": "hello"}));
    live.until(|it| it["type"] == "usage").unwrap();
    until("it is about to be settled", || has_come(&hold, "before_settle"));
    let (run, session) = (of(&live, "run_id").to_owned(), of(&live, "session_id").to_owned());
    let now = items(&bench.get(&format!("/api/agent/runs/{run}/events?follow=false")));
    assert!(of_type(&now, "done").is_empty() && !of_type(&now, "text").is_empty(), "{now:?}");
    assert_eq!(history(&bench, &session)["active_run"]["run_id"], json!(run));
    std::fs::remove_file(&hold).unwrap();
    live.until(|it| it["type"] == "done").unwrap();
    ask(&bench, json!({"session_id": session, "message": "again"}));
    server.stop();
}

/// A deletion that is cut short is complete after the next start. Fails with
/// `WB_WITHOUT=rows_first`.
#[test]
fn a_deletion_is_not_half_done() {
    let bench = Bench::new();
    assistant(&bench, "");
    let armed = bench.base.join("armed");
    let at = [("WB_CRASH_AT", "conversation_gone"), ("WB_CRASH_WHEN", armed.as_str())];
    let mut server = bench.serve_with(&at);
    let write = |text: &str| {
        let args = json!({"path": "agent/scratch/a.md", "content": text});
        format!("call write_file {args}")
    };
    let question = format!("{}\n{}", write("one"), write("two"));
    let told = ask(&bench, json!({"message": question}));
    let (run, session) = (told[0]["run_id"].as_str(), told[0]["session_id"].as_str());
    let (run, session) = (run.unwrap(), session.unwrap());
    let me = bench.get("/api/me").ok();
    let home = bench.data.join("people").join(me["person"]["id"].as_str().unwrap());
    let count = |folder: &str| home.join(folder).read_dir_utf8().unwrap().count();
    let left = || ["kept", "claude-cwd", "claude/projects"].map(count);
    assert_eq!(left(), [1, 1, 1]);
    std::fs::write(&armed, "").unwrap();
    let target = format!("/api/agent/sessions/{session}");
    let delete = Call::new("DELETE", &target).token(&bench.operator());
    assert!(delete.try_socket(&bench.socket()).is_none(), "it died before it answered");
    server.wait();
    let server = bench.serve();
    assert_eq!(bench.get(&target).refusal(), (404, "no_session"));
    until("no file is left", || left() == [0, 0, 0]);
    until("its job has no files", || !bench.data.join("jobs").join(run).exists());
    server.stop();
}
