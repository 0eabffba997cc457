//! Telemetry of a running agent: `stream.ndjson`, usage, cost, its final result.
//!
//! **Invariant:** nothing here decides whether a job succeeded; exit status and the promised row
//! do.
//! **Invariant:** memory is bounded: a line longer than [`LINE_BYTES_MAX`] is passed over.

use std::fs::File;
use std::io::Write as _;

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Value, json};

use crate::base::{Clock, Context, DISK_FULL, ErrorKind, Millis, NO_ROOM, Result, truncate_chars};
use crate::jobs::Listener;
use crate::jobs::speak::veil::Veil;
use crate::jobs::speak::{Fact, Hearing, Noted, Told, hooks};
use crate::jobs::telemetry::remark::{Refusal, Remark};
use crate::process::{JobFolder, Stream, read_output};
use crate::script::{Reads, Speaks};

mod calls;
mod claude;
mod codex;
mod cover;
mod gemini;
pub(in crate::jobs) mod limit;
mod opencode;
mod plain;
mod reading;
pub(in crate::jobs) mod remark;
mod restored;
pub(in crate::jobs) mod step;
mod stored;
mod tally;
mod unended;

use reading::Reading;
pub(in crate::jobs) use reading::Turn;
pub use stored::{read_stream, read_stream_end};

/// Longest line of an agent's output that is parsed, in bytes.
const LINE_BYTES_MAX: usize = crate::base::limit::STREAM_LINE_BYTES_MAX;
/// Most bytes read from the output at a time.
const CHUNK_BYTES_MAX: usize = 256 * 1024;
/// Largest stream file, in bytes; later entries are counted but not stored.
const STREAM_BYTES_MAX: u64 = crate::base::limit::STREAM_BYTES_MAX;
/// The same including the last line; a larger file was not written by us.
const STREAM_FILE_BYTES_MAX: u64 = STREAM_BYTES_MAX + 1024 * 1024;
/// Longest text of one entry, in characters.
const TEXT_CHARS_MAX: usize = 16 * 1024;
/// Longest name of a model or session, in characters.
const NAME_CHARS_MAX: usize = 100;
/// Most remarks of the server in the stream of one job.
const REMARKS_MAX: usize = 200;

/// What is known about an agent's run.
#[derive(Clone, Debug, Default)]
pub(super) struct Report {
    /// Its last words.
    pub(super) summary: Option<String>,
    /// Tokens and turns.
    pub(super) usage: Option<Value>,
    /// Its cost.
    pub(super) cost_usd: Option<f64>,
    /// The engine's session id.
    pub(super) session_ref: Option<String>,
    /// Whether the agent declared its result an error.
    pub(super) is_error: bool,
    /// Its last line in another format: an agent that cannot work at all says so in plain text.
    pub(super) stray: Option<String>,
    /// What it was doing last, for people in case of a timeout.
    pub(super) doing: Option<String>,
    /// Whether its last call was interrupted while it ran.
    is_cut_in_call: bool,
    /// The provider's rate limit that stopped it, if nothing followed.
    pub(super) limit: Option<limit::Limit>,
    /// Its last refused request.
    pub(super) refusal: Option<Refusal>,
    /// What the engine itself warned of, for the job's row.
    pub(super) warnings: Vec<String>,
    /// Why its listener could not go on, although it had more to say.
    pub(super) unheard: Option<String>,
    /// Tokens: what a line told as the total, and what was reported since.
    told: tally::Tally,
    tally: tally::Tally,
    /// Text of the agent that may continue.
    open_text: String,
}

/// Returns a value as text.
fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// The file in a job's folder with the entries.
const STREAM_FILE: &str = "stream.ndjson";

/// Follows the output of one job.
pub(super) struct Telemetry {
    dir: Utf8PathBuf,
    reads: Option<Reads>,
    clock: Clock,
    offset: u64,
    partial: Vec<u8>,
    is_skipping: bool,
    seq: u64,
    file: Option<File>,
    written: u64,
    calls: calls::Calls,
    remarks: usize,
    report: Report,
    veil: Veil,
    hearing: Option<Hearing>,
    facts: Vec<Noted>,
    unended: Option<unended::Unended>,
    /// Offset of the end of the current line in the output.
    at: u64,
    /// Output before this offset was processed by an earlier server.
    heard: u64,
    /// How much output the guard has announced.
    announced: u64,
    /// Whether output is missing or unreadable, so that the agent cannot be followed.
    is_deaf: bool,
    /// What its session had spent before.
    restored: restored::Restored,
    listener: Option<Box<dyn Listener>>,
    /// Whether the listener wants the agent to end.
    is_enough: bool,
}

