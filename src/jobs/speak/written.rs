//! Looking at what a program in a terminal writes down, while a turn of it runs: no hook is sure to
//! tell of its end, and none tells of the beginning of a turn that waited in the program's queue.
//!
//! **Invariant:** what is seen is told to the agent's guard as its hooks tell it: it is kept, heard
//! in order, and the same for whatever server hears it.
//! **Invariant:** nothing is read but a regular file of our user that is named like a session.

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use tokio::time::sleep;
use tracing::{info, warn};

use crate::base::BlockId;
use crate::jobs::speak::hooks::written_line;
use crate::jobs::speak::transcript::{BYTES_MAX, Turns, is_transcript};
use crate::jobs::speak::typist::Desk;
use crate::process::{HOOKS_PIPE, bytes_from, tell_hooks};

/// How often the file is looked at while something is expected of it.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Tells what is written down of the turns of a program. Never returns.
pub(super) async fn watch(desk: &Desk, dir: &Utf8Path) {
    let (pipe, mut file, mut told) = (dir.join(HOOKS_PIPE), Written::default(), None);
    loop {
        let Some((path, prompt, block)) = desk.sought() else {
            desk.until_sought().await;
            continue;
        };
        if !is_transcript(&path) {
            desk.until_sought().await;
            continue;
        }
        sleep(LOOK_EVERY).await;
        if file.path != path {
            file = Written { path, ..Written::default() };
        }
        let (pipe, before) = (pipe.clone(), told.take());
        // The guard may read slowly, and a transcript may be long.
        let looked = tokio::task::spawn_blocking(move || {
            file.read_on();
            let line = file.news(prompt.as_deref(), block.as_ref());
            if let Some(line) = line.as_ref().filter(|line| before.as_ref() != Some(*line))
                && let Err(cause) = tell_hooks(&pipe, line)
            {
                info!("what is written down is not told: {}", cause.chain());
                return (file, None);
            }
            (file, line.or(before))
        });
        (file, told) = looked.await.unwrap_or_else(|cause| {
            warn!("a transcript is not read: {cause}");
            (Written::default(), None)
        });
    }
}

/// A transcript, as far as it was read.
#[derive(Debug, Default)]
struct Written {
    path: Utf8PathBuf,
    /// Where it is read on; nothing before it was read at all.
    at: Option<u64>,
    /// A line that is not whole yet.
    rest: Vec<u8>,
    turns: Turns,
}

impl Written {
    /// Reads what was added since; all of it anew if it has become shorter.
    fn read_on(&mut self) {
        let Some((from, bytes)) = bytes_from(&self.path, self.at, BYTES_MAX) else { return };
        if self.at != Some(from) {
            (self.rest, self.turns) = (Vec::new(), Turns::default());
        }
        self.at = Some(from + bytes.len() as u64);
        self.rest.extend(bytes);
        let whole = self.rest.iter().rposition(|it| *it == b'\n').map_or(0, |it| it + 1);
        let lines: Vec<u8> = self.rest.drain(..whole).collect();
        self.turns.read(&String::from_utf8_lossy(&lines));
        if self.rest.len() as u64 > BYTES_MAX {
            self.rest.clear();
        }
    }

    /// Returns what is to be told: the end of the turn that runs, or the turn of a text of ours.
    fn news(&self, prompt: Option<&str>, block: Option<&BlockId>) -> Option<String> {
        let running = prompt.and_then(|it| self.turns.of_prompt(it));
        let ended = running.filter(|it| it.over.is_some());
        let turn = ended.or_else(|| block.and_then(|it| self.turns.of_block(it)))?;
        Some(written_line(turn))
    }
}
