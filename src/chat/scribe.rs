//! Writes the stream of an answer: each item is in the file before a reader is woken.
//!
//! **Invariant:** items are numbered from 1 without gaps, even across a restart of the server; the
//! first is `start`.
//! **Invariant:** `error` and `done` are not in the file. Readers get them from the settled row, so
//! they cannot be missing or differ.

use std::fs::File;
use std::io::Write as _;

use camino::Utf8PathBuf;

use crate::base::{Clock, Context, Error, ErrorKind, JobId, Millis, Result, fault};
use crate::chat::replay::{STREAM_BYTES_MAX, Sum, Tail, sum_by};
use crate::chat::{Hub, Item, STREAM_FILE};
use crate::process::JobFolder;

/// Room that is kept for the ending of a stream.
const ENDING_BYTES: u64 = 1024 * 1024;

/// The answer to write.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The run.
    pub run: JobId,
    /// Its folder.
    pub dir: Utf8PathBuf,
    /// Its first item.
    pub start: Item,
    /// When it was requested, which is the time of its first item.
    pub at: Millis,
}

/// Writes the stream of one answer.
#[derive(Debug)]
pub struct Scribe {
    run: JobId,
    file: File,
    seq: u64,
    bytes: u64,
    /// What an earlier server wrote, of the output that is read again.
    before: Sum,
    clock: Clock,
    hub: Hub,
}

impl Scribe {
    /// Opens an answer's stream at its end; a new stream gets its first item.
    ///
    /// # Errors
    /// `unavailable` if the file cannot be read or written.
    pub fn open(answer: &Answer, clock: Clock, hub: Hub) -> Result<Scribe> {
        let folder = JobFolder::make(&answer.dir)?;
        let mut tail = Tail::new(&answer.dir);
        let before = sum_by(&mut tail)?;
        let file = folder.append(STREAM_FILE)?;
        // A server that was killed may have left half a line.
        let failed = || format!("cannot write {STREAM_FILE} in {}", answer.dir);
        file.set_len(tail.offset()).context(ErrorKind::Unavailable, failed)?;
        let mut scribe = Scribe {
            run: answer.run.clone(),
            file,
            seq: before.last_seq,
            bytes: tail.offset(),
            before,
            clock,
            hub,
        };
        if scribe.seq == 0 {
            scribe.write(&answer.start, answer.at)?;
        }
        Ok(scribe)
    }

    /// Appends an item. Items that an earlier server wrote, in the same order, are skipped.
    ///
    /// # Errors
    /// `unavailable` if it cannot be written, with `disk_full` if that is why; `too_large` once the
    /// stream is full.
    pub fn push(&mut self, item: Item) -> Result<()> {
        let item = match item {
            Item::Text { step, delta } => match self.rest_of(step, delta) {
                Some(delta) => Item::Text { step, delta },
                None => return Ok(()),
            },
            other if self.was_told(&other) => return Ok(()),
            other => other,
        };
        if self.bytes > STREAM_BYTES_MAX - ENDING_BYTES && !matches!(item, Item::Status { .. }) {
            return Err(Error::new(ErrorKind::TooLarge, "the stream of this answer is full"));
        }
        self.write(&item, self.clock.now())?;
        fault::crash_point("chat_item");
        Ok(())
    }

    /// Returns the number of the next item.
    pub fn next_seq(&self) -> u64 {
        self.seq + 1
    }

    fn rest_of(&mut self, step: u32, delta: String) -> Option<String> {
        let told = self.before.told.get_mut(&step);
        let Some(told) = told.filter(|it| **it > 0) else { return Some(delta) };
        let known = delta.len().min(*told);
        *told -= known;
        let rest = delta.get(known..).unwrap_or_default();
        (!rest.is_empty()).then(|| rest.to_owned())
    }

    fn was_told(&mut self, item: &Item) -> bool {
        let count = self.before.counts.get_mut(item.word());
        count.filter(|it| **it > 0).map(|it| *it -= 1).is_some()
    }

