//! Blocks of lines that stand elsewhere in the new text.

use std::ops::Range;

use crate::documents::anchor::PairMap;
use crate::documents::diff::Change;
use crate::documents::redline::{Lines, words};

/// What moved is looked for in texts of this many bytes together at most.
const BYTES_MAX: usize = 2 * 1024 * 1024;
/// Words of a block that moved are compared up to this many bytes.
const BLOCK_BYTES_MAX: usize = 64 * 1024;
/// Most moves of one difference; the largest are kept.
const MOVES_MAX: usize = 200;

/// Lines that went elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// Lines of the old text, from 0.
    pub old: Range<usize>,
    /// The same lines of the new text, perhaps edited.
    pub new: Range<usize>,
    /// Bytes of the old text in these lines that the new one has not.
    pub gone: Vec<Range<usize>>,
    /// Bytes of the new text in these lines that the old one has not.
    pub come: Vec<Range<usize>>,
}

/// A block of either side that is the same, and in which changes it stands.
struct Pair {
    old: Range<usize>,
    new: Range<usize>,
    hunks: (usize, usize),
}

impl Pair {
    /// A paragraph moves with the empty line behind it, or else with that before it.
    fn take_empty_line(&mut self, olds: &Lines<'_>, news: &Lines<'_>, hunks: &[Change]) {
        let (was, is) = (&hunks[self.hunks.0].old, &hunks[self.hunks.1].new);
        let is_empty = |lines: &Lines<'_>, at: usize| lines.all[at].trim().is_empty();
        if self.old.end < was.end
            && self.new.end < is.end
            && is_empty(olds, self.old.end)
            && is_empty(news, self.new.end)
        {
            self.old.end += 1;
            self.new.end += 1;
        } else if self.old.start > was.start
            && self.new.start > is.start
            && is_empty(olds, self.old.start - 1)
            && is_empty(news, self.new.start - 1)
        {
            self.old.start -= 1;
            self.new.start -= 1;
        }
    }

    /// Returns whether the next one moved together with this one.
    fn joins(&self, next: &Pair) -> bool {
        self.hunks == next.hunks && self.old.end == next.old.start && self.new.end == next.new.start
    }
}

/// Finds blocks that one change took out and another put in, in the order of the new text.
pub(super) fn find(olds: &Lines<'_>, news: &Lines<'_>, hunks: &[Change]) -> Vec<Move> {
    let has_both =
        hunks.iter().any(|it| !it.old.is_empty()) && hunks.iter().any(|it| !it.new.is_empty());
    if !has_both || olds.text.len() + news.text.len() > BYTES_MAX {
        return Vec::new();
    }
    let mut found: Vec<Pair> = Vec::new();
    for (old, new) in PairMap::new(olds.text, news.text).moved_blocks() {
        let old = olds.at(old.start)..olds.at(old.end - 1) + 1;
        let new = news.at(new.start)..news.at(new.end - 1) + 1;
        let was = hunks.iter().position(|it| holds(&it.old, &old));
        let is = hunks.iter().position(|it| holds(&it.new, &new));
        if let (Some(was), Some(is)) = (was, is) {
            let mut pair = Pair { old, new, hunks: (was, is) };
            pair.take_empty_line(olds, news, hunks);
            found.push(pair);
        }
    }
    found.sort_by_key(|it| (it.new.start, it.new.end));
    let mut moves: Vec<Pair> = Vec::new();
    for pair in found {
        let is_free = |it: &Pair| !meets(&it.old, &pair.old) && !meets(&it.new, &pair.new);
        if !moves.iter().all(is_free) {
            continue;
        }
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
    moves.into_iter().map(|it| marked(olds, news, it.old, it.new)).collect()
}

fn holds(outer: &Range<usize>, inner: &Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

fn meets(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}

/// Compares the words of what moved.
fn marked(olds: &Lines<'_>, news: &Lines<'_>, old: Range<usize>, new: Range<usize>) -> Move {
    let all = |lines: &Lines<'_>, range: &Range<usize>| -> Range<usize> {
        lines.starts[range.start]..lines.starts[range.end]
    };
    let (was, is) = (all(olds, &old), all(news, &new));
    if olds.text[was.clone()] == news.text[is.clone()] {
        return Move { old, new, gone: Vec::new(), come: Vec::new() };
    }
    if was.len() + is.len() > BLOCK_BYTES_MAX {
        return Move { old, new, gone: vec![was], come: vec![is] };
    }
    let part = |lines: &Lines<'_>, range: &Range<usize>| {
        words::Part::of(lines, &range.clone().collect::<Vec<_>>())
    };
    let found = words::compare(&part(olds, &old), &part(news, &new));
    Move { old, new, gone: found.gone, come: found.come }
}
