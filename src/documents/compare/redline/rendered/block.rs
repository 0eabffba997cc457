//! A block of a rendered text, and how a part of it looks.

use std::ops::Range;

use crate::documents::compare::redline::Line;

/// The kind of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockSort {
    /// A heading, 1 to 6.
    Heading(u8),
    /// A paragraph.
    Paragraph,
    /// An item of a list.
    Item,
    /// A paragraph of a quotation.
    Quote,
    /// A block of code.
    Code,
    /// A row of a table.
    TableRow,
    /// HTML that is shown as text.
    Html,
    /// The YAML block at the top.
    FrontMatter,
    /// A thematic break.
    Rule,
    /// A line of the source, of which the rendered text does not show everything.
    Source,
}

/// A part of a block's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The text.
    pub text: String,
    /// Its formatting.
    pub style: Style,
    /// Which of the two texts contains it.
    pub mark: Mark,
}

/// Which of the two texts contains a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Both.
    Same,
    /// Only the old one.
    Gone,
    /// Only the new one.
    Come,
}

/// The formatting of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Emphasis.
    pub is_emphasis: bool,
    /// Strong emphasis.
    pub is_strong: bool,
    /// Code.
    pub is_code: bool,
    /// Struck through.
    pub is_struck: bool,
    /// The text of a link.
    pub is_link: bool,
    /// The target of a link or image.
    pub is_target: bool,
}

/// A block of one text.
pub(super) struct Block {
    pub(super) sort: BlockSort,
    pub(super) depth: usize,
    pub(super) marker: String,
    pub(super) text: String,
    /// Where each formatting starts, ascending.
    pub(super) styles: Vec<(usize, Style)>,
    /// Tags and comments inside of and before it.
    pub(super) unseen: String,
    /// Whether it is a comment, which readers do not see.
    pub(super) is_comment: bool,
    /// The bytes of its text that it was made of.
    pub(super) source: Range<usize>,
}

/// A part of one block's text.
pub(super) struct Marked {
    pub(super) range: Range<usize>,
    pub(super) mark: Mark,
}

impl Block {
    /// Returns an empty block.
    pub(super) fn new(
        sort: BlockSort,
        depth: usize,
        marker: String,
        source: Range<usize>,
    ) -> Block {
        let (text, styles, unseen) = (String::new(), Vec::new(), String::new());
        Block { sort, depth, marker, text, styles, unseen, is_comment: false, source }
    }

    /// Returns a line of a source.
    pub(super) fn of_source(text: &str, line: &Line) -> Block {
        let source = line.range();
        let text = text[source.clone()].to_owned();
        Block { text, ..Block::new(BlockSort::Source, 0, String::new(), source) }
    }

    /// Writes a part of the text, split where the formatting changes.
    pub(super) fn spans(&self, part: &Marked, spans: &mut Vec<Span>) {
        let mut at = part.range.start;
        let mut next = self.styles.partition_point(|it| it.0 <= at);
        while at < part.range.end {
            let style = next.checked_sub(1).map_or(Style::default(), |it| self.styles[it].1);
            let end = self.styles.get(next).map_or(usize::MAX, |it| it.0).min(part.range.end);
            let text = &self.text[at..end];
            match spans.last_mut() {
                Some(last) if last.style == style && last.mark == part.mark => {
                    last.text.push_str(text);
                }
                _ => spans.push(Span { text: text.to_owned(), style, mark: part.mark }),
            }
            (at, next) = (end, next + 1);
        }
    }
}
