//! A conversation is one person's: nobody else finds it, by no route and in no event.

use serde_json::json;
use wiki_browser::http::{ROUTES, Verb, Who};

use super::{Live, ask, assistant, half, keyed, person, text_of};
use crate::support::{Bench, Call, KEY, ends_a_job};

#[test]
fn another_person_finds_nothing_of_a_conversation() {
    let bench = Bench::new();
    assistant(&bench, "");
    let server = bench.serve();
    let bea = person(&bench, "bea");
    let (_live, session, run) = half(&bench, server.address());
    let shown = super::history(&bench, &session);
    let message = shown["messages"][0]["id"].as_str().unwrap();
    let as_bea = |call: Call| call.token(&bea).tcp(server.address());
    for target in [
        format!("/api/agent/runs/{run}"),
        format!("/api/agent/runs/{run}/events"),
        format!("/api/agent/session/history?session_id={session}"),
        format!("/api/agent/sessions/{session}"),
        format!("/api/agent/sessions?after={session}"),
    ] {
        assert_eq!(as_bea(Call::get(&target)).status, 404, "{target}");
    }
    for (target, body) in [
        ("/api/agent/stop".to_owned(), json!({"run_id": run})),
        ("/api/agent/session/clear".to_owned(), json!({"session_id": session})),
        (format!("/api/agent/sessions/{session}"), json!({"title": "mine"})),
        ("/api/agent/chat".to_owned(), json!({"session_id": session, "message": "hello"})),
        ("/api/agent/chat".to_owned(), json!({"session_id": session, "parent_id": message})),
    ] {
        assert_eq!(as_bea(Call::post(&target, body)).status, 404, "{target}");
    }
    let delete = Call::new("DELETE", &format!("/api/agent/sessions/{session}"));
    assert_eq!(as_bea(delete).status, 404);
    assert_eq!(as_bea(Call::get("/api/agent/sessions")).ok()["items"], json!([]));
    // A message of one conversation is none of another.
    let mut own = Live::ask(server.address(), &bea, &json!({"message": "hello"}));
    let start = own.until(|it| it["type"] == "start").unwrap();
    own.until(|it| it["type"] == "done").unwrap();
    let body = json!({"session_id": start["session_id"], "parent_id": message, "message": "x"});
    assert_eq!(as_bea(Call::post("/api/agent/chat", body)).refusal(), (404, "no_message"));
    let target = format!("/api/agent/sessions/{}", start["session_id"].as_str().unwrap());
    let body = json!({"head_id": message});
    assert_eq!(as_bea(Call::post(&target, body)).refusal(), (404, "no_message"));
    assert_eq!(bench.get(&target).status, 404, "not even an admin finds it");
    std::fs::write(bench.out.join("go"), "").unwrap();
    server.stop();
}

