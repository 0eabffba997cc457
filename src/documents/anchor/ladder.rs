//! The ladder that finds an anchor's words in another version of the text.
//!
//! Each step answers or passes on. The steps here: 0 the same text, 1 and 2 the words that the
//! comparison of both texts carried over, 5 nothing. What is found by searching comes between 2 and
//! 5 and may only look at text that is new: a search of the whole text finds lookalikes.

use std::ops::Range;

use crate::documents::anchor::{PairMap, Placed, PlacementState};

/// How much longer than the old span a new one may be: `GROWTH × length + GROWTH_BYTES`.
const GROWTH: usize = 3;
const GROWTH_BYTES: usize = 40;
/// Non-space bytes that must have been carried over together before a few words count as evidence.
const SUPPORT_BYTES_MIN: usize = 12;
/// Fewest bytes of a word that is evidence because it occurs once in either text.
const UNIQUE_BYTES_MIN: usize = 4;

/// A part of the span that was carried over: same bytes in both texts.
#[derive(Clone, Debug)]
struct Piece {
    token: usize,
    old: Range<usize>,
    new: Range<usize>,
}

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
    by_map(map, old, new, &span).unwrap_or_else(Placed::orphaned)
}

/// Steps 1 and 2: at least half of the span's bytes that are not white space were carried over.
fn by_map(map: &PairMap, old: &str, new: &str, span: &Range<usize>) -> Option<Placed> {
    let core = trim(old, span.clone())?;
    let first = map.old.at(core.start);
    let last = map.old.at(core.end - 1);
    let total: usize = (first..=last)
        .filter(|token| !map.old.is_space(*token))
        .map(|token| clip(map, token, &core).len())
        .sum();
    let all = pieces(map, &core, first..last + 1);
    let window = window(&all, growth(core.len()));
    let window = drop_strays(&all, window);
    let pieces = &all[window];
    let mapped: usize = pieces.iter().map(|it| it.old.len()).sum();
    if mapped == 0 || mapped * 2 < total || !is_supported(map, pieces) {
        return None;
    }
    if mapped * 5 < total * 4 && is_contested(map, old, new, first..last + 1, pieces) {
        return None;
    }
    let range = widen(map, &core, pieces);
    let range = trim(new, range)?;
    if new.get(range.clone())? != &old[core.clone()] {
        let share = ratio(mapped, total);
        return Some(Placed {
            state: PlacementState::Edited,
            range: Some(range),
            confidence: share.clamp(0.5, 0.99),
            method: "diff",
        });
    }
    Some(unchanged(old, new, span, &core, range))
}

/// Returns the placement of words that kept their text. White space around them that the person
/// took into the selection is taken again if it is still there.
fn unchanged(
    old: &str,
    new: &str,
    span: &Range<usize>,
    core: &Range<usize>,
    range: Range<usize>,
) -> Placed {
    let before = &old[span.start..core.start];
    let after = &old[core.end..span.end];
    let is_whole = new[..range.start].ends_with(before) && new[range.end..].starts_with(after);
    let range = if is_whole { range.start - before.len()..range.end + after.len() } else { range };
    let state = match (is_whole, range == *span) {
        (false, _) => PlacementState::Edited,
        (true, true) => PlacementState::Exact,
        (true, false) => PlacementState::Shifted,
    };
    let confidence = if is_whole { 1.0 } else { 0.99 };
    Placed { state, range: Some(range), confidence, method: "diff" }
}

fn pieces(map: &PairMap, core: &Range<usize>, tokens: Range<usize>) -> Vec<Piece> {
    let carried = tokens.filter(|token| !map.old.is_space(*token));
    carried
        .filter_map(|token| {
            let old = clip(map, token, core);
            let shift = old.start - map.old.start(token);
            let start = map.new.start(map.new_of(token)?) + shift;
            Some(Piece { token, new: start..start + old.len(), old })
        })
        .collect()
}

