//! Longest common runs of two token sequences, in bounded time.
//!
//! The histogram algorithm falls back to a quadratic one where tokens are few and frequent: a
//! hostile text of half a megabyte would take a minute. Large sequences are therefore first split
//! at tokens that occur exactly once on each side; parts that are still too large count as
//! replaced.

use std::collections::HashMap;

use imara_diff::{Algorithm, Diff, Token};

/// Most tokens, both sides together, that are compared without splitting; the square of this number
/// is the budget of one comparison.
pub(in crate::documents) const WHOLE_TOKENS_MAX: usize = 80_000;

/// A run of tokens common to both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::documents) struct Run {
    /// First token on the old side.
    pub(in crate::documents) old: usize,
    /// First token on the new side.
    pub(in crate::documents) new: usize,
    /// Number of tokens.
    pub(in crate::documents) count: usize,
}

/// Returns the common runs, ascending on both sides.
pub(in crate::documents) fn kept_runs(old: &[Token], new: &[Token]) -> Vec<Run> {
    let mut comparison = Comparison { runs: Vec::new(), budget: square(WHOLE_TOKENS_MAX) };
    let (head, tail) = ends(old, new);
    comparison.keep(0, 0, head);
    let (olds, news) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
    if olds.len() + news.len() <= WHOLE_TOKENS_MAX {
        comparison.part(olds, news, head, head);
    } else {
        comparison.split(olds, news, head);
    }
    comparison.keep(old.len() - tail, new.len() - tail, tail);
    comparison.runs
}

struct Comparison {
    runs: Vec<Run>,
    budget: u64,
}

impl Comparison {
    fn keep(&mut self, old: usize, new: usize, count: usize) {
        if count > 0 {
            self.runs.push(Run { old, new, count });
        }
    }

    /// Compares the parts between the tokens of the spine.
    fn split(&mut self, old: &[Token], new: &[Token], shift: usize) {
        let (mut from_old, mut from_new) = (0, 0);
        for (to_old, to_new) in spine(old, new) {
            let (olds, news) = (&old[from_old..to_old], &new[from_new..to_new]);
            self.part(olds, news, shift + from_old, shift + from_new);
            self.keep(shift + to_old, shift + to_new, 1);
            (from_old, from_new) = (to_old + 1, to_new + 1);
        }
        self.part(&old[from_old..], &new[from_new..], shift + from_old, shift + from_new);
    }

    /// Compares one part, if the budget allows.
    fn part(&mut self, old: &[Token], new: &[Token], old_shift: usize, new_shift: usize) {
        let (head, tail) = ends(old, new);
        self.keep(old_shift, new_shift, head);
        let (olds, news) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
        let cost = square(olds.len() + news.len());
        if !olds.is_empty() && !news.is_empty() && cost <= self.budget {
            self.budget -= cost;
            self.compare(olds, news, old_shift + head, new_shift + head);
        }
        self.keep(old_shift + old.len() - tail, new_shift + new.len() - tail, tail);
    }

    fn compare(&mut self, old: &[Token], new: &[Token], old_shift: usize, new_shift: usize) {
        // Renumbered: the algorithm allocates a table up to the largest number.
        let mut numbers: HashMap<u32, u32> = HashMap::new();
        let mut number = |token: &Token| {
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            Token(*numbers.entry(token.0).or_insert(next))
        };
        let olds: Vec<Token> = old.iter().map(&mut number).collect();
        let news: Vec<Token> = new.iter().map(&mut number).collect();
        let count = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        let mut diff = Diff::default();
        diff.compute_with(Algorithm::Histogram, &olds, &news, count);
        let (mut from_old, mut from_new) = (0, 0);
        for hunk in diff.hunks() {
            let before = hunk.before.start as usize;
            self.keep(old_shift + from_old, new_shift + from_new, before - from_old);
            (from_old, from_new) = (hunk.before.end as usize, hunk.after.end as usize);
        }
        self.keep(old_shift + from_old, new_shift + from_new, old.len() - from_old);
    }
}

