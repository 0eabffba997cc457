//! Text with its invisible and direction-changing characters made visible.

use std::fmt;
use std::ops::Range;

use askama::filters::{Escaper, Html, HtmlSafe};

use crate::base::fault;
pub(in crate::http) use crate::base::invisible_name;
use crate::base::{is_needed, without_invisible};

/// Text whose invisible or direction-changing characters get a label, unless its writing needs them
/// or they end a line. The label comes from the style sheet, so copied text is unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::http) struct Visible(pub(in crate::http) String);

/// A part of a longer text, whose neighbours tell whether an invisible character at its edge is
/// needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::http) struct Within {
    /// The part itself.
    pub(in crate::http) text: String,
    before: Option<char>,
    after: Option<char>,
}

impl Within {
    /// Returns a part of a text.
    pub(in crate::http) fn of(text: &str, range: Range<usize>) -> Within {
        Within {
            before: text[..range.start].chars().next_back(),
            after: text[range.end..].chars().next(),
            text: text[range].to_owned(),
        }
    }

    /// Returns a text between two others.
    pub(in crate::http) fn between(before: &str, text: &str, after: &str) -> Within {
        let text = text.to_owned();
        Within { before: before.chars().next_back(), after: after.chars().next(), text }
    }
}

/// A name within a sentence: like [`Visible`], and isolated, so that its direction does not affect
/// the text around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) struct Name<'t>(pub(in crate::http) &'t str);

/// Text for places without elements (a title, a label, a choice): invisible characters are removed,
/// unless its writing needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) struct Plain<'t>(pub(in crate::http) &'t str);

/// Returns the class of a message that begins with a word of ours, whose first letter is shown as a
/// capital; names and paths stay as they are.
pub(in crate::http) fn told(message: &str) -> &'static str {
    let first = message.split(' ').next().unwrap_or_default();
    let is_word = !first.is_empty() && first.bytes().all(|it| it.is_ascii_lowercase());
    if is_word { "is-told" } else { "" }
}

impl HtmlSafe for Visible {}
impl HtmlSafe for Within {}
impl HtmlSafe for Name<'_> {}
impl HtmlSafe for Plain<'_> {}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<bdi>{}</bdi>", Visible(self.0.to_owned()))
    }
}

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Html.write_escaped_str(f, &without_invisible(self.0))
    }
}

impl fmt::Display for Visible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_labelled(f, &self.0, (None, None))
    }
}

impl fmt::Display for Within {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_labelled(f, &self.text, (self.before, self.after))
    }
}

fn write_labelled(
    f: &mut fmt::Formatter<'_>,
    text: &str,
    (mut before, follows): (Option<char>, Option<char>),
) -> fmt::Result {
    if fault::is_off("escape") {
        return f.write_str(text);
    }
    let mut plain_from = 0;
    for (at, character) in text.char_indices() {
        let behind = before.replace(character);
        let Some(name) = invisible_name(character) else { continue };
        let next = at + character.len_utf8();
        let after = text[next..].chars().next().or(follows);
        if is_needed(behind, character, after) {
            continue;
        }
        Html.write_escaped_str(&mut *f, &text[plain_from..at])?;
        plain_from = next;
        if character == '\r' && after == Some('\n') {
            continue;
        }
        let code = u32::from(character);
        // Isolated, so that an override ends with its label. HTML cannot carry control characters.
        write!(f, "<bdi class=\"odd\" data-code=\"U+{code:04X}\" title=\"{name}\">")?;
        if !character.is_control() {
            write!(f, "{character}")?;
        }
        f.write_str("</bdi>")?;
    }
    Html.write_escaped_str(&mut *f, &text[plain_from..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_file_gets_no_capital() {
        for (message, class) in [
            ("there is nothing at /x", "is-told"),
            ("guide.md is not there", ""),
            ("7 is no number", ""),
            ("", ""),
        ] {
            assert_eq!(told(message), class, "{message}");
        }
    }

    #[test]
    fn what_cannot_be_seen_is_labelled() {
        let shown = Visible("a\u{202e}b<i>\u{200b}\r\u{1b}".to_owned()).to_string();
        assert!(shown.starts_with("a<bdi class=\"odd\" data-code=\"U+202E\""), "{shown}");
        for part in ["\u{202e}</bdi>b&#60;i&#62;<bdi", "U+200B", "U+000D", "U+001B"] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
        assert!(!shown.contains('\u{1b}') && !shown.contains('\r') && !shown.contains("<i>"));
    }

    #[test]
    fn ordinary_text_stays_as_it_is() {
        let text = "Über\t日本語 – «straße» 👩\u{200d}🍳 ➡\u{fe0f} می\u{200c}پزیم ü";
        assert_eq!(Visible(text.to_owned()).to_string(), text);
        assert_eq!(Plain(text).to_string(), text);
        assert_eq!(Visible("a\r\nb\r\n".to_owned()).to_string(), "a\nb\n");
        // What belongs together stays so where a change or a hit parts it.
        let word = "می\u{200c}پزیم";
        for cut in [4, 7] {
            let parts = [Within::of(word, 0..cut), Within::of(word, cut..word.len())];
            assert_eq!(parts.map(|it| it.to_string()).concat(), word);
        }
        for bad in ["a\u{200c}b", "می\u{200c}", "a\u{fe0f}", "\u{feff}a", "a\rb"] {
            assert!(Visible(bad.to_owned()).to_string().contains("class=\"odd\""), "{bad:?}");
        }
    }

    #[test]
    fn a_name_stands_apart_and_a_label_has_nothing_hidden() {
        let name = "<b>\u{202e}\u{5d0}";
        assert_eq!(
            Name(name).to_string(),
            "<bdi>&#60;b&#62;<bdi class=\"odd\" data-code=\"U+202E\" \
             title=\"right-to-left override\">\u{202e}</bdi>\u{5d0}</bdi>"
        );
        assert_eq!(Plain(name).to_string(), "&#60;b&#62;\u{5d0}");
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_an_element_of_its_own(text in "(?s).*") {
            let html = Visible(text.clone()).to_string();
            let ours = html.matches("<bdi class=\"odd\"").count();
            let invisible = text.chars().filter(|it| invisible_name(*it).is_some()).count();
            proptest::prop_assert!(ours <= invisible);
            proptest::prop_assert_eq!(html.matches('<').count(), 2 * ours);
        }
    }
}
