//! What a job must leave behind (G7).

use crate::support::Bench;

/// Fails with `WB_WITHOUT=postcondition`.
#[test]
fn g07_exit_0_without_the_promised_result_is_a_failure() {
    let bench = Bench::new();
    let fields = "timeout = \"20s\", lane = \"source_path\", produces = \"proposal\"";
    bench.topic_kind("idle", fields, "exit 0");
    bench.topic_kind("works", fields, "printf 'new\\n' | propose");
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "Say it better.");
    // A proposal of another job does not count for this one.
    bench.proposal("works", &topic);
    let job = bench.ended(&bench.job_on("idle", &topic));
    assert_eq!((&job["status"], &job["reason"]), (&"failed".into(), &"no_result".into()));
    assert_eq!(job["error_tail"], "agent exited 0 but produced no proposal");
    assert_eq!(job["message"], "Agent finished without producing a proposal — retry.");
    assert_eq!(job["exit_code"], 0);
    server.stop();
}
