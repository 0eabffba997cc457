//! Splits a text into blocks: an answer that is still being written is shown block by block, and a
//! finished block never changes.

use std::ops::Range;

use pulldown_cmark::{Event, Parser};

use crate::documents::sources::plain::dialect;
use crate::http::markdown::{Html, Links, render};

/// Returns the bytes of each block of a text, in order.
fn blocks(text: &str) -> Vec<Range<usize>> {
    let (mut found, mut depth, mut start) = (Vec::new(), 0usize, 0);
    for (event, range) in Parser::new_ext(text, dialect()).into_offset_iter() {
        match event {
            Event::Start(_) => {
                if depth == 0 {
                    start = range.start;
                }
                depth += 1;
            }
            Event::End(_) => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    found.push(start..range.end.max(start));
                }
            }
            _ if depth == 0 => found.push(range),
            _ => {}
        }
    }
    found
}

/// Returns each block of an answer as HTML.
pub(in crate::http) fn blocks_of(text: &str) -> Vec<Html> {
    blocks(text).into_iter().filter_map(|range| text.get(range)).map(one).collect()
}

/// Each block is rendered alone, so references to other blocks stay text, and a block does not know
/// which ids others have.
fn one(text: &str) -> Html {
    render(text, &Links::of_folder("").without_ids().with_hosts()).html
}

/// An answer that is being written.
#[derive(Debug, Default)]
pub(in crate::http) struct Growing {
    text: String,
    /// The start and number of the block that may still change.
    open: (usize, usize),
}

impl Growing {
    /// Adds text.
    pub(in crate::http) fn push(&mut self, delta: &str) {
        self.text.push_str(delta);
    }

    /// Returns the blocks that changed since the last call, with their numbers; the last one may
    /// change again.
    pub(in crate::http) fn changed(&mut self) -> Vec<(usize, Html)> {
        let (start, first) = self.open;
        let rest = self.text.get(start..).unwrap_or_default();
        let found = blocks(rest);
        let html = |(place, range): (usize, &Range<usize>)| {
            Some((first + place, one(rest.get(range.clone())?)))
        };
        let changed = found.iter().enumerate().filter_map(html).collect();
        // An incomplete line says nothing yet about the block before it.
        let whole_lines = rest.rfind('\n').map_or("", |end| &rest[..=end]);
        if let [before @ .., last] = blocks(whole_lines).as_slice() {
            self.open = (start + last.start, first + before.len());
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Title\n\nA *first* paragraph\nof two lines.\n\n- one\n- two\n\n  more\n\n\
        ```rust\nfn main() {}\n\n\n```\n\n> quoted\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n---\n\n\
        <script>alert(1)</script>\n\nLast [link](javascript:alert(1)) ![x](http://evil/x.png)";

    /// However the text is divided, the blocks are those of the whole text in the end.
    #[test]
    fn pieces_become_the_blocks_of_the_whole() {
        let whole = blocks_of(TEXT);
        assert!(whole.len() >= 8, "{whole:?}");
        for size in [1, 2, 3, 7, 50, 1_000] {
            let (mut growing, mut shown) = (Growing::default(), Vec::<Html>::new());
            let characters: Vec<char> = TEXT.chars().collect();
            for piece in characters.chunks(size) {
                growing.push(&piece.iter().collect::<String>());
                for (index, html) in growing.changed() {
                    shown.truncate(index);
                    shown.push(html);
                }
            }
            assert_eq!(shown, whole, "{size}");
        }
    }

    #[test]
    fn an_answer_is_text_of_others() {
        let html: String = blocks_of(TEXT).iter().map(ToString::to_string).collect();
        assert!(!html.contains("<script") && !html.contains("javascript:"), "{html}");
        assert!(!html.contains("<img"), "{html}");
        // Where a link leads is shown, whatever its words say.
        for (text, host) in [
            ("[good.test](http://good.test@evil.test/x)", Some("evil.test")),
            ("![good.test](http://evil.test/x.png)", Some("evil.test")),
            ("<http://good.test@evil.test/x>", Some("evil.test")),
            ("<http://c.test/x>", None),
            ("so http://c.test/x", None),
            ("<ada@c.test>", None),
        ] {
            let html = blocks_of(text)[0].to_string();
            let shown = html.split_once("data-to=\"").map(|it| it.1.split_once('"').unwrap().0);
            assert_eq!(shown, host, "{html}");
        }
    }
}
