//! An answer in several messages: Claude Code has its model go on where a message reached the limit
//! of its output, or was cut off by its provider.
//!
//! What was seen of Claude Code as a stream: 2.1.332 writes a `user` line of its own between the
//! two messages; 2.1.197 writes nothing there, and goes on only at the limit. What is torn within a
//! block of text is dropped and asked for again: the parts are whole blocks.

use serde_json::Value;

use crate::base::truncate_chars;
use crate::jobs::speak::ANSWER_CHARS_MAX;

/// How the program asks its model to go on, and not to begin anew.
const GO_ON: [&str; 2] =
    ["Output token limit hit", "Your response above was cut off mid-stream. Resume directly"];

/// Returns whether a program asks its model with these words to go on where its message ended.
pub(super) fn asks_to_go_on(words: &str) -> bool {
    GO_ON.iter().any(|it| words.starts_with(it))
}

/// Returns an answer and what it was continued with. Most cuts are between words.
pub(super) fn continued(before: &str, text: &str) -> String {
    let is_apart = before.ends_with(char::is_whitespace) || text.starts_with(char::is_whitespace);
    let seam = if before.is_empty() || text.is_empty() || is_apart { "" } else { "\n" };
    truncate_chars(&format!("{before}{seam}{text}"), ANSWER_CHARS_MAX)
}

/// What is known of the last message of a stream.
#[derive(Debug, Default)]
pub(super) struct Parts {
    id: Option<String>,
    /// The earlier parts of the answer that the message goes on with.
    before: String,
    text: String,
    /// Whether it calls a tool: what follows is no part of it.
    has_call: bool,
    /// Whether it is known to be gone on with.
    is_cut: bool,
    /// Whether something came after it.
    is_followed: bool,
}

impl Parts {
    /// Hears a line of the main conversation.
    pub(super) fn hear(&mut self, line: &Value) {
        match line["type"].as_str().unwrap_or_default() {
            "assistant" => self.say(line),
            "stream_event" => {
                let why = &line["event"]["delta"]["stop_reason"];
                self.is_cut |= *why == "max_tokens";
                self.is_followed |= why.is_string();
            }
            "user" if line["isSynthetic"] == true => {
                let text = line["message"]["content"][0]["text"].as_str().unwrap_or_default();
                (self.is_cut, self.is_followed) = (asks_to_go_on(text), true);
            }
            "user" => (self.is_cut, self.is_followed) = (false, true),
            "system" if line["subtype"] != "thinking_tokens" => self.is_followed = true,
            _ => {}
        }
    }

    fn say(&mut self, line: &Value) {
        let message = &line["message"];
        let id = message["id"].as_str();
        if id.is_none() || id != self.id.as_deref() {
            let is_own = line["error"].is_string() || message["model"] == "<synthetic>";
            let goes_on = !self.has_call && !is_own && (self.is_cut || !self.is_followed);
            let before = continued(&self.before, &self.text);
            *self = Parts { id: id.map(str::to_owned), ..Parts::default() };
            if goes_on {
                self.before = before;
            }
        }
        for part in message["content"].as_array().into_iter().flatten() {
            self.has_call |= part["type"] == "tool_use";
            if let Some(text) = part["text"].as_str() {
                let gap = if self.text.is_empty() { "" } else { "\n\n" };
                self.text = truncate_chars(&format!("{}{gap}{text}", self.text), ANSWER_CHARS_MAX);
            }
        }
    }

    /// Returns the whole answer that ends with these last words, and forgets it.
    pub(super) fn end(&mut self, last_words: &str) -> String {
        continued(&std::mem::take(self).before, last_words)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn says(id: &str, text: &str) -> Value {
        json!({"type": "assistant", "message": {"id": id, "stop_reason": null,
            "content": [{"type": "text", "text": text}]}})
    }

    fn user(text: &str) -> Value {
        let content = [json!({"type": "text", "text": text})];
        json!({"type": "user", "isSynthetic": true, "message": {"content": content}})
    }

    fn whole(lines: &[Value]) -> String {
        let mut parts = Parts::default();
        lines.iter().for_each(|it| parts.hear(it));
        parts.end("five")
    }

    #[test]
    fn an_answer_that_reached_the_limit_has_all_its_parts() {
        let (first, last) = (says("m1", "four"), says("m2", "five"));
        let goes_on = user("Output token limit hit. Resume directly");
        let thinks = json!({"type": "system", "subtype": "thinking_tokens"});
        // As 2.1.332 tells it, and as 2.1.197 does.
        let new = [first.clone(), goes_on.clone(), thinks.clone(), last.clone()];
        assert_eq!(whole(&new), "four\nfive");
        assert_eq!(whole(&[first.clone(), thinks.clone(), last.clone()]), "four\nfive");
        let three = [first.clone(), goes_on.clone(), says("m3", "and "), goes_on, last.clone()];
        assert_eq!(whole(&three), "four\nand five");
        let delta = |why: &str| {
            json!({"type": "stream_event", "event": {"type": "message_delta",
                "delta": {"stop_reason": why}}})
        };
        assert_eq!(whole(&[first.clone(), delta("max_tokens"), last.clone()]), "four\nfive");
        // What is over, was refused or is repeated is no part of it.
        let mut calls = first.clone();
        calls["message"]["content"] =
            json!([{"type": "text", "text": "I look"}, {"type": "tool_use"}]);
        let result = json!({"type": "user", "message": {"content": [{"type": "tool_result"}]}});
        let retry = json!({"type": "system", "subtype": "api_retry"});
        let refused = user("Your response above was stopped by a safety classifier");
        for between in [result.clone(), retry, refused, delta("end_turn")] {
            assert_eq!(whole(&[first.clone(), between.clone(), last.clone()]), "five", "{between}");
        }
        assert_eq!(whole(&[calls.clone(), last.clone()]), "five");
        assert_eq!(whole(&[calls, result, last.clone()]), "five");
        let mut error = last.clone();
        error["error"] = json!("max_output_tokens");
        assert_eq!(whole(&[first, error]), "five");
        assert_eq!(whole(&[last.clone(), last]), "five");
    }

    #[test]
    fn an_answer_that_was_cut_off_has_all_its_parts() {
        let cut = "Your response above was cut off mid-stream";
        let goes_on = user(&format!("{cut}. Resume directly from where it stops"));
        let [one, two, last] = [says("m1", "three"), says("m2", "and four"), says("m3", "five")];
        assert_eq!(whole(&[one.clone(), goes_on.clone(), last.clone()]), "three\nfive");
        let retry = json!({"type": "system", "subtype": "api_retry"});
        let twice = [one.clone(), goes_on.clone(), retry, two, goes_on.clone(), last.clone()];
        assert_eq!(whole(&twice), "three\nand four\nfive");
        // What is said before a call is no answer, and nothing of an answer that begins anew is.
        let mut calls = one.clone();
        calls["message"]["content"] =
            json!([{"type": "text", "text": "I look"}, {"type": "tool_use"}]);
        assert_eq!(whole(&[calls, goes_on, last.clone()]), "five");
        let anew = user(&format!("{cut} and only your next message is delivered."));
        assert_eq!(whole(&[one, anew, last]), "five");
    }
}
