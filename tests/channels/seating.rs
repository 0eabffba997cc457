//! Which agent takes the seat of a persona, how many agents an agent may have started, and what
//! becomes of them when their channel ends.

use serde_json::{Value, json};

use crate::agents::wait_state;
use crate::channels::agents::{agents, say, wait_known, wait_said};
use crate::channels::manage::{agents as doers, does};
use crate::channels::{room, said};
use crate::support::{Bench, Call};

#[track_caller]
fn seat_of(bench: &Bench, slug: &str, handle: &str) -> String {
    let shown = bench.get(&format!("/api/channels/{slug}")).ok();
    let found = shown["members"].as_array().unwrap().iter().find(|it| it["handle"] == handle);
    found.unwrap()["agent"].as_str().unwrap().to_owned()
}

fn known(bench: &Bench) -> usize {
    bench.get("/api/agents").ok()["items"].as_array().unwrap().len()
}

#[test]
fn a_persona_has_an_agent_in_each_room_and_those_started_for_it_end_with_it() {
    let bench = Bench::new();
    agents(&bench, &["robbo", "paula"]);
    let server = bench.serve();
    wait_known(&bench, 2);
    bench.json(&["agent", "start", "paula"]);
    wait_state(&bench, "paula", "idle");
    let first = room(&bench, "First", json!([{"persona": "robbo"}, {"persona": "paula"}]));
    let second = room(&bench, "Second", json!([{"persona": "robbo"}]));
    assert_eq!(seat_of(&bench, &first, "robbo"), "robbo");
    assert_eq!(seat_of(&bench, &second, "robbo"), "robbo-2");
    let (code, third, err) =
        bench.cli(&["channel", "create", "Third", "--with", "robbo", "--fresh"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(seat_of(&bench, third.trim(), "robbo"), "robbo-3");
    let refused = bench.post(&format!("/api/channels/{second}/members"), json!({"agent": "robbo"}));
    assert_eq!(refused.refusal(), (409, "already_a_member"));
    for slug in [&first, &second] {
        say(&bench, slug, "@robbo are you there?");
        wait_said(&bench, slug, 2);
    }

    // Each ends with its last room, unless it ran before.
    bench.json(&["channel", "complete", &second]);
    bench.json(&["channel", "remove", &first, "robbo"]);
    bench.json(&["channel", "remove", &first, "paula"]);
    for name in ["robbo", "robbo-2"] {
        wait_state(&bench, name, "stopped");
        assert_eq!(bench.get(&format!("/api/agents/{name}")).ok()["reason"], "unseated", "{name}");
    }
    wait_state(&bench, "paula", "idle");
    assert_eq!(bench.get("/api/agents/robbo-3").ok()["wanted"], "running");
    // They are there for the next room, as long as nobody else has told them anything.
    let next = room(&bench, "Next", json!([{"persona": "robbo"}]));
    assert_eq!(seat_of(&bench, &next, "robbo"), "robbo");
    say(&bench, &next, "And now?");
    wait_said(&bench, &next, 2);
    server.stop();
}

/// What somebody tells an agent alone reaches no room of somebody else, whoever names it.
#[test]
fn an_agent_with_private_words_of_somebody_else_gets_no_seat_by_any_way() {
    let bench = Bench::new();
    agents(&bench, &["robbo"]);
    let server = bench.serve();
    wait_known(&bench, 1);
    bench.post("/api/persons", json!({"name": "kim", "role": "member"})).ok();
    let token = json!({"person": "kim", "name": "t", "scopes": ["read", "write"]});
    let token = bench.post("/api/tokens", token).ok()["token"].as_str().unwrap().to_owned();
    let private = json!({"to": "agent:robbo", "payload": "a canary"});
    bench.send(&Call::post("/api/messages", private).token(&token)).ok();
    let slug = room(&bench, "Leak", json!([]));
    let path = format!("/api/channels/{slug}/members");
    let refused = bench.post(&path, json!({"agent": "robbo"}));
    assert_eq!(refused.refusal(), (409, "agent_state"));
    let (code, _, err) = bench.cli(&["channel", "add", &slug, "--agent", "robbo"]);
    assert!(
        code != 0 && err.contains("works for kim, too") && err.contains("fresh agent"),
        "{err}"
    );
    let refused = bench.post(&path, json!({"agent": "robbo", "fresh": true}));
    assert_eq!(refused.refusal(), (400, "bad_member"));
    assert_eq!(known(&bench), 1);
    bench.json(&["channel", "add", &slug, "robbo"]);
    assert_eq!(seat_of(&bench, &slug, "robbo"), "robbo-2");
    let told = said(&bench, &slug);
    assert_eq!(told.last().unwrap().1, "robbo joined the channel, with robbo-2 in its seat.");
    let refused = bench.post(&format!("{path}/robbo/seat"), json!({"agent": "robbo"}));
    assert_eq!(refused.refusal(), (409, "agent_state"));
    // To whom it was told, it is free.
    let own = json!({"name": "Own", "members": [{"persona": "robbo"}]});
    let own = bench.send(&Call::post("/api/channels", own).token(&token)).ok();
    assert_eq!(seat_of(&bench, own["slug"].as_str().unwrap(), "robbo"), "robbo");
    server.stop();
}

#[test]
fn agents_that_make_channels_start_a_bounded_number_of_agents() {
    let bench = Bench::new();
    let may = "can_create_channel = true, can_add_members = true";
    doers(&bench, &[("robbo", may), ("con", ""), ("sol", may)]);
    let server = bench.serve();
    wait_known(&bench, 3);
    let home = room(&bench, "Home", json!([{"agent": "robbo"}]));
    let create = |name: &str, number: usize| {
        let words = format!("channel create {name}{number} --with con --without-me --chair ada");
        does(&bench, name, &words)
    };
    for number in 1..=2 {
        let said = create("robbo", number);
        assert!(said.contains("exit 0"), "{said}");
    }
    let said = create("robbo", 3);
    assert!(said.contains("have started 2 agents") && said.contains("exit 6"), "{said}");
    // One that sits nowhere has no more.
    bench.json(&["agent", "start", "sol"]);
    for number in 1..=2 {
        let said = create("sol", number);
        assert!(said.contains("exit 0"), "{said}");
    }
    let said = create("sol", 3);
    assert!(said.contains("started 2 agents within an hour") && said.contains("exit 6"), "{said}");
    // Nor by way of a channel of its own, which continues the count.
    let said = does(&bench, "sol", "channel create own --person ada");
    assert!(said.contains("exit 0"), "{said}");
    let said = does(&bench, "sol", "channel add con");
    assert!(said.contains("have started 2 agents") && said.contains("exit 6"), "{said}");
    let rooms = bench.get("/api/channels").ok();
    let slugs: Vec<&str> =
        rooms["items"].as_array().unwrap().iter().map(|it| it["slug"].as_str().unwrap()).collect();
    assert!(slugs.iter().all(|it| !it.contains("robbo3") && !it.contains("sol3")), "{slugs:?}");
    assert_eq!(known(&bench), 6, "robbo, sol, and con four times");
    // Whoever was started for these rooms is gone with them.
    for slug in slugs.iter().filter(|it| !it.contains("home") && !it.contains("own")) {
        bench.json(&["channel", "complete", slug]);
    }
    for name in ["con", "con-2", "con-3", "con-4"] {
        wait_state(&bench, name, "stopped");
    }
    say(&bench, &home, "Go on, @robbo");
    let said = create("robbo", 4);
    assert!(said.contains("exit 0"), "a person has written: {said}");
    server.stop();
}

/// Fails where a start without its session is not told again where it is.
#[test]
fn an_agent_that_starts_without_its_session_is_introduced_again() {
    let bench = Bench::new();
    agents(&bench, &["robbo"]);
    let server = bench.serve();
    wait_known(&bench, 1);
    let slug = room(&bench, "Again", json!([{"agent": "robbo"}]));
    say(&bench, &slug, "First words");
    wait_said(&bench, &slug, 2);
    bench.json(&["agent", "stop", "robbo"]);
    wait_state(&bench, "robbo", "stopped");
    bench.json(&["agent", "start", "robbo"]);
    wait_state(&bench, "robbo", "idle");
    say(&bench, &slug, "Second words");
    wait_said(&bench, &slug, 4);
    let heard = bench.left("heard.robbo");
    let last: Value = serde_json::from_str(heard.lines().last().unwrap()).unwrap();
    let text = last["text"].as_str().unwrap();
    assert!(text.starts_with("[CHANNEL CONTEXT]") && text.contains("First words"), "{text}");
    assert!(text.ends_with("Second words\n"), "{text}");
    server.stop();
}