impl Telemetry {
    pub(super) fn new(dir: &Utf8Path, reads: Option<Reads>, clock: Clock) -> Telemetry {
        Telemetry {
            dir: dir.to_owned(),
            reads,
            clock,
            offset: 0,
            partial: Vec::new(),
            is_skipping: false,
            seq: 0,
            file: None,
            written: 0,
            calls: calls::Calls::default(),
            remarks: 0,
            report: Report::default(),
            veil: Veil::default(),
            hearing: None,
            facts: Vec::new(),
            unended: None,
            at: 0,
            heard: 0,
            announced: 0,
            is_deaf: false,
            restored: restored::Restored::of(dir, reads),
            listener: None,
            is_enough: false,
        }
    }

    /// Sets a listener for every line.
    #[must_use]
    pub(super) fn heard_by(mut self, listener: Option<Box<dyn Listener>>) -> Telemetry {
        self.listener = listener;
        self
    }

    /// Returns whether whoever hears the agent wants it to end, or nobody can speak to it.
    pub(super) fn is_enough(&self) -> bool {
        self.is_enough || self.hearing.as_ref().is_some_and(Hearing::is_lost)
    }

    fn tell(&mut self, hear: impl FnOnce(&mut dyn Listener) -> Result<bool>) {
        let Some(listener) = self.listener.as_mut().filter(|_| !self.is_enough) else { return };
        match hear(listener.as_mut()) {
            Ok(goes_on) => self.is_enough = !goes_on,
            Err(cause) => {
                tracing::error!("what an agent says cannot be kept: {}", cause.chain());
                let is_full = cause.code_str() == DISK_FULL;
                let why = if is_full { NO_ROOM } else { cause.message() };
                self.report.unheard = Some(why.to_owned());
                self.is_enough = true;
            }
        }
    }

    /// Enables tracking the turns of a long-lived agent.
    pub(super) fn hearing(mut self, speaks: Option<Speaks>) -> Telemetry {
        self.hearing = speaks.map(Hearing::new);
        self
    }

    /// Returns what is known of an agent that lives on.
    pub(super) fn told(&mut self) -> Option<Told> {
        self.hearing.as_mut().map(Hearing::told)
    }

    /// Records that somebody ended the current turn.
    pub(super) fn cut(&mut self) {
        let facts = self.hearing.as_mut().map(Hearing::cut).unwrap_or_default();
        if !facts.is_empty() {
            // No line corresponds to it, so no output counts as processed by it.
            self.facts.push(Noted { at: 0, facts });
        }
    }

    /// Skips what an earlier server has processed.
    pub(super) fn heard_until(mut self, heard: u64) -> Telemetry {
        self.heard = heard;
        self
    }

    /// Records how much the agent has printed so far.
    pub(super) fn announce(&mut self, bytes_total: u64) {
        self.announced = self.announced.max(bytes_total);
    }

    /// Returns whether the output of a long-lived agent is unavailable: it must end then, since
    /// nobody would hear it.
    pub(super) fn is_deaf(&self) -> bool {
        self.is_deaf && self.hearing.is_some()
    }

    /// Takes the facts about turns found since the last call.
    pub(super) fn take_facts(&mut self) -> Vec<Noted> {
        std::mem::take(&mut self.facts)
    }

    /// Returns a reader that starts over: an earlier server's stream file is dropped.
    pub(super) fn afresh(dir: &Utf8Path, reads: Option<Reads>, clock: Clock) -> Result<Telemetry> {
        if let Some(folder) = JobFolder::open(dir)? {
            let failed = || format!("cannot replace {STREAM_FILE} in {dir}");
            folder.remove(STREAM_FILE).context(ErrorKind::Unavailable, failed)?;
        }
        Ok(Telemetry::new(dir, reads, clock))
    }

    pub(super) fn report(&self) -> &Report {
        &self.report
    }

    /// Returns whether the agent waits for a tool, during which silence is no sign of a stall.
    pub(in crate::jobs) fn is_in_call(&self) -> bool {
        self.calls.is_open()
    }

    /// Adds the server's remarks to the agent's stream, up to a limit.
    ///
    /// # Errors
    /// `unavailable` if the file cannot be written.
    pub(super) fn remark(&mut self, remarks: Vec<Remark>) -> Result<()> {
        for remark in remarks {
            self.remarks += 1;
            let entry = match remark {
                Remark::Refused(refusal) => {
                    let entry = refusal.entry();
                    // Trying to access something foreign must not hide a refusal of its actual
                    // work.
                    if !refusal.is_of_rights() || self.report.refusal.is_none() {
                        self.report.refusal = Some(refusal);
                    }
                    entry
                }
                Remark::Changed { tool, input } => {
                    json!({"type": "changed", "name": tool, "input": input})
                }
            };
            if self.remarks <= REMARKS_MAX {
                self.append(entry)?;
            }
        }
        Ok(())
    }

