//! Searching one's conversations: by words of titles and messages, and nobody else's.

use serde_json::{Value, json};

use super::{ask, history, keyed, person};
use crate::support::{Bench, Call, until};

fn script(words: &str, say: &str) -> Value {
    json!({"message": format!("{words}\nscript [{{\"say\": [\"{say}\"]}}]")})
}

fn found(answer: &Value) -> Vec<&str> {
    let items = answer["items"].as_array().unwrap();
    items.iter().map(|it| it["session_id"].as_str().unwrap()).collect()
}

fn text(pieces: &Value) -> String {
    let pieces = pieces.as_array().unwrap().iter();
    let marked = |it: &Value| match it["hit"] == true {
        true => format!("[{}]", it["text"].as_str().unwrap()),
        false => it["text"].as_str().unwrap().to_owned(),
    };
    pieces.map(marked).collect()
}

/// Asks two questions; returns the first stream, and the conversation of the second.
fn two(bench: &Bench) -> (Vec<Value>, String) {
    let say = "Use **exponential** [back-off](http://x.y).";
    let items = ask(bench, script("Élan of retries", say));
    let other = ask(bench, script("Another question", "nothing of it"));
    (items, other[0]["session_id"].as_str().unwrap().to_owned())
}

fn search(bench: &Bench, words: &str) -> Value {
    bench.get(&format!("/api/agent/sessions?query={}", words.replace(' ', "%20"))).ok()
}

#[test]
fn g45_words_are_found_by_their_person_alone() {
    let bench = Bench::new();
    let _model = keyed(&bench, "");
    let server = bench.serve();
    let bea = person(&bench, "bea");
    let (items, _) = two(&bench);
    let session = items[0]["session_id"].as_str().unwrap();
    // What a reader sees of the answer, whatever case and accents were typed.
    let answer = search(&bench, "EXPONENTIAL back off");
    assert_eq!(found(&answer), [session]);
    let hit = &answer["items"][0]["found"];
    assert_eq!(text(&hit["snippet"]), "Use [exponential] [back]-[off].");
    let shown = history(&bench, session);
    assert_eq!(hit["message_id"], shown["messages"][1]["id"]);
    assert_eq!(hit["run_id"], items[0]["run_id"]);
    let answer = search(&bench, "elan");
    assert_eq!(text(&answer["items"][0]["found"]["title"]), "[Élan] of retries");
    assert_eq!(found(&search(&bench, "question -another")), [] as [&str; 0]);
    assert_eq!(found(&search(&bench, "script")).len(), 2, "each conversation once");
    let told = bench.cli(&["chat", "search", "exponential"]).1;
    assert!(told.contains("Use exponential back-off."), "{told}");
    // Bea finds nothing of it, by words or by a message that she knows the id of.
    let as_bea = |target: String| bench.send(&Call::get(&target).token(&bea));
    let listed = as_bea("/api/agent/sessions?query=exponential".to_owned()).ok();
    assert_eq!(listed["items"], json!([]));
    let message = hit["message_id"].as_str().unwrap();
    let at = format!("/api/agent/session/history?session_id={session}&at={message}");
    assert_eq!(as_bea(at).refusal(), (404, "no_session"));
    assert_eq!(as_bea(format!("/assistant/{session}?at={message}")).status, 404);
    let page = as_bea("/assistant?q=exponential".to_owned());
    assert!(page.body.as_str().unwrap().contains("Nothing found"), "{page:?}");
    server.stop();
}

#[test]
fn what_is_found_follows_the_conversation() {
    let bench = Bench::new();
    let _model = keyed(&bench, "");
    let server = bench.serve();
    let (items, _) = two(&bench);
    let session = items[0]["session_id"].as_str().unwrap();
    let shown = history(&bench, session);
    let (question, message) = (&shown["messages"][0]["id"], shown["messages"][1]["id"].clone());
    let message = message.as_str().unwrap();
    // In another branch, without changing which one is shown.
    ask(&bench, json!({"session_id": session, "parent_id": "", "message": "hello there"}));
    let answer = search(&bench, "exponential");
    assert_eq!(answer["items"][0]["found"]["message_id"], message);
    let at = format!("/api/agent/session/history?session_id={session}&at={message}");
    let around = bench.get(&at).ok();
    assert_eq!((&around["is_in_branch"], &around["messages"][0]["id"]), (&json!(false), question));
    assert_ne!(&history(&bench, session)["messages"][0]["id"], question);
    let page = bench.get(&format!("/assistant/{session}?at={message}")).body;
    let page = page.as_str().unwrap();
    assert!(page.contains("Show this version") && page.contains("chat-at"), "{page}");
    // Another title, and conversations that were put away or deleted.
    let change = |body: Value| bench.post(&format!("/api/agent/sessions/{session}"), body).ok();
    change(json!({"title": "Quarterly plan"}));
    assert_eq!(found(&search(&bench, "quarterly")), [session]);
    assert_eq!(found(&search(&bench, "elan")), [session], "it is in the question still");
    change(json!({"is_archived": true}));
    assert_eq!(found(&search(&bench, "quarterly")), [] as [&str; 0]);
    change(json!({"is_archived": false}));
    assert_eq!(found(&search(&bench, "quarterly")), [session]);
    let page = bench.get("/api/agent/sessions?query=script&limit=1").ok();
    let next = page["next"].as_str().unwrap();
    let rest = bench.get(&format!("/api/agent/sessions?query=script&limit=1&after={next}")).ok();
    assert_eq!(found(&rest).len(), 1);
    assert_ne!(found(&rest), found(&page));
    for (query, code) in [("query=-a", "empty_query"), ("query=a&after=x", "bad_parameter")] {
        let refused = bench.get(&format!("/api/agent/sessions?{query}"));
        assert_eq!(refused.refusal(), (400, code), "{query}");
    }
    // Words of a deletion are only marked in the index, until it is merged.
    let database = rusqlite::Connection::open(bench.data.join("wiki.db")).unwrap();
    let has = |word: &str| {
        let mut blocks = database.prepare("SELECT block FROM search_chat_words_data").unwrap();
        let mut blocks = blocks.query([]).unwrap();
        let mut found = false;
        while let Some(row) = blocks.next().unwrap() {
            let block: Vec<u8> = row.get(0).unwrap();
            found |= block.windows(word.len()).any(|it| it == word.as_bytes());
        }
        found
    };
    assert!(has("xponential") && has("another"));
    let gone = Call::new("DELETE", &format!("/api/agent/sessions/{session}"));
    bench.send(&gone.token(&bench.operator())).ok();
    assert_eq!(found(&search(&bench, "quarterly")), [] as [&str; 0]);
    until("no word of it is left in the index", || !has("xponential"));
    assert!(has("another"));
    server.stop();
    let count = "SELECT COUNT(*) FROM search_chat_words";
    let rows: i64 = database.query_row(count, [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 2, "the words of a deleted conversation are gone");
}

#[test]
fn what_was_said_before_there_was_an_index_is_taken_in() {
    let bench = Bench::new();
    let _model = keyed(&bench, "");
    let server = bench.serve();
    let (_, other) = two(&bench);
    server.stop();
    bench.sql("INSERT INTO search_chat_words (search_chat_words) VALUES ('delete-all')");
    bench.sql("UPDATE search_chat_state SET after_seq = 0");
    let server = bench.serve();
    until("the words are in the index", || found(&search(&bench, "another")) == [other.as_str()]);
    until("nothing is left", || search(&bench, "another")["is_building"] == false);
    server.stop();
}
