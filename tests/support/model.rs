//! A stand-in for a model's provider: the Messages API over HTTP, on this machine.
//!
//! It does what the last line of the person's last message says, as the stand-in of Claude Code in
//! `tests/assistant` does; `script [STEP, …]` says each step. A step is an object:
//! `say`, a list of words; `think`; `calls`, a list of `[tool, arguments]`; `stop`; and `fault`
//! with `times`, after which it goes well.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Value, json};

use super::look::{until, within};

/// The key that it takes.
pub(crate) const KEY: &str = "sk-of-the-site-0123456789";

/// A running stand-in; it ends with the test.
pub(crate) struct Model {
    pub(crate) address: SocketAddr,
    inner: Arc<Inner>,
}

struct Inner {
    out: Utf8PathBuf,
    asked: Mutex<Vec<Value>>,
    /// Requests whose connection was closed before their answer was whole.
    left: Mutex<usize>,
    faults: Mutex<BTreeMap<String, u64>>,
}

impl Model {
    /// Starts one; `out` is where a test puts the file `go` for an answer that waits.
    pub(crate) fn start(out: &Utf8Path) -> Model {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let inner = Arc::new(Inner {
            out: out.to_owned(),
            asked: Mutex::default(),
            left: Mutex::default(),
            faults: Mutex::default(),
        });
        let shared = Arc::clone(&inner);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let inner = Arc::clone(&shared);
                std::thread::spawn(move || while inner.serve(&stream).is_some() {});
            }
        });
        Model { address, inner }
    }

    /// Returns the bodies of all requests.
    pub(crate) fn asked(&self) -> Vec<Value> {
        self.inner.asked.lock().unwrap().clone()
    }

    /// Waits until somebody has left an answer.
    #[track_caller]
    pub(crate) fn wait_left(&self) {
        until("the answer was left", || *self.inner.left.lock().unwrap() > 0);
    }
}

impl Inner {
    /// Answers one request of a connection; nothing once it is closed.
    fn serve(&self, stream: &TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream);
        let (mut length, mut key) = (0, String::new());
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_end();
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse().ok()?,
                "x-api-key" => value.trim().clone_into(&mut key),
                "" => break,
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let body: Value = serde_json::from_slice(&body).ok()?;
        self.asked.lock().unwrap().push(body.clone());
        let mut wire = Wire { stream: stream.try_clone().ok()?, index: 0 };
        let done = match key == KEY {
            true => self.answer(&mut wire, &body),
            false => wire.refuse(401, "", &format!("invalid x-api-key {key}")),
        };
        if done.is_none() {
            *self.left.lock().unwrap() += 1;
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        done
    }

    fn answer(&self, wire: &mut Wire, body: &Value) -> Option<()> {
        let (line, number) = question(body);
        let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
        match word {
            "half" => {
                wire.begin()?;
                wire.say("half ")?;
                std::fs::write(self.out.join("pid"), "0").ok()?;
                while !within(Duration::from_millis(100), || self.out.join("go").exists()) {
                    wire.event(&json!({"type": "ping"}))?;
                }
                wire.say("whole")?;
                return wire.end("end_turn");
            }
            "silent" => {
                wire.begin()?;
                wire.say("so far")?;
                return wire.hang();
            }
            "noisy" => {
                wire.begin()?;
                loop {
                    wire.say("word word word ")?;
                }
            }
            _ => {}
        }
        let steps = match word {
            "hello" => json!([{"say": ["Hel", "lo **you**"]}]),
            // It repeats the key of the request.
            "leak" => json!([
                {
                    "say": ["It is ", &KEY[..7], &KEY[7..]],
                    "calls": [["list_directory", {"path": KEY}]],
                },
                {"say": [".", &KEY[..9]]},
            ]),
            "again" => json!([{"say": ["again"]}]),
            "nothing" => json!([{}]),
            "refused" => json!([{"fault": {"status": 401}}]),
            "limited" => json!([{"say": ["part"], "fault": {"error": "overloaded_error"}}]),
            "crashed" => json!([{"say": ["part"], "fault": {"close": true}}]),
            "call" => calls(body),
            "script" => serde_json::from_str(rest).unwrap(),
            _ => json!([{"say": ["What?"]}]),
        };
        let step = steps.get(number).cloned().unwrap_or(json!({"say": ["(over)"]}));
        self.step(wire, &step, &format!("{line}#{number}"))
    }

