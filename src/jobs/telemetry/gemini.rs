//! Parses `gemini -o stream-json`: one JSON object per line, leniently.
//!
//! An answer arrives in chunks (`message` with `delta`), which form one text; `tool_use` and
//! `tool_result` are calls; `result` is the end, with tokens by model. There is no cost.

use serde_json::{Value, json};

use crate::base::{Millis, read_loose_json, truncate_chars};
use crate::jobs::telemetry::tally::{Tally, Tokens};
use crate::jobs::telemetry::{NAME_CHARS_MAX, Reading, Report, TEXT_CHARS_MAX, Turn, limit, words};

/// Most warnings of one run that are kept.
const WARNINGS_MAX: usize = 10;
/// Longest warning, in characters.
const WARNING_CHARS_MAX: usize = 500;

/// Parses one line; a line that is not a JSON object is text.
pub(super) fn read_line(line: &str, now: Millis, report: &mut Report) -> Reading {
    let Some(Value::Object(object)) = read_loose_json(line) else {
        return Reading::one(json!({"type": "text", "text": line}));
    };
    let object = Value::Object(object);
    let kind = object["type"].as_str().unwrap_or_default();
    if kind == "message" && object["role"] == "assistant" {
        // An answer, so whatever blocked it is over.
        report.limit = None;
        let is_piece = object["delta"] == true;
        let mut entries: Vec<Value> =
            if is_piece { Vec::new() } else { end_of_text(report).into_iter().collect() };
        if report.open_text.len() < TEXT_CHARS_MAX * 4 {
            report.open_text.push_str(&words(&object["content"]));
        }
        if !is_piece {
            entries.extend(end_of_text(report));
        }
        return Reading { entries, turn: None };
    }
    let mut entries: Vec<Value> = end_of_text(report).into_iter().collect();
    match kind {
        "init" => {
            let session = object["session_id"].as_str().filter(|it| it.len() <= NAME_CHARS_MAX);
            report.session_ref = session.map(str::to_owned);
            entries.push(json!({"type": "start", "session": session, "model": object["model"]}));
        }
        "tool_use" => entries.push(json!({
            "type": "tool_call", "id": object["tool_id"], "name": object["tool_name"],
            "input": object["parameters"].to_string(),
        })),
        "tool_result" => {
            let ok = object["status"] == "success";
            let said = match object["error"]["message"].as_str() {
                Some(message) if !ok => message.to_owned(),
                _ => words(&object["output"]),
            };
            let id = &object["tool_id"];
            entries.push(json!({"type": "tool_result", "id": id, "ok": ok, "text": said}));
        }
        "error" if object["severity"] == "warning" => {
            let message = words(&object["message"]);
            report.limit = limit::in_words(&message, now);
            entries.push(json!({"type": "warning", "text": message}));
            warn(report, &message);
            report.summary.get_or_insert(message);
        }
        "error" => {
            let message = words(&object["message"]);
            report.limit = limit::in_words(&message, now);
            entries.push(json!({"type": "reset", "error": message}));
            report.summary = Some(message);
        }
        "result" => {
            entries.extend(result(&object, now, report));
            return Reading { entries, turn: Some(Turn::Ended) };
        }
        _ => {}
    }
    Reading { entries, turn: None }
}

/// Notes a warning of the engine for the job's row, once.
fn warn(report: &mut Report, message: &str) {
    let words = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let warning = truncate_chars(&format!("engine_warning: {words}"), WARNING_CHARS_MAX);
    if report.warnings.len() < WARNINGS_MAX && !report.warnings.contains(&warning) {
        report.warnings.push(warning);
    }
}

/// Returns the text assembled from chunks, which becomes the last words.
pub(super) fn end_of_text(report: &mut Report) -> Option<Value> {
    let text = std::mem::take(&mut report.open_text);
    if text.is_empty() {
        return None;
    }
    let entry = json!({"type": "text", "text": text});
    report.summary = Some(text);
    Some(entry)
}

/// Gemini includes cached tokens in its input, and thinking only in the total.
fn tokens_of(told: &Value) -> Tokens {
    let count = |name: &str| told[name].as_u64().unwrap_or(0);
    let (read, cached) = (count("input_tokens"), count("cached"));
    Tokens {
        input: read.saturating_sub(cached),
        output: count("total_tokens").saturating_sub(read).max(count("output_tokens")),
        cache_read: cached,
        cache_creation: 0,
        cost_usd: None,
    }
}