    /// Reads new output. Returns what that tells of the agent's turn.
    ///
    /// # Errors
    /// `unavailable` if the files of the job cannot be read or written.
    pub(super) fn pump(&mut self) -> Result<Option<Turn>> {
        if self.reads.is_none() {
            return Ok(None);
        }
        let mut turn = None;
        loop {
            let read = read_output(&self.dir, Stream::Stdout, self.offset, CHUNK_BYTES_MAX);
            self.is_deaf |= read.is_err();
            let chunk = read?;
            if chunk.bytes.is_empty() {
                self.is_deaf |= chunk.total == 0 && self.announced.max(self.heard) > 0;
                return Ok(turn);
            }
            if chunk.offset != self.offset {
                // Part of the output was cut: the rest of the line there is useless.
                self.partial.clear();
                self.is_skipping = true;
                self.calls.lose();
                self.tell(|listener| listener.gap());
                let facts = self.hearing.as_mut().map(Hearing::lose).unwrap_or_default();
                self.hear(chunk.offset, facts);
                self.append(json!({"type": "reset", "cut_bytes": chunk.offset - self.offset}))?;
            }
            self.offset = chunk.next_offset;
            self.at = chunk.offset;
            turn = self.take(&chunk.bytes)?.or(turn);
        }
    }

