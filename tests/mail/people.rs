//! Mail between people, instances and the script: who reads what.

use serde_json::{Value, json};

use crate::mail::{answer, send};
use crate::support::{Bench, Call, until};

fn token_of(bench: &Bench, name: &str) -> String {
    bench.json(&["person", "add", name, "--role", "member"]);
    let made = bench.json(&["token", "create", name, "--person", name, "--scope", "write"]);
    made["token"].as_str().unwrap().to_owned()
}

#[test]
fn mail_of_a_person_is_read_by_that_person_only() {
    let bench = Bench::new();
    let server = bench.serve();
    let (bea, eve) = (token_of(&bench, "bea"), token_of(&bench, "eve"));
    let sent = send(&bench, "person:bea", json!("for your eyes")).ok();
    assert_eq!(sent["state"], "queued");
    let target = format!("/api/messages/{}", sent["message_id"].as_str().unwrap());
    let of = |token: &str, target: &str| bench.send(&Call::get(target).token(token));
    assert_eq!(of(&bea, &target).ok()["payload"], "for your eyes");
    assert_eq!(of(&eve, &target).refusal(), (404, "not_found"));
    assert_eq!(of(&eve, &format!("{target}/await")).refusal(), (404, "not_found"));
    // Whoever may not read it does not answer it, and does not learn that it is there.
    let answers = |token: &str, id: &Value| {
        let body = json!({"to": "person:bea", "payload": "x", "in_reply_to": id});
        bench.send(&Call::post("/api/messages", body).token(token))
    };
    assert_eq!(answers(&eve, &sent["message_id"]).refusal(), (404, "not_found"));
    let unknown = json!("01998d4e-6c1a-7f00-8000-000000000001");
    assert_eq!(answers(&eve, &unknown).refusal(), (404, "not_found"));
    let count = |token: &str| of(token, "/api/messages").ok()["items"].as_array().unwrap().len();
    assert_eq!((count(&bea), count(&eve)), (1, 0));
    let read = bench.send(&Call::post(&format!("{target}/read"), json!({})).token(&bea)).ok();
    assert_eq!(read["was_unread"], true);
    assert_eq!(of(&bea, &target).ok()["deliveries"][0]["state"], "confirmed");
    assert_eq!(of(&bea, "/api/messages?state=zzz").refusal(), (400, "bad_parameter"));
    let events = |token: &str| {
        let shown = of(token, "/api/messages?to=me").ok();
        shown["items"].as_array().unwrap().len()
    };
    assert_eq!((events(&bea), events(&eve)), (1, 0));
    server.stop();
}

/// A person from outside reads no messages, so nothing is sent to one; a channel takes no replies.
#[test]
fn what_nobody_could_read_is_refused() {
    let bench = Bench::new();
    bench.inbox("t/first", "timeout = \"1m\"", "wb-agent complete --reply 1");
    let server = bench.serve();
    bench.json(&["person", "add", "eve", "--outside"]);
    let channel = bench.post("/api/channels", json!({"name": "room", "members": []})).ok();
    let channel = format!("channel:{}", channel["slug"].as_str().unwrap());
    let refused = send(&bench, "person:eve", json!("hello"));
    assert_eq!(refused.refusal(), (409, "not_deliverable"));
    assert!(refused.body.to_string().contains("from outside"), "{}", refused.body);
    for to in ["person:eve", &channel] {
        let body = json!({"to": "topic:t/first", "payload": 0, "reply_to": to});
        let refused = bench.post("/api/messages", body);
        assert_eq!(refused.refusal(), (409, "not_deliverable"), "{to}");
        let error = &refused.body["error"];
        assert!(error["hint"].is_string() && error["input"] == "reply_to", "{error}");
    }
    assert_eq!(bench.json(&["mail", "list"])["items"], json!([]));
    assert_eq!(bench.json(&["job", "list"])["items"], json!([]));
    server.stop();
}

