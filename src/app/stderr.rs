//! Standard error as the target of the log.
//!
//! **Invariant:** writing a line never fails, never panics, and waits for a slow reader only
//! briefly: a full disk, a closed pipe or a stopped log shipper costs lines and nothing else.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

use crate::app::LogFormat;
use crate::base::Clock;
use crate::process;

/// How long a line waits for a full pipe; the lines after it do not wait.
const PATIENCE: Duration = Duration::from_millis(50);
/// Bytes that a writable pipe accepts at once (PIPE_BUF).
const PIECE_BYTES: usize = 4_096;

/// The target of the log.
pub(super) struct Target<W>(Arc<Mutex<State<W>>>);

struct State<W> {
    to: W,
    format: LogFormat,
    clock: Clock,
    /// Number of lost lines since the last write.
    lost: u64,
    /// Whether the last line was cut in the middle.
    is_torn: bool,
    is_stalled: bool,
}

/// One entry of the log.
pub(super) struct Line<W>(Arc<Mutex<State<W>>>);

impl<W: Write + AsFd> Target<W> {
    pub(super) fn new(to: W, format: LogFormat, clock: Clock) -> Target<W> {
        let (lost, is_torn, is_stalled) = Default::default();
        Target(Arc::new(Mutex::new(State { to, format, clock, lost, is_torn, is_stalled })))
    }
}

impl<'w, W: Write + AsFd + 'w> MakeWriter<'w> for Target<W> {
    type Writer = Line<W>;

    fn make_writer(&'w self) -> Line<W> {
        Line(Arc::clone(&self.0))
    }
}

impl<W: Write + AsFd> Write for Line<W> {
    /// Writes a whole entry; a failed one is counted.
    fn write(&mut self, entry: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).put(entry);
        Ok(entry.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<W: Write + AsFd> State<W> {
    fn put(&mut self, entry: &[u8]) {
        if self.lost > 0 {
            let note = self.note();
            if !self.write_whole(note.as_bytes()) {
                self.lost += 1;
                return;
            }
            self.lost = 0;
        }
        if !self.write_whole(entry) {
            self.lost += 1;
        }
    }

    fn note(&self) -> String {
        let at = self.clock.now().rfc3339();
        let lines = if self.lost == 1 { "line" } else { "lines" };
        let message = format!("{} {lines} of the log could not be written", self.lost);
        match self.format {
            LogFormat::Text => format!("{at}  WARN {message}\n"),
            LogFormat::Json => {
                format!("{{\"timestamp\":\"{at}\",\"level\":\"WARN\",\"message\":\"{message}\"}}\n")
            }
        }
    }

    fn write_whole(&mut self, entry: &[u8]) -> bool {
        if self.is_torn {
            // The rest of the last line must not become the start of this one.
            if !matches!(self.write_piece(b"\n"), Ok(1)) {
                return false;
            }
            self.is_torn = false;
        }
        let mut left = entry;
        while !left.is_empty() {
            match self.write_piece(&left[..left.len().min(PIECE_BYTES)]) {
                Ok(count) if count > 0 => left = &left[count..],
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => {
                    self.is_torn |= left.len() < entry.len();
                    return false;
                }
            }
        }
        true
    }

    fn write_piece(&mut self, piece: &[u8]) -> io::Result<usize> {
        let patience = if self.is_stalled { Duration::ZERO } else { PATIENCE };
        self.is_stalled = !process::is_writable(self.to.as_fd(), patience)?;
        match self.is_stalled {
            true => Err(io::ErrorKind::WouldBlock.into()),
            false => self.to.write(piece),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;
    use crate::base::Millis;

    fn target<W: Write + AsFd>(to: W, format: LogFormat) -> Target<W> {
        Target::new(to, format, Clock::fixed(Millis(1_767_323_045_678)))
    }

    fn put<W: Write + AsFd>(target: &Target<W>, entry: &str) {
        target.make_writer().write_all(entry.as_bytes()).unwrap();
    }

    #[test]
    fn lines_that_a_full_pipe_did_not_take_are_counted() {
        for format in [LogFormat::Text, LogFormat::Json] {
            let (mut from, to) = io::pipe().unwrap();
            let target = target(to, format);
            let line = format!("{}\n", "x".repeat(999));
            // More than any pipe holds: a blocking writer would never return.
            let count = 4_096;
            (0..count).for_each(|_| put(&target, &line));
            let lost = target.0.lock().unwrap().lost;
            assert!(lost > 0 && lost < count, "{lost}");
            let mut held = vec![0; usize::try_from(count - lost).unwrap() * line.len()];
            from.read_exact(&mut held).unwrap();
            put(&target, "after\n");
            drop(target);
            let mut rest = String::new();
            from.read_to_string(&mut rest).unwrap();
            let note = format!("{lost} lines of the log could not be written");
            let mut told = rest.lines().rev();
            assert_eq!(told.next(), Some("after"));
            let told = told.next().unwrap();
            match format {
                LogFormat::Text => {
                    assert_eq!(told, format!("2026-01-02T03:04:05.678Z  WARN {note}"));
                }
                LogFormat::Json => {
                    let told: serde_json::Value = serde_json::from_str(told).unwrap();
                    assert_eq!(told["message"], note);
                }
            }
        }
    }

    #[test]
    fn a_closed_pipe_and_a_full_disk_cost_lines_only() {
        let (from, to) = io::pipe().unwrap();
        drop(from);
        let closed = target(to, LogFormat::Text);
        put(&closed, "one\n");
        put(&closed, "two\n");
        // The second line fails together with the note about the first.
        assert_eq!(closed.0.lock().unwrap().lost, 2);
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let full = target(full, LogFormat::Text);
        put(&full, "one\n");
        assert_eq!(full.0.lock().unwrap().lost, 1);
    }
}
