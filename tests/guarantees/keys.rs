//! G2: one idempotency key is one job, one Topic, one message, one proposal.

use std::collections::BTreeSet;
use std::sync::Barrier;

use serde_json::{Value, json};

use crate::support::{Bench, Call, Topic};

/// How many clients send the same request at the same moment.
const CLIENTS: usize = 64;

/// Waits with its token known until it is let go.
const AGENT: &str = "echo \"$WB_TOKEN\" > \"$OUT/token\"
while [ ! -e \"$OUT/go\" ]; do sleep 0.05; done; exit 0";

/// A request, the field of its answer that names what was made, and the same with another body.
struct Case {
    call: Call,
    other: Call,
    field: &'static str,
}

/// Sends it from all clients at once; returns the different things that they were told.
fn send_at_once(bench: &Bench, call: &Call) -> BTreeSet<String> {
    let (socket, barrier) = (bench.socket(), Barrier::new(CLIENTS));
    let answers: Vec<Value> = std::thread::scope(|scope| {
        let one = || {
            barrier.wait();
            call.try_socket(&socket).unwrap().ok()
        };
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(one)).collect();
        clients.into_iter().map(|it| it.join().unwrap()).collect()
    });
    answers.iter().map(Value::to_string).collect()
}

fn cases(bench: &Bench, topic: &Topic, token: &str) -> Vec<Case> {
    let operator = bench.operator();
    let post = |target: &str, key: &str, token: &str, body: Value| {
        Call::post(target, body).token(token).header("Idempotency-Key", key)
    };
    let both = |target: &str, key: &str, token: &str, body: [Value; 2], field| {
        let [body, other] = body;
        let other = post(target, key, token, other);
        Case { call: post(target, key, token, body), other, field }
    };
    let message = format!("/api/topics/{}/messages", topic.id);
    let proposal = format!("/api/topics/{}/proposals", topic.id);
    let base = bench.git(&["rev-parse", "HEAD:guide.md"]);
    let job = |word| json!({"kind": "quick", "word": word, "not_before": "2100-01-01T00:00:00Z"});
    let about = |text| json!({"source_path": "notes.md", "global": true, "body": text});
    let text = |text| json!({"base_source_sha": base, "text": text});
    vec![
        both("/api/agent/jobs", "job", &operator, [job("one"), job("two")], "job_id"),
        both("/api/topics", "topic", &operator, [about("Why?"), about("How?")], "id"),
        both(&message, "message", &operator, [json!({"body": "a"}), json!({"body": "b"})], "id"),
        both(&proposal, "proposal", token, [text("one\n"), text("two\n")], "proposal_id"),
    ]
}

/// Returns how many jobs, Topics, messages and proposals there are.
fn counts(bench: &Bench, topic: &Topic) -> [usize; 4] {
    let count = |items: &Value| items.as_array().unwrap().len();
    let shown = bench.get(&format!("/api/topics/{}", topic.id)).ok();
    [
        count(&bench.get("/api/agent/jobs?limit=200").ok()["items"]),
        count(&bench.get("/api/topics?limit=200").ok()["items"]),
        count(&shown["messages"]),
        count(&shown["proposals"]),
    ]
}

/// Fails with `WB_WITHOUT=idempotency`.
#[test]
fn g02_the_same_key_from_64_clients_is_one_thing() {
    let bench = Bench::new();
    bench.word_kind("quick", "timeout = \"20s\"", "exit 0");
    bench.topic_kind("waits", "timeout = \"60s\", produces = \"proposal\"", AGENT);
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "Say it better.");
    let waits = bench.job_on("waits", &topic);
    let token = bench.wait_left("token");
    let before = counts(&bench, &topic);
    let mut kept = Vec::new();
    for case in cases(&bench, &topic, &token) {
        let told = send_at_once(&bench, &case.call);
        let field = case.field;
        let ids: BTreeSet<String> = told
            .iter()
            .map(|it| serde_json::from_str::<Value>(it).unwrap()[field].to_string())
            .collect();
        assert_eq!(ids.len(), 1, "{ids:?}");
        let refused = bench.send(&case.other);
        assert_eq!(refused.refusal(), (409, "idempotency_conflict"), "{field}");
        kept.push((case, ids.into_iter().next().unwrap()));
    }
    let after = counts(&bench, &topic);
    assert_eq!(after.map(|it| it - 1), before);

    std::fs::write(bench.out.join("go"), "").unwrap();
    bench.ended(&waits);
    server.kill();
    let server = bench.serve();
    for (case, id) in kept {
        let again = bench.send(&case.call);
        if case.field == "proposal_id" {
            // Its job has ended: not even the answer that it had is given to it again.
            assert_eq!(again.refusal(), (409, "job_ended"));
            continue;
        }
        assert_eq!(again.ok()[case.field].to_string(), id);
        assert_eq!(bench.send(&case.other).refusal(), (409, "idempotency_conflict"));
    }
    assert_eq!(counts(&bench, &topic), after);
    server.stop();
}

/// Keys of two actors never meet.
#[test]
fn g02_a_key_is_its_actors_own() {
    let bench = Bench::new();
    bench.topic_kind("waits", "timeout = \"60s\", produces = \"proposal\"", AGENT);
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "Say it better.");
    let job = bench.job_on("waits", &topic);
    let token = bench.wait_left("token");
    let target = format!("/api/topics/{}/messages", topic.id);
    let say = |who: &str, text: &str| {
        let call = Call::post(&target, json!({"body": text})).token(who);
        bench.send(&call.header("Idempotency-Key", "same")).ok()["id"].clone()
    };
    assert_ne!(say(&bench.operator(), "mine"), say(&token, "the agent's"));
    std::fs::write(bench.out.join("go"), "").unwrap();
    bench.ended(&job);
    server.stop();
}
