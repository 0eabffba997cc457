//! Panes: a paste reaches the intended process, or nobody.

#![allow(clippy::disallowed_methods, reason = "a test looks at tmux as a person would")]

use std::process::Command;

use camino::Utf8Path;
use wiki_browser::process::{Children, Pane, Pasted, Terminals};

use crate::support::until;

/// A tmux of its own, which ends with the test.
struct Rig {
    folder: tempfile::TempDir,
    terminals: Terminals,
}

impl Rig {
    fn new() -> Option<Rig> {
        if Command::new("tmux").arg("-V").output().is_err() {
            assert!(std::env::var_os("CI").is_none(), "tmux is not installed");
            eprintln!("skipped: tmux is not installed");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        // A name with all that the shell and tmux could take for something else.
        let data = Utf8Path::from_path(folder.path()).unwrap().join("it's #{pid} %d");
        let path = vec![("PATH".to_owned(), std::env::var("PATH").unwrap())];
        let terminals = Terminals::new(Children::new(), &data, &path);
        Some(Rig { folder, terminals })
    }

    async fn start(&self, env: &[(&str, &str)], argv: &[&str]) -> Pane {
        let watcher = Utf8Path::new(env!("CARGO_BIN_EXE_wb-agent"));
        Pane::start(&self.terminals, ("wb-one", watcher), "/", env, argv).await.unwrap()
    }

    fn tell(&self, words: &[&str]) {
        let socket = self.folder.path().join("it's #{pid} %d/run/tmux.sock");
        let done = Command::new("tmux").arg("-S").arg(socket).args(words).output().unwrap();
        assert!(done.status.success(), "{words:?}: {done:?}");
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.tell(&["kill-server"]);
    }
}

#[tokio::test]
async fn g33_a_paste_reaches_the_process_that_was_meant_or_nobody() {
    let Some(rig) = Rig::new() else { return };
    let file = rig.folder.path().join("heard");
    let file = file.to_str().unwrap();
    let argv = ["/bin/sh", "-c", "stty raw -echo; printf '\\033[?2004h'; exec cat > \"$HEARD\""];
    let env = [("HEARD", file)];
    let heard = || std::fs::read_to_string(file).unwrap_or_default();
    let pane = rig.start(&env, &argv).await;
    until("it reads", || std::fs::exists(file).unwrap());
    bracketed(&pane, true).await;
    // Every byte that may be in a text arrives, and line feeds stay what they are.
    let text = "one\n  zwölf ‹wb:1› 🦀;\\ $HOME \"'\n".repeat(3_000);
    assert_eq!(pane.paste("a", &text).await.unwrap(), Pasted::Done);
    let text = format!("\x1b[200~{text}\x1b[201~");
    until("all of it is there", || heard().len() == text.len());
    assert_eq!(heard(), text);
    let refused = async |why: &str| {
        assert_eq!(pane.paste("b", "at a neighbor").await.unwrap(), Pasted::Refused, "{why}");
        pane.press("Enter").await.unwrap();
    };
    rig.tell(&["copy-mode", "-t", "=wb-one:"]);
    refused("somebody reads back").await;
    rig.tell(&["send-keys", "-t", "=wb-one:", "-X", "cancel"]);
    rig.tell(&["select-pane", "-d", "-t", "=wb-one:"]);
    refused("its input is off").await;
    rig.tell(&["select-pane", "-e", "-t", "=wb-one:"]);
    // Another process in the same pane is another agent.
    rig.tell(&["respawn-pane", "-k", "-t", "=wb-one:", "--", "sleep", "60"]);
    refused("it is another process").await;
    rig.tell(&["respawn-pane", "-k", "-t", "=wb-one:", "--", "true"]);
    let mut is_dead = false;
    while !is_dead {
        is_dead = pane.standing().await.unwrap().is_dead;
    }
    refused("it is dead").await;
    assert_eq!(heard(), text);
    assert!(Pane::find(&rig.terminals, "wb-one", pane.pid()).await.is_err());
    pane.close().await.unwrap();
    assert!(!matches!(pane.paste("c", "gone").await, Ok(Pasted::Done)));
}

/// Waits until it is known whether the program takes pastes in brackets.
async fn bracketed(pane: &Pane, is_on: bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while pane.is_bracketed().await.unwrap() != is_on {
        assert!(std::time::Instant::now() < deadline, "brackets are not {is_on}");
    }
}

/// A line feed or a tab is a key for a program that has not asked for brackets, or no longer does.
#[tokio::test]
async fn nothing_that_presses_a_key_is_pasted_without_brackets() {
    let Some(rig) = Rig::new() else { return };
    let file = |name: &str| rig.folder.path().join(name).to_str().unwrap().to_owned();
    let (heard, mode) = (file("heard"), file("mode"));
    // It prints what is written into a pipe, so that a test turns its mode on and off.
    let run = "stty raw -echo; mkfifo \"$MODE\"; cat > \"$HEARD\" < /dev/tty & \
               while :; do cat \"$MODE\"; done";
    let env = [("HEARD", heard.as_str()), ("MODE", mode.as_str())];
    let pane = rig.start(&env, &["/bin/sh", "-c", run]).await;
    let got = || std::fs::read_to_string(&heard).unwrap_or_default();
    until("it reads", || std::fs::exists(&heard).unwrap() && std::fs::exists(&mode).unwrap());
    let print = |it: &str| std::fs::write(&mode, it).unwrap();
    let refused = async || {
        for text in ["one\n!two", "one\ttwo"] {
            assert_eq!(pane.paste("a", text).await.unwrap(), Pasted::Refused, "{text:?}");
        }
    };
    refused().await;
    assert_eq!(pane.paste("b", "plain;").await.unwrap(), Pasted::Done);
    until("it is there", || got() == "plain;");
    print("\x1b[?2004h");
    bracketed(&pane, true).await;
    assert_eq!(pane.paste("c", "one\n\ttwo").await.unwrap(), Pasted::Done);
    until("it is there in brackets", || got() == "plain;\x1b[200~one\n\ttwo\x1b[201~");
    print("\x1b[?2004l");
    bracketed(&pane, false).await;
    refused().await;
    // Whoever takes the pipe for something else ends the watch.
    print("\x1b[?2004h");
    bracketed(&pane, true).await;
    rig.tell(&["pipe-pane", "-t", "=wb-one:", "cat > /dev/null"]);
    bracketed(&pane, false).await;
    refused().await;
    assert_eq!(got(), "plain;\x1b[200~one\n\ttwo\x1b[201~");
    pane.close().await.unwrap();
}
