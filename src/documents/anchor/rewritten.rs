//! Step 4 of the ladder: words replaced in place. A person must check.

use std::ops::Range;

use crate::api::topics::PlacementState;
use crate::documents::anchor::Placed;
use crate::documents::anchor::carried::{Core, growth, remains, trim};
use crate::documents::anchor::map::PairMap;
use crate::documents::anchor::token::{Sort, Tokens};

/// Fewest bytes of words whose place may be inferred from their neighbors alone.
const GAP_BYTES_MIN: usize = 12;
/// Minimum similarity of a block and its rewritten version.
const OVERLAP_MIN: f64 = 0.25;

/// Returns the place of words of which a quarter is left, or whose neighbors on both sides stayed
/// with something new in between.
pub(super) fn rewritten(map: &PairMap, old: &str, new: &str, core: &Core) -> Option<Placed> {
    let (range, confidence) = match remains(map, old, new, core) {
        Some(range) => (range, 0.4),
        None => (gap(map, new, core)?, 0.25),
    };
    Some(Placed { state: PlacementState::Rewritten, range: Some(range), confidence, method: "gap" })
}

/// Returns what is between the nearest unchanged words before and after the span. The span must
/// have been most of what was there, and what is there now must be new.
fn gap(map: &PairMap, new: &str, core: &Core) -> Option<Range<usize>> {
    if weight(map, &core.tokens) < GAP_BYTES_MIN {
        return None;
    }
    let before = core.tokens.start.checked_sub(1)?;
    let before = (0..=before).rev().find(|it| map.new_of(*it).is_some())?;
    let after = (core.tokens.end..map.old.count()).find(|it| map.new_of(*it).is_some())?;
    let old_gap = before + 1..after;
    // A gap more than twice as large was mostly about something else.
    if weight(map, &old_gap) > 2 * weight(map, &core.tokens) {
        return None;
    }
    let new_gap = map.new_of(before)? + 1..map.new_of(after)?;
    // A word mapped from elsewhere means that other text moved in, rather than a rewrite.
    let is_own = |it: usize| map.old_of(it).is_none_or(|old| old_gap.contains(&old));
    let is_new = new_gap.clone().all(|it| map.new.is_space(it) || is_own(it));
    if new_gap.is_empty() || !is_new || !is_same_block(map, &old_gap, &new_gap) {
        return None;
    }
    let range = trim(new, map.new.start(new_gap.start)..map.new.end(new_gap.end - 1))?;
    (range.len() <= growth(core.bytes.len())).then_some(range)
}

/// Returns whether both gaps are inside of a block, or are similar whole blocks: a paragraph in
/// place of a different one means that the old one was deleted, not rewritten.
fn is_same_block(map: &PairMap, old: &Range<usize>, new: &Range<usize>) -> bool {
    if holds_break(&map.old, old) || holds_break(&map.new, new) {
        return false;
    }
    let starts = old.start.checked_sub(1).is_none_or(|it| map.old.sort(it) == Sort::Break);
    let ends = old.end >= map.old.count() || map.old.sort(old.end) == Sort::Break;
    let moves = map.moves();
    let blocks = moves.old.at(old.start).zip(moves.new.at(new.start));
    let overlap = |(a, b)| moves.old.get(a).overlap(moves.new.get(b));
    !(starts && ends) || blocks.map(overlap).is_some_and(|it| it >= OVERLAP_MIN)
}

fn holds_break(tokens: &Tokens, range: &Range<usize>) -> bool {
    range.clone().any(|it| tokens.sort(it) == Sort::Break)
}

fn weight(map: &PairMap, tokens: &Range<usize>) -> usize {
    let words = tokens.clone().filter(|it| !map.old.is_space(*it));
    words.map(|it| map.old.end(it) - map.old.start(it)).sum()
}
