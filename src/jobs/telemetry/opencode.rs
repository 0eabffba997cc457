//! Parses `opencode run --format json`: one JSON object per line, leniently.
//!
//! `tool_use` is a call with its answer, `step_finish` has tokens and cost of one request, which
//! are summed up. Neither the model nor the usage of a sub-agent (`task`) is reported, and no line
//! says that the run is over: reason `stop` is the end of an answer.

use serde_json::{Value, json};

use crate::base::{Millis, read_loose_json, truncate_chars};
use crate::jobs::telemetry::limit::{self, LIMIT_STATUSES, Limit};
use crate::jobs::telemetry::tally::{Tokens, cost};
use crate::jobs::telemetry::{NAME_CHARS_MAX, Reading, Report, words};

/// Parses one line; a line that is not a JSON object is text.
pub(super) fn read_line(line: &str, now: Millis, report: &mut Report) -> Reading {
    let Some(Value::Object(object)) = read_loose_json(line) else {
        return Reading::one(json!({"type": "text", "text": line}));
    };
    let object = Value::Object(object);
    let part = &object["part"];
    let mut entries = start(&object, report);
    match object["type"].as_str().unwrap_or_default() {
        "text" => {
            let text = words(&part["text"]);
            report.limit = None;
            entries.push(json!({"type": "text", "text": text}));
            report.summary = Some(text);
        }
        "tool_use" => entries.extend(tool(part)),
        "step_finish" => entries.extend(step_finish(part, report)),
        "error" => entries.push(failed(&object["error"], now, report)),
        _ => {}
    }
    Reading { entries, turn: None }
}

/// Returns the first entry of a run: every line names the session.
fn start(object: &Value, report: &mut Report) -> Vec<Value> {
    let session = object["sessionID"].as_str().filter(|it| it.len() <= NAME_CHARS_MAX);
    match session {
        Some(session) if report.session_ref.is_none() => {
            report.session_ref = Some(session.to_owned());
            vec![json!({"type": "start", "session": session})]
        }
        _ => Vec::new(),
    }
}

fn tool(part: &Value) -> [Value; 2] {
    let state = &part["state"];
    let is_done = state["status"] == "completed";
    let exit = state["metadata"]["exit"].as_i64();
    let text = if is_done { &state["output"] } else { &state["error"] };
    [
        json!({
            "type": "tool_call", "id": part["callID"], "name": part["tool"],
            "input": state["input"].to_string(),
        }),
        json!({
            "type": "tool_result", "id": part["callID"],
            "ok": is_done && exit.is_none_or(|it| it == 0), "text": words(text),
        }),
    ]
}

fn step_finish(part: &Value, report: &mut Report) -> Vec<Value> {
    let told = &part["tokens"];
    let count = |value: &Value| value.as_u64().unwrap_or(0);
    let tokens = Tokens {
        input: count(&told["input"]),
        output: count(&told["output"]).saturating_add(count(&told["reasoning"])),
        cache_read: count(&told["cache"]["read"]),
        cache_creation: count(&told["cache"]["write"]),
        cost_usd: None,
    };
    report.tally.add("", &tokens);
    let turns = report.usage.as_ref().and_then(|it| it["turns"].as_u64()).unwrap_or(0);
    let mut usage = report.tally.usage().unwrap_or_default();
    usage.insert("turns".to_owned(), json!(turns.saturating_add(1)));
    usage.insert("is_error".to_owned(), json!(false));
    // Of a model without a price it says 0: what that costs is not known.
    if let Some(dollars) = cost(&part["cost"]).filter(|it| *it > 0.0) {
        report.cost_usd = cost(&json!(report.cost_usd.unwrap_or(0.0) + dollars));
    }
    report.usage = Some(Value::Object(usage.clone()));
    if part["reason"] != "stop" {
        report.keep_partial();
        return Vec::new();
    }
    report.is_error = false;
    usage.insert("type".to_owned(), json!("usage"));
    let done = json!({
        "type": "done", "ok": true, "text": report.summary, "cost_usd": report.cost_usd,
    });
    vec![Value::Object(usage), done]
}

