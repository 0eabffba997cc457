//! Agents cannot run away: limits on how often, how deep and to whom a job sends.

use serde_json::json;
use wiki_browser::api::mail::Sort;
use wiki_browser::base::{Actor, Address, Clock, Ids};
use wiki_browser::mail::{self, NewMessage};

use crate::agents::{ECHO, declare};
use crate::mail::{answer, send};
use crate::store::Served;
use crate::support::Bench;

#[test]
fn a_job_sends_no_more_than_sixty_messages_a_minute() {
    let bench = Bench::new();
    let agent = "for i in $(seq 61); do\n\
        wb-agent send person:ada --payload $i > /dev/null 2> \"$OUT/said\" \\\n\
        || echo $i > \"$OUT/at\"; done; wb-agent complete";
    bench.inbox("t/floods", "timeout = \"2m\"", agent);
    let server = bench.serve();
    let sent = send(&bench, "topic:t/floods", json!({})).ok();
    assert_eq!(bench.ended(sent["job_id"].as_str().unwrap())["status"], "succeeded");
    assert_eq!(bench.left("at"), "61");
    assert!(bench.left("said").contains("within a minute"), "{}", bench.left("said"));
    server.stop();
}

/// Two agents that write to each other cost tokens at both ends.
#[test]
fn an_agent_sends_no_more_than_ten_messages_a_minute_to_one_other() {
    let bench = Bench::new();
    declare(&bench, "co", "", ECHO);
    let agent = "for i in $(seq 11); do\n\
        wb-agent send agent:co --payload $i > /dev/null 2> \"$OUT/said\" \\\n\
        || echo $i > \"$OUT/at\"; done\n\
        wb-agent send person:ada --payload done && wb-agent complete";
    bench.inbox("t/floods", "timeout = \"2m\"", agent);
    let server = bench.serve();
    let sent = send(&bench, "topic:t/floods", json!({})).ok();
    // Others can still be written to.
    assert_eq!(bench.ended(sent["job_id"].as_str().unwrap())["status"], "succeeded");
    assert_eq!(bench.left("at"), "11");
    let said = bench.left("said");
    assert!(said.contains("has sent 10 messages to agent:co within a minute"), "{said}");
    server.stop();
}

/// Nobody waits for ever: the sender hears that the agent is gone, or has taken nothing for a week.
#[test]
fn what_no_agent_takes_ends_and_the_sender_gets_a_failure() {
    let bench = Bench::new();
    declare(&bench, "stays", "", ECHO);
    let lua = bench.declared();
    declare(&bench, "leaves", "", ECHO);
    let server = bench.serve();
    let gone = send(&bench, "agent:leaves", json!("x")).ok()["message_id"].clone();
    let fresh = send(&bench, "agent:stays", json!("fresh")).ok()["message_id"].clone();
    server.stop();
    // The same message, sent eight days ago.
    let old = "01998d4e-6c1a-7f00-8000-000000000001";
    bench.sql(&format!(
        "INSERT INTO messages (id, sort, sender, from_class, from_name, to_class, to_name, payload,
            thread, depth, created_ms)
         SELECT '{old}', sort, sender, from_class, from_name, to_class, to_name, payload, '{old}',
            depth, created_ms - 8 * 86400000 FROM messages WHERE id = '{}'",
        fresh.as_str().unwrap()
    ));
    bench.sql(&format!(
        "INSERT INTO deliveries (message_id, to_class, to_name, state)
         VALUES ('{old}', 'agent', 'stays', 'queued')"
    ));
    bench.edit(|_| lua);
    let server = bench.serve();
    let state = |id: &str| {
        let message = bench.get(&format!("/api/messages/{id}")).ok();
        let it = &message["deliveries"][0];
        (it["state"].clone(), it["reason"].clone())
    };
    for (id, ended, why) in [
        (gone.as_str().unwrap(), ("dropped", "recipient_ended"), "no longer declared"),
        (old, ("expired", "expired"), "did not take the message within 7 days"),
    ] {
        let answer = answer(&bench, id);
        assert_eq!(answer["state"], "failed", "{answer}");
        assert!(answer["failure"].as_str().unwrap().contains(why), "{answer}");
        assert_eq!(state(id), (json!(ended.0), json!(ended.1)));
    }
    assert_eq!(state(fresh.as_str().unwrap()).0, "queued");
    server.stop();
}

/// Each instance starts the next one, until the depth is reached.
#[test]
fn instances_that_start_each_other_come_to_an_end() {
    let bench = Bench::new();
    let agent = "wb-agent send topic:t/chain --payload '{}' 2> \"$OUT/refused.$$\" \\\n\
        || cp \"$OUT/refused.$$\" \"$OUT/end\"\n\
        wb-agent complete";
    bench.inbox("t/chain", "timeout = \"1m\"", agent);
    let server = bench.serve();
    send(&bench, "topic:t/chain", json!({})).ok();
    let end = bench.wait_left("end");
    assert!(end.contains("5 jobs led to job"), "{end}");
    bench.quiet();
    assert_eq!(bench.json(&["job", "list"])["items"].as_array().unwrap().len(), 6);
    server.stop();
}

