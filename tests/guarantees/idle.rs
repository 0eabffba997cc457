//! G15: an idle server does nothing, and notices new work at once.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::json;

use crate::support::{Bench, Server, within};

/// Returns how often each thread of a server was given a processor.
fn wakes(server: &Server) -> BTreeMap<String, u64> {
    let tasks = Utf8PathBuf::from(format!("/proc/{}/task", server.pid()));
    let of_task = |path: &Utf8Path| {
        // A thread that has ended meanwhile has no file.
        let text = std::fs::read_to_string(path.join("status")).unwrap_or_default();
        let counts = text.lines().filter(|it| it.starts_with("voluntary_ctxt_switches"));
        counts.filter_map(|it| it.split_whitespace().last()?.parse::<u64>().ok()).sum::<u64>()
    };
    let entries = tasks.read_dir_utf8().unwrap().flatten();
    entries.map(|it| (it.file_name().to_owned(), of_task(it.path()))).collect()
}

/// Returns the difference, over the threads that are there at the end.
fn between(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> u64 {
    let more = |(task, count): (&String, &u64)| {
        count.saturating_sub(before.get(task).copied().unwrap_or(0))
    };
    after.iter().map(more).sum()
}

/// Waits until the server has been still for a while; threads of a pool end some seconds late.
fn settle(server: &Server) {
    let mut last = (wakes(server), Instant::now());
    let is_still = within(Duration::from_secs(40), || {
        let now = wakes(server);
        if now != last.0 {
            last = (now, Instant::now());
        }
        last.1.elapsed() > Duration::from_secs(2)
    });
    assert!(is_still, "the server never rests");
}

/// Returns how often a resting server woke up in some time.
fn wakes_in(limit: Duration) -> (Bench, Server, u64) {
    let bench = Bench::new();
    bench.word_kind("quick", "timeout = \"20s\"", "exit 0");
    let server = bench.serve();
    let job = bench.job("quick", json!({}));
    bench.job("quick", json!({"not_before": "2100-01-01T00:00:00Z"}));
    bench.ended(&job);
    settle(&server);
    let before = wakes(&server);
    within(limit, || false);
    let count = between(&before, &wakes(&server));
    (bench, server, count)
}

/// A loop that looks ten times a second would be found by this, and by nothing else.
#[test]
fn g15_an_idle_server_rests() {
    let (_bench, server, count) = wakes_in(Duration::from_secs(4));
    // At most one of the two looks of a minute, which some threads hand to each other.
    assert!(count <= 12, "{count} wakes in 4 s");
    server.stop();
}

#[test]
#[ignore = "long: two minutes of doing nothing"]
fn g15_an_idle_server_wakes_twice_a_minute() {
    let (_bench, server, count) = wakes_in(Duration::from_secs(120));
    // Four looks: each wakes the thread of the timer, one that reads, and one that goes on.
    assert!(count <= 4 * 10, "{count} wakes in two minutes");
    server.stop();
}

/// Fails with `WB_WITHOUT=bell`.
#[test]
fn g15_what_comes_is_started_at_once() {
    let bench = Bench::new();
    bench.limits("jobs = 1, grace = \"1s\"");
    bench.word_kind("quick", "timeout = \"20s\"", "exit 0");
    let server = bench.serve();
    settle(&server);
    let jobs: Vec<String> = (0..3).map(|_| bench.job("quick", json!({}))).collect();
    let is_done = |job: &String| bench.show(job)["status"] == "succeeded";
    // Without the bell they wait for a look, for ten minutes.
    assert!(within(Duration::from_secs(25), || jobs.iter().all(is_done)), "a job waits for a look");
    server.stop();
}
