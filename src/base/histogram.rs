//! Lock-free histograms of durations and counts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bucket bounds for short durations, in microseconds: 100 µs to 10 s.
pub const QUICK_US: &[u64] = &[
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 10_000_000,
];
/// Bucket bounds for jobs, in microseconds: 100 ms to 4 h.
pub const LONG_US: &[u64] = &[
    100_000,
    1_000_000,
    5_000_000,
    15_000_000,
    30_000_000,
    60_000_000,
    120_000_000,
    300_000_000,
    600_000_000,
    1_800_000_000,
    3_600_000_000,
    14_400_000_000,
];
/// Bucket bounds for counts.
pub const MANY: &[u64] = &[1, 2, 4, 8, 16, 32, 64];

/// A histogram.
#[derive(Debug)]
pub struct Histogram {
    ends: &'static [u64],
    counts: Vec<AtomicU64>,
    sum: AtomicU64,
}

/// A snapshot of a histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The inclusive upper bound of each bucket.
    pub ends: &'static [u64],
    /// Cumulative counts per bucket; the last entry, one more than there are bounds, is the total.
    pub at_most: Vec<u64>,
    /// The sum of all values.
    pub sum: u64,
}

impl Histogram {
    /// Returns an empty histogram with these bounds.
    pub fn new(ends: &'static [u64]) -> Histogram {
        let counts = (0..=ends.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram { ends, counts, sum: AtomicU64::new(0) }
    }

    /// Counts a value.
    pub fn note(&self, value: u64) {
        let range = self.ends.partition_point(|end| *end < value);
        if let Some(count) = self.counts.get(range) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// Counts a time, in microseconds.
    pub fn note_time(&self, time: Duration) {
        self.note(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    /// Returns a snapshot.
    pub fn counted(&self) -> Counted {
        let mut so_far = 0;
        let at_most = self.counts.iter().map(|it| {
            so_far += it.load(Ordering::Relaxed);
            so_far
        });
        let at_most = at_most.collect();
        Counted { ends: self.ends, at_most, sum: self.sum.load(Ordering::Relaxed) }
    }
}

impl Counted {
    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.at_most.last().copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_in_the_first_range_that_holds_it() {
        let histogram = Histogram::new(MANY);
        for value in [0, 1, 2, 3, 64, 65] {
            histogram.note(value);
        }
        let counted = histogram.counted();
        assert_eq!(counted.at_most, [2, 3, 4, 4, 4, 4, 5, 6]);
        assert_eq!((counted.count(), counted.sum), (6, 135));
    }
}