#[test]
fn a_job_sends_to_the_addresses_of_its_inbox_only_and_answers_whoever_wrote_to_it() {
    let bench = Bench::new();
    let agent = "exec 3> \"$OUT/code\"\n\
        wb-agent send topic:t/other --payload 1 2> \"$OUT/refused\"; echo $? >&3\n\
        wb-agent send approval:aws --payload 1 2> \"$OUT/label\"; echo $? >&3\n\
        wb-agent send person:ada --payload 2; echo $? >&3\n\
        wb-agent send person:ada --payload 3 --in-reply-to \"$MESSAGE_ID\"; echo $? >&3\n\
        wb-agent complete";
    bench.inbox("t/mute", "sends = {}", agent);
    bench.inbox("t/other", "timeout = \"1m\"", "wb-agent complete");
    let server = bench.serve();
    let sent = send(&bench, "topic:t/mute", json!({})).ok();
    bench.ended(sent["job_id"].as_str().unwrap());
    assert_eq!(bench.left("code"), "3\n2\n3\n0");
    // No grant would help.
    let label = bench.left("label");
    assert!(label.contains("is a label") && label.contains("approval create"), "{label}");
    assert!(bench.left("refused").contains("may not send to topic:t/other"));
    server.stop();
}

/// Tables hold bare names: what a name says of its class is never read twice. Fails with
/// `WB_WITHOUT=bare_names`.
#[tokio::test]
async fn no_table_of_mail_takes_a_name_with_its_class_before_it() {
    let served = Served::start();
    let (plain, strange) =
        (Address::Agent("robbo".to_owned()), Address::Agent("agent:robbo".to_owned()));
    let new = |to: &Address, from: &Address, reply_to: &Address| NewMessage {
        sort: Sort::Message,
        sender: Actor::System,
        from: Some(from.clone()),
        to: to.clone(),
        payload: json!(1),
        category: None,
        in_reply_to: None,
        reply_to: Some(reply_to.clone()),
        depth: 0,
        job_id: None,
        approval_id: None,
    };
    for (message, is_right) in [
        (new(&plain, &plain, &plain), true),
        (new(&strange, &plain, &plain), false),
        (new(&plain, &strange, &plain), false),
        (new(&plain, &plain, &strange), false),
    ] {
        let ids = Ids::new(Clock::system());
        let written = served.store.write(move |tx| mail::send(tx, &ids, &message)).await;
        assert_eq!(written.is_ok(), is_right);
    }
    served.stop().await;
}

/// What is sent is what the agent reads and what comes back, whatever it is written in.
#[test]
fn payloads_of_every_size_and_script_come_back_as_they_were() {
    let bench = Bench::new();
    let counts = "printf %s \\\"$MESSAGE_CONTENT\\\" | wc -c > $OUT/content";
    let counts = counts.replace("$OUT", bench.out.as_str());
    let fields = format!("timeout = \"1m\", prepare = \"{counts}\"");
    bench.inbox("t/echo", &fields, "wb-agent complete --reply @\"$MESSAGE_PATH\"");
    let server = bench.serve();
    let long = |bytes: usize| json!({"p": "x".repeat(bytes - 8)});
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    let (words, signs) = ("日本語 עברית e\u{301} 👩\u{200d}👧", "\u{202e}\u{200b}\r\n\t\u{1b}[2J");
    let shell = "$(id) `id` ' \" \\ %s -- ${OUT}";
    // Around the longest text of a variable, and the longest payload.
    let (content, most) = (96 * 1024, 256 * 1024);
    for payload in [
        json!({}),
        json!([null, "", {"": {"a b": [1, -1.5e300, u64::MAX, true]}}]),
        json!({"words": words, "signs": signs, "shell": shell}),
        deep,
        long(content),
        long(content + 1),
        long(most),
    ] {
        let sent = send(&bench, "topic:t/echo", payload.clone()).ok();
        let told = answer(&bench, sent["message_id"].as_str().unwrap());
        let about: String = payload.to_string().chars().take(60).collect();
        assert_eq!(told["state"], "replied", "{about}: {told:#}");
        assert!(told["reply"] == payload, "{about}");
        let bytes: usize = bench.left("content").parse().unwrap();
        // A short one has a line for each value.
        let texts = [payload.to_string().len(), format!("{payload:#}").len()];
        let is_told = texts[0] <= content;
        assert!(if is_told { texts.contains(&bytes) } else { bytes == 0 }, "{about}: {bytes}");
    }
    assert_eq!(send(&bench, "topic:t/echo", long(most + 1)).refusal(), (413, "too_large"));
    server.stop();
}
