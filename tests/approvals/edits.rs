//! The script is edited while a job is parked, or waits for its start with the decision.

use serde_json::{Value, json};

use super::parking::{agent, approve, asked, legs, parking_kind};
use crate::support::{Bench, Server, until};

/// Parks a job; returns it and its request.
fn parked(bench: &Bench, fields: &str, agent: &str) -> (Server, String, String) {
    parking_kind(bench, &format!("timeout = \"60s\"{fields}"), agent);
    let server = bench.serve();
    let job = bench.job("parks", json!({}));
    let id = asked(bench);
    bench.wait_status(&job, "parked");
    (server, job, id)
}

fn edit(bench: &Bench, from: &str, to: &str) {
    bench.edit(|lua| {
        assert!(lua.contains(from), "{from}: {lua}");
        lua.replace(from, to)
    });
    bench.write_script();
}

#[track_caller]
fn end(bench: &Bench) -> Vec<Value> {
    bench.wait_left("resumed");
    until("all legs end", || legs(bench).iter().all(|it| it["status"] == "succeeded"));
    legs(bench)
}

/// Its first leg works and its second says where: it keeps its worktree, or goes on without one.
/// Fails with `WB_WITHOUT=leg_workspace`.
#[test]
fn a_later_leg_goes_on_where_the_first_one_began() {
    let worktree = ", workspace = \"worktree\"";
    for (before, after) in [(worktree, ""), ("", worktree)] {
        let bench = Bench::new();
        let works = agent("echo half > half; pwd > \"$OUT/first\"; exit 0").replace(
            "echo \"$1 $2\" >",
            "cat half; pwd > \"$OUT/second\"; echo rest >> half; echo \"$1 $2\" >",
        );
        let (server, job, id) = parked(&bench, before, &works);
        edit(&bench, &format!("timeout = \"60s\"{before}"), &format!("timeout = \"60s\"{after}"));
        bench.json(&["reload"]);
        approve(&bench, &id);
        end(&bench);
        assert_eq!(bench.left("second"), bench.left("first"));
        let workspace = bench.show(&job)["workspace"].clone();
        if before.is_empty() {
            assert_eq!(workspace, Value::Null);
            assert_eq!(bench.read("half"), "half\nrest\n");
        } else {
            assert_eq!(workspace["state"], "gone");
            let kept = workspace["kept_ref"].as_str().unwrap();
            assert_eq!(bench.git(&["show", &format!("{kept}:half")]), "half\nrest");
            assert_eq!(bench.git(&["worktree", "list"]).lines().count(), 1);
        }
        server.stop();
    }
}