/// Returns the part of a token that is in the core. Tokens that are carried over and are not white
/// space have the same bytes on both sides, so an offset inside one is the same in both.
fn clip(map: &PairMap, token: usize, core: &Range<usize>) -> Range<usize> {
    map.old.start(token).max(core.start)..map.old.end(token).min(core.end)
}

/// Returns the neighbouring pieces with the most bytes whose places together are not too long.
fn window(pieces: &[Piece], length_max: usize) -> Range<usize> {
    let (mut best, mut best_bytes) = (0..0, 0);
    let (mut from, mut bytes) = (0, 0);
    for (to, piece) in pieces.iter().enumerate() {
        bytes += piece.old.len();
        while piece.new.end - pieces[from].new.start > length_max {
            bytes -= pieces[from].old.len();
            from += 1;
        }
        if bytes > best_bytes {
            (best, best_bytes) = (from..to + 1, bytes);
        }
    }
    best
}

/// Drops from both ends what stands far away from the rest and is small: a word that occurs in the
/// span and was by chance carried over to somewhere else.
fn drop_strays(pieces: &[Piece], window: Range<usize>) -> Range<usize> {
    let bytes =
        |range: Range<usize>| -> usize { pieces[range].iter().map(|it| it.old.len()).sum() };
    let is_torn = |right: usize| {
        let (left, right) = (&pieces[right - 1], &pieces[right]);
        right.new.start - left.new.end > growth(right.old.start - left.old.end)
    };
    let tears = (window.start + 1..window.end).filter(|it| is_torn(*it));
    let mut cuts: Vec<usize> = std::iter::once(window.start).chain(tears).collect();
    cuts.push(window.end);
    let groups: Vec<usize> = cuts.windows(2).map(|it| bytes(it[0]..it[1])).collect();
    let mut total: usize = groups.iter().sum();
    let (mut from, mut to) = (0, groups.len());
    while to - from > 1 {
        if groups[from] * 4 < total {
            total -= groups[from];
            from += 1;
        } else if groups[to - 1] * 4 < total {
            total -= groups[to - 1];
            to -= 1;
        } else {
            break;
        }
    }
    cuts[from]..cuts[to]
}

/// Returns whether the pieces are more than a few frequent words that happen to be in order: one
/// of them is rare, or stands in a longer run that was carried over as a whole.
fn is_supported(map: &PairMap, pieces: &[Piece]) -> bool {
    let bytes: usize = pieces.iter().map(|it| it.old.len()).sum();
    if bytes >= SUPPORT_BYTES_MIN * 4 {
        return true;
    }
    pieces.iter().any(|piece| {
        (piece.old.len() >= UNIQUE_BYTES_MIN && map.is_unique(piece.token))
            || is_in_long_run(map, piece.token)
    })
}

/// Returns whether a good part of the sentences that the pieces are in now was carried over from
/// other sentences. Then they may be those, edited, and the span's own were deleted: of two
/// lookalikes each explains half of what is left.
fn is_contested(map: &PairMap, old: &str, new: &str, span: Range<usize>, pieces: &[Piece]) -> bool {
    let news = map.new.at(pieces[0].new.start)..map.new.at(pieces[pieces.len() - 1].new.start) + 1;
    let home = map.old.sentences_around(old, span.clone());
    let (mut own, mut foreign) = (0, 0);
    let now = map.new.sentences_around(new, news);
    for token in now.filter(|token| !map.new.is_space(*token)) {
        let bytes = map.new.end(token) - map.new.start(token);
        match map.old_of(token) {
            Some(old) if span.contains(&old) => own += bytes,
            Some(old) if !home.contains(&old) => foreign += bytes,
            _ => {}
        }
    }
    foreign * 4 >= own + foreign
}

