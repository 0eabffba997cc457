//! Steps 1 to 3 of the ladder: which parts of a span the word comparison maps to the new text, and
//! whether they are enough evidence.

use std::ops::Range;

use crate::api::topics::PlacementState;
use crate::base::fault;
use crate::documents::anchor::map::partner;
use crate::documents::anchor::token::Sort;
use crate::documents::anchor::{PairMap, Placed};

/// Longest new span: `GROWTH × length + GROWTH_BYTES`.
const GROWTH: usize = 3;
const GROWTH_BYTES: usize = 40;
/// Non-space bytes in one mapped run that make a few words count as evidence.
const SUPPORT_BYTES_MIN: usize = 12;
/// Minimum similarity of a block and its edited version.
const SAME_BLOCK_MIN: f64 = 0.5;
/// Longest passage after insertions inside of it, in bytes: what a person reads as one.
const TORN_BYTES_MAX: usize = 4 * 1024;
/// A torn part counts if its bytes times this reach those of the rest.
const TORN_SHARE: usize = 4;
/// Fewest words in a row for a torn part that is not there by chance.
const TORN_WORDS_MIN: usize = 2;
/// Shortest word that is evidence by being unique in both texts, in bytes.
const UNIQUE_BYTES_MIN: usize = 4;

/// A mapped part of a span: the same bytes in both texts.
#[derive(Clone, Debug)]
struct Piece {
    token: usize,
    old: Range<usize>,
    new: Range<usize>,
}

/// A non-empty span without surrounding whitespace, and the tokens that it touches.
#[derive(Clone, Debug)]
pub(super) struct Core {
    pub(super) bytes: Range<usize>,
    pub(super) tokens: Range<usize>,
}

impl Core {
    /// Returns the core of a span; `None` if it only contains whitespace.
    pub(super) fn of(map: &PairMap, old: &str, span: &Range<usize>) -> Option<Core> {
        let bytes = trim(old, span.clone())?;
        let tokens = map.old.at(bytes.start)..map.old.at(bytes.end - 1) + 1;
        Some(Core { bytes, tokens })
    }

    /// Returns the share of its non-space bytes in tokens with a property.
    pub(super) fn share(&self, map: &PairMap, has: impl Fn(usize) -> bool) -> f64 {
        let words = self.tokens.clone().filter(|it| !map.old.is_space(*it) && has(*it));
        let bytes = words.map(|token| clip(map, token, &self.bytes).len()).sum();
        ratio(bytes, self.weight(map))
    }

    /// Returns its bytes without whitespace.
    fn weight(&self, map: &PairMap) -> usize {
        let words = self.tokens.clone().filter(|token| !map.old.is_space(*token));
        words.map(|token| clip(map, token, &self.bytes).len()).sum()
    }
}

/// The map to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Tokens that stayed in order.
    InPlace,
    /// Tokens in blocks that moved.
    Moved,
}

impl Way {
    fn map(self, map: &PairMap) -> &[u32] {
        match self {
            Way::InPlace => map.to_new(),
            Way::Moved => map.moves().to_new(),
        }
    }

    /// Returns the new token of an old one; `None` if a lookalike took its place.
    fn follow(self, map: &PairMap, token: usize) -> Option<usize> {
        let new = partner(self.map(map), token)?;
        (self == Way::Moved || !map.moves().is_usurped(token)).then_some(new)
    }
}

/// The mapped parts of a span that belong together.
#[derive(Debug)]
struct Carried {
    pieces: Vec<Piece>,
    /// Mapped bytes in the pieces.
    mapped: usize,
    /// Mapped bytes that are too far from the pieces.
    torn: usize,
    /// Bytes of the span without whitespace.
    total: usize,
}

impl Carried {
    /// Follows a map from old to new tokens.
    fn of(map: &PairMap, way: Way, core: &Core) -> Carried {
        let all = heaviest_rise(pieces(map, way, core));
        // The densest cluster of plausible length, without words matched far off by chance.
        let window = window(&all, growth(core.bytes.len()));
        let near = drop_strays(&all, window);
        let chosen = if way == Way::InPlace { with_torn(map, &all, near) } else { near };
        // The rest tells whether the passage was torn apart; single words do not count.
        let others = all[..chosen.start].iter().chain(&all[chosen.end..]);
        let is_real = |it: &&Piece| is_in_long_run(map, it.token, TORN_WORDS_MIN);
        let torn = others.filter(is_real).map(|it| it.old.len()).sum();
        let pieces = all[chosen].to_vec();
        let mapped = pieces.iter().map(|it| it.old.len()).sum();
        Carried { pieces, mapped, torn, total: core.weight(map) }
    }
}

