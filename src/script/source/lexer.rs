//! The tokens of a Lua text with their places: enough to find a field again, not a parser.
//!
//! **Invariant:** linear in the text and total: any input gives tokens, never an error.

use std::ops::Range;

use crate::script::source::span::Bytes;

/// Average number of bytes per token of a script.
const BYTES_OF_A_TOKEN: usize = 5;

/// The type of a token. Its text stays in the file: a script of 300 kinds has 25,000 tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// A name or keyword.
    Name,
    /// A string, and the length of each of its quotes; zero if it has escapes.
    Text(u8),
    /// A number.
    Number,
    /// Any other character.
    Sign(char),
}

/// A token and its bytes.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    /// Its type.
    pub(crate) word: Word,
    /// Its byte range.
    pub(crate) bytes: Bytes,
}

impl Token {
    /// Returns its first byte.
    pub(crate) fn start(&self) -> usize {
        self.bytes.from as usize
    }

    /// Returns its bytes.
    pub(crate) fn range(&self) -> Range<usize> {
        self.bytes.from as usize..self.bytes.to as usize
    }

    /// Returns whether it is this character.
    pub(crate) fn is(&self, sign: char) -> bool {
        self.word == Word::Sign(sign)
    }

    /// Returns its name, for a name; `text` is the text of the file.
    pub(crate) fn name<'t>(&self, text: &'t str) -> Option<&'t str> {
        match self.word {
            Word::Name => text.get(self.range()),
            _ => None,
        }
    }

    /// Returns the byte range between the quotes of a string without escapes.
    pub(crate) fn inner(&self) -> Option<Bytes> {
        match self.word {
            Word::Text(quote) if quote > 0 => {
                let Bytes { from, to } = self.bytes;
                Some(Bytes { from: from + u32::from(quote), to: to.saturating_sub(quote.into()) })
            }
            _ => None,
        }
    }

    /// Returns the value of a string without escapes.
    pub(crate) fn literal<'t>(&self, text: &'t str) -> Option<&'t str> {
        text.get(self.inner()?.range())
    }
}

/// Returns the tokens of a text, without whitespace and comments.
pub(crate) fn tokens(text: &str) -> Vec<Token> {
    let bytes = text.as_bytes();
    let mut found = Vec::with_capacity(bytes.len() / BYTES_OF_A_TOKEN);
    let mut at = if text.starts_with('#') { line_end(bytes, 0) } else { 0 };
    while at < bytes.len() {
        let start = at;
        let byte = bytes[at];
        let word = match byte {
            b' ' | b'\t' | b'\r' | b'\n' | 0x0b | 0x0c => {
                at += 1;
                continue;
            }
            b'-' if bytes.get(at + 1) == Some(&b'-') => {
                at = match long_bracket(bytes, at + 2) {
                    Some((_, end)) => end,
                    None => line_end(bytes, at),
                };
                continue;
            }
            b'[' => match long_bracket(bytes, at) {
                Some((from, end)) => {
                    at = end;
                    Word::Text(u8::try_from(from - start).unwrap_or(0))
                }
                None => {
                    at += 1;
                    Word::Sign('[')
                }
            },
            b'"' | b'\'' => {
                at = short_end(bytes, at);
                let (from, to) = (start + 1, at.saturating_sub(1).max(start + 1));
                let is_plain = bytes.get(from..to).is_some_and(|it| !it.contains(&b'\\'));
                Word::Text(u8::from(is_plain))
            }
            b'_' | b'a'..=b'z' | b'A'..=b'Z' => {
                while at < bytes.len() && (bytes[at] == b'_' || bytes[at].is_ascii_alphanumeric()) {
                    at += 1;
                }
                Word::Name
            }
            b'0'..=b'9' => {
                while at < bytes.len() && (bytes[at] == b'.' || bytes[at].is_ascii_alphanumeric()) {
                    at += 1;
                }
                Word::Number
            }
            _ => {
                let sign = text[at..].chars().next().unwrap_or('\u{fffd}');
                at += sign.len_utf8();
                Word::Sign(sign)
            }
        };
        found.push(Token { word, bytes: Bytes::new(start, at) });
    }
    found
}

/// Returns the start of the content of a long bracket `[==[ … ]==]`, and its end.
fn long_bracket(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    if bytes.get(at) != Some(&b'[') {
        return None;
    }
    let level = bytes[at + 1..].iter().take_while(|byte| **byte == b'=').count();
    let from = at + 2 + level;
    if bytes.get(from - 1) != Some(&b'[') {
        return None;
    }
    let mut next = from;
    while let Some(step) = bytes[next..].iter().position(|byte| *byte == b']') {
        let close = next + step;
        let signs = bytes[close + 1..].iter().take_while(|byte| **byte == b'=').count();
        if signs == level && bytes.get(close + 1 + level) == Some(&b']') {
            return Some((from, close + 2 + level));
        }
        next = close + 1 + signs;
    }
    Some((from, bytes.len()))
}

fn short_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'\n' => return at,
            byte if byte == bytes[start] => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |step| at + step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_texts_are_told_apart() {
        let text = "#!x\n-- a {\n--[==[ ]] { ]==] k = [[a\n{]] 'b\\'}' \"c}\" 1.5e3 }";
        let found = tokens(text);
        let (names, words): (Vec<_>, Vec<_>) =
            found.iter().map(|it| (it.name(text).or(it.literal(text)), &it.word)).unzip();
        let says = [Some("k"), None, Some("a\n{"), None, Some("c}"), None, None];
        assert_eq!(names, says);
        assert_eq!(*words[1], Word::Sign('='));
        assert_eq!(*words[3], Word::Text(0));
        assert_eq!((words[5], words[6]), (&Word::Number, &Word::Sign('}')));
    }

    #[test]
    fn any_text_has_an_end() {
        for text in ["[==[", "\"", "'\\", "--[[", "[=", "é{ü", "--", "'é"] {
            for token in tokens(text) {
                assert!(token.range().end <= text.len(), "{text}");
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn tokens_stay_inside_the_text(text in "[\\[\\]=\"'\\\\\\-a-c{}\n é#]{0,40}") {
            let mut last = 0;
            for token in tokens(&text) {
                let Range { start, end } = token.range();
                assert!(last <= start && start < end && end <= text.len());
                last = end;
            }
        }
    }
}