    /// Reads a last line without a line break.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.pump()?;
        let rest = std::mem::take(&mut self.partial);
        if !rest.is_empty() && !self.is_skipping {
            self.line(&rest)?;
        }
        self.end_turn();
        self.tell(|listener| listener.end().map(|()| true));
        let last = gemini::end_of_text(&mut self.report);
        self.keep(last.into_iter().collect())
    }

    fn take(&mut self, bytes: &[u8]) -> Result<Option<Turn>> {
        let mut turn = None;
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.at += piece.len() as u64;
            let is_whole = piece.ends_with(b"\n");
            if !self.is_skipping {
                self.partial.extend_from_slice(piece);
            }
            if self.partial.len() > LINE_BYTES_MAX {
                self.partial.clear();
                self.is_skipping = true;
                self.calls.lose();
                self.tell(|listener| listener.gap());
                let facts = self.hearing.as_mut().map(Hearing::skip_line).unwrap_or_default();
                self.hear(self.at, facts);
                self.append(json!({"type": "text", "text": "[a line of more than 1 MiB]"}))?;
            }
            if is_whole {
                let line = std::mem::take(&mut self.partial);
                if !std::mem::take(&mut self.is_skipping) {
                    turn = self.line(&line)?.or(turn);
                }
            }
        }
        Ok(turn)
    }

    fn line(&mut self, line: &[u8]) -> Result<Option<Turn>> {
        let text = String::from_utf8_lossy(line);
        let text = text.trim();
        if text.is_empty() {
            return Ok(None);
        }
        // Before anything is read of it: what is cut short would hide the rest of a secret.
        let covered = self.veil.cover_line(text);
        let text = &*covered;
        let own = self.restored.without(text);
        let text = own.as_deref().unwrap_or(text);
        self.tell(|listener| listener.line(text));
        let now: Millis = self.clock.now();
        if let Some(hearing) = &mut self.hearing {
            let facts = hearing.line(text);
            self.hear(self.at, facts);
        }
        if let Some(entries) = self.hearing.as_ref().and_then(|it| it.steps(text)) {
            if let Some(said) = entries.iter().rfind(|it| it["type"] == "text") {
                self.report.summary = said["text"].as_str().map(str::to_owned);
            }
            return self.keep(entries).map(|()| None);
        }
        if self.reads != Some(Reads::Plain) && !text.starts_with('{') {
            self.report.stray = Some(truncate_chars(text, TEXT_CHARS_MAX));
        }
        let reading = match self.reads {
            Some(Reads::ClaudeStreamJson) => claude::read_line(text, now, &mut self.report),
            Some(Reads::CodexJsonl) => codex::read_line(text, now, &mut self.report),
            Some(Reads::OpencodeJson) => opencode::read_line(text, now, &mut self.report),
            Some(Reads::GeminiStreamJson) => gemini::read_line(text, now, &mut self.report),
            Some(Reads::Plain) if self.hearing.as_ref().is_some_and(Hearing::is_by_hooks) => {
                match hooks::words(text) {
                    Some(words) => plain::read_line(&words, now, &mut self.report),
                    None => return Ok(None),
                }
            }
            Some(Reads::Plain | Reads::PiRpc) => plain::read_line(text, now, &mut self.report),
            None => return Ok(None),
        };
        self.keep(reading.entries)?;
        Ok(reading.turn)
    }

    /// Stores the facts in a line about turns, unless an earlier server processed it.
    fn hear(&mut self, at: u64, mut facts: Vec<Fact>) {
        facts.iter_mut().for_each(|it| self.veil.cover_fact(it));
        if !facts.is_empty() && at > self.heard {
            self.facts.push(Noted { at, facts });
        }
    }

    /// Adds an entry to the stream. If that fails it is skipped: reading continues, since more than
    /// the stream depends on it.
    fn append(&mut self, entry: Value) -> Result<()> {
        if let Err(cause) = self.try_append(entry) {
            tracing::warn!("skipping an entry: {}", cause.chain());
        }
        Ok(())
    }

    fn try_append(&mut self, entry: Value) -> Result<()> {
        self.seq += 1;
        let mut row = json!({"seq": self.seq, "ts": self.clock.now()});
        if let (Some(row), Value::Object(fields)) = (row.as_object_mut(), entry) {
            for (name, value) in fields {
                let value = match value {
                    Value::String(text) => Value::String(truncate_chars(&text, TEXT_CHARS_MAX)),
                    other => other,
                };
                row.insert(name, value);
            }
        }
        let mut line = row.to_string();
        line.push('\n');
        self.written += line.len() as u64;
        if self.written > STREAM_BYTES_MAX {
            return Ok(());
        }
        let failed = || format!("cannot write {STREAM_FILE} in {}", self.dir);
        if self.file.is_none() {
            self.file = Some(JobFolder::make(&self.dir)?.append(STREAM_FILE)?);
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        file.write_all(line.as_bytes()).context(ErrorKind::Unavailable, failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-22T13:30:00Z.
    pub(super) const NOW: Millis = Millis(1_795_354_200_000);

    /// Returns the type of each entry.
    pub(super) fn types(entries: &[Value]) -> Vec<&str> {
        entries.iter().map(|it| it["type"].as_str().unwrap()).collect()
    }

    /// Reads a recorded run: the report, the entries, and how often the end was seen.
    pub(super) fn read_all(
        lines: &str,
        now: Millis,
        read: fn(&str, Millis, &mut Report) -> Reading,
    ) -> (Report, Vec<Value>, usize) {
        let mut report = Report::default();
        let (mut entries, mut ends) = (Vec::new(), 0);
        for line in lines.lines() {
            let reading = read(line, now, &mut report);
            entries.extend(reading.entries);
            ends += usize::from(reading.turn == Some(Turn::Ended));
        }
        (report, entries, ends)
    }

    #[test]
    fn the_end_of_a_stream_has_its_last_entries_and_its_sums() {
        let dir = tempfile::tempdir().unwrap();
        let dir = Utf8Path::from_path(dir.path()).unwrap();
        let (none, sums) = read_stream_end(dir, 2).unwrap();
        assert!(none.is_empty() && sums["entries"] == 0, "{sums}");
        let mut telemetry = Telemetry::new(dir, Some(Reads::Plain), Clock::system());
        telemetry.append(json!({"type": "start", "model": "m-1"})).unwrap();
        for word in ["a", "\"type\":\"usage\"", "c"] {
            telemetry.append(json!({"type": "text", "text": word})).unwrap();
        }
        telemetry.append(json!({"type": "tool_call", "name": "Read"})).unwrap();
        telemetry.append(json!({"type": "usage", "input_tokens": 7})).unwrap();
        let strange = b"[\"x\",{\"type\":\"start\"}]\n{\"seq\":99,\"ty";
        std::io::Write::write_all(telemetry.file.as_mut().unwrap(), strange).unwrap();
        let (last, sums) = read_stream_end(dir, 3).unwrap();
        let types: Vec<Option<&str>> = last.iter().map(|it| it["type"].as_str()).collect();
        assert_eq!(types, [Some("tool_call"), Some("usage"), None]);
        assert_eq!((&sums["texts"], &sums["tool_calls"]), (&json!(3), &json!(1)));
        assert_eq!((&sums["model"], &sums["usage"]["input_tokens"]), (&Value::Null, &json!(7)));
    }
}
