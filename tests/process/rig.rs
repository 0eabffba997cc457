//! A job's folder, shell scripts as agents, and searching for leftover processes.

use std::path::Path;
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use wiki_browser::process::{
    Cgroups, Children, Clocks, ExitCause, ExitRecord, FileLock, Guard, GuardEnd, GuardEvent,
    GuardSpec, Launch, LaunchStdin, MARK, OnServerLoss, OutputCaps, carries_mark, spawn_guard,
};

/// How long a test waits for what must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A script that writes a heartbeat into the file `$1` until it is ended. When a test has failed,
/// it ends after half a minute.
const BEAT: &str = "i=0
while [ $i -lt 1500 ]; do echo x >> \"$1\" || exit; i=$((i+1)); sleep 0.02; done\n";

/// A folder in which one job runs.
pub(crate) struct Rig {
    _folder: tempfile::TempDir,
    pub(crate) path: Utf8PathBuf,
    pub(crate) job: String,
    pub(crate) children: Children,
}

impl Rig {
    pub(crate) fn new() -> Rig {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from_path_buf(folder.path().canonicalize().unwrap()).unwrap();
        std::fs::write(path.join("beat.sh"), BEAT).unwrap();
        // The folder's name is random, so no other test has a job with this id.
        let job = format!("job{}", path.file_name().unwrap());
        Rig { _folder: folder, path, job, children: Children::new() }
    }

    pub(crate) fn job_dir(&self) -> Utf8PathBuf {
        self.path.join("jobs").join(&self.job)
    }

    /// Returns the launch of a shell script, which runs in the rig's folder and holds a lock on the
    /// file `witness` that all its descendants inherit.
    pub(crate) fn launch(&self, script: &str) -> Launch {
        let script = format!("exec 9>>witness; flock -s 9; {script}");
        Launch {
            private_names: Vec::new(),
            version: 1,
            job: self.job.clone(),
            argv: vec!["/bin/sh".into(), "-c".into(), script],
            env: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
            cwd: self.path.clone(),
            stdin: LaunchStdin::Null,
            clocks: Clocks {
                start_ms: None,
                idle_ms: None,
                wall_ms: Some(60_000),
                linger_ms: 60_000,
            },
            grace_ms: 1_000,
            output: OutputCaps { head_bytes: 8 << 20, tail_bytes: 1 << 20 },
            on_server_loss: OnServerLoss::Kill,
            cgroup: None,
            sandbox: None,
        }
    }

    pub(crate) fn spec(&self, launch: Launch) -> GuardSpec {
        GuardSpec {
            program: env!("CARGO_BIN_EXE_wb-agent").into(),
            job_dir: self.job_dir(),
            launch,
            prompt: None,
            secrets: vec![("WB_TOKEN".into(), "canary-7d1f".into())],
            masked: Vec::new(),
            cgroups: Cgroups::none(),
            pane: None,
        }
    }

    pub(crate) async fn start(&self, launch: Launch) -> Guard {
        spawn_guard(&self.children, self.spec(launch)).await.unwrap()
    }

    /// Runs a script to its end.
    pub(crate) async fn run(&self, script: &str) -> ExitRecord {
        recorded(self.start(self.launch(script)).await).await
    }

    pub(crate) fn stdout(&self) -> String {
        std::fs::read_to_string(self.job_dir().join("stdout.log")).unwrap()
    }

    /// Waits until nothing that the job started is alive: by the lock that all of them inherited,
    /// by the mark, and by the heartbeats.
    pub(crate) fn assert_all_gone(&self, within: Duration) {
        let witness = self.path.join("witness");
        let is_free = || FileLock::try_take(&witness).unwrap().is_some();
        assert!(wait_until(within, is_free), "somebody holds the witness: {}", self.ps());
        assert!(wait_until(within, || self.marked().is_empty()), "marked: {}", self.ps());
        let beats = self.beats();
        let grew = wait_until(Duration::from_millis(200), || self.beats() != beats);
        assert!(!grew, "a heart beats on: {}", self.ps());
    }

    pub(crate) fn has_survivors(&self) -> bool {
        FileLock::try_take(&self.path.join("witness")).unwrap().is_none()
    }

    /// Returns the sizes of all heartbeat files.
    pub(crate) fn beats(&self) -> Vec<(String, u64)> {
        let mut beats: Vec<(String, u64)> = std::fs::read_dir(&self.path)
            .unwrap()
            .flatten()
            .filter(|it| it.file_name().to_string_lossy().starts_with("hb."))
            .map(|it| (it.file_name().to_string_lossy().into(), it.metadata().unwrap().len()))
            .collect();
        beats.sort();
        beats
    }

    fn marked(&self) -> Vec<i32> {
        let pids = all_pids();
        let is_ours = |pid: &i32| carries_mark(*pid, MARK).as_deref() == Some(self.job.as_str());
        pids.into_iter().filter(is_ours).collect()
    }

    fn ps(&self) -> String {
        let commands = all_pids().into_iter().filter_map(|pid| {
            let folder = std::fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            folder.starts_with(&self.path).then(|| format!("\n{pid} {line}"))
        });
        commands.collect()
    }
}

pub(crate) async fn recorded(guard: Guard) -> ExitRecord {
    match tokio::time::timeout(PATIENCE, guard.wait()).await.unwrap() {
        GuardEnd::Recorded(record) => record,
        GuardEnd::Lost => panic!("the guard was lost"),
    }
}

/// Waits for an event that is wanted; the others are dropped.
pub(crate) async fn event(guard: &mut Guard, want: impl Fn(&GuardEvent) -> bool) -> GuardEvent {
    let wait = async {
        loop {
            let event = guard.next().await.expect("the guard has more to say");
            if want(&event) {
                return event;
            }
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap()
}

pub(crate) async fn agent_pid(guard: &mut Guard) -> i32 {
    match event(guard, |it| matches!(it, GuardEvent::Started { .. })).await {
        GuardEvent::Started { pid } => pid,
        other => panic!("{other:?}"),
    }
}

/// Looks until something is so, or it has taken too long.
pub(crate) fn wait_until(within: Duration, is_so: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + within;
    loop {
        if is_so() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

pub(crate) async fn wait_for_file(path: &Utf8Path) {
    let path = path.to_owned();
    let wait =
        move || wait_until(PATIENCE, || Path::new(&path).metadata().is_ok_and(|it| it.len() > 0));
    assert!(tokio::task::spawn_blocking(wait).await.unwrap());
}

pub(crate) fn all_pids() -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|it| it.file_name().to_str()?.parse().ok()).collect()
}

pub(crate) fn is_clean_exit(record: &ExitRecord) -> bool {
    record.cause == ExitCause::Exit && record.code == Some(0) && record.survivors.is_empty()
}
