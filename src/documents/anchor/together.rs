//! Places several spans of one text at once: no words are given to two that shared none.

use std::ops::Range;

use crate::api::topics::PlacementState;
use crate::documents::anchor::ladder::place;
use crate::documents::anchor::{PairMap, Placed};

/// Finds where spans of `old` are in `new`; the answers are in the order of the spans.
///
/// Where two spans that did not touch each other would get the same words, the surer one keeps
/// them, and the other one is `ambiguous`.
pub fn place_together(map: &PairMap, old: &str, new: &str, spans: &[Range<usize>]) -> Vec<Placed> {
    let mut placed: Vec<Placed> =
        spans.iter().map(|span| place(map, old, new, span.clone())).collect();
    part(&mut placed, |left, right| {
        spans[left].start < spans[right].end && spans[right].start < spans[left].end
    });
    placed
}

/// Takes the words from whoever shares them with a surer one that it did not touch before: it is
/// `ambiguous` then. All places are in one text; where they come from only `touched` knows.
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

/// Returns the spans whose words a surer one has. Each is compared with the surest of those before
/// it that reach into it, so that many spans cost no more than sorting them.
fn losers(placed: &[Placed], mut touched: impl FnMut(usize, usize) -> bool) -> Vec<usize> {
    let range = |it: usize| placed[it].range.clone().unwrap_or(0..0);
    let mut order: Vec<usize> =
        (0..placed.len()).filter(|it| placed[*it].state.is_placed()).collect();
    order.sort_by_key(|it| (range(*it).start, range(*it).end));
    let mut losers = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    for next in order {
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

/// Returns whether two ranges share most of the shorter one: at a border two edits may overlap.
fn collide(left: &Range<usize>, right: &Range<usize>) -> bool {
    let shared = left.end.min(right.end).saturating_sub(left.start.max(right.start));
    shared * 2 > left.len().min(right.len())
}

/// Orders placements by how sure they are.
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
