//! What the assistant does: its tools, the questions to its person, and taking changes back.

use serde_json::{Value, json};
use wiki_browser::http::{ROUTES, Verb, Who};

use super::{Live, ask, assistant, ended, history, person, replay, text_of, token};
use crate::support::{Bench, Call, Server, ends_a_job, until, wait_for};

/// Returns the vault of the operator, which the first call makes.
pub(super) fn vault(bench: &Bench) -> camino::Utf8PathBuf {
    let me = bench.get("/api/me").ok();
    bench.data.join("vaults").join(me["person"]["id"].as_str().or(me["id"].as_str()).unwrap())
}

pub(super) fn of_type<'i>(items: &'i [Value], word: &str) -> Vec<&'i Value> {
    items.iter().filter(|it| it["type"] == word).collect()
}

/// What the model was told of the last call.
fn told(bench: &Bench) -> (String, bool) {
    let all = bench.left("told");
    let line: Value = serde_json::from_str(all.lines().last().unwrap()).unwrap();
    let result = &line["result"];
    let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{line}"));
    (text.to_owned(), result["isError"] == true)
}

#[test]
fn the_assistant_works_in_the_vault_of_its_person() {
    let bench = Bench::new();
    assistant(&bench, "");
    let server = bench.serve();
    let calls = "call write_file {\"path\":\"notes/a.md\",\"content\":\"one\\ntwo\\n\"}\n\
        call edit_file {\"path\":\"notes/a.md\",\"old\":\"two\",\"new\":\"three\"}\n\
        call search_files {\"pattern\":\"THREE\"}\n\
        call read_file {\"path\":\"../wiki.db\"}\n\
        call read_source {\"path\":\"guide.md\"}\n\
        call read_file {\"path\":\"notes/a.md\"}";
    let items = ask(&bench, json!({"message": calls}));
    let path = vault(&bench).join("notes/a.md");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\nthree\n");
    let started: Vec<&str> =
        of_type(&items, "tool_call").iter().map(|it| it["tool"].as_str().unwrap()).collect();
    let expected =
        ["write_file", "edit_file", "search_files", "read_file", "read_source", "read_file"];
    assert_eq!(started, expected);
    let ok: Vec<bool> = of_type(&items, "tool_result").iter().map(|it| it["ok"] == true).collect();
    assert_eq!(ok, [true, true, true, false, true, true], "{items:#?}");
    assert!(of_type(&items, "confirm_required").is_empty(), "the file is the run's own");
    assert_eq!(told(&bench), ("one\nthree\n".to_owned(), false));
    let lines = bench.left("told");
    assert!(lines.contains("notes/a.md:2: three") && lines.contains("is not a path"), "{lines}");
    // What was done stands in the history, and can be taken back.
    let shown = history(&bench, items[0]["session_id"].as_str().unwrap());
    let calls = shown["calls"].as_array().unwrap();
    assert_eq!(calls.len(), 6);
    assert_eq!((&calls[1]["can_undo"], &calls[2]["can_undo"]), (&json!(true), &json!(false)));
    let undo = |call: &Value| {
        let id = call["id"].as_str().unwrap();
        bench.post(&format!("/api/agent/calls/{id}/undo"), json!({}))
    };
    assert_eq!(undo(&calls[0]).refusal(), (409, "cannot_undo"), "it was changed after that");
    assert_eq!(undo(&calls[1]).ok()["can_undo"], false);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");
    // A file that is elsewhere now is not taken back.
    let elsewhere = path.with_file_name("b.md");
    std::fs::rename(&path, &elsewhere).unwrap();
    assert_eq!(undo(&calls[0]).refusal(), (409, "cannot_undo"));
    std::fs::rename(&elsewhere, &path).unwrap();
    undo(&calls[0]).ok();
    assert!(!path.exists());
    assert_eq!(undo(&calls[0]).refusal(), (409, "cannot_undo"));
    let arguments = bench.left("arguments");
    assert!(arguments.contains("--mcp-config") && arguments.contains("mcp__wb__read_file"));
    server.stop();
}

