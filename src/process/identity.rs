//! Process identity: boot id, pid and start time, verified through a pidfd.
//!
//! **Invariant:** a process that cannot be verified gets no signal.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;
use std::sync::OnceLock;

use camino::Utf8Path;
use nix::errno::Errno;
use nix::sys::signal;
use serde::{Deserialize, Serialize};

use crate::base::{Context, ErrorKind, Result, fault};
use crate::process::launch::{MARK, PLACE};
use crate::process::sys;

/// Longest `/proc/PID/stat` that is read; it holds numbers and a name of at most 64 bytes.
const STAT_BYTES_MAX: u64 = 4 * 1024;
/// Longest environment that is searched for a mark.
const ENVIRON_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Most threads examined of a process whose main thread has exited.
const THREADS_MAX: usize = 16;
/// Most ancestors followed; a deeper chain proves nothing.
const ANCESTORS_MAX: usize = 1_024;

/// The signals that this program sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Asks an agent to print its result and stop.
    Int,
    /// Asks a process to end.
    Term,
    /// Ends a process.
    Kill,
    /// Resumes a stopped process, so that it sees the other signals.
    Cont,
}

impl Signal {
    pub(in crate::process) fn raw(self) -> signal::Signal {
        match self {
            Signal::Int => signal::Signal::SIGINT,
            Signal::Term => signal::Signal::SIGTERM,
            Signal::Kill => signal::Signal::SIGKILL,
            Signal::Cont => signal::Signal::SIGCONT,
        }
    }
}

/// A process identified so that a later process with the same pid is not mistaken for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// The boot during which the pid is valid.
    pub boot_id: String,
    /// The pid.
    pub pid: i32,
    /// The start time in clock ticks since boot (field 22 of `/proc/PID/stat`).
    pub start: u64,
}

impl ProcessIdentity {
    /// Returns the identity of a process; `None` if no process has this pid.
    ///
    /// # Errors
    /// `unavailable` if `/proc` cannot be read.
    pub fn of(pid: i32) -> Result<Option<ProcessIdentity>> {
        let Some(start) = start_time(pid) else { return Ok(None) };
        Ok(Some(ProcessIdentity { boot_id: boot_id()?, pid, start }))
    }

    /// Returns whether this very process is running; a zombie is not.
    pub fn is_alive(&self) -> bool {
        self.is_of_this_boot()
            && Stat::of(self.pid).is_some_and(|it| it.start == self.start && !it.is_dead())
    }

    /// Sends a signal if the process is proven to be this one and, with a mark, its environment
    /// contains `NAME=VALUE`. Returns whether it was sent.
    ///
    /// # Errors
    /// `unavailable` if the kernel refuses the signal although the process exists.
    pub fn signal_if_same(&self, mark: Option<(&str, &str)>, signal: Signal) -> Result<bool> {
        if self.pid <= 1 {
            return Ok(false);
        }
        let is_trusted = fault::is_off("identity");
        if !is_trusted && (self.start == 0 || !self.is_of_this_boot()) {
            return Ok(false);
        }
        let sent = signal_verified(self.pid, signal, || is_trusted || self.is_there(mark));
        sent.context(ErrorKind::Unavailable, || format!("process {} takes no {signal:?}", self.pid))
    }

    /// Returns whether the process with this pid is proven to be this one.
    pub(in crate::process) fn is_proven(&self, mark: Option<(&str, &str)>) -> bool {
        self.pid > 1 && self.start != 0 && self.is_of_this_boot() && self.is_there(mark)
    }

    fn is_there(&self, mark: Option<(&str, &str)>) -> bool {
        Stat::of(self.pid).is_some_and(|it| it.start == self.start && !it.is_dead())
            && mark
                .is_none_or(|(name, value)| carries_mark(self.pid, name).as_deref() == Some(value))
    }

    fn is_of_this_boot(&self) -> bool {
        boot_id().is_ok_and(|now| !now.is_empty() && now == self.boot_id)
    }
}

/// Returns the id of the current boot.
///
/// # Errors
/// `unavailable` if it cannot be read.
pub fn boot_id() -> Result<String> {
    let path = "/proc/sys/kernel/random/boot_id";
    let text = std::fs::read_to_string(path)
        .context(ErrorKind::Unavailable, || format!("cannot read {path}"))?;
    Ok(text.trim().to_owned())
}

/// Returns the start time of a process in clock ticks since boot; `None` if it is gone.
pub fn start_time(pid: i32) -> Option<u64> {
    Stat::of(pid).map(|it| it.start)
}

