//! The server's side of a guard: starting it, hearing it, stopping it.
//!
//! **Invariant:** the server's end of the socketpair is the guard's lifeline: [`Guard`] alone holds
//! it, and dropping that ends the job.

use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv, send};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::base::{Context, Error, ErrorKind, Result};
use crate::process::identity::{ProcessIdentity, Signal};
use crate::process::launch::{
    ExitCause, ExitRecord, GuardEvent, GuardOrder, LAUNCH_BYTES_MAX, LINE_BYTES_MAX, Launch,
    LaunchStdin, MARK, check_env, create_private, read_exit_record,
};
use crate::process::tree::Children;

/// A guard that says nothing for this long after its job must be over is killed: an agent can stop
/// a guard of its own user, and then no clock of the guard would ever run out.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// Longer than any job.
const FAR: Duration = Duration::from_secs(400 * 86_400);
/// What it takes to start a guard.
pub struct GuardSpec {
    /// The absolute path of `wb-agent`.
    pub program: Utf8PathBuf,
    /// The job's folder; created with mode 0700 if it is not there.
    pub job_dir: Utf8PathBuf,
    /// How the agent is to be run.
    pub launch: Launch,
    /// The agent's standard input, if `launch.stdin` is `file`.
    pub prompt: Option<Vec<u8>>,
    /// Variables that are in no file, such as the job's token.
    pub secrets: Vec<(String, String)>,
}

/// A guard that this server started. Dropping it ends its job.
#[derive(Debug)]
pub struct Guard {
    child: Child,
    children: Children,
    identity: ProcessIdentity,
    job_dir: Utf8PathBuf,
    line: Arc<Lifeline>,
    input: Vec<u8>,
    /// Whether it ended by itself and in good order, once it ended.
    ended_well: Option<bool>,
    is_silent: bool,
    record: Option<ExitRecord>,
    deadline: Instant,
}

/// A handle by which a job can be ended while another waits for it. It holds no lifeline.
#[derive(Clone, Debug)]
pub struct GuardStopper {
    line: Weak<Lifeline>,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuardEnd {
    /// The guard wrote down how the job ended.
    Recorded(ExitRecord),
    /// The guard was killed: what it started may still run.
    Lost,
}

#[derive(Debug)]
struct Lifeline {
    socket: UnixStream,
    grace: Duration,
    /// When the guard must be through, once it was told to stop.
    stop_deadline: Mutex<Option<Instant>>,
    bell: Notify,
}

/// Starts a guard. The agent's start is reported by [`GuardEvent::Started`] or by the exit record.
///
/// # Errors
/// `invalid` for a launch that this release cannot do; `conflict` with code `job_launched` if the
/// job was launched before; `unavailable` if files or the process cannot be made.
pub async fn spawn_guard(children: &Children, spec: GuardSpec) -> Result<Guard> {
    let GuardSpec { program, job_dir, launch, prompt, secrets } = spec;
    check(&program, &launch, prompt.as_deref(), &secrets)?;
    let first_line = first_line(secrets)?;
    let (grace, wall) = (ms(launch.grace_ms), ms(launch.clocks.wall_ms));
    let job = launch.job.clone();
    let (folder, name) = (job_dir.clone(), job.clone());
    let text = launch_text(&launch)?;
    let prepared = tokio::task::spawn_blocking(move || {
        prepare(&folder, &text, prompt.as_deref()).map_err(|cause| match cause.kind() {
            io::ErrorKind::AlreadyExists => {
                Error::conflict("job_launched", format!("job {name} was launched before"))
            }
            _ => Error::unavailable(format!("cannot write the files in {folder}")).source(cause),
        })
    });
    let log = prepared.await.context(ErrorKind::Internal, || "writing failed".into())??;
    let cannot = || format!("cannot start the guard {program}");
    let (ours, theirs) = socketpair(&first_line).context(ErrorKind::Unavailable, cannot)?;
    let mut command =
        command(&program, &job_dir, &job, theirs, log).context(ErrorKind::Unavailable, cannot)?;
    let socket = UnixStream::from_std(ours).context(ErrorKind::Internal, cannot)?;
    let started = children.spawn(&mut command);
    // The command holds the guard's end of the lifeline: as long as it lives, so would the line.
    drop(command);
    let (child, pid) = started.context(ErrorKind::Unavailable, cannot)?;
    let identity = ProcessIdentity::of(pid)?
        .ok_or_else(|| Error::internal("a guard vanished before anybody waited for it"))?;
    let line = Lifeline { socket, grace, stop_deadline: Mutex::new(None), bell: Notify::new() };
    Ok(Guard {
        child,
        children: children.clone(),
        identity,
        job_dir,
        line: Arc::new(line),
        input: Vec::new(),
        ended_well: None,
        is_silent: false,
        record: None,
        deadline: Instant::now() + wall + grace + SILENCE_MAX,
    })
}

impl Guard {
    /// Returns which process the guard is.
    pub fn identity(&self) -> &ProcessIdentity {
        &self.identity
    }

