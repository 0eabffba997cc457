//! Merges two corresponding blocks into one.

use std::ops::Range;

use crate::documents::compare::redline::rendered::block::{Block, Mark, Marked, Span};

/// Merges two blocks: removed, added, and common parts once.
pub(super) fn merge(
    was: &Block,
    gone: &[Marked],
    is: &Block,
    come: &[Marked],
    spans: &mut Vec<Span>,
) {
    let ranges = |all: &[Marked]| all.iter().map(|it| it.range.clone()).collect::<Vec<_>>();
    let (mut olds, mut news) = (ranges(gone), ranges(come));
    let (mut a, mut b) = (0, 0);
    loop {
        let (old, new) = (gone.get(a), come.get(b));
        match (old, new) {
            (Some(part), _) if part.mark == Mark::Gone => {
                was.spans(part, spans);
                a += 1;
            }
            (_, Some(part)) if part.mark == Mark::Come => {
                is.spans(part, spans);
                b += 1;
            }
            (Some(_), Some(_)) => {
                // The words are equal; the whitespace between them may differ.
                let count = |text: &str| text.chars().filter(|it| !it.is_whitespace()).count();
                let words = count(&was.text[olds[a].clone()]).min(count(&is.text[news[b].clone()]));
                let end = behind(&is.text, &news[b], words);
                is.spans(&Marked { range: news[b].start..end, mark: Mark::Same }, spans);
                news[b].start = end;
                olds[a].start = behind(&was.text, &olds[a], words);
                a += usize::from(olds[a].is_empty());
                b += usize::from(news[b].is_empty());
            }
            (Some(_), None) => a += 1,
            (None, Some(_)) => {
                is.spans(&Marked { range: news[b].clone(), mark: Mark::Same }, spans);
                b += 1;
            }
            (None, None) => break,
        }
    }
}

/// Returns where a number of visible characters of a part ends, including whitespace after them.
fn behind(text: &str, range: &Range<usize>, count: usize) -> usize {
    let mut seen = 0;
    for (at, character) in text[range.clone()].char_indices() {
        if !character.is_whitespace() {
            if seen == count {
                return range.start + at;
            }
            seen += 1;
        }
    }
    range.end
}
