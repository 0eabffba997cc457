//! What an agent is given, and what becomes of its answers.

use serde_json::{Value, json};

use crate::agents::{ECHO, answer, ask, control, declare, delivery, send, show, wait_state};
use crate::support::{Bench, Call, until};

#[test]
fn a_message_starts_an_agent_and_its_last_words_come_back() {
    let bench = Bench::new();
    declare(&bench, "robbo", "autostart = \"on_message\"", ECHO);
    let server = bench.serve();
    assert_eq!(wait_state(&bench, "robbo", "stopped")["job_id"], Value::Null);
    let message = send(&bench, "robbo", json!("hello"));
    let told = answer(&bench, &message);
    assert_eq!((&told["state"], &told["reply"]), (&json!("replied"), &json!("again hello")));
    assert_eq!(delivery(&bench, &message), (json!("confirmed"), json!("turn")));
    let agent = wait_state(&bench, "robbo", "idle");
    let job = agent["job_id"].as_str().unwrap();
    let row = bench.show(job);
    assert_eq!((&row["kind"], &row["pool"]), (&json!("@robbo"), &json!("live")));
    let prompt = std::fs::read_to_string(bench.data.join("jobs").join(job).join("prompt")).unwrap();
    assert!(prompt.contains("You are agent:robbo"), "{prompt}");
    // The same process hears the next one.
    assert_eq!(ask(&bench, "robbo", json!("more"))["reply"], "again more");
    assert_eq!(show(&bench, "robbo")["job_id"], job);
    assert_eq!(ask(&bench, "robbo", json!("quiet"))["reply"], Value::Null);
    let (code, out, err) =
        bench.cli(&["send", "robbo", "--payload", "\"by hand\"", "--wait", "--timeout", "60s"]);
    assert_eq!((code, out.trim()), (0, "again by hand"), "{err}");
    server.stop();
}

#[test]
fn messages_are_given_one_by_one_in_their_order() {
    let bench = Bench::new();
    declare(&bench, "robbo", "autostart = \"on_message\"", ECHO);
    let server = bench.serve();
    let first = send(&bench, "robbo", json!("wait"));
    bench.wait_left("waits");
    let others: Vec<String> =
        (0..20).map(|number| send(&bench, "robbo", json!(format!("n{number}")))).collect();
    let busy = show(&bench, "robbo");
    assert_eq!((&busy["state"], &busy["waiting"]), (&json!("busy"), &json!(20)));
    assert_eq!(delivery(&bench, &others[0]), (json!("queued"), Value::Null));
    std::fs::write(bench.out.join("go"), "").unwrap();
    assert_eq!(answer(&bench, &first)["reply"], "waited");
    for (number, message) in others.iter().enumerate() {
        assert_eq!(answer(&bench, message)["reply"], format!("again n{number}"));
    }
    let wanted: String = (0..20).map(|number| format!("n{number}\n")).collect();
    assert_eq!(bench.left("heard").trim(), wanted.trim(), "each once, in its order");
    server.stop();
}

#[test]
fn g33_many_messages_at_once_are_each_heard_once() {
    let bench = Bench::new();
    bench.limits("jobs = 4, agents = 8, grace = \"1s\"");
    for number in 0..4 {
        declare(&bench, &format!("a{number}"), "autostart = \"on_message\"", ECHO);
    }
    let server = bench.serve();
    let messages: Vec<(usize, String)> = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..4)
            .map(|number| {
                let top = bench.top.clone();
                scope.spawn(move || {
                    let of = |at: usize| {
                        let (to, text) =
                            (format!("agent:a{number}"), format!("\"m{number}-{at}\""));
                        let args = ["send", to.as_str(), "--payload", text.as_str()];
                        let (code, out, err) = crate::support::cli(&top, &args);
                        assert_eq!(code, 0, "{err}");
                        (number, out.trim().to_owned())
                    };
                    (0..25).map(of).collect::<Vec<_>>()
                })
            })
            .collect();
        senders.into_iter().flat_map(|it| it.join().unwrap()).collect()
    });
    for (_, message) in &messages {
        assert_eq!(answer(&bench, message)["state"], "replied");
    }
    let heard = bench.left("heard");
    let mut lines: Vec<&str> = heard.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!((lines.len(), heard.lines().count()), (100, 100));
    server.stop();
}

