//! An agent asks, waits, and gets its answer; it never decides.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use serde_json::json;

use super::{question, show, told};
use crate::support::{Bench, Call, wait_for};

const ASKS: &str = "asks = true, timeout = \"60s\"";

/// Asks with a payload and a schema, waits, and leaves what came back.
const WAITS: &str = "\
printf '%s' '{\"team\": \"billing\", \"budget\": 300}' > \"$OUT/payload\"
printf '%s' '{\"properties\": {\"budget\": {\"maximum\": 500}}}' > \"$OUT/schema\"
id=$(\"$wb_agent\" approval create --channel aws --title 'Create it?' \
  --payload \"@$OUT/payload\" --schema \"$OUT/schema\")
echo \"$id\" > \"$OUT/id.part\"; mv \"$OUT/id.part\" \"$OUT/id\"
\"$wb_agent\" approval await \"$id\" --timeout none > \"$OUT/outcome\"
echo \"$?\" > \"$OUT/code\"";

fn asked(bench: &Bench) -> String {
    wait_for("the agent asks", || {
        let text = std::fs::read_to_string(bench.out.join("id")).ok()?;
        Some(text.trim().to_owned()).filter(|it| it.len() == 36)
    })
}

#[test]
fn an_agent_waits_for_its_answer_and_tells_answers_apart_by_the_exit_code() {
    for (verb, body, state, code) in [
        ("approve", json!({"version": 1}), "approved", "0"),
        (
            "approve",
            json!({"version": 1, "changes": {"team": "billing", "budget": 100}}),
            "amended",
            "0",
        ),
        ("reject", json!({"version": 1, "note": "Too much."}), "rejected", "10"),
    ] {
        let bench = Bench::new();
        bench.word_kind("asks", ASKS, WAITS);
        let _server = bench.serve();
        let job = bench.job("asks", json!({}));
        let id = asked(&bench);
        let shown = show(&bench, &id);
        assert_eq!((&shown["job_id"], &shown["state"]), (&json!(job), &json!("pending")));
        assert_eq!(shown["requester"], format!("job:{job}"));
        bench.post(&format!("/api/approvals/{id}/{verb}"), body.clone()).ok();
        assert_eq!(bench.ended(&job)["status"], "succeeded", "{verb}");
        assert_eq!(bench.left("code").trim(), code);
        let outcome: serde_json::Value = serde_json::from_str(&bench.left("outcome")).unwrap();
        assert_eq!(outcome["state"], state);
        let want =
            body.get("changes").cloned().unwrap_or(json!({"team": "billing", "budget": 300}));
        assert_eq!((&outcome["payload"], &outcome["note"]), (&want, &shown_note(&body)));
        assert_eq!(told(&bench)[0]["job_id"], job);
    }
}

fn shown_note(body: &serde_json::Value) -> serde_json::Value {
    body.get("note").cloned().unwrap_or_default()
}

#[test]
fn a_wait_ends_in_time_and_a_withdrawn_approval_ends_it() {
    let bench = Bench::new();
    bench.word_kind(
        "asks",
        ASKS,
        "id=$(\"$wb_agent\" approval create --channel aws --title 'Create it?')\n\
         \"$wb_agent\" approval await \"$id\" --timeout 300ms > \"$OUT/first\"\n\
         echo \"$?\" > \"$OUT/pending\"\n\
         \"$wb_agent\" approval withdraw \"$id\" --note 'Found another way'\n\
         \"$wb_agent\" approval await \"$id\" > \"$OUT/second\"; echo \"$?\" > \"$OUT/withdrawn\"\n\
         \"$wb_agent\" approval list > \"$OUT/list\"\n\
         \"$wb_agent\" approval get \"$id\" > \"$OUT/get\"",
    );
    let _server = bench.serve();
    let job = bench.ended(&bench.job("asks", json!({})));
    assert_eq!(job["status"], "succeeded", "{job:#}");
    assert_eq!((bench.left("pending").trim(), bench.left("withdrawn").trim()), ("75", "11"));
    let read =
        |name: &str| -> serde_json::Value { serde_json::from_str(&bench.left(name)).unwrap() };
    assert_eq!(
        (&read("first")["state"], &read("second")["state"]),
        (&json!("pending"), &json!("withdrawn"))
    );
    assert_eq!(read("list").as_array().unwrap().len(), 1);
    assert_eq!(read("get")["note"], "Found another way");
}

#[test]
fn an_agent_decides_nothing_and_sees_no_approval_of_others() {
    let bench = Bench::new();
    let lends_its_token = "echo \"$WB_TOKEN\" > \"$OUT/t.$word\"\n\
        mv \"$OUT/t.$word\" \"$OUT/$word\"\n\
        until [ -e \"$OUT/go\" ]; do sleep 0.02; done";
    bench.word_kind("mute", "timeout = \"60s\"", lends_its_token);
    bench.word_kind("asks", ASKS, lends_its_token);
    let _server = bench.serve();
    let other = super::ask(&bench, question());
    for (kind, created) in [("mute", (403, "not_granted")), ("asks", (201, ""))] {
        bench.job(kind, json!({"word": kind}));
        let token = bench.wait_left(kind);
        let as_job = |call: Call| bench.send(&call.token(token.trim()));
        let asked = as_job(Call::post("/api/approvals", question()));
        assert_eq!(asked.refusal(), created, "{kind}");
        let own = asked.body["id"].as_str().unwrap_or(&other).to_owned();
        for verb in ["approve", "reject"] {
            let target = format!("/api/approvals/{own}/{verb}");
            let answer = as_job(Call::post(&target, json!({"version": 1})));
            assert_eq!(answer.refusal(), (403, "agent_forbidden"), "{kind} {verb}");
        }
        assert_eq!(as_job(Call::get("/api/decisions")).refusal(), (403, "agent_forbidden"));
        for target in ["", "/await?timeout=0"] {
            let answer = as_job(Call::get(&format!("/api/approvals/{other}{target}")));
            assert_eq!(answer.refusal(), (404, "not_found"), "{kind}");
        }
        let withdraw = format!("/api/approvals/{other}/withdraw");
        let answer = as_job(Call::post(&withdraw, json!({})));
        assert_eq!(answer.refusal(), (404, "not_found"), "{kind}");
        let listed = as_job(Call::get("/api/approvals")).ok();
        assert_eq!(listed["items"].as_array().unwrap().len(), usize::from(kind == "asks"));
    }
    assert_eq!(show(&bench, &other)["state"], "pending");
    std::fs::write(bench.out.join("go"), "").unwrap();
}

/// The end of a job withdraws what it asked: nobody would hear the answer.
#[test]
fn the_end_of_a_job_withdraws_what_it_asked() {
    let bench = Bench::new();
    bench.word_kind(
        "asks",
        ASKS,
        "\"$wb_agent\" approval create --channel aws --title 'Create it?' > \"$OUT/id\"\nexit 3",
    );
    let _server = bench.serve();
    let job = bench.ended(&bench.job("asks", json!({})));
    assert_eq!(job["status"], "failed");
    let id = asked(&bench);
    let shown = show(&bench, &id);
    assert_eq!((&shown["state"], &shown["decided_by"]), (&json!("withdrawn"), &json!("system")));
    assert_eq!(shown["note"], format!("job {} ended", job["id"].as_str().unwrap()));
    let late = bench.post(&format!("/api/approvals/{id}/approve"), json!({"version": 1}));
    assert_eq!(late.refusal(), (409, "approval_decided"));
}

/// A long poll ends with the server: a stop waits for no decision.
#[test]
fn a_stopping_server_answers_whoever_waits() {
    let bench = Bench::new();
    let mut server = bench.serve();
    let id = super::ask(&bench, question());
    let mut waits = UnixStream::connect(bench.socket()).unwrap();
    let head = format!(
        "GET /api/approvals/{id}/await HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Authorization: Bearer {}\r\n\r\n",
        bench.operator()
    );
    waits.write_all(head.as_bytes()).unwrap();
    // Later ones are accepted after it.
    (0..20).for_each(|_| assert_eq!(bench.get("/api/me").status, 200));
    server.signal("TERM");
    let mut answer = String::new();
    waits.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("\"state\":\"pending\""), "{answer}");
    let (status, took) = server.wait();
    assert!(status.success() && took.as_secs() < 10, "{status:?} {took:?}");
}
