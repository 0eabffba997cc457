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

/// What a person has added behind the text that came back is theirs: neither an interrupt nor the
/// next message removes it.
#[test]
fn what_a_person_adds_to_a_text_that_came_back_is_left_alone() {
    let bench = Bench::new();
    let Some(tmux) = Tmux::of(&bench) else { return };
    declare(&bench, "robbo", ("autostart = \"always\"", ""));
    let server = bench.serve();
    let message = send(&bench, "robbo", json!("back"));
    until("it works", || show(&bench, "robbo")["fact"] == "turn_began");
    tmux.keys(&["Escape"]);
    until("it stands in its line", || tmux.screen().contains("❯ ‹wb:"));
    tmux.keys(&["-l", " but only X"]);
    let has_added = || tmux.screen().contains("‹wb:end› but only X");
    until("more stands there", has_added);
    control(&bench, "robbo", "interrupt").ok();
    assert_eq!(answer(&bench, &message)["failure"], "agent:robbo was interrupted");
    assert!(has_added(), "{}", tmux.screen());
    let after = send(&bench, "robbo", json!("after"));
    until("it is held", || show(&bench, "robbo")["reason"] == "held_draft");
    assert!(has_added(), "{}", tmux.screen());
    tmux.keys(&["C-u"]);
    assert_eq!(answer(&bench, &after)["reply"], "again after");
    assert_eq!(heard(&bench), ["back", "after"]);
    wait_end(&bench, server);
}

/// An interrupt reaches the turn although somebody reads back or a view takes the first key; a turn
/// that it does not reach goes on, and people are told.
#[test]
fn an_interrupt_ends_no_turn_that_it_has_not_reached() {
    let bench = Bench::new();
    let Some(tmux) = Tmux::of(&bench) else { return };
    declare(&bench, "robbo", ("autostart = \"always\"", ""));
    let server = bench.serve();
    let begin = |word: &str| {
        let message = send(&bench, "robbo", json!(word));
        until("it works", || {
            heard(&bench).last().is_some_and(|it| it == word)
                && show(&bench, "robbo")["fact"] == "turn_began"
        });
        message
    };
    let is_cut = |message: &str| {
        until("its turn has ended", || {
            // It may be slow to close what it shows.
            if show(&bench, "robbo")["reason"] == "not_interrupted" {
                control(&bench, "robbo", "interrupt");
            }
            bench.get(&format!("/api/messages/{message}/await?timeout=0")).ok()["state"]
                != "pending"
        });
        let failure = answer(&bench, message)["failure"].clone();
        assert_eq!(failure, "agent:robbo was interrupted", "{}", tmux.screen());
    };
    let message = begin("cut");
    until("it draws", || tmux.screen().contains("working"));
    tmux.tell(&["copy-mode", "-t", &format!("={}:", tmux.sessions()[0])]);
    control(&bench, "robbo", "interrupt").ok();
    is_cut(&message);
    assert_eq!(ask(&bench, "robbo", json!("next"))["reply"], "again next");
    let message = begin("view");
    until("it draws", || tmux.screen().contains("a view 0"));
    control(&bench, "robbo", "interrupt").ok();
    is_cut(&message);
    let message = begin("views");
    until("it draws", || tmux.screen().contains("a view 0"));
    control(&bench, "robbo", "interrupt").ok();
    until("people are told", || show(&bench, "robbo")["reason"] == "not_interrupted");
    let shown = show(&bench, "robbo");
    assert_eq!(shown["state"], "busy");
    assert!(shown["problem"]["fix"].as_str().unwrap().contains("agent interrupt"), "{shown:#}");
    until("it draws", || tmux.screen().contains("a view 2"));
    let last = send(&bench, "robbo", json!("last"));
    control(&bench, "robbo", "interrupt").ok();
    is_cut(&message);
    assert_eq!(answer(&bench, &last)["reply"], "again last");
    assert_eq!(heard(&bench), ["cut", "next", "view", "views", "last"]);
    wait_end(&bench, server);
}
