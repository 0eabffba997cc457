//! Reads one answer of the Messages API, event by event.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::chat::model::{Fault, ModelCall, Step, Stop, TOKEN_BYTES, Tokens, fault};

/// Most blocks of an answer.
const BLOCKS_MAX: usize = 1_000;
/// Most bytes of an answer, including thinking and calls.
const ANSWER_BYTES_MAX: usize = 12 * 1024 * 1024;

/// The part of an answer that has been read.
#[derive(Debug, Default)]
pub(super) struct Reader {
    blocks: BTreeMap<u64, Open>,
    bytes: usize,
    text: String,
    tokens: Tokens,
    stop: Option<String>,
    is_over: bool,
}

/// An incomplete block.
#[derive(Debug, Default)]
struct Open {
    block: Map<String, Value>,
    /// The arguments of a call so far, as text.
    json: String,
    is_closed: bool,
}

impl Reader {
    /// Takes an event; returns the text that it adds.
    pub(super) fn take(&mut self, event: &Value) -> Result<Option<String>, Fault> {
        match event["type"].as_str().unwrap_or_default() {
            "message_start" => self.count(&event["message"]["usage"]),
            "content_block_start" => return self.begin(event),
            "content_block_delta" => return self.grow(event),
            "content_block_stop" => {
                let open = event["index"].as_u64().and_then(|it| self.blocks.get_mut(&it));
                open.into_iter().for_each(|it| it.is_closed = true);
            }
            "message_delta" => {
                self.count(&event["usage"]);
                if let Some(stop) = event["delta"]["stop_reason"].as_str() {
                    self.stop = Some(stop.to_owned());
                }
            }
            "message_stop" => self.is_over = true,
            "error" => return Err(fault::of_event(event)),
            // Pings, and events of later API versions.
            _ => {}
        }
        Ok(None)
    }

    /// Returns whether the answer has ended.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns the tokens so far. The provider reports the input at the beginning and the output at
    /// the end: the output of an incomplete answer is estimated from its length.
    pub(super) fn tokens(&self) -> Tokens {
        let length = |it: &Open| {
            let texts =
                ["text", "thinking"].iter().filter_map(|name| it.block.get(*name)?.as_str());
            texts.map(str::len).sum::<usize>() + it.json.len()
        };
        let written = self.blocks.values().map(length).sum::<usize>() as u64;
        let output = match self.stop.is_some() {
            true => self.tokens.output,
            false => self.tokens.output.max(written / TOKEN_BYTES),
        };
        Tokens { output, ..self.tokens }
    }

    /// Returns the whole answer; after that, its text is gone.
    pub(super) fn finish(&mut self) -> Result<Step, Fault> {
        if !self.is_over {
            return Err(Fault::passing("unreachable", "the connection was lost in mid-answer"));
        }
        let stop = match self.stop.as_deref() {
            Some("end_turn" | "stop_sequence") => Stop::Ended,
            Some("tool_use") => Stop::Calls,
            Some("pause_turn") => Stop::Paused,
            Some("max_tokens") => Stop::MaxTokens,
            Some("refusal") => Stop::Refused,
            Some("model_context_window_exceeded") => Stop::ContextFull,
            other => Stop::Unknown(other.unwrap_or("none").to_owned()),
        };
        let (mut native, mut calls) = (Vec::new(), Vec::new());
        for mut open in std::mem::take(&mut self.blocks).into_values() {
            if open.block.get("type").is_some_and(|it| it == "tool_use") {
                let Some(call) = open.call() else { continue };
                let args = call.args.clone().unwrap_or_else(|| Value::Object(Map::new()));
                open.block.insert("input".to_owned(), args);
                calls.push(call);
            }
            let is_empty = |it: &Map<String, Value>| it["type"] == "text" && it["text"] == "";
            if !is_empty(&open.block) {
                native.push(Value::Object(open.block));
            }
        }
        let text = self.text.trim_end().to_owned();
        Ok(Step { text, native, calls, stop, tokens: self.tokens })
    }

    fn count(&mut self, usage: &Value) {
        let set = |name: &str, field: &mut u64| {
            if let Some(count) = usage[name].as_u64() {
                *field = count;
            }
        };
        set("input_tokens", &mut self.tokens.input);
        set("output_tokens", &mut self.tokens.output);
        set("cache_read_input_tokens", &mut self.tokens.cache_read);
        set("cache_creation_input_tokens", &mut self.tokens.cache_write);
    }

