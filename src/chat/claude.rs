//! Claude Code as a runtime: the items made from its output.
//!
//! **Invariant:** it has no tools but ours; a process that names another one is ended.
//! **Invariant:** secrets in its text are covered, also those that arrive in pieces.

use std::sync::Arc;

use serde_json::Value;

use crate::base::{ErrorKind, Result, truncate_chars};
use crate::chat::claude_launch::TOOL_PREFIX;
use crate::chat::{Item, Line, Use};
use crate::jobs::{Listener, Pieces};

/// Longest fault message, in characters.
const FAULT_CHARS_MAX: usize = 400;
/// What the program prints for its developers at each cancellation.
const NOTE: &str = "[ede_diagnostic]";

/// Turns Claude Code's output into items.
#[derive(Debug)]
pub struct ClaudeReader {
    line: Arc<Line>,
    /// Its tools.
    tools: Vec<&'static str>,
    /// Most bytes of text in an answer.
    output_max: u64,
    /// Most steps of an answer.
    steps_max: u32,
    written: u64,
    step: u32,
    /// The number of the step's first item.
    first_seq: u64,
    /// The message that was streamed, so that it is not repeated when it arrives as a whole.
    streamed: Option<String>,
    /// Whether a part of it has arrived as a whole. Otherwise a next message repeats its request.
    is_kept: bool,
    /// Whether the step has text, from which the next text block is separated.
    has_text: bool,
    /// Holds back what may begin a secret.
    pieces: Pieces,
    is_over: bool,
}

impl ClaudeReader {
    /// Returns a reader that writes items, and ends an answer that exceeds the limits.
    pub fn new(
        line: Arc<Line>,
        tools: Vec<&'static str>,
        (output_max, steps_max): (u64, u32),
        pieces: Pieces,
    ) -> ClaudeReader {
        ClaudeReader {
            line,
            tools,
            output_max,
            steps_max,
            written: 0,
            step: 0,
            first_seq: 0,
            streamed: None,
            is_kept: false,
            has_text: false,
            pieces,
            is_over: false,
        }
    }

    fn read(&mut self, object: &Value) -> Result<()> {
        if !object["parent_tool_use_id"].is_null() {
            return Ok(());
        }
        match object["type"].as_str().unwrap_or_default() {
            "system" if object["subtype"] == "init" => self.init(object),
            "stream_event" => self.event(&object["event"]),
            "assistant" => self.whole(object),
            "result" => self.result(object),
            _ => Ok(()),
        }
    }

