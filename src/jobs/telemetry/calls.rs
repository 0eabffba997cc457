//! Pending tool calls of an agent, during which silence means nothing.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::base::truncate_chars;

/// Most calls tracked at once; beyond that, silence counts again.
const CALLS_MAX: usize = 100;
/// Longest id of a call, in bytes.
const ID_BYTES_MAX: usize = 200;
/// Most characters of a call shown in a sentence.
const SHOWN_CHARS_MAX: usize = 300;

/// Pending calls, and the last call.
#[derive(Debug, Default)]
pub(super) struct Calls {
    open: BTreeMap<String, String>,
    last: Option<String>,
}

impl Calls {
    /// Processes an entry of the stream.
    pub(super) fn note(&mut self, entry: &Value) {
        let id = entry["id"].as_str().filter(|it| it.len() <= ID_BYTES_MAX);
        if let Some(parent) = entry["parent"].as_str() {
            // A sub-agent inside of the call reports by itself, so its silence counts.
            self.open.remove(parent);
        }
        match (entry["type"].as_str().unwrap_or_default(), id) {
            ("tool_call", id) => {
                let shown = shown(entry);
                self.last = Some(shown.clone());
                if let Some(id) = id.filter(|_| self.open.len() < CALLS_MAX) {
                    self.open.insert(id.to_owned(), shown);
                }
            }
            ("tool_result", Some(id)) => {
                self.open.remove(id);
            }
            // A model continues when it has its answers, or has given up on them.
            ("text", _) if entry["parent"].is_null() => self.open.clear(),
            ("done" | "reset", _) => self.open.clear(),
            _ => {}
        }
    }

    /// Forgets pending calls: a skipped line may have been an answer.
    pub(super) fn lose(&mut self) {
        self.open.clear();
    }

    pub(super) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Returns what the agent was doing, for people; `is_cut` if its last call was interrupted,
    /// which some report as an answer of the tool.
    pub(super) fn doing(&self, is_cut: bool) -> Option<String> {
        let cut = self.last.as_ref().filter(|_| is_cut);
        match (self.open.values().next().or(cut), &self.last) {
            (Some(call), _) => Some(format!("it was waiting for its tool {call}")),
            (None, Some(last)) => Some(format!("it had called its tool {last}, which was over")),
            (None, None) => None,
        }
    }
}

/// Returns a call in one line: the tool, and the command if it has one.
fn shown(entry: &Value) -> String {
    let name = entry["name"].as_str().unwrap_or("without a name");
    let input = entry["input"].as_str().unwrap_or_default();
    let fields: Value = serde_json::from_str(input).unwrap_or_default();
    let input = fields["command"].as_str().unwrap_or(input);
    let line: String = format!("{name}: {input}").split_whitespace().collect::<Vec<_>>().join(" ");
    truncate_chars(&line, SHOWN_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn call(id: &str) -> Value {
        let input = json!({"command": "sleep  200\n"}).to_string();
        json!({"type": "tool_call", "id": id, "name": "Bash", "input": input})
    }

    #[test]
    fn a_call_is_open_until_its_answer() {
        let mut calls = Calls::default();
        assert!(!calls.is_open() && calls.doing(false).is_none());
        calls.note(&call("a"));
        calls.note(&call("b"));
        calls.note(&json!({"type": "tool_result", "id": "a", "ok": true}));
        assert!(calls.is_open());
        assert_eq!(calls.doing(false).unwrap(), "it was waiting for its tool Bash: sleep 200");
        calls.note(&json!({"type": "tool_result", "id": "b", "ok": false}));
        assert!(!calls.is_open());
        assert_eq!(
            calls.doing(false).unwrap(),
            "it had called its tool Bash: sleep 200, which was over"
        );
        assert_eq!(calls.doing(true).unwrap(), "it was waiting for its tool Bash: sleep 200");
    }

    #[test]
    fn a_call_whose_answer_is_lost_does_not_stay_open() {
        for over in [
            json!({"type": "text", "text": "so much for that"}),
            json!({"type": "done", "ok": true}),
            // A sub-agent works inside of the call, and reports that.
            json!({"type": "tool_call", "id": null, "name": "Read", "input": "{}", "parent": "a"}),
        ] {
            let mut calls = Calls::default();
            calls.note(&call("a"));
            calls.note(&over);
            assert!(!calls.is_open(), "{over}");
        }
        let mut calls = Calls::default();
        calls.note(&call("a"));
        calls.note(&json!({"type": "text", "text": "of the agent within", "parent": "b"}));
        assert!(calls.is_open());
        calls.lose();
        assert!(!calls.is_open());
        for id in 0..=CALLS_MAX {
            calls.note(&call(&id.to_string()));
        }
        assert_eq!(calls.open.len(), CALLS_MAX);
    }
}