    /// Returns a handle that can stop the job.
    pub fn stopper(&self) -> GuardStopper {
        GuardStopper { line: Arc::downgrade(&self.line) }
    }

    /// Waits for the guard's next event; `None` when it has nothing more to say. May be dropped at
    /// any time without losing an event.
    pub async fn next(&mut self) -> Option<GuardEvent> {
        loop {
            if let Some(event) = self.take_event() {
                return Some(event);
            }
            if self.is_silent {
                return None;
            }
            let deadline = self.line.deadline(self.deadline);
            tokio::select! {
                biased;
                ready = self.line.socket.readable() => {
                    self.receive();
                    // An error of the runtime itself: then the process decides alone.
                    self.is_silent |= ready.is_err();
                }
                status = self.child.wait(), if self.ended_well.is_none() => {
                    self.children.forget(self.identity.pid);
                    self.ended_well = Some(is_success(status));
                    // Whoever else may hold the guard's end: what it said is here by now.
                    self.receive_last();
                    self.is_silent = true;
                }
                () = self.line.bell.notified() => {}
                () = tokio::time::sleep_until(deadline) => self.kill("it does not answer"),
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
        let status = match tokio::time::timeout_at(deadline, self.child.wait()).await {
            Ok(status) => status,
            Err(_) => {
                self.kill("it does not end");
                self.child.wait().await
            }
        };
        self.children.forget(self.identity.pid);
        is_success(status)
    }

    fn kill(&mut self, why: &str) {
        let pid = self.identity.pid;
        tracing::error!(pid, job_dir = %self.job_dir, "the guard {pid} is killed: {why}");
        self.deadline = Instant::now() + FAR;
        self.line.set_deadline(FAR);
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

impl GuardStopper {
    /// Ends the job: INT at once, TERM at 40 % and KILL at 100 % of its grace. Does nothing when it
    /// is ending already or over. `cause` is what the record will say: `Stopped`, or a clock of the
    /// server's own.
    pub fn stop(&self, cause: ExitCause) {
        let Some(line) = self.line.upgrade() else { return };
        line.set_deadline(line.grace + SILENCE_MAX);
        line.order(&GuardOrder::Stop { cause });
        line.bell.notify_one();
    }

    /// Says that the agent's final result was seen: the linger clock starts.
    pub fn final_result(&self) {
        if let Some(line) = self.line.upgrade() {
            line.order(&GuardOrder::FinalResult);
        }
    }
}

impl Lifeline {
    fn order(&self, order: &GuardOrder) {
        let Ok(mut text) = serde_json::to_vec(order) else { return };
        text.push(b'\n');
        // Some dozen bytes always fit, unless the guard stands still; then `deadline` ends it. A
        // guard that is gone needs no order.
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        if let Err(cause) = send(self.socket.as_raw_fd(), &text, flags) {
            tracing::debug!("a guard takes no order: {cause}");
        }
    }

    fn deadline(&self, otherwise: Instant) -> Instant {
        let stop = *self.stop_deadline.lock().unwrap_or_else(PoisonError::into_inner);
        stop.unwrap_or(otherwise)
    }

    fn set_deadline(&self, after: Duration) {
        let mut stop = self.stop_deadline.lock().unwrap_or_else(PoisonError::into_inner);
        *stop = Some(Instant::now() + after.min(FAR));
    }
}

fn check(
    program: &Utf8Path,
    launch: &Launch,
    prompt: Option<&[u8]>,
    secrets: &[(String, String)],
) -> Result<()> {
    launch.check()?;
    check_env(secrets)?;
    if !program.is_absolute() {
        return Err(Error::invalid(format!("guard `{program}` is not an absolute path")));
    }
    if launch.stdin == LaunchStdin::File && prompt.is_none() {
        return Err(Error::invalid("cannot launch: stdin `file` needs a prompt"));
    }
    Ok(())
}

fn launch_text(launch: &Launch) -> Result<Vec<u8>> {
    let text = serde_json::to_vec(launch)
        .context(ErrorKind::Internal, || "cannot write the launch file".into())?;
    match u64::try_from(text.len()).is_ok_and(|it| it <= LAUNCH_BYTES_MAX) {
        true => Ok(text),
        false => {
            let message = "cannot launch: arguments and environment are too long";
            Err(Error::new(ErrorKind::TooLarge, message))
        }
    }
}

/// Writes the job's files. The launch file must be new: a job is launched once.
fn prepare(job_dir: &Utf8Path, launch: &[u8], prompt: Option<&[u8]>) -> io::Result<std::fs::File> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(job_dir)?;
    let mut file = create_private(&job_dir.join("launch.json"))?;
    file.write_all(launch)?;
    if let Some(prompt) = prompt {
        create_private(&job_dir.join("prompt"))?.write_all(prompt)?;
    }
    let mut options = std::fs::OpenOptions::new();
    options.append(true).create_new(true).mode(0o600).open(job_dir.join("guard.log"))
}

/// Makes the lifeline, with the first line already in it: the guard never has to wait for it, and
/// it is shorter than the socket's buffer.
fn socketpair(first_line: &[u8]) -> io::Result<(StdUnixStream, OwnedFd)> {
    let (ours, theirs) = StdUnixStream::pair()?;
    ours.set_nonblocking(true)?;
    (&ours).write_all(first_line)?;
    Ok((ours, theirs.into()))
}

fn first_line(secrets: Vec<(String, String)>) -> Result<Vec<u8>> {
    let mut line = serde_json::to_vec(&GuardOrder::Start { secrets })
        .context(ErrorKind::Internal, || "cannot write the first line".into())?;
    line.push(b'\n');
    match line.len() > LINE_BYTES_MAX {
        true => Err(Error::new(ErrorKind::TooLarge, "cannot launch: the environment is too long")),
        false => Ok(line),
    }
}

fn command(
    program: &Utf8Path,
    job_dir: &Utf8Path,
    job: &str,
    lifeline: OwnedFd,
    log: std::fs::File,
) -> io::Result<Command> {
    #[allow(clippy::disallowed_methods, reason = "process owns every spawn")]
    let mut command = Command::new(program);
    command
        .arg("__guard")
        .arg(job_dir)
        .current_dir(job_dir)
        .env_clear()
        .env(MARK, job)
        .stdin(Stdio::from(lifeline))
        .stdout(Stdio::from(log.try_clone()?))
        .stderr(Stdio::from(log))
        .process_group(0);
    if let Ok(off) = std::env::var("WB_WITHOUT") {
        command.env("WB_WITHOUT", off);
    }
    Ok(command)
}

fn is_success(status: io::Result<ExitStatus>) -> bool {
    status.is_ok_and(|it| it.success())
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms).min(FAR)
}
