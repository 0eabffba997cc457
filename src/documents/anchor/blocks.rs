//! The blocks of two texts: paragraphs, headings, items of lists; what they share, by words.

use std::collections::HashMap;
use std::ops::Range;

use crate::documents::anchor::map::PairMap;
use crate::documents::anchor::token::Sort;

/// Blocks that share a word are compared if no more than this many have the word: what occurs
/// everywhere says nothing, and a hostile text costs no more than a large one.
const SHARERS_MAX: usize = 24;
/// Most blocks that one is compared with.
const CANDIDATES_MAX: usize = 12;

/// One block: its tokens without the white space around it, and its words as a bag.
#[derive(Debug)]
pub(super) struct Block {
    /// The tokens, from the first to behind the last.
    pub(super) tokens: Range<usize>,
    /// Each word with its bytes times its occurrences, by the word's number.
    bag: Vec<(u32, u32)>,
    /// Bytes that are not white space.
    pub(super) bytes: usize,
}

/// Which of the two texts.
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

    /// Returns how many there are.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns one.
    pub(super) fn get(&self, block: usize) -> &Block {
        &self.0[block]
    }

    /// Returns the block that holds a token, or the one before it if it is between two.
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

    /// Returns how much two blocks share, from 0 to 1: the bytes of the words that both have,
    /// twice, through the bytes of both (the coefficient of Dice).
    pub(super) fn overlap(&self, other: &Block) -> f64 {
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

/// Finds the blocks that share rare words with another.
#[derive(Debug)]
pub(super) struct Index(HashMap<u32, Vec<u32>>);

impl Index {
    /// Takes in some of the blocks.
    pub(super) fn of(blocks: &Blocks, chosen: impl Iterator<Item = usize>) -> Index {
        let mut words: HashMap<u32, Vec<u32>> = HashMap::new();
        for block in chosen {
            for (word, _) in &blocks.get(block).bag {
                words.entry(*word).or_default().push(u32::try_from(block).unwrap_or(u32::MAX));
            }
        }
        Index(words)
    }

    /// Returns the blocks that share the most bytes of rare words with one.
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
