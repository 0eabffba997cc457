//! The start of an agent: its input, environment and descriptors; and a job starts only once (G3,
//! G13, G14, G28).

use std::io::Write;

use wiki_browser::process::{
    ExitCause, FileLock, GuardEnd, GuardEvent, Launch, LaunchStdin, spawn_guard,
};

use crate::process::rig::{
    Rig, agent_pid, all_pids, event, is_clean_exit, recorded, wait_for_file,
};

#[tokio::test]
async fn g13_a_prompt_arrives_unchanged_and_is_in_no_ps() {
    for bytes in [0, 1, 131_071, 131_072, 16 * 1024 * 1024] {
        let rig = Rig::new();
        let prompt: Vec<u8> = (0..bytes).map(|it: usize| (it * 7 % 256) as u8).collect();
        let launch = Launch { stdin: LaunchStdin::File, ..rig.launch("cat > got; sha256sum got") };
        let mut spec = rig.spec(launch);
        spec.prompt = Some(prompt.clone());
        let guard = spawn_guard(&rig.children, spec).await.unwrap();
        assert!(is_clean_exit(&recorded(guard).await));
        assert!(std::fs::read(rig.path.join("got")).unwrap() == prompt, "{bytes} bytes");
        assert!(rig.stdout().len() > 64);
    }
    let rig = Rig::new();
    let launch = Launch {
        stdin: LaunchStdin::File,
        ..rig.launch("cat > got; echo ready > ready; while [ ! -e go ]; do sleep 0.02; done")
    };
    let mut spec = rig.spec(launch);
    spec.prompt = Some(b"prompt-canary-55aa".to_vec());
    let guard = spawn_guard(&rig.children, spec).await.unwrap();
    wait_for_file(&rig.path.join("ready")).await;
    for pid in all_pids() {
        for file in ["cmdline", "environ"] {
            let text = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            assert!(!text.windows(18).any(|it| it == b"prompt-canary-55aa"), "{pid} {file}");
        }
    }
    std::fs::write(rig.path.join("go"), "").unwrap();
    assert!(is_clean_exit(&recorded(guard).await));
}

