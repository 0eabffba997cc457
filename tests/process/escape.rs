//! The escape zoo: whatever an agent does, nothing of it outlives its job (G8, G9).

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use wiki_browser::process::{
    Cgroups, Children, Clocks, ExitCause, GuardEnd, GuardEvent, GuardSpec, Launch, MARK, Run,
    become_subreaper, end_marked, read_exit_record, reap_orphans, run, spawn_guard, sweep_orphans,
};

use crate::process::rig::{
    PATIENCE, Rig, agent_pid, event, is_clean_exit, recorded, wait_for_file, wait_until,
};

/// How many jobs are many enough to see a leak of one in a hundred.
const MANY: usize = 200;

/// Ways to get away. Each writes its own heartbeat.
const ZOO: &[(&str, &str)] = &[
    ("background", "sh beat.sh hb.background &"),
    ("session", "setsid sh beat.sh hb.session &"),
    ("double_fork", "(setsid sh -c 'sh beat.sh hb.double_fork &' &)"),
    ("deaf", "(trap '' INT TERM HUP; exec setsid sh beat.sh hb.deaf) &"),
    ("clean_env", "env -i PATH=/usr/bin:/bin setsid sh beat.sh hb.clean_env &"),
    (
        "clean_deaf_daemon",
        "(trap '' INT TERM HUP; env -i PATH=/usr/bin:/bin \
         setsid sh -c 'sh beat.sh hb.clean_deaf_daemon &' &)",
    ),
    ("stopped", "sh beat.sh hb.stopped & until [ -s hb.stopped ]; do :; done; kill -STOP $!"),
    (
        "forks_at_term",
        "setsid sh -c 'trap \"setsid sh beat.sh hb.forked & setsid sh beat.sh hb.forked &\" TERM; \
         i=0; while [ $((i+=1)) -lt 1500 ]; do echo x >> hb.forks_at_term; sleep 0.02; done' &",
    ),
    ("relay", "setsid sh relay.sh hb.relay 9999 &"),
    ("relay_clean", "env -i PATH=/usr/bin:/bin setsid sh relay.sh hb.relay_clean 9999 &"),
];

/// A process that never lives long: it starts its successor in a new session and exits. When a test
/// has failed, the race ends after so many rounds.
const RELAY: &str = "trap '' INT TERM HUP; [ $2 -gt 0 ] || exit; echo x >> \"$1\" || exit
setsid sh relay.sh \"$1\" $(($2-1)) & exit 0\n";

/// Returns a script that lets the whole zoo loose and then does something.
fn zoo(rig: &Rig, then: &str) -> String {
    std::fs::write(rig.path.join("relay.sh"), RELAY).unwrap();
    let mut script = String::new();
    for (name, trick) in ZOO {
        script += &format!("{trick}\nuntil [ -s hb.{name} ]; do sleep 0.01; done\n");
    }
    script + "echo ready > ready\n" + then
}

#[tokio::test]
async fn g08_nothing_outlives_an_agent_that_exits() {
    let rig = Rig::new();
    let launch = rig.launch(&zoo(&rig, "exit 0"));
    let mut guard = rig.start(launch).await;
    event(&mut guard, |it| matches!(it, GuardEvent::AgentExited { code: Some(0), .. })).await;
    let exited = Instant::now();
    let record = recorded(guard).await;
    assert!(is_clean_exit(&record), "{record:?}");
    assert!(record.swept >= 8, "{record:?}");
    // At most 2 s for late output, 500 ms between TERM and KILL, and what a busy machine adds.
    assert!(exited.elapsed() < Duration::from_secs(5), "{:?}", exited.elapsed());
    rig.assert_all_gone(Duration::ZERO);
}

#[tokio::test]
async fn g08_a_herd_that_starves_the_machine_is_ended_whole() {
    let rig = Rig::new();
    let herd = "(trap '' INT TERM HUP; i=0; while [ $((i+=1)) -le 100 ]; do
        setsid sh beat.sh hb.$i & done; wait) & until [ -s hb.100 ]; do sleep 0.01; done";
    let record = rig.run(herd).await;
    assert!(is_clean_exit(&record), "{record:?}");
    assert!(record.swept > 100, "{record:?}");
    rig.assert_all_gone(Duration::ZERO);
}

