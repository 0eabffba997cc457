//! Converts names from git and the disk, which are bytes, to text that can be shown and typed.
//!
//! UTF-8 is unchanged. An invalid byte is written `\xNN`, and a backslash that would look like the
//! start of such an escape is `\x5c`, so that names and texts correspond one to one.

use std::borrow::Cow;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

/// Returns a name as text.
pub(in crate::documents) fn shown(name: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(name) {
        Ok(text) if !text.contains("\\x") => Cow::Borrowed(text),
        _ => Cow::Owned(escaped(name)),
    }
}

/// Returns the name of a text from [`shown`].
pub(in crate::documents) fn bytes(text: &str) -> Cow<'_, [u8]> {
    match text.contains("\\x") {
        false => Cow::Borrowed(text.as_bytes()),
        true => Cow::Owned(unescaped(text.as_bytes())),
    }
}

/// Returns the path of a text from [`shown`].
pub(in crate::documents) fn path(text: &str) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes(text).into_owned()))
}

fn escaped(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len() + 8);
    for part in name.utf8_chunks() {
        let valid = part.valid();
        for (at, letter) in valid.char_indices() {
            match code(&valid.as_bytes()[at..]) {
                Some(_) => text.push_str("\\x5c"),
                None => text.push(letter),
            }
        }
        for byte in part.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, more)) = rest.split_first() {
        match code(rest) {
            Some(byte) => {
                name.push(byte);
                rest = &rest[4..];
            }
            None => {
                name.push(*first);
                rest = more;
            }
        }
    }
    name
}

/// Returns the escaped byte at the start of a text, if any.
fn code(text: &[u8]) -> Option<u8> {
    let [b'\\', b'x', high, low, ..] = text else { return None };
    let digit = |it: &u8| match it {
        b'0'..=b'9' => Some(it - b'0'),
        b'a'..=b'f' => Some(it - b'a' + 10),
        _ => None,
    };
    Some(digit(high)? * 16 + digit(low)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_one_text_and_every_text_one_name() {
        for (name, text) in [
            (b"plain.md".as_slice(), "plain.md"),
            ("ein Ärger/ü.md".as_bytes(), "ein Ärger/ü.md"),
            (b"un\xff.md", "un\\xff.md"),
            (b"un\\xff.md", "un\\x5cxff.md"),
            (b"\\\xff\xfe", "\\\\xff\\xfe"),
            (b"\\x\xff", "\\x\\xff"),
            (b"\\x4\xff", "\\x4\\xff"),
            (b"a\\xFF", "a\\xFF"),
        ] {
            assert_eq!(shown(name), text);
            assert_eq!(*bytes(text), *name, "{text}");
        }
    }
}
