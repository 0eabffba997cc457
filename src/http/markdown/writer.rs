//! From the events of a parsed text to HTML, block by block.

use std::collections::HashMap;
use std::ops::Range;

use pulldown_cmark::{Alignment, BlockQuoteKind, CodeBlockKind, Event, Parser, Tag, TagEnd};

use crate::base::limit::HEADINGS_MAX;
use crate::base::without_invisible;
use crate::documents::sources::html::HtmlBlock;
use crate::documents::sources::plain::{alert_title, dialect};
use crate::http::markdown::code::Budget;
use crate::http::markdown::element::{Open, TABLE_END};
use crate::http::markdown::link::Target;
use crate::http::markdown::parts::Parts;
use crate::http::markdown::prose::push_text;
use crate::http::markdown::{Block, Heading, Html, Links, Rendered, slug};

/// Cells that a table gets without having them in the text.
const EMPTY_CELLS_MAX: usize = 4_096;
/// Longest language name that is shown, in bytes.
const LANGUAGE_BYTES_MAX: usize = 24;
/// Longest HTML of one text, in bytes: short markup can expand to long elements.
pub(super) const HTML_BYTES_MAX: usize = 16 * 1024 * 1024;
const HEADINGS: [&str; 6] = ["h1", "h2", "h3", "h4", "h5", "h6"];

pub(super) fn write(text: &str, links: &Links<'_>, is_mapped: bool) -> Rendered {
    // A byte order mark would turn the first heading into a paragraph.
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut writer = Writer::new(text, *links, is_mapped);
    writer.html.reserve(body.len() * 2);
    let shift = text.len() - body.len();
    for (event, range) in Parser::new_ext(body, dialect()).into_offset_iter() {
        if is_mapped && writer.ends.is_empty() && writer.leaf.is_none() {
            writer.parts.look(&event, writer.html.len());
        }
        writer.event(event, range.start + shift..range.end + shift);
        if writer.html.len() > HTML_BYTES_MAX {
            writer.cut();
            break;
        }
    }
    writer.finish()
}

/// An image whose alternative text is being read.
pub(super) struct Image {
    /// Images inside that text.
    pub(super) depth: usize,
    pub(super) target: Option<Target>,
    pub(super) title: String,
    pub(super) alt: String,
    pub(super) range: Range<usize>,
    /// Attributes for its size and alignment.
    pub(super) size: String,
}

pub(super) struct Writer<'t> {
    pub(super) text: &'t str,
    pub(super) links: Links<'t>,
    is_mapped: bool,
    pub(super) html: String,
    headings: Vec<Heading>,
    blocks: Vec<Block>,
    /// The elements that are open, innermost last.
    pub(super) ends: Vec<Open>,
    /// How many of them are inline.
    pub(super) inline: usize,
    /// The block that text goes into.
    pub(super) leaf: Option<Leaf>,
    /// Pending text, because an address may span several events.
    pub(super) pending: String,
    /// How many links are open; only the outermost is written.
    pub(super) links_open: usize,
    /// Whether addresses in the text are not linked here.
    pub(super) is_apart: bool,
    pub(super) image: Option<Image>,
    pub(super) heading_text: Option<String>,
    code: Option<Code>,
    html_block: Option<HtmlBlock>,
    pub(super) table: Option<Table>,
    empty_cells: usize,
    slugs: HashMap<String, usize>,
    pub(super) notes: HashMap<String, usize>,
    budget: Budget,
    parts: Parts,
}

/// A block that is being written. Its start tag is written when its end is known.
pub(super) struct Leaf {
    pub(super) block: Block,
    pub(super) name: &'static str,
    pub(super) attributes: String,
    pub(super) html_from: usize,
    /// Whether it is the text of a tight list item, which ends with the next block.
    is_tight: bool,
    /// 1 to 6 for a heading.
    level: u8,
    /// The explicit anchor of a heading; empty for one from its text.
    anchor: String,
    /// Whether it was written as HTML, and is omitted if empty.
    pub(super) is_html: bool,
    /// Whether it has text or an image.
    pub(super) has_content: bool,
}

struct Code {
    language: String,
    text: String,
}

pub(super) struct Table {
    alignments: Vec<Alignment>,
    column: usize,
    is_head: bool,
}

