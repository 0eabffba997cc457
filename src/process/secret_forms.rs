//! The forms in which engines print a secret, and how they are found in a text.
//!
//! An engine prints a secret unchanged, as JSON text, or line by line with numbers, indents or
//! borders. So each sufficiently distinctive line of a secret is a form of its own.

use std::collections::BTreeSet;
use std::io::BufRead as _;
use std::ops::Range;

use serde_json::Value;

/// How often a value is written as a JSON text within another.
const JSON_DEPTH_MAX: usize = 2;
/// Shortest line of a secret that is looked for by itself.
const LINE_BYTES_MIN: usize = 16;
/// Fewest different bytes of such a line: rules and borders have fewer.
const LINE_KINDS_MIN: usize = 6;
/// Most lines, of all secrets.
const LINES_MAX: usize = 1_000;
/// Shortest text that can be looked for.
const NEEDLE_BYTES_MIN: usize = 2;

/// Returns secrets in all forms in which they are looked for.
pub fn secret_forms(values: &[&str]) -> Vec<String> {
    let lines = telling_lines(values);
    let mut all: Vec<String> = values.iter().chain(&lines).flat_map(|it| forms(it)).collect();
    all.sort();
    all.dedup();
    all
}

/// Returns the lines of secrets of several lines that are secrets by themselves, longest first.
fn telling_lines<'v>(values: &[&'v str]) -> Vec<&'v str> {
    let many = values.iter().filter(|it| it.contains('\n'));
    let mut lines: Vec<&str> =
        many.flat_map(|it| it.lines()).map(str::trim).filter(|it| is_telling(it)).collect();
    lines.sort_unstable_by(|one, two| two.len().cmp(&one.len()).then(one.cmp(two)));
    lines.dedup();
    lines.truncate(LINES_MAX);
    lines
}

fn is_telling(line: &str) -> bool {
    let is_border = line.starts_with("-----");
    let kinds: BTreeSet<u8> = line.bytes().collect();
    line.len() >= LINE_BYTES_MIN && !is_border && kinds.len() >= LINE_KINDS_MIN
}

/// Returns a value as itself, and as engines print it: inside a JSON text, and inside one that is
/// a text of another (the output of a program in a record of a call).
fn forms(value: &str) -> Vec<String> {
    let mut forms = vec![value.to_owned()];
    for _ in 0..JSON_DEPTH_MAX {
        let deeper = forms.iter().flat_map(|it| [in_json(it, false), in_json(it, true)]);
        let deeper: Vec<String> = deeper.filter(|it| !forms.contains(it)).collect();
        forms.extend(deeper);
    }
    forms
}

/// Returns a text as it stands in a JSON string; `is_ascii` without characters beyond ASCII, which
/// some writers escape.
fn in_json(text: &str, is_ascii: bool) -> String {
    let quoted = Value::from(text).to_string();
    let inner = &quoted[1..quoted.len() - 1];
    if !is_ascii {
        return inner.to_owned();
    }
    let mut escaped = String::with_capacity(inner.len());
    for character in inner.chars() {
        match character.is_ascii() {
            true => escaped.push(character),
            false => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    escaped.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    escaped
}

/// Texts to look for, all at once.
#[derive(Clone, Debug, Default)]
pub struct Needles {
    /// Sorted, by their first byte.
    groups: Vec<Vec<Vec<u8>>>,
}

impl Needles {
    /// Prepares a search; a text of one byte is not looked for.
    pub fn new(mut texts: Vec<Vec<u8>>) -> Needles {
        texts.retain(|it| it.len() >= NEEDLE_BYTES_MIN);
        texts.sort();
        texts.dedup();
        Needles { groups: texts.chunk_by(|one, two| one[0] == two[0]).map(<[_]>::to_vec).collect() }
    }

    /// Returns whether there is nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Returns every occurrence, overlapping ones too, and where the first one begins that may
    /// run off the end.
    pub fn find(&self, bytes: &[u8]) -> (Vec<Range<usize>>, usize) {
        let (mut found, mut hold) = (Vec::new(), bytes.len());
        for group in &self.groups {
            let mut from = 0;
            while let Some(at) = place_of(bytes, group[0][0], from) {
                from = at + 1;
                let rest = &bytes[at..];
                let Some(second) = rest.get(1) else {
                    hold = hold.min(at);
                    break;
                };
                let first = group.partition_point(|it| it[1] < *second);
                for it in group[first..].iter().take_while(|it| it[1] == *second) {
                    if rest.starts_with(it) {
                        found.push(at..at + it.len());
                    } else if it.starts_with(rest) {
                        hold = hold.min(at);
                    }
                }
            }
        }
        (found, hold)
    }
}

/// Returns the next position of a byte, at the speed of the standard library's search.
fn place_of(bytes: &[u8], byte: u8, from: usize) -> Option<usize> {
    let mut rest = &bytes[from..];
    // Reading from memory cannot fail.
    let passed = rest.skip_until(byte).unwrap_or(0);
    let last = from + passed.checked_sub(1)?;
    (bytes[last] == byte).then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g28_lines_of_a_secret_are_secrets_but_for_borders_and_short_ones() {
        let pem = "-----BEGIN PRIVATE KEY-----\n  MIIEvQIBADANBgkqhkiG\r\nshort=\n\
                   ====================\n-----END PRIVATE KEY-----";
        let one = "only-one-line-of-a-secret";
        assert_eq!(telling_lines(&[pem, one]), ["MIIEvQIBADANBgkqhkiG"]);
        assert!(secret_forms(&[pem]).contains(&"MIIEvQIBADANBgkqhkiG".to_owned()));
        let quoted = secret_forms(&["{\n\"key\": \"abcdefghij\"\n}"]);
        assert!(quoted.contains(&r#"\"key\": \"abcdefghij\""#.to_owned()), "{quoted:?}");
    }

    #[test]
    fn the_longest_lines_are_kept_of_too_many() {
        let line = |number: usize| format!("line-of-secret-{}", number + 10_000);
        let mut many: Vec<String> = (0..2_000).map(line).collect();
        many.push("the-longest-line-of-this-secret".into());
        let text = many.join("\n");
        let lines = telling_lines(&[&text]);
        assert_eq!(lines.len(), LINES_MAX);
        assert_eq!(lines[0], "the-longest-line-of-this-secret");
    }
}
