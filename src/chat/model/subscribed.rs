//! A model behind the gateway: a step is requested over its socket, and arrives as lines of JSON.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::base::{ChatId, PersonId, truncate_chars};
use crate::chat::gateway::Gateway;
use crate::chat::model::request::base64;
use crate::chat::model::{
    Ask, Block, Fault, ModelCall, Next, Step, Stop, TOKEN_BYTES, Tokens, Turn, fault,
};
use crate::outbound::Answer;
use crate::script::Subscribed;

/// Longest line of an answer, in bytes: a whole step.
const LINE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Most parts of an answer.
const PARTS_MAX: usize = 1_000;
/// Most characters shown of a provider's message.
const MESSAGE_CHARS_MAX: usize = 400;
/// Longest believable wait, in seconds.
const WAIT_SECONDS_MAX: f64 = 8.0 * 24.0 * 3_600.0;
/// Longest time without new content while the connection stays open.
const STILL_MAX: Duration = Duration::from_secs(300);

/// A model that is called with one person's subscription.
#[derive(Clone, Debug)]
pub struct OfPerson {
    gateway: Gateway,
    model: Subscribed,
    person: PersonId,
    session: ChatId,
}

/// An answer in progress. Dropping it also ends it at the provider.
pub(super) struct Lines {
    gateway: Gateway,
    answer: Answer,
    bytes: Vec<u8>,
    ready: VecDeque<Value>,
    idle: Duration,
    grown_at: Instant,
    /// The length of the request's texts.
    asked_bytes: usize,
    /// The length of the answer's text so far.
    written_bytes: usize,
    /// Whether the model has begun to answer.
    has_begun: bool,
    /// What the provider reported of an answer that failed.
    reported: Tokens,
}

impl OfPerson {
    /// Returns a model for a conversation of a person.
    pub fn new(gateway: Gateway, model: Subscribed, of: (PersonId, ChatId)) -> OfPerson {
        OfPerson { gateway, model, person: of.0, session: of.1 }
    }

    pub(super) fn model(&self) -> &Subscribed {
        &self.model
    }

    pub(super) async fn begin(&self, ask: &Ask, idle: Duration) -> Result<Lines, Fault> {
        let access = self.gateway.access().await.map_err(|cause| {
            let hint = cause.hint_str().map(|it| format!(": {it}")).unwrap_or_default();
            Fault::lasting("gateway_down", format!("{}{hint}", cause.message()))
        })?;
        let json = Bytes::from(self.body(ask).to_string());
        let answer = access.send(("POST", "/v1/step"), json, idle).await;
        let answer = answer.map_err(lost)?;
        if answer.status() != 200 {
            let message = format!("the gateway answered with status {}", answer.status());
            return Err(Fault::passing("gateway_down", message));
        }
        Ok(Lines {
            gateway: self.gateway.clone(),
            answer,
            bytes: Vec::new(),
            ready: VecDeque::new(),
            idle,
            grown_at: Instant::now(),
            asked_bytes: length(ask),
            written_bytes: 0,
            has_begun: false,
            reported: Tokens::default(),
        })
    }

    fn body(&self, ask: &Ask) -> Value {
        let tool = |it: &Value| {
            json!({
                "name": it["name"], "description": it["description"],
                "parameters": it["inputSchema"],
            })
        };
        json!({
            "person": self.person, "session": self.session,
            "provider": self.model.provider, "model": self.model.model,
            "max_output": self.model.max_output, "thinking": self.model.thinking,
            "system": ask.system, "tools": ask.tools.iter().map(tool).collect::<Vec<_>>(),
            "messages": ask.turns.iter().map(message).collect::<Vec<_>>(),
        })
    }
}

fn message(turn: &Turn) -> Value {
    let block = |it: &Block| match it {
        Block::Text(text) => json!({"text": text}),
        Block::Native(native) => json!({"native": native}),
        Block::Result { id, text, is_ok } => {
            json!({"result": {"id": id, "text": text, "ok": is_ok}})
        }
        Block::Image { kind, bytes } => json!({"image": {"type": kind, "data": base64(bytes)}}),
    };
    let role = if turn.is_model { "assistant" } else { "user" };
    json!({"role": role, "blocks": turn.blocks.iter().map(block).collect::<Vec<_>>()})
}

