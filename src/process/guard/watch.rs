//! The guard's main loop: watches the agent, its pipes and the lifeline until everything has ended.
//!
//! **Invariant:** processes and clocks decide the end, never the end of a pipe.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::WaitStatus;

use crate::base::{Context, ErrorKind, Result, fault, truncate_chars};
use crate::process::cgroup::Cgroup;
use crate::process::guard::agent::Agent;
use crate::process::guard::clocks::ClockState;
use crate::process::guard::end::{Ending, survivors};
use crate::process::guard::feed::Feed;
use crate::process::guard::keeper::Keeper;
use crate::process::guard::link::Link;
use crate::process::guard::note;
use crate::process::guard::output::Capture;
use crate::process::launch::{
    ExitCause, GuardEvent, GuardOrder, Launch, LaunchStdin, StreamRecord, VERSION,
};
use crate::process::tree::reap_any;

/// After the agent's exit, draining stops once no output has arrived for this long.
const DRAIN_IDLE: Duration = Duration::from_millis(100);
/// Draining stops after this long, or the grace period plus [`DRAIN_BEYOND`], if that is shorter.
const DRAIN_MAX: Duration = Duration::from_secs(2);
/// How far draining may exceed the grace period: TERM and KILL follow, and everything must be over
/// within a second of it.
const DRAIN_BEYOND: Duration = Duration::from_millis(200);
/// Minimum interval between two output notices to the server.
const NOTICE_EVERY: Duration = Duration::from_millis(50);
/// Turns of reading at the very end, when everything is dead but a stranger holds a pipe open.
const LAST_TURNS_MAX: usize = 4;
/// Longest error message in the record; it may include a long path.
const ERROR_CHARS_MAX: usize = 2_000;
/// Polling interval of the guard when no clock is set.
const LOOK_EVERY: Duration = Duration::from_secs(3_600);
const CHUNK_BYTES: usize = 64 * 1024;

/// The guard's signals, set up before there is an agent.
pub(in crate::process::guard) struct Watch {
    signals: SignalFd,
}

/// The outcome of a job.
pub(in crate::process::guard) struct Watched {
    pub(in crate::process::guard) cause: ExitCause,
    pub(in crate::process::guard) code: Option<i32>,
    pub(in crate::process::guard) signal: Option<i32>,
    pub(in crate::process::guard) error: Option<String>,
    pub(in crate::process::guard) streams: [StreamRecord; 2],
    pub(in crate::process::guard) swept: u32,
    pub(in crate::process::guard) survivors: Vec<i32>,
}

/// A running job.
struct Job<'a> {
    signals: SignalFd,
    link: &'a mut Link,
    agent: Agent,
    feed: Feed,
    keeper: Option<Keeper>,
    captures: [Capture; 2],
    clocks: ClockState,
    grace: Duration,
    cgroup: Option<Cgroup>,
    is_in_terminal: bool,
    phase: Phase,
    cause: ExitCause,
    /// Whether no child is left to wait for, and therefore no descendant.
    is_alone: bool,
    is_agent_told: bool,
    last_output: Instant,
    notice_at: Instant,
    buffer: Box<[u8]>,
}

enum Phase {
    Running,
    /// The agent exited; its last output is being drained.
    Draining {
        until: Instant,
    },
    Ending(Ending),
}

impl Watch {
    /// Blocks the signals that the guard reads. TERM to the guard stops its job.
    pub(in crate::process::guard) fn prepare() -> Result<Watch> {
        let mut mask = SigSet::empty();
        for signal in [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
            mask.add(signal);
        }
        let unavailable = ErrorKind::Unavailable;
        mask.thread_block().context(unavailable, || "cannot block signals".into())?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let signals = SignalFd::with_flags(&mask, flags);
        let signals = signals.context(unavailable, || "cannot read signals".into())?;
        Ok(Watch { signals })
    }

    /// Watches an agent until it and all its descendants have ended.
    pub(in crate::process::guard) fn watch(
        self,
        link: &mut Link,
        launch: &Launch,
        (agent, feed, keeper): (Agent, Feed, Option<Keeper>),
        captures: [Capture; 2],
    ) -> Watched {
        let now = Instant::now();
        link.tell(&GuardEvent::Started { pid: agent.pid });
        let mut job = Job {
            signals: self.signals,
            link,
            agent,
            feed,
            keeper,
            captures,
            clocks: ClockState::new(launch.clocks, now),
            grace: Duration::from_millis(launch.grace_ms),
            cgroup: launch.cgroup.clone().map(Cgroup::at),
            is_in_terminal: launch.stdin == LaunchStdin::Terminal,
            phase: Phase::Running,
            cause: ExitCause::Exit,
            is_alone: false,
            is_agent_told: false,
            last_output: now,
            notice_at: now,
            buffer: vec![0; CHUNK_BYTES].into(),
        };
        // Orders that arrived before the agent was started.
        job.take_orders();
        job.run();
        job.finish()
    }
}

