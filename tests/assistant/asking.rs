//! A question and its answer: the stream, the history, and what the program is given.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::{ask, assistant, history, items, replay, text_of, with_env};
use crate::support::{Bench, Call};

#[test]
fn a_question_is_answered_piece_by_piece_and_kept() {
    let bench = Bench::new();
    assistant(&bench, "");
    let server = bench.serve();
    let items = ask(&bench, json!({"message": "hello"}));
    let types: Vec<&str> = items.iter().map(|it| it["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["start", "text", "text", "usage", "done"]);
    assert_eq!((&items[1]["delta"], &items[2]["delta"]), (&json!("Hel"), &json!("lo **you**")));
    assert_eq!((&items[3]["input"], &items[3]["cost_usd"]), (&json!(12), &json!(0.25)));
    let (run, session) = (items[0]["run_id"].as_str().unwrap(), &items[0]["session_id"]);
    assert_eq!(replay(&bench, run), items, "what was seen can be read again");
    let shown = history(&bench, session.as_str().unwrap());
    let messages = shown["messages"].as_array().unwrap();
    let said = |it: &serde_json::Value| (it["role"].clone(), it["body"].clone());
    assert_eq!(said(&messages[0]), (json!("user"), json!("hello")));
    assert_eq!(said(&messages[1]), (json!("assistant"), json!("Hello **you**")));
    assert_eq!(messages[1]["state"], "whole");
    assert_eq!(shown["head_id"], items[4]["message_id"]);
    let listed = bench.get("/api/agent/sessions").ok();
    assert_eq!(listed["items"][0]["title"], "hello");
    assert_eq!(
        (&listed["items"][0]["tokens_in"], &listed["items"][0]["cost_usd"]),
        (&json!(12), &json!(0.25))
    );
    let job = bench.show(run);
    assert_eq!((&job["status"], &job["pool"]), (&json!("succeeded"), &json!("chat")));
    server.stop();
}

/// The guard sees each piece alone. Fails with `WB_WITHOUT=masking`.
#[test]
fn g28_a_secret_in_pieces_is_covered_in_the_answer() {
    let bench = Bench::new();
    assistant(&bench, "");
    let server = bench.serve();
    let items = ask(&bench, json!({"message": "leak"}));
    let covered = format!("It is {}, I am of", "*".repeat("of the operator".len()));
    assert_eq!(text_of(&items), covered);
    let session = items[0]["session_id"].as_str().unwrap();
    assert_eq!(history(&bench, session)["messages"][1]["body"], covered);
    server.stop();
}

/// The program's own session is gone on with exactly where it stands; else all is told again.
#[test]
fn a_second_question_goes_on_with_the_session_of_the_program() {
    let bench = Bench::new();
    assistant(&bench, "");
    let server = bench.serve();
    let first = ask(&bench, json!({"message": "hello"}));
    let session = first[0]["session_id"].clone();
    assert!(!bench.left("arguments").contains("--resume"));
    ask(&bench, json!({"session_id": session, "message": "again"}));
    assert!(bench.left("arguments").contains("--resume"), "{}", bench.left("arguments"));
    assert_eq!(bench.left("prompt"), "again");
    ask(&bench, json!({"session_id": session, "message": "/help me"}));
    assert_eq!(bench.left("prompt"), "\u{2060}/help me");
    // Beside the first question nothing of that session counts.
    let root = json!({"session_id": session, "parent_id": "", "message": "again"});
    ask(&bench, root);
    assert!(!bench.left("arguments").contains("--resume"));
    assert_eq!(bench.left("prompt"), "again");
    let answer = first.last().unwrap()["message_id"].clone();
    ask(&bench, json!({"session_id": session, "parent_id": answer, "message": "again"}));
    let prompt = bench.left("prompt");
    assert!(prompt.contains("<assistant>\nHello **you**\n</assistant>"), "{prompt}");
    // A session that the program has lost is told again.
    let next = json!({"session_id": session, "message": "again"});
    ask(&bench, next.clone());
    assert!(bench.left("arguments").contains("--resume"));
    let kept = bench.data.join("people").read_dir_utf8().unwrap().next().unwrap().unwrap();
    std::fs::remove_dir_all(kept.path().join("claude/projects")).unwrap();
    ask(&bench, next);
    assert!(!bench.left("arguments").contains("--resume"));
    let prompt = bench.left("prompt");
    assert!(prompt.contains("<assistant>\nHello **you**\n</assistant>"), "{prompt}");
    server.stop();
}

/// Fails with `WB_WITHOUT=alone_env`.
#[test]
fn the_program_inherits_no_key_and_no_tool() {
    let bench = Bench::new();
    with_env(&bench, "", "tools = {},");
    let foreign = [("AWS_SECRET_ACCESS_KEY", "aws-secret"), ("ANTHROPIC_API_KEY", "sk-server")];
    let server = bench.serve_with(&foreign);
    let refused = bench.post("/api/agent/chat-stream", json!({"message": "hello"}));
    assert_eq!(refused.refusal(), (503, "runtime_unavailable"));
    let health = bench.get("/api/agent/health").ok();
    assert_eq!(health["runtimes"][0]["state"], "no_sign_in");
    let token = "sk-ant-oat01-for-ada-alone-0123456789";
    let wrong = bench.post("/api/agent/claude/login", json!({"token": "short"}));
    assert_eq!(wrong.refusal(), (400, "bad_token"));
    bench.post("/api/agent/claude/login", json!({"token": token})).ok();
    assert_eq!(bench.get("/api/agent/health").ok()["runtimes"][0]["state"], "ready");
    let done = ask(&bench, json!({"message": "hello"}));
    let env = bench.left("env");
    assert!(env.contains(&format!("CLAUDE_CODE_OAUTH_TOKEN={token}")), "{env}");
    assert!(env.contains("CLAUDE_CODE_DISABLE_ATTACHMENTS=1\n"), "it reads no file: {env}");
    assert!(env.contains("CLAUDE_CODE_HARBOR_KITE=0\n"), "no agent writes to it: {env}");
    assert!(env.contains("CLAUDE_CODE_DISABLE_AGENT_VIEW=1\n"), "it stays in its job: {env}");
    for foreign in ["aws-secret", "sk-server", "WB_TOKEN", "WB_SOCKET"] {
        assert!(!env.contains(foreign), "{foreign}: {env}");
    }
    let arguments = bench.left("arguments");
    for wanted in ["--tools\n\n", "--strict-mcp-config", "--setting-sources\n\n", "dontAsk"] {
        assert!(arguments.contains(wanted), "{wanted:?}: {arguments}");
    }
    let people = bench.data.join("people");
    assert!(bench.left("cwd").starts_with(people.as_str()), "{}", bench.left("cwd"));
    let home = people.read_dir_utf8().unwrap().next().unwrap().unwrap().into_path();
    let mode = std::fs::metadata(home.join("claude.token")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // The token stands in no other file.
    let run = done[0]["run_id"].as_str().unwrap();
    for file in bench.data.join("jobs").join(run).read_dir_utf8().unwrap() {
        let path = file.unwrap().into_path();
        let text = std::fs::read(&path).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&text).contains(token), "{path}");
    }
    let gone = bench.send(&Call::new("DELETE", "/api/agent/claude/login").token(&bench.operator()));
    assert_eq!(gone.ok()["was_signed_in"], true);
    let refused = bench.post("/api/agent/chat-stream", json!({"message": "hello"}));
    assert_eq!(refused.refusal(), (503, "runtime_unavailable"));
    server.stop();
}

#[test]
fn what_is_no_question_is_refused_and_changes_nothing() {
    let bench = Bench::new();
    assistant(&bench, "limits = { prompt_kib = 1 },");
    let server = bench.serve();
    let nobody = "018bcfe5-6800-7000-8000-000000000001";
    for (body, refusal) in [
        (json!({}), (400, "bad_message")),
        (json!({"message": "  "}), (400, "bad_message")),
        (json!({"message": "a\u{0}b"}), (400, "bad_message")),
        (json!({"message": "x".repeat(1025)}), (413, "prompt_too_large")),
        (json!({"message": "hello", "mode": "of_tomorrow"}), (400, "unknown_mode")),
        (json!({"message": "hello", "session_id": nobody}), (404, "no_session")),
        (json!({"message": "hello", "files": []}), (400, "unknown_field")),
    ] {
        let answer = bench.post("/api/agent/chat-stream", body.clone());
        assert_eq!(answer.refusal(), refusal, "{body}");
    }
    assert_eq!(bench.get("/api/agent/sessions").ok()["items"], json!([]));
    assert_eq!(bench.get("/api/agent/jobs").ok()["items"], json!([]));
    server.stop();
}

#[test]
fn the_same_request_twice_is_one_run() {
    let bench = Bench::new();
    assistant(&bench, "");
    let server = bench.serve();
    let call = Call::post("/api/agent/chat-stream", json!({"message": "hello"}))
        .token(&bench.operator())
        .header("Idempotency-Key", "once");
    let first = items(&bench.send(&call));
    assert_eq!(items(&bench.send(&call)), first);
    assert_eq!(text_of(&first), "Hello **you**");
    let waited = Call::post("/api/agent/chat", json!({"message": "hello"}));
    let answer = bench.send(&waited.token(&bench.operator())).ok();
    assert_eq!((&answer["text"], &answer["ended"]), (&json!("Hello **you**"), &json!("ok")));
    assert_eq!(bench.get("/api/agent/sessions").ok()["items"].as_array().unwrap().len(), 2);
    server.stop();
}

#[test]
fn a_site_without_an_assistant_says_so() {
    let bench = Bench::new();
    let server = bench.serve();
    for target in ["/api/agent/sessions", "/api/agent/config", "/api/agent/health"] {
        assert_eq!(bench.get(target).refusal(), (404, "no_assistant"), "{target}");
    }
    let answer = bench.post("/api/agent/chat-stream", json!({"message": "hello"}));
    assert_eq!(answer.refusal(), (404, "no_assistant"));
    server.stop();
}

#[test]
fn a_person_asks_in_the_terminal() {
    let bench = Bench::new();
    assistant(&bench, "");
    let server = bench.serve();
    let (code, out, err) = bench.cli(&["ask", "hello"]);
    assert_eq!((code, out.as_str()), (0, "Hello **you**\n"), "{err}");
    assert!(err.contains("conversation "), "{err}");
    let id = err.split("conversation ").nth(1).unwrap().trim();
    let (code, out, err) = bench.cli(&["ask", "--session", id, "refused"]);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.contains("sign in again"), "{err}");
    let (code, out, _) = bench.cli(&["chat", "list"]);
    assert!(code == 0 && out.contains("hello"), "{out}");
    let (code, out, _) = bench.cli(&["chat", "show", id]);
    assert!(code == 0 && out.contains("You:\nhello\n") && out.contains("Hello **you**"), "{out}");
    let (code, out, _) = bench.cli(&["ask", "again", "--field", "ended"]);
    assert_eq!((code, out.as_str()), (0, "ok\n"));
    let (code, _, err) = bench.cli(&["chat", "stop", id]);
    assert_eq!(code, 5, "{err}");
    let (code, out, _) = bench.cli(&["chat", "delete", id]);
    assert!(code == 0 && out.starts_with("deleted conversation"), "{out}");
    assert_eq!(bench.get("/api/agent/sessions").ok()["items"].as_array().unwrap().len(), 1);
    server.stop();
}

