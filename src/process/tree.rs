//! Process trees: finds every descendant, and ends what must not be left behind.
//!
//! **Invariant:** only verified descendants, strays and marked processes get a signal.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::sys::{prctl, signal};
use nix::unistd::{self, Pid};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal as signal_stream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::base::{Context, Error, ErrorKind, Result, fault};
use crate::process::commands::Commands;
use crate::process::identity::{Signal, Stat, carries_mark, read_mark, seen, signal_verified};

/// How long killed processes may take to disappear after the grace period.
const KILL_MAX: Duration = Duration::from_millis(900);
/// How often the server looks again while it ends processes.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// This many consecutive looks must find nothing, and no process that has just ended. One that
/// keeps forking and exiting can slip through a single look: the parent is listed before its child
/// is born, and has exited when its turn comes.
const CALM_LOOKS: u32 = 2;
/// How long orphans may remain zombies.
const REAP_PAUSE: Duration = Duration::from_millis(500);
/// Most processes counted individually; more are ended, but not counted.
const SEEN_MAX: usize = 100_000;

/// The processes that this server started itself, which tells them from strays among its children.
/// A cheap handle.
#[derive(Clone, Debug)]
pub struct Children {
    known: Arc<Mutex<HashMap<i32, u64>>>,
    pub(in crate::process) commands: Commands,
    since: Instant,
}

impl Default for Children {
    fn default() -> Children {
        Children { known: Arc::default(), commands: Commands::default(), since: Instant::now() }
    }
}

impl Children {
    /// Returns an empty registry.
    pub fn new() -> Children {
        Children::default()
    }

    /// Returns when it was made: what is done every so often for each is counted from then.
    pub(in crate::process) fn since(&self) -> Instant {
        self.since
    }

    /// Starts a command and registers it before a sweep can take it for a stray.
    pub(in crate::process) fn spawn(&self, command: &mut Command) -> io::Result<(Child, i32)> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut child = command.spawn()?;
        let pid = child.id().and_then(|it| i32::try_from(it).ok());
        let pid = pid.ok_or_else(|| io::Error::other("a new process has no pid"))?;
        // Nobody has waited for it yet, so `/proc` shows it even if it has exited.
        let seen = Stat::read(pid)
            .and_then(|it| it.ok_or_else(|| io::Error::other("/proc does not show a child")));
        match seen {
            Ok(stat) => known.insert(pid, stat.start),
            Err(cause) => {
                // What cannot be told from a stray must not run; the runtime reaps it.
                if let Err(cause) = child.start_kill() {
                    tracing::error!("the process {pid} is left: {cause}");
                }
                return Err(cause);
            }
        };
        Ok((child, pid))
    }

    /// Ends the commands of this server that still run: nobody waits for them any more.
    pub fn end_commands(&self) {
        self.commands.end();
    }

    /// Registers the children that this process already has: if a shell `exec`ed this server, they
    /// are the shell's background jobs and none of ours.
    fn adopt(&self) {
        if fault::is_off("adopt") {
            return;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let me = unistd::getpid().as_raw();
        match Listing::new().and_then(|it| it.children(me)) {
            Ok(present) => known.extend(present.into_iter().map(|it| (it.pid, it.start))),
            Err(cause) => tracing::warn!("what this server was started with is not seen: {cause}"),
        }
    }

    /// Forgets a process that was reaped. (One whose handle was dropped is forgotten by the next
    /// sweep: its start time tells it from a later process with the same pid.)
    pub(in crate::process) fn forget(&self, pid: i32) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&pid);
    }

    /// Returns the children that this process did not start, and reaps the dead among them. One
    /// caller at a time: if another one reaped an orphan, this list would miss it, and with it the
    /// hint that it may have left a child.
    fn take_strays(&self) -> io::Result<Vec<Stat>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // One that cannot be read stays registered: otherwise it would be ended as a stray.
        known.retain(|pid, start| match Stat::read(*pid) {
            Ok(stat) => stat.is_some_and(|it| it.start == *start),
            Err(_) => true,
        });
        let me = unistd::getpid().as_raw();
        let children = Listing::new()?.children(me)?.into_iter();
        // A child whose start time differs from the registered one is a stray with a reused pid.
        let strays: Vec<Stat> =
            children.filter(|it| known.get(&it.pid) != Some(&it.start)).collect();
        strays.iter().filter(|it| it.is_dead()).for_each(reap);
        Ok(strays)
    }
}

/// Makes this process inherit the orphans among its descendants. Children that it already has are
/// registered, so that nobody ends them.
///
/// # Errors
/// `unavailable` if the kernel refuses.
pub fn become_subreaper(children: &Children) -> Result<()> {
    if fault::is_off("server_subreaper") {
        return Ok(());
    }
    children.adopt();
    prctl::set_child_subreaper(true)
        .context(ErrorKind::Unavailable, || "cannot become a subreaper".into())
}

