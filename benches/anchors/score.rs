//! Counts how often a placement was right, wrong or lost, and how long it took.

use std::ops::Range;
use std::time::Duration;

use crate::edits::Truth;

/// What an algorithm answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    /// Where it says that the words are.
    pub(crate) range: Option<Range<usize>>,
    /// Whether it says itself that a person has to look.
    pub(crate) is_review: bool,
}

/// The sums of one class of cases under one algorithm.
#[derive(Clone, Debug, Default)]
pub(crate) struct Score {
    /// Cases in which the words are still there.
    pub(crate) alive: usize,
    /// Cases in which they are gone.
    pub(crate) dead: usize,
    /// Placed over at least half of the truth and little else, or rightly not placed.
    pub(crate) right: usize,
    /// Placed elsewhere although the words are there.
    pub(crate) wrong: usize,
    /// Not placed although the words are there.
    pub(crate) lost: usize,
    /// Placed although the words are gone.
    pub(crate) false_anchored: usize,
    /// Right to the byte.
    pub(crate) boundary: usize,
    /// Marked for review and right; these count as lost in the sums above.
    pub(crate) review_right: usize,
    /// Marked for review and wrong; these count as lost or right in the sums above.
    pub(crate) review_wrong: usize,
    /// Time of each case.
    pub(crate) times: Vec<Duration>,
}

impl Score {
    /// Counts one case.
    pub(crate) fn count(&mut self, answer: &Answer, truth: Option<&Truth>, time: Duration) {
        self.times.push(time);
        if truth.is_some() {
            self.alive += 1
        } else {
            self.dead += 1
        }
        let truth = truth
            .zip(answer.range.as_ref())
            .map(|(it, found)| it.nearest(found))
            .or(truth.map(|it| it.inner.clone()));
        let is_right = match (&answer.range, &truth) {
            (Some(found), Some(truth)) => covers(found, truth),
            (None, None) => true,
            _ => false,
        };
        if answer.is_review {
            if is_right {
                self.review_right += 1
            } else {
                self.review_wrong += 1
            }
            if truth.is_some() {
                self.lost += 1
            } else {
                self.right += 1
            }
            return;
        }
        match (is_right, &answer.range) {
            (true, found) => {
                self.right += 1;
                self.boundary += usize::from(*found == truth);
            }
            (false, None) => self.lost += 1,
            (false, Some(_)) if truth.is_none() => self.false_anchored += 1,
            (false, Some(_)) => self.wrong += 1,
        }
    }

    /// Returns what its faults cost: one for each that was lost, ten for each placement that is
    /// wrong, be it elsewhere or of words that are gone.
    pub(crate) fn cost(&self) -> usize {
        self.lost + 10 * (self.wrong + self.false_anchored)
    }

    /// Returns a time at a share of the sorted times, in milliseconds.
    pub(crate) fn time(&self, share: f64) -> f64 {
        let mut times = self.times.clone();
        times.sort();
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a place in a list"
        )]
        let place = ((times.len().saturating_sub(1)) as f64 * share) as usize;
        times.get(place).map_or(0.0, |it| it.as_secs_f64() * 1000.0)
    }
}

/// Returns whether what two ranges share is at least half of what they cover together.
fn covers(found: &Range<usize>, truth: &Range<usize>) -> bool {
    let shared = found.end.min(truth.end).saturating_sub(found.start.max(truth.start));
    let all = found.end.max(truth.end) - found.start.min(truth.start);
    shared * 2 >= all
}
