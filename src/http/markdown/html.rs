//! HTML in a document, rewritten: allowed elements, each closed where it must be.
//!
//! **Invariant:** an element never ends one that Markdown began, and ends with the block around it.
//! **Invariant:** no class, style, handler or name of a document's own is written; an `id` begins
//! with our prefix, and occurs once.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;

use crate::documents::sources::html::{HtmlBlock, Part, Sort, Tag, parts};
use crate::http::markdown::element::{DEPTH_MAX, Open};
use crate::http::markdown::slug;
use crate::http::markdown::writer::{HTML_BYTES_MAX, Leaf, Writer, push_title};

/// Depth limit of HTML elements; the rest is left for a table below them.
const HTML_DEPTH_MAX: usize = DEPTH_MAX - 8;
/// Largest accepted width or height of an image, in pixels.
const SIDE_MAX: u32 = 4_096;
/// Most columns or rows that a cell spans.
const SPAN_MAX: u32 = 100;

const TABLE_PARTS: &[&str] = &["table", "thead", "tbody", "tfoot", "tr"];
const CELLS: &[&str] = &["td", "th", "caption"];
/// Elements allowed in a cell of a Markdown table besides text.
const IN_CELL: &[&str] = &["ul", "ol", "li", "p", "div"];

impl Writer<'_> {
    /// Shows HTML within a line of text: one tag, or a comment.
    pub(super) fn raw(&mut self, shown: &str, range: Range<usize>) {
        let mut found = parts(shown);
        let part = if found.len() == 1 { found.pop() } else { None };
        match part {
            Some((Part::Comment, _)) => {}
            Some((Part::Tag(tag), _)) if self.image.is_none() => self.inline_tag(&tag, range),
            Some((Part::Tag(_), _)) => {}
            _ => self.odd_tag(shown, range),
        }
    }

    fn odd_tag(&mut self, shown: &str, range: Range<usize>) {
        self.show_apart(shown, range, "<span class=\"md-tag\">", "</span>");
    }

    /// Shows a block of HTML.
    pub(super) fn html_block(&mut self, block: &HtmlBlock) {
        for (part, range) in parts(block.text()) {
            if self.html.len() > HTML_BYTES_MAX {
                return;
            }
            let written = block.written(&range);
            match part {
                Part::Comment => {}
                Part::Tag(tag) => self.block_tag(&tag, written),
                Part::Odd => {
                    if self.leaf.is_none() {
                        self.begin_html_leaf("div", " class=\"md-html\"".to_owned(), &written);
                    }
                    self.odd_tag(&block.text()[range], written);
                }
                Part::Words | Part::Raw => {
                    for (shown, at) in block.words(&range, part == Part::Raw) {
                        self.html_words(&shown, at);
                    }
                }
            }
        }
        self.end_leaf();
    }

    fn html_words(&mut self, shown: &str, mut at: Range<usize>) {
        let mut shown = shown;
        let is_literal = shown.len() == at.len();
        if self.leaf.is_none() {
            if shown.trim().is_empty() {
                return;
            }
            at.start += if is_literal { shown.len() - shown.trim_start().len() } else { 0 };
            shown = shown.trim_start();
            self.need_words(&at);
        }
        let begun = self.leaf.as_ref().filter(|it| it.html_from == self.html.len());
        let rest = match begun.filter(|_| self.pending.is_empty()).map(|it| it.name) {
            Some("pre") => shown.strip_prefix("\r\n").or(shown.strip_prefix('\n')).unwrap_or(shown),
            Some(_) => shown.trim_start(),
            None => shown,
        };
        at.start += if is_literal { shown.len() - rest.len() } else { 0 };
        shown = rest;
        if !shown.is_empty() {
            self.show(shown, at);
        }
    }

    /// Opens a place for text: a paragraph, or an anonymous block inside an element that holds text
    /// itself.
    fn need_words(&mut self, at: &Range<usize>) {
        if self.leaf.is_some() {
            return;
        }
        self.need_cell();
        let around = self.ends.last().and_then(|it| it.html);
        let is_paragraph =
            around.is_none_or(|it| matches!(it, "div" | "details" | "blockquote" | "center"));
        self.begin_html_leaf(if is_paragraph { "p" } else { "span" }, String::new(), at);
    }

    fn begin_html_leaf(&mut self, name: &'static str, attributes: String, at: &Range<usize>) {
        self.begin_leaf(name, attributes, at.start..at.start);
        if let Some(leaf) = &mut self.leaf {
            leaf.is_html = true;
        }
    }

    /// Removes a block with no content, unless a link leads to it.
    pub(super) fn leave_out(&mut self, leaf: &Leaf) {
        if !self.html[leaf.html_from..].contains(" id=\"") {
            self.html.truncate(leaf.html_from);
        }
    }

    /// A tag within text.
    fn inline_tag(&mut self, tag: &Tag, range: Range<usize>) {
        match tag.name {
            "br" => self.html_break(range),
            "wbr" => {
                self.need_leaf(&range);
                self.flush();
                self.html.push_str("<wbr>");
            }
            "img" => self.html_image(tag, range),
            name if tag.sort == Sort::Inline || self.is_in_cell() && IN_CELL.contains(&name) => {
                if tag.is_end {
                    self.close_html(name);
                } else if self.is_fit_in_words(name) {
                    self.need_leaf(&range);
                    self.flush();
                    self.push_html(tag, true);
                }
            }
            // An element opened before a Markdown paragraph may be closed in it.
            name if tag.is_end && tag.sort == Sort::Holder && !self.is_in_cell() => {
                self.close_html(name);
            }
            _ => {}
        }
    }

    fn is_in_cell(&self) -> bool {
        self.leaf.as_ref().is_some_and(|it| matches!(it.name, "td" | "th"))
    }

    /// Closes what a browser would close by itself within a table cell; returns whether the element
    /// may be opened.
    fn is_fit_in_words(&mut self, name: &'static str) -> bool {
        match name {
            "li" => {
                self.close_within(&["li"], &["ul", "ol"]);
                self.is_top(&["ul", "ol"])
            }
            "ul" | "ol" | "p" | "div" => {
                self.close_within(&["p"], &["ul", "ol", "div", "li"]);
                true
            }
            _ => true,
        }
    }

    /// A tag between blocks, or within one that was written as HTML.
    fn block_tag(&mut self, tag: &Tag, written: Range<usize>) {
        match (tag.sort, tag.name) {
            (Sort::Clear, _) => {}
            (_, "hr") => self.rule(),
            (_, "br") if self.leaf.is_none() => {}
            (Sort::Void | Sort::Inline, _) => {
                if !tag.is_end {
                    self.need_words(&written);
                }
                if self.leaf.is_some() {
                    self.inline_tag(tag, written);
                }
            }
            (Sort::Words, name) if tag.is_end => {
                if self.leaf.as_ref().is_some_and(|it| it.name == name) {
                    self.end_leaf();
                }
            }
            (Sort::Words, name) => {
                let at = written.start..written.start;
                if let Some(level) = tag.level() {
                    let anchor = tag.value("id").map(slug).unwrap_or_default();
                    self.begin_heading(level, anchor, at);
                    if let Some(leaf) = &mut self.leaf {
                        push_alignment(&mut leaf.attributes, tag);
                    }
                } else {
                    let mut attributes = self.attributes_of(tag);
                    if name == "pre" {
                        attributes.push_str(" class=\"md-code\" tabindex=\"0\"");
                    }
                    self.begin_leaf(name, attributes, at);
                }
                if let Some(leaf) = &mut self.leaf {
                    leaf.is_html = true;
                }
            }
            (Sort::Holder, name) if tag.is_end => self.close_html(name),
            (Sort::Holder, name) => {
                self.end_leaf();
                if self.is_fit(name) {
                    self.push_html(tag, false);
                }
            }
        }
    }

    /// Closes what a browser would close by itself, and returns whether an element may be opened
    /// here: parts of lists and tables are allowed only inside them.
    fn is_fit(&mut self, name: &'static str) -> bool {
        match name {
            "li" => {
                self.close_within(&["li"], &["ul", "ol", "table"]);
                self.is_top(&["ul", "ol"])
            }
            "dt" | "dd" => {
                self.close_within(&["dt", "dd"], &["dl", "table"]);
                self.is_top(&["dl"])
            }
            "summary" => self.is_top(&["details"]),
            "td" | "th" => {
                self.close_within(&["td", "th"], &["table"]);
                if self.is_top(&["table", "thead", "tbody", "tfoot"]) {
                    self.push_plain("tr");
                }
                self.is_top(&["tr"])
            }
            "tr" => {
                self.close_within(&["tr"], &["table"]);
                self.is_top(&["table", "thead", "tbody", "tfoot"])
            }
            "thead" | "tbody" | "tfoot" | "caption" => {
                self.close_within(&["tr"], &["table"]);
                self.close_within(&["thead", "tbody", "tfoot", "caption"], &["table"]);
                self.is_top(&["table"])
            }
            _ => {
                self.need_cell();
                true
            }
        }
    }

    /// Opens a cell if we are in a table but in no cell: a browser would move the content in front
    /// of the table.
    pub(super) fn need_cell(&mut self) {
        if !self.is_top(TABLE_PARTS) && !self.is_between_rows() {
            return;
        }
        if !self.is_top(&["tr"]) {
            self.push_plain("tr");
        }
        self.push_plain("td");
    }

    fn is_top(&self, names: &[&str]) -> bool {
        self.ends.last().and_then(|it| it.html).is_some_and(|it| names.contains(&it))
    }

    /// Closes the nearest element with one of some names, unless one of `bounds` or a Markdown
    /// element is in between.
    fn close_within(&mut self, names: &[&str], bounds: &[&str]) {
        let open = self.ends.iter().rev().map_while(|it| it.html);
        let mut within = open.take_while(|it| !bounds.contains(it));
        if let Some(depth) = within.position(|it| names.contains(&it)) {
            self.pop_html(depth + 1);
        }
    }

    /// Closes an element by its own tag; does nothing if it is not open.
    fn close_html(&mut self, name: &'static str) {
        let bounds: &[&str] = match name {
            "table" => &[],
            _ if TABLE_PARTS.contains(&name) || CELLS.contains(&name) => &["table"],
            "li" => &["td", "th", "caption", "ul", "ol"],
            _ => CELLS,
        };
        if !self.is_open(name, bounds) {
            return;
        }
        let is_inline = self.is_open_inline(name);
        if is_inline {
            self.flush();
        } else {
            self.end_leaf();
        }
        self.close_within(&[name], bounds);
    }

    fn is_open(&self, name: &str, bounds: &[&str]) -> bool {
        let open = self.ends.iter().rev().map_while(|it| it.html);
        open.take_while(|it| *it == name || !bounds.contains(it)).any(|it| it == name)
    }

    fn is_open_inline(&self, name: &str) -> bool {
        self.ends.iter().rev().take(self.inline).map_while(|it| it.html).any(|it| it == name)
    }

    fn pop_html(&mut self, count: usize) {
        for _ in 0..count {
            self.inline = self.inline.saturating_sub(1);
            self.pop_element();
        }
    }

    /// Closes the inline HTML elements that were left open.
    pub(super) fn close_html_inline(&mut self) {
        while self.inline > 0 && self.ends.last().is_some_and(|it| it.html.is_some()) {
            self.pop_html(1);
        }
    }

    fn push_plain(&mut self, name: &'static str) {
        let _ = write!(self.html, "<{name}>");
        let end = Cow::Owned(format!("</{name}>"));
        self.ends.push(Open { end, html: Some(name), is_link: false });
    }

    /// Opens an element, unless it is too deep.
    fn push_html(&mut self, tag: &Tag, is_inline: bool) {
        let is_part = TABLE_PARTS[1..].contains(&tag.name) || CELLS.contains(&tag.name);
        let deepest = if is_part { DEPTH_MAX } else { HTML_DEPTH_MAX };
        if self.ends.len() >= deepest {
            return;
        }
        let attributes = self.attributes_of(tag);
        let (start, end): (String, Cow<'static, str>) = match tag.name {
            "a" => match tag.value("href") {
                Some(address) => {
                    let (start, end) = self.link(address, false);
                    (start + &attributes, Cow::Borrowed(end))
                }
                None => (format!("<span{attributes}"), Cow::Borrowed("</span>")),
            },
            "table" => (
                format!(
                    "<div class=\"md-table\" role=\"group\" aria-label=\"Table\" tabindex=\"0\">\
                     <table{attributes}"
                ),
                Cow::Borrowed("</table></div>"),
            ),
            "center" => ("<div class=\"md-center\"".to_owned(), Cow::Borrowed("</div>")),
            name => {
                let shown = match name {
                    "strike" => "s",
                    "tt" => "code",
                    name => name,
                };
                (format!("<{shown}{attributes}"), Cow::Owned(format!("</{shown}>")))
            }
        };
        self.html.push_str(&start);
        self.html.push('>');
        let is_link = tag.name == "a" && tag.value("href").is_some();
        self.links_open += usize::from(is_link);
        self.ends.push(Open { end, html: Some(tag.name), is_link });
        self.inline += usize::from(is_inline);
    }

    /// Returns the allowed attributes of an element, each with a leading space.
    fn attributes_of(&mut self, tag: &Tag) -> String {
        let mut shown = String::new();
        let named = tag.value("id").or(if tag.name == "a" { tag.value("name") } else { None });
        if let Some(name) = named.map(slug).filter(|it| !it.is_empty())
            && let Some(id) = self.unique(name)
        {
            let _ = write!(shown, " id=\"{id}\"");
        }
        push_alignment(&mut shown, tag);
        match tag.name {
            "details" if tag.value("open").is_some() => shown.push_str(" open"),
            "ol" => push_number(&mut shown, tag, "start", 1_000_000),
            "td" | "th" => {
                push_number(&mut shown, tag, "colspan", SPAN_MAX);
                push_number(&mut shown, tag, "rowspan", SPAN_MAX);
            }
            _ => {}
        }
        if tag.sort == Sort::Inline
            && let Some(title) = tag.value("title")
        {
            push_title(&mut shown, title);
        }
        shown
    }

    fn html_break(&mut self, range: Range<usize>) {
        let is_set = self.leaf.as_ref().is_some_and(|it| it.name == "pre");
        self.line_break(if is_set { "" } else { "<br>" }, range);
    }

    fn html_image(&mut self, tag: &Tag, range: Range<usize>) {
        let Some(address) = tag.value("src") else { return };
        self.need_leaf(&range);
        let mut size = String::new();
        for side in ["width", "height"] {
            if let Some(length) = tag.value(side).and_then(length_of) {
                let _ = write!(size, " {side}=\"{length}\"");
            }
        }
        let class = match tag.value("align").map(str::to_ascii_lowercase).as_deref() {
            Some("left") => " class=\"md-left\"",
            Some("right") => " class=\"md-right\"",
            _ => "",
        };
        size.push_str(class);
        let words = ["alt", "title"].map(|it| tag.value(it).unwrap_or_default());
        self.image(address, words, size, range);
    }
}