    fn begin(&mut self, event: &Value) -> Result<Option<String>, Fault> {
        let (Some(index), Value::Object(block)) =
            (event["index"].as_u64(), &event["content_block"])
        else {
            return Ok(None);
        };
        if !block.get("type").is_some_and(Value::is_string) {
            return Ok(None);
        }
        if self.blocks.len() >= BLOCKS_MAX {
            return Err(Fault::lasting("bad_answer", "the answer has too many parts"));
        }
        self.room(event.to_string().len())?;
        let mut open = Open { block: block.clone(), ..Open::default() };
        let text = match (block["type"].as_str(), block.get("text").and_then(Value::as_str)) {
            (Some("text"), text) => text.unwrap_or_default().to_owned(),
            _ => String::new(),
        };
        if block["type"] == "text" {
            open.block.insert("text".to_owned(), Value::String(String::new()));
        }
        let is_text = block["type"] == "text";
        self.blocks.insert(index, open);
        // Text blocks are separated by an empty line.
        let gap = if is_text && !self.text.is_empty() { "\n\n" } else { "" };
        self.text.push_str(gap);
        let told = self.say(index, &text);
        let whole = format!("{gap}{}", told.unwrap_or_default());
        Ok((!whole.is_empty()).then_some(whole))
    }

    fn grow(&mut self, event: &Value) -> Result<Option<String>, Fault> {
        let Some(index) = event["index"].as_u64() else { return Ok(None) };
        let delta = &event["delta"];
        let of = |name: &str| delta[name].as_str().unwrap_or_default();
        match delta["type"].as_str().unwrap_or_default() {
            "text_delta" => {
                self.room(of("text").len())?;
                return Ok(self.say(index, of("text")));
            }
            "input_json_delta" => {
                self.room(of("partial_json").len())?;
                if let Some(open) = self.blocks.get_mut(&index) {
                    open.json.push_str(of("partial_json"));
                }
            }
            "thinking_delta" => self.append(index, "thinking", of("thinking"))?,
            "signature_delta" => self.append(index, "signature", of("signature"))?,
            _ => {}
        }
        Ok(None)
    }

    /// Appends text to a block.
    fn say(&mut self, index: u64, text: &str) -> Option<String> {
        let open = self.blocks.get_mut(&index).filter(|it| it.block["type"] == "text")?;
        if let Some(Value::String(whole)) = open.block.get_mut("text") {
            whole.push_str(text);
        }
        self.text.push_str(text);
        (!text.is_empty()).then(|| text.to_owned())
    }

    fn append(&mut self, index: u64, field: &str, more: &str) -> Result<(), Fault> {
        self.room(more.len())?;
        let Some(open) = self.blocks.get_mut(&index) else { return Ok(()) };
        let known = open.block.entry(field).or_insert_with(|| Value::String(String::new()));
        if let Value::String(known) = known {
            known.push_str(more);
        }
        Ok(())
    }

    fn room(&mut self, more: usize) -> Result<(), Fault> {
        self.bytes += more;
        match self.bytes <= ANSWER_BYTES_MAX {
            true => Ok(()),
            false => Err(Fault::lasting("limit_output", "the answer is too large")),
        }
    }
}

