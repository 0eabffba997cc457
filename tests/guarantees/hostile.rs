//! Files that an agent, which has our uid, can put into its job's folder: none of them blocks the
//! server.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Bench, Server, marked, within};

use std::time::Duration;

const FIELDS: &str = "timeout = \"25s\"";

/// A bench whose agents know `$dir`, the folder of their job.
fn bench(agents: &[(&str, &str)]) -> Bench {
    let bench = Bench::new();
    bench.limits("jobs = 2, grace = \"1s\"");
    for (kind, agent) in agents {
        let agent = format!("dir='{}/jobs/'$job\n{agent}\n", bench.data);
        bench.word_kind(kind, FIELDS, &agent);
    }
    bench
}

/// Waits longer than any guard may take, also one that stands still.
fn settled(bench: &Bench, job: &str) -> Value {
    let is_settled =
        || !["queued", "running"].contains(&bench.show(job)["status"].as_str().unwrap());
    assert!(within(Duration::from_secs(40), is_settled), "{}", bench.show(job));
    bench.show(job)
}

#[test]
fn a_fifo_instead_of_the_prompt_keeps_nobody_waiting() {
    let swap = "rm \"$dir/prompt\"; mkfifo \"$dir/prompt\"; rm -f \"$dir/stream.ndjson\";\
        mkfifo \"$dir/stream.ndjson\"";
    let bench = bench(&[("swaps", swap)]);
    let server = bench.serve();
    let job = bench.job("swaps", json!({"word": "x"}));
    assert_eq!(bench.ended(&job)["status"], "succeeded");
    for _ in 0..20 {
        for part in ["prompt", "stream?after=0"] {
            let answer = bench.get(&format!("/api/agent/jobs/{job}/{part}"));
            // It is the agent's doing, and no fault of the server.
            assert_eq!(answer.refusal(), (409, "not_regular"), "{part}");
        }
    }
    bench.get("/readyz").ok();
    server.stop();
}

#[test]
fn a_link_instead_of_the_stream_is_not_followed() {
    let bench = Bench::new();
    let file = bench.base.join("agents/linked.sh");
    let agent = format!(
        "ln -s '{}/victim' '{}/jobs/'\"$WB_JOB_ID\"/stream.ndjson\n\
         echo '{{\"type\":\"result\"}}'\n",
        bench.out, bench.data
    );
    fs::write(&file, agent).unwrap();
    bench.lua(&format!(
        "wb.engine \"linked\" {{ type = \"process\", command = {{ \"/bin/sh\", \"{file}\" }},\n\
         prompt = \"stdin\", reads = \"claude-stream-json\" }}\n\
         wb.kind \"linked\" {{ about = \"A test\", engine = \"linked\", {FIELDS},\n\
         prompt = \"x\", inputs = {{}} }}\n"
    ));
    let server = bench.serve();
    let job = bench.job("linked", json!({}));
    assert_eq!(bench.ended(&job)["status"], "succeeded");
    assert!(!bench.out.join("victim").exists());
    server.stop();
}

fn killed_and_started_again(bench: &Bench, server: Server) -> Server {
    server.kill();
    bench.serve()
}

#[test]
fn g05_a_lock_that_was_tampered_with_does_not_hold_a_lane() {
    let tamper = "rm -f \"$dir/lock\"; mkdir \"$dir/lock\"; echo ready > \"$OUT/ready\"; \
        while :; do sleep 0.1; done";
    let bench = bench(&[("tampers", tamper)]);
    let server = bench.serve();
    let job = bench.job("tampers", json!({"word": "x"}));
    bench.wait_left("ready");
    let server = killed_and_started_again(&bench, server);
    assert_eq!(settled(&bench, &job)["reason"], "server_restarted");
    server.stop();
}

/// A guard that its agent keeps stopped cannot sweep: after its time it is killed, and the rest.
#[test]
fn g09_an_agent_that_stops_its_guard_ends_with_the_next_server() {
    let hold = "trap '' INT TERM HUP; guard=$PPID; echo ready > \"$OUT/ready\"; \
        while kill -STOP $guard; do :; done";
    let bench = bench(&[("holds", hold)]);
    let server = bench.serve();
    let job = bench.job("holds", json!({"word": "x"}));
    bench.wait_left("ready");
    let server = killed_and_started_again(&bench, server);
    assert_eq!(settled(&bench, &job)["status"], "failed");
    assert_eq!(marked(&job), Vec::<i32>::new());
    server.stop();
}
