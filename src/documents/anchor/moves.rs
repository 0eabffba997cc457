//! Blocks that moved, and the mapping of their words.
//!
//! A comparison of texts keeps what is in order: a moved paragraph appears as deleted in one place
//! and inserted in another. This module pairs such paragraphs, but only those that the comparison
//! left over on both sides: a lookalike that stayed in place is no candidate.
//!
//! **Invariant:** the blocks of a pair are each other's best match, with a lead over the second
//! best on both sides; or, without that lead, they are neighbors of a pair.

use crate::documents::anchor::blocks::{Blocks, Index, Side};
use crate::documents::anchor::map::{NONE, PairMap};

/// Minimum similarity of a block and its moved version.
const OVERLAP_MIN: f64 = 0.5;
/// Minimum lead of a partner over the second best.
const LEAD_MIN: f64 = 0.1;
/// Partners closer together than this are a tie.
const TIE_MAX: f64 = 0.05;
/// Shortest block that is searched elsewhere, in bytes without whitespace.
const BLOCK_BYTES_MIN: usize = 12;
/// A block this similar to its old version is not reassigned, whatever else resembles it.
const CERTAIN_MIN: f64 = 0.98;

/// What happened to old blocks that did not stay in place.
#[derive(Debug)]
pub(super) struct Moves {
    /// The blocks of the old text.
    pub(super) old: Blocks,
    /// The blocks of the new text.
    pub(super) new: Blocks,
    /// The new block of each old block that moved.
    partners: Vec<Option<usize>>,
    /// Old blocks with two equally good partners.
    ties: Vec<bool>,
    /// Old blocks in whose place a lookalike stands that was another block.
    usurped: Vec<bool>,
    /// The new token of each old token in a block that moved.
    to_new: Vec<u32>,
}

/// The best partner of a block, its similarity, and its lead over the second best.
#[derive(Clone, Copy, Debug)]
struct Choice {
    best: usize,
    overlap: f64,
    lead: f64,
}

impl Moves {
    /// Pairs the blocks that the map left over.
    pub(super) fn of(map: &PairMap) -> Moves {
        let (old, new) = (Blocks::of(map, Side::Old), Blocks::of(map, Side::New));
        let loose_old: Vec<bool> = (0..old.count())
            .map(|it| is_loose(&old, it, |token| map.new_of(token).is_some(), map, Side::Old))
            .collect();
        let loose_new: Vec<bool> = (0..new.count())
            .map(|it| is_loose(&new, it, |token| map.old_of(token).is_some(), map, Side::New))
            .collect();
        let mut moves = Moves {
            partners: vec![None; old.count()],
            ties: vec![false; old.count()],
            usurped: vec![false; old.count()],
            to_new: vec![NONE; map.old.count()],
            old,
            new,
        };
        if loose_old.contains(&true) {
            let index = Index::of(&moves.old, places(&loose_old));
            // Usurpers first: they free partners that the comparison assigned to lookalikes.
            moves.find_usurpers(map, &index);
            moves.pair(&index, &loose_old, &loose_new);
            moves.chain(&loose_old, &loose_new);
            moves.join(map);
        }
        moves
    }

    /// Returns the new token of each old token in a block that moved.
    pub(super) fn to_new(&self) -> &[u32] {
        &self.to_new
    }

