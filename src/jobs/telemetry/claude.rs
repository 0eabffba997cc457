//! `claude --output-format stream-json`: one JSON object a line, read leniently.
//!
//! Key order and fields differ between versions; what is unknown is passed over. The last `result`
//! line counts: `is_error` (not `subtype`, which says "success" on a refused key),
//! `total_cost_usd`, `usage`, `num_turns`, `session_id`.

use serde_json::{Value, json};

use crate::jobs::telemetry::{Reading, Report};

/// Reads one line; a line that is no JSON object is text.
pub(super) fn read_line(line: &str, report: &mut Report) -> Reading {
    let Ok(Value::Object(object)) = serde_json::from_str::<Value>(line) else {
        return one(json!({"type": "text", "text": line}));
    };
    let object = Value::Object(object);
    if let Some(session) = object["session_id"].as_str().filter(|it| it.len() <= 100) {
        report.session_ref = Some(session.to_owned());
    }
    match object["type"].as_str().unwrap_or_default() {
        "system" if object["subtype"] == "init" => one(json!({
            "type": "start",
            "model": object["model"],
            "version": object["claude_code_version"],
            "session": object["session_id"],
            "skills": object["skills"],
            "tools": object["tools"],
        })),
        "system" if object["subtype"] == "api_retry" => one(json!({
            "type": "reset", "attempt": object["attempt"], "error": object["error"],
            "error_status": object["error_status"],
        })),
        "assistant" => Reading { entries: assistant(&object), is_final: false },
        "user" => Reading { entries: tool_results(&object), is_final: false },
        "result" => result(&object, report),
        _ => Reading::default(),
    }
}

fn one(entry: Value) -> Reading {
    Reading { entries: vec![entry], is_final: false }
}

fn blocks(object: &Value) -> impl Iterator<Item = &Value> {
    object["message"]["content"].as_array().into_iter().flatten()
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
    blocks(object).filter_map(entry).collect()
}

fn tool_results(object: &Value) -> Vec<Value> {
    let entry = |block: &Value| {
        (block["type"] == "tool_result").then(|| {
            let text = match &block["content"] {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let ok = !block["is_error"].as_bool().unwrap_or(false);
            json!({"type": "tool_result", "id": block["tool_use_id"], "ok": ok, "text": text})
        })
    };
    blocks(object).filter_map(entry).collect()
}

fn result(object: &Value, report: &mut Report) -> Reading {
    report.is_error = object["is_error"].as_bool().unwrap_or(false);
    report.cost_usd = object["total_cost_usd"].as_f64().filter(|it| it.is_finite());
    report.summary = object["result"].as_str().map(str::to_owned);
    let usage = &object["usage"];
    let counts = json!({
        "input_tokens": usage["input_tokens"].as_u64(),
        "output_tokens": usage["output_tokens"].as_u64(),
        "cache_read_input_tokens": usage["cache_read_input_tokens"].as_u64(),
        "cache_creation_input_tokens": usage["cache_creation_input_tokens"].as_u64(),
        "turns": object["num_turns"].as_u64(),
        "duration_ms": object["duration_ms"].as_u64(),
        "is_error": report.is_error,
        "permission_denials": object["permission_denials"].as_array().map_or(0, Vec::len),
    });
    report.usage = Some(counts.clone());
    let done = json!({
        "type": "done", "ok": !report.is_error, "text": object["result"],
        "cost_usd": report.cost_usd,
    });
    let mut usage_entry = counts;
    usage_entry["type"] = json!("usage");
    Reading { entries: vec![usage_entry, done], is_final: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_line_gives_cost_usage_and_the_end() {
        let mut report = Report::default();
        let line = r#"{"type":"result","subtype":"success","is_error":true,"result":"401",
            "session_id":"s-1",
            "total_cost_usd":0.25,"num_turns":2,"usage":{"input_tokens":7,"output_tokens":3}}"#;
        let reading = read_line(line, &mut report);
        assert!(reading.is_final);
        assert!(report.is_error);
        assert_eq!(report.cost_usd, Some(0.25));
        assert_eq!(report.session_ref.as_deref(), Some("s-1"));
        assert_eq!(report.usage.unwrap()["input_tokens"], 7);
    }

    #[test]
    fn hostile_lines_are_text_or_nothing() {
        let mut report = Report::default();
        assert_eq!(read_line("not json", &mut report).entries.len(), 1);
        for line in ["{}", r#"{"type":7}"#, r#"{"type":"assistant","message":5}"#, "[]", "null"] {
            assert!(!read_line(line, &mut report).is_final, "{line}");
        }
    }
}