    fn init(&mut self, object: &Value) -> Result<()> {
        let named = object["tools"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let is_ours =
            |name: &str| name.strip_prefix(TOOL_PREFIX).is_some_and(|it| self.tools.contains(&it));
        let Some(other) = named.into_iter().find(|it| !is_ours(it)) else { return Ok(()) };
        let other = truncate_chars(other, 80);
        let message = format!("the program has the tool {other}, which it was not given");
        self.fault("bad_answer", &message)
    }

    fn event(&mut self, event: &Value) -> Result<()> {
        match event["type"].as_str().unwrap_or_default() {
            "message_start" => {
                self.begin_step()?;
                self.streamed = event["message"]["id"].as_str().map(str::to_owned);
                Ok(())
            }
            "message_stop" => self.end_text(),
            "content_block_start" if event["content_block"]["type"] == "text" => {
                let text = event["content_block"]["text"].as_str().unwrap_or_default();
                let gap = if self.has_text { "\n\n" } else { "" };
                self.text(&format!("{gap}{text}"))
            }
            "content_block_delta" if event["delta"]["type"] == "text_delta" => {
                self.text(event["delta"]["text"].as_str().unwrap_or_default())
            }
            _ => Ok(()),
        }
    }

    fn begin_step(&mut self) -> Result<()> {
        self.end_text()?;
        // A message that was cut off may still be reported as ended.
        let is_again = self.streamed.take().is_some() && !self.is_kept;
        if is_again && self.has_text {
            self.line.push(Item::Reset { step: self.step, from_seq: self.first_seq })?;
        } else if !is_again {
            self.step += 1;
            if self.step > self.steps_max {
                let most = self.steps_max;
                let message = format!("the answer took {most} steps, which is all it may");
                return self.fault("limit_steps", &message);
            }
        }
        self.is_kept = false;
        self.has_text = false;
        self.first_seq = self.line.next_seq();
        Ok(())
    }

    /// Handles a whole message: each of its blocks has a line of its own.
    fn whole(&mut self, object: &Value) -> Result<()> {
        let message = &object["message"];
        // A message of the program itself is reported by its result.
        let is_own = message["model"] == "<synthetic>" || object["error"].is_string();
        let id = message["id"].as_str();
        let is_streamed = id.is_some() && id == self.streamed.as_deref();
        self.is_kept |= is_streamed;
        let mut is_begun = !is_own && !is_streamed && self.streamed.is_some();
        if is_begun {
            self.begin_step()?;
        }
        if !is_own {
            self.announce(&message["content"], is_streamed)?;
        }
        if is_own || is_streamed {
            return Ok(());
        }
        let texts = message["content"].as_array().into_iter().flatten();
        let texts = texts.filter(|it| it["type"] == "text").filter_map(|it| it["text"].as_str());
        for text in texts {
            if !is_begun && (self.step == 0 || !self.has_text) {
                self.begin_step()?;
            }
            is_begun = true;
            let gap = if self.has_text { "\n\n" } else { "" };
            self.text(&format!("{gap}{text}"))?;
        }
        Ok(())
    }

    /// Records the calls of a message. They arrive over MCP, and are looked up here.
    fn announce(&mut self, content: &Value, is_streamed: bool) -> Result<()> {
        let blocks = content.as_array().into_iter().flatten();
        for block in blocks.filter(|it| it["type"] == "tool_use") {
            let (Some(id), Some(name)) = (block["id"].as_str(), block["name"].as_str()) else {
                continue;
            };
            if self.step == 0 && !is_streamed {
                self.begin_step()?;
            }
            self.end_text()?;
            let tool = name.strip_prefix(TOOL_PREFIX).unwrap_or(name).to_owned();
            let input = block["input"].clone();
            self.line.announce(id.to_owned(), Use { step: self.step.max(1), tool, input });
        }
        Ok(())
    }

    fn text(&mut self, delta: &str) -> Result<()> {
        if delta.is_empty() || self.is_over {
            return Ok(());
        }
        if self.step == 0 {
            self.begin_step()?;
        }
        self.written += delta.len() as u64;
        if self.written > self.output_max {
            let kib = self.output_max / 1024;
            return self.fault("limit_output", &format!("the answer is longer than {kib} KiB"));
        }
        self.has_text = true;
        let shown = self.pieces.pass(delta);
        self.show(shown)
    }

    /// Shows what was held back: no more text follows it.
    fn end_text(&mut self) -> Result<()> {
        let rest = self.pieces.end();
        self.show(rest)
    }

    fn show(&mut self, delta: String) -> Result<()> {
        match delta.is_empty() {
            true => Ok(()),
            false => self.line.push(Item::Text { step: self.step, delta }),
        }
    }

    fn result(&mut self, object: &Value) -> Result<()> {
        self.end_text()?;
        let usage = &object["usage"];
        let count = |name: &str| usage[name].as_u64().unwrap_or(0);
        self.line.push(Item::Usage {
            input: count("input_tokens"),
            output: count("output_tokens"),
            cache_read: count("cache_read_input_tokens"),
            cache_write: count("cache_creation_input_tokens"),
            cost_usd: object["total_cost_usd"].as_f64().filter(|it| it.is_finite() && *it >= 0.0),
        })?;
        if object["is_error"] != true || self.is_over {
            return Ok(());
        }
        if object["subtype"] == "error_max_budget_usd" {
            let cost = object["total_cost_usd"].as_f64().unwrap_or_default();
            let message = format!("the answer has cost ${cost:.2}, which is all it may");
            return self.fault("limit_money", &message);
        }
        let text = object["result"].as_str().or_else(|| object["errors"][0].as_str());
        if text.is_some_and(|it| it.starts_with(NOTE)) {
            // It was ended from outside, which knows the reason.
            return Ok(());
        }
        let text = text.unwrap_or("the program reported an error");
        let status = object["api_error_status"].as_u64().unwrap_or(0);
        let message = truncate_chars(&self.pieces.cover(text), FAULT_CHARS_MAX);
        let code = fault_code(status, text);
        self.line.push(Item::Status { code: code.to_owned(), message })
    }

    /// Records why the run ends.
    fn fault(&mut self, code: &str, message: &str) -> Result<()> {
        self.end_text()?;
        self.is_over = true;
        self.line.push(Item::Status { code: code.to_owned(), message: message.to_owned() })
    }
}

impl Listener for ClaudeReader {
    fn line(&mut self, line: &str) -> Result<bool> {
        let Ok(object) = serde_json::from_str::<Value>(line) else { return Ok(!self.is_over) };
        match self.read(&object) {
            Err(cause) if cause.kind() == ErrorKind::TooLarge => {
                // There is no room for what is held back.
                self.pieces.end();
                self.fault("limit_output", "the answer has too many pieces")?;
            }
            other => other?,
        }
        Ok(!self.is_over)
    }