/// Steps 1 and 2: at least half of the span's non-space bytes stayed in order.
pub(super) fn in_place(
    map: &PairMap,
    old: &str,
    new: &str,
    span: &Range<usize>,
    core: &Core,
) -> Option<Placed> {
    let carried = Carried::of(map, Way::InPlace, core);
    let (pieces, mapped, total) = (&carried.pieces, carried.mapped, carried.total);
    // A third is enough inside of a block that evidently is the same one, edited.
    let is_enough =
        mapped * 2 >= total || (mapped * 3 >= total && is_same_block(map, core, pieces));
    if mapped == 0 || !is_enough || !is_supported(map, pieces) {
        return None;
    }
    // Below 80 %, what is left may belong to a neighboring sentence that was edited.
    if mapped * 5 < total * 4 && is_contested(map, old, new, core.tokens.clone(), pieces) {
        return None;
    }
    let core = &core.bytes;
    let range = widen(map, map.to_new(), core, pieces);
    let range = trim(new, range)?;
    if carried.torn * TORN_SHARE >= mapped {
        // A person must decide whether the Topic is about the larger part or about everything.
        let (state, range) = (PlacementState::Rewritten, Some(range));
        return Some(Placed { state, range, confidence: 0.45, method: "torn" });
    }
    if new.get(range.clone())? != &old[core.clone()] {
        let share = ratio(mapped, total);
        return Some(Placed {
            state: PlacementState::Edited,
            range: Some(range),
            confidence: share.clamp(0.5, 0.99),
            method: "diff",
        });
    }
    Some(unchanged(old, new, span, core, range))
}

/// Step 3: at least a third of the span is in a block that moved as a whole.
pub(super) fn in_moved_block(map: &PairMap, new: &str, core: &Core) -> Option<Placed> {
    let carried = Carried::of(map, Way::Moved, core);
    if carried.mapped == 0 || carried.mapped * 3 < carried.total {
        return None;
    }
    let range = trim(new, widen(map, Way::Moved.map(map), &core.bytes, &carried.pieces))?;
    let share = ratio(carried.mapped, carried.total);
    if in_order(map, core) * TORN_SHARE >= carried.mapped {
        // A good part stayed behind.
        let (state, range) = (PlacementState::Rewritten, Some(range));
        return Some(Placed { state, range, confidence: 0.45, method: "torn" });
    }
    Some(Placed {
        state: PlacementState::Moved,
        range: Some(range),
        confidence: share.clamp(0.5, 0.95),
        method: "block",
    })
}

/// Returns the span's bytes that stayed in order and are evidence by themselves.
fn in_order(map: &PairMap, core: &Core) -> usize {
    let stayed = pieces(map, Way::InPlace, core).into_iter();
    stayed.filter(|it| is_in_long_run(map, it.token, TORN_WORDS_MIN)).map(|it| it.old.len()).sum()
}

/// First half of step 4: at least a quarter of the span was mapped, in place or with its block.
pub(super) fn remains(map: &PairMap, old: &str, new: &str, core: &Core) -> Option<Range<usize>> {
    let carried = [Way::InPlace, Way::Moved].map(|way| (way, Carried::of(map, way, core)));
    let (way, best) = carried.into_iter().max_by_key(|it| it.1.mapped)?;
    if best.mapped * 4 < best.total || !is_supported(map, &best.pieces) {
        return None;
    }
    let is_foreign =
        way == Way::InPlace && is_contested(map, old, new, core.tokens.clone(), &best.pieces);
    if is_foreign {
        return None;
    }
    trim(new, widen(map, way.map(map), &core.bytes, &best.pieces))
}

/// Returns the placement of unchanged words. Whitespace that was selected around them is included
/// if it is still there.
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

fn pieces(map: &PairMap, way: Way, core: &Core) -> Vec<Piece> {
    let carried = core.tokens.clone().filter(|token| !map.old.is_space(*token));
    carried
        .filter_map(|token| {
            let old = clip(map, token, &core.bytes);
            let shift = old.start - map.old.start(token);
            let start = map.new.start(way.follow(map, token)?) + shift;
            Some(Piece { token, new: start..start + old.len(), old })
        })
        .collect()
}

/// Returns the heaviest run of pieces, in bytes, in the same order in both texts: blocks that moved
/// may have changed places.
fn heaviest_rise(pieces: Vec<Piece>) -> Vec<Piece> {
    let runs = pieces.chunk_by(|left, right| left.new.end <= right.new.start);
    let bytes = |run: &&[Piece]| -> usize { run.iter().map(|it| it.old.len()).sum() };
    runs.max_by_key(bytes).map(<[Piece]>::to_vec).unwrap_or_default()
}

/// Returns the part of a token in the core. A mapped word has the same bytes on both sides, and so
/// the same offsets inside.
fn clip(map: &PairMap, token: usize, core: &Range<usize>) -> Range<usize> {
    map.old.start(token).max(core.start)..map.old.end(token).min(core.end)
}

