//! How runs end: each ending has its words in the stream, in the history and in the job.

use serde_json::json;

use super::{ask, assistant, ended, half, history, items, keyed, replay, text_of};
use crate::support::{Bench, until};

#[test]
fn every_ending_says_what_it_is() {
    let bench = Bench::new();
    assistant(&bench, "limits = { output_kib = 1 },");
    let server = bench.serve();
    for (question, reason, code, text) in [
        ("nothing", "error", "no_output", ""),
        ("refused", "error", "auth_invalid", ""),
        ("crashed", "error", "internal", "part"),
        ("tools", "error", "bad_answer", ""),
        ("noisy", "limit", "limit_output", "word word"),
        // The last one: its mode is closed until the limit resets.
        ("limited", "error", "overloaded", "part"),
    ] {
        let items = ask(&bench, json!({"message": question}));
        let [.., error, done] = items.as_slice() else { panic!("{items:?}") };
        assert_eq!((&done["reason"], &error["code"]), (&json!(reason), &json!(code)), "{question}");
        assert!(!error["hint"].as_str().unwrap().is_empty() && !error["message"].is_null());
        assert!(text_of(&items).starts_with(text), "{question}: {}", text_of(&items));
        let shown = history(&bench, items[0]["session_id"].as_str().unwrap());
        assert_eq!(shown["error"]["code"], code, "{question}");
        assert_eq!(shown["active_run"], json!(null));
        let messages = shown["messages"].as_array().unwrap();
        match text {
            "" => assert_eq!((messages.len(), &done["message_id"]), (1, &json!(null))),
            _ => assert_eq!(messages[1]["state"], "failed"),
        }
    }
    server.stop();
}

#[test]
fn a_run_that_takes_too_long_ends_by_its_time() {
    let bench = Bench::new();
    assistant(&bench, "limits = { run = \"5s\" },");
    let server = bench.serve();
    let items = ask(&bench, json!({"message": "silent"}));
    let [.., error, done] = items.as_slice() else { panic!("{items:?}") };
    assert_eq!((&done["reason"], &error["code"]), (&json!("timeout"), &json!("timeout")));
    assert_eq!(text_of(&items), "so far");
    server.stop();
}

/// Fails with `WB_WITHOUT=session_lane`.
#[test]
fn a_person_stops_an_answer_and_keeps_what_was_said() {
    let bench = Bench::new();
    assistant(&bench, "");
    let server = bench.serve();
    let (mut live, session, run) = half(&bench, server.address());
    let busy =
        bench.post("/api/agent/chat-stream", json!({"session_id": session, "message": "hello"}));
    assert_eq!(busy.refusal(), (409, "session_busy"));
    assert!(busy.body["error"]["hint"].as_str().unwrap().contains(&run), "{busy:?}");
    let target = format!("/api/agent/sessions/{session}");
    let delete = crate::support::Call::new("DELETE", &target).token(&bench.operator());
    assert_eq!(bench.send(&delete).refusal(), (409, "session_busy"));
    assert_eq!(bench.get(&target).ok()["active_run"], json!(run));
    let pid: i32 = bench.wait_left("pid").parse().unwrap();
    bench.post("/api/agent/stop", json!({"run_id": run})).ok();
    let done = live.until(|it| it["type"] == "done").unwrap();
    assert_eq!(done["reason"], "stopped");
    until("its program is gone", || !std::path::Path::new(&format!("/proc/{pid}")).exists());
    assert_eq!(replay(&bench, &run), live.seen);
    let shown = history(&bench, &session);
    assert_eq!(
        (&shown["messages"][1]["state"], &shown["messages"][1]["body"]),
        (&json!("stopped"), &json!("half"))
    );
    let again = bench.post("/api/agent/stop", json!({"run_id": run}));
    assert_eq!(again.refusal(), (409, "run_ended"));
    server.stop();
}

/// Whoever leaves stops nothing.
#[test]
fn an_answer_goes_on_when_its_reader_has_left() {
    let bench = Bench::new();
    assistant(&bench, "");
    let server = bench.serve();
    let (live, session, run) = half(&bench, server.address());
    drop(live);
    std::fs::write(bench.out.join("go"), "").unwrap();
    assert_eq!(ended(&bench, &run)["ended"], "ok");
    assert_eq!(text_of(&replay(&bench, &run)), "half whole");
    assert_eq!(history(&bench, &session)["messages"][1]["body"], "half whole");
    server.stop();
}

#[test]
fn an_answer_that_waits_for_its_turn_can_be_stopped() {
    let bench = Bench::new();
    assistant(&bench, "limits = { running = 1 },");
    let server = bench.serve();
    let (live, _, run) = half(&bench, server.address());
    let token = super::token(&bench, "ada");
    let mut second = super::Live::ask(server.address(), &token, &json!({"message": "hello"}));
    let start = second.until(|it| it["type"] == "start").unwrap();
    let waiting = start["run_id"].as_str().unwrap();
    let shown = bench.get(&format!("/api/agent/runs/{waiting}")).ok();
    assert_eq!(shown["state"], "waiting");
    let stopped = bench.post("/api/agent/stop", json!({"run_id": waiting})).ok();
    assert_eq!(stopped["state"], "stopped");
    assert_eq!(second.until(|it| it["type"] == "done").unwrap()["reason"], "stopped");
    super::assert_whole(&second.seen);
    // In the same conversation one can ask at once.
    let session = start["session_id"].clone();
    std::fs::write(bench.out.join("go"), "").unwrap();
    ended(&bench, &run);
    ask(&bench, json!({"session_id": session, "message": "hello"}));
    drop(live);
    server.stop();
}

