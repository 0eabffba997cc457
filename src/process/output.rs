//! Reads an agent's output from its files, also while the guard writes them.
//!
//! The head of a stream is in `STREAM.log`, the rest in `STREAM.tail`: one line with the offset at
//! which it begins, then the bytes. The guard appends to the tail and now and then replaces it by a
//! shorter file, so an open file only ever grows.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::time::UNIX_EPOCH;

use camino::{Utf8Path, Utf8PathBuf};

use crate::base::{Context, Error, ErrorKind, Millis, Result};
use crate::process::job_folder::JobFolder;
use crate::process::launch::{Stream, is_usurped};

const HEADER_START: &str = "[output from byte ";
const HEADER_BYTES_MAX: usize = 128;

/// A part of an agent's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputChunk {
    /// Offset of the first byte; larger than requested if the request fell into the gap.
    pub offset: u64,
    /// The bytes; empty at the current end.
    pub bytes: Vec<u8>,
    /// The offset of the next part.
    pub next_offset: u64,
    /// How much was printed so far, according to the files.
    pub total: u64,
    /// The dropped range: first byte, and one past the last.
    pub cut: Option<(u64, u64)>,
}

/// Reads at most `bytes_max` bytes of the output from byte `offset`.
///
/// # Errors
/// `not_found` with code `output_gone` if the job's folder is missing; `unavailable` if one of its
/// files cannot be read.
pub fn read_output(
    job_dir: &Utf8Path,
    stream: Stream,
    offset: u64,
    bytes_max: usize,
) -> Result<OutputChunk> {
    let kept = Kept::open(job_dir, stream)?;
    let total = kept.total();
    let (offset, bytes) = match &kept.tail {
        _ if offset < kept.head_bytes => {
            let most = kept.head_bytes - offset;
            (offset, kept.read(kept.head.as_ref(), offset, most, bytes_max)?)
        }
        Some(tail) if offset < total => {
            let offset = offset.max(tail.from);
            let at = offset - tail.from + tail.header_bytes;
            (offset, kept.read(Some(&tail.file), at, total - offset, bytes_max)?)
        }
        _ => (total, Vec::new()),
    };
    let next_offset = offset + u64::try_from(bytes.len()).unwrap_or(0);
    Ok(OutputChunk { offset, bytes, next_offset, total, cut: kept.cut() })
}

/// Returns at most the last `bytes_max` bytes of the output, without a gap.
///
/// # Errors
/// Same as [`read_output`].
pub fn output_tail(job_dir: &Utf8Path, stream: Stream, bytes_max: usize) -> Result<Vec<u8>> {
    let kept = Kept::open(job_dir, stream)?;
    let total = kept.total();
    let mut start = total.saturating_sub(u64::try_from(bytes_max).unwrap_or(u64::MAX));
    if let Some((_, end)) = kept.cut() {
        start = start.max(end);
    }
    let mut bytes = Vec::new();
    if start < kept.head_bytes {
        bytes = kept.read(kept.head.as_ref(), start, kept.head_bytes - start, bytes_max)?;
    }
    if let Some(tail) = &kept.tail {
        let from = start.max(tail.from);
        let room = bytes_max.saturating_sub(bytes.len());
        let at = from - tail.from + tail.header_bytes;
        bytes.extend(kept.read(Some(&tail.file), at, total.saturating_sub(from), room)?);
    }
    Ok(bytes)
}

/// Returns when either stream was last written; `None` before the first byte, or if the agent
/// replaced its output or folder by something else.
///
/// # Errors
/// `unavailable` if a file cannot be examined.
pub fn last_printed(job_dir: &Utf8Path) -> Result<Option<Millis>> {
    let mut last = None;
    let folder = match JobFolder::open(job_dir) {
        Ok(Some(folder)) => folder,
        Ok(None) => return Ok(None),
        Err(cause) if is_usurped(&cause) => return Ok(None),
        Err(cause) => return Err(cause),
    };
    for stream in [Stream::Stdout, Stream::Stderr] {
        for name in [head_name(stream), tail_name(stream)] {
            let file = match folder.regular(&name) {
                Ok(Some(file)) => file,
                Ok(None) => continue,
                Err(cause) if is_usurped(&cause) => continue,
                Err(cause) => return Err(cause),
            };
            let meta = file.metadata();
            let meta = meta.context(ErrorKind::Unavailable, || cannot_read(job_dir))?;
            let at = meta.modified().ok().and_then(|it| it.duration_since(UNIX_EPOCH).ok());
            let at = at.and_then(|it| i64::try_from(it.as_millis()).ok()).map(Millis);
            if meta.len() > 0 {
                last = last.max(at);
            }
        }
    }
    Ok(last)
}

