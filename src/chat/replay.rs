//! Reading the stream of an answer back from its file.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::Value;

use crate::base::Result;
use crate::chat::STREAM_FILE;
use crate::process::JobFolder;

/// Largest stream of an answer; the last of it is for its ending.
pub(super) const STREAM_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Most bytes read at one time.
const CHUNK_BYTES_MAX: u64 = 256 * 1024;

/// Follows the file of an answer, line by line.
#[derive(Debug)]
pub struct Tail {
    dir: Utf8PathBuf,
    offset: u64,
    /// The number of the last line that was read.
    pub last_seq: u64,
}

impl Tail {
    /// Returns one that begins at the start of the file.
    pub fn new(dir: &Utf8Path) -> Tail {
        Tail { dir: dir.to_owned(), offset: 0, last_seq: 0 }
    }

    /// Returns the whole lines that are new, up to some hundred KiB of them; none if there are
    /// none, or no file. A line without its end is being written.
    ///
    /// # Errors
    /// `unavailable` if the file cannot be read.
    pub fn read(&mut self) -> Result<Vec<(u64, String)>> {
        let Some(folder) = JobFolder::open(&self.dir)? else { return Ok(Vec::new()) };
        let mut want = CHUNK_BYTES_MAX;
        loop {
            let Some(bytes) = folder.read_from(STREAM_FILE, self.offset, want)? else {
                return Ok(Vec::new());
            };
            let Some(end) = bytes.iter().rposition(|it| *it == b'\n') else {
                // One line is longer than a chunk.
                if bytes.len() as u64 == want && want < STREAM_BYTES_MAX {
                    want *= 4;
                    continue;
                }
                return Ok(Vec::new());
            };
            self.offset += end as u64 + 1;
            let lines = String::from_utf8_lossy(&bytes[..=end]).into_owned();
            let numbered = |line: &str| {
                let seq = serde_json::from_str::<Value>(line).ok()?["seq"].as_u64()?;
                Some((seq, format!("{line}\n")))
            };
            let lines: Vec<(u64, String)> = lines.lines().filter_map(numbered).collect();
            if let Some((seq, _)) = lines.last() {
                self.last_seq = *seq;
            }
            return Ok(lines);
        }
    }

    /// Returns how many bytes were read.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }
}

/// What the items of an answer add up to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sum {
    /// The number of the last item.
    pub last_seq: u64,
    /// The text of each step that counts.
    pub texts: BTreeMap<u32, String>,
    /// The last status whose word is that of an error.
    pub fault: Option<(String, String)>,
    /// Bytes of each step that were ever told, also those that were taken back.
    pub(super) told: BTreeMap<u32, usize>,
    /// How many items of the other types there are.
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
                return;
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

/// The words of a status by which a run ends.
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
            | "stalled"
            | "rate_limited"
            | "overloaded"
            | "refused"
            | "context_full"
            | "auth_invalid"
            | "model_not_found"
            | "bad_answer"
            | "internal"
    )
}

/// Returns what the items of an answer add up to; nothing without a file.
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
