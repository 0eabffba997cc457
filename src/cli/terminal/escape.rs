//! Escapes texts of documents, agents and servers for a terminal.

use crate::base::{invisible_name, is_needed};

/// Returns one line: control characters, line breaks and direction marks become visible escapes.
pub(in crate::cli) fn line(text: &str) -> String {
    escape(text, |_| false)
}

/// Returns several lines: like [`line()`], but line feeds and tabs stay.
pub(in crate::cli) fn block(text: &str) -> String {
    escape(text, |c| c == '\n' || c == '\t')
}

/// Returns the same JSON without characters that a terminal would obey, which JSON can escape. Line
/// feeds stay, because they are only between values.
pub(in crate::cli) fn json(text: &str) -> String {
    let mut harmless = String::with_capacity(text.len());
    for (before, c, after) in neighbors(text) {
        if c != '\n' && (is_harmful(c) || is_hidden(before, c, after)) {
            let mut units = [0; 2];
            let units = c.encode_utf16(&mut units).iter();
            harmless.extend(units.map(|it| format!("\\u{it:04x}")));
        } else {
            harmless.push(c);
        }
    }
    harmless
}

/// Returns each character with those beside it.
fn neighbors(text: &str) -> impl Iterator<Item = (Option<char>, char, Option<char>)> {
    let before = std::iter::once(None).chain(text.chars().map(Some));
    let after = text.chars().skip(1).map(Some).chain([None]);
    before.zip(text.chars()).zip(after).map(|((before, c), after)| (before, c, after))
}

fn escape(text: &str, stays: impl Fn(char) -> bool) -> String {
    let mut harmless = String::with_capacity(text.len());
    for (before, c, after) in neighbors(text) {
        if stays(c) || !(is_harmful(c) || is_hidden(before, c, after)) {
            harmless.push(c);
        } else {
            harmless.extend(c.escape_default());
        }
    }
    harmless
}

/// Whether a character can move the cursor, change the terminal or reorder what is shown: C0, DEL
/// and C1, line separators, and the marks of bidirectional text.
fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{061c}')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether nothing is drawn for a character, and its writing does not need it: text made of such
/// characters could not be seen. Spaces of other widths only separate words.
fn is_hidden(before: Option<char>, c: char, after: Option<char>) -> bool {
    let is_space = c.is_whitespace();
    !is_space && invisible_name(c).is_some() && !is_needed(before, c, after)
}

/// Returns a Lua text with this value.
pub(in crate::cli) fn lua(text: &str) -> String {
    let mut lua = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => lua.extend(['\\', c]),
            c if c.is_control() => lua.extend(format!("\\u{{{:x}}}", u32::from(c)).chars()),
            c => lua.push(c),
        }
    }
    lua.push('"');
    lua
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_escape_sequence_reaches_a_terminal() {
        let hostile = "a\x1b[2Jb\u{9b}31m\rc\x07\u{202e}txt\x08\x7f\nd\te";
        let shown = "a\\u{1b}[2Jb\\u{9b}31m\\rc\\u{7}\\u{202e}txt\\u{8}\\u{7f}";
        assert_eq!(line(hostile), format!("{shown}\\nd\\te"));
        assert_eq!(block(hostile), format!("{shown}\nd\te"));
    }

    /// The same as on a page: a text that is approved is seen.
    #[test]
    fn no_text_hides_in_characters_that_are_not_drawn() {
        let tags: String =
            "RUN".chars().filter_map(|c| char::from_u32(0xe0000 + c as u32)).collect();
        assert_eq!(line(&format!("words.{tags}")), "words.\\u{e0052}\\u{e0055}\\u{e004e}");
        for c in
            "\u{ad}\u{200b}\u{200c}\u{200d}\u{2060}\u{2064}\u{34f}\u{3164}\u{ffa0}\u{115f}\u{2800}\
                  \u{180e}\u{feff}\u{fff9}\u{17b4}\u{1d173}\u{1bca0}\u{fe0f}\u{e0100}"
                .chars()
        {
            let shown = format!("a{}b\n", c.escape_default());
            assert_eq!(block(&format!("a{c}b\n")), shown);
            let json = json(&serde_json::json!(format!("a{c}b")).to_string());
            assert!(json.is_ascii(), "{json}");
            assert_eq!(serde_json::from_str::<String>(&json).unwrap(), format!("a{c}b"));
        }
    }

    #[test]
    fn json_means_the_same_without_what_a_terminal_obeys() {
        let value = serde_json::json!({"a\u{9b}": "\u{1b}[2J\u{9b}\u{202e}\n ü \u{7f}"});
        let text = json(&serde_json::to_string_pretty(&value).unwrap());
        assert!(!text.chars().any(|c| c != '\n' && is_harmful(c)), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
        assert!(text.contains('ü'));
    }

    #[test]
    fn ordinary_text_stays_as_it_is() {
        let text = "Über \"straße\" – 日本語\u{3000}👩‍🔬 ❤\u{fe0f} it's 10\u{a0}km می\u{200c}پزیم";
        assert_eq!(line(text), text);
    }

    proptest::proptest! {
        #[test]
        fn nothing_that_is_printed_is_a_control_character(text in "\\PC*|.*") {
            proptest::prop_assert!(!line(&text).chars().any(is_harmful));
            let kept = |c: char| c == '\n' || c == '\t';
            proptest::prop_assert!(!block(&text).chars().any(|c| is_harmful(c) && !kept(c)));
        }
    }
}
