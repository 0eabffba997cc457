//! Inboxes on the engines that answer requests: `codex app-server` and `pi --mode rpc`, played by
//! shells that say what the real ones were seen to say.

use serde_json::{Value, json};

use crate::mail::turns::{delivery, instance};
use crate::mail::{answer, send};
use crate::support::Bench;

const ALL: [(&str, &str); 2] = [
    ("codex-app-server", include_str!("../data/codex-app-server.sh")),
    ("pi-rpc", include_str!("../data/pi-rpc.sh")),
];

fn declare(bench: &Bench, speaks: &str, script: &str) {
    let file = bench.base.join("agents/talk.sh");
    std::fs::write(&file, script).unwrap();
    let out = &bench.out;
    let resume = match speaks {
        "pi-rpc" => "resume = { \"--session\", \"{{session}}\" },",
        _ => "",
    };
    bench.lua(&format!(
        r#"wb.engine "talk" {{
  type = "stream", command = {{ "/bin/sh", "{file}" }}, speaks = "{speaks}",
  env = {{ OUT = "{out}" }}, {resume}
}}
wb.inbox "t/talk" {{
  about = "A test", engine = "talk", timeout = "2m", after_turn = "1m",
  prompt = "Here is your message.\n{{{{payload}}}}",
}}
"#
    ));
}

fn begin(bench: &Bench, text: &str) -> Value {
    send(bench, "topic:t/talk", json!(text)).ok()["message_id"].clone()
}

/// Each message is a turn; one that the engine does not take now is given again when it can.
#[test]
fn further_messages_are_turns_and_the_verdict_is_the_reply() {
    for (speaks, script) in ALL {
        let bench = Bench::new();
        declare(&bench, speaks, script);
        let server = bench.serve();
        let first = begin(&bench, "hello");
        let (address, job) = instance(&bench, &first);
        // Pi says of `busy` that it works on something else, once.
        let sent: Vec<Value> = ["hold", "more", "busy", "complete", "never"]
            .iter()
            .map(|it| send(&bench, &address, json!(it)).ok()["message_id"].clone())
            .collect();
        std::fs::write(bench.out.join("go"), "").unwrap();
        let told = answer(&bench, first.as_str().unwrap());
        assert_eq!((&told["state"], &told["reply"]), (&json!("replied"), &json!("done")));
        let given = bench.left("given");
        let wanted = match speaks {
            "pi-rpc" => "hello\nhold\nmore\nbusy\nbusy\ncomplete",
            _ => "hello\nhold\nmore\nbusy\ncomplete",
        };
        assert_eq!(given, wanted, "{speaks}");
        let ended = bench.ended(&job);
        assert_eq!((&ended["exit_code"], &ended["warnings"]), (&json!(0), &json!([])), "{ended:#}");
        assert!(ended["usage"]["output_tokens"].as_i64() >= Some(9), "{ended:#}");
        for message in &sent[..4] {
            let (state, proof, _) = delivery(&bench, message);
            assert_eq!((state, proof), (json!("confirmed"), json!("turn")), "{speaks}");
        }
        assert_eq!(delivery(&bench, &sent[4]).0, "dropped");
        // It learns what it is from its first message, not from instructions.
        assert_eq!(bench.left("greeted"), "", "{speaks}");
        bench.quiet();
        server.stop();
    }
}

/// A process that is ended in the middle of a turn tells no sum of it.
#[test]
fn what_a_turn_has_spent_counts_once_if_its_process_is_ended_in_it() {
    for (speaks, script) in ALL {
        let bench = Bench::new();
        declare(&bench, speaks, script);
        let server = bench.serve();
        let begun = || {
            let first = begin(&bench, "spend");
            bench.wait_left("spent");
            instance(&bench, &first).1
        };
        let input = if speaks == "pi-rpc" { 7 + 4 } else { 7 - 2 };
        let spent = |turns: i64| {
            let usage = bench.get("/api/usage?by=engine").ok();
            let mut all = usage["items"].as_array().unwrap().iter();
            let row = all.rfind(|it| it["name"] == "talk").unwrap();
            let counts = (&row["input_tokens"], &row["output_tokens"]);
            assert_eq!(counts, (&json!(turns * input), &json!(turns * 3)), "{speaks}: {row}");
        };
        let job = begun();
        bench.post(&format!("/api/agent/jobs/{job}/cancel"), json!({})).ok();
        let ended = bench.ended(&job);
        assert_eq!(ended["status"], "cancelled", "{ended:#}");
        assert_eq!(ended["usage"]["output_tokens"], 3, "{ended:#}");
        spent(1);
        // The next server reads it all again.
        std::fs::remove_file(bench.out.join("spent")).unwrap();
        let job = begun();
        server.kill();
        let server = bench.serve();
        assert_eq!(bench.ended(&job)["usage"]["output_tokens"], 3);
        spent(2);
        server.stop();
    }
}

/// Pi works for itself when it is given its first message.
#[test]
fn a_first_message_that_is_not_taken_is_given_again() {
    let bench = Bench::new();
    let (speaks, script) = ALL[1];
    declare(&bench, speaks, script);
    let server = bench.serve();
    let first = begin(&bench, "busy");
    let (address, _) = instance(&bench, &first);
    send(&bench, &address, json!("complete")).ok();
    assert_eq!(answer(&bench, first.as_str().unwrap())["reply"], "done");
    assert_eq!(bench.left("given"), "busy\nbusy\ncomplete");
    server.stop();
}

#[test]
fn they_go_on_with_their_session_after_a_decision() {
    for (speaks, script) in ALL {
        let bench = Bench::new();
        declare(&bench, speaks, script);
        let server = bench.serve();
        let message = begin(&bench, "question");
        let asked = bench.wait_left("asked");
        let (_, job) = instance(&bench, &message);
        bench.wait_status(&job, "parked");
        bench.post(&format!("/api/approvals/{asked}/approve"), json!({"version": 1})).ok();
        let told = answer(&bench, message.as_str().unwrap());
        assert_eq!(told["reply"], "decided", "{speaks}: {told:#}");
        let shown = bench.get(&format!("/api/instances/{job}")).ok();
        assert_eq!(shown["legs"].as_array().unwrap().len(), 2, "{shown:#}");
        match speaks {
            "pi-rpc" => {
                let started = bench.left("started");
                let session = bench.out.join("session");
                assert_eq!(started, format!("run \nrun --session {session}"));
            }
            _ => assert_eq!(bench.left("resumed"), "t-1"),
        }
        server.stop();
    }
}

/// Nobody who has forgotten what it was about is told of a decision.
#[test]
fn a_session_that_is_gone_fails_the_instance() {
    for (speaks, script) in ALL {
        let bench = Bench::new();
        declare(&bench, speaks, script);
        let server = bench.serve();
        let message = begin(&bench, "question");
        let asked = bench.wait_left("asked");
        let (_, job) = instance(&bench, &message);
        bench.wait_status(&job, "parked");
        std::fs::write(bench.out.join("forgotten"), "").unwrap();
        bench.post(&format!("/api/approvals/{asked}/approve"), json!({"version": 1})).ok();
        let told = answer(&bench, message.as_str().unwrap());
        assert_eq!(told["state"], "failed", "{speaks}: {told:#}");
        let why = "The engine no longer knows the agent's session. Run it again.";
        assert_eq!(told["failure"], why, "{speaks}");
        let shown = bench.get(&format!("/api/instances/{job}")).ok();
        assert_eq!(shown["reason"], "session_lost", "{shown:#}");
        assert_eq!(bench.left("given"), "question", "{speaks}");
        server.stop();
    }
}
