//! Panes: a paste reaches the intended process, or nobody.

#![allow(clippy::disallowed_methods, reason = "a test looks at tmux as a person would")]

use std::process::Command;

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
        let data = camino::Utf8Path::from_path(folder.path()).unwrap();
        let path = vec![("PATH".to_owned(), std::env::var("PATH").unwrap())];
        let terminals = Terminals::new(Children::new(), data, &path);
        Some(Rig { folder, terminals })
    }

    fn tell(&self, words: &[&str]) {
        let socket = self.folder.path().join("run").join("tmux.sock");
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
    let argv = ["/bin/sh", "-c", "stty raw -echo; exec cat > \"$HEARD\""];
    let env = [("HEARD", file)];
    let heard = || std::fs::read_to_string(file).unwrap_or_default();
    let pane = Pane::start(&rig.terminals, "wb-one", "/", &env, &argv).await.unwrap();
    until("it reads", || std::fs::exists(file).unwrap());
    // Every byte that may be in a text arrives, and line feeds stay what they are.
    let text = "one\n  zwölf ‹wb:1› 🦀;\\ $HOME \"'\n".repeat(3_000);
    assert_eq!(pane.paste("a", &text).await.unwrap(), Pasted::Done);
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