/// Two instances and a person: what is sent to a running one is pulled, once, and confirmed.
#[test]
fn an_instance_pulls_what_is_sent_to_it() {
    let bench = Bench::new();
    let agent = "echo up > \"$OUT/up\"\n\
        got=$(wb-agent inbox --wait 30s); printf '%s' \"$got\" > \"$OUT/got\"\n\
        wb-agent inbox --after 9999999 > \"$OUT/rest\"\n\
        wb-agent send person:ada 'I have it' --topic note > \"$OUT/sent\"\n\
        wb-agent complete --reply '\"bye\"'";
    bench.inbox("t/talks", "timeout = \"1m\"", agent);
    let server = bench.serve();
    let first = send(&bench, "topic:t/talks", json!({})).ok();
    bench.wait_left("up");
    let instance = first["instance"].as_str().unwrap();
    let second = send(&bench, instance, json!({"more": true})).ok();
    assert_eq!(answer(&bench, first["message_id"].as_str().unwrap())["reply"], "bye");
    let got: Value = serde_json::from_str(&bench.left("got")).unwrap();
    assert_eq!(
        (&got[0]["id"], &got[0]["payload"]),
        (&second["message_id"], &json!({"more": true}))
    );
    assert_eq!(bench.left("rest").trim(), "[]");
    let shown =
        bench.get(&format!("/api/messages/{}", second["message_id"].as_str().unwrap())).ok();
    assert_eq!(
        (&shown["deliveries"][0]["state"], &shown["deliveries"][0]["proof"]),
        (&json!("confirmed"), &json!("pulled"))
    );
    let note = bench.get(&format!("/api/messages/{}", bench.left("sent"))).ok();
    assert_eq!((&note["payload"], &note["category"]), (&json!("I have it"), &json!("note")));
    assert_eq!(note["from"], instance);
    let late = send(&bench, instance, json!({}));
    assert_eq!(late.refusal(), (409, "recipient_ended"));
    server.stop();
}

#[test]
fn a_verdict_confirms_what_was_fetched_last() {
    let bench = Bench::new();
    let agent = "echo up > \"$OUT/up\"\n\
        wb-agent inbox --wait 30s > /dev/null\n\
        wb-agent fail --reason stopped";
    bench.inbox("t/talks", "timeout = \"1m\"", agent);
    let server = bench.serve();
    let first = send(&bench, "topic:t/talks", json!({})).ok();
    bench.wait_left("up");
    let second = send(&bench, first["instance"].as_str().unwrap(), json!("stop")).ok();
    assert_eq!(answer(&bench, first["message_id"].as_str().unwrap())["state"], "failed");
    let id = second["message_id"].as_str().unwrap();
    let shown = bench.get(&format!("/api/messages/{id}")).ok();
    let delivery = &shown["deliveries"][0];
    assert_eq!((&delivery["state"], &delivery["proof"]), (&json!("confirmed"), &json!("pulled")));
    server.stop();
}

#[test]
fn what_an_instance_has_not_pulled_is_dropped_with_a_reason() {
    let bench = Bench::new();
    let agent = "echo up > \"$OUT/up\"; until [ -e \"$OUT/go\" ]; do sleep 0.05; done\n\
        wb-agent complete";
    bench.inbox("t/deaf", "timeout = \"1m\"", agent);
    let server = bench.serve();
    let first = send(&bench, "topic:t/deaf", json!({})).ok();
    bench.wait_left("up");
    let second = send(&bench, first["instance"].as_str().unwrap(), json!(2)).ok();
    std::fs::write(bench.out.join("go"), "").unwrap();
    bench.ended(first["job_id"].as_str().unwrap());
    let shown =
        bench.get(&format!("/api/messages/{}", second["message_id"].as_str().unwrap())).ok();
    assert_eq!(
        (&shown["deliveries"][0]["state"], &shown["deliveries"][0]["reason"]),
        (&json!("dropped"), &json!("recipient_ended"))
    );
    // Whoever wrote it is told.
    let told = answer(&bench, second["message_id"].as_str().unwrap());
    assert!(told["failure"].as_str().unwrap().contains("ended before it fetched"), "{told}");
    server.stop();
}

