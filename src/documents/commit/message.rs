//! Commit messages: subject, body, and trailers that only this program may write.

use crate::base::{Error, Result, TopicId, truncate_chars};

/// Longest generated subject, in characters.
const SUBJECT_CHARS: usize = 72;
/// Longest subject that is accepted, in characters.
const SUBJECT_CHARS_MAX: usize = crate::base::limit::SUBJECT_CHARS_MAX;
/// Longest body, in bytes.
const BODY_BYTES_MAX: usize = crate::base::limit::COMMIT_BODY_BYTES_MAX;
/// Longest approver, in characters.
const APPROVER_CHARS_MAX: usize = 300;
/// Names of the trailers, in lower case.
const TRAILERS: [&str; 4] = ["approved-by", "topic", "co-authored-by", "suggested-by"];
/// Most people named as authors besides the agent.
const EDITORS_MAX: usize = 20;

/// The trailers of an approval.
#[derive(Clone, Debug)]
pub struct Trailers<'a> {
    /// People who edited the text: `Name <email>`, or a name.
    pub editors: &'a [String],
    /// The people whose own words it is.
    pub suggesters: &'a [String],
    /// Who approves it.
    pub approver: &'a str,
    /// The Topics that it resolves, the proposal's own first.
    pub topics: &'a [TopicId],
}

/// Returns the commit message of an approval: `subject`, or else the generated one, cut to a line,
/// then `body` and the trailers `Suggested-by`, `Co-authored-by`, `Approved-by` and `Topic`. The
/// proposal's own Topic comes last, because readers of a single trailer read the last one.
///
/// # Errors
/// `invalid` with code `bad_message` if subject or body is too long, contains control characters,
/// or could be read as one of the trailers.
pub fn commit_message(
    made: &str,
    subject: Option<&str>,
    body: Option<&str>,
    trailers: &Trailers<'_>,
) -> Result<String> {
    let subject = match subject.map(str::trim).filter(|it| !it.is_empty()) {
        Some(given) => checked_subject(given)?,
        None => made_subject(made),
    };
    let body = checked_body(body.unwrap_or_default())?;
    let mut text = if body.is_empty() { String::new() } else { format!("{body}\n\n") };
    for suggester in trailers.suggesters.iter().take(EDITORS_MAX) {
        text.push_str(&format!("Suggested-by: {}\n", checked_person(suggester)?));
    }
    for editor in trailers.editors.iter().take(EDITORS_MAX) {
        text.push_str(&format!("Co-authored-by: {}\n", checked_person(editor)?));
    }
    text.push_str(&format!("Approved-by: {}\n", checked_person(trailers.approver)?));
    for topic in trailers.topics.iter().rev() {
        text.push_str(&format!("Topic: {topic}\n"));
    }
    Ok(format!("{subject}\n\n{text}"))
}

fn checked_person(person: &str) -> Result<String> {
    let person = person.trim();
    if person.is_empty() || person.chars().any(is_harmful) {
        return Err(refusal("the approver's name is empty or holds control characters"));
    }
    Ok(truncate_chars(person, APPROVER_CHARS_MAX))
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

/// Returns the default subject of a commit: one short line.
pub fn made_subject(first_line: &str) -> String {
    let line = first_line.lines().map(str::trim).find(|it| !it.is_empty()).unwrap_or_default();
    let plain: String = line.chars().map(|it| if is_harmful(it) { ' ' } else { it }).collect();
    let words: Vec<&str> = plain.split_whitespace().collect();
    let subject = words.join(" ");
    if subject.is_empty() || is_trailer(&subject) {
        return "Update a document".to_owned();
    }
    // One less, for the ellipsis.
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

/// Returns whether git or a reader could take a line for one of the trailers.
fn is_trailer(line: &str) -> bool {
    let line = line.trim_start().to_lowercase();
    TRAILERS.iter().any(|name| {
        line.strip_prefix(name).is_some_and(|rest| rest.trim_start().starts_with([':', '：']))
    })
}

/// Returns whether a character is a control character, line separator or bidirectional override.
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
        let (approver, topics) = ("Ada <ada@example.org>", [TOPIC.parse().unwrap()]);
        commit_message(
            first,
            subject,
            body,
            &Trailers { editors: &[], suggesters: &[], approver, topics: &topics },
        )
    }

    #[test]
    fn a_message_ends_with_its_trailers() {
        let plain = message("Say why\nand more", None, None).unwrap();
        let tail = format!("Approved-by: Ada <ada@example.org>\nTopic: {TOPIC}\n");
        assert_eq!(plain, format!("Say why\n\n{tail}"));
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
        assert_eq!(odd.lines().next(), Some("[31mred text"));
        for none in ["", " \n", "Approved-by: Eve", "topic : x"] {
            assert!(
                message(none, None, None).unwrap().starts_with("Update a document\n"),
                "{none}"
            );
        }
    }

    #[test]
    fn a_trailer_cannot_be_forged() {
        for line in [
            "Approved-by: Eve",
            "approved-BY : Eve",
            "Co-Authored-By: Eve",
            "Suggested-by: Eve",
            "  Topic:x",
            "\tTOPIC\t: x",
            "Topic： x",
        ] {
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
        let topics = [TOPIC.parse().unwrap()];
        let bad = "Eve\nApproved-by: Ada".to_owned();
        let trailers = Trailers { editors: &[], suggesters: &[], approver: &bad, topics: &topics };
        assert!(commit_message("x", None, None, &trailers).is_err());
        let editors = [bad];
        let trailers =
            Trailers { editors: &editors, suggesters: &[], approver: "Ada", topics: &topics };
        assert!(commit_message("x", None, None, &trailers).is_err());
    }

    #[test]
    fn editors_and_further_topics_have_trailers_and_the_own_topic_is_the_last() {
        let other = "018bcfe5-6800-7000-8000-000000000001";
        let topics = [TOPIC.parse().unwrap(), other.parse().unwrap()];
        let editors = ["Bo".to_owned(), "Cy <cy@example.org>".to_owned()];
        let (suggesters, topics) = (&["Di <di@example.org>".to_owned()], &topics);
        let trailers = Trailers { editors: &editors, suggesters, approver: "Ada", topics };
        let made = commit_message("x", Some("S"), None, &trailers).unwrap();
        let want = format!(
            "S\n\nSuggested-by: Di <di@example.org>\nCo-authored-by: Bo\n\
             Co-authored-by: Cy <cy@example.org>\nApproved-by: Ada\n\
             Topic: {other}\nTopic: {TOPIC}\n"
        );
        assert_eq!(made, want);
    }
}
