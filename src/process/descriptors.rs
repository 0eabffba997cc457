//! How many files and connections this process may hold open, what its agents get of it, and
//! whether one can be written to.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::base::fault;

/// More than this is of no use to the server, whatever the machine would give.
const WANTED_MAX: u64 = 65_536;
/// What an agent starts with: the usual default. Programs that wait with `select` break above it;
/// those that want more raise it themselves, up to the hard limit, which they keep.
const AGENT_SOFT: u64 = 1_024;

/// Raises the soft limit of descriptors to the hard one, and returns how many there may be.
///
/// # Errors
/// As the kernel's; the limit is then what it was.
pub fn raise_descriptors() -> io::Result<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let wanted = hard.min(WANTED_MAX);
    if soft >= wanted || fault::is_off("raise_descriptors") {
        return Ok(soft);
    }
    setrlimit(Resource::RLIMIT_NOFILE, wanted, hard)?;
    Ok(wanted)
}

/// Returns the soft and the hard limit with which an agent starts.
pub(in crate::process) fn of_agent() -> io::Result<(u64, u64)> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    Ok((soft.min(AGENT_SOFT), hard))
}

/// Sets a limit of descriptors. It makes one system call, and so may run after a `fork`.
pub(in crate::process) fn set((soft, hard): (u64, u64)) -> io::Result<()> {
    Ok(setrlimit(Resource::RLIMIT_NOFILE, soft, hard)?)
}

/// Returns whether a descriptor can be written to within `patience` without waiting; one whose
/// reader is gone can, and the write says so.
///
/// # Errors
/// As the kernel's.
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
