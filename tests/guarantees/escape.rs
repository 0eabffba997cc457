//! G8 and G9: whatever an agent does, nothing of it outlives its job, nor its server.
//!
//! All of this holds without cgroups, so they are left out here; `cgroup.rs` has what they add.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::zoo::{GRACE, TRICKS, assert_gone, assert_still, zoo};
use crate::support::{Bench, Server, beats, marked, shell, wait_for};

const NO_CGROUP: [(&str, &str); 1] = [("WB_ABSENT", "cgroup")];

/// Starts a server and lets the zoo loose; returns both when all hearts beat.
fn loose(bench: &Bench) -> (Server, String) {
    let server = bench.serve_with(&NO_CGROUP);
    let job = bench.job("zoo", json!({}));
    bench.wait_left("ready");
    assert_eq!(beats(&bench.out).len(), TRICKS.len());
    (server, job)
}

/// Returns a moment of a job, in milliseconds since 1970.
fn moment(row: &Value, name: &str) -> i64 {
    let text = row[name].as_str().unwrap_or_else(|| panic!("{name}: {row:#}"));
    let instant: jiff::Timestamp = text.parse().unwrap();
    instant.as_millisecond()
}

/// Fails with `WB_WITHOUT=sweep`: the server then ends what the guard left, and says so.
#[test]
fn g08_nothing_outlives_a_job_that_is_cancelled() {
    let bench = zoo("timeout = \"60s\"", "deaf");
    let (server, job) = loose(&bench);
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
    for (fields, reason) in
        [("timeout = \"6s\"", "wall_timeout"), ("timeout = \"60s\", idle = \"6s\"", "idle_timeout")]
    {
        let bench = zoo(fields, "deaf");
        let (server, job) = loose(&bench);
        let row = bench.ended(&job);
        assert_eq!((&row["status"], &row["reason"]), (&json!("timed_out"), &json!(reason)));
        assert_eq!(row["warnings"], json!([]));
        // The zoo prints nothing, so both clocks run from the start. When the row says that it is
        // over, all of it is.
        let took = moment(&row, "completed_at") - moment(&row, "started_at");
        // A busy machine makes it later, never earlier.
        assert!((6_900..=20_000).contains(&took), "{reason}: {took} ms");
        assert_gone(&bench, &job, Instant::now().checked_sub(2 * GRACE).unwrap());
        server.stop();
    }
}

/// Fails with `WB_WITHOUT=sweep`: the server then ends what the guard left, and says so.
#[test]
fn g08_nothing_outlives_an_agent_that_exits() {
    let bench = zoo("timeout = \"60s\"", "exit");
    let (server, job) = loose(&bench);
    let since = Instant::now();
    let row = bench.ended(&job);
    assert_eq!((&row["status"], &row["warnings"]), (&json!("succeeded"), &json!([])));
    assert_gone(&bench, &job, since);
    server.stop();
}

/// Fails with `WB_WITHOUT=server_subreaper`: then those without the mark are not found.
#[test]
fn g08_nothing_outlives_an_agent_that_kills_its_guard() {
    let bench = zoo("timeout = \"60s\"", "kill");
    let (server, job) = loose(&bench);
    let since = Instant::now();
    let row = bench.ended(&job);
    assert_eq!((&row["status"], &row["reason"]), (&json!("failed"), &json!("guard_lost")));
    assert_gone(&bench, &job, since);
    server.stop();
}

/// What a shell began before it became the server is no job's. Fails with `WB_WITHOUT=adopt`.
#[test]
fn g10_what_the_server_was_started_with_outlives_every_guard() {
    let bench = Bench::new();
    bench.word_kind("kills", "timeout = \"20s\"", "kill -KILL $PPID; sleep 20");
    bench.write_script();
    let before = format!("sleep 60 & echo $! > '{}/mine'", bench.out);
    let server = Server::spawn_after(&bench, &before).ready();
    let mine: i32 = bench.left("mine").parse().unwrap();
    let row = bench.ended(&bench.job("kills", json!({"word": "w"})));
    assert_eq!((&row["status"], &row["reason"]), (&json!("failed"), &json!("guard_lost")));
    let stat = std::fs::read_to_string(format!("/proc/{mine}/stat")).unwrap();
    assert!(stat.contains(") S "), "{stat}");
    shell(&format!("kill {mine}"));
    server.stop();
}

