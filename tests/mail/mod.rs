//! Messages, inboxes and instances: from `send` to the reply.

mod crashes;
mod engines;
mod floods;
mod full_disk;
#[cfg(feature = "faults")]
mod hooks;
mod kill_matrix;
mod limits;
mod monitors;
mod people;
mod script;
mod templates;
pub(crate) mod turns;
mod verdicts;

use serde_json::{Value, json};

use crate::support::{Answer, Bench, cli};

/// Sends a message over HTTP; returns the answer.
#[track_caller]
pub(crate) fn send(bench: &Bench, to: &str, payload: Value) -> Answer {
    bench.post("/api/messages", json!({"to": to, "payload": payload}))
}

/// Waits for the answer of a message, as `mail wait` does.
#[track_caller]
pub(crate) fn answer(bench: &Bench, message: &str) -> Value {
    for _ in 0..4 {
        let found = bench.get(&format!("/api/messages/{message}/await?timeout=20")).ok();
        if found["state"] != "pending" {
            return found;
        }
    }
    panic!("no answer to {message}");
}

/// Fails with `WB_WITHOUT=agent_path` and with `WB_WITHOUT=answer`.
#[test]
fn a_message_starts_an_instance_and_its_reply_comes_back() {
    let bench = Bench::new();
    let agent = "cat > \"$OUT/prompt\"\n\
        env | grep -E '^(MESSAGE|REPLY|STATUS|AGENT|TOPIC|INSTANCE)' > \"$OUT/env\"\n\
        team=$(sed -n 's/.*\"team\": \"\\(.*\\)\".*/\\1/p' \"$MESSAGE_PATH\")\n\
        wb-agent complete --reply \"{\\\"account\\\": \\\"for-$team\\\"}\"";
    bench.inbox("lead/provision", "timeout = \"20s\"", agent);
    let server = bench.serve();
    let (code, out, err) = bench.cli(&[
        "send",
        "topic:lead/provision",
        "--payload",
        "{\"team\": \"billing\"}",
        "--wait",
        "--timeout",
        "60s",
    ]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap(), json!({"account": "for-billing"}));
    assert!(err.contains("wiki-browser mail wait "), "{err}");

    let env = bench.left("env");
    let job = bench.json(&["job", "list"])["items"][0].clone();
    let id = job["id"].as_str().unwrap();
    for line in [
        "AGENT_TEMPLATE=lead".to_owned(),
        "TOPIC_NAME=provision".to_owned(),
        format!("INSTANCE_ADDR=agent:lead/{id}"),
        format!("INSTANCE_ID={id}"),
    ] {
        assert!(env.lines().any(|it| it == line), "{line} is not in\n{env}");
    }
    let prompt = bench.left("prompt");
    assert!(prompt.contains(&format!("You are agent:lead/{id}")), "{prompt}");
    assert!(prompt.contains("\"team\": \"billing\""), "{prompt}");
    assert_eq!((&job["status"], &job["reason"]), (&json!("succeeded"), &Value::Null));

    let mail = bench.json(&["mail", "list"])["items"].clone();
    let sorts: Vec<&str> =
        mail.as_array().unwrap().iter().map(|it| it["sort"].as_str().unwrap()).collect();
    assert_eq!(sorts, ["reply", "message"]);
    assert_eq!(mail[1]["deliveries"][0]["state"], "confirmed");
    assert_eq!(mail[1]["deliveries"][0]["job_id"], id);
    assert_eq!(mail[0]["in_reply_to"], mail[1]["id"]);
    assert_eq!(mail[0]["from"], format!("agent:lead/{id}"));
    assert_eq!(mail[0]["deliveries"][0]["state"], "confirmed", "who waited has read it");
    let (code, shown, err) = bench.cli(&["mail", "show", &mail[0]["id"].as_str().unwrap()[28..]]);
    assert_eq!(code, 0, "{err}");
    assert!(shown.contains("for-billing"), "{shown}");
    server.stop();
}

