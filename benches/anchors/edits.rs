//! Synthetic edits of real texts, with the exact new position of every word.

use std::ops::Range;

use crate::dice::Dice;
use crate::doc::{Block, Doc, Kind, Piece};

/// One edit: both texts, the span in the old one, and where its words are in the new one.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) old: String,
    pub(crate) new: String,
    pub(crate) span: Range<usize>,
    pub(crate) truth: Option<Truth>,
}

/// Where words are: from somewhere in what `outer` has more than `inner` to somewhere there.
#[derive(Clone, Debug)]
pub(crate) struct Truth {
    /// What certainly belongs to them.
    pub(crate) inner: Range<usize>,
    /// With what stands in place of words that were replaced at the ends; the same where all is
    /// certain.
    pub(crate) outer: Range<usize>,
}

impl Truth {
    /// Returns the range of all that are true that is nearest to another.
    pub(crate) fn nearest(&self, to: &Range<usize>) -> Range<usize> {
        to.start.clamp(self.outer.start, self.inner.start)
            ..to.end.clamp(self.inner.end, self.outer.end)
    }
}

/// A class of edits: its name, and what it does to a text around a block.
pub(crate) struct Class {
    pub(crate) name: &'static str,
    edit: fn(&mut Desk<'_>) -> Option<()>,
}

/// All classes, in the order of the table.
pub(crate) const CLASSES: &[Class] = &[
    Class { name: "reflowed", edit: |it| it.reflow() },
    Class { name: "20 % of the words replaced", edit: |it| it.replace_all(20) },
    Class { name: "40 % of the words replaced", edit: |it| it.replace_all(40) },
    Class { name: "section moved", edit: |it| it.move_section(0) },
    Class { name: "section moved, 20 % replaced", edit: |it| it.move_section(20) },
    Class { name: "paragraph moved, 20 % replaced", edit: |it| it.move_block(20) },
    Class { name: "blocks inserted, 30 % replaced", edit: |it| it.insert_blocks(30) },
    Class { name: "paragraph deleted", edit: |it| it.delete() },
    Class { name: "paragraph deleted, rest edited 20 %", edit: |it| it.delete_and_edit(20) },
    Class { name: "deleted, lookalike left elsewhere", edit: |it| it.lookalike(false, 0) },
    Class { name: "deleted, lookalike left beside", edit: |it| it.lookalike(true, 0) },
    Class { name: "deleted, lookalike elsewhere edited", edit: |it| it.lookalike(false, 10) },
    Class { name: "deleted, lookalike beside edited", edit: |it| it.lookalike(true, 10) },
    Class { name: "sentence deleted from its paragraph", edit: |it| it.delete_span() },
    Class { name: "exact duplicate removed", edit: |it| it.duplicate() },
    Class { name: "list turned into prose", edit: |it| it.list_to_prose() },
    Class { name: "heading renamed", edit: |it| it.rename_heading() },
    Class { name: "section split", edit: |it| it.split_section() },
    Class { name: "sections merged", edit: |it| it.merge_sections() },
    Class { name: "paragraph split", edit: |it| it.split_block() },
    Class { name: "paragraphs merged", edit: |it| it.merge_blocks() },
];

/// Real texts and the words in them, to make edits from.
#[derive(Debug)]
pub(crate) struct Corpus {
    docs: Vec<Doc>,
    words: Vec<String>,
}

impl Corpus {
    /// Takes the texts that have enough prose to be edited.
    pub(crate) fn new(texts: &[String]) -> Corpus {
        let docs: Vec<Doc> = texts.iter().map(|it| Doc::parse(it)).collect();
        let docs: Vec<Doc> = docs.into_iter().filter(|it| it.blocks.len() >= 8).collect();
        let pieces = docs.iter().flat_map(|it| &it.blocks).flat_map(|it| &it.pieces);
        let words = pieces.filter(|it| it.is_word()).map(|it| it.text.clone()).collect();
        Corpus { docs, words }
    }

    /// Returns how many texts there are.
    pub(crate) fn len(&self) -> usize {
        self.docs.len()
    }

    /// Makes a case of a class; none if the text that was drawn has no place for such an edit.
    pub(crate) fn case(&self, class: &Class, dice: &mut Dice) -> Option<Case> {
        let drawn = dice.pick(&self.docs)?.text();
        let old = Doc::parse(&drawn);
        let mut desk = Desk { corpus: self, new: old.clone(), old, block: 0, span: 0..0, dice };
        (class.edit)(&mut desk)?;
        let truth = desk.new.truth(&desk.span);
        let truth = truth.map(|it| Truth { outer: it.clone(), inner: it });
        let (old, new) = (desk.old.text(), desk.new.text());
        Some(Case { span: desk.span, truth, old, new })
    }
}

/// A text on which an edit is being made.
struct Desk<'a> {
    corpus: &'a Corpus,
    old: Doc,
    new: Doc,
    /// The block that the span is in, in the old text.
    block: usize,
    span: Range<usize>,
    dice: &'a mut Dice,
}

