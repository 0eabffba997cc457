//! What the page of a conversation offers: what an answer took, a way on after a failure, and which
//! conversations wait for their person.

use serde_json::{Value, json};

use super::{Live, ask, assistant, both, ended, history, keyed, token};
use crate::support::{Bench, Call};

fn page(bench: &Bench, session: &str) -> String {
    bench.get(&format!("/assistant/{session}")).ok().as_str().unwrap().to_owned()
}

fn id(item: &Value, name: &str) -> String {
    item[name].as_str().unwrap().to_owned()
}

/// Sends a form of the page; returns the newest run of the conversation, once it has ended.
fn send(bench: &Bench, session: &str, fields: &str) -> Value {
    let form = format!("key=k{}&session={session}&{fields}", fields.len());
    let answer = bench.send(&Call::form("/assistant", &form).token(&bench.operator()));
    assert_eq!(answer.status, 303, "{answer:?}");
    let shown = crate::support::wait_for("the answer is there", || {
        let shown = history(bench, session);
        let last = shown["messages"].as_array().unwrap().last().unwrap().clone();
        (shown["active_run"].is_null() && last["role"] == "assistant").then_some(last)
    });
    ended(bench, shown["run_id"].as_str().unwrap())
}

#[test]
fn an_answer_says_what_it_took() {
    let bench = Bench::new();
    assistant(&bench, "");
    let server = bench.serve();
    let items = ask(&bench, json!({"message": "hello"}));
    let session = id(&items[0], "session_id");
    ask(&bench, json!({"session_id": session, "message": "again"}));
    let shown = history(&bench, &session);
    let spent = json!({"tokens_in": 12, "tokens_out": 3, "cost_usd": 0.25});
    let found: Vec<&Value> =
        shown["messages"].as_array().unwrap().iter().map(|it| &it["spent"]).collect();
    assert_eq!(found, [&Value::Null, &spent, &Value::Null, &spent]);
    let shown = page(&bench, &session);
    assert_eq!(shown.matches("15 tokens · $0.25").count(), 2, "{shown}");
    assert!(shown.contains("30 tokens · $0.50"), "the whole conversation: {shown}");
    server.stop();
}

