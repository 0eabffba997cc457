//! Messages of a thread: their text, and their suggestions as small diffs.

use crate::documents::topics::suggestion::{Block, blocks};
use crate::http::markdown::{self, Html, Links};
use crate::http::pages::parts::difference::Difference;

/// Most suggestions of one message that are shown as diffs.
const SUGGESTIONS_MAX: usize = 20;

/// A part of a message.
pub(in crate::http::pages) enum Part {
    /// Markdown.
    Text(Html),
    /// A suggested replacement for the Topic's passage.
    Suggestion(Box<Difference>),
}

/// Returns text as Markdown, with links as in a document; `name` makes its ids unique on the page.
pub(in crate::http::pages) fn written(name: &str, text: &str, document: &str) -> Html {
    let prefix = format!("md-{name}-");
    markdown::render(text, &Links::of_document(document).with_prefix(&prefix)).html
}

/// Splits a message about a document. A suggestion is compared with the Topic's passage; without a
/// passage it is text.
pub(in crate::http::pages) fn parts(
    name: &str,
    body: &str,
    document: &str,
    words: Option<&str>,
) -> Vec<Part> {
    let text = |number: usize, text: &str| {
        Part::Text(written(&format!("{name}-{number}"), text, document))
    };
    let Some(words) = words else { return vec![text(0, body)] };
    let (mut parts, mut plain_from, mut count) = (Vec::new(), 0, 0);
    for Block { range, words: inner } in blocks(body).0.into_iter().take(SUGGESTIONS_MAX) {
        let plain = &body[plain_from..range.start];
        if !plain.trim().is_empty() {
            parts.push(text(count, plain));
        }
        count += 1;
        let name = format!("{name}-{count}-");
        // Compared as lines, so that a missing line break at the end is not a difference.
        // The engine writes the document's line ends, whatever those of the message are.
        let line = |text: &str| format!("{}\n", text.replace("\r\n", "\n").trim_end_matches('\n'));
        let made = Difference::named(&name, &line(words), &line(&inner), 0);
        parts.push(Part::Suggestion(Box::new(made)));
        plain_from = range.end;
    }
    let plain = &body[plain_from..];
    if parts.is_empty() || !plain.trim().is_empty() {
        parts.push(text(count, plain));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(body: &str, words: Option<&str>) -> Vec<String> {
        let show = |it: Part| match it {
            Part::Text(html) => html.to_string().trim().to_owned(),
            Part::Suggestion(it) => format!("+{} -{}", it.added, it.removed),
        };
        parts("m1", body, "docs/a.md", words).into_iter().map(show).collect()
    }

    #[test]
    fn a_suggestion_is_compared_with_the_words() {
        let body = "Better:\n\n```suggestion\nThe new words.\n```\n\nYes?";
        assert_eq!(shown(body, Some("The old words.")), ["<p>Better:</p>", "+1 -1", "<p>Yes?</p>"]);
        assert_eq!(shown(body, None).len(), 1);
        assert_eq!(shown("plain", Some("x")), ["<p>plain</p>"]);
        assert_eq!(shown("", Some("x")), [""]);
        let body = "```suggestion\nOne.\nThree.\n```";
        assert_eq!(shown(body, Some("One.\r\nTwo.")), ["+1 -1"]);
    }

    #[test]
    fn what_is_no_suggestion_stays_text() {
        for body in [
            "```suggestion\nnever closed",
            "```rust\n```suggestion\nx\n```",
            "````\n```suggestion\nx\n```\n````",
            "``suggestion\nx\n``",
        ] {
            assert!(shown(body, Some("w")).iter().all(|it| it.starts_with('<')), "{body}");
        }
        let longer = "````suggestion\n```\ncode\n```\n````";
        assert_eq!(shown(longer, Some("w")), ["+3 -1"]);
    }
}
