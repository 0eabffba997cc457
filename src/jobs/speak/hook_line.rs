//! The line that a hook writes: it runs in a process of its own, which tells the agent's guard.

use camino::Utf8Path;
use serde_json::{Value, json};

use crate::base::{Result, read_loose_json, truncate_chars};
use crate::jobs::speak::ANSWER_CHARS_MAX;
use crate::jobs::speak::transcript::{self, Told, Turn};
use crate::process::{tell_hooks, token_names};

/// Most marks of one text that are told.
const NAMES_MAX: usize = 8;
/// Longest of a hook's words that are told whole, in characters.
const WORD_CHARS_MAX: usize = 1_000;

/// Tells the guard of an agent what one of its hooks was given.
///
/// # Errors
/// `unavailable` if there is no guard that reads.
pub fn tell_hook(way: &Utf8Path, event: &str, given: &[u8]) -> Result<()> {
    let given = read_loose_json(&String::from_utf8_lossy(given)).unwrap_or_default();
    let (turn, before) = (told(event, &given), before(event, &given));
    tell_hooks(way, &hook_line(event, &given, (turn.as_ref(), before.as_ref())))
}

/// Returns what the transcript tells of the turn before, whose end may have been told by nothing.
fn before(event: &str, given: &Value) -> Option<Turn> {
    let path = given["transcript_path"].as_str()?;
    let is_asked = match event {
        "UserPromptSubmit" => true,
        "Notification" => given["notification_type"] == "idle_prompt",
        _ => false,
    };
    let prompt = given["prompt_id"].as_str().filter(|_| event == "UserPromptSubmit");
    is_asked.then(|| transcript::last_before(Utf8Path::new(path), prompt))?
}

/// Returns what the transcript tells of a turn that has ended.
fn told(event: &str, given: &Value) -> Option<Told> {
    let path = given["transcript_path"].as_str().filter(|_| event == "Stop")?;
    let last_words = given["last_assistant_message"].as_str().unwrap_or_default();
    transcript::look(Utf8Path::new(path), given["prompt_id"].as_str()?, last_words)
}

/// Returns the line that tells of a hook; of what it was given only what is needed.
pub(super) fn hook_line(
    event: &str,
    given: &Value,
    (turn, before): (Option<&Told>, Option<&Turn>),
) -> String {
    let word = |name: &str| given[name].as_str().map(|it| truncate_chars(it, WORD_CHARS_MAX));
    let prompt = given["prompt"].as_str().unwrap_or_default();
    let whole = turn.and_then(|it| it.text.as_deref());
    let text = whole.or(given["last_assistant_message"].as_str());
    let mut line = json!({"hook": truncate_chars(event, 64)});
    let told = [
        ("blocks", Some(json!(token_names(prompt, NAMES_MAX))).filter(|_| !prompt.is_empty())),
        ("prompt_id", word("prompt_id").map(Value::from)),
        ("session_id", word("session_id").map(Value::from)),
        ("source", word("source").map(Value::from)),
        ("tool", word("tool_name").map(Value::from)),
        // Only within a sub-agent.
        ("agent", word("agent_id").map(Value::from)),
        ("kind", word("notification_type").map(Value::from)),
        ("error", word("error").map(Value::from)),
        ("transcript", word("transcript_path").map(Value::from)),
        ("before", before.map(|it| json!(it))),
        ("text", text.map(|it| json!(truncate_chars(it, ANSWER_CHARS_MAX)))),
        ("turn", turn.map(told_value)),
    ];
    for (name, value) in told {
        if let Some(value) = value {
            line[name] = value;
        }
    }
    line.to_string()
}

/// Returns what a line tells of the turn that has ended.
fn told_value(turn: &Told) -> Value {
    let mut told = json!({"blocks": turn.blocks, "is_typed": turn.is_typed});
    if let Some(before) = &turn.before_typed {
        told["before_typed"] = json!(before);
    }
    told
}
