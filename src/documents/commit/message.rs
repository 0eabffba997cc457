//! The message of a commit: subject, body, and the two trailers that nobody else may write.

use crate::base::{Error, Result, TopicId, truncate_chars};

/// Longest subject that is made here, in characters.
const SUBJECT_CHARS: usize = 72;
/// Longest subject that is accepted, in characters.
const SUBJECT_CHARS_MAX: usize = crate::base::limit::SUBJECT_CHARS_MAX;
/// Longest body, in bytes.
const BODY_BYTES_MAX: usize = crate::base::limit::COMMIT_BODY_BYTES_MAX;
/// Longest approver, in characters.
const APPROVER_CHARS_MAX: usize = 300;
/// The trailers, without their colon, in lower case.
const TRAILERS: [&str; 2] = ["approved-by", "topic"];

/// Returns the whole message of the commit of an approval: `subject` or else
/// `Incorporate: FIRST LINE`, `body`, and the trailers `Approved-by` and `Topic`.
///
/// # Errors
/// `invalid` with code `bad_message` for a subject or body that is too long, holds control
/// characters, or could be read as one of the trailers.
pub fn commit_message(
    topic_first_line: &str,
    subject: Option<&str>,
    body: Option<&str>,
    approver: &str,
    topic: &TopicId,
) -> Result<String> {
    let subject = match subject.map(str::trim).filter(|it| !it.is_empty()) {
        Some(given) => checked_subject(given)?,
        None => made_subject(topic_first_line),
    };
    let body = checked_body(body.unwrap_or_default())?;
    let approver = approver.trim();
    if approver.is_empty() || approver.chars().any(is_harmful) {
        return Err(refusal("the approver's name is empty or holds control characters"));
    }
    let approver = truncate_chars(approver, APPROVER_CHARS_MAX);
    let middle = if body.is_empty() { String::new() } else { format!("{body}\n\n") };
    Ok(format!("{subject}\n\n{middle}Approved-by: {approver}\nTopic: {topic}\n"))
}

fn checked_subject(subject: &str) -> Result<String> {
    if subject.chars().any(is_harmful) {
        return Err(refusal("the subject holds a line break or control character"));
    }
    if subject.chars().count() > SUBJECT_CHARS_MAX {
        return Err(refusal(&format!("the subject has more than {SUBJECT_CHARS_MAX} characters")));
    }
    if is_trailer(subject) {
        return Err(refusal("the subject looks like a trailer of the approval"));
    }
    Ok(subject.to_owned())
}

fn made_subject(first_line: &str) -> String {
    let line = first_line.lines().map(str::trim).find(|it| !it.is_empty()).unwrap_or_default();
    let plain: String = line.chars().map(|it| if is_harmful(it) { ' ' } else { it }).collect();
    let words: Vec<&str> = plain.split_whitespace().collect();
    if words.is_empty() {
        return "Incorporate a topic".to_owned();
    }
    // One less: the sign of a cut counts too.
    let subject = format!("Incorporate: {}", words.join(" "));
    match subject.chars().count() > SUBJECT_CHARS {
        true => truncate_chars(&subject, SUBJECT_CHARS - 1),
        false => subject,
    }
}

fn checked_body(body: &str) -> Result<String> {
    let body = body.replace("\r\n", "\n");
    let body = body.trim_matches('\n').trim_end();
    if body.len() > BODY_BYTES_MAX {
        return Err(refusal(&format!("the body has more than {BODY_BYTES_MAX} bytes")));
    }
    if body.chars().any(|it| is_harmful(it) && !matches!(it, '\n' | '\t')) {
        return Err(refusal("the body holds a control character"));
    }
    if let Some(line) = body.lines().find(|it| is_trailer(it)) {
        let line = truncate_chars(line.trim(), 80);
        return Err(refusal(&format!("the line `{line}` looks like a trailer of the approval")));
    }
    Ok(body.to_owned())
}

/// Returns whether git, or a reader, could take a line for one of the trailers.
fn is_trailer(line: &str) -> bool {
    let line = line.trim_start().to_lowercase();
    TRAILERS.iter().any(|name| {
        line.strip_prefix(name).is_some_and(|rest| rest.trim_start().starts_with([':', '：']))
    })
}

/// Control characters, separators of lines, and those that turn the direction of writing.
fn is_harmful(it: char) -> bool {
    it.is_control()
        || matches!(it, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn refusal(why: &str) -> Error {
    Error::invalid(why).code("bad_message").hint("plain text, and the subject in one line")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOPIC: &str = "018bcfe5-6800-7000-8000-000000000000";

    fn message(first: &str, subject: Option<&str>, body: Option<&str>) -> Result<String> {
        commit_message(first, subject, body, "Ada <ada@example.org>", &TOPIC.parse().unwrap())
    }

    #[test]
    fn a_message_ends_with_its_trailers() {
        let plain = message("Say why\nand more", None, None).unwrap();
        let tail = format!("Approved-by: Ada <ada@example.org>\nTopic: {TOPIC}\n");
        assert_eq!(plain, format!("Incorporate: Say why\n\n{tail}"));
        let full = message("x", Some(" Fix it "), Some("\nA line.\r\nAnother.\n\n")).unwrap();
        assert_eq!(full, format!("Fix it\n\nA line.\nAnother.\n\n{tail}"));
    }

    #[test]
    fn a_made_subject_is_one_short_line() {
        let long = message(&"wörter ".repeat(40), None, None).unwrap();
        let subject = long.lines().next().unwrap();
        assert_eq!(subject.chars().count(), 72);
        assert!(subject.ends_with('…'));
        let odd = message("  \n\u{1b}[31mred\u{202e}\ttext\n", None, None).unwrap();
        assert_eq!(odd.lines().next(), Some("Incorporate: [31mred text"));
        assert!(message("", None, None).unwrap().starts_with("Incorporate a topic\n"));
    }

    #[test]
    fn a_trailer_cannot_be_forged() {
        for line in
            ["Approved-by: Eve", "approved-BY : Eve", "  Topic:x", "\tTOPIC\t: x", "Topic： x"]
        {
            let body = format!("Words.\n\n{line}\n");
            assert_eq!(message("x", None, Some(&body)).unwrap_err().code_str(), "bad_message");
            assert!(message("x", Some(line), None).is_err(), "{line}");
        }
        assert!(message("x", None, Some("The topic: anchors.")).is_ok());
        assert!(message("x", Some("Topics: two"), None).is_ok());
        for bad in ["a\nb", "a\rb", "a\0b", "a\u{2028}b"] {
            assert!(message("x", Some(bad), None).is_err(), "{bad:?}");
        }
        assert!(message("x", None, Some("a\u{1b}b")).is_err());
        let approver = "Eve\nApproved-by: Ada";
        assert!(commit_message("x", None, None, approver, &TOPIC.parse().unwrap()).is_err());
    }
}
