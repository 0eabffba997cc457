//! The ladder of steps that finds an anchor's words in another version of the text.
//!
//! Each step decides or passes on: 0 the texts are equal, 1 and 2 words that the comparison maps in
//! order, 3 words in blocks that moved as a whole, 4 words replaced in place, 5 not found. No step
//! searches the whole text for similar words: that would find lookalikes of deleted ones.

use std::ops::Range;

use crate::api::topics::PlacementState;
use crate::documents::anchor::carried::{Core, in_moved_block, in_place};
use crate::documents::anchor::rewritten::rewritten;
use crate::documents::anchor::{PairMap, Placed};

/// Finds where a span of `old` is in `new`; `map` must be of these two texts. A span that is empty,
/// outside of the text or splits a character has no place.
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
    // Two equally good blocks are worse than none: choosing one would be silently wrong.
    if core.share(map, |token| map.moves().is_tied(token)) >= 0.5 {
        return ambiguous();
    }
    rewritten(map, old, new, &core).unwrap_or_else(Placed::orphaned)
}

/// Returns the placement for two equally good places.
fn ambiguous() -> Placed {
    Placed { state: PlacementState::Ambiguous, range: None, confidence: 0.0, method: "block" }
}

#[cfg(test)]
mod accuracy;
#[cfg(test)]
mod tests;
