//! Starts a guard: the job's files, its cgroup, the lifeline, the process.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::process::Stdio;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

use crate::base::{Context, Error, ErrorKind, Result, is_secret_name};
use crate::process::cgroup::{Cgroup, Cgroups};
use crate::process::identity::ProcessIdentity;
use crate::process::job_folder::JobFolder;
use crate::process::launch::{
    GUARD_LOG, GuardOrder, LAUNCH_BYTES_MAX, LAUNCH_FILE, LINE_BYTES_MAX, Launch, LaunchStdin,
    MARK, MASKED_BYTES_MAX, PLACE, PROMPT_FILE, check_env,
};
use crate::process::lifeline::Lifeline;
use crate::process::running_guard::{FAR, Guard, Held, Started};
use crate::process::terminal::{InPane, spawn_in_pane};
use crate::process::tree::Children;

/// Everything needed to start a guard.
#[derive(Clone)]
pub struct GuardSpec {
    /// The absolute path of `wb-agent`.
    pub program: Utf8PathBuf,
    /// The job's folder; created with mode 0700 if it does not exist.
    pub job_dir: Utf8PathBuf,
    /// How to run the agent.
    pub launch: Launch,
    /// The agent's standard input, if `launch.stdin` is `file`.
    pub prompt: Option<Vec<u8>>,
    /// Variables that must not be written to a file, such as the job's token.
    pub secrets: Vec<(String, String)>,
    /// Additional values to mask in the output; the agent does not get them.
    pub masked: Vec<String>,
    /// Where to create the job's cgroup.
    pub cgroups: Cgroups,
    /// The pane in which to start it; as a child of this server if absent.
    pub pane: Option<InPane>,
}

impl GuardSpec {
    /// Masks additional values in the output. Values already masked by a variable's name are
    /// skipped, and so are values longer than any secret.
    pub fn mask(&mut self, values: Vec<String>) {
        let is_known = |value: &String| {
            let by_name = self.secrets.iter().any(|(name, it)| is_secret_name(name) && it == value);
            by_name || self.masked.contains(value)
        };
        let new = values.into_iter().filter(|it| it.len() <= MASKED_BYTES_MAX && !is_known(it));
        let new: Vec<String> = new.collect();
        self.masked.extend(new);
    }
}

/// Starts a guard. The agent's start is reported by [`crate::process::GuardEvent::Started`], or by
/// the exit record.
///
/// `invalid` for a launch that this version does not support; `conflict` with code `job_launched`
/// if the job was launched before; `unavailable` if files or process cannot be created, with code
/// `disk_full` if there was no room for the files: it can be started again.
pub async fn spawn_guard(children: &Children, spec: GuardSpec) -> Result<Guard> {
    let GuardSpec { program, job_dir, mut launch, prompt, secrets, masked, cgroups, pane } = spec;
    launch.private_names = secrets.iter().map(|(name, _)| name.clone()).collect();
    check(&program, &launch, prompt.as_deref(), &secrets)?;
    let first_line = first_line(&secrets, &masked)?;
    let (grace, wall) = (ms(launch.grace_ms), launch.clocks.wall_ms.map_or(FAR, ms));
    let job = launch.job.clone();
    let (folder, name) = (job_dir.clone(), job.clone());
    let files = pane.as_ref().map(|it| it.files.clone()).unwrap_or_default();
    let prepared = tokio::task::spawn_blocking(move || {
        let cgroup = cgroups.make(&name);
        let text = launch_text(launch, cgroup.as_ref())?;
        let log = JobFolder::make(&folder).and_then(|made| {
            prepare(&made, &text, prompt.as_deref(), &files).map_err(|cause| match cause.kind() {
                io::ErrorKind::AlreadyExists => {
                    Error::conflict("job_launched", format!("job {name} was launched before"))
                }
                _ => Error::of_disk(format!("cannot write the files in {folder}"), cause),
            })
        });
        Ok::<_, Error>((log, cgroup))
    });
    let (log, cgroup) =
        prepared.await.context(ErrorKind::Internal, || "writing failed".into())??;
    let started = match (log, pane) {
        (Ok(log), None) => start(children, &program, (&job_dir, &job), &first_line, log).await,
        (Ok(_), Some(pane)) => {
            let dir = (job_dir.as_path(), job.as_str());
            let told = (secrets, masked);
            let in_pane = spawn_in_pane(children, &program, dir, &pane, told).await;
            return match (in_pane, cgroup) {
                (Err(cause), Some(cgroup)) => {
                    cgroup.give_up().await;
                    Err(cause)
                }
                (started, _) => started,
            };
        }
        (Err(cause), _) => Err(cause),
    };
    match started {
        Ok((child, identity, line)) => {
            let children = children.clone();
            Ok(Guard::new(Started {
                held: Held::Child(child),
                children,
                identity,
                job_dir,
                line,
                cgroup,
                wall,
                grace,
            }))
        }
        Err(cause) => {
            if let Some(cgroup) = cgroup {
                cgroup.give_up().await;
            }
            Err(cause)
        }
    }
}

