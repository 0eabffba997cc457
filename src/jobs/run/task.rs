//! A job that is done inside of the server: a future in the place of a process.
//!
//! **Invariant:** it has the same claim, fence and settlement as a process; only what runs between
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

/// What does the work of jobs whose engine is a part of the server.
pub type RunTask = Arc<dyn Fn(Task) -> BoxFuture<'static, TaskEnd> + Send + Sync>;

/// A job that is to be done.
#[derive(Clone, Debug)]
pub struct Task {
    /// The job, as it was claimed.
    pub job: Job,
    /// What proves in a transaction that it still runs.
    pub token_hash: String,
    /// It is to end: nothing more is begun. Who does not return within the grace is dropped.
    pub stop: CancellationToken,
    /// Its wall clock.
    pub clock: TaskClock,
}

/// The wall clock of a task, which stands still while a person is waited for.
#[derive(Clone, Debug)]
pub struct TaskClock(Arc<watch::Sender<u32>>);

/// The clock stands still as long as this is held.
#[derive(Debug)]
pub struct Pause(TaskClock);

/// What a task came to.
#[derive(Clone, Debug, Default)]
pub struct TaskEnd {
    /// Why it failed, if it did.
    pub failure: Option<TaskFailure>,
    /// What was said last.
    pub summary: Option<String>,
    /// Tokens, by the names that usage has.
    pub usage: Option<Value>,
    /// US dollars.
    pub cost_usd: Option<f64>,
}

/// Why a task failed.
#[derive(Clone, Debug)]
pub struct TaskFailure {
    /// The status of its job.
    pub status: Status,
    /// The reason of its job.
    pub reason: Reason,
    /// For people.
    pub text: String,
    /// The provider takes no more, until a time if that is known: the engine is held for everybody.
    pub limit: Option<Option<Millis>>,
}

impl TaskClock {
    pub(in crate::jobs) fn new() -> TaskClock {
        TaskClock(Arc::new(watch::Sender::new(0)))
    }

    /// Stops the clock until what is returned is dropped.
    pub fn pause(&self) -> Pause {
        self.0.send_modify(|count| *count += 1);
        Pause(self.clone())
    }

    /// Returns when the clock has run for so long.
    pub(in crate::jobs) async fn run_out(&self, mut left: Duration) {
        let mut pauses = self.0.subscribe();
        loop {
            if *pauses.borrow_and_update() > 0 {
                // The sender is held by this clock.
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
