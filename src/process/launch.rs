//! The protocol between server and guard: launch file, lifeline messages, exit file.
//!
//! **Invariant:** no secret is written to a file; secrets only travel over the lifeline.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;

use camino::{Utf8Path, Utf8PathBuf};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use serde::{Deserialize, Serialize};

use crate::base::{Context, Error, ErrorKind, Result};
use crate::process::job_folder::JobFolder;

/// The variable that marks every process of a job.
pub const MARK: &str = "WB_JOB_ID";

/// The variable with the folder of the job, which tells it from a job with the same id of a copy of
/// this site.
pub(in crate::process) const PLACE: &str = "WB_JOB_FOLDER";

/// Version of the launch and exit file formats.
pub(in crate::process) const VERSION: u32 = 1;
/// Longest line on the lifeline, in either direction.
pub(in crate::process) const LINE_BYTES_MAX: usize = 96 * 1024;
/// Longest value that is masked; also the most output that is held back.
pub(in crate::process) const MASKED_BYTES_MAX: usize = 16 * 1024;
/// Largest launch file.
pub(in crate::process) const LAUNCH_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// The socket in a job's folder through which a later server takes over its guard.
pub const GUARD_SOCKET: &str = "guard.sock";
/// The file in a job's folder that says how to run its agent.
pub(in crate::process) const LAUNCH_FILE: &str = "launch.json";
/// The file in a job's folder that says how the job ended.
pub(in crate::process) const EXIT_FILE: &str = "exit.json";
/// The pipe in a job's folder to which the hooks of an agent in a terminal write.
pub const HOOKS_PIPE: &str = "hooks";
/// The guard's log in a job's folder.
pub(in crate::process) const GUARD_LOG: &str = "guard.log";
/// The file in a job's folder that becomes the agent's standard input.
pub const PROMPT_FILE: &str = "prompt";
/// Largest exit file.
const EXIT_BYTES_MAX: u64 = 1024 * 1024;

/// How to run a job's agent. Stored in `launch.json`, the guard's only configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Launch {
    /// Format version: 1.
    pub version: u32,
    /// The job's id, which also marks its processes' environment.
    pub job: String,
    /// The program (absolute) and its arguments.
    pub argv: Vec<String>,
    /// The environment as far as it may be written to a file: without mark, token and secrets.
    pub env: Vec<(String, String)>,
    /// Names of the variables that are in no file; filled when the guard is started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub private_names: Vec<String>,
    /// The agent's working directory.
    pub cwd: Utf8PathBuf,
    /// Source of the agent's standard input.
    pub stdin: LaunchStdin,
    /// When to end an agent that has not exited.
    pub clocks: Clocks,
    /// The grace period of an end, in milliseconds.
    pub grace_ms: u64,
    /// How much of the output to keep.
    pub output: OutputCaps,
    /// What to do when the server is gone.
    pub on_server_loss: OnServerLoss,
    /// The cgroup in which to start the agent, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<Utf8PathBuf>,
    /// Reserved: a launch that requires a sandbox is refused, never run without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<serde_json::Value>,
}

/// Source of the agent's standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaunchStdin {
    /// The file `prompt` in the job's folder.
    File,
    /// `/dev/null`.
    Null,
    /// What the server sends while the agent runs.
    Pipe,
    /// The terminal in which the guard was started, on which the agent also draws; the messages of
    /// its hooks are kept as its output.
    Terminal,
}

/// What happens to the agent when the server is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnServerLoss {
    /// The agent is ended.
    Kill,
    /// The agent continues for a while, so that a later server can take over its guard.
    Keep {
        /// How long, in milliseconds.
        keep_ms: u64,
        /// Digest of the key that the later server must present.
        adopt_digest: String,
    },
}

/// The clocks of a job, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clocks {
    /// Until the first output; if unset, the idle clock runs from the start.
    pub start_ms: Option<u64>,
    /// Without any output.
    pub idle_ms: Option<u64>,
    /// In total; if unset, the agent only ends on order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<u64>,
    /// After the final result.
    pub linger_ms: u64,
}