impl Watched {
    /// Returns the outcome of a job whose agent never ran.
    pub(in crate::process::guard) fn failed(cause: ExitCause, error: String) -> Watched {
        Watched {
            cause,
            code: None,
            signal: None,
            error: Some(truncate_chars(&error, ERROR_CHARS_MAX)),
            streams: [StreamRecord::default(); 2],
            swept: 0,
            survivors: Vec::new(),
        }
    }
}

impl Job<'_> {
    fn run(&mut self) {
        loop {
            self.reap();
            let wake = self.advance(Instant::now());
            let wake = match (wake, self.notify(Instant::now())) {
                (None, _) => return,
                (Some(wake), Some(notice)) => wake.min(notice),
                (Some(wake), None) => wake,
            };
            self.wait(wake);
        }
    }

    /// Reaps every child that has exited. As a subreaper the guard inherits all orphans.
    fn reap(&mut self) {
        loop {
            let (pid, exit) = match reap_any() {
                Ok(WaitStatus::Exited(pid, code)) => (pid, (Some(code), None)),
                Ok(WaitStatus::Signaled(pid, signal, _)) => (pid, (None, Some(signal as i32))),
                Ok(WaitStatus::StillAlive) => break,
                Ok(_) | Err(Errno::EINTR) => continue,
                // ECHILD: with no child there is no descendant either, since each leads up to a
                // child.
                Err(_) => {
                    self.is_alone = true;
                    break;
                }
            };
            if pid.as_raw() == self.agent.pid && self.agent.exit.is_none() {
                self.agent.exit = Some(exit);
            }
        }
        // The agent was reaped unnoticed: its status is lost, but it is certainly gone.
        if self.is_alone && self.agent.exit.is_none() {
            note("the agent's exit status is lost");
            self.agent.exit = Some((None, None));
        }
    }

    /// Takes the steps that are due. Returns when to wake at the latest; `None` when all is over.
    fn advance(&mut self, now: Instant) -> Option<Instant> {
        if let Some((code, signal)) = self.agent.exit
            && !self.is_agent_told
        {
            self.is_agent_told = true;
            if self.is_in_terminal {
                // A lost terminal hangs up both guard and agent, and the agent may exit first.
                self.take_signals();
            }
            if signal == Some(Signal::SIGKILL as i32) {
                // The server may have killed it because the guard was stopped. The order that
                // explains it is then waiting in the socket, and names the cause.
                self.take_orders();
                self.end_if_due(now);
            }
            self.feed.close();
            // From here the agent's token no longer writes: the exit is the fence.
            self.link.tell(&GuardEvent::AgentExited { code, signal });
            if matches!(self.phase, Phase::Running) {
                self.last_output = now;
                let most = DRAIN_MAX.min(self.grace + DRAIN_BEYOND);
                self.phase = Phase::Draining { until: now + most };
            }
        }
        self.end_if_due(now);
        if let Phase::Draining { until } = self.phase {
            let at = until.min(self.last_output + DRAIN_IDLE);
            // Wait for the rest of the output, but never for a descendant that only holds the pipe
            // open.
            if now < at && self.is_output_open() && !fault::is_off("drain") {
                return Some(at);
            }
            self.phase = Phase::Ending(Ending::after_exit(now, self.cgroup.clone()));
        }
        match &mut self.phase {
            Phase::Ending(ending) => {
                // `is_alone` proves that no descendant is left; the agent's own exit does not.
                let is_over =
                    self.agent.exit.is_some() && (self.is_alone || fault::is_off("sweep"));
                if is_over { None } else { ending.advance(now, &self.agent) }
            }
            _ => Some(self.next_look(now)),
        }
    }

    /// Starts to end a running agent if a clock ran out or the server is gone.
    fn end_if_due(&mut self, now: Instant) {
        if matches!(self.phase, Phase::Running) {
            if let Some(cause) = self.clocks.due(now) {
                self.end(cause);
            } else if self.is_abandoned(now) && !fault::is_off("lifeline") {
                self.end(ExitCause::Lifeline);
            }
        }
    }

    /// Returns whether the server is gone and no other is expected.
    fn is_abandoned(&mut self, now: Instant) -> bool {
        let is_gone = self.link.is_gone();
        match &mut self.keeper {
            Some(keeper) => keeper.note_server(is_gone, now).is_some_and(|until| until <= now),
            None => is_gone,
        }
    }

    /// Accepts a later server and tells it the state of the job.
    fn take_over(&mut self) {
        let Some(socket) = self.keeper.as_mut().and_then(Keeper::hear) else { return };
        note("another server takes the job over");
        self.link.replace(socket);
        self.feed.forget_partial();
        for capture in &mut self.captures {
            capture.flush();
        }
        self.link.tell(&GuardEvent::Hello {
            version: VERSION,
            last_input: self.feed.last().map(str::to_owned),
            is_ending: !matches!(self.phase, Phase::Running),
        });
    }

    /// Starts to end the agent; the first cause wins.
    fn end(&mut self, cause: ExitCause) {
        if matches!(self.phase, Phase::Running) {
            self.cause = cause;
            self.link.tell(&GuardEvent::Ending { cause });
            let cgroup = self.cgroup.clone();
            let ending = Ending::by_force(Instant::now(), self.grace, &self.agent, cgroup);
            self.phase = Phase::Ending(ending);
        }
    }

    /// Returns when the next clock runs out.
    fn next_look(&mut self, now: Instant) -> Instant {
        let clock = self.clocks.deadline().map(|it| it.0);
        let is_gone = self.link.is_gone();
        let kept = self.keeper.as_mut().and_then(|it| it.note_server(is_gone, now));
        let knock = self.keeper.as_ref().and_then(Keeper::patience);
        let next = [clock, kept, knock].into_iter().flatten().min();
        next.unwrap_or(now + LOOK_EVERY)
    }

    fn is_output_open(&self) -> bool {
        self.captures.iter().any(|it| it.pipe().is_some())
    }

    /// Waits for any event and handles it.
    fn wait(&mut self, wake: Instant) {
        let left = wake.saturating_duration_since(Instant::now());
        // Rounded up: a wait that is slightly short would become a busy loop.
        let left = left + Duration::from_micros(999);
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        let mut fds = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        let pipes = self.captures.iter().filter_map(Capture::pipe);
        fds.extend(pipes.map(|it| PollFd::new(it, PollFlags::POLLIN)));
        let door = self.keeper.iter().flat_map(Keeper::interest);
        fds.extend(door.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        fds.extend(self.feed.waiting().map(|fd| PollFd::new(fd, PollFlags::POLLOUT)));
        fds.extend(self.link.interest().map(|(fd, flags)| PollFd::new(fd, flags)));
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(cause) => note(&format!("poll failed: {cause}")),
        }
        drop(fds);
        self.feed.write();
        self.take_over();
        self.take_output();
        self.take_orders();
        self.take_signals();
    }

    fn take_output(&mut self) {
        for capture in &mut self.captures {
            if capture.drain(&mut self.buffer) {
                self.last_output = Instant::now();
                self.clocks.note_output(self.last_output);
            }
        }
    }

    fn take_orders(&mut self) {
        self.link.flush();
        for order in self.link.receive() {
            match order {
                GuardOrder::Stop { cause } => self.end(match cause {
                    // Causes that only the guard itself can establish.
                    ExitCause::Exit
                    | ExitCause::SpawnFailed
                    | ExitCause::Lifeline
                    | ExitCause::TerminalLost => ExitCause::Stopped,
                    cause => cause,
                }),
                GuardOrder::FinalResult => self.clocks.note_final_result(Instant::now()),
                GuardOrder::GoesOn => self.clocks.note_work(),
                GuardOrder::InCall { is_open } => self.clocks.note_call(is_open, Instant::now()),
                GuardOrder::Input { id, is_last, text } => {
                    if self.feed.add(id.clone(), is_last, &text) {
                        self.link.tell(&GuardEvent::Taken { id });
                    }
                }
                GuardOrder::CloseInput => self.feed.finish(),
                GuardOrder::Adopt { .. } => note("taken over twice"),
                GuardOrder::Start { .. } => note("told to start twice"),
            }
        }
    }

    fn take_signals(&mut self) {
        while let Ok(Some(info)) = self.signals.read_signal() {
            let is = |signal: Signal| i64::from(info.ssi_signo) == i64::from(signal as i32);
            // SIGCHLD only wakes the loop, and a hang-up matters only in a terminal of our own.
            if is(Signal::SIGTERM) || is(Signal::SIGINT) {
                note(&format!("signal {} from process {}", info.ssi_signo, info.ssi_pid));
                self.end(ExitCause::Stopped);
            } else if is(Signal::SIGHUP) && self.is_in_terminal {
                note("the terminal is gone");
                self.end(ExitCause::TerminalLost);
            }
        }
    }

    /// Tells the server about new output, rate-limited. Returns when the next notice is due.
    fn notify(&mut self, now: Instant) -> Option<Instant> {
        if !self.captures.iter().any(Capture::is_news) {
            return None;
        }
        if now < self.notice_at {
            return Some(self.notice_at);
        }
        self.notice_at = now + NOTICE_EVERY;
        for capture in self.captures.iter_mut().filter(|it| it.is_news()) {
            capture.flush();
            let event = GuardEvent::Output { stream: capture.stream, bytes_total: capture.total() };
            if self.link.is_gone() || self.link.tell_if_free(&event) {
                capture.announced();
            }
        }
        self.captures.iter().any(Capture::is_news).then_some(self.notice_at)
    }

    fn finish(mut self) -> Watched {
        if !fault::is_off("drain") {
            for _ in 0..LAST_TURNS_MAX {
                self.take_output();
            }
        }
        let (swept, survivors) = match &self.phase {
            Phase::Ending(ending) => (ending.swept(&self.agent), survivors()),
            _ => (0, survivors()),
        };
        let streams = self.captures.each_mut().map(|capture| {
            let record = capture.finish();
            if capture.is_news() {
                let event =
                    GuardEvent::Output { stream: capture.stream, bytes_total: capture.total() };
                self.link.tell(&event);
            }
            record
        });
        let (code, signal) = self.agent.exit.unwrap_or((None, None));
        let cause = self.cause;
        Watched { cause, code, signal, error: None, streams, swept, survivors }
    }
}
