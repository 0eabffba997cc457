//! Channels: people and agents in one conversation.

pub(crate) mod agents;
mod attachments;
mod kills;
mod manage;
mod outside;
mod page;
mod promote;
mod refusals;
mod scripts;
mod seating;
pub(crate) mod seats;
pub(crate) mod terminals;
mod types;
mod workshop;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::{Bench, Call};

/// Makes a channel; returns its slug.
#[track_caller]
pub(crate) fn room(bench: &Bench, name: &str, members: Value) -> String {
    let body = json!({"name": name, "members": members});
    bench.post("/api/channels", body).ok()["slug"].as_str().unwrap().to_owned()
}

/// Returns what was said: handles, or `*` for the program, and texts.
#[track_caller]
fn said(bench: &Bench, slug: &str) -> Vec<(String, String)> {
    let page = bench.get(&format!("/api/channels/{slug}/messages?limit=200")).ok();
    let text = |it: &Value| it.as_str().unwrap_or("*").to_owned();
    let items = page["items"].as_array().unwrap();
    items.iter().map(|it| (text(&it["author"]["handle"]), text(&it["text"]))).collect()
}

#[track_caller]
fn sequences(bench: &Bench, slug: &str) -> Vec<i64> {
    let page = bench.get(&format!("/api/channels/{slug}/messages?limit=200")).ok();
    page["items"].as_array().unwrap().iter().map(|it| it["sequence"].as_i64().unwrap()).collect()
}

/// A reply, and the history as agents and programs read it.
#[track_caller]
fn replies(bench: &Bench) {
    let (code, _, err) = bench.cli(&["msg", "send", "1", "Yes.", "--reply-to", "1"]);
    assert_eq!(code, 0, "{err}");
    let (_, history, _) = bench.cli(&["msg", "history", "1", "--format", "envelope"]);
    let wanted = "[#release-plan] ada (operator):\nWhat is left?\n\
                  [#release-plan] ada (operator):\nDecision: ship on Monday\n\
                  [#release-plan] ada (operator):\nYes.\n";
    assert_eq!(history, wanted);
    let (_, history, _) = bench.cli(&["msg", "history", "1", "--format", "json", "--after", "2"]);
    let line: Value = serde_json::from_str(&history).unwrap();
    assert_eq!((&line["sequence"], &line["answers"]), (&json!(3), &json!(1)));
}

#[test]
fn people_talk_in_a_channel_from_its_making_to_its_export() {
    let bench = Bench::new();
    let server = bench.serve();
    bench.post("/api/persons", json!({"name": "kim", "role": "member"})).ok();
    let (code, slug, err) = bench.cli(&[
        "channel",
        "create",
        "Release plan",
        "--type",
        "review",
        "--person",
        "kim",
        "--chair",
        "@kim",
        "--message",
        "What is left?",
    ]);
    assert_eq!((code, slug.trim()), (0, "review-release-plan-1"), "{err}");
    for channel in ["1", "#release-plan", "review-rel", "review-release-plan-1"] {
        let shown = bench.json(&["channel", "show", channel]);
        assert_eq!(shown["number"], 1, "{channel}");
    }
    let (code, out, err) = bench.cli(&["msg", "send", "1", "Decision: ship on Monday"]);
    assert_eq!((code, out.trim()), (0, "review-release-plan-1 2"), "{err}");
    replies(&bench);
    // The same by the address of the channel.
    let sent = json!({"to": "channel:review-release-plan-1", "payload": "By mail."});
    bench.post("/api/messages", sent).ok();
    let (_, history, _) = bench.cli(&["msg", "history", "1", "--after", "1"]);
    assert!(history.contains("ship on Monday") && history.contains("By mail."), "{history}");
    assert!(!history.contains("What is left?"), "{history}");
    let (_, members, _) = bench.cli(&["channel", "members", "1"]);
    assert!(members.contains("kim") && members.contains("chair"), "{members}");

    assert!(members.lines().any(|it| it.contains("kim") && it.contains("chair")), "{members}");
    bench.json(&["channel", "chair", "1", "ada"]);
    bench.json(&["channel", "chair", "1", "kim"]);
    bench.json(&["channel", "intent", "1", "Find what is missing."]);
    bench.json(&["channel", "mute", "1", "kim"]);
    bench.json(&["channel", "unmute", "1", "kim"]);
    bench.json(&["channel", "pause", "1"]);
    assert_eq!(bench.json(&["channel", "show", "1"])["paused"]["reason"], "person");
    bench.json(&["channel", "resume", "1"]);
    bench.json(&["channel", "remove", "1", "kim"]);
    let lines = said(&bench, "1");
    let line = &lines.last().unwrap().1;
    assert!(line.starts_with("ada removed kim from the channel."), "{line}");
    let shown = bench.json(&["channel", "show", "1"]);
    let chair: Vec<&Value> =
        shown["members"].as_array().unwrap().iter().filter(|it| it["is_chair"] == true).collect();
    assert_eq!(chair.len(), 1, "the chair that left is followed: {shown}");

    bench.json(&["channel", "complete", "1"]);
    let refused = bench.post("/api/channels/1/messages", json!({"body": "too late"}));
    assert_eq!(refused.refusal(), (409, "channel_not_active"));
    let (_, export, _) = bench.cli(&["channel", "export", "1"]);
    assert!(export.starts_with("# Release plan\n"), "{export}");
    let outcomes = export.find("- Decision: ship on Monday").unwrap();
    assert!(outcomes < export.find("## Conversation").unwrap(), "{export}");
    assert_eq!(bench.json(&["channel", "list"])["items"], json!([]));
    assert_eq!(bench.json(&["channel", "list", "--status", "complete"])["items"][0]["number"], 1);
    bench.json(&["channel", "archive", "1"]);
    // Its name is free again, its number is not.
    assert_eq!(room(&bench, "Release plan", json!([])), "workshop-release-plan-2");
    let all = sequences(&bench, "1");
    assert_eq!(all, (1..=all.len() as i64).collect::<Vec<_>>());
    server.stop();
}

