//! The difference of two Markdown texts as rendered: block by block, and word by word inside of
//! paired blocks.
//!
//! **Invariant:** nothing of the source is omitted except markup, and links show their targets;
//! invisible changes are reported, and comments are shown where they differ.

mod html;
mod merge;

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Parser, Tag, TagEnd};

use crate::documents::compare::diff::changes_of;
use crate::documents::compare::redline::rendered::merge::{Marked, merge};
use crate::documents::compare::redline::words::{self, Part};
use crate::documents::compare::redline::{Lines, Piece, Row, RowSort, compare};
use crate::documents::sources::html::HtmlBlock;
use crate::documents::sources::plain::{alert_title, dialect};

/// Larger texts (in bytes, both together) are only compared as source.
const BYTES_MAX: usize = 1024 * 1024;

/// The difference as rendered.
#[derive(Debug, PartialEq, Eq)]
pub struct Rendered {
    /// All blocks.
    pub rows: Vec<RenderedRow>,
    /// Whether some blocks were not compared word by word.
    pub is_coarse: bool,
}

/// A block of one text, or a pair of corresponding blocks shown as one.
#[derive(Debug, PartialEq, Eq)]
pub struct RenderedRow {
    /// What happened to it.
    pub sort: RowSort,
    /// Its kind.
    pub block: BlockSort,
    /// Its old kind, if different.
    pub was: Option<BlockSort>,
    /// The number of lists and quotations around it.
    pub depth: usize,
    /// The marker of a list item.
    pub marker: String,
    /// Its text.
    pub spans: Vec<Span>,
    /// Whether only its markup changed.
    pub is_markup_only: bool,
}

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
struct Block {
    sort: BlockSort,
    depth: usize,
    marker: String,
    text: String,
    /// Where each formatting starts, ascending.
    styles: Vec<(usize, Style)>,
    /// Tags and comments inside of and before it.
    unseen: String,
    /// Whether it is a comment, which readers do not see.
    is_comment: bool,
}

/// Compares two Markdown texts; `None` if they are too large.
pub fn rendered(old: &str, new: &str) -> Option<Rendered> {
    if old.len() + new.len() > BYTES_MAX {
        return None;
    }
    let (olds, news) = (blocks(old), blocks(new));
    let (old_keys, new_keys) = (keys(&olds), keys(&news));
    let old_refs: Vec<&str> = old_keys.iter().map(String::as_str).collect();
    let new_refs: Vec<&str> = new_keys.iter().map(String::as_str).collect();
    let hunks = changes_of(&old_refs, &new_refs);
    let (old_text, new_text) = (joined(&olds), joined(&news));
    let (old_lines, new_lines) = (lines(&old_text, &olds), lines(&new_text, &news));
    let made = compare(&old_lines, &new_lines, &hunks);
    let row = |row: Row| {
        let (mut old, mut new) = (row.old, row.new);
        if let (RowSort::Changed, Some(was), Some(is)) = (row.sort, &mut old, &mut new) {
            // The rows come from comparing the whole change; a pair shows the comparison of its two
            // blocks.
            let (a, b) = (was.number - 1, is.number - 1);
            let found = words::compare(&Part::of(&old_lines, &[a]), &Part::of(&new_lines, &[b]));
            was.pieces = old_lines.marked(a, &found.gone).pieces;
            is.pieces = new_lines.marked(b, &found.come).pieces;
        }
        let old = old.map(|it| (&olds[it.number - 1], old_lines.starts[it.number - 1], it.pieces));
        let new = new.map(|it| (&news[it.number - 1], new_lines.starts[it.number - 1], it.pieces));
        shown(row.sort, old, new)
    };
    Some(Rendered {
        rows: made.rows.into_iter().filter_map(row).collect(),
        is_coarse: made.is_coarse,
    })
}

/// Separates blocks, so that moves are found as in any text.
const BETWEEN: &str = "\n\n";

fn joined(blocks: &[Block]) -> String {
    blocks.iter().flat_map(|it| [it.text.as_str(), BETWEEN]).collect()
}

/// Returns each block as one line.
fn lines<'t>(text: &'t str, blocks: &[Block]) -> Lines<'t> {
    let (mut all, mut starts) = (Vec::with_capacity(blocks.len()), vec![0]);
    for block in blocks {
        let start = starts[starts.len() - 1];
        let end = start + block.text.len() + BETWEEN.len();
        all.push(&text[start..end]);
        starts.push(end);
    }
    Lines { text, all, starts }
}