/// The reply goes where the sender says; who asked may read the thread.
#[test]
fn a_reply_goes_where_the_sender_says() {
    let bench = Bench::new();
    bench.inbox("t/first", "timeout = \"1m\"", "wb-agent complete --reply '{\"step\": 1}'");
    bench.inbox(
        "t/second",
        "timeout = \"1m\"",
        "tr -d ' \\n' < \"$MESSAGE_PATH\" > \"$OUT/s\"; echo >> \"$OUT/s\"\n\
        mv \"$OUT/s\" \"$OUT/second\"\n\
        wb-agent complete --reply 2",
    );
    let server = bench.serve();
    let bea = token_of(&bench, "bea");
    let body = json!({"to": "topic:t/first", "payload": 0, "reply_to": "person:bea"});
    let sent = bench.post("/api/messages", body).ok();
    bench.ended(sent["job_id"].as_str().unwrap());
    let mail = bench.send(&Call::get("/api/messages?to=me").token(&bea)).ok();
    assert_eq!(mail["items"][0]["payload"], json!({"step": 1}));
    let body = json!({"to": "topic:t/first", "payload": 0, "reply_to": "topic:t/second"});
    bench.post("/api/messages", body).ok();
    let text = bench.wait_left("second");
    assert_eq!(text, "{\"step\":1}");
    server.stop();
}

/// Whoever asked is told what was decided, once, as mail.
#[test]
fn a_decision_is_told_to_the_instance_that_asked() {
    let bench = Bench::new();
    let agent = "wb-agent approval create --channel aws --title 'Go?' --payload '{\"n\": 1}' \\\n\
        > \"$OUT/a\"; mv \"$OUT/a\" \"$OUT/asked\"\n\
        wb-agent inbox --wait 50s > \"$OUT/got\"; wb-agent complete";
    bench.inbox("t/asks", "timeout = \"2m\"", agent);
    let server = bench.serve();
    let sent = send(&bench, "topic:t/asks", json!({})).ok();
    let asked = bench.wait_left("asked");
    let decision = json!({"version": 1, "note": "gladly", "changes": {"n": 2}});
    bench.post(&format!("/api/approvals/{asked}/approve"), decision).ok();
    answer(&bench, sent["message_id"].as_str().unwrap());
    let got: Value = serde_json::from_str(&bench.left("got")).unwrap();
    assert_eq!(got.as_array().unwrap().len(), 1, "{got}");
    assert_eq!(got[0]["sort"], "notice");
    let payload = &got[0]["payload"];
    assert_eq!((&payload["approval_id"], &payload["state"]), (&json!(asked), &json!("amended")));
    assert_eq!((&payload["note"], &payload["payload"]), (&json!("gladly"), &json!({"n": 2})));
    server.stop();
}

/// A reply whose recipient is gone by then is kept with the reason, and keeps nothing from ending.
#[test]
fn a_sender_that_is_gone_keeps_no_instance_from_ending() {
    let bench = Bench::new();
    bench.limits("jobs = 4");
    let slow = "echo up >> \"$OUT/up\"; until [ -e \"$OUT/go\" ]; do sleep 0.02; done\n\
        wb-agent complete --reply '\"late\"'";
    bench.inbox("t/slow", "timeout = \"1m\", concurrency = 2", slow);
    let asks = "wb-agent send topic:t/slow --payload 1; wb-agent complete";
    bench.inbox("t/asks", "timeout = \"1m\"", asks);
    let server = bench.serve();
    let bea = token_of(&bench, "bea");
    let body = json!({"to": "topic:t/slow", "payload": 0});
    bench.send(&Call::post("/api/messages", body).token(&bea)).ok();
    let sent = send(&bench, "topic:t/asks", json!({})).ok();
    bench.ended(sent["job_id"].as_str().unwrap());
    until("both work", || bench.left("up").lines().count() == 2);
    bench.json(&["person", "disable", "bea"]);
    std::fs::write(bench.out.join("go"), "").unwrap();
    let jobs = bench.json(&["job", "list", "--kind", "t/slow"])["items"].clone();
    for job in jobs.as_array().unwrap() {
        let ended = bench.ended(job["id"].as_str().unwrap());
        assert_eq!(ended["status"], "succeeded", "{ended:#}");
    }
    server.stop();
    let database = rusqlite::Connection::open(bench.data.join("wiki.db")).unwrap();
    let mut asked = database
        .prepare(
            "SELECT m.to_class, d.state, d.reason FROM messages m
             JOIN deliveries d ON d.message_id = m.id
             WHERE m.sort = 'reply' AND m.payload = '\"late\"' ORDER BY m.to_class",
        )
        .unwrap();
    let rows = asked.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    let rows: Vec<(String, String, String)> = rows.map(Result::unwrap).collect();
    let dropped = |class: &str, reason: &str| (class.into(), "dropped".into(), reason.into());
    assert_eq!(
        rows,
        [dropped("instance", "recipient_ended"), dropped("person", "recipient_ended")]
    );
}
