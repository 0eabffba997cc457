//! A person who types in an agent's terminal while the turn of somebody's message runs.

use serde_json::json;

use crate::agents::terminal::{Tmux, declare, heard, wait_end};
use crate::agents::{answer, ask, control, send, show};
use crate::support::{Bench, until};

/// What a person types into the turn of a message is answered to nobody else: the sender gets what
/// was said before, or is told.
#[test]
fn what_is_typed_into_the_turn_of_a_message_is_not_answered_to_its_sender() {
    let bench = Bench::new();
    let Some(tmux) = Tmux::of(&bench) else { return };
    declare(&bench, "robbo", ("autostart = \"always\"", ""));
    std::fs::write(bench.out.join("transcripts"), "").unwrap();
    let server = bench.serve();
    let type_into = |word: &str| {
        until("it is in its turn", || {
            heard(&bench).iter().any(|it| it == word)
                && tmux.screen().contains("working")
                && show(&bench, "robbo")["state"] == "busy"
        });
        tmux.keys(&["-l", "a canary"]);
        tmux.keys(&["Enter"]);
    };
    let message = send(&bench, "robbo", json!("early"));
    type_into("early");
    assert_eq!(answer(&bench, &message)["reply"], "an early answer");
    let message = send(&bench, "robbo", json!("fold"));
    type_into("fold");
    let found = answer(&bench, &message);
    let why = found["failure"].as_str().unwrap();
    assert!(found["state"] == "failed" && why.contains("typed in its terminal"), "{found:#}");
    assert_eq!(heard(&bench), ["early", "fold"], "it is given once");
    let page = bench.get(&format!("/api/messages/{message}")).ok();
    assert_eq!(page["deliveries"].as_array().unwrap().len(), 1);
    assert_eq!(ask(&bench, "robbo", json!("hello"))["reply"], "again hello");
    let turns = bench.get("/api/agents/robbo/turns").ok();
    for turn in turns["items"].as_array().unwrap() {
        let id = turn["id"].as_str().unwrap();
        let shown = bench.get(&format!("/api/turns/{id}")).ok();
        assert!(!shown.to_string().contains("canary"), "{shown:#}");
    }
    wait_end(&bench, server);
}

/// Before its first word a program puts the text of a turn back into its line when a person stops
/// it: no later server hands that in again.
#[test]
fn what_a_person_has_stopped_is_not_handed_in_by_the_next_server() {
    let bench = Bench::new();
    let Some(tmux) = Tmux::of(&bench) else { return };
    declare(&bench, "robbo", ("autostart = \"always\"", ""));
    let server = bench.serve();
    let message = send(&bench, "robbo", json!("back"));
    until("it works", || show(&bench, "robbo")["fact"] == "turn_began");
    tmux.keys(&["Escape"]);
    until("it stands in its line", || tmux.screen().contains("❯ ‹wb:"));
    server.kill();
    let server = bench.serve();
    until("people are told", || !show(&bench, "robbo")["problem"].is_null());
    let problem = show(&bench, "robbo")["problem"].clone();
    assert!(problem["what"].as_str().unwrap().contains("has not changed"), "{problem:#}");
    assert!(problem["fix"].as_str().unwrap().contains("agent interrupt robbo"), "{problem:#}");
    assert_eq!(heard(&bench), ["back"], "{}", tmux.screen());
    control(&bench, "robbo", "interrupt").ok();
    assert_eq!(answer(&bench, &message)["failure"], "agent:robbo was interrupted");
    assert_eq!(ask(&bench, "robbo", json!("after"))["reply"], "again after");
    assert_eq!(heard(&bench), ["back", "after"]);
    wait_end(&bench, server);
}
