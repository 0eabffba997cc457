//! Finds blocks of lines that moved.

use std::collections::HashMap;
use std::ops::Range;

use crate::documents::anchor::PairMap;
use crate::documents::compare::diff::Change;
use crate::documents::compare::redline::{Lines, words};

/// Moves are only searched in texts of at most this many bytes together.
const BYTES_MAX: usize = 2 * 1024 * 1024;
/// Most bytes for comparing the words of one moved block.
const BLOCK_BYTES_MAX: usize = 64 * 1024;
/// Most bytes for comparing the words of blocks that moved together.
const JOINED_BYTES_MAX: usize = 256 * 1024;
/// Shortest paragraph that is searched elsewhere, in bytes.
const BYTES_MIN: usize = 12;
/// Minimum similarity of a moved block, in percent of its words.
const ALIKE_PERCENT: usize = 60;
/// With more moved blocks than this, the text is a different one.
const PAIRS_MAX: usize = 2_000;
/// Most moves reported; the largest are kept.
const MOVES_MAX: usize = 200;

/// Lines that moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// Lines of the old text, from 0.
    pub old: Range<usize>,
    /// The same lines in the new text, possibly edited.
    pub new: Range<usize>,
    /// Byte ranges of the old lines that the new text lacks.
    pub gone: Vec<Range<usize>>,
    /// Byte ranges of the new lines that the old text lacks.
    pub come: Vec<Range<usize>>,
}

/// A block and its moved version, with the change that contains each.
struct Pair {
    old: Range<usize>,
    new: Range<usize>,
    hunks: (usize, usize),
}

impl Pair {
    /// Extends the block by an empty line after it, or before it: a paragraph moves with one.
    fn take_empty_line(
        &mut self,
        olds: &Lines<'_>,
        news: &Lines<'_>,
        hunks: &[Change],
        others: &[Pair],
    ) {
        let is_free = |line: usize, side: fn(&Pair) -> &Range<usize>| {
            others.iter().all(|it| !side(it).contains(&line))
        };
        let with = |lines: &Lines<'_>, own: &Range<usize>, hunk: &Range<usize>, side| {
            let is_empty = |line: usize| lines.all[line].trim().is_empty() && is_free(line, side);
            if own.end < hunk.end && is_empty(own.end) {
                Some(own.start..own.end + 1)
            } else if own.start > hunk.start && is_empty(own.start - 1) {
                Some(own.start - 1..own.end)
            } else {
                None
            }
        };
        let (was, is) = (&hunks[self.hunks.0].old, &hunks[self.hunks.1].new);
        let old = with(olds, &self.old, was, |it| &it.old);
        let new = with(news, &self.new, is, |it| &it.new);
        if let (Some(old), Some(new)) = (old, new) {
            (self.old, self.new) = (old, new);
        }
    }

    /// Returns whether most words are the same, in the same order.
    fn is_alike(&self, olds: &Lines<'_>, news: &Lines<'_>) -> bool {
        let (was, is) = (bytes(olds, &self.old), bytes(news, &self.new));
        if olds.text[was.clone()].trim() == news.text[is.clone()].trim() {
            return true;
        }
        was.len() + is.len() <= BLOCK_BYTES_MAX
            && compared(olds, news, &self.old, &self.new).share_percent() >= ALIKE_PERCENT
    }

    /// Returns whether it is where it was in its change: only what no word tells differs, such as
    /// line endings or a comment.
    fn stays(&self, hunks: &[Change]) -> bool {
        let (was, is) = self.hunks;
        was == is && self.old.start - hunks[was].old.start == self.new.start - hunks[is].new.start
    }

    /// Returns whether the next pair moved together with this one.
    fn joins(&self, next: &Pair) -> bool {
        self.hunks == next.hunks && self.old.end == next.old.start && self.new.end == next.new.start
    }
}