#[test]
fn an_answer_that_was_cut_goes_on_where_it_stopped() {
    let bench = Bench::new();
    let model = keyed(&bench, "");
    let server = bench.serve();
    let cut = json!([{"say": ["The beginning"], "stop": "max_tokens"}]);
    let items = ask(&bench, json!({"message": format!("script {cut}")}));
    assert_eq!(items[items.len() - 2]["code"], "limit_output");
    let session = id(&items[0], "session_id");
    let shown = page(&bench, &session);
    assert!(shown.contains(">Continue</button>"), "{shown}");
    assert!(shown.contains("name=\"message\" value=\"Continue where you stopped.\""), "{shown}");
    let run = send(&bench, &session, "message=Continue+where+you+stopped.");
    assert_eq!(run["ended"], "ok", "{run}");
    let bodies: Vec<String> = history(&bench, &session)["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["body"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(bodies[1..3], ["The beginning", "Continue where you stopped."], "{bodies:?}");
    let asked = model.asked();
    let last = asked.last().unwrap()["messages"].to_string();
    assert!(last.contains("The beginning"), "the model sees what it wrote: {last}");
    assert!(!page(&bench, &session).contains(">Continue</button>"));
    server.stop();
}

#[test]
fn the_sites_key_answers_instead_where_a_sign_in_failed() {
    let bench = Bench::new();
    let _model = both(&bench);
    let server = bench.serve();
    bench.post("/api/agent/config", json!({"mode": "claude_code"})).ok();
    let items = ask(&bench, json!({"message": "not signed in"}));
    assert_eq!(items[items.len() - 2]["code"], "auth_invalid", "{items:#?}");
    let session = id(&items[0], "session_id");
    let shown = page(&bench, &session);
    assert!(shown.contains("Use the API key instead"), "{shown}");
    let question = id(&history(&bench, &session)["messages"][0], "id");
    let run = send(&bench, &session, &format!("parent={question}&mode=anthropic_api_key"));
    assert_eq!((&run["mode"], &run["ended"]), (&json!("anthropic_api_key"), &json!("ok")));
    // What the person chose stays chosen.
    assert_eq!(bench.get("/api/agent/config").ok()["mode"], "claude_code");
    // Another failure has nothing to do with who pays.
    let items = ask(&bench, json!({"message": "crashed"}));
    let shown = page(&bench, &id(&items[0], "session_id"));
    assert!(shown.contains("Try again") && !shown.contains("Use the API key"), "{shown}");
    // The ways on are those of the mode that failed, whichever is chosen.
    bench.post("/api/agent/config", json!({"mode": "anthropic_api_key"})).ok();
    let items = ask(&bench, json!({"message": "not signed in", "mode": "claude_code"}));
    let session = id(&items[0], "session_id");
    assert_eq!(history(&bench, &session)["error_mode"], "claude_code");
    let shown = page(&bench, &session);
    assert!(shown.contains("Use the API key instead"), "{shown}");
    assert!(shown.contains("href=\"/claude\">Sign in again"), "{shown}");
    // Accounts of other modes can be reached, too, in a conversation and in the settings.
    for target in ["/assistant", "/assistant/settings", &format!("/assistant/{session}")] {
        let shown = bench.get(target).ok();
        let shown = shown.as_str().unwrap();
        assert!(shown.contains("href=\"/claude\">Your sign-in to Claude"), "{target}");
        assert!(!shown.contains("/subscription"), "{target}");
    }
    server.stop();
}

#[test]
fn the_list_says_which_conversation_waits_for_its_person() {
    let bench = Bench::new();
    assistant(&bench, "");
    let server = bench.serve();
    ask(&bench, json!({"message": "call write_file {\"path\":\"a.md\",\"content\":\"x\"}"}));
    let token = token(&bench, "ada");
    let body = json!({"message": "call delete_file {\"path\":\"a.md\"}"});
    let mut live = Live::ask(server.address(), &token, &body);
    let asked = live.until(|it| it["type"] == "confirm_required").unwrap();
    let session = id(&live.seen[0], "session_id");
    let waiting = || {
        let listed = bench.get("/api/agent/sessions").ok();
        let items = listed["items"].as_array().unwrap().clone();
        items.iter().map(|it| it["questions"].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!(waiting(), 1);
    assert!(page(&bench, &session).contains("1 question waits"));
    let (code, out, _) = bench.cli(&["chat", "list"]);
    assert!(code == 0 && out.contains("asks you"), "{out}");
    let approval = id(&asked, "approval_id");
    let version = bench.get(&format!("/api/approvals/{approval}")).ok()["version"].clone();
    let reject = format!("/api/approvals/{approval}/reject");
    bench.post(&reject, json!({"version": version})).ok();
    live.until(|it| it["type"] == "done").unwrap();
    assert_eq!(waiting(), 0);
    assert!(!page(&bench, &session).contains("question waits"));
    server.stop();
}

#[test]
fn an_action_is_run_by_its_address() {
    let bench = Bench::new();
    assistant(&bench, "");
    let server = bench.serve();
    let body = json!({"path": "agent/actions/Hello.md", "text": "hello", "digest": "none"});
    bench.post("/api/agent/vault/text", body).ok();
    let run = |id: &str, body: Value| bench.post(&format!("/api/agent/actions/{id}/run"), body);
    let items = super::items(&run("hello", json!({})));
    assert_eq!(super::text_of(&items), "Hello **you**");
    let shown = bench.get(&format!("/api/agent/runs/{}", id(&items[0], "run_id"))).ok();
    assert_eq!(shown["action"], "hello");
    let other = run("hello", json!({"action_id": "other"}));
    assert_eq!(other.refusal(), (400, "bad_parameter"));
    assert_eq!(run("none", json!({})).refusal(), (404, "no_action"));
    let added = super::items(&run("hello", json!({"message": "more", "action_id": "hello"})));
    let shown = history(&bench, &id(&added[0], "session_id"));
    assert!(shown["messages"][0]["body"].as_str().unwrap().ends_with("more"), "{shown}");
    server.stop();
}
