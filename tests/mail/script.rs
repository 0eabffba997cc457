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

#[test]
fn a_handler_that_sends_too_much_silences_itself_only() {
    let bench = Bench::new();
    bench.limits("jobs = 2, script_jobs = 3");
    bench.lua(
        r#"wb.on("topic_created", function()
  for _ = 1, 5 do wb.send { to = "person:ada", payload = "loud" } end
end)
wb.on("topic_changed", function() wb.send { to = "person:ada", payload = "calm" } end)
"#,
    );
    let mut server = bench.serve();
    let topic = bench.topic("guide.md", "second", "Why?");
    let mail = || bench.json(&["mail", "list", "--to", "me"])["items"].as_array().unwrap().len();
    let failed = || events(&bench, "script_failed").len();
    until("two are refused", || failed() == 2);
    assert_eq!(mail(), 3);
    let warned = || bench.json(&["status"])["warnings"].to_string();
    assert!(warned().contains("a handler of topic_created (wiki-browser.lua:"), "{}", warned());
    assert!(warned().contains("has sent 3 messages within an hour"), "{}", warned());
    bench.post(&format!("/api/topics/{}/discard", topic.id), json!({})).ok();
    until("another handler goes on", || mail() == 4);
    // A reload of a changed script starts its count anew, and so does a restart.
    bench.limits("jobs = 3, script_jobs = 3");
    bench.write_script();
    bench.json(&["reload"]);
    bench.topic("guide.md", "second", "Once more?");
    until("two are refused again", || failed() == 4);
    assert_eq!(mail(), 7);
    server.stop();
    server = bench.serve();
    bench.topic("guide.md", "second", "And again?");
    until("two are refused after a restart", || failed() == 6);
    assert_eq!(mail(), 10);
    server.stop();
}
