//! G5: a server that crashes anywhere around a job settles it, and repeats nothing.

use std::os::unix::process::ExitStatusExt;

use serde_json::{Value, json};
use wiki_browser::base::Clock;

use crate::guarantees::hooks;
use crate::support::{Bench, Call, until};

/// Says that it ran, and then does what its word says.
const AGENT: &str = "echo \"$job\" >> \"$OUT/ran\"
case $word in
  slow) i=0; while [ $((i+=1)) -lt 1000 ]; do sleep 0.02; done ;;
  fail) echo broken >&2; exit 7 ;;
esac";

/// Every point of a job's life, what its agent does, and whether the agent had finished by then.
/// Where that is open, the record says it: the guard ends by itself when its server is gone.
const MATRIX: [(&str, &str, Option<bool>); 13] = [
    ("after_claim", "quick", Some(false)),
    ("after_prepare", "quick", Some(false)),
    ("after_spawn", "slow", Some(false)),
    ("after_spawn", "quick", None),
    ("after_guard", "slow", Some(false)),
    ("after_guard", "fail", None),
    ("after_fence", "quick", Some(true)),
    ("after_fence", "fail", Some(true)),
    ("after_exit", "quick", Some(true)),
    ("before_settle", "quick", Some(true)),
    ("before_settle", "fail", Some(true)),
    ("after_settle", "quick", Some(true)),
    ("after_settle", "fail", Some(true)),
];

/// Crashes at a point of the first of two jobs of one lane, starts again, and looks at both.
fn check(point: &str, word: &str, had_finished: Option<bool>) {
    let bench = Bench::new();
    bench.word_kind("work", "timeout = \"20s\", lane = \"lane\"", AGENT);
    // The lane is of an input that both share, not of what they do.
    let lua = "inputs = { lane = wb.input.line(), ";
    bench.edit(|script| script.replace("inputs = { ", lua));
    // For a server of an hour ago both wait; for the next one both are due.
    let clock = bench.clock(-60 * 60 * 1_000);
    let server = bench.serve_with(&[("WB_CLOCK", clock.as_str())]);
    let at = Clock::system().now().rfc3339();
    let body = |word: &str| json!({"lane": "one", "word": word, "not_before": at});
    let first = bench.job("work", body(word));
    let second = bench.job("work", body("quick"));
    server.stop();
    let mut server = bench.start(&[("WB_CRASH_AT", point)]);
    let (status, _) = server.wait();
    assert_eq!(status.signal(), Some(6), "{point}: {}", server.log());
    until("the guard has ended", || bench.alive().is_empty());
    let record = std::fs::read(bench.data.join(format!("jobs/{first}/exit.json")));
    let record: Option<Value> = record.ok().map(|it| serde_json::from_slice(&it).unwrap());
    let has_record = record.is_some_and(|it| it["cause"] == "exit");
    assert_eq!(has_record, had_finished.unwrap_or(has_record), "{point} {word}");

    let server = bench.serve();
    let [row, next] = [&first, &second].map(|it| bench.ended(it));
    let seen = (&row["status"], &row["reason"], &row["exit_code"], &row["error_tail"]);
    match (has_record, word) {
        (true, "quick") => {
            assert_eq!(seen, (&json!("succeeded"), &json!(null), &json!(0), &json!(null)));
        }
        (true, _) => {
            let expected = [json!("failed"), json!("exit_status"), json!(7), json!("broken\n")];
            assert_eq!(seen, (&expected[0], &expected[1], &expected[2], &expected[3]));
        }
        (false, _) => {
            assert_eq!((seen.0, seen.1), (&json!("failed"), &json!("server_restarted")), "{point}");
            assert_eq!(row["error_tail"], "server restarted while job in flight");
            assert_eq!(row["message"], "Agent failed: server restarted.");
        }
    }
    // The lane was freed, the one that waited runs once, and the first was not repeated.
    // After the settlement it may have been claimed already, in the moment before the crash.
    let is_caught = point == "after_settle" && next["reason"] == "server_restarted";
    assert!(is_caught || next["status"] == "succeeded", "{point}: {next:#}");
    let ran = bench.left("ran");
    let times = [&first, &second].map(|it| ran.lines().filter(|line| line == it).count());
    assert!(times[1] == 1 || (is_caught && times[1] == 0), "{point}");
    match point {
        "after_claim" | "after_prepare" => assert_eq!(times[0], 0, "{point}"),
        _ if has_record => assert_eq!(times[0], 1, "{point}"),
        _ => assert!(times[0] <= 1, "{point}"),
    }
    server.stop();
}

