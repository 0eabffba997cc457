//! A running guard: listens to it, and does its work if something prevents it from doing so.
//!
//! **Invariant:** the server's end of the socketpair is the guard's lifeline: only [`Guard`] holds
//! it, and dropping it ends the job.
//! **Invariant:** whatever the guard is late with is done from here: an agent of the same user can
//! stop its guard again and again.

use std::io;
use std::os::fd::AsRawFd;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use camino::Utf8PathBuf;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};
use tokio::process::Child;
use tokio::time::Instant;

use crate::base::{Context, ErrorKind, Result, fault};
use crate::process::cgroup::Cgroup;
use crate::process::guard_lookout::{LOOK_EVERY, Lookout};
use crate::process::identity::{ProcessIdentity, Signal, Stat};
use crate::process::launch::{
    ExitCause, ExitRecord, GuardEvent, LINE_BYTES_MAX, Stream, read_exit_record,
};
use crate::process::lifeline::{GuardStopper, Lifeline};
use crate::process::tree::{Children, Listing, Sweep};

/// How late a guard may be, on a busy machine, before its work is done from here.
const LATE_MAX: Duration = Duration::from_millis(200);
/// Time for a guard after its agent's own exit: late output, then TERM and KILL.
const AFTER_EXIT_MAX: Duration = Duration::from_millis(2_700);
/// A guard that has not ended this long after everything else is dead is killed.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// Longer than any job.
pub(in crate::process) const FAR: Duration = Duration::from_secs(400 * 86_400);
/// How often it is looked whether somebody stopped the guard, while the job ends.
const LOOK_EVERY_ENDING: Duration = Duration::from_millis(50);
/// A guard found stopped this often has a hostile agent. A single STOP may be a mistake, and is
/// undone.
const STANDSTILLS_MAX: u32 = 3;

/// A guard started by this server. Dropping it ends its job.
#[derive(Debug)]
pub struct Guard {
    held: Held,
    children: Children,
    identity: ProcessIdentity,
    job_dir: Utf8PathBuf,
    line: Arc<Lifeline>,
    cgroup: Option<Cgroup>,
    wall: Duration,
    grace: Duration,
    input: Vec<u8>,
    /// Once it has ended: whether it exited by itself with success.
    ended_well: Option<bool>,
    is_silent: bool,
    record: Option<ExitRecord>,
    step: Step,
    /// When the next step must have been taken.
    deadline: Instant,
    lookout: Lookout,
    standstills: u32,
}

/// How a guard's process is held.
#[derive(Debug)]
pub(in crate::process) enum Held {
    /// Started by this server.
    Child(Child),
    /// Started by an earlier server: its socket reports its end, and its exit status is unknown.
    Adopted(ProcessIdentity),
}

impl Held {
    /// Waits for its end; returns whether it is known to have exited with success. Cancel-safe.
    async fn wait(&mut self) -> bool {
        match self {
            Held::Child(child) => is_success(child.wait().await),
            Held::Adopted(_) => std::future::pending().await,
        }
    }

    /// Like [`Held::wait`], for a guard that has closed its socket.
    async fn until_gone(&mut self) -> bool {
        match self {
            Held::Child(_) => self.wait().await,
            Held::Adopted(identity) => {
                while identity.is_alive() {
                    tokio::time::sleep(LOOK_EVERY_ENDING).await;
                }
                false
            }
        }
    }
}

/// How the job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuardEnd {
    /// The guard recorded how the job ended.
    Recorded(ExitRecord),
    /// The guard was killed: what it started may still be running.
    Lost,
}

/// The phase of a job, which determines what is due at the deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The agent runs, or is about to: at the deadline its wall clock has run out.
    Running,
    /// The job is ending: at the deadline everything below the guard is killed from here.
    Ending,
    /// Killing is repeated until this time; then the guard itself is killed.
    Forced { until: Instant },
    /// Everything has ended: at the deadline the guard is killed.
    Over,
}

