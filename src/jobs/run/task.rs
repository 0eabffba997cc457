//! Jobs that run inside of the server: a future instead of a process.
//!
//! **Invariant:** claim, fence and settlement are the same as for a process; only what runs between
//! them differs.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::base::Millis;
use crate::jobs::{Job, Reason, Status};

/// Runs jobs whose engine is built into the server.
pub type RunTask = Arc<dyn Fn(Task) -> BoxFuture<'static, TaskEnd> + Send + Sync>;

/// A job to run.
#[derive(Clone, Debug)]
pub struct Task {
    /// The claimed job.
    pub job: Job,
    /// Proves in a transaction that the job is still running.
    pub token_hash: String,
    /// Signals that it should end: start nothing new. A task that has not returned after the grace
    /// period is dropped.
    pub stop: CancellationToken,
    /// Its wall clock.
    pub clock: TaskClock,
}

/// The wall clock of a task, which pauses while waiting for a person.
#[derive(Clone, Debug)]
pub struct TaskClock(Arc<watch::Sender<u32>>);

/// Pauses the clock while it is held.
#[derive(Debug)]
pub struct Pause(TaskClock);

/// The result of a task.
#[derive(Clone, Debug, Default)]
pub struct TaskEnd {
    /// The failure, if any.
    pub failure: Option<TaskFailure>,
    /// The last words.
    pub summary: Option<String>,
    /// Tokens, by the names in `usage`.
    pub usage: Option<Value>,
    /// US dollars.
    pub cost_usd: Option<f64>,
    /// The engine that did the work, if it is not the kind's: usage, cost and limits are its own.
    pub engine: Option<String>,
}

/// A failure of a task.
#[derive(Clone, Debug)]
pub struct TaskFailure {
    /// The status for its job.
    pub status: Status,
    /// The reason for its job.
    pub reason: Reason,
    /// A message for people.
    pub text: String,
    /// Set if the provider is rate limiting, with the end if known: holds the engine for everybody.
    pub limit: Option<Option<Millis>>,
}

impl TaskClock {
    pub(in crate::jobs) fn new() -> TaskClock {
        TaskClock(Arc::new(watch::Sender::new(0)))
    }

    /// Pauses the clock until the result is dropped.
    pub fn pause(&self) -> Pause {
        self.0.send_modify(|count| *count += 1);
        Pause(self.clone())
    }

    /// Waits until the clock has run this long.
    pub(in crate::jobs) async fn run_out(&self, mut left: Duration) {
        let mut pauses = self.0.subscribe();
        loop {
            if *pauses.borrow_and_update() > 0 {
                // Cannot fail: this clock holds the sender.
                let _ = pauses.changed().await;
                continue;
            }
            let since = Instant::now();
            tokio::select! {
                () = tokio::time::sleep(left) => return,
                _ = pauses.changed() => left = left.saturating_sub(since.elapsed()),
            }
        }
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_clock_does_not_count_what_a_person_takes() {
        let (clock, begun) = (TaskClock::new(), Instant::now());
        let work = async {
            tokio::time::sleep(Duration::from_secs(4)).await;
            let (one, two) = (clock.pause(), clock.pause());
            tokio::time::sleep(Duration::from_secs(100)).await;
            drop(one);
            tokio::time::sleep(Duration::from_secs(100)).await;
            drop(two);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = clock.run_out(Duration::from_secs(10)) => {}
            () = work => {}
        }
        assert_eq!(begun.elapsed(), Duration::from_secs(210));
    }
}
