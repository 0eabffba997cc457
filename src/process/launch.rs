//! What server and guard tell each other: launch file, words on the lifeline, exit file.
//!
//! **Invariant:** no secret is in a file; secrets pass over the lifeline only.

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

/// The version of the launch file and the exit file that this program writes and reads.
pub(in crate::process) const VERSION: u32 = 1;
/// Longest line on the lifeline, in both directions.
pub(in crate::process) const LINE_BYTES_MAX: usize = 96 * 1024;
/// Longest value that is masked, which is also the most that is held back of an output.
pub(in crate::process) const MASKED_BYTES_MAX: usize = 16 * 1024;
/// Largest launch file.
pub(in crate::process) const LAUNCH_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// The socket of a job's folder by which a later server takes its guard over.
pub const GUARD_SOCKET: &str = "guard.sock";
/// The file of a job's folder that says how its agent is to be run.
pub(in crate::process) const LAUNCH_FILE: &str = "launch.json";
/// The file of a job's folder that says how it ended.
pub(in crate::process) const EXIT_FILE: &str = "exit.json";
/// What the hooks of an agent in a terminal write to, in its job's folder.
pub const HOOKS_PIPE: &str = "hooks";
/// The file of a job's folder with the words of its guard.
pub(in crate::process) const GUARD_LOG: &str = "guard.log";
/// The file of a job's folder that is the agent's standard input.
pub const PROMPT_FILE: &str = "prompt";
/// Largest exit file.
const EXIT_BYTES_MAX: u64 = 1024 * 1024;

/// How a job's agent is to be run. Written to `launch.json`, which is all that the guard reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Launch {
    /// Version of this format: 1.
    pub version: u32,
    /// The job's id; becomes the mark in the environment.
    pub job: String,
    /// The program (absolute) and its arguments.
    pub argv: Vec<String>,
    /// The environment as far as it may be in a file: without the mark, the token and secrets.
    pub env: Vec<(String, String)>,
    /// The folder in which the agent starts.
    pub cwd: Utf8PathBuf,
    /// Where the agent's standard input comes from.
    pub stdin: LaunchStdin,
    /// When the agent is ended although it did not exit.
    pub clocks: Clocks,
    /// How long an end may take, in milliseconds.
    pub grace_ms: u64,
    /// How much of the output is kept.
    pub output: OutputCaps,
    /// What happens when the server is gone.
    pub on_server_loss: OnServerLoss,
    /// The cgroup in which the agent starts, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<Utf8PathBuf>,
    /// Reserved: a launch that asks for a sandbox is refused, never run without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<serde_json::Value>,
}

/// Where the agent's standard input comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaunchStdin {
    /// The file `prompt` in the job's folder.
    File,
    /// `/dev/null`.
    Null,
    /// What the server writes while the agent runs.
    Pipe,
    /// The terminal in which the guard was started, which the agent draws on, too; what its hooks
    /// tell is kept as its output.
    Terminal,
}

/// What happens to the agent when the server is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnServerLoss {
    /// It is ended.
    Kill,
    /// It goes on for a while, and a later server takes its guard over.
    Keep {
        /// How long, in milliseconds.
        keep_ms: u64,
        /// Digest of the key that the later server must know.
        adopt_digest: String,
    },
}

/// The clocks of a job, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clocks {
    /// Until the first output; without it the idle clock runs from the start.
    pub start_ms: Option<u64>,
    /// Without any output.
    pub idle_ms: Option<u64>,
    /// In all; without it, only what is asked for ends the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<u64>,
    /// After the final result was seen.
    pub linger_ms: u64,
}

/// How much of each output stream is kept, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputCaps {
    /// From the beginning.
    pub head_bytes: u64,
    /// From the end.
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

    /// Returns the first part of the stream's file names.
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
    /// It could not be started.
    SpawnFailed,
    /// It printed nothing in time.
    StartTimeout,
    /// It stopped printing.
    IdleTimeout,
    /// It took too long.
    WallTimeout,
    /// It stayed after its final result.
    Linger,
    /// The server asked for it (or somebody sent TERM to the guard).
    Stopped,
    /// The server was gone.
    Lifeline,
    /// The terminal that it lived in was gone.
    TerminalLost,
}

