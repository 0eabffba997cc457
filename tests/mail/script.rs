//! Messages that the script sends.

use serde_json::json;

use crate::script::events;
use crate::support::{Bench, until};

#[test]
fn a_handler_writes_to_people_and_inboxes_once() {
    let bench = Bench::new();
    bench.inbox("t/echo", "timeout = \"1m\"", "wb-agent complete --reply '\"heard\"'");
    bench.lua(
        r#"wb.on("topic_created", function(event)
  wb.send { to = "person:ada", payload = { topic = event.data.topic_id } }
  wb.send { to = "topic:t/echo", payload = {}, reply_to = "person:ada" }
  wb.send { to = "person:nobody", payload = "lost" }
  wb.send { to = "channel:general", payload = "lost" }
end)
"#,
    );
    let server = bench.serve();
    let topic = bench.topic("guide.md", "second", "Why?");
    let mail = || bench.json(&["mail", "list", "--to", "me"])["items"].as_array().unwrap().clone();
    until("the reply is there", || mail().len() == 2);
    let mail = mail();
    assert_eq!((&mail[0]["sort"], &mail[0]["payload"]), (&json!("reply"), &json!("heard")));
    assert_eq!(mail[1]["payload"], json!({"topic": topic.id}));
    assert_eq!((&mail[1]["sender"]["actor"], &mail[1]["from"]), (&json!("script"), &json!(null)));
    let job = bench.json(&["job", "list", "--kind", "t/echo"])["items"][0].clone();
    assert_eq!(job["requested_by"], "script");
    let failures = || events(&bench, "script_failed");
    until("both refusals are reported", || failures().len() == 2);
    let texts = json!(failures()).to_string();
    assert!(
        texts.contains("nobody called nobody") && texts.contains("no channel general"),
        "{texts}"
    );
    server.stop();
}

/// Fails with `WB_WITHOUT=script_depth`.
#[test]
fn a_handler_that_answers_its_own_messages_comes_to_an_end() {
    let bench = Bench::new();
    bench.limits("jobs = 2, script_jobs = 30");
    bench.inbox("t/echo", "timeout = \"1m\"", "wb-agent complete --reply 1");
    bench.lua(
        r#"wb.on("message_sent", function(event)
  wb.send { to = "topic:t/echo", payload = 1 }
end)
"#,
    );
    let server = bench.serve();
    let sent = bench.post("/api/messages", json!({"to": "topic:t/echo", "payload": 1}));
    sent.ok();
    let failures = || events(&bench, "script_failed");
    until("the chain has ended", || !failures().is_empty());
    assert!(failures()[0].to_string().contains("led to one another"), "{:?}", failures());
    let jobs = bench.json(&["job", "list", "--kind", "t/echo", "--limit", "50"]);
    assert_eq!(jobs["items"].as_array().unwrap().len(), 6);
    server.stop();
}
