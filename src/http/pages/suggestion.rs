//! Messages of a thread: their text, and the suggestions in it as small differences.

use crate::http::pages::difference::Difference;
use crate::http::pages::visible::Visible;

/// Longest fence that is looked for.
const FENCE_MIN: usize = 3;
/// Most suggestions of one message that are shown as such.
const SUGGESTIONS_MAX: usize = 20;

/// A part of a message.
pub(super) enum Part {
    /// What somebody wrote.
    Text(Visible),
    /// Words that somebody suggests instead of those that the Topic is about.
    Suggestion(Box<Difference>),
}

/// Splits a message. A suggestion is compared with the words of the Topic; without any it is text.
pub(super) fn parts(prefix: &str, body: &str, words: Option<&str>) -> Vec<Part> {
    let Some(words) = words else { return vec![Part::Text(Visible(body.to_owned()))] };
    let (mut parts, mut plain_from, mut count) = (Vec::new(), 0, 0);
    for (range, inner) in suggestions(body).into_iter().take(SUGGESTIONS_MAX) {
        let text = body[plain_from..range.start].trim_end_matches('\n');
        if !text.trim().is_empty() {
            parts.push(Part::Text(Visible(text.to_owned())));
        }
        count += 1;
        let name = format!("{prefix}-{count}-");
        // Compared as lines: that words end without a line break is nothing to be told.
        let line = |text: &str| format!("{}\n", text.trim_end_matches('\n'));
        let made = Difference::named(&name, &line(words), &line(&inner), 0);
        parts.push(Part::Suggestion(Box::new(made)));
        plain_from = range.end;
    }
    let text = body[plain_from..].trim_start_matches('\n');
    if parts.is_empty() || !text.trim().is_empty() {
        parts.push(Part::Text(Visible(text.to_owned())));
    }
    parts
}

/// Returns the fenced blocks of a message that are suggestions: where they stand, and what is in
/// them.
fn suggestions(body: &str) -> Vec<(std::ops::Range<usize>, String)> {
    let (mut found, mut at) = (Vec::new(), 0);
    let mut open: Option<(usize, usize, bool, String)> = None;
    for line in body.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let bare = line.trim();
        let ticks = bare.bytes().take_while(|it| *it == b'`').count();
        match &mut open {
            None if ticks >= FENCE_MIN && !bare[ticks..].contains('`') => {
                let is_ours = bare[ticks..].trim() == "suggestion";
                open = Some((start, ticks, is_ours, String::new()));
            }
            None => {}
            Some((_, fence, ..)) if ticks >= *fence && bare.len() == ticks => {
                if let Some((from, _, true, inner)) = open.take() {
                    found.push((from..at, inner));
                }
            }
            Some((.., inner)) => inner.push_str(line),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(body: &str, words: Option<&str>) -> Vec<String> {
        let show = |it: Part| match it {
            Part::Text(text) => format!("text {}", text.0),
            Part::Suggestion(it) => format!("+{} -{}", it.added, it.removed),
        };
        parts("m1", body, words).into_iter().map(show).collect()
    }

    #[test]
    fn a_suggestion_is_compared_with_the_words() {
        let body = "Better:\n\n```suggestion\nThe new words.\n```\n\nYes?";
        assert_eq!(shown(body, Some("The old words.")), ["text Better:", "+1 -1", "text Yes?"]);
        assert_eq!(shown(body, None).len(), 1);
        assert_eq!(shown("plain", Some("x")), ["text plain"]);
        assert_eq!(shown("", Some("x")), ["text "]);
    }

    #[test]
    fn what_is_no_suggestion_stays_text() {
        for body in [
            "```suggestion\nnever closed",
            "```rust\n```suggestion\nx\n```",
            "````\n```suggestion\nx\n```\n````",
            "``suggestion\nx\n``",
        ] {
            assert!(shown(body, Some("w")).iter().all(|it| it.starts_with("text")), "{body}");
        }
        let longer = "````suggestion\n```\ncode\n```\n````";
        assert_eq!(shown(longer, Some("w")), ["+3 -1"]);
    }
}