/// Returns the keys by which blocks are compared: kind, depth, text, formatting, invisible parts.
fn keys(blocks: &[Block]) -> Vec<String> {
    blocks
        .iter()
        .map(|it| format!("{:?} {} {:?} {} {}", it.sort, it.depth, it.styles, it.unseen, it.text))
        .collect()
}

type Side<'b> = Option<(&'b Block, usize, Vec<Piece>)>;

fn shown(sort: RowSort, old: Side<'_>, new: Side<'_>) -> Option<RenderedRow> {
    let block = new.as_ref().or(old.as_ref())?.0;
    if block.is_comment && sort == RowSort::Kept {
        return None;
    }
    let was = match (&old, &new) {
        (Some((old, ..)), Some((new, ..))) => (old.sort != new.sort).then_some(old.sort),
        _ => None,
    };
    let pieces = |side: &Side<'_>, mark: Mark| -> Vec<Marked> {
        let Some((block, start, pieces)) = side else { return Vec::new() };
        let cut = |at: usize| (at - start).min(block.text.len());
        let parts = pieces.iter().map(|it| Marked {
            range: cut(it.range.start)..cut(it.range.end),
            mark: if it.is_changed { mark } else { Mark::Same },
        });
        parts.filter(|it| !it.range.is_empty()).collect()
    };
    let (gone, come) = (pieces(&old, Mark::Gone), pieces(&new, Mark::Come));
    let mut spans = Vec::new();
    match (&old, &new) {
        (Some((was, ..)), Some((is, ..))) if sort == RowSort::Changed => {
            merge(was, &gone, is, &come, &mut spans);
        }
        (_, Some((is, ..))) => come.iter().for_each(|it| is.spans(it, &mut spans)),
        (Some((was, ..)), None) => gone.iter().for_each(|it| was.spans(it, &mut spans)),
        (None, None) => {}
    }
    let is_same = spans.iter().all(|it| it.mark == Mark::Same);
    Some(RenderedRow {
        sort,
        block: block.sort,
        was,
        depth: block.depth,
        marker: block.marker.clone(),
        spans,
        is_markup_only: sort == RowSort::Changed && is_same,
    })
}

