//! A Markdown text in pieces that remember their origin, so that the correct placement after every
//! edit is known.

use std::ops::Range;

use crate::dice::Dice;

/// A word, a run of white space, or one other character.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) text: String,
    /// The bytes of the old text that it is or stands for; none if it is new.
    pub(crate) origin: Option<Range<usize>>,
}

impl Piece {
    /// Returns a piece that stands for nothing old.
    pub(crate) fn fresh(text: &str) -> Piece {
        Piece { text: text.to_owned(), origin: None }
    }

    /// Returns whether it is a word.
    pub(crate) fn is_word(&self) -> bool {
        self.text.chars().next().is_some_and(char::is_alphanumeric)
    }

    /// Returns whether it is white space.
    pub(crate) fn is_space(&self) -> bool {
        self.text.trim().is_empty()
    }
}

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Prose,
    List,
    Heading,
    Other,
}

/// What stands between two blank lines; a fence of code counts as one block.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) kind: Kind,
    pub(crate) pieces: Vec<Piece>,
}

impl Block {
    /// Returns how many words it has.
    pub(crate) fn words(&self) -> usize {
        self.pieces.iter().filter(|it| it.is_word()).count()
    }
}

/// A text as its blocks.
#[derive(Clone, Debug)]
pub(crate) struct Doc {
    pub(crate) blocks: Vec<Block>,
}

impl Doc {
    /// Splits a text at its blank lines.
    pub(crate) fn parse(text: &str) -> Doc {
        let mut blocks = Vec::new();
        let mut start = None;
        let (mut end, mut at, mut is_fenced) = (0, 0, false);
        for line in text.split_inclusive('\n') {
            let bare = line.trim();
            if bare.starts_with("```") {
                is_fenced = !is_fenced;
            }
            if bare.is_empty() && !is_fenced {
                if let Some(from) = start.take() {
                    blocks.push(block(text, from..end));
                }
            } else {
                start.get_or_insert(at);
                end = at + line.trim_end().len();
            }
            at += line.len();
        }
        if let Some(from) = start {
            blocks.push(block(text, from..end));
        }
        Doc { blocks }
    }

    /// Writes the text.
    pub(crate) fn text(&self) -> String {
        let blocks = self.blocks.iter();
        let texts = blocks.map(|it| it.pieces.iter().map(|it| it.text.as_str()).collect());
        texts.collect::<Vec<String>>().join("\n\n") + "\n"
    }

    /// Returns where the words of an old span are now: from the first to the last piece that
    /// stands for one of them.
    pub(crate) fn truth(&self, span: &Range<usize>) -> Option<Range<usize>> {
        let mut at = 0;
        let mut found: Option<Range<usize>> = None;
        for (number, block) in self.blocks.iter().enumerate() {
            at += if number > 0 { 2 } else { 0 };
            for piece in &block.pieces {
                let end = at + piece.text.len();
                let is_in = piece
                    .origin
                    .as_ref()
                    .is_some_and(|origin| origin.start < span.end && span.start < origin.end);
                if is_in && !piece.is_space() {
                    let start = found.as_ref().map_or(at, |it| it.start);
                    found = Some(start..end);
                }
                at = end;
            }
        }
        found
    }

    /// Returns the places of the headings.
    pub(crate) fn headings(&self) -> Vec<usize> {
        let blocks = self.blocks.iter().enumerate();
        blocks.filter(|(_, it)| it.kind == Kind::Heading).map(|(place, _)| place).collect()
    }

    /// Returns the section that a block is in: its heading and all up to the next one.
    pub(crate) fn section(&self, block: usize) -> Range<usize> {
        let headings = self.headings();
        let start = headings.iter().rev().find(|it| **it <= block).copied().unwrap_or(0);
        let end = headings.iter().find(|it| **it > block).copied().unwrap_or(self.blocks.len());
        start..end
    }

    /// Returns some consecutive words of a block, as bytes of the text that it was parsed from.
    pub(crate) fn span(&self, block: usize, words: usize, dice: &mut Dice) -> Option<Range<usize>> {
        let pieces = self.blocks[block].pieces.iter();
        let all: Vec<Range<usize>> =
            pieces.filter(|it| it.is_word()).filter_map(|it| it.origin.clone()).collect();
        let count = words.min(all.len());
        if count == 0 {
            return None;
        }
        let first = dice.below(all.len() - count + 1);
        Some(all[first].start..all[first + count - 1].end)
    }
}

fn block(text: &str, range: Range<usize>) -> Block {
    let slice = &text[range.clone()];
    let is_item = |line: &str| {
        let line = line.trim_start();
        line.starts_with("- ") || line.starts_with("* ") || line.starts_with("1. ")
    };
    let kind = if slice.starts_with('#') {
        Kind::Heading
    } else if slice.lines().all(is_item) {
        Kind::List
    } else if slice.starts_with(|c: char| c.is_alphabetic()) && !slice.contains("```") {
        Kind::Prose
    } else {
        Kind::Other
    };
    let mut pieces = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let rest = &text[at..range.end];
        let first = rest.chars().next().map_or(' ', |it| it);
        let length = if first.is_alphanumeric() {
            rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len())
        } else if first.is_whitespace() {
            rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let piece = Piece { text: rest[..length].to_owned(), origin: Some(at..at + length) };
        pieces.push(piece);
        at += length;
    }
    Block { kind, pieces }
}
