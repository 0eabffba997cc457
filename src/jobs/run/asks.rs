//! What requests of a running agent say to its execution: that it waits for a person, so that its
//! idle clock stands still, and that its verdict was given.

use std::sync::{Arc, PoisonError};

use tokio::sync::watch;

use crate::base::JobId;
use crate::jobs::Queue;

/// How many requests of an agent wait for a person.
pub(in crate::jobs) type Asks = Arc<watch::Sender<usize>>;

/// A request that waits for a person, until it is dropped.
#[derive(Debug)]
#[must_use]
pub struct Asking(Asks);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Queue {
    /// Signals that an instance's verdict was committed: its agent may finish, and is then ended.
    pub fn note_verdict(&self, id: &JobId) {
        let running = self.inner.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(it) = running.get(id) {
            it.verdict.cancel();
        }
    }

    /// Notes that a request of this job waits for a person. `None` if the job is not running here.
    pub fn asking(&self, id: &JobId) -> Option<Asking> {
        let running = self.inner.running.lock().unwrap_or_else(PoisonError::into_inner);
        let asks = Arc::clone(&running.get(id)?.asks);
        asks.send_modify(|count| *count += 1);
        Some(Asking(asks))
    }
}
