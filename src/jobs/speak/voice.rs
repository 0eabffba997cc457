//! The way to an agent that runs: found by its job, gone with its process.

use std::sync::{Arc, Mutex, PoisonError};

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
}

impl Voice {
    /// Begins to speak to a process.
    pub(in crate::jobs) fn open(&self, guard: GuardStopper, speaks: Speaks) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Line { guard, speaks, count: 0 });
    }

    /// Writes a block; whether there is a process that may read it.
    pub(in crate::jobs) fn say(&self, id: &BlockId, text: &str) -> bool {
        self.write(|speaks, _| block_line(speaks, id, text))
    }

    /// Asks for the end of the turn that runs; whether there is a process that may read it.
    pub(in crate::jobs) fn interrupt(&self) -> bool {
        self.write(interrupt_line)
    }

    fn write(&self, text: impl FnOnce(Speaks, u64) -> String) -> bool {
        let mut line = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(line) = line.as_mut() else { return false };
        line.count += 1;
        line.guard.input(line.count, &text(line.speaks, line.count))
    }
}
