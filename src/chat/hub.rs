//! Who follows which answer: readers are woken when its file has grown.
//!
//! **Invariant:** nothing is handed over here; readers take everything from the file.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::base::JobId;

/// A handle to all readers of answers; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Hub(Arc<Mutex<HashMap<JobId, watch::Sender<u64>>>>);

/// Tells one reader when to look again.
pub type Pokes = watch::Receiver<u64>;

impl Hub {
    /// Returns what wakes a reader of a run.
    pub fn follow(&self, run: &JobId) -> Pokes {
        let mut readers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        readers.retain(|_, sender| sender.receiver_count() > 0);
        readers.entry(run.clone()).or_insert_with(|| watch::Sender::new(0)).subscribe()
    }

    /// Wakes the readers of a run.
    pub fn poke(&self, run: &JobId) {
        let readers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = readers.get(run) {
            sender.send_modify(|count| *count = count.wrapping_add(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_is_woken_by_its_run_only() {
        let hub = Hub::default();
        let [one, two] = [1, 2].map(|it| format!("00000000-0000-7000-8000-00000000000{it}"));
        let (one, two): (JobId, JobId) = (one.parse().unwrap(), two.parse().unwrap());
        let mut reader = hub.follow(&one);
        hub.poke(&two);
        assert!(!reader.has_changed().unwrap());
        hub.poke(&one);
        assert!(reader.has_changed().unwrap());
        reader.mark_unchanged();
        drop(reader);
        drop(hub.follow(&two));
        assert_eq!(hub.0.lock().unwrap().len(), 1, "readers that left are forgotten");
    }
}
