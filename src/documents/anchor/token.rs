//! Splits text into tokens for comparison.
//!
//! **Invariant:** tokens tile the text; every boundary is a character boundary, and a combining
//! character is never separated from its base.

use std::iter::Peekable;
use std::ops::Range;
use std::str::CharIndices;

use unicode_width::UnicodeWidthChar as _;

/// Farthest that the ends of a sentence are searched, in tokens.
const SENTENCE_TOKENS_MAX: usize = 4_000;

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// Letters and digits, or one character of a script without spaces.
    Word,
    /// Other whitespace. All of it counts as equal, so that reflowing a paragraph or changing line
    /// endings makes no difference.
    Space,
    /// Whitespace that may separate blocks: it contains a blank line, or precedes a list item,
    /// heading, quotation or table row.
    Break,
    /// Any other single character.
    Mark,
}

/// The tokens of one text: token `i` is `starts[i]..starts[i + 1]`.
#[derive(Debug)]
pub(super) struct Tokens {
    starts: Vec<u32>,
    sorts: Vec<Sort>,
}

impl Tokens {
    /// Splits a text. A Source has at most 8 MiB, so offsets fit into 32 bits.
    pub(super) fn of(text: &str) -> Tokens {
        let mut tokens = Tokens { starts: Vec::new(), sorts: Vec::new() };
        let mut chars = text.char_indices().peekable();
        while let Some((start, first)) = chars.next() {
            let sort = take_token(first, &mut chars);
            tokens.starts.push(narrow(start));
            tokens.sorts.push(sort);
        }
        tokens.starts.push(narrow(text.len()));
        tokens
    }

    pub(super) fn count(&self) -> usize {
        self.sorts.len()
    }

    pub(super) fn start(&self, token: usize) -> usize {
        self.starts[token] as usize
    }

    pub(super) fn end(&self, token: usize) -> usize {
        self.starts[token + 1] as usize
    }

    pub(super) fn sort(&self, token: usize) -> Sort {
        self.sorts[token]
    }

    pub(super) fn is_space(&self, token: usize) -> bool {
        matches!(self.sorts[token], Sort::Space | Sort::Break)
    }

    /// Returns the tokens of the sentences around a range, up to a limit on either side.
    pub(super) fn sentences_around(&self, text: &str, tokens: Range<usize>) -> Range<usize> {
        let is_inner = |token: &usize| !self.is_end(text, *token);
        let before = (0..tokens.start).rev().take(SENTENCE_TOKENS_MAX).take_while(is_inner);
        let after = (tokens.end..self.count()).take(SENTENCE_TOKENS_MAX).take_while(is_inner);
        tokens.start - before.count()..tokens.end + after.count()
    }

    /// Returns whether a token ends a sentence or block.
    pub(super) fn is_end(&self, text: &str, token: usize) -> bool {
        match self.sorts[token] {
            Sort::Break => true,
            Sort::Space | Sort::Word => false,
            Sort::Mark => match &text[self.start(token)..self.end(token)] {
                "." | "!" | "?" => token + 1 == self.count() || self.is_space(token + 1),
                "。" | "！" | "？" => true,
                _ => false,
            },
        }
    }

    /// Returns the token that contains a byte, which must be inside of the text.
    pub(super) fn at(&self, byte: usize) -> usize {
        self.starts.partition_point(|start| *start as usize <= byte) - 1
    }

    /// Returns the text by which a token is compared.
    pub(super) fn key<'t>(&self, text: &'t str, token: usize) -> &'t str {
        match self.sorts[token] {
            Sort::Space => " ",
            Sort::Break => "\n\n",
            Sort::Word | Sort::Mark => &text[self.start(token)..self.end(token)],
        }
    }
}

fn narrow(offset: usize) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}