/// Starts the process. If it cannot be identified, it is killed.
async fn start(
    children: &Children,
    program: &Utf8Path,
    (job_dir, job): (&Utf8Path, &str),
    first_line: &[u8],
    log: std::fs::File,
) -> Result<(Child, ProcessIdentity, Lifeline)> {
    let cannot = || format!("cannot start the guard {program}");
    let (ours, theirs) = socketpair(first_line).context(ErrorKind::Unavailable, cannot)?;
    let mut command =
        command(program, job_dir, job, theirs, log).context(ErrorKind::Unavailable, cannot)?;
    let socket = UnixStream::from_std(ours).context(ErrorKind::Internal, cannot)?;
    let started = children.spawn(&mut command);
    // The command holds the guard's end of the lifeline, and would keep it open.
    drop(command);
    let (mut child, pid) = started.context(ErrorKind::Unavailable, cannot)?;
    match ProcessIdentity::of(pid) {
        Ok(Some(identity)) => Ok((child, identity, Lifeline::new(socket))),
        unseen => {
            // It has not been told what to start yet, so nothing is below it.
            child.kill().await.context(ErrorKind::Unavailable, cannot)?;
            children.forget(pid);
            unseen?;
            Err(Error::internal("a guard vanished before anybody waited for it"))
        }
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

fn launch_text(mut launch: Launch, cgroup: Option<&Cgroup>) -> Result<Vec<u8>> {
    launch.cgroup = cgroup.map(|it| it.folder().to_owned());
    let text = serde_json::to_vec(&launch)
        .context(ErrorKind::Internal, || "cannot write the launch file".into())?;
    match u64::try_from(text.len()).is_ok_and(|it| it <= LAUNCH_BYTES_MAX) {
        true => Ok(text),
        false => {
            let message = "cannot launch: arguments and environment are too long";
            Err(Error::new(ErrorKind::TooLarge, message))
        }
    }
}

/// Writes the job's files, all of them or none. The launch file must be new: a job is launched
/// once.
fn prepare(
    folder: &JobFolder,
    launch: &[u8],
    prompt: Option<&[u8]>,
    files: &[(String, Vec<u8>)],
) -> io::Result<std::fs::File> {
    let own = files.iter().map(|(name, text)| (name.as_str(), text.as_slice()));
    let prompt = prompt.map(|it| (PROMPT_FILE, it));
    let all = [(LAUNCH_FILE, launch)].into_iter().chain(own).chain(prompt);
    let mut made = Vec::new();
    let write = || -> io::Result<std::fs::File> {
        for (name, text) in all {
            let mut file = folder.create(name)?;
            made.push(name);
            file.write_all(text)?;
        }
        folder.create(GUARD_LOG)
    };
    let written = write();
    if written.is_err() {
        made.into_iter().try_for_each(|name| folder.remove(name))?;
    }
    written
}

/// Creates the lifeline with the first line already in it: the guard never waits for it, and it
/// fits into the socket's buffer.
fn socketpair(first_line: &[u8]) -> io::Result<(StdUnixStream, OwnedFd)> {
    let (ours, theirs) = StdUnixStream::pair()?;
    ours.set_nonblocking(true)?;
    (&ours).write_all(first_line)?;
    Ok((ours, theirs.into()))
}

fn first_line(secrets: &[(String, String)], masked: &[String]) -> Result<Vec<u8>> {
    let start = GuardOrder::Start { secrets: secrets.to_vec(), masked: masked.to_vec() };
    let mut line = serde_json::to_vec(&start)
        .context(ErrorKind::Internal, || "cannot write the first line".into())?;
    line.push(b'\n');
    match line.len() > LINE_BYTES_MAX {
        true => {
            let message =
                "cannot launch: the environment and the secrets of the script are too long";
            Err(Error::new(ErrorKind::TooLarge, message))
        }
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
        // Nothing is read or written relative to it: the guard opens the folder itself.
        .current_dir(job_dir)
        .env_clear()
        .env(MARK, job)
        .env(PLACE, job_dir)
        .stdin(Stdio::from(lifeline))
        .stdout(Stdio::from(log.try_clone()?))
        .stderr(Stdio::from(log))
        .process_group(0);
    // The guard disables what its server disables.
    #[cfg(feature = "faults")]
    if let Ok(off) = std::env::var("WB_WITHOUT") {
        command.env("WB_WITHOUT", off);
    }
    Ok(command)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
