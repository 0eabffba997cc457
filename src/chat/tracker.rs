//! Tool calls in progress, by run: the settlement of a run waits for them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::base::JobId;

type Counts = Arc<Mutex<HashMap<JobId, watch::Sender<usize>>>>;

/// Counts the tool calls in progress; clones share the counts.
#[derive(Clone, Debug, Default)]
pub struct Tracker(Counts);

/// A tool call in progress until it is dropped.
#[derive(Debug)]
pub struct Tracked {
    counts: Counts,
    run: JobId,
}

impl Tracker {
    /// Counts a call of a run. It is counted before the transaction that starts it, so a run that
    /// is fenced and has no calls in progress gets no more.
    pub fn begin(&self, run: &JobId) -> Tracked {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.entry(run.clone()).or_default().send_modify(|count| *count += 1);
        Tracked { counts: Arc::clone(&self.0), run: run.clone() }
    }

    /// Returns whether a run has no calls in progress.
    pub fn is_idle(&self, run: &JobId) -> bool {
        !self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(run)
    }

    /// Waits until a run has no calls in progress.
    pub async fn idle(&self, run: &JobId) {
        let waiting = {
            let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            counts.get(run).map(watch::Sender::subscribe)
        };
        let Some(mut count) = waiting else { return };
        // The sender is dropped with the last call.
        let _ = count.wait_for(|count| *count == 0).await;
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get(&self.run) {
            count.send_modify(|count| *count = count.saturating_sub(1));
            if *count.borrow() == 0 {
                counts.remove(&self.run);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_run_is_idle_once_its_last_call_has_ended() {
        let tracker = Tracker::default();
        let run: JobId = "018bcfe5-6800-7000-8000-000000000001".parse().unwrap();
        tracker.idle(&run).await;
        let (one, two) = (tracker.begin(&run), tracker.begin(&run));
        drop(one);
        assert!(tracker.idle(&run).now_or_never().is_none());
        let waiting = tracker.idle(&run);
        drop(two);
        waiting.await;
        assert!(tracker.0.lock().unwrap().is_empty());
    }
}
