//! Limits on input from people, agents and programs: the largest that is accepted, and one more.

use serde_json::{Value, json};
use wiki_browser::base::limit::{
    ANCHORS_MAX, CREDENTIAL_BYTES_MAX, GIVEN_CONTEXT_BYTES_MAX, JOB_PROPOSALS_MAX, KEY_BYTES_MAX,
    LINE_BYTES_MAX, MESSAGE_BODY_BYTES_MAX, MESSAGE_BYTES_MAX, PAGE_ROWS_MAX, QUOTE_BYTES_MAX,
    RESULT_BYTES_MAX, SOURCE_BYTES_MAX, SOURCE_PATH_BYTES_MAX, SUMMARY_BYTES_MAX,
    TEXT_INPUT_BYTES_MAX, TITLE_BYTES_MAX,
};

use crate::support::{Bench, Call, Server, wait_for};

/// Everything that a refused request could have changed.
fn state(bench: &Bench) -> Vec<Value> {
    ["/api/topics?limit=200", "/api/proposals?limit=200", "/api/agent/jobs?limit=200"]
        .iter()
        .map(|it| bench.get(it).ok())
        .chain([json!(bench.status()), json!(bench.commits())])
        .collect()
}

/// The error names the limit, has a hint, and nothing changed.
#[track_caller]
fn refused(bench: &Bench, call: &Call, status: u16, code: &str, limit: usize) {
    let before = state(bench);
    let answer = bench.send(call);
    assert_eq!(answer.refusal(), (status, code), "{answer:?}");
    let message = answer.body["error"]["message"].as_str().unwrap();
    let said = [limit.to_string(), format!("{} KiB", limit / 1024), format!("{} MiB", limit >> 20)];
    assert!(said.iter().any(|it| message.contains(it)), "{limit}: {message}");
    assert_eq!(before, state(bench));
}

fn topic(bench: &Bench, change: Value) -> Call {
    let mut body = json!({"source_path": "guide.md", "global": true, "body": "x"});
    for (name, value) in change.as_object().unwrap() {
        body[name] = value.clone();
    }
    Call::post("/api/topics", body).token(&bench.operator())
}

#[track_caller]
fn taken(bench: &Bench, call: &Call) -> Value {
    let answer = bench.send(call);
    assert!((200..300).contains(&answer.status), "{:.300}", format!("{answer:?}"));
    answer.body
}

#[test]
fn what_people_send_has_limits() {
    let bench = Bench::new();
    let server = bench.serve();
    let x = |bytes: usize| "x".repeat(bytes);
    taken(&bench, &topic(&bench, json!({"body": x(MESSAGE_BYTES_MAX)})));
    let long = topic(&bench, json!({"body": x(MESSAGE_BYTES_MAX + 1)}));
    refused(&bench, &long, 413, "too_large", MESSAGE_BYTES_MAX);
    taken(&bench, &topic(&bench, json!({"title": x(TITLE_BYTES_MAX)})));
    let long = topic(&bench, json!({"title": x(TITLE_BYTES_MAX + 1)}));
    refused(&bench, &long, 413, "too_large", TITLE_BYTES_MAX);
    let long = topic(&bench, json!({"body": x(MESSAGE_BODY_BYTES_MAX)}));
    refused(&bench, &long, 413, "too_large", MESSAGE_BODY_BYTES_MAX);
    let path = |bytes: usize| json!({"source_path": format!("{}.md", x(bytes - 3))});
    assert_eq!(bench.send(&topic(&bench, path(SOURCE_PATH_BYTES_MAX))).status, 404);
    let long = topic(&bench, path(SOURCE_PATH_BYTES_MAX + 1));
    refused(&bench, &long, 400, "bad_json", SOURCE_PATH_BYTES_MAX);
    for (field, bytes) in [("quote", QUOTE_BYTES_MAX), ("prefix", GIVEN_CONTEXT_BYTES_MAX)] {
        let selection = |bytes: usize| {
            let mut selection = json!({"quote": "The first line."});
            selection[field] = json!(x(bytes));
            topic(&bench, json!({"global": false, "selection": selection}))
        };
        assert_eq!(bench.send(&selection(bytes)).refusal(), (400, "quote_not_found"));
        refused(&bench, &selection(bytes + 1), 413, "selection_too_long", bytes);
    }
    let key = |bytes: usize| topic(&bench, json!({})).header("Idempotency-Key", &x(bytes));
    taken(&bench, &key(KEY_BYTES_MAX));
    refused(&bench, &key(KEY_BYTES_MAX + 1), 400, "bad_idempotency_key", KEY_BYTES_MAX);
    for word in ["", "a b", "a\tb", "\u{e4}"] {
        let call = topic(&bench, json!({})).header("Idempotency-Key", word);
        refused(&bench, &call, 400, "bad_idempotency_key", KEY_BYTES_MAX);
    }
    for route in ["/api/topics", "/api/proposals", "/api/agent/jobs", "/api/sources"] {
        let rows =
            |count: u32| Call::get(&format!("{route}?limit={count}")).token(&bench.operator());
        taken(&bench, &rows(PAGE_ROWS_MAX));
        for count in [PAGE_ROWS_MAX + 1, 0] {
            refused(&bench, &rows(count), 400, "bad_parameter", PAGE_ROWS_MAX as usize);
        }
    }
    let token = |bytes: usize| Call::get("/api/me").token(&x(bytes));
    for bytes in [CREDENTIAL_BYTES_MAX, CREDENTIAL_BYTES_MAX + 1] {
        assert_eq!(bench.send(&token(bytes)).refusal(), (401, "unauthenticated"));
    }
    server.stop();
}

