//! Programs in a terminal of which no hook tells, and what a person types there.

#![allow(clippy::disallowed_methods, reason = "a test plays the person at the terminal")]

use std::process::Command;

use serde_json::{Value, json};

use crate::agents::terminal::{Tmux, declare, heard, job_of};
use crate::agents::{answer, ask, control, delivery, is_unproven, send, show, wait_state};
use crate::support::{Bench, until};

/// Declares an agent without hooks.
pub(super) fn declare_blind(bench: &Bench, engine: &str) {
    declare(bench, "robbo", ("autostart = \"always\"", &format!("proof = \"screen\", {engine}")));
    bench.edit(|text| {
        text.replace(" hooks = { \"{{hooks_file}}\" },", "")
            .replace("env = { ", "env = { FAKE_HOOKS = \"none\", ")
    });
}

fn end(bench: &Bench) {
    control(bench, "robbo", "stop").ok();
    wait_state(bench, "robbo", "stopped");
}

#[test]
fn what_a_program_without_hooks_has_taken_is_seen_on_its_screen() {
    let bench = Bench::new();
    let Some(tmux) = Tmux::of(&bench) else { return };
    declare_blind(&bench, "proof_wait = \"6s\",");
    let server = bench.serve();
    let message = send(&bench, "robbo", json!("hello"));
    assert_eq!(answer(&bench, &message)["reply"], Value::Null);
    assert_eq!(delivery(&bench, &message), (json!("confirmed"), json!("screen")));
    // Nobody hears its words, so it is told how to answer.
    assert!(bench.left("prompt").contains("--in-reply-to"), "{}", bench.left("prompt"));
    let long = "long ".repeat(400);
    ask(&bench, "robbo", json!(long));
    // Of what is never seen in its line nothing is handed in, and nobody says that it was; it is
    // given once more.
    ask(&bench, "robbo", json!("blind"));
    let lost = send(&bench, "robbo", json!("lost"));
    assert!(is_unproven(&answer(&bench, &lost)));
    assert_eq!(delivery(&bench, &lost).0, "unconfirmed");
    // What a person writes there goes before: nothing is typed while it works.
    tmux.keys(&["-l", "mine"]);
    until("it works", || {
        tmux.keys(&["Enter"]);
        heard(&bench).last().is_some_and(|it| it == "mine")
    });
    let after = send(&bench, "robbo", json!("after"));
    until("it waits", || show(&bench, "robbo")["reason"] == "held_moving");
    assert_eq!(delivery(&bench, &after).0, "queued");
    std::fs::write(bench.out.join("go"), "").unwrap();
    assert_eq!(answer(&bench, &after)["state"], "replied");
    let all: Vec<String> = heard(&bench).iter().map(|it| it.trim_end().to_owned()).collect();
    assert_eq!(all, ["hello", long.trim_end(), "blind", "mine", "after"]);
    end(&bench);
    server.stop();
}

#[test]
fn a_turn_that_is_seen_on_the_screen_outlives_the_server_and_can_be_interrupted() {
    let bench = Bench::new();
    let Some(_tmux) = Tmux::of(&bench) else { return };
    declare_blind(&bench, "");
    let server = bench.serve();
    let message = send(&bench, "robbo", json!("wait"));
    until("it has it", || delivery(&bench, &message) == (json!("confirmed"), json!("screen")));
    let job = job_of(&bench);
    server.kill();
    let server = bench.serve();
    assert_eq!(show(&bench, "robbo")["state"], "busy");
    std::fs::write(bench.out.join("go"), "").unwrap();
    assert_eq!(answer(&bench, &message)["state"], "replied");
    // The next server finds an agent that waits, and no turn that could end.
    server.kill();
    let server = bench.serve();
    ask(&bench, "robbo", json!("next"));
    assert_eq!((heard(&bench), job_of(&bench)), (vec!["wait".to_owned(), "next".into()], job));
    std::fs::remove_file(bench.out.join("go")).unwrap();
    let cut = send(&bench, "robbo", json!("wait"));
    wait_state(&bench, "robbo", "busy");
    control(&bench, "robbo", "interrupt").ok();
    assert_eq!(answer(&bench, &cut)["failure"], "agent:robbo was interrupted");
    end(&bench);
    server.stop();
}

