//! Drains the agent's output from its pipes into files of bounded size.
//!
//! **Invariant:** memory is bounded by the size of the tail, and pipes are always drained, even
//! when the disk is full.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};

use crate::base::fault;
use crate::process::guard::mask::{Mask, Secrets};
use crate::process::guard::note;
use crate::process::job_folder::JobFolder;
use crate::process::launch::{OutputCaps, Stream, StreamRecord};
use crate::process::output::{head_name, tail_header, tail_name};

/// Most bytes read from one pipe before the other descriptors get a turn.
const TURN_BYTES_MAX: usize = 1024 * 1024;
/// Largest tail held in memory, whatever the launch file says.
const TAIL_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// One output stream of the agent and its files.
pub(in crate::process::guard) struct Capture {
    folder: JobFolder,
    pub(in crate::process::guard) stream: Stream,
    pipe: Option<OwnedFd>,
    mask: Mask,
    head: Option<File>,
    head_max: u64,
    head_bytes: u64,
    tail: VecDeque<u8>,
    tail_max: usize,
    tail_file: Option<TailFile>,
    total: u64,
    is_announced: bool,
    has_failed: bool,
}

struct TailFile {
    file: File,
    from: u64,
    to: u64,
}

impl Capture {
    pub(in crate::process::guard) fn new(
        folder: &JobFolder,
        stream: Stream,
        caps: OutputCaps,
        secrets: &Secrets,
    ) -> io::Result<Capture> {
        Ok(Capture {
            folder: folder.again()?,
            stream,
            pipe: None,
            mask: Mask::new(secrets),
            head: Some(folder.create(&head_name(stream))?),
            head_max: if fault::is_off("output_caps") { u64::MAX } else { caps.head_bytes },
            head_bytes: 0,
            tail: VecDeque::new(),
            tail_max: usize::try_from(caps.tail_bytes.min(TAIL_BYTES_MAX)).unwrap_or(0),
            tail_file: None,
            total: 0,
            is_announced: true,
            has_failed: false,
        })
    }

    /// Attaches the read end of the agent's pipe.
    pub(in crate::process::guard) fn attach(&mut self, pipe: OwnedFd) -> io::Result<()> {
        fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        self.pipe = Some(pipe);
        Ok(())
    }