/// Finds blocks that one change removed and another added, in the order of the new text.
pub(super) fn find(olds: &Lines<'_>, news: &Lines<'_>, hunks: &[Change]) -> Vec<Move> {
    let has_both =
        hunks.iter().any(|it| !it.old.is_empty()) && hunks.iter().any(|it| !it.new.is_empty());
    if !has_both || olds.text.len() + news.text.len() > BYTES_MAX {
        return Vec::new();
    }
    // Identical paragraphs first: an edited lookalike must not take their place.
    let mut found = unchanged(olds, news, hunks);
    for (old, new) in PairMap::new(olds.text, news.text).moved_blocks() {
        let old = olds.at(old.start)..olds.at(old.end - 1) + 1;
        let new = news.at(new.start)..news.at(new.end - 1) + 1;
        let was = hunks.iter().position(|it| holds(&it.old, &old));
        let is = hunks.iter().position(|it| holds(&it.new, &new));
        if let (Some(was), Some(is)) = (was, is) {
            found.push(Pair { old, new, hunks: (was, is) });
        }
    }
    let mut pairs: Vec<Pair> = Vec::new();
    for mut pair in found {
        let is_free = |it: &Pair| !meets(&it.old, &pair.old) && !meets(&it.new, &pair.new);
        if pairs.iter().all(is_free) && pair.is_alike(olds, news) {
            pair.take_empty_line(olds, news, hunks, &pairs);
            pairs.push(pair);
        }
        if pairs.len() > PAIRS_MAX {
            return Vec::new();
        }
    }
    pairs.retain(|it| !it.stays(hunks));
    // Adjacent blocks that moved together are reported as one move.
    pairs.sort_by_key(|it| (it.new.start, it.new.end));
    let mut moves: Vec<Pair> = Vec::new();
    for pair in pairs {
        match moves.last_mut() {
            Some(last) if last.joins(&pair) => {
                (last.old.end, last.new.end) = (pair.old.end, pair.new.end);
            }
            _ => moves.push(pair),
        }
    }
    if moves.len() > MOVES_MAX {
        moves.sort_by_key(|it| std::cmp::Reverse(it.new.len()));
        moves.truncate(MOVES_MAX);
        moves.sort_by_key(|it| it.new.start);
    }
    moves.into_iter().filter_map(|it| marked(olds, news, it.old, it.new)).collect()
}

fn holds(outer: &Range<usize>, inner: &Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

fn meets(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}

/// Line ranges, each with the index of its change.
type Places = Vec<(Range<usize>, usize)>;

/// Finds paragraphs that moved unchanged: unique in both texts, so nothing else can be them.
fn unchanged(olds: &Lines<'_>, news: &Lines<'_>, hunks: &[Change]) -> Vec<Pair> {
    let mut seen: HashMap<&str, (Places, Places)> = HashMap::new();
    for (number, hunk) in hunks.iter().enumerate() {
        for range in paragraphs(olds, &hunk.old) {
            let text = olds.text[bytes(olds, &range)].trim();
            seen.entry(text).or_default().0.push((range, number));
        }
        for range in paragraphs(news, &hunk.new) {
            let text = news.text[bytes(news, &range)].trim();
            seen.entry(text).or_default().1.push((range, number));
        }
    }
    let once = seen.into_values().filter_map(|(mut was, mut is)| {
        let is_once = was.len() == 1 && is.len() == 1;
        let ((old, from), (new, to)) = (was.pop()?, is.pop()?);
        is_once.then_some(Pair { old, new, hunks: (from, to) })
    });
    let mut found: Vec<Pair> = once.collect();
    found.sort_by_key(|it| it.new.start);
    found
}

/// Returns the runs of non-empty lines that are long enough to be distinctive.
fn paragraphs(lines: &Lines<'_>, hunk: &Range<usize>) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = hunk.start;
    for line in hunk.start..=hunk.end {
        if line == hunk.end || lines.all[line].trim().is_empty() {
            let range = start..line;
            if !range.is_empty() && lines.text[bytes(lines, &range)].trim().len() >= BYTES_MIN {
                found.push(range);
            }
            start = line + 1;
        }
    }
    found
}

fn bytes(lines: &Lines<'_>, range: &Range<usize>) -> Range<usize> {
    lines.starts[range.start]..lines.starts[range.end]
}

fn compared(
    olds: &Lines<'_>,
    news: &Lines<'_>,
    old: &Range<usize>,
    new: &Range<usize>,
) -> words::Found {
    let part = |lines: &Lines<'_>, range: &Range<usize>| {
        words::Part::of(lines, &range.clone().collect::<Vec<_>>())
    };
    words::compare(&part(olds, old), &part(news, new))
}

/// Compares the words of a move, now with its empty line and whatever moved along. Blocks that were
/// similar individually need not be similar together, since other words may correspond then.
fn marked(
    olds: &Lines<'_>,
    news: &Lines<'_>,
    old: Range<usize>,
    new: Range<usize>,
) -> Option<Move> {
    let (was, is) = (bytes(olds, &old), bytes(news, &new));
    if olds.text[was.clone()].trim() == news.text[is.clone()].trim() {
        return Some(Move { old, new, gone: Vec::new(), come: Vec::new() });
    }
    if was.len() + is.len() > JOINED_BYTES_MAX {
        return Some(Move { old, new, gone: vec![was], come: vec![is] });
    }
    let found = compared(olds, news, &old, &new);
    let is_alike = found.share_percent() >= ALIKE_PERCENT;
    is_alike.then_some(Move { old, new, gone: found.gone, come: found.come })
}