/// How much of each output stream is kept, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputCaps {
    /// Head.
    pub head_bytes: u64,
    /// Tail.
    pub tail_bytes: u64,
}

/// An output stream of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// Both, in the order in which the guard keeps them.
    pub const ALL: [Stream; 2] = [Stream::Stdout, Stream::Stderr];

    /// Returns the stem of the stream's file names.
    pub fn as_str(self) -> &'static str {
        match self {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        }
    }
}

/// Why a job's processes ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitCause {
    /// The agent exited by itself.
    Exit,
    /// The agent could not be started.
    SpawnFailed,
    /// It printed nothing within the start timeout.
    StartTimeout,
    /// It printed nothing for too long.
    IdleTimeout,
    /// It ran for too long in total.
    WallTimeout,
    /// It did not exit after its final result.
    Linger,
    /// The server ordered it, or the guard received TERM.
    Stopped,
    /// The server was gone.
    Lifeline,
    /// The agent's terminal was gone.
    TerminalLost,
}

/// Messages from a guard to the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum GuardEvent {
    /// The agent was started.
    Started {
        /// Its pid, which is also its session and process group.
        pid: i32,
    },
    /// More output is in the files. Notices may be skipped, but the last one is accurate.
    Output {
        /// The stream.
        stream: Stream,
        /// Total bytes printed.
        bytes_total: u64,
    },
    /// The agent exited. This is the fence: from now on its token must not write.
    AgentExited {
        /// Its exit code, unless a signal ended it.
        code: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
    },
    /// The guard is ending the agent because of a clock or an order. Also a fence.
    Ending {
        /// Why.
        cause: ExitCause,
    },
    /// An input for the agent has been queued; the guard keeps it until it is read.
    Taken {
        /// The id of the input.
        id: String,
    },
    /// The first message to a server that takes over the job.
    Hello {
        /// The version of this guard's protocol.
        version: u32,
        /// The id of the last input that was queued or read.
        last_input: Option<String>,
        /// Whether the job is ending already.
        is_ending: bool,
    },
    /// Everything has ended and is on disk.
    Ended(ExitRecord),
}

/// Messages from the server to a guard.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(in crate::process) enum GuardOrder {
    /// The first line: start, with these additional variables, and mask these values in the output.
    Start { secrets: Vec<(String, String)>, masked: Vec<String> },
    /// End the agent.
    Stop { cause: ExitCause },
    /// The final result was seen; start the linger clock.
    FinalResult,
    /// The agent works on after that; stop the linger clock.
    GoesOn,
    /// Part of an input for the agent, delivered once complete; `id` names the whole input.
    Input { id: String, is_last: bool, text: String },
    /// No further input comes: the agent's standard input ends with what is queued.
    CloseInput,
    /// The first line of a later server: it takes over the job.
    Adopt { key: String },
    /// Whether a tool of the agent is running, which pauses the idle clock.
    InCall { is_open: bool },
}

/// How a job's processes ended: the file `exit.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// Format version: 1.
    pub version: u32,
    /// Why.
    pub cause: ExitCause,
    /// The agent's exit code, unless it was killed by a signal or never ran.
    pub code: Option<i32>,
    /// The signal that killed the agent.
    pub signal: Option<i32>,
    /// Why the agent could not be started.
    pub error: Option<String>,
    /// When the guard started, in milliseconds since 1970.
    pub started_ms: i64,
    /// When everything had ended, in milliseconds since 1970: `started_ms` plus a monotonic
    /// duration.
    pub ended_ms: i64,
    /// User CPU time of all reaped processes.
    pub cpu_user_ms: u64,
    /// System CPU time of all reaped processes.
    pub cpu_sys_ms: u64,
    /// Peak resident memory of a single process.
    pub rss_max_bytes: u64,
    /// Standard output.
    pub stdout: StreamRecord,
    /// Standard error.
    pub stderr: StreamRecord,
    /// How many processes besides the agent had to be ended.
    pub swept: u32,
    /// Processes that could not be killed.
    pub survivors: Vec<i32>,
}

