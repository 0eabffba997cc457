//! Answers of a model with a key: the loop, its faults and its bounds.

use serde_json::{Value, json};

use super::{Live, ask, ended, history, items, keyed, replay, text_of, token};
use crate::support::{Bench, KEY, Model, until, wait_for};

fn types(items: &[Value]) -> Vec<&str> {
    let all = items.iter().map(|it| it["type"].as_str().unwrap());
    all.filter(|it| *it != "usage").collect()
}

fn script(steps: Value) -> Value {
    json!({"message": format!("script {steps}")})
}

/// Returns what a model was sent as the result of its last call.
fn last_result(model: &Model) -> (String, bool) {
    let asked = model.asked();
    let messages = asked.last().unwrap()["messages"].as_array().unwrap();
    let mut results = messages.iter().flat_map(|it| it["content"].as_array().unwrap());
    let last = results.rfind(|it| it["type"] == "tool_result").unwrap();
    (last["content"][0]["text"].as_str().unwrap().to_owned(), last["is_error"] == true)
}

#[test]
fn a_key_answers_and_says_what_it_cost() {
    let bench = Bench::new();
    let model = keyed(&bench, "");
    let server = bench.serve();
    let items = ask(&bench, json!({"message": "hello"}));
    assert_eq!(text_of(&items), "Hello **you**");
    assert_eq!(
        (&items[0]["mode"], &items[0]["model"]),
        (&json!("anthropic_api_key"), &json!("m-1"))
    );
    let usage = items.iter().find(|it| it["type"] == "usage").unwrap();
    assert_eq!((&usage["input"], &usage["output"]), (&json!(12), &json!(3)));
    assert_eq!(usage["cost_usd"], json!(0.000_081));
    let (run, session) = (items[0]["run_id"].as_str().unwrap(), &items[0]["session_id"]);
    assert_eq!(replay(&bench, run), items, "what was seen can be read again");
    let job = bench.show(run);
    assert_eq!((&job["status"], &job["engine"]), (&json!("succeeded"), &json!("sonnet")));
    assert_eq!((&job["cost_usd"], &job["usage"]["output_tokens"]), (&json!(0.000_081), &json!(3)));
    // The next question is asked with what was said before it.
    ask(&bench, json!({"session_id": session, "message": "again"}));
    let asked = model.asked();
    let last = &asked[1];
    let said: Vec<(&Value, &Value)> = last["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (&it["role"], &it["content"][0]["text"]))
        .collect();
    assert_eq!(
        said,
        [
            (&json!("user"), &json!("hello")),
            (&json!("assistant"), &json!("Hello **you**")),
            (&json!("user"), &json!("again")),
        ]
    );
    assert_eq!((&last["model"], &last["stream"]), (&json!("m-1"), &json!(true)));
    assert!(last["system"][0]["text"].as_str().unwrap().contains("You are the assistant of"));
    let tools = last["tools"].as_array().unwrap();
    assert!(tools.iter().any(|it| it["name"] == "read_file" && it["input_schema"].is_object()));
    let shown = history(&bench, session.as_str().unwrap());
    assert_eq!(shown["messages"].as_array().unwrap().len(), 4);
    server.stop();
}

/// The key is nowhere but in the request.
#[test]
fn the_key_stands_in_no_file_and_no_answer() {
    let bench = Bench::new();
    let _model = keyed(&bench, "");
    let server = bench.serve();
    let items = ask(&bench, json!({"message": "hello"}));
    let wrong = bench.base.join("key");
    std::fs::write(&wrong, "sk-wrong-and-secret").unwrap();
    let refused = ask(&bench, json!({"message": "hello"}));
    let [.., error, _] = refused.as_slice() else { panic!("{refused:?}") };
    assert_eq!(error["code"], "key_invalid");
    assert!(error["message"].as_str().unwrap().contains("[key]"), "{error}");
    std::fs::remove_file(&wrong).unwrap();
    let none = bench.post("/api/agent/chat-stream", json!({"message": "hello"}));
    assert_eq!(none.refusal(), (503, "runtime_unavailable"));
    let health = bench.get("/api/agent/health").ok();
    assert_eq!(health["runtimes"][0]["state"], "key_missing");
    for run in [&items, &refused] {
        let run = run[0]["run_id"].as_str().unwrap();
        for file in bench.data.join("jobs").join(run).read_dir_utf8().unwrap() {
            let text = std::fs::read(file.unwrap().path()).unwrap();
            let text = String::from_utf8_lossy(&text);
            assert!(!text.contains(KEY) && !text.contains("sk-wrong"), "{text}");
        }
    }
    assert!(!server.log().contains(KEY) && !server.log().contains("sk-wrong"));
    server.stop();
    let database = std::fs::read(bench.data.join("wiki.db")).unwrap();
    let holds = |word: &str| database.windows(word.len()).any(|it| it == word.as_bytes());
    assert!(!holds(KEY) && !holds("sk-wrong"));
}

/// Fails with `WB_WITHOUT=visible`.
#[test]
fn what_passes_is_tried_again_and_never_said_twice() {
    let bench = Bench::new();
    let model = keyed(&bench, "limits = { idle = \"5s\" },");
    let server = bench.serve();
    let busy = |status: u64| json!({"status": status, "wait": "0", "times": 2});
    for (fault, resets) in [
        (busy(529), 0),
        (busy(429), 0),
        (busy(500), 0),
        (json!({"error": "overloaded_error", "times": 1}), 1),
        (json!({"close": true, "times": 1}), 1),
        (json!({"hang": true, "times": 1}), 1),
    ] {
        let steps = json!([{"say": ["one ", "two"], "fault": fault}]);
        let items = ask(&bench, script(steps));
        assert_eq!(items.last().unwrap()["reason"], "ok", "{fault}: {items:#?}");
        let count = types(&items).iter().filter(|it| **it == "reset").count();
        assert_eq!(count, resets, "{fault}");
        let session = items[0]["session_id"].as_str().unwrap();
        assert_eq!(history(&bench, session)["messages"][1]["body"], "one two", "{fault}");
    }
    // What was seen twice already is not begun a third time.
    let before = model.asked().len();
    let steps = json!([{"say": ["part"], "fault": {"error": "overloaded_error"}}]);
    let items = ask(&bench, script(steps));
    assert_eq!(model.asked().len() - before, 2);
    assert_eq!(items[items.len() - 2]["code"], "overloaded");
    server.stop();
}

#[test]
fn every_fault_has_one_ending() {
    let bench = Bench::new();
    let model = keyed(&bench, "limits = { output_kib = 1, steps = 3, idle = \"5s\" },");
    let server = bench.serve();
    let call = json!([["list_directory", {}]]);
    for (steps, reason, code, most) in [
        (json!([{"fault": {"status": 401}}]), "error", "key_invalid", 1),
        (json!([{"fault": {"status": 404}}]), "error", "model_not_found", 1),
        (json!([{"fault": {"status": 400}}]), "error", "bad_answer", 1),
        (
            json!([{"fault": {"status": 400, "message": "prompt is too long: 9 > 8"}}]),
            "error",
            "context_full",
            1,
        ),
        (json!([{"fault": {"status": 503, "wait": "0"}}]), "error", "unreachable", 3),
        (json!([{"fault": {"status": 529, "wait": "0"}}]), "error", "overloaded", 3),
        (json!([{"fault": {"status": 302}}]), "error", "bad_answer", 1),
        (json!([{"fault": {"leave": true}}]), "error", "unreachable", 3),
        (json!([{"say": ["x"], "stop": "refusal"}]), "error", "refused", 1),
        (json!([{"say": ["x"], "stop": "max_tokens"}]), "limit", "limit_output", 1),
        (
            json!([{"calls": [["read_file", "{\"pa"]], "stop": "max_tokens"}]),
            "limit",
            "limit_output",
            1,
        ),
        (json!([{"stop": "model_context_window_exceeded"}]), "error", "context_full", 1),
        (json!([{"say": ["x"], "stop": "of_tomorrow"}]), "error", "bad_answer", 1),
        (json!([{"stop": "tool_use"}]), "error", "bad_answer", 1),
        (json!([{}]), "error", "no_output", 1),
        (json!([{"fault": {"huge": 2_000_000}}]), "error", "bad_answer", 1),
        (json!([{"say": ["x".repeat(1025)]}]), "limit", "limit_output", 1),
        (
            json!([{"calls": call}, {"calls": call}, {"calls": call}, {"say": ["never"]}]),
            "limit",
            "limit_steps",
            3,
        ),
    ] {
        let before = model.asked().len();
        let items = ask(&bench, script(steps.clone()));
        let [.., error, done] = items.as_slice() else { panic!("{items:?}") };
        assert_eq!((&done["reason"], &error["code"]), (&json!(reason), &json!(code)), "{steps}");
        assert!(!error["hint"].as_str().unwrap().is_empty(), "{steps}");
        assert_eq!(model.asked().len() - before, most, "{steps}");
        let session = items[0]["session_id"].as_str().unwrap();
        assert_eq!(history(&bench, session)["error"]["code"], code, "{steps}");
        let job = bench.show(items[0]["run_id"].as_str().unwrap());
        assert!(["failed", "succeeded"].contains(&job["status"].as_str().unwrap()), "{job}");
    }
    // What nobody knows changes nothing.
    let odd = json!([{"say": ["fine"], "fault": {"odd": true}}]);
    assert_eq!(text_of(&ask(&bench, script(odd))), "fine");
    let words = "naïve ✓ 𝄞";
    let cut = json!([{"fault": {"bytewise": words}}]);
    assert_eq!(text_of(&ask(&bench, script(cut))), words, "a character may come in pieces");
    let paused = json!([{"say": ["one"], "stop": "pause_turn"}, {"say": ["two"]}]);
    assert_eq!(text_of(&ask(&bench, script(paused))), "onetwo");
    server.stop();
}

#[test]
fn a_limit_of_the_provider_holds_the_engine_for_everybody() {
    let bench = Bench::new();
    let model = keyed(&bench, "");
    let server = bench.serve();
    let steps = json!([{"fault": {"status": 429, "wait": "3600", "times": 1}}]);
    let items = ask(&bench, script(steps));
    assert_eq!(items[items.len() - 2]["code"], "rate_limited");
    assert_eq!(model.asked().len(), 1, "an hour is not waited for");
    let job = bench.show(items[0]["run_id"].as_str().unwrap());
    assert_eq!(job["reason"], "rate_limited");
    let health = bench.get("/api/agent/health").ok();
    assert_eq!(health["runtimes"][0]["state"], "held");
    let bea = super::person(&bench, "bea");
    let call = crate::support::Call::post("/api/agent/chat-stream", json!({"message": "hello"}));
    let refused = bench.send(&call.token(&bea));
    assert_eq!(refused.refusal(), (503, "runtime_unavailable"), "{refused:?}");
    let (code, _, err) = bench.cli(&["engine", "release", "sonnet"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(text_of(&ask(&bench, json!({"message": "hello"}))), "Hello **you**");
    server.stop();
}

#[test]
fn money_is_a_bound_too() {
    let bench = Bench::new();
    let _model = keyed(&bench, "limits = { cost_usd = 0.0001 },");
    let server = bench.serve();
    let call = json!([["list_directory", {}]]);
    let steps = json!([{"calls": call}, {"calls": call}, {"say": ["never"]}]);
    let items = ask(&bench, script(steps));
    let [.., error, done] = items.as_slice() else { panic!("{items:?}") };
    assert_eq!((&done["reason"], &error["code"]), (&json!("limit"), &json!("limit_money")));
    let made = items.iter().filter(|it| it["type"] == "tool_result").count();
    assert_eq!(made, 1, "{items:#?}");
    server.stop();
}

#[test]
fn calls_of_one_step_are_made_in_their_order_and_told_together() {
    let bench = Bench::new();
    let model = keyed(&bench, "");
    let server = bench.serve();
    let steps = json!([
        {"think": "hm", "say": ["I write."], "calls": [
            ["write_file", {"path": "a.md", "content": "one\n"}],
            ["edit_file", {"path": "a.md", "old": "one", "new": "two"}],
            ["read_file", {"path": "a.md"}], ["list_directory", {}],
            ["read_file", "{\"path\": no"], ["bash", {"command": "id"}],
        ]},
        {"say": ["Done."]},
    ]);
    let items = ask(&bench, script(steps));
    assert_eq!(items.last().unwrap()["reason"], "ok", "{items:#?}");
    let asked = model.asked();
    let last = asked[1]["messages"].as_array().unwrap();
    let [_, said, told] = last.as_slice() else { panic!("{last:?}") };
    assert_eq!(
        said["content"][0],
        json!({"type": "thinking", "thinking": "hm", "signature": "c2ln"})
    );
    let results: Vec<(&str, bool)> = told["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["content"][0]["text"].as_str().unwrap(), it["is_error"] == true))
        .collect();
    assert_eq!(results.len(), 6);
    assert_eq!(results[2], ("two\n", false));
    assert!(results[4].1 && results[4].0.contains("no JSON"), "{results:?}");
    assert!(results[5].1 && results[5].0.contains("no tool `bash`"), "{results:?}");
    // The same conversation later: the calls go back as they came.
    let session = items[0]["session_id"].as_str().unwrap();
    let shown = history(&bench, session);
    let bodies: Vec<&str> = shown["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["body"].as_str().unwrap())
        .collect();
    assert_eq!(bodies[1..], ["I write.", "Done."]);
    assert_eq!(shown["calls"].as_array().unwrap().len(), 4);
    ask(&bench, json!({"session_id": session, "message": "again"}));
    let asked = model.asked();
    let again = asked[2]["messages"].as_array().unwrap();
    assert_eq!((&again[1]["content"], again.len()), (&said["content"], 5));
    assert_eq!(again[2]["content"].as_array().unwrap().len(), 6, "each call has a result");
    server.stop();
}

/// A step without words is no message on the page; the next one has its place among the versions.
#[test]
fn another_answer_is_found_beside_one_that_began_without_words() {
    let bench = Bench::new();
    let _model = keyed(&bench, "");
    let server = bench.serve();
    let call = json!([["list_directory", {}]]);
    let steps = json!([{"calls": call}, {"calls": call}, {"say": ["Seen."]}]);
    let items = ask(&bench, script(steps));
    let session = items[0]["session_id"].as_str().unwrap();
    let question = history(&bench, session)["messages"][0]["id"].clone();
    ask(&bench, json!({"session_id": session, "parent_id": question}));
    let shown = history(&bench, session);
    let messages = shown["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 2, "{messages:#?}");
    let (answer, siblings) = (&messages[1], messages[1]["siblings"].as_array().unwrap());
    assert_eq!((siblings.len(), &answer["parent_id"]), (2, &question));
    assert_eq!(siblings[1], answer["id"]);
    let body = json!({"head_id": siblings[0]});
    bench.post(&format!("/api/agent/sessions/{session}"), body).ok();
    let before = history(&bench, session);
    assert_eq!(before["messages"][1]["body"], "Seen.");
    assert_ne!(before["messages"][1]["id"], answer["id"]);
    assert_eq!(before["messages"][1]["siblings"][0], before["messages"][1]["id"]);
    server.stop();
}

/// The time of a question is the person's, and not that of the answer.
#[test]
fn a_question_waits_longer_than_the_answer_may_take() {
    let bench = Bench::new();
    let model = keyed(&bench, "limits = { run = \"3s\" },");
    let server = bench.serve();
    let token = token(&bench, "ada");
    let steps = json!([{"calls": [["delete_file", {"path": "a.md"}]]}, {"say": ["Gone."]}]);
    let write =
        json!([{"calls": [["write_file", {"path": "a.md", "content": "x"}]]}, {"say": ["k"]}]);
    ask(&bench, script(write));
    let mut live = Live::ask(server.address(), &token, &script(steps));
    let asked = live.until(|it| it["type"] == "confirm_required").unwrap();
    let since = std::time::Instant::now();
    until("the answer could have ended", || since.elapsed().as_secs() >= 4);
    let id = asked["approval_id"].as_str().unwrap();
    bench.post(&format!("/api/approvals/{id}/approve"), json!({"version": 1})).ok();
    assert_eq!(live.until(|it| it["type"] == "done").unwrap()["reason"], "ok");
    assert!(!last_result(&model).1);
    // Without a question the clock runs.
    let items = ask(&bench, json!({"message": "silent"}));
    assert_eq!(items.last().unwrap()["reason"], "timeout");
    model.wait_left();
    server.stop();
}

#[test]
fn a_stopped_answer_leaves_the_provider_at_once() {
    let bench = Bench::new();
    let model = keyed(&bench, "");
    let server = bench.serve();
    let (mut live, session, run) = super::half(&bench, server.address());
    bench.post("/api/agent/stop", json!({"run_id": run})).ok();
    assert_eq!(live.until(|it| it["type"] == "done").unwrap()["reason"], "stopped");
    model.wait_left();
    let shown = history(&bench, &session);
    let message = &shown["messages"][1];
    assert_eq!((&message["state"], &message["body"]), (&json!("stopped"), &json!("half")));
    // What the provider has sent is charged.
    let job = bench.show(&run);
    assert_eq!(
        (&job["usage"]["input_tokens"], &job["usage"]["output_tokens"]),
        (&json!(12), &json!(1))
    );
    assert_eq!(job["cost_usd"], json!(0.000_051));
    assert_eq!(live.seen.iter().filter(|it| it["type"] == "usage").count(), 1);
    let spent = bench.get(&format!("/api/agent/sessions/{session}")).ok();
    assert_eq!((&spent["tokens_in"], &spent["tokens_out"]), (&json!(12), &json!(1)));
    // A question that waits ends too, and is withdrawn.
    let token = token(&bench, "ada");
    let write =
        json!([{"calls": [["write_file", {"path": "a.md", "content": "x"}]]}, {"say": ["k"]}]);
    ask(&bench, script(write));
    let steps = json!([{"calls": [["delete_file", {"path": "a.md"}]]}, {"say": ["never"]}]);
    let mut live = Live::ask(server.address(), &token, &script(steps));
    let asked = live.until(|it| it["type"] == "confirm_required").unwrap();
    let run = live.seen[0]["run_id"].as_str().unwrap().to_owned();
    bench.post("/api/agent/stop", json!({"run_id": run})).ok();
    live.until(|it| it["type"] == "done").unwrap();
    let id = asked["approval_id"].as_str().unwrap();
    let late = bench.post(&format!("/api/approvals/{id}/approve"), json!({"version": 1}));
    assert_eq!(late.status, 409, "{late:?}");
    server.stop();
}

/// Kills the server in the middle, and looks what the next one makes of it.
#[test]
fn a_killed_server_keeps_what_the_model_said() {
    let bench = Bench::new();
    let model = keyed(&bench, "");
    let server = bench.serve();
    let (live, session, run) = super::half(&bench, server.address());
    server.kill();
    model.wait_left();
    let server = bench.serve();
    assert_eq!(ended(&bench, &run)["ended"], "interrupted");
    let again = replay(&bench, &run);
    assert_eq!(again[..live.seen.len()], live.seen, "what was seen is there, unchanged");
    let shown = history(&bench, &session);
    let message = &shown["messages"][1];
    assert_eq!((&message["state"], &message["body"]), (&json!("interrupted"), &json!("half")));
    assert_eq!(bench.show(&run)["reason"], "server_restarted");
    assert_eq!(bench.show(&run)["usage"]["output_tokens"], 1, "what it wrote is estimated");
    ask(&bench, json!({"session_id": session, "message": "again"}));
    server.stop();
}

/// Fails with `WB_WITHOUT=step_first`.
#[test]
fn g43_wherever_it_dies_a_write_is_made_at_most_once() {
    for point in ["after_step", "after_call", "before_tool", "after_tool", "before_settle"] {
        let bench = Bench::new();
        let model = keyed(&bench, "");
        let armed = bench.base.join("armed");
        let env = [("WB_CRASH_AT", point), ("WB_CRASH_WHEN", armed.as_str())];
        let mut server = bench.serve_with(&env);
        let token = token(&bench, "ada");
        std::fs::write(&armed, "").unwrap();
        let steps = json!([
            {"say": ["I write."], "calls": [["write_file", {"path": "a.md", "content": "x\n"}]]},
            {"say": ["Done."]},
        ]);
        let mut live = Live::ask(server.address(), &token, &script(steps));
        live.until(|it| it["type"] == "done");
        server.wait();
        let server = bench.serve();
        let session = live.seen[0]["session_id"].as_str().unwrap();
        let run = live.seen[0]["run_id"].as_str().unwrap();
        assert_eq!(ended(&bench, run)["state"], "ended", "{point}");
        let again = replay(&bench, run);
        let seen: Vec<&Value> = live.seen.iter().filter(|it| it["type"] != "done").collect();
        assert_eq!(again.iter().take(seen.len()).collect::<Vec<_>>(), seen, "{point}");
        // The step is a message although nothing else of it was written down.
        let before = model.asked().len();
        ask(&bench, json!({"session_id": session, "message": "again"}));
        let asked = model.asked();
        assert_eq!(asked.len(), before + 1, "{point}: nothing is asked again by itself");
        let messages = asked.last().unwrap()["messages"].to_string();
        assert!(messages.contains("tool_use") && messages.contains("tool_result"), "{point}");
        server.stop();
    }
}

/// An orderly stop drops the model and says that the answer was interrupted.
#[test]
fn a_server_that_stops_leaves_the_provider() {
    let bench = Bench::new();
    let model = keyed(&bench, "");
    let server = bench.serve();
    let (_, _, run) = super::half(&bench, server.address());
    server.stop();
    model.wait_left();
    let server = bench.serve();
    assert_eq!(ended(&bench, &run)["ended"], "interrupted");
    server.stop();
}

/// Fails with `WB_WITHOUT=own_rows`.
#[test]
fn another_person_sees_nothing_of_it() {
    let bench = Bench::new();
    let model = keyed(&bench, "");
    let server = bench.serve();
    let bea = super::person(&bench, "bea");
    let secret = script(json!([{"calls": [["write_file", {"path": "s.md", "content": "x"}]]},
        {"say": ["quiet words"]}]));
    let of_ada = ask(&bench, secret);
    let run = of_ada[0]["run_id"].as_str().unwrap();
    let call = |target: &str| crate::support::Call::get(target).token(&bea);
    let session = of_ada[0]["session_id"].as_str().unwrap();
    for target in [
        format!("/api/agent/runs/{run}"),
        format!("/api/agent/runs/{run}/events"),
        format!("/api/agent/session/history?session_id={session}"),
        format!("/api/agent/jobs/{run}"),
    ] {
        assert_eq!(bench.send(&call(&target)).status, 404, "{target}");
    }
    let post = crate::support::Call::post("/api/agent/chat-stream", json!({"message": "hello"}));
    items(&bench.send(&post.token(&bea)));
    let last = model.asked().last().unwrap().to_string();
    assert!(!last.contains("quiet words") && last.contains("assistant of bea"), "{last}");
    let vaults = bench.data.join("vaults").read_dir_utf8().unwrap().count();
    wait_for("there is a vault of hers too", || (vaults >= 1).then_some(()));
    server.stop();
}

#[test]
fn a_person_chooses_a_mode_in_the_terminal() {
    let bench = Bench::new();
    let _model = super::both(&bench);
    let server = bench.serve();
    let config = bench.get("/api/agent/config").ok();
    assert_eq!(config["mode"], "anthropic_api_key");
    let modes: Vec<&Value> =
        config["modes"].as_array().unwrap().iter().map(|it| &it["mode"]).collect();
    assert_eq!(modes, [&json!("anthropic_api_key"), &json!("claude_code")]);
    for mode in ["anthropic_api_key", "claude_code"] {
        let (code, out, err) = bench.cli(&["ask", "--mode", mode, "hello"]);
        assert_eq!((code, out.as_str()), (0, "Hello **you**\n"), "{mode}: {err}");
    }
    server.stop();
}
