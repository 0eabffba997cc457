//! The messages of the protocol: JSON-RPC 2.0, one on a line.
//!
//! **Invariant:** a line takes no more memory than [`LINE_BYTES_MAX`], however long it is.

use std::io::{BufRead, Read as _, Result};

use serde_json::{Value, json};

/// Longest line that is read, in bytes: a call may write a whole document.
pub(super) const LINE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Longest id that is given back, in bytes.
const ID_BYTES_MAX: usize = 256;

/// Words of JSON-RPC.
const NO_JSON: i64 = -32_700;
const NO_REQUEST: i64 = -32_600;
pub(super) const NO_METHOD: i64 = -32_601;
pub(super) const BAD_PARAMS: i64 = -32_602;
pub(super) const INTERNAL: i64 = -32_603;
/// A word of our own: the call was not begun.
pub(super) const REFUSED: i64 = -32_000;

/// What came.
#[derive(Debug, PartialEq)]
pub(super) enum Message {
    /// Something that wants an answer.
    Request {
        /// Its id: a text or a number.
        id: Value,
        /// What is asked.
        method: String,
        /// With what.
        params: Value,
    },
    /// Something that wants none.
    Notice {
        /// What is told.
        method: String,
        /// With what.
        params: Value,
    },
    /// Nothing that can be understood, with the code and the reason.
    Refused(i64, String),
}

/// Returns the next message; nothing at the end of the input. Empty lines are none.
///
/// # Errors
/// As reading.
pub(super) fn next(input: &mut impl BufRead) -> Result<Option<Message>> {
    loop {
        let mut line = Vec::new();
        input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(None);
        }
        let is_whole = line.ends_with(b"\n");
        if !is_whole && line.len() as u64 >= LINE_BYTES_MAX {
            drop(line);
            input.skip_until(b'\n')?;
            let why = format!("a line is longer than {LINE_BYTES_MAX} bytes");
            return Ok(Some(Message::Refused(NO_REQUEST, why)));
        }
        if !line.trim_ascii().is_empty() {
            return Ok(Some(read(&line)));
        }
    }
}

fn read(line: &[u8]) -> Message {
    let Ok(mut value) = serde_json::from_slice::<Value>(line) else {
        return Message::Refused(NO_JSON, "the line is not JSON".to_owned());
    };
    let is_ours = value["jsonrpc"] == "2.0";
    let Some(method) = value["method"].as_str().filter(|_| is_ours).map(str::to_owned) else {
        return Message::Refused(NO_REQUEST, "the line is not a request".to_owned());
    };
    let params = value["params"].take();
    match value.get_mut("id").map(Value::take) {
        None => Message::Notice { method, params },
        Some(id) if is_id(&id) => Message::Request { id, method, params },
        Some(_) => Message::Refused(NO_REQUEST, "an id must be a string or a number".to_owned()),
    }
}

fn is_id(id: &Value) -> bool {
    match id {
        Value::String(text) => text.len() <= ID_BYTES_MAX,
        other => other.is_number(),
    }
}

/// Returns an answer.
pub(super) fn result(id: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

/// Returns the answer to what cannot be done.
pub(super) fn refusal(id: &Value, code: i64, why: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": why}})
}
