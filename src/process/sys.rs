//! System calls without a safe wrapper: pidfds, close-on-exec of stray descriptors, starting the
//! agent.
//!
//! **Invariant:** no other file of the program contains `unsafe`.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use nix::errno::Errno;
use nix::libc;
use nix::sys::prctl;
use nix::sys::signal::{SigHandler, SigSet, Signal, signal};
use nix::unistd;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::process::descriptors;

/// Opens a pidfd. It refers to this very process, even after its pid is reused.
pub(in crate::process) fn pidfd_open(pid: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: the call takes two integers and touches no memory of ours.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let fd = Errno::result(fd)?;
    let fd = RawFd::try_from(fd).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel just returned this descriptor to us, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Opens a pidfd registered with the runtime: it becomes readable when the process exits.
pub(in crate::process) fn pidfd_watch(pid: i32) -> io::Result<AsyncFd<OwnedFd>> {
    let pidfd = pidfd_open(pid)?;
    // SAFETY: the descriptor is owned by the `AsyncFd` for as long as it is registered.
    Ok(unsafe { AsyncFd::register(pidfd) }?)
}

/// Registers a descriptor with the runtime for reading.
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

/// Marks every descriptor above 2 close-on-exec, so that nothing inherited by mistake is passed on.
pub(in crate::process) fn close_strays_on_exec() -> io::Result<()> {
    // SAFETY: the call only changes flags of descriptors; none is closed, and all of ours have the
    // flag already.
    let done = unsafe {
        libc::syscall(libc::SYS_close_range, 3_u32, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
    };
    if done == 0 {
        return Ok(());
    }
    // Linux before 5.11 lacks the flag: set it one by one.
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let Ok(fd) = entry?.file_name().to_string_lossy().parse::<RawFd>() else { continue };
        if fd > 2 {
            // SAFETY: sets a flag; a descriptor that is already closed yields EBADF, which is
            // harmless.
            unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
    Ok(())
}

/// Resets every signal to its default disposition: an ignored signal would be inherited by the
/// agent and everything that it starts.
fn default_dispositions() {
    // An all-zero kernel `sigaction` is the default; it is shorter than this on every architecture.
    let default = [0_u64; 8];
    for number in 1..=64 {
        // SAFETY: the kernel reads the action and writes nothing. The C library's function would
        // refuse the two signals that it reserves for itself; KILL and STOP are refused.
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

/// Lets a write that a limit of the file's size forbids fail, instead of ending this process.
/// Agents start with the default again.
pub(in crate::process) fn survive_file_limit() -> Result<(), Errno> {
    // SAFETY: the signal is ignored; no handler runs.
    unsafe { signal(Signal::SIGXFSZ, SigHandler::SigIgn) }.map(drop)
}

/// Starts a command in its own session, which dies with the calling *thread*, with no signal
/// blocked or ignored. Only the guard may use it: it is small (`pre_exec` forks) and has one thread
/// (the death signal follows the thread).
///
/// With a terminal the command stays in the guard's session, as the foreground group. `entrance` is
/// the `cgroup.procs` of the cgroup that the command enters before it runs.
pub(in crate::process) fn spawn_agent(
    command: &mut Command,
    (entrance, terminal): (Option<&File>, Option<BorrowedFd<'_>>),
) -> io::Result<Child> {
    let parent = unistd::getpid();
    let descriptors = descriptors::of_agent()?;
    let entrance = entrance.map(File::try_clone).transpose()?;
    let terminal = terminal.map(|it| it.try_clone_to_owned()).transpose()?;
    // SAFETY: the closure runs in the forked child of a single-threaded process, and only makes
    // system calls.
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
            // The guard blocks the signals that it reads from its signalfd, and the mask survives
            // `exec`.
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

/// Makes the calling process its own group and puts it in the foreground of the terminal. It only
/// makes system calls.
fn take_foreground(terminal: &OwnedFd) -> io::Result<()> {
    let me = unistd::getpid();
    unistd::setpgid(me, me)?;
    // A background process that asks is stopped by SIGTTOU, unless it blocks that.
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGTTOU);
    mask.thread_block()?;
    // SAFETY: the call takes two integers and touches no memory of ours.
    let taken = unsafe { libc::tcsetpgrp(terminal.as_raw_fd(), me.as_raw()) };
    Errno::result(taken)?;
    Ok(())
}

/// The child's error if its cgroup refuses it. `exec` never fails with this one.
const REFUSED_ENTRANCE: Errno = Errno::EBADE;

/// Returns whether [`spawn_agent`] failed because the cgroup refused the agent: nothing of the
/// command has run then.
pub(in crate::process) fn is_refused_entrance(cause: &io::Error) -> bool {
    cause.raw_os_error() == Some(REFUSED_ENTRANCE as i32)
}

/// Returns the Landlock version of the kernel.
pub(in crate::process) fn landlock_version() -> Result<i64, Errno> {
    const CREATE_RULESET_VERSION: libc::c_uint = 1;
    let none = std::ptr::null::<libc::c_void>();
    // SAFETY: with this flag the kernel reads no attributes, as the null pointer and zero size
    // tell, and returns a number instead of a descriptor.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, none, 0, CREATE_RULESET_VERSION)
    };
    Errno::result(version)
}

/// Makes the allocator map every block of a megabyte or more separately, so that it is returned to
/// the system when freed. By default, glibc raises that threshold at the first large block, and
/// keeps all later ones in one arena per thread.
pub(in crate::process) fn map_large_blocks() {
    #[cfg(target_env = "gnu")]
    {
        const LARGE_BYTES: libc::c_int = 1 << 20;
        // SAFETY: the call takes two integers, and only affects later allocations.
        unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES) };
    }
}
