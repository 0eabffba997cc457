//! What a program in a terminal writes down of its turns: which of our texts it was given in each,
//! whether somebody has typed there, too, and what it came to.
//!
//! **Invariant:** what `Stop` says is told of a turn only if its beginning and these last words are
//! both there.
//!
//! What was seen of Claude Code 2.1.197 and 2.1.330: the lines of a turn are written within 100 ms,
//! also while a hook runs. Its first `user` line has the `promptId` that its hooks name. Words that
//! are typed while it works are an `attachment` of type `queued_command` in it, or a turn of their
//! own. Behind its hooks stands `turn_duration`, once, however often a hook made it go on.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use camino::Utf8Path;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::{BlockId, read_loose_json, truncate_chars};
use crate::jobs::speak::ANSWER_CHARS_MAX;
use crate::jobs::speak::parts::{asks_to_go_on, continued};
use crate::process::{has_other_words, last_bytes, token_names};

/// How long the end of a turn is waited for: its program waits meanwhile.
const WAIT_MAX: Duration = Duration::from_secs(3);
/// How often it is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(40);
/// How much of the end of a transcript is read.
pub(super) const BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Most texts of ours in one turn that are told.
const BLOCKS_MAX: usize = 8;
/// Most turns that are kept.
const TURNS_MAX: usize = 8;
/// How it marks the end of something in the background that is told in a turn.
const TASK: &str = "task-notification";
/// What a program writes for a turn that somebody ended.
const INTERRUPTED: &str = "[Request interrupted by user";

/// What a turn was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// The texts of ours that were given in it, in their order.
    pub(super) blocks: Vec<BlockId>,
    /// Whether it was given anything else.
    pub(super) is_typed: bool,
    /// What it had answered before a person typed into it; none if nobody is known to have.
    pub(super) before_typed: Option<String>,
    /// Its answer, if that is in several messages.
    pub(super) text: Option<String>,
}

/// How a turn ended, as its transcript tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Over {
    /// With its last words.
    Ended,
    /// Somebody interrupted it.
    Interrupted,
    /// With an error of its provider.
    Failed,
}

/// A turn as its transcript tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Turn {
    /// The engine's name for it.
    pub(super) prompt_id: String,
    /// The texts of ours that were given in it, in their order.
    pub(super) blocks: Vec<BlockId>,
    /// Whether it was given anything else.
    pub(super) is_typed: bool,
    /// What it had answered before a person typed into it; none if nobody is known to have.
    #[serde(default)]
    pub(super) before_typed: Option<String>,
    /// What the model said last, so far: all parts of it, if the program made it go on.
    pub(super) text: String,
    /// Whether that is the last thing that it had to say.
    pub(super) is_said: bool,
    /// How it ended, once that is written down.
    pub(super) over: Option<Over>,
    /// The message that the last line is a part of.
    #[serde(skip)]
    message: Option<String>,
    /// The last line of that message.
    #[serde(skip)]
    last: String,
    /// What the message goes on with, if the one before it was not whole.
    #[serde(skip)]
    part_before: String,
    /// Whether the last message reached the limit of its output, or is gone on with.
    #[serde(skip)]
    is_cut: bool,
    /// Whether the last words are those of an error.
    #[serde(skip)]
    is_error: bool,
}

/// Returns whether a path is that of a transcript: a session's, whatever its folder.
pub(super) fn is_transcript(path: &Utf8Path) -> bool {
    let is_session = path.file_stem().is_some_and(|it| uuid::Uuid::try_parse(it).is_ok());
    path.is_absolute() && is_session && path.extension() == Some("jsonl")
}

