//! Decisions: made once, by people who may, on the version that they saw.

use std::sync::Barrier;

use serde_json::{Value, json};

use super::{ask, question, show, told};
use crate::support::{Answer, Bench, Call};

/// Sends the same decisions at once; returns what came back, nothing where the server died.
fn race(bench: &Bench, id: &str) -> Vec<Option<Answer>> {
    let (start, token, socket) = (Barrier::new(8), bench.operator(), bench.socket());
    std::thread::scope(|scope| {
        let one = |number: usize| {
            let verb = if number.is_multiple_of(2) { "approve" } else { "reject" };
            let note = format!("from {number}");
            let call = Call::post(
                &format!("/api/approvals/{id}/{verb}"),
                json!({"version": 1, "note": note}),
            );
            let (call, start, socket) = (call.token(&token), &start, &socket);
            scope.spawn(move || {
                start.wait();
                call.try_socket(socket)
            })
        };
        let all: Vec<_> = (0..8).map(one).collect();
        all.into_iter().map(|it| it.join().unwrap()).collect()
    })
}

/// Switch `approval_once`: without it a loser is told of a fault, or wins as well.
#[test]
fn g35_of_eight_decisions_one_wins() {
    let bench = Bench::new();
    let _server = bench.serve();
    for _ in 0..5 {
        let id = ask(&bench, question());
        let answers: Vec<Answer> = race(&bench, &id).into_iter().flatten().collect();
        let won: Vec<&Answer> = answers.iter().filter(|it| it.status == 200).collect();
        assert_eq!((answers.len(), won.len()), (8, 1), "{answers:?}");
        let shown = show(&bench, &id);
        let winner = format!(" by {}", shown["decided_by_name"].as_str().unwrap());
        let lost = answers.iter().filter(|it| it.status != 200);
        for it in lost {
            assert_eq!(it.refusal(), (409, "approval_decided"), "{it:?}");
            let message = it.body["error"]["message"].as_str().unwrap();
            assert!(message.ends_with(&winner), "{message}");
        }
        assert_eq!((&shown["state"], &shown["version"]), (&won[0].body["state"], &json!(2)));
        assert_eq!(shown["events"].as_array().unwrap().len(), 2, "{shown:#}");
        assert_eq!(told(&bench).iter().filter(|it| it["id"] == id).count(), 1);
    }
}

#[test]
fn a_decision_survives_kill_9_and_stays_the_only_one() {
    let bench = Bench::new();
    let mut server = bench.serve_with(&[("WB_CRASH_AT", "after_decision")]);
    let id = ask(&bench, question());
    let answers = race(&bench, &id);
    assert!(answers.iter().flatten().all(|it| it.status != 200), "{answers:?}");
    server.wait();
    let _server = bench.serve();
    let shown = show(&bench, &id);
    assert!(["approved", "rejected"].contains(&shown["state"].as_str().unwrap()), "{shown:#}");
    assert_eq!((&shown["version"], told(&bench).len()), (&json!(2), 1));
    for answer in race(&bench, &id).into_iter().flatten() {
        assert_eq!(answer.refusal(), (409, "approval_decided"));
    }
    assert_eq!((show(&bench, &id)["note"].clone(), told(&bench).len()), (shown["note"].clone(), 1));
}

#[test]
fn who_may_not_decide_is_refused() {
    let bench = Bench::new();
    let server = bench.serve();
    let id = ask(&bench, question());
    bench.post("/api/persons", json!({"name": "viewer", "role": "viewer"})).ok();
    bench.post("/api/persons", json!({"name": "bo", "role": "member"})).ok();
    let token = |person: &str, scope: &str| -> String {
        let args = ["token", "create", scope, "--person", person, "--scope", scope];
        bench.json(&args)["token"].as_str().unwrap().to_owned()
    };
    let (viewer, writer) = (token("viewer", "read"), token("bo", "write"));
    let approve = format!("/api/approvals/{id}/approve");
    let said = |target: &str, token: &str| -> (u16, String) {
        let call = Call::post(target, json!({"version": 1})).token(token);
        let answer = call.tcp(server.address());
        (answer.status, answer.code().to_owned())
    };
    assert_eq!(said(&approve, &viewer), (403, "viewer".to_owned()));
    assert_eq!(said(&approve, &writer), (403, "scope".to_owned()));
    assert_eq!(said(&approve, "nobody").0, 401);
    assert_eq!(said("/api/approvals", &viewer), (403, "viewer".to_owned()));
    // Another person takes nothing back.
    let withdraw = format!("/api/approvals/{id}/withdraw");
    assert_eq!(said(&withdraw, &writer), (403, "not_requester".to_owned()));
    assert_eq!(show(&bench, &id)["state"], "pending");
    let decider = token("bo", "decide");
    assert_eq!(said(&approve, &decider).0, 200);
    assert_eq!(show(&bench, &id)["decided_by_name"], "bo");
}

