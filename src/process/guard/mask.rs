//! Masks secrets in an agent's output before it reaches a file.
//!
//! **Invariant:** a value is found however the output is split: a possible prefix of one is held
//! back until it is decided. Masking preserves lengths, and therefore offsets.

use std::mem;
use std::ops::Range;

use crate::base::is_secret_name;
use crate::process::launch::MASKED_BYTES_MAX;
use crate::process::secret_forms::{Needles, secret_forms};

/// The byte that replaces a masked byte.
const STAR: u8 = b'*';
/// Shortest value that is masked: a shorter one would match unrelated text.
const VALUE_BYTES_MIN: usize = 8;

/// The values to mask in an agent's output.
#[derive(Clone, Debug, Default)]
pub(in crate::process::guard) struct Secrets {
    values: Vec<Vec<u8>>,
}

/// The mask of one stream.
pub(in crate::process::guard) struct Mask {
    needles: Needles,
    /// Bytes that may begin a value, and the ranges in them that are masked already.
    held: Vec<u8>,
    found: Vec<Range<usize>>,
}

impl Secrets {
    /// Collects the values of variables with secret-sounding names, and those named by the server.
    pub(in crate::process::guard) fn of(
        variables: &[(String, String)],
        masked: &[String],
    ) -> Secrets {
        let by_name = variables.iter().filter(|(name, _)| is_secret_name(name));
        let named: Vec<&str> = by_name
            .map(|(_, value)| value)
            .chain(masked)
            .map(|it| it.trim())
            .filter(|it| (VALUE_BYTES_MIN..=MASKED_BYTES_MAX).contains(&it.len()))
            .collect();
        let mut values: Vec<Vec<u8>> =
            secret_forms(&named).into_iter().map(String::into_bytes).collect();
        if crate::base::fault::is_off("masking") {
            values.clear();
        }
        Secrets { values }
    }
}

impl Mask {
    pub(in crate::process::guard) fn new(secrets: &Secrets) -> Mask {
        let (held, found) = Default::default();
        Mask { needles: Needles::new(secrets.values.clone()), held, found }
    }

    /// Adds output; returns what can be written, including bytes held back earlier.
    pub(in crate::process::guard) fn pass(&mut self, printed: &[u8]) -> Vec<u8> {
        if self.needles.is_empty() {
            return printed.to_vec();
        }
        let mut bytes = mem::take(&mut self.held);
        bytes.extend_from_slice(printed);
        let mut found = mem::take(&mut self.found);
        // A match that runs off the end is held back.
        let (new, hold) = self.needles.find(&bytes);
        found.extend(new);
        self.held = bytes.split_off(hold);
        // Bytes held back may be masked already and still begin another value: keep those ranges.
        let beyond = found.iter().filter(|it| it.end > hold);
        self.found = beyond.map(|it| it.start.saturating_sub(hold)..it.end - hold).collect();
        cover(bytes, &found)
    }

    /// Returns the bytes held back, once the stream has ended.
    pub(in crate::process::guard) fn finish(&mut self) -> Vec<u8> {
        cover(mem::take(&mut self.held), &mem::take(&mut self.found))
    }
}

