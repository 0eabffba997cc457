//! Abbreviated ids.

use serde_json::Value;

use crate::base::{Error, Result};
use crate::client::{Client, query};

/// Shortest abbreviation.
const SHORT_CHARS_MIN: usize = 4;
/// Most pages of a list that are searched.
const PAGES_MAX: usize = 50;
/// Most candidates named if an abbreviation is ambiguous.
const CANDIDATES_SHOWN_MAX: usize = 6;

/// Things with ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Noun {
    /// A job.
    Job,
    /// A Topic.
    Topic,
    /// A proposal.
    Proposal,
    /// An approval.
    Approval,
    /// A message between addresses.
    Message,
    /// A conversation with the assistant.
    Chat,
}

impl Noun {
    fn word(self) -> &'static str {
        match self {
            Noun::Job => "job",
            Noun::Topic => "topic",
            Noun::Proposal => "proposal",
            Noun::Approval => "approval",
            Noun::Message => "message",
            Noun::Chat => "chat",
        }
    }

    /// The command that lists them.
    fn command(self) -> &'static str {
        if self == Noun::Message { "mail" } else { self.word() }
    }

    /// The name of the id in an item of the list.
    fn field(self) -> &'static str {
        if self == Noun::Chat { "session_id" } else { "id" }
    }

    fn route(self) -> &'static str {
        match self {
            Noun::Job => "/api/agent/jobs",
            Noun::Topic => "/api/topics",
            Noun::Proposal => "/api/proposals",
            Noun::Approval => "/api/approvals",
            Noun::Message => "/api/messages",
            Noun::Chat => "/api/agent/sessions",
        }
    }
}

/// Returns the part of an id shown in tables: its end, because ids of the same minute begin alike.
pub(in crate::cli) fn shorten(id: &str) -> &str {
    if id.len() == 36 && id.is_ascii() { &id[28..] } else { id }
}

/// Returns the full id: as given, or of the one thing whose id begins or ends like this.
///
/// # Errors
/// `invalid` if it is too short or fits several, `not_found` if it fits none.
pub(in crate::cli) fn resolve(client: &Client, noun: Noun, given: &str) -> Result<String> {
    let given = given.to_ascii_lowercase();
    check(noun, &given)?;
    if given.len() == 36 {
        return Ok(given);
    }
    let mut found = Vec::new();
    let mut after = None;
    for _ in 0..PAGES_MAX {
        let page = client
            .get(&query(noun.route(), &[("limit", Some("200")), ("after", after.as_deref())]))?;
        let ids = page["items"].as_array().into_iter().flatten();
        found.extend(
            ids.filter_map(|it| it[noun.field()].as_str())
                .filter(|id| fits(id, &given))
                .map(str::to_owned),
        );
        after = match &page["next"] {
            Value::Null => None,
            Value::String(next) => Some(next.clone()),
            next => Some(next.to_string()),
        };
        if after.is_none() {
            break;
        }
    }
    choose(noun, &given, found)
}

fn check(noun: Noun, given: &str) -> Result<()> {
    let plain = given.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    if plain && (SHORT_CHARS_MIN..=36).contains(&given.len()) {
        return Ok(());
    }
    let shown = crate::base::truncate_chars(given, 60);
    Err(Error::invalid(format!("`{shown}` is not a valid {} id", noun.word())).hint(format!(
        "give the full id, or at least its first or last {SHORT_CHARS_MIN} characters"
    )))
}

fn fits(id: &str, given: &str) -> bool {
    id.starts_with(given) || id.ends_with(given)
}

fn choose(noun: Noun, given: &str, mut found: Vec<String>) -> Result<String> {
    found.dedup();
    let command = noun.command();
    let noun = noun.word();
    match found.as_slice() {
        [] => Err(Error::not_found(format!("no {noun} matches the id `{given}`"))
            .hint(format!("list them: wiki-browser {command} list"))),
        [_] => Ok(found.swap_remove(0)),
        several => {
            let mut names = several[..several.len().min(CANDIDATES_SHOWN_MAX)].join(", ");
            if several.len() > CANDIDATES_SHOWN_MAX {
                names.push_str(", …");
            }
            let count = several.len();
            Err(Error::invalid(format!("`{given}` matches {count} {noun} ids"))
                .code("ambiguous_id")
                .hint(format!("one of: {names}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "018bcfe5-6800-7000-8000-0000000000aa";
    const B: &str = "018bcfe5-6800-7000-8000-0000000000bb";

    fn among(given: &str) -> Result<String> {
        check(Noun::Job, given)?;
        let fitting = [A, B].iter().filter(|id| fits(id, given)).map(|id| (*id).to_owned());
        choose(Noun::Job, given, fitting.collect())
    }

    #[test]
    fn a_beginning_or_an_end_names_one_thing() {
        assert_eq!(among("00aa").unwrap(), A);
        assert_eq!(among(&A[..35]).unwrap(), A);
        assert_eq!(among(&A[..34]).unwrap_err().code_str(), "ambiguous_id");
        assert_eq!(among(B).unwrap(), B);
        let error = among("018b").unwrap_err();
        assert!(error.hint_str().unwrap().contains(A) && error.hint_str().unwrap().contains(B));
        assert_eq!(among("ffff").unwrap_err().code_str(), "not_found");
    }

    #[test]
    fn an_abbreviation_is_short_hexadecimal_text() {
        let long = "a".repeat(40);
        for bad in ["", "0aa", "../x", "zzzz", "a b c", &long] {
            assert_eq!(among(bad).unwrap_err().code_str(), "invalid", "{bad}");
        }
        assert_eq!(shorten(A), "000000aa");
        assert_eq!(shorten("x"), "x");
    }
}
