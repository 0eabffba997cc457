//! What is said to agents that live on, and what is seen of them.

use crate::base::{BlockId, JobId};
use crate::jobs::Queue;
use crate::jobs::run::dispatch::Inner;
use crate::jobs::speak::typist::session_of;
use crate::jobs::speak::veil::{secrets, veiled};

/// Returns what nobody may see on the screen of a job.
pub(in crate::jobs) fn secrets_of(inner: &Inner, job: &JobId) -> Vec<String> {
    let generations = &inner.setup.generations;
    let generation = generations.of(job).unwrap_or_else(|| generations.current());
    secrets(&generation.config, (&inner.ground.folder, &inner.ground.env))
}

impl Queue {
    /// Gives an agent that lives on a block to read; whether its process may have it.
    pub fn say(&self, job: &JobId, id: &BlockId, text: &str) -> bool {
        self.voice(job).is_some_and(|it| it.say(id, text))
    }

    /// Asks an agent that lives on to end its turn; whether its process may hear of it.
    pub fn interrupt(&self, job: &JobId) -> bool {
        self.voice(job).is_some_and(|it| it.interrupt())
    }

    /// Returns whether a block was written to the process of a job; nothing while there is none.
    pub fn has_said(&self, job: &JobId, id: &BlockId) -> Option<bool> {
        self.voice(job).and_then(|it| it.has_said(id))
    }

    /// Returns the last lines of the terminal of a job; nothing if it runs in none.
    pub async fn screen(&self, job: &JobId, lines: u32) -> Option<String> {
        let screen = self.voice(job)?.desk()?.screen(lines).await?;
        Some(veiled(&screen, &secrets_of(&self.inner, job)))
    }

    /// Returns the command that leads to the terminal of a job, if it runs in one.
    pub fn attach(&self, job: &JobId) -> Option<Vec<String>> {
        self.voice(job)?.desk()?;
        Some(self.inner.ground.terminals.attach(&session_of(job.as_str())))
    }
}
