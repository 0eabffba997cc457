//! Reads a Markdown text as its blocks, and notes which bytes of it they show.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Parser, Tag, TagEnd};

use crate::documents::compare::redline::rendered::block::{Block, BlockSort, Style};
use crate::documents::compare::redline::rendered::ranges::Ranges;
use crate::documents::sources::html::HtmlBlock;
use crate::documents::sources::plain::{alert_title, dialect};

/// A text that was read.
pub(super) struct Read {
    blocks: Vec<Block>,
    /// The bytes that the blocks show as they are written.
    seen: Ranges,
}

impl Read {
    /// Splits a text into its blocks.
    pub(super) fn of(text: &str) -> Read {
        let mut reading = Reading { source: text, ..Reading::default() };
        for (event, at) in Parser::new_ext(text, dialect()).into_offset_iter() {
            reading.at = at;
            reading.event(event);
        }
        reading.close();
        if let Some(last) = reading.done.last_mut()
            && reading.unseen_at.is_some()
        {
            last.unseen.push_str(&reading.unseen);
            last.source.end = text.len();
        }
        let seen = Ranges::of(reading.seen);
        Read { blocks: reading.done, seen }
    }

    pub(super) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Returns whether a block shows the byte at a place.
    pub(super) fn is_seen(&self, at: usize) -> bool {
        self.seen.touch(&(at..at + 1))
    }
}

#[derive(Default)]
pub(super) struct Reading<'t> {
    source: &'t str,
    /// The bytes that are being read.
    pub(super) at: Range<usize>,
    seen: Vec<Range<usize>>,
    done: Vec<Block>,
    pub(super) open: Option<Block>,
    /// The enclosing lists: the first and the next number of an ordered one.
    lists: Vec<Option<(u64, u64)>>,
    quotes: usize,
    pub(super) marker: Option<String>,
    pub(super) style: Style,
    /// The targets of the enclosing links and images.
    pub(super) targets: Vec<String>,
    html: Option<HtmlBlock>,
    /// Tags and comments since the previous block, and where they begin.
    unseen: String,
    unseen_at: Option<usize>,
}

