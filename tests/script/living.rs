//! G26: a job that lives on while its server is replaced keeps the script that it began with.

use serde_json::{Value, json};

use crate::mail::{answer, send};
use crate::support::{Bench, Server};

const WAITS: &str = "echo up > \"$OUT/up\"\nwhile [ ! -e \"$OUT/go\" ]; do sleep 0.05; done\n";

/// Kills the server while a job runs, and starts another one under an edited script, where the
/// job's agent ends.
fn replaced(bench: &Bench, edit: impl FnOnce(&str) -> String) -> Server {
    bench.edit(edit);
    let server = bench.serve();
    std::fs::write(bench.out.join("go"), "").unwrap();
    server
}

/// Starts a kind's job and kills its server.
fn left_running(bench: &Bench, fields: &str) -> String {
    let fields = format!("timeout = \"40s\", on_server_loss = \"keep\", {fields}");
    bench.word_kind("counts", &fields, WAITS);
    let server = bench.serve();
    let job = bench.job("counts", json!({}));
    bench.wait_left("up");
    server.kill();
    job
}

fn outcome(job: &Value) -> (&str, &str) {
    (job["status"].as_str().unwrap(), job["reason"].as_str().unwrap_or_default())
}

/// Fails with `WB_WITHOUT=earlier_script`.
#[test]
fn g26_what_a_job_has_promised_is_asked_also_by_a_server_without_its_kind() {
    for renamed in ["wb.kind \"other\" {", "wb.kind \"other\" { was = \"counts\","] {
        let bench = Bench::new();
        let job = left_running(&bench, "produces = \"result\"");
        let edit = |lua: &str| {
            lua.replace("wb.kind \"counts\" {", renamed).replace("produces = \"result\",", "")
        };
        let server = replaced(&bench, edit);
        let ended = bench.ended(&job);
        assert_eq!(outcome(&ended), ("failed", "no_result"), "{renamed}: {ended:#}");
        assert_eq!(ended["error_tail"], "agent exited 0 but produced no result");
        server.stop();
    }
}

/// Its check and its schema, whether they are gone, other ones or new. Fails with
/// `WB_WITHOUT=earlier_script`.
#[test]
fn g26_a_later_server_judges_an_instance_by_the_script_it_began_with() {
    let refuses = "verify = function() return \"the first script\" end";
    let complete = format!("{WAITS}wb-agent complete --reply 1");
    let in_files = format!("{WAITS}echo 1 > \"$REPLY_PATH\"; echo ok > \"$STATUS_PATH\"; exit 0");
    let schema = "reply_schema = \"reply.json\"";
    for (name, before, after, agent, expected) in [
        ("t/other", refuses, refuses, &complete, ("failed", "verify_failed")),
        ("t/one", refuses, "", &complete, ("failed", "verify_failed")),
        ("t/one", "", refuses, &complete, ("succeeded", "")),
        ("t/other", schema, schema, &in_files, ("failed", "bad_reply")),
    ] {
        let bench = Bench::new();
        bench.write("reply.json", r#"{"type": "object"}"#);
        bench.inbox("t/one", &format!("timeout = \"40s\", {before}"), agent);
        let server = bench.serve();
        let sent = send(&bench, "topic:t/one", json!({})).ok();
        bench.wait_left("up");
        server.kill();
        let edit = |lua: &str| {
            let lua = lua.replace("wb.inbox \"t/one\"", &format!("wb.inbox \"{name}\""));
            lua.replace(&format!("\"40s\", {before}"), &format!("\"40s\", {after}"))
        };
        let server = replaced(&bench, edit);
        let ended = bench.ended(sent["job_id"].as_str().unwrap());
        assert_eq!(outcome(&ended), expected, "{name}, {before} {after}: {ended:#}");
        let told = answer(&bench, sent["message_id"].as_str().unwrap());
        let state = if expected.0 == "failed" { "failed" } else { "replied" };
        assert_eq!(told["state"], state, "{told:#}");
        server.stop();
    }
}

/// With the text of that script gone, the kind that `was` names counts; without one, nobody can
/// tell what was promised.
#[test]
fn a_job_whose_script_is_lost_is_judged_by_its_successor_or_has_failed() {
    for (renamed, reason) in [
        ("wb.kind \"other\" {", "verify_unasked"),
        ("wb.kind \"other\" { was = \"counts\",", "no_result"),
    ] {
        let bench = Bench::new();
        let job = left_running(&bench, "produces = \"result\"");
        std::fs::remove_dir_all(bench.data.join("script")).unwrap();
        let server = replaced(&bench, |lua| lua.replace("wb.kind \"counts\" {", renamed));
        assert!(server.log().contains("cannot be loaded again"), "{}", server.log());
        let ended = bench.ended(&job);
        assert_eq!(outcome(&ended), ("failed", reason), "{ended:#}");
        server.stop();
    }
}
