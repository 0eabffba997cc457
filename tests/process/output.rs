//! Waiting on processes, late output, floods (G11, G12).

use std::time::{Duration, Instant};

use wiki_browser::process::{
    ExitCause, GuardEvent, Launch, OutputCaps, Stream, output_tail, read_output,
};

use crate::process::rig::{PATIENCE, Rig, event, is_clean_exit, recorded};

#[tokio::test]
async fn g11_a_grandchild_that_holds_the_output_keeps_no_job_alive() {
    let rig = Rig::new();
    let begin = Instant::now();
    let record = rig.run("sleep 60 & setsid sleep 60 & echo hi").await;
    assert!(is_clean_exit(&record), "{record:?}");
    assert_eq!(record.swept, 2);
    // It would hold it for a minute.
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    assert_eq!(rig.stdout(), "hi\n");
    rig.assert_all_gone(Duration::ZERO);
}

#[tokio::test]
async fn g11_late_output_within_the_window_is_kept() {
    // Each line comes well within 100 ms of the one before, the last long after the agent's exit.
    // No pause needs a process of its own, which takes its time to start on a busy machine.
    let late = "setsid bash -c 'exec 9<> <(:); a=$EPOCHREALTIME; : > up
        for i in 1 2 3 4 5 6 7 8 9 10 11 12; do read -t 0.03 -u 9; b=$EPOCHREALTIME; echo $i
        echo $a $EPOCHREALTIME >> times; a=$b; done' &";
    let began = Instant::now();
    loop {
        let rig = Rig::new();
        let record = rig.run(&format!("{late} until [ -e up ]; do :; done; echo 0")).await;
        assert!(is_clean_exit(&record));
        let (kept, in_time) = (rig.stdout(), until_a_long_pause(&rig));
        assert!(kept.starts_with(&in_time), "{kept}");
        // All of it, once the machine is quick enough for a moment.
        if kept == "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n" {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{kept}");
    }
}

/// Returns the lines of the late writer before its first pause that may have been too long.
fn until_a_long_pause(rig: &Rig) -> String {
    let times = std::fs::read_to_string(rig.path.join("times")).unwrap_or_default();
    let seconds = |it: &str| it.parse::<f64>().unwrap();
    let pauses = times.lines().map(|line| {
        let (from, to) = line.split_once(' ').unwrap();
        seconds(to) - seconds(from)
    });
    let in_time = pauses.take_while(|it| *it < 0.09).count();
    (0..=in_time).map(|it| format!("{it}\n")).collect()
}

#[tokio::test]
async fn g11_a_chatty_grandchild_is_ended_after_two_seconds() {
    let rig = Rig::new();
    let begin = Instant::now();
    let launch = Launch { grace_ms: 5_000, ..rig.launch("setsid yes & exit 0") };
    let record = recorded(rig.start(launch).await).await;
    assert!(is_clean_exit(&record));
    // It would go on for ever, and nobody waits for that long.
    assert!(begin.elapsed() > Duration::from_millis(1_900), "{:?}", begin.elapsed());
}

/// All is over within the grace and a second, also where the grace is short.
#[tokio::test]
async fn g08_a_chatty_grandchild_gets_no_more_than_the_grace_and_a_second() {
    let rig = Rig::new();
    let script = "(trap '' TERM; while :; do echo x; sleep 0.01; done) & exit 0";
    let launch = Launch { grace_ms: 200, ..rig.launch(script) };
    let begin = Instant::now();
    let record = recorded(rig.start(launch).await).await;
    assert!(is_clean_exit(&record), "{record:?}");
    assert!(record.survivors.is_empty() && record.swept > 0, "{record:?}");
    // Without the cap it takes 2.5 s at least.
    assert!(begin.elapsed() < Duration::from_millis(2_300), "{:?}", begin.elapsed());
}

/// Fails with `WB_WITHOUT=output_caps`.
#[tokio::test]
async fn g12_a_flood_costs_little_and_never_blocks() {
    let rig = Rig::new();
    let script = "head -c 300000000 /dev/zero | tr '\\0' y; echo; echo final result";
    let mut guard = rig.start(rig.launch(script)).await;
    let pid = guard.identity().pid;
    let mut rss_max = 0;
    let mut notices = 0;
    let begin = Instant::now();
    while let Some(it) = tokio::time::timeout(PATIENCE, guard.next()).await.unwrap() {
        if matches!(it, GuardEvent::Output { .. }) {
            notices += 1;
            rss_max = rss_max.max(rss_kib(pid));
            let chunk = read_output(&rig.job_dir(), Stream::Stdout, u64::MAX, 10).unwrap();
            assert!(chunk.bytes.is_empty());
        }
    }
    let most = 30 * (begin.elapsed().as_secs() + 1);
    assert!(notices <= most, "{notices} notices are more than 20 a second");
    let record = recorded(guard).await;
    assert!(is_clean_exit(&record), "{record:?}");
    assert_eq!((record.stdout.bytes, record.stdout.cut), (300_000_014, true));
    // Pages of the program itself, which all guards share, are in it: several MiB in a debug build.
    assert!((1..12 * 1024).contains(&rss_max), "the guard took {rss_max} KiB");
    let size = |name: &str| rig.job_dir().join(name).metadata().unwrap().len();
    assert_eq!(size("stdout.log"), 8 << 20);
    assert!(size("stdout.tail") <= (1 << 20) + 128);
    let tail = output_tail(&rig.job_dir(), Stream::Stdout, 1 << 20).unwrap();
    assert_eq!(tail.len(), 1 << 20);
    assert!(tail.ends_with(b"yyyy\nfinal result\n"));
    let chunk = read_output(&rig.job_dir(), Stream::Stdout, 100 << 20, 5).unwrap();
    let from = 300_000_014 - (1 << 20);
    assert_eq!((chunk.offset, chunk.cut), (from, Some((8 << 20, from))));
    assert_eq!((chunk.bytes.as_slice(), chunk.total), (&b"yyyyy"[..], 300_000_014));
}

#[tokio::test]
async fn g12_yes_is_stopped_like_any_other() {
    let rig = Rig::new();
    let mut guard = rig.start(rig.launch("yes & yes >&2")).await;
    let is_much = |it: &GuardEvent| match it {
        GuardEvent::Output { bytes_total, .. } => *bytes_total > 30 << 20,
        _ => false,
    };
    event(&mut guard, is_much).await;
    let begin = Instant::now();
    guard.stopper().stop(ExitCause::Stopped);
    let record = recorded(guard).await;
    assert_eq!(record.cause, ExitCause::Stopped);
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    assert!(record.stdout.bytes > 0 && record.stderr.bytes > 0);
    for stream in Stream::ALL {
        let tail = output_tail(&rig.job_dir(), stream, 100).unwrap();
        assert!(tail.windows(2).all(|it| it == b"y\n" || it == b"\ny"));
    }
    rig.assert_all_gone(Duration::ZERO);
}

#[tokio::test]
async fn output_is_read_while_it_is_written() {
    let rig = Rig::new();
    let script = "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done";
    let output = OutputCaps { head_bytes: 10_000, tail_bytes: 100_000 };
    let mut guard = rig.start(Launch { output, ..rig.launch(script) }).await;
    let mut text = Vec::new();
    let mut at = 0;
    while guard.next().await.is_some() {
        loop {
            let chunk = read_output(&rig.job_dir(), Stream::Stdout, at, 777).unwrap();
            assert_eq!(chunk.offset, at, "nothing is cut");
            at = chunk.next_offset;
            if chunk.bytes.is_empty() {
                break;
            }
            text.extend(chunk.bytes);
        }
    }
    let record = recorded(guard).await;
    assert_eq!(record.stdout.bytes, text.len() as u64);
    let want: String = (0..3000).map(|it| format!("line {it}\n")).collect();
    assert_eq!(String::from_utf8(text).unwrap(), want);
}

fn rss_kib(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|it| it.starts_with("VmRSS:"));
    line.and_then(|it| it.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}
