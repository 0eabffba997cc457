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
    let (code, out, err) = bench.cli(&["test"]);
    assert!(
        code == 0 && out.contains("incident: what a person writes wakes its agents"),
        "{out}{err}"
    );
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

/// Returns the blocks of the handbook whose fence ends so, with the end.
fn blocks(mark: &str) -> Vec<(String, String)> {
    let book = include_str!("../../docs/channels.md");
    let mut found = Vec::new();
    let mut lines = book.lines();
    while let Some(line) = lines.next() {
        let Some(what) = line.strip_prefix("```") else { continue };
        let body: Vec<&str> = lines.by_ref().take_while(|it| *it != "```").collect();
        if let Some(name) = what.strip_prefix(mark) {
            found.push((name.trim().to_owned(), body.join("\n") + "\n"));
        }
    }
    found
}

#[test]
fn the_rooms_of_the_handbook_work_as_they_stand_there() {
    let bench = Bench::new();
    agents(&bench, &["robbo", "paula"]);
    let (rooms, files) = (blocks("lua room"), blocks("md channels/"));
    assert_eq!((rooms.len(), files.len()), (3, 3));
    for (_, block) in &rooms {
        bench.lua(block);
    }
    std::fs::create_dir_all(bench.top.join("channels")).unwrap();
    for (name, text) in &files {
        bench.write(&format!("channels/{name}"), text);
    }
    let server = bench.serve();
    wait_known(&bench, 2);
    let (code, out, err) = bench.cli(&["check"]);
    assert_eq!(code, 0, "{out}{err}");
    for (kind, goes_on) in [("daily", false), ("critique", false), ("outage", true)] {
        let (code, slug, err) = bench.cli(&[
            "channel",
            "create",
            kind,
            "--type",
            kind,
            "--with",
            "robbo",
            "--with",
            "paula",
            "--message",
            "@all What do you see?",
        ]);
        assert_eq!(code, 0, "{err}");
        let slug = slug.trim();
        wait_for("both answer", || {
            let told = said(&bench, slug);
            let is_there = |who: &str| told.iter().any(|it| it.0 == who);
            (is_there("robbo") && is_there("paula")).then_some(())
        });
        if goes_on {
            // Everything wakes: what stops them is the type's limit.
            let shown = wait_for("it pauses", || {
                let shown = bench.json(&["channel", "show", slug]);
                (!shown["paused"].is_null()).then_some(shown)
            });
            let reason = shown["paused"]["reason"].as_str().unwrap();
            assert_ne!(reason, "person", "{shown}");
        }
        bench.json(&["channel", "complete", slug]);
    }
    let heard = bench.left("heard.robbo");
    assert!(heard.contains("Say in three lines what is done"), "{heard}");
    server.stop();
}
