//! Runs short commands of the server itself (git): bounded in time and output, in their own group.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use nix::sys::signal::{Signal as RawSignal, killpg};
use nix::unistd::{AccessFlags, Pid};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::Instant;

use crate::base::{Context, Error, ErrorKind, Result};
use crate::process::sys;
use crate::process::tree::Children;

/// The code of a program that cannot be started.
pub const COMMAND_NOT_STARTED: &str = "command_not_started";
/// The code of a program that did not end in time.
pub const COMMAND_TIMEOUT: &str = "command_timeout";
/// The code of an output above its limit.
const OUTPUT_TOO_LARGE: &str = "output_too_large";

/// After the command's exit, how long to wait for output from processes that still hold its pipes.
const DRAIN_IDLE: Duration = Duration::from_millis(100);
/// The same in total.
const DRAIN_MAX: Duration = Duration::from_secs(2);
const CHUNK_BYTES: usize = 64 * 1024;

/// A command to run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The program's absolute path.
    pub program: Utf8PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Its working directory.
    pub cwd: Utf8PathBuf,
    /// Its complete environment.
    pub env: Vec<(String, String)>,
    /// Its standard input; `/dev/null` if empty.
    pub stdin: Vec<u8>,
    /// Its timeout.
    pub timeout: Duration,
    /// Most bytes of both output streams together.
    pub output_bytes_max: usize,
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Its exit code; 128 + n if signal n killed it.
    pub code: i32,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
}

/// Runs a command to its end. The caller judges its exit code.
///
/// # Errors
/// `unavailable` with code `command_not_started` or `command_timeout`; `too_large` with code
/// `output_too_large`. In each case the command's whole process group has been killed.
pub async fn run(children: &Children, run: Run) -> Result<Output> {
    let name = run.program.file_name().unwrap_or_default().to_owned();
    if !run.program.is_absolute() {
        return Err(Error::internal(format!("program `{}` is not an absolute path", run.program)));
    }
    let mut running = Running::start(children, &run)?;
    let deadline = Instant::now() + run.timeout;
    let mut exchange = Exchange::new(&mut running.child, run.stdin, run.output_bytes_max);
    let done = tokio::time::timeout_at(deadline, async {
        exchange.until_exit(&running.pidfd).await?;
        exchange.drain().await
    });
    let outcome = done.await.unwrap_or_else(|_| {
        Err(Error::unavailable(format!("{name} did not end within {:?}", run.timeout))
            .code(COMMAND_TIMEOUT))
    });
    let (stdout, stderr) = (exchange.stdout.kept, exchange.stderr.kept);
    let status = running.end().await?;
    outcome.map_err(|it| match it.code_str() {
        OUTPUT_TOO_LARGE => Error::new(
            ErrorKind::TooLarge,
            format!("{name} printed more than {} bytes", run.output_bytes_max),
        )
        .code(OUTPUT_TOO_LARGE),
        _ => it,
    })?;
    Ok(Output { code: code_of(status), stdout, stderr })
}

/// Finds a program: a path with a slash is relative to `base`, a bare name is searched in
/// `path_env`, ignoring its relative entries.
pub fn which(program: &str, path_env: &str, base: &Utf8Path) -> Option<Utf8PathBuf> {
    if program.is_empty() {
        return None;
    }
    if program.contains('/') {
        // Normalized, because people read this path.
        let path: Utf8PathBuf = base.join(program).components().collect();
        return is_program(&path).then_some(path);
    }
    path_env
        .split(':')
        .map(Utf8Path::new)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(program))
        .find(|path| is_program(path))
}

/// Replaces this process by another program, which inherits the terminal; returns why it cannot.
/// From inside of tmux, the program nests.
pub fn become_program(words: &[String]) -> Error {
    use std::os::unix::process::CommandExt as _;
    let Some((program, args)) = words.split_first() else {
        return Error::internal("there is no program to become");
    };
    #[allow(clippy::disallowed_methods, reason = "process owns every spawn")]
    let cause = std::process::Command::new(program).args(args).env_remove("TMUX").exec();
    Error::unavailable(format!("cannot start {program}")).source(cause)
}

/// A running command. Dropping it, at any `.await`, kills its process group.
struct Running {
    child: Child,
    pid: i32,
    pidfd: AsyncFd<OwnedFd>,
    children: Children,
    is_reaped: bool,
}

impl Running {
    fn start(children: &Children, run: &Run) -> Result<Running> {
        #[allow(clippy::disallowed_methods, reason = "process owns every spawn")]
        let mut command = Command::new(&run.program);
        let stdin = if run.stdin.is_empty() { Stdio::null() } else { Stdio::piped() };
        command
            .args(&run.args)
            .current_dir(&run.cwd)
            .env_clear()
            .envs(run.env.iter().map(|(name, value)| (name, value)))
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let started = children.spawn(&mut command);
        let (child, pid) = started.map_err(|cause| {
            Error::unavailable(format!("cannot start {}", run.program))
                .code(COMMAND_NOT_STARTED)
                .source(cause)
        })?;
        // The child is ours and not reaped, so its pid cannot have been reused.
        let pidfd = sys::pidfd_watch(pid);
        match pidfd {
            Ok(pidfd) => {
                children.commands.add(pid);
                Ok(Running { child, pid, pidfd, children: children.clone(), is_reaped: false })
            }
            Err(cause) => {
                kill_group(pid);
                Err(Error::unavailable(format!("cannot watch {}", run.program)).source(cause))
            }
        }
    }