    /// Returns the pairs of old and new blocks.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        self.partners.iter().enumerate().filter_map(|(old, new)| Some((old, (*new)?)))
    }

    /// Returns whether a lookalike stands where the block of this old token was.
    pub(super) fn is_usurped(&self, token: usize) -> bool {
        self.old.at(token).is_some_and(|it| self.usurped[it])
    }

    /// Returns whether the block of this old token has two equally good places.
    pub(super) fn is_tied(&self, token: usize) -> bool {
        self.old.at(token).is_some_and(|it| self.ties[it] && self.partners[it].is_none())
    }

    /// Finds blocks whose words the comparison assigned to the wrong one of two lookalikes: `a` and
    /// `c` were similar, one was deleted, and what is left resembles `c` more than `a`.
    fn find_usurpers(&mut self, map: &PairMap, loose: &Index) {
        for new in 0..self.new.count() {
            let Some(holder) = self.holder(map, new) else { continue };
            let (block, held) = (self.new.get(new), self.old.get(holder));
            let own = held.overlap(block);
            if !(OVERLAP_MIN..CERTAIN_MIN).contains(&own) {
                continue;
            }
            let others = loose.like(block).into_iter().filter(|it| *it != holder);
            let alike = others.filter(|it| self.old.get(*it).overlap(held) >= OVERLAP_MIN);
            let best = alike.map(|it| (self.old.get(it).overlap(block), it));
            let Some((overlap, other)) = best.max_by(|a, b| a.0.total_cmp(&b.0)) else { continue };
            // Clearly the other one: reassign. Nearly equal: nobody can tell, so both are tied.
            if overlap > own + TIE_MAX {
                self.usurped[holder] = true;
                self.partners[other] = Some(new);
            } else if overlap > own - TIE_MAX {
                self.usurped[holder] = true;
                self.ties[holder] = true;
                self.ties[other] = true;
            }
        }
    }

    /// Returns the old block from which most of a new block's words come.
    fn holder(&self, map: &PairMap, new: usize) -> Option<usize> {
        let tokens = self.new.get(new).tokens.clone();
        let mut counts: Vec<(usize, usize)> = Vec::new();
        for token in tokens.filter(|it| !map.new.is_space(*it)) {
            let Some(old) = map.old_of(token).and_then(|it| self.old.at(it)) else { continue };
            match counts.last_mut() {
                Some((block, count)) if *block == old => *count += 1,
                _ => counts.push((old, 1)),
            }
        }
        counts.into_iter().max_by_key(|it| it.1).map(|it| it.0)
    }

    /// Pairs blocks that are each other's best match.
    fn pair(&mut self, olds: &Index, loose_old: &[bool], loose_new: &[bool]) {
        let news = Index::of(&self.new, places(loose_new));
        for old in places(loose_old) {
            let block = self.old.get(old);
            if self.partners[old].is_some() || block.bytes < BLOCK_BYTES_MIN {
                continue;
            }
            let there =
                news.like(block).into_iter().map(|it| (block.overlap(self.new.get(it)), it));
            let Some(there) = choose(there) else { continue };
            let partner = self.new.get(there.best);
            let back = olds.like(partner).into_iter();
            let Some(back) = choose(back.map(|it| (partner.overlap(self.old.get(it)), it))) else {
                continue;
            };
            if there.overlap < OVERLAP_MIN {
                continue;
            }
            if back.best == old && there.lead >= LEAD_MIN && back.lead >= LEAD_MIN {
                self.partners[old] = Some(there.best);
            } else if there.lead < TIE_MAX || back.lead < TIE_MAX {
                self.ties[old] = true;
            }
        }
    }

    /// Pairs the neighbors of pairs, so that a section moves as a whole even if some of its blocks
    /// are short or not unique.
    fn chain(&mut self, loose_old: &[bool], loose_new: &[bool]) {
        let mut is_taken = vec![false; self.new.count()];
        self.partners.iter().flatten().for_each(|it| is_taken[*it] = true);
        // Forwards and then backwards, so that a pair extends to both sides.
        let forward: Vec<(usize, isize)> = (0..self.old.count()).map(|it| (it, 1)).collect();
        let backward = (0..self.old.count()).rev().map(|it| (it, -1));
        for (block, step) in forward.into_iter().chain(backward) {
            let Some(partner) = self.partners[block] else { continue };
            let (Some(old), Some(new)) =
                (block.checked_add_signed(step), partner.checked_add_signed(step))
            else {
                continue;
            };
            let is_free = old < loose_old.len()
                && new < loose_new.len()
                && loose_old[old]
                && loose_new[new]
                && self.partners[old].is_none()
                && !is_taken[new];
            if is_free && self.old.get(old).overlap(self.new.get(new)) >= OVERLAP_MIN {
                self.partners[old] = Some(new);
                is_taken[new] = true;
            }
        }
    }

    /// Maps the words inside of each pair.
    fn join(&mut self, map: &PairMap) {
        for (old, new) in self.partners.iter().enumerate() {
            let Some(new) = new else { continue };
            let (olds, news) =
                (self.old.get(old).tokens.clone(), self.new.get(*new).tokens.clone());
            for (from, to) in map.kept_between(&olds, &news) {
                self.to_new[from] = u32::try_from(to).unwrap_or(NONE);
            }
        }
    }
}

fn places(flags: &[bool]) -> impl Iterator<Item = usize> + '_ {
    flags.iter().enumerate().filter(|(_, it)| **it).map(|(place, _)| place)
}

/// Returns whether most of a block was left over by the comparison.
fn is_loose(
    blocks: &Blocks,
    block: usize,
    is_kept: impl Fn(usize) -> bool,
    map: &PairMap,
    side: Side,
) -> bool {
    let block = blocks.get(block);
    let tokens = map.tokens(side);
    let kept = block.tokens.clone().filter(|it| !tokens.is_space(*it) && is_kept(*it));
    let kept: usize = kept.map(|it| tokens.end(it) - tokens.start(it)).sum();
    kept * 2 < block.bytes
}

fn choose(found: impl Iterator<Item = (f64, usize)>) -> Option<Choice> {
    let mut all: Vec<(f64, usize)> = found.collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let (overlap, best) = *all.first()?;
    let lead = overlap - all.get(1).map_or(0.0, |it| it.0);
    Some(Choice { best, overlap, lead })
}