fn take_token(first: char, chars: &mut Peekable<CharIndices<'_>>) -> Sort {
    if first.is_whitespace() {
        let mut feeds = usize::from(first == '\n');
        while let Some((_, c)) = chars.next_if(|(_, c)| c.is_whitespace()) {
            feeds += usize::from(c == '\n');
        }
        let starts_block = |c: char| matches!(c, '-' | '*' | '+' | '#' | '>' | '|' | '0'..='9');
        let is_block = feeds > 0 && chars.peek().is_some_and(|(_, c)| starts_block(*c));
        return if feeds > 1 || is_block { Sort::Break } else { Sort::Space };
    }
    if !first.is_alphanumeric() && first != '_' {
        take_attached(first, chars);
        return Sort::Mark;
    }
    take_attached(first, chars);
    if !is_spaceless(first) {
        let is_inner = |c: char| (c.is_alphanumeric() || c == '_') && !is_spaceless(c);
        while let Some((_, c)) = chars.next_if(|(_, c)| is_inner(*c)) {
            take_attached(c, chars);
        }
    }
    Sort::Word
}

/// Consumes what is attached to a character: combining marks, variation selectors, skin tones,
/// anything after a zero-width joiner, and the second half of a flag.
fn take_attached(base: char, chars: &mut Peekable<CharIndices<'_>>) {
    if is_regional(base) {
        chars.next_if(|(_, c)| is_regional(*c));
    }
    while let Some((_, c)) = chars.next_if(|(_, c)| is_attached(*c)) {
        if c == '\u{200d}' {
            chars.next_if(|(_, next)| !next.is_whitespace() && !next.is_control());
        }
    }
}

fn is_attached(c: char) -> bool {
    let is_tone = ('\u{1f3fb}'..='\u{1f3ff}').contains(&c);
    is_tone || (c != '\u{feff}' && !c.is_whitespace() && c.width() == Some(0))
}

fn is_regional(c: char) -> bool {
    ('\u{1f1e6}'..='\u{1f1ff}').contains(&c)
}

/// Returns whether a letter's script is written without spaces: Han, kana, Bopomofo, Yi, Thai, Lao,
/// Myanmar, Khmer and Tibetan.
fn is_spaceless(c: char) -> bool {
    matches!(u32::from(c),
        0x0e00..=0x0fff | 0x1000..=0x109f | 0x1780..=0x17ff
        | 0x2e80..=0x2fdf | 0x3005..=0x3007 | 0x3021..=0x31ff | 0x3400..=0x4dbf
        | 0x4e00..=0x9fff | 0xa000..=0xa4cf | 0xf900..=0xfaff | 0xff66..=0xff9f
        | 0x1b000..=0x1b16f | 0x20000..=0x3ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<&str> {
        let tokens = Tokens::of(text);
        (0..tokens.count()).map(|it| &text[tokens.start(it)..tokens.end(it)]).collect()
    }

    #[test]
    fn words_spaces_and_marks_are_tokens() {
        assert_eq!(split("It's a_b \n c."), ["It", "'", "s", " ", "a_b", " \n ", "c", "."]);
        assert_eq!(split(""), Vec::<&str>::new());
        assert_eq!(split("日本語のtext"), ["日", "本", "語", "の", "text"]);
        assert_eq!(split("한국어 글"), ["한국어", " ", "글"]);
        assert_eq!(split("\u{feff}# a"), ["\u{feff}", "#", " ", "a"]);
    }

    #[test]
    fn a_mark_stays_with_its_base() {
        assert_eq!(split("cafe\u{301} x"), ["cafe\u{301}", " ", "x"]);
        assert_eq!(split("か\u{3099}な"), ["か\u{3099}", "な"]);
        assert_eq!(split("👩‍👩‍👧👍🏽🇩🇪🇫🇷"), ["👩‍👩‍👧", "👍🏽", "🇩🇪", "🇫🇷"]);
    }

    #[test]
    fn reflow_and_line_ends_do_not_count() {
        let keys = |text: &str| -> Vec<String> {
            let tokens = Tokens::of(text);
            (0..tokens.count()).map(|it| tokens.key(text, it).to_owned()).collect()
        };
        assert_eq!(keys("a b\r\nc\r\n\r\nd"), keys("a\nb c\n\nd"));
        assert_ne!(keys("a\nb"), keys("a\n\nb"));
    }

    #[test]
    fn every_byte_has_its_token() {
        let text = "ab  é日.";
        let tokens = Tokens::of(text);
        for byte in 0..text.len() {
            let token = tokens.at(byte);
            assert!(tokens.start(token) <= byte && byte < tokens.end(token));
        }
    }
}