    /// Kills what is left of the group, then reaps the command. The order matters: until it is
    /// reaped, its pid, which is also the group's id, cannot be reused.
    async fn end(mut self) -> Result<ExitStatus> {
        kill_group(self.pid);
        self.children.commands.remove(self.pid);
        let status = self.child.wait().await;
        self.is_reaped = true;
        self.children.forget(self.pid);
        status.context(ErrorKind::Internal, || format!("cannot wait for process {}", self.pid))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_reaped {
            // tokio reaps it later; `Children` forgets it once it is gone.
            kill_group(self.pid);
            self.children.commands.remove(self.pid);
        }
    }
}

/// The three pipes of a command.
struct Exchange {
    stdin: Option<(ChildStdin, Vec<u8>, usize)>,
    stdout: Pipe<ChildStdout>,
    stderr: Pipe<ChildStderr>,
    bytes_max: usize,
}

struct Pipe<R> {
    from: Option<R>,
    kept: Vec<u8>,
    chunk: Box<[u8]>,
}

impl Exchange {
    fn new(child: &mut Child, stdin: Vec<u8>, bytes_max: usize) -> Exchange {
        Exchange {
            stdin: child.stdin.take().map(|pipe| (pipe, stdin, 0)),
            stdout: Pipe::new(child.stdout.take()),
            stderr: Pipe::new(child.stderr.take()),
            bytes_max,
        }
    }

    async fn until_exit(&mut self, pidfd: &AsyncFd<OwnedFd>) -> Result<()> {
        loop {
            tokio::select! {
                exited = pidfd.readable() => {
                    return exited.map(drop).context(ErrorKind::Internal, || "cannot wait".into());
                }
                () = self.step() => self.check()?,
            }
        }
    }

    async fn drain(&mut self) -> Result<()> {
        self.stdin = None;
        let deadline = Instant::now() + DRAIN_MAX;
        while self.stdout.from.is_some() || self.stderr.from.is_some() {
            let idle = Instant::now() + DRAIN_IDLE;
            if tokio::time::timeout_at(idle.min(deadline), self.step()).await.is_err() {
                break;
            }
            self.check()?;
        }
        Ok(())
    }

    /// Transfers bytes on whichever pipe is ready; waits forever when all are closed.
    async fn step(&mut self) {
        let Exchange { stdin, stdout, stderr, .. } = self;
        let is_written = tokio::select! {
            is_written = write_some(stdin) => is_written,
            () = stdout.read_some() => false,
            () = stderr.read_some() => false,
        };
        if is_written {
            // Dropped, so that the command sees the end of its input.
            *stdin = None;
        }
    }

    fn check(&self) -> Result<()> {
        match self.stdout.kept.len() + self.stderr.kept.len() > self.bytes_max {
            true => Err(Error::new(ErrorKind::TooLarge, "too much").code(OUTPUT_TOO_LARGE)),
            false => Ok(()),
        }
    }
}

impl<R: AsyncRead + Unpin> Pipe<R> {
    fn new(from: Option<R>) -> Pipe<R> {
        Pipe { from, kept: Vec::new(), chunk: vec![0; CHUNK_BYTES].into() }
    }

    async fn read_some(&mut self) {
        let Some(from) = &mut self.from else { return std::future::pending().await };
        match from.read(&mut self.chunk).await {
            Ok(count) if count > 0 => self.kept.extend_from_slice(&self.chunk[..count]),
            // An error of a pipe is treated like its end: no more will come.
            _ => self.from = None,
        }
    }
}

/// Writes some of the input; returns whether it is all written, or nobody reads it any more.
async fn write_some(stdin: &mut Option<(ChildStdin, Vec<u8>, usize)>) -> bool {
    let Some((pipe, bytes, at)) = stdin else { return std::future::pending().await };
    match pipe.write(&bytes[*at..]).await {
        Ok(count) => {
            *at += count;
            *at >= bytes.len()
        }
        // A command need not read its input; its exit code tells how it went.
        Err(_) => true,
    }
}

fn kill_group(pid: i32) {
    // ESRCH only: the whole group has already exited.
    let _ = killpg(Pid::from_raw(pid), RawSignal::SIGKILL);
}

fn code_of(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|it| 128 + it)).unwrap_or(-1)
}

fn is_program(path: &Utf8Path) -> bool {
    path.is_file() && nix::unistd::access(path.as_std_path(), AccessFlags::X_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_by_absolute_entries_only() {
        let base = Utf8Path::new("/");
        let sh = which("sh", "relative:/nowhere:/usr/bin:/bin", base).unwrap();
        assert!(sh.is_absolute() && sh.ends_with("sh"));
        assert_eq!(which("bin/sh", "", base), Some("/bin/sh".into()));
        assert_eq!(which("./bin/./sh", "", base), Some("/bin/sh".into()));
        assert_eq!(which("sh", "bin::.", base), None);
        assert_eq!(which("", "/bin", base), None);
        assert_eq!(which("etc/passwd", "", base), None);
    }
}
