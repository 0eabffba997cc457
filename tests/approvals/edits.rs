//! The script is edited while a job is parked, or waits for its start with the decision.

use serde_json::{Value, json};

use super::parking::{agent, approve, asked, legs, parking_kind};
use super::show;
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

/// Also under an engine that resumes sessions: it does not know this one. Fails with
/// `WB_WITHOUT=same_engine`.
#[test]
fn g35_no_other_engine_is_given_the_decision() {
    let bench = Bench::new();
    let (server, job, id) = parked(&bench, "", &agent("exit 0"));
    let other = bench.declared().replace("wb.engine \"parks\"", "wb.engine \"other\"");
    bench.lua(&other[..other.find("wb.kind").unwrap()]);
    edit(&bench, "engine = \"parks\", asks", "engine = \"other\", asks");
    bench.json(&["reload"]);
    let refused = bench.post(&format!("/api/approvals/{id}/approve"), json!({"version": 1}));
    assert_eq!(refused.refusal(), (409, "cannot_resume"));
    let hint = refused.body["error"]["hint"].as_str().unwrap();
    assert!(hint.starts_with("change the script back"), "{hint}");
    assert!(refused.body.to_string().contains("belongs to engine"), "{}", refused.body);
    assert_eq!((&show(&bench, &id)["state"], legs(&bench).len()), (&json!("pending"), 1));
    edit(&bench, "engine = \"other\", asks", "engine = \"parks\", asks");
    bench.json(&["reload"]);
    approve(&bench, &id);
    assert_eq!(end(&bench)[1]["id"], job.as_str());
    server.stop();
}