#[tokio::test]
async fn g08_nothing_outlives_a_stopped_agent() {
    let rig = Rig::new();
    let deaf = "trap '' INT TERM HUP; while :; do sleep 1; done";
    let mut guard = rig.start(rig.launch(&zoo(&rig, deaf))).await;
    wait_for_file(&rig.path.join("ready")).await;
    let stopped = Instant::now();
    guard.stopper().stop(ExitCause::Stopped);
    let ending = event(&mut guard, |it| matches!(it, GuardEvent::Ending { .. })).await;
    assert_eq!(ending, GuardEvent::Ending { cause: ExitCause::Stopped });
    let record = recorded(guard).await;
    assert_eq!((record.cause, record.signal), (ExitCause::Stopped, Some(9)), "{record:?}");
    assert!(record.survivors.is_empty());
    // Grace and a second, and what a busy machine adds; it would run for ever.
    assert!(stopped.elapsed() < Duration::from_secs(10), "{:?}", stopped.elapsed());
    rig.assert_all_gone(Duration::ZERO);
}

#[tokio::test]
async fn g08_the_grace_is_int_then_term_then_kill() {
    const GRACE_MS: u64 = 4_000;
    let uptime = |text: &str| (text.parse::<f64>().unwrap() * 1_000.0) as u64;
    let rig = Rig::new();
    // Without a process of its own for the time, which the signal would end too.
    let script = "now() { read -r up idle < /proc/uptime; echo $up; }
        trap 'echo int; now' INT; trap 'echo term; now' TERM
        echo ready > ready; while :; do sleep 0.01; done";
    let launch = Launch { grace_ms: GRACE_MS, ..rig.launch(script) };
    let guard = rig.start(launch).await;
    wait_for_file(&rig.path.join("ready")).await;
    let now = std::fs::read_to_string("/proc/uptime").unwrap();
    let told = uptime(now.split(' ').next().unwrap());
    guard.stopper().stop(ExitCause::WallTimeout);
    // A second word changes nothing.
    guard.stopper().stop(ExitCause::Stopped);
    let record = recorded(guard).await;
    assert_eq!((record.cause, record.signal), (ExitCause::WallTimeout, Some(9)));
    let text = rig.stdout();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines[0], lines[2]), ("int", "term"), "{text}");
    // A busy machine makes each of them later, never earlier.
    let (int, term) = (uptime(lines[1]), uptime(lines[3]));
    assert!(int + 20 >= told && term + 20 >= told + GRACE_MS * 4 / 10, "{told}: {text}");
    // They do not come together.
    assert!(term >= int + GRACE_MS / 10, "{told}: {text}");
}

#[tokio::test]
async fn g08_an_agent_that_obeys_int_keeps_its_last_words() {
    let rig = Rig::new();
    let script = "trap 'echo cost 7; exit 3' INT; echo ready > ready; while :; do sleep 0.01; done";
    let guard = rig.start(Launch { grace_ms: 20_000, ..rig.launch(script) }).await;
    wait_for_file(&rig.path.join("ready")).await;
    guard.stopper().stop(ExitCause::Stopped);
    let record = recorded(guard).await;
    assert_eq!((record.cause, record.code), (ExitCause::Stopped, Some(3)));
    assert_eq!(rig.stdout(), "cost 7\n");
}

#[tokio::test]
async fn g08_a_term_to_the_guard_stops_its_job() {
    let rig = Rig::new();
    let script = "setsid sh beat.sh hb.x & kill -TERM $PPID; sleep 60";
    let record = rig.run(script).await;
    assert_eq!(record.cause, ExitCause::Stopped);
    rig.assert_all_gone(Duration::ZERO);
}

#[test]
fn g08_nothing_outlives_an_agent_that_kills_its_guard() {
    let rig = Rig::new();
    let launch = rig.launch(&zoo(&rig, "kill -KILL $PPID; sleep 60"));
    let mut server = Server::start(&rig, &launch, "sweep");
    assert_eq!(server.line(), "end Lost");
    assert_eq!(server.line(), "swept");
    rig.assert_all_gone(Duration::ZERO);
    server.line_is("no children left");
    assert!(server.0.wait().unwrap().success());
}

