//! Splits a long text into parts, so that a browser need not lay out what is off screen.

use pulldown_cmark::{Event, HeadingLevel, Tag};

/// A text with less HTML than this is not split.
const WHOLE_BYTES_MAX: usize = 24 * 1024;
/// From here on, a part ends at the next heading: about two screens of prose.
const BYTES_MIN: usize = 4 * 1024;
/// From here on, a part ends at any block.
const BYTES_MAX: usize = 12 * 1024;

/// The starts of the parts of a text.
#[derive(Default)]
pub(super) struct Parts {
    /// Offsets in the HTML, ascending, and whether a heading with a top margin begins there.
    cuts: Vec<(usize, bool)>,
}

impl Parts {
    /// Checks whether a part starts with an event between two blocks; `at` is an offset in the
    /// HTML.
    pub(super) fn look(&mut self, event: &Event<'_>, at: usize) {
        let size = at - self.cuts.last().map_or(0, |it| it.0);
        // Headings of the first level have no top margin, so that their own CSS applies.
        let is_heading = matches!(
            event,
            Event::Start(Tag::Heading { level, .. }) if *level != HeadingLevel::H1
        );
        if size >= BYTES_MAX || (size >= BYTES_MIN && is_heading) {
            self.cuts.push((at, is_heading));
        }
    }

    /// Returns the HTML with an element around each part; unchanged if it is short.
    pub(super) fn divide(&self, html: String) -> String {
        if html.len() < WHOLE_BYTES_MAX || self.cuts.is_empty() {
            return html;
        }
        let mut made = String::with_capacity(html.len() + 48 * self.cuts.len());
        let mut from = 0;
        for (at, is_heading) in self.cuts.iter().copied().chain([(html.len(), false)]) {
            // Only the heading's own margin applies, as in a text that is not split.
            let class = if is_heading { "md-part md-part-close" } else { "md-part" };
            made.push_str("<div class=\"");
            made.push_str(class);
            made.push_str("\">");
            made.push_str(html.get(from..at).unwrap_or_default());
            made.push_str("</div>");
            from = at;
        }
        made
    }
}