/// Some at a time: each mostly waits.
fn check_all(points: &[(&str, &str, Option<bool>)]) {
    for some in points.chunks(5) {
        std::thread::scope(|scope| {
            for (point, word, had_finished) in some {
                scope.spawn(|| check(point, word, *had_finished));
            }
        });
    }
}

/// Fails with `WB_WITHOUT=job_recovery`.
#[test]
fn g05_a_job_is_settled_wherever_its_server_crashed() {
    check_all(&MATRIX);
}

/// Fails with `WB_WITHOUT=exit_record`.
#[test]
fn g05_a_job_that_had_finished_is_settled_by_its_record() {
    check("after_exit", "fail", Some(true));
}

/// A point that no line of the matrix names would be a crash that nobody has looked at.
#[test]
fn every_crash_point_is_used() {
    let mut named = String::new();
    for (_, text) in crate::architecture::rust_files("tests") {
        named.push_str(&text);
    }
    let mut points = Vec::new();
    for (path, text) in crate::architecture::rust_files("src") {
        for rest in text.split("crash_point(\"").skip(1) {
            let point = rest.split('"').next().unwrap();
            points.push(point.to_owned());
            assert!(named.contains(&format!("\"{point}\"")), "{path}: {point} is used nowhere");
            // Those of long-running agents and of monitors are tried with them.
            if point == "run_begun" {
                continue;
            }
            if path.starts_with("src/jobs") && !path.starts_with("src/jobs/speak") {
                let of_hooks = [hooks::BEFORE.as_slice(), hooks::AFTER.as_slice()].concat();
                let is_tried = MATRIX.iter().any(|it| it.0 == point) || of_hooks.contains(&point);
                assert!(is_tried, "{path}: {point}");
            }
        }
    }
    assert!(points.len() > 12, "{points:?}");
}

/// A request that was cut off before its commit has done nothing; after its commit the job is there
/// and runs, although nobody was told of it.
#[test]
fn g05_a_request_that_was_cut_off_is_done_or_not_done() {
    for (point, count) in [("before_commit", 0), ("after_commit", 1)] {
        let bench = Bench::new();
        bench.word_kind("work", "timeout = \"20s\"", AGENT);
        let armed = bench.base.join("armed");
        let env = [("WB_CRASH_AT", point), ("WB_CRASH_WHEN", armed.as_str())];
        let mut server = bench.serve_with(&env);
        let call = Call::post("/api/agent/jobs", json!({"kind": "work"})).token(&bench.operator());
        // The first use of the token is noted, which is a commit of its own, and so is what a
        // start does by itself: a Topic waits for its look at the repository.
        bench.wait_indexed();
        bench.topic("guide.md", "The first line.", "More.");
        std::fs::write(&armed, "").unwrap();
        let answer = call.try_socket(&bench.socket());
        assert!(answer.is_none(), "{point}: {answer:?}");
        server.wait();
        let server = bench.serve();
        let jobs = bench.get("/api/agent/jobs").ok()["items"].as_array().unwrap().clone();
        assert_eq!(jobs.len(), count, "{point}");
        for job in &jobs {
            let id = job["id"].as_str().unwrap();
            assert_eq!(bench.ended(id)["status"], "succeeded");
            assert_eq!(bench.left("ran"), id);
        }
        server.stop();
    }
}
