//! A conversation as text, for a runtime that has not seen it.

use crate::chat::{Message, Role};

/// Longest transcript, in bytes.
const TRANSCRIPT_BYTES_MAX: usize = 200 * 1024;

/// Returns a question after its transcript, oldest first, with as many of the newest messages as
/// fit.
pub fn transcript(before: &[Message], question: &str) -> String {
    let mut left = TRANSCRIPT_BYTES_MAX;
    let mut said = Vec::new();
    for message in before.iter().rev() {
        let who = match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        let text = format!("<{who}>\n{}\n</{who}>\n", message.told());
        let Some(rest) = left.checked_sub(text.len()) else { break };
        left = rest;
        said.push(text);
    }
    if said.is_empty() {
        return question.to_owned();
    }
    let is_cut = said.len() < before.len();
    let head = if is_cut { "The end of the conversation" } else { "The conversation" };
    said.reverse();
    format!(
        "{head} so far, for you to know; answer only the new message below it.\n\
         <conversation>\n{}</conversation>\n\n{question}",
        said.concat()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Millis;
    use crate::chat::State;

    fn message(role: Role, body: String) -> Message {
        Message {
            seq: 1,
            id: "018bcfe5-6800-7000-8000-000000000001".parse().unwrap(),
            parent_id: None,
            role,
            run_id: None,
            state: State::Whole,
            body,
            native: None,
            provider: None,
            model: None,
            attachments: Vec::new(),
            created_at: Millis(0),
        }
    }

    #[test]
    fn the_newest_that_fits_is_told() {
        assert_eq!(transcript(&[], "Why?"), "Why?");
        let long = "x".repeat(TRANSCRIPT_BYTES_MAX - 100);
        let said = [
            message(Role::User, "first ".repeat(50)),
            message(Role::Assistant, long.clone()),
            message(Role::User, "last".to_owned()),
        ];
        let text = transcript(&said, "Why?");
        assert!(text.starts_with("The end of the conversation so far"), "{}", &text[..80]);
        assert!(text.contains("<user>\nlast\n</user>\n") && text.contains(&long));
        assert!(!text.contains("first") && text.ends_with("\n\nWhy?"));
    }
}
