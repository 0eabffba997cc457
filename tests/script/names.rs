//! Kinds that get another name while their jobs run.

use serde_json::json;

use crate::support::Bench;

#[test]
fn g06_a_kind_that_is_renamed_twice_runs_no_more_jobs_than_it_may() {
    let bench = Bench::new();
    let waits = "echo x > \"$OUT/ready.$word\"
while [ ! -e \"$OUT/go.$word\" ]; do sleep 0.05; done";
    bench.word_kind("first", "timeout = \"40s\", max_running = 1", waits);
    let server = bench.serve();
    let running = bench.job("first", json!({"word": "a"}));
    bench.wait_left("ready.a");
    let waiting = bench.job("first", json!({"word": "b"}));
    for (old, new) in [
        ("wb.kind \"first\" {", "wb.kind \"second\" { was = \"first\","),
        ("wb.kind \"second\" { was = \"first\",", "wb.kind \"third\" { was = \"second\","),
    ] {
        bench.edit(|lua| lua.replace(old, new));
        bench.write_script();
        assert_eq!(bench.json(&["reload"])["ok"], true);
    }
    // One of another kind shows that the queue was looked at since.
    let job = bench.show(&waiting);
    assert_eq!((&job["kind"], &job["waiting"]["code"]), (&json!("third"), &json!("kind_cap")));
    assert_eq!(bench.left("ready.b"), "");
    std::fs::write(bench.out.join("go.a"), "").unwrap();
    std::fs::write(bench.out.join("go.b"), "").unwrap();
    for job in [&running, &waiting] {
        assert_eq!(bench.ended(job)["status"], "succeeded");
    }
    server.stop();
}
