//! JSON from careless programs: lone surrogates and non-finite numbers.

use serde_json::Value;

/// Parses JSON as Python and JavaScript print it: a lone surrogate (`"\ud83d"`, a truncated emoji)
/// becomes U+FFFD; `NaN`, `Infinity` and `-Infinity` become null. `None` if the text is still not
/// JSON.
pub fn read_loose_json(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok().or_else(|| serde_json::from_str(&mended(text)?).ok())
}

/// Returns the text with everything outside of RFC 8259 replaced; `None` if there is nothing to
/// replace.
fn mended(text: &str) -> Option<String> {
    let (mut out, mut rest, mut is_text, mut has_changed) = (String::new(), text, false, false);
    while let Some(first) = rest.chars().next() {
        let (piece, length) = match (is_text, first) {
            (true, '\\') => escape(rest),
            (false, 'N' | 'I' | '-') => number(rest),
            _ => (None, first.len_utf8()),
        };
        is_text ^= first == '"';
        has_changed |= piece.is_some();
        out.push_str(piece.unwrap_or(&rest[..length]));
        rest = &rest[length..];
    }
    has_changed.then_some(out)
}

/// Returns the replacement of an escape, if it needs one, and the bytes that it takes.
fn escape(rest: &str) -> (Option<&'static str>, usize) {
    let Some(unit) = unit(rest) else {
        return (None, 1 + rest[1..].chars().next().map_or(0, char::len_utf8));
    };
    match unit {
        0xD800..=0xDBFF if rest.get(6..).and_then(self::unit).is_some_and(is_low) => (None, 12),
        0xD800..=0xDFFF => (Some("\u{FFFD}"), 6),
        _ => (None, 6),
    }
}

fn is_low(unit: u32) -> bool {
    (0xDC00..=0xDFFF).contains(&unit)
}

/// Parses `\u` and four digits at the start as a UTF-16 code unit.
fn unit(rest: &str) -> Option<u32> {
    let digits = rest.strip_prefix("\\u")?.get(..4)?;
    let is_hex = digits.bytes().all(|it| it.is_ascii_hexdigit());
    is_hex.then(|| u32::from_str_radix(digits, 16).ok())?
}

fn number(rest: &str) -> (Option<&'static str>, usize) {
    let found = ["NaN", "Infinity", "-Infinity"].into_iter().find(|it| rest.starts_with(it));
    found.map_or((None, 1), |it| (Some("null"), it.len()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_careless_programs_print_is_read() {
        for (text, value) in [
            (r#"{"a": "cut \ud83d"}"#, json!({"a": "cut \u{FFFD}"})),
            (r#"{"a": "\udc00\ud83d\ude00 \ud83d\\ud"}"#, json!({"a": "\u{FFFD}😀 \u{FFFD}\\ud"})),
            (
                r#"{"cost": Infinity, "b": [-Infinity, NaN, -1]}"#,
                json!({"cost": null, "b": [null, null, -1]}),
            ),
            (r#"["NaN \\\ud800", "\"Infinity"]"#, json!(["NaN \\\u{FFFD}", "\"Infinity"])),
            ("[\"\\ud800ä\\u00e4\"]", json!(["\u{FFFD}ää"])),
        ] {
            assert_eq!(read_loose_json(text), Some(value), "{text}");
        }
    }

    #[test]
    fn what_is_no_json_stays_none() {
        for text in
            ["", "{", "\"\\", "\"\\u12", "\"\\ud83d", "Infinit", "plain", "{\"a\": nan}", "\"\\ü\""]
        {
            assert_eq!(read_loose_json(text), None, "{text}");
        }
    }
}
