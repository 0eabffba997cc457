//! Maps the tokens of one text to those of another; built once per pair of texts.
//!
//! **Invariant:** the map is injective and increasing, and only maps equal tokens.

use std::ops::Range;
use std::sync::OnceLock;

use imara_diff::{InternedInput, Token};

use crate::documents::anchor::blocks::Side;
use crate::documents::anchor::moves::Moves;
use crate::documents::anchor::token::{Sort, Tokens};
use crate::documents::compare::tokens::kept_runs;

/// Farthest that an insertion or deletion is slid to a better boundary, in tokens.
const SLIDE_TOKENS_MAX: usize = 400;

/// Marks an unmapped token.
pub(super) const NONE: u32 = u32::MAX;

/// The map between two texts.
#[derive(Debug)]
pub struct PairMap {
    pub(super) old: Tokens,
    pub(super) new: Tokens,
    is_identity: bool,
    keys: Keys,
    to_new: Vec<u32>,
    to_old: Vec<u32>,
    moves: OnceLock<Moves>,
}

/// Tokens as numbers: equal tokens have equal numbers.
#[derive(Debug)]
struct Keys {
    old: Vec<Token>,
    new: Vec<Token>,
    /// Occurrences of each in the old and the new text.
    counts: Vec<(u32, u32)>,
}

impl PairMap {
    /// Compares two texts.
    pub fn new(old_text: &str, new_text: &str) -> PairMap {
        let (old, new) = (Tokens::of(old_text), Tokens::of(new_text));
        let mut input: InternedInput<&str> = InternedInput::default();
        input.update_before((0..old.count()).map(|it| old.key(old_text, it)));
        input.update_after((0..new.count()).map(|it| new.key(new_text, it)));
        let mut counts = vec![(0, 0); input.interner.num_tokens() as usize];
        input.before.iter().for_each(|it| counts[it.0 as usize].0 += 1);
        input.after.iter().for_each(|it| counts[it.0 as usize].1 += 1);
        let mut map = PairMap {
            to_new: vec![NONE; old.count()],
            to_old: vec![NONE; new.count()],
            is_identity: old_text == new_text,
            keys: Keys { old: input.before, new: input.after, counts },
            moves: OnceLock::new(),
            old,
            new,
        };
        for run in kept_runs(&map.keys.old, &map.keys.new) {
            map.join(run.old, run.new, run.count);
        }
        map.slide_all();
        map
    }

    /// Returns whether the two texts are the same.
    pub fn is_identity(&self) -> bool {
        self.is_identity
    }

    /// Returns the new token of an old one.
    pub(super) fn new_of(&self, old_token: usize) -> Option<usize> {
        partner(&self.to_new, old_token)
    }

    /// Returns the old token of a new one.
    pub(super) fn old_of(&self, new_token: usize) -> Option<usize> {
        partner(&self.to_old, new_token)
    }

    /// Returns whether this token occurs exactly once in each text.
    pub(super) fn is_unique(&self, old_token: usize) -> bool {
        self.keys.counts[self.keys.old[old_token].0 as usize] == (1, 1)
    }

    /// Returns the blocks that moved; computed on first use.
    pub(super) fn moves(&self) -> &Moves {
        self.moves.get_or_init(|| Moves::of(self))
    }

    /// Returns the tokens of one side.
    pub(super) fn tokens(&self, side: Side) -> &Tokens {
        match side {
            Side::Old => &self.old,
            Side::New => &self.new,
        }
    }

    /// Returns the number of a token: equal tokens of both sides have equal numbers.
    pub(super) fn key(&self, side: Side, token: usize) -> u32 {
        match side {
            Side::Old => self.keys.old[token].0,
            Side::New => self.keys.new[token].0,
        }
    }

    /// Returns the new token of each old token that stays in order.
    pub(super) fn to_new(&self) -> &[u32] {
        &self.to_new
    }

    /// Compares a range of the old text with one of the new; returns pairs of equal tokens.
    pub(super) fn kept_between(
        &self,
        old: &Range<usize>,
        new: &Range<usize>,
    ) -> impl Iterator<Item = (usize, usize)> {
        let runs = kept_runs(&self.keys.old[old.clone()], &self.keys.new[new.clone()]);
        let (old, new) = (old.start, new.start);
        runs.into_iter().flat_map(move |run| {
            (0..run.count).map(move |step| (old + run.old + step, new + run.new + step))
        })
    }

    fn join(&mut self, old: usize, new: usize, count: usize) {
        for step in 0..count {
            self.to_new[old + step] = u32::try_from(new + step).unwrap_or(NONE);
            self.to_old[new + step] = u32::try_from(old + step).unwrap_or(NONE);
        }
    }

    /// Where a deletion or insertion could equally be a few tokens earlier or later (`[a b] a` or
    /// `a [b a]`), moves its boundary to where a person would cut: before a paragraph, line or
    /// sentence. Which of two equal sentences was deleted is unknown; where it starts is not.
    fn slide_all(&mut self) {
        slide_side(&self.keys.old, &self.old, &mut self.to_new, &mut self.to_old);
        slide_side(&self.keys.new, &self.new, &mut self.to_old, &mut self.to_new);
    }
}

/// Returns the partner of a token in one direction of the map.
pub(super) fn partner(map: &[u32], token: usize) -> Option<usize> {
    map.get(token).filter(|it| **it != NONE).map(|it| *it as usize)
}

