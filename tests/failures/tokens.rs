//! Agents with a token of somebody else, or none: they are refused, and nothing happens.

use serde_json::json;

use crate::support::{Bench, Call};

/// What an agent does about its token, the code of the refusal and the exit code of `wb-agent`.
const CASES: &[(&str, &str, &str, i64)] = &[
    ("missing", "unset WB_TOKEN", "no token: wb-agent works inside a job", 3),
    ("blank", "export WB_TOKEN=", "no token: wb-agent works inside a job", 3),
    ("malformed", "export WB_TOKEN='wbj_ x\ty'", "unknown token", 3),
    ("unknown", "export WB_TOKEN=wbj_0123456789abcdef", "unknown token", 3),
    ("stale", "export WB_TOKEN=$(cat \"$OUT/stale\")", "has ended", 5),
    ("foreign", "export WB_TOKEN=$(cat \"$OUT/foreign\")", "may not propose for topic ", 3),
    (
        "operators",
        "export WB_TOKEN=$(cat \"$BASE/wiki/data/operator.token\")",
        "operator's token",
        3,
    ),
];

#[test]
fn a_token_that_is_not_the_jobs_own_does_nothing() {
    let bench = Bench::new();
    let fields = "timeout = \"25s\", produces = \"proposal\"";
    bench.topic_kind("stale_one", "timeout = \"20s\"", "echo \"$WB_TOKEN\" > \"$OUT/stale\"");
    let holds = "echo \"$WB_TOKEN\" > \"$OUT/foreign\"; \
        until [ -e \"$OUT/over\" ]; do sleep 0.02; done";
    bench.topic_kind("foreign_one", "timeout = \"25s\"", holds);
    for (name, agent, _, _) in CASES {
        bench.topic_kind(name, fields, &format!("{agent}\nprintf 'new\\n' | propose"));
    }
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "Say it better.");
    let other = bench.topic("notes.md", "Keep this.", "Another topic.");
    bench.ended(&bench.job_on("stale_one", &topic));
    let holding = bench.job_on("foreign_one", &other);
    bench.wait_left("foreign");
    for (name, _, tail, code) in CASES {
        let job = bench.ended(&bench.job_on(name, &topic));
        assert_eq!((&job["status"], &job["exit_code"]), (&json!("failed"), &json!(code)), "{name}");
        assert_eq!(job["message"], "Agent failed. See log.");
        let said = job["error_tail"].as_str().unwrap();
        assert!(said.contains(tail) && said.contains("hint: "), "{name}: {said}");
    }
    std::fs::write(bench.out.join("over"), "x").unwrap();
    bench.ended(&holding);
    for id in [&topic.id, &other.id] {
        let thread = bench.get(&format!("/api/topics/{id}")).ok();
        assert_eq!(thread["proposals"], json!([]));
    }
    // A stale token tells nobody else's affairs, and reads nothing.
    let stale = bench.left("stale");
    let asked = Call::get(&format!("/api/agent/topic?id={}", topic.id)).token(&stale);
    assert_eq!(bench.send(&asked).refusal(), (409, "job_ended"));
    server.stop();
}
