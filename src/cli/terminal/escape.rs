//! Escapes texts of documents, agents and servers for a terminal.

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
    for c in text.chars() {
        if c != '\n' && is_harmful(c) {
            harmless.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            harmless.push(c);
        }
    }
    harmless
}

fn escape(text: &str, stays: impl Fn(char) -> bool) -> String {
    let mut harmless = String::with_capacity(text.len());
    for c in text.chars() {
        if stays(c) || !is_harmful(c) {
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
        let text = "Über \"straße\" – 日本語 👩‍🔬 it's";
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