/// Asks for something that a person must allow; returns the stream and the question.
fn waiting(bench: &Bench, server: &Server, question: &str) -> (Live, Value, String) {
    let token = token(bench, "ada");
    let mut live = Live::ask(server.address(), &token, &json!({"message": question}));
    let asked = live.until(|it| it["type"] == "confirm_required").unwrap();
    let run = live.seen[0]["run_id"].as_str().unwrap().to_owned();
    (live, asked, run)
}

fn decide(bench: &Bench, asked: &Value, verb: &str, more: Value) -> crate::support::Answer {
    let mut body = json!({"version": 1});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let id = asked["approval_id"].as_str().unwrap();
    bench.post(&format!("/api/approvals/{id}/{verb}"), body)
}

const OVERWRITE: &str = "call write_file {\"path\":\"a.md\",\"content\":\"new\\n\"}";

/// Fails with `WB_WITHOUT=call_target`.
#[test]
fn g43_what_a_person_allowed_is_made_once_and_as_it_was_shown() {
    let bench = Bench::new();
    assistant(&bench, "");
    let server = bench.serve();
    ask(&bench, json!({"message": "call list_directory {}"}));
    let path = vault(&bench).join("a.md");
    let write = |text: &str| std::fs::write(&path, text).unwrap();
    let read = || std::fs::read_to_string(&path).unwrap();
    write("old\n");
    // Allowed.
    let (mut live, asked, _) = waiting(&bench, &server, OVERWRITE);
    let preview = asked["preview"].as_str().unwrap();
    assert!(preview.contains("-old") && preview.contains("+new"), "{preview}");
    let decisions = bench.get("/api/decisions").ok();
    assert_eq!(decisions["items"][0]["what"], "call");
    assert_eq!(read(), "old\n");
    let changed = decide(&bench, &asked, "approve", json!({"changes": {"tool": "delete_file"}}));
    assert_eq!(changed.refusal(), (400, "no_changes"));
    decide(&bench, &asked, "approve", json!({})).ok();
    live.until(|it| it["type"] == "done").unwrap();
    assert_eq!((read().as_str(), told(&bench).1), ("new\n", false));
    let used = bench.get(&format!("/api/approvals/{}", asked["approval_id"].as_str().unwrap()));
    assert!(used.ok()["used_at"].is_string());
    // Declined.
    write("old\n");
    let (mut live, asked, _) = waiting(&bench, &server, OVERWRITE);
    decide(&bench, &asked, "reject", json!({})).ok();
    live.until(|it| it["type"] == "done").unwrap();
    let result = of_type(&live.seen, "tool_result")[0].clone();
    assert_eq!((&result["state"], &result["ok"]), (&json!("declined"), &json!(false)));
    assert!(read() == "old\n" && told(&bench).0.contains("declined this call"));
    // Changed between the question and the answer.
    let (mut live, asked, _) = waiting(&bench, &server, OVERWRITE);
    write("mine\n");
    decide(&bench, &asked, "approve", json!({})).ok();
    live.until(|it| it["type"] == "done").unwrap();
    assert_eq!(of_type(&live.seen, "tool_result")[0]["state"], "void");
    assert_eq!(read(), "mine\n");
    server.stop();
}

#[test]
fn an_allowed_topic_is_opened_on_the_document_that_was_meant() {
    for is_gone in [false, true] {
        let bench = Bench::new();
        assistant(&bench, "tools = { open_topic = \"ask\" },");
        let server = bench.serve();
        crate::places::ready(&bench);
        let call = "call open_topic {\"source_path\":\"guide.md\",\"body\":\"Mine\"}";
        let (mut live, asked, _) = waiting(&bench, &server, call);
        match is_gone {
            true => bench.git(&["rm", "-q", "guide.md"]),
            false => bench.git(&["mv", "guide.md", "old.md"]),
        };
        bench.git(&["commit", "-q", "-m", "first"]);
        bench.git(&["mv", "notes.md", "guide.md"]);
        bench.git(&["commit", "-q", "-m", "second"]);
        let is_told = |it: &Value| it["from"] == "notes.md";
        let told_of = || crate::places::events(&bench, "source_renamed").iter().any(is_told);
        until("it is seen", told_of);
        decide(&bench, &asked, "approve", json!({})).ok();
        live.until(|it| it["type"] == "done").unwrap();
        let topics = bench.get("/api/topics").ok()["items"].clone();
        let paths: Vec<&Value> =
            topics.as_array().unwrap().iter().map(|it| &it["source_path"]).collect();
        assert_eq!(paths, if is_gone { vec![] } else { vec!["old.md"] });
        let (text, is_error) = told(&bench);
        assert_eq!(is_error, is_gone, "{text}");
        assert!(!is_gone || text.contains("has taken the name of its document"), "{text}");
        server.stop();
    }
}