/// Returns the heaviest run of pieces that spans at most `length_max` new bytes.
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

/// Adds parts torn off by text inserted inside of the span: as in every editor, the insertion
/// belongs to the passage. They must be evidence by themselves, and more than one word: a single
/// word may be there by chance.
fn with_torn(map: &PairMap, pieces: &[Piece], near: Range<usize>) -> Range<usize> {
    if near.is_empty() || fault::is_off("torn_passages") {
        return near;
    }
    let is_real = |it: &usize| is_in_long_run(map, pieces[*it].token, TORN_WORDS_MIN);
    let fits =
        |from: usize, last: usize| pieces[last].new.end - pieces[from].new.start <= TORN_BYTES_MAX;
    let is_enough = |range: Range<usize>| {
        range.filter(is_real).map(|it| pieces[it].old.len()).sum::<usize>() >= SUPPORT_BYTES_MIN
    };
    let (before, after) = (0..near.start, near.end..pieces.len());
    let first = before.clone().find(is_real).filter(|it| fits(*it, near.end - 1));
    let from = first.filter(|_| is_enough(before)).unwrap_or(near.start);
    let last = after.clone().rev().find(is_real).filter(|it| fits(from, *it));
    let last = last.filter(|_| is_enough(after));
    from..last.map_or(near.end, |it| it + 1)
}

