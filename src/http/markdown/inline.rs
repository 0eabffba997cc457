//! The inline content of a block: text, code, links, images, references to footnotes.

use std::ops::Range;

use pulldown_cmark::{LinkType, Tag};

use crate::http::markdown::autolink::addresses;
use crate::http::markdown::link::Target;
use crate::http::markdown::prose::push_text;
use crate::http::markdown::writer::{Writer, push_title};

/// Longest name of a footnote that is distinguished from others, in bytes.
const NOTE_BYTES_MAX: usize = 200;
/// Attributes of an external link: no referrer, no endorsement.
const OUTSIDE: &str = "rel=\"noopener noreferrer nofollow\" class=\"md-out\"";

impl Writer<'_> {
    /// Shows text that stands for some bytes.
    pub(super) fn show(&mut self, shown: &str, range: Range<usize>) {
        if let Some(image) = &mut self.image {
            image.alt.push_str(shown);
            return;
        }
        self.need_leaf(&range);
        if let Some(leaf) = &mut self.leaf {
            leaf.block.push(self.text, shown, range);
            leaf.has_content |= !shown.trim().is_empty();
        }
        if let Some(heading) = &mut self.heading_text {
            heading.push_str(shown);
        }
        self.pending.push_str(shown);
    }

    /// Writes pending text, with the addresses in it as links.
    pub(super) fn flush(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let text = std::mem::take(&mut self.pending);
        let mut from = 0;
        let is_plain = self.is_apart || self.links_open > 0;
        let found = if is_plain { Vec::new() } else { addresses(&text) };
        for range in found {
            let Some(Target::Outside(address)) = self.links.target(&text[range.clone()]) else {
                continue;
            };
            push_text(&mut self.html, &text[from..range.start]);
            let host = self.links.host_of(&address, true);
            self.html.push_str(&format!("<a href=\"{address}\" {OUTSIDE}{host}>"));
            push_text(&mut self.html, &text[range.clone()]);
            self.html.push_str("</a>");
            from = range.end;
        }
        push_text(&mut self.html, &text[from..]);
    }

    /// Shows text in which addresses are no links: code, raw HTML.
    pub(super) fn show_apart(&mut self, shown: &str, range: Range<usize>, start: &str, end: &str) {
        self.flush();
        if self.image.is_some() {
            return self.show(shown, range);
        }
        self.need_leaf(&range);
        self.html.push_str(start);
        let was_apart = std::mem::replace(&mut self.is_apart, true);
        self.show(shown, range);
        self.flush();
        self.is_apart = was_apart;
        self.html.push_str(end);
    }

    /// The event's bytes include the backticks.
    pub(super) fn code_span(&mut self, shown: &str, range: Range<usize>) {
        let full = &self.text[range.clone()];
        let ticks = full.len() - full.trim_start_matches('`').len();
        let mut inner =
            range.start + ticks..range.end.saturating_sub(ticks).max(range.start + ticks);
        let within = &self.text[inner.clone()];
        if within.len() == shown.len() + 2 && within.len() > 2 {
            inner = inner.start + 1..inner.end - 1;
        }
        if self.text.get(inner.clone()).is_none() {
            inner = range;
        }
        self.show_apart(shown, inner, "<code>", "</code>");
    }

    /// Copied text has a line feed for a break.
    pub(super) fn line_break(&mut self, element: &str, range: Range<usize>) {
        if self.image.is_none() {
            self.need_leaf(&range);
            self.flush();
            self.html.push_str(element);
        }
        // Only the break itself, without the marker of a quotation after it.
        self.show("\n", range);
    }

    pub(super) fn begin_link(&mut self, tag: &Tag<'_>, range: &Range<usize>) {
        let Tag::Link { link_type, dest_url: address, title, .. } = tag else { return };
        let is_written = matches!(link_type, LinkType::Autolink | LinkType::Email);
        let (mut start, end) = self.link(address, is_written);
        if end == "</a>" {
            push_title(&mut start, title);
        }
        start.push('>');
        self.open_inline(&start, end, range);
        self.links_open += 1;
    }

    /// Returns the start (without its last character) and end of a link; only the text if the link
    /// is not allowed or is inside another one. `is_written` says that its words are the address.
    pub(super) fn link(&self, address: &str, is_written: bool) -> (String, &'static str) {
        match self.links.target(address) {
            _ if self.links_open > 0 => ("<span".to_owned(), "</span>"),
            Some(Target::Here(address)) => (format!("<a href=\"{address}\""), "</a>"),
            Some(Target::Outside(address)) => {
                let host = self.links.host_of(&address, is_written);
                (format!("<a href=\"{address}\" {OUTSIDE}{host}"), "</a>")
            }
            None => ("<span class=\"md-nowhere\"".to_owned(), "</span>"),
        }
    }

    /// Footnotes are numbered in the order of their first reference.
    fn note_number(&mut self, name: &str) -> usize {
        let next = self.notes.len() + 1;
        let key: String = name.to_lowercase().chars().take(NOTE_BYTES_MAX).collect();
        *self.notes.entry(key).or_insert(next)
    }

    pub(super) fn note_reference(&mut self, name: &str, range: Range<usize>) {
        let number = self.note_number(name);
        let number_shown = number.to_string();
        let Some(prefix) = self.links.prefix().filter(|_| self.links_open == 0) else {
            return self.show_apart(&number_shown, range, "<sup>", "</sup>");
        };
        let start =
            format!("<sup><a href=\"#{prefix}note-{number}\" aria-label=\"Footnote {number}\">");
        self.show_apart(&number_shown, range, &start, "</a></sup>");
    }

    pub(super) fn begin_note(&mut self, name: &str) {
        let number = self.note_number(name);
        let id = self.unique(format!("note-{number}"));
        let id = id.map(|it| format!(" id=\"{it}\"")).unwrap_or_default();
        self.open(&format!("<div class=\"md-note\"{id} data-n=\"{number}\">"), "</div>");
    }
}