#[test]
fn an_older_interface_has_other_names_where_it_is_switched_on() {
    let bench = Bench::new();
    assistant(&bench, "");
    let server = bench.serve();
    for target in ["/api/claude/chat-stream", "/api/claude/chat", "/api/claude/clear"] {
        assert_eq!(bench.post(target, json!({})).refusal(), (404, "no_claude_api"), "{target}");
    }
    server.stop();
    bench.edit(|text| text.replace("wb.assistant {", "wb.assistant { claude_api = true,"));
    let server = bench.serve();
    let body = json!({"message": "call list_directory {}"});
    let items = super::items(&bench.post("/api/claude/chat-stream", body));
    let types: Vec<&str> = items.iter().map(|it| it["type"].as_str().unwrap()).collect();
    let wanted = ["session", "tool_use", "status", "text", "usage", "done"];
    assert_eq!(types, wanted, "{items:#?}");
    assert_eq!((&items[1]["name"], &items[1]["input"]), (&json!("list_directory"), &json!({})));
    let session = items[0]["session_id"].as_str().unwrap();
    let body = json!({"message": "again", "session_id": session});
    assert_eq!(bench.post("/api/claude/chat", body).ok()["text"], "again");
    let target = format!("/api/claude/history?session_id={session}");
    assert_eq!(bench.get(&target).ok()["messages"].as_array().unwrap().len(), 4);
    bench.post("/api/claude/clear", json!({"session_id": session})).ok();
    assert_eq!(bench.get(&target).ok()["messages"], json!([]));
    server.stop();
}