/// A guard that was stopped is woken, and so its clocks go on. Fails with `WB_WITHOUT=standstill`.
#[test]
fn g08_a_guard_that_stands_still_goes_on() {
    let rig = Rig::new();
    let launch = rig.launch("setsid sh beat.sh hb.x & kill -STOP $PPID; sleep 60");
    let clocks = Clocks { start_ms: None, idle_ms: None, wall_ms: Some(200), linger_ms: 200 };
    let mut server = Server::start(&rig, &Launch { clocks, grace_ms: 200, ..launch }, "sweep");
    server.line_is("end Recorded");
    server.line_is("swept");
    rig.assert_all_gone(Duration::ZERO);
    server.line_is("no children left");
}

#[test]
fn g08_marked_processes_are_found_without_their_ancestors() {
    let rig = Rig::new();
    // This server is no subreaper: what escapes from the guard falls to init.
    let script = "setsid sh beat.sh hb.a & (trap '' TERM; exec setsid sh beat.sh hb.b) &
        until [ -s hb.a ] && [ -s hb.b ]; do sleep 0.01; done; kill -KILL $PPID; sleep 60";
    let mut server = Server::start(&rig, &rig.launch(script), "marked");
    assert_eq!(server.line(), "end Lost");
    let count: u32 = server.line().strip_prefix("marked ").unwrap().parse().unwrap();
    assert!(count >= 2, "{count}");
    rig.assert_all_gone(Duration::ZERO);
    assert!(server.0.wait().unwrap().success());
}

#[test]
fn g09_a_killed_server_takes_its_agents_with_it() {
    let rig = Rig::new();
    let deaf = "trap '' INT TERM HUP; while :; do sleep 1; done";
    let mut server = Server::start(&rig, &rig.launch(&zoo(&rig, deaf)), "wait");
    assert!(server.line().starts_with("started "));
    assert!(wait_until(PATIENCE, || rig.path.join("ready").exists()));
    assert!(rig.has_survivors());
    server.0.kill().unwrap();
    server.0.wait().unwrap();
    rig.assert_all_gone(PATIENCE);
    let record = read_exit_record(&rig.job_dir()).unwrap().unwrap();
    assert_eq!(record.cause, ExitCause::Lifeline);
}

#[tokio::test]
async fn g09_dropping_a_guard_ends_its_job() {
    let rig = Rig::new();
    let mut guard = rig.start(rig.launch("setsid sh beat.sh hb.x & sleep 60")).await;
    agent_pid(&mut guard).await;
    let stopper = guard.stopper();
    wait_for_file(&rig.path.join("hb.x")).await;
    drop(guard);
    tokio::task::spawn_blocking(move || rig.assert_all_gone(PATIENCE)).await.unwrap();
    // It held no lifeline, and has nothing to say any more.
    stopper.stop(ExitCause::Stopped);
}

#[test]
fn g14_many_jobs_leave_no_descriptor_no_zombie_and_no_child() {
    let rig = Rig::new();
    let mut server = Server::start(&rig, &rig.launch("true"), "many");
    server.line_is("0 descriptors more");
    server.line_is("no children left");
    assert!(server.0.wait().unwrap().success());
}

/// What a daemon of one of the server's own commands leaves: it fell to the server when it was
/// orphaned. Fails with `WB_WITHOUT=reap_orphans`.
#[test]
fn g14_an_orphan_of_a_command_is_no_zombie_for_long() {
    let rig = Rig::new();
    let mut server = Server::start(&rig, &rig.launch("true"), "orphan");
    server.line_is("adopted");
    server.line_is("reaped");
    assert!(server.0.wait().unwrap().success());
}

/// This test binary again, in the role of a server that can be killed.
struct Server(std::process::Child, BufReader<std::process::ChildStdout>);

impl Server {
    #[allow(clippy::disallowed_methods, reason = "a test starts a second server")]
    fn start(rig: &Rig, launch: &Launch, role: &str) -> Server {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "process::escape::serve", "--nocapture", "--test-threads=1"])
            .env("WB_TEST_ROLE", role)
            .env("WB_TEST_JOB_DIR", rig.job_dir())
            .env("WB_TEST_LAUNCH", serde_json::to_string(launch).unwrap())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Server(child, stdout)
    }

    /// Returns the next line that is meant for us; the harness prints others.
    fn line(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.1.read_line(&mut line).unwrap() > 0, "the server has ended");
            if let Some((_, said)) = line.trim_end().split_once("@@ ") {
                return said.to_owned();
            }
        }
    }

    fn line_is(&mut self, want: &str) {
        assert_eq!(self.line(), want);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended already, unless its test failed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "@@ {text}").unwrap();
    out.flush().unwrap();
}

