//! `job cancel` and `job retry` of many jobs at once.

use serde_json::json;

use super::desk::{operator, text};
use crate::support::{Bench, until};

#[test]
fn jobs_are_cancelled_and_repeated_by_kind_and_status() {
    let bench = Bench::new();
    bench.limits("jobs = 1");
    bench.word_kind(
        "waits",
        "timeout = \"10m\"",
        "while [ ! -e \"$OUT/go\" ]; do sleep 0.05; done",
    );
    bench.word_kind("fails", "timeout = \"20s\"", "[ -e \"$OUT/fine\" ]");
    bench.word_kind("others", "timeout = \"20s\"", "exit 0");
    let server = bench.serve();
    let failed: Vec<String> = (0..3).map(|_| bench.job("fails", json!({}))).collect();
    failed.iter().for_each(|id| assert_eq!(bench.ended(id)["status"], "failed"));
    bench.job("waits", json!({}));
    let waiting: Vec<String> = (0..230).map(|_| bench.job("others", json!({}))).collect();
    let (_, status, _) = bench.cli(&["status"]);
    assert!(status.contains("1 running, 230 queued"), "{status}");
    let said = |args: &[&str], code: i32| {
        let assert = operator(&bench, args).assert().code(code);
        let output = assert.get_output();
        text(&output.stdout) + &text(&output.stderr)
    };
    assert!(said(&["job", "cancel"], 2).contains("no job given"));
    for verb in ["cancel", "retry"] {
        let misspelt = said(&["job", verb, "--kind", "other", "--yes"], 2);
        assert!(misspelt.contains("did you mean \"others\"?"), "{misspelt}");
    }
    let all = ["job", "cancel", "--kind", "others"];
    let shown = said(&[&all[..], &["--dry-run"]].concat(), 0);
    assert_eq!(shown, "230 queued jobs of kind \"others\"\n");
    let shown = said(&all, 2);
    assert!(shown.contains("230 queued jobs of kind \"others\": confirmation needs"), "{shown}");
    assert_eq!(bench.show(&waiting[0])["status"], "queued");
    let shown = said(&[&all[..], &["--yes"]].concat(), 0);
    assert_eq!(shown, "230 jobs cancelled\n");
    for id in [&waiting[0], &waiting[229]] {
        assert_eq!(bench.show(id)["status"], "cancelled");
    }
    assert_eq!(said(&[&all[..], &["--yes"]].concat(), 0), "0 queued jobs of kind \"others\"\n");
    std::fs::write(bench.out.join("fine"), "").unwrap();
    std::fs::write(bench.out.join("go"), "").unwrap();
    let again = ["job", "retry", "--kind", "fails", "--status", "failed", "--yes"];
    assert_eq!(said(&[&again[..], &["--older-than", "1h"]].concat(), 0).lines().count(), 1);
    assert_eq!(said(&again, 0), "3 jobs retried\n");
    let repeated = bench.show(&failed[0])["retried_as"][0].as_str().unwrap().to_owned();
    assert_eq!(bench.ended(&repeated)["status"], "succeeded");
    // What was repeated is left out.
    assert_eq!(said(&again, 0), "0 failed jobs of kind \"fails\"\n");
    assert!(said(&["job", "retry", "--status", "queued", "--yes"], 2).contains("timed_out"));
    server.stop();
}

#[test]
fn options_of_one_job_count_for_many_or_are_refused() {
    let bench = Bench::new();
    bench.limits("jobs = 1, grace = \"10m\"");
    let deaf = "trap '' TERM; echo ok >> \"$OUT/deaf\"; while :; do sleep 0.05; done";
    bench.word_kind("deaf", "timeout = \"20m\"", deaf);
    bench.word_kind("fails", "timeout = \"20s\"", "exit 1");
    let server = bench.serve();
    let failed = bench.job("fails", json!({}));
    assert_eq!(bench.ended(&failed)["status"], "failed");
    let said = |args: &[&str], code: i32| {
        let assert = operator(&bench, args).assert().code(code);
        let output = assert.get_output();
        text(&output.stdout) + &text(&output.stderr)
    };
    let again = ["job", "retry", "--kind", "fails", "--yes"];
    for options in [&["--wait"][..], &["--wait", "--log"], &["--wait", "--raw"]] {
        let refused = said(&[&again[..], options].concat(), 2);
        assert!(refused.contains("cannot be used with"), "{refused}");
    }
    said(&[&again[..], &["--not-before", "2h", "--when-allowed"]].concat(), 0);
    let repeated = bench.show(&failed)["retried_as"][0].as_str().unwrap().to_owned();
    let repeated = bench.show(&repeated);
    assert_eq!(repeated["status"], "queued");
    assert!(repeated["not_before"].is_string(), "{repeated:#}");
    let refused = bench.post("/api/jobs/retry", json!({"force": true}));
    assert_eq!(refused.status, 400);
    let refused = bench.post("/api/jobs/cancel", json!({"when_allowed": true}));
    assert_eq!(refused.status, 400);
    let job = bench.job("deaf", json!({}));
    bench.wait_left("deaf");
    said(&["job", "cancel", "--kind", "deaf", "--status", "running", "--force", "--yes"], 0);
    assert_eq!(bench.ended(&job)["status"], "cancelled");
    server.stop();
}

/// A monitor runs beside its instance, and is no job of its own.
#[test]
fn a_monitor_is_not_retried_with_the_others() {
    let bench = Bench::new();
    bench.raw_engine("watch", "while :; do sleep 0.2; done");
    bench.lua(
        r#"wb.kind "watch" {
  about = "Watch", engine = "watch", timeout = "5m", inputs = { worker = wb.input.line() },
  prompt = "x",
}
"#,
    );
    let fields = "monitor = \"watch\", timeout = \"2m\"";
    bench.inbox("t/work", fields, "wb-agent complete --reply 1");
    let server = bench.serve();
    let sent = bench.post("/api/messages", json!({"to": "topic:t/work", "payload": {}})).ok();
    assert_eq!(bench.ended(sent["job_id"].as_str().unwrap())["status"], "succeeded");
    let watches = || bench.json(&["job", "list", "--kind", "watch"])["items"].clone();
    until("it has ended with it", || watches()[0]["status"] == "cancelled");
    let again = ["job", "retry", "--status", "cancelled", "--kind", "watch", "--yes"];
    let assert = operator(&bench, &again).assert();
    let told = text(&assert.get_output().stdout) + &text(&assert.get_output().stderr);
    assert!(told.contains("watched a run of job"), "{told}");
    assert_eq!(watches().as_array().unwrap().len(), 1);
    server.stop();
}