/// The grace is the whole budget: what a guard has used of it before it was killed counts. Fails
/// with `WB_WITHOUT=server_subreaper`.
#[test]
fn g08_nothing_outlives_an_agent_that_kills_its_guard_while_it_is_ended() {
    let bench = zoo("timeout = \"60s\"", "kill-at-term");
    let (server, job) = loose(&bench);
    let since = Instant::now();
    bench.post(&format!("/api/agent/jobs/{job}/cancel"), json!({})).ok();
    let row = bench.ended(&job);
    assert_eq!(row["status"], "cancelled", "{row:#}");
    assert_gone(&bench, &job, since);
    server.stop();
}

/// Fails with `WB_WITHOUT=standstill`: the guard is killed five seconds late then.
#[test]
fn g08_nothing_outlives_a_cancelled_agent_that_keeps_its_guard_stopped() {
    let bench = zoo("timeout = \"60s\"", "stop");
    let (server, job) = loose(&bench);
    let since = Instant::now();
    bench.post(&format!("/api/agent/jobs/{job}/cancel"), json!({})).ok();
    let row = bench.ended(&job);
    assert_eq!(row["status"], "cancelled", "{row:#}");
    // A busy machine gets some seconds; the way without this takes five more.
    assert!(since.elapsed() < GRACE + Duration::from_secs(4), "{:?}", since.elapsed());
    assert_gone(&bench, &job, since);
    server.stop();
}

/// Nobody cancels it, and no clock of a stopped guard runs out. Fails with `WB_WITHOUT=standstill`.
#[test]
fn g08_an_agent_that_keeps_its_guard_stopped_has_failed() {
    let bench = zoo("timeout = \"60s\"", "stop");
    let (server, job) = loose(&bench);
    let row = bench.ended(&job);
    assert_eq!((&row["status"], &row["reason"]), (&json!("failed"), &json!("guard_lost")));
    let took = moment(&row, "completed_at") - moment(&row, "started_at");
    assert!(took < 10_000, "{took} ms");
    assert_gone(&bench, &job, Instant::now().checked_sub(2 * GRACE).unwrap());
    server.stop();
}

/// One STOP may be a mistake. Fails with `WB_WITHOUT=standstill`.
#[test]
fn g08_a_guard_that_was_stopped_once_goes_on() {
    let bench = Bench::new();
    let agent = "kill -STOP $PPID\n\
        until [ \"$(cut -d' ' -f3 /proc/$PPID/stat)\" != T ]; do sleep 0.02; done\necho went on";
    bench.word_kind("once", "timeout = \"8s\"", agent);
    let server = bench.serve_with(&NO_CGROUP);
    let row = bench.ended(&bench.job("once", json!({})));
    assert_eq!((&row["status"], &row["exit_code"]), (&json!("succeeded"), &json!(0)), "{row:#}");
    server.stop();
}

/// Fails with `WB_WITHOUT=lifeline`.
#[test]
fn g09_a_killed_server_takes_its_agents_with_it() {
    let bench = zoo("timeout = \"60s\"", "deaf");
    let (server, job) = loose(&bench);
    let since = Instant::now();
    server.kill();
    assert_gone(&bench, &job, since);
    let server = bench.serve_with(&NO_CGROUP);
    let row = wait_for("the job is settled", || {
        Some(bench.show(&job)).filter(|it| it["status"] != "running")
    });
    assert_eq!((&row["status"], &row["reason"]), (&json!("failed"), &json!("server_restarted")));
    server.stop();
}

/// An agent that keeps its guard stopped, and whose server was killed, has nobody left who could
/// end it (SECURITY.md says so). The next server does, within the grace and a second.
#[test]
fn g09_an_agent_that_keeps_its_guard_stopped_ends_with_the_next_server() {
    let bench = zoo("timeout = \"60s\"", "stop");
    let (server, job) = loose(&bench);
    server.kill();
    let server = bench.serve_with(&NO_CGROUP);
    let since = Instant::now();
    assert_eq!(bench.ended(&job)["reason"], "server_restarted");
    assert!(since.elapsed() < GRACE + Duration::from_secs(10), "{:?}", since.elapsed());
    assert_eq!(marked(&job), Vec::<i32>::new());
    assert_still(&bench.out);
    server.stop();
}