/// No test of its own: what `Server` runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn serve() {
    let Ok(role) = std::env::var("WB_TEST_ROLE") else { return };
    let launch: Launch = serde_json::from_str(&std::env::var("WB_TEST_LAUNCH").unwrap()).unwrap();
    let job = launch.job.clone();
    let children = Children::new();
    if role == "many" {
        return many(&children, launch).await;
    }
    if role != "marked" {
        become_subreaper(&Children::new()).unwrap();
    }
    if role == "orphan" {
        return orphan(&children, &launch).await;
    }
    let spec = GuardSpec {
        program: env!("CARGO_BIN_EXE_wb-agent").into(),
        job_dir: std::env::var("WB_TEST_JOB_DIR").unwrap().into(),
        launch,
        prompt: None,
        secrets: Vec::new(),
        masked: Vec::new(),
        cgroups: Cgroups::none(),
        pane: None,
    };
    let mut guard = spawn_guard(&children, spec).await.unwrap();
    if role == "wait" {
        let pid = agent_pid(&mut guard).await;
        say(&format!("started {pid}"));
        std::future::pending::<()>().await;
    }
    let end = guard.wait().await;
    say(&format!("end {}", if end == GuardEnd::Lost { "Lost" } else { "Recorded" }));
    let grace = Duration::from_millis(500);
    if role == "marked" {
        let ended = end_marked(MARK, &job, grace).await.unwrap();
        say(&format!("marked {ended}"));
        return;
    }
    sweep_orphans(&children, grace).await.unwrap();
    say("swept");
    say_children();
}

/// Runs a job many times, two at a time, and says what that left.
async fn many(children: &Children, launch: Launch) {
    let one = async |number: usize| {
        let spec = GuardSpec {
            program: env!("CARGO_BIN_EXE_wb-agent").into(),
            job_dir: format!("{}{number}", std::env::var("WB_TEST_JOB_DIR").unwrap()).into(),
            launch: launch.clone(),
            prompt: None,
            secrets: Vec::new(),
            masked: Vec::new(),
            cgroups: Cgroups::none(),
            pane: None,
        };
        recorded(spawn_guard(children, spec).await.unwrap()).await;
    };
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    tokio::join!(one(0), one(1));
    let before = descriptors();
    for number in 1..MANY / 2 {
        tokio::join!(one(2 * number), one(2 * number + 1));
    }
    say(&format!("{} descriptors more", descriptors() - before));
    say_children();
}

/// Runs a command that leaves a daemon, and says when that has come to this process, and has gone.
async fn orphan(children: &Children, launch: &Launch) {
    let stop = CancellationToken::new();
    let reaper = reap_orphans(children.clone(), stop.clone());
    let watch = async {
        let command = Run {
            program: "/bin/sh".into(),
            args: ["-c", "(setsid sh -c 'until [ -e go ]; do sleep 0.02; done' > out 2>&1 &)"]
                .map(Into::into)
                .to_vec(),
            cwd: launch.cwd.clone(),
            env: vec![("PATH".into(), "/usr/bin:/bin".into())],
            stdin: Vec::new(),
            timeout: PATIENCE,
            output_bytes_max: 1_000,
        };
        run(children, command).await.unwrap();
        assert!(within(PATIENCE, || !own_children().trim().is_empty()).await);
        say("adopted");
        std::fs::write(launch.cwd.join("go"), "").unwrap();
        assert!(within(Duration::from_secs(5), || own_children().trim().is_empty()).await);
        say("reaped");
        stop.cancel();
    };
    tokio::join!(reaper, watch);
}

async fn within(limit: Duration, is_so: fn() -> bool) -> bool {
    tokio::task::spawn_blocking(move || wait_until(limit, is_so)).await.unwrap()
}

fn own_children() -> String {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    tasks.filter_map(|it| std::fs::read_to_string(it.path().join("children")).ok()).collect()
}

fn say_children() {
    let left = own_children();
    say(&format!("{} children left", if left.trim().is_empty() { "no" } else { &left }));
}
