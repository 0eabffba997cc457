//! Mentions in a text: `@handle`, except in code.

use std::collections::BTreeSet;

/// Returns the words after `@` in a text, in lower case, except those in code. The caller decides
/// which of them are members.
pub fn mentions(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut is_fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
            continue;
        }
        if !is_fenced {
            of_line(line, &mut found);
        }
    }
    found
}

/// Reads one line. Text between two backticks is code; a single backtick is not.
fn of_line(line: &str, found: &mut BTreeSet<String>) {
    let parts: Vec<&str> = line.split('`').collect();
    let last = parts.len() - 1;
    for (at, part) in parts.iter().enumerate() {
        let is_code = at % 2 == 1 && at != last;
        if !is_code {
            of_words(part, found);
        }
    }
}

fn of_words(text: &str, found: &mut BTreeSet<String>) {
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        // `jo@example.org` is not a mention.
        if c == '@' && !before.is_alphanumeric() && before != '@' {
            let rest = &text[at + 1..];
            let is_of_handle = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            let end = rest.find(|c| !is_of_handle(c)).unwrap_or(rest.len());
            let word = rest[..end].trim_end_matches(['-', '_']);
            if word.starts_with(|c: char| c.is_ascii_alphanumeric()) {
                found.insert(word.to_ascii_lowercase());
            }
        }
        before = c;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_mention_is_a_word_behind_an_at_that_is_no_code() {
        for (text, expected) in [
            ("@paula do you agree with @Robbo?", vec!["paula", "robbo"]),
            ("(@robbo-2), @all.", vec!["all", "robbo-2"]),
            // As Claude Code is given a path.
            ("\u{2060}@robbo", vec!["robbo"]),
            ("write to jo@example.org", vec![]),
            ("`@media print` and @chair", vec!["chair"]),
            ("a lone ` and @chair", vec!["chair"]),
            ("```css\n@media\n```\n@here", vec!["here"]),
            ("@@robbo @ robbo @-x", vec![]),
            ("@robbo's, @paula-", vec!["paula", "robbo"]),
        ] {
            let found: Vec<String> = mentions(text).into_iter().collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_text_can_be_read(text in "\\PC{0,200}") {
            for word in mentions(&text) {
                let behind_at = format!("@{word}");
                prop_assert!(text.to_ascii_lowercase().contains(&behind_at));
            }
        }
    }
}