#[test]
fn what_may_not_be_done_is_refused_by_name_and_changes_nothing() {
    let bench = Bench::new();
    let server = bench.serve();
    let made = |name: &str| bench.post("/api/persons", json!({"name": name, "role": "member"}));
    made("kim").ok();
    let slug = room(&bench, "Room", json!([{"person": "kim"}]));
    room(&bench, "Empty", json!([]));
    bench.post(&format!("/api/channels/{slug}/messages"), json!({"body": "Hello"})).ok();
    let before = said(&bench, &slug);
    let long = "x".repeat(50_001);
    for (path, body, refusal) in [
        ("/api/channels", json!({"name": "Room"}), (409, "name_taken")),
        ("/api/channels", json!({"name": "a\nb"}), (400, "bad_name")),
        ("/api/channels", json!({"name": "X", "type": "party"}), (400, "unknown_type")),
        ("/api/channels", json!({"name": "X", "members": [{}]}), (400, "bad_member")),
        (
            "/api/channels",
            json!({"name": "X", "members": [{"agent": "nobody"}]}),
            (404, "no_agent"),
        ),
        (
            "/api/channels",
            json!({"name": "X", "members": [{"person": "nobody"}]}),
            (404, "no_person"),
        ),
        ("/api/channels", json!({"name": "X", "budget": {"turns": 0}}), (400, "bad_parameter")),
        ("/api/channels/room/messages", json!({"body": " "}), (400, "empty_text")),
        ("/api/channels/room/messages", json!({"body": "a\0b"}), (400, "empty_text")),
        ("/api/channels/room/messages", json!({"body": long}), (413, "too_large")),
        (
            "/api/channels/room/messages",
            json!({"body": "x", "to": "nobody"}),
            (400, "unknown_mention"),
        ),
        (
            "/api/channels/room/messages",
            json!({"body": "x", "type": "system"}),
            (400, "bad_parameter"),
        ),
        ("/api/channels/room/members", json!({"person": "kim"}), (409, "already_a_member")),
        ("/api/channels/room/chair", json!({"to": "nobody"}), (404, "no_member")),
        ("/api/channels/room/members/nobody/mute", json!({}), (404, "no_member")),
        ("/api/channels/room/members/kim/unmute", json!({}), (409, "not_changed")),
        ("/api/channels/room/read", json!({"sequence": 99}), (400, "cursor_ahead")),
        ("/api/channels/room/resume", json!({}), (409, "not_changed")),
        ("/api/channels/room/archive", json!({}), (409, "channel_not_complete")),
        ("/api/channels/empty/pause", json!({}), (409, "not_changed")),
        ("/api/channels/99/messages", json!({"body": "x"}), (404, "no_channel")),
        ("/api/channels/nowhere/messages", json!({"body": "x"}), (404, "no_channel")),
        ("/api/channels/workshop/messages", json!({"body": "x"}), (409, "ambiguous")),
    ] {
        let refused = bench.post(path, body);
        assert_eq!(refused.refusal(), refusal, "{path}");
    }
    assert_eq!(said(&bench, &slug), before);
    assert_eq!(bench.json(&["channel", "list"])["items"].as_array().unwrap().len(), 2);
    server.stop();
}