#[test]
fn a_turn_that_fails_or_is_interrupted_is_told_to_the_sender() {
    let bench = Bench::new();
    let script = "while :; do hear; began
case $text in
  fail) printf '{\"turn\":\"ended\",\"id\":\"%s\",\"failed\":\"no model\"}\\n' \"$id\" ;;
  long) hear; printf '{\"turn\":\"ended\",\"interrupted\":true}\\n' ;;
  *) say fine ;;
esac
done";
    declare(&bench, "robbo", "autostart = \"on_message\"", script);
    let server = bench.serve();
    let told = ask(&bench, "robbo", json!("fail"));
    assert_eq!(told["state"], "failed", "{told:#}");
    assert_eq!(told["failure"], "agent:robbo: no model", "{told:#}");
    let long = send(&bench, "robbo", json!("long"));
    wait_state(&bench, "robbo", "busy");
    control(&bench, "robbo", "interrupt").ok();
    let told = answer(&bench, &long);
    assert_eq!(told["failure"], "agent:robbo was interrupted", "{told:#}");
    assert_eq!(ask(&bench, "robbo", json!("next"))["reply"], "fine");
    let refused = control(&bench, "robbo", "interrupt");
    assert_eq!(refused.refusal(), (409, "agent_state"));
    server.stop();
}

#[test]
fn what_no_agent_takes_is_refused_by_name() {
    let bench = Bench::new();
    declare(&bench, "robbo", "", ECHO);
    let server = bench.serve();
    wait_state(&bench, "robbo", "stopped");
    let refused = bench.post("/api/messages", json!({"to": "agent:robo", "payload": 1}));
    assert_eq!(refused.refusal(), (404, "no_recipient"));
    assert!(refused.body["error"]["hint"].as_str().unwrap().contains("agent:robbo"));
    for (verb, name, wanted) in [
        ("start", "robo", (404, "no_agent")),
        ("stop", "robbo", (409, "agent_state")),
        ("interrupt", "robbo", (409, "agent_state")),
    ] {
        assert_eq!(control(&bench, name, verb).refusal(), wanted, "{verb}");
    }
    // It waits until a person starts it.
    let message = send(&bench, "robbo", json!("later"));
    assert_eq!(delivery(&bench, &message).0, "queued");
    control(&bench, "robbo", "start").ok();
    assert_eq!(answer(&bench, &message)["reply"], "again later");
    assert_eq!(control(&bench, "robbo", "start").refusal(), (409, "agent_state"));
    server.stop();
}

