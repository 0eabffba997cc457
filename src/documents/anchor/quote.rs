//! Finds words by their text and context when the original text is lost.

use crate::api::topics::PlacementState;
use crate::documents::anchor::Placed;
use crate::documents::anchor::carried::trim;

/// Bytes of context that must agree, both sides together, unless one side agrees completely.
const CONTEXT_AGREES_MIN: usize = 24;
/// Most occurrences examined; a quote that occurs more often has no place.
pub(super) const OCCURRENCES_MAX: usize = 1_000;

/// Finds a quote without the text that it came from: it must occur exactly once, in a matching
/// context. Anything less is orphaned, because the words may have been deleted while a lookalike
/// stayed. Such a placement is never `exact`: offsets are not compared.
pub fn place_by_quote(text: &str, quote: &str, prefix: &str, suffix: &str) -> Placed {
    let mut found = occurrences(text, quote).take(2);
    let (Some(start), None) = (found.next(), found.next()) else { return Placed::orphaned() };
    let end = start + quote.len();
    if trim(text, start..end).is_none() || !has_context(text, start, end, prefix, suffix) {
        return Placed::orphaned();
    }
    Placed {
        state: PlacementState::Shifted,
        range: Some(start..end),
        confidence: 0.9,
        method: "quote",
    }
}

/// Returns the start of each occurrence, overlapping ones included; none for an empty quote.
pub(super) fn occurrences<'t>(text: &'t str, quote: &'t str) -> impl Iterator<Item = usize> + 't {
    let step = quote.chars().next().map_or(0, char::len_utf8);
    let mut from = 0;
    std::iter::from_fn(move || {
        if step == 0 {
            return None;
        }
        let start = from + text.get(from..)?.find(quote)?;
        from = start + step;
        Some(start)
    })
}

fn has_context(text: &str, start: usize, end: usize, prefix: &str, suffix: &str) -> bool {
    let before = shared(text[..start].chars().rev(), prefix.chars().rev());
    let after = shared(text[end..].chars(), suffix.chars());
    let is_whole_side = |agrees: usize, side: &str| agrees >= 8 && agrees == side.len();
    is_whole_side(before, prefix)
        || is_whole_side(after, suffix)
        || before + after >= CONTEXT_AGREES_MIN
        || (text.len() == prefix.len() + (end - start) + suffix.len()
            && before == prefix.len()
            && after == suffix.len())
}

fn shared(left: impl Iterator<Item = char>, right: impl Iterator<Item = char>) -> usize {
    left.zip(right).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_needs_its_surroundings() {
        let state = |text: &str| place_by_quote(text, "the key", "put it under ", " of the door");
        assert_eq!(state("Please put it under the key of the door.").range, Some(20..27));
        assert_eq!(state("put it under the key, and so on").range, Some(13..20));
        assert_eq!(state("we lost the key").state, PlacementState::Orphaned);
        let twice = "put it under the key of the door, put it under the key of the door";
        assert_eq!(state(twice).state, PlacementState::Orphaned);
        assert_eq!(state("").state, PlacementState::Orphaned);
        assert_eq!(place_by_quote("a", "", "", "").state, PlacementState::Orphaned);
        assert_eq!(place_by_quote("abc", "b", "a", "c").range, Some(1..2));
    }

    #[test]
    fn overlapping_occurrences_count() {
        assert_eq!(occurrences("ababa", "aba").collect::<Vec<_>>(), [0, 2]);
        assert_eq!(occurrences("日日日", "日日").collect::<Vec<_>>(), [0, 3]);
        assert_eq!(occurrences("aaa", "").count(), 0);
    }
}
