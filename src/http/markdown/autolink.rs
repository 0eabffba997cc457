//! Bare addresses in a text.

use std::ops::Range;

/// Returns the addresses in a piece of text, in order.
pub(super) fn addresses(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find("http").map(|it| from + it) {
        let rest = &text[at..];
        let scheme = ["https://", "http://"].into_iter().find(|it| rest.starts_with(it));
        let is_apart =
            text[..at].chars().next_back().is_none_or(|it| !it.is_alphanumeric() && it != '_');
        from = at + 4;
        let Some(scheme) = scheme.filter(|_| is_apart) else { continue };
        let end = at + end_of(rest);
        if end > at + scheme.len() && rest.as_bytes()[scheme.len()].is_ascii_alphanumeric() {
            found.push(at..end);
        }
        from = from.max(end);
    }
    found
}

/// Returns where an address ends: before white space or `<`, without trailing punctuation, and
/// without a closing bracket whose opening one precedes the address.
fn end_of(text: &str) -> usize {
    let is_end = |it: char| it.is_whitespace() || it.is_control() || matches!(it, '<' | '>' | '"');
    let mut end = text.find(is_end).unwrap_or(text.len());
    let count = |it: char| text[..end].bytes().filter(|byte| *byte == it as u8).count();
    let (opened, mut closed) = (count('('), count(')'));
    while let Some(last) = text[..end].chars().next_back() {
        match last {
            ')' if closed > opened => closed -= 1,
            '?' | '!' | '.' | ',' | ':' | ';' | '*' | '_' | '~' | '\'' | '’' | '”' | '»' => {}
            _ => break,
        }
        end -= last.len_utf8();
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_ends_where_the_sentence_goes_on() {
        let found = |text: &'static str| -> Vec<&'static str> {
            addresses(text).into_iter().map(|it| &text[it]).collect()
        };
        assert_eq!(found("see https://a.org/x_y?q=1&b#c, or"), ["https://a.org/x_y?q=1&b#c"]);
        assert_eq!(
            found("(http://a.org/b_(c)) http://d.org."),
            ["http://a.org/b_(c)", "http://d.org"]
        );
        assert_eq!(
            found("https://a.org:8080/ü“ »https://b.org«"),
            ["https://a.org:8080/ü“", "https://b.org«"]
        );
        for none in ["xhttp://a.org", "https://", "http:// a", "https://(x", "httphttp", "HTTP"] {
            assert!(found(none).is_empty(), "{none}");
        }
        let hostile = "http://a(".repeat(20_000);
        assert_eq!(addresses(&hostile).len(), 1);
    }
}
