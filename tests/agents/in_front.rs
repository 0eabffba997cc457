//! Terminals in which something else than the agent's line has the keys.

#![allow(clippy::disallowed_methods, reason = "a test plays the person at the terminal")]

use serde_json::json;

use crate::agents::screen::declare_blind;
use crate::agents::terminal::{Tmux, declare, heard, job_of, wait_end};
use crate::agents::{answer, ask, delivery, send, show};
use crate::support::{Bench, marked, shell, until};

/// Waits until a message waits for this reason; returns what people are told.
#[track_caller]
fn held(bench: &Bench, message: &str, why: &str) -> String {
    until(why, || show(bench, "robbo")["reason"] == format!("held_{why}"));
    assert_eq!(delivery(bench, message).0, "queued");
    let problem = show(bench, "robbo")["problem"].clone();
    let (what, fix) = (problem["what"].as_str().unwrap(), problem["fix"].as_str().unwrap());
    format!("{what}; {fix}")
}

/// The editor is a part of the program, or of its process group: only the screen shows it.
#[test]
fn an_editor_in_the_pane_gets_no_message_as_its_keys() {
    for is_blind in [false, true] {
        let bench = Bench::new();
        let Some(tmux) = Tmux::of(&bench) else { return };
        match is_blind {
            true => declare_blind(&bench, ""),
            false => declare(&bench, "robbo", ("autostart = \"always\"", "")),
        }
        let server = bench.serve();
        ask(&bench, "robbo", json!("hello"));
        tmux.keys(&["C-g"]);
        until("it is open", || tmux.screen().contains("an editor"));
        let message = send(&bench, "robbo", json!(":!touch x\nthanks"));
        let told = held(&bench, &message, "no_line");
        assert!(told.contains("input line is not on its screen"), "{told}");
        assert!(told.contains("agent attach robbo"), "{told}");
        tmux.keys(&["q"]);
        assert_eq!(answer(&bench, &message)["state"], "replied", "{}", tmux.screen());
        assert_eq!(heard(&bench), ["hello", "thanks"]);
        assert!(!bench.out.join("keys").exists(), "{}", bench.left("keys"));
        assert!(show(&bench, "robbo")["problem"].is_null());
        wait_end(&bench, server);
    }
}

/// What was said stands on the screen with the mark of the line, in which a person has the keys of
/// something else meanwhile.
#[test]
fn what_a_person_has_open_in_the_program_gets_no_key() {
    let bench = Bench::new();
    let Some(tmux) = Tmux::of(&bench) else { return };
    declare(&bench, "robbo", ("autostart = \"always\"", ""));
    let server = bench.serve();
    ask(&bench, "robbo", json!("shown"));
    for (key, shown) in [("C-o", "a transcript"), ("C-r", "a search")] {
        tmux.keys(&[key]);
        until("it is open", || tmux.screen().contains(shown));
        let message = send(&bench, "robbo", json!(shown));
        held(&bench, &message, "no_line");
        tmux.keys(&["q"]);
        assert_eq!(answer(&bench, &message)["state"], "replied", "{}", tmux.screen());
        assert!(!bench.out.join("keys").exists(), "{}", bench.left("keys"));
    }
    tmux.keys(&["-l", "!echo mine"]);
    until("it stands there", || tmux.screen().contains("! echo mine"));
    let message = send(&bench, "robbo", json!("after"));
    held(&bench, &message, "no_line");
    assert!(tmux.screen().contains("! echo mine"), "{}", tmux.screen());
    tmux.keys(&["C-u", "BSpace"]);
    assert_eq!(answer(&bench, &message)["reply"], "again after", "{}", tmux.screen());
    assert_eq!(heard(&bench), ["shown", "a transcript", "a search", "after"]);
    wait_end(&bench, server);
}

/// The other program shows what looks like the agent's line.
#[test]
fn another_program_in_the_foreground_gets_no_message() {
    let bench = Bench::new();
    let Some(tmux) = Tmux::of(&bench) else { return };
    let file = bench.base.join("agents/repl.sh");
    let run = r#"set -m; printf 'repl> '
while IFS= read -r line; do
  printf '%s\n' "$line" >> "$1/heard"
  if [ "$line" = edit ]; then
    sh -c 'printf "other\nrepl> "; head -n 1 > "$0/keys"' "$1"
  fi
  printf 'read it\nrepl> '
done
"#;
    std::fs::write(&file, run).unwrap();
    let out = &bench.out;
    bench.lua(&format!(
        r#"wb.engine "repl" {{
  type = "terminal", input = "repl>", proof = "screen",
  command = {{ "/bin/sh", "{file}", "{out}" }},
}}
wb.agent "robbo" {{ about = "A test", engine = "repl", autostart = "always" }}
"#
    ));
    let server = bench.serve();
    assert_eq!(ask(&bench, "robbo", json!("hello"))["state"], "replied", "{}", tmux.screen());
    tmux.keys(&["-l", "edit"]);
    tmux.keys(&["Enter"]);
    until("it is open", || tmux.screen().contains("other\nrepl>"));
    let message = send(&bench, "robbo", json!("after"));
    let told = held(&bench, &message, "other_program");
    let pid = told.split_once("(process ").unwrap().1.split_once(')').unwrap().0;
    let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
    assert!(line.contains("head -n 1 >"), "{told}: {line}");
    tmux.keys(&["-l", "q"]);
    tmux.keys(&["Enter"]);
    assert_eq!(answer(&bench, &message)["state"], "replied", "{}", tmux.screen());
    assert_eq!((bench.left("keys").as_str(), heard(&bench).len()), ("q", 3));
    wait_end(&bench, server);
}

/// As after Ctrl-Z in a pane without a shell: nobody but a person makes it go on.
#[test]
fn a_stopped_program_gets_nothing_until_it_goes_on() {
    let bench = Bench::new();
    let Some(_tmux) = Tmux::of(&bench) else { return };
    declare(&bench, "robbo", ("autostart = \"always\"", ""));
    let server = bench.serve();
    assert_eq!(ask(&bench, "robbo", json!("first"))["reply"], "again first");
    let is_it = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains("fake_terminal")
    };
    let pid = marked(&job_of(&bench)).into_iter().find(is_it).unwrap();
    shell(&format!("kill -STOP {pid}"));
    let message = send(&bench, "robbo", json!("second"));
    let told = held(&bench, &message, "stopped");
    assert!(told.contains(&format!("`kill -CONT {pid}`")), "{told}");
    assert!(told.contains("agent restart robbo"), "{told}");
    shell(&format!("kill -CONT {pid}"));
    assert_eq!(answer(&bench, &message)["reply"], "again second");
    assert_eq!(heard(&bench), ["first", "second"]);
    wait_end(&bench, server);
}
