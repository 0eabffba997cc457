//! Messages of an agent's hooks to its guard, one line each, written atomically; and hook input.

use std::fs::OpenOptions;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::time::{Duration, Instant};

use camino::Utf8Path;
use nix::fcntl::{Flock, FlockArg, OFlag};

use crate::base::{Context, Error, ErrorKind, Result};
use crate::process::descriptors::is_writable;

/// How long a hook waits for other hooks and a slow guard: its agent waits for it.
const WAIT_MAX: Duration = Duration::from_secs(3);
/// Polling interval of a hook that waits for its turn.
const TURN_EVERY: Duration = Duration::from_millis(2);

/// Writes a line to an agent's guard, which keeps it whether or not there is a server.
///
/// # Errors
/// `unavailable` if no guard reads, or not in time.
pub fn tell_hooks(pipe: &Utf8Path, line: &str) -> Result<()> {
    let cannot = || format!("cannot tell {pipe}");
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW | OFlag::O_NOCTTY;
    let file = OpenOptions::new().write(true).custom_flags(flags.bits()).open(pipe);
    let file = file.context(ErrorKind::Unavailable, cannot)?;
    let meta = file.metadata().context(ErrorKind::Unavailable, cannot)?;
    if !meta.file_type().is_fifo() {
        return Err(Error::unavailable(format!("{pipe} is no pipe")));
    }
    let deadline = Instant::now() + WAIT_MAX;
    // A line longer than the pipe's atomic write size would interleave with others otherwise.
    let mut file = Some(file);
    let mut held = loop {
        let Some(mine) = file.take() else { return Err(Error::unavailable(cannot())) };
        match Flock::lock(mine, FlockArg::LockExclusiveNonblock) {
            Ok(held) => break held,
            Err((mine, _)) if Instant::now() < deadline => file = Some(mine),
            Err((_, cause)) => return Err(cause).context(ErrorKind::Unavailable, cannot),
        }
        std::thread::sleep(TURN_EVERY);
    };
    // Starts with a line break, so that an unfinished line of another hook only spoils itself.
    let bytes = format!("\n{line}\n").into_bytes();
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        match held.write(rest) {
            Ok(count) => rest = &rest[count..],
            Err(cause) if cause.kind() == std::io::ErrorKind::Interrupted => {}
            Err(cause) if cause.kind() == std::io::ErrorKind::WouldBlock => {
                let left = deadline.saturating_duration_since(Instant::now());
                let is_free = is_writable(held.as_fd(), left);
                if left.is_zero() || !is_free.context(ErrorKind::Unavailable, cannot)? {
                    return Err(Error::unavailable(format!("{}: nobody reads it", cannot())));
                }
            }
            Err(cause) => return Err(cause).context(ErrorKind::Unavailable, cannot),
        }
    }
    Ok(())
}

/// Returns the end of a regular file that the agent names to its hook; `None` if it is anything
/// else. Never blocks.
pub fn last_bytes(path: &Utf8Path, bytes_max: u64) -> Option<Vec<u8>> {
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let mut file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path).ok()?;
    let meta = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    file.seek(SeekFrom::Start(meta.len().saturating_sub(bytes_max))).ok()?;
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Returns what stands in a regular file of our user from a place on, and that place; from the
/// beginning, at most this much of the end, if none is given or the file has become shorter.
/// Nothing if it is no such file.
pub fn bytes_from(path: &Utf8Path, at: Option<u64>, bytes_max: u64) -> Option<(u64, Vec<u8>)> {
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_NOFOLLOW;
    let mut file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path).ok()?;
    let meta = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    if meta.uid() != nix::unistd::geteuid().as_raw() {
        return None;
    }
    let oldest = meta.len().saturating_sub(bytes_max);
    let from = at.filter(|at| (oldest..=meta.len()).contains(at)).unwrap_or(oldest);
    file.seek(SeekFrom::Start(from)).ok()?;
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes).ok()?;
    Some((from, bytes))
}
