//! Guards that somebody has stopped: resumed, or waited for, and never doubled.

use serde_json::{Value, json};

use crate::agents::kept::{guards, is_guard, job_of};
use crate::agents::{ECHO, answer, ask, control, declare, delivery, send, show, wait_state};
use crate::pages::Browser;
use crate::support::{Bench, Server, marked, shell, until};

/// The switch of the server that resumes a stopped guard.
const RESUMED: (&str, &str) = ("WB_WITHOUT", "guard_resumed");

/// A site with one agent that runs; its grace period is longer than any test waits.
fn bench() -> (Bench, Server, String) {
    let bench = Bench::new();
    bench.limits("jobs = 4, grace = \"1m\"");
    let script = format!("trap '' INT TERM\n{ECHO}");
    declare(&bench, "robbo", "autostart = \"always\"", &script);
    let server = bench.serve();
    wait_state(&bench, "robbo", "idle");
    let job = job_of(&bench, "robbo");
    (bench, server, job)
}

/// Stops the guard of a job, and returns its pid.
fn stop_guard(job: &str) -> i32 {
    let guard = marked(job).into_iter().find(is_guard).unwrap();
    stop(guard);
    guard
}

fn stop(pid: i32) {
    shell(&format!("kill -STOP {pid}"));
    until("it stands still", || {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") T ")
    });
}

/// Fails with `WB_WITHOUT=guard_resumed`.
#[test]
fn g37_a_guard_that_was_stopped_is_resumed_and_taken_over() {
    let (bench, server, job) = bench();
    server.kill();
    stop_guard(&job);
    let server = bench.serve();
    let row = bench.show(&job);
    assert_eq!((&row["status"], &row["unanswered_at"]), (&json!("running"), &Value::Null));
    assert_eq!(ask(&bench, "robbo", json!("one"))["reply"], "again one");
    assert_eq!((job_of(&bench, "robbo"), guards(&job)), (job, 1));
    server.kill();
}

/// A guard that does not answer may be in a debugger, or on a machine that is too busy: its agent
/// is neither ended nor started a second time.
#[cfg(feature = "faults")]
#[test]
fn g37_a_guard_that_does_not_answer_is_shown_and_taken_over_once_it_does() {
    let (bench, server, job) = bench();
    server.kill();
    let guard = stop_guard(&job);
    let server = bench.serve_with(&[RESUMED]);
    let row = bench.show(&job);
    assert_eq!((&row["status"], &row["ending_at"]), (&json!("running"), &Value::Null));
    assert!(row["unanswered_at"].is_string(), "{row:#}");
    let unknown = wait_state(&bench, "robbo", "unknown");
    assert_eq!((&unknown["reason"], &unknown["job_id"]), (&json!("unknown_guard"), &json!(job)));
    let fix = unknown["problem"]["fix"].as_str().unwrap();
    assert!(fix.contains(&format!("wiki-browser job cancel {job} --force")), "{fix}");
    let (_, shown, _) = bench.cli(&["job", "show", &job]);
    assert!(shown.contains("does not respond since"), "{shown}");
    let page = Browser::signed_in(&bench, &server).page(&format!("/jobs/{job}"));
    assert!(page.contains("Kill now") && page.contains("hasn’t responded since"), "{page}");
    let message = send(&bench, "robbo", json!("later"));
    assert_eq!(delivery(&bench, &message).0, "queued");
    // Another server finds the same.
    server.kill();
    let server = bench.serve_with(&[RESUMED]);
    assert_eq!(bench.show(&job)["unanswered_at"], row["unanswered_at"]);

    shell(&format!("kill -CONT {guard}"));
    assert_eq!(answer(&bench, &message)["reply"], "again later");
    assert_eq!((job_of(&bench, "robbo"), guards(&job)), (job.clone(), 1));
    assert_eq!(bench.show(&job)["unanswered_at"], Value::Null);
    assert_eq!(show(&bench, "robbo")["state"], "idle");
    server.kill();
}

#[cfg(feature = "faults")]
#[test]
fn g37_a_person_ends_an_agent_whose_guard_does_not_answer() {
    let (bench, server, job) = bench();
    server.kill();
    stop_guard(&job);
    marked(&job).into_iter().filter(|it| !is_guard(it)).for_each(stop);
    let server = bench.serve_with(&[RESUMED]);
    wait_state(&bench, "robbo", "unknown");
    let message = send(&bench, "robbo", json!("after"));
    let (code, told, err) = bench.cli(&["job", "cancel", &job, "--force"]);
    assert_eq!((code, told.contains("is stopping")), (0, true), "{told}{err}");
    let row = bench.ended(&job);
    assert_eq!(row["status"], "cancelled", "{row:#}");
    assert!(marked(&job).is_empty());
    // Whoever ends a start does not want the next one either.
    wait_state(&bench, "robbo", "stopped");
    control(&bench, "robbo", "start").ok();
    assert_eq!(answer(&bench, &message)["reply"], "again after");
    assert_ne!(job_of(&bench, "robbo"), job);
    server.kill();
}

/// While its server runs, too: neither a trap nor a stopped guard holds up the end.
#[test]
fn a_job_is_killed_without_its_grace_period() {
    let bench = Bench::new();
    bench.limits("jobs = 4, grace = \"1m\"");
    let agent = "trap '' INT TERM; echo $$ > \"$OUT/up.$word\"; while :; do sleep 0.02; done";
    let cleanup = format!("echo x > {}/cleans; sleep 300", bench.out);
    let fields = format!("timeout = \"5m\", hook_timeout = \"5m\", cleanup = [[{cleanup}]]");
    bench.word_kind("deaf", "timeout = \"5m\"", agent);
    bench.word_kind("tidy", &fields, "exit 0");
    let server = bench.serve();
    let force = |job: &str| {
        let (code, _, err) = bench.cli(&["job", "cancel", job, "--force"]);
        assert_eq!(code, 0, "{err}");
        bench.ended(job)
    };
    for how in ["running", "stopping", "stopped"] {
        let job = bench.job("deaf", json!({"word": how}));
        bench.wait_left(&format!("up.{how}"));
        if how == "stopping" {
            bench.post(&format!("/api/agent/jobs/{job}/cancel"), json!({})).ok();
            let again = bench.post(&format!("/api/agent/jobs/{job}/cancel"), json!({}));
            assert_eq!(again.refusal(), (409, "job_ended"));
        }
        if how == "stopped" {
            stop_guard(&job);
            stop(bench.wait_left("up.stopped").parse().unwrap());
        }
        assert_eq!(force(&job)["status"], "cancelled", "{how}");
        assert!(marked(&job).is_empty(), "{how}");
        let over = bench.post(&format!("/api/agent/jobs/{job}/kill"), json!({}));
        assert_eq!(over.refusal(), (409, "job_ended"));
    }
    // Its result stands; only the hook that hangs is ended.
    let job = bench.job("tidy", json!({}));
    bench.wait_left("cleans");
    let row = force(&job);
    assert_eq!(row["status"], "succeeded", "{row:#}");
    let warning = row["warnings"][0].as_str().unwrap();
    assert!(warning.starts_with("cleanup_failed: "), "{warning}");
    bench.quiet();
    server.stop();
}