/// A program that prompts below its own output, and says nothing while it works: a key too many
/// would be an empty line that it reads, and an old prompt is not the line in which one types.
#[test]
fn a_program_that_prompts_again_and_again_reads_each_text_once() {
    let bench = Bench::new();
    let Some(tmux) = Tmux::of(&bench) else { return };
    let (own, out) = (std::env::current_exe().unwrap(), &bench.out);
    let words = "\"--exact\", \"support::fake_prompt::fake_prompt\", \"--nocapture\", \"-q\"";
    bench.lua(&format!(
        r#"wb.engine "prompts" {{
  type = "terminal", input = "❯", proof = "screen",
  command = {{ "{}", {words} }}, env = {{ FAKE_PROMPT = "{out}" }},
}}
wb.agent "robbo" {{ about = "A test", engine = "prompts", autostart = "always" }}
"#,
        own.display()
    ));
    let server = bench.serve();
    let slow = send(&bench, "robbo", json!("slow"));
    until("it has it", || delivery(&bench, &slow) == (json!("confirmed"), json!("screen")));
    assert_eq!(show(&bench, "robbo")["state"], "busy");
    std::fs::write(bench.out.join("go"), "").unwrap();
    assert_eq!(answer(&bench, &slow)["state"], "replied", "{}", tmux.screen());
    for word in ["first", "second"] {
        assert_eq!(ask(&bench, "robbo", json!(word))["state"], "replied", "{}", tmux.screen());
    }
    // What a person has begun to type is left alone.
    tmux.keys(&["-l", "mine"]);
    until("it stands there", || tmux.screen().contains("❯ mine"));
    let held = send(&bench, "robbo", json!("third"));
    until("it waits", || {
        let reason = show(&bench, "robbo")["reason"].clone();
        reason == "held_draft" || reason == "held_typing"
    });
    assert_eq!(delivery(&bench, &held).0, "queued");
    until("the line is empty", || {
        tmux.keys(&["C-u"]);
        !tmux.screen().contains("❯ mine")
    });
    assert_eq!(answer(&bench, &held)["state"], "replied", "{}", tmux.screen());
    assert_eq!(heard(&bench), ["slow", "first", "second", "third"], "{}", tmux.screen());
    end(&bench);
    server.stop();
}

/// A program that has not asked for brackets enters each line of what is pasted: it gets one line,
/// once, which names the file with the text.
#[test]
fn a_program_without_brackets_gets_one_line_that_names_a_file() {
    let bench = Bench::new();
    let Some(tmux) = Tmux::of(&bench) else { return };
    let run = "printf 'repl> '; while IFS= read -r line; do \
               printf '%s\\n' \"$line\" >> \"$0/heard\"; printf 'read it\\nrepl> '; done";
    let program = json!(["/bin/sh", "-c", run, bench.out]).to_string();
    bench.lua(&format!(
        r#"wb.engine "repl" {{
  type = "terminal", input = "repl>", proof = "screen",
  command = {{ {} }},
}}
wb.agent "robbo" {{ about = "A test", engine = "repl", autostart = "always" }}
"#,
        program.trim_matches(['[', ']'])
    ));
    let server = bench.serve();
    let texts = ["please look at this:\n!echo ran\nthanks", "one\ttwo"];
    for (place, text) in texts.iter().enumerate() {
        let message = send(&bench, "robbo", json!(text));
        assert_eq!(answer(&bench, &message)["state"], "replied", "{}", tmux.screen());
        assert_eq!(delivery(&bench, &message), (json!("confirmed"), json!("screen")));
        let read = heard(&bench);
        assert_eq!(read.len(), place + 1, "{read:#?}");
        let line = &read[place];
        let file = line.split_once("A message for you is in a file. Read ").unwrap().1;
        let file = file.strip_suffix(" ‹wb:end›").unwrap();
        assert!(line.starts_with("‹wb:") && !line.contains('\t'), "{line}");
        assert!(std::fs::read_to_string(file).unwrap().contains(text), "{line}");
    }
    end(&bench);
    server.stop();
}

/// A hook that is lost keeps no agent from being spoken to that shows what it shows then.
#[test]
fn what_stands_on_the_screen_says_that_it_is_ready_where_no_hook_does() {
    let bench = Bench::new();
    let Some(_tmux) = Tmux::of(&bench) else { return };
    declare(&bench, "robbo", ("autostart = \"always\"", "ready = \"Try something\","));
    std::fs::write(bench.out.join("kill-SessionStart"), "").unwrap();
    let server = bench.serve();
    let message = send(&bench, "robbo", json!("hello"));
    assert_eq!(answer(&bench, &message)["reply"], "again hello");
    assert_eq!(delivery(&bench, &message), (json!("confirmed"), json!("turn")));
    end(&bench);
    server.stop();
}

