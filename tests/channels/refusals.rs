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
