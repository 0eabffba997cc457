//! Readers and writers of answers: readers are woken when the file has grown.
//!
//! **Invariant:** no items pass through here; readers read the file.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde_json::Value;
use tokio::sync::watch;

use crate::base::{JobId, Result};
use crate::chat::{Item, Scribe, Tracker};

/// A handle to all readers and writers of answers; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Hub(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    readers: Mutex<HashMap<JobId, watch::Sender<u64>>>,
    lines: Mutex<HashMap<JobId, Weak<Line>>>,
    calls: Tracker,
}

/// A call announced by a runtime.
#[derive(Clone, Debug, PartialEq)]
pub struct Use {
    /// The step that requests it.
    pub step: u32,
    /// The tool.
    pub tool: String,
    /// The arguments.
    pub input: Value,
}

/// The only writer of an answer's stream, shared by the reader of the runtime's output and the
/// executor of its calls.
#[derive(Debug)]
pub struct Line {
    scribe: Mutex<Scribe>,
    uses: watch::Sender<BTreeMap<String, Use>>,
}

impl Line {
    /// Appends an item.
    ///
    /// # Errors
    /// As [`Scribe::push`].
    pub fn push(&self, item: Item) -> Result<()> {
        self.scribe.lock().unwrap_or_else(PoisonError::into_inner).push(item)
    }

    /// Returns the number of the next item.
    pub fn next_seq(&self) -> u64 {
        self.scribe.lock().unwrap_or_else(PoisonError::into_inner).next_seq()
    }

    /// Records a call that the runtime announced, by the runtime's id.
    pub fn announce(&self, call_ref: String, announced: Use) {
        self.uses.send_modify(|it| drop(it.insert(call_ref, announced)));
    }

    /// Waits until a call is announced. The caller sets the time limit.
    pub async fn announced(&self, call_ref: &str) -> Option<Use> {
        let mut uses = self.uses.subscribe();
        let found = uses.wait_for(|it| it.contains_key(call_ref)).await.ok()?;
        found.get(call_ref).cloned()
    }
}

/// Wakes one reader.
pub type Pokes = watch::Receiver<u64>;

impl Hub {
    /// Opens the stream of a run for its writers.
    pub fn write(&self, run: &JobId, scribe: Scribe) -> Arc<Line> {
        let uses = watch::Sender::new(BTreeMap::new());
        let line = Arc::new(Line { scribe: Mutex::new(scribe), uses });
        let mut lines = self.0.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.retain(|_, it| it.strong_count() > 0);
        lines.insert(run.clone(), Arc::downgrade(&line));
        line
    }

    /// Returns the writer of a run's stream while it is open.
    pub fn line(&self, run: &JobId) -> Option<Arc<Line>> {
        let lines = self.0.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.get(run).and_then(Weak::upgrade)
    }

    /// Returns the tool calls in progress.
    pub fn calls(&self) -> &Tracker {
        &self.0.calls
    }

    /// Returns a waker for a reader of a run.
    pub fn follow(&self, run: &JobId) -> Pokes {
        let mut readers = self.0.readers.lock().unwrap_or_else(PoisonError::into_inner);
        readers.retain(|_, sender| sender.receiver_count() > 0);
        readers.entry(run.clone()).or_insert_with(|| watch::Sender::new(0)).subscribe()
    }

    /// Wakes the readers of a run.
    pub fn poke(&self, run: &JobId) {
        let readers = self.0.readers.lock().unwrap_or_else(PoisonError::into_inner);
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
        assert_eq!(hub.0.readers.lock().unwrap().len(), 1, "readers that left are forgotten");
    }
}
