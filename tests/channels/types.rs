//! Types of channels that a script declares.

use serde_json::json;

use crate::channels::agents::{agents, wait_known};
use crate::channels::{room, said};
use crate::support::{Bench, wait_for};

#[test]
fn a_declared_type_says_what_agents_are_told_and_how_far_they_go() {
    let bench = Bench::new();
    agents(&bench, &["robbo", "paula"]);
    bench.lua(
        "wb.channel_type \"alarm\" { about = \"Talk\", wakes = \"everything\", \
         budget = { turns = 2 }, limits = { hops = 2 } }\n\
         wb.channels { footer = \"COMMAND COMPLETE\", catch_up = 1 }\n",
    );
    let server = bench.serve();
    wait_known(&bench, 2);
    let (code, out, err) = bench.cli(&["new", "channel-type", "incident", "--about", "Mend it"]);
    assert_eq!(code, 0, "{out}{err}");
    let (code, out, err) = bench.cli(&["check"]);
    assert_eq!(code, 0, "{out}{err}");
    bench.json(&["reload"]);
    let members = json!([{"agent": "robbo"}]);
    let body = json!({"name": "Down", "type": "incident", "members": members});
    let made = bench.post("/api/channels", body).ok();
    assert_eq!((&made["slug"], &made["about"]), (&json!("incident-down-1"), &json!("Mend it")));
    bench.post("/api/channels/1/messages", json!({"body": "The site is down"})).ok();
    wait_for("robbo answers", || (said(&bench, "1").len() >= 2).then_some(()));
    assert!(bench.left("heard.robbo").contains("Intent: Mend it. Say what you found out"));
    bench.json(&["channel", "complete", "1"]);

    // Everything wakes: two agents stop at the type's limit, whatever the site's is.
    let body = json!({"name": "Loop", "type": "alarm", "members": [{"agent": "robbo"},
        {"agent": "paula"}]});
    let made = bench.post("/api/channels", body).ok();
    assert_eq!(made["budget"]["turns"], 2);
    bench.post("/api/channels/2/messages", json!({"body": "Go"})).ok();
    let paused = wait_for("the room is paused", || {
        let shown = bench.json(&["channel", "show", "2"]);
        Some(shown["paused"].clone()).filter(|it| !it.is_null())
    });
    assert!(["hops", "budget"].contains(&paused["reason"].as_str().unwrap()), "{paused}");

    // A type that is gone: its channels go on as workshops, and say so.
    bench.edit(|it| it.replace("wb.channel_type \"alarm\"", "wb.channel_type \"other\""));
    bench.write_script();
    bench.json(&["reload"]);
    let shown = bench.json(&["channel", "show", "2"]);
    assert_eq!((&shown["type"], &shown["is_type_gone"]), (&json!("alarm"), &json!(true)));
    assert!(shown["intent"].as_str().unwrap().starts_with("Resolve decisions"), "{shown}");
    let refused = bench.post("/api/channels", json!({"name": "X", "type": "alarm"}));
    assert_eq!(refused.refusal(), (400, "unknown_type"));
    bench.json(&["channel", "complete", "2"]);
    room(&bench, "Plain", json!([]));
    server.stop();
}

#[test]
fn a_reload_names_what_is_different_of_channels() {
    let bench = Bench::new();
    bench.lua("wb.channel_type \"alarm\" { about = \"Talk\", intent = \"alarm.md\" }\n");
    bench.write("alarm.md", "One.\n");
    let server = bench.serve();
    bench.write("alarm.md", "Two.\n");
    let (code, out, err) = bench.cli(&["reload", "--dry-run"]);
    assert!(out.contains("channel_type \"alarm\"") && code == 0, "{out}{err}");
    // Nothing is in force that nobody has loaded.
    let made = bench.post("/api/channels", json!({"name": "A", "type": "alarm"})).ok();
    assert_eq!(made["intent"], "One.");
    bench.json(&["reload"]);
    assert_eq!(bench.json(&["channel", "show", "1"])["intent"], "Two.");
    server.stop();
}