/// A call may come before the line of the program that announces it; equal ones are two.
#[test]
fn calls_wait_until_they_are_announced() {
    let bench = Bench::new();
    assistant(&bench, "");
    let server = bench.serve();
    let items = ask(&bench, json!({"message": "early"}));
    assert_eq!(items.last().unwrap()["reason"], "ok", "{items:#?}");
    let results = of_type(&items, "tool_result");
    assert!(results.len() == 2 && results.iter().all(|it| it["ok"] == true), "{items:#?}");
    assert_ne!(results[0]["id"], results[1]["id"]);
    server.stop();
}

#[test]
fn a_question_ends_with_its_run_and_with_its_time() {
    let bench = Bench::new();
    assistant(
        &bench,
        "tools = { list_directory = \"ask\", delete_file = \"allow\" }, \
        limits = { confirm = \"10s\" },",
    );
    let server = bench.serve();
    // Stopped while it waits: the question is gone, and a late answer does nothing.
    let (mut live, asked, run) = waiting(&bench, &server, "call list_directory {}");
    bench.post("/api/agent/stop", json!({"run_id": run})).ok();
    live.until(|it| it["type"] == "done").unwrap();
    assert_eq!(decide(&bench, &asked, "approve", json!({})).refusal(), (409, "run_ended"));
    let shown = history(&bench, live.seen[0]["session_id"].as_str().unwrap());
    assert_eq!(shown["calls"][0]["state"], "cancelled");
    // A tool that the script does not name is none.
    let items =
        ask(&bench, json!({"message": "call write_file {\"path\":\"a\",\"content\":\"\"}"}));
    assert!(of_type(&items, "tool_call").is_empty() && told(&bench).0.contains("not allowed here"));
    // Nobody answers.
    let items = ask(&bench, json!({"message": "call list_directory {}"}));
    assert_eq!(of_type(&items, "tool_result")[0]["state"], "expired");
    assert!(told(&bench).0.contains("Nobody answered in time"));
    server.stop();
}

/// The process of Claude Code ends with its server, and so does the question that it waits for: an
/// answer that comes later does nothing, whichever way the server ended.
#[test]
fn g43_a_question_does_not_outlive_its_server() {
    let bench = Bench::new();
    assistant(&bench, "");
    let mut server = bench.serve();
    ask(&bench, json!({"message": "call list_directory {}"}));
    let path = vault(&bench).join("a.md");
    for is_killed in [true, false] {
        std::fs::write(&path, "old\n").unwrap();
        // It has said something, and is in the middle of that when it asks.
        let question = format!("talk\n{OVERWRITE}");
        let (mut live, asked, run) = waiting(&bench, &server, &question);
        assert_eq!(text_of(&live.seen), "I look. ");
        let session = live.seen[0]["session_id"].as_str().unwrap().to_owned();
        let pid = bench.left("pid");
        match is_killed {
            true => server.kill(),
            false => server.stop(),
        }
        live.until(|it| it["type"] == "done");
        let process = format!("/proc/{}", pid.trim());
        until("its program is gone", || !std::path::Path::new(&process).exists());
        server = bench.serve();
        assert_eq!(ended(&bench, &run)["ended"], "interrupted");
        let items = replay(&bench, &run);
        let seen: Vec<Value> = live.seen.into_iter().filter(|it| it["type"] != "done").collect();
        assert!(items.len() >= seen.len() && items[..2] == seen[..2], "{items:#?}");
        assert_eq!(of_type(&items, "confirm_required").len(), 1);
        let shown = history(&bench, &session);
        assert_eq!(shown["messages"][1]["state"], "interrupted");
        assert_eq!(shown["calls"][0]["state"], "cancelled");
        // It is asked of nobody any more.
        assert_eq!(bench.get("/api/decisions").ok()["items"], json!([]));
        let page = bench.get(&format!("/assistant/{session}")).ok();
        assert!(!page.as_str().unwrap().contains("Allow once"), "{page}");
        for verb in ["approve", "reject"] {
            let late = decide(&bench, &asked, verb, json!({}));
            assert_eq!(late.refusal(), (409, "run_ended"));
        }
        let call = shown["calls"][0]["id"].as_str().unwrap();
        let again = bench.post(&format!("/api/agent/calls/{call}/do"), json!({}));
        assert_eq!(again.status / 100, 4, "{again:?}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old\n");
        // The conversation goes on.
        let next = ask(&bench, json!({"session_id": session, "message": "again"}));
        assert_eq!(text_of(&next), "again");
    }
    server.stop();
}

