//! What agents may not do in channels is refused by name, and changes nothing.

use serde_json::{Value, json};

use crate::channels::agents::{TALKER, agents, say, wait_known, wait_said};
use crate::channels::{room, said};
use crate::support::{Bench, Call};

/// Declares agents that leave their tokens behind.
fn declare(bench: &Bench, names: &[&str]) {
    agents(bench, names);
    let leaves = format!("printf '%s\\n' \"$WB_TOKEN\" > \"$OUT/token.$WB_AGENT\"\n{TALKER}");
    std::fs::write(bench.base.join("agents/talker.sh"), leaves).unwrap();
}

/// Each refusal that nothing else provokes, by its name.
#[test]
fn what_is_not_there_or_not_now_is_refused_by_name() {
    let bench = Bench::new();
    declare(&bench, &["robbo", "con"]);
    let server = bench.serve();
    wait_known(&bench, 2);
    let slug = room(&bench, "Names", json!([{"agent": "robbo"}, {"agent": "con"}]));
    say(&bench, &slug, "Are you there?");
    wait_said(&bench, &slug, 3);
    let path = |tail: &str| format!("/api/channels/{slug}/{tail}");
    let post = |path: &str, body: Value| {
        let answer = bench.post(path, body);
        let (status, code) = answer.refusal();
        (status, code.to_owned())
    };
    let of = |status: u16, code: &str| (status, code.to_owned());
    let to = |agent: &str| json!({"to": agent});
    assert_eq!(post(&path("messages/1/resend"), to("robbo")), of(409, "not_unconfirmed"));
    assert_eq!(post(&path("messages/1/settle"), to("nobody")), of(409, "not_unconfirmed"));
    assert_eq!(post(&path("messages/99/resend"), to("robbo")), of(404, "no_message"));
    assert_eq!(post(&path("messages/one/resend"), to("robbo")), of(404, "no_message"));
    assert_eq!(post(&path("messages/1/held"), json!({"decision": "post"})), of(404, "not_held"));
    let reply = json!({"body": "x", "in_reply_to": 99});
    assert_eq!(post(&path("messages"), reply), of(404, "no_message"));
    let chair = json!({"name": "Chair", "chair": "nobody"});
    assert_eq!(post("/api/channels", chair), of(404, "no_member"));
    // Two changes a minute, of anybody.
    for handle in ["robbo", "ada"] {
        let of_member = |verb: &str| path(&format!("members/{handle}/{verb}"));
        bench.post(&of_member("mute"), json!({})).ok();
        bench.post(&of_member("unmute"), json!({})).ok();
        assert_eq!(post(&of_member("mute"), json!({})), of(429, "too_fast"), "{handle}");
    }
    // Handoffs.
    for name in ["a%20b", "zork"] {
        let list = bench.get(&format!("/api/personas/{name}/handoffs"));
        assert_eq!(list.refusal(), (404, "no_persona"), "{name}");
    }
    assert_eq!(bench.get("/api/personas/con/handoffs").ok()["items"], json!([]));
    let read = bench.post("/api/agents/con/rehydrate", json!({"files": ["none.md"]}));
    assert_eq!(read.refusal(), (404, "no_handoff"));
    let as_con = |call: Call| {
        let answer = bench.send(&call.token(bench.left("token.con").trim()));
        let (status, code) = answer.refusal();
        (status, code.to_owned())
    };
    let write = |summary: &str, text: &str| {
        as_con(Call::post("/api/handoffs", json!({"summary": summary, "text": text})))
    };
    assert_eq!(write("a-b", "x"), of(409, "no_handover"));
    assert_eq!(write("A b", "x"), of(400, "bad_summary"));
    assert_eq!(write("a-b", " "), of(400, "empty_text"));
    assert_eq!(write("a-b", &"x".repeat(256 * 1024 + 1)), of(413, "too_large"));
    assert_eq!(as_con(Call::get("/api/handoffs/none.md")), of(404, "no_handoff"));
    let read = bench.post("/api/agents/con/handover", json!({"note": "x".repeat(9_000)}));
    assert_eq!(read.refusal(), (400, "bad_parameter"));
    // Its start has ended.
    let token = bench.left("token.con");
    bench.json(&["agent", "stop", "con"]);
    crate::agents::wait_state(&bench, "con", "stopped");
    let late = bench.send(&Call::get("/api/channels/own").token(token.trim()));
    assert_eq!(late.refusal().1, "job_ended");
    let stopped = bench.post("/api/agents/con/handover", json!({}));
    assert_eq!(stopped.refusal(), (409, "agent_state"));
    let all: Vec<String> = said(&bench, &slug).into_iter().map(|it| it.1).collect();
    assert_eq!(all.len(), 3, "{all:?}");
    server.stop();
}