#[test]
fn what_asks_for_a_job_has_limits() {
    let bench = Bench::new();
    bench.word_kind("word", "timeout = \"20s\"", "exit 0");
    bench.lua(
        "wb.kind \"text\" { about = \"x\", engine = \"word\", timeout = \"20s\",\n\
         inputs = { text = wb.input.text() }, prompt = \"{{text}}\" }\n",
    );
    let server = bench.serve();
    let post = |body: Value| Call::post("/api/agent/jobs", body).token(&bench.operator());
    let word = |bytes: usize| post(json!({"kind": "word", "word": "x".repeat(bytes)}));
    taken(&bench, &word(LINE_BYTES_MAX));
    wait_for("all have ended", || {
        let page = bench.get("/api/agent/jobs").ok();
        let is_final = |it: &Value| it["status"] == "succeeded";
        page["items"].as_array().unwrap().iter().all(is_final).then_some(())
    });
    refused(&bench, &word(LINE_BYTES_MAX + 1), 400, "bad_input", LINE_BYTES_MAX);
    let text = post(json!({"kind": "text", "text": "x".repeat(TEXT_INPUT_BYTES_MAX + 1)}));
    refused(&bench, &text, 400, "bad_input", TEXT_INPUT_BYTES_MAX);
    let long = post(json!({"kind": "word", "word": "x", "priority": 101}));
    refused(&bench, &long, 400, "invalid", 100);
    server.stop();
}

/// A job that waits for what a test does with its token.
fn agent(bench: &Bench) -> (Server, String, String, String, String) {
    bench.topic_kind(
        "waits",
        "timeout = \"60s\", produces = \"proposal\", lane = \"source_path\", on_busy = \"reject\"",
        "echo \"$WB_TOKEN $base\" > \"$OUT/token\"\n\
         while [ ! -e \"$OUT/go\" ]; do sleep 0.05; done",
    );
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "More.");
    let job = bench.job_on("waits", &topic);
    let left = bench.wait_left("token");
    let (token, base) = left.split_once(' ').unwrap();
    (server, topic.id, job, token.to_owned(), base.to_owned())
}