#[test]
fn a_deleted_conversation_leaves_nothing() {
    let bench = Bench::new();
    assistant(&bench, "");
    let server = bench.serve();
    let items = ask(&bench, json!({"message": "hello"}));
    let of = |name: &str| items[0][name].as_str().unwrap().to_owned();
    let (session, run) = (of("session_id"), of("run_id"));
    let cwd = bench.left("cwd");
    bench.post("/api/agent/session/clear", json!({"session_id": session})).ok();
    assert_eq!(history(&bench, &session)["messages"], json!([]));
    assert_eq!(bench.get(&format!("/api/agent/runs/{run}")).refusal(), (404, "no_run"));
    ask(&bench, json!({"session_id": session, "message": "hello"}));
    let target = format!("/api/agent/sessions/{session}");
    bench.send(&crate::support::Call::new("DELETE", &target).token(&bench.operator())).ok();
    assert_eq!(bench.get(&target).refusal(), (404, "no_session"));
    assert_eq!(bench.get("/api/agent/sessions").ok()["items"], json!([]));
    assert!(!bench.data.join("jobs").join(&run).exists() && !std::path::Path::new(&cwd).exists());
    let job = bench.show(&run);
    assert_eq!((&job["summary"], &job["error_tail"]), (&json!(null), &json!(null)));
    server.stop();
}

/// Whatever ended a run: `error` unless it ended well, then `done`, each once, after items without
/// gaps; the same for a reader who comes back from any item.
#[test]
fn every_ending_is_told_once_and_to_every_reader() {
    const CODES: [(&str, &str); 25] = [
        ("ok", ""),
        ("stopped", "stopped"),
        ("timeout", "timeout"),
        ("timeout", "stalled"),
        ("limit", "limit_output"),
        ("limit", "limit_steps"),
        ("limit", "limit_money"),
        ("error", "key_missing"),
        ("error", "key_invalid"),
        ("error", "auth_invalid"),
        ("error", "rate_limited"),
        ("error", "held"),
        ("error", "overloaded"),
        ("error", "unreachable"),
        ("error", "gateway_down"),
        ("error", "refused"),
        ("error", "context_full"),
        ("error", "model_not_found"),
        ("error", "no_output"),
        ("error", "bad_answer"),
        ("error", "internal"),
        ("error", ""),
        ("error", "of_tomorrow"),
        ("interrupted", "interrupted"),
        ("interrupted", ""),
    ];
    let bench = Bench::new();
    let _model = keyed(&bench, "");
    let server = bench.serve();
    let runs: Vec<String> = CODES
        .iter()
        .map(|_| ask(&bench, json!({"message": "hello"}))[0]["run_id"].as_str().unwrap().to_owned())
        .collect();
    server.stop();
    for (run, (end, code)) in runs.iter().zip(CODES) {
        let set = format!("ended = '{end}', error_code = NULLIF('{code}', ''), error_text = NULL");
        bench.sql(&format!("UPDATE chat_runs SET {set} WHERE job_id = '{run}'"));
    }
    let server = bench.serve();
    for (run, (end, code)) in runs.iter().zip(CODES) {
        let told = replay(&bench, run);
        assert_eq!(told.last().unwrap()["reason"], end, "{code}");
        if end != "ok" {
            let error = &told[told.len() - 2];
            assert_eq!(error["code"], if code.is_empty() { "internal" } else { code }, "{end}");
            let is_said = |name: &str| error[name].as_str().is_some_and(|it| !it.is_empty());
            assert!(is_said("message") && is_said("hint"), "{error}");
        }
        for after in 0..=told.len() {
            for follow in ["true", "false"] {
                let target = format!("/api/agent/runs/{run}/events?after={after}&follow={follow}");
                assert_eq!(items(&bench.get(&target)), told[after..], "{code} after {after}");
            }
        }
    }
    server.stop();
}

/// A long stream is read in pieces: whoever comes back near its end gets the rest, and the end.
#[test]
fn a_reader_comes_back_to_the_end_of_a_long_stream() {
    const ITEMS: u64 = 5_000;
    let bench = Bench::new();
    let _model = keyed(&bench, "");
    let server = bench.serve();
    let told = ask(&bench, json!({"message": "hello"}));
    let run = told[0]["run_id"].as_str().unwrap();
    let path = bench.data.join("jobs").join(run).join("chat.ndjson");
    let mut text = format!("{}\n", told[0]);
    for seq in 2..=ITEMS {
        let delta = "word ".repeat(20);
        let item = json!({"type": "text", "seq": seq, "run_id": run, "step": 1, "delta": delta});
        text += &format!("{item}\n");
    }
    assert!(text.len() > 2 * 256 * 1024, "it has more than one piece");
    std::fs::write(&path, text).unwrap();
    for follow in ["true", "false"] {
        let after = ITEMS - 10;
        let target = format!("/api/agent/runs/{run}/events?after={after}&follow={follow}");
        let rest = items(&bench.get(&target));
        let numbers: Vec<u64> = rest.iter().map(|it| it["seq"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (after + 1..=ITEMS + 1).collect::<Vec<_>>(), "{follow}");
        assert_eq!(rest.last().unwrap()["type"], "done", "{follow}");
    }
    server.stop();
}