    fn write(&mut self, item: &Item, at: Millis) -> Result<()> {
        let line = item.line(self.seq + 1, at, &self.run);
        if fault::fails("chat_write") {
            let cause = std::io::ErrorKind::StorageFull.into();
            return Err(Error::of_disk(format!("cannot write {STREAM_FILE}"), cause));
        }
        let failed = || format!("cannot write {STREAM_FILE} of {}", self.run);
        if fault::is_off("scribe_order") {
            self.hub.poke(&self.run);
        }
        let written = self.file.write_all(line.as_bytes());
        written.map_err(|cause| Error::of_disk(failed(), cause))?;
        self.seq += 1;
        self.bytes += line.len() as u64;
        self.hub.poke(&self.run);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use camino::Utf8Path;

    use super::*;
    use crate::chat::sum;

    fn text(step: u32, delta: &str) -> Item {
        Item::Text { step, delta: delta.to_owned() }
    }

    fn answer(dir: &Utf8Path) -> Answer {
        let run: JobId = "018bcfe5-6800-7000-8000-000000000001".parse().unwrap();
        let session_id = "018bcfe5-6800-7000-8000-000000000002".parse().unwrap();
        let start = Item::Start { session_id, mode: "claude_code".to_owned(), model: None };
        let dir = dir.join("jobs").join(run.as_str());
        Answer { dir, run, start, at: Millis(0) }
    }

    fn open(answer: &Answer) -> Scribe {
        Scribe::open(answer, Clock::system(), Hub::default()).unwrap()
    }

    /// After a crash, the output is read again from its beginning.
    #[test]
    fn a_stream_that_is_said_again_goes_on_where_it_ended() {
        let folder = tempfile::tempdir().unwrap();
        let answer = answer(Utf8Path::from_path(folder.path()).unwrap());
        let mut scribe = open(&answer);
        scribe.push(text(1, "Hel")).unwrap();
        scribe.push(text(1, "lo")).unwrap();
        drop(scribe);
        let path = answer.dir.join(STREAM_FILE);
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"type\":\"text\",\"seq\":4,\"st").unwrap();
        let mut scribe = open(&answer);
        let usage =
            Item::Usage { input: 1, output: 2, cache_read: 0, cache_write: 0, cost_usd: None };
        for item in [text(1, "He"), text(1, "llo, wor"), text(1, "ld"), usage.clone()] {
            scribe.push(item).unwrap();
        }
        let mut scribe = open(&answer);
        scribe.push(text(1, "Hello, world")).unwrap();
        scribe.push(usage).unwrap();
        let found = sum(&answer.dir).unwrap().unwrap();
        assert_eq!(found.texts[&1], "Hello, world");
        let lines = std::fs::read_to_string(&path).unwrap();
        let numbers: Vec<u64> = lines
            .lines()
            .map(|it| serde_json::from_str::<serde_json::Value>(it).unwrap()["seq"].as_u64())
            .map(Option::unwrap)
            .collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
        assert_eq!(found.last_seq, 6);
    }

    /// Fails with `WB_WITHOUT=scribe_order`.
    #[test]
    fn what_cannot_be_written_wakes_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let answer = answer(Utf8Path::from_path(folder.path()).unwrap());
        let mut scribe = open(&answer);
        let mut reader = scribe.hub.follow(&answer.run);
        scribe.push(text(1, "a")).unwrap();
        assert!(reader.has_changed().unwrap());
        reader.mark_unchanged();
        // As on a full disk: the file takes nothing.
        scribe.file = File::open(answer.dir.join(STREAM_FILE)).unwrap();
        scribe.push(text(1, "b")).unwrap_err();
        assert!(!reader.has_changed().unwrap());
        assert_eq!(sum(&answer.dir).unwrap().unwrap().texts[&1], "a");
    }

    #[test]
    fn a_reset_takes_the_text_of_its_step_back() {
        let folder = tempfile::tempdir().unwrap();
        let answer = answer(Utf8Path::from_path(folder.path()).unwrap());
        let mut scribe = open(&answer);
        for item in [text(1, "a"), text(2, "b"), Item::Reset { step: 2, from_seq: 3 }, text(2, "c")]
        {
            scribe.push(item).unwrap();
        }
        let found = sum(&answer.dir).unwrap().unwrap();
        assert_eq!(found.steps().collect::<Vec<_>>(), [(1, "a"), (2, "c")]);
    }
}
