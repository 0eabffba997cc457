//! The way to an agent that runs: found by its job, gone with its process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::base::BlockId;
use crate::jobs::speak::{block_line, interrupt_line};
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
}

impl Voice {
    /// Begins to speak to a process, which may have been given something before.
    pub(in crate::jobs) fn open(&self, guard: GuardStopper, speaks: Speaks, last: Option<String>) {
        *self.line() = Some(Line { guard, speaks, count: 0, last });
    }

    /// Returns whether a block was written to the process; nothing while there is none.
    pub(in crate::jobs) fn has_said(&self, id: &BlockId) -> Option<bool> {
        self.line().as_ref().map(|it| it.last.as_deref() == Some(id.as_str()))
    }

    /// Writes a block; whether there is a process that may read it.
    pub(in crate::jobs) fn say(&self, id: &BlockId, text: &str) -> bool {
        if let Some(line) = self.line().as_mut() {
            line.last = Some(id.to_string());
        }
        self.write(|speaks, _| (id.to_string(), block_line(speaks, id, text)))
    }

    /// Asks for the end of the turn that runs; whether there is a process that may read it.
    pub(in crate::jobs) fn interrupt(&self) -> bool {
        self.write(|speaks, count| (String::new(), interrupt_line(speaks, count)))
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
