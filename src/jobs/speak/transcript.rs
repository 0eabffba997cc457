//! What a program in a terminal writes down of a turn: which of our texts it was given in it, and
//! whether somebody has typed there, too.
//!
//! **Invariant:** a turn is told only if its beginning and its last words are both there; of
//! anything else nothing is told.
//!
//! What was seen of Claude Code 2.1.330: the lines of a turn are written within 100 ms, also while
//! a hook runs. Its first `user` line has the `promptId` that its hooks name. Words that are typed
//! while it works are an `attachment` of type `queued_command` in it, or a turn of their own.

use std::time::{Duration, Instant};

use camino::Utf8Path;
use serde_json::Value;

use crate::base::{BlockId, read_loose_json};
use crate::process::{has_other_words, last_bytes, token_names};

/// How long the end of a turn is waited for: its program waits meanwhile.
const WAIT_MAX: Duration = Duration::from_secs(3);
/// How often it is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(40);
/// How much of the end of a transcript is read.
const BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Most texts of ours in one turn that are told.
const BLOCKS_MAX: usize = 8;

/// A turn as its transcript tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// The texts of ours that were given in it, in their order.
    pub(super) blocks: Vec<BlockId>,
    /// Whether it was given anything else.
    pub(super) is_typed: bool,
}

/// Returns what a transcript tells of the turn with this name, which came to these last words;
/// nothing if that cannot be found in time.
pub(super) fn look(path: &Utf8Path, prompt: &str, last_words: &str) -> Option<Told> {
    let deadline = Instant::now() + WAIT_MAX;
    loop {
        let bytes = last_bytes(path, BYTES_MAX)?;
        let text = String::from_utf8_lossy(&bytes);
        if let Some(told) = read(&text, prompt, last_words) {
            return Some(told);
        }
        if Instant::now() >= deadline {
            return None;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn read(text: &str, prompt: &str, last_words: &str) -> Option<Told> {
    let mut told = None;
    let mut is_over = false;
    for line in text.lines().filter_map(read_loose_json) {
        if line["isSidechain"] == true {
            continue;
        }
        match line["type"].as_str().unwrap_or_default() {
            "user" => {
                let Some(words) = words(&line["message"]["content"]) else { continue };
                match line["promptId"].as_str() == Some(prompt) {
                    true => told.get_or_insert_with(Told::default).hear(&words),
                    // What follows is a turn of its own.
                    false if told.is_some() => break,
                    false => {}
                }
            }
            "attachment" if line["attachment"]["type"] == "queued_command" => {
                if let Some(told) = &mut told {
                    told.fold(&line["attachment"]["prompt"]);
                    is_over = false;
                }
            }
            "assistant" if told.is_some() => is_over = is_end(&line["message"], last_words),
            _ => {}
        }
    }
    told.filter(|_| is_over)
}

impl Told {
    /// Hears a text that the program was given.
    fn hear(&mut self, words: &str) {
        let left = BLOCKS_MAX.saturating_sub(self.blocks.len());
        self.blocks.extend(token_names(words, left).into_iter().filter_map(|it| it.parse().ok()));
        self.is_typed |= has_other_words(words);
    }

    /// Hears a text that was given while the turn ran: it is not what the turn was begun for.
    fn fold(&mut self, given: &Value) {
        self.hear(&words(given).unwrap_or_default());
        self.is_typed = true;
    }
}

/// Returns what somebody said, of the content of a line; nothing of what a tool answered.
fn words(content: &Value) -> Option<String> {
    if let Some(text) = content.as_str() {
        return Some(text.to_owned());
    }
    let parts = content.as_array()?;
    let texts: Vec<&str> = parts.iter().filter_map(|it| it["text"].as_str()).collect();
    let is_of_tool = parts.iter().all(|it| it["type"] == "tool_result");
    (!is_of_tool).then(|| texts.join("\n"))
}

/// Returns whether a message of the model is the last one of its turn.
fn is_end(message: &Value, last_words: &str) -> bool {
    let is_final = message["stop_reason"].as_str().is_some_and(|it| it != "tool_use");
    let said = words(&message["content"]).unwrap_or_default();
    is_final && last_words.trim().ends_with(said.trim())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::process::with_token;

    const ID: &str = "01998d4e-6c1a-7f00-8000-000000000001";

    fn user(prompt: &str, text: &str) -> Value {
        json!({"type": "user", "promptId": prompt, "message": {"content": text}})
    }

    fn says(text: &str, why: &str) -> Value {
        let content = [json!({"type": "text", "text": text})];
        json!({"type": "assistant", "message": {"content": content, "stop_reason": why}})
    }

    fn typed(text: &str) -> Value {
        json!({"type": "attachment", "attachment": {"type": "queued_command", "prompt": text}})
    }

    fn told(lines: &[Value]) -> Option<(usize, bool)> {
        let text: String = lines.iter().map(|it| format!("{it}\n")).collect();
        read(&text, "p1", "four").map(|it| (it.blocks.len(), it.is_typed))
    }

    #[test]
    fn a_turn_is_told_from_its_beginning_to_its_last_words() {
        let ours = user("p1", &with_token(ID, "two and two?"));
        let tool = json!({"type": "user", "promptId": "p1", "message": {"content": [
            {"type": "tool_result", "content": "4"}]}});
        let (looks, four) = (says("I look", "tool_use"), says("four", "end_turn"));
        let plain = [ours.clone(), looks.clone(), tool.clone(), four.clone()];
        assert_eq!(told(&plain), Some((1, false)));
        // What comes before and after it is none of it.
        let own = [user("p0", "a canary"), says("four", "end_turn")];
        let later = [user("p2", "a canary"), says("five", "end_turn")];
        assert_eq!(told(&[&own[..], &plain, &later].concat()), Some((1, false)));
        // Typed into it, before it, as its beginning.
        let mixed = [ours.clone(), looks, tool, typed("a canary"), four.clone()];
        assert_eq!(told(&mixed), Some((1, true)));
        let glued = user("p1", &format!("a canary {}", with_token(ID, "two and two?")));
        assert_eq!(told(&[glued, four.clone()]), Some((1, true)));
        let private = [user("p1", "a canary"), typed(&with_token(ID, "hm?")), four.clone()];
        assert_eq!(told(&private), Some((1, true)));
        assert_eq!(told(&[user("p1", "a canary"), four.clone()]), Some((0, true)));
        // Not all of it is there.
        assert_eq!(told(std::slice::from_ref(&ours)), None);
        assert_eq!(told(&[ours.clone(), says("three", "end_turn")]), None);
        assert_eq!(told(&[ours, four.clone(), typed("a canary")]), None);
        assert_eq!(told(&[four]), None);
    }

    proptest! {
        #[test]
        fn no_transcript_is_too_strange(text in "\\PC{0,200}", prompt in "[a-z0-9]{0,4}") {
            read(&text, &prompt, "four");
            read(&format!("{{\"type\":\"user\",\"promptId\":\"{prompt}\",\"message\":{text}}}"),
                &prompt, "");
        }
    }
}
