//! Limits of open file descriptors, for this process and its agents, and a check for writability.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::base::fault;

/// The server never needs more than this.
const WANTED_MAX: u64 = 65_536;
/// The usual default, with which agents start: `select` breaks above it. Programs that need more
/// can raise it to the hard limit, which they keep.
const AGENT_SOFT: u64 = 1_024;

/// Raises the soft limit of descriptors to the hard one and returns the new limit.
///
/// # Errors
/// The system call's error; the limit is then unchanged.
pub fn raise_descriptors() -> io::Result<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let wanted = hard.min(WANTED_MAX);
    if soft >= wanted || fault::is_off("raise_descriptors") {
        return Ok(soft);
    }
    setrlimit(Resource::RLIMIT_NOFILE, wanted, hard)?;
    Ok(wanted)
}

/// Returns the soft and hard limit with which an agent starts.
pub(in crate::process) fn of_agent() -> io::Result<(u64, u64)> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    Ok((soft.min(AGENT_SOFT), hard))
}

/// Sets a limit of descriptors. A single system call, so it is safe after `fork`.
pub(in crate::process) fn set((soft, hard): (u64, u64)) -> io::Result<()> {
    Ok(setrlimit(Resource::RLIMIT_NOFILE, soft, hard)?)
}

/// Returns whether a descriptor becomes writable within `patience`. It also is if the reader is
/// gone; the write then reports that.
///
/// # Errors
/// The error of `poll`.
pub fn is_writable(fd: BorrowedFd<'_>, patience: Duration) -> io::Result<bool> {
    let end = Instant::now() + patience;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let wait = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(fd, PollFlags::POLLOUT)], wait) {
            Ok(count) => return Ok(count > 0),
            Err(Errno::EINTR) => {}
            Err(cause) => return Err(cause.into()),
        }
    }
}
