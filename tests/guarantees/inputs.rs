//! Long inputs of jobs: lists do not read them, and they survive whatever happens.

use serde_json::json;

use crate::support::{Bench, Server};

/// A kind whose agent leaves its prompt in `text`.
fn bench() -> Bench {
    let bench = Bench::new();
    bench.raw_engine("count", &format!("cat > '{}/text'", bench.out));
    bench.lua(
        "wb.kind \"count\" { about = \"A test\", engine = \"count\", timeout = \"60s\",\n\
         inputs = { text = wb.input.text() }, prompt = \"{{text}}\" }\n",
    );
    bench
}

#[track_caller]
fn assert_got(bench: &Bench, job: &str, text: &str) {
    assert_eq!(bench.ended(job)["status"], "succeeded");
    assert!(bench.left("text").starts_with(text));
    std::fs::remove_file(bench.out.join("text")).unwrap();
}

fn resident_mib(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find(|it| it.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

#[test]
fn long_inputs_survive_restarts_repetitions_and_restores() {
    let bench = bench();
    let text = format!("{}END!", "x".repeat(300_000));
    let server = bench.serve();
    let job = bench.job("count", json!({"text": text}));
    assert_got(&bench, &job, &text);
    assert_eq!(bench.show(&job)["inputs"]["text"], text.as_str());
    let listed = bench.get("/api/agent/jobs").ok();
    assert_eq!(listed["items"][0]["inputs"], json!({}));
    let later = json!({"text": text, "not_before": "2099-01-01T00:00:00Z"});
    let waiting = bench.job("count", later);
    server.kill();
    let server = bench.serve();
    assert_eq!(bench.show(&waiting)["inputs"]["text"], text.as_str());
    let again = bench.post(&format!("/api/agent/jobs/{job}/retry"), json!({})).ok();
    assert_got(&bench, again["job_id"].as_str().unwrap(), &text);
    let copy = bench.base.join("copy.db");
    bench.json(&["backup", copy.as_str()]);
    server.stop();
    bench.json(&["restore", copy.as_str()]);
    let server = bench.serve();
    assert_eq!(bench.show(&waiting)["inputs"]["text"], text.as_str());
    let again = bench.post(&format!("/api/agent/jobs/{job}/retry"), json!({})).ok();
    assert_got(&bench, again["job_id"].as_str().unwrap(), &text);
    server.stop();
}

/// Fails with `WB_WITHOUT=large_blocks`.
#[test]
fn what_long_inputs_took_of_memory_is_given_back() {
    let bench = bench();
    let server = bench.serve();
    let short = bench.job("count", json!({"text": "x"}));
    bench.ended(&short);
    let before = resident_mib(&server);
    let text = "x".repeat(16 * 1024 * 1024);
    for _ in 0..4 {
        let job = bench.job("count", json!({"text": text}));
        bench.ended(&job);
    }
    let after = resident_mib(&server);
    assert!(after < before + 60, "{before} MiB before, {after} MiB after");
    server.stop();
}