/// The parts of a new guard.
pub(in crate::process) struct Started {
    pub(in crate::process) held: Held,
    pub(in crate::process) children: Children,
    pub(in crate::process) identity: ProcessIdentity,
    pub(in crate::process) job_dir: Utf8PathBuf,
    pub(in crate::process) line: Lifeline,
    pub(in crate::process) cgroup: Option<Cgroup>,
    pub(in crate::process) wall: Duration,
    pub(in crate::process) grace: Duration,
}

impl Guard {
    pub(in crate::process) fn new(started: Started) -> Guard {
        let Started { held, children, identity, job_dir, line, cgroup, wall, grace } = started;
        let (line, now) = (Arc::new(line), Instant::now());
        let is_child = matches!(held, Held::Child(_));
        let lookout = Lookout::new(wall >= FAR, is_child, children.since());
        Guard {
            held,
            children,
            identity,
            job_dir,
            line,
            cgroup,
            wall: wall.min(FAR),
            grace: grace.min(FAR),
            input: Vec::new(),
            ended_well: None,
            is_silent: false,
            record: None,
            step: Step::Running,
            // The agent's clock starts with `Started`, which resets this deadline.
            deadline: now + wall.min(FAR) + SILENCE_MAX,
            lookout,
            standstills: 0,
        }
    }

    /// Returns a guard that an earlier server started; `rest` is what it sent after its first
    /// message.
    pub(in crate::process) fn adopted(started: Started, rest: Vec<u8>, is_ending: bool) -> Guard {
        let mut guard = Guard::new(started);
        // Nobody was told about the output printed meanwhile.
        let news = GuardEvent::Output { stream: Stream::Stdout, bytes_total: 0 };
        if let Ok(line) = serde_json::to_vec(&news) {
            guard.input.extend(line);
            guard.input.push(b'\n');
        }
        guard.input.extend(rest);
        if is_ending {
            guard.begin_ending();
        }
        guard
    }

    /// Returns the identity of the guard's process.
    pub fn identity(&self) -> &ProcessIdentity {
        &self.identity
    }

    /// Tells a guard that has accepted this server to start.
    pub(in crate::process) fn send_start(
        &self,
        secrets: Vec<(String, String)>,
        masked: Vec<String>,
    ) {
        self.line.start(secrets, masked);
    }

    /// Returns a handle that can stop the job.
    pub fn stopper(&self) -> GuardStopper {
        GuardStopper::new(&self.line)
    }

    /// Kills everything below the guard at once, without the grace period.
    pub async fn kill_all(&mut self) {
        if self.step == Step::Over {
            return;
        }
        // Once it continues, the order lets its record name the cause.
        self.line.stop(ExitCause::Stopped);
        self.step = Step::Forced { until: Instant::now() + SILENCE_MAX };
        self.force().await;
    }

    /// Waits for the guard's next event; `None` when there will be none. Cancel-safe.
    pub async fn next(&mut self) -> Option<GuardEvent> {
        loop {
            if let Some(event) = self.take_event() {
                self.note(&event);
                return Some(event);
            }
            if self.is_silent {
                return None;
            }
            self.note_stop();
            let deadline = self.deadline;
            tokio::select! {
                biased;
                ready = self.line.socket.readable() => {
                    self.receive();
                    // An error of the runtime itself: only the process decides then.
                    self.is_silent |= ready.is_err();
                }
                ended_well = self.held.wait(), if self.ended_well.is_none() => {
                    self.children.forget(self.identity.pid);
                    self.ended_well = Some(ended_well);
                    // The pipe may still be held open, but everything that the guard sent has
                    // arrived by now.
                    self.receive_last();
                    self.is_silent = true;
                }
                () = self.line.bell.notified() => {}
                () = self.line.write_rest() => {}
                () = tokio::time::sleep_until(deadline) => self.take_step().await,
                () = self.lookout.wait() => self.look(),
            }
        }
    }