fn square(tokens: usize) -> u64 {
    let tokens = u64::try_from(tokens).unwrap_or(u64::MAX);
    tokens.saturating_mul(tokens)
}

/// Returns the lengths of the common prefix and, after it, of the common suffix.
fn ends(old: &[Token], new: &[Token]) -> (usize, usize) {
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let tails = old[head..].iter().rev().zip(new[head..].iter().rev());
    (head, tails.take_while(|(a, b)| a == b).count())
}

/// Returns the longest increasing sequence of tokens that occur exactly once on each side, as old
/// and new positions (patience sorting).
fn spine(old: &[Token], new: &[Token]) -> Vec<(usize, usize)> {
    let in_new = unique(new);
    let in_old = unique(old);
    let pairs: Vec<(usize, usize)> = old
        .iter()
        .enumerate()
        .filter(|(place, token)| in_old.get(&token.0) == Some(&Some(*place)))
        .filter_map(|(place, token)| Some((place, (*in_new.get(&token.0)?)?)))
        .collect();
    let mut piles: Vec<usize> = Vec::new();
    let mut below: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    for (number, (_, place)) in pairs.iter().enumerate() {
        let pile = piles.partition_point(|top| pairs[*top].1 < *place);
        below.push(pile.checked_sub(1).map(|it| piles[it]));
        if pile == piles.len() {
            piles.push(number);
        } else {
            piles[pile] = number;
        }
    }
    let mut spine = Vec::with_capacity(piles.len());
    let mut next = piles.last().copied();
    while let Some(number) = next {
        spine.push(pairs[number]);
        next = below[number];
    }
    spine.reverse();
    spine
}

/// Returns the position of each token; `None` for a token that occurs more than once.
fn unique(tokens: &[Token]) -> HashMap<u32, Option<usize>> {
    let mut places: HashMap<u32, Option<usize>> = HashMap::with_capacity(tokens.len());
    for (place, token) in tokens.iter().enumerate() {
        places.entry(token.0).and_modify(|it| *it = None).or_insert(Some(place));
    }
    places
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tokens(numbers: &[u32]) -> Vec<Token> {
        numbers.iter().map(|it| Token(*it)).collect()
    }

    fn check(old: &[Token], new: &[Token], runs: &[Run]) {
        let (mut old_end, mut new_end) = (0, 0);
        for run in runs {
            assert!(run.count > 0 && run.old >= old_end && run.new >= new_end);
            (old_end, new_end) = (run.old + run.count, run.new + run.count);
            assert_eq!(old[run.old..old_end], new[run.new..new_end]);
        }
    }

    #[test]
    fn large_sequences_keep_what_is_rare_on_both_sides() {
        let old: Vec<u32> = (0..100_000).flat_map(|it| [it * 2 + 10, it % 5]).collect();
        let new: Vec<u32> =
            (0..100_000).filter(|it| it % 7 != 0).flat_map(|it| [it * 2 + 10, it % 5]).collect();
        let (old, new) = (tokens(&old), tokens(&new));
        let runs = kept_runs(&old, &new);
        check(&old, &new, &runs);
        assert_eq!(runs.iter().map(|it| it.count).sum::<usize>(), new.len());
    }

    #[test]
    fn large_sequences_of_few_tokens_count_as_replaced() {
        let old: Vec<u32> =
            (0..400_000u32).map(|it| it.wrapping_mul(2_654_435_761) >> 29).collect();
        let new: Vec<u32> = old.iter().rev().copied().collect();
        let (old, new) = (tokens(&old), tokens(&new));
        check(&old, &new, &kept_runs(&old, &new));
    }

    proptest! {
        #[test]
        fn runs_are_equal_and_rising(
            old in proptest::collection::vec(0..9u32, 0..40),
            new in proptest::collection::vec(0..9u32, 0..40),
        ) {
            let (old, new) = (tokens(&old), tokens(&new));
            check(&old, &new, &kept_runs(&old, &new));
            let mut split = Comparison { runs: Vec::new(), budget: square(20) };
            split.split(&old, &new, 0);
            check(&old, &new, &split.runs);
        }
    }
}
