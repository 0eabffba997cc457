//! Parses `claude --output-format stream-json`: one JSON object per line, leniently.
//!
//! Key order and fields vary between versions; unknown ones are ignored. The last `result` line
//! counts: `is_error` (not `subtype`, which is "success" for a refused key), `total_cost_usd`,
//! `modelUsage`, `num_turns`, `session_id`. Its `usage` omits sub-agents and interrupted turns;
//! `modelUsage` includes them, and all turns before. Tokens are those of that line and of the
//! messages after it. Of the chunks added by `--include-partial-messages` (`stream_event`) only
//! tokens are read, since each text is repeated.
//!
//! A `result` need not be the last: with a background command, Claude Code waits for that and takes
//! another turn by itself, which a second `init` begins.

use serde_json::{Value, json};

use crate::base::{Millis, read_loose_json, truncate_chars};
use crate::jobs::telemetry::limit::{self, LIMIT_STATUSES, Limit};
use crate::jobs::telemetry::tally::{Tally, Tokens, cost};
use crate::jobs::telemetry::{NAME_CHARS_MAX, Reading, Report, Turn};

/// The start of a line that some versions write into the middle of another one.
const LIMIT_LINE: &str = "{\"type\":\"rate_limit_event\"";

/// What it says when it is interrupted in a call, after an answer that it makes up for it.
const CUT_IN_CALL: &str = "[Request interrupted by user for tool use]";

/// Parses one line; a line that is not a JSON object is text.
pub(super) fn read_line(line: &str, now: Millis, report: &mut Report) -> Reading {
    let Some(Value::Object(object)) = read_loose_json(line) else {
        if let Some(Ok(inner)) = line.find(LIMIT_LINE).map(|at| first_value(&line[at..])) {
            limit_event(&inner, now, report);
        }
        return one(json!({"type": "text", "text": line}));
    };
    let object = Value::Object(object);
    if let Some(session) = object["session_id"].as_str().filter(|it| it.len() <= NAME_CHARS_MAX) {
        report.session_ref = Some(session.to_owned());
    }
    match object["type"].as_str().unwrap_or_default() {
        "system" if object["subtype"] == "init" => {
            let start = json!({
                "type": "start",
                "model": object["model"],
                "version": object["claude_code_version"],
                "session": object["session_id"],
                "skills": object["skills"],
                "tools": object["tools"],
            });
            Reading { entries: vec![start], turn: Some(Turn::Working) }
        }
        "system" if object["subtype"] == "api_retry" => {
            report.summary = Some(trouble(&object));
            one(json!({
                "type": "reset", "attempt": object["attempt"], "error": object["error"],
                "error_status": object["error_status"],
            }))
        }
        "rate_limit_event" => {
            limit_event(&object, now, report);
            Reading::default()
        }
        "assistant" => {
            report.summary = None;
            report.is_cut_in_call = false;
            if object["error"].is_null() {
                // It answers, so whatever blocked it is over.
                report.limit = None;
            }
            count(&object["message"], report);
            Reading { entries: assistant(&object), turn: Some(Turn::Working) }
        }
        "stream_event" => {
            piece(&object["event"], report);
            Reading::default()
        }
        "user" => {
            report.is_cut_in_call |= blocks(&object).any(|it| it["text"] == CUT_IN_CALL);
            Reading { entries: tool_results(&object), turn: None }
        }
        "result" => result(&object, now, report),
        _ => Reading::default(),
    }
}

fn one(entry: Value) -> Reading {
    Reading::one(entry)
}

fn first_value(text: &str) -> serde_json::Result<Value> {
    serde_json::Deserializer::from_str(text).into_iter::<Value>().next().unwrap_or(Ok(Value::Null))
}

/// Records that the account's quota is used up; `allowed` and `allowed_warning` mean nothing, and
/// accounts that pay for overage continue.
fn limit_event(object: &Value, now: Millis, report: &mut Report) {
    let info = &object["rate_limit_info"];
    if info["status"] == "rejected" && info["isUsingOverage"] != true {
        let retry_at = info["resetsAt"].as_i64().and_then(|it| limit::of_seconds(it, now));
        report.limit = Some(Limit { retry_at, is_prose: false });
    }
}

