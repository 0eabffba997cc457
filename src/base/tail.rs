//! Truncates text without splitting a character.

/// Returns at most the last `bytes_max` bytes of some output as text. It starts at a character
/// boundary, and invalid UTF-8 becomes U+FFFD.
pub fn tail_of(bytes: &[u8], bytes_max: usize) -> String {
    let mut start = bytes.len().saturating_sub(bytes_max);
    // Continuation bytes at the cut belong to a character that was cut off; there are at most
    // three.
    let limit = (start + 3).min(bytes.len());
    if start > 0 {
        while start < limit && bytes[start] & 0b1100_0000 == 0b1000_0000 {
            start += 1;
        }
    }
    let mut text = String::from_utf8_lossy(&bytes[start..]).into_owned();
    while text.len() > bytes_max {
        // Replacement characters may be longer than what they replace.
        text.remove(0);
    }
    text
}

/// Returns the first `chars_max` characters, followed by `…` if the text was truncated.
pub fn truncate_chars(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_starts_at_a_character() {
        assert_eq!(tail_of("aéb".as_bytes(), 2), "b");
        assert_eq!(tail_of("aéb".as_bytes(), 3), "éb");
        assert_eq!(tail_of("ab".as_bytes(), 10), "ab");
        assert_eq!(tail_of(b"", 10), "");
    }

    #[test]
    fn a_tail_never_exceeds_its_limit() {
        for limit in 0..40 {
            assert!(tail_of(&[0xff; 30], limit).len() <= limit);
            assert!(tail_of("日本語の文書".as_bytes(), limit).len() <= limit);
        }
    }

    #[test]
    fn truncation_shows_that_it_happened() {
        assert_eq!(truncate_chars("日本語", 2), "日本…");
        assert_eq!(truncate_chars("日本", 2), "日本");
    }
}
