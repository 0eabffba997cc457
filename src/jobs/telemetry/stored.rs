//! Reads the stored stream of an agent's run: `stream.ndjson`.

use camino::Utf8Path;
use serde_json::{Value, json};

use crate::base::Result;
use crate::jobs::telemetry::{STREAM_FILE, STREAM_FILE_BYTES_MAX};
use crate::process::{JobFolder, is_usurped};

/// The prefix of an entry that contains its type, in bytes.
const HEAD_BYTES: usize = 120;

/// Reads a job's stream; empty if there is none.
fn stream_bytes(dir: &Utf8Path) -> Result<Vec<u8>> {
    let Some(folder) = JobFolder::open(dir)? else { return Ok(Vec::new()) };
    Ok(folder.read(STREAM_FILE, STREAM_FILE_BYTES_MAX)?.unwrap_or_default())
}

/// Returns up to `limit` entries of a job's stream after a sequence number.
///
/// # Errors
/// `unavailable` if the file cannot be read.
pub fn read_stream(dir: &Utf8Path, after: u64, limit: usize) -> Result<Vec<Value>> {
    let bytes = stream_bytes(dir)?;
    let mut entries = Vec::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        // The last line may be incomplete; the next read returns it.
        let Ok(entry) = serde_json::from_slice::<Value>(line) else { continue };
        if entry["seq"].as_u64().is_some_and(|seq| seq > after) {
            entries.push(entry);
            if entries.len() >= limit {
                break;
            }
        }
    }
    Ok(entries)
}

/// Returns the last `limit` entries of a job's stream, and a summary of all: `{"entries", "texts",
/// "tool_calls", "model", "usage"}`.
///
/// # Errors
/// `unavailable` if the file cannot be read.
pub fn read_stream_end(dir: &Utf8Path, limit: usize) -> Result<(Vec<Value>, Value)> {
    let bytes = match stream_bytes(dir) {
        // If an agent replaced its stream by something else, it is not read; the job is still
        // shown.
        Err(cause) if is_usurped(&cause) => Vec::new(),
        bytes => bytes?,
    };
    // The last line may be incomplete.
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let lines = match lines.split_last() {
        Some((last, before)) if !last.ends_with(b"\n") => before,
        _ => &lines,
    };
    let (mut texts, mut tool_calls, mut model, mut usage) = (0, 0, Value::Null, Value::Null);
    for line in lines {
        // Each begins with a number, a time and its type.
        let head = String::from_utf8_lossy(&line[..line.len().min(HEAD_BYTES)]);
        let word = head.split_once("\"type\":\"").and_then(|(_, it)| it.split('"').next());
        let whole = || serde_json::from_slice::<Value>(line).unwrap_or_default();
        match word {
            Some("text") => texts += 1,
            Some("tool_call") => tool_calls += 1,
            // The agent has the same uid and may have written anything.
            Some("start") => {
                model = whole().get_mut("model").map(Value::take).unwrap_or_default();
            }
            Some("usage") => usage = whole(),
            _ => {}
        }
    }
    let sums = json!({
        "entries": lines.len(), "texts": texts, "tool_calls": tool_calls, "model": model,
        "usage": usage,
    });
    let last = lines[lines.len().saturating_sub(limit)..].iter();
    Ok((last.filter_map(|it| serde_json::from_slice(it).ok()).collect(), sums))
}
