//! Text in HTML: escaped, with invisible characters made visible.

use std::fmt::{self, Write as _};

use askama::filters::HtmlSafe;

use crate::base::{fault, is_needed};
use crate::http::pages::invisible_name;

/// Characters in which the first letter of a text is searched.
const DIRECTION_CHARS_MAX: usize = 200;

/// Prose: like `Visible`, but characters of ordinary writing (a joiner within an emoji, a no-break
/// space) get no label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::http) struct Prose<'t>(pub(in crate::http) &'t str);

impl HtmlSafe for Prose<'_> {}

impl fmt::Display for Prose<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut html = String::with_capacity(self.0.len());
        push_text(&mut html, self.0);
        f.write_str(&html)
    }
}

/// Appends text as HTML. Its `textContent` is the text without control characters.
pub(super) fn push_text(html: &mut String, text: &str) {
    if fault::is_off("escape") {
        return html.push_str(text);
    }
    let mut plain_from = 0;
    let mut before = None;
    for (at, character) in text.char_indices() {
        let entity = match character {
            '&' => "&amp;",
            '<' => "&lt;",
            '>' => "&gt;",
            '"' => "&quot;",
            '\'' => "&#39;",
            _ => "",
        };
        if !entity.is_empty() {
            html.push_str(&text[plain_from..at]);
            html.push_str(entity);
            plain_from = at + 1;
        } else if !character.is_ascii_graphic()
            && let Some(name) = label(before, character, &text[at + character.len_utf8()..])
        {
            html.push_str(&text[plain_from..at]);
            plain_from = at + character.len_utf8();
            // Line ends of other systems need no label.
            if character != '\r' || !text[plain_from..].starts_with('\n') {
                push_odd(html, character, name);
            }
        }
        before = Some(character);
    }
    html.push_str(&text[plain_from..]);
}

/// Isolated, so that an override ends with its label. HTML cannot carry control characters.
fn push_odd(html: &mut String, character: char, name: &str) {
    let code = u32::from(character);
    // Writing to a string does not fail.
    let _ = write!(html, "<bdi class=\"odd\" data-code=\"U+{code:04X}\" title=\"{name}\">");
    if !character.is_control() {
        html.push(character);
    }
    html.push_str("</bdi>");
}

/// Returns whether a text is written from right to left, by its first letter.
pub(super) fn is_right_to_left(text: &str) -> bool {
    let first = text.chars().take(DIRECTION_CHARS_MAX).find(|it| it.is_alphabetic());
    first.is_some_and(|it| {
        matches!(it, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{feff}'
            | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}')
    })
}

/// Returns the number of UTF-16 units that a character has in the browser's `textContent`.
pub(super) fn shown_units(character: char) -> usize {
    match character {
        '\t' | '\n' => 1,
        it if it.is_control() => 0,
        it => it.len_utf16(),
    }
}

/// Returns the name of a character that must be made visible. Markup may end a text within a word,
/// so at its end the character before decides.
fn label(before: Option<char>, character: char, rest: &str) -> Option<&'static str> {
    let name = invisible_name(character)?;
    // Typography, and indents in East Asian text.
    let is_usual = matches!(
        character,
        '\u{a0}' | '\u{202f}' | '\u{2009}' | '\u{200a}' | '\u{3000}' | '\u{ad}'
    );
    let after = rest.chars().next().or(before);
    (!is_usual && !is_needed(before, character, after)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_letter_says_where_a_text_begins() {
        for (text, expected) in
            [("- 1. أولا x", true), ("> ** שלום", true), ("- x أولا", false), ("123", false)]
        {
            assert_eq!(is_right_to_left(text), expected, "{text}");
        }
    }

    #[test]
    fn what_deceives_is_labelled_and_what_writing_needs_is_not() {
        let plain =
            "ü 日本\u{3000}👩\u{200d}💻 ❤\u{fe0f} 10\u{a0}km می\u{200c}خواهم 1\u{fe0f}\u{20e3}";
        assert_eq!(Prose(plain).to_string(), plain);
        for bad in
            ["a\u{202e}b", "a\u{200b}b", "a\u{200d}b", "\u{e0041}", "x\u{1b}[31m", "\u{2066}"]
        {
            assert!(Prose(bad).to_string().contains("class=\"odd\""), "{bad:?}");
        }
        assert_eq!(Prose("<a href='x'>&").to_string(), "&lt;a href=&#39;x&#39;&gt;&amp;");
        assert!(!Prose("\u{1b}\r\0").to_string().contains(['\u{1b}', '\r', '\0']));
    }
}
