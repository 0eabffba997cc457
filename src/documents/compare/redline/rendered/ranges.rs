//! Bytes of a text, as ranges.

use std::ops::Range;

/// Ranges, ascending and without overlaps.
pub(super) struct Ranges(Vec<Range<usize>>);

impl Ranges {
    /// Joins what overlaps.
    pub(super) fn of(mut all: Vec<Range<usize>>) -> Ranges {
        all.sort_by_key(|it| it.start);
        let mut joined: Vec<Range<usize>> = Vec::new();
        for range in all.into_iter().filter(|it| !it.is_empty()) {
            match joined.last_mut() {
                Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        Ranges(joined)
    }

    /// Returns whether one of them touches a range.
    pub(super) fn touch(&self, range: &Range<usize>) -> bool {
        let next = self.0.partition_point(|it| it.end <= range.start);
        self.0.get(next).is_some_and(|it| it.start < range.end)
    }
}
