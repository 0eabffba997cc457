//! The way to an agent that runs: found by its job, gone with its process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::base::BlockId;
use crate::jobs::speak::typist::Desk;
use crate::jobs::speak::{Noted, Stance, block_line, interrupt_line};
use crate::process::GuardStopper;
use crate::script::Speaks;

/// The way to the process of one job; clones share it.
#[derive(Clone, Debug, Default)]
pub(in crate::jobs) struct Voice(Arc<Mutex<Option<Line>>>);

#[derive(Debug)]
struct Line {
    guard: GuardStopper,
    speaks: Speaks,
    /// How often something was written.
    count: u64,
    /// The name of the last block that the guard has, or will have.
    last: Option<String>,
    /// Where what is to be typed waits, for an agent in a terminal.
    desk: Option<Arc<Desk>>,
}

impl Voice {
    /// Begins to speak to a process, which may have been given something before.
    pub(in crate::jobs) fn open(&self, guard: GuardStopper, speaks: Speaks, last: Option<String>) {
        let given = last.as_deref().and_then(|it| it.parse().ok());
        let desk = (speaks == Speaks::Hooks).then(|| Arc::new(Desk::new(given)));
        *self.line() = Some(Line { guard, speaks, count: 0, last, desk });
    }

    /// Returns whether a block was written to the process; nothing while there is none.
    pub(in crate::jobs) fn has_said(&self, id: &BlockId) -> Option<bool> {
        self.line().as_ref().map(|it| it.last.as_deref() == Some(id.as_str()))
    }

    /// Writes a block; whether there is a process that may read it.
    pub(in crate::jobs) fn say(&self, id: &BlockId, text: &str) -> bool {
        if let Some(line) = self.line().as_mut() {
            line.last = Some(id.to_string());
            if let Some(desk) = &line.desk {
                // The guard keeps the name: a later server then knows that it may be typed.
                desk.put(id, block_line(line.speaks, id, text));
                return line.guard.input(id.as_str(), "");
            }
        }
        self.write(|speaks, _| (id.to_string(), block_line(speaks, id, text)))
    }

    /// Notes that nothing of the last block was written.
    pub(in crate::jobs) fn take_back(&self) {
        if let Some(line) = self.line().as_mut() {
            line.last = None;
            line.guard.input("", "");
        }
    }

    /// Asks for the end of the turn that runs; whether there is a process that may read it.
    pub(in crate::jobs) fn interrupt(&self) -> bool {
        if let Some(desk) = self.desk() {
            desk.interrupt();
            return true;
        }
        self.write(|speaks, count| (String::new(), interrupt_line(speaks, count)))
    }

    /// Hears what the process tells of itself.
    pub(in crate::jobs) fn hear(&self, lines: &[Noted], stance: Option<Stance>) {
        let Some(desk) = self.desk() else { return };
        lines.iter().flat_map(|it| &it.facts).for_each(|fact| desk.hear(fact));
        if let Some(stance) = stance {
            desk.know(stance);
        }
    }

    /// Waits until a turn was ended of whose end nothing tells.
    pub(in crate::jobs) async fn until_cut(&self) {
        match self.desk() {
            Some(desk) => desk.until_cut().await,
            None => std::future::pending().await,
        }
    }

    /// Returns where what is to be typed waits.
    pub(in crate::jobs) fn desk(&self) -> Option<Arc<Desk>> {
        self.line().as_ref().and_then(|it| it.desk.clone())
    }

    fn write(&self, words: impl FnOnce(Speaks, u64) -> (String, String)) -> bool {
        let mut line = self.line();
        let Some(line) = line.as_mut() else { return false };
        line.count += 1;
        let (id, text) = words(line.speaks, line.count);
        line.guard.input(&id, &text)
    }

    fn line(&self) -> MutexGuard<'_, Option<Line>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
