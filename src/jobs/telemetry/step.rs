//! Steps of an agent's work for people, made from entries of its stream.
//!
//! **Invariant:** the texts are the agent's; whoever shows them must sanitize them.

use serde_json::Value;

use crate::base::truncate_chars;

/// Longest line of a step, in characters.
const LINE_CHARS_MAX: usize = 200;
/// The most informative fields of a tool's input, best first.
const TELLING: [&str; 14] = [
    "command",
    "cmd",
    "file_path",
    "filePath",
    "path",
    "pattern",
    "query",
    "url",
    "skill",
    "name",
    "description",
    "prompt",
    "text",
    "topic",
];

/// The kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// The agent began.
    Started,
    /// It said something.
    Said,
    /// It called a tool.
    Called,
    /// A tool answered.
    Answered,
    /// A tool failed.
    Failed,
    /// It retries a request that its provider refused.
    Retried,
    /// Its engine warned of something.
    Warned,
    /// Part of its output was skipped.
    Cut,
    /// The server refused its request.
    Refused,
    /// A person changed its call before it ran.
    Changed,
    /// It reports that it is done.
    Done,
    /// It reports that it failed.
    GaveUp,
}

/// A step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The sequence number of its entry.
    pub seq: u64,
    /// Its kind.
    pub kind: StepKind,
    /// The tool called, the model, or the code of a refusal.
    pub name: String,
    /// A summary in one line: what was said, the main argument, or the first line of an answer.
    pub line: String,
    /// The complete text.
    pub text: String,
}

impl Step {
    /// Returns the step of an entry; `None` for one that is uninteresting for people.
    pub fn of(entry: &Value) -> Option<Step> {
        let seq = entry["seq"].as_u64()?;
        let is_ok = entry["ok"] != false;
        let (kind, name, text) = match entry["type"].as_str()? {
            "start" => (StepKind::Started, &entry["model"], words(&entry["session"])),
            "text" => (StepKind::Said, &Value::Null, words(&entry["text"])),
            "tool_call" => (StepKind::Called, &entry["name"], words(&entry["input"])),
            "tool_result" if is_ok => (StepKind::Answered, &Value::Null, words(&entry["text"])),
            "tool_result" => (StepKind::Failed, &Value::Null, words(&entry["text"])),
            "reset" if entry["cut_bytes"].is_u64() => {
                let words = format!("{} bytes of its output were passed over", entry["cut_bytes"]);
                (StepKind::Cut, &Value::Null, words)
            }
            "reset" => (StepKind::Retried, &Value::Null, words(&entry["error"])),
            "warning" => (StepKind::Warned, &Value::Null, words(&entry["text"])),
            "refusal" => (StepKind::Refused, &entry["code"], refusal(entry)),
            "changed" => (StepKind::Changed, &entry["name"], words(&entry["input"])),
            "done" if is_ok => (StepKind::Done, &Value::Null, words(&entry["text"])),
            "done" => (StepKind::GaveUp, &Value::Null, words(&entry["text"])),
            _ => return None,
        };
        let is_call = matches!(kind, StepKind::Called | StepKind::Changed);
        let line = if is_call { argument(&text) } else { first_line(&text) };
        Some(Step { seq, kind, name: truncate_chars(&words(name), LINE_CHARS_MAX), line, text })
    }
}

fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn refusal(entry: &Value) -> String {
    match entry["hint"].as_str() {
        Some(hint) => format!("{}\n{hint}", words(&entry["message"])),
        None => words(&entry["message"]),
    }
}

fn first_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|it| !it.is_empty()).unwrap_or_default();
    // JSON that begins with a lone bracket: its contents are more informative.
    if matches!(line, "{" | "[") {
        let words = text.split_whitespace().take(LINE_CHARS_MAX);
        return truncate_chars(&words.collect::<Vec<&str>>().join(" "), LINE_CHARS_MAX);
    }
    truncate_chars(line, LINE_CHARS_MAX)
}

/// Returns the most informative argument of a call: a field of an object, or else its text.
fn argument(input: &str) -> String {
    let Ok(Value::Object(fields)) = serde_json::from_str::<Value>(input) else {
        return first_line(input);
    };
    let telling = TELLING.iter().find_map(|name| fields.get(*name)?.as_str());
    let telling = telling.or_else(|| fields.values().find_map(Value::as_str));
    telling.map_or_else(|| first_line(input), first_line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_call_is_told_by_the_argument_that_tells_most() {
        let line = |input: &str| {
            let entry = json!({"seq": 1, "type": "tool_call", "name": "T", "input": input});
            Step::of(&entry).unwrap().line
        };
        assert_eq!(line(r#"{"description":"List","command":"\n  ls -l\nrm x"}"#), "ls -l");
        assert_eq!(line(r#"{"filePath":"a.md","limit":3}"#), "a.md");
        assert_eq!(line(r#"{"odd":"value"}"#), "value");
        assert_eq!(line(r#"{"limit":3}"#), r#"{"limit":3}"#);
        assert_eq!(line("/bin/bash -lc 'ls'"), "/bin/bash -lc 'ls'");
        assert_eq!(line(&"x".repeat(900)), format!("{}…", "x".repeat(LINE_CHARS_MAX)));
    }

    #[test]
    fn entries_become_steps_and_what_is_no_entry_of_ours_is_passed_over() {
        let kind = |mut entry: Value| {
            entry["seq"] = json!(7);
            Step::of(&entry).map(|it| it.kind)
        };
        assert_eq!(kind(json!({"type": "text", "text": "a"})), Some(StepKind::Said));
        assert_eq!(kind(json!({"type": "tool_result", "ok": false})), Some(StepKind::Failed));
        assert_eq!(kind(json!({"type": "done", "ok": true})), Some(StepKind::Done));
        assert_eq!(kind(json!({"type": "usage", "input_tokens": 5})), None);
        assert_eq!(kind(json!({"type": 7})), None);
        assert_eq!(kind(json!({"type": "reset", "error": "busy"})), Some(StepKind::Retried));
        assert_eq!(kind(json!({"type": "warning", "text": "stop"})), Some(StepKind::Warned));
        let cut = Step::of(&json!({"seq": 1, "type": "reset", "cut_bytes": 70})).unwrap();
        assert_eq!(cut.kind, StepKind::Cut);
        assert_eq!(cut.line, "70 bytes of its output were passed over");
        let object = json!({"seq": 1, "type": "tool_result", "text": "{\n  \"id\": 7\n}"});
        assert_eq!(Step::of(&object).unwrap().line, "{ \"id\": 7 }");
        assert_eq!(Step::of(&json!({"type": "text", "text": "a"})), None);
        let refusal =
            json!({"seq": 1, "type": "refusal", "code": "stale_base", "message": "m", "hint": "h"});
        let step = Step::of(&refusal).unwrap();
        assert_eq!(
            (step.name.as_str(), step.line.as_str(), step.text.as_str()),
            ("stale_base", "m", "m\nh")
        );
    }
}
