//! The blocks of two texts (paragraphs, headings, list items) and their similarity by words.

use std::collections::HashMap;
use std::ops::Range;

use crate::documents::anchor::map::PairMap;
use crate::documents::anchor::token::Sort;

/// Only words contained in at most this many blocks select candidates: frequent words say nothing,
/// and the limit keeps hostile texts cheap.
const SHARERS_MAX: usize = 24;
/// Most candidates compared with a block.
const CANDIDATES_MAX: usize = 12;

/// A block: its tokens without surrounding whitespace, and its words as a bag.
#[derive(Debug)]
pub(super) struct Block {
    /// The token range.
    pub(super) tokens: Range<usize>,
    /// For each word, by key: its length times its occurrences, in bytes. Ascending by key.
    bag: Vec<(u32, u32)>,
    /// Bytes that are not whitespace.
    pub(super) bytes: usize,
}

/// One of the two texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Old,
    New,
}

/// The blocks of one text, in order.
#[derive(Debug)]
pub(super) struct Blocks(Vec<Block>);

impl Blocks {
    /// Splits one text of a pair.
    pub(super) fn of(map: &PairMap, side: Side) -> Blocks {
        let tokens = map.tokens(side);
        let mut blocks = Vec::new();
        let mut start = 0;
        for token in 0..=tokens.count() {
            let is_end = token == tokens.count() || tokens.sort(token) == Sort::Break;
            if is_end && start < token {
                blocks.push(Block::of(map, side, start..token));
            }
            if is_end {
                start = token + 1;
            }
        }
        Blocks(blocks)
    }

    /// Returns the number of blocks.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns a block.
    pub(super) fn get(&self, block: usize) -> &Block {
        &self.0[block]
    }

    /// Returns the block that contains a token, or the one before it if it lies between two.
    pub(super) fn at(&self, token: usize) -> Option<usize> {
        self.0.partition_point(|it| it.tokens.start <= token).checked_sub(1)
    }
}

impl Block {
    fn of(map: &PairMap, side: Side, range: Range<usize>) -> Block {
        let tokens = map.tokens(side);
        let mut sums: HashMap<u32, u32> = HashMap::new();
        let mut bytes = 0;
        for token in range.clone().filter(|it| !tokens.is_space(*it)) {
            let length = tokens.end(token) - tokens.start(token);
            bytes += length;
            *sums.entry(map.key(side, token)).or_default() +=
                u32::try_from(length).unwrap_or(u32::MAX);
        }
        let mut bag: Vec<(u32, u32)> = sums.into_iter().collect();
        bag.sort_unstable();
        Block { tokens: range, bag, bytes }
    }

    /// Returns the similarity of two blocks from 0 to 1: the Dice coefficient, weighted by the
    /// bytes of their words.
    pub(super) fn overlap(&self, other: &Block) -> f64 {
        // Both bags are sorted by key, so one merge finds the words in common.
        let (mut left, mut right) = (self.bag.iter().peekable(), other.bag.iter().peekable());
        let mut shared = 0_u64;
        while let (Some((a, a_bytes)), Some((b, b_bytes))) = (left.peek(), right.peek()) {
            match a.cmp(b) {
                std::cmp::Ordering::Less => drop(left.next()),
                std::cmp::Ordering::Greater => drop(right.next()),
                std::cmp::Ordering::Equal => {
                    shared += u64::from(*a_bytes.min(b_bytes));
                    left.next();
                    right.next();
                }
            }
        }
        #[allow(clippy::cast_precision_loss, reason = "both are far below 2^52")]
        let overlap = 2.0 * shared as f64 / (self.bytes + other.bytes).max(1) as f64;
        overlap
    }
}

/// Finds blocks that share rare words with a given one.
#[derive(Debug)]
pub(super) struct Index(HashMap<u32, Vec<u32>>);

impl Index {
    /// Indexes the chosen blocks.
    pub(super) fn of(blocks: &Blocks, chosen: impl Iterator<Item = usize>) -> Index {
        let mut words: HashMap<u32, Vec<u32>> = HashMap::new();
        for block in chosen {
            for (word, _) in &blocks.get(block).bag {
                words.entry(*word).or_default().push(u32::try_from(block).unwrap_or(u32::MAX));
            }
        }
        Index(words)
    }

    /// Returns the blocks that share the most bytes of rare words with the given one.
    pub(super) fn like(&self, block: &Block) -> Vec<usize> {
        let mut sums: HashMap<u32, u64> = HashMap::new();
        for (word, bytes) in &block.bag {
            let Some(sharers) = self.0.get(word).filter(|it| it.len() <= SHARERS_MAX) else {
                continue;
            };
            sharers.iter().for_each(|it| *sums.entry(*it).or_default() += u64::from(*bytes));
        }
        let mut found: Vec<(u64, u32)> = sums.into_iter().map(|(it, sum)| (sum, it)).collect();
        found.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        found.truncate(CANDIDATES_MAX);
        found.into_iter().map(|(_, it)| it as usize).collect()
    }
}