impl Block {
    /// Writes a part of the text, split where the formatting changes.
    fn spans(&self, part: &Marked, spans: &mut Vec<Span>) {
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

/// Splits a text into its blocks.
fn blocks(text: &str) -> Vec<Block> {
    let mut reading = Reading::default();
    for event in Parser::new_ext(text, dialect()) {
        reading.event(event);
    }
    reading.close();
    if let Some(last) = reading.done.last_mut() {
        last.unseen.push_str(&reading.unseen);
    }
    reading.done
}

#[derive(Default)]
struct Reading {
    done: Vec<Block>,
    open: Option<Block>,
    /// The enclosing lists: the next number of an ordered one.
    lists: Vec<Option<u64>>,
    quotes: usize,
    marker: Option<String>,
    style: Style,
    /// The targets of the enclosing links and images.
    targets: Vec<String>,
    html: Option<HtmlBlock>,
    /// Tags and comments since the previous block.
    unseen: String,
}

impl Reading {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Html(line) | Event::Text(line) if self.html.is_some() => {
                if let Some(block) = &mut self.html {
                    block.push("", &line, 0..line.len());
                }
            }
            Event::Text(text) => self.text(&text),
            Event::Html(text) | Event::InlineHtml(text) => self.inline_html(&text),
            Event::Code(text) => self.styled(&text, |it| it.is_code = true),
            Event::InlineMath(text) | Event::DisplayMath(text) => self.text(&text),
            Event::FootnoteReference(name) => self.text(&format!("[^{name}]")),
            Event::SoftBreak => self.text(" "),
            Event::HardBreak => self.text("\n"),
            Event::Rule => self.rule(),
            Event::TaskListMarker(is_done) => self.text(if is_done { "☑ " } else { "☐ " }),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => self.begin(BlockSort::Paragraph),
            Tag::Heading { level, .. } => self.begin(BlockSort::Heading(level_of(level))),
            Tag::BlockQuote(kind) => {
                self.close();
                self.quotes += 1;
                if let Some(kind) = kind {
                    self.styled(alert_title(kind), |it| it.is_strong = true);
                    self.close();
                }
            }
            Tag::CodeBlock(kind) => {
                self.begin(BlockSort::Code);
                if let CodeBlockKind::Fenced(info) = kind
                    && !info.is_empty()
                {
                    self.styled(&format!("{info}\n"), |it| it.is_target = true);
                }
            }
            Tag::HtmlBlock => self.html = Some(HtmlBlock::default()),
            Tag::MetadataBlock(_) => self.begin(BlockSort::FrontMatter),
            Tag::List(first) => {
                self.close();
                self.lists.push(first);
            }
            Tag::Item => {
                self.close();
                self.marker = Some(match self.lists.last_mut() {
                    Some(Some(number)) => {
                        *number += 1;
                        format!("{}.", number.saturating_sub(1))
                    }
                    _ => "•".to_owned(),
                });
            }
            Tag::FootnoteDefinition(name) => {
                self.close();
                self.marker = Some(format!("[^{name}]"));
            }
            Tag::TableHead | Tag::TableRow => self.begin(BlockSort::TableRow),
            Tag::TableCell if self.open.as_ref().is_some_and(|it| !it.text.is_empty()) => {
                self.text(" │ ");
            }
            Tag::Emphasis => self.style.is_emphasis = true,
            Tag::Strong => self.style.is_strong = true,
            Tag::Strikethrough => self.style.is_struck = true,
            Tag::Link { dest_url, .. } => {
                self.targets.push(dest_url.to_string());
                self.style.is_link = true;
            }
            Tag::Image { dest_url, .. } => {
                self.targets.push(dest_url.to_string());
                self.text("image: ");
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Emphasis => self.style.is_emphasis = false,
            TagEnd::Strong => self.style.is_strong = false,
            TagEnd::Strikethrough => self.style.is_struck = false,
            TagEnd::Link => self.end_link(),
            TagEnd::Image => {
                let target = self.targets.pop().unwrap_or_default();
                self.styled(&format!(" ⟨{target}⟩"), |it| it.is_target = true);
            }
            TagEnd::HtmlBlock => {
                if let Some(block) = self.html.take() {
                    self.html_block(&block);
                }
            }
            TagEnd::BlockQuote(_) => {
                self.close();
                self.quotes = self.quotes.saturating_sub(1);
            }
            TagEnd::List(_) => {
                self.close();
                self.lists.pop();
            }
            TagEnd::Item | TagEnd::FootnoteDefinition => {
                if self.marker.is_some() {
                    self.begin(BlockSort::Item);
                }
                self.close();
            }
            TagEnd::Paragraph
            | TagEnd::Heading(_)
            | TagEnd::CodeBlock
            | TagEnd::MetadataBlock(_)
            | TagEnd::TableHead
            | TagEnd::TableRow => self.close(),
            _ => {}
        }
    }

    fn begin(&mut self, sort: BlockSort) {
        self.close();
        let marker = self.marker.take();
        let sort = match sort {
            BlockSort::Paragraph if marker.is_some() => BlockSort::Item,
            BlockSort::Paragraph if self.quotes > 0 => BlockSort::Quote,
            sort => sort,
        };
        let depth = self.lists.len() + self.quotes;
        let marker = marker.unwrap_or_default();
        let (text, styles, unseen) = (String::new(), Vec::new(), String::new());
        self.open = Some(Block { sort, depth, marker, text, styles, unseen, is_comment: false });
    }

    fn rule(&mut self) {
        self.begin(BlockSort::Rule);
        self.text("———");
        self.close();
    }

    fn close(&mut self) {
        if self.open.is_some() {
            // Links opened by HTML and never closed.
            (0..self.targets.len()).for_each(|_| self.end_link());
            self.style = Style::default();
        }
        let Some(mut block) = self.open.take() else { return };
        block.unseen = std::mem::take(&mut self.unseen);
        let end = block.text.trim_end().len();
        block.text.truncate(end);
        block.styles.retain(|it| it.0 < end);
        self.done.push(block);
    }

    fn text(&mut self, text: &str) {
        self.styled(text, |_| {});
    }

    fn styled(&mut self, text: &str, change: impl FnOnce(&mut Style)) {
        if self.open.is_none() {
            self.begin(BlockSort::Paragraph);
        }
        let mut style = self.style;
        change(&mut style);
        let Some(block) = &mut self.open else { return };
        let last = block.styles.last().map_or(Style::default(), |it| it.1);
        if last != style {
            block.styles.push((block.text.len(), style));
        }
        block.text.push_str(text);
    }
}

fn level_of(level: HeadingLevel) -> u8 {
    match level {
        HeadingLevel::H1 => 1,
        HeadingLevel::H2 => 2,
        HeadingLevel::H3 => 3,
        HeadingLevel::H4 => 4,
        HeadingLevel::H5 => 5,
        HeadingLevel::H6 => 6,
    }
}