    /// Waits until the guard has ended, and returns how the job ended.
    pub async fn wait(mut self) -> GuardEnd {
        while self.next().await.is_some() {}
        let ended_well = match self.ended_well {
            Some(ended_well) => ended_well,
            None => self.until_exit().await,
        };
        if let Some(record) = self.record.take() {
            return GuardEnd::Recorded(record);
        }
        // Without a guard that ended with success, anybody could have written the exit file.
        match read_exit_record(&self.job_dir) {
            Ok(Some(record)) if ended_well => GuardEnd::Recorded(record),
            Ok(_) => GuardEnd::Lost,
            Err(error) => {
                tracing::warn!(job_dir = %self.job_dir, "no exit record: {}", error.chain());
                GuardEnd::Lost
            }
        }
    }

    async fn until_exit(&mut self) -> bool {
        let deadline = Instant::now() + SILENCE_MAX;
        let ended_well = match tokio::time::timeout_at(deadline, self.held.until_gone()).await {
            Ok(ended_well) => ended_well,
            Err(_) => {
                self.kill("it does not end");
                self.held.until_gone().await
            }
        };
        self.children.forget(self.identity.pid);
        ended_well
    }

    /// Updates the deadline according to an event.
    fn note(&mut self, event: &GuardEvent) {
        let now = Instant::now();
        match event {
            GuardEvent::Started { .. } if self.step == Step::Running => {
                self.deadline = now + self.wall + LATE_MAX;
            }
            GuardEvent::Ending { .. } if self.step == Step::Running => self.begin_ending(),
            GuardEvent::AgentExited { .. } if self.step == Step::Running => {
                self.step = Step::Ending;
                self.deadline = now + AFTER_EXIT_MAX.max(self.grace + LATE_MAX);
                self.lookout.after(LOOK_EVERY_ENDING);
            }
            GuardEvent::Ended(_) => {
                self.step = Step::Over;
                self.deadline = now + SILENCE_MAX;
            }
            _ => {}
        }
    }

    fn note_stop(&mut self) {
        if self.step == Step::Running && self.line.is_stop_asked() {
            self.begin_ending();
        }
    }

    fn begin_ending(&mut self) {
        let now = Instant::now();
        self.step = Step::Ending;
        self.deadline = now + self.grace + LATE_MAX;
        self.lookout.after(LOOK_EVERY_ENDING);
    }

    /// Takes over what the guard has not done in time.
    async fn take_step(&mut self) {
        let now = Instant::now();
        if fault::is_off("standstill") && self.step != Step::Over {
            (self.step, self.deadline) = (Step::Over, now + SILENCE_MAX);
            return;
        }
        match self.step {
            Step::Running => {
                // The guard does the same by itself unless it is stopped; once it continues, the
                // order lets its record name the cause.
                self.line.stop(ExitCause::WallTimeout);
                self.begin_ending();
            }
            Step::Ending => {
                tracing::warn!(job_dir = %self.job_dir, "a guard is late: its job is ended for it");
                self.step = Step::Forced { until: now + SILENCE_MAX };
                self.force().await;
            }
            // Killing may race with forks below the guard: it is repeated at every deadline.
            Step::Forced { until } if now < until => self.force().await,
            Step::Forced { .. } | Step::Over => self.kill("it does not answer"),
        }
    }

    /// Kills everything below the guard and resumes it, so that it records the result.
    async fn force(&mut self) {
        let (identity, cgroup) = (self.identity.clone(), self.cgroup.clone());
        let pass =
            tokio::task::spawn_blocking(move || kill_below(&identity, None, cgroup.as_ref()));
        if let Ok(Err(cause)) = pass.await {
            tracing::error!(job_dir = %self.job_dir, "below a guard: {}", cause.chain());
        }
        self.deadline = Instant::now() + LOOK_EVERY_ENDING;
    }

    /// Checks whether somebody stopped the guard, and resumes it.
    fn look(&mut self) {
        match self.step {
            Step::Running if self.wall >= FAR => self.lookout.until_reason(),
            Step::Running => self.lookout.after(LOOK_EVERY),
            _ => self.lookout.after(LOOK_EVERY_ENDING),
        }
        let is_it = |it: &Stat| it.start == self.identity.start;
        let is_stopped =
            Stat::of(self.identity.pid).is_some_and(|it| is_it(&it) && it.is_stopped());
        if !is_stopped || fault::is_off("standstill") {
            return;
        }
        self.standstills += 1;
        let (pid, count) = (self.identity.pid, self.standstills);
        if count == 1 {
            tracing::warn!(pid, job_dir = %self.job_dir, "somebody stopped the guard {pid}");
        }
        // Its agent must not outrun a guard that is kept from its work; without the guard it dies.
        if self.step == Step::Running && count >= STANDSTILLS_MAX {
            return self.kill("it was stopped again and again");
        }
        if let Err(error) = self.identity.signal_if_same(None, Signal::Cont) {
            tracing::error!(pid, "the guard {pid} cannot go on: {}", error.chain());
        }
    }