/// Drops small groups of pieces at both ends that are far from the rest: words of the span that
/// were matched elsewhere by chance.
fn drop_strays(pieces: &[Piece], window: Range<usize>) -> Range<usize> {
    let bytes =
        |range: Range<usize>| -> usize { pieces[range].iter().map(|it| it.old.len()).sum() };
    let is_torn = |right: usize| {
        let (left, right) = (&pieces[right - 1], &pieces[right]);
        right.new.start - left.new.end > growth(right.old.start - left.old.end)
    };
    // Split into groups at every gap that is much larger in the new text than in the old.
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

/// Returns whether the whole span was in one block, and everything left of it is in a similar one.
fn is_same_block(map: &PairMap, core: &Core, pieces: &[Piece]) -> bool {
    let moves = map.moves();
    let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else { return false };
    let from = moves.old.at(core.tokens.start).zip(moves.old.at(core.tokens.end - 1));
    let to =
        moves.new.at(map.new.at(first.new.start)).zip(moves.new.at(map.new.at(last.new.start)));
    match (from, to) {
        (Some((old, old_last)), Some((new, new_last))) => {
            old == old_last
                && new == new_last
                && moves.old.get(old).overlap(moves.new.get(new)) >= SAME_BLOCK_MIN
        }
        _ => false,
    }
}

/// Returns whether the pieces are more than a few frequent words that happen to be in order: one of
/// them is rare, or part of a long run.
fn is_supported(map: &PairMap, pieces: &[Piece]) -> bool {
    let bytes: usize = pieces.iter().map(|it| it.old.len()).sum();
    if bytes >= SUPPORT_BYTES_MIN * 4 {
        return true;
    }
    pieces.iter().any(|piece| {
        (piece.old.len() >= UNIQUE_BYTES_MIN && map.is_unique(piece.token))
            || is_in_long_run(map, piece.token, 0)
    })
}

/// Returns whether a good part of what is left is in sentences largely mapped from other sentences.
/// It may then be those, edited, while the span's own were deleted: of two lookalikes, each
/// explains half of what is left.
fn is_contested(map: &PairMap, old: &str, new: &str, span: Range<usize>, pieces: &[Piece]) -> bool {
    let news = map.new.at(pieces[0].new.start)..map.new.at(pieces[pieces.len() - 1].new.start) + 1;
    let home = map.old.sentences_around(old, span.clone());
    let (mut sure, mut contested) = (0, 0);
    let (mut own, mut foreign) = (0, 0);
    let now = map.new.sentences_around(new, news);
    for token in now.clone() {
        let bytes = map.new.end(token) - map.new.start(token);
        match map.old_of(token).filter(|_| !map.new.is_space(token)) {
            Some(old) if span.contains(&old) => own += bytes,
            Some(old) if !home.contains(&old) => foreign += bytes,
            _ => {}
        }
        if map.new.is_end(new, token) || token + 1 == now.end {
            *(if foreign * 4 >= own + foreign { &mut contested } else { &mut sure }) += own;
            (own, foreign) = (0, 0);
        }
    }
    contested * 4 >= sure + contested
}

/// Returns whether a token is in a mapped run with enough words that is long enough, or begins or
/// ends both texts.
fn is_in_long_run(map: &PairMap, token: usize, words_min: usize) -> bool {
    let bytes =
        |it: usize| if map.old.is_space(it) { 0 } else { map.old.end(it) - map.old.start(it) };
    let word = |it: usize| usize::from(map.old.sort(it) == Sort::Word);
    let is_joined = |left: usize, right: usize| match (map.new_of(left), map.new_of(right)) {
        (Some(left), Some(right)) => left + 1 == right,
        _ => false,
    };
    let (mut sum, mut words) = (bytes(token), word(token));
    let is_short = |sum: usize, words: usize| sum < SUPPORT_BYTES_MIN || words < words_min;
    let mut left = token;
    while is_short(sum, words) && left > 0 && is_joined(left - 1, left) {
        left -= 1;
        (sum, words) = (sum + bytes(left), words + word(left));
    }
    let mut right = token;
    let last = map.old.count() - 1;
    while is_short(sum, words) && right < last && is_joined(right, right + 1) {
        right += 1;
        (sum, words) = (sum + bytes(right), words + word(right));
    }
    let is_head = left == 0 && map.new_of(0) == Some(0);
    let is_tail = right == last && map.new_of(last) == Some(map.new.count() - 1);
    words >= words_min && (sum >= SUPPORT_BYTES_MIN || is_head || is_tail)
}

/// Returns the range of the pieces, extended by replaced words at both ends: if the first or last
/// words were replaced, their replacement belongs to the span.
fn widen(map: &PairMap, to_new: &[u32], core: &Range<usize>, pieces: &[Piece]) -> Range<usize> {
    let (first, last) = (&pieces[0], &pieces[pieces.len() - 1]);
    let covered = first.new.start..last.new.end;
    let mut start = covered.start;
    let mut end = covered.end;
    if first.old.start > core.start
        && let Some(from) = replaced_before(map, to_new, core, first.token)
        && covered.start >= from
        && covered.start - from <= growth(first.old.start - core.start)
    {
        start = from;
    }
    if last.old.end < core.end
        && let Some(to) = replaced_after(map, to_new, core, last.token)
        && to >= covered.end
        && to - covered.end <= growth(core.end - last.old.end)
    {
        end = to;
    }
    if end - start <= growth(core.len()) { start..end } else { covered }
}

/// Returns where the replacement of the core's first words starts, if exactly they were replaced
/// and nothing before them.
fn replaced_before(
    map: &PairMap,
    to_new: &[u32],
    core: &Range<usize>,
    first_kept: usize,
) -> Option<usize> {
    let head = map.old.at(core.start);
    let is_cut = map.old.start(head) < core.start;
    if is_cut || partner(to_new, head).is_some() {
        return None;
    }
    let from = match head.checked_sub(1) {
        None => 0,
        Some(before) => match partner(to_new, before) {
            Some(before) => before + 1,
            None if map.old.sort(before) == Sort::Break => {
                let first = partner(to_new, first_kept)?;
                (0..first).rev().find(|it| map.new.sort(*it) == Sort::Break).map_or(0, |it| it + 1)
            }
            None => return None,
        },
    };
    let to = (head..=first_kept).find_map(|it| partner(to_new, it))?;
    (from < to).then(|| map.new.start(from))
}

/// Like [`replaced_before`], for the end.
fn replaced_after(
    map: &PairMap,
    to_new: &[u32],
    core: &Range<usize>,
    last_kept: usize,
) -> Option<usize> {
    let tail = map.old.at(core.end - 1);
    let is_cut = map.old.end(tail) > core.end;
    if is_cut || partner(to_new, tail).is_some() {
        return None;
    }
    let to = match tail + 1 < map.old.count() {
        false => map.new.count(),
        true => match partner(to_new, tail + 1) {
            Some(after) => after,
            None if map.old.sort(tail + 1) == Sort::Break => {
                let last = partner(to_new, last_kept)?;
                (last..map.new.count())
                    .find(|it| map.new.sort(*it) == Sort::Break)
                    .unwrap_or(map.new.count())
            }
            None => return None,
        },
    };
    let from = (last_kept..=tail).rev().find_map(|it| partner(to_new, it))? + 1;
    (from < to).then(|| map.new.end(to - 1))
}

pub(super) fn growth(length: usize) -> usize {
    length.saturating_mul(GROWTH).saturating_add(GROWTH_BYTES)
}

fn ratio(part: usize, whole: usize) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "both are far below 2^52")]
    let ratio = part as f64 / whole.max(1) as f64;
    ratio
}

/// Returns the range without surrounding whitespace; `None` if nothing is left.
pub(super) fn trim(text: &str, range: Range<usize>) -> Option<Range<usize>> {
    let slice = text.get(range.clone())?;
    let start = range.start + (slice.len() - slice.trim_start().len());
    let end = start + slice.trim().len();
    (start < end).then_some(start..end)
}