/// Returns what a transcript tells of the turn with this name, which came to these last words;
/// nothing if that cannot be found in time.
pub(super) fn look(path: &Utf8Path, prompt: &str, last_words: &str) -> Option<Told> {
    let deadline = Instant::now() + WAIT_MAX;
    loop {
        // The file itself may be written only after the hook of a session's first turn has begun.
        let bytes = last_bytes(path, BYTES_MAX).unwrap_or_default();
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

/// Returns the last turn of a transcript but the one with this name, as far as it is written down.
pub(super) fn last_before(path: &Utf8Path, prompt: Option<&str>) -> Option<Turn> {
    let bytes = last_bytes(path, BYTES_MAX)?;
    let mut turns = Turns::default();
    turns.read(&String::from_utf8_lossy(&bytes));
    turns.last_but(prompt).cloned()
}

fn read(text: &str, prompt: &str, last_words: &str) -> Option<Told> {
    let mut turns = Turns::default();
    turns.read(text);
    let turn = turns.of_prompt(prompt)?;
    let is_over = turn.is_said && last_words.trim().ends_with(turn.last.trim());
    is_over.then(|| turn.told())
}

/// The last turns of a transcript.
#[derive(Debug, Default)]
pub(super) struct Turns(VecDeque<Turn>);

impl Turns {
    /// Reads whole lines that follow on what was read before.
    pub(super) fn read(&mut self, lines: &str) {
        lines.lines().filter_map(read_loose_json).for_each(|line| self.line(&line));
    }

    /// Returns the turn with this name.
    pub(super) fn of_prompt(&self, prompt: &str) -> Option<&Turn> {
        self.0.iter().rev().find(|it| it.prompt_id == prompt)
    }

    /// Returns the last turn that was given a text of ours.
    pub(super) fn of_block(&self, block: &BlockId) -> Option<&Turn> {
        self.0.iter().rev().find(|it| it.blocks.contains(block))
    }

    /// Returns the last turn but the one with this name.
    pub(super) fn last_but(&self, prompt: Option<&str>) -> Option<&Turn> {
        self.0.iter().rev().find(|it| Some(it.prompt_id.as_str()) != prompt)
    }

    fn line(&mut self, line: &Value) {
        if line["isSidechain"] == true {
            return;
        }
        match line["type"].as_str().unwrap_or_default() {
            "user" => {
                let Some(words) = words(&line["message"]["content"]) else { return };
                let prompt = line["promptId"].as_str().unwrap_or_default();
                let is_its_own = line["isMeta"] == true || line["isCompactSummary"] == true;
                self.hear(prompt, &words, is_its_own);
            }
            "attachment" if line["attachment"]["type"] == "queued_command" => {
                if let Some(turn) = self.0.back_mut() {
                    turn.fold(&line["attachment"]);
                }
            }
            "assistant" => {
                if let Some(turn) = self.0.back_mut() {
                    turn.say(line);
                }
            }
            "system" if line["subtype"] == "turn_duration" => {
                if let Some(turn) = self.0.back_mut().filter(|it| it.is_said) {
                    let how = if turn.is_error { Over::Failed } else { Over::Ended };
                    turn.over.get_or_insert(how);
                }
            }
            _ => {}
        }
    }

    /// Hears a text that the program was given, or tells its model in a turn.
    fn hear(&mut self, prompt: &str, words: &str, is_its_own: bool) {
        if let Some(turn) = self.0.back_mut() {
            if words.trim_start().starts_with(INTERRUPTED) {
                turn.over.get_or_insert(Over::Interrupted);
                return;
            }
            if turn.prompt_id == prompt {
                match is_its_own {
                    // Of a message that its provider cut off, only these words tell.
                    true => turn.is_cut |= turn.is_said && asks_to_go_on(words),
                    false => turn.hear(words),
                }
                // A hook made it go on, for one.
                turn.is_said = false;
                return;
            }
        }
        let mut turn = Turn::new(truncate_chars(prompt, PROMPT_CHARS_MAX));
        turn.hear(words);
        self.0.push_back(turn);
        if self.0.len() > TURNS_MAX {
            self.0.pop_front();
        }
    }
}

/// Longest name of a turn.
const PROMPT_CHARS_MAX: usize = 200;

impl Turn {
    fn new(prompt_id: String) -> Turn {
        Turn {
            prompt_id,
            blocks: Vec::new(),
            is_typed: false,
            before_typed: None,
            text: String::new(),
            is_said: false,
            over: None,
            message: None,
            last: String::new(),
            part_before: String::new(),
            is_cut: false,
            is_error: false,
        }
    }

    /// Returns what it was given.
    pub(super) fn told(&self) -> Told {
        Told {
            blocks: self.blocks.clone(),
            is_typed: self.is_typed,
            before_typed: self.before_typed.clone(),
            text: (!self.part_before.is_empty()).then(|| self.text.clone()),
        }
    }

    /// Hears a text that the program was given.
    fn hear(&mut self, words: &str) {
        let left = BLOCKS_MAX.saturating_sub(self.blocks.len());
        self.blocks.extend(token_names(words, left).into_iter().filter_map(|it| it.parse().ok()));
        if has_other_words(words) {
            self.be_typed();
        }
    }

    /// Hears a text that was given while the turn ran: it is not what the turn was begun for.
    fn fold(&mut self, attachment: &Value) {
        let words = words(&attachment["prompt"]).unwrap_or_default();
        match attachment["commandMode"] == TASK {
            // It is nobody's, but may be about what somebody asked for before.
            true => self.is_typed = true,
            false if words.is_empty() => self.be_typed(),
            false => self.hear(&words),
        }
        (self.is_typed, self.is_said) = (true, false);
    }

    /// Notes that a person typed: only what was answered before that is not for them.
    fn be_typed(&mut self) {
        self.is_typed = true;
        let answered = if self.is_said { self.text.as_str() } else { "" };
        self.before_typed.get_or_insert_with(|| answered.to_owned());
    }

    /// Hears what the model said.
    fn say(&mut self, line: &Value) {
        let message = &line["message"];
        let said = words(&message["content"]).unwrap_or_default();
        let id = message["id"].as_str().map(|it| truncate_chars(it, PROMPT_CHARS_MAX));
        let is_same = id.is_some() && id == self.message;
        let text = std::mem::take(&mut self.text);
        if !is_same {
            self.part_before = if self.is_cut { text.clone() } else { String::new() };
        }
        // Each part of a message is a line of its own.
        self.text = match (is_same, text.is_empty(), said.is_empty()) {
            (true, false, false) if text != self.part_before => format!("{text}\n\n{said}"),
            (true, _, true) => text,
            _ => continued(&self.part_before, &said),
        };
        self.text = truncate_chars(&self.text, ANSWER_CHARS_MAX);
        let why = message["stop_reason"].as_str();
        self.is_said = why.is_some_and(|it| it != "tool_use");
        self.is_cut = why == Some("max_tokens");
        self.is_error = line["isApiErrorMessage"] == true;
        (self.message, self.last) = (id, said);
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

    /// A hook made it go on, its provider failed, somebody interrupted it, nobody saw its end.
    #[test]
    fn a_turn_is_over_where_its_transcript_says_so() {
        let end = || json!({"type": "system", "subtype": "turn_duration"});
        let over = |lines: &[Value]| {
            let mut turns = Turns::default();
            let ours = [user("p1", &with_token(ID, "two and two?"))];
            for line in [&ours, lines].concat() {
                turns.read(&format!("{line}\n"));
            }
            let turn = turns.of_block(&ID.parse().unwrap()).unwrap().clone();
            (turn.over, turn.text)
        };
        let four = || says("four", "end_turn");
        assert_eq!(over(&[four(), end()]), (Some(Over::Ended), "four".to_owned()));
        assert_eq!(over(&[four()]), (None, "four".to_owned()));
        // The end of another turn is none of it.
        assert_eq!(over(&[end()]).0, None);
        assert_eq!(over(&[says("hm", "tool_use"), end()]).0, None);
        let next = [four(), user("p2", "a canary"), says("five", "end_turn"), end()];
        assert_eq!(over(&next), (None, "four".to_owned()));
        let told = user("p1", "Stop hook feedback: go on");
        let continued = [four(), told, says("five", "end_turn"), end()];
        assert_eq!(over(&continued), (Some(Over::Ended), "five".to_owned()));
        assert_eq!(over(&[user("p1", "[Request interrupted by user]")]).0, Some(Over::Interrupted));
        let mut error = says("API Error: 400", "stop_sequence");
        error["isApiErrorMessage"] = json!(true);
        assert_eq!(over(&[error, end()]).0, Some(Over::Failed));
        // Two lines of one message.
        let part = |text: &str, why: Value| {
            json!({"type": "assistant", "message": {"id": "m", "stop_reason": why,
                "content": [{"type": "text", "text": text}]}})
        };
        let parts = [part("four", Value::Null), part("and five", json!("end_turn")), end()];
        assert_eq!(over(&parts), (Some(Over::Ended), "four\n\nand five".to_owned()));
    }

    /// Returns what each turn had answered when somebody typed into it, and its answer.
    fn before_typed(lines: &[Value]) -> (Option<String>, String) {
        let mut turns = Turns::default();
        let ours = [user("p1", &with_token(ID, "two and two?"))];
        [&ours, lines].concat().iter().for_each(|it| turns.read(&format!("{it}\n")));
        let turn = turns.of_block(&ID.parse().unwrap()).unwrap().clone();
        (turn.before_typed, turn.text)
    }

    #[test]
    fn what_was_answered_before_somebody_typed_is_told_apart() {
        let four = || says("four", "end_turn");
        let canary = [typed("a canary"), says("hush", "end_turn")];
        let of = |lines: &[Value]| before_typed(&[lines, &canary].concat()).0;
        assert_eq!(before_typed(&[four()]).0, None);
        assert_eq!(of(&[]).as_deref(), Some(""));
        // What it says on its way is no answer.
        assert_eq!(of(&[says("I look", "tool_use")]).as_deref(), Some(""));
        assert_eq!(of(&[four()]).as_deref(), Some("four"));
        assert_eq!(of(&[four(), typed("another")]).as_deref(), Some("four"));
        // The end of something in the background is nobody's.
        let mut task = typed("it is done");
        task["attachment"]["commandMode"] = json!("task-notification");
        assert_eq!(before_typed(&[task, four()]).0, None);
        // Nor is what the program itself tells its model.
        let mut own = user("p1", "Stop hook feedback: go on");
        own["isMeta"] = json!(true);
        assert_eq!(before_typed(&[four(), own, says("five", "end_turn")]), (None, "five".into()));
        own = user("p1", "This session is being continued");
        own["isCompactSummary"] = json!(true);
        assert_eq!(before_typed(&[four(), own]).0, None);
    }

    #[test]
    fn an_answer_that_reached_the_limit_has_all_its_parts() {
        let part = |id: &str, text: &str, why: &str| {
            json!({"type": "assistant", "message": {"id": id, "stop_reason": why,
                "content": [{"type": "text", "text": text}]}})
        };
        let mut goes_on = user("p1", "Output token limit hit. Resume directly");
        goes_on["isMeta"] = json!(true);
        let cut = part("m1", "four", "max_tokens");
        let lines = [cut.clone(), goes_on, part("m2", "five", "end_turn")];
        assert_eq!(before_typed(&lines), (None, "four\nfive".to_owned()));
        let text: String = lines.iter().map(|it| format!("{it}\n")).collect();
        let text = format!("{}\n{text}", user("p1", &with_token(ID, "two and two?")));
        let told = read(&text, "p1", "five").unwrap();
        assert_eq!((told.is_typed, told.text.as_deref()), (false, Some("four\nfive")));
        // Nobody made it go on.
        let calls = part("m2", "five", "tool_use");
        let lines = [cut, calls, part("m3", "six", "end_turn")];
        assert_eq!(before_typed(&lines).1, "six");
    }

    #[test]
    fn an_answer_that_was_cut_off_has_all_its_parts() {
        let typed = user("p1", "Your response above was cut off mid-stream. Resume directly");
        let mut goes_on = typed.clone();
        goes_on["isMeta"] = json!(true);
        let whole = |before: Value, next: &Value| {
            before_typed(&[before, next.clone(), says("five", "end_turn")]).1
        };
        assert_eq!(whole(says("four", "end_turn"), &goes_on), "four\nfive");
        assert_eq!(whole(says("four", "end_turn"), &typed), "five");
        assert_eq!(whole(says("I look", "tool_use"), &goes_on), "five");
    }

    /// A session's first turn may end before its file is there.
    #[test]
    fn a_transcript_that_is_not_there_yet_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = camino::Utf8PathBuf::from_path_buf(folder.path().join("t.jsonl")).unwrap();
        let asked = path.clone();
        let looks = std::thread::spawn(move || look(&asked, "p1", "four"));
        let lines = [user("p1", &with_token(ID, "two and two?")), says("four", "end_turn")];
        let text: String = lines.iter().map(|it| format!("{it}\n")).collect();
        while !looks.is_finished() && Utf8Path::new(&path).metadata().is_err() {
            std::thread::sleep(2 * LOOK_EVERY);
            std::fs::write(&path, &text).unwrap();
        }
        assert!(looks.join().unwrap().is_some_and(|it| !it.is_typed));
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
