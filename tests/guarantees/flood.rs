//! G12: an agent that prints without end costs the server next to nothing, and never waits.

use std::time::Duration;

use serde_json::{Value, json};
use wiki_browser::process::{Stream, output_tail};

use crate::support::{Bench, Server, wait_for};

/// What the server may grow by.
const GROWTH_KIB_MAX: u64 = 8 * 1024;
const MIB: u64 = 1 << 20;

/// Returns a number of KiB that the kernel keeps of a process.
fn kib(server: &Server, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = text.lines().find(|it| it.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// A site with a kind that reads its agent's output as Claude's, and a server that has warmed up.
fn site(agent: &str, timeout: &str) -> (Bench, Server) {
    let bench = Bench::new();
    for (name, agent) in [("flood", agent), ("short", "echo '{\"type\":\"system\"}'")] {
        let file = bench.base.join("agents").join(format!("{name}.sh"));
        std::fs::write(&file, agent).unwrap();
        bench.lua(&format!(
            "wb.engine \"{name}\" {{ type = \"process\", command = {{ \"/bin/sh\", \"{file}\" }},\n\
             prompt = \"stdin\", reads = \"claude-stream-json\" }}\n\
             wb.kind \"{name}\" {{ about = \"A test\", engine = \"{name}\",\n\
             timeout = \"{timeout}\", prompt = \"x\", inputs = {{}} }}\n"
        ));
    }
    let server = bench.serve();
    for _ in 0..5 {
        assert_eq!(bench.ended(&bench.job("short", json!({})))["status"], "succeeded");
    }
    (bench, server)
}

fn has(row: &Value, warning: &str) -> bool {
    row["warnings"].as_array().unwrap().iter().any(|it| it == warning)
}

/// Prints so many MiB of lines, then one line of as many, then its result.
fn flood(mib: u64, patience: Duration) {
    let agent = format!(
        "yes 'a line like any other, which is no JSON' | head -c {half}\n\
         head -c {half} /dev/zero | tr '\\0' z\necho\n\
         echo '{{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\
         \"result\":\"the last word\",\"total_cost_usd\":0.5}}'\n",
        half = mib / 2 * MIB
    );
    let (bench, server) = site(&agent, "2h");
    let before = kib(&server, "VmHWM");
    let job = bench.job("flood", json!({}));
    let begin = std::time::Instant::now();
    let row = loop {
        let row = wait_for("there is news", || Some(bench.show(&job)));
        if row["status"] != "running" && row["status"] != "queued" {
            break row;
        }
        assert!(begin.elapsed() < patience, "{row:#}");
        crate::support::within(Duration::from_millis(100), || false);
    };
    let grew = kib(&server, "VmHWM").saturating_sub(before);
    eprintln!("{mib} MiB in {:?}: the server grew by {grew} KiB", begin.elapsed());
    assert!(grew < GROWTH_KIB_MAX, "{mib} MiB of output cost {grew} KiB");
    assert_eq!((&row["status"], &row["summary"]), (&json!("succeeded"), &json!("the last word")));
    assert!(has(&row, "output_cut"), "{row:#}");
    let dir = bench.data.join("jobs").join(&job);
    let tail = output_tail(&dir, Stream::Stdout, 1 << 20).unwrap();
    assert_eq!(tail.len(), 1 << 20);
    assert!(tail.starts_with(b"zzzz") && tail.ends_with(b"0.5}\n"));
    let kept: u64 = ["stdout.log", "stdout.tail", "stream.ndjson"]
        .iter()
        .map(|it| dir.join(it).metadata().map_or(0, |it| it.len()))
        .sum();
    assert!(kept < 32 * MIB, "{kept} bytes are kept");
    server.stop();
}

#[test]
fn g12_a_flood_costs_the_server_next_to_nothing() {
    flood(256, Duration::from_secs(120));
}

#[test]
#[ignore = "long: 10 GB take minutes"]
fn g12_ten_gigabytes_cost_the_server_no_more() {
    flood(10_240, Duration::from_secs(3_600));
}

#[test]
fn g12_a_line_that_never_ends_is_ended_by_the_clock() {
    let (bench, server) = site("tr '\\0' z < /dev/zero", "3s");
    let before = kib(&server, "VmHWM");
    let job = bench.job("flood", json!({}));
    let row = bench.ended(&job);
    assert_eq!((&row["status"], &row["reason"]), (&json!("timed_out"), &json!("wall_timeout")));
    assert!(has(&row, "output_cut"), "{row:#}");
    let grew = kib(&server, "VmHWM").saturating_sub(before);
    assert!(grew < GROWTH_KIB_MAX, "an endless line cost {grew} KiB");
    let dir = bench.data.join("jobs").join(&job);
    let tail = output_tail(&dir, Stream::Stdout, 1 << 20).unwrap();
    assert!(tail.len() == 1 << 20 && tail.iter().all(|it| *it == b'z'));
    server.stop();
}