fn result(object: &Value, now: Millis, report: &mut Report) -> [Value; 2] {
    let stats = &object["stats"];
    let mut tally = Tally::default();
    match stats["models"].as_object().filter(|it| !it.is_empty()) {
        Some(models) => models.iter().for_each(|(name, told)| tally.add(name, &tokens_of(told))),
        None => tally.add("", &tokens_of(stats)),
    }
    report.is_error = object["status"] != "success";
    let mut usage = tally.usage().unwrap_or_default();
    usage.insert("duration_ms".to_owned(), json!(stats["duration_ms"].as_u64()));
    usage.insert("is_error".to_owned(), json!(report.is_error));
    if report.is_error {
        let message = words(&object["error"]["message"]);
        // A limit reported by an earlier line stays, if this one only says that the run is over.
        report.limit = limit::in_words(&message, now).or(report.limit.take());
        report.summary = Some(message).filter(|it| !it.is_empty()).or(report.summary.take());
    }
    report.usage = Some(Value::Object(usage.clone()));
    usage.insert("type".to_owned(), json!("usage"));
    let ok = !report.is_error;
    let done = json!({"type": "done", "ok": ok, "text": report.summary, "cost_usd": null});
    [Value::Object(usage), done]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::telemetry::tests::{NOW, read_all, types};

    fn run(lines: &str) -> (Report, Vec<Value>, usize) {
        read_all(lines, NOW, read_line)
    }

    #[test]
    fn a_recorded_run_is_read_with_its_pieces_as_one_text() {
        let (report, entries, ends) = run(include_str!("../../../tests/data/gemini-stream.jsonl"));
        assert_eq!(ends, 1);
        let expected = [
            "start",
            "text",
            "tool_call",
            "tool_result",
            "tool_call",
            "tool_call",
            "tool_result",
            "tool_result",
            "text",
            "usage",
            "done",
        ];
        assert_eq!(types(&entries), expected);
        assert_eq!(entries[1]["text"], "I look first.");
        assert_eq!(entries[2]["name"], "run_shell_command");
        let whole = entries[8]["text"].as_str().unwrap();
        assert!(
            whole.starts_with("All done: it says hello, ") && whole.ends_with("in the stream.")
        );
        assert_eq!(report.summary.as_deref(), Some(whole));
        assert_eq!(report.session_ref.unwrap().len(), 36);
        let usage = report.usage.unwrap();
        assert_eq!(
            (&usage["input_tokens"], &usage["output_tokens"]),
            (&json!(37_659), &json!(196))
        );
        assert_eq!(usage["by_model"][1]["model"], "gemini-3.8-flash");
        assert_eq!(usage["by_model"][1]["input_tokens"], 36_762);
        assert_eq!((report.cost_usd, report.is_error), (None, false));
    }

    #[test]
    fn a_recorded_failure_says_why_and_a_quota_is_a_limit() {
        let lines = include_str!("../../../tests/data/gemini-errors.jsonl");
        let (report, entries, ends) = run(lines.lines().next().unwrap());
        assert_eq!(ends, 1);
        assert!(report.is_error && report.limit.is_none());
        assert!(report.summary.unwrap().contains("API key not valid"));
        assert_eq!(entries.last().unwrap()["ok"], false);
        for (message, wait_ms) in [
            ("You exceeded your current quota. Please retry in 13.5s.", Some(13_500)),
            (
                "You have exhausted your capacity on this model. It will reset after 1h2m3s.",
                Some(3_723_000),
            ),
            ("[API Error: {\"code\":429,\"status\":\"RESOURCE_EXHAUSTED\"}]", None),
            ("The model is overloaded. Please try again later.", None),
        ] {
            let line = json!({"type": "result", "status": "error", "error": {"message": message}});
            let limit = run(&line.to_string()).0.limit.unwrap();
            assert_eq!(limit.retry_at, wait_ms.map(|it| NOW.plus(it)), "{message}");
        }
    }

    #[test]
    fn a_run_that_gemini_stopped_is_no_retry_and_has_a_warning() {
        let stopped = concat!(
            r#"{"type":"error","timestamp":"2026-11-27T13:20:11.402Z","severity":"warning","#,
            r#""message":"Loop detected, stopping execution"}"#
        );
        let piece = r#"{"type":"message","role":"assistant","content":"aaaa","delta":true}"#;
        let result = r#"{"type":"result","status":"success","stats":{}}"#;
        let (report, entries, ends) = run(&[piece, stopped, result].join("\n"));
        assert_eq!((types(&entries), ends), (vec!["text", "warning", "usage", "done"], 1));
        assert_eq!(entries[1]["text"], "Loop detected, stopping execution");
        assert_eq!(report.warnings, ["engine_warning: Loop detected, stopping execution"]);
        assert_eq!((report.summary.as_deref(), report.is_error), (Some("aaaa"), false));
        let (report, ..) = run(&format!("{stopped}\n{}", format!("{stopped}\n").repeat(99)));
        assert_eq!(report.warnings.len(), 1);
        assert_eq!(report.summary.as_deref(), Some("Loop detected, stopping execution"));
    }

    #[test]
    fn thoughts_count_as_written_and_the_cache_apart() {
        let models = json!({"m": {
            "total_tokens": 150, "input_tokens": 100, "output_tokens": 20, "cached": 60,
        }});
        let line = json!({"type": "result", "status": "success", "stats": {"models": models}});
        let usage = run(&line.to_string()).0.usage.unwrap();
        assert_eq!(
            (&usage["input_tokens"], &usage["cache_read_input_tokens"]),
            (&json!(40), &json!(60))
        );
        assert_eq!(usage["output_tokens"], 50);
    }

    #[test]
    fn hostile_lines_are_text_or_nothing() {
        for line in [
            "not json",
            "{}",
            "[]",
            "null",
            r#"{"type":7}"#,
            r#"{"type":"message","role":"assistant","content":{"a":[1]}}"#,
            r#"{"type":"tool_result","output":[{}],"status":3}"#,
            r#"{"type":"result","status":"success","stats":{"models":{"m":7}}}"#,
        ] {
            let (report, ..) = run(line);
            assert!(!report.is_error && report.limit.is_none(), "{line}");
        }
        let piece = json!({
            "type": "message", "role": "assistant", "delta": true, "content": "x".repeat(50_000),
        });
        let report = run(&format!("{piece}\n").repeat(9)).0;
        assert!(report.open_text.len() < 200_000);
    }
}