fn slide_side(keys: &[Token], tokens: &Tokens, there: &mut [u32], back: &mut [u32]) {
    let mut start = 0;
    while start < keys.len() {
        if there[start] != NONE {
            start += 1;
            continue;
        }
        let mut end = start;
        while end < keys.len() && there[end] == NONE {
            end += 1;
        }
        // A replacement must not slide: its old and new words belong together.
        if start > 0 && is_pure(there, back, start, end) {
            end = slide(keys, tokens, there, back, start..end);
        }
        start = end;
    }
}

/// Returns whether an unmapped run is a pure insertion or deletion, with no counterpart.
fn is_pure(there: &[u32], back: &[u32], start: usize, end: usize) -> bool {
    let before = there[start - 1] as usize;
    match there.get(end) {
        Some(after) => *after as usize == before + 1,
        None => before + 1 == back.len(),
    }
}

/// Slides one unmapped run to its best boundary; returns its new end.
fn slide(
    keys: &[Token],
    tokens: &Tokens,
    there: &mut [u32],
    back: &mut [u32],
    run: Range<usize>,
) -> usize {
    let is_joined = |there: &[u32], left: usize, right: usize| {
        there[left] != NONE && there[right] != NONE && there[left] + 1 == there[right]
    };
    // It can slide up as long as the token before it equals its own last one.
    let mut up = 0;
    while up < SLIDE_TOKENS_MAX
        && run.start > up
        && keys[run.start - up - 1] == keys[run.end - up - 1]
        && there[run.start - up - 1] != NONE
        && (up == 0 || is_joined(there, run.start - up - 1, run.start - up))
    {
        up += 1;
    }
    let mut down = 0;
    while down < SLIDE_TOKENS_MAX
        && run.end + down < keys.len()
        && keys[run.start + down] == keys[run.end + down]
        && there[run.end + down] != NONE
        && (down == 0 || is_joined(there, run.end + down - 1, run.end + down))
    {
        down += 1;
    }
    let first = run.start - up;
    let last = run.start + down;
    // Of equally good boundaries the first wins, except that the current one beats all of its
    // equals.
    let mut best = run.start;
    for candidate in first..=last {
        if border(tokens, candidate) > border(tokens, best) {
            best = candidate;
        }
    }
    let length = run.len();
    // Sliding by one means that the token at one end takes over the partner of its equal at the
    // other.
    if best < run.start {
        for token in (best..run.start).rev() {
            hand_over(there, back, token, token + length);
        }
    } else {
        for token in run.start..best {
            hand_over(there, back, token + length, token);
        }
    }
    best + length
}

fn hand_over(there: &mut [u32], back: &mut [u32], from: usize, to: usize) {
    there[to] = there[from];
    there[from] = NONE;
    back[there[to] as usize] = u32::try_from(to).unwrap_or(NONE);
}

/// Returns how natural a cut before a token is.
fn border(tokens: &Tokens, token: usize) -> u8 {
    if token == 0 {
        return 4;
    }
    match tokens.sort(token - 1) {
        Sort::Break => 4,
        Sort::Space if token > 1 && tokens.sort(token - 2) == Sort::Mark => 2,
        Sort::Space => 1,
        Sort::Word | Sort::Mark => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the old text with deleted parts in brackets.
    fn kept(old: &str, new: &str) -> String {
        let map = PairMap::new(old, new);
        let mut shown = String::new();
        for token in 0..map.old.count() {
            let text = &old[map.old.start(token)..map.old.end(token)];
            match map.new_of(token) {
                Some(partner) => {
                    assert_eq!(map.to_old[partner] as usize, token);
                    assert_eq!(map.keys.old[token], map.keys.new[partner]);
                    shown.push_str(text);
                }
                None => shown.push_str(&format!("[{text}]")),
            }
        }
        let partners: Vec<_> = (0..map.old.count()).filter_map(|it| map.new_of(it)).collect();
        assert!(partners.windows(2).all(|pair| pair[0] < pair[1]));
        shown.replace("][", "")
    }

    #[test]
    fn a_deletion_starts_where_a_sentence_starts() {
        let old = "Intro.\n\nThe Alpha team meets.\n\nThe Beta team meets.\n";
        assert_eq!(
            kept(old, "Intro.\n\nThe Beta team meets.\n"),
            "Intro.\n\n[The Alpha team meets.\n\n]The Beta team meets.\n"
        );
        assert_eq!(
            kept("It is so. The one. The two. End.", "It is so. The two. End."),
            "It is so. [The one. ]The two. End."
        );
        assert_eq!(kept("a b", "a b"), "a b");
        assert_eq!(kept("", "a"), "");
        assert_eq!(kept("a", ""), "[a]");
    }

    #[test]
    fn very_large_texts_are_mapped_by_what_is_rare() {
        let line = |number: usize| format!("line {number} of this very long text here\n");
        let old: String = (0..20_000).map(line).collect();
        let new: String = (1..20_000).rev().step_by(7).map(line).collect::<String>() + &old + "x y";
        let map = PairMap::new(&format!("first\n{old}"), &new);
        let mapped = (0..map.old.count()).filter(|it| map.new_of(*it).is_some()).count();
        assert!(mapped * 10 > map.old.count() * 8, "{mapped} of {}", map.old.count());
    }
}