/// Writes the output of a simulated agent, as a guard would have left it.
///
/// # Errors
/// `unavailable` if the folder cannot be written.
pub fn put_output(job_dir: &Utf8Path, stream: Stream, bytes: &[u8]) -> Result<()> {
    let folder = JobFolder::make(job_dir)?;
    let written = folder.replace(&head_name(stream), |file| file.write_all(bytes));
    written.map(drop).context(ErrorKind::Unavailable, || format!("cannot write in {job_dir}"))
}

/// Returns the name of the head file of a stream.
pub(in crate::process) fn head_name(stream: Stream) -> String {
    format!("{}.log", stream.as_str())
}

/// Returns the name of the tail file of a stream.
pub(in crate::process) fn tail_name(stream: Stream) -> String {
    format!("{}.tail", stream.as_str())
}

/// Returns the first line of a tail file.
pub(in crate::process) fn tail_header(from: u64, head_bytes: u64) -> String {
    format!("{HEADER_START}{from}; bytes {head_bytes} to {from} are left out]\n")
}

/// The files of a stream, opened at one moment.
struct Kept {
    job_dir: Utf8PathBuf,
    head: Option<File>,
    head_bytes: u64,
    tail: Option<Tail>,
}

struct Tail {
    file: File,
    from: u64,
    header_bytes: u64,
    bytes: u64,
}

impl Kept {
    fn open(job_dir: &Utf8Path, stream: Stream) -> Result<Kept> {
        let Some(folder) = JobFolder::open(job_dir)? else {
            return Err(Error::not_found("the output is no longer kept").code("output_gone"));
        };
        // The tail first: once it exists, the head is complete.
        let tail = match folder.regular(&tail_name(stream))? {
            Some(file) => Some(Tail::parse(job_dir, file)?),
            None => None,
        };
        let head = folder.regular(&head_name(stream))?;
        let head_bytes = head.as_ref().map_or(Ok(0), size);
        let head_bytes = head_bytes.context(ErrorKind::Unavailable, || cannot_read(job_dir))?;
        Ok(Kept { job_dir: job_dir.to_owned(), head, head_bytes, tail })
    }

    fn total(&self) -> u64 {
        let tail = self.tail.as_ref().map_or(0, |it| it.from + it.bytes);
        tail.max(self.head_bytes)
    }

    fn cut(&self) -> Option<(u64, u64)> {
        let from = self.tail.as_ref()?.from;
        (from > self.head_bytes).then_some((self.head_bytes, from))
    }

    /// Reads at most `most` and `bytes_max` bytes; fewer if the file is shorter.
    fn read(&self, file: Option<&File>, at: u64, most: u64, bytes_max: usize) -> Result<Vec<u8>> {
        let Some(file) = file else { return Ok(Vec::new()) };
        let length = usize::try_from(most).unwrap_or(usize::MAX).min(bytes_max);
        let mut bytes = vec![0; length];
        let mut filled = 0;
        while filled < length {
            let offset = at + u64::try_from(filled).unwrap_or(0);
            let read = file.read_at(&mut bytes[filled..], offset);
            match read.context(ErrorKind::Unavailable, || cannot_read(&self.job_dir))? {
                0 => break,
                count => filled += count,
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }
}

impl Tail {
    fn parse(job_dir: &Utf8Path, file: File) -> Result<Tail> {
        let mut start = [0; HEADER_BYTES_MAX];
        let read = file.read_at(&mut start, 0).and_then(|count| Ok((count, size(&file)?)));
        let (count, size) = read.context(ErrorKind::Unavailable, || cannot_read(job_dir))?;
        let header = start[..count].split_inclusive(|byte| *byte == b'\n').next();
        let header = header.and_then(|it| std::str::from_utf8(it).ok()).unwrap_or_default();
        let digits = header.strip_prefix(HEADER_START).and_then(|it| it.split(';').next());
        let from = digits.and_then(|it| it.parse().ok()).filter(|it| *it < u64::MAX / 2);
        let header_bytes = u64::try_from(header.len()).unwrap_or(0);
        match from {
            Some(from) => {
                Ok(Tail { file, from, header_bytes, bytes: size.saturating_sub(header_bytes) })
            }
            None => Err(Error::unavailable(cannot_read(job_dir)).code("bad_output_file")),
        }
    }
}

fn size(file: &File) -> std::io::Result<u64> {
    Ok(file.metadata()?.len())
}

fn cannot_read(job_dir: &Utf8Path) -> String {
    format!("cannot read the output in {job_dir}")
}