impl Reading<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Html(line) | Event::Text(line) if self.html.is_some() => {
                if let Some(block) = &mut self.html {
                    block.push(self.source, &line, self.at.clone());
                }
            }
            Event::Text(text) => self.written(&text),
            Event::Html(text) | Event::InlineHtml(text) => self.inline_html(&text),
            Event::Code(text) => {
                self.see(&text);
                self.styled(&text, |it| it.is_code = true);
            }
            Event::InlineMath(text) | Event::DisplayMath(text) => self.written(&text),
            Event::FootnoteReference(name) => self.written(&format!("[^{name}]")),
            Event::SoftBreak => self.text(" "),
            Event::HardBreak => self.text("\n"),
            Event::Rule => self.rule(),
            Event::TaskListMarker(is_done) => {
                self.see_alike("[x]");
                self.text(if is_done { "☑ " } else { "☐ " });
            }
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
                    self.at.end = self.line_end(self.at.start);
                    let title = alert_title(kind);
                    self.see_alike(&format!("[!{title}]"));
                    self.styled(title, |it| it.is_strong = true);
                    self.close();
                }
            }
            Tag::CodeBlock(kind) => {
                self.begin(BlockSort::Code);
                if let CodeBlockKind::Fenced(info) = kind
                    && !info.is_empty()
                {
                    self.at.end = self.line_end(self.at.start);
                    self.see(&info);
                    self.styled(&format!("{info}\n"), |it| it.is_target = true);
                }
            }
            Tag::HtmlBlock => self.html = Some(HtmlBlock::default()),
            Tag::MetadataBlock(_) => self.begin(BlockSort::FrontMatter),
            Tag::List(first) => {
                self.close();
                self.lists.push(first.map(|it| (it, it)));
            }
            Tag::Item => {
                self.close();
                self.item();
            }
            Tag::FootnoteDefinition(name) => {
                self.close();
                let marker = format!("[^{name}]");
                self.see(&marker);
                self.marker = Some(marker);
            }
            Tag::TableHead | Tag::TableRow => self.begin(BlockSort::TableRow),
            Tag::TableCell if self.open.as_ref().is_some_and(|it| !it.text.is_empty()) => {
                self.text(" │ ");
            }
            Tag::Emphasis => self.style.is_emphasis = true,
            Tag::Strong => self.style.is_strong = true,
            Tag::Strikethrough => self.style.is_struck = true,
            Tag::Link { dest_url, title, .. } => {
                self.target(&dest_url, &title);
                self.style.is_link = true;
            }
            Tag::Image { dest_url, title, .. } => {
                self.target(&dest_url, &title);
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
            TagEnd::TableHead => {
                // Below it is the line that makes it one.
                let is_line = self.source[..self.at.end].ends_with('\n');
                let end = if is_line { self.at.end } else { self.line_end(self.at.end) };
                let end = self.line_end(end);
                self.open.iter_mut().for_each(|it| it.source.end = end);
                self.close();
            }
            TagEnd::Paragraph
            | TagEnd::Heading(_)
            | TagEnd::CodeBlock
            | TagEnd::MetadataBlock(_)
            | TagEnd::TableRow => self.close(),
            _ => {}
        }
    }

    /// Notes the marker of an item. Its number counts as shown if it is the usual one.
    fn item(&mut self) {
        let Some(Some((first, next))) = self.lists.last_mut() else {
            self.marker = Some("•".to_owned());
            return;
        };
        let numbers = [*first, *next];
        *next += 1;
        self.marker = Some(format!("{}.", numbers[1]));
        let line = &self.source[self.at.start..self.line_end(self.at.start)];
        let digits = line.trim_start();
        let start = self.at.start + line.len() - digits.len();
        let digits = digits.bytes().take_while(u8::is_ascii_digit).count();
        let number = self.source[start..start + digits].parse();
        if number.is_ok_and(|it: u64| numbers.contains(&it)) {
            self.seen.push(start..start + digits);
        }
    }

    /// Notes what a link or an image leads to, which is shown behind it.
    fn target(&mut self, address: &str, title: &str) {
        // Behind the words, which may be the same.
        let behind = self.here().rfind("](").unwrap_or(self.at.len());
        let at = self.at.clone();
        self.at.start += behind;
        self.see(address);
        self.see_last(title);
        self.at = at;
        self.targets.push(match title {
            "" => address.to_owned(),
            title => format!("{address} \"{title}\""),
        });
    }

    pub(super) fn begin(&mut self, sort: BlockSort) {
        self.close();
        let marker = self.marker.take();
        let sort = match sort {
            BlockSort::Paragraph if marker.is_some() => BlockSort::Item,
            BlockSort::Paragraph if self.quotes > 0 => BlockSort::Quote,
            sort => sort,
        };
        let depth = self.lists.len() + self.quotes;
        let marker = marker.unwrap_or_default();
        self.open = Some(Block::new(sort, depth, marker, self.at.clone()));
    }

    pub(super) fn rule(&mut self) {
        self.begin(BlockSort::Rule);
        self.text("———");
        self.close();
    }

    pub(super) fn close(&mut self) {
        if let Some(open) = &self.open {
            // Links opened by HTML and never closed.
            let at = std::mem::replace(&mut self.at, open.source.clone());
            (0..self.targets.len()).for_each(|_| self.end_link());
            self.at = at;
            self.style = Style::default();
        }
        let Some(mut block) = self.open.take() else { return };
        block.unseen = std::mem::take(&mut self.unseen);
        let start = self.unseen_at.take().unwrap_or(block.source.start);
        block.source.start = start.min(block.source.start);
        let end = block.text.trim_ascii_end().len();
        block.text.truncate(end);
        block.styles.retain(|it| it.0 < end);
        self.done.push(block);
    }

    /// Takes a tag or a comment that is not shown itself; its block differs by it.
    pub(super) fn skip(&mut self, written: &str) {
        self.unseen.push_str(written);
        self.unseen_at.get_or_insert(self.at.start);
    }

    /// Adds words that are in the source.
    pub(super) fn written(&mut self, text: &str) {
        self.see(text);
        self.text(text);
    }

    /// Notes that words are shown as they are written here, and returns where they end.
    pub(super) fn see(&mut self, words: &str) -> usize {
        let found = self.here().find(words);
        self.note(found, words)
    }

    /// Notes the last of these words.
    fn see_last(&mut self, words: &str) {
        let found = self.here().rfind(words);
        self.note(found, words);
    }

    /// Notes words in capital or small letters.
    fn see_alike(&mut self, words: &str) {
        let found = self.here().to_ascii_lowercase().find(&words.to_ascii_lowercase());
        self.note(found, words);
    }

    fn here(&self) -> &str {
        self.source.get(self.at.clone()).unwrap_or_default()
    }

    fn note(&mut self, found: Option<usize>, words: &str) -> usize {
        let Some(found) = found else { return self.at.start };
        let start = self.at.start + found;
        self.seen.push(start..start + words.len());
        start + words.len()
    }

    /// Returns where the line ends that a place is in, with its line break.
    fn line_end(&self, at: usize) -> usize {
        self.source[at..].find('\n').map_or(self.source.len(), |it| at + it + 1)
    }

    pub(super) fn text(&mut self, text: &str) {
        self.styled(text, |_| {});
    }

    pub(super) fn styled(&mut self, text: &str, change: impl FnOnce(&mut Style)) {
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
        let source = &mut block.source;
        *source = source.start.min(self.at.start)..source.end.max(self.at.end);
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