impl Open {
    /// Returns the block's call. An incomplete one, or one whose arguments are not an object, has
    /// no arguments.
    fn call(&self) -> Option<ModelCall> {
        let of = |name: &str| self.block.get(name).and_then(Value::as_str).unwrap_or_default();
        let args = match self.json.trim() {
            "" => self.block.get("input").cloned().or_else(|| Some(Value::Object(Map::new()))),
            text => serde_json::from_str(text).ok(),
        };
        let args = args.filter(|it| self.is_closed && it.is_object());
        let (id, tool) = (of("id").to_owned(), of("name").to_owned());
        (!id.is_empty()).then_some(ModelCall { id, tool, args })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(events: &[Value]) -> (String, Result<Step, Fault>) {
        let mut reader = Reader::default();
        let mut told = String::new();
        for event in events {
            match reader.take(event) {
                Ok(text) => told.push_str(&text.unwrap_or_default()),
                Err(fault) => return (told, Err(fault)),
            }
        }
        (told, reader.finish())
    }

    fn start(index: u64, block: Value) -> Value {
        json!({"type": "content_block_start", "index": index, "content_block": block})
    }

    fn delta(index: u64, delta: Value) -> Value {
        json!({"type": "content_block_delta", "index": index, "delta": delta})
    }

    fn end(reason: &str) -> [Value; 2] {
        [
            json!({"type": "message_delta", "delta": {"stop_reason": reason},
                "usage": {"output_tokens": 9}}),
            json!({"type": "message_stop"}),
        ]
    }

    #[test]
    fn words_thinking_and_calls_are_put_together() {
        let mut events = vec![
            json!({"type": "message_start", "message": {"usage": {"input_tokens": 5,
                "cache_read_input_tokens": 7}}}),
            json!({"type": "ping"}),
            start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
            delta(0, json!({"type": "thinking_delta", "thinking": "hm"})),
            delta(0, json!({"type": "signature_delta", "signature": "sig"})),
            delta(0, json!({"type": "of_tomorrow", "x": 1})),
            start(1, json!({"type": "text", "text": ""})),
            delta(1, json!({"type": "text_delta", "text": "I lo"})),
            delta(1, json!({"type": "text_delta", "text": "ok."})),
            start(2, json!({"type": "tool_use", "id": "t1", "name": "read_file", "input": {}})),
            delta(2, json!({"type": "input_json_delta", "partial_json": "{\"path\":"})),
            delta(2, json!({"type": "input_json_delta", "partial_json": "\"a.md\"}"})),
            json!({"type": "content_block_stop", "index": 2}),
            start(3, json!({"type": "text", "text": "More"})),
        ];
        events.extend(end("tool_use"));
        let (told, step) = read(&events);
        let step = step.unwrap();
        assert_eq!((told.as_str(), step.text.as_str()), ("I look.\n\nMore", "I look.\n\nMore"));
        assert_eq!(step.stop, Stop::Calls);
        let args = Some(json!({"path": "a.md"}));
        let (id, tool) = ("t1".to_owned(), "read_file".to_owned());
        assert_eq!(step.calls, [ModelCall { id, tool, args }]);
        assert_eq!(
            step.native,
            [
                json!({"type": "thinking", "thinking": "hm", "signature": "sig"}),
                json!({"type": "text", "text": "I look."}),
                json!({"type": "tool_use", "id": "t1", "name": "read_file",
                    "input": {"path": "a.md"}}),
                json!({"type": "text", "text": "More"}),
            ]
        );
        let tokens = Tokens { input: 5, output: 9, cache_read: 7, cache_write: 0 };
        assert_eq!(step.tokens, tokens);
    }

    #[test]
    fn what_is_cut_or_odd_is_no_call_and_no_end() {
        let call = start(0, json!({"type": "tool_use", "id": "t", "name": "x", "input": {}}));
        let cut = delta(0, json!({"type": "input_json_delta", "partial_json": "{\"pa"}));
        let mut events = vec![call.clone(), cut];
        events.extend(end("max_tokens"));
        let step = read(&events).1.unwrap();
        assert_eq!((step.stop, step.calls[0].args.clone()), (Stop::MaxTokens, None));
        let (_, lost) = read(&events[..2]);
        assert!(lost.unwrap_err().is_passing);
        // What was cut is counted.
        let mut reader = Reader::default();
        let usage = json!({"input_tokens": 7, "output_tokens": 1});
        reader.take(&json!({"type": "message_start", "message": {"usage": usage}})).unwrap();
        assert_eq!(reader.tokens(), Tokens { input: 7, output: 1, ..Tokens::default() });
        reader.take(&call).unwrap();
        let long = json!({"type": "input_json_delta", "partial_json": "x".repeat(400)});
        reader.take(&delta(0, long)).unwrap();
        assert_eq!(reader.tokens().output, 100);
        reader.take(&end("end_turn")[0]).unwrap();
        assert_eq!(reader.tokens().output, 9);
        let odd = [
            json!("x"),
            json!({"type": "content_block_start", "index": "1"}),
            json!({"type": "content_block_delta", "index": 77, "delta": {"type": "text_delta",
                "text": "of no block"}}),
            json!({"type": "message_delta", "delta": {"stop_reason": "tomorrow"}}),
            json!({"type": "message_stop"}),
        ];
        let (told, step) = read(&odd);
        assert_eq!((told.as_str(), step.unwrap().stop), ("", Stop::Unknown("tomorrow".to_owned())));
        let error = json!({"type": "error", "error": {"type": "overloaded_error",
            "message": "Overloaded"}});
        assert_eq!(read(&[error]).1.unwrap_err().code, "overloaded");
    }

    #[test]
    fn an_endless_answer_ends() {
        let mut reader = Reader::default();
        reader.take(&start(0, json!({"type": "text", "text": ""}))).unwrap();
        let more = delta(0, json!({"type": "text_delta", "text": "x".repeat(1024 * 1024)}));
        let fault = (0..13).find_map(|_| reader.take(&more).err()).unwrap();
        assert_eq!(fault.code, "limit_output");
    }
}
