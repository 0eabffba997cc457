//! G27 on a real server: functions that do not return cost only their call, and at most two
//! threads.

use serde_json::json;

use crate::script::jobs;
use crate::support::{Bench, until, wait_for};

/// Takes many seconds inside of one C function, but not for ever.
const PATTERN: &str = "string.find(string.rep(\"a\", 25), string.rep(\"a?\", 25) .. \
    string.rep(\"a\", 25) .. \"b\")";

#[test]
fn g27_two_threads_are_given_up_and_then_everybody_is_told() {
    let bench = Bench::new();
    bench.engine("echoes", "exit 0");
    bench.lua(&format!(
        "wb.kind \"stuck\" {{ about = \"S\", engine = \"echoes\", timeout = \"20s\",
           prompt = function() return {PATTERN} or \"never\" end }}
         wb.kind \"loops\" {{ about = \"L\", engine = \"echoes\", timeout = \"20s\",
           prompt = function()
             while true do pcall(function() while true do end end) end return \"x\" end }}
         wb.kind \"plain\" {{ about = \"P\", engine = \"echoes\", timeout = \"20s\",
           prompt = function() return \"job=1\" end }}
         wb.schedule \"often\" {{ every = \"1s\",
           enqueue = function() wb.enqueue {{ kind = \"ticks\", word = \"x\" }} end }}\n"
    ));
    bench.word_kind("ticks", "timeout = \"20s\"", "exit 0");
    // The engine's own functions may not end; those for patterns do.
    let server = bench.serve_with(&[("WB_WITHOUT", "pattern_steps")]);
    let ended = |kind: &str| bench.ended(&bench.job(kind, json!({})));
    let job = ended("loops");
    assert_eq!(job["reason"], "prompt_failed", "{job:#}");
    assert!(job["error_tail"].as_str().unwrap().starts_with("wiki-browser.lua:"), "{job:#}");
    assert_eq!(ended("plain")["status"], "succeeded");
    let first = ended("stuck");
    assert!(first["error_tail"].as_str().unwrap().contains("does not end"), "{first:#}");
    assert_eq!(ended("plain")["status"], "succeeded", "a fresh thread serves");
    // A reload has no new threads to give up: the count goes on.
    let done = bench.post("/api/config/reload", json!({})).ok();
    assert_eq!(done["ok"], true, "{done:#}");
    ended("stuck");
    let off = wait_for("the functions are off", || {
        let health = bench.get("/api/health").ok();
        (health["script"]["stuck"] == true).then_some(health)
    });
    assert_eq!(
        (&off["status"], &off["script"]["abandoned_threads"]),
        (&json!("degraded"), &json!(2))
    );
    assert_eq!(bench.get("/api/config").ok()["script_stuck"], true);
    let (_, out, _) = bench.cli(&["status"]);
    assert!(out.contains("functions are disabled"), "{out}");
    let job = ended("plain");
    assert_eq!(job["reason"], "prompt_failed", "{job:#}");
    let refused = bench.post("/api/config/reload", json!({})).ok();
    assert_eq!(refused["ok"], false, "{refused:#}");
    // What was due meanwhile is for the restart that this asks for.
    let schedule = || bench.get("/api/schedules").ok()["items"][0].clone();
    let overdue = || {
        let due: jiff::Timestamp = schedule()["next_at"].as_str().unwrap().parse().unwrap();
        jiff::Timestamp::now().duration_since(due)
    };
    until("it is overdue", || overdue() > jiff::SignedDuration::from_secs(4));
    let metrics = bench.get("/metrics").body;
    let metrics = metrics.as_str().unwrap();
    for line in [
        "wb_script_stuck 1",
        "wb_script_errors_total{function=\"kind.loops.prompt\"} 1",
        "wb_script_call_duration_seconds_count{function=\"kind.plain.prompt\"} 2",
    ] {
        assert!(metrics.contains(line), "{line}");
    }
    let before = jobs(&bench, "ticks").len();
    server.stop();
    let server = bench.serve();
    until("what was due has run", || jobs(&bench, "ticks").len() > before);
    server.stop();
}

#[test]
fn g27_a_pattern_costs_its_call_only() {
    let bench = Bench::new();
    bench.engine("echoes", "exit 0");
    bench.lua(
        "wb.kind \"runs\" { about = \"S\", engine = \"echoes\", timeout = \"20s\",
           prompt = function()
             return (\"a\"):rep(200):find((\"a*\"):rep(60) .. \"b\") or \"never\" end }
         wb.kind \"plain\" { about = \"P\", engine = \"echoes\", timeout = \"20s\",
           prompt = function() return \"job=1\" end }\n",
    );
    let server = bench.serve();
    for _ in 0..3 {
        let job = bench.ended(&bench.job("runs", json!({})));
        let tail = job["error_tail"].as_str().unwrap();
        // A slow machine needs all of the call's time for the pattern's steps.
        let either = ["the text pattern takes too long", "used more than 100 ms"];
        assert!(either.iter().any(|it| tail.contains(it)), "{job:#}");
        assert!(tail.starts_with("wiki-browser.lua:"), "{job:#}");
    }
    assert_eq!(bench.ended(&bench.job("plain", json!({})))["status"], "succeeded");
    assert_eq!(bench.get("/api/health").ok()["script"]["abandoned_threads"], 0);
    assert_eq!(bench.post("/api/config/reload", json!({})).ok()["ok"], true);
    server.stop();
}
