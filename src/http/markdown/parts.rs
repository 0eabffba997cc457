//! A long text in parts: a browser need not lay out what nobody looks at yet.

use pulldown_cmark::{Event, HeadingLevel, Tag};

/// A text with less HTML than this is one piece.
const WHOLE_BYTES_MAX: usize = 24 * 1024;
/// A part ends at the next heading from here on: about two windows of prose.
const BYTES_MIN: usize = 4 * 1024;
/// It ends at any block from here on.
const BYTES_MAX: usize = 12 * 1024;

/// Where the parts of a text begin.
#[derive(Default)]
pub(super) struct Parts {
    /// Bytes of the HTML, rising, and whether a heading with room above it stands there.
    cuts: Vec<(usize, bool)>,
}

impl Parts {
    /// Looks whether a part begins with an event between two blocks, `at` a byte of the HTML.
    pub(super) fn look(&mut self, event: &Event<'_>, at: usize) {
        let size = at - self.cuts.last().map_or(0, |it| it.0);
        // The first level has no room above it, so that its own rules hold.
        let is_heading = matches!(
            event,
            Event::Start(Tag::Heading { level, .. }) if *level != HeadingLevel::H1
        );
        if size >= BYTES_MAX || (size >= BYTES_MIN && is_heading) {
            self.cuts.push((at, is_heading));
        }
    }

    /// Returns the HTML with an element around each part; as it is, if it is short.
    pub(super) fn divide(&self, html: String) -> String {
        if html.len() < WHOLE_BYTES_MAX || self.cuts.is_empty() {
            return html;
        }
        let mut made = String::with_capacity(html.len() + 48 * self.cuts.len());
        let mut from = 0;
        for (at, is_heading) in self.cuts.iter().copied().chain([(html.len(), false)]) {
            // The room above a heading counts alone, as where no part ends before it.
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
