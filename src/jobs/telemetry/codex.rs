//! Parses `codex exec --json`: one JSON object per line, leniently.
//!
//! `thread.started` names the session, `item.…` is what the agent does and says, `turn.completed`
//! has the tokens of the whole thread so far: the last one counts. There is no cost and no model.
//! An `error` line is an attempt that will be retried; only `turn.failed` is final.

use serde_json::{Value, json};

use crate::base::{Millis, read_loose_json, truncate_chars};
use crate::jobs::telemetry::{NAME_CHARS_MAX, Reading, Report, Turn, limit, words};

/// Most paths listed for one change.
const PATHS_MAX: usize = 50;

/// Parses one line; a line that is not a JSON object is text.
pub(super) fn read_line(line: &str, now: Millis, report: &mut Report) -> Reading {
    let Some(Value::Object(object)) = read_loose_json(line) else {
        return Reading::one(json!({"type": "text", "text": line}));
    };
    let object = Value::Object(object);
    match object["type"].as_str().unwrap_or_default() {
        "thread.started" => {
            let session = object["thread_id"].as_str().filter(|it| it.len() <= NAME_CHARS_MAX);
            report.session_ref = session.map(str::to_owned);
            Reading::one(json!({"type": "start", "session": session}))
        }
        "item.started" => Reading { entries: started(&object["item"]), turn: None },
        "item.completed" => Reading { entries: completed(&object["item"], report), turn: None },
        "turn.completed" => turn_completed(&object["usage"], report),
        "turn.failed" => turn_failed(&object["error"], now, report),
        "error" => {
            let message = words(&object["message"]);
            report.limit = limit::in_words(&message, now);
            let trouble = json!({"type": "reset", "error": message});
            report.summary = Some(message);
            Reading::one(trouble)
        }
        _ => Reading::default(),
    }
}

/// Returns the entry for a tool call that was started.
fn started(item: &Value) -> Vec<Value> {
    let (name, input) = match item["type"].as_str().unwrap_or_default() {
        "command_execution" => ("exec_command".to_owned(), words(&item["command"])),
        "mcp_tool_call" => (
            format!("{}.{}", words(&item["server"]), words(&item["tool"])),
            words(&item["arguments"]),
        ),
        _ => return Vec::new(),
    };
    vec![tool_call(item, &name, input)]
}

fn tool_call(item: &Value, name: &str, input: String) -> Value {
    json!({"type": "tool_call", "id": item["id"], "name": name, "input": input})
}

fn tool_result(item: &Value, ok: bool, text: String) -> Value {
    json!({"type": "tool_result", "id": item["id"], "ok": ok, "text": text})
}

/// Returns the entries for a completed item; the agent's own words are remembered.
fn completed(item: &Value, report: &mut Report) -> Vec<Value> {
    let is_ok = item["status"] == "completed";
    let result = |ok, text| tool_result(item, ok, text);
    match item["type"].as_str().unwrap_or_default() {
        "agent_message" => {
            let said = words(&item["text"]);
            // It answers, so whatever blocked it is over.
            report.limit = None;
            let entry = json!({"type": "text", "text": said});
            report.summary = Some(said);
            vec![entry]
        }
        "command_execution" => {
            let ok = is_ok && item["exit_code"].as_i64().is_none_or(|it| it == 0);
            vec![result(ok, words(&item["aggregated_output"]))]
        }
        "mcp_tool_call" => {
            let said = match item["error"]["message"].as_str() {
                Some(message) => message.to_owned(),
                None => words(&item["result"]["content"]),
            };
            vec![result(is_ok, said)]
        }
        "file_change" => {
            let changes = item["changes"].as_array().into_iter().flatten().take(PATHS_MAX);
            let paths: Vec<String> = changes
                .map(|it| format!("{} {}", words(&it["kind"]), words(&it["path"])))
                .collect();
            vec![tool_call(item, "file_change", paths.join("\n")), result(is_ok, String::new())]
        }
        "web_search" => {
            vec![tool_call(item, "web_search", words(&item["query"])), result(true, String::new())]
        }
        // A warning of the program: the run continues.
        "error" => vec![json!({"type": "text", "text": words(&item["message"])})],
        _ => Vec::new(),
    }
}

/// Subtracts cached tokens from the input, in which Codex includes them.
fn turn_completed(usage: &Value, report: &mut Report) -> Reading {
    let count = |name: &str| usage[name].as_u64();
    let cached = count("cached_input_tokens");
    let written = count("cache_write_input_tokens");
    let of_cache = cached.unwrap_or(0).saturating_add(written.unwrap_or(0));
    let turns = report.usage.as_ref().and_then(|it| it["turns"].as_u64()).unwrap_or(0);
    let counts = json!({
        "input_tokens": count("input_tokens").map(|it| it.saturating_sub(of_cache)),
        "output_tokens": count("output_tokens"),
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": written,
        "turns": turns.saturating_add(1),
        "is_error": false,
    });
    report.is_error = false;
    report.limit = None;
    report.usage = Some(counts.clone());
    let mut entry = counts;
    entry["type"] = json!("usage");
    let done = json!({"type": "done", "ok": true, "text": report.summary, "cost_usd": null});
    Reading { entries: vec![entry, done], turn: Some(Turn::Ended) }
}