#[tokio::test]
async fn g14_an_agent_has_three_descriptors_and_default_signals() {
    // Each program looks at itself: a shell changes its own mask and descriptors all the time.
    let look = async |argv: &[&str]| {
        let rig = Rig::new();
        let argv = argv.iter().map(ToString::to_string).collect();
        let record = recorded(rig.start(Launch { argv, ..rig.launch("") }).await).await;
        assert!(is_clean_exit(&record), "{record:?}");
        rig.stdout()
    };
    // 3 is the folder that `ls` itself opened.
    assert_eq!(look(&["/bin/ls", "/proc/self/fd"]).await, "0\n1\n2\n3\n");
    let signals = look(&["/bin/grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]).await;
    assert_eq!(signals, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
    let pids = look(&["/usr/bin/cut", "-d ", "-f1,5,6", "/proc/self/stat"]).await;
    let pids: Vec<&str> = pids.split_whitespace().collect();
    assert!(pids[0] == pids[1] && pids[0] == pids[2], "its own group and session: {pids:?}");
}

#[tokio::test]
async fn g14_a_descriptor_that_somebody_left_open_does_not_reach_the_agent() {
    let rig = Rig::new();
    std::fs::create_dir_all(rig.job_dir()).unwrap();
    let argv = vec!["/bin/ls".into(), "-l".into(), "/proc/self/fd".into()];
    let launch = serde_json::to_vec(&Launch { argv, ..rig.launch("") }).unwrap();
    std::fs::write(rig.job_dir().join("launch.json"), launch).unwrap();
    let start = "{\"type\":\"start\",\"secrets\":[],\"masked\":[]}\n";
    assert_eq!(by_hand(&rig, start, "exec 7</etc/passwd 8>left").await, Some(0));
    let text = rig.stdout();
    assert!(text.contains("pipe:") && !text.contains("passwd") && !text.contains("left"), "{text}");
}

#[tokio::test]
async fn an_agent_has_the_environment_it_was_given_and_secrets_are_in_no_file() {
    let rig = Rig::new();
    let launch = Launch {
        argv: vec!["/usr/bin/env".into()],
        env: vec![("A".into(), "b c".into()), ("WB_JOB_ID".into(), "forged".into())],
        ..rig.launch("")
    };
    let record = recorded(rig.start(launch).await).await;
    assert!(is_clean_exit(&record));
    let text = rig.stdout();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    let (folder, job) = (rig.job_dir(), &rig.job);
    assert_eq!(
        lines,
        [
            "A=b c",
            &format!("WB_JOB_FOLDER={folder}"),
            &format!("WB_JOB_ID={job}"),
            "WB_TOKEN=***********"
        ]
    );
    for entry in std::fs::read_dir(rig.job_dir()).unwrap().flatten() {
        let meta = entry.metadata().unwrap();
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(meta.permissions().mode() & 0o777, 0o600, "{:?}", entry.path());
        let text = std::fs::read_to_string(entry.path()).unwrap();
        assert!(!text.contains("canary-7d1f"), "{:?}", entry.path());
    }
}

#[tokio::test]
async fn g03_a_job_is_launched_once() {
    let rig = Rig::new();
    assert!(is_clean_exit(&rig.run("echo 1 >> runs").await));
    let again = rig.spec(rig.launch("echo 2 >> runs"));
    let refused = spawn_guard(&rig.children, again).await.unwrap_err();
    assert_eq!(refused.code_str(), "job_launched");
    // Even a guard that is started by hand refuses a job that has ended.
    let code = by_hand(&rig, "", ":").await;
    assert_eq!(code, Some(5));
    assert_eq!(std::fs::read_to_string(rig.path.join("runs")).unwrap(), "1\n");
}

#[tokio::test]
async fn g03_a_guard_without_the_lock_starts_nothing() {
    let rig = Rig::new();
    std::fs::create_dir_all(rig.job_dir()).unwrap();
    let held = FileLock::try_take(&rig.job_dir().join("lock")).unwrap().unwrap();
    let guard = rig.start(rig.launch("echo ran > ran")).await;
    assert_eq!(guard.wait().await, GuardEnd::Lost);
    assert!(!rig.path.join("ran").exists());
    drop(held);
    // Without a lifeline it starts nothing either, and says so.
    assert_eq!(by_hand(&rig, "", ":").await, Some(0));
    let record = wiki_browser::process::read_exit_record(&rig.job_dir()).unwrap().unwrap();
    assert_eq!(record.cause, ExitCause::Lifeline);
    assert!(!rig.path.join("ran").exists());
}

#[tokio::test]
async fn g03_a_running_job_holds_its_lock() {
    let rig = Rig::new();
    let mut guard = rig.start(rig.launch("while [ ! -e go ]; do sleep 0.02; done")).await;
    let pid = agent_pid(&mut guard).await;
    assert!(wiki_browser::process::descends_from(pid, &[guard.identity().pid]));
    let lock = rig.job_dir().join("lock");
    assert!(FileLock::try_take(&lock).unwrap().is_none());
    std::fs::write(rig.path.join("go"), "").unwrap();
    event(&mut guard, |it| matches!(it, GuardEvent::Ended(_))).await;
    assert!(FileLock::try_take(&lock).unwrap().is_some(), "unlocked before the last word");
    assert!(is_clean_exit(&recorded(guard).await));
}

/// Starts a guard by hand, behind a shell that does something first, and returns its exit code. The
/// lifeline ends after `line`, unless that starts the agent.
#[allow(clippy::disallowed_methods, reason = "what an operator could type")]
async fn by_hand(rig: &Rig, line: &str, first: &str) -> Option<i32> {
    let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    ours.write_all(line.as_bytes()).unwrap();
    let ours = Some(ours).filter(|_| !line.is_empty());
    let mut command = tokio::process::Command::new("/bin/sh");
    command.args(["-c", &format!("{first}; exec \"$0\" __guard \"$1\"")]);
    command.arg(env!("CARGO_BIN_EXE_wb-agent")).arg(rig.job_dir()).current_dir(&rig.path);
    command.stdin(std::os::fd::OwnedFd::from(theirs)).stderr(std::process::Stdio::null());
    let code = command.status().await.unwrap().code();
    drop(ours);
    code
}