impl<'t> Writer<'t> {
    fn new(text: &'t str, links: Links<'t>, is_mapped: bool) -> Writer<'t> {
        Writer {
            text,
            links,
            is_mapped,
            html: String::new(),
            headings: Vec::new(),
            blocks: Vec::new(),
            ends: Vec::new(),
            inline: 0,
            leaf: None,
            pending: String::new(),
            links_open: 0,
            is_apart: false,
            image: None,
            heading_text: None,
            code: None,
            html_block: None,
            table: None,
            empty_cells: 0,
            slugs: HashMap::new(),
            notes: HashMap::new(),
            budget: Budget::default(),
            parts: Parts::default(),
        }
    }

    /// Closes all elements, and adds a note that there is more.
    fn cut(&mut self) {
        (self.image, self.heading_text, self.code) = (None, None, None);
        while self.inline > 0 {
            self.close_inline();
        }
        self.end_all();
        self.html
            .push_str("<p class=\"empty\">The rest is too long to be shown; read its text.</p>");
    }

    fn end_all(&mut self) {
        self.end_leaf();
        while !self.ends.is_empty() {
            self.pop_element();
        }
    }

    fn finish(mut self) -> Rendered {
        self.end_all();
        let blocks = if self.is_mapped { self.blocks } else { Vec::new() };
        let html = self.parts.divide(self.html);
        Rendered { html: Html(html), headings: self.headings, blocks }
    }

    fn event(&mut self, event: Event<'_>, range: Range<usize>) {
        match event {
            Event::Start(tag) => self.start(tag, range),
            Event::End(tag) => self.end(tag),
            Event::Html(shown) | Event::Text(shown) if self.html_block.is_some() => {
                if let Some(block) = &mut self.html_block {
                    block.push(self.text, &shown, range);
                }
            }
            Event::Text(shown) => match &mut self.code {
                Some(_) => self.code_text(&shown, range),
                None => self.show(&shown, range),
            },
            Event::Code(shown) => self.code_span(&shown, range),
            Event::Html(shown) | Event::InlineHtml(shown) => self.raw(&shown, range),
            Event::InlineMath(shown) | Event::DisplayMath(shown) => self.show(&shown, range),
            Event::SoftBreak => self.line_break("", range),
            Event::HardBreak => self.line_break("<br>", range),
            Event::FootnoteReference(name) => self.note_reference(&name, range),
            Event::Rule => self.rule(),
            Event::TaskListMarker(is_done) => {
                self.flush();
                self.html.push_str(match is_done {
                    true => "<input type=\"checkbox\" disabled checked aria-label=\"Done\">",
                    false => "<input type=\"checkbox\" disabled aria-label=\"To do\">",
                });
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>, range: Range<usize>) {
        match tag {
            Tag::Paragraph => self.begin_paragraph(range),
            Tag::Heading { level, .. } => {
                self.begin_heading(level as u8, String::new(), range);
            }
            Tag::BlockQuote(None) => self.open_turned("<blockquote", range, "</blockquote>"),
            Tag::BlockQuote(Some(kind)) => self.open(&alert(kind), "</div>"),
            Tag::CodeBlock(kind) => self.begin_code(kind, range),
            Tag::HtmlBlock => {
                self.end_leaf();
                self.html_block = Some(HtmlBlock::default());
            }
            Tag::MetadataBlock(_) => {
                let attributes = " class=\"md-front\" tabindex=\"0\" aria-label=\"Front matter\"";
                self.begin_leaf("pre", attributes.to_owned(), range);
            }
            Tag::List(None) => self.open_turned("<ul", range, "</ul>"),
            Tag::List(Some(1)) => self.open_turned("<ol", range, "</ol>"),
            Tag::List(Some(first)) => {
                self.open_turned(&format!("<ol start=\"{first}\""), range, "</ol>");
            }
            Tag::Item => self.open("<li>", "</li>"),
            Tag::FootnoteDefinition(name) => self.begin_note(&name),
            Tag::Table(alignments) => {
                self.open(
                    "<div class=\"md-table\" role=\"group\" aria-label=\"Table\" tabindex=\"0\">\
                     <table>",
                    TABLE_END,
                );
                self.table = Some(Table { alignments, column: 0, is_head: false });
            }
            Tag::TableHead => self.begin_row("<thead><tr>", "</tr></thead>", true),
            Tag::TableRow => self.begin_row("<tr>", "</tr>", false),
            Tag::TableCell => self.begin_cell(range),
            Tag::Emphasis => self.open_inline("<em>", "</em>", &range),
            Tag::Strong => self.open_inline("<strong>", "</strong>", &range),
            Tag::Strikethrough => self.open_inline("<del>", "</del>", &range),
            tag @ Tag::Link { .. } => self.begin_link(&tag, &range),
            Tag::Image { dest_url, title, .. } => self.begin_image(&dest_url, &title, range),
            // Not enabled: definition lists, subscript and superscript.
            _ => self.open("", ""),
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::Heading(_) | TagEnd::MetadataBlock(_) => self.end_leaf(),
            TagEnd::HtmlBlock => {
                if let Some(block) = self.html_block.take() {
                    self.html_block(&block);
                }
            }
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::TableCell => self.end_cell(),
            TagEnd::TableHead => {
                self.close();
                self.html.push_str("<tbody>");
            }
            TagEnd::Table => {
                self.table = None;
                self.close();
            }
            TagEnd::FootnoteDefinition => self.close(),
            TagEnd::Item => self.end_item(),
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => self.close_inline(),
            TagEnd::Link => {
                self.close_inline();
                self.links_open = self.links_open.saturating_sub(1);
            }
            TagEnd::Image => self.end_image(),
            _ => self.close(),
        }
    }

    /// Blocks of other dialects (`!!! note`, `??? tip`, `=== "tab"`) keep their lines.
    fn begin_paragraph(&mut self, range: Range<usize>) {
        let begins =
            |marks: &[&str]| marks.iter().any(|it| self.text[range.clone()].starts_with(it));
        let attributes = match begins(&["!!! ", "??? ", "???+ ", "=== ", ":::"]) {
            true => " class=\"md-lines\"".to_owned(),
            false => String::new(),
        };
        self.begin_leaf("p", attributes, range);
    }

    pub(super) fn begin_leaf(
        &mut self,
        name: &'static str,
        attributes: String,
        range: Range<usize>,
    ) {
        self.end_leaf();
        self.need_cell();
        let block = Block { start: range.start, end: range.end, ..Block::default() };
        self.leaf = Some(Leaf {
            block,
            name,
            attributes,
            html_from: self.html.len(),
            is_tight: false,
            level: 0,
            anchor: String::new(),
            is_html: false,
            has_content: false,
        });
    }

    /// Opens a heading; `anchor` overrides the one from its text.
    pub(super) fn begin_heading(&mut self, level: u8, anchor: String, range: Range<usize>) {
        self.begin_leaf(HEADINGS[usize::from(level) - 1], String::new(), range);
        self.heading_text = Some(String::new());
        if let Some(leaf) = &mut self.leaf {
            (leaf.level, leaf.anchor) = (level, anchor);
        }
    }

    /// Text in a tight list item has no paragraph, so it gets its own block.
    pub(super) fn need_leaf(&mut self, range: &Range<usize>) {
        if self.leaf.is_none() {
            self.begin_leaf("span", String::new(), range.clone());
            if let Some(leaf) = &mut self.leaf {
                leaf.is_tight = true;
            }
        } else if let Some(leaf) = self.leaf.as_mut().filter(|it| it.is_tight) {
            leaf.block.end = leaf.block.end.max(range.end);
        }
    }

    pub(super) fn end_leaf(&mut self) {
        self.flush();
        self.close_html_inline();
        self.name_heading();
        let Some(leaf) = self.leaf.take() else { return };
        // A paragraph with only anchors is omitted.
        if (leaf.is_html || leaf.name == "p") && !leaf.has_content {
            return self.leave_out(&leaf);
        }
        let Leaf { mut block, name, attributes, html_from, .. } = leaf;
        let shown = self.text.get(block.start..block.end).unwrap_or_default();
        let run_end = block.runs.last().map_or(0, |it| it.end);
        block.end = run_end.max(block.start + shown.trim_end().len());
        let inner = self.html.split_off(html_from);
        self.html.push('<');
        self.html.push_str(name);
        self.html.push_str(&attributes);
        // Two blocks never begin at the same byte; if they did, the first would be the block.
        let is_next = self.blocks.last().is_none_or(|it| it.start < block.start);
        if self.is_mapped && is_next && block.end > block.start {
            self.html.push_str(&format!(" data-b=\"{}-{}\"", block.start, block.end));
            self.blocks.push(block);
        }
        self.html.push('>');
        // A browser drops the first line feed of preformatted text.
        if name == "pre" && inner.starts_with('\n') {
            self.html.push('\n');
        }
        self.html.push_str(&inner);
        self.html.push_str("</");
        self.html.push_str(name);
        self.html.push('>');
    }

    /// A list item with only text is the block of this text.
    fn end_item(&mut self) {
        self.flush();
        self.close_html_inline();
        let is_whole = self.ends.last().is_some_and(|it| it.end == "</li>" && it.html.is_none());
        if let Some(leaf) = self.leaf.as_mut().filter(|it| is_whole && it.is_tight)
            && self.html[..leaf.html_from].ends_with("<li>")
        {
            let inner = self.html.split_off(leaf.html_from);
            self.html.truncate(leaf.html_from - "<li>".len());
            leaf.html_from = self.html.len();
            leaf.name = "li";
            self.html.push_str(&inner);
            self.ends.pop();
            self.ends.push(Open::default());
        }
        self.close();
    }

    /// Gives the heading that just ended its anchor.
    fn name_heading(&mut self) {
        let Some(leaf) = self.leaf.as_mut().filter(|it| it.level > 0) else { return };
        let (level, start) = (leaf.level, leaf.block.start);
        let anchor = std::mem::take(&mut leaf.anchor);
        let text = self.heading_text.take().unwrap_or_default().trim().to_owned();
        if self.headings.len() < HEADINGS_MAX
            && !text.is_empty()
            && let Some(id) = self.unique(if anchor.is_empty() { slug(&text) } else { anchor })
        {
            if let Some(leaf) = &mut self.leaf {
                leaf.attributes.insert_str(0, &format!(" id=\"{id}\""));
            }
            self.headings.push(Heading { level, text, id, start });
        }
    }

    /// Returns an id that is unique in this text; `None` if it gets none.
    pub(super) fn unique(&mut self, slug: String) -> Option<String> {
        let prefix = self.links.prefix()?;
        let mut name = slug.clone();
        while self.slugs.contains_key(&name) {
            let again = self.slugs.entry(slug.clone()).or_default();
            *again += 1;
            name = format!("{slug}-{again}");
        }
        self.slugs.insert(name.clone(), 0);
        Some(format!("{prefix}{name}"))
    }

    fn begin_code(&mut self, kind: CodeBlockKind<'_>, range: Range<usize>) {
        let language = match &kind {
            CodeBlockKind::Fenced(info) => {
                info.split([' ', ',', '{', '\t']).next().unwrap_or_default().to_owned()
            }
            CodeBlockKind::Indented => String::new(),
        };
        let mut attributes = String::from(" class=\"md-code\" tabindex=\"0\"");
        if !language.is_empty() && language.len() <= LANGUAGE_BYTES_MAX {
            attributes.push_str(" data-lang=\"");
            push_attribute(&mut attributes, &language);
            attributes.push('"');
        }
        self.begin_leaf("pre", attributes, range);
        self.code = Some(Code { language, text: String::new() });
    }

    fn code_text(&mut self, shown: &str, range: Range<usize>) {
        if let (Some(leaf), Some(code)) = (&mut self.leaf, &mut self.code) {
            leaf.block.push(self.text, shown, range);
            code.text.push_str(shown);
        }
    }

    fn end_code(&mut self) {
        if let Some(code) = self.code.take() {
            self.html.push_str("<code>");
            match self.links.code() {
                Some(it) => it.push(&mut self.html, &code.text, &code.language, &mut self.budget),
                None => push_text(&mut self.html, &code.text),
            }
            self.html.push_str("</code>");
        }
        self.end_leaf();
    }

    fn begin_row(&mut self, start: &str, end: &'static str, is_head: bool) {
        self.end_leaf();
        self.pop_html_holders();
        self.push_element(start, end);
        if let Some(table) = &mut self.table {
            (table.column, table.is_head) = (0, is_head);
        }
    }

    fn begin_cell(&mut self, range: Range<usize>) {
        let Some(table) = &mut self.table else { return };
        let attributes = match table.alignments.get(table.column) {
            Some(Alignment::Center) => " class=\"md-center\"",
            Some(Alignment::Right) => " class=\"md-end\"",
            _ => "",
        };
        table.column += 1;
        let name = if table.is_head { "th" } else { "td" };
        self.begin_leaf(name, attributes.to_owned(), range);
    }

    fn end_cell(&mut self) {
        self.flush();
        let is_empty = self.leaf.as_ref().is_some_and(|it| it.html_from == self.html.len());
        self.empty_cells += usize::from(is_empty);
        if is_empty && self.empty_cells > EMPTY_CELLS_MAX {
            self.leaf = None;
        }
        self.end_leaf();
    }
}

pub(super) fn push_title(html: &mut String, title: &str) {
    if !title.is_empty() {
        html.push_str(" title=\"");
        push_attribute(html, title);
        html.push('"');
    }
}

/// Appends text to an attribute's value, without invisible characters.
pub(super) fn push_attribute(html: &mut String, text: &str) {
    push_text(html, &without_invisible(text));
}

/// Returns the start of an alert. Its title is not text of the document.
fn alert(kind: BlockQuoteKind) -> String {
    let title = alert_title(kind);
    let class = title.to_ascii_lowercase();
    format!("<div class=\"md-alert md-alert-{class}\"><p class=\"md-alert-title\">{title}</p>")
}
