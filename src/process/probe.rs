//! Probes which layers of containment work on this machine by trying them.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};

use crate::base::{Context, Error, ErrorKind, Finding, Result, fault, random_token};
use crate::process::{
    Cgroups, Children, Clocks, GuardEnd, GuardSpec, Launch, LaunchStdin, MARK, OnServerLoss,
    OutputCaps, ProcessIdentity, Root, Run, become_subreaper, carries_mark, run, spawn_guard,
    sweep_orphans, sys,
};

/// Timeout for the guard of a probe.
const TRIAL_MAX: Duration = Duration::from_secs(20);

/// Probes the layers that need no site: subreaper, mark, pidfds, Landlock, the user.
pub async fn probe() -> Vec<Finding> {
    vec![subreaper().await, mark(), pidfd(), landlock(), user(is_root())]
}

/// Probes the layers that need a folder: `openat2`, and a cgroup for a site with its data there.
pub fn probe_folder(folder: &Utf8Path) -> Vec<Finding> {
    vec![openat2(folder), cgroup(Cgroups::open(folder))]
}

/// Runs a real guard over an agent that leaves a process in its own session.
pub async fn probe_guard(wb_agent: &Utf8Path) -> Finding {
    const WHAT: &str = "guard";
    let advice = "jobs cannot be contained here; tell us about this system";
    match tokio::time::timeout(TRIAL_MAX, trial(wb_agent)).await {
        Err(_) => Finding::error(WHAT, "a trial job did not finish", advice),
        Ok(Err(cause)) => Finding::error(WHAT, cause.chain(), advice),
        Ok(Ok(0)) => Finding::error(WHAT, "a process that escaped was not found", advice),
        Ok(Ok(swept)) => {
            Finding::ok(WHAT, format!("a trial job that escaped was swept ({swept} process)"))
        }
    }
}

async fn trial(wb_agent: &Utf8Path) -> Result<u32> {
    let folder = Utf8PathBuf::from_path_buf(std::env::temp_dir())
        .map_err(|_| Error::unavailable("the folder for temporary files is not UTF-8"))?
        .join(random_token("wb-doctor-")?);
    let cannot = || format!("cannot create {folder}");
    fs::DirBuilder::new().mode(0o700).create(&folder).context(ErrorKind::Unavailable, cannot)?;
    let swept = run_trial(wb_agent, &folder).await;
    fs::remove_dir_all(&folder)
        .context(ErrorKind::Unavailable, || format!("cannot remove {folder}"))?;
    swept
}

async fn run_trial(wb_agent: &Utf8Path, folder: &Utf8Path) -> Result<u32> {
    // The shell exits only once the stray runs in its own session.
    let escape = "mkfifo f && (setsid sh -c 'echo > f; exec sleep 600' &) && read line < f";
    let launch = Launch {
        private_names: Vec::new(),
        version: 1,
        job: random_token("doctor-")?,
        argv: vec!["/bin/sh".to_owned(), "-c".to_owned(), escape.to_owned()],
        env: vec![("PATH".to_owned(), std::env::var("PATH").unwrap_or_default())],
        cwd: folder.to_owned(),
        stdin: LaunchStdin::Null,
        clocks: Clocks { start_ms: None, idle_ms: None, wall_ms: Some(10_000), linger_ms: 1_000 },
        grace_ms: 1_000,
        output: OutputCaps { head_bytes: 65_536, tail_bytes: 65_536 },
        on_server_loss: OnServerLoss::Kill,
        cgroup: None,
        sandbox: None,
    };
    let spec = GuardSpec {
        program: wb_agent.to_owned(),
        job_dir: folder.join("job"),
        launch,
        prompt: None,
        secrets: Vec::new(),
        masked: Vec::new(),
        cgroups: Cgroups::none(),
        pane: None,
    };
    let mut guard = spawn_guard(&Children::new(), spec).await?;
    while guard.next().await.is_some() {}
    match guard.wait().await {
        GuardEnd::Recorded(it) if it.code == Some(0) && it.survivors.is_empty() => Ok(it.swept),
        GuardEnd::Recorded(it) => {
            Err(Error::internal(format!("the trial job ended by {:?}: {:?}", it.cause, it.code)))
        }
        GuardEnd::Lost => Err(Error::internal("the guard of the trial job was lost")),
    }
}

fn mark() -> Finding {
    const WHAT: &str = "mark";
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    if carries_mark(own, MARK).is_some() {
        return Finding::warn(
            WHAT,
            "this shell belongs to a job of a site",
            "start servers and commands from a shell of your own",
        );
    }
    match fs::read(format!("/proc/{own}/environ")) {
        Ok(_) => Finding::ok(WHAT, "environments of processes can be read"),
        Err(cause) => Finding::warn(
            WHAT,
            format!("/proc does not show environments: {cause}"),
            "mount /proc, so that leftovers of a killed guard can be found by their mark",
        ),
    }
}

