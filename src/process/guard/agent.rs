//! Starts the agent and records how it exited.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use camino::Utf8Path;

use crate::process::cgroup::Cgroup;
use crate::process::guard::note;
use crate::process::guard::terminal::Terminal;
use crate::process::job_folder::JobFolder;
use crate::process::launch::{Launch, LaunchStdin, MARK, PLACE, PROMPT_FILE};
use crate::process::sys;

/// The agent's process, which also leads its session and its process group.
pub(in crate::process::guard) struct Agent {
    pub(in crate::process::guard) pid: i32,
    /// How it exited: an exit code, or the signal that killed it.
    pub(in crate::process::guard) exit: Option<(Option<i32>, Option<i32>)>,
}

/// The agent, the write end of its input if that is a pipe, and the read ends of its output.
type Started = (Agent, Option<OwnedFd>, [Option<OwnedFd>; 2]);

/// Starts the agent.
pub(in crate::process::guard) fn start(
    folder: &JobFolder,
    (launch, terminal): (&Launch, Option<&Terminal>),
    secrets: &[(String, String)],
) -> Result<Started, String> {
    let entrance = launch.cgroup.clone().and_then(|it| match Cgroup::at(it).entrance() {
        Ok(entrance) => Some(entrance),
        Err(cause) => {
            note(&format!("the agent starts without a cgroup: {cause}"));
            None
        }
    });
    let program = launch.argv.first().ok_or("argv is empty")?;
    let tty = terminal.map(Terminal::tty);
    let made = || command(folder, (launch, terminal), secrets);
    let started = sys::spawn_agent(&mut made()?, (entrance.as_ref(), tty));
    let started = match started {
        Err(cause) if entrance.is_some() && sys::is_refused_entrance(&cause) => {
            note("the agent starts without a cgroup: it was not let in");
            let nowhere: Option<&File> = None;
            sys::spawn_agent(&mut made()?, (nowhere, tty))
        }
        started => started,
    };
    let mut child = started.map_err(|cause| why_not(program, &cause))?;
    let pid = i32::try_from(child.id()).map_err(|_| "the agent has no pid")?;
    let stdin = child.stdin.take().map(OwnedFd::from);
    let stdout = child.stdout.take().map(OwnedFd::from);
    let stderr = child.stderr.take().map(OwnedFd::from);
    let told = terminal.map(Terminal::hooks).transpose();
    let told = told.map_err(|cause| format!("its hooks cannot be heard: {cause}"))?;
    Ok((Agent { pid, exit: None }, stdin, [stdout.or(told), stderr]))
}

/// Explains why a program cannot be started: the system reports a missing program and a missing
/// interpreter alike.
fn why_not(program: &str, cause: &std::io::Error) -> String {
    let is_there = Utf8Path::new(program).exists();
    match cause.kind() {
        std::io::ErrorKind::NotFound if is_there => {
            format!("{program}: the interpreter that its first line names is not there")
        }
        _ => format!("{program}: {cause}"),
    }
}

fn command(
    folder: &JobFolder,
    (launch, terminal): (&Launch, Option<&Terminal>),
    secrets: &[(String, String)],
) -> Result<Command, String> {
    let stdin = match launch.stdin {
        LaunchStdin::Null => Stdio::null(),
        LaunchStdin::File => match folder.regular(PROMPT_FILE) {
            Ok(Some(prompt)) => Stdio::from(prompt),
            Ok(None) => return Err("the prompt file is missing".to_owned()),
            Err(cause) => return Err(cause.chain()),
        },
        LaunchStdin::Pipe => Stdio::piped(),
        LaunchStdin::Terminal => shared(terminal)?,
    };
    let output = || match terminal {
        Some(_) => shared(terminal),
        None => Ok(Stdio::piped()),
    };
    let (program, args) = launch.argv.split_first().ok_or("argv is empty")?;
    if !launch.cwd.is_dir() {
        // Otherwise the error would look as if the program were missing.
        return Err(format!("{} is not a folder", launch.cwd));
    }
    #[allow(clippy::disallowed_methods, reason = "process owns every spawn")]
    let mut command = Command::new(program);
    command
        .args(args)
        .current_dir(&launch.cwd)
        .env_clear()
        .envs(launch.env.iter().chain(secrets).map(|(name, value)| (name, value)))
        .env(MARK, &launch.job)
        .envs(std::env::var(PLACE).ok().map(|it| (PLACE, it)))
        .stdin(stdin)
        .stdout(output()?)
        .stderr(output()?);
    Ok(command)
}

/// Returns a copy of the terminal for the agent.
fn shared(terminal: Option<&Terminal>) -> Result<Stdio, String> {
    let terminal = terminal.ok_or("there is no terminal")?;
    let tty = terminal.tty().try_clone_to_owned();
    tty.map(Stdio::from).map_err(|cause| format!("the terminal cannot be shared: {cause}"))
}