/// Ends the whole trees of those children of this process that are not in `children`: TERM now,
/// KILL after `grace`, until none is left. Reaps each by pid. Returns how many were ended.
///
/// # Errors
/// `unavailable`, with code `survivors` if some cannot be killed.
pub async fn sweep_orphans(children: &Children, grace: Duration) -> Result<u32> {
    let children = children.clone();
    end_found(grace, None, move |act| {
        let (dead, mut found): (Vec<Stat>, Vec<Stat>) =
            children.take_strays()?.into_iter().partition(Stat::is_dead);
        // Process 1 of a machine or container inherits everybody's orphans, not only ours.
        if unistd::getpid().as_raw() == 1 {
            found.clear();
        }
        let listing = Listing::new()?;
        // Each stray's own descendants too: they become strays once their parent is gone.
        for place in 0..found.len() {
            let below = listing.descendants(found[place].pid)?;
            found.extend(below);
        }
        act(&found);
        let ended = dead.iter().map(|it| (it.pid, it.start)).collect();
        Ok(Look { found, ended })
    })
    .await
}

/// Reaps orphans inherited by this process, until `stop`. Running ones are left alone: only a sweep
/// ends them.
pub async fn reap_orphans(children: Children, stop: CancellationToken) {
    if fault::is_off("reap_orphans") {
        return stop.cancelled().await;
    }
    let mut bell = match signal_stream(SignalKind::child()) {
        Ok(bell) => bell,
        Err(cause) => {
            tracing::error!("orphans are not reaped: {cause}");
            return stop.cancelled().await;
        }
    };
    loop {
        // SIGCHLD wakes the loop. A pause follows, so that a server that starts many processes does
        // not scan all of them each time.
        tokio::select! {
            _ = bell.recv() => {}
            () = stop.cancelled() => return,
        }
        tokio::select! {
            () = tokio::time::sleep(REAP_PAUSE) => {}
            () = stop.cancelled() => return,
        }
        let children = children.clone();
        let reaped = tokio::task::spawn_blocking(move || children.take_strays());
        match reaped.await {
            Ok(Ok(_)) => {}
            Ok(Err(cause)) => tracing::error!("orphans are not reaped: {cause}"),
            Err(cause) => tracing::error!("orphans are not reaped: {cause}"),
        }
    }
}

fn reap(stray: &Stat) {
    // A child of this process that nobody else waits for. ECHILD: a sweep was faster.
    let _ = waitpid(Pid::from_raw(stray.pid), Some(WaitPidFlag::WNOHANG));
}

/// Ends every process whose environment contains `name=value`: TERM now, KILL after `grace`, until
/// none is left. Returns how many were ended. The job's guard must be gone: it carries the mark
/// too.
///
/// # Errors
/// `unavailable`, with code `survivors` if some cannot be killed.
pub async fn end_marked(name: &str, value: &str, grace: Duration) -> Result<u32> {
    if fault::is_off("mark") {
        return Ok(0);
    }
    let mark = Some((name.to_owned(), value.to_owned()));
    let (name, value) = (name.to_owned(), value.to_owned());
    end_found(grace, mark, move |act| {
        let me = unistd::getpid().as_raw();
        let (mut found, mut ended) = (Vec::new(), Vec::new());
        let mut pids = all_pids()?;
        pids.retain(|it| *it > 1 && *it != me);
        // Youngest first, and each at once: a process that keeps forking lives for a millisecond.
        pids.sort_unstable_by(|one, other| other.cmp(one));
        for pid in pids {
            let stat = Stat::read(pid)?;
            let mark = match stat {
                Some(stat) if !stat.is_dead() => read_mark(pid, &name)?,
                _ => None,
            };
            match stat {
                Some(stat) if mark.as_deref() == Some(value.as_str()) => {
                    act(&[stat]);
                    found.push(stat);
                }
                Some(stat) if Stat::read(pid)?.is_some_and(|it| it == stat || !it.is_dead()) => {}
                // It exited before its mark could be read: it may have left a child.
                gone => ended.push((pid, gone.map_or(0, |it| it.start))),
            }
        }
        Ok(Look { found, ended })
    })
    .await
}

/// One look for processes that must end.
struct Look {
    found: Vec<Stat>,
    /// Processes that just ended, by pid and start time: each may have left a child that was
    /// missed.
    ended: Vec<(i32, u64)>,
}