#[test]
fn events_of_a_conversation_are_told_to_its_person_only() {
    let bench = Bench::new();
    assistant(&bench, "");
    let server = bench.serve();
    ask(&bench, json!({"message": "hello"}));
    server.stop();
    let database = rusqlite::Connection::open(bench.data.join("wiki.db")).unwrap();
    let mut statement = database
        .prepare("SELECT scope, data_json FROM events WHERE kind = 'chat_changed' ORDER BY id")
        .unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let rows: Vec<(String, String)> = rows.map(Result::unwrap).collect();
    let changes: Vec<String> = rows
        .iter()
        .map(|(_, data)| serde_json::from_str::<serde_json::Value>(data).unwrap())
        .map(|it| it["change"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(changes, ["added", "message", "run"]);
    assert!(rows.iter().all(|(scope, _)| scope.starts_with("person:")), "{rows:?}");
}

#[test]
fn only_those_whom_the_script_names_may_ask() {
    let bench = Bench::new();
    assistant(&bench, "persons = { \"bea\", \"cleo\" },");
    let server = bench.serve();
    assert_eq!(bench.get("/api/agent/sessions").refusal(), (403, "not_named"));
    // In `persons`, and not in `claude_code_persons`.
    let cleo = person(&bench, "cleo");
    let ask = Call::post("/api/agent/chat", json!({"message": "hello"}));
    let answer = ask.token(&cleo).tcp(server.address());
    assert_eq!(answer.refusal(), (503, "runtime_unavailable"));
    server.stop();
}

/// Every route and page, with the ids of a conversation and of its run wherever an id can stand.
/// Fails with `WB_WITHOUT=own_jobs`.
#[test]
fn no_route_tells_anybody_else_of_an_answer() {
    const QUESTION: &str = "PRIVATE-QUESTION";
    let bench = Bench::new();
    assistant(&bench, "");
    let server = bench.serve();
    let bea = person(&bench, "bea");
    bench.post("/api/persons", json!({"name": "boss", "role": "admin"})).ok();
    let boss = super::token(&bench, "boss");
    let own = super::token(&bench, "ada");
    let message = json!({"message": format!("{QUESTION}\nhalf")});
    let mut live = Live::ask(server.address(), &own, &message);
    let start = live.until(|it| it["type"] == "start").unwrap();
    live.until(|it| it["type"] == "text").unwrap();
    let [run, session] = ["run_id", "session_id"].map(|it| start[it].as_str().unwrap().to_owned());
    let walk = |when: &str| {
        for (who, token) in [("a member", &bea), ("an admin", &boss)] {
            for (route, id) in ROUTES.iter().flat_map(|it| [(it, &run), (it, &session)]) {
                let is_cancel = ends_a_job(route.path) && who == "an admin";
                let is_left_out = ["/api/logout", "/api/events"].contains(&route.path);
                if is_cancel || is_left_out || route.who == Who::Signed {
                    continue;
                }
                let mut target = route.path.to_owned();
                for name in ["{id}", "{job}", "{name}", "{session}", "{template}", "{version}"] {
                    target = target.replace(name, id);
                }
                let target = target.replace("{*path}", "guide.md");
                let call = match route.verb {
                    Verb::Post if target.starts_with("/api/") => Call::post(&target, json!({})),
                    Verb::Post => Call::form(&target, ""),
                    verb => Call::new(verb.as_str(), &target),
                };
                let answer = bench.send(&call.token(token));
                let (text, what) = (answer.body.to_string(), format!("{when}: {target} to {who}"));
                assert!(!text.contains(QUESTION), "{what}: {text}");
                for other in [&run, &session].into_iter().filter(|other| *other != id) {
                    assert!(!text.contains(other.as_str()), "{what}: {text}");
                }
                let is_named = route.path.contains("{id}") || route.path.contains("{session}");
                let is_shown = answer.status == 200 && text.contains(id.as_str());
                assert!(!(is_named && is_shown), "{what}: {text}");
            }
        }
    };
    walk("while it is written");
    std::fs::write(bench.out.join("go"), "").unwrap();
    live.until(|it| it["type"] == "done").unwrap();
    super::ended(&bench, &run);
    walk("when it is there");
    // Its owner finds it among the jobs, as the only one of its sort.
    let shown = bench.show(&run);
    assert_eq!((&shown["pool"], &shown["status"]), (&json!("chat"), &json!("succeeded")));
    assert_eq!(bench.post(&format!("/api/agent/jobs/{run}/retry"), json!({})).code(), "no_kind");
    let asked = Call::post("/api/agent/jobs", json!({"kind": "assistant_claude_code"}));
    assert_eq!(bench.send(&asked.token(&bea)).refusal(), (404, "no_kind"));
    server.stop();
}

/// A client that acts for several people names the one it means: a wrong credential is refused.
#[test]
fn a_request_that_names_somebody_else_is_refused() {
    let bench = Bench::new();
    assistant(&bench, "");
    let server = bench.serve();
    let bea = super::person(&bench, "bea");
    let me = bench.get("/api/me").ok();
    let ask = |name: &str, token: &str| {
        let call = Call::post("/api/agent/chat", json!({"message": "hello"}));
        bench.send(&call.header("X-Notes-Person", name).token(token))
    };
    for (name, token) in [("bea", &bench.operator()), ("ada", &bea), ("", &bea), ("bea, ada", &bea)]
    {
        assert_eq!(ask(name, token).refusal(), (403, "person_mismatch"), "{name}");
    }
    assert_eq!(bench.get("/api/agent/sessions").ok()["items"], json!([]));
    ask("bea", &bea).ok();
    ask(me["person"]["name"].as_str().unwrap(), &bench.operator()).ok();
    ask(me["person"]["id"].as_str().unwrap(), &bench.operator()).ok();
    server.stop();
}

/// A provider may repeat the key: in pieces, in the arguments of a call; or its beginning only.
#[test]
fn g28_a_key_that_the_provider_repeats_is_masked() {
    let bench = Bench::new();
    let _model = keyed(&bench, "");
    let server = bench.serve();
    let items = ask(&bench, json!({"message": "leak"}));
    assert_eq!(items.last().unwrap()["reason"], "ok", "{items:#?}");
    assert_eq!(text_of(&items), format!("It is {}.{}", "*".repeat(KEY.len()), &KEY[..9]));
    let files = bench.data.join("jobs").join(items[0]["run_id"].as_str().unwrap());
    let stream = std::fs::read_to_string(files.join("chat.ndjson")).unwrap();
    assert!(!stream.contains(KEY), "{stream}");
    server.stop();
    let database = std::fs::read(bench.data.join("wiki.db")).unwrap();
    assert!(!database.windows(KEY.len()).any(|it| it == KEY.as_bytes()));
}