/// Summary of an output stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamRecord {
    /// Total bytes printed.
    pub bytes: u64,
    /// Whether bytes between head and tail were dropped.
    pub cut: bool,
}

impl Launch {
    /// Refuses launches that this version does not support.
    ///
    /// # Errors
    /// `invalid`, naming the field.
    pub fn check(&self) -> Result<()> {
        let refuse = |why: &str| Err(Error::invalid(format!("cannot launch: {why}")));
        let Some(program) = self.argv.first() else { return refuse("argv is empty") };
        if self.version != VERSION {
            return refuse(&format!("version {} is not known", self.version));
        }
        if !program.starts_with('/') {
            return refuse(&format!("program `{program}` is not an absolute path"));
        }
        if !self.cwd.is_absolute() {
            return refuse(&format!("folder `{}` is not an absolute path", self.cwd));
        }
        if self.job.is_empty() {
            return refuse("job is empty");
        }
        if self.sandbox.is_some() {
            return refuse("sandbox is not in this release");
        }
        check_env(&self.env)?;
        let texts = self.argv.iter().chain([&self.job]);
        match texts.into_iter().any(|it| it.contains('\0')) {
            true => refuse("an argument or the job holds a zero byte"),
            false => Ok(()),
        }
    }
}

/// Refuses names and values that are not valid in an environment.
pub(in crate::process) fn check_env(env: &[(String, String)]) -> Result<()> {
    for (name, value) in env {
        let is_name = !name.is_empty() && !name.contains(['=', '\0']);
        if !is_name || value.contains('\0') {
            let shown: String = name.chars().take(64).flat_map(char::escape_debug).collect();
            return Err(Error::invalid(format!("cannot launch: bad variable `{shown}`")));
        }
    }
    Ok(())
}

/// Returns how a job's processes ended; `None` if there is no exit file.
///
/// # Errors
/// `unavailable` if the file cannot be read; `internal` with code `bad_exit_record` if it cannot be
/// parsed.
pub fn read_exit_record(job_dir: &Utf8Path) -> Result<Option<ExitRecord>> {
    let path = job_dir.join(EXIT_FILE);
    let Some(folder) = JobFolder::open(job_dir)? else { return Ok(None) };
    let Some(text) = folder.read(EXIT_FILE, EXIT_BYTES_MAX)? else { return Ok(None) };
    let bad = || Error::internal(format!("{path} makes no sense")).code("bad_exit_record");
    let record: ExitRecord = serde_json::from_slice(&text).map_err(|it| bad().source(it))?;
    match record.version {
        VERSION => Ok(Some(record)),
        _ => Err(bad()),
    }
}

/// Reads and validates the launch file in a job's folder.
///
/// # Errors
/// `not_found` without one; `invalid` if it is not one of this version.
pub fn launched(job_dir: &Utf8Path) -> Result<Launch> {
    let missing = || Error::not_found(format!("{job_dir} is not there"));
    read_launch(&JobFolder::open(job_dir)?.ok_or_else(missing)?)
}

/// Reads and validates the launch file.
pub(in crate::process) fn read_launch(folder: &JobFolder) -> Result<Launch> {
    let path = folder.path().join(LAUNCH_FILE);
    let text = folder
        .read(LAUNCH_FILE, LAUNCH_BYTES_MAX)?
        .ok_or_else(|| Error::not_found(format!("{path} is not there")))?;
    let launch: Launch =
        serde_json::from_slice(&text).context(ErrorKind::Invalid, || format!("bad {path}"))?;
    launch.check()?;
    Ok(launch)
}

/// Syncs a file or folder to disk. Does not block on a fifo in its place.
///
/// # Errors
/// The error of the file system; `NotFound` if it does not exist.
pub fn sync_path(path: &Utf8Path) -> std::io::Result<()> {
    let flags = nix::fcntl::OFlag::O_NONBLOCK.bits();
    OpenOptions::new().read(true).custom_flags(flags).open(path)?.sync_all()
}

