//! G10: a restarted server never signals a process that is not proven to belong to a job of this
//! site: neither one named by a forged row, nor one that reuses a guard's pid.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::json;
use wiki_browser::process::{MARK, ProcessIdentity};

use crate::support::{Bench, Server, marked, shell, until, wait_for, within};

/// How long a server looks after a guard that does not end, and more: the grace of a second, two
/// seconds of patience, and what a busy machine adds.
const LONG_ENOUGH: Duration = Duration::from_millis(4_500);

/// A process that has nothing to do with the site but holds the lock of a job, so that a server
/// takes it for a guard that does not end.
struct Innocent(Child);

impl Innocent {
    #[allow(clippy::disallowed_methods, reason = "somebody's own program")]
    fn start(bench: &Bench, job: &str, mark: Option<&str>) -> Innocent {
        let lock = bench.data.join("jobs").join(job).join("lock");
        let script = format!("exec 9<>'{lock}'; flock 9; echo held; exec sleep 120");
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &script]).stdout(Stdio::piped());
        command.env_clear().env("PATH", "/usr/bin:/bin");
        if let Some(mark) = mark {
            command.env(MARK, mark);
        }
        Innocent(command.spawn().unwrap())
    }

    /// Waits until it holds the lock.
    fn held(mut self) -> Innocent {
        use std::io::{BufRead, BufReader};
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "held\n");
        self
    }

    fn identity(&self) -> ProcessIdentity {
        ProcessIdentity::of(self.pid()).unwrap().unwrap()
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap()
    }

    #[track_caller]
    fn is_unharmed(&mut self) {
        let ended = self.0.try_wait().unwrap();
        assert!(ended.is_none(), "an innocent process was ended: {ended:?}");
    }
}

