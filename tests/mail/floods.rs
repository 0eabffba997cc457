//! Many sends at once.

use serde_json::{Value, json};

use crate::mail::answer;
use crate::support::{Answer, Bench, Call};

/// How many send at once.
const COUNT: usize = 64;

/// Sends as many messages at once, each with a word, and a key if there is one.
fn send_all(bench: &Bench, to: &str, key: Option<&str>) -> Vec<Answer> {
    let (socket, token) = (bench.socket(), bench.operator());
    let send = |nth: usize| {
        let word = if key.is_some() { 0 } else { nth };
        let body = json!({"to": to, "payload": {"nth": word}});
        let call = Call::post("/api/messages", body).token(&token);
        match key {
            Some(key) => call.header("Idempotency-Key", key).try_socket(&socket),
            None => call.try_socket(&socket),
        }
    };
    std::thread::scope(|scope| {
        let sends: Vec<_> = (0..COUNT).map(|nth| scope.spawn(move || send(nth))).collect();
        sends.into_iter().map(|it| it.join().unwrap().unwrap()).collect()
    })
}

/// All of a list, page by page.
fn all(bench: &Bench, target: &str) -> Vec<Value> {
    bench.get(target).ok()["items"].as_array().unwrap().clone()
}

#[test]
fn g33_equal_sends_at_once_are_one_message_with_a_key_and_all_without() {
    let bench = Bench::new();
    let agent = "cat \"$MESSAGE_PATH\" >> \"$OUT/heard\"; wb-agent complete --reply 1";
    bench.inbox("t/many", "concurrency = 1, timeout = \"1m\"", agent);
    let server = bench.serve();
    let answers = send_all(&bench, "topic:t/many", Some("one"));
    let first = answers[0].clone().ok();
    answers.into_iter().for_each(|it| assert_eq!(it.ok(), first));
    let message = first["message_id"].as_str().unwrap();
    assert_eq!(answer(&bench, message)["reply"], 1);
    assert_eq!(all(&bench, "/api/instances?inbox=t/many&limit=100").len(), 1);

    // Without a key each is a message, and they are worked on in the order of acceptance.
    let answers: Vec<Value> =
        send_all(&bench, "topic:t/many", None).into_iter().map(Answer::ok).collect();
    for sent in &answers {
        assert_eq!(answer(&bench, sent["message_id"].as_str().unwrap())["reply"], 1);
    }
    let mut rows = all(&bench, "/api/messages?to=topic:t/many&limit=100");
    assert_eq!(rows.len(), COUNT + 1);
    // The newest is the first of a list.
    rows.reverse();
    let sent: Vec<&Value> = rows.iter().map(|it| &it["payload"]["nth"]).collect();
    let heard: Vec<Value> = bench
        .left("heard")
        .split('}')
        .filter_map(|it| it.split(':').nth(1))
        .map(|it| serde_json::from_str(it.trim()).unwrap())
        .collect();
    assert_eq!(heard.iter().collect::<Vec<_>>(), sent);
    let mut distinct: Vec<i64> = heard[1..].iter().map(|it| it.as_i64().unwrap()).collect();
    distinct.sort_unstable();
    assert_eq!(distinct, (0..64).collect::<Vec<i64>>());
    server.stop();
}