/// The gateway was lost, not the provider: it is restarted, and the request repeated.
fn lost(failure: crate::outbound::Failure) -> Fault {
    match fault::of_failure(failure) {
        it if it.code == "unreachable" => Fault::passing("gateway_down", "the gateway was lost"),
        it => it,
    }
}

impl Lines {
    pub(super) async fn next(&mut self) -> Result<Next, Fault> {
        loop {
            while let Some(line) = self.ready.pop_front() {
                self.grown_at = Instant::now();
                match line["type"].as_str() {
                    Some("text") => {
                        let words = line["text"].as_str().unwrap_or_default();
                        self.has_begun = true;
                        self.written_bytes += words.len();
                        if !words.is_empty() {
                            return Ok(Next::Text(words.to_owned()));
                        }
                    }
                    Some("message") => return Ok(Next::Done(Box::new(step(&line)?))),
                    Some("error") => {
                        self.reported = tokens(&line["usage"]);
                        return Err(refused(&line));
                    }
                    // Thinking is not shown.
                    Some("alive") => self.has_begun = true,
                    // Unknown lines are ignored.
                    _ => {}
                }
            }
            if self.grown_at.elapsed() > STILL_MAX {
                return Err(Fault::passing("stalled", "the model sent nothing for five minutes"));
            }
            match self.answer.chunk(self.idle).await.map_err(lost)? {
                Some(bytes) => self.feed(&bytes)?,
                None => return Err(Fault::passing("gateway_down", "the gateway broke off")),
            }
        }
    }

    /// Returns the tokens of an answer that broke off. Most providers report them at the end only,
    /// so they are estimated from the lengths, once the model has begun.
    pub(super) fn tokens(&self) -> Tokens {
        let estimate = |bytes: usize| bytes as u64 / TOKEN_BYTES;
        let it = self.reported;
        if !self.has_begun {
            return it;
        }
        let has_input = it.input + it.cache_read + it.cache_write > 0;
        let input = if has_input { it.input } else { estimate(self.asked_bytes) };
        Tokens { input, output: it.output.max(estimate(self.written_bytes)), ..it }
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.gateway.note_use();
        for piece in bytes.split_inclusive(|it| *it == b'\n') {
            if self.bytes.len() + piece.len() > LINE_BYTES_MAX {
                return Err(Fault::lasting("bad_answer", "the answer has a line that is too long"));
            }
            self.bytes.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.bytes);
                // Anything but JSON is ignored.
                self.ready.extend(serde_json::from_slice::<Value>(&line).ok());
            }
        }
        Ok(())
    }
}

/// Returns a step from its last line.
fn step(line: &Value) -> Result<Step, Fault> {
    let native = line["native"].as_array().cloned().unwrap_or_default();
    if native.len() > PARTS_MAX {
        return Err(Fault::lasting("bad_answer", "the answer has too many parts"));
    }
    let of = |sort: &'static str| native.iter().filter(move |it| it["type"] == sort);
    let text = of("text").filter_map(|it| it["text"].as_str()).collect();
    let call = |it: &Value| {
        Some(ModelCall {
            id: it["id"].as_str()?.to_owned(),
            tool: it["name"].as_str()?.to_owned(),
            args: Some(it["arguments"].clone()).filter(Value::is_object),
        })
    };
    let calls: Vec<ModelCall> = of("toolCall").filter_map(call).collect();
    let stop = match line["stop"].as_str().unwrap_or_default() {
        "stop" if calls.is_empty() => Stop::Ended,
        // Some providers report a normal end although they request tools.
        "toolUse" | "stop" => Stop::Calls,
        "length" => Stop::MaxTokens,
        word => Stop::Unknown(word.to_owned()),
    };
    Ok(Step { text, native, calls, stop, tokens: tokens(&line["usage"]) })
}

fn tokens(usage: &Value) -> Tokens {
    let count = |name: &str| usage[name].as_u64().unwrap_or(0);
    Tokens {
        input: count("input"),
        output: count("output"),
        cache_read: count("cacheRead"),
        cache_write: count("cacheWrite"),
    }
}

