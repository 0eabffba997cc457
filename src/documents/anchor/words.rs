//! The tokens of a text for those who show what changed in it.

use std::ops::Range;

use crate::documents::anchor::blocks::Side;
use crate::documents::anchor::map::PairMap;
use crate::documents::anchor::token::Tokens;

/// A text as words, marks and white space, as anchors split it.
pub(in crate::documents) struct Words<'t> {
    text: &'t str,
    tokens: Tokens,
}

impl<'t> Words<'t> {
    /// Splits a text.
    pub(in crate::documents) fn of(text: &'t str) -> Words<'t> {
        Words { text, tokens: Tokens::of(text) }
    }

    /// Returns how many there are.
    pub(in crate::documents) fn count(&self) -> usize {
        self.tokens.count()
    }

    /// Returns the bytes of one.
    pub(in crate::documents) fn range(&self, token: usize) -> Range<usize> {
        self.tokens.start(token)..self.tokens.end(token)
    }

    /// Returns the text of one.
    pub(in crate::documents) fn text(&self, token: usize) -> &'t str {
        &self.text[self.range(token)]
    }

    /// Returns whether one is white space.
    pub(in crate::documents) fn is_space(&self, token: usize) -> bool {
        self.tokens.is_space(token)
    }

    /// Returns the bytes of some of them that are not white space.
    pub(in crate::documents) fn bytes(&self, tokens: Range<usize>) -> usize {
        tokens.filter(|it| !self.is_space(*it)).map(|it| self.range(it).len()).sum()
    }
}

impl PairMap {
    /// Returns the blocks that went elsewhere, as bytes of the old and of the new text.
    pub(in crate::documents) fn moved_blocks(&self) -> Vec<(Range<usize>, Range<usize>)> {
        let bytes = |tokens: &Tokens, range: &Range<usize>| {
            tokens.start(range.start)..tokens.end(range.end - 1)
        };
        let moves = self.moves();
        let pairs = moves.pairs().map(|(old, new)| {
            let (old, new) = (&moves.old.get(old).tokens, &moves.new.get(new).tokens);
            (bytes(self.tokens(Side::Old), old), bytes(self.tokens(Side::New), new))
        });
        pairs.collect()
    }
}
