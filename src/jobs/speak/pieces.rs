//! A text that arrives in pieces, such as an answer: secrets in it are covered before a piece is
//! stored or shown, however the text is cut.
//!
//! **Invariant:** what may begin a secret is held back until it is decided. Covering preserves
//! lengths.

use std::mem;
use std::ops::Range;

use camino::Utf8Path;
use serde_json::Value;

use crate::base::fault;
use crate::jobs::speak::veil::{Veil, secrets};
use crate::script::Config;

/// Covers secrets in a text that arrives in pieces.
#[derive(Clone, Debug, Default)]
pub struct Pieces {
    veil: Veil,
    /// What may begin a secret, and the ranges of its bytes, without ends of lines, that are to be
    /// covered already.
    held: String,
    found: Vec<Range<usize>>,
}

impl Pieces {
    /// Returns a cover for the secrets of a script, and further ones.
    pub fn of(
        config: &Config,
        place: (&Utf8Path, &[(String, String)]),
        more: Vec<String>,
    ) -> Pieces {
        Pieces::new(&[secrets(config, place), more].concat())
    }

    /// Returns a cover for these secrets.
    pub fn new(secrets: &[String]) -> Pieces {
        Pieces { veil: Veil::new(secrets), ..Pieces::default() }
    }

    /// Adds a piece; returns what can be shown, with what was held back before it.
    pub fn pass(&mut self, piece: &str) -> String {
        if fault::is_off("masking") {
            return piece.to_owned();
        }
        let mut text = mem::take(&mut self.held);
        text.push_str(piece);
        let found = self.veil.find(&text);
        let ranges = [mem::take(&mut self.found), found.ranges.clone()].concat();
        let hold = found.hold;
        self.held = text.split_off(found.places.get(hold).copied().unwrap_or(text.len()));
        // What is held back may be covered already and still begin another secret.
        let beyond = ranges.iter().filter(|it| it.end > hold);
        self.found = beyond.map(|it| it.start.saturating_sub(hold)..it.end - hold).collect();
        found.cover(&text, &ranges)
    }

    /// Returns what was held back, at the end of the text.
    pub fn end(&mut self) -> String {
        let (text, ranges) = (mem::take(&mut self.held), mem::take(&mut self.found));
        self.veil.find(&text).cover(&text, &ranges)
    }

    /// Covers secrets in a text of its own.
    pub fn cover(&self, text: &str) -> String {
        self.veil.cover(text)
    }

    /// Covers secrets in the texts and names of a value.
    pub fn cover_value(&self, value: &mut Value) {
        self.veil.cover_entry(value);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::jobs::speak::veil::veiled;

    fn joined(pieces: &mut Pieces, cut: &[&str]) -> String {
        let mut text: String = cut.iter().map(|it| pieces.pass(it)).collect();
        text.push_str(&pieces.end());
        text
    }

    #[test]
    fn g28_a_secret_is_covered_however_it_is_cut() {
        let token = format!("wbj_{}", "0a".repeat(32));
        let secrets =
            ["k\u{e4}se-12345".to_owned(), "first-line-of-a-key\nand-a-second".to_owned()];
        for secret in [&secrets[0], &token, "first-line-of-a-key", &secrets[1]] {
            let text = format!("w {secret}, wb");
            let (veil, mut pieces) = (Veil::new(&secrets), Pieces::new(&secrets));
            let whole = veil.cover(&text);
            assert!(whole.contains("*****") && !whole.contains(secret), "{whole}");
            let cuts = text.char_indices().map(|it| it.0);
            for (one, two) in cuts.map(|at| text.split_at(at)) {
                assert_eq!(joined(&mut pieces, &[one, two]), whole, "{one}|{two}");
            }
            let letters: Vec<String> = text.chars().map(String::from).collect();
            let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
            assert_eq!(joined(&mut pieces, &letters), whole);
        }
    }

    #[test]
    fn only_what_may_begin_a_secret_is_held_back() {
        let mut pieces = Pieces::new(&["abcdefgh".to_owned()]);
        assert_eq!(pieces.pass("an answer"), "an answer");
        assert_eq!(pieces.pass(" abc"), " ");
        assert_eq!(pieces.pass("x wb"), "abcx ");
        assert_eq!(pieces.pass("-agent\nw"), "wb-agent\n");
        assert_eq!(pieces.end(), "w");
        assert_eq!(pieces.end(), "");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn g28_cuts_of_a_text_make_no_difference(
            text in "[ab\n]{0,60}", cuts in prop::collection::vec(0..60usize, 0..8),
        ) {
            let secrets = ["abababab", "aabbaabba", "bbbbbbbb"].map(str::to_owned);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|it| it.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let cut: Vec<&str> = cuts.windows(2).map(|it| &text[it[0]..it[1]]).collect();
            prop_assert_eq!(joined(&mut Pieces::new(&secrets), &cut), veiled(&text, &secrets));
        }
    }
}
