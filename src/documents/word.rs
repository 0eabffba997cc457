//! Enums with the same names in Rust, SQL and JSON, and rules for text written by people.

use crate::base::{Error, ErrorKind, Result};

/// Refuses text of a person or agent that is empty, too long, or contains control characters other
/// than line feed and tab. `what` names it in the error.
pub(in crate::documents) fn check_text(what: &str, text: &str, bytes_max: usize) -> Result<()> {
    if text.len() > bytes_max {
        let message = format!("the {what} has {} bytes, {bytes_max} are allowed", text.len());
        return Err(Error::new(ErrorKind::TooLarge, message).hint("make it shorter"));
    }
    if text.trim().is_empty() {
        return Err(Error::invalid(format!("the {what} is empty")).hint("write some text"));
    }
    match text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
        None => Ok(()),
        Some(c) => {
            let shown = u32::from(c);
            Err(Error::invalid(format!("the {what} has the control character U+{shown:04X}"))
                .hint("only line feeds and tabs are allowed"))
        }
    }
}

/// Refuses text that is not a single line of printable characters.
pub(in crate::documents) fn check_line(what: &str, text: &str, bytes_max: usize) -> Result<()> {
    check_text(what, text, bytes_max)?;
    if text.contains(['\n', '\t']) {
        let message = format!("the {what} is not a single line");
        return Err(Error::invalid(message).hint("leave the line breaks out"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_is_refused_and_plain_text_is_not() {
        for good in ["a", "a\nb\tc", "日本語", "e\u{301}", "👩‍👩‍👧"] {
            assert!(check_text("message", good, 100).is_ok(), "{good:?}");
        }
        for bad in ["", " \n\t", "a\0b", "a\rb", "\u{1b}[31m", "a\u{85}b"] {
            assert!(check_text("message", bad, 100).is_err(), "{bad:?}");
        }
        assert_eq!(check_text("message", "abc", 2).unwrap_err().kind(), ErrorKind::TooLarge);
        assert!(check_line("title", "a\nb", 100).is_err());
    }
}