/// Returns the rate limit that ended the run, if any: from its status, its message, or the
/// preceding line about the account's quota. That line has the provider's own timestamp; the
/// message has a time of day for people, possibly in another time zone.
fn final_limit(object: &Value, now: Millis, report: &mut Report) -> Option<Limit> {
    let before = report.limit.take();
    if !report.is_error {
        return None;
    }
    let in_words = report.summary.as_deref().and_then(|it| limit::in_words(it, now));
    let has_status =
        object["api_error_status"].as_u64().is_some_and(|it| LIMIT_STATUSES.contains(&it));
    let in_status = has_status.then_some(Limit { retry_at: None, is_prose: false });
    let with_number = before.filter(|it| it.retry_at.is_some());
    with_number.or(in_words).or(in_status).or(before)
}

fn blocks(object: &Value) -> impl Iterator<Item = &Value> {
    object["message"]["content"].as_array().into_iter().flatten()
}

/// Adds the call inside of which a sub-agent says this.
fn within(object: &Value, mut entry: Value) -> Value {
    if let Some(parent) = object["parent_tool_use_id"].as_str() {
        entry["parent"] = json!(truncate_chars(parent, NAME_CHARS_MAX));
    }
    entry
}

fn assistant(object: &Value) -> Vec<Value> {
    let entry = |block: &Value| match block["type"].as_str()? {
        "text" => Some(json!({"type": "text", "text": block["text"]})),
        "tool_use" => Some(json!({
            "type": "tool_call", "id": block["id"], "name": block["name"],
            "input": block["input"].to_string(),
        })),
        _ => None,
    };
    blocks(object).filter_map(entry).map(|it| within(object, it)).collect()
}

fn tool_results(object: &Value) -> Vec<Value> {
    let entry = |block: &Value| {
        (block["type"] == "tool_result").then(|| {
            let text = words(&block["content"]);
            let ok = !block["is_error"].as_bool().unwrap_or(false);
            json!({"type": "tool_result", "id": block["tool_use_id"], "ok": ok, "text": text})
        })
    };
    blocks(object).filter_map(entry).map(|it| within(object, it)).collect()
}

/// Returns a tool's answer as text: images and the like are only named.
fn words(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Array(blocks) => {
            let word = |block: &Value| match block["text"].as_str() {
                Some(text) => text.to_owned(),
                None => format!("[{}]", block["type"].as_str().unwrap_or("unknown")),
            };
            blocks.iter().map(word).collect::<Vec<String>>().join("\n")
        }
        other => other.to_string(),
    }
}

/// Returns why the model did not answer, which is all that is known if a timeout follows.
fn trouble(object: &Value) -> String {
    let error = truncate_chars(object["error"].as_str().unwrap_or("error"), NAME_CHARS_MAX);
    let status = object["error_status"].as_u64().map(|it| format!(" (HTTP {it})"));
    format!("trying again after {error}{}", status.unwrap_or_default())
}

/// Returns the agent's last words: its result, or why there is none.
fn last_words(object: &Value) -> Option<String> {
    if let Some(text) = object["result"].as_str() {
        return Some(text.to_owned());
    }
    let errors = object["errors"].as_array()?.iter().filter_map(Value::as_str);
    // Diagnostics for its developers, at each cancellation.
    let errors: Vec<&str> = errors.filter(|it| !it.starts_with("[ede_diagnostic]")).collect();
    (!errors.is_empty()).then(|| errors.join("\n"))
}

/// Counts the tokens of a message, which arrives in several lines.
fn count(message: &Value, report: &mut Report) {
    let (Some(id), true) = (message["id"].as_str(), message["usage"].is_object()) else { return };
    let usage = &message["usage"];
    let count = |name: &str| usage[name].as_u64().unwrap_or(0);
    let tokens = Tokens {
        input: count("input_tokens"),
        output: count("output_tokens"),
        cache_read: count("cache_read_input_tokens"),
        cache_creation: count("cache_creation_input_tokens"),
        cost_usd: None,
    };
    report.tally.note(id, message["model"].as_str().unwrap_or_default(), tokens);
    report.keep_tally();
}

/// Counts the tokens of a message that is still being written.
fn piece(event: &Value, report: &mut Report) {
    match event["type"].as_str().unwrap_or_default() {
        "message_start" => count(&event["message"], report),
        "message_delta" => {
            report.tally.grow(event["usage"]["output_tokens"].as_u64().unwrap_or(0));
            report.keep_tally();
        }
        _ => {}
    }
}

