//! The way to an agent that runs: found by its job, gone with its process.
//!
//! **Invariant:** no text of others makes Claude Code read a file.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use camino::Utf8PathBuf;

use crate::base::BlockId;
use crate::jobs::speak::mention::disarmed;
use crate::jobs::speak::talk::{Bearings, GREETING};
use crate::jobs::speak::typist::Desk;
use crate::jobs::speak::{
    Fact, Greeting, Noted, Told, anew_line, block_line, greeting_lines, interrupt_line, is_greeted,
};
use crate::process::GuardStopper;
use crate::script::Speaks;

/// What stands behind the name of a block in the guard once its turn was seen to begin.
const BEGUN: &str = "+";

/// The way to the process of one job; clones share it.
#[derive(Clone, Debug, Default)]
pub(in crate::jobs) struct Voice(Arc<Mutex<Option<Line>>>);

#[derive(Debug)]
struct Line {
    guard: GuardStopper,
    speaks: Speaks,
    /// Where it works.
    folder: Utf8PathBuf,
    /// How often something was written.
    count: u64,
    /// The name of the last block that the guard has, or will have.
    last: Option<String>,
    /// Where what is to be typed waits, for an agent in a terminal.
    desk: Option<Arc<Desk>>,
    /// What the conversation begins with.
    greeting: Greeting,
    /// What must be known to write to it.
    bearings: Bearings,
}

impl Line {
    /// Returns whether it is not known yet how to write to it.
    fn is_deaf(&self) -> bool {
        is_greeted(self.speaks) && self.bearings.thread.is_none()
    }
}

impl Voice {
    /// Begins to speak to a process, which may have been given something before.
    pub(in crate::jobs) fn open(
        &self,
        guard: GuardStopper,
        (speaks, greeting, folder): (Speaks, Greeting, Utf8PathBuf),
        mut last: Option<String>,
    ) {
        let name = last.as_deref().and_then(|it| it.strip_suffix(BEGUN)).map(str::to_owned);
        let is_begun = name.is_some();
        last = name.or(last);
        let given = last.as_deref().and_then(|it| it.parse().ok());
        let desk = (speaks == Speaks::Hooks).then(|| Arc::new(Desk::new(given, is_begun)));
        if is_greeted(speaks) && last.is_none() {
            guard.input(GREETING, &greeting_lines(speaks, &greeting));
            last = Some(GREETING.to_owned());
        }
        let bearings = Bearings::default();
        *self.line() =
            Some(Line { guard, speaks, folder, count: 0, last, desk, greeting, bearings });
    }

    /// Returns whether a block was written to the process; nothing while there is none, or while
    /// it has not said yet how it is spoken to.
    pub(in crate::jobs) fn has_said(&self, id: &BlockId) -> Option<bool> {
        let line = self.line();
        let line = line.as_ref()?;
        let has_said = line.last.as_deref() == Some(id.as_str());
        (has_said || !line.is_deaf()).then_some(has_said)
    }

    /// Writes a block; whether there is a process that may read it.
    pub(in crate::jobs) fn say(&self, id: &BlockId, text: &str) -> bool {
        let mut line = self.line();
        let Some(line) = line.as_mut() else { return false };
        let text = match line.speaks {
            Speaks::ClaudeStreamJson => disarmed(text, &line.folder),
            // What is pasted is looked at there; other programs leave an `@` alone.
            _ => text.into(),
        };
        let Some(words) = block_line(line.speaks, id, &text, &line.bearings) else { return false };
        line.last = Some(id.to_string());
        match &line.desk {
            Some(desk) => {
                // The guard keeps the name: a later server then knows that it may be typed.
                desk.put(id, words);
                line.guard.input(id.as_str(), "")
            }
            None => line.guard.input(id.as_str(), &words),
        }
    }

    /// Notes that nothing of the last block was written.
    pub(in crate::jobs) fn take_back(&self) {
        if let Some(line) = self.line().as_mut() {
            line.last = None;
            line.guard.input("", "");
        }
    }

    /// Notes that the turn of the last block was seen to begin: no later server hands it in.
    pub(in crate::jobs) fn note_begun(&self, id: &BlockId) {
        if let Some(line) =
            self.line().as_ref().filter(|it| it.last.as_deref() == Some(id.as_str()))
        {
            line.guard.input(&format!("{id}{BEGUN}"), "");
        }
    }

    /// Asks for the end of the turn that runs; whether there is a process that may read it.
    pub(in crate::jobs) fn interrupt(&self) -> bool {
        if let Some(desk) = self.desk() {
            desk.interrupt();
            return true;
        }
        let mut line = self.line();
        let Some(line) = line.as_mut() else { return false };
        line.count += 1;
        match interrupt_line(line.speaks, line.count, &line.bearings) {
            Some(words) => line.guard.input("", &words),
            None => false,
        }
    }

    /// Hears what the process tells of itself, and answers at once what needs no thought.
    pub(in crate::jobs) fn hear(&self, lines: &[Noted], told: Option<Told>) {
        let mut facts = lines.iter().flat_map(|it| &it.facts);
        if let Some(desk) = self.desk() {
            facts.for_each(|fact| desk.hear(fact));
            if let Some(told) = told {
                desk.know(told.stance);
            }
            return;
        }
        let (Some(line), Some(told)) = (&mut *self.line(), told) else { return };
        line.bearings = told.bearings;
        let is_begun_anew = facts.any(|it| *it == Fact::SessionLost) && line.greeting.begins_anew;
        let anew = match is_begun_anew {
            true => anew_line(line.speaks, &line.greeting),
            false => None,
        };
        for words in told.lines.iter().chain(&anew) {
            line.guard.input("", words);
        }
    }

    /// Waits until a turn was ended of whose end nothing tells.
    pub(in crate::jobs) async fn until_cut(&self) {
        match self.desk() {
            Some(desk) => desk.until_cut().await,
            None => std::future::pending().await,
        }
    }

    /// Returns whether the process can be spoken to as soon as it runs: it says nothing of that.
    pub(in crate::jobs) fn is_ready_at_once(&self) -> bool {
        self.line().as_ref().is_none_or(|it| it.desk.is_none() && !is_greeted(it.speaks))
    }

    /// Returns where what is to be typed waits.
    pub(in crate::jobs) fn desk(&self) -> Option<Arc<Desk>> {
        self.line().as_ref().and_then(|it| it.desk.clone())
    }

    fn line(&self) -> MutexGuard<'_, Option<Line>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