    fn gap(&mut self) -> Result<bool> {
        self.fault("limit_output", "the program printed more than is kept")?;
        Ok(false)
    }

    fn end(&mut self) -> Result<()> {
        self.end_text()
    }
}

/// Returns the code for a provider's refusal.
fn fault_code(status: u64, text: &str) -> &'static str {
    let text = text.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|it| text.contains(it));
    let sign_in = ["not logged in", "invalid api key", "oauth token", "authentication_error"];
    match status {
        401 | 403 => "auth_invalid",
        404 => "model_not_found",
        413 => "context_full",
        429 => "rate_limited",
        529 => "overloaded",
        _ if says(&sign_in) || says(&["api error: 401", "/login"]) => "auth_invalid",
        _ if says(&["overloaded", "api error: 529"]) => "overloaded",
        _ if says(&["rate limit", "hit your limit", "api error: 429"]) => "rate_limited",
        _ if says(&["prompt is too long", "context window"]) => "context_full",
        _ if says(&["issue with the selected model", "not_found_error"]) => "model_not_found",
        _ => "bad_answer",
    }
}

#[cfg(test)]
mod tests {
    use camino::Utf8Path;

    use super::*;
    use crate::base::Clock;
    use crate::chat::{Answer, Hub, STREAM_FILE, Scribe, sum};

    /// Reads lines; returns the items without what differs between runs, and whether the program
    /// may continue after the last line.
    fn read(lines: &str, output_max: u64) -> (Vec<String>, bool) {
        let folder = tempfile::tempdir().unwrap();
        let run: crate::base::JobId = "018bcfe5-6800-7000-8000-000000000001".parse().unwrap();
        let dir = Utf8Path::from_path(folder.path()).unwrap().join("jobs").join(run.as_str());
        let start = Item::Start {
            session_id: "018bcfe5-6800-7000-8000-000000000002".parse().unwrap(),
            mode: "claude_code".to_owned(),
            model: None,
        };
        let at = crate::base::Millis(0);
        let answer = Answer { run, dir: dir.clone(), start, at };
        let hub = Hub::default();
        let scribe = Scribe::open(&answer, Clock::system(), hub.clone()).unwrap();
        let line = hub.write(&answer.run, scribe);
        let pieces = Pieces::new(&["s3cret-value".to_owned()]);
        let mut reader = ClaudeReader::new(line, vec!["read_file"], (output_max, 3), pieces);
        let mut goes_on = true;
        for line in lines.lines() {
            goes_on = reader.line(line).unwrap();
        }
        reader.end().unwrap();
        let text = std::fs::read_to_string(dir.join(STREAM_FILE)).unwrap();
        let item = |line: &str| {
            let mut item: Value = serde_json::from_str(line).unwrap();
            let fields = item.as_object_mut().unwrap();
            fields.shift_remove("ts");
            fields.shift_remove("run_id");
            item.to_string()
        };
        assert!(sum(&dir).unwrap().is_some());
        (text.lines().skip(1).map(item).collect(), goes_on)
    }