fn turn_failed(error: &Value, now: Millis, report: &mut Report) -> Reading {
    let message = match error["message"].as_str() {
        Some(message) => message.to_owned(),
        None => truncate_chars(&words(error), NAME_CHARS_MAX),
    };
    report.is_error = true;
    // A limit reported by an earlier line stays, if this one only says that the run is over.
    report.limit = limit::in_words(&message, now).or(report.limit.take());
    if !message.is_empty() {
        report.summary = Some(message);
    }
    let done = json!({"type": "done", "ok": false, "text": report.summary, "cost_usd": null});
    Reading { entries: vec![done], turn: Some(Turn::Ended) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::telemetry::tests::{read_all, types};

    const NOW: Millis = Millis(1_795_300_000_000);

    fn run(lines: &str) -> (Report, Vec<Value>, usize) {
        read_all(lines, NOW, read_line)
    }

    #[test]
    fn a_recorded_run_is_read_whole_and_once() {
        let (report, entries, ends) = run(include_str!("../../../tests/data/codex-exec.jsonl"));
        assert_eq!(ends, 1);
        let session = report.session_ref.unwrap();
        assert_eq!(session, "01a1ffb7-7be2-7b23-8e5a-df0f1a1c0fe9");
        assert_eq!(report.summary.as_deref(), Some("final from fake"));
        let usage = report.usage.unwrap();
        assert_eq!((&usage["input_tokens"], &usage["turns"]), (&json!(19312), &json!(1)));
        assert_eq!((report.cost_usd, report.is_error), (None, false));
        let expected =
            ["start", "text", "text", "tool_call", "tool_result", "text", "usage", "done"];
        assert_eq!(types(&entries), expected);
        assert_eq!(entries[4]["text"], "codex-tool-ran\n");
        assert_eq!(entries[4]["ok"], true);
    }

    #[test]
    fn what_came_from_the_cache_is_counted_apart_and_the_last_turn_counts() {
        let first = json!({"input_tokens": 100, "cached_input_tokens": 60, "output_tokens": 5});
        let last = json!({
            "input_tokens": 300, "cached_input_tokens": 200, "cache_write_input_tokens": 40,
            "output_tokens": 9,
        });
        let turn = |usage| json!({"type": "turn.completed", "usage": usage});
        let (report, ..) = run(&format!("{}\n{}", turn(first), turn(last)));
        let usage = report.usage.unwrap();
        assert_eq!(usage["input_tokens"], 60);
        assert_eq!(usage["cache_read_input_tokens"], 200);
        assert_eq!(usage["cache_creation_input_tokens"], 40);
        assert_eq!((&usage["output_tokens"], &usage["turns"]), (&json!(9), &json!(2)));
    }

    #[test]
    fn a_limit_is_told_with_its_time_and_an_attempt_is_not_the_end() {
        let said = "You've hit your usage limit. Try again at Nov 28th, 2026 10:15 PM.";
        let lines = format!(
            "{}\n{}\n{}\n",
            r#"{"type":"error","message":"Reconnecting... 1/5"}"#,
            json!({"type": "error", "message": said}),
            json!({"type": "turn.failed", "error": {"message": said}}),
        );
        let (report, entries, ends) = run(&lines);
        assert_eq!(ends, 1);
        assert!(report.is_error);
        assert_eq!(report.summary.as_deref(), Some(said));
        assert!(report.limit.unwrap().retry_at.is_some());
        assert_eq!(entries[0]["type"], "reset");
        let retry = "exceeded retry limit, last status: 429 Too Many Requests, request id: x";
        let retry = json!({"type": "turn.failed", "error": {"message": retry}}).to_string();
        assert_eq!(run(&retry).0.limit.unwrap().retry_at, None);
        let busy = "unexpected status 529 <unknown status code>: Overloaded, url: http://x/v1";
        let busy = json!({"type": "turn.failed", "error": {"message": busy}}).to_string();
        assert!(run(&busy).0.limit.is_some());
        assert!(run(r#"{"type":"turn.failed","error":{"message":"boom"}}"#).0.limit.is_none());
    }

    #[test]
    fn hostile_lines_are_text_or_nothing() {
        let deep = "[".repeat(100_000);
        for line in [
            "{}",
            "[]",
            "null",
            r#"{"type":7}"#,
            r#"{"type":"item.completed"}"#,
            r#"{"type":"item.completed","item":[1]}"#,
            r#"{"type":"item.started","item":{"type":"command_execution","command":{"a":1}}}"#,
            r#"{"type":"thread.started","thread_id":{}}"#,
            r#"{"type":"error","message":[[[]]]}"#,
            &deep,
        ] {
            assert!(!run(line).0.is_error, "{}", &line[..line.len().min(60)]);
        }
        let usage = json!({
            "input_tokens": -1, "cached_input_tokens": u64::MAX, "output_tokens": "many",
        });
        let usage = &json!({"type": "turn.completed", "usage": usage}).to_string();
        let (report, ..) = run(usage);
        assert_eq!(report.usage.unwrap()["input_tokens"], Value::Null);
        let long = json!({"type": "thread.started", "thread_id": "x".repeat(5_000)}).to_string();
        assert_eq!(run(&long).0.session_ref, None);
    }
}