/// Visits every route and page with each of these ids wherever an id can stand: none of them tells
/// what is private.
#[track_caller]
fn walk(bench: &Bench, token: &str, ids: &[&str]) {
    for (route, id) in ROUTES.iter().flat_map(|it| ids.iter().map(move |id| (it, *id))) {
        let is_left_out =
            ["/api/logout", "/api/events"].contains(&route.path) || ends_a_job(route.path);
        if is_left_out || route.who == Who::Signed {
            continue;
        }
        let mut target = route.path.replace("{*path}", "guide.md");
        for name in ["{id}", "{job}", "{name}", "{session}", "{template}", "{version}", "{slug}"] {
            target = target.replace(name, id);
        }
        let call = match route.verb {
            Verb::Post if target.starts_with("/api/") => Call::post(&target, json!({})),
            Verb::Post => Call::form(&target, "version=1"),
            verb => Call::new(verb.as_str(), &target),
        };
        let answer = bench.send(&call.token(token));
        let text = answer.body.to_string();
        assert!(
            !text.contains("PRIVATE-WORDS") && !text.contains("overwrites a.md"),
            "{target}: {text}"
        );
        for other in ids.iter().filter(|other| **other != id) {
            assert!(!text.contains(other), "{target}: {text}");
        }
    }
}

#[test]
fn g45_nobody_else_sees_or_answers_a_call() {
    let bench = Bench::new();
    assistant(&bench, "");
    let server = bench.serve();
    let bea = person(&bench, "bea");
    ask(&bench, json!({"message": "call list_directory {}"}));
    std::fs::write(vault(&bench).join("a.md"), "PRIVATE-WORDS\n").unwrap();
    let (mut live, asked, run) = waiting(&bench, &server, OVERWRITE);
    let as_bea = |call: Call| call.token(&bea).tcp(server.address());
    let (call, question) = (asked["id"].as_str().unwrap(), asked["approval_id"].as_str().unwrap());
    for target in [
        format!("/api/agent/calls/{call}"),
        format!("/api/approvals/{question}"),
        format!("/approvals/{question}"),
        format!("/api/agent/runs/{run}"),
    ] {
        let answer = as_bea(Call::get(&target));
        assert_eq!(answer.status, 404, "{target}");
        assert!(!answer.body.to_string().contains("PRIVATE-WORDS"), "{target}");
    }
    for (target, body) in [
        (format!("/api/agent/calls/{call}/undo"), json!({})),
        (format!("/api/approvals/{question}/approve"), json!({"version": 1})),
        (format!("/api/approvals/{question}/reject"), json!({"version": 1})),
    ] {
        assert_eq!(as_bea(Call::post(&target, body)).status, 404, "{target}");
    }
    assert_eq!(as_bea(Call::get("/api/decisions")).ok()["items"], json!([]));
    bench.post("/api/persons", json!({"name": "boss", "role": "admin"})).ok();
    walk(&bench, &bea, &[call, question, &run]);
    walk(&bench, &token(&bench, "boss"), &[call, question, &run]);
    let tools = as_bea(Call::get("/api/agent/tools"));
    assert_eq!(tools.refusal(), (403, "job_only"));
    // Her own assistant has a vault of its own.
    let body = json!({"message": "call read_file {\"path\":\"a.md\"}"});
    let mut own = Live::ask(server.address(), &bea, &body);
    own.until(|it| it["type"] == "done").unwrap();
    let result = own.seen.iter().find(|it| it["type"] == "tool_result").unwrap();
    assert!(result["summary"].as_str().unwrap().contains("no file a.md"), "{result}");
    decide(&bench, &asked, "reject", json!({})).ok();
    live.until(|it| it["type"] == "done").unwrap();
    server.stop();
}

