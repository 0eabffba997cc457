//! `wiki-browser ask` in a terminal, where it asks its person.

#![allow(clippy::disallowed_methods, reason = "a test looks at tmux as a person would")]

use std::process::Command;

use camino::Utf8PathBuf;
use serde_json::json;

use super::tools::vault;
use super::{ask, keyed};
use crate::support::{Bench, until, wait_for};

/// A window of a tmux of its own, which ends with the test.
struct Window {
    socket: Utf8PathBuf,
}

impl Window {
    /// Runs the operator's program in a window; nothing if there is no tmux.
    fn open(bench: &Bench, (name, question): (&str, &str)) -> Option<Window> {
        if Command::new("tmux").arg("-V").output().is_err() {
            assert!(std::env::var_os("CI").is_none(), "tmux is not installed");
            eprintln!("skipped: tmux is not installed");
            return None;
        }
        let program = env!("CARGO_BIN_EXE_wiki-browser");
        let window = Window { socket: bench.base.join(name) };
        let folder = bench.top.as_str();
        let begin = ["-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "60", "-c", folder];
        // The window lives on, so that its last words can be read.
        let stays = [";", "set", "-g", "remain-on-exit", "on"];
        window.tell(&[&begin, &[program, "ask", question][..], &stays].concat());
        Some(window)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&self.socket).args(words).env_remove("TMUX");
        command
    }

    fn tell(&self, words: &[&str]) -> String {
        let done = self.command(words).output().unwrap();
        assert!(done.status.success(), "{words:?}: {done:?}");
        String::from_utf8_lossy(&done.stdout).into_owned()
    }

    /// Waits until a text is shown.
    #[track_caller]
    fn shows(&self, text: &str) -> String {
        wait_for(&format!("the terminal shows {text}"), || {
            let shown = self.tell(&["capture-pane", "-p"]);
            shown.contains(text).then_some(shown)
        })
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // A test that fails may have none.
        drop(self.command(&["kill-server"]).output());
    }
}

#[test]
fn a_question_is_answered_in_the_terminal_or_elsewhere() {
    let bench = Bench::new();
    let _model = keyed(&bench, "");
    let server = bench.serve();
    let write = |content: &str| json!(["write_file", {"path": "a.md", "content": content}]);
    let steps = |content: &str| {
        let steps = json!([{"calls": [write(content)]}, {"say": ["It is over."]}]);
        format!("script {steps}")
    };
    ask(&bench, json!({"message": steps("one\n")}));
    let read = || std::fs::read_to_string(vault(&bench).join("a.md")).unwrap();
    for (key, content) in [("n", "one\n"), ("y", "two\n")] {
        let question = steps("two\n");
        let Some(window) = Window::open(&bench, (key, &question)) else {
            return;
        };
        let shown = window.shows("Allow it once?");
        assert!(shown.contains("-one") && shown.contains("+two"), "{shown}");
        assert_eq!(read(), "one\n");
        window.tell(&["send-keys", key, "Enter"]);
        window.shows("It is over.");
        until("the file is as was said", || read() == content);
    }
    // Another device decides while the terminal asks.
    let question = steps("three\n");
    let Some(window) = Window::open(&bench, ("elsewhere", &question)) else {
        return;
    };
    window.shows("Allow it once?");
    let waiting = bench.get("/api/decisions").ok();
    let id = waiting["items"][0]["id"].as_str().unwrap_or_else(|| panic!("{waiting}"));
    bench.post(&format!("/api/approvals/{id}/approve"), json!({"version": 1})).ok();
    window.shows("decided elsewhere");
    window.shows("It is over.");
    assert_eq!(read(), "three\n");
    drop(window);
    server.stop();
}