fn push_alignment(shown: &mut String, tag: &Tag) {
    let is_aligned = matches!(tag.name, "p" | "div" | "td" | "th" | "tr" | "caption");
    let Some(align) = tag.value("align").filter(|_| is_aligned || tag.level().is_some()) else {
        return;
    };
    let words = [("left", "md-start"), ("center", "md-center"), ("right", "md-end")];
    if let Some((_, class)) = words.iter().find(|it| it.0.eq_ignore_ascii_case(align.trim())) {
        let _ = write!(shown, " class=\"{class}\"");
    }
}

fn push_number(shown: &mut String, tag: &Tag, name: &str, most: u32) {
    let number = tag.value(name).and_then(|it| it.trim().parse::<u32>().ok());
    if let Some(number) = number.filter(|it| *it <= most) {
        let _ = write!(shown, " {name}=\"{number}\"");
    }
}

/// Returns the length of a side: pixels or a percentage.
fn length_of(text: &str) -> Option<String> {
    let text = text.trim();
    let (number, unit) = match text.strip_suffix('%') {
        Some(share) => (share, "%"),
        None => (text.strip_suffix("px").unwrap_or(text), ""),
    };
    let number = number.trim().parse::<u32>().ok()?;
    let most = if unit.is_empty() { SIDE_MAX } else { 100 };
    (1..=most).contains(&number).then(|| format!("{number}{unit}"))
}