/// Returns whether a token stands in a run that was carried over and is long enough, or with which
/// both texts start or end.
fn is_in_long_run(map: &PairMap, token: usize) -> bool {
    let bytes =
        |it: usize| if map.old.is_space(it) { 0 } else { map.old.end(it) - map.old.start(it) };
    let is_joined = |left: usize, right: usize| match (map.new_of(left), map.new_of(right)) {
        (Some(left), Some(right)) => left + 1 == right,
        _ => false,
    };
    let mut sum = bytes(token);
    let mut left = token;
    while sum < SUPPORT_BYTES_MIN && left > 0 && is_joined(left - 1, left) {
        left -= 1;
        sum += bytes(left);
    }
    let mut right = token;
    let last = map.old.count() - 1;
    while sum < SUPPORT_BYTES_MIN && right < last && is_joined(right, right + 1) {
        right += 1;
        sum += bytes(right);
    }
    let is_head = left == 0 && map.new_of(0) == Some(0);
    let is_tail = right == last && map.new_of(last) == Some(map.new.count() - 1);
    sum >= SUPPORT_BYTES_MIN || is_head || is_tail
}

/// Returns the range that the pieces cover, with replaced words at both ends of the span: where
/// the first words were replaced, what replaced them belongs to the span too.
fn widen(map: &PairMap, core: &Range<usize>, pieces: &[Piece]) -> Range<usize> {
    let (first, last) = (&pieces[0], &pieces[pieces.len() - 1]);
    let covered = first.new.start..last.new.end;
    let mut start = covered.start;
    let mut end = covered.end;
    if first.old.start > core.start
        && let Some(from) = replaced_before(map, core, first.token)
        && covered.start >= from
        && covered.start - from <= growth(first.old.start - core.start)
    {
        start = from;
    }
    if last.old.end < core.end
        && let Some(to) = replaced_after(map, core, last.token)
        && to >= covered.end
        && to - covered.end <= growth(core.end - last.old.end)
    {
        end = to;
    }
    if end - start <= growth(core.len()) { start..end } else { covered }
}

/// Returns where the text starts that stands for the first words of the core, if what was
/// replaced starts with the core and not before it.
fn replaced_before(map: &PairMap, core: &Range<usize>, first_kept: usize) -> Option<usize> {
    let head = map.old.at(core.start);
    let is_cut = map.old.start(head) < core.start;
    if is_cut || map.new_of(head).is_some() {
        return None;
    }
    let from = match head.checked_sub(1) {
        None => 0,
        Some(before) => map.new_of(before)? + 1,
    };
    let to = map.new_of((head..=first_kept).find(|it| map.new_of(*it).is_some())?)?;
    (from < to).then(|| map.new.start(from))
}

/// As [`replaced_before`], for the end.
fn replaced_after(map: &PairMap, core: &Range<usize>, last_kept: usize) -> Option<usize> {
    let tail = map.old.at(core.end - 1);
    let is_cut = map.old.end(tail) > core.end;
    if is_cut || map.new_of(tail).is_some() {
        return None;
    }
    let to = match tail + 1 < map.old.count() {
        false => map.new.count(),
        true => map.new_of(tail + 1)?,
    };
    let from = map.new_of((last_kept..=tail).rev().find(|it| map.new_of(*it).is_some())?)? + 1;
    (from < to).then(|| map.new.end(to - 1))
}

fn growth(length: usize) -> usize {
    length.saturating_mul(GROWTH).saturating_add(GROWTH_BYTES)
}

fn ratio(part: usize, whole: usize) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "both are far below 2^52")]
    let ratio = part as f64 / whole.max(1) as f64;
    ratio
}

/// Returns the range without white space at its ends; none if nothing is left.
pub(super) fn trim(text: &str, range: Range<usize>) -> Option<Range<usize>> {
    let slice = text.get(range.clone())?;
    let start = range.start + (slice.len() - slice.trim_start().len());
    let end = start + slice.trim().len();
    (start < end).then_some(start..end)
}

#[cfg(test)]
mod accuracy;
#[cfg(test)]
mod tests;