#[test]
fn what_cannot_be_sent_is_refused_by_name_and_changes_nothing() {
    let bench = Bench::new();
    bench.write(
        "team.json",
        r#"{"type": "object", "required": ["team"],
        "properties": {"team": {"enum": ["billing"]}}}"#,
    );
    bench.inbox("lead/provision", "schema = \"team.json\"", "wb-agent complete");
    let server = bench.serve();
    for (to, payload, refusal) in [
        ("topic:lead/provision", json!({"team": "sales"}), (400, "bad_payload")),
        ("topic:lead/provison", json!({}), (404, "no_recipient")),
        ("topic:lead", json!({}), (400, "malformed_address")),
        ("approval:aws", json!({}), (400, "approval_is_no_target")),
        ("person:nobody", json!({}), (404, "no_recipient")),
        ("agent:lead", json!({}), (404, "no_recipient")),
        ("agent:lead/018bcfe5-6800-7000-8000-000000000000", json!({}), (404, "no_recipient")),
        ("channel:general", json!({}), (404, "no_channel")),
        ("topic:lead/provision", json!({"team": "a\0b"}), (400, "bad_payload")),
        ("person:ada", json!("x".repeat(256 * 1024)), (413, "too_large")),
    ] {
        let refused = send(&bench, to, payload);
        assert_eq!(refused.refusal(), refusal, "{to}");
    }
    let (code, _, err) = bench.cli(&["send", "topic:lead/provision", "--payload", "{\"team\": 1}"]);
    assert_eq!(code, 2);
    assert!(err.contains("payload.team: "), "{err}");
    let (_, _, err) = bench.cli(&["send", "topic:lead/provison", "--payload", "{}"]);
    assert!(err.contains("did you mean topic:lead/provision?"), "{err}");
    assert_eq!(bench.json(&["mail", "list"])["items"], json!([]));
    assert_eq!(bench.json(&["job", "list"])["items"], json!([]));
    server.stop();
}

#[test]
fn an_inbox_says_what_waits_in_it() {
    let bench = Bench::new();
    bench.inbox("lead/slow", "concurrency = 1", "while :; do sleep 0.1; done");
    let server = bench.serve();
    let first = send(&bench, "topic:lead/slow", json!(1)).ok();
    send(&bench, "topic:lead/slow", json!(2)).ok();
    bench.wait_status(first["job_id"].as_str().unwrap(), "running");
    let shown = bench.json(&["inbox", "show", "lead/slow"]);
    assert_eq!((&shown["depth"], &shown["running"]), (&json!(1), &json!(1)));
    let (code, out, _) = bench.cli(&["inbox", "list"]);
    assert_eq!(code, 0);
    assert!(out.contains("lead/slow"), "{out}");
    server.stop();
}

#[test]
fn the_same_request_is_one_message() {
    let bench = Bench::new();
    bench.inbox("lead/once", "concurrency = 1", "wb-agent complete --reply 1");
    let server = bench.serve();
    let args = ["send", "topic:lead/once", "--payload", "{}", "--key", "one"];
    let answers: Vec<(i32, String, String)> = std::thread::scope(|scope| {
        let top = &bench.top;
        let running: Vec<_> = (0..8).map(|_| scope.spawn(move || cli(top, &args))).collect();
        running.into_iter().map(|it| it.join().unwrap()).collect()
    });
    assert!(answers.iter().all(|it| (it.0, &it.1) == (0, &answers[0].1)), "{answers:?}");
    assert_eq!(answer(&bench, answers[0].1.trim())["reply"], 1);
    assert_eq!(bench.json(&["job", "list"])["items"].as_array().unwrap().len(), 1);
    server.stop();
}

#[test]
fn a_schema_that_waiting_messages_do_not_fit_is_refused() {
    let bench = Bench::new();
    let schema = |required: &str| {
        let text = format!(r#"{{"type": "object", "required": [{required}]}}"#);
        bench.write("team.json", &text);
    };
    schema("\"team\"");
    let agent = "echo up > \"$OUT/ready\"\nwhile [ ! -e \"$OUT/go\" ]; do sleep 0.05; done\n\
        wb-agent complete";
    bench.inbox("lead/provision", "schema = \"team.json\", concurrency = 1", agent);
    let server = bench.serve();
    let first = send(&bench, "topic:lead/provision", json!({"team": "a"})).ok();
    bench.wait_left("ready");
    let second = send(&bench, "topic:lead/provision", json!({"team": "b"})).ok();
    let waits = |answer: &Value| answer["message_id"].as_str().unwrap().to_owned();
    let found = bench.get(&format!("/api/messages/{}/await", waits(&second))).ok();
    assert!(found["waiting"].as_str().unwrap().contains("1 of at most 1 jobs"), "{found}");
    let found = bench.get(&format!("/api/messages/{}/await", waits(&first))).ok();
    assert_eq!(found["waiting"], Value::Null, "{found}");

    schema("\"team\", \"number\"");
    let (code, out, err) = bench.cli(&["reload"]);
    assert_eq!(code, 1, "{out}{err}");
    for said in [
        "1 job of kind \"lead/provision\" waits: payload: \"number\" is a required",
        "keep the schema",
    ] {
        assert!(out.contains(said) || err.contains(said), "{said}: {out}{err}");
    }
    schema("");
    assert_eq!(bench.cli(&["reload"]).0, 0, "what is asked for is less");
    std::fs::write(bench.out.join("go"), "").unwrap();
    assert_eq!(answer(&bench, &waits(&second))["state"], "replied");
    server.stop();
}