#[test]
fn an_approval_with_changes_fits_the_schema() {
    let bench = Bench::new();
    let _server = bench.serve();
    let id = ask(&bench, question());
    let approve = format!("/api/approvals/{id}/approve");
    let with = |changes: Value| json!({"version": 1, "changes": changes});
    let refused = bench.post(&approve, with(json!({"team": "billing", "budget": 900})));
    assert_eq!(refused.refusal(), (400, "bad_payload"));
    let message = refused.body["error"]["message"].as_str().unwrap();
    assert!(message.contains("payload.budget: "), "{message}");
    assert_eq!(bench.post(&approve, json!({"version": 7})).refusal(), (409, "version_changed"));
    let wide = with(json!({"team": "billing", "more": "x".repeat(300 * 1024)}));
    assert_eq!(bench.post(&approve, wide).status, 413);
    let reject = format!("/api/approvals/{id}/reject");
    assert_eq!(bench.post(&reject, with(json!({}))).refusal(), (400, "bad_parameter"));
    assert_eq!(show(&bench, &id)["version"], 1);

    let decided = bench.post(&approve, with(json!({"team": "billing", "budget": 100}))).ok();
    assert_eq!(decided["state"], "amended");
    let outcome = bench.get(&format!("/api/approvals/{id}/await?timeout=0")).ok();
    assert_eq!(outcome["payload"], json!({"team": "billing", "budget": 100}));
    assert_eq!(show(&bench, &id)["payload"]["budget"], 300);
    // The same payload is no change.
    let id = ask(&bench, question());
    let same = json!({"version": 1, "changes": {"budget": 300, "team": "billing"}});
    let decided = bench.post(&format!("/api/approvals/{id}/approve"), same).ok();
    assert_eq!(decided["state"], "approved");
}

#[test]
fn whoever_is_second_after_a_withdrawal_or_an_approval_is_told() {
    let bench = Bench::new();
    let _server = bench.serve();
    let (first, second) = (ask(&bench, question()), ask(&bench, question()));
    let withdraw = |id: &str| bench.post(&format!("/api/approvals/{id}/withdraw"), json!({}));
    let approve =
        |id: &str| bench.post(&format!("/api/approvals/{id}/approve"), json!({"version": 1}));
    assert_eq!(withdraw(&first).ok()["state"], "withdrawn");
    assert_eq!(approve(&first).refusal(), (409, "approval_decided"));
    assert_eq!(approve(&second).ok()["state"], "approved");
    assert_eq!(withdraw(&second).refusal(), (409, "approval_decided"));
    assert_eq!(show(&bench, &first)["state"], "withdrawn");
    assert_eq!(show(&bench, &second)["state"], "approved");
    assert_eq!(told(&bench).len(), 2);
}