/// Repeats `find` until nothing is left, and ends each process found. With a mark, each must carry
/// it when it is signalled, and the processes that ended may be strangers.
async fn end_found(
    grace: Duration,
    mark: Option<(String, String)>,
    find: impl Fn(&mut dyn FnMut(&[Stat])) -> io::Result<Look> + Send + Sync + 'static,
) -> Result<u32> {
    let kill_at = Instant::now() + grace;
    let (find, mark) = (Arc::new(find), Arc::new(mark));
    let mut sweep = Sweep::default();
    let mut give_up_at = None;
    let (mut calm_looks, mut ended) = (0, HashSet::new());
    loop {
        let is_over = Instant::now() >= kill_at;
        let (find, with) = (find.clone(), mark.clone());
        // Walking `/proc` blocks for milliseconds.
        let pass = tokio::task::spawn_blocking(move || {
            let with = with.as_ref().as_ref().map(|(name, value)| (name.as_str(), value.as_str()));
            let look = find(&mut |found| match is_over {
                true => sweep.kill(found, with),
                false => sweep.terminate(found, with),
            })?;
            Ok::<_, io::Error>((sweep, look))
        });
        let pass = pass.await.context(ErrorKind::Internal, || "a sweep failed".into())?;
        let look;
        (sweep, look) =
            pass.context(ErrorKind::Unavailable, || "processes cannot be seen".into())?;
        // A zombie that nobody can reap, because a debugger holds it, counts once.
        let news = look.ended.iter().filter(|it| ended.insert(**it)).count();
        let is_calm = look.found.is_empty() && news == 0;
        calm_looks = if is_calm { calm_looks + 1 } else { 0 };
        if calm_looks >= CALM_LOOKS || (look.found.is_empty() && fault::is_off("calm")) {
            return Ok(sweep.count());
        }
        if is_over && Instant::now() >= *give_up_at.get_or_insert(Instant::now() + KILL_MAX) {
            // With a mark any process on the machine may just have ended, so calm may never come.
            let are_strangers = look.found.is_empty() && mark.is_some();
            return if are_strangers { Ok(sweep.count()) } else { Err(survivors(&look.found)) };
        }
        // Hurry once the time is up, and for the confirming look.
        let is_late = is_over || calm_looks > 0;
        tokio::time::sleep(if is_late { LOOK_EVERY / 10 } else { LOOK_EVERY }).await;
    }
}

fn survivors(found: &[Stat]) -> Error {
    let pids: Vec<String> = found.iter().map(|it| it.pid.to_string()).collect();
    let what = match pids.is_empty() {
        true => "processes fork faster than they can be ended".to_owned(),
        false => format!("processes {} do not end", pids.join(", ")),
    };
    Error::unavailable(what)
        .code("survivors")
        .hint("look at them with ps; the lane stays held until they are gone")
}

/// Which processes were signalled, each once.
#[derive(Debug, Default)]
pub(in crate::process) struct Sweep {
    seen: HashSet<(i32, u64)>,
    killed: HashSet<(i32, u64)>,
}

impl Sweep {
    /// Sends TERM to those that were not asked yet.
    pub(in crate::process) fn terminate(&mut self, found: &[Stat], mark: Option<(&str, &str)>) {
        for stat in found.iter().filter(|it| !it.is_dead()) {
            if self.note(stat) {
                send(stat, Signal::Term, mark);
                // A stopped process would not see it.
                send(stat, Signal::Cont, mark);
            }
        }
    }

    /// Kills all of them, process groups first: a group dies as one, so a process that keeps
    /// forking cannot slip between two signals.
    pub(in crate::process) fn kill(&mut self, found: &[Stat], mark: Option<(&str, &str)>) {
        if mark.is_none() {
            kill_groups(found);
        }
        for stat in found.iter().filter(|it| !it.is_dead()) {
            self.note(stat);
            // One KILL is enough: a second look may find it still dying, when time is short.
            let is_new = self.killed.insert((stat.pid, stat.start));
            if is_new && !send(stat, Signal::Kill, mark) {
                // Not sent: the next look tries again.
                self.killed.remove(&(stat.pid, stat.start));
            }
        }
    }

    pub(in crate::process) fn count(&self) -> u32 {
        u32::try_from(self.seen.len()).unwrap_or(u32::MAX)
    }

    /// Returns how many were signalled, not counting one pid.
    pub(in crate::process) fn count_without(&self, pid: i32) -> u32 {
        let others = self.seen.iter().filter(|(it, _)| *it != pid).count();
        u32::try_from(others).unwrap_or(u32::MAX)
    }

    fn note(&mut self, stat: &Stat) -> bool {
        self.seen.len() >= SEEN_MAX || self.seen.insert((stat.pid, stat.start))
    }
}

/// Signals a process if it is still the one that was found; returns whether it was sent.
fn send(stat: &Stat, signal: Signal, mark: Option<(&str, &str)>) -> bool {
    let is_it = || {
        Stat::of(stat.pid).is_some_and(|it| it.start == stat.start)
            && mark
                .is_none_or(|(name, value)| carries_mark(stat.pid, name).as_deref() == Some(value))
    };
    // Gone is as good as signalled; one that may not be signalled is reported as a survivor.
    signal_verified(stat.pid, signal, is_it).unwrap_or(false)
}