/// The server dies around a write: the file is old or new, the next one finds out which, and what
/// was made can be taken back. Fails with `WB_WITHOUT=digests_tell`.
#[test]
fn wherever_it_dies_a_write_is_whole() {
    for (point, state, is_made, text) in [
        ("after_call", "cancelled", None, "old\n"),
        ("before_tool", "done", Some(false), "old\n"),
        ("after_tool", "done", Some(true), "old\nnew\n"),
    ] {
        let bench = Bench::new();
        assistant(&bench, "");
        let armed = bench.base.join("armed");
        let env = [("WB_CRASH_AT", point), ("WB_CRASH_WHEN", armed.as_str())];
        let mut server = bench.serve_with(&env);
        ask(&bench, json!({"message": "call list_directory {}"}));
        let path = vault(&bench).join("a.md");
        std::fs::write(&path, "old\n").unwrap();
        let (address, token) = (server.address(), token(&bench, "ada"));
        std::fs::write(&armed, "").unwrap();
        let edit = "call edit_file {\"path\":\"a.md\",\"old\":\"old\\n\",\"new\":\"old\\nnew\\n\"}";
        let mut live = Live::ask(address, &token, &json!({"message": edit}));
        assert!(live.until(|it| it["type"] == "done").is_none(), "{point}");
        server.wait();
        let server = bench.serve();
        let run = live.seen[0]["run_id"].as_str().unwrap().to_owned();
        assert_eq!(ended(&bench, &run)["ended"], "interrupted", "{point}");
        replay(&bench, &run);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "{point}");
        let session = live.seen[0]["session_id"].as_str().unwrap();
        let call = wait_for("the file was looked at", || {
            let call = history(&bench, session)["calls"][0].clone();
            (call["state"] != "unknown").then_some(call)
        });
        assert_eq!((&call["state"], &call["ok"]), (&json!(state), &json!(is_made)), "{point}");
        let undo = format!("/api/agent/calls/{}/undo", call["id"].as_str().unwrap());
        let is_undone = bench.post(&undo, json!({})).status == 200;
        assert_eq!(is_undone, is_made == Some(true), "{point}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old\n", "{point}");
        server.stop();
    }
}

#[test]
fn a_conversation_that_is_deleted_takes_its_calls_along() {
    let bench = Bench::new();
    assistant(&bench, "");
    let server = bench.serve();
    ask(&bench, json!({"message": "call list_directory {}"}));
    std::fs::write(vault(&bench).join("a.md"), "old\n").unwrap();
    let (mut live, asked, _) = waiting(&bench, &server, OVERWRITE);
    decide(&bench, &asked, "approve", json!({})).ok();
    live.until(|it| it["type"] == "done").unwrap();
    let session = live.seen[0]["session_id"].as_str().unwrap().to_owned();
    let kept = || {
        let people = bench.data.join("people").read_dir_utf8().unwrap();
        people.flatten().map(|it| it.path().join("kept")).find(|it| it.exists()).unwrap()
    };
    assert_eq!(kept().read_dir_utf8().unwrap().count(), 1);
    let delete = Call::new("DELETE", &format!("/api/agent/sessions/{session}"));
    bench.send(&delete.token(&bench.operator())).ok();
    assert_eq!(kept().read_dir_utf8().unwrap().count(), 0);
    let question = format!("/api/approvals/{}", asked["approval_id"].as_str().unwrap());
    assert_eq!(bench.get(&question).status, 404);
    let gone = wait_for("no call", || {
        let path = format!("/api/agent/calls/{}", asked["id"].as_str().unwrap());
        (bench.get(&path).status == 404).then_some(true)
    });
    assert!(gone);
    server.stop();
}
