//! The ladder that finds an anchor's words in another version of the text.
//!
//! Each step answers or passes on: 0 the same text, 1 and 2 the words that the comparison of both
//! texts carried over, 3 the words in blocks that went elsewhere as a whole, 4 words that were
//! replaced where they stand, 5 nothing. No step searches the whole text for something like the
//! words: such a search finds the lookalikes of what was deleted.

use std::ops::Range;

use crate::api::topics::PlacementState;
use crate::documents::anchor::carried::{Core, in_moved_block, in_place};
use crate::documents::anchor::rewritten::rewritten;
use crate::documents::anchor::{PairMap, Placed};

/// Finds where a span of `old` is in `new`; `map` must be of these two texts. A span that is not
/// inside the text, is empty or cuts a character has no place.
pub fn place(map: &PairMap, old: &str, new: &str, span: Range<usize>) -> Placed {
    let is_span = span.start < span.end && old.get(span.clone()).is_some();
    if !is_span {
        return Placed::orphaned();
    }
    if map.is_identity() {
        return Placed::exact(span, "same");
    }
    let Some(core) = Core::of(map, old, &span) else { return Placed::orphaned() };
    if let Some(placed) = in_place(map, old, new, &span, &core) {
        return placed;
    }
    if let Some(placed) = in_moved_block(map, new, &core) {
        return placed;
    }
    if core.share(map, |token| map.moves().is_tied(token)) >= 0.5 {
        return ambiguous();
    }
    rewritten(map, old, new, &core).unwrap_or_else(Placed::orphaned)
}

/// There are two places of equal right.
fn ambiguous() -> Placed {
    Placed { state: PlacementState::Ambiguous, range: None, confidence: 0.0, method: "block" }
}

#[cfg(test)]
mod accuracy;
#[cfg(test)]
mod tests;
