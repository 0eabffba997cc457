//! What stands in a changed text in place of a span: all between the words around it that stayed.

use std::ops::Range;

use crate::documents::anchor::PairMap;
use crate::documents::anchor::carried::Core;
use crate::documents::anchor::token::Sort;

/// Returns the range of `new` between the nearest words that stayed in order before and after a
/// span of `old`, without the whitespace that stands there in both; `map` must be of these two
/// texts. Unlike [`place`](super::place), it includes words that were added at either end of the
/// span. `None` for a span that is outside of the text, splits a character or is only whitespace,
/// and if neither a word of it nor those beside it stayed.
pub fn around(map: &PairMap, old: &str, new: &str, span: Range<usize>) -> Option<Range<usize>> {
    let core = Core::of(map, old, &span)?;
    let kept = |token: &usize| !map.old.is_space(*token) && map.new_of(*token).is_some();
    let before = (0..core.tokens.start).rev().find(kept);
    let after = (core.tokens.end..map.old.count()).find(kept);
    let (old_start, start) = match before {
        Some(token) => (map.old.end(token), map.new.end(map.new_of(token)?)),
        None => (0, 0),
    };
    let (old_end, end) = match after {
        Some(token) => (map.old.start(token), map.new.start(map.new_of(token)?)),
        None => (old.len(), new.len()),
    };
    let gap = new.get(start..end)?;
    let lead = common(old[old_start..span.start].chars(), gap.chars());
    let rest = &gap[lead..];
    let tail = common(old[span.end..old_end].chars().rev(), rest.chars().rev());
    let (start, end) = (start + lead, end - tail);
    let is_own = |gap: &str| gap.trim().is_empty();
    let is_clean = (is_own(&old[old_start..span.start]), is_own(&old[span.end..old_end]));
    let mut words = core.tokens.clone().filter(|it| map.old.sort(*it) == Sort::Word && kept(it));
    let Some(first) = words.next() else {
        return (is_clean == (true, true)).then_some(start..end);
    };
    let last = words.last().unwrap_or(first);
    let (from, until) = (map.new.start(map.new_of(first)?), map.new.end(map.new_of(last)?));
    // A word beside it that was replaced is not part of it, nor are whole lines that were added.
    let start = match is_clean.0 || first > core.tokens.start {
        true => new[start..from].rfind('\n').map_or(start, |it| start + it + 1),
        false => from,
    };
    let end = match is_clean.1 || last + 1 < core.tokens.end {
        true => until + new[until..end].lines().next().unwrap_or_default().len(),
        false => until,
    };
    Some(start..end)
}

/// Returns how many bytes two texts have in common at their beginning.
fn common(left: impl Iterator<Item = char>, right: impl Iterator<Item = char>) -> usize {
    left.zip(right).take_while(|(one, other)| one == other).map(|(one, _)| one.len_utf8()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_added_at_either_end_belong_to_it_and_lines_do_not() {
        for (old, span, new, want) in [
            ("Ask the crew.", "the crew", "Ask staff or the crew.", "staff or the crew"),
            ("Ask the crew.", "the crew", "Ask the crew or cook.", "the crew or cook"),
            ("Ask the crew now.", "the crew", "Ask nobody now.", "nobody"),
            ("Ask the crew now.", "the crew", "Ask  now.", ""),
            ("Ask the crew now.", "the crew", "Do call the crew right now.", "the crew right"),
            ("One.\n\nTwo.\n", "Two.", "One.\n\nMore.\n\nTwo and a half.\n", "Two and a half."),
            ("One.\nTwo.\n", "One.", "One or so.\nMore.\nTwo.\n", "One or so."),
            ("Двор.\r\nСад.\r\n", "Сад.", "Двор.\r\nСад и дом.\r\nЕщё.\r\n", "Сад и дом."),
            ("only", "only", "all new", "all new"),
        ] {
            let at = old.find(span).unwrap();
            let map = PairMap::new(old, new);
            let found = around(&map, old, new, at..at + span.len()).unwrap();
            assert_eq!(&new[found], want, "{span:?} of {old:?} in {new:?}");
        }
        let map = PairMap::new("a  b", "a  c");
        assert_eq!(around(&map, "a  b", "a  c", 1..3), None);
        assert_eq!(around(&map, "a  b", "a  c", 3..9), None);
    }
}
