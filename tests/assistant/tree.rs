//! The tree of a conversation: editing a question and trying again are branches.

use serde_json::{Value, json};

use super::{ask, assistant, history};
use crate::support::Bench;

fn bodies(shown: &Value) -> Vec<&str> {
    shown["messages"].as_array().unwrap().iter().map(|it| it["body"].as_str().unwrap()).collect()
}

#[test]
fn an_edited_question_is_a_branch_and_the_old_one_stays() {
    let bench = Bench::new();
    assistant(&bench, "");
    let server = bench.serve();
    let first = ask(&bench, json!({"message": "hello"}));
    let session = first[0]["session_id"].as_str().unwrap();
    ask(&bench, json!({"session_id": session, "message": "again"}));
    let before = history(&bench, session);
    assert_eq!(bodies(&before), ["hello", "Hello **you**", "again", "again"]);
    // The second question is edited: it follows what the old one followed.
    let parent = &before["messages"][1]["id"];
    ask(&bench, json!({"session_id": session, "parent_id": parent, "message": "other"}));
    let after = history(&bench, session);
    assert_eq!(bodies(&after), ["hello", "Hello **you**", "other", "What?"]);
    let siblings = after["messages"][2]["siblings"].as_array().unwrap();
    assert_eq!(siblings.len(), 2);
    assert_eq!(siblings[0], before["messages"][2]["id"]);
    // Back to the other branch, by its question: its newest end is shown.
    let target = format!("/api/agent/sessions/{session}");
    bench.post(&target, json!({"head_id": siblings[0]})).ok();
    assert_eq!(bodies(&history(&bench, session)), bodies(&before));
    // Trying again is another answer to the same question.
    let question = &before["messages"][2]["id"];
    ask(&bench, json!({"session_id": session, "parent_id": question}));
    let tried = history(&bench, session);
    assert_eq!(tried["messages"][3]["siblings"].as_array().unwrap().len(), 2);
    let wrong = json!({"session_id": session, "parent_id": tried["messages"][3]["id"]});
    let wrong = bench.post("/api/agent/chat-stream", wrong);
    assert_eq!(wrong.refusal(), (400, "bad_parent"));
    server.stop();
}

#[test]
fn a_conversation_is_renamed_and_put_away() {
    let bench = Bench::new();
    assistant(&bench, "");
    let server = bench.serve();
    let first = ask(&bench, json!({"message": "hello"}));
    let session = first[0]["session_id"].as_str().unwrap();
    let target = format!("/api/agent/sessions/{session}");
    let shown = bench.post(&target, json!({"title": "Greetings", "is_pinned": true})).ok();
    assert_eq!((&shown["title"], &shown["is_pinned"]), (&json!("Greetings"), &json!(true)));
    assert_eq!(bench.post(&target, json!({})).refusal(), (400, "no_changes"));
    assert_eq!(bench.post(&target, json!({"title": "a\nb"})).refusal(), (400, "bad_title"));
    assert_eq!(bench.post(&target, json!({"is_archived": true})).ok()["is_archived"], true);
    // Another question brings it back.
    ask(&bench, json!({"session_id": session, "message": "again"}));
    let shown = bench.get(&target).ok();
    assert_eq!((&shown["is_archived"], &shown["title"]), (&json!(false), &json!("Greetings")));
    assert_eq!(shown["messages"], 4);
    server.stop();
}

/// Ten thousand messages: pages of them, the end and the middle, and nothing more at once.
#[test]
fn a_very_long_conversation_is_read_page_by_page() {
    const MESSAGES: usize = 10_000;
    let bench = Bench::new();
    assistant(&bench, "");
    let server = bench.serve();
    let first = ask(&bench, json!({"message": "hello"}));
    let session = first[0]["session_id"].as_str().unwrap().to_owned();
    let head = first.last().unwrap()["message_id"].as_str().unwrap().to_owned();
    server.stop();
    let database = rusqlite::Connection::open(bench.data.join("wiki.db")).unwrap();
    let many = format!(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {MESSAGES})
         INSERT INTO chat_messages (id, session_id, parent_id, role, state, body, created_ms)
         SELECT printf('018bcfe5-6800-7000-8000-%012d', i), '{session}',
             IIF(i = 1, '{head}', printf('018bcfe5-6800-7000-8000-%012d', i - 1)),
             'user', 'whole', 'number ' || i, 0 FROM n"
    );
    assert_eq!(database.execute(&many, []).unwrap(), MESSAGES);
    drop(database);
    let id = |number: usize| format!("018bcfe5-6800-7000-8000-{number:012}");
    let last = id(MESSAGES);
    bench.sql(&format!("UPDATE chat_sessions SET head_id = '{last}' WHERE id = '{session}'"));
    let server = bench.serve();
    let mut before = String::new();
    let mut found: Vec<String> = Vec::new();
    loop {
        let target = format!("/api/agent/session/history?session_id={session}&limit=200{before}");
        let page = bench.get(&target).ok();
        let mut bodies: Vec<String> = bodies(&page).iter().map(|it| (*it).to_owned()).collect();
        assert!(bodies.len() <= 200);
        bodies.append(&mut found);
        found = bodies;
        match page["next"].as_str() {
            Some(next) => before = format!("&before={next}"),
            None => break,
        }
    }
    let wanted = ["hello".to_owned(), "Hello **you**".to_owned()].into_iter();
    let wanted = wanted.chain((1..=MESSAGES).map(|it| format!("number {it}")));
    assert_eq!(found, wanted.collect::<Vec<_>>());
    let page = |query: &str| {
        let shown = bench.get(&format!("/assistant/{session}{query}")).ok();
        shown.as_str().unwrap().to_owned()
    };
    let shown = page("");
    assert!(shown.contains("number 10000<") && !shown.contains("number 9900<"), "its end");
    let shown = page(&format!("?at={}", id(5_000)));
    assert!(shown.contains("number 5000<") && !shown.contains("number 10000<"), "its middle");
    let next = ask(&bench, json!({"session_id": session, "message": "again"}));
    assert_eq!(next.last().unwrap()["reason"], "ok");
    server.stop();
}

#[test]
fn a_long_history_comes_in_pages() {
    let bench = Bench::new();
    assistant(&bench, "");
    let server = bench.serve();
    let first = ask(&bench, json!({"message": "hello"}));
    let session = first[0]["session_id"].as_str().unwrap();
    ask(&bench, json!({"session_id": session, "message": "again"}));
    let target = format!("/api/agent/session/history?session_id={session}&limit=3");
    let newest = bench.get(&target).ok();
    assert_eq!(bodies(&newest), ["Hello **you**", "again", "again"]);
    let next = newest["next"].as_str().unwrap();
    let rest = bench.get(&format!("{target}&before={next}")).ok();
    assert_eq!((bodies(&rest), &rest["next"]), (vec!["hello"], &json!(null)));
    server.stop();
}
