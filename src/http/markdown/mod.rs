//! Markdown as HTML of our own, with the way back from what is shown to the bytes of the text.
//!
//! **Invariant:** what a text says never becomes an element, an attribute or an address that this
//! module does not write itself: HTML is written anew from a list of elements (`documents/html`).
//! **Invariant:** the text of a block here is the `textContent` of its element in the browser.
//! **Invariant:** a hostile text costs no more than a large one.

mod autolink;
mod code;
mod element;
mod html;
mod image;
mod image_sizes;
mod inline;
mod kept;
mod link;
mod map;
mod mention;
mod parts;
mod plain;
mod prose;
mod split;
#[cfg(test)]
mod tests;
mod writer;

use std::fmt;

use askama::filters::HtmlSafe;
use serde::Serialize;

pub(in crate::http) use code::Highlighter;
pub(in crate::http) use kept::Renderer;
pub(in crate::http) use link::{Links, is_image, slug};
pub(in crate::http) use map::{Block, Point, bytes_between, points_of, units_to_byte};
pub(in crate::http) use mention::mark_mentions;
pub(in crate::http) use plain::plain;
pub(in crate::http) use prose::Prose;
pub(in crate::http) use split::{Growing, blocks_of};

/// Changes whenever the same text would be rendered differently.
pub(in crate::http) const RENDERER_VERSION: u32 = 5;

/// HTML written by this module; templates insert it unescaped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::http) struct Html(String);

impl HtmlSafe for Html {}

impl fmt::Display for Html {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Html {
    /// Returns the HTML.
    pub(in crate::http) fn as_str(&self) -> &str {
        &self.0
    }
}

/// A heading of a rendered text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "RenderedHeading"))]
pub(in crate::http) struct Heading {
    /// 1 to 6.
    pub(in crate::http) level: u8,
    /// Its text without markup, not escaped.
    pub(in crate::http) text: String,
    /// The `id` of its element.
    pub(in crate::http) id: String,
    /// Its first byte in the text.
    pub(in crate::http) start: usize,
}

/// A rendered text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::http) struct Rendered {
    /// The HTML.
    pub(in crate::http) html: Html,
    /// Its headings, in order.
    pub(in crate::http) headings: Vec<Heading>,
    /// Its blocks, in the order of the text; empty unless a map was requested.
    pub(in crate::http) blocks: Vec<Block>,
}

/// Returns a text as HTML.
pub(in crate::http) fn render(text: &str, links: &Links<'_>) -> Rendered {
    writer::write(text, links, false)
}

/// Returns a text as HTML whose blocks have `data-b="start-end"`, their bytes in the text, with the
/// map of each block.
pub(in crate::http) fn with_map(text: &str, links: &Links<'_>) -> Rendered {
    writer::write(text, links, true)
}