/// What a guard tells the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum GuardEvent {
    /// The agent runs.
    Started {
        /// Its pid, which is also its session and its process group.
        pid: i32,
    },
    /// There is more output in the files. Some of these may be left out; the last never lies.
    Output {
        /// Of which stream.
        stream: Stream,
        /// How much it has printed in all.
        bytes_total: u64,
    },
    /// The agent exited. This is the fence: from now on its token must not write.
    AgentExited {
        /// Its exit code, unless a signal ended it.
        code: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
    },
    /// The guard decided to end the agent: by a clock, or because it was told to. Also a fence.
    Ending {
        /// Why.
        cause: ExitCause,
    },
    /// What the server wrote to the agent is on its way; the guard keeps it until it is read.
    Taken {
        /// Which input that was.
        id: String,
    },
    /// The first word to a server that takes the job over.
    Hello {
        /// The version of this guard's words.
        version: u32,
        /// The name of the last input that is on its way to the agent, or was read by it.
        last_input: Option<String>,
        /// Whether the job ends already.
        is_ending: bool,
    },
    /// All is over and written down.
    Ended(ExitRecord),
}

/// What the server tells a guard.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(in crate::process) enum GuardOrder {
    /// The first line: go, with these further variables; what is `masked` stands in no output.
    Start { secrets: Vec<(String, String)>, masked: Vec<String> },
    /// End the agent.
    Stop { cause: ExitCause },
    /// The final result was seen; the linger clock starts.
    FinalResult,
    /// Write this to the agent, once its last part is there; `id` names the whole of it.
    Input { id: String, is_last: bool, text: String },
    /// The first line of a later server: it takes the job over.
    Adopt { key: String },
    /// A tool of the agent works, so that its silence does not count; or none does any more.
    InCall { is_open: bool },
}

/// How a job's processes ended; the file `exit.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// Version of this format: 1.
    pub version: u32,
    /// Why.
    pub cause: ExitCause,
    /// The agent's exit code, unless a signal ended it or it never ran.
    pub code: Option<i32>,
    /// The signal that ended the agent.
    pub signal: Option<i32>,
    /// Why the agent could not be started.
    pub error: Option<String>,
    /// When the guard began, in milliseconds since 1970.
    pub started_ms: i64,
    /// When all was over, in milliseconds since 1970: `started_ms` and what it took by a clock that
    /// nobody sets.
    pub ended_ms: i64,
    /// Time on the processor outside the kernel, of all processes that ended.
    pub cpu_user_ms: u64,
    /// Time on the processor inside the kernel, of all processes that ended.
    pub cpu_sys_ms: u64,
    /// Most memory that one process held.
    pub rss_max_bytes: u64,
    /// Standard output.
    pub stdout: StreamRecord,
    /// Standard error.
    pub stderr: StreamRecord,
    /// How many processes beside the agent had to be ended.
    pub swept: u32,
    /// Processes that could not be ended.
    pub survivors: Vec<i32>,
}

/// What became of an output stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamRecord {
    /// How much was printed.
    pub bytes: u64,
    /// Whether something between head and tail is left out.
    pub cut: bool,
}

impl Launch {
    /// Refuses what this release cannot do.
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

/// Refuses names and values that no environment can hold.
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

/// Returns how a job's processes ended, or `None` if that is not written down.
///
/// # Errors
/// `unavailable` if the file cannot be read; `internal` with code `bad_exit_record` if it makes no
/// sense.
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

/// Reads and checks the launch file.
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

/// Makes a file's bytes, or the names in a folder, last. A fifo in its place makes nobody wait.
///
/// # Errors
/// As the disk; `NotFound` if it is not there.
pub fn sync_path(path: &Utf8Path) -> std::io::Result<()> {
    let flags = nix::fcntl::OFlag::O_NONBLOCK.bits();
    OpenOptions::new().read(true).custom_flags(flags).open(path)?.sync_all()
}

/// Opens a regular file; `None` if it is not there. Never follows a link, never waits on a fifo.
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
    let meta = meta.context(ErrorKind::Unavailable, || format!("cannot look at {path}"))?;
    match meta.is_file() {
        true => Ok(Some(file)),
        false => Err(not_regular(path)),
    }
}

/// Code of a file in whose place something else stands.
const NOT_REGULAR: &str = "not_regular";
/// Code of a folder in whose place a link or a file stands.
pub(in crate::process) const NOT_A_FOLDER: &str = "path_is_link";

/// Returns whether a refusal came of something that stands in the place of a job's file or folder:
/// an agent may have put it there.
pub fn is_usurped(refusal: &Error) -> bool {
    [NOT_REGULAR, NOT_A_FOLDER].contains(&refusal.code_str())
}

/// Returns the refusal of something that stands where a file should be.
pub(in crate::process) fn not_regular(path: &Utf8Path) -> Error {
    Error::conflict(NOT_REGULAR, format!("{path} is not a regular file"))
        .hint("something has replaced it, perhaps the agent of the job")
}

/// Reads a regular file of at most `bytes_max` bytes; nothing if it is not there. Never follows a
/// link, never waits on a fifo.
///
/// # Errors
/// `unavailable` if it cannot be read or is something else; `too_large`.
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
