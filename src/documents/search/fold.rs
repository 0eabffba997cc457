//! Splits text into the words used by the search: without case, accents and presentation forms.
//!
//! Index, query and snippets use the same words, so that exactly the matches are highlighted. In
//! scripts without spaces, and in Hangul, every character is a word: a query matches any sequence
//! of characters. Only letters and digits are written to the index.

use std::ops::Range;

use unicode_normalization::char::decompose_compatible;
use unicode_width::UnicodeWidthChar as _;

/// Incremented whenever the indexed text changes: the index is then rebuilt.
pub const FOLD_VERSION: i64 = 2;
/// Longest distinguished word, folded, in bytes; longer ones are cut.
const WORD_BYTES_MAX: usize = 96;

/// An iterator over the words of a text.
pub(super) struct Words<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Words<'t> {
    /// Returns an iterator at the start of a text.
    pub(super) fn of(text: &'t str) -> Words<'t> {
        Words { text, at: 0 }
    }

    /// Puts the next word, folded, into `word` and returns its range; `None` at the end.
    pub(super) fn next_into(&mut self, word: &mut String) -> Option<Range<usize>> {
        loop {
            word.clear();
            let start = self.skip_to_word()?;
            let chars = self.text[start..].char_indices();
            let mut end = start;
            let mut is_alone = false;
            for (offset, c) in chars {
                let is_part = match offset {
                    0 => true,
                    _ if is_attached(c) => true,
                    _ => !is_alone && is_letter(c) && !stands_alone(c),
                };
                if !is_part {
                    break;
                }
                is_alone |= stands_alone(c);
                end = start + offset + c.len_utf8();
                if word.len() < WORD_BYTES_MAX {
                    fold(c, word);
                }
            }
            self.at = end;
            if !word.is_empty() {
                return Some(start..end);
            }
        }
    }

    fn skip_to_word(&mut self) -> Option<usize> {
        let rest = &self.text[self.at..];
        let found = rest.char_indices().find(|(_, c)| is_letter(*c))?;
        Some(self.at + found.0)
    }
}

/// Returns the folded words of a text, separated by spaces.
pub fn folded(text: &str) -> String {
    let mut all = String::with_capacity(text.len() + text.len() / 8);
    let (mut words, mut word) = (Words::of(text), String::new());
    while words.next_into(&mut word).is_some() {
        all.push_str(&word);
        all.push(' ');
    }
    all
}

/// Returns the last position up to `at`, and after `from`, that splits no word; `at` itself if
/// there is none. Both must be character boundaries.
pub(super) fn word_border(text: &str, from: usize, at: usize) -> usize {
    let mut after = text[at..].chars().next();
    for (start, before) in text[from..at].char_indices().rev() {
        if after.is_none_or(|it| is_border(before, it)) {
            return from + start + before.len_utf8();
        }
        after = Some(before);
    }
    at
}

/// Returns whether a word boundary lies between two characters.
fn is_border(before: char, after: char) -> bool {
    let is_inside = |c: char| is_letter(c) || is_attached(c);
    !is_attached(after)
        && (!is_letter(after) || stands_alone(after) || stands_alone(before) || !is_inside(before))
}

fn is_letter(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_alphanumeric() } else { c.is_alphanumeric() }
}

/// Returns whether a character is not a letter but belongs to the one before it.
fn is_attached(c: char) -> bool {
    !c.is_ascii()
        && !c.is_control()
        && !c.is_whitespace()
        && !matches!(c, '\u{200b}' | '\u{feff}' | '\u{2028}' | '\u{2029}')
        && (c == '\u{ad}' || c.width() == Some(0))
}

/// Returns whether every single letter is a word: Han, kana, Bopomofo, Yi, Thai, Lao, Myanmar,
/// Khmer, Tibetan and Hangul.
pub(super) fn stands_alone(c: char) -> bool {
    // Most letters are below all of these: one comparison for them instead of fifteen.
    c >= '\u{e00}'
        && matches!(u32::from(c),
            0x0e00..=0x0fff | 0x1000..=0x109f | 0x1780..=0x17ff
            | 0x2e80..=0x2fdf | 0x3005..=0x3007 | 0x3021..=0x318f | 0x31a0..=0x31ff
            | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xa000..=0xa4cf | 0xac00..=0xd7a3
            | 0xf900..=0xfaff | 0xff66..=0xff9f | 0x1b000..=0x1b16f | 0x20000..=0x3ffff)
}

fn fold(c: char, word: &mut String) {
    if c.is_ascii() {
        return word.push(c.to_ascii_lowercase());
    }
    if matches!(c, '\u{ac00}'..='\u{d7a3}') {
        // Hangul syllables are not decomposed into their letters.
        return word.push(c);
    }
    decompose_compatible(c, |part| {
        for part in part.to_lowercase() {
            fold_plain(part, word);
        }
    });
}

