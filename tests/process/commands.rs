//! Commands of the server itself: bounded in time and output.

use std::time::{Duration, Instant};

use wiki_browser::base::ErrorKind;
use wiki_browser::process::{Output, Run, run};

use crate::process::rig::{PATIENCE, Rig};

fn command(rig: &Rig, script: &str) -> Run {
    let script = format!("exec 9>>witness; flock -s 9; {script}");
    Run {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script.into()],
        cwd: rig.path.clone(),
        env: vec![("PATH".into(), "/usr/bin:/bin".into()), ("A".into(), "b".into())],
        stdin: Vec::new(),
        timeout: Duration::from_secs(10),
        output_bytes_max: 1 << 20,
    }
}

#[tokio::test]
async fn a_command_gets_its_input_and_environment_and_gives_its_output_and_code() {
    let rig = Rig::new();
    let stdin = vec![b'x'; 3 << 20];
    let mut wanted = command(&rig, "wc -c; echo $A $HOME; echo bad >&2; exit 7");
    wanted.stdin = stdin;
    let output = run(&rig.children, wanted).await.unwrap();
    let stdout = format!("{}\nb\n", 3 << 20).into_bytes();
    assert_eq!(output, Output { code: 7, stdout, stderr: b"bad\n".to_vec() });
    let killed = run(&rig.children, command(&rig, "kill -9 $$")).await.unwrap();
    assert_eq!(killed.code, 128 + 9);
    let mut deaf = command(&rig, "exit 0");
    deaf.stdin = vec![0; 1 << 20];
    assert_eq!(run(&rig.children, deaf).await.unwrap().code, 0);
}

#[tokio::test]
async fn a_grandchild_that_holds_the_pipe_does_not_hold_the_server() {
    let rig = Rig::new();
    let begin = Instant::now();
    let output = run(&rig.children, command(&rig, "sleep 60 & echo hi")).await.unwrap();
    assert_eq!(output.stdout, b"hi\n");
    // It would hold it for a minute.
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    rig.assert_all_gone(PATIENCE);
}

#[tokio::test]
async fn too_long_or_too_much_ends_the_whole_group() {
    let rig = Rig::new();
    let mut slow = command(&rig, "sh beat.sh hb.x & trap '' TERM; sleep 60");
    slow.timeout = Duration::from_millis(300);
    let refused = run(&rig.children, slow).await.unwrap_err();
    assert_eq!(refused.code_str(), "command_timeout");
    rig.assert_all_gone(PATIENCE);
    let refused = run(&rig.children, command(&rig, "yes")).await.unwrap_err();
    assert_eq!((refused.kind(), refused.code_str()), (ErrorKind::TooLarge, "output_too_large"));
    rig.assert_all_gone(PATIENCE);
    let gone = Run { program: "/nowhere/git".into(), ..command(&rig, "") };
    let refused = run(&rig.children, gone).await.unwrap_err();
    assert_eq!(refused.code_str(), "command_not_started");
}

#[tokio::test]
async fn a_caller_that_leaves_ends_the_command() {
    let rig = Rig::new();
    let children = rig.children.clone();
    let wanted = command(&rig, "sh beat.sh hb.x");
    let beat = rig.path.join("hb.x");
    tokio::select! {
        _ = run(&children, wanted) => panic!("it ended"),
        () = crate::process::rig::wait_for_file(&beat) => {}
    }
    let check = move || rig.assert_all_gone(PATIENCE);
    tokio::task::spawn_blocking(check).await.unwrap();
}