    fn delta(text: &str) -> String {
        let delta = serde_json::json!({"type": "text_delta", "text": text});
        let event = serde_json::json!({"type": "content_block_delta", "delta": delta});
        serde_json::json!({"type": "stream_event", "event": event}).to_string()
    }

    const BEGIN: &str = r#"{"type":"stream_event","event":{"type":"message_start",
        "message":{"id":"m1"}}}"#;
    const STOP: &str = r#"{"type":"stream_event","event":{"type":"message_stop"}}"#;

    fn begin() -> String {
        BEGIN.replace('\n', "")
    }

    #[test]
    fn pieces_are_told_once_and_the_whole_is_not_told_again() {
        let whole = r#"{"type":"assistant","message":{"id":"m1","content":[
            {"type":"text","text":"Hello"}]}}"#
            .replace('\n', "");
        let result = r#"{"type":"result","is_error":false,"usage":{"input_tokens":3,
            "output_tokens":2},"total_cost_usd":0.01}"#
            .replace('\n', "");
        let lines = [begin(), delta("Hel"), delta("lo"), whole, STOP.to_owned(), result];
        let (items, goes_on) = read(&lines.join("\n"), 1_000);
        assert!(goes_on);
        assert_eq!(
            items,
            [
                r#"{"type":"text","seq":2,"step":1,"delta":"Hel"}"#,
                r#"{"type":"text","seq":3,"step":1,"delta":"lo"}"#,
                "{\"type\":\"usage\",\"seq\":4,\"input\":3,\"output\":2,\"cache_read\":0,\
                 \"cache_write\":0,\"cost_usd\":0.01}",
            ]
        );
    }

    #[test]
    fn g28_a_secret_in_pieces_is_covered() {
        for ends in [vec![STOP.to_owned()], Vec::new()] {
            let deltas = ["It is s3c", "ret-val", "ue. A s3cr"].map(delta);
            let lines = [vec![begin()], deltas.to_vec(), ends].concat();
            let (items, _) = read(&lines.join("\n"), 1_000);
            let said: Vec<Value> =
                items.iter().map(|it| serde_json::from_str(it).unwrap()).collect();
            let said: Vec<&str> = said.iter().filter_map(|it| it["delta"].as_str()).collect();
            assert_eq!(said, ["It is ", "************. A ", "s3cr"]);
        }
        let line = r#"{"type":"result","is_error":true,"result":"no \u00733cret-value"}"#;
        assert!(read(line, 100).0[1].contains("no ************"));
    }

    #[test]
    fn a_repeated_request_takes_the_text_back() {
        let lines = [begin(), delta("Hel"), begin(), delta("Hi"), STOP.to_owned()];
        let (items, _) = read(&lines.join("\n"), 1_000);
        assert_eq!(items[1], r#"{"type":"reset","seq":3,"step":1,"from_seq":2}"#);
        assert_eq!(items[2], r#"{"type":"text","seq":4,"step":1,"delta":"Hi"}"#);
        assert_eq!(items.len(), 3);
    }

    /// Version 2.1.332 closes a message that was cut off; both versions may then give the answer in
    /// one piece.
    #[test]
    fn a_message_that_was_cut_off_is_taken_back() {
        let whole = |id: &str, text: &str| {
            let content = serde_json::json!([{"type": "text", "text": text}]);
            let message = serde_json::json!({"id": id, "content": content});
            serde_json::json!({"type": "assistant", "message": message}).to_string()
        };
        let first = [begin(), delta("I look."), whole("m1", "I look."), STOP.to_owned()];
        let second = [begin().replace("m1", "m2"), delta("Hel"), STOP.to_owned()];
        let again = begin().replace("m1", "m3");
        let by_piece = [again, delta("Hi"), whole("m3", "Hi"), STOP.to_owned()];
        let at_once = [whole("m3", "Hi")];
        for (is_closed, third) in
            [(true, &by_piece[..]), (true, &at_once), (false, &by_piece), (false, &at_once)]
        {
            let second = &second[..second.len() - usize::from(!is_closed)];
            let lines = [&first[..], second, third].concat();
            let (items, goes_on) = read(&lines.join("\n"), 1_000);
            assert!(goes_on, "a request that is repeated is no step of its own");
            assert_eq!(
                items,
                [
                    r#"{"type":"text","seq":2,"step":1,"delta":"I look."}"#,
                    r#"{"type":"text","seq":3,"step":2,"delta":"Hel"}"#,
                    r#"{"type":"reset","seq":4,"step":2,"from_seq":3}"#,
                    r#"{"type":"text","seq":5,"step":2,"delta":"Hi"}"#,
                ]
            );
        }
    }

    #[test]
    fn a_message_in_one_piece_is_told() {
        let line = |text: &str| {
            let content = serde_json::json!([{"type": "text", "text": text}]);
            let message = serde_json::json!({"id": "m1", "content": content});
            serde_json::json!({"type": "assistant", "message": message}).to_string()
        };
        let (items, _) = read(&[line("one"), line("two")].join("\n"), 1_000);
        assert_eq!(items[0], r#"{"type":"text","seq":2,"step":1,"delta":"one"}"#);
        assert_eq!(items[1], r#"{"type":"text","seq":3,"step":1,"delta":"\n\ntwo"}"#);
    }

    #[test]
    fn bounds_and_tools_end_the_run() {
        let (items, goes_on) = read(&[begin(), delta("12345"), delta("6")].join("\n"), 5);
        assert!(!goes_on);
        assert!(items[1].contains("limit_output"), "{items:?}");
        for (tools, is_right) in [
            ("\"Bash\"", false),
            ("\"mcp__wb__read_file\",\"mcp__wb__write_file\"", false),
            ("\"read_file\"", false),
            ("\"mcp__wb__read_file\"", true),
        ] {
            let init = format!(r#"{{"type":"system","subtype":"init","tools":[{tools}]}}"#);
            let (items, goes_on) = read(&[init, delta("x")].join("\n"), 100);
            assert_eq!(goes_on, is_right, "{tools}");
            assert_eq!(items[0].contains("bad_answer"), !is_right, "{items:?}");
        }
    }

    #[test]
    fn an_answer_that_costs_too_much_ends_by_its_limit() {
        let line = r#"{"type":"result","subtype":"error_max_budget_usd","is_error":true,
            "errors":["Reached maximum budget ($0.06)"],"total_cost_usd":0.1}"#
            .replace('\n', "");
        let (items, goes_on) = read(&line, 100);
        assert!(!goes_on && items[1].contains("\"code\":\"limit_money\""), "{items:?}");
        assert!(items[1].contains("has cost $0.10"), "{items:?}");
    }

    #[test]
    fn refusals_of_a_provider_have_words() {
        for (status, text, code) in [
            (0, "Not logged in · Please run /login", "auth_invalid"),
            (401, "x", "auth_invalid"),
            (429, "You've hit your limit", "rate_limited"),
            (0, "API Error: 529 Overloaded", "overloaded"),
            (0, "Prompt is too long", "context_full"),
            (404, "no such model", "model_not_found"),
            (500, "x", "bad_answer"),
        ] {
            assert_eq!(fault_code(status, text), code, "{text}");
        }
        let line = r#"{"type":"result","is_error":true,"result":"Not logged in"}"#;
        let own = r#"{"type":"assistant","error":"x","message":{"model":"<synthetic>","content":[
            {"type":"text","text":"Not logged in"}]}}"#
            .replace('\n', "");
        let (items, _) = read(&[own.as_str(), line].join("\n"), 100);
        assert!(items[1].contains("\"code\":\"auth_invalid\""), "{items:?}");
        assert_eq!(items.len(), 2, "what the program says itself is no answer");
    }
}
