//! A person who types in an agent's terminal while the turn of somebody's message runs.

use serde_json::json;

use crate::agents::terminal::{Tmux, declare, heard, wait_end};
use crate::agents::{answer, ask, send, show};
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