/// Returns whether a process is one of `ancestors` or a descendant. Suitable for denying, never for
/// granting: the ancestry is lost once a parent has died.
pub fn descends_from(pid: i32, ancestors: &[i32]) -> bool {
    let mut at = pid;
    for _ in 0..ANCESTORS_MAX {
        if ancestors.contains(&at) {
            return true;
        }
        match Stat::of(at) {
            Some(stat) if stat.ppid > 1 => at = stat.ppid,
            Some(stat) => return ancestors.contains(&stat.ppid),
            None => return false,
        }
    }
    false
}

/// Returns a variable of the environment with which a process was started; `None` if it is not set,
/// the process is gone, or it may not be inspected.
pub fn carries_mark(pid: i32, name: &str) -> Option<String> {
    read_mark(pid, name).ok()?
}

/// [`carries_mark`] for callers that must know whether reading itself failed.
///
/// # Errors
/// Same as [`Stat::read`].
pub(in crate::process) fn read_mark(pid: i32, name: &str) -> io::Result<Option<String>> {
    let read = |path: &str| read_proc(path, ENVIRON_BYTES_MAX);
    // If the main thread has exited, some kernels return nothing and others report it as gone.
    let own = read(&format!("/proc/{pid}/environ"))?.unwrap_or_default();
    let found = value_in(&own, name);
    if found.is_some() || !own.is_empty() {
        let is_foreign = || value_in(&own, PLACE).is_some_and(|it| is_of_another_site(&it));
        return Ok(found.filter(|_| name != MARK || !is_foreign()));
    }
    // The main thread may exit before the others, which then alone have the memory.
    let Some(tasks) = seen(std::fs::read_dir(format!("/proc/{pid}/task")))? else {
        return Ok(None);
    };
    for task in tasks.flatten().take(THREADS_MAX) {
        let path = task.path().join("environ");
        let environ = read(path.to_str().unwrap_or_default())?;
        if let Some(found) = environ.and_then(|it| value_in(&it, name)) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The data folder of this server, by device and inode.
static HOME: OnceLock<(u64, u64)> = OnceLock::new();

/// Says once which data folder is that of this process: jobs below another one are not its own,
/// whatever their ids. A database that was restored elsewhere has the ids of its original.
pub fn live_in(data: &Utf8Path) {
    if let Ok(it) = data.metadata() {
        HOME.get_or_init(|| (it.dev(), it.ino()));
    }
}

/// Returns whether the folder of a job is below another data folder than ours. One that is gone was
/// ours before the site was moved.
fn is_of_another_site(folder: &str) -> bool {
    let Some(home) = HOME.get() else { return false };
    let folder = Utf8Path::new(folder);
    let is_home = |it: &Utf8Path| it.metadata().is_ok_and(|it| (it.dev(), it.ino()) == *home);
    // An agent may have removed its own folder, but not the one above.
    let is_there = folder.parent().is_some_and(|it| it.is_dir());
    is_there && !folder.ancestors().any(is_home)
}

fn value_in(environ: &[u8], name: &str) -> Option<String> {
    let found = environ.split(|byte| *byte == 0).find_map(|entry| {
        entry.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"="))
    })?;
    String::from_utf8(found.to_vec()).ok()
}

/// Sends a signal through a pidfd, if `is_it` still holds once the pidfd pins the process. Returns
/// whether it was sent; a process that is gone is not an error.
pub(in crate::process) fn signal_verified(
    pid: i32,
    signal: Signal,
    is_it: impl FnOnce() -> bool,
) -> Result<bool, Errno> {
    let pidfd = match sys::pidfd_open(pid) {
        Ok(pidfd) => pidfd,
        Err(Errno::ESRCH | Errno::EINVAL) => return Ok(false),
        Err(cause) => return Err(cause),
    };
    if !is_it() {
        return Ok(false);
    }
    match sys::pidfd_send_signal(pidfd.as_fd(), signal.raw()) {
        Ok(()) => Ok(true),
        Err(Errno::ESRCH) => Ok(false),
        Err(cause) => Err(cause),
    }
}

/// The fields of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::process) struct Stat {
    pub(in crate::process) pid: i32,
    pub(in crate::process) state: u8,
    pub(in crate::process) ppid: i32,
    pub(in crate::process) pgid: i32,
    pub(in crate::process) session: i32,
    /// The foreground process group of its terminal; `-1` without one.
    pub(in crate::process) foreground: i32,
    pub(in crate::process) threads: u32,
    pub(in crate::process) start: u64,
}

