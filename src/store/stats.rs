//! What the writer has done since the program started.

use crate::base::histogram::{Histogram, MANY, QUICK_US};

/// Counts of commits.
#[derive(Debug)]
pub struct WriterStats {
    /// How many writes were committed together.
    pub batch: Histogram,
    /// How long a batch took from its begin to the end of its commit, in microseconds.
    pub time: Histogram,
}

impl Default for WriterStats {
    fn default() -> WriterStats {
        WriterStats { batch: Histogram::new(MANY), time: Histogram::new(QUICK_US) }
    }
}