/// Opens a regular file; `None` if it does not exist. Never follows a link or blocks on a fifo.
fn open_regular(path: &Utf8Path) -> Result<Option<File>> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits())
        .open(path);
    let file = match opened {
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(cause) if cause.raw_os_error() == Some(Errno::ELOOP as i32) => {
            return Err(not_regular(path));
        }
        other => other.context(ErrorKind::Unavailable, || format!("cannot open {path}"))?,
    };
    let meta = file.metadata();
    let meta = meta.context(ErrorKind::Unavailable, || format!("cannot read {path}"))?;
    match meta.is_file() {
        true => Ok(Some(file)),
        false => Err(not_regular(path)),
    }
}

/// Code for a path that is not a regular file.
const NOT_REGULAR: &str = "not_regular";
/// Code for a path that is a link or file instead of a folder.
pub(in crate::process) const NOT_A_FOLDER: &str = "path_is_link";

/// Returns whether an error means that something took the place of a job's file or folder; the
/// agent may have put it there.
pub fn is_usurped(refusal: &Error) -> bool {
    [NOT_REGULAR, NOT_A_FOLDER].contains(&refusal.code_str())
}

/// Returns the error for a path that is not a regular file.
pub(in crate::process) fn not_regular(path: &Utf8Path) -> Error {
    Error::conflict(NOT_REGULAR, format!("{path} is not a regular file"))
        .hint("something has replaced it, perhaps the agent of the job")
}

/// Reads a regular file of at most `bytes_max` bytes; `None` if it does not exist. Never follows a
/// link or blocks on a fifo.
///
/// # Errors
/// `unavailable` if it cannot be read or is not a regular file; `too_large`.
pub fn read_small(path: &Utf8Path, bytes_max: u64) -> Result<Option<Vec<u8>>> {
    let Some(file) = open_regular(path)? else { return Ok(None) };
    let mut bytes = Vec::new();
    file.take(bytes_max + 1)
        .read_to_end(&mut bytes)
        .context(ErrorKind::Unavailable, || format!("cannot read {path}"))?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > bytes_max {
        return Err(Error::new(ErrorKind::TooLarge, format!("{path} is too large")));
    }
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch() -> Launch {
        Launch {
            private_names: Vec::new(),
            version: 1,
            job: "j".into(),
            argv: vec!["/bin/true".into()],
            env: vec![("A".into(), "b=c".into())],
            cwd: "/".into(),
            stdin: LaunchStdin::Null,
            clocks: Clocks { start_ms: None, idle_ms: None, wall_ms: Some(1), linger_ms: 1 },
            grace_ms: 1,
            output: OutputCaps { head_bytes: 1, tail_bytes: 1 },
            on_server_loss: OnServerLoss::Kill,
            cgroup: None,
            sandbox: None,
        }
    }

    #[test]
    fn words_of_later_releases_are_refused_by_name() {
        launch().check().unwrap();
        let bad = [
            (Launch { sandbox: Some(serde_json::json!({})), ..launch() }, "sandbox"),
            (Launch { version: 2, ..launch() }, "version 2"),
            (Launch { argv: vec!["sh".into()], ..launch() }, "`sh`"),
            (Launch { argv: vec![], ..launch() }, "argv"),
            (Launch { cwd: "x".into(), ..launch() }, "`x`"),
            (Launch { env: vec![("A=B".into(), String::new())], ..launch() }, "A=B"),
            (Launch { argv: vec!["/a\0b".into()], ..launch() }, "zero"),
        ];
        for (launch, word) in bad {
            let message = launch.check().unwrap_err().message().to_owned();
            assert!(message.contains(word), "{message}");
        }
    }

    #[test]
    fn an_unknown_field_is_refused() {
        let mut json = serde_json::to_value(launch()).unwrap();
        assert!(serde_json::from_value::<Launch>(json.clone()).is_ok());
        json["jail"] = serde_json::json!("x");
        let refused = serde_json::from_value::<Launch>(json).unwrap_err();
        assert!(refused.to_string().contains("jail"));
    }
}
