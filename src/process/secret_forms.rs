//! The forms in which engines print a secret, and how they are found in a text.
//!
//! An engine prints a secret unchanged, as JSON text, or line by line with numbers, indents or
//! borders. So each sufficiently distinctive line of a secret is a form of its own.

use std::collections::BTreeSet;
use std::io::BufRead as _;
use std::ops::Range;

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

/// What a writer of JSON escapes beside quotation marks, backslashes and control characters.
struct Writer {
    /// These, by their numbers.
    numbered: &'static str,
    /// Whether a slash gets a backslash.
    is_slash_escaped: bool,
    /// Whether characters beyond ASCII are written by their numbers.
    is_ascii: bool,
    /// Whether numbers have capital letters.
    is_upper: bool,
}

const PLAIN: Writer =
    Writer { numbered: "", is_slash_escaped: false, is_ascii: false, is_upper: false };
/// The writers of common languages.
const WRITERS: [Writer; 8] = [
    // JavaScript, Rust.
    PLAIN,
    // Python.
    Writer { is_ascii: true, ..PLAIN },
    // Java (Jackson, where it writes ASCII).
    Writer { is_ascii: true, is_upper: true, ..PLAIN },
    // PHP, and with `JSON_UNESCAPED_UNICODE`.
    Writer { is_slash_escaped: true, is_ascii: true, ..PLAIN },
    Writer { is_slash_escaped: true, ..PLAIN },
    // Go, Rails.
    Writer { numbered: "<>&\u{2028}\u{2029}", ..PLAIN },
    // Java (Gson).
    Writer { numbered: "<>&='\u{2028}\u{2029}", ..PLAIN },
    // .NET.
    Writer { numbered: "\"<>&'+`", is_ascii: true, is_upper: true, ..PLAIN },
];

/// Returns a value as itself, and as engines print it: inside a JSON text, and inside one that is
/// a text of another (the output of a program in a record of a call).
fn forms(value: &str) -> BTreeSet<String> {
    let mut forms = BTreeSet::from([value.to_owned()]);
    for _ in 0..JSON_DEPTH_MAX {
        let within = |it: &String| WRITERS.map(|writer| in_json(it, &writer));
        let deeper: Vec<String> = forms.iter().flat_map(within).collect();
        forms.extend(deeper);
    }
    forms
}

/// Returns a text as it stands in a JSON string.
fn in_json(text: &str, writer: &Writer) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        let is_beyond = writer.is_ascii && !character.is_ascii();
        match character {
            it if is_beyond || writer.numbered.contains(it) => {
                push_number(&mut escaped, it, writer.is_upper);
            }
            '"' => escaped.push_str("\\\""),
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            '\u{8}' => escaped.push_str("\\b"),
            '\u{c}' => escaped.push_str("\\f"),
            '/' if writer.is_slash_escaped => escaped.push_str("\\/"),
            it if it < ' ' => push_number(&mut escaped, it, writer.is_upper),
            it => escaped.push(it),
        }
    }
    escaped
}

fn push_number(escaped: &mut String, character: char, is_upper: bool) {
    for unit in character.encode_utf16(&mut [0; 2]) {
        match is_upper {
            true => escaped.push_str(&format!("\\u{unit:04X}")),
            false => escaped.push_str(&format!("\\u{unit:04x}")),
        }
    }
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
    fn g28_a_secret_is_looked_for_as_common_writers_of_json_print_it() {
        let forms = secret_forms(&["db://b:s&<p>='+@x/~\"\u{1f}".replace('~', "\u{e9}").as_str()]);
        for printed in [
            r#"db://b:s&<p>='+@x/~\"\u001f"#,
            r#"db://b:s&<p>='+@x/\u00e9\"\u001f"#,
            r#"db://b:s&<p>='+@x/\u00E9\"\u001F"#,
            r#"db:\/\/b:s&<p>='+@x\/\u00e9\"\u001f"#,
            r#"db:\/\/b:s&<p>='+@x\/~\"\u001f"#,
            r#"db://b:s\u0026\u003cp\u003e='+@x/~\"\u001f"#,
            r#"db://b:s\u0026\u003cp\u003e\u003d\u0027+@x/~\"\u001f"#,
            r#"db://b:s\u0026\u003Cp\u003E=\u0027\u002B@x/\u00E9\u0022\u001F"#,
        ] {
            let printed = printed.replace('~', "\u{e9}");
            assert!(forms.contains(&printed), "{printed}");
            let within = printed.replace('\\', "\\\\").replace('"', "\\\"");
            assert!(forms.contains(&within), "{within}");
        }
        assert_eq!(secret_forms(&["a-plain-secret"]), ["a-plain-secret"]);
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