    fn kill(&mut self, why: &str) {
        let pid = self.identity.pid;
        tracing::error!(pid, job_dir = %self.job_dir, "the guard {pid} is killed: {why}");
        self.step = Step::Over;
        self.deadline = Instant::now() + FAR;
        if let Err(error) = self.identity.signal_if_same(None, Signal::Kill) {
            tracing::error!(pid, "the guard {pid} cannot be killed: {}", error.chain());
        }
    }

    /// Reads what is available, according to the runtime.
    fn receive(&mut self) {
        let mut buffer = [0; 8 * 1024];
        loop {
            match self.line.socket.try_read(&mut buffer) {
                Ok(0) => return self.is_silent = true,
                Ok(count) => self.input.extend_from_slice(&buffer[..count]),
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => return,
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.is_silent = true,
            }
            if self.input.len() > LINE_BYTES_MAX {
                // The rest stays in the socket until these lines are processed.
                return;
            }
        }
    }

    /// Reads what is available, asking the kernel directly: the runtime may not know of it yet.
    fn receive_last(&mut self) {
        let mut buffer = [0; 8 * 1024];
        let fd = self.line.socket.as_raw_fd();
        while self.input.len() <= 4 * LINE_BYTES_MAX {
            match recv(fd, &mut buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(count) if count > 0 => self.input.extend_from_slice(&buffer[..count]),
                Err(Errno::EINTR) => {}
                _ => return,
            }
        }
    }

    fn take_event(&mut self) -> Option<GuardEvent> {
        loop {
            let Some(end) = self.input.iter().position(|byte| *byte == b'\n') else {
                if self.input.len() > LINE_BYTES_MAX {
                    tracing::error!(job_dir = %self.job_dir, "a guard's line is too long");
                    self.input.clear();
                    self.kill("it makes no sense");
                }
                return None;
            };
            let line: Vec<u8> = self.input.drain(..=end).collect();
            match serde_json::from_slice(&line) {
                Ok(event) => {
                    if let GuardEvent::Ended(record) = &event {
                        self.record = Some(record.clone());
                    }
                    return Some(event);
                }
                Err(cause) => {
                    tracing::error!(job_dir = %self.job_dir, "a guard's event: {cause}");
                }
            }
        }
    }
}

/// Kills everything below the guard of an earlier server, which must carry the mark, and resumes
/// it. Does nothing if the process is not proven to be that guard. Blocks briefly.
///
/// # Errors
/// `unavailable` if the kernel refuses a signal.
pub fn end_below(guard: &ProcessIdentity, mark: (&str, &str)) -> Result<()> {
    kill_below(guard, Some(mark), None)
}

fn kill_below(
    guard: &ProcessIdentity,
    mark: Option<(&str, &str)>,
    cgroup: Option<&Cgroup>,
) -> Result<()> {
    if let Some(cgroup) = cgroup
        && let Err(cause) = cgroup.kill()
    {
        tracing::warn!("the cgroup {} is not killed: {cause}", cgroup.folder());
    }
    if guard.is_proven(mark) {
        let found = Listing::new().and_then(|it| it.descendants(guard.pid));
        let found = found.context(ErrorKind::Unavailable, || "cannot see processes".into())?;
        // Proven again: the list is worthless if another process got the guard's pid meanwhile.
        if guard.is_proven(mark) {
            Sweep::default().kill(&found, None);
        }
    }
    guard.signal_if_same(mark, Signal::Cont).map(drop)
}

fn is_success(status: io::Result<ExitStatus>) -> bool {
    status.is_ok_and(|it| it.success())
}
