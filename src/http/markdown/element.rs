//! The open elements of a text that is being written, innermost last.

use std::borrow::Cow;
use std::ops::Range;

use crate::http::markdown::prose::is_right_to_left;
use crate::http::markdown::writer::Writer;

/// Maximum depth of elements; deeper ones are omitted. Browsers stop at 512.
pub(super) const DEPTH_MAX: usize = 48;
pub(super) const TABLE_END: &str = "</tbody></table></div>";

/// An open element.
#[derive(Default)]
pub(super) struct Open {
    /// Its end tag; empty for an element that was omitted.
    pub(super) end: Cow<'static, str>,
    /// Its name if it was written as HTML; Markdown closes only its own elements.
    pub(super) html: Option<&'static str>,
    /// Whether it is a link of HTML.
    pub(super) is_link: bool,
}

impl Writer<'_> {
    /// Opens an element that holds blocks, unless it is too deep.
    pub(super) fn open(&mut self, start: &str, end: &'static str) {
        self.end_leaf();
        self.need_cell();
        self.push_element(start, end);
    }

    /// Opens an element whose markers are on the side where its text begins.
    pub(super) fn open_turned(&mut self, start: &str, range: Range<usize>, end: &'static str) {
        let text = self.text.get(range).unwrap_or_default();
        let turn = if is_right_to_left(text) { " dir=\"rtl\">" } else { ">" };
        self.open(&format!("{start}{turn}"), end);
    }

    pub(super) fn close(&mut self) {
        self.end_leaf();
        // HTML left open inside it ends with it.
        self.pop_html_holders();
        self.pop_element();
    }

    pub(super) fn pop_html_holders(&mut self) {
        while self.ends.last().is_some_and(|it| it.html.is_some()) {
            self.pop_element();
        }
    }

    /// Returns whether text is now inside a Markdown table but in no row: the parser gives up on a
    /// table with too many cells.
    pub(super) fn is_between_rows(&self) -> bool {
        self.table.is_some() && self.ends.last().is_some_and(|it| it.end == TABLE_END)
    }

    pub(super) fn open_inline(&mut self, start: &str, end: &'static str, range: &Range<usize>) {
        if self.image.is_some() {
            return;
        }
        self.need_leaf(range);
        self.flush();
        self.inline += 1;
        self.push_element(start, end);
    }

    pub(super) fn close_inline(&mut self) {
        if self.image.is_some() {
            return;
        }
        self.flush();
        self.close_html_inline();
        if self.inline > 0 {
            self.inline -= 1;
            self.pop_element();
        }
    }

    pub(super) fn push_element(&mut self, start: &str, end: &'static str) {
        let is_shown = self.ends.len() < DEPTH_MAX;
        self.html.push_str(if is_shown { start } else { "" });
        let end = Cow::Borrowed(if is_shown { end } else { "" });
        self.ends.push(Open { end, ..Open::default() });
    }

    pub(super) fn pop_element(&mut self) {
        let Some(Open { end, is_link, .. }) = self.ends.pop() else { return };
        self.html.push_str(&end);
        self.links_open -= usize::from(is_link);
    }

    pub(super) fn rule(&mut self) {
        self.end_leaf();
        self.need_cell();
        self.html.push_str("<hr>");
    }
}
