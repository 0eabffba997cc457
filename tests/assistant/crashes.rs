//! `kill -9` of the server while it answers: what a reader saw can be read again, and every stream
//! has one end.

use serde_json::{Value, json};

use super::{Live, ask, assistant, both, ended, half, history, replay, text_of, token};
use crate::support::{Bench, until};

#[test]
fn g42_a_killed_server_keeps_what_was_said_and_says_the_truth() {
    let bench = Bench::new();
    assistant(&bench, "");
    let server = bench.serve();
    let (mut live, session, run) = half(&bench, server.address());
    let pid = bench.wait_left("pid");
    server.kill();
    assert!(live.until(|it| it["type"] == "done").is_none(), "the stream broke off");
    until("its program is gone", || !std::path::Path::new(&format!("/proc/{pid}")).exists());
    let server = bench.serve();
    assert_eq!(ended(&bench, &run)["ended"], "interrupted");
    let items = replay(&bench, &run);
    assert_eq!(items[..live.seen.len()], live.seen, "what was seen is there, unchanged");
    let [.., error, done] = items.as_slice() else { panic!("{items:?}") };
    assert_eq!((&error["code"], &done["reason"]), (&json!("interrupted"), &json!("interrupted")));
    let shown = history(&bench, &session);
    let message = &shown["messages"][1];
    assert_eq!((&message["state"], &message["body"]), (&json!("interrupted"), &json!("half")));
    assert_eq!(done["message_id"], message["id"]);
    assert_eq!(shown["error"]["code"], "interrupted");
    // The question can be answered again, as another branch.
    std::fs::write(bench.out.join("go"), "").unwrap();
    let question = &shown["messages"][0]["id"];
    let again = ask(&bench, json!({"session_id": session, "parent_id": question}));
    assert_eq!(text_of(&again), "half whole");
    let shown = history(&bench, &session);
    assert_eq!(shown["messages"][1]["siblings"].as_array().unwrap().len(), 2);
    server.stop();
}

/// Nothing is shown that could not be read again: a disk that takes no more ends the answer.
#[test]
fn g42_what_cannot_be_written_is_not_shown() {
    let modes: [fn(&Bench); 2] = [
        |bench| assistant(bench, ""),
        |bench| {
            both(bench);
        },
    ];
    for declare in modes {
        let bench = Bench::new();
        declare(&bench);
        let full = bench.base.join("full");
        let env = [("WB_FAIL_AT", "chat_write"), ("WB_CRASH_WHEN", full.as_str())];
        let server = bench.serve_with(&env);
        let (mut live, session, run) = half(&bench, server.address());
        std::fs::write(&full, "").unwrap();
        std::fs::write(bench.out.join("go"), "").unwrap();
        let done = live.until(|it| it["type"] == "done").unwrap();
        assert_eq!(done["reason"], "error", "{:#?}", live.seen);
        let error = &live.seen[live.seen.len() - 2];
        assert_eq!(
            (&error["code"], &error["message"]),
            (&json!("disk_full"), &json!("the disk is full"))
        );
        assert_eq!(text_of(&live.seen), "half ");
        assert_eq!(replay(&bench, &run), live.seen);
        let shown = history(&bench, &session);
        let message = &shown["messages"][1];
        assert_eq!((&message["state"], &message["body"]), (&json!("failed"), &json!("half")));
        // There is room again.
        std::fs::remove_file(&full).unwrap();
        let next = ask(&bench, json!({"session_id": session, "message": "again"}));
        assert_eq!(text_of(&next), "again");
        server.stop();
    }
}

/// At each of these points the server dies; the next one makes the same of it for every reader.
#[test]
fn g42_wherever_it_dies_a_run_has_one_end() {
    for (point, question, reasons) in [
        // The queue may have been faster than the death.
        ("before_answer", "hello", &["ok", "interrupted"][..]),
        ("after_claim", "hello", &["interrupted"]),
        ("after_prepare", "hello", &["interrupted"]),
        ("chat_item", "half", &["interrupted"]),
        ("before_settle", "hello", &["ok"]),
        ("after_settle", "hello", &["ok"]),
    ] {
        let bench = Bench::new();
        assistant(&bench, "");
        let armed = bench.base.join("armed");
        let env = [("WB_CRASH_AT", point), ("WB_CRASH_WHEN", armed.as_str())];
        let mut server = bench.serve_with(&env);
        let (address, token) = (server.address(), token(&bench, "ada"));
        std::fs::write(&armed, "").unwrap();
        let mut live = Live::ask(address, &token, &json!({"message": question}));
        live.until(|it| it["type"] == "done");
        server.wait();
        let server = bench.serve();
        let listed = bench.get("/api/agent/sessions").ok();
        assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{point}: {listed}");
        let session = listed["items"][0]["session_id"].as_str().unwrap();
        let run = run_of(&bench);
        let shown = ended(&bench, &run);
        let reason = shown["ended"].as_str().unwrap();
        assert!(reasons.contains(&reason), "{point}: {shown}");
        let items = replay(&bench, &run);
        assert_eq!(replay(&bench, &run), items, "{point}");
        let seen: Vec<Value> = live.seen.into_iter().filter(|it| it["type"] != "done").collect();
        assert_eq!(items[..seen.len()], seen, "{point}");
        let shown = history(&bench, session);
        assert_eq!(shown["active_run"], json!(null), "{point}");
        if reason == "ok" {
            assert_eq!(shown["messages"][1]["body"], "Hello **you**", "{point}");
        }
        ask(&bench, json!({"session_id": session, "message": "again"}));
        server.stop();
    }
}

/// Returns the one run that there is.
fn run_of(bench: &Bench) -> String {
    let listed = bench.get("/api/agent/jobs").ok();
    listed["items"][0]["id"].as_str().unwrap().to_owned()
}

/// An orderly stop gives the answer the grace, and says then that it was interrupted.
#[test]
fn a_server_that_stops_interrupts_its_answers() {
    let bench = Bench::new();
    assistant(&bench, "");
    let server = bench.serve();
    let (mut live, _, run) = half(&bench, server.address());
    server.stop();
    live.until(|it| it["type"] == "done");
    let server = bench.serve();
    assert_eq!(ended(&bench, &run)["ended"], "interrupted");
    let items = replay(&bench, &run);
    assert_eq!(items[..2], live.seen[..2]);
    server.stop();
}
