//! Reads an answer's stream back from its file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::Value;

use crate::base::{Context, ErrorKind, Result};
use crate::chat::STREAM_FILE;
use crate::process::JobFolder;

/// Largest stream of an answer, including room for its ending.
pub(super) const STREAM_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// How much is read at first.
const FIRST_BYTES: usize = 4 * 1024;
/// Most bytes read at once.
const CHUNK_BYTES_MAX: u64 = 256 * 1024;

/// Follows the file of an answer, line by line.
#[derive(Debug)]
pub struct Tail {
    dir: Utf8PathBuf,
    /// The file, once it was there.
    file: Option<File>,
    offset: u64,
    /// Lines up to this number are skipped.
    after: u64,
    /// The number of the last line that was read or skipped.
    pub last_seq: u64,
    /// Whether the last look read all there was.
    pub is_drained: bool,
}

impl Tail {
    /// Returns one that begins at the start of the file.
    pub fn new(dir: &Utf8Path) -> Tail {
        Tail::after(dir, 0)
    }

    /// Returns one that skips the lines up to a number.
    pub fn after(dir: &Utf8Path, seq: u64) -> Tail {
        Tail {
            dir: dir.to_owned(),
            file: None,
            offset: 0,
            after: seq,
            last_seq: 0,
            is_drained: false,
        }
    }

    /// Returns complete new lines, up to a few hundred KiB; none if there are none, or no file. A
    /// line without a line break is still being written.
    ///
    /// # Errors
    /// `unavailable` if the file cannot be read.
    pub fn read(&mut self) -> Result<Vec<(u64, String)>> {
        self.is_drained = true;
        if self.file.is_none() {
            let Some(folder) = JobFolder::open(&self.dir)? else { return Ok(Vec::new()) };
            self.file = folder.reader(STREAM_FILE)?;
        }
        let Some(file) = &self.file else { return Ok(Vec::new()) };
        let mut want = CHUNK_BYTES_MAX;
        loop {
            let failed = || format!("cannot read {STREAM_FILE} in {}", self.dir);
            let bytes = part(file, self.offset, want).context(ErrorKind::Unavailable, failed)?;
            let Some(end) = bytes.iter().rposition(|it| *it == b'\n') else {
                // One line is longer than a chunk.
                if bytes.len() as u64 == want && want < STREAM_BYTES_MAX {
                    want *= 4;
                    continue;
                }
                return Ok(Vec::new());
            };
            self.offset += end as u64 + 1;
            self.is_drained = (bytes.len() as u64) < want;
            let mut lines = Vec::new();
            for line in bytes[..=end].split_inclusive(|it| *it == b'\n') {
                let Some(seq) = number_of(line) else { continue };
                self.last_seq = seq;
                if seq > self.after {
                    lines.push((seq, String::from_utf8_lossy(line).into_owned()));
                }
            }
            if !lines.is_empty() {
                return Ok(lines);
            }
        }
    }

    /// Returns how many bytes were read.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }
}

/// Reads a part of a file. A token is short, and is read at once.
fn part(file: &File, offset: u64, bytes_max: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; FIRST_BYTES.min(bytes_max as usize)];
    let count = file.read_at(&mut bytes, offset)?;
    bytes.truncate(count);
    if count == FIRST_BYTES {
        let mut rest = file;
        rest.seek(SeekFrom::Start(offset + count as u64))?;
        rest.take(bytes_max - count as u64).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// Returns the number of an item from its line. A line begins with its type and its number, so only
/// a line that another program wrote is parsed.
fn number_of(line: &[u8]) -> Option<u64> {
    let known = || {
        let rest = line.strip_prefix(b"{\"type\":\"")?;
        let end = rest.iter().take(32).position(|it| *it == b'"')?;
        let rest = rest.get(end..)?.strip_prefix(b"\",\"seq\":")?;
        let digits = rest.iter().take(20).position(|it| !it.is_ascii_digit())?;
        std::str::from_utf8(rest.get(..digits)?).ok()?.parse().ok()
    };
    known().or_else(|| serde_json::from_slice::<Value>(line).ok()?["seq"].as_u64())
}

/// The sum of an answer's items.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sum {
    /// The number of the last item.
    pub last_seq: u64,
    /// The text of each step, without what was withdrawn.
    pub texts: BTreeMap<u32, String>,
    /// The last status with an error code.
    pub fault: Option<(String, String)>,
    /// The last report of tokens and cost.
    pub usage: Option<Value>,
    /// Bytes of text after that report.
    pub unreported: usize,
    /// Bytes of text ever written per step, including withdrawn ones.
    pub(super) told: BTreeMap<u32, usize>,
    /// The number of items of each other type.
    pub(super) counts: BTreeMap<String, usize>,
}

impl Sum {
    pub(super) fn add(&mut self, seq: u64, line: &str) {
        let Ok(item) = serde_json::from_str::<Value>(line) else { return };
        self.last_seq = seq;
        let word = item["type"].as_str().unwrap_or_default();
        let step = item["step"].as_u64().and_then(|it| u32::try_from(it).ok()).unwrap_or(0);
        match word {
            "text" => {
                let delta = item["delta"].as_str().unwrap_or_default();
                self.texts.entry(step).or_default().push_str(delta);
                *self.told.entry(step).or_default() += delta.len();
                self.unreported += delta.len();
                return;
            }
            "usage" => {
                self.usage = Some(item.clone());
                self.unreported = 0;
            }
            "reset" => drop(self.texts.remove(&step)),
            "status" => {
                let of = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
                if is_fault(&of("code")) {
                    self.fault = Some((of("code"), of("message")));
                }
            }
            _ => {}
        }
        *self.counts.entry(word.to_owned()).or_default() += 1;
    }

    /// Returns the texts of all steps, without empty ones.
    pub fn steps(&self) -> impl Iterator<Item = (u32, &str)> {
        let steps = self.texts.iter().map(|(step, text)| (*step, text.trim()));
        steps.filter(|(_, text)| !text.is_empty())
    }
}

/// Whether a status code ends the run.
fn is_fault(code: &str) -> bool {
    matches!(
        code,
        "limit_output"
            | "limit_steps"
            | "limit_money"
            | "held"
            | "key_missing"
            | "key_invalid"
            | "unreachable"
            | "gateway_down"
            | "stalled"
            | "rate_limited"
            | "overloaded"
            | "refused"
            | "context_full"
            | "auth_invalid"
            | "model_not_found"
            | "bad_answer"
            | "disk_full"
            | "internal"
    )
}

/// Returns the sum of an answer's items; `None` without a file.
///
/// # Errors
/// `unavailable` if the file cannot be read.
pub fn sum(dir: &Utf8Path) -> Result<Option<Sum>> {
    let mut tail = Tail::new(dir);
    let sum = sum_by(&mut tail)?;
    Ok((tail.last_seq > 0).then_some(sum))
}

pub(super) fn sum_by(tail: &mut Tail) -> Result<Sum> {
    let mut sum = Sum::default();
    loop {
        let lines = tail.read()?;
        if lines.is_empty() {
            return Ok(sum);
        }
        for (seq, line) in lines {
            sum.add(seq, &line);
        }
    }
}