/// An agent writes to another one, which is not answered by itself: else they would thank each
/// other for ever.
#[test]
fn two_agents_do_not_answer_each_other_by_themselves() {
    let bench = Bench::new();
    let script = "while :; do hear; began; echo \"$text\" >> \"$OUT/paula\"; say thanks; done";
    declare(&bench, "paula", "autostart = \"on_message\"", script);
    let script = "while :; do hear; began
wb-agent send agent:paula --payload \"\\\"from robbo\\\"\" > \"$OUT/sent\"
echo \"$text\" >> \"$OUT/robbo\"; say done; done";
    declare(&bench, "robbo", "autostart = \"on_message\"", script);
    let server = bench.serve();
    assert_eq!(ask(&bench, "robbo", json!("tell her"))["reply"], "done");
    let sent = bench.wait_left("sent").trim().to_owned();
    crate::support::until("paula heard it", || {
        delivery(&bench, &sent) == (json!("confirmed"), json!("turn"))
    });
    wait_state(&bench, "paula", "idle");
    let shown = bench.get(&format!("/api/messages/{sent}")).ok();
    assert_eq!(shown["from"], "agent:robbo");
    let listed = bench.get("/api/messages?to=agent:robbo").ok();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{listed:#}");
    server.stop();
}

/// Who runs for long hears of a failure, too.
#[test]
fn a_failure_reaches_the_agent_to_which_the_answer_was_to_go() {
    let bench = Bench::new();
    declare(&bench, "robbo", "autostart = \"always\"", ECHO);
    bench.inbox("t/fails", "timeout = \"20s\"", "exit 3");
    let server = bench.serve();
    wait_state(&bench, "robbo", "idle");
    let body = json!({"to": "topic:t/fails", "payload": 1, "reply_to": "agent:robbo"});
    bench.post("/api/messages", body).ok();
    let told = || bench.get("/api/messages?to=agent:robbo").ok()["items"][0].clone();
    until("it has arrived", || told()["deliveries"][0]["state"] == "confirmed");
    assert_eq!(told()["sort"], "failure");
    server.stop();
}

/// That it was sent stays; what nobody has read stays whole.
#[test]
fn what_old_messages_said_is_given_up_once_it_has_arrived() {
    let bench = Bench::new();
    declare(&bench, "robbo", "autostart = \"on_message\", on_server_loss = \"kill\"", ECHO);
    let server = bench.serve();
    let message = send(&bench, "robbo", json!("old words"));
    assert_eq!(answer(&bench, &message)["reply"], "again old words");
    // Mail of a person waits for as long as they like; what waits for an agent ends in a week.
    let body = json!({"to": "person:ada", "payload": "unread"});
    let unread = bench.post("/api/messages", body).ok()["message_id"].as_str().unwrap().to_owned();
    server.stop();
    let clock = bench.base.join("clock");
    std::fs::write(&clock, (200_i64 * 24 * 3_600_000).to_string()).unwrap();
    let server = bench.serve_with(&[("WB_CLOCK", clock.as_str())]);
    let find = |id: &str| bench.get(&format!("/api/messages/{id}")).ok();
    until("it is given up", || find(&message)["forgotten_at"].is_string());
    let old = find(&message);
    assert_eq!((&old["payload"], &old["thread"]), (&Value::Null, &json!(message)));
    let kept = find(&unread);
    assert_eq!((&kept["payload"], &kept["forgotten_at"]), (&json!("unread"), &Value::Null));
    let again = bench.post("/api/cleanup", json!({"dry_run": true})).ok();
    assert_eq!(again["messages"], 0);
    server.stop();
}

#[test]
fn a_job_sees_nothing_of_what_other_agents_are_told() {
    let bench = Bench::new();
    declare(&bench, "robbo", "autostart = \"on_message\"", ECHO);
    let lends_its_token = "echo \"$WB_TOKEN\" > \"$OUT/t\"; mv \"$OUT/t\" \"$OUT/token\"\n\
        until [ -e \"$OUT/done\" ]; do sleep 0.02; done";
    bench.word_kind("mute", "timeout = \"60s\"", lends_its_token);
    let server = bench.serve();
    assert_eq!(ask(&bench, "robbo", json!("PRIVATE"))["reply"], "again PRIVATE");
    let own = bench.get("/api/agents/robbo/peek").ok();
    assert!(own["output"].as_str().unwrap().contains("PRIVATE"), "{own}");
    bench.job("mute", json!({"word": "x"}));
    let token = bench.wait_left("token");
    let as_job = |path: &str| bench.send(&Call::get(path).token(token.trim()));
    assert_eq!(as_job("/api/agents/robbo/peek").refusal(), (403, "not_granted"));
    let listed = as_job("/api/agents").ok()["items"][0].clone();
    for seen in [as_job("/api/agents/robbo").ok(), listed] {
        assert_eq!((&seen["name"], &seen["state"]), (&json!("robbo"), &json!("idle")));
        for field in ["job_id", "session", "approval_id", "attach", "fact", "waits", "ended"] {
            assert_eq!(seen[field], Value::Null, "{field}");
        }
    }
    assert!(show(&bench, "robbo")["job_id"].is_string(), "a person sees it");
    std::fs::write(bench.out.join("done"), "").unwrap();
    server.stop();
}

/// A turn follows from the messages that the agent was given, and the state of the agent from both.
#[test]
fn a_handler_that_its_own_turns_call_again_comes_to_an_end() {
    for event in ["turn_ended", "turn_started", "agent_changed"] {
        let bench = Bench::new();
        bench.limits("jobs = 2, script_jobs = 60");
        declare(&bench, "robbo", "autostart = \"on_message\"", ECHO);
        bench.lua(&format!(
            r#"wb.on("{event}", function(event)
  if event.kind ~= "agent_changed" or event.data.state == "idle" then
    wb.send {{ to = "agent:robbo", payload = "go on" }}
  end
end)
"#
        ));
        let server = bench.serve();
        send(&bench, "robbo", json!("hello"));
        until("a message is refused", || server.log().contains("failed for event"));
        let log = server.log();
        let refused = log.lines().find(|it| it.contains("failed for event")).unwrap();
        assert!(refused.contains("5 jobs and messages of the script led to one"), "{refused}");
        if event == "turn_ended" {
            assert_eq!(bench.left("heard").lines().count(), 6);
            // A person begins anew.
            send(&bench, "robbo", json!("more"));
            until("five follow again", || bench.left("heard").lines().count() == 12);
        }
        server.stop();
    }
}