    pub(in crate::process::guard) fn pipe(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    pub(in crate::process::guard) fn total(&self) -> u64 {
        self.total
    }

    /// Returns whether there is output that the server has not been told about.
    pub(in crate::process::guard) fn is_news(&self) -> bool {
        !self.is_announced
    }

    pub(in crate::process::guard) fn announced(&mut self) {
        self.is_announced = true;
    }

    /// Reads what is available, up to a fair share. Returns whether anything arrived.
    pub(in crate::process::guard) fn drain(&mut self, buffer: &mut [u8]) -> bool {
        let mut taken = 0;
        while taken < TURN_BYTES_MAX {
            let Some(pipe) = &self.pipe else { break };
            match nix::unistd::read(pipe, buffer) {
                Ok(0) => self.pipe = None,
                Ok(count) => {
                    let printed = self.mask.pass(&buffer[..count]);
                    self.keep(&printed);
                    taken += count;
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                Err(cause) => {
                    note(&format!("reading {} failed: {cause}", self.stream.as_str()));
                    self.pipe = None;
                }
            }
        }
        taken > 0
    }

    /// Brings the tail file up to date.
    pub(in crate::process::guard) fn flush(&mut self) {
        if self.total == self.head_bytes {
            return;
        }
        let start = self.tail_start();
        let total = self.total;
        let room = u64::try_from(self.tail_max).unwrap_or(0).saturating_mul(2);
        let written = match &mut self.tail_file {
            Some(it) if it.to == total => Ok(()),
            Some(it) if it.to >= start && total - it.from <= room => {
                let skip = usize::try_from(it.to - start).unwrap_or(usize::MAX);
                append(&mut it.file, &self.tail, skip).map(|()| it.to = total)
            }
            _ => self.rewrite(),
        };
        self.note_failure(written);
    }

    /// Ends the stream; the tail file then holds exactly the last bytes.
    pub(in crate::process::guard) fn finish(&mut self) -> StreamRecord {
        self.pipe = None;
        let held = self.mask.finish();
        if !held.is_empty() {
            self.keep(&held);
        }
        self.flush();
        let start = self.tail_start();
        if self.tail_file.as_ref().is_some_and(|it| it.from < start) {
            let written = self.rewrite();
            self.note_failure(written);
        }
        StreamRecord { bytes: self.total, cut: start > self.head_bytes }
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.total += u64::try_from(bytes.len()).unwrap_or(0);
        self.is_announced = false;
        let rest = self.keep_head(bytes);
        let skip = rest.len().saturating_sub(self.tail_max);
        let rest = &rest[skip..];
        let over = (self.tail.len() + rest.len()).saturating_sub(self.tail_max);
        self.tail.drain(..over.min(self.tail.len()));
        self.tail.extend(rest);
    }

    /// Writes bytes to the head file; returns those that do not fit.
    fn keep_head<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let Some(head) = &mut self.head else { return bytes };
        let room = usize::try_from(self.head_max - self.head_bytes).unwrap_or(usize::MAX);
        let (mut first, mut rest) = bytes.split_at(room.min(bytes.len()));
        while !first.is_empty() {
            match head.write(first) {
                Ok(count) if count > 0 => {
                    self.head_bytes += u64::try_from(count).unwrap_or(0);
                    first = &first[count..];
                }
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                failed => {
                    // The disk is full: the head ends here, and the agent continues.
                    note(&format!("writing {} failed: {failed:?}", self.stream.as_str()));
                    self.head = None;
                    rest = &bytes[bytes.len() - rest.len() - first.len()..];
                    return rest;
                }
            }
        }
        if self.head_bytes == self.head_max {
            self.head = None;
        }
        rest
    }

    fn tail_start(&self) -> u64 {
        self.total - u64::try_from(self.tail.len()).unwrap_or(0)
    }

    fn rewrite(&mut self) -> io::Result<()> {
        self.tail_file = None;
        let from = self.tail_start();
        let file = self.folder.replace(&tail_name(self.stream), |file| {
            file.write_all(tail_header(from, self.head_bytes).as_bytes())?;
            append(file, &self.tail, 0)
        })?;
        self.tail_file = Some(TailFile { file, from, to: self.total });
        Ok(())
    }

    fn note_failure(&mut self, written: io::Result<()>) {
        if let Err(cause) = written {
            self.tail_file = None;
            if !self.has_failed {
                note(&format!("writing the tail of {} failed: {cause}", self.stream.as_str()));
            }
            self.has_failed = true;
        }
    }
}

fn append(file: &mut File, tail: &VecDeque<u8>, skip: usize) -> io::Result<()> {
    let (first, second) = tail.as_slices();
    let first_skip = skip.min(first.len());
    let mut parts =
        [IoSlice::new(&first[first_skip..]), IoSlice::new(&second[skip - first_skip..])];
    let mut parts = &mut parts[..];
    IoSlice::advance_slices(&mut parts, 0);
    while !parts.is_empty() {
        match file.write_vectored(parts) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => IoSlice::advance_slices(&mut parts, count),
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use camino::Utf8Path;

    use super::*;
    use crate::process::output::{output_tail, read_output};

    fn opened(job_dir: &Utf8Path) -> JobFolder {
        JobFolder::open(job_dir).unwrap().unwrap()
    }

    fn check(head: u64, tail: u64, pieces: &[usize]) {
        let folder = tempfile::tempdir().unwrap();
        let job_dir = Utf8Path::from_path(folder.path()).unwrap();
        let caps = OutputCaps { head_bytes: head, tail_bytes: tail };
        let mut capture =
            Capture::new(&opened(job_dir), Stream::Stdout, caps, &Secrets::default()).unwrap();
        let mut all: Vec<u8> = Vec::new();
        for (index, piece) in pieces.iter().enumerate() {
            let start = all.len();
            all.extend((start..start + piece).map(|it| u8::try_from(it % 251).unwrap()));
            capture.keep(&all[start..]);
            if index % 3 == 1 {
                capture.flush();
            }
            if index % 4 == 1 {
                capture.flush();
                compare(job_dir, &all, head, tail);
            }
        }
        let record = capture.finish();
        assert_eq!(record.bytes, all.len() as u64);
        assert_eq!(record.cut, all.len() as u64 > head + tail);
        compare(job_dir, &all, head, tail);
        let kept = std::fs::read(job_dir.join(tail_name(Stream::Stdout))).unwrap_or_default();
        let header = kept.iter().position(|it| *it == b'\n').map_or(0, |it| it + 1);
        assert!((kept.len() - header) as u64 <= tail);
    }

    fn compare(job_dir: &Utf8Path, all: &[u8], head: u64, tail: u64) {
        let mut at = 0;
        let mut seen = 0;
        loop {
            let chunk = read_output(job_dir, Stream::Stdout, at, 7).unwrap();
            assert_eq!(chunk.total, all.len() as u64);
            if chunk.bytes.is_empty() {
                break;
            }
            let from = usize::try_from(chunk.offset).unwrap();
            assert_eq!(chunk.bytes, all[from..from + chunk.bytes.len()]);
            seen += chunk.bytes.len() as u64;
            at = chunk.next_offset;
        }
        assert!(seen >= (head + tail).min(all.len() as u64));
        for most in [0, 1, 5, usize::try_from(tail).unwrap()] {
            let most = most.min(all.len()).min(usize::try_from(tail).unwrap());
            let end = output_tail(job_dir, Stream::Stdout, most).unwrap();
            assert_eq!(end, all[all.len() - most..], "{most}");
        }
    }

    #[test]
    fn head_and_tail_are_kept_whatever_the_pieces() {
        check(10, 5, &[3, 3, 3, 3, 3, 3, 3, 3, 3, 3]);
        check(10, 5, &[100, 1, 1, 1, 1, 1, 1, 1, 100]);
        check(10, 50, &[9, 1, 1, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7]);
        check(0, 5, &[2, 2, 2, 2]);
        check(10, 0, &[4, 4, 4, 4, 4, 4]);
        check(100, 100, &[1, 2, 3]);
        check(10, 5, &[15]);
    }

    #[test]
    fn a_reader_behind_the_cut_is_told_where_it_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let job_dir = Utf8Path::from_path(folder.path()).unwrap();
        let caps = OutputCaps { head_bytes: 4, tail_bytes: 4 };
        let mut capture =
            Capture::new(&opened(job_dir), Stream::Stderr, caps, &Secrets::default()).unwrap();
        capture.keep(b"abcdefghijkl");
        capture.finish();
        let chunk = read_output(job_dir, Stream::Stderr, 5, 100).unwrap();
        assert_eq!((chunk.offset, chunk.bytes.as_slice()), (8, &b"ijkl"[..]));
        assert_eq!((chunk.cut, chunk.total), (Some((4, 8)), 12));
        let over = read_output(job_dir, Stream::Stderr, 99, 100).unwrap();
        assert_eq!((over.offset, over.bytes.len(), over.next_offset), (12, 0, 12));
        // Head and tail are never joined as if they were contiguous.
        assert_eq!(output_tail(job_dir, Stream::Stderr, 100).unwrap(), b"ijkl");
        let gone = read_output(&job_dir.join("x"), Stream::Stderr, 0, 1).unwrap_err();
        assert_eq!(gone.code_str(), "output_gone");
    }
}
