//! What a line shows to a reader that obeys terminal sequences or decodes HTML entities.

use std::ops::Range;

/// Longest name of an entity, in bytes: more than any has.
const NAME_BYTES_MAX: usize = 32;
/// Most sequences that are removed from a line.
pub(in crate::base) const SEQUENCES_MAX: usize = 8;
/// The named entities that show a character of ours. Every other one stands for a blank.
const NAMED: [(&str, char); 10] = [
    ("lbrack", '['),
    ("lsqb", '['),
    ("rbrack", ']'),
    ("rsqb", ']'),
    ("num", '#'),
    ("colon", ':'),
    ("lpar", '('),
    ("rpar", ')'),
    ("lt", '<'),
    ("gt", '>'),
];

/// Returns whether a character may begin an entity or a terminal sequence.
pub(in crate::base) fn is_active(character: char) -> bool {
    character == '&' || is_introducer(character)
}

/// Returns a line with its HTML entities decoded.
pub(in crate::base) fn decoded(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('&') {
        shown.push_str(before);
        let (character, length) = entity(after).unwrap_or(('&', 0));
        shown.push(character);
        rest = &after[length..];
    }
    shown.push_str(rest);
    shown
}

/// Returns the character of an entity, and the bytes that it takes after its `&`.
fn entity(text: &str) -> Option<(char, usize)> {
    if let Some(number) = text.strip_prefix('#') {
        let (digits, radix) = match number.strip_prefix(['x', 'X']) {
            Some(digits) => (digits, 16),
            None => (number, 10),
        };
        let length = digits.find(|it: char| !it.is_digit(radix)).unwrap_or(digits.len());
        let code = u32::from_str_radix(&digits[..length], radix).ok().and_then(char::from_u32);
        // Browsers decode it without its semicolon, too.
        let end = usize::from(digits[length..].starts_with(';'));
        let taken = text.len() - digits.len() + length + end;
        return (length > 0).then_some((code.unwrap_or(char::REPLACEMENT_CHARACTER), taken));
    }
    let name = text.bytes().take(NAME_BYTES_MAX).take_while(u8::is_ascii_alphanumeric).count();
    if name == 0 || !text[name..].starts_with(';') {
        return None;
    }
    let known = NAMED.iter().find(|it| it.0.eq_ignore_ascii_case(&text[..name]));
    Some((known.map_or(' ', |it| it.1), name + 1))
}

/// Returns a line without its first terminal sequences.
pub(in crate::base) fn without_sequences(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    let mut rest = line;
    for _ in 0..SEQUENCES_MAX {
        let Some(found) = first_sequence(rest) else { break };
        shown.push_str(&rest[..found.start]);
        rest = &rest[found.end..];
    }
    shown.push_str(rest);
    shown
}

/// Returns where the first terminal sequence is. One that never ends is its introducer only.
pub(in crate::base) fn first_sequence(line: &str) -> Option<Range<usize>> {
    let start = line.find(is_introducer)?;
    let mut rest = line[start..].chars();
    let kind = match rest.next()? {
        '\u{1b}' => rest.next(),
        // A control character beyond ASCII is short for ESC and a letter.
        other => char::from_u32(u32::from(other) - 0x40),
    };
    let rest = rest.as_str();
    let skipped = match kind {
        Some('[') => {
            let parameters = rest.trim_start_matches(|it: char| ('0'..='?').contains(&it));
            ending(parameters.trim_start_matches(is_intermediate))
        }
        // Titles and other strings, up to a bell or a string terminator.
        Some(']' | 'P' | 'X' | '^' | '_' | 'k') => {
            let end = rest.find(['\u{7}', '\u{9c}', '\u{1b}']).map(|it| &rest[it..]);
            end.map_or(rest, |it| {
                it.strip_prefix("\u{1b}\\")
                    .or_else(|| it.strip_prefix(['\u{7}', '\u{9c}']))
                    .unwrap_or(it)
            })
        }
        Some(it) if is_intermediate(it) => ending(rest.trim_start_matches(is_intermediate)),
        _ => rest,
    };
    Some(start..line.len() - skipped.len())
}

/// Returns what follows the last character of a sequence.
fn ending(rest: &str) -> &str {
    rest.strip_prefix(|it: char| ('0'..='~').contains(&it)).unwrap_or(rest)
}

fn is_introducer(character: char) -> bool {
    matches!(character, '\u{1b}' | '\u{90}' | '\u{98}' | '\u{9b}' | '\u{9d}'..='\u{9f}')
}

fn is_intermediate(character: char) -> bool {
    (' '..='/').contains(&character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_are_decoded() {
        for (line, shown) in [
            ("&#91;&#35;x&#93;", "[#x]"),
            ("&#x5B;&#X23x]", "[#x]"),
            ("&#0000000091;&lsqb;&RBRACK;", "[[]"),
            ("a&nbsp;b &lt;i&gt;", "a b <i>"),
            ("a & b &; &#; &#x; &a b; &", "a & b &; &#; &#x; &a b; &"),
            ("&#99999999999;", "\u{fffd}"),
        ] {
            assert_eq!(decoded(line), shown, "{line}");
        }
    }

    #[test]
    fn terminal_sequences_are_removed() {
        for (line, shown) in [
            ("\u{1b}[0mx\u{1b}[1;31my", "xy"),
            ("\u{9b}38;5;1mx", "x"),
            ("\u{1b}]0;a title\u{7}x", "x"),
            ("\u{1b}]8;;https://example.org\u{1b}\\x\u{9d}8;;\u{9c}", "x"),
            ("\u{1b}Pq\u{1b}\\x\u{1b}(By\u{1b}cz", "xyz"),
            ("\u{1b}]0;never ended", "0;never ended"),
            ("x\u{1b}", "x"),
            ("x\u{1b}[", "x"),
        ] {
            assert_eq!(without_sequences(line), shown, "{line:?}");
        }
    }
}
