//! G14: many jobs leave no zombie, no descriptor, no cgroup and no growth.

use std::time::Duration;

use serde_json::json;

use crate::support::{Bench, Server, until, within};

/// How many wait at a time.
const BATCH: usize = 100;

struct Counts {
    descriptors: usize,
    rss_kib: u64,
    threads: u64,
}

fn counts(server: &Server) -> Counts {
    let pid = server.pid();
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let number = |name: &str| {
        let line = text.lines().find(|it| it.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    Counts { descriptors, rss_kib: number("VmRSS:"), threads: number("Threads:") }
}

/// Returns the children of a server, zombies too.
fn children(server: &Server) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap().flatten();
    tasks
        .filter_map(|it| std::fs::read_to_string(it.path().join("children")).ok())
        .flat_map(|it| it.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

fn run(bench: &Bench, count: usize) {
    for _ in 0..count / BATCH {
        let jobs: Vec<String> = (0..BATCH).map(|_| bench.job("true", json!({}))).collect();
        let last = jobs.last().unwrap();
        let is_over = || {
            let lists = ["queued", "running"].map(|it| {
                let page = bench.get(&format!("/api/agent/jobs?status={it}&limit=1")).ok();
                page["items"].as_array().unwrap().len()
            });
            lists == [0, 0]
        };
        assert!(within(Duration::from_secs(120), is_over), "{}", bench.show(last));
        assert_eq!(bench.show(last)["status"], "succeeded");
    }
}

/// Runs `warm` jobs and then some windows of jobs; in the window in the middle, by growth, the
/// memory may grow by so many KiB. What a job keeps shows in every window; a thread, or a reader of
/// the database with its cache, that a busy moment called for shows in one.
fn check(warm: usize, (windows, jobs): (usize, usize), growth_kib_max: u64) {
    let bench = Bench::new();
    bench.raw_engine("true", "exit 0");
    bench.lua(
        "wb.kind \"true\" { about = \"A test\", engine = \"true\", timeout = \"60s\",\n\
         prompt = \"x\", inputs = {} }\n",
    );
    let server = bench.serve();
    run(&bench, warm);
    let early = counts(&server);
    let mut growths = Vec::new();
    let mut before = early.rss_kib;
    for _ in 0..windows {
        run(&bench, jobs);
        let now = counts(&server).rss_kib;
        growths.push(now.saturating_sub(before));
        before = now;
    }
    until("no child is left, no zombie either", || children(&server).is_empty());
    // A reader of the database or a watch may be opened late, once; a job that left one open would
    // leave a hundred.
    let most = early.descriptors + 8;
    until("its descriptors are closed", || counts(&server).descriptors <= most);
    let late = counts(&server);
    growths.sort_unstable();
    eprintln!(
        "{windows} times {jobs} jobs: {} descriptors, {} threads, {} KiB, by {growths:?} KiB more",
        late.descriptors, late.threads, late.rss_kib
    );
    let middle = growths[windows / 2];
    assert!(middle < growth_kib_max, "{jobs} jobs cost {middle} KiB: {growths:?}");
    bench.quiet();
    server.stop();
}

#[test]
fn g14_some_hundred_jobs_leave_nothing() {
    check(BATCH, (3, BATCH), 3 * 1024);
}

#[test]
#[ignore = "long: 10,000 jobs take minutes"]
fn g14_ten_thousand_jobs_leave_nothing() {
    check(2_000, (8, 1_000), 400);
}

/// With a cgroup too, whose file the guard opens for its agent.
#[test]
fn g14_an_agent_inherits_three_descriptors() {
    let bench = Bench::new();
    bench.raw_engine("looks", "exec ls /proc/self/fd > \"$OUT/fds\"");
    bench.lua(
        "wb.kind \"looks\" { about = \"A test\", engine = \"looks\", timeout = \"60s\",\n\
         prompt = \"x\", inputs = {} }\n",
    );
    let server = bench.serve();
    assert_eq!(bench.ended(&bench.job("looks", json!({})))["status"], "succeeded");
    // 3 is the folder that `ls` itself opened.
    assert_eq!(bench.left("fds").lines().collect::<Vec<_>>(), ["0", "1", "2", "3"]);
    server.stop();
}
