//! The clocks of a job, and its spawn failures.

use std::time::Duration;

use wiki_browser::process::{Clocks, ExitCause, GuardEvent, Launch, LaunchStdin, spawn_guard};

use crate::process::rig::{Rig, event, recorded};

const CLOCKS: Clocks =
    Clocks { start_ms: None, idle_ms: None, wall_ms: Some(60_000), linger_ms: 60_000 };

async fn check(script: &str, clocks: Clocks, want: ExitCause) {
    let rig = Rig::new();
    let mut guard = rig.start(Launch { clocks, grace_ms: 300, ..rig.launch(script) }).await;
    let stopper = guard.stopper();
    if want == ExitCause::Linger {
        event(&mut guard, |it| matches!(it, GuardEvent::Output { .. })).await;
        stopper.final_result();
    }
    let ending = event(&mut guard, |it| matches!(it, GuardEvent::Ending { .. })).await;
    assert_eq!(ending, GuardEvent::Ending { cause: want });
    let record = recorded(guard).await;
    assert_eq!(record.cause, want, "{record:?}");
    rig.assert_all_gone(Duration::ZERO);
}

#[tokio::test]
async fn each_clock_ends_its_job() {
    let start = Clocks { start_ms: Some(200), ..CLOCKS };
    check("sleep 60", start, ExitCause::StartTimeout).await;
    let idle = Clocks { start_ms: Some(30_000), idle_ms: Some(200), ..CLOCKS };
    check("echo a; sleep 60", idle, ExitCause::IdleTimeout).await;
    let (start_ms, idle_ms) = (Some(2_500), Some(2_500));
    let wall = Clocks { wall_ms: Some(3_000), start_ms, idle_ms, ..CLOCKS };
    check("while :; do echo a; sleep 0.02; done", wall, ExitCause::WallTimeout).await;
    let linger = Clocks { linger_ms: 200, idle_ms: Some(20_000), ..CLOCKS };
    check("echo result; sleep 60", linger, ExitCause::Linger).await;
}

/// Its clock stands still until the next result.
#[tokio::test]
async fn an_agent_that_works_on_after_a_result_is_not_ended() {
    let rig = Rig::new();
    let clocks = Clocks { linger_ms: 2_000, ..CLOCKS };
    let launch = Launch { clocks, ..rig.launch("echo result; sleep 3; exit 5") };
    let mut guard = rig.start(launch).await;
    let stopper = guard.stopper();
    event(&mut guard, |it| matches!(it, GuardEvent::Output { .. })).await;
    stopper.final_result();
    stopper.goes_on();
    let record = recorded(guard).await;
    assert_eq!((record.cause, record.code), (ExitCause::Exit, Some(5)), "{record:?}");
}

#[tokio::test]
async fn an_agent_in_time_meets_no_clock() {
    let rig = Rig::new();
    let clocks = Clocks { start_ms: Some(5_000), idle_ms: Some(5_000), ..CLOCKS };
    let launch = Launch { clocks, ..rig.launch("echo a; exit 4") };
    let record = recorded(rig.start(launch).await).await;
    assert_eq!((record.cause, record.code, record.swept), (ExitCause::Exit, Some(4), 0));
    assert!(record.ended_ms >= record.started_ms && record.rss_max_bytes > 0);
    assert_eq!((record.stdout.bytes, record.stdout.cut), (2, false));
}

#[tokio::test]
async fn an_agent_that_cannot_start_is_recorded_with_the_reason() {
    let bad: [(&[&str], &str, &str); 3] = [
        (&["/nowhere/claude"], "/", "No such file"),
        (&["/etc/passwd"], "/", "ermission denied"),
        (&["/bin/true"], "/nowhere", "/nowhere is not a folder"),
    ];
    for (argv, cwd, why) in bad {
        let rig = Rig::new();
        let argv = argv.iter().map(ToString::to_string).collect();
        let launch = Launch { argv, cwd: cwd.into(), ..rig.launch("") };
        let record = recorded(rig.start(launch).await).await;
        assert_eq!((record.cause, record.code), (ExitCause::SpawnFailed, None));
        assert!(record.error.as_deref().unwrap_or_default().contains(why), "{record:?}");
    }
}

#[tokio::test]
async fn a_launch_is_refused_before_anything_is_written() {
    let rig = Rig::new();
    let bad = [
        Launch { stdin: LaunchStdin::File, ..rig.launch("") },
        Launch { argv: vec!["sh".into()], ..rig.launch("") },
    ];
    for launch in bad {
        spawn_guard(&rig.children, rig.spec(launch)).await.unwrap_err();
        assert!(!rig.job_dir().exists());
    }
    let mut spec = rig.spec(rig.launch(""));
    spec.secrets = vec![("A".into(), "x".repeat(200_000))];
    let refused = spawn_guard(&rig.children, spec).await.unwrap_err();
    assert_eq!(refused.code_str(), "too_large");
    assert!(!rig.job_dir().exists());
}