fn cover(mut bytes: Vec<u8>, found: &[Range<usize>]) -> Vec<u8> {
    for it in found {
        let (start, end) = (it.start.min(bytes.len()), it.end.min(bytes.len()));
        bytes[start..end].fill(STAR);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn secrets(values: &[&str]) -> Secrets {
        let variables: Vec<(String, String)> =
            values.iter().map(|it| ("A_TOKEN".to_owned(), (*it).to_owned())).collect();
        Secrets::of(&variables, &[])
    }

    fn masked(secrets: &Secrets, pieces: &[&[u8]]) -> String {
        let mut mask = Mask::new(secrets);
        let mut all: Vec<u8> = pieces.iter().flat_map(|it| mask.pass(it)).collect();
        all.extend(mask.finish());
        String::from_utf8(all).unwrap()
    }

    #[test]
    fn a_value_is_masked_however_it_comes() {
        let secrets = secrets(&["abcabcabd", "wbj_0123456789"]);
        let check = |pieces: &[&str], want: &str| {
            let pieces: Vec<&[u8]> = pieces.iter().map(|it| it.as_bytes()).collect();
            assert_eq!(masked(&secrets, &pieces), want);
        };
        check(&["x wbj_0123456789 y"], "x ************** y");
        check(&["x wbj_01", "234567", "89 y"], "x ************** y");
        // The beginning of a value that turned out to be something else is not lost.
        check(&["wbj_01", "x", "wbj_"], "wbj_01xwbj_");
        // A value that begins inside of its own prefix.
        check(&["abcabc", "abcabd"], "abc*********");
        check(&["abcabcabdabcabcabd"], &"*".repeat(18));
    }

    /// Engines write what they and their programs say as JSON, and programs write JSON themselves.
    #[test]
    fn g28_a_value_is_masked_in_its_json_forms() {
        let value = "-----BEGIN KEY-----\n\"M\\IIE\u{e9}\u{1f511}\"\n-----END KEY-----";
        let secrets = secrets(&[value]);
        let once = Value::from(format!("x {value} y")).to_string();
        let twice = Value::from(once.clone()).to_string();
        let ascii = once.replace('\u{e9}', "\\u00e9").replace('\u{1f511}', "\\ud83d\\udd11");
        for printed in [format!("x {value} y"), once, twice, ascii] {
            let hidden = masked(&secrets, &[printed.as_bytes()]);
            let left: String = hidden.chars().filter(|it| *it != '*').collect();
            assert!(left.len() < 12 && !left.contains("KEY"), "{left}");
            assert_eq!(hidden.len(), printed.len());
        }
    }

    /// Engines number and indent the lines of a file that they read.
    #[test]
    fn g28_a_secret_is_masked_line_by_line() {
        let lines = ["-----BEGIN KEY-----", "MIIEvQIBADANBgkqhkiG9w0BAQ", "BKcwggSjAgEAAoIBAQC7Zk"];
        let secrets = secrets(&[&lines.join("\n")]);
        let numbered: Vec<String> =
            lines.iter().enumerate().map(|(at, it)| format!("{at}\t{it}")).collect();
        let indented = lines.map(|it| format!("  \u{23bf}  {it} \u{2502}"));
        for printed in [numbered.join("\n"), indented.join("\n")] {
            let quoted = Value::from(printed.clone()).to_string();
            for printed in [printed, quoted] {
                for cut in [1, 40, printed.len() - 10] {
                    let pieces = printed.as_bytes().split_at(cut);
                    let hidden = masked(&secrets, &[pieces.0, pieces.1]);
                    assert!(!hidden.contains("MII") && !hidden.contains("BKc"), "{hidden}");
                    assert!(hidden.contains("-----BEGIN KEY-----"), "{hidden}");
                    assert_eq!(hidden.len(), printed.len());
                }
            }
        }
    }

    #[test]
    fn the_name_says_whether_a_value_is_a_secret() {
        let all = ["ANTHROPIC_API_KEY", "WB_TOKEN", "db_password", "SSH_KEY"];
        assert!(all.iter().all(|it| is_secret_name(it)));
        assert!(!["HOME", "KEYBOARD", "EDITOR"].iter().any(|it| is_secret_name(it)));
        assert!(secrets(&["short"]).values.is_empty());
        let plain = [("PLAIN".to_owned(), "not a secret".to_owned())];
        let masked = ["a value of one\n".to_owned(), "short".to_owned()];
        assert_eq!(Secrets::of(&plain, &masked).values, [b"a value of one".to_vec()]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        /// Masking a text in arbitrary pieces equals masking it whole, and no secret is left.
        #[test]
        fn g28_pieces_make_no_difference(
            text in "[ab]{0,60}", cuts in prop::collection::vec(0..60usize, 0..8),
        ) {
            let secrets = secrets(&["abababab", "aabbaabba", "bbbbbbbb"]);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|it| it.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> =
                cuts.windows(2).map(|it| &text.as_bytes()[it[0]..it[1]]).collect();
            let cut = masked(&secrets, &pieces);
            prop_assert_eq!(&cut, &masked(&secrets, &[text.as_bytes()]));
            prop_assert_eq!(cut.len(), text.len());
            for value in &secrets.values {
                prop_assert!(!cut.contains(std::str::from_utf8(value).unwrap()));
            }
        }
    }
}
