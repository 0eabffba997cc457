//! A conversation with one agent that becomes a channel.

use serde_json::{Value, json};

use crate::agents::{send, wait_state};
use crate::channels::agents::{agents, answers, say, wait_known, wait_said};
use crate::channels::{room, said};
use crate::support::{Bench, Call, wait_for};

/// Writes to an agent, and waits until it has answered.
#[track_caller]
fn tell(bench: &Bench, name: &str, text: &str) {
    let path = format!("/api/agents/{name}/promote");
    let count = || {
        let answer = bench.get(&path);
        match answer.status {
            200 => answer.ok()["turns"].as_array().unwrap().len(),
            _ => 0,
        }
    };
    let before = count();
    send(bench, name, json!(text));
    wait_for("it has answered", || (count() > before).then_some(()));
    wait_state(bench, name, "idle");
}

/// Waits until agents have been started.
#[track_caller]
fn begin(bench: &Bench, names: &[&str]) {
    wait_known(bench, names.len());
    for name in names {
        bench.json(&["agent", "start", name]);
        wait_state(bench, name, "idle");
    }
}

/// Returns what an agent was given.
fn texts(bench: &Bench, name: &str) -> Vec<String> {
    let lines = bench.left(&format!("heard.{name}"));
    let text = |it: &str| serde_json::from_str::<Value>(it).unwrap()["text"].clone();
    lines.lines().map(|it| text(it).as_str().unwrap().to_owned()).collect()
}

/// What is wrong is refused by name, and makes no channel.
#[track_caller]
fn refuse(bench: &Bench, path: &str) {
    for (body, refusal) in [
        (json!({"turns": ["018bcfe5-6800-7000-8000-000000000001"]}), (400, "unknown_turn")),
        (json!({"type": "party"}), (400, "unknown_type")),
        (json!({"name": "  "}), (400, "bad_name")),
        (json!({"members": [{"agent": "nobody"}]}), (404, "no_agent")),
        (json!({"members": [{"agent": "robbo"}]}), (409, "already_a_member")),
    ] {
        assert_eq!(bench.post(path, body.clone()).refusal(), refusal, "{body}");
    }
    assert_eq!(bench.get("/api/channels").ok()["items"], json!([]));
}

#[test]
fn a_conversation_becomes_a_channel_over_the_running_session() {
    let bench = Bench::new();
    agents(&bench, &["robbo", "paula"]);
    let server = bench.serve();
    begin(&bench, &["robbo", "paula"]);
    let path = "/api/agents/robbo/promote";
    assert_eq!(bench.get(path).refusal(), (409, "no_conversation"));
    assert_eq!(bench.post(path, json!({})).refusal(), (409, "no_conversation"));
    tell(&bench, "robbo", "a canary that nobody ticks");
    tell(&bench, "robbo", "Where do skills live?");
    let start = bench.get("/api/agents/robbo").ok()["job_id"].clone();
    let shown = bench.json(&["agent", "promote", "robbo", "--show"]);
    let turns = shown["turns"].as_array().unwrap();
    assert_eq!((turns.len(), &turns[1]["asked"]), (2, &json!("Where do skills live?")));
    let id = turns[1]["turn_id"].as_str().unwrap();
    refuse(&bench, path);
    let unknown = bench.post("/api/agents/nobody/promote", json!({}));
    assert_eq!(unknown.refusal(), (404, "no_agent"));
    let (code, slug, err) = bench.cli(&[
        "agent",
        "promote",
        "robbo",
        "--channel",
        "Skills",
        "--with",
        "paula",
        "--turn",
        id,
    ]);
    assert_eq!(code, 0, "{err}");
    let slug = slug.trim();
    let made = bench.get(&format!("/api/channels/{slug}")).ok();
    assert_eq!(
        (&made["promoted_from"], made["members"].as_array().unwrap().len()),
        (&json!("robbo"), 3)
    );
    // The question is asked of both; the newcomer finds what was said, and nothing else.
    say(&bench, slug, "And who moves them, then?");
    let told = wait_for("both answer", || {
        let told = said(&bench, slug);
        let is_told = |who: &str| answers(&told, who).len() == 1;
        (is_told("robbo") && is_told("paula")).then_some(told)
    });
    assert!(told[1].1.contains("Where do skills live?"), "{told:?}");
    assert!(!format!("{told:?}").contains("canary"), "{told:?}");
    let (robbo, paula) = (texts(&bench, "robbo"), texts(&bench, "paula"));
    assert!(
        paula[0].contains("Where do skills live?") && !paula[0].contains("canary"),
        "{paula:?}"
    );
    // It is the same session, which is told the rules and not what it said itself.
    assert_eq!(robbo.len(), 3);
    assert!(robbo[2].starts_with("[CHANNEL CONTEXT]"), "{robbo:?}");
    assert!(!robbo[2].contains("Where do skills live?"), "{robbo:?}");
    assert_eq!(bench.get("/api/agents/robbo").ok()["job_id"], start);
    let again = bench.post(path, json!({"name": "Twice"}));
    assert_eq!(again.refusal(), (409, "agent_already_in_channel"));
    server.stop();
}

/// What somebody else said to an agent, or asks of it, reaches no channel by this.
#[test]
fn an_agent_that_works_for_somebody_else_is_not_promoted() {
    let bench = Bench::new();
    agents(&bench, &["robbo"]);
    let server = bench.serve();
    begin(&bench, &["robbo"]);
    bench.post("/api/persons", json!({"name": "kim", "role": "member"})).ok();
    bench.post("/api/persons", json!({"name": "vic", "role": "viewer"})).ok();
    let token = |name: &str, scopes: &[&str]| {
        let body = json!({"person": name, "name": "t", "scopes": scopes});
        bench.post("/api/tokens", body).ok()["token"].as_str().unwrap().to_owned()
    };
    tell(&bench, "robbo", "Mine");
    let path = "/api/agents/robbo/promote";
    let viewer = bench.send(&Call::get(path).token(&token("vic", &["read"])));
    assert_eq!(viewer.refusal(), (403, "viewer"));
    let kim = token("kim", &["read", "write"]);
    assert_eq!(bench.send(&Call::get(path).token(&kim)).refusal(), (409, "agent_state"));
    let sent = json!({"to": "agent:robbo", "payload": "a canary"});
    bench.send(&Call::post("/api/messages", sent).token(&kim)).ok();
    assert_eq!(bench.get(path).refusal(), (409, "agent_state"));
    assert_eq!(bench.post(path, json!({})).refusal(), (409, "agent_state"));
    let other = room(&bench, "Other", json!([]));
    assert_eq!(said(&bench, &other).len(), 0);
    wait_said(&bench, &other, 0);
    server.stop();
}