#[test]
fn what_is_no_question_is_refused_and_the_same_request_is_one_question() {
    let bench = Bench::new();
    let _server = bench.serve();
    for (field, value, refusal) in [
        ("channel", json!("two words"), (400, "bad_channel")),
        ("channel", json!("approval:aws"), (400, "bad_channel")),
        ("title", json!(" "), (400, "bad_title")),
        ("title", json!("two\nlines"), (400, "bad_title")),
        ("title", json!("\u{1b}[2J"), (400, "bad_title")),
        ("title", json!("ä".repeat(201)), (400, "bad_title")),
        ("payload", json!({"team": "sales"}), (400, "bad_payload")),
        ("payload", json!({"team": "billing", "x": "y".repeat(257 * 1024)}), (413, "too_large")),
        ("schema", json!({"type": "nothing"}), (400, "bad_schema")),
        ("schema", json!({"$ref": "file:///etc/passwd"}), (400, "bad_schema")),
        ("expires", json!("soon"), (400, "bad_parameter")),
        ("private_to", json!("x"), (400, "unknown_field")),
    ] {
        let mut body = question();
        body[field] = value;
        let answer = bench.post("/api/approvals", body);
        assert_eq!(answer.refusal(), refusal, "{field} {answer:?}");
    }
    assert_eq!(bench.get("/api/approvals").ok()["items"], json!([]));
    let call = Call::post("/api/approvals", question()).token(&bench.operator());
    let call = call.header("Idempotency-Key", "one");
    let (first, again) = (bench.send(&call), bench.send(&call));
    assert_eq!((first.status, &first.body), (201, &again.body));
    assert_eq!(bench.get("/api/approvals").ok()["items"].as_array().unwrap().len(), 1);
    for _ in 1..100 {
        ask(&bench, json!({"channel": "aws", "title": "One more?"}));
    }
    let answer = bench.post("/api/approvals", question());
    assert_eq!(answer.refusal(), (429, "too_many_approvals"));
}

#[test]
fn decisions_are_listed_oldest_first_with_the_proposals() {
    let bench = Bench::new();
    bench.topic_kind(
        "adds",
        "produces = \"proposal\", timeout = \"20s\", lane = \"topic_id\"",
        "{ cat \"$root/$path\"; echo More.; } > \"$OUT/new.md\"\npropose < \"$OUT/new.md\"",
    );
    let _server = bench.serve();
    let first = ask(&bench, question());
    let topic = bench.topic("guide.md", "The first line.", "Say more.");
    let proposal = bench.proposal("adds", &topic);
    let second = ask(&bench, json!({"channel": "dns", "title": "Move the zone?"}));
    let listed = bench.get("/api/decisions").ok();
    let items = listed["items"].as_array().unwrap();
    let ids: Vec<&str> = items.iter().map(|it| it["id"].as_str().unwrap()).collect();
    let proposal = proposal["proposal"]["id"].as_str().unwrap();
    assert_eq!(ids, [first.as_str(), proposal, second.as_str()]);
    let whats: Vec<&str> = items.iter().map(|it| it["what"].as_str().unwrap()).collect();
    assert_eq!(whats, ["approval", "proposal", "approval"]);
    assert_eq!(items[0]["link"], format!("/approvals/{first}"));
    assert_eq!((&items[1]["title"], &items[1]["place"]), (&json!("Say more."), &json!("guide.md")));
    let (code, words, _) = bench.cli(&["decisions"]);
    assert!(code == 0 && words.contains("Create billing-prod?") && words.contains("Say more."));
    let (code, words, err) = bench.cli(&["approval", "reject", &second[20..], "--note", "No."]);
    assert_eq!((code, words.trim()), (0, &*format!("approval {second} is rejected")), "{err}");
    let with = bench.top.join("plan.json");
    std::fs::write(&with, "{\"team\": \"search\"}").unwrap();
    let decided = bench.json(&["approval", "approve", &first, "--with", "@plan.json"]);
    assert_eq!(decided["state"], "amended");
    let (code, words, _) = bench.cli(&["approval", "show", &first]);
    assert!(code == 0 && words.contains("\"search\"") && words.contains("amended"), "{words}");
    let (code, _, err) = bench.cli(&["approval", "approve", &first]);
    assert!(code == 5 && err.contains("was amended by ada"), "{err}");
    let left = bench.get("/api/decisions").ok()["items"].clone();
    assert_eq!(left.as_array().unwrap().len(), 1, "{left:#}");
    let rejected = bench.get("/api/approvals?state=rejected&channel=dns").ok();
    assert_eq!(rejected["items"][0]["note"], "No.");
    assert_eq!(bench.get("/api/approvals?state=open").refusal(), (400, "bad_parameter"));
}