    fn step(&self, wire: &mut Wire, step: &Value, name: &str) -> Option<()> {
        let fault = &step["fault"];
        let is_due = !fault.is_null() && {
            let mut faults = self.faults.lock().unwrap();
            let count = faults.entry(name.to_owned()).or_default();
            *count += 1;
            fault["times"].as_u64().is_none_or(|it| *count <= it)
        };
        let fault = if is_due { fault } else { &Value::Null };
        if let Some(status) = fault["status"].as_u64() {
            let wait = fault["wait"].as_str().map(|it| format!("retry-after: {it}\r\n"));
            let message = fault["message"].as_str().unwrap_or("as was asked");
            return wire.refuse(status, &wait.unwrap_or_default(), message);
        }
        if fault["leave"] == true {
            return None;
        }
        wire.begin()?;
        if let Some(words) = step["think"].as_str() {
            let block = json!({"type": "thinking", "thinking": "", "signature": ""});
            let deltas = [
                json!({"type": "thinking_delta", "thinking": words}),
                json!({"type": "signature_delta", "signature": "c2ln"}),
            ];
            wire.block(block, &deltas)?;
        }
        for words in step["say"].as_array().into_iter().flatten() {
            wire.say(words.as_str().unwrap())?;
        }
        if let Some(word) = fault["error"].as_str() {
            let error = json!({"type": word, "message": "as was asked"});
            wire.event(&json!({"type": "error", "error": error}))?;
            return wire.over();
        }
        if fault["close"] == true {
            return None;
        }
        if fault["hang"] == true {
            return wire.hang();
        }
        if let Some(bytes) = fault["huge"].as_u64() {
            let words = "x".repeat(bytes as usize);
            wire.say(&words)?;
        }
        if let Some(words) = fault["bytewise"].as_str() {
            wire.say("")?;
            let delta = json!({"type": "text_delta", "text": words});
            let event = json!({"type": "content_block_delta", "index": 1_000, "delta": delta});
            for byte in format!("data: {event}\n\n").bytes() {
                wire.chunk(&[byte])?;
            }
        }
        if fault["odd"] == true {
            wire.chunk(b"event: ping\ndata: {no json\n\n")?;
            wire.event(&json!({"type": "of_tomorrow", "x": [1]}))?;
            wire.event(&json!({"type": "content_block_delta", "index": 99, "delta": {
                "type": "text_delta", "text": "of no block"}}))?;
        }
        let calls = step["calls"].as_array().cloned().unwrap_or_default();
        for (place, call) in calls.iter().enumerate() {
            let id = format!("toolu_{}_{place}", self.asked.lock().unwrap().len());
            let block = json!({"type": "tool_use", "id": id, "name": call[0], "input": {}});
            let text = call[1].as_str().map_or_else(|| call[1].to_string(), str::to_owned);
            let (head, tail) = text.split_at(text.floor_char_boundary(text.len() / 2));
            let delta = |it: &str| json!({"type": "input_json_delta", "partial_json": it});
            wire.block(block, &[delta(head), delta(tail)])?;
        }
        let usual = if calls.is_empty() { "end_turn" } else { "tool_use" };
        wire.end(step["stop"].as_str().unwrap_or(usual))
    }
}

/// Returns the last line of what the person said last, and how often the model spoke since.
fn question(body: &Value) -> (String, usize) {
    let mut number = 0;
    for message in body["messages"].as_array().unwrap().iter().rev() {
        if message["role"] == "assistant" {
            number += 1;
            continue;
        }
        let texts = message["content"].as_array().unwrap().iter();
        if let Some(text) = texts.filter_map(|it| it["text"].as_str()).next_back() {
            // The list of its files stands below it.
            let asked = text.split("\n\nAttached files, ").next().unwrap_or_default();
            let line = asked.trim_end().lines().next_back().unwrap_or_default();
            return (line.to_owned(), number);
        }
    }
    (String::new(), number)
}

