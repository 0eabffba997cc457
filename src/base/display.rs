//! What a line shows to a reader that obeys terminal sequences or decodes HTML entities.

use pulldown_cmark::{Event, Parser};

/// Longest name of an entity, in bytes: more than any has.
const NAME_BYTES_MAX: usize = 32;
/// The names that browsers decode without a semicolon and that are no letters, the longer ones
/// first (the HTML standard, *Named character references*).
const BARE: [&str; 38] = [
    "brvbar", "curren", "divide", "frac12", "frac14", "frac34", "iquest", "middot", "plusmn",
    "acute", "cedil", "iexcl", "laquo", "micro", "pound", "raquo", "times", "cent", "copy", "macr",
    "nbsp", "ordf", "ordm", "para", "quot", "sect", "sup1", "sup2", "sup3", "amp", "deg", "not",
    "reg", "shy", "uml", "yen", "gt", "lt",
];

/// Returns a line with its HTML entities decoded; `other` stands for those that are not known here.
pub(in crate::base) fn decoded(line: &str, other: char) -> String {
    let mut shown = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('&') {
        shown.push_str(before);
        let (character, length) = entity(after, other).unwrap_or(('&', 0));
        shown.push(character);
        rest = &after[length..];
    }
    shown.push_str(rest);
    shown
}

/// Returns the character of an entity, and the bytes that it takes after its `&`.
fn entity(text: &str, other: char) -> Option<(char, usize)> {
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
    let named = &text[..name];
    let find = |it: &str| named_character(it).or_else(|| named_character(&it.to_ascii_lowercase()));
    if name > 0 && text[name..].starts_with(';') {
        return Some((find(named).unwrap_or(other), name + 1));
    }
    let begins =
        |it: &&&str| named.get(..it.len()).is_some_and(|named| named.eq_ignore_ascii_case(it));
    let bare = BARE.iter().find(begins)?;
    Some((find(bare).unwrap_or(other), bare.len()))
}

/// Returns the first character that a name of HTML stands for.
fn named_character(name: &str) -> Option<char> {
    let text = format!("&{name};");
    let shown = Parser::new(&text).find_map(|it| match it {
        Event::Text(shown) => Some(shown),
        _ => None,
    })?;
    // A name that there is not stays as it is.
    shown.chars().next().filter(|it| *it != '&' || name == "amp")
}

/// Returns a line without the terminal sequences that set colors.
pub(in crate::base) fn without_colors(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(start) = rest.find(['\u{1b}', '\u{9b}']) {
        shown.push_str(&rest[..start]);
        let sequence = &rest[start..];
        let parameters = sequence.strip_prefix("\u{1b}[").or(sequence.strip_prefix('\u{9b}'));
        let is_parameter = |it: char| it.is_ascii_digit() || matches!(it, ';' | ':');
        let end = parameters.and_then(|it| it.trim_start_matches(is_parameter).strip_prefix('m'));
        rest = end.unwrap_or_else(|| {
            let length = sequence.chars().next().map_or(0, char::len_utf8);
            shown.push_str(&sequence[..length]);
            &sequence[length..]
        });
    }
    shown.push_str(rest);
    shown
}

/// Returns whether a line without colors has a character that a terminal obeys: it may put what
/// follows over what stands before.
pub(in crate::base) fn moves(line: &str) -> bool {
    line.chars().any(|it| it.is_control() && it != '\t')
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
            ("a&nbsp;b &lt;i&gt;&nosuch;", "a\u{a0}b <i> "),
            ("a&NewLine;&Lang;&lobrk;&LeftDoubleBracket;", "a\n⟪⟦⟦"),
            ("&laquo#x&RAQUO &amp;&ampx", "«#x» &&x"),
            ("a & b &; &#; &#x; &a b; &", "a & b &; &#; &#x; &a b; &"),
            ("&#99999999999;", "\u{fffd}"),
        ] {
            assert_eq!(decoded(line, ' '), shown, "{line}");
        }
    }

    #[test]
    fn colors_are_removed_and_nothing_else() {
        for (line, shown) in [
            ("\u{1b}[0mx\u{1b}[1;31my", "xy"),
            ("\u{9b}38;5;1mx\u{1b}[m", "x"),
            ("\u{1b}[2Kx\u{9b}G\u{1b}", "\u{1b}[2Kx\u{9b}G\u{1b}"),
        ] {
            assert_eq!(without_colors(line), shown, "{line:?}");
        }
        assert!(moves("a\u{8}") && moves("\u{9b}G") && !moves("a\tb"));
    }
}