impl Drop for Innocent {
    fn drop(&mut self) {
        // A child of this test: nobody else has its pid until it is waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a site with jobs whose agents wait, and kills server, guards and agents. Returns each
/// job's id and the pid that its guard had.
fn crashed(count: usize) -> (Bench, Vec<(String, i32)>) {
    let bench = Bench::new();
    bench.limits(&format!("jobs = {count}, grace = \"1s\""));
    let agent = "echo $PPID > \"$OUT/guard.$word\"; while :; do sleep 0.1; done";
    bench.word_kind("waits", "timeout = \"60s\"", agent);
    let server = bench.serve();
    let jobs: Vec<(String, i32)> = (0..count)
        .map(|number| {
            let job = bench.job("waits", json!({"word": number.to_string()}));
            let guard = bench.wait_left(&format!("guard.{number}"));
            (job, guard.parse().unwrap())
        })
        .collect();
    server.kill();
    for (_, guard) in &jobs {
        // It may have ended already: its server has.
        shell(&format!("kill -KILL {guard} || true"));
    }
    for (job, _) in &jobs {
        until("the job's processes are dead", || {
            reap();
            marked(job).is_empty()
        });
        // Its guard may have had the time to write how it ended; then nothing is looked for.
        let _ = std::fs::remove_file(bench.data.join("jobs").join(job).join("exit.json"));
    }
    (bench, jobs)
}

/// Takes the exit statuses of orphans where this is the first process of a namespace.
fn reap() {
    use nix::sys::wait::{WaitPidFlag, waitpid};
    if std::process::id() == 1 {
        while waitpid(None, Some(WaitPidFlag::WNOHANG)).is_ok_and(|it| it.pid().is_some()) {}
    }
}

/// Serves for as long as a server would wait for a guard, and asserts that nobody was harmed; then
/// the innocents end, and the jobs are settled.
fn assert_unharmed(bench: &Bench, jobs: &[(String, i32)], mut innocents: Vec<Innocent>) {
    let server: Server = bench.serve();
    let is_harmed = || innocents.iter_mut().any(|it| it.0.try_wait().unwrap().is_some());
    assert!(!within(LONG_ENOUGH, is_harmed), "{}", server.log());
    for innocent in &mut innocents {
        innocent.is_unharmed();
    }
    drop(innocents);
    for (job, _) in jobs {
        assert_eq!(bench.ended(job)["reason"], "server_restarted");
    }
    server.stop();
}

/// Fails with `WB_WITHOUT=identity`.
#[test]
fn g10_a_forged_row_harms_nobody() {
    let (bench, jobs) = crashed(5);
    let ids: Vec<String> = jobs.iter().map(|it| it.0.clone()).collect();
    // The last one has the mark of a job, but of another one.
    let innocents: Vec<Innocent> = (0..5)
        .map(|it| Innocent::start(&bench, &ids[it], (it == 4).then_some("another-job")).held())
        .collect();
    let other_boot = "00000000-0000-0000-0000-000000000000";
    for (place, innocent) in innocents.iter().enumerate() {
        let real = innocent.identity();
        let (start, boot) = match place {
            0 => (real.start, other_boot),
            1 => (real.start + 1, real.boot_id.as_str()),
            2 => (0, real.boot_id.as_str()),
            _ => (real.start, real.boot_id.as_str()),
        };
        let pid = real.pid;
        bench.sql(&format!(
            "UPDATE agent_jobs SET guard_pid = {pid}, guard_start = {start}, boot_id = '{boot}'
             WHERE id = '{}'",
            ids[place]
        ));
        forge_files(&bench, &ids[place], pid);
    }
    assert_unharmed(&bench, &jobs, innocents);
}

/// Names an innocent wherever a job's files name processes.
fn forge_files(bench: &Bench, job: &str, pid: i32) {
    let dir = bench.data.join("jobs").join(job);
    let own = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let own = own.lines().find_map(|it| it.strip_prefix("0::")).unwrap_or("/").to_owned();
    let launch = std::fs::read(dir.join("launch.json")).unwrap();
    let mut launch: serde_json::Value = serde_json::from_slice(&launch).unwrap();
    launch["cgroup"] = json!(format!("/sys/fs/cgroup{own}"));
    std::fs::write(dir.join("launch.json"), launch.to_string()).unwrap();
    let stream = json!({"bytes": 0, "cut": false});
    let exit = json!({
        "version": 1, "cause": "lifeline", "code": null, "signal": 9, "error": null,
        "started_ms": 1, "ended_ms": 2, "cpu_user_ms": 0, "cpu_sys_ms": 0, "rss_max_bytes": 0,
        "stdout": stream, "stderr": stream, "swept": 1, "survivors": [pid],
    });
    std::fs::write(dir.join("exit.json"), exit.to_string()).unwrap();
}

/// Real reuse needs a pid namespace, in which the next pid can be chosen: root has one for the
/// asking, others where user namespaces are allowed. Where neither is, the forged rows above are
/// all that can be shown, and this test shows that the server's own look at the pid tells the two
/// apart. Fails with `WB_WITHOUT=identity`.
#[test]
#[allow(clippy::disallowed_methods, reason = "a test of its own in a namespace")]
fn g10_a_process_with_the_pid_of_a_guard_is_not_harmed() {
    let own = std::env::current_exe().unwrap();
    let wall = ["--pid", "--fork", "--mount-proc"];
    let ways: [&[&str]; 2] = [&[], &["--user", "--map-root-user"]];
    let is_possible = |way: &&&[&str]| {
        let mut trial = Command::new("unshare");
        trial.args(**way).args(wall).args(["sh", "-c", "echo 100 > /proc/sys/kernel/ns_last_pid"]);
        trial.stderr(Stdio::null()).status().unwrap().success()
    };
    let Some(way) = ways.iter().find(is_possible) else {
        eprintln!("no pid namespace (root, or user namespaces, are needed): a start time instead");
        return reuse_without_namespace();
    };
    let mut command = Command::new("unshare");
    command.args(*way).args(wall).arg(own);
    command.args(["--exact", "guarantees::reuse::inside", "--nocapture", "--test-threads=1"]);
    let output = command.env("WB_TEST_ROLE", "reuse").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("reused 3 pids"), "{text}\n{errors}");
}

fn reuse_without_namespace() {
    let (bench, jobs) = crashed(1);
    let innocent = Innocent::start(&bench, &jobs[0].0, None).held();
    let (pid, id) = (innocent.pid(), &jobs[0].0);
    bench.sql(&format!("UPDATE agent_jobs SET guard_pid = {pid} WHERE id = '{id}'"));
    assert_unharmed(&bench, &jobs, vec![innocent]);
}

/// No test of its own: what runs as the first process of a pid namespace.
#[test]
fn inside() {
    if std::env::var("WB_TEST_ROLE").as_deref() != Ok("reuse") {
        return;
    }
    assert_eq!(std::process::id(), 1, "this is a namespace of its own");
    let (bench, jobs) = crashed(3);
    let mut innocents = Vec::new();
    for (place, (job, guard)) in jobs.iter().enumerate() {
        let mark = (place == 2).then_some("another-job");
        innocents.push(with_pid(*guard, || Innocent::start(&bench, job, mark)).held());
    }
    // The first row stays as it was: the start time tells. The others agree in everything but the
    // mark.
    for (place, innocent) in innocents.iter().enumerate().skip(1) {
        let start = innocent.identity().start;
        let id = &jobs[place].0;
        bench.sql(&format!("UPDATE agent_jobs SET guard_start = {start} WHERE id = '{id}'"));
    }
    assert_unharmed(&bench, &jobs, innocents);
    writeln!(std::io::stdout(), "reused 3 pids").unwrap();
}

/// Starts a process until it has a certain pid.
fn with_pid(pid: i32, start: impl Fn() -> Innocent) -> Innocent {
    until("the pid is free", || {
        reap();
        !std::path::Path::new(&format!("/proc/{pid}")).exists()
    });
    wait_for("the pid comes round again", || {
        std::fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).unwrap();
        Some(start()).filter(|it| it.pid() == pid)
    })
}
