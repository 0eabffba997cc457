//! Agents in terminals as members: what they answer is posted once, and what a person types there
//! reaches no channel unless a person who has read it says so.

use serde_json::{Value, json};

use crate::agents::terminal::{Tmux, declare, heard};
use crate::agents::{control, wait_state};
use crate::channels::agents::{answers, say, wait_known, wait_said};
use crate::channels::{room, said, sequences};
use crate::support::{Bench, Call, until, wait_for};

fn seated(bench: &Bench) -> String {
    wait_known(bench, 1);
    wait_state(bench, "robbo", "idle");
    room(bench, "Desk", json!([{"agent": "robbo"}]))
}

fn mark(bench: &Bench, name: &str) {
    std::fs::write(bench.out.join(name), "").unwrap();
}

/// Types a line in the terminal, once the program works on what it has heard.
#[track_caller]
fn type_line(tmux: &Tmux, text: &str) {
    tmux.keys(&["-l", text]);
    tmux.keys(&["Enter"]);
}

/// Types a line as a turn of its own.
#[track_caller]
fn type_turn(bench: &Bench, tmux: &Tmux, text: &str) {
    tmux.keys(&["-l", text]);
    until("it stands there", || tmux.screen().contains(text));
    // A key that comes with the text is a part of it.
    until("it is taken", || {
        tmux.keys(&["Enter"]);
        heard(bench).iter().any(|it| it == text)
    });
    wait_state(bench, "robbo", "idle");
}

fn token_of_kim(bench: &Bench) -> String {
    bench.post("/api/persons", json!({"name": "kim", "role": "member"})).ok();
    let token = json!({"person": "kim", "name": "t", "scopes": ["read", "write"]});
    bench.post("/api/tokens", token).ok()["token"].as_str().unwrap().to_owned()
}

/// Returns the last line that tells of an answer that is held.
#[track_caller]
fn held(bench: &Bench, slug: &str, count: usize) -> Value {
    wait_for("an answer is held", || {
        let page = bench.get(&format!("/api/channels/{slug}/messages?limit=200")).ok();
        let all = page["items"].as_array()?.iter().filter(|it| !it["held"].is_null());
        let all: Vec<Value> = all.cloned().collect();
        (all.len() == count).then(|| all.last().cloned())?
    })
}

/// Waits until the program works on a text for this time.
#[track_caller]
fn works_on(bench: &Bench, text: &str, count: usize) {
    until("it works on it", || heard(bench).iter().filter(|it| *it == text).count() == count);
}

#[test]
fn an_agent_in_a_terminal_answers_and_what_is_typed_there_stays_there() {
    let bench = Bench::new();
    let Some(tmux) = Tmux::of(&bench) else { return };
    declare(&bench, "robbo", ("autostart = \"always\"", ""));
    mark(&bench, "transcripts");
    let server = bench.serve();
    let slug = seated(&bench);
    let kim = token_of_kim(&bench);
    type_turn(&bench, &tmux, "a canary before");
    say(&bench, &slug, "first");
    let told = wait_said(&bench, &slug, 2);
    assert_eq!(answers(&told, "robbo"), ["again first"], "{told:?}");
    // Typed while it works, of which older ones tell by no hook.
    for (count, choice) in [(1, "--private"), (2, "--post")] {
        say(&bench, &slug, "fold");
        works_on(&bench, "fold", count);
        type_line(&tmux, &format!("a canary {count}"));
        let line = held(&bench, &slug, count);
        assert_eq!(line["held"], "waiting");
        let decisions = bench.get("/api/decisions").ok()["items"].clone();
        assert_eq!(
            (&decisions[0]["what"], &decisions[0]["from"]),
            (&json!("held"), &json!("robbo"))
        );
        let route = format!("/api/channels/{slug}/messages/{}/held", line["sequence"]);
        let words = format!("again fold a canary {count}");
        assert_eq!(bench.get(&route).ok()["text"], words);
        assert_eq!(bench.json(&["msg", "held", &slug])["text"], words);
        assert!(!format!("{:?}", said(&bench, &slug)).contains("canary"));
        // Who is no member of the channel learns that it is held, and no more.
        let asks = Call::get(&route).token(&kim);
        assert_eq!(bench.send(&asks).refusal(), (403, "not_a_member"));
        bench.json(&["msg", "held", &slug, choice]);
        let twice = bench.post(&route, json!({"decision": "post"}));
        assert_eq!(twice.refusal(), (409, "already_decided"));
        assert_eq!(bench.get("/api/decisions").ok()["items"], json!([]));
    }
    let told = said(&bench, &slug);
    let posted = ["again first", "again fold a canary 2"];
    assert_eq!(answers(&told, "robbo"), posted, "{told:?}");
    type_turn(&bench, &tmux, "a canary after");
    // A hook that is told twice, or not at all.
    mark(&bench, "twice-Stop");
    mark(&bench, "twice-UserPromptSubmit");
    say(&bench, &slug, "twice");
    wait_for("it answers", || (answers(&said(&bench, &slug), "robbo").len() == 3).then_some(()));
    mark(&bench, "kill-UserPromptSubmit");
    say(&bench, &slug, "unseen");
    wait_for("it answers", || (answers(&said(&bench, &slug), "robbo").len() == 4).then_some(()));
    // Nothing tells what it was typed: a person looks.
    std::fs::remove_file(bench.out.join("transcripts")).unwrap();
    type_turn(&bench, &tmux, "a canary alone");
    say(&bench, &slug, "unknown");
    assert_eq!(held(&bench, &slug, 3)["held"], "waiting");
    let told = said(&bench, &slug);
    let all = [&posted[..], &["again twice", "again unseen"]].concat();
    assert_eq!(answers(&told, "robbo"), all, "{told:?}");
    let canaries = told.iter().filter(|it| it.1.contains("canary")).count();
    assert_eq!(canaries, 1, "{told:?}");
    let numbers = sequences(&bench, &slug);
    assert_eq!(numbers, (1..=numbers.len() as i64).collect::<Vec<_>>());
    control(&bench, "robbo", "stop").ok();
    wait_state(&bench, "robbo", "stopped");
    server.stop();
}

