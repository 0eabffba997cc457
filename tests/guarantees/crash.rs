//! G5: a server that crashes anywhere around a job settles it, and repeats nothing.

use std::os::unix::process::ExitStatusExt;

use serde_json::{Value, json};
use wiki_browser::base::Clock;

use crate::support::{Bench, Call};

/// Says that it ran, and then does what its word says.
const AGENT: &str = "echo \"$job\" >> \"$OUT/ran\"
case $word in
  slow) i=0; while [ $((i+=1)) -lt 1000 ]; do sleep 0.02; done ;;
  fail) echo broken >&2; exit 7 ;;
esac";

/// Crashes at a point of the first job and starts again. Returns the first job, the second one of
/// the same lane, and how often each has run.
fn crash(point: &str, word: &str) -> [(Value, usize); 2] {
    let bench = Bench::new();
    bench.word_kind("work", "timeout = \"20s\", lane = \"lane\"", AGENT);
    // The lane is of an input that both share, not of what they do.
    let lua = "inputs = { lane = wb.input.line(), ";
    bench.edit(|script| script.replace("inputs = { ", lua));
    let mut server = bench.serve_with(&[("WB_CRASH_AT", point)]);
    // Both are accepted before the first may start; the second follows when the crash is over.
    let at = |ms: i64| Clock::system().now().plus(ms).rfc3339();
    let body = |word: &str, ms| json!({"lane": "one", "word": word, "not_before": at(ms)});
    let first = bench.job("work", body(word, 700));
    let second = bench.job("work", body("quick", 2_500));
    let (status, _) = server.wait();
    assert_eq!(status.signal(), Some(6), "{point}: {}", server.log());
    let server = bench.serve();
    let rows = [&first, &second].map(|it| bench.ended(it));
    let ran = bench.left("ran");
    let times = [&first, &second].map(|it| ran.lines().filter(|line| line == it).count());
    server.stop();
    let [one, two] = rows;
    [(one, times[0]), (two, times[1])]
}

fn assert_restarted(row: &Value) {
    assert_eq!((&row["status"], &row["reason"]), (&json!("failed"), &json!("server_restarted")));
    assert_eq!(row["error_tail"], "server restarted while job in flight");
    assert_eq!(row["message"], "Agent failed: server restarted.");
}

fn assert_ran((row, times): &(Value, usize)) {
    assert_eq!((&row["status"], times), (&json!("succeeded"), &1), "{row:#}");
}

#[test]
fn g05_a_job_that_was_claimed_and_not_started_is_not_started_again() {
    let [first, second] = crash("after_claim", "quick");
    assert_restarted(&first.0);
    assert_eq!(first.1, 0);
    assert_ran(&second);
}

#[test]
fn g05_a_job_that_was_interrupted_is_not_repeated() {
    let [first, second] = crash("after_spawn", "slow");
    assert_restarted(&first.0);
    assert!(first.1 <= 1);
    assert_ran(&second);
}

#[test]
fn g05_a_job_that_had_finished_is_settled_by_its_record() {
    let [first, second] = crash("before_settle", "quick");
    assert_ran(&first);
    assert_ran(&second);
    let [first, second] = crash("before_settle", "fail");
    assert_eq!((&first.0["status"], &first.0["reason"]), (&json!("failed"), &json!("exit_status")));
    assert_eq!((&first.0["exit_code"], &first.0["error_tail"]), (&json!(7), &json!("broken\n")));
    assert_eq!(first.1, 1);
    assert_ran(&second);
}

#[test]
fn g05_a_job_that_was_settled_stays_settled() {
    let [first, second] = crash("after_settle", "quick");
    assert_ran(&first);
    assert_ran(&second);
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
        // The first use of the token is noted, which is a commit of its own.
        bench.get("/api/me").ok();
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
