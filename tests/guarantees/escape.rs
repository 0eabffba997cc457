//! G8 and G9: whatever an agent does, nothing of it outlives its job, nor its server.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Bench, beats, marked, wait_for, within};

/// The grace of these sites.
const GRACE: Duration = Duration::from_secs(2);

/// Lets six sorts of runaways loose, each with a heartbeat of its own, and waits until all beat.
const ZOO: &str = "
hb() { sh \"$BASE/beat.sh\" \"$OUT/hb.$1\"; }
sh \"$BASE/beat.sh\" \"$OUT/hb.background\" &
setsid sh \"$BASE/beat.sh\" \"$OUT/hb.session\" &
(setsid sh -c 'sh \"$BASE/beat.sh\" \"$OUT/hb.double_fork\" &' &)
(trap '' INT TERM HUP; exec setsid sh \"$BASE/beat.sh\" \"$OUT/hb.deaf\") &
env -i PATH=/usr/bin:/bin setsid sh \"$BASE/beat.sh\" \"$OUT/hb.clean\" &
(trap '' INT TERM HUP; exec env -i PATH=/usr/bin:/bin setsid sh -c \
  \"sh '$BASE/beat.sh' '$OUT/hb.clean_deaf' &\") &
for name in background session double_fork deaf clean clean_deaf; do
  until [ -s \"$OUT/hb.$name\" ]; do sleep 0.01; done
done
echo ready > \"$OUT/ready\"
";

fn zoo(then: &str, timeout: &str) -> Bench {
    let bench = Bench::new();
    bench.limits("jobs = 1, grace = \"2s\"");
    bench.word_kind("zoo", &format!("timeout = \"{timeout}\""), &format!("{ZOO}{then}"));
    bench
}

/// Asserts that all is gone within the grace and a second of a moment, by mark and by heartbeat.
fn assert_gone(bench: &Bench, job: &str, since: Instant) {
    let limit = (GRACE + Duration::from_secs(1)).saturating_sub(since.elapsed());
    let is_clear = within(limit, || marked(job).is_empty());
    assert!(is_clear, "marked and alive: {:?} {:?}", marked(job), bench.alive());
    let hearts: BTreeMap<String, u64> = beats(&bench.out);
    assert_eq!(hearts.len(), 6, "{hearts:?}");
    // A heart that still beats does so within a fifth of a second.
    let is_alive = within(Duration::from_millis(200), || beats(&bench.out) != hearts);
    assert!(!is_alive, "{hearts:?} {:?} {:?}", beats(&bench.out), bench.alive());
}

const DEAF: &str = "trap '' INT TERM HUP; while :; do sleep 1; done";

/// Fails with `WB_WITHOUT=sweep`: the server then ends what the guard left, and says so.
#[test]
fn g08_nothing_outlives_a_job_that_is_cancelled() {
    let bench = zoo(DEAF, "60s");
    let server = bench.serve();
    let job = bench.job("zoo", json!({}));
    bench.wait_left("ready");
    let since = Instant::now();
    bench.post(&format!("/api/agent/jobs/{job}/cancel"), json!({})).ok();
    let row = bench.ended(&job);
    assert_eq!((&row["status"], &row["warnings"]), (&json!("cancelled"), &json!([])));
    assert_gone(&bench, &job, since);
    server.stop();
}

/// Fails with `WB_WITHOUT=sweep`: the server then ends what the guard left, and says so.
#[test]
fn g08_nothing_outlives_a_job_that_timed_out() {
    let bench = zoo(DEAF, "2s");
    let server = bench.serve();
    let job = bench.job("zoo", json!({}));
    bench.wait_left("ready");
    // The moment of the decision: from there on the row is ending, and the grace runs.
    let row = bench.ended(&job);
    assert_eq!((&row["status"], &row["reason"]), (&json!("timed_out"), &json!("wall_timeout")));
    assert_eq!(row["warnings"], json!([]));
    assert_gone(&bench, &job, Instant::now().checked_sub(GRACE).unwrap());
    server.stop();
}

/// Fails with `WB_WITHOUT=sweep`: the server then ends what the guard left, and says so.
#[test]
fn g08_nothing_outlives_an_agent_that_exits() {
    let bench = zoo("exit 0", "60s");
    let server = bench.serve();
    let job = bench.job("zoo", json!({}));
    let row = bench.ended(&job);
    assert_eq!((&row["status"], &row["warnings"]), (&json!("succeeded"), &json!([])));
    assert_gone(&bench, &job, Instant::now().checked_sub(GRACE).unwrap());
    server.stop();
}

/// Fails with `WB_WITHOUT=server_subreaper`: then those without the mark are not found.
#[test]
fn g08_nothing_outlives_an_agent_that_kills_its_guard() {
    let bench = zoo("kill -KILL $PPID; sleep 60", "60s");
    let server = bench.serve();
    let job = bench.job("zoo", json!({}));
    bench.wait_left("ready");
    let since = Instant::now();
    let row = bench.ended(&job);
    assert_eq!((&row["status"], &row["reason"]), (&json!("failed"), &json!("guard_lost")));
    assert_gone(&bench, &job, since);
    server.stop();
}

/// Fails with `WB_WITHOUT=lifeline`.
#[test]
fn g09_a_killed_server_takes_its_agents_with_it() {
    let bench = zoo(DEAF, "60s");
    let server = bench.serve();
    let job = bench.job("zoo", json!({}));
    bench.wait_left("ready");
    let since = Instant::now();
    server.kill();
    assert_gone(&bench, &job, since);
    let server = bench.serve();
    let row = wait_for("the job is settled", || {
        Some(bench.show(&job)).filter(|it| it["status"] != "running")
    });
    assert_eq!((&row["status"], &row["reason"]), (&json!("failed"), &json!("server_restarted")));
    server.stop();
}
