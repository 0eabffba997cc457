//! What people write about a channel: its name, its description and its goal.

use crate::base::{Error, Result};

/// Longest name, in characters.
const NAME_CHARS_MAX: usize = 128;
/// Longest description of a channel, in bytes.
const ABOUT_BYTES_MAX: usize = 4 * 1024;
/// Longest intent, in characters.
const INTENT_CHARS_MAX: usize = 1_000;

/// Refuses a name that is no line of text.
pub(super) fn check_name(name: &str) -> Result<()> {
    let is_line = !name.trim().is_empty() && !name.chars().any(char::is_control);
    if is_line && name.chars().count() <= NAME_CHARS_MAX {
        return Ok(());
    }
    let message = format!("a name is one line of 1 to {NAME_CHARS_MAX} characters");
    Err(Error::invalid(message).code("bad_name").of_input("name"))
}

/// Refuses a description or a goal that is too long.
pub(super) fn check_texts(about: Option<&str>, intent: Option<&str>) -> Result<()> {
    let is_bad = |text: &str| text.contains('\0');
    if about.is_some_and(|it| it.len() > ABOUT_BYTES_MAX || is_bad(it)) {
        let message = format!("`about` has at most {ABOUT_BYTES_MAX} bytes, and no zero byte");
        return Err(Error::invalid(message).code("bad_parameter").of_input("about"));
    }
    if intent.is_some_and(|it| it.chars().count() > INTENT_CHARS_MAX || is_bad(it)) {
        let message = format!("an intent has at most {INTENT_CHARS_MAX} characters");
        return Err(Error::invalid(message).code("bad_parameter").of_input("intent"));
    }
    Ok(())
}