/// Handles an `error` line, which follows after opencode has given up retrying.
fn failed(error: &Value, now: Millis, report: &mut Report) -> Value {
    let data = &error["data"];
    let message = match data["message"].as_str() {
        Some(message) => message.to_owned(),
        None => truncate_chars(&words(&error["name"]), NAME_CHARS_MAX),
    };
    let has_status = data["statusCode"].as_u64().is_some_and(|it| LIMIT_STATUSES.contains(&it));
    let seconds = data["responseHeaders"]["retry-after"].as_str().and_then(|it| it.parse().ok());
    let at = seconds.and_then(|it: i64| limit::after_seconds(it, now));
    let in_words = limit::in_words(&message, now);
    report.limit = match (has_status, in_words) {
        (false, None) => None,
        (_, in_words) => {
            Some(Limit { retry_at: at.or(in_words.and_then(|it| it.retry_at)), is_prose: false })
        }
    };
    report.is_error = true;
    let done = json!({"type": "done", "ok": false, "text": message, "cost_usd": report.cost_usd});
    report.summary = Some(message);
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::telemetry::tests::{NOW, read_all, types};

    fn run(lines: &str) -> (Report, Vec<Value>, usize) {
        read_all(lines, NOW, read_line)
    }

    #[test]
    fn a_recorded_run_adds_up_its_requests() {
        let (report, entries, ends) = run(include_str!("../../../tests/data/opencode-run.jsonl"));
        assert_eq!(ends, 0);
        let expected = [
            "start",
            "text",
            "tool_call",
            "tool_result",
            "tool_call",
            "tool_result",
            "tool_call",
            "tool_result",
            "text",
            "usage",
            "done",
        ];
        assert_eq!(types(&entries), expected);
        assert!(report.session_ref.unwrap().starts_with("ses_"));
        assert_eq!(report.summary.as_deref(), Some("All done: it says hello."));
        let usage = report.usage.unwrap();
        assert_eq!(
            (&usage["input_tokens"], &usage["output_tokens"]),
            (&json!(23_531), &json!(113))
        );
        assert_eq!((&usage["turns"], &usage["models"]), (&json!(3), &json!([])));
        assert_eq!(report.cost_usd, Some(0.072_288));
        assert_eq!(entries[2]["name"], "bash");
        assert!(entries[2]["input"].as_str().unwrap().contains("echo one; echo two"));
        assert_eq!((&entries[3]["ok"], &entries[3]["text"]), (&json!(true), &json!("one\ntwo\n")));
        assert_eq!(entries[5]["ok"], false);
    }

    #[test]
    fn a_run_that_is_cut_short_keeps_what_was_told() {
        let lines = include_str!("../../../tests/data/opencode-run.jsonl");
        let first: String = lines.split_inclusive('\n').take(4).collect();
        let report = run(&first).0;
        let usage = report.usage.unwrap();
        assert_eq!((&usage["input_tokens"], &usage["is_partial"]), (&json!(7_730), &json!(true)));
        assert_eq!(report.cost_usd, Some(0.023_82));
    }

    #[test]
    fn a_recorded_refusal_is_an_error_and_a_limit_is_one_by_its_status() {
        let lines = include_str!("../../../tests/data/opencode-errors.jsonl");
        let each: Vec<Report> = lines.lines().map(|line| run(line).0).collect();
        assert!(each.iter().all(|it| it.is_error));
        assert_eq!(each[0].summary.as_deref(), Some("invalid x-api-key"));
        assert!(each[0].limit.is_none());
        assert_eq!(each[1].limit, Some(Limit { retry_at: None, is_prose: false }));
        let soon = lines
            .lines()
            .nth(1)
            .unwrap()
            .replace("\"connection\"", "\"retry-after\":\"90\",\"connection\"");
        assert_eq!(run(&soon).0.limit.unwrap().retry_at, Some(NOW.plus(90_000)));
    }

    #[test]
    fn a_model_without_a_price_costs_what_nobody_knows() {
        let line =
            r#"{"type":"step_finish","part":{"reason":"stop","cost":0,"tokens":{"input":9}}}"#;
        let (report, ..) = run(line);
        assert_eq!((report.cost_usd, &report.usage.unwrap()["input_tokens"]), (None, &json!(9)));
    }

    #[test]
    fn hostile_lines_are_text_or_nothing() {
        for line in [
            "not json",
            "{}",
            "[]",
            "null",
            r#"{"type":7}"#,
            r#"{"type":"text","part":[1]}"#,
            r#"{"type":"tool_use","part":{"state":5}}"#,
            r#"{"type":"step_finish","part":{"tokens":{"input":-1,"cache":7},"cost":"many"}}"#,
        ] {
            let (report, ..) = run(line);
            assert!(!report.is_error && report.cost_usd.is_none(), "{line}");
        }
        let long = json!({"type": "text", "sessionID": "x".repeat(5_000)}).to_string();
        assert_eq!(run(&long).0.session_ref, None);
    }
}