/// Returns the steps of a message of lines `call TOOL ARGUMENTS`: one call each.
fn calls(body: &Value) -> Value {
    let mut steps = Vec::new();
    for message in body["messages"].as_array().unwrap().iter().rev() {
        let texts = message["content"].as_array().unwrap().iter();
        let text = texts.filter_map(|it| it["text"].as_str()).next_back();
        let Some(text) = text.filter(|_| message["role"] == "user") else { continue };
        for line in text.lines() {
            let mut words = line.splitn(3, ' ');
            if let (Some("call"), Some(tool), Some(args)) =
                (words.next(), words.next(), words.next())
            {
                steps.push(json!({"calls": [[tool, args]]}));
            }
        }
        break;
    }
    steps.push(json!({"say": ["made"]}));
    Value::Array(steps)
}

/// One answer as it is written; nothing once nobody reads it.
struct Wire {
    stream: TcpStream,
    index: u64,
}

impl Wire {
    fn refuse(&mut self, status: u64, headers: &str, message: &str) -> Option<()> {
        let error = json!({"type": "error", "error": {"type": "x", "message": message}});
        let body = error.to_string();
        let head = format!(
            "HTTP/1.1 {status} No\r\n{headers}content-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.stream.write_all(head.as_bytes()).ok()
    }

    fn begin(&mut self) -> Option<()> {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                    transfer-encoding: chunked\r\n\r\n";
        self.stream.write_all(head.as_bytes()).ok()?;
        let usage = json!({"input_tokens": 12, "output_tokens": 1});
        self.event(&json!({"type": "message_start", "message": {"id": "m", "usage": usage}}))
    }

    fn chunk(&mut self, bytes: &[u8]) -> Option<()> {
        self.stream.write_all(format!("{:x}\r\n", bytes.len()).as_bytes()).ok()?;
        self.stream.write_all(bytes).ok()?;
        self.stream.write_all(b"\r\n").ok()
    }

    fn event(&mut self, event: &Value) -> Option<()> {
        let word = event["type"].as_str().unwrap();
        self.chunk(format!("event: {word}\ndata: {event}\n\n").as_bytes())
    }

    fn block(&mut self, block: Value, deltas: &[Value]) -> Option<()> {
        let index = self.index;
        self.index += 1;
        self.event(
            &json!({"type": "content_block_start", "index": index, "content_block": block}),
        )?;
        for delta in deltas {
            self.event(&json!({"type": "content_block_delta", "index": index, "delta": delta}))?;
        }
        self.event(&json!({"type": "content_block_stop", "index": index}))
    }

    /// Adds words; they all are one block, which is begun by the first.
    fn say(&mut self, words: &str) -> Option<()> {
        if self.index < 1_000 {
            let block = json!({"type": "text", "text": ""});
            self.event(
                &json!({"type": "content_block_start", "index": 1_000, "content_block": block}),
            )?;
            self.index = 1_001;
        }
        let delta = json!({"type": "text_delta", "text": words});
        self.event(&json!({"type": "content_block_delta", "index": 1_000, "delta": delta}))
    }

    fn end(&mut self, stop: &str) -> Option<()> {
        let delta = json!({"stop_reason": stop, "stop_sequence": null});
        let usage = json!({"output_tokens": 3});
        self.event(&json!({"type": "message_delta", "delta": delta, "usage": usage}))?;
        self.event(&json!({"type": "message_stop"}))?;
        self.over()
    }

    fn over(&mut self) -> Option<()> {
        self.stream.write_all(b"0\r\n\r\n").ok()
    }

    /// Says nothing more, until nobody listens.
    fn hang(&mut self) -> Option<()> {
        let mut byte = [0];
        let read = self.stream.read(&mut byte);
        assert!(!matches!(read, Ok(1..)), "nothing is asked in the middle of an answer");
        None
    }
}