fn pidfd() -> Finding {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let identity = ProcessIdentity::of(own);
    match (sys::pidfd_open(own), identity) {
        (Ok(_), Ok(Some(_))) => Finding::ok("pidfd", "processes are signalled by pidfd"),
        _ => Finding::error("pidfd", "no pidfds", "use Linux 5.10 or newer"),
    }
}

fn openat2(folder: &Utf8Path) -> Finding {
    match Root::open(folder) {
        Ok(_) => Finding::ok("openat2", "paths are confined by the kernel"),
        Err(cause) => Finding::error(
            "openat2",
            cause.chain(),
            cause.hint_str().unwrap_or("use Linux 5.6 or newer"),
        ),
    }
}

fn cgroup(tried: std::result::Result<Cgroups, String>) -> Finding {
    const WHAT: &str = "cgroup v2";
    let advice = "jobs are swept without; but if an agent kills server and guard together, a \
        process that cleared its environment may stay. With systemd: Delegate=yes in the unit";
    match tried {
        Ok(cgroups) => {
            let folder = cgroups.folder().map_or("", Utf8Path::as_str);
            Finding::ok(WHAT, format!("each job gets one in {folder}"))
        }
        Err(why) => Finding::warn(WHAT, format!("not available: {why}"), advice),
    }
}

/// Lets a real orphan be re-parented to this process, as to a server whose guard was killed.
async fn subreaper() -> Finding {
    const WHAT: &str = "second subreaper";
    let advice = "what a killed guard leaves is found by its mark only; tell us about this system";
    match tokio::time::timeout(TRIAL_MAX, orphan()).await {
        Ok(Ok(0)) => Finding::warn(WHAT, "an orphan was not reparented to this process", advice),
        Ok(Ok(_)) => Finding::ok(WHAT, "an orphan was reparented to this process and ended"),
        Ok(Err(cause)) => Finding::warn(WHAT, cause.chain(), advice),
        Err(_) => Finding::warn(WHAT, "a trial did not finish", advice),
    }
}

async fn orphan() -> Result<u32> {
    let children = Children::new();
    become_subreaper(&children)?;
    // The shell exits once the stray runs in its own session; the stray ends by itself.
    let script = "(setsid sh -c 'echo; exec sleep 5 > /dev/null 2>&1' &) | read line";
    let command = Run {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script.into()],
        cwd: "/".into(),
        env: vec![("PATH".to_owned(), std::env::var("PATH").unwrap_or_default())],
        stdin: Vec::new(),
        timeout: TRIAL_MAX,
        output_bytes_max: 4_096,
    };
    run(&children, command).await?;
    sweep_orphans(&children, Duration::from_millis(200)).await
}

fn user(is_root: bool) -> Finding {
    match is_root {
        false => Finding::ok("user", "not root"),
        true => Finding::warn(
            "user",
            "this user is root, and so is every agent",
            "run the server as a separate user who owns the repository",
        ),
    }
}

fn landlock() -> Finding {
    let version = match fault::is_absent("landlock") {
        true => Err(nix::errno::Errno::EOPNOTSUPP),
        false => sys::landlock_version(),
    };
    match version {
        Ok(version) => Finding::ok("landlock", format!("version {version}")),
        Err(cause) => Finding::warn(
            "landlock",
            format!("not offered by this kernel ({cause})"),
            "agents are not sandboxed in this release; a later one will need Landlock",
        ),
    }
}

/// Returns whether the working directory of a process visible to this user is in a folder or below
/// it. Blocks on `/proc`.
pub fn is_occupied(folder: &Utf8Path) -> bool {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let places = processes.filter_map(|it| std::fs::read_link(it.path().join("cwd")).ok());
    places.into_iter().any(|it| it.starts_with(folder))
}

/// Returns whether this program runs as root.
pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Returns the permission bits of a path, and whether it belongs to this user.
///
/// # Errors
/// `not_found` if the path does not exist.
pub fn owner_and_mode(path: &Utf8Path) -> Result<(bool, u32)> {
    // Of the target: a link has no bits of its own.
    let facts =
        fs::metadata(path).map_err(|cause| Error::not_found(format!("no {path}")).source(cause))?;
    Ok((facts.uid() == nix::unistd::geteuid().as_raw(), facts.mode() & 0o7777))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Level;

    #[test]
    fn what_is_missing_comes_with_advice() {
        let bad = cgroup(Err("no cgroup v2 is mounted".to_owned()));
        assert_eq!((bad.level, bad.advice.is_some()), (Level::Warn, true));
        assert_eq!((user(true).level, user(false).level), (Level::Warn, Level::Ok));
    }
}
