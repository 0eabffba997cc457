//! The baseline: the quote matching of the Hypothesis client, written from its description.
//!
//! A quote is looked for in the whole text: exact occurrences if there are any, otherwise the
//! approximate ones with the fewest errors, at most half of its length and 256. Each candidate is
//! weighed by its quote (50), by what stands before (20) and after it (20), and by how near it is
//! to where it was (2). The best one is always taken.

use std::ops::Range;

/// Characters of context on either side.
const CONTEXT: usize = 32;
const ERRORS_MAX: usize = 256;
/// Most candidates that are weighed.
const CANDIDATES_MAX: usize = 2_000;

/// Returns where the words `old[span]` are in `new`, by that algorithm.
pub(crate) fn find(old: &str, new: &str, span: &Range<usize>) -> Option<Range<usize>> {
    let quote = &old.as_bytes()[span.clone()];
    let text = new.as_bytes();
    let prefix = &old.as_bytes()[span.start.saturating_sub(CONTEXT)..span.start];
    let suffix = &old.as_bytes()[span.end..(span.end + CONTEXT).min(old.len())];
    let candidates = search(text, quote, ERRORS_MAX.min(quote.len() / 2));
    let weigh = |found: &Found| -> f64 {
        let before = &text[found.range.start.saturating_sub(prefix.len())..found.range.start];
        let after = &text[found.range.end..(found.range.end + suffix.len()).min(text.len())];
        let quote_score = 1.0 - share(found.errors, quote.len());
        let away = found.range.start.abs_diff(span.start);
        let near = 1.0 - share(away, text.len());
        let of_context = |context: &[u8], at: &[u8]| {
            if context.is_empty() { 1.0 } else { similarity(at, context) }
        };
        50.0 * quote_score
            + 20.0 * of_context(prefix, before)
            + 20.0 * of_context(suffix, after)
            + 2.0 * near
    };
    let best = candidates.into_iter().map(|it| (weigh(&it), it.range));
    best.max_by(|a, b| a.0.total_cmp(&b.0)).map(|it| it.1)
}

/// Returns 1 for a text that holds the pattern, and less for each error.
pub(crate) fn similarity(text: &[u8], pattern: &[u8]) -> f64 {
    let ends = ends(text, pattern, pattern.len());
    let fewest = ends.iter().map(|it| it.1).min();
    fewest.map_or(0.0, |errors| 1.0 - share(errors, pattern.len()))
}

fn share(part: usize, whole: usize) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "both are lengths of texts")]
    let share = part as f64 / whole.max(1) as f64;
    share
}

struct Found {
    range: Range<usize>,
    errors: usize,
}

fn search(text: &[u8], quote: &[u8], errors_max: usize) -> Vec<Found> {
    if quote.is_empty() {
        return Vec::new();
    }
    let exact: Vec<Found> = text
        .windows(quote.len())
        .enumerate()
        .filter(|(_, it)| *it == quote)
        .map(|(start, _)| Found { range: start..start + quote.len(), errors: 0 })
        .take(CANDIDATES_MAX)
        .collect();
    if !exact.is_empty() {
        return exact;
    }
    let ends = ends(text, quote, errors_max);
    let Some(fewest) = ends.iter().map(|it| it.1).min() else { return Vec::new() };
    let reversed: Vec<u8> = quote.iter().rev().copied().collect();
    let best = ends.into_iter().filter(|it| it.1 == fewest).take(CANDIDATES_MAX);
    best.map(|(end, errors)| {
        // The start is the end of the reversed quote in the reversed text before it.
        let from = end.saturating_sub(quote.len() + errors);
        let back: Vec<u8> = text[from..end].iter().rev().copied().collect();
        let starts = self::ends(&back, &reversed, errors);
        let length = starts.iter().min_by_key(|it| it.1).map_or(0, |it| it.0);
        Found { range: end - length..end, errors }
    })
    .collect()
}

/// Returns every place at which an approximate occurrence of the pattern ends, with its errors:
/// the bit-parallel algorithm of Myers (J. ACM 46, 1999), in blocks of 64 rows.
fn ends(text: &[u8], pattern: &[u8], errors_max: usize) -> Vec<(usize, usize)> {
    let blocks = pattern.len().div_ceil(64);
    if blocks == 0 {
        return Vec::new();
    }
    let mut equal = vec![[0_u64; 256]; blocks];
    for (row, byte) in pattern.iter().enumerate() {
        equal[row / 64][usize::from(*byte)] |= 1 << (row % 64);
    }
    let last_bit = 1_u64 << ((pattern.len() - 1) % 64);
    let mut plus = vec![u64::MAX; blocks];
    let mut minus = vec![0_u64; blocks];
    let mut errors = pattern.len();
    let mut found = Vec::new();
    for (place, byte) in text.iter().enumerate() {
        let mut carry = 0_i8;
        for block in 0..blocks {
            let top = if block + 1 == blocks { last_bit } else { 1 << 63 };
            let mask = equal[block][usize::from(*byte)];
            carry = step(&mut plus[block], &mut minus[block], mask, carry, top);
        }
        errors = errors.saturating_add_signed(isize::from(carry));
        if errors <= errors_max {
            found.push((place + 1, errors));
        }
    }
    found
}

/// Advances one block by one column; returns the difference that its last row hands down.
fn step(plus: &mut u64, minus: &mut u64, mut equal: u64, carry: i8, top: u64) -> i8 {
    let from_above = u64::from(carry < 0);
    let vertical = equal | *minus;
    equal |= from_above;
    let horizontal = ((equal & *plus).wrapping_add(*plus) ^ *plus) | equal;
    let mut up = *minus | !(horizontal | *plus);
    let mut down = *plus & horizontal;
    let handed = i8::from(up & top != 0) - i8::from(down & top != 0);
    up = (up << 1) | u64::from(carry > 0);
    down = (down << 1) | from_above;
    *plus = down | !(vertical | up);
    *minus = up & vertical;
    handed
}
