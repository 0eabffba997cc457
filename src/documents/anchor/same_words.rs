//! Places several spans of one text so that no words go to two spans that shared none before.

use std::ops::Range;

use crate::api::topics::PlacementState;
use crate::documents::anchor::ladder::place;
use crate::documents::anchor::{PairMap, Placed};

/// Finds where spans of `old` are in `new`; results are in the order of the spans.
///
/// If two spans that did not overlap would get the same words, the more certain one keeps them, and
/// the other becomes `ambiguous`.
pub fn place_together(map: &PairMap, old: &str, new: &str, spans: &[Range<usize>]) -> Vec<Placed> {
    let mut placed: Vec<Placed> =
        spans.iter().map(|span| place(map, old, new, span.clone())).collect();
    part(&mut placed, |left, right| {
        spans[left].start < spans[right].end && spans[right].start < spans[left].end
    });
    placed
}

/// Makes a placement `ambiguous` if it shares words with a more certain one that it did not overlap
/// before. All places are in one text; `touched` tells which spans overlapped in theirs.
pub fn part(placed: &mut [Placed], touched: impl FnMut(usize, usize) -> bool) {
    for loser in losers(placed, touched) {
        placed[loser] = Placed {
            state: PlacementState::Ambiguous,
            range: None,
            confidence: 0.0,
            method: "claimed",
        };
    }
}

/// Returns the placements that lose to a more certain one. Each is only compared with earlier ones
/// that reach into it, and losers are removed at once, so that many spans cost little more than
/// sorting.
fn losers(placed: &[Placed], mut touched: impl FnMut(usize, usize) -> bool) -> Vec<usize> {
    let range = |it: usize| placed[it].range.clone().unwrap_or(0..0);
    let mut order: Vec<usize> =
        (0..placed.len()).filter(|it| placed[*it].state.is_placed()).collect();
    order.sort_by_key(|it| (range(*it).start, range(*it).end));
    let mut losers = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    for next in order {
        // Ranges that end before this one starts cannot overlap it, nor any later one.
        open.retain(|it| range(*it).end > range(next).start);
        let mut is_lost = false;
        open.retain(|other| {
            if is_lost || !collide(&range(*other), &range(next)) || touched(*other, next) {
                return true;
            }
            let keeps = rank(&placed[*other]) >= rank(&placed[next]);
            losers.push(if keeps { next } else { *other });
            is_lost = keeps;
            keeps
        });
        if !is_lost {
            open.push(next);
        }
    }
    losers
}

/// Returns whether two ranges share most of the shorter one: at a boundary, edits may overlap.
fn collide(left: &Range<usize>, right: &Range<usize>) -> bool {
    let shared = left.end.min(right.end).saturating_sub(left.start.max(right.start));
    shared * 2 > left.len().min(right.len())
}

/// Orders placements by certainty.
fn rank(placed: &Placed) -> (u8, u64) {
    let state = match placed.state {
        PlacementState::Exact | PlacementState::Shifted => 3,
        PlacementState::Edited => 2,
        PlacementState::Moved => 1,
        _ => 0,
    };
    (state, placed.confidence.to_bits())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_that_touched_may_share_their_words() {
        let old = "The crew stops work when heavy rain falls.\n";
        let new = format!("Now. {old}");
        let map = PairMap::new(old, &new);
        let placed = place_together(&map, old, &new, &[4..19, 9..40, 4..19]);
        assert!(placed.iter().all(|it| it.state == PlacementState::Shifted), "{placed:?}");
    }

    #[test]
    fn the_surer_of_two_keeps_the_words() {
        let found = |state, range, confidence| Placed {
            state,
            range: Some(range),
            confidence,
            method: "diff",
        };
        let placed = [
            found(PlacementState::Rewritten, 0..20, 0.4),
            found(PlacementState::Edited, 5..15, 0.7),
            found(PlacementState::Moved, 6..16, 0.9),
            found(PlacementState::Exact, 16..30, 1.0),
        ];
        let mut lost = losers(&placed, |_, _| false);
        lost.sort_unstable();
        assert_eq!(lost, [0, 2]);
    }
}
