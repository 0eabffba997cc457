//! Statistics of the writer since the program started.

use crate::base::histogram::{Histogram, MANY, QUICK_US};

/// Histograms of commits.
#[derive(Debug)]
pub struct WriterStats {
    /// Writes per commit.
    pub batch: Histogram,
    /// Time from the start of a batch to the end of its commit, in microseconds.
    pub time: Histogram,
}

impl Default for WriterStats {
    fn default() -> WriterStats {
        WriterStats { batch: Histogram::new(MANY), time: Histogram::new(QUICK_US) }
    }
}