/// Returns the length of all texts of a request.
fn length(ask: &Ask) -> usize {
    let of = |it: &Block| match it {
        Block::Text(text) | Block::Result { text, .. } => text.len(),
        Block::Native(native) => native.to_string().len(),
        // Its tokens depend on its size in pixels, which differs between providers.
        Block::Image { .. } => 0,
    };
    let turns: usize = ask.turns.iter().flat_map(|it| &it.blocks).map(of).sum();
    let tools: usize = ask.tools.iter().map(|it| it.to_string().len()).sum();
    ask.system.len() + turns + tools
}

/// Returns the fault that the gateway reports.
fn refused(line: &Value) -> Fault {
    let said = line["message"].as_str().unwrap_or_default().trim();
    let message = match said.is_empty() {
        true => "the provider does not say why".to_owned(),
        false => truncate_chars(said, MESSAGE_CHARS_MAX),
    };
    let wait = line["wait"].as_f64().filter(|it| it.is_finite() && *it >= 0.0);
    let wait = wait.map(|it| Duration::from_secs_f64(it.min(WAIT_SECONDS_MAX)));
    let fault = match line["kind"].as_str().unwrap_or_default() {
        "auth_invalid" | "auth_unsupported" => Fault::lasting("auth_invalid", message),
        "model_not_found" => Fault::lasting("model_not_found", message),
        "context_full" => Fault::lasting("context_full", message),
        "rate_limited" => Fault::passing("rate_limited", message),
        "overloaded" => Fault::passing("overloaded", message),
        "unreachable" => Fault::passing("unreachable", message),
        _ => Fault::lasting("bad_answer", message),
    };
    Fault { wait, ..fault }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_gateway_says_is_read_as_hostile() {
        let line = json!({
            "type": "message", "stop": "toolUse",
            "native": [
                {"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I "},
                {"type": "text", "text": "read"},
                {"type": "toolCall", "id": "a|b", "name": "read_file", "arguments": {"path": "x"}},
                {"type": "toolCall", "id": "c", "name": "read_file", "arguments": "x"},
                {"type": "toolCall", "name": "read_file"}, {"type": "of_tomorrow"}, 7,
            ],
            "usage": {"input": 3, "output": -1, "cacheRead": "many"},
        });
        let step = step(&line).unwrap();
        assert_eq!((step.text.as_str(), step.stop), ("I read", Stop::Calls));
        let calls: Vec<(&str, bool)> =
            step.calls.iter().map(|it| (it.id.as_str(), it.args.is_some())).collect();
        assert_eq!(calls, [("a|b", true), ("c", false)]);
        assert_eq!((step.tokens.input, step.tokens.output, step.tokens.cache_read), (3, 0, 0));
        assert_eq!(super::step(&json!({})).unwrap().stop, Stop::Unknown(String::new()));
        let many = json!({"native": vec![1; PARTS_MAX + 1]});
        assert_eq!(super::step(&many).unwrap_err().code, "bad_answer");
        for (kind, code, is_passing) in [
            ("auth_invalid", "auth_invalid", false),
            ("rate_limited", "rate_limited", true),
            ("unreachable", "unreachable", true),
            ("of_tomorrow", "bad_answer", false),
        ] {
            let fault = refused(&json!({"kind": kind, "message": "m", "wait": 7}));
            assert_eq!((fault.code, fault.is_passing), (code, is_passing), "{kind}");
            assert_eq!(fault.wait, Some(Duration::from_secs(7)));
        }
        assert_eq!(refused(&json!({"wait": -1})).wait, None);
    }

    #[test]
    fn a_branch_is_told_in_words_of_ours() {
        let turn = Turn {
            is_model: false,
            blocks: vec![
                Block::Result { id: "a".to_owned(), text: "r".to_owned(), is_ok: false },
                Block::Text("t".to_owned()),
                Block::Image { kind: "image/png".to_owned(), bytes: (*b"png").into() },
            ],
        };
        let expected = json!({"role": "user", "blocks": [
            {"result": {"id": "a", "text": "r", "ok": false}}, {"text": "t"},
            {"image": {"type": "image/png", "data": "cG5n"}}]});
        assert_eq!(message(&turn), expected);
    }
}