impl Desk<'_> {
    /// Chooses a block of a kind and a span of 3 to 61 words in it.
    fn choose(&mut self, is_fit: impl Fn(&Block) -> bool) -> Option<()> {
        let blocks = self.old.blocks.iter().enumerate();
        let fit: Vec<usize> = blocks.filter(|(_, it)| is_fit(it)).map(|(place, _)| place).collect();
        self.block = *self.dice.pick(&fit)?;
        self.choose_span()
    }

    fn choose_span(&mut self) -> Option<()> {
        let words = 3 + self.dice.below(59);
        self.span = self.old.span(self.block, words, self.dice)?;
        Some(())
    }

    fn choose_prose(&mut self) -> Option<()> {
        self.choose(|it| it.kind == Kind::Prose && it.words() >= 8)
    }

    fn word(&mut self) -> String {
        self.dice.pick(&self.corpus.words).cloned().unwrap_or_default()
    }

    fn replace(&mut self, block: usize, percent: usize) {
        for place in 0..self.new.blocks[block].pieces.len() {
            let is_word = self.new.blocks[block].pieces[place].is_word();
            if is_word && self.dice.hits(percent) {
                self.new.blocks[block].pieces[place].text = self.word();
            }
        }
    }

    fn replace_prose(&mut self, percent: usize) {
        for block in 0..self.new.blocks.len() {
            if matches!(self.new.blocks[block].kind, Kind::Prose | Kind::List) {
                self.replace(block, percent);
            }
        }
    }

    fn reflow(&mut self) -> Option<()> {
        self.choose_prose()?;
        for block in self.new.blocks.iter_mut().filter(|it| it.kind == Kind::Prose) {
            let mut column = 0;
            for piece in &mut block.pieces {
                if piece.is_space() {
                    let is_full = column > 52;
                    (if is_full { "\n" } else { " " }).clone_into(&mut piece.text);
                    column = if is_full { 0 } else { column + 1 };
                } else {
                    column += piece.text.len();
                }
            }
        }
        Some(())
    }

    fn replace_all(&mut self, percent: usize) -> Option<()> {
        self.choose_prose()?;
        self.replace_prose(percent);
        Some(())
    }

    fn move_section(&mut self, percent: usize) -> Option<()> {
        self.choose_prose()?;
        let section = self.new.section(self.block);
        let headings = self.new.headings();
        let mut borders: Vec<usize> =
            headings.into_iter().filter(|it| !(section.start..=section.end).contains(it)).collect();
        borders.push(self.new.blocks.len());
        borders.retain(|it| *it != section.end && *it != section.start);
        let to = *self.dice.pick(&borders)?;
        for block in section.clone() {
            self.replace(block, percent);
        }
        self.carry(section, to);
        Some(())
    }

    fn move_block(&mut self, percent: usize) -> Option<()> {
        self.choose_prose()?;
        let to = self.dice.below(self.new.blocks.len() + 1);
        if to.abs_diff(self.block) < 2 {
            return None;
        }
        self.replace(self.block, percent);
        self.carry(self.block..self.block + 1, to);
        Some(())
    }

    fn carry(&mut self, blocks: Range<usize>, to: usize) {
        let count = blocks.len();
        let carried: Vec<Block> = self.new.blocks.drain(blocks.clone()).collect();
        let to = if to > blocks.start { to - count } else { to };
        self.new.blocks.splice(to..to, carried);
    }

    /// Returns a block of another text, as something new.
    fn foreign(&mut self) -> Option<Block> {
        let corpus = self.corpus;
        let doc = self.dice.pick(&corpus.docs)?;
        let mut block = self.dice.pick(&doc.blocks)?.clone();
        block.pieces.iter_mut().for_each(|it| it.origin = None);
        Some(block)
    }

    fn insert_blocks(&mut self, percent: usize) -> Option<()> {
        self.choose_prose()?;
        self.replace_prose(percent);
        for place in (0..self.new.blocks.len()).rev() {
            if self.dice.hits(percent) {
                let block = self.foreign()?;
                self.new.blocks.insert(place, block);
            }
        }
        Some(())
    }

    fn delete(&mut self) -> Option<()> {
        self.choose_prose()?;
        self.new.blocks.remove(self.block);
        Some(())
    }

    fn delete_and_edit(&mut self, percent: usize) -> Option<()> {
        self.choose_prose()?;
        self.replace_prose(percent);
        self.new.blocks.remove(self.block);
        Some(())
    }

    /// The old text holds a twin of the block with a tenth of its words replaced; the block goes.
    fn lookalike(&mut self, is_beside: bool, percent: usize) -> Option<()> {
        self.choose(|it| it.kind == Kind::Prose && it.words() >= 12)?;
        let mut twin = self.old.blocks[self.block].clone();
        let mut changed = 0;
        for piece in twin.pieces.iter_mut().filter(|it| it.is_word()) {
            if self.dice.hits(10) || changed == 0 {
                piece.text = self.dice.pick(&self.corpus.words)?.clone();
                changed += 1;
            }
        }
        let at = if is_beside {
            self.block + self.dice.below(2)
        } else {
            self.dice.below(self.old.blocks.len() + 1)
        };
        if !is_beside && at.abs_diff(self.block) < 3 {
            return None;
        }
        self.old.blocks.insert(at, twin);
        self.block += usize::from(at <= self.block);
        self.old = Doc::parse(&self.old.text());
        self.new = self.old.clone();
        self.choose_span()?;
        self.replace(at, percent);
        self.new.blocks.remove(self.block);
        Some(())
    }

    /// Deletes a sentence; the rest of its paragraph stays.
    fn delete_span(&mut self) -> Option<()> {
        self.choose(|it| it.kind == Kind::Prose && it.words() >= 24)?;
        let pieces = &self.old.blocks[self.block].pieces;
        let ends: Vec<usize> = (0..pieces.len().saturating_sub(1))
            .filter(|it| pieces[*it].text == "." && pieces[it + 1].is_space())
            .collect();
        let place = self.dice.below(ends.len());
        let end = *ends.get(place)?;
        let from = if place == 0 { 0 } else { ends[place - 1] + 2 };
        let to = (end + 2).min(pieces.len());
        if to - from < 8 {
            return None;
        }
        let origin = |at: usize| pieces[at].origin.clone();
        self.span = origin(from)?.start..origin(end)?.end;
        self.new.blocks[self.block].pieces.drain(from..to);
        Some(())
    }

    /// The old text holds the block twice; the copy before it goes.
    fn duplicate(&mut self) -> Option<()> {
        self.choose_prose()?;
        let at = self.dice.below(self.block + 1);
        if self.block - at < 2 {
            return None;
        }
        let copy = self.old.blocks[self.block].clone();
        self.old.blocks.insert(at, copy);
        self.block += 1;
        self.old = Doc::parse(&self.old.text());
        self.new = self.old.clone();
        self.choose_span()?;
        self.new.blocks.remove(at);
        Some(())
    }

    fn list_to_prose(&mut self) -> Option<()> {
        self.choose(|it| it.kind == Kind::List && it.words() >= 8)?;
        let mut is_start = true;
        let mut pieces = Vec::new();
        for piece in self.new.blocks[self.block].pieces.drain(..) {
            if piece.text.contains('\n') {
                is_start = true;
                pieces.push(Piece::fresh("; "));
            } else if is_start && (piece.is_space() || !piece.is_word()) {
                // The marker of the item.
            } else {
                is_start = false;
                pieces.push(piece);
            }
        }
        self.new.blocks[self.block].pieces = pieces;
        self.new.blocks[self.block].kind = Kind::Prose;
        Some(())
    }

    /// Half of the cases are about the heading itself, half about the text below it.
    fn rename_heading(&mut self) -> Option<()> {
        let is_heading = self.dice.hits(50);
        if is_heading {
            self.choose(|it| it.kind == Kind::Heading && it.words() >= 2)?;
        } else {
            self.choose_prose()?;
        }
        let heading = self.new.section(self.block).start;
        if self.new.blocks[heading].kind != Kind::Heading {
            return None;
        }
        self.replace(heading, 60);
        Some(())
    }

    fn split_section(&mut self) -> Option<()> {
        self.choose_prose()?;
        let mut intro = self.foreign()?;
        intro.kind = Kind::Prose;
        let heading = format!("### {} {}", self.word(), self.word());
        let pieces = vec![Piece::fresh(&heading)];
        let at = self.block + self.dice.below(2);
        self.new.blocks.insert(at, intro);
        self.new.blocks.insert(at, Block { kind: Kind::Heading, pieces });
        Some(())
    }

    fn merge_sections(&mut self) -> Option<()> {
        self.choose_prose()?;
        let section = self.new.section(self.block);
        if self.new.blocks[section.start].kind != Kind::Heading {
            return None;
        }
        self.new.blocks.remove(section.start);
        Some(())
    }

    fn split_block(&mut self) -> Option<()> {
        self.choose(|it| it.kind == Kind::Prose && it.words() >= 20)?;
        let pieces = &mut self.new.blocks[self.block].pieces;
        let spaces: Vec<usize> =
            (1..pieces.len() - 1).filter(|it| pieces[*it].is_space()).collect();
        let at = *self.dice.pick(&spaces)?;
        let tail = pieces.split_off(at).split_off(1);
        self.new.blocks.insert(self.block + 1, Block { kind: Kind::Prose, pieces: tail });
        Some(())
    }

    fn merge_blocks(&mut self) -> Option<()> {
        self.choose_prose()?;
        let next = self.block + 1;
        if self.new.blocks.get(next)?.kind != Kind::Prose {
            return None;
        }
        let tail = self.new.blocks.remove(next);
        let pieces = &mut self.new.blocks[self.block].pieces;
        pieces.push(Piece::fresh(" "));
        pieces.extend(tail.pieces);
        Some(())
    }
}