impl Stat {
    /// Returns the fields of a process; `None` if it does not exist or is hidden.
    pub(in crate::process) fn of(pid: i32) -> Option<Stat> {
        Stat::read(pid).ok()?
    }

    /// [`Stat::of`] for callers that must know whether reading itself failed.
    ///
    /// # Errors
    /// The system call's error, if there are no descriptors or no memory left.
    pub(in crate::process) fn read(pid: i32) -> io::Result<Option<Stat>> {
        if pid <= 0 {
            return Ok(None);
        }
        let text = read_proc(&format!("/proc/{pid}/stat"), STAT_BYTES_MAX)?;
        Ok(text.and_then(|it| Stat::parse(pid, &it)))
    }

    /// Returns whether no thread is running. A process whose main thread has exited looks like a
    /// zombie while other threads go on.
    pub(in crate::process) fn is_dead(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x') && self.threads <= 1
    }

    /// Returns whether it is stopped or traced.
    pub(in crate::process) fn is_stopped(&self) -> bool {
        matches!(self.state, b'T' | b't')
    }

    fn parse(pid: i32, text: &[u8]) -> Option<Stat> {
        // The name may contain anything, even `)` and spaces: the fields begin after the last `)`.
        let end = text.iter().rposition(|byte| *byte == b')')?;
        let rest = std::str::from_utf8(text.get(end + 1..)?).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        Some(Stat {
            pid,
            state: *fields.first()?.as_bytes().first()?,
            ppid: fields.get(1)?.parse().ok()?,
            pgid: fields.get(2)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            foreground: fields.get(5)?.parse().ok()?,
            threads: fields.get(17)?.parse().ok()?,
            start: fields.get(19)?.parse().ok()?,
        })
    }
}

fn read_proc(path: &str, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    let Some(file) = seen(File::open(path))? else { return Ok(None) };
    Ok(seen(file.take(bytes_max).read_to_end(&mut bytes))?.map(|_| bytes))
}

/// Maps the error for a process that is gone or hidden to `None`. A failure for lack of descriptors
/// or memory stays an error, because it says nothing about the process.
pub(in crate::process) fn seen<T>(look: io::Result<T>) -> io::Result<Option<T>> {
    match look {
        Ok(it) => Ok(Some(it)),
        Err(cause) => match cause.raw_os_error().map(Errno::from_raw) {
            Some(Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM) => Err(cause),
            _ => Ok(None),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_forge_the_fields() {
        let text = b"7 (a) Z 1 1 (x) S 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 99 1 2";
        let stat = Stat::parse(7, text).unwrap();
        assert_eq!((stat.state, stat.ppid, stat.pgid, stat.session), (b'S', 2, 3, 4));
        assert_eq!((stat.foreground, stat.start, stat.threads), (6, 99, 8));
        assert!(Stat::parse(7, b"7 (sh) S 1").is_none());
    }

    #[test]
    fn a_zombie_with_threads_is_not_dead() {
        let stat = |state: char, threads: u32| {
            let text = format!("7 (a) {state} 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 {threads} 9 99 1 2");
            Stat::parse(7, text.as_bytes()).unwrap()
        };
        assert!(stat('Z', 1).is_dead() && stat('X', 0).is_dead());
        assert!(!stat('Z', 2).is_dead() && !stat('S', 1).is_dead());
        assert!(
            stat('T', 1).is_stopped() && stat('t', 1).is_stopped() && !stat('S', 1).is_stopped()
        );
    }

    #[test]
    fn this_process_is_alive_and_its_forgeries_are_not() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let me = ProcessIdentity::of(pid).unwrap().unwrap();
        assert!(me.is_alive());
        assert!(!ProcessIdentity { start: me.start + 1, ..me.clone() }.is_alive());
        assert!(!ProcessIdentity { boot_id: "other".into(), ..me.clone() }.is_alive());
        assert!(!ProcessIdentity { boot_id: String::new(), ..me }.is_alive());
    }

    #[test]
    fn ancestry_is_followed_upwards_only() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let parent = Stat::of(pid).unwrap().ppid;
        assert!(descends_from(pid, &[pid]));
        assert!(descends_from(pid, &[parent]));
        assert!(!descends_from(parent, &[pid]));
        assert!(!descends_from(pid, &[]));
        assert!(!descends_from(i32::MAX, &[pid]));
    }
}
