//! Silence of an agent: during a tool call it means nothing, otherwise a clock runs.

use serde_json::{Value, json};

use crate::engines::limits::read_kind;
use crate::support::Bench;

/// Lines as Claude Code prints them: a call of its shell, the answer, the end.
const CALL: &str = concat!(
    r#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"c1","name":"Bash","#,
    r#""input":{"command":"sleep 200"}}]}}"#
);
const ANSWER: &str = concat!(
    r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"c1","#,
    r#""content":"ok"}]}}"#
);
const END: &str = r#"{"type":"result","is_error":false,"result":"done","num_turns":1}"#;

fn ended(agent: &str, fields: &str) -> Value {
    let bench = Bench::new();
    read_kind(&bench, "agent", "claude-stream-json", fields, agent);
    bench.edit(|declared| declared.replace("timeout = \"20s\"", "timeout = \"9s\""));
    let server = bench.serve();
    let job = bench.ended(&bench.job("agent", json!({})));
    server.stop();
    job
}

#[test]
fn a_tool_may_be_silent_for_longer_than_the_idle_clock_allows() {
    let agent = format!("echo '{CALL}'; sleep 3; echo '{ANSWER}'; echo '{END}'");
    let job = ended(&agent, ", idle = \"2s\"");
    assert_eq!((&job["status"], &job["summary"]), (&json!("succeeded"), &json!("done")), "{job:#}");
}

#[test]
fn a_stall_after_the_answer_is_one_and_names_the_last_call() {
    let agent = format!("echo '{CALL}'; sleep 3; echo '{ANSWER}'; sleep 60");
    let job = ended(&agent, ", idle = \"2s\"");
    assert_eq!(job["reason"], "idle_timeout", "{job:#}");
    let tail = job["error_tail"].as_str().unwrap();
    assert_eq!(tail, "it had called its tool Bash: sleep 200, which was over");
}

#[test]
fn a_tool_that_hangs_ends_with_the_jobs_own_time() {
    let agent = format!("echo '{CALL}'; sleep 60");
    let job = ended(&agent, ", idle = \"2s\"");
    assert_eq!(job["reason"], "wall_timeout", "{job:#}");
    assert_eq!(job["error_tail"], "it was waiting for its tool Bash: sleep 200");
}

/// As the real one: it makes up an answer of the tool when it is interrupted.
#[test]
fn a_call_that_the_jobs_time_cut_was_not_over() {
    let cut = json!([{"type": "text", "text": "[Request interrupted by user for tool use]"}]);
    let cut = json!({"type": "user", "message": {"content": cut}});
    let agent = format!(
        "cut() {{ echo '{ANSWER}'; echo '{cut}'; echo '{END}'; exit 0; }}; trap cut INT\n\
         echo '{CALL}'; while :; do sleep 0.05; done"
    );
    let job = ended(&agent, ", idle = \"2s\"");
    assert_eq!(job["reason"], "wall_timeout", "{job:#}");
    assert_eq!(job["error_tail"], "it was waiting for its tool Bash: sleep 200");
}

#[test]
fn what_an_agent_was_doing_is_told_before_what_it_always_says_on_standard_error() {
    let agent = format!("echo 'no ripgrep here' >&2; echo '{CALL}'; sleep 60");
    let job = ended(&agent, ", idle = \"2s\"");
    assert_eq!(job["reason"], "wall_timeout", "{job:#}");
    let tail = job["error_tail"].as_str().unwrap();
    assert_eq!(tail.trim_end(), "it was waiting for its tool Bash: sleep 200\nno ripgrep here");
}

#[test]
fn a_plain_line_before_a_failure_is_told() {
    let job = ended("echo 'there is no license'; exit 255", "");
    assert_eq!(job["reason"], "exit_status", "{job:#}");
    assert_eq!(job["error_tail"], "there is no license");
}