/// Where no `Stop` hook tells of the end of a turn, or a late one, its transcript does.
#[test]
fn a_turn_whose_end_no_hook_tells_of_is_answered_once_and_nothing_private_is_posted() {
    let bench = Bench::new();
    let Some(tmux) = Tmux::of(&bench) else { return };
    declare(&bench, "robbo", ("autostart = \"always\"", ""));
    mark(&bench, "transcripts");
    let server = bench.serve();
    let slug = seated(&bench);
    let wait_answers = |count: usize| {
        wait_for("it answers", || {
            (answers(&said(&bench, &slug), "robbo").len() == count).then_some(())
        });
        wait_state(&bench, "robbo", "idle");
    };
    // No end, and neither beginning nor end.
    mark(&bench, "kill-Stop");
    say(&bench, &slug, "unended");
    wait_answers(1);
    for hook in ["kill-Stop", "kill-UserPromptSubmit"] {
        mark(&bench, hook);
    }
    say(&bench, &slug, "untold");
    wait_answers(2);
    // One that comes when everybody knows.
    say(&bench, &slug, "late");
    wait_answers(3);
    until("it is late", || bench.out.join("late").exists());
    mark(&bench, "go");
    say(&bench, &slug, "next");
    wait_answers(4);
    // What is typed is private, and what may hold it is held.
    mark(&bench, "kill-Stop");
    type_turn(&bench, &tmux, "a canary");
    mark(&bench, "kill-Stop");
    say(&bench, &slug, "fold");
    works_on(&bench, "fold", 1);
    type_line(&tmux, "a canary");
    assert_eq!(held(&bench, &slug, 1)["held"], "waiting");
    // Nothing says that it is over but that the program has waited long.
    wait_state(&bench, "robbo", "idle");
    for name in ["kill-Stop", "no-end", "idle"] {
        mark(&bench, name);
    }
    say(&bench, &slug, "quiet");
    assert_eq!(held(&bench, &slug, 2)["held"], "waiting");
    let told = said(&bench, &slug);
    let all = ["again unended", "again untold", "again late", "again next"];
    assert_eq!(answers(&told, "robbo"), all, "{told:?}");
    assert!(!format!("{told:?}").contains("canary"), "{told:?}");
    control(&bench, "robbo", "stop").ok();
    wait_state(&bench, "robbo", "stopped");
    server.stop();
}

/// A server that is killed while an agent works and somebody types there holds its answer, once.
#[test]
fn an_answer_is_held_once_by_whatever_server_hears_it() {
    let bench = Bench::new();
    let Some(tmux) = Tmux::of(&bench) else { return };
    declare(&bench, "robbo", ("autostart = \"always\"", ""));
    mark(&bench, "transcripts");
    let server = bench.serve();
    let slug = seated(&bench);
    say(&bench, &slug, "fold");
    works_on(&bench, "fold", 1);
    server.kill();
    type_line(&tmux, "a canary");
    let server = bench.serve();
    let line = held(&bench, &slug, 1);
    server.kill();
    let server = bench.serve();
    say(&bench, &slug, "and now");
    wait_for("it answers", || (!answers(&said(&bench, &slug), "robbo").is_empty()).then_some(()));
    let told = said(&bench, &slug);
    assert_eq!(answers(&told, "robbo"), ["again and now"], "{told:?}");
    assert_eq!(held(&bench, &slug, 1)["sequence"], line["sequence"]);
    let route = format!("/api/channels/{slug}/messages/{}/held", line["sequence"]);
    assert_eq!(bench.get(&route).ok()["text"], "again fold a canary");
    control(&bench, "robbo", "stop").ok();
    wait_state(&bench, "robbo", "stopped");
    server.stop();
}

/// Declares an agent in a terminal; nothing on a machine without one.
pub(crate) fn declare_held(bench: &Bench) -> Option<Tmux> {
    let tmux = Tmux::of(bench)?;
    declare(bench, "desk", ("autostart = \"always\"", ""));
    Some(tmux)
}

/// Has it answer in a channel: without a transcript nobody knows what was typed to it.
#[track_caller]
pub(crate) fn hold(bench: &Bench) {
    wait_state(bench, "desk", "idle");
    let slug = room(bench, "Held", json!([{"agent": "desk"}]));
    say(bench, &slug, "Are you there?");
    held(bench, &slug, 1);
    control(bench, "desk", "stop").ok();
    wait_state(bench, "desk", "stopped");
}
