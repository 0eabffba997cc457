//! Parses server-sent events from a byte stream.

use crate::base::{Error, ErrorKind, Result};

/// One event of the stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The `id:` field, if any.
    pub id: Option<String>,
    /// The `event:` field; empty if absent.
    pub event: String,
    /// The `data:` lines, joined by line feeds.
    pub data: String,
}

/// An incremental parser of a stream.
#[derive(Debug)]
pub struct Frames {
    bytes_max: usize,
    line: Vec<u8>,
    frame: Frame,
    has_data: bool,
    bytes: usize,
    after_return: bool,
}

impl Frames {
    /// Returns a parser that refuses an event of more than `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Frames {
        Frames {
            bytes_max,
            line: Vec::new(),
            frame: Frame::default(),
            has_data: false,
            bytes: 0,
            after_return: false,
        }
    }

    /// Parses some bytes and returns the events that they complete.
    ///
    /// # Errors
    /// `too_large` if an event exceeds the limit.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Frame>> {
        let mut complete = Vec::new();
        for &byte in bytes {
            let was_return = std::mem::replace(&mut self.after_return, byte == b'\r');
            match byte {
                b'\n' if was_return => {}
                b'\n' | b'\r' => self.end_line(&mut complete),
                _ => {
                    self.bytes += 1;
                    if self.bytes > self.bytes_max {
                        let message = "an event of the server is too long";
                        return Err(Error::new(ErrorKind::TooLarge, message));
                    }
                    self.line.push(byte);
                }
            }
        }
        Ok(complete)
    }

    fn end_line(&mut self, complete: &mut Vec<Frame>) {
        let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned();
        if line.is_empty() {
            let frame = std::mem::take(&mut self.frame);
            self.bytes = 0;
            // An id alone counts as an event, too: the server may advance the cursor without one.
            if std::mem::take(&mut self.has_data) || frame.id.is_some() || !frame.event.is_empty() {
                complete.push(frame);
            }
            return;
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if self.has_data {
                    self.frame.data.push('\n');
                }
                self.has_data = true;
                self.frame.data.push_str(value);
            }
            "event" => value.clone_into(&mut self.frame.event),
            "id" if !value.contains('\0') => self.frame.id = Some(value.to_owned()),
            // A comment (the heartbeat) does not count toward the size of the event around it.
            "" => self.bytes = self.bytes.saturating_sub(line.len()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES_MAX: usize = 4096;
    const STREAM: &str = "retry: 10\n\n: beat\n\nid: a-1\nevent: job_started\n\
        data: {\"a\":\ndata: 1}\n\nevent: reset\ndata\r\n\r\nid: a-2\n\n";

    #[test]
    fn events_are_the_same_however_the_bytes_arrive() {
        let whole = Frames::new(BYTES_MAX).feed(STREAM.as_bytes()).unwrap();
        assert_eq!(whole.len(), 3);
        assert_eq!(whole[0].id.as_deref(), Some("a-1"));
        assert_eq!(whole[0].data, "{\"a\":\n1}");
        assert_eq!(whole[1].event, "reset");
        assert_eq!(whole[2].id.as_deref(), Some("a-2"));
        for size in 1..STREAM.len() {
            let mut frames = Frames::new(BYTES_MAX);
            let cut: Vec<Frame> = STREAM
                .as_bytes()
                .chunks(size)
                .flat_map(|chunk| frames.feed(chunk).unwrap())
                .collect();
            assert_eq!(cut, whole, "{size}");
        }
    }

    #[test]
    fn a_stream_of_heartbeats_is_not_an_event_without_an_end() {
        let mut frames = Frames::new(BYTES_MAX);
        let beat = b": beat\n".repeat(BYTES_MAX / 2);
        assert!(frames.feed(&beat).unwrap().is_empty());
        assert!(frames.feed(&vec![b'x'; BYTES_MAX + 1]).is_err());
    }
}