#[test]
fn a_channel_is_read_by_all_and_managed_by_its_chair() {
    let bench = Bench::new();
    let server = bench.serve();
    bench.post("/api/persons", json!({"name": "kim", "role": "member"})).ok();
    let token = json!({"person": "kim", "name": "t", "scopes": ["read", "write"]});
    let token = bench.post("/api/tokens", token).ok()["token"].as_str().unwrap().to_owned();
    let slug = room(&bench, "Room", json!([]));
    let ada = |path: &str, body: Value| {
        bench.send(&Call::post(&format!("/api/channels/{slug}{path}"), body).token(&token))
    };
    let shown = bench.send(&Call::get(&format!("/api/channels/{slug}")).token(&token)).ok();
    assert_eq!(shown["me"], Value::Null);
    assert_eq!(ada("/messages", json!({"body": "hi"})).refusal(), (403, "not_a_member"));
    assert_eq!(ada("/members", json!({"person": "kim"})).refusal(), (403, "not_a_member"));
    ada("/join", json!({})).ok();
    ada("/messages", json!({"body": "hi"})).ok();
    assert_eq!(ada("/complete", json!({})).refusal(), (403, "not_chair"));
    assert_eq!(ada("/change", json!({"intent": "mine"})).refusal(), (403, "not_chair"));
    let unread = bench.json(&["channel", "list"])["items"][0]["unread"].clone();
    assert!(unread.as_i64().unwrap() >= 1, "{unread}");
    bench.post(&format!("/api/channels/{slug}/messages"), json!({"body": "@kim look"})).ok();
    let shown = bench.send(&Call::get(&format!("/api/channels/{slug}")).token(&token)).ok();
    assert_eq!((&shown["unread"], &shown["mentions"]), (&json!(1), &json!(1)));
    let last = shown["last_sequence"].clone();
    assert_eq!(ada("/read", json!({"sequence": last})).ok()["unread"], 0);
    // A channel without anybody has ended.
    ada("/leave", json!({})).ok();
    bench.json(&["channel", "leave", &slug]);
    assert_eq!(bench.json(&["channel", "show", &slug])["status"], "complete");
    server.stop();
}

#[test]
fn sixty_four_posts_at_once_stand_in_one_order_without_a_gap() {
    let bench = Bench::new();
    let server = bench.serve();
    let slug = room(&bench, "Crowd", json!([]));
    let (path, socket) = (format!("/api/channels/{slug}/messages"), bench.socket());
    let operator = bench.operator();
    let told: Vec<i64> = std::thread::scope(|scope| {
        let post = |at: usize| {
            let call = Call::post(&path, json!({"body": format!("line {at}")})).token(&operator);
            let socket = &socket;
            scope.spawn(move || {
                let posted = call.try_socket(socket).unwrap().ok();
                posted["sequence"].as_i64().unwrap()
            })
        };
        let running: Vec<_> = (0..64).map(post).collect();
        running.into_iter().map(|it| it.join().unwrap()).collect()
    });
    assert_eq!(told.iter().copied().collect::<BTreeSet<_>>(), (1..=64).collect());
    assert_eq!(sequences(&bench, &slug), (1..=64).collect::<Vec<_>>());
    let texts: BTreeSet<String> = said(&bench, &slug).into_iter().map(|it| it.1).collect();
    assert_eq!(texts.len(), 64);
    server.stop();
}

#[test]
fn what_a_person_says_by_voice_is_posted_asked_or_refused() {
    let bench = Bench::new();
    let server = bench.serve();
    bench.post("/api/persons", json!({"name": "kim", "role": "member"})).ok();
    let say = |text: &str| bench.post("/api/voice/command", json!({"text": text}));
    assert_eq!(say("say hello").refusal(), (404, "no_channel"));
    let slug = room(&bench, "Kitchen", json!([]));
    let told = say("Say, the oven is on.").ok();
    assert_eq!((&told["channel"], &told["spoken"]), (&json!(slug), &json!("Sent to Kitchen.")));
    assert_eq!(say("add Kim.").ok()["spoken"], "Kim is in Kitchen now.");
    say("tell Kim: it is hot").ok();
    let texts: Vec<String> = said(&bench, &slug).into_iter().map(|it| it.1).collect();
    assert_eq!(texts, ["the oven is on.", "kim joined the channel.", "@kim it is hot"]);
    assert_eq!(say("tell nobody hello").refusal(), (400, "unknown_mention"));
    assert_eq!(say("burn the house down").refusal(), (400, "not_understood"));
    let token = json!({"person": "kim", "name": "t", "scopes": ["read", "write"]});
    let token = bench.post("/api/tokens", token).ok()["token"].as_str().unwrap().to_owned();
    let ask =
        Call::post("/api/voice/command", json!({"text": "What is new?", "channel": "kitchen"}));
    let news = bench.send(&ask.token(&token)).ok()["spoken"].clone();
    assert!(news.as_str().unwrap().ends_with("ada: @kim it is hot"), "{news}");
    // Repeated, it is said once.
    let twice = || {
        let call = Call::post("/api/voice/command", json!({"text": "say once"}));
        bench.send(&call.token(&bench.operator()).header("Idempotency-Key", "voice-1")).ok()
    };
    assert_eq!(twice(), twice());
    assert_eq!(said(&bench, &slug).len(), 4);
    server.stop();
}
