//! Sources as HTML with their maps, and the bytes behind a selection on a page.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::base::limit::RENDERED_TEXT_BYTES_MAX;
use crate::base::{BlobId, Error, ErrorKind, Result, SourcePath};
use crate::documents::topics::suggestion;
use crate::flows::repository::read_version::require_same;
use crate::flows::{self, Site};
use crate::http::markdown::{
    Block, Heading, Html, Point, RENDERER_VERSION, Rendered, Renderer, bytes_between, units_to_byte,
};
use crate::http::{Call, any_of, get, reply};

type Desk = (Site, Renderer);

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct ByPath {
    path: SourcePath,
}

/// What is selected on a page.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Selected {
    path: SourcePath,
    /// The version that the page shows.
    blob: BlobId,
    /// `BLOCK:UNITS`
    from: String,
    to: String,
    /// Whether the page shows the text as it is: then a block is a line.
    text: Option<String>,
}

/// A Source as HTML.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::http) struct RenderedSource<'r> {
    path: SourcePath,
    blob: BlobId,
    /// Changes whenever the same text would be written differently.
    renderer: u32,
    html: &'r Html,
    headings: &'r [Heading],
    /// Which bytes of the text are shown where.
    blocks: &'r [Block],
}

/// Words of a text.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "PassageWords"))]
pub(in crate::http) struct Words {
    /// The first byte.
    start: usize,
    /// The byte after the last.
    end: usize,
    /// The text between.
    quote: String,
}

/// The bytes of a selection.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::http) struct Passage {
    path: SourcePath,
    blob: BlobId,
    #[serde(flatten)]
    words: Words,
    /// The selection together with everything that must change with it.
    editable: Words,
}

pub(in crate::http) fn routes(site: &Site, renderer: &Renderer) -> BoxedFilter<(Response,)> {
    let desk: Desk = (site.clone(), renderer.clone());
    any_of([
        get("/api/source/rendered", &desk, rendered),
        get("/api/source/passage", &desk, passage),
    ])
}

async fn rendered((site, renderer): Desk, call: Call) -> Result<Response> {
    let ByPath { path } = call.query()?;
    let (blob, text) = flows::sources::text(&site, &call.caller()?, &path).await?;
    require_short(&path, &text)?;
    let shown = renderer.source(path.as_str(), &blob, &text).await?;
    let Rendered { html, headings, blocks, .. } = &*shown;
    reply::ok(&RenderedSource { path, blob, renderer: RENDERER_VERSION, html, headings, blocks })
}

fn require_short(path: &SourcePath, text: &str) -> Result<()> {
    if text.len() <= RENDERED_TEXT_BYTES_MAX {
        return Ok(());
    }
    let message = format!(
        "{path} has {} bytes, and what is rendered has at most {RENDERED_TEXT_BYTES_MAX}",
        text.len()
    );
    Err(Error::new(ErrorKind::TooLarge, message).hint("view it as text"))
}

async fn passage((site, renderer): Desk, call: Call) -> Result<Response> {
    let asked: Selected = call.query()?;
    let (from, to): (Point, Point) = (asked.from.parse()?, asked.to.parse()?);
    let caller = call.caller()?;
    if let Some(read) = call.read_version()? {
        require_same(&site, &asked.path, &read).await?;
    }
    let (blob, text) = flows::sources::text(&site, &caller, &asked.path).await?;
    if blob != asked.blob {
        let message = format!("{} has changed since the page was loaded", asked.path);
        return Err(Error::conflict("source_changed", message)
            .hint("read the new text and select the passage again"));
    }
    let range = match asked.text {
        Some(_) => bytes_of_lines(&text, from, to),
        None => {
            require_short(&asked.path, &text)?;
            let shown = renderer.source(asked.path.as_str(), &blob, &text).await?;
            bytes_between(&text, &shown.blocks, from, to)
        }
    };
    let quote = range.as_ref().and_then(|it| text.get(it.clone())).filter(|it| !it.is_empty());
    let (Some(Range { start, end }), Some(quote)) = (range.clone(), quote) else {
        return Err(Error::invalid("the selection is not in the text")
            .code("bad_selection")
            .hint("select a passage of the text"));
    };
    let whole = suggestion::editable(&text, start..end);
    let editable =
        Words { start: whole.start, end: whole.end, quote: text[whole.clone()].to_owned() };
    let words = Words { start, end, quote: quote.to_owned() };
    reply::ok(&Passage { path: asked.path, blob, words, editable })
}

/// Returns the bytes between two positions in a text that is shown line by line.
fn bytes_of_lines(text: &str, from: Point, to: Point) -> Option<Range<usize>> {
    let start = from.block + units_to_byte(text.get(from.block..)?, from.unit);
    let end = to.block + units_to_byte(text.get(to.block..)?, to.unit);
    (start < end).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_block_of_its_own() {
        let text = "one\r\nzwei ü👩 x\n";
        let point = |it: &str| it.parse::<Point>().unwrap();
        let bytes = |from, to| bytes_of_lines(text, point(from), point(to)).map(|it| &text[it]);
        assert_eq!(bytes("0:1", "5:4"), Some("ne\r\nzwei"));
        assert_eq!(bytes("5:5", "5:8"), Some("ü👩"));
        assert_eq!(bytes("5:8", "5:5"), None);
        assert_eq!(bytes("11:0", "5:9"), None, "within a character");
        assert_eq!(bytes("99:0", "99:1"), None);
        assert!("1".parse::<Point>().is_err() && "1:-2".parse::<Point>().is_err());
    }
}
