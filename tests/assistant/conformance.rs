//! The same questions to every runtime: what a person sees does not tell which one answers.

use serde_json::{Value, json};

use super::{Live, ask, assistant, gateway, history, keyed, replay, token};
use crate::support::{Bench, Model};

/// Declares an assistant; returns its stand-in, if it is one that must live on.
type Declare = fn(&Bench, &str) -> Option<Model>;

/// What it takes before the first question, once the server runs.
type Ready = fn(&Bench);

const RUNTIMES: [(&str, Declare, Ready); 3] = [
    (
        "claude_code",
        |bench, more| {
            assistant(bench, more);
            None
        },
        |_| {},
    ),
    ("anthropic_api_key", |bench, more| Some(keyed(bench, more)), |_| {}),
    (
        "gateway_subscription",
        |bench, more| Some(gateway::subscribed(bench, more)),
        gateway::sign_in,
    ),
];

/// Returns what a person sees of a stream: words together, and nothing that differs from run to
/// run or that only says what it took.
fn seen(items: &[Value]) -> Vec<Value> {
    let mut seen: Vec<Value> = Vec::new();
    for item in items {
        let of = |name: &str| item[name].clone();
        let next = match item["type"].as_str().unwrap() {
            "start" | "usage" | "error" => continue,
            "text" => {
                let delta = item["delta"].as_str().unwrap();
                if let Some(Value::String(words)) = seen.last_mut() {
                    words.push_str(delta);
                    continue;
                }
                json!(delta)
            }
            "tool_call" => json!([of("tool"), of("args")]),
            "confirm_required" => json!([of("tool"), of("reason"), of("preview")]),
            "tool_result" => json!([of("tool"), of("ok"), of("state"), of("summary")]),
            "status" => json!(["status"]),
            "done" => json!(["done", of("reason")]),
            word => json!([word]),
        };
        seen.push(next);
    }
    // Only a runtime that is a process says in the stream why it fails before the end does.
    seen.retain(|it| it[0] != "status");
    seen
}

/// Asks every runtime the same; returns what each of them showed.
#[track_caller]
fn asked(questions: &[&str], more: &str) -> Vec<Vec<Vec<Value>>> {
    let ask_all = |(_, declare, ready): &(&str, Declare, Ready)| {
        let bench = Bench::new();
        let _model = declare(&bench, more);
        let server = bench.serve();
        ready(&bench);
        let all = questions.iter().map(|it| {
            let items = ask(&bench, json!({"message": it}));
            let run = items[0]["run_id"].as_str().unwrap();
            assert_eq!(replay(&bench, run), items, "{it}: what was seen can be read again");
            seen(&items)
        });
        let all = all.collect();
        server.stop();
        all
    };
    RUNTIMES.iter().map(ask_all).collect()
}

#[test]
fn words_calls_and_endings_are_alike() {
    let questions = [
        "hello",
        "nothing",
        "refused",
        "noisy",
        "call write_file {\"path\":\"notes/a.md\",\"content\":\"one\\ntwo\\n\"}\n\
         call edit_file {\"path\":\"notes/a.md\",\"old\":\"two\",\"new\":\"three\"}\n\
         call search_files {\"pattern\":\"THREE\"}\n\
         call read_file {\"path\":\"../wiki.db\"}\n\
         call read_source {\"path\":\"guide.md\"}\n\
         call glob_files {\"pattern\":\"**/*.md\"}\n\
         call move_file {\"from\":\"notes/a.md\",\"to\":\"b.md\"}\n\
         call list_directory {}\n\
         call list_topics {}\n\
         call write_file {\"path\":1}",
    ];
    let answers = asked(&questions, "limits = { output_kib = 1 },");
    for (place, question) in questions.iter().enumerate() {
        for other in &answers[1..] {
            let (one, other) = (&answers[0][place], &other[place]);
            // How much of an endless answer comes before its bound differs.
            match *question {
                "noisy" => assert_eq!(one.last(), other.last()),
                _ => assert_eq!(one, other, "{question}"),
            }
        }
    }
    let made = &answers[1][4];
    assert_eq!(made.len(), 22, "{made:#?}");
}

#[test]
fn more_calls_than_allowed_are_refused_and_told() {
    let question = "call list_directory {}\ncall list_directory {}\ncall list_directory {}";
    let answers = asked(&[question], "limits = { tool_calls = 2 },");
    assert_eq!((&answers[0], &answers[0]), (&answers[1], &answers[2]));
    let calls = answers[1][0].iter().filter(|it| it.as_array().is_some_and(|it| it.len() == 4));
    assert_eq!(calls.count(), 2, "{:#?}", answers[1]);
}

/// Each answer of a person leads to the same with every runtime.
#[test]
fn g43_a_question_has_the_same_answers() {
    let mut all = Vec::new();
    for (name, declare, ready) in RUNTIMES {
        let bench = Bench::new();
        let _model = declare(&bench, "");
        let server = bench.serve();
        ready(&bench);
        let write = "call write_file {\"path\":\"a.md\",\"content\":\"old\\n\"}";
        ask(&bench, json!({"message": write}));
        let token = token(&bench, "ada");
        let mut shown = Vec::new();
        for verb in ["reject", "approve"] {
            let question = "call write_file {\"path\":\"a.md\",\"content\":\"new\\n\"}";
            let body = json!({"message": question});
            let mut live = Live::ask(server.address(), &token, &body);
            let asked = live.until(|it| it["type"] == "confirm_required").unwrap();
            let id = asked["approval_id"].as_str().unwrap();
            bench.post(&format!("/api/approvals/{id}/{verb}"), json!({"version": 1})).ok();
            live.until(|it| it["type"] == "done").unwrap();
            shown.push(seen(&live.seen));
            let session = live.seen[0]["session_id"].as_str().unwrap();
            let calls = history(&bench, session)["calls"].clone();
            let call = &calls[0];
            shown.push(vec![json!([call["state"], call["can_undo"], call["ok"]])]);
        }
        assert_eq!(shown[1], [json!(["declined", false, false])], "{name}");
        all.push(shown);
        server.stop();
    }
    assert_eq!((&all[0], &all[0]), (&all[1], &all[2]));
}
