//! Talks to agents that are spoken to, and shows their terminals.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use camino::Utf8PathBuf;
use tracing::warn;

use crate::base::{BlockId, JobId};
use crate::jobs::run::dispatch::Inner;
use crate::jobs::run::rest::Rest;
use crate::jobs::speak::Greeting;
use crate::jobs::speak::typist::session_of;
use crate::jobs::speak::veil::{Veil, secrets};
use crate::jobs::{Job, Pool, Queue, job_dir};
use crate::process::{PROMPT_FILE, launched, read_small};

/// Longest text about what an agent is.
const ABOUT_BYTES_MAX: u64 = 256 * 1024;

/// Most values of secrets that are remembered: an agent may write into such a file as often as it
/// likes.
const SECRETS_MAX: usize = 1_000;

/// Returns the secrets to hide in what a job shows: those of its script and of the current one, and
/// what their files held before they were replaced, as far as this server has seen it.
pub(in crate::jobs) fn secrets_of(inner: &Inner, job: &JobId) -> Vec<String> {
    let generations = &inner.setup.generations;
    let current = generations.current();
    let of_job = generations.of(job).filter(|it| !Arc::ptr_eq(it, &current));
    let place = (inner.ground.folder.as_path(), inner.ground.env.as_slice());
    let read = [Some(current), of_job].into_iter().flatten();
    let now: BTreeSet<String> = read.flat_map(|it| secrets(&it.config, place)).collect();
    let mut seen = inner.secrets_seen.lock().unwrap_or_else(PoisonError::into_inner);
    let room = SECRETS_MAX.saturating_sub(seen.len());
    let new: Vec<String> = now.difference(&seen).take(room).cloned().collect();
    seen.extend(new);
    // Whatever was remembered, what is secret now is hidden.
    seen.union(&now).cloned().collect()
}

/// Returns what covers the secrets in what the agent of a job said.
pub(in crate::jobs) fn veil_of(inner: &Inner, job: &JobId) -> Veil {
    Veil::new(&secrets_of(inner, job))
}

/// Returns what the conversation with the agent of a job begins with. An instance learns from its
/// first text what it is.
pub(in crate::jobs) fn greeting_of(inner: &Inner, job: &Job, session: Option<String>) -> Greeting {
    if job.pool != Pool::Live {
        return Greeting { session, ..Greeting::default() };
    }
    let path = job_dir(&inner.ground.data, &job.id).join(PROMPT_FILE);
    let about = match read_small(&path, ABOUT_BYTES_MAX) {
        Ok(about) => String::from_utf8_lossy(&about.unwrap_or_default()).into_owned(),
        Err(cause) => {
            warn!(job_id = %job.id, "its agent is not told what it is: {}", cause.chain());
            String::new()
        }
    };
    Greeting { session, about, begins_anew: true }
}

/// Returns the folder in which the agent of a job was started.
pub(in crate::jobs) fn folder_of(inner: &Inner, job: &Job) -> Utf8PathBuf {
    launched(&job_dir(&inner.ground.data, &job.id)).map_or_else(
        |cause| {
            warn!(job_id = %job.id, "the folder of its agent is unknown: {}", cause.chain());
            inner.ground.folder.clone()
        },
        |it| it.cwd,
    )
}

impl Queue {
    /// Sends a block to a long-lived agent; returns whether its process may have received it.
    pub fn say(&self, job: &JobId, id: &BlockId, text: &str) -> bool {
        self.voice(job).is_some_and(|it| it.say(id, text))
    }

    /// Asks a long-lived agent to end its turn; returns whether its process may have received that.
    pub fn interrupt(&self, job: &JobId) -> bool {
        self.voice(job).is_some_and(|it| it.interrupt())
    }

    /// Waits until an instance may be given another text.
    pub async fn rested(&self) {
        self.inner.rested.notified().await;
    }

    /// Returns the instances that may be given another text.
    pub fn resting(&self) -> Vec<JobId> {
        let running = self.inner.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.iter().filter(|(_, it)| it.rest.is_resting()).map(|(id, _)| id.clone()).collect()
    }

    /// Ends the rest of an instance, for a text that follows; returns whether it rested.
    pub fn end_rest(&self, job: &JobId) -> bool {
        self.rest(job).is_some_and(|it| it.work())
    }

    /// Lets an instance rest again: no text follows.
    pub fn rest_again(&self, job: &JobId) {
        if let Some(rest) = self.rest(job) {
            rest.rest();
        }
    }

    fn rest(&self, job: &JobId) -> Option<Rest> {
        let running = self.inner.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.get(job).map(|it| it.rest.clone())
    }

    /// Returns whether a block was sent to a job's process; `None` without a process.
    pub fn has_said(&self, job: &JobId, id: &BlockId) -> Option<bool> {
        self.voice(job).and_then(|it| it.has_said(id))
    }

    /// Returns the last lines of a job's terminal; `None` without a terminal.
    pub async fn screen(&self, job: &JobId, lines: u32) -> Option<String> {
        let screen = self.voice(job)?.desk()?.screen(lines).await?;
        Some(veil_of(&self.inner, job).cover(&screen))
    }

    /// Returns the command that attaches to a job's terminal, if it has one.
    pub fn attach(&self, job: &JobId) -> Option<Vec<String>> {
        self.voice(job)?.desk()?;
        Some(self.inner.ground.terminals.attach(&session_of(job.as_str())))
    }
}