/// What a person types in the terminal is a turn of that person's, and answers no message.
#[test]
fn a_turn_that_a_person_types_is_that_persons() {
    let bench = Bench::new();
    let Some(tmux) = Tmux::of(&bench) else { return };
    declare(&bench, "robbo", ("autostart = \"always\"", ""));
    let server = bench.serve();
    wait_state(&bench, "robbo", "idle");
    tmux.keys(&["-l", "wait"]);
    until("it works", || {
        tmux.keys(&["Enter"]);
        show(&bench, "robbo")["fact"] == "person_typed"
    });
    let message = send(&bench, "robbo", json!("meanwhile"));
    assert_eq!((delivery(&bench, &message).0, heard(&bench).len()), (json!("queued"), 1));
    std::fs::write(bench.out.join("go"), "").unwrap();
    assert_eq!(answer(&bench, &message)["reply"], "again meanwhile");
    // One answer for one message; the person's turn has been counted, and answers nothing.
    let replies = bench.get("/api/messages?from=agent:robbo").ok();
    assert_eq!(replies["items"].as_array().unwrap().len(), 1, "{replies:#}");
    assert_eq!(heard(&bench), ["wait", "meanwhile"]);
    end(&bench);
    server.stop();
}

/// A program that swallows a paste is given it again: no key was pressed for it. One that swallows
/// it twice is for a person to look at.
#[test]
fn a_text_that_is_never_seen_in_its_line_is_given_once_more() {
    let bench = Bench::new();
    let Some(_tmux) = Tmux::of(&bench) else { return };
    declare(&bench, "robbo", ("autostart = \"always\"", "proof_wait = \"9s\","));
    let server = bench.serve();
    ask(&bench, "robbo", json!("blink"));
    let message = send(&bench, "robbo", json!("swallowed"));
    assert_eq!(answer(&bench, &message)["reply"], "again swallowed");
    ask(&bench, "robbo", json!("blind"));
    let lost = send(&bench, "robbo", json!("lost"));
    assert!(is_unproven(&answer(&bench, &lost)));
    assert_eq!(ask(&bench, "robbo", json!("after"))["reply"], "again after");
    assert_eq!(heard(&bench), ["blink", "swallowed", "blind", "after"]);
    end(&bench);
    server.stop();
}

/// A program that does not read for a while finds all that was pasted meanwhile at once: it reads
/// one of them.
#[test]
fn a_text_that_comes_late_is_not_read_twice() {
    let bench = Bench::new();
    let Some(_tmux) = Tmux::of(&bench) else { return };
    declare(&bench, "robbo", ("autostart = \"always\"", ""));
    let server = bench.serve();
    assert_eq!(ask(&bench, "robbo", json!("first"))["reply"], "again first");
    let hang = bench.out.join("hang");
    std::fs::write(&hang, "").unwrap();
    let message = send(&bench, "robbo", json!("second"));
    let job = job_of(&bench);
    let pasted = || {
        let log = server.log();
        log.matches("is given").count()
    };
    until("it is pasted again", || pasted() == 3);
    assert_eq!(delivery(&bench, &message).0, "sent");
    std::fs::remove_file(&hang).unwrap();
    assert_eq!(answer(&bench, &message)["reply"], "again second");
    assert_eq!((heard(&bench), job_of(&bench)), (vec!["first".to_owned(), "second".into()], job));
    end(&bench);
    server.stop();
}

/// A person attaches from a terminal of their own, which is a tmux as well, types and leaves.
#[test]
fn a_person_attaches_types_and_leaves() {
    let bench = Bench::new();
    let Some(_tmux) = Tmux::of(&bench) else { return };
    declare(&bench, "robbo", ("autostart = \"always\"", ""));
    let server = bench.serve();
    wait_state(&bench, "robbo", "idle");
    let own = bench.base.join("own.sock");
    let tmux = |words: &[&str]| {
        let mut command = Command::new("tmux");
        let output = command.args(["-S", own.as_str(), "-f", "/dev/null"]).args(words).output();
        let output = output.unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let program = env!("CARGO_BIN_EXE_wiki-browser");
    let attach = format!("cd '{}' && exec '{program}' agent attach robbo", bench.top);
    assert!(tmux(&["new-session", "-d", "-x", "150", "-y", "40", &attach]).0);
    let sees = |words: &str| tmux(&["capture-pane", "-p"]).1.contains(words);
    until("the screen is seen", || sees("Try something"));
    tmux(&["send-keys", "-l", "mine"]);
    until("it stands there", || sees("❯ mine"));
    let message = send(&bench, "robbo", json!("after"));
    until("it is held", || {
        let reason = show(&bench, "robbo")["reason"].clone();
        reason == "held_typing" || reason == "held_draft"
    });
    assert_eq!(delivery(&bench, &message).0, "queued");
    until("it is handed in", || {
        tmux(&["send-keys", "Enter"]);
        heard(&bench) == ["mine"]
    });
    // The keys with which one leaves. The agent stays, and takes what waited.
    until("it is left", || {
        tmux(&["send-keys", "C-b", "d"]);
        !tmux(&["has-session"]).0
    });
    assert_eq!(answer(&bench, &message)["reply"], "again after");
    assert_eq!(heard(&bench), ["mine", "after"]);
    end(&bench);
    server.stop();
}