#[test]
fn what_an_agent_may_not_do_is_refused_by_name() {
    let bench = Bench::new();
    declare(&bench, &["robbo", "con", "first", "second", "third"]);
    bench.edit(|lua| {
        let can = "wb.agent \"con\" { can_add_members = true, can_create_channel = true, about";
        lua.replace("wb.agent \"con\" { about", can)
    });
    let server = bench.serve();
    wait_known(&bench, 5);
    let slug = room(&bench, "Names", json!([{"agent": "robbo"}, {"agent": "con"}]));
    say(&bench, &slug, "Are you there?");
    wait_said(&bench, &slug, 3);
    let refused = |agent: &str, path: &str, body: Value| {
        let token = bench.left(&format!("token.{agent}"));
        bench.send(&Call::post(path, body).token(&token)).refusal().1.to_owned()
    };
    let path = |tail: &str| format!("/api/channels/{slug}/{tail}");
    let before = said(&bench, &slug);
    for (agent, path, body, code) in [
        ("robbo", "/api/channels".to_owned(), json!({"name": "Mine"}), "no_creation_capability"),
        ("robbo", path("members"), json!({"persona": "first"}), "no_add_capability"),
        ("robbo", path("messages"), json!({"body": "x"}), "private_turn"),
        ("robbo", path("complete"), json!({}), "not_chair"),
        ("robbo", path("pause"), json!({}), "agent_forbidden"),
        ("robbo", path("resume"), json!({}), "agent_forbidden"),
        (
            "con",
            "/api/channels".to_owned(),
            json!({"name": "Mine", "budget": {"turns": 9}}),
            "agent_forbidden",
        ),
        (
            "con",
            "/api/channels".to_owned(),
            json!({"name": "Mine", "without_me": true}),
            "bad_member",
        ),
        ("con", path("members"), json!({"persona": "nobody"}), "no_agent"),
    ] {
        assert_eq!(refused(agent, &path, body.clone()), code, "{agent} {path} {body}");
    }
    assert_eq!(said(&bench, &slug), before);
    // It starts so many, until a person writes there.
    let add = |persona: &str| {
        let token = bench.left("token.con");
        bench.send(&Call::post(&path("members"), json!({"persona": persona})).token(&token))
    };
    add("first").ok();
    add("second").ok();
    assert_eq!(add("third").refusal().1, "too_many_starts");
    assert_eq!(bench.json(&["agent", "show", "third"])["seat"], Value::Null);
    say(&bench, &slug, "@con go on");
    add("third").ok();
    server.stop();
}

/// A name means the open channel that has it, else the newest one that has ended: to read, since
/// what writes is refused.
#[test]
fn the_name_of_a_channel_that_has_ended_reads_it() {
    let bench = Bench::new();
    let server = bench.serve();
    let ends = |slug: &str| bench.json(&["channel", "complete", slug]);
    let named = |name: &str| bench.get(&format!("/api/channels/{name}")).ok()["slug"].clone();
    let first = room(&bench, "Plan", json!([]));
    ends("plan");
    let second = room(&bench, "Plan", json!([]));
    assert_eq!(named("plan"), second, "that is open");
    ends(&second);
    bench.json(&["channel", "archive", "plan"]);
    for name in ["plan", "%23plan"] {
        assert_eq!(named(name), second, "the newer one");
    }
    assert_eq!(named(&first), first);
    let (code, export, err) = bench.cli(&["channel", "export", "plan"]);
    assert_eq!((code, export.contains("# Plan")), (0, true), "{export}{err}");
    let refused = (409, "channel_not_active");
    let say = bench.post("/api/channels/plan/messages", json!({"body": "x"}));
    assert_eq!(say.refusal(), refused);
    let sent = bench.post("/api/messages", json!({"to": "channel:plan", "payload": "x"}));
    assert_eq!(sent.refusal(), refused);
    assert_eq!(bench.post("/api/channels/plan/complete", json!({})).refusal(), refused);
    assert_eq!(bench.get("/api/channels/pla").refusal(), (404, "no_channel"));
    server.stop();
}
