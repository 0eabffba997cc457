//! A guard that runs: hearing it, and doing its work where somebody keeps it from it.
//!
//! **Invariant:** the server's end of the socketpair is the guard's lifeline: [`Guard`] alone holds
//! it, and dropping that ends the job.
//! **Invariant:** what the guard must have done by some time, and has not, is done from here: an
//! agent of its own user can stop a guard again and again.

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
use crate::process::identity::{ProcessIdentity, Signal, Stat};
use crate::process::launch::{
    ExitCause, ExitRecord, GuardEvent, LINE_BYTES_MAX, Stream, read_exit_record,
};
use crate::process::lifeline::{GuardStopper, Lifeline};
use crate::process::lookout::{LOOK_EVERY, Lookout};
use crate::process::tree::{Children, Listing, Sweep};

/// How late a guard may be, on a busy machine, before its work is done from here.
const LATE_MAX: Duration = Duration::from_millis(200);
/// What a guard may take after its agent's own exit: late output, then TERM and KILL.
const AFTER_EXIT_MAX: Duration = Duration::from_millis(2_700);
/// A guard that is not through this long after all else is dead is killed.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// Longer than any job.
pub(in crate::process) const FAR: Duration = Duration::from_secs(400 * 86_400);
/// How often it is looked whether somebody stopped the guard, while the job ends.
const LOOK_EVERY_ENDING: Duration = Duration::from_millis(50);
/// A guard that was found stopped this often has an agent that will not have it: one STOP may be
/// anybody's mistake, and is made good.
const STANDSTILLS_MAX: u32 = 3;

/// A guard that this server started. Dropping it ends its job.
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
    /// Whether it ended by itself and in good order, once it ended.
    ended_well: Option<bool>,
    is_silent: bool,
    record: Option<ExitRecord>,
    step: Step,
    /// When the next step must have been taken.
    deadline: Instant,
    lookout: Lookout,
    standstills: u32,
}

/// How the process of a guard is held.
#[derive(Debug)]
pub(in crate::process) enum Held {
    /// This server started it.
    Child(Child),
    /// An earlier one did: it tells its end by its socket, and its status is not known.
    Adopted(ProcessIdentity),
}

impl Held {
    /// Waits for its end; whether it is known to have ended by itself and in good order. May be
    /// dropped at any time.
    async fn wait(&mut self) -> bool {
        match self {
            Held::Child(child) => is_success(child.wait().await),
            Held::Adopted(_) => std::future::pending().await,
        }
    }

    /// The same for one that has nothing more to say.
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
    /// The guard wrote down how the job ended.
    Recorded(ExitRecord),
    /// The guard was killed: what it started may still run.
    Lost,
}

/// Where a job is, and so what is due at the deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The agent runs, or is about to: at the deadline its wall clock has run out.
    Running,
    /// The job ends: at the deadline everything below the guard is killed from here.
    Ending,
    /// That is done again and again until this time; then the guard itself is killed.
    Forced { until: Instant },
    /// All is over: at the deadline the guard is killed.
    Over,
}

/// What a new guard is made of.
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
            // Its clock starts with its agent, and says so.
            deadline: now + wall.min(FAR) + SILENCE_MAX,
            lookout,
            standstills: 0,
        }
    }

    /// Returns a guard that an earlier server started; `rest` is what it has said beyond its first
    /// word.
    pub(in crate::process) fn adopted(started: Started, rest: Vec<u8>, is_ending: bool) -> Guard {
        let mut guard = Guard::new(started);
        // What its agent printed meanwhile was announced to nobody.
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

    /// Returns which process the guard is.
    pub fn identity(&self) -> &ProcessIdentity {
        &self.identity
    }

    /// Tells a guard that was let in to begin.
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

    /// Waits for the guard's next event; `None` when it has nothing more to say. May be dropped at
    /// any time without losing an event.
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
                    // An error of the runtime itself: then the process decides alone.
                    self.is_silent |= ready.is_err();
                }
                ended_well = self.held.wait(), if self.ended_well.is_none() => {
                    self.children.forget(self.identity.pid);
                    self.ended_well = Some(ended_well);
                    // Whoever else may hold the guard's end: what it said is here by now.
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
        // An exit file without a guard that ended well could be anybody's.
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

    /// Takes in what an event means for the time that is left.
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

    /// Does what the guard has not done in time.
    async fn take_step(&mut self) {
        let now = Instant::now();
        if fault::is_off("standstill") && self.step != Step::Over {
            (self.step, self.deadline) = (Step::Over, now + SILENCE_MAX);
            return;
        }
        match self.step {
            Step::Running => {
                // It does the same itself, unless it stands still; the order is there when it goes
                // on, so that its record names the cause.
                self.line.stop(ExitCause::WallTimeout);
                self.begin_ending();
            }
            Step::Ending => {
                tracing::warn!(job_dir = %self.job_dir, "a guard is late: its job is ended for it");
                self.step = Step::Forced { until: now + SILENCE_MAX };
                self.force().await;
            }
            Step::Forced { until } if now < until => self.force().await,
            Step::Forced { .. } | Step::Over => self.kill("it does not answer"),
        }
    }

    /// Kills all below the guard, and lets it go on: it writes down what it finds.
    async fn force(&mut self) {
        let (identity, cgroup) = (self.identity.clone(), self.cgroup.clone());
        let pass =
            tokio::task::spawn_blocking(move || kill_below(&identity, None, cgroup.as_ref()));
        if let Ok(Err(cause)) = pass.await {
            tracing::error!(job_dir = %self.job_dir, "below a guard: {}", cause.chain());
        }
        self.deadline = Instant::now() + LOOK_EVERY_ENDING;
    }

    /// Looks whether somebody stopped the guard, and lets it go on.
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

    /// Takes what is there, as far as the runtime knows.
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
                // The rest waits in the socket until these lines are taken.
                return;
            }
        }
    }

    /// Takes what is there, asking the kernel itself.
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

/// Kills everything below the guard of an earlier server, which must carry the mark, and lets the
/// guard go on. Does nothing if the process is not proven to be that guard. Blocks for a moment.
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
        // Proven again: what was listed was below the guard, if it was the guard all the time.
        if guard.is_proven(mark) {
            Sweep::default().kill(&found, None);
        }
    }
    guard.signal_if_same(mark, Signal::Cont).map(drop)
}

fn is_success(status: io::Result<ExitStatus>) -> bool {
    status.is_ok_and(|it| it.success())
}