fn fold_plain(c: char, word: &mut String) {
    match c {
        'ß' => word.push_str("ss"),
        'æ' => word.push_str("ae"),
        'œ' => word.push_str("oe"),
        'þ' => word.push_str("th"),
        'ø' => word.push('o'),
        'đ' | 'ð' => word.push('d'),
        'ł' => word.push('l'),
        'ħ' => word.push('h'),
        'ı' => word.push('i'),
        'ς' => word.push('σ'),
        // Parts of a compatibility form that are not letters, such as the brackets of ⑴.
        it if it.is_ascii() && !it.is_ascii_alphanumeric() => {}
        it if is_dropped(it) => {}
        it => word.push(it),
    }
}

/// Returns whether a mark is dropped: accents of Latin, Greek and Cyrillic, Hebrew points, Arabic
/// vowel marks, joiners, soft hyphens and variation selectors. Other marks are vowels of their
/// scripts and count.
fn is_dropped(c: char) -> bool {
    matches!(u32::from(c),
        0x00ad | 0x0300..=0x036f | 0x0483..=0x0487 | 0x0591..=0x05bd | 0x05bf | 0x05c1..=0x05c2
        | 0x05c4..=0x05c5 | 0x05c7 | 0x0610..=0x061a | 0x061c | 0x0640 | 0x064b..=0x065f | 0x0670
        | 0x06d6..=0x06dc | 0x180b..=0x180f | 0x1ab0..=0x1aff | 0x1dc0..=0x1dff
        | 0x200c..=0x200f | 0x202a..=0x202e | 0x2044 | 0x2060..=0x206f | 0x20d0..=0x20ff
        | 0xfe00..=0xfe0f | 0xfe20..=0xfe2f | 0xe0000..=0xe01ef)
        || c.is_control()
        || c.is_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_folded() {
        for (text, words) in [
            ("Don't STOP, snake_case x2!", "don t stop snake case x2 "),
            ("Über Straße café cafe\u{301} naïve Łódź", "uber strasse cafe cafe naive lodz "),
            ("ﬁn Ａｂｃ ⅷ ΣΑΣ σας", "fin abc viii σασ σασ "),
            ("日本語のtext", "日 本 語 の text "),
            ("한국어를 글", "한 국 어 를 글 "),
            ("Ёлка йод", "елка иод "),
            ("hy\u{ad}phen zero\u{200d}join", "hyphen zerojoin "),
            ("- \u{1}\u{2} \u{301} …", ""),
            ("", ""),
        ] {
            assert_eq!(folded(text), words, "{text}");
        }
        assert_eq!(folded(&"x".repeat(1_000)).len(), WORD_BYTES_MAX + 1);
    }

    #[test]
    fn a_text_is_cut_between_words() {
        let cut = |text: &str, at: usize| word_border(text, 0, at);
        assert_eq!(cut("one two", 3), 3);
        assert_eq!(cut("one two", 5), 4);
        assert_eq!(cut("one", 3), 3);
        assert_eq!(cut("日本語", 6), 6);
        assert_eq!(cut("か\u{3099}く", 3), 3, "there is no better one");
        assert_eq!(cut("あか\u{3099}く", 6), 3, "not before its mark");
        assert_eq!(cut("unbroken", 4), 4);
    }

    #[test]
    fn a_composed_and_a_decomposed_text_have_the_same_words() {
        for (a, b) in [("が", "か\u{3099}"), ("Å", "A\u{30a}"), ("é", "e\u{301}")] {
            assert_eq!(folded(a), folded(b));
        }
        assert_ne!(folded("が"), folded("か"));
        assert_ne!(folded("मि"), folded("मी"));
    }

    proptest::proptest! {
        #[test]
        fn nothing_but_letters_is_written(text in "(?s).*") {
            for c in folded(&text).chars() {
                proptest::prop_assert!(
                    c == ' ' || !c.is_ascii() || c.is_ascii_alphanumeric(), "{c:?}");
                proptest::prop_assert!(!c.is_control());
            }
        }

        #[test]
        fn no_word_is_cut_at_a_border(
            text in "[a-z日か\u{3099}\u{301} .é]{1,12}", at in 0_usize..12,
        ) {
            let at = text.char_indices().map(|it| it.0).nth(at).unwrap_or(text.len());
            let cut = word_border(&text, 0, at);
            proptest::prop_assert!(cut <= at && text.is_char_boundary(cut));
            if cut > 0 && cut < at {
                let halves = folded(&text[..cut]) + &folded(&text[cut..]);
                proptest::prop_assert_eq!(halves, folded(&text));
            }
        }

        #[test]
        fn words_stand_where_they_are_said_to(text in "(?s).*") {
            let (mut words, mut word, mut last) = (Words::of(&text), String::new(), 0);
            while let Some(range) = words.next_into(&mut word) {
                proptest::prop_assert!(range.start >= last && range.end > range.start);
                proptest::prop_assert!(text.get(range.clone()).is_some());
                last = range.end;
            }
        }
    }
}