/// Kills the process groups of verified descendants. A group lies within one session, and a session
/// other than ours was created by one of them, so it contains no stranger. Between reading the
/// group and the signal, the group would have to disappear and its number be reused: microseconds
/// against a whole cycle of the pid counter.
fn kill_groups(found: &[Stat]) {
    let ours = unistd::getsid(None).map(Pid::as_raw).unwrap_or(0);
    let groups: HashSet<i32> = found
        .iter()
        .filter(|it| !it.is_dead() && it.session != ours && it.pgid > 1)
        .map(|it| it.pgid)
        .collect();
    for group in groups {
        // ESRCH and EPERM are handled process by process in the caller's next step.
        let _ = signal::killpg(Pid::from_raw(group), signal::Signal::SIGKILL);
    }
}

/// Lists children: from the kernel's own lists, or else from one scan of all processes.
pub(in crate::process) struct Listing {
    all: Option<HashMap<i32, Vec<Stat>>>,
}

impl Listing {
    /// # Errors
    /// Same as [`Stat::read`]; so are those of the next two functions.
    pub(in crate::process) fn new() -> io::Result<Listing> {
        if Path::new("/proc/thread-self/children").exists() {
            return Ok(Listing { all: None });
        }
        let mut all: HashMap<i32, Vec<Stat>> = HashMap::new();
        for stat in all_processes()? {
            all.entry(stat.ppid).or_default().push(stat);
        }
        Ok(Listing { all: Some(all) })
    }

    /// Returns the children of a process, including zombies. Some may be missing if others exit at
    /// the same time: repeat until there are none.
    pub(in crate::process) fn children(&self, pid: i32) -> io::Result<Vec<Stat>> {
        if let Some(all) = &self.all {
            return Ok(all.get(&pid).cloned().unwrap_or_default());
        }
        let Some(tasks) = seen(std::fs::read_dir(format!("/proc/{pid}/task")))? else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        for task in tasks.flatten() {
            // Every thread has its own list.
            let text = seen(std::fs::read_to_string(task.path().join("children")))?;
            let text = text.unwrap_or_default();
            for pid_below in text.split_ascii_whitespace().filter_map(|it| it.parse().ok()) {
                // The pid may have been reused, but then its parent differs too.
                found.extend(Stat::read(pid_below)?.filter(|it| it.ppid == pid));
            }
        }
        Ok(found)
    }

    /// Returns all descendants of a process, without itself.
    pub(in crate::process) fn descendants(&self, pid: i32) -> io::Result<Vec<Stat>> {
        let mut found: Vec<Stat> = Vec::new();
        // Breadth first. A set, because a process may be listed twice when it is re-parented
        // meanwhile.
        let mut known = HashSet::from([pid]);
        let mut next = pid;
        let mut at = 0;
        loop {
            for child in self.children(next)? {
                if known.insert(child.pid) {
                    found.push(child);
                }
            }
            let Some(stat) = found.get(at) else { return Ok(found) };
            next = stat.pid;
            at += 1;
        }
    }
}

/// Reaps one child of this process, whichever it is. Only the guard may call it.
pub(in crate::process) fn reap_any() -> Result<nix::sys::wait::WaitStatus, Errno> {
    waitpid(None, Some(WaitPidFlag::WNOHANG))
}

fn all_processes() -> io::Result<Vec<Stat>> {
    all_pids()?.into_iter().filter_map(|pid| Stat::read(pid).transpose()).collect()
}

fn all_pids() -> io::Result<Vec<i32>> {
    let entries = seen(std::fs::read_dir("/proc"))?.into_iter().flatten().flatten();
    Ok(entries.filter_map(|it| it.file_name().to_str()?.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Fails with `WB_WITHOUT=calm`.
    #[tokio::test]
    async fn g08_nothing_found_while_one_just_ended_means_nothing() {
        // Which processes ended before each look; 7 is held by a debugger.
        let ended: [&[i32]; 6] = [&[], &[7], &[7], &[7, 8], &[7], &[7]];
        let looks = Arc::new(AtomicUsize::new(0));
        let count = looks.clone();
        let swept = end_found(Duration::ZERO, None, move |_| {
            let at = count.fetch_add(1, Ordering::SeqCst);
            let ended = ended[at].iter().map(|it| (*it, 1)).collect();
            Ok(Look { found: Vec::new(), ended })
        });
        assert_eq!(swept.await.unwrap(), 0);
        assert_eq!(looks.load(Ordering::SeqCst), 6, "two looks in a row that found nobody");
    }
}
