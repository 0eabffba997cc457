//! The system calls that have no safe wrapper: pidfds, close-on-exec of strays, the agent's start.
//!
//! **Invariant:** `unsafe` occurs in no other file of the program.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use nix::errno::Errno;
use nix::libc;
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::process::descriptors;

/// Opens a pidfd. It keeps naming this very process, also after its pid is used again.
pub(in crate::process) fn pidfd_open(pid: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: the call takes two integers and touches no memory of ours.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let fd = Errno::result(fd)?;
    let fd = RawFd::try_from(fd).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel just returned this descriptor to us, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Opens a pidfd that the runtime watches: it is readable once the process has exited.
pub(in crate::process) fn pidfd_watch(pid: i32) -> io::Result<AsyncFd<OwnedFd>> {
    let pidfd = pidfd_open(pid)?;
    // SAFETY: the descriptor is owned by the `AsyncFd` for as long as it is registered.
    Ok(unsafe { AsyncFd::register(pidfd) }?)
}

/// Returns a descriptor as one that the runtime tells of when it can be read.
pub(in crate::process) fn readable(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor is owned by the `AsyncFd` for as long as it is registered.
    Ok(unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?)
}

/// Sends a signal to the process behind a pidfd.
pub(in crate::process) fn pidfd_send_signal(
    pidfd: BorrowedFd<'_>,
    signal: Signal,
) -> Result<(), Errno> {
    let none = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: a null siginfo is allowed and means the same as `kill`; the descriptor is borrowed
    // for the call.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            signal as libc::c_int,
            none,
            0,
        )
    };
    Errno::result(sent).map(drop)
}

/// Marks every descriptor above 2 close-on-exec, so that nothing that this process inherited by
/// somebody's mistake passes on.
pub(in crate::process) fn close_strays_on_exec() -> io::Result<()> {
    // SAFETY: the call changes flags of descriptors only; none is closed, and all of ours have
    // the flag already.
    let done = unsafe {
        libc::syscall(libc::SYS_close_range, 3_u32, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
    };
    if done == 0 {
        return Ok(());
    }
    // Linux before 5.11 lacks the flag: one by one.
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let Ok(fd) = entry?.file_name().to_string_lossy().parse::<RawFd>() else { continue };
        if fd > 2 {
            // SAFETY: sets a flag; a descriptor that is gone by now is EBADF, which is no harm.
            unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
    Ok(())
}

/// Gives every signal its default disposition: an ignored one would be inherited by the agent and
/// by all that it starts.
fn default_dispositions() {
    // A kernel `sigaction` of zeroes is the default; on every architecture it is shorter than this.
    let default = [0_u64; 8];
    for number in 1..=64 {
        // SAFETY: the kernel reads the action and writes nothing. The C library's own function
        // would refuse the two signals that it keeps for itself; KILL and STOP are refused.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                number,
                default.as_ptr(),
                std::ptr::null::<libc::c_void>(),
                8_usize,
            )
        };
    }
}

/// Starts a command in a session of its own that dies with the calling *thread*, with no
/// signal blocked or ignored. Only the guard may use it: it is small (`pre_exec` forks) and has one
/// thread (the death signal follows the thread).
///
/// With a terminal it stays in the guard's session, where it is the group in the foreground.
/// `entrance` is the `cgroup.procs` of the cgroup into which the command goes before it runs.
pub(in crate::process) fn spawn_agent(
    command: &mut Command,
    (entrance, terminal): (Option<&File>, Option<BorrowedFd<'_>>),
) -> io::Result<Child> {
    let parent = unistd::getpid();
    let descriptors = descriptors::of_agent()?;
    let entrance = entrance.map(File::try_clone).transpose()?;
    let terminal = terminal.map(|it| it.try_clone_to_owned()).transpose()?;
    // SAFETY: the closure runs in the forked child of a single-threaded process; it makes system
    // calls only.
    unsafe {
        command.pre_exec(move || {
            match &terminal {
                Some(terminal) => take_foreground(terminal)?,
                None => drop(unistd::setsid()?),
            }
            prctl::set_pdeathsig(Signal::SIGKILL)?;
            if unistd::getppid() != parent {
                // The guard died before the death signal was set: nobody would end this process.
                return Err(io::Error::from(Errno::ESRCH));
            }
            // The guard blocks what it reads from its signalfd, and a mask survives `exec`.
            SigSet::empty().thread_set_mask()?;
            default_dispositions();
            descriptors::set(descriptors)?;
            if let Some(mut entrance) = entrance.as_ref()
                && entrance.write_all(b"0").is_err()
            {
                return Err(io::Error::from(REFUSED_ENTRANCE));
            }
            Ok(())
        });
    }
    command.spawn()
}

/// Makes the calling process a group of its own, to which the terminal belongs. It makes system
/// calls only.
fn take_foreground(terminal: &OwnedFd) -> io::Result<()> {
    let me = unistd::getpid();
    unistd::setpgid(me, me)?;
    // Who is not in the foreground yet is stopped for the asking, unless it blocks that.
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGTTOU);
    mask.thread_block()?;
    // SAFETY: the call takes two integers and touches no memory of ours.
    let taken = unsafe { libc::tcsetpgrp(terminal.as_raw_fd(), me.as_raw()) };
    Errno::result(taken)?;
    Ok(())
}

/// What the child says when its cgroup does not take it. No `exec` fails with this.
const REFUSED_ENTRANCE: Errno = Errno::EBADE;

/// Returns whether [`spawn_agent`] failed because the cgroup did not take the agent: nothing of the
/// command has run then.
pub(in crate::process) fn is_refused_entrance(cause: &io::Error) -> bool {
    cause.raw_os_error() == Some(REFUSED_ENTRANCE as i32)
}

/// Returns the version of Landlock that the kernel offers.
pub(in crate::process) fn landlock_version() -> Result<i64, Errno> {
    const CREATE_RULESET_VERSION: libc::c_uint = 1;
    let none = std::ptr::null::<libc::c_void>();
    // SAFETY: with this flag the kernel takes no attributes, which the null pointer and the zero
    // size say, and returns a number and no descriptor.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, none, 0, CREATE_RULESET_VERSION)
    };
    Errno::result(version)
}

/// Has the allocator map every block of a megabyte or more by itself, so that it goes back to the
/// system when it is freed. Left alone, glibc takes the first large block as a reason to keep all
/// later ones, in as many arenas as there are threads.
pub(in crate::process) fn map_large_blocks() {
    #[cfg(target_env = "gnu")]
    {
        const LARGE_BYTES: libc::c_int = 1 << 20;
        // SAFETY: the call takes two integers, and changes how later blocks are made.
        unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES) };
    }
}