#[test]
fn what_agents_send_has_limits() {
    let bench = Bench::new();
    let (server, topic, job, token, base) = agent(&bench);
    let x = |bytes: usize| "x".repeat(bytes);
    let propose = |change: Value| {
        let mut body = json!({"base_source_sha": base, "text": "another\n"});
        for (name, value) in change.as_object().unwrap() {
            body[name] = value.clone();
        }
        Call::post(&format!("/api/topics/{topic}/proposals"), body).token(&token)
    };
    let mut made = 0;
    let mut fine = |change: Value| {
        taken(&bench, &propose(change));
        made += 1;
    };
    fine(json!({"text": x(SOURCE_BYTES_MAX)}));
    fine(json!({"summary": x(SUMMARY_BYTES_MAX)}));
    let text = propose(json!({"text": x(SOURCE_BYTES_MAX + 1)}));
    refused(&bench, &text, 413, "too_large", SOURCE_BYTES_MAX);
    let summary = propose(json!({"summary": x(SUMMARY_BYTES_MAX + 1)}));
    refused(&bench, &summary, 413, "too_large", SUMMARY_BYTES_MAX);
    let anchor = json!({"topic_id": topic, "start": 0, "end": 1, "quote": "a"});
    let anchors = |count: usize| propose(json!({"anchors": vec![anchor.clone(); count]}));
    assert_ne!(bench.send(&anchors(ANCHORS_MAX)).code(), "too_many_anchors");
    let state_before = state(&bench);
    drop(state_before);
    refused(&bench, &anchors(ANCHORS_MAX + 1), 413, "too_many_anchors", ANCHORS_MAX);
    let page = bench.get(&format!("/api/topics/{topic}")).ok();
    made = page["proposals"].as_array().unwrap().len();
    for number in made..usize::try_from(JOB_PROPOSALS_MAX).unwrap() {
        taken(&bench, &propose(json!({"text": format!("{number}\n")})));
    }
    let limit = usize::try_from(JOB_PROPOSALS_MAX).unwrap();
    refused(&bench, &propose(json!({})), 409, "too_many_proposals", limit);

    let message = |bytes: usize| {
        let body = json!({"body": x(bytes)});
        Call::post(&format!("/api/topics/{topic}/messages"), body).token(&token)
    };
    taken(&bench, &message(MESSAGE_BYTES_MAX));
    refused(&bench, &message(MESSAGE_BYTES_MAX + 1), 413, "too_large", MESSAGE_BYTES_MAX);

    let result = |bytes: usize| {
        let body = json!({"result": x(bytes - 2)});
        Call::post(&format!("/api/agent/jobs/{job}/result"), body).token(&token)
    };
    refused(&bench, &result(RESULT_BYTES_MAX + 1), 413, "too_large", RESULT_BYTES_MAX);
    taken(&bench, &result(RESULT_BYTES_MAX));
    std::fs::write(bench.out.join("go"), "").unwrap();
    assert_eq!(bench.ended(&job)["status"], "succeeded");
    let shown = bench.get(&format!("/api/topics/{topic}")).ok();
    let open = shown["proposals"].as_array().unwrap().iter().find(|it| it["status"] == "open");
    let id = open.unwrap()["id"].as_str().unwrap().to_owned();
    let reject = |bytes: usize| {
        let body = json!({"reason": x(bytes)});
        Call::post(&format!("/api/proposals/{id}/reject"), body).token(&bench.operator())
    };
    refused(&bench, &reject(SUMMARY_BYTES_MAX + 1), 413, "too_large", SUMMARY_BYTES_MAX);
    taken(&bench, &reject(SUMMARY_BYTES_MAX));
    server.stop();
}

/// Somebody who sends everything before they look sees why it is refused, whatever is looked at
/// first.
#[test]
fn a_refused_body_is_read() {
    let bench = Bench::new();
    let server = bench.serve();
    let body = json!({"body": "x".repeat(900_000)});
    let topic = Call::post("/api/topics", body.clone()).token(&bench.operator());
    let refused = bench.send(&topic.header("Idempotency-Key", &"x".repeat(300)));
    assert_eq!(refused.refusal(), (400, "bad_idempotency_key"));
    let refused = bench.send(&Call::post("/hooks/none", body));
    assert_eq!(refused.refusal(), (401, "bad_signature"));
    server.stop();
}
