//! The script is edited while a job is parked, or waits for its start with the decision.

use std::os::unix::fs::PermissionsExt as _;

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

/// Gives the engine another program, under its name.
fn change_program(bench: &Bench) {
    let folder = bench.base.join("agents");
    std::fs::copy(folder.join("parks.sh"), folder.join("second.sh")).unwrap();
    edit(bench, "agents/parks.sh\"", "agents/second.sh\"");
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

/// A leg that cannot start saves the work of those before it, and removes their worktree.
#[test]
fn a_leg_that_cannot_start_leaves_no_worktree() {
    let bench = Bench::new();
    let key = bench.out.join("key");
    std::fs::write(&key, "k").unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    parking_kind(&bench, "timeout = \"60s\", workspace = \"worktree\"", &agent("exit 0"));
    edit(&bench, "env = {", &format!("env = {{ KEY = wb.secret.file \"{key}\","));
    let server = bench.serve();
    let job = bench.job("parks", json!({}));
    let id = asked(&bench);
    bench.wait_status(&job, "parked");
    std::fs::remove_file(&key).unwrap();
    approve(&bench, &id);
    until("the leg has failed", || legs(&bench)[0]["status"] == "failed");
    assert_eq!(legs(&bench)[0]["reason"], "spawn_failed");
    let workspace = bench.show(&job)["workspace"].clone();
    assert_eq!(workspace["state"], "gone", "{workspace:#}");
    server.stop();
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
    let why = "1 parked job of kind \"parks\" could not go on with a decision (its session belongs";
    assert!(bench.cli(&["status"]).1.contains(why));
    let doctor = bench.cli(&["doctor"]).1;
    assert!(doctor.contains(why), "{doctor}");
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

/// Its arguments and its environment may change, and what runs it. Fails with
/// `WB_WITHOUT=same_engine`.
#[test]
fn g35_another_program_under_its_engines_name_is_not_given_the_decision() {
    let bench = Bench::new();
    let (server, job, id) = parked(&bench, "", &agent("exit 0"));
    let good = bench.declared();
    change_program(&bench);
    let why = "its session belongs to engine \"parks\" as it was";
    let reloaded = bench.json(&["reload"]);
    assert!(reloaded["warnings"].to_string().contains("engine \\\"parks\\\" as it was"));
    assert!(bench.cli(&["status"]).1.contains(why) && bench.cli(&["doctor"]).1.contains(why));
    let refused = bench.post(&format!("/api/approvals/{id}/approve"), json!({"version": 1}));
    assert_eq!(refused.refusal(), (409, "cannot_resume"));
    assert!(refused.body.to_string().contains("as it was"), "{}", refused.body);
    let more = good.replace("env = { OUT", "env = { MORE = \"1\", OUT");
    let runner = r#"command = { "/usr/bin/env", "MODEL=b", "nice", "-n", "1", "/bin/sh""#;
    bench.edit(|_| more.replace("command = { \"/bin/sh\"", runner));
    bench.write_script();
    bench.json(&["reload"]);
    approve(&bench, &id);
    assert_eq!(end(&bench)[1]["id"], job.as_str());
    server.stop();
}

/// A start refuses no script: the decision waits for one that its job can go on with. Fails with
/// `WB_WITHOUT=same_engine`.
#[test]
fn g35_a_start_keeps_a_decision_that_its_job_could_not_go_on_with() {
    type Change = (fn(&Bench), &'static str);
    let no_resume = |bench: &Bench| edit(bench, "resume = { \"--resume\", \"{{session}}\" },", "");
    let promises = |bench: &Bench| {
        let promise = "engine = \"parks\", produces = \"result\", asks";
        edit(bench, "engine = \"parks\", asks", promise);
    };
    let changes: [Change; 4] = [
        (change_engine, "its session belongs to engine \"parks\""),
        (change_program, "its session belongs to engine \"parks\" as it was"),
        (no_resume, "no arguments `resume`"),
        (promises, "its kind promises a result"),
    ];
    for (change, why) in changes {
        let bench = Bench::new();
        decided(&bench).kill();
        let good = bench.declared();
        change(&bench);
        std::fs::write(bench.out.join("go"), "").unwrap();
        let doctor = bench.cli(&["doctor"]).1;
        assert!(doctor.contains("can no longer run it") && doctor.contains(why), "{doctor}");
        let server = bench.serve();
        bench.ended(&bench.job("holds", json!({})));
        let leg = bench.show(legs(&bench)[0]["id"].as_str().unwrap());
        let waiting = &leg["waiting"];
        assert_eq!((&leg["status"], &waiting["code"]), (&json!("queued"), &json!("kind_changed")));
        assert!(waiting["message"].as_str().unwrap().contains(why), "{waiting}");
        assert!(bench.cli(&["status"]).1.contains(why));
        bench.edit(|_| good.clone());
        bench.write_script();
        bench.json(&["reload"]);
        end(&bench);
        server.stop();
    }
}

#[test]
fn a_reload_drops_decided_jobs_only_on_request() {
    let bench = Bench::new();
    decided(&bench).kill();
    change_engine(&bench);
    let server = bench.serve();
    let leg = legs(&bench)[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(bench.cli(&["reload"]).0, 0, "it waited before");
    assert_eq!(bench.show(&leg)["status"], "queued");
    assert_eq!(bench.cli(&["reload", "--drop"]).0, 0);
    assert_eq!(bench.show(&leg)["status"], "cancelled");
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
    let reloaded = bench.json(&["reload"]);
    let changes = reloaded["difference"]["changes"].as_array().unwrap();
    let gone = changes.iter().find(|it| it["what"] == "kind \"parks\"").unwrap();
    assert_eq!((&gone["how"], &gone["waiting"]), (&json!("removed"), &Value::Null), "{gone}");
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

/// Also if their kind or inbox was gone already when the server started.
#[test]
fn a_reload_drops_parked_jobs_of_what_is_gone() {
    for is_restarted in [false, true] {
        let bench = Bench::new();
        let asks = "if [ \"$1\" = --session-id ]; then cat > /dev/null; wb-agent approval create \
                    --channel c --title T --payload '{}' --and-exit; fi";
        bench.inbox("acc/open", "timeout = \"60s\"", asks);
        let without = bench.declared().split_once("wb.inbox").unwrap().0.to_owned();
        let (mut server, job, id) = parked(&bench, "", &agent("exit 0"));
        let message = bench.post("/api/messages", json!({"to": "topic:acc/open", "payload": {}}));
        let message = message.ok()["message_id"].as_str().unwrap().to_owned();
        let inbox = || bench.get("/api/agent/jobs?kind=acc/open").ok()["items"][0].clone();
        until("the instance is parked", || inbox()["status"] == "parked");
        bench.edit(|_| without.clone());
        bench.write_script();
        if is_restarted {
            server.kill();
            server = bench.serve();
        }
        assert_eq!(bench.cli(&["reload"]).0, i32::from(!is_restarted));
        assert_eq!(
            (&bench.show(&job)["status"], &inbox()["status"]),
            (&json!("parked"), &json!("parked"))
        );
        assert_eq!(bench.cli(&["reload", "--drop"]).0, 0);
        let gone = json!("cancelled");
        assert_eq!((&bench.show(&job)["status"], &inbox()["status"]), (&gone, &gone));
        assert_eq!(show(&bench, &id)["state"], "withdrawn");
        let told = bench.get(&format!("/api/messages/{message}/await?timeout=20")).ok();
        assert_eq!(told["state"], "failed", "{told:#}");
        server.stop();
    }
}

#[test]
fn parked_jobs_are_cancelled_by_kind() {
    let bench = Bench::new();
    let (server, job, id) = parked(&bench, "", &agent("exit 0"));
    let all = ["job", "cancel", "--kind", "parks", "--status", "parked"];
    let counted = bench.json(&[&all[..], &["--dry-run"]].concat());
    assert_eq!((&counted["jobs"], &bench.show(&job)["status"]), (&json!(1), &json!("parked")));
    bench.json(&[&all[..], &["--yes"]].concat());
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
