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

/// Gives the kind another engine, which has the same program.
fn change_engine(bench: &Bench) {
    let all = bench.declared();
    let engine =
        &all[all.find("wb.engine \"parks\"").unwrap()..all.find("wb.kind \"parks\"").unwrap()];
    bench.lua(&engine.replace("\"parks\" {", "\"other\" {"));
    edit(bench, "engine = \"parks\", asks", "engine = \"other\", asks");
}

/// Parks a job and decides it while another one has the only place.
fn decided(bench: &Bench) -> Server {
    bench.limits("jobs = 1, grace = \"1s\"");
    let hold = "echo up > \"$OUT/up\"; until [ -e \"$OUT/go\" ]; do sleep 0.02; done";
    bench.word_kind("holds", "timeout = \"60s\"", hold);
    let (server, _, id) = parked(bench, "", &agent("exit 0"));
    bench.job("holds", json!({}));
    bench.wait_left("up");
    approve(bench, &id);
    assert_eq!(legs(bench)[0]["status"], "queued");
    server
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
    change_engine(&bench);
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

/// A start refuses no script. Fails with `WB_WITHOUT=same_engine`.
#[test]
fn g35_a_leg_that_a_start_finds_under_another_engine_fails() {
    let bench = Bench::new();
    decided(&bench).kill();
    change_engine(&bench);
    let server = bench.serve();
    until("the leg has failed", || legs(&bench)[0]["status"] == "failed");
    assert_eq!(legs(&bench)[0]["reason"], "session_lost");
    assert_eq!(legs(&bench)[0]["error_tail"], "its session belongs to engine \"parks\"");
    assert_eq!(bench.left("resumed"), "");
    server.stop();
}

#[test]
fn a_parked_job_goes_on_under_the_new_name_of_its_kind() {
    let bench = Bench::new();
    let (server, job, id) = parked(&bench, "", &agent("exit 0"));
    edit(&bench, "wb.kind \"parks\" {", "wb.kind \"asks\" {");
    let (code, out, err) = bench.cli(&["reload"]);
    assert_eq!(code, 1, "{out}{err}");
    for said in ["kind \"parks\": 1 job is parked", "1 job of kind \"parks\" is parked: the new"] {
        assert!(out.contains(said) || err.contains(said), "{said}: {out}{err}");
    }
    edit(&bench, "wb.kind \"asks\" {", "wb.kind \"asks\" { was = \"parks\",");
    bench.json(&["reload"]);
    assert_eq!(bench.show(&job)["kind"], "asks");
    approve(&bench, &id);
    bench.wait_left("resumed");
    let done = bench.get("/api/agent/jobs?kind=asks").ok()["items"].clone();
    assert_eq!(done.as_array().unwrap().len(), 2, "{done:#}");
    server.stop();
}

/// It ran when its kind was renamed, and was parked after that.
#[test]
fn a_job_that_is_parked_after_a_rename_goes_on_under_the_new_name() {
    let bench = Bench::new();
    let waits = agent("until [ -e \"$OUT/go\" ]; do sleep 0.02; done");
    parking_kind(&bench, "timeout = \"60s\"", &waits);
    let server = bench.serve();
    let job = bench.job("parks", json!({}));
    let id = asked(&bench);
    edit(&bench, "wb.kind \"parks\" {", "wb.kind \"asks\" { was = \"parks\",");
    bench.json(&["reload"]);
    std::fs::write(bench.out.join("go"), "").unwrap();
    bench.wait_status(&job, "parked");
    approve(&bench, &id);
    bench.wait_left("resumed");
    server.stop();
}

#[test]
fn a_reload_drops_parked_jobs_only_on_request() {
    let bench = Bench::new();
    let (server, job, id) = parked(&bench, "", &agent("exit 0"));
    bench.edit(|lua| lua[..lua.find("wb.kind").unwrap()].to_owned());
    bench.write_script();
    assert_eq!(bench.cli(&["reload"]).0, 1);
    assert_eq!(bench.show(&job)["status"], "parked");
    assert_eq!(bench.cli(&["reload", "--drop"]).0, 0);
    assert_eq!(bench.show(&job)["status"], "cancelled");
    assert_eq!(show(&bench, &id)["state"], "withdrawn");
    server.stop();
}

/// The decision would be used up by a leg that cannot run.
#[test]
fn g35_a_reload_keeps_what_a_decided_job_goes_on_with() {
    let bench = Bench::new();
    let server = decided(&bench);
    let resume = "resume = { \"--resume\", \"{{session}}\" },";
    let good = bench.declared();
    edit(&bench, resume, "");
    let (code, out, err) = bench.cli(&["reload"]);
    assert_eq!(code, 1, "{out}{err}");
    let said = "1 job of kind \"parks\" waits with its decision: its engine has no arguments";
    assert!(out.contains(said) || err.contains(said), "{out}{err}");
    bench.edit(|_| good.clone());
    bench.write_script();
    assert_eq!(bench.cli(&["reload"]).0, 0);
    std::fs::write(bench.out.join("go"), "").unwrap();
    end(&bench);
    server.stop();
}
