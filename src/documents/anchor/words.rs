//! The tokens of a text, for showing what changed in it.

use std::ops::Range;

use crate::documents::anchor::blocks::Side;
use crate::documents::anchor::map::PairMap;
use crate::documents::anchor::token::Tokens;

/// A text split into words, marks and whitespace, as for anchors.
pub(in crate::documents) struct Words<'t> {
    text: &'t str,
    tokens: Tokens,
}

impl<'t> Words<'t> {
    /// Splits a text.
    pub(in crate::documents) fn of(text: &'t str) -> Words<'t> {
        Words { text, tokens: Tokens::of(text) }
    }

    /// Returns the number of tokens.
    pub(in crate::documents) fn count(&self) -> usize {
        self.tokens.count()
    }

    /// Returns the byte range of a token.
    pub(in crate::documents) fn range(&self, token: usize) -> Range<usize> {
        self.tokens.start(token)..self.tokens.end(token)
    }

    /// Returns the text of a token.
    pub(in crate::documents) fn text(&self, token: usize) -> &'t str {
        &self.text[self.range(token)]
    }

    /// Returns whether a token is whitespace.
    pub(in crate::documents) fn is_space(&self, token: usize) -> bool {
        self.tokens.is_space(token)
    }

    /// Returns how many bytes of some tokens are not whitespace.
    pub(in crate::documents) fn bytes(&self, tokens: Range<usize>) -> usize {
        tokens.filter(|it| !self.is_space(*it)).map(|it| self.range(it).len()).sum()
    }
}

impl PairMap {
    /// Returns the blocks that moved, as byte ranges of the old and new text.
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