/// Returns the tokens of each model, including sub-agents and interrupted turns.
fn model_usage(object: &Value) -> Tally {
    let mut tally = Tally::default();
    for (model, told) in object["modelUsage"].as_object().into_iter().flatten() {
        let count = |name: &str| told[name].as_u64().unwrap_or(0);
        let tokens = Tokens {
            input: count("inputTokens"),
            output: count("outputTokens"),
            cache_read: count("cacheReadInputTokens"),
            cache_creation: count("cacheCreationInputTokens"),
            cost_usd: cost(&told["costUSD"]),
        };
        tally.add(model, &tokens);
    }
    tally
}

fn result(object: &Value, now: Millis, report: &mut Report) -> Reading {
    report.is_error = object["is_error"].as_bool().unwrap_or(false);
    report.cost_usd = cost(&object["total_cost_usd"]);
    report.summary = last_words(object).or(report.summary.take());
    report.limit = final_limit(object, now, report);
    let usage = &object["usage"];
    let mut counts = json!({
        "input_tokens": usage["input_tokens"].as_u64(),
        "output_tokens": usage["output_tokens"].as_u64(),
        "cache_read_input_tokens": usage["cache_read_input_tokens"].as_u64(),
        "cache_creation_input_tokens": usage["cache_creation_input_tokens"].as_u64(),
        "models": [], "by_model": [],
        "turns": object["num_turns"].as_u64(),
        "duration_ms": object["duration_ms"].as_u64(),
        "is_error": report.is_error,
        "permission_denials": object["permission_denials"].as_array().map_or(0, Vec::len),
    });
    let (models, since) = (model_usage(object), std::mem::take(&mut report.tally));
    match models.usage() {
        Some(_) => report.told = models,
        None => report.told.absorb(since),
    }
    for (name, value) in report.told.usage().into_iter().flatten() {
        counts[name] = value;
    }
    report.usage = Some(counts.clone());
    let done = json!({
        "type": "done", "ok": !report.is_error, "text": report.summary,
        "cost_usd": report.cost_usd,
    });
    let mut usage_entry = counts;
    usage_entry["type"] = json!("usage");
    Reading { entries: vec![usage_entry, done], turn: Some(Turn::Ended) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::telemetry::tests::{NOW, read_all};

    #[test]
    fn the_result_line_gives_cost_usage_and_the_end() {
        let mut report = Report::default();
        let line = r#"{"type":"result","subtype":"success","is_error":true,"result":"401",
            "session_id":"s-1",
            "total_cost_usd":0.25,"num_turns":2,"usage":{"input_tokens":7,"output_tokens":3}}"#;
        let reading = read_line(line, NOW, &mut report);
        assert_eq!(reading.turn, Some(Turn::Ended));
        assert!(report.is_error);
        assert_eq!(report.cost_usd, Some(0.25));
        assert_eq!(report.session_ref.as_deref(), Some("s-1"));
        assert_eq!(report.usage.unwrap()["input_tokens"], 7);
    }

    fn run(lines: &str) -> (Report, Vec<Value>, usize) {
        read_all(lines, NOW, read_line)
    }

    fn of_type<'e>(entries: &'e [Value], name: &str) -> Vec<&'e Value> {
        entries.iter().filter(|it| it["type"] == name).collect()
    }

    #[test]
    fn a_recorded_run_is_read_whole_and_once() {
        for lines in [
            include_str!("../../../tests/data/claude-stream.jsonl"),
            include_str!("../../../tests/data/claude-stream-partial.jsonl"),
        ] {
            let (report, entries, ends) = run(lines);
            assert_eq!(ends, 1);
            assert!(!report.is_error);
            assert_eq!(report.session_ref.unwrap().len(), 36);
            assert!(report.cost_usd.unwrap() > 0.2);
            let usage = report.usage.unwrap();
            assert_eq!(usage["turns"], 6);
            assert_eq!(usage["output_tokens"], 372);
            assert!(usage["models"][0].as_str().unwrap().starts_with("claude-"));
            let start = of_type(&entries, "start");
            let skills = start[0]["skills"].as_array().unwrap();
            for skill in ["wb-incorporate", "wb-perspective"] {
                assert!(skills.iter().any(|it| it == skill), "{skills:?}");
            }
            let calls = of_type(&entries, "tool_call");
            let names: Vec<&str> = calls.iter().map(|it| it["name"].as_str().unwrap()).collect();
            assert_eq!(names, ["Skill", "Bash", "Bash", "Bash"]);
            assert!(of_type(&entries, "tool_result").iter().all(|it| it["ok"] == true));
            let said = of_type(&entries, "text");
            // Complete texts, once each: chunks are not entries.
            assert_eq!(said.len(), 5);
            assert_eq!(said[4]["text"], report.summary.unwrap().as_str());
            assert_eq!(entries.last().unwrap()["type"], "done");
        }
    }

    #[test]
    fn what_sub_agents_and_cut_turns_spent_is_counted_by_model() {
        let line = json!({
            "type": "result", "is_error": false, "result": "done", "total_cost_usd": 0.5,
            "usage": {"input_tokens": 372, "output_tokens": 10},
            "modelUsage": {
                "large": {"inputTokens": 400, "outputTokens": 30, "cacheReadInputTokens": 5,
                    "cacheCreationInputTokens": 6, "costUSD": 0.4},
                "small": {"inputTokens": 200, "outputTokens": 12, "costUSD": 0.1},
            },
        });
        let usage = run(&line.to_string()).0.usage.unwrap();
        assert_eq!((&usage["input_tokens"], &usage["output_tokens"]), (&json!(600), &json!(42)));
        assert_eq!(usage["cache_read_input_tokens"], 5);
        assert_eq!(usage["cache_creation_input_tokens"], 6);
        assert_eq!(usage["models"], json!(["large", "small"]));
        assert_eq!(usage["by_model"][1]["input_tokens"], 200);
        assert_eq!(usage["by_model"][1]["cost_usd"], 0.1);
        assert!(usage.get("is_partial").is_none());
    }

    #[test]
    fn a_recorded_run_with_a_sub_agent_counts_what_that_spent() {
        let lines = include_str!("../../../tests/data/claude-stream-subagent.jsonl");
        let usage = run(lines).0.usage.unwrap();
        // The main thread alone read 38,141 and wrote 55.
        assert_eq!((&usage["input_tokens"], &usage["output_tokens"]), (&json!(49_401), &json!(69)));
    }

    #[test]
    fn the_tokens_of_a_run_without_its_result_line_are_those_of_its_messages() {
        for lines in [
            include_str!("../../../tests/data/claude-stream.jsonl"),
            include_str!("../../../tests/data/claude-stream-partial.jsonl"),
        ] {
            let whole = run(lines).0.usage.unwrap();
            assert!(whole["is_partial"].is_null(), "{whole}");
            let cut: Vec<&str> = lines.lines().filter(|it| !it.contains("modelUsage")).collect();
            let (report, _, ends) = run(&cut.join("\n"));
            assert_eq!(ends, 0);
            let usage = report.usage.unwrap();
            assert_eq!(usage["is_partial"], true);
            assert_eq!(usage["input_tokens"], whole["input_tokens"]);
            assert_eq!(report.cost_usd, None);
        }
    }

    #[test]
    fn a_recorded_cancellation_keeps_the_cost() {
        let lines = include_str!("../../../tests/data/claude-stream-cancelled.jsonl");
        let (report, entries, ends) = run(lines);
        assert_eq!(ends, 1);
        assert!(report.is_error);
        assert!(report.cost_usd.unwrap() > 0.0);
        assert_eq!(report.summary, None);
        assert_eq!(of_type(&entries, "tool_result")[0]["ok"], false);
        assert!(report.is_cut_in_call);
        let goes_on = r#"{"type":"assistant","message":{"content":[]}}"#;
        assert!(!run(&format!("{lines}{goes_on}")).0.is_cut_in_call);
    }

    #[test]
    fn a_recorded_refusal_says_why() {
        let lines = include_str!("../../../tests/data/claude-stream-refused.jsonl");
        let (report, entries, _) = run(lines);
        assert!(report.is_error);
        assert_eq!(report.summary.as_deref(), Some("Invalid API key · Fix external API key"));
        assert_eq!(of_type(&entries, "reset").len(), 2);
        // Stopped while waiting: an interrupted run has a result without text.
        let waiting: String = lines.split_inclusive('\n').take(3).collect();
        let interrupted = r#"{"type":"result","is_error":true,"errors":["[ede_diagnostic] x"]}"#;
        let (report, _, ends) = run(&format!("{waiting}{interrupted}"));
        assert_eq!(ends, 1);
        let summary = report.summary.unwrap();
        assert_eq!(summary, "trying again after authentication_failed (HTTP 401)");
    }

    #[test]
    fn answers_of_tools_are_text_and_errors_are_last_words() {
        let mut report = Report::default();
        let line = r#"{"type":"user","message":{"content":[{"type":"tool_result","content":[
            {"type":"text","text":"one"},{"type":"image","source":{"data":"AAAA"}}]}]}}"#;
        assert_eq!(read_line(line, NOW, &mut report).entries[0]["text"], "one\n[image]");
        let line = r#"{"type":"result","subtype":"error_max_budget_usd","is_error":true,
            "errors":["[ede_diagnostic] x","Reached maximum budget ($0.1)"],
            "total_cost_usd":0.5451550000000001}"#;
        assert_eq!(read_line(line, NOW, &mut report).turn, Some(Turn::Ended));
        assert_eq!(report.summary.as_deref(), Some("Reached maximum budget ($0.1)"));
        assert_eq!(report.cost_usd, Some(0.545155));
    }

    #[test]
    fn a_turn_after_a_result_shows_that_it_was_not_the_last() {
        let mut report = Report::default();
        let mut tells = |line: &str| read_line(line, NOW, &mut report).turn;
        assert_eq!(tells(r#"{"type":"result","is_error":false}"#), Some(Turn::Ended));
        // What it says of itself, and what comes from elsewhere, begins no turn.
        for line in ["bye", r#"{"type":"system","subtype":"status"}"#, r#"{"type":"user"}"#] {
            assert_eq!(tells(line), None, "{line}");
        }
        assert_eq!(tells(r#"{"type":"system","subtype":"init"}"#), Some(Turn::Working));
        assert_eq!(tells(r#"{"type":"assistant","message":{}}"#), Some(Turn::Working));
        assert_eq!(tells(r#"{"type":"result","is_error":false}"#), Some(Turn::Ended));
    }

    #[test]
    fn hostile_lines_are_text_or_nothing() {
        let mut report = Report::default();
        assert_eq!(read_line("not json", NOW, &mut report).entries.len(), 1);
        for line in ["{}", r#"{"type":7}"#, r#"{"type":"assistant","message":5}"#, "[]", "null"] {
            assert_ne!(read_line(line, NOW, &mut report).turn, Some(Turn::Ended), "{line}");
        }
    }

    #[test]
    fn a_limit_is_told_with_its_time() {
        let event = |status: &str| {
            let info = json!({
                "status": status, "resetsAt": 1_795_361_400, "rateLimitType": "five_hour",
                "isUsingOverage": false,
            });
            json!({"type": "rate_limit_event", "rate_limit_info": info}).to_string()
        };
        let words = "You've hit your limit";
        let block = json!([{"type": "text", "text": words}]);
        let said =
            json!({"type": "assistant", "error": "rate_limit", "message": {"content": block}});
        let failed = json!({
            "type": "result", "subtype": "success", "is_error": true, "api_error_status": 429,
            "result": words,
        });
        let (said, failed) = (&said.to_string(), &failed.to_string());
        let fine = r#"{"type":"result","subtype":"success","is_error":false,"result":"done"}"#;
        let limit = |lines: &[&str]| run(&lines.join("\n")).0.limit;
        let rejected = event("rejected");
        let found = limit(&[&rejected, said, failed]).unwrap();
        assert_eq!(found.retry_at, Some(Millis(1_795_361_400_000)));
        // The provider's timestamp counts, not the time of day in the message.
        let other = failed.replace(words, "You've hit your limit · resets 11pm (UTC)");
        assert_eq!(limit(&[&rejected, said, &other]), Some(found));
        assert_ne!(limit(&[&other]).unwrap().retry_at, found.retry_at);
        assert_eq!(limit(&[failed]).unwrap().retry_at, None);
        assert_eq!(limit(&[&event("allowed_warning"), fine]), None);
        assert_eq!(limit(&[&rejected, fine]), None);
        // Split into the middle of another line, as 2.1.74 did.
        let torn = format!(r#"{{"type":"assistant","message":{{"content":"par{rejected}"#);
        assert!(limit(&[&torn]).unwrap().retry_at.is_some());
        let overloaded =
            r#"{"type":"result","is_error":true,"result":"API Error: 529 Overloaded"}"#;
        assert!(limit(&[overloaded]).is_some());
        let refused = r#"{"type":"result","is_error":true,"api_error_status":401,"result":"no"}"#;
        assert_eq!(limit(&[refused]), None);
    }
}
